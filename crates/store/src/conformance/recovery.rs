//! S6: what a new owner must know, and no more.

use hence_core::job::{Job, Progress};
use hence_core::queue::{Counts, QueueSettings, Rate};
use hence_core::schedule::ScheduleState;
use hence_core::time::Millis;

use super::build::{
    advanced, at, finish, finished, job, jobs, leased, main_queue, moved, name, named, place, put,
    put_all, put_with, queue, replaced, schedule, schedule_id, token, worker,
};
use super::fixture::{Fixture, OTHER, SHARD};
use super::table;
use crate::{Change, Recovered};
use hence_core::id::JobNumber;
use hence_core::job::Outcome;

table! { "recovery":
    S6 nothing a_fresh_shard_has_nothing;
    S6 nothing waiting_jobs_are_not_recovered;
    S6 nothing leases_are_recovered_with_consecutive_tokens;
    S6 nothing a_lease_over_several_queues_is_recovered;
    S6 nothing an_extended_lease_has_its_new_end;
    S6 nothing a_later_lease_stands_for_an_earlier_one;
    S6 nothing ended_leases_are_not_recovered;
    S6 nothing a_replaced_running_job_is_not_recovered;
    S6 nothing jobs_that_hold_their_key_are_recovered;
    S6 nothing active_jobs_come_by_number;
    S6 nothing the_newest_counts_of_every_queue_are_recovered;
    S6 nothing the_next_number_is_recovered;
    S6 nothing schedules_are_recovered_as_they_were_last_put;
    S6 nothing queue_settings_are_recovered_as_they_were_last_put;
    S6 nothing recovering_changes_nothing;
    S6 two_shards recovery_is_per_shard;
}

async fn a_fresh_shard_has_nothing(fixture: Fixture) {
    assert_eq!(fixture.recover().await, Recovered::default());
}

async fn waiting_jobs_are_not_recovered(mut fixture: Fixture) {
    fixture.commit(put_all(&jobs(1, 10))).await;
    assert_eq!(fixture.recover().await.active, []);
}

async fn leases_are_recovered_with_consecutive_tokens(mut fixture: Fixture) {
    let all = jobs(1, 4);
    fixture.commit(put_all(&all)).await;
    fixture.commit(vec![leased([&all[2], &all[0], &all[3]], 70)]).await;
    let active = fixture.recover().await.active;
    let tokens: Vec<_> = active
        .iter()
        .map(|live| (live.job.number.0, live.lease.as_ref().map(|l| l.token)))
        .collect();
    let expected = [(1, Some(token(71))), (3, Some(token(70))), (4, Some(token(72)))];
    assert_eq!(tokens, expected);
    let lease = active[0].lease.as_ref().expect("a lease");
    assert_eq!((&lease.holder, lease.attempt), (&worker(), 1));
    assert_eq!((lease.granted_at, lease.until), (at(0), at(30_000)));
    assert_eq!((&*active[0].job, active[0].progress), (&all[0], Progress::fresh(at(1))));
}

async fn a_lease_over_several_queues_is_recovered(mut fixture: Fixture) {
    let all = [named(1, name("a", None, "x")), named(2, name("b", Some("k"), "x"))];
    fixture.commit(put_all(&all)).await;
    fixture.commit(vec![leased(&all, 1)]).await;
    assert_eq!(running(&fixture).await, [1, 2]);
    assert_eq!(fixture.due(&queue("a")).await, [0_u64; 0]);
}

async fn an_extended_lease_has_its_new_end(mut fixture: Fixture) {
    let all = jobs(1, 2);
    fixture.commit(put_all(&all)).await;
    fixture.commit(vec![leased(&all, 5)]).await;
    for end in [40_000, 90_000] {
        let extended = Change::LeaseExtended {
            queue: main_queue(),
            place: place(&all[1]),
            token: token(6),
            until: at(end),
        };
        fixture.commit(vec![extended]).await;
    }
    let active = fixture.recover().await.active;
    let leases: Vec<_> = active.iter().filter_map(|live| live.lease.clone()).collect();
    assert_eq!((leases[0].until, leases[1].until), (at(30_000), at(90_000)));
    assert_eq!((leases[1].granted_at, leases[1].token), (at(0), token(6)), "only the end moves");
}

async fn a_later_lease_stands_for_an_earlier_one(mut fixture: Fixture) {
    let job = job(1);
    fixture.commit(vec![put(&job), leased([&job], 1)]).await;
    fixture.commit(vec![moved(&job, at(1), Progress::fresh(at(1)))]).await;
    fixture.commit(vec![leased([&job], 2)]).await;
    let active = fixture.recover().await.active;
    assert_eq!(active.len(), 1);
    assert_eq!(active[0].lease.as_ref().map(|lease| lease.token), Some(token(2)));
}

async fn ended_leases_are_not_recovered(mut fixture: Fixture) {
    let all = jobs(1, 5);
    fixture.commit(put_all(&all)).await;
    fixture.commit(vec![leased(&all, 1)]).await;
    let short =
        |end| hence_core::job::Finish { keep_until: end, ..finish(Outcome::Succeeded, end) };
    fixture
        .commit(vec![
            moved(&all[0], at(1), Progress::fresh(at(1))),
            moved(&all[1], at(2), Progress::fresh(at(200))),
            finished(&all[2], finish(Outcome::Succeeded, at(10))),
            finished(&all[3], short(at(10))),
        ])
        .await;
    assert_eq!(running(&fixture).await, [5]);
    assert!(fixture.live(&all[0]).await.lease.is_none(), "the lease ended with the move");
}

async fn a_replaced_running_job_is_not_recovered(mut fixture: Fixture) {
    let old = job(1);
    let new = Job { number: JobNumber(2), ..old.clone() };
    fixture.commit(vec![put(&old), leased([&old], 1)]).await;
    fixture.commit(vec![replaced(&old, &new)]).await;
    assert_eq!(running(&fixture).await, [0_u64; 0]);
    assert_eq!(fixture.live(&new).await.lease, None, "the new one inherited a lease");
}

async fn jobs_that_hold_their_key_are_recovered(mut fixture: Fixture) {
    let keyed = |number: u64| named(number, name("main", Some("k"), &format!("job-{number}")));
    let holding = Progress { holds_key: true, attempts: 1, ..Progress::fresh(at(500)) };
    fixture.commit(put_all(&[keyed(1), keyed(2), keyed(3)])).await;
    fixture.commit(vec![moved(&keyed(2), at(2), holding)]).await;
    let active = fixture.recover().await.active;
    assert_eq!(active.len(), 1, "only one holds the key");
    assert_eq!((&*active[0].job, active[0].progress), (&keyed(2), holding));
    assert_eq!(fixture.due(&main_queue()).await, [1, 3, 2], "it waits all the same");
    let given_up = Progress { holds_key: false, ..holding };
    fixture.commit(vec![moved(&keyed(2), at(500), given_up)]).await;
    assert_eq!(fixture.recover().await.active, []);
}

async fn active_jobs_come_by_number(mut fixture: Fixture) {
    let holding = |due| Progress { holds_key: true, ..Progress::fresh(at(due)) };
    let all = [job(300), job(2), named(10, name("another", None, "x"))];
    fixture.commit(vec![put(&all[0]), put_with(&all[1], holding(900)), put(&all[2])]).await;
    fixture.commit(vec![leased([&all[0], &all[2]], 1)]).await;
    assert_eq!(running(&fixture).await, [2, 10, 300]);
}

async fn the_newest_counts_of_every_queue_are_recovered(mut fixture: Fixture) {
    let counts = |n| Counts {
        pending: n,
        running: n + 1,
        dead: n + 2,
        submitted: n + 3,
        delivered: n + 4,
        succeeded: n + 5,
        failed: n + 6,
        died: n + 7,
        cancelled: n + 8,
        expired: n + 9,
        replaced: u64::MAX - n,
        rate_used_until_us: n + 10,
    };
    fixture.commit_counts(vec![(queue("a"), counts(1)), (queue("b"), counts(20))]).await;
    fixture.commit_counts(vec![(queue("a"), counts(300))]).await;
    let mut found = fixture.recover().await.counts;
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(found, [(queue("a"), counts(300)), (queue("b"), counts(20))]);
}

async fn the_next_number_is_recovered(mut fixture: Fixture) {
    fixture.commit(put_all(&jobs(1, 9))).await;
    assert_eq!(fixture.recover().await.next_number, JobNumber(10));
    let all = jobs(1, 9);
    fixture.commit(all.iter().map(super::build::succeeded).collect()).await;
    assert_eq!(fixture.recover().await.next_number, JobNumber(10), "numbers are never used twice");
}

async fn schedules_are_recovered_as_they_were_last_put(mut fixture: Fixture) {
    let put = |state: &ScheduleState| Change::SchedulePut { state: state.clone().into() };
    let further = ScheduleState { progress: advanced("a", 2), ..schedule("a") };
    let advance = |id, fired| {
        let progress = advanced(id, fired);
        Change::ScheduleAdvanced { id: schedule_id(id), progress: progress.into() }
    };
    fixture.commit(vec![put(&schedule("a")), put(&schedule("b")), put(&schedule("a/b"))]).await;
    fixture.commit(vec![advance("a", 1), advance("b", 1)]).await;
    fixture.commit(vec![advance("a", 2)]).await;
    fixture.commit(vec![Change::ScheduleRemoved { id: schedule_id("b") }]).await;
    let mut found = fixture.recover().await.schedules;
    found.sort_by(|x, y| x.schedule.id.cmp(&y.schedule.id));
    assert_eq!(found, [further, schedule("a/b")]);
    // Put again, it is where the put says.
    fixture.commit(vec![put(&schedule("a")), advance("a/b", 5)]).await;
    let mut found = fixture.recover().await.schedules;
    found.sort_by(|x, y| x.schedule.id.cmp(&y.schedule.id));
    let other = ScheduleState { progress: advanced("a/b", 5), ..schedule("a/b") };
    assert_eq!(found, [schedule("a"), other]);
}

async fn queue_settings_are_recovered_as_they_were_last_put(mut fixture: Fixture) {
    let put = |queue_name: &str, settings: &QueueSettings| Change::QueuePut {
        name: queue(queue_name),
        settings: settings.clone(),
    };
    let limited = QueueSettings {
        paused_in: true,
        paused_out: false,
        concurrency: Some(3),
        rate: Some(Rate { count: 10, per: Millis::from_secs(1) }),
        pending_max: Some(1_000),
    };
    let open = QueueSettings::default();
    fixture.commit(vec![put("a", &open), put("b", &limited)]).await;
    fixture.commit(vec![put("a", &limited)]).await;
    fixture.commit(vec![put("b", &open)]).await;
    let mut found = fixture.recover().await.queues;
    found.sort_by(|x, y| x.0.cmp(&y.0));
    assert_eq!(found, [(queue("a"), limited), (queue("b"), open)]);
}

async fn recovering_changes_nothing(mut fixture: Fixture) {
    let all = jobs(1, 3);
    fixture.commit(put_all(&all)).await;
    fixture.commit(vec![leased([&all[1]], 1)]).await;
    let first = fixture.recover().await;
    assert_eq!(fixture.recover().await, first);
    fixture.acquire(SHARD).await;
    assert_eq!(fixture.recover().await, first, "a new owner finds what the old one left");
}

async fn recovery_is_per_shard(mut fixture: Fixture) {
    let job = job(1);
    fixture.commit_to(OTHER, vec![put(&job), leased([&job], 1)]).await;
    fixture.commit_to(OTHER, vec![Change::SchedulePut { state: schedule("a").into() }]).await;
    assert_eq!(fixture.recover().await, Recovered::default());
}

async fn running(fixture: &Fixture) -> Vec<u64> {
    fixture.recover().await.active.iter().map(|live| live.job.number.0).collect()
}
