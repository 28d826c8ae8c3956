//! S1, S2: what was acknowledged is there after the end of the process, and nothing by half.

use hence_core::id::JobNumber;
use hence_core::job::{Finish, Job, Outcome};
use hence_core::queue::QueueSettings;

use super::build::{
    at, finish, finished, finished_place, job, jobs, later, leased, main_queue, payload, place,
    put, put_all, recorded, replaced, retried, schedule, schedule_id, succeeded, token,
};
use super::fixture::{Fixture, OTHER, SHARD, all_states, snapshot};
use super::random::History;
use super::table;
use crate::{Change, ErrorKind, ShardBatch};

table! { "reopen":
    S1 persistence an_empty_store_opens_again;
    S1 persistence everything_reads_as_before;
    S1 persistence the_last_commit_is_there_however_often;
    S1 persistence ten_thousand_jobs_are_there_in_order;
    S1 persistence large_payloads_are_there;
    S2 persistence an_abandoned_commit_is_whole_or_absent;
    S2 persistence_and_two_shards every_shard_reads_as_before;
    S3 persistence an_owner_of_the_former_life_is_fenced;
    S4 persistence a_resent_batch_is_not_applied_again;
    S6 persistence leases_and_their_new_ends_are_recovered;
    S6 persistence schedules_and_settings_are_recovered;
    S6 persistence numbers_and_counts_are_recovered;
    S7 persistence what_was_replaced_stays_replaced;
    S7 persistence what_was_forgotten_or_swept_stays_gone;
    S11 persistence attempts_and_occurrences_are_there;
    S11 persistence a_finished_job_is_swept_in_its_next_life;
}

async fn an_empty_store_opens_again(mut fixture: Fixture) {
    fixture.reopen().await;
    assert_eq!(fixture.recover().await, crate::Recovered::default());
    fixture.commit(vec![put(&job(1))]).await;
}

async fn everything_reads_as_before(mut fixture: Fixture) {
    let mut history = History::new(7);
    for _ in 0..200 {
        let batch = fixture.batch(SHARD, history.batch()).await;
        let batch = ShardBatch { counts: history.counts(), ..batch };
        fixture.send(vec![batch]).await.expect("committed");
    }
    let before = fixture.snapshot(history.now()).await;
    for _ in 0..3 {
        fixture.reopen().await;
        assert_eq!(fixture.snapshot(history.now()).await, before);
    }
}

async fn the_last_commit_is_there_however_often(mut fixture: Fixture) {
    for number in 1..=12 {
        fixture.commit(vec![put(&job(number))]).await;
        fixture.reopen().await;
        assert_eq!(fixture.due(&main_queue()).await, (1..=number).collect::<Vec<_>>());
    }
}

async fn ten_thousand_jobs_are_there_in_order(mut fixture: Fixture) {
    for chunk in jobs(1, 10_000).chunks(1_000) {
        fixture.commit(put_all(chunk)).await;
    }
    fixture.reopen().await;
    let found = fixture.due(&main_queue()).await;
    assert!(
        found == (1..=10_000).collect::<Vec<_>>(),
        "{} of 10000, or another order",
        found.len()
    );
}

async fn large_payloads_are_there(mut fixture: Fixture) {
    let large = |number: u64| Job { payload: payload(&vec![number as u8; 1 << 20]), ..job(number) };
    for number in 1..=8 {
        fixture.commit(vec![put(&large(number))]).await;
    }
    fixture.reopen().await;
    for number in 1..=8 {
        assert!(*fixture.live(&job(number)).await.job == large(number), "job {number} differs");
    }
}

/// Nobody waits for the last answer, and the process ends.
async fn an_abandoned_commit_is_whole_or_absent(mut fixture: Fixture) {
    let mut plan = Vec::new();
    for n in 0..11 {
        plan.push(fixture.batch(SHARD, put_all(&jobs(n * 10 + 1, n * 10 + 10))).await);
    }
    let store = fixture.store();
    for batch in &plan[..10] {
        store.commit(vec![batch.clone()]).await.expect("committed");
    }
    drop(store.commit(vec![plan[10].clone()]));
    drop(store);
    fixture.reopen().await;
    let found = fixture.due(&main_queue()).await;
    assert!(found.len() == 100 || found.len() == 110, "{} jobs of whole tens", found.len());
    assert_eq!(found, (1..=found.len() as u64).collect::<Vec<_>>());
}

async fn every_shard_reads_as_before(mut fixture: Fixture) {
    let batches = vec![
        fixture.batch(SHARD, put_all(&jobs(1, 10))).await,
        fixture.batch(OTHER, put_all(&jobs(5, 20))).await,
    ];
    fixture.send(batches).await.expect("committed");
    let before = [
        snapshot(&*fixture.store(), SHARD, later()).await,
        snapshot(&*fixture.store(), OTHER, later()).await,
    ];
    fixture.reopen().await;
    let after = [
        snapshot(&*fixture.store(), SHARD, later()).await,
        snapshot(&*fixture.store(), OTHER, later()).await,
    ];
    assert_eq!(after, before);
}

async fn an_owner_of_the_former_life_is_fenced(mut fixture: Fixture) {
    fixture.commit(vec![put(&job(1))]).await;
    let stale = fixture.batch(SHARD, vec![put(&job(2))]).await;
    fixture.reopen().await;
    fixture.acquire(SHARD).await;
    fixture.refused(vec![stale], ErrorKind::Fenced).await;
    fixture.commit(vec![put(&job(3))]).await;
    assert_eq!(fixture.due(&main_queue()).await, [1, 3]);
}

/// After a restart the shard is taken over first, so a batch of before must never apply.
async fn a_resent_batch_is_not_applied_again(mut fixture: Fixture) {
    let first = fixture.batch(SHARD, vec![put(&job(1))]).await;
    fixture.send(vec![first.clone()]).await.expect("committed");
    fixture.commit(vec![succeeded(&job(1))]).await;
    fixture.reopen().await;
    // Acknowledged or fenced, as the engine likes.
    let _ = fixture.send(vec![first]).await;
    assert_eq!(fixture.due(&main_queue()).await, [0_u64; 0], "a finished job is back");
}

async fn leases_and_their_new_ends_are_recovered(mut fixture: Fixture) {
    let all = jobs(1, 5);
    fixture.commit(put_all(&all)).await;
    fixture.commit(vec![leased(&all[..3], 1)]).await;
    let until = at(77_000);
    let (queue, place) = (main_queue(), place(&all[1]));
    fixture.commit(vec![Change::LeaseExtended { queue, place, token: token(2), until }]).await;
    fixture.commit(vec![succeeded(&all[0])]).await;
    fixture.reopen().await;
    let active = fixture.recover().await.active;
    let found: Vec<_> = active
        .iter()
        .filter_map(|live| live.lease.as_ref().map(|lease| (live.job.number.0, lease.until)))
        .collect();
    assert_eq!(found, [(2, until), (3, at(30_000))]);
    assert_eq!(fixture.due(&main_queue()).await, [4, 5]);
}

async fn schedules_and_settings_are_recovered(mut fixture: Fixture) {
    let settings = QueueSettings { paused_out: true, concurrency: Some(4), ..Default::default() };
    fixture
        .commit(vec![
            Change::SchedulePut { state: schedule("a").into() },
            Change::SchedulePut { state: schedule("b").into() },
            Change::QueuePut { name: main_queue(), settings: settings.clone() },
        ])
        .await;
    fixture.commit(vec![Change::ScheduleRemoved { id: schedule_id("a") }]).await;
    fixture.reopen().await;
    let recovered = fixture.recover().await;
    assert_eq!(recovered.schedules, [schedule("b")]);
    assert_eq!(recovered.queues, [(main_queue(), settings)]);
}

async fn numbers_and_counts_are_recovered(mut fixture: Fixture) {
    let counts = hence_core::queue::Counts { pending: 5, failed: 9, ..Default::default() };
    fixture.commit(put_all(&jobs(1, 5))).await;
    fixture.commit_counts(vec![(main_queue(), counts)]).await;
    fixture.reopen().await;
    let recovered = fixture.recover().await;
    assert_eq!(recovered.next_number, JobNumber(6));
    assert_eq!(recovered.counts, [(main_queue(), counts)]);
}

async fn what_was_replaced_stays_replaced(mut fixture: Fixture) {
    let old = job(1);
    let new = Job { number: JobNumber(2), scheduled_for: at(90), ..old.clone() };
    fixture.commit(vec![put(&old)]).await;
    fixture.commit(vec![replaced(&old, &new)]).await;
    fixture.reopen().await;
    assert_eq!(*fixture.live(&old).await.job, new);
    assert_eq!(fixture.due(&main_queue()).await, [2]);
}

async fn what_was_forgotten_or_swept_stays_gone(mut fixture: Fixture) {
    let all = jobs(1, 3);
    let dead = finish(Outcome::Dead, at(60));
    let short = Finish { keep_until: at(70), ..dead.clone() };
    fixture.commit(put_all(&all)).await;
    let ends = [dead.clone(), short, dead.clone()];
    fixture.commit(all.iter().zip(ends).map(|(job, end)| finished(job, end)).collect()).await;
    let place = finished_place(&all[0], &dead);
    fixture.commit(vec![Change::JobForgotten { job: all[0].clone().into(), place }]).await;
    fixture.sweep(at(70), 100).await;
    // A commit after the sweep, so that an engine that writes its sweeps lazily has written it.
    fixture.commit(vec![put(&job(4))]).await;
    fixture.reopen().await;
    assert_eq!(fixture.listed(&all_states(), later()).await, [4, 3]);
    assert!(!fixture.has(&all[0]).await && !fixture.has(&all[1]).await);
}

async fn attempts_and_occurrences_are_there(mut fixture: Fixture) {
    fixture.commit(vec![put(&job(1)), recorded("s", 1)]).await;
    fixture.commit(vec![retried(&job(1), at(1), at(900), 1), recorded("s", 2)]).await;
    fixture.commit(vec![retried(&job(1), at(900), at(901), 2)]).await;
    fixture.reopen().await;
    assert_eq!(fixture.attempts(&job(1)).await.len(), 2);
    assert_eq!(fixture.occurrences(&schedule_id("s"), later(), 9).await.len(), 2);
}

async fn a_finished_job_is_swept_in_its_next_life(mut fixture: Fixture) {
    let short = Finish { keep_until: at(70), ..finish(Outcome::Dead, at(60)) };
    fixture.commit(vec![put(&job(1)), finished(&job(1), short)]).await;
    fixture.reopen().await;
    assert!(fixture.get(&job(1).name, at(69)).await.is_some());
    assert_eq!(fixture.sweep(at(70), 10).await.get(&main_queue()), Some(&1));
    assert!(fixture.get(&job(1).name, at(69)).await.is_none());
}
