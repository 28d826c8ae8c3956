//! S11: what happened is remembered in order, as long as was asked and no longer.

use std::collections::BTreeMap;
use std::sync::Arc;

use hence_core::job::{AttemptEnd, Finish, Job, Outcome};
use hence_core::ledger::{Fate, SkipReason};
use hence_core::time::Millis;

use super::build::{
    at, attempt_record, finish, finished, finished_place, fresh, job, jobs, later, leased,
    main_queue, name, named, occurrence, put, put_all, queue, recorded, replaced, retried, revived,
    schedule, schedule_id,
};
use super::fixture::{Fixture, SHARD, all_states};
use super::table;
use crate::{Change, LedgerOrder, LedgerRequest, OccurrenceRecord};

table! { "history":
    S11 nothing a_job_without_attempts_has_none;
    S11 nothing attempts_come_in_order;
    S11 nothing attempts_stay_with_a_finished_job;
    S11 nothing attempts_stay_with_an_edited_or_revived_job;
    S11 nothing a_job_that_dies_twice_in_one_instant_keeps_each_attempt_once;
    S11 nothing a_later_batch_of_the_commit_finds_what_an_earlier_kept;
    S11 nothing attempts_of_other_jobs_are_left_out;
    S11 nothing every_end_of_an_attempt_comes_back;
    S11 nothing occurrences_come_newest_first;
    S11 nothing occurrences_before_an_instant;
    S11 nothing occurrences_of_other_schedules_are_left_out;
    S11 nothing every_fate_comes_back;
    S11 nothing occurrences_are_paged_in_both_directions;
    S11 nothing a_ledger_loses_what_is_forgotten_and_nothing_else;
    S11 nothing a_ledger_goes_with_its_schedule;
    S11 nothing what_was_recorded_in_the_same_commit_is_forgotten_too;
    S11 nothing a_finished_job_is_visible_until_its_time_is_up;
    S11 nothing a_sweep_leaves_what_is_not_up;
    S11 nothing a_sweep_leaves_live_jobs;
    S11 nothing a_sweep_reports_each_dead_job_once;
    S11 nothing small_sweeps_come_to_an_end;
}

async fn a_job_without_attempts_has_none(mut fixture: Fixture) {
    fixture.commit(vec![put(&job(1)), leased([&job(1)], 1)]).await;
    assert_eq!(fixture.attempts(&job(1)).await, []);
    assert_eq!(fixture.attempts(&job(99)).await, []);
}

async fn attempts_come_in_order(mut fixture: Fixture) {
    let job = job(1);
    fixture.commit(vec![put(&job)]).await;
    let mut from = at(1);
    for attempt in 1..=12 {
        let to = at(1_000 * i64::from(attempt));
        fixture.commit(vec![retried(&job, from, to, attempt)]).await;
        from = to;
    }
    let expected: Vec<_> =
        (1..=12).map(|attempt| attempt_record(attempt, AttemptEnd::Failed)).collect();
    assert_eq!(fixture.attempts(&job).await, expected);
}

async fn attempts_stay_with_a_finished_job(mut fixture: Fixture) {
    let first = job(1);
    fixture.commit(vec![put(&first), leased([&first], 1)]).await;
    fixture.commit(vec![retried(&first, at(1), at(1), 1)]).await;
    fixture.commit(vec![end_with(&first, AttemptEnd::Succeeded, 2)]).await;
    let ends: Vec<_> = fixture.attempts(&first).await.iter().map(|it| it.end).collect();
    assert_eq!(ends, [AttemptEnd::Failed, AttemptEnd::Succeeded]);
}

/// It goes on under its number, and so does its history.
async fn attempts_stay_with_an_edited_or_revived_job(mut fixture: Fixture) {
    let first = job(1);
    let second = Job { scheduled_for: at(70), ..first.clone() };
    fixture.commit(vec![put(&first)]).await;
    fixture.commit(vec![retried(&first, at(1), at(1), 1)]).await;
    fixture.commit(vec![replaced(&first, &second)]).await;
    assert_eq!(fixture.attempts(&first).await.len(), 1, "edited");
    let dead = finish(Outcome::Dead, at(80));
    fixture.commit(vec![finished(&second, dead.clone())]).await;
    fixture.commit(vec![revived(&second, &second, &dead)]).await;
    assert_eq!(fixture.attempts(&first).await.len(), 1, "revived");
    fixture.commit(vec![retried(&second, at(70), at(90), 2)]).await;
    let attempts: Vec<u32> = fixture.attempts(&first).await.iter().map(|it| it.attempt).collect();
    assert_eq!(attempts, [1, 2]);
}

/// The second time in the commit that revived it, to be revived by that once more.
async fn a_job_that_dies_twice_in_one_instant_keeps_each_attempt_once(mut fixture: Fixture) {
    let job = job(1);
    let dead = finish(Outcome::Dead, at(80));
    let dies = |attempt| {
        let mut change = finished(&job, dead.clone());
        if let Change::JobFinished { ended, .. } = &mut change {
            *ended = Some(Box::new(attempt_record(attempt, AttemptEnd::Failed)));
        }
        change
    };
    fixture.commit(vec![put(&job)]).await;
    fixture.commit(vec![dies(1)]).await;
    fixture.commit(vec![revived(&job, &job, &dead), dies(2), revived(&job, &job, &dead)]).await;
    let expected = [1, 2].map(|attempt| attempt_record(attempt, AttemptEnd::Failed));
    assert_eq!(fixture.attempts(&job).await, expected);
    fixture.commit(vec![dies(3)]).await;
    assert_eq!(fixture.attempts(&job).await.len(), 3);
}

/// A job dies and lives again, another dies and is forgotten, all in one commit.
async fn a_later_batch_of_the_commit_finds_what_an_earlier_kept(mut fixture: Fixture) {
    let (back, gone) = (job(1), job(2));
    fixture.commit(put_all([&back, &gone])).await;
    fixture.commit(vec![retried(&back, at(1), at(1), 1)]).await;
    let dead = finish(Outcome::Dead, at(80));
    let end = vec![finished(&back, dead.clone()), finished(&gone, dead.clone())];
    let first = fixture.batch(SHARD, end).await;
    let place = finished_place(&gone, &dead);
    let forgotten = Change::JobForgotten { job: Arc::new(gone.clone()), place };
    let second = fixture.batch(SHARD, vec![revived(&back, &back, &dead), forgotten]).await;
    fixture.send(vec![first, second]).await.expect("committed");
    assert_eq!(fixture.attempts(&back).await.len(), 1, "it is the same job");
    assert!(fixture.get(&gone.name, at(81)).await.is_none(), "it was forgotten");
    let end = finish(Outcome::Succeeded, at(90));
    let at_once = Finish { keep_until: end.at, ..end };
    fixture.commit(vec![finished(&back, at_once)]).await;
    assert_eq!(fixture.attempts(&back).await, [], "they went with it");
}

async fn attempts_of_other_jobs_are_left_out(mut fixture: Fixture) {
    let all = [job(1), job(2), job(256), job(257)];
    fixture.commit(put_all(&all)).await;
    for job in [&all[1], &all[2]] {
        fixture.commit(vec![retried(job, fresh(job).due_at, at(900), 1)]).await;
    }
    let mut counts = Vec::new();
    for job in &all {
        counts.push(fixture.attempts(job).await.len());
    }
    assert_eq!(counts, [0, 1, 1, 0]);
}

async fn every_end_of_an_attempt_comes_back(mut fixture: Fixture) {
    for (number, end) in (1..).zip(AttemptEnd::ALL) {
        let job = job(number);
        fixture.commit(vec![put(&job)]).await;
        fixture.commit(vec![end_with(&job, end, 3)]).await;
        assert_eq!(fixture.attempts(&job).await, [attempt_record(3, end)]);
    }
}

async fn occurrences_come_newest_first(mut fixture: Fixture) {
    for minute in 1..=9 {
        fixture.commit(vec![recorded("s", minute)]).await;
    }
    let found = fixture.occurrences(&schedule_id("s"), later(), 100).await;
    let expected: Vec<_> = (1..=9).rev().map(|minute| occurrence("s", minute)).collect();
    assert_eq!(found, expected);
}

async fn occurrences_before_an_instant(mut fixture: Fixture) {
    fixture.commit((1..=9).map(|minute| recorded("s", minute)).collect()).await;
    let id = schedule_id("s");
    let minutes = |found: Vec<OccurrenceRecord>| minutes_of(&found);
    let found = fixture.occurrences(&id, at(4 * 60_000), 2).await;
    assert_eq!(minutes(found), [3, 2], "strictly before, the newest two");
    let found = fixture.occurrences(&id, at(4 * 60_000 + 1), 9).await;
    assert_eq!(minutes(found), [4, 3, 2, 1]);
    assert_eq!(fixture.occurrences(&id, at(60_000), 9).await, []);
    assert_eq!(fixture.occurrences(&id, later(), 0).await, []);
}

async fn occurrences_of_other_schedules_are_left_out(mut fixture: Fixture) {
    let ids = ["s", "s/", "s/1", "ss", "S"];
    for (minute, id) in (1..).zip(ids) {
        fixture.commit(vec![recorded(id, minute)]).await;
    }
    for (minute, id) in (1..).zip(ids) {
        let found = fixture.occurrences(&schedule_id(id), later(), 9).await;
        assert_eq!(found, [occurrence(id, minute)], "{id}");
    }
}

async fn every_fate_comes_back(mut fixture: Fixture) {
    let (one, two) = (job(1).number, job(2).number);
    let mut fates = vec![
        Fate::Ran(one),
        Fate::Late(two, Millis::new(u64::MAX)),
        Fate::Coalesced,
        Fate::Triggered(one),
        Fate::Backfilled(two),
    ];
    fates.extend(SkipReason::ALL.map(Fate::Skipped));
    for (minute, fate) in (1..).zip(fates) {
        let (first, count) = (at(minute), u64::MAX);
        let record = OccurrenceRecord { fate, first, count, ..occurrence("s", minute) };
        fixture.commit(vec![Change::OccurrenceRecorded { record: record.clone() }]).await;
        let found = fixture.occurrences(&schedule_id("s"), later(), 1).await;
        assert_eq!(found, [record]);
    }
}

fn minutes_of(found: &[OccurrenceRecord]) -> Vec<i64> {
    found.iter().map(|it| (it.last.as_millis() - at(0).as_millis()) / 60_000).collect()
}

async fn occurrences_are_paged_in_both_directions(mut fixture: Fixture) {
    // Several records of one tick: accounted for, triggered, given a job later.
    let mut changes: Vec<Change> = (1..=6).map(|minute| recorded("s", minute)).collect();
    for number in [70, 80] {
        let fate = Fate::Backfilled(job(number).number);
        let record = OccurrenceRecord { fate, ..occurrence("s", 3) };
        changes.push(Change::OccurrenceRecorded { record });
    }
    fixture.commit(changes).await;
    let rows = [
        (LedgerOrder::Oldest, 0, 7, vec![1, 2, 3, 3, 3, 4, 5, 6]),
        (LedgerOrder::Newest, 0, 7, vec![6, 5, 4, 3, 3, 3, 2, 1]),
        (LedgerOrder::Oldest, 2, 4, vec![2, 3, 3, 3]),
        (LedgerOrder::Newest, 2, 4, vec![3, 3, 3, 2]),
    ];
    for (order, from, until, expected) in rows {
        for limit in [1, 2, 3, 100] {
            let mut found = Vec::new();
            let mut after = None;
            loop {
                let page = fixture.ledger(LedgerRequest {
                    schedule: schedule_id("s"),
                    from: at(from * 60_000),
                    until: at(until * 60_000),
                    after,
                    order,
                    limit,
                });
                let page = page.await;
                let Some(last) = page.last() else { break };
                after = Some(last.place());
                found.extend(page);
                assert!(found.len() <= expected.len(), "rows come again");
            }
            assert_eq!(minutes_of(&found), expected, "{order:?}, pages of {limit}");
        }
    }
}

async fn a_ledger_loses_what_is_forgotten_and_nothing_else(mut fixture: Fixture) {
    let ids = ["s", "s/", "ss", "r"];
    for id in ids {
        fixture.commit((1..=5).map(|minute| recorded(id, minute)).collect()).await;
    }
    let before = at(3 * 60_000);
    fixture.commit(vec![Change::LedgerForgotten { schedule: schedule_id("s"), before }]).await;
    for id in ids {
        let found = fixture.occurrences(&schedule_id(id), later(), 9).await;
        let expected: &[i64] = if id == "s" { &[5, 4, 3] } else { &[5, 4, 3, 2, 1] };
        assert_eq!(minutes_of(&found), expected, "{id}");
    }
}

async fn a_ledger_goes_with_its_schedule(mut fixture: Fixture) {
    for id in ["s", "s/", "ss"] {
        fixture
            .commit(vec![Change::SchedulePut { state: schedule(id).into() }, recorded(id, 1)])
            .await;
    }
    fixture.commit(vec![Change::ScheduleRemoved { id: schedule_id("s") }]).await;
    let mut counts = Vec::new();
    for id in ["s", "s/", "ss"] {
        counts.push(fixture.occurrences(&schedule_id(id), later(), 9).await.len());
    }
    assert_eq!(counts, [0, 1, 1]);
    fixture
        .commit(vec![Change::SchedulePut { state: schedule("s").into() }, recorded("s", 2)])
        .await;
    let found = fixture.occurrences(&schedule_id("s"), later(), 9).await;
    assert_eq!(minutes_of(&found), [2], "put again, it starts afresh");
}

async fn what_was_recorded_in_the_same_commit_is_forgotten_too(mut fixture: Fixture) {
    let schedule = schedule_id("s");
    let before = at(3 * 60_000);
    let forgotten = Change::LedgerForgotten { schedule: schedule.clone(), before };
    let changes = vec![recorded("s", 1), recorded("s", 3), forgotten, recorded("s", 2)];
    fixture.commit(changes).await;
    let found = fixture.occurrences(&schedule, later(), 9).await;
    assert_eq!(minutes_of(&found), [3, 2], "and what was recorded after that is not");
    let removed = Change::ScheduleRemoved { id: schedule.clone() };
    fixture.commit(vec![recorded("s", 4), removed]).await;
    assert_eq!(fixture.occurrences(&schedule, later(), 9).await, []);
}

async fn a_finished_job_is_visible_until_its_time_is_up(mut fixture: Fixture) {
    let job = job(1);
    fixture.commit(vec![put(&job), finished(&job, ended(Outcome::Dead, 100))]).await;
    assert!(fixture.get(&job.name, at(99)).await.is_some(), "a moment before");
    assert!(fixture.get(&job.name, at(100)).await.is_none(), "at the moment");
    assert!(fixture.get(&job.name, at(99)).await.is_some(), "looking does not remove it");
}

async fn a_sweep_leaves_what_is_not_up(mut fixture: Fixture) {
    let all = jobs(1, 3);
    fixture.commit(put_all(&all)).await;
    // In no order, so that an engine that sweeps by the end of jobs is found out.
    for (job, keep_until) in all.iter().zip([300, 99, 200]) {
        fixture.commit(vec![finished(job, ended(Outcome::Dead, keep_until))]).await;
    }
    for (now, left) in [(98, vec![1, 2, 3]), (99, vec![1, 3]), (200, vec![1]), (300, vec![])] {
        fixture.sweep(at(now), 100).await;
        assert_eq!(fixture.listed(&all_states(), at(60)).await, left, "swept at {now}");
    }
}

async fn a_sweep_leaves_live_jobs(mut fixture: Fixture) {
    let all = jobs(1, 3);
    fixture.commit(put_all(&all)).await;
    fixture.commit(vec![leased([&all[1]], 1)]).await;
    let before = fixture.snapshot(later()).await;
    assert!(fixture.sweep(at(9_000_000_000), 100).await.is_empty());
    assert_eq!(fixture.snapshot(later()).await, before);
}

async fn a_sweep_reports_each_dead_job_once(mut fixture: Fixture) {
    let in_queue =
        |number, queue_name: &str| named(number, name(queue_name, None, &number.to_string()));
    let dead = [in_queue(1, "a"), in_queue(2, "a"), in_queue(3, "b")];
    let other = [in_queue(4, "a"), in_queue(5, "c"), in_queue(6, "b")];
    fixture.commit(put_all(dead.iter().chain(&other))).await;
    let end = |outcome, keep| move |job: &Job| finished(job, ended(outcome, keep));
    fixture.commit(dead.iter().map(end(Outcome::Dead, 100)).collect()).await;
    fixture.commit(other[..2].iter().map(end(Outcome::Succeeded, 100)).collect()).await;
    fixture.commit(other[2..].iter().map(end(Outcome::Dead, 500)).collect()).await;
    let mut swept = fixture.sweep(at(100), 100).await;
    swept.retain(|_, count| *count > 0);
    assert_eq!(swept, BTreeMap::from([(queue("a"), 2), (queue("b"), 1)]));
    let again: u64 = fixture.sweep(at(100), 100).await.values().sum();
    assert_eq!(again, 0, "reported twice");
}

async fn small_sweeps_come_to_an_end(mut fixture: Fixture) {
    let all = jobs(1, 50);
    fixture.commit(put_all(&all)).await;
    fixture.commit(all.iter().map(|job| finished(job, ended(Outcome::Dead, 100))).collect()).await;
    let mut swept = 0;
    for _ in 0..50 {
        let dead = fixture.sweep(at(100), 4).await.remove(&main_queue()).unwrap_or_default();
        assert!(dead < 25, "{dead} jobs where about 4 were to be swept");
        swept += dead;
    }
    assert_eq!(swept, 50, "dead jobs reported in fifty sweeps of four");
    assert_eq!(fixture.listed(&all_states(), at(60)).await, [0_u64; 0]);
}

fn ended(outcome: Outcome, keep_until: i64) -> Finish {
    Finish { keep_until: at(keep_until), ..finish(outcome, at(50)) }
}

/// The job, which stands where it was scheduled for, ends with this attempt.
fn end_with(job: &Job, end: AttemptEnd, attempt: u32) -> Change {
    Change::JobFinished {
        job: Arc::new(job.clone()),
        progress: fresh(job),
        finish: Box::new(finish(Outcome::Succeeded, at(500))),
        ended: Some(Box::new(attempt_record(attempt, end))),
        keep_payload: false,
    }
}
