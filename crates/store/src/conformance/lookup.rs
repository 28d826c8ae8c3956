//! S7: a job is found by its name while it is there, and not after.

use std::sync::Arc;

use hence_core::id::JobNumber;
use hence_core::job::{Finish, Job, Outcome, Payload, Progress};

use super::build::{
    at, finish, finished, finished_place, fresh, job, jobs, later, leased, main_queue, moved, name,
    named, payload, put, put_all, replaced, revived, succeeded, token,
};
use super::fixture::{Fixture, SHARD, all_states, number_of};
use super::table;
use crate::{Change, FinishedJob, StoredJob};

table! { "lookup":
    S7 nothing answers_come_in_the_order_of_the_names;
    S7 nothing a_key_is_part_of_the_name;
    S7 nothing the_parts_of_a_name_do_not_run_together;
    S7 nothing a_waiting_job_is_found_where_it_stands;
    S7 nothing a_running_job_is_found_with_its_lease;
    S7 nothing a_replacement_is_found_instead;
    S7 nothing a_replacement_takes_the_attempts_of_nobody;
    S7 nothing an_edit_keeps_the_number;
    S7 nothing a_finished_job_is_found_with_its_end;
    S7 nothing a_payload_that_is_not_kept_is_empty;
    S7 nothing a_job_kept_for_no_time_is_gone_at_once;
    S7 nothing a_revived_job_is_live_and_nothing_else;
    S7 nothing a_revived_job_may_have_a_new_number;
    S7 nothing a_forgotten_job_is_gone;
    S7 nothing a_swept_job_is_gone;
    S7 nothing a_new_job_survives_the_sweep_of_its_namesake;
    S7 nothing a_finished_job_survives_the_sweep_of_its_namesake;
    S7 nothing what_was_swept_can_be_forgotten_or_revived;
}

async fn answers_come_in_the_order_of_the_names(mut fixture: Fixture) {
    fixture.commit(put_all(&jobs(1, 3))).await;
    fixture.commit(vec![succeeded(&job(2))]).await;
    let names = [3, 9, 1, 2, 3].map(|number| job(number).name).to_vec();
    let found = fixture.store().get(SHARD, names, later()).await.expect("got");
    let found: Vec<_> = found.iter().map(|it| it.as_ref().map(number_of)).collect();
    assert_eq!(found, [Some(3), None, Some(1), Some(2), Some(3)]);
    let none = fixture.store().get(SHARD, Vec::new(), later()).await.expect("got");
    assert_eq!(none, []);
}

async fn a_key_is_part_of_the_name(mut fixture: Fixture) {
    let keys = [None, Some("x"), Some("y")];
    let queues = ["main", "other"];
    let mut all = Vec::new();
    for queue_name in queues {
        for key_name in keys {
            all.push(named(all.len() as u64 + 1, name(queue_name, key_name, "x")));
        }
    }
    fixture.commit(put_all(&all)).await;
    for job in &all {
        assert_eq!(fixture.live(job).await.job.number, job.number, "{}", job.name);
    }
    fixture.commit(vec![succeeded(&all[0])]).await;
    for job in &all[1..] {
        fixture.live(job).await;
    }
}

/// Engines make one key of the three parts; no two names may make the same.
async fn the_parts_of_a_name_do_not_run_together(mut fixture: Fixture) {
    let names = [
        name("a", Some("b"), "c/d"),
        name("a", Some("b/c"), "d"),
        name("a/b", Some("c"), "d"),
        name("a/b", None, "c/d"),
        name("a", None, "b/c/d"),
        name("a", Some("bc"), "d"),
        name("ab", Some("c"), "d"),
        name("a", Some("b:c"), "d"),
        name("a:b", Some("c"), "d"),
    ];
    let all: Vec<Job> = (1..).zip(names).map(|(number, name)| named(number, name)).collect();
    fixture.commit(put_all(&all)).await;
    for job in &all {
        assert_eq!(fixture.live(job).await.job.number, job.number, "{}", job.name);
    }
}

async fn a_waiting_job_is_found_where_it_stands(mut fixture: Fixture) {
    let progress = Progress { due_at: at(700), attempts: 2, crashes: 1, holds_key: false };
    fixture.commit(vec![put(&job(1))]).await;
    fixture.commit(vec![moved(&job(1), at(1), progress)]).await;
    let live = fixture.live(&job(1)).await;
    assert_eq!((&*live.job, live.progress, live.lease), (&job(1), progress, None));
}

async fn a_running_job_is_found_with_its_lease(mut fixture: Fixture) {
    let all = jobs(1, 2);
    fixture.commit(put_all(&all)).await;
    fixture.commit(vec![leased(&all, 8)]).await;
    let lease = fixture.live(&all[1]).await.lease.expect("it runs");
    assert_eq!((lease.token, lease.until), (token(9), at(30_000)));
}

async fn a_replacement_is_found_instead(mut fixture: Fixture) {
    let old = job(1);
    let new = Job {
        number: JobNumber(2),
        scheduled_for: at(900),
        payload: payload(b"new"),
        ..old.clone()
    };
    fixture.commit(vec![put(&old)]).await;
    fixture.commit(vec![replaced(&old, &new)]).await;
    assert_eq!(*fixture.live(&old).await.job, new);
    assert_eq!(fixture.listed(&all_states(), later()).await, [2], "the old one is listed");
}

async fn a_replacement_takes_the_attempts_of_nobody(mut fixture: Fixture) {
    let old = job(1);
    let new = Job { number: JobNumber(2), ..old.clone() };
    fixture.commit(vec![put(&old), leased([&old], 1)]).await;
    fixture.commit(vec![super::build::retried(&old, at(1), at(1), 1)]).await;
    fixture.commit(vec![replaced(&old, &new)]).await;
    assert_eq!(fixture.attempts(&new).await, []);
}

/// An edit puts the same job again, with another due time or the same.
async fn an_edit_keeps_the_number(mut fixture: Fixture) {
    let first = job(1);
    let second = Job { scheduled_for: at(800), payload: payload(b"edited"), ..first.clone() };
    let third = Job { payload: payload(b"again"), ..second.clone() };
    fixture.commit(vec![put(&first)]).await;
    fixture.commit(vec![replaced(&first, &second)]).await;
    assert_eq!(*fixture.live(&first).await.job, second);
    fixture.commit(vec![replaced(&second, &third)]).await;
    assert_eq!(*fixture.live(&first).await.job, third);
    assert_eq!(fixture.due(&main_queue()).await, [1], "one job, one place");
}

async fn a_finished_job_is_found_with_its_end(mut fixture: Fixture) {
    let all = jobs(1, 4);
    fixture.commit(put_all(&all)).await;
    for (job, outcome) in all.iter().zip(Outcome::ALL) {
        let finish = Finish {
            reason: Some(Arc::from("because")),
            result: Some(payload(b"result")),
            ..finish(outcome, at(60))
        };
        let progress = Progress { attempts: 4, crashes: 1, ..fresh(job) };
        let change = Change::JobFinished {
            job: Arc::new(job.clone()),
            progress,
            finish: Box::new(finish.clone()),
            ended: None,
            keep_payload: true,
        };
        fixture.commit(vec![change]).await;
        let expected = FinishedJob { job: Arc::new(job.clone()), progress, finish };
        assert_eq!(fixture.get(&job.name, later()).await, Some(StoredJob::Finished(expected)));
    }
}

async fn a_payload_that_is_not_kept_is_empty(mut fixture: Fixture) {
    let job = job(1);
    fixture.commit(vec![put(&job)]).await;
    let change = Change::JobFinished {
        job: Arc::new(job.clone()),
        progress: fresh(&job),
        finish: Box::new(finish(Outcome::Succeeded, at(5))),
        ended: None,
        keep_payload: false,
    };
    fixture.commit(vec![change]).await;
    let Some(StoredJob::Finished(done)) = fixture.get(&job.name, later()).await else {
        panic!("the finished job is not there");
    };
    assert_eq!(*done.job, Job { payload: Payload::default(), ..job });
}

async fn a_job_kept_for_no_time_is_gone_at_once(mut fixture: Fixture) {
    let all = jobs(1, 2);
    fixture.commit(put_all(&all)).await;
    for (job, keep_until) in [(&all[0], at(50)), (&all[1], at(10))] {
        let end = Finish { keep_until, ..finish(Outcome::Succeeded, at(50)) };
        fixture.commit(vec![finished(job, end)]).await;
        assert_eq!(fixture.get(&job.name, at(0)).await, None, "it was kept at all");
    }
    assert_eq!(fixture.listed(&all_states(), at(0)).await, [0_u64; 0]);
}

async fn a_revived_job_is_live_and_nothing_else(mut fixture: Fixture) {
    let job = job(1);
    let dead = finish(Outcome::Dead, at(60));
    fixture.commit(vec![put(&job), finished(&job, dead.clone())]).await;
    fixture.commit(vec![revived(&job, &job, &dead)]).await;
    assert_eq!(*fixture.live(&job).await.job, job);
    assert_eq!(fixture.listed(&all_states(), later()).await, [1], "it is listed once");
    assert_eq!(fixture.due(&main_queue()).await, [1]);
    assert!(fixture.sweep(at(9_000_000), 100).await.is_empty(), "its past was swept again");
    fixture.live(&job).await;
}

async fn a_revived_job_may_have_a_new_number(mut fixture: Fixture) {
    let old = job(1);
    let new = Job { number: JobNumber(2), scheduled_for: at(80), ..old.clone() };
    let dead = finish(Outcome::Dead, at(60));
    fixture.commit(vec![put(&old), finished(&old, dead.clone())]).await;
    fixture.commit(vec![revived(&old, &new, &dead)]).await;
    assert_eq!(*fixture.live(&new).await.job, new);
    assert_eq!(fixture.listed(&all_states(), later()).await, [2]);
}

async fn a_forgotten_job_is_gone(mut fixture: Fixture) {
    let all = jobs(1, 2);
    let dead = finish(Outcome::Dead, at(60));
    fixture.commit(put_all(&all)).await;
    fixture.commit(vec![finished(&all[0], dead.clone()), finished(&all[1], dead.clone())]).await;
    fixture.commit(vec![forgotten(&all[0], &dead)]).await;
    assert!(!fixture.has(&all[0]).await, "it is still there");
    assert!(fixture.has(&all[1]).await, "another one went");
    assert_eq!(fixture.listed(&all_states(), later()).await, [2]);
}

async fn a_swept_job_is_gone(mut fixture: Fixture) {
    let all = jobs(1, 2);
    let short = Finish { keep_until: at(100), ..finish(Outcome::Succeeded, at(60)) };
    fixture.commit(put_all(&all)).await;
    fixture.commit(vec![finished(&all[0], short), succeeded(&all[1])]).await;
    fixture.sweep(at(100), 100).await;
    // Asked with a clock that stands before the sweep: gone is gone.
    assert_eq!(fixture.get(&all[0].name, at(70)).await, None);
    assert_eq!(fixture.listed(&all_states(), at(70)).await, [2]);
}

/// The old job's time was up, so nobody could see it when the new one was put: nothing says that
/// the new one takes its name.
async fn a_new_job_survives_the_sweep_of_its_namesake(mut fixture: Fixture) {
    let (old, new) = namesakes(&mut fixture).await;
    assert!(!fixture.has(&old).await, "its time is up");
    fixture.commit(vec![put(&new)]).await;
    assert_eq!(*fixture.live(&new).await.job, new);
    fixture.sweep(later(), 100).await;
    assert_eq!(*fixture.live(&new).await.job, new, "it went with its namesake");
}

async fn a_finished_job_survives_the_sweep_of_its_namesake(mut fixture: Fixture) {
    let (_, new) = namesakes(&mut fixture).await;
    fixture.commit(vec![put(&new)]).await;
    fixture.commit(vec![succeeded(&new)]).await;
    fixture.sweep(later(), 100).await;
    assert_eq!(fixture.get(&new.name, later()).await.as_ref().map(number_of), Some(2));
    assert_eq!(fixture.listed(&all_states(), later()).await, [2]);
}

/// The owner decided on what it saw; a sweep may have come between.
async fn what_was_swept_can_be_forgotten_or_revived(mut fixture: Fixture) {
    let all = jobs(1, 2);
    let short = Finish { keep_until: at(100), ..finish(Outcome::Dead, at(60)) };
    fixture.commit(put_all(&all)).await;
    fixture.commit(all.iter().map(|job| finished(job, short.clone())).collect()).await;
    fixture.sweep(at(100), 100).await;
    fixture.commit(vec![forgotten(&all[0], &short), revived(&all[1], &all[1], &short)]).await;
    assert!(!fixture.has(&all[0]).await);
    assert_eq!(*fixture.live(&all[1]).await.job, all[1]);
}

/// A finished job whose time is up but which was not swept, and a new one of its name, not put yet.
async fn namesakes(fixture: &mut Fixture) -> (Job, Job) {
    let old = job(1);
    let new = Job { number: JobNumber(2), scheduled_for: at(800), ..old.clone() };
    let short = Finish { keep_until: at(100), ..finish(Outcome::Succeeded, at(60)) };
    fixture.commit(vec![put(&old)]).await;
    fixture.commit(vec![finished(&old, short)]).await;
    (old, new)
}

fn forgotten(job: &Job, finish: &Finish) -> Change {
    Change::JobForgotten { job: Arc::new(job.clone()), place: finished_place(job, finish) }
}
