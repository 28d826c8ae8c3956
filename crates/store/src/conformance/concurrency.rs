//! Several threads at once: writers of different shards, readers, and owners who have lost.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use hence_core::id::ShardId;

use super::build::{job, jobs, later, main_queue, put, put_all};
use super::fixture::{Fixture, ROWS_MAX, SHARD, all_states, number_of};
use super::table;
use crate::{ErrorKind, ListRequest, Place, ShardBatch, Store, StoredJob};

table! { "concurrency":
    S2 two_shards shards_are_written_at_once;
    S2 nothing readers_never_see_half_a_batch;
    S3 nothing a_takeover_stops_the_former_owner_for_good;
    S4 nothing a_batch_sent_by_two_threads_applies_once;
    S8 nothing pages_hold_while_others_write;
}

/// Runs the work in so many threads at once, and gives their answers in order.
pub(super) fn in_threads<T, F>(
    fixture: &Fixture,
    threads: usize,
    work: impl Fn(usize) -> F + Sync,
) -> Vec<T>
where
    T: Send,
    F: Future<Output = T> + Send,
{
    let harness = fixture.harness();
    let run = |thread: usize| {
        let mut answer = None;
        harness.block_on(Box::pin(async { answer = Some(work(thread).await) }));
        answer.expect("the work ran to its end")
    };
    thread::scope(|scope| {
        let run = &run;
        let handles: Vec<_> = (0..threads).map(|n| scope.spawn(move || run(n))).collect();
        handles.into_iter().map(|handle| handle.join().expect("no thread panicked")).collect()
    })
}

/// Tells the other threads to stop, even when its own panics: a broken engine must not hang a case.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

async fn shards_are_written_at_once(mut fixture: Fixture) {
    const BATCHES: u64 = 40;
    let shards = fixture.capabilities().shards.min(4);
    let mut plans: Vec<Vec<ShardBatch>> = Vec::new();
    for shard in 0..shards {
        let mut plan = Vec::new();
        for n in 0..BATCHES {
            let changes = put_all(&jobs(n * 5 + 1, n * 5 + 5));
            plan.push(fixture.batch(ShardId(shard), changes).await);
        }
        plans.push(plan);
    }
    let store = fixture.store();
    in_threads(&fixture, plans.len(), |thread| {
        let (store, plan) = (Arc::clone(&store), plans[thread].clone());
        async move {
            for batch in plan {
                store.commit(vec![batch]).await.expect("committed");
            }
        }
    });
    for shard in 0..shards {
        let found = store.due(ShardId(shard), main_queue(), Place::FIRST, 1_000).await;
        let found: Vec<u64> = found.expect("due").iter().map(|live| live.job.number.0).collect();
        assert_eq!(found, (1..=BATCHES * 5).collect::<Vec<_>>(), "shard {shard}");
    }
}

async fn readers_never_see_half_a_batch(mut fixture: Fixture) {
    const PAIRS: u64 = 150;
    let mut plan = Vec::new();
    for n in 0..PAIRS {
        plan.push(fixture.batch(SHARD, put_all(&jobs(2 * n + 1, 2 * n + 2))).await);
    }
    let (store, done) = (fixture.store(), AtomicBool::new(false));
    in_threads(&fixture, 3, |thread| {
        let (store, plan, done) = (Arc::clone(&store), &plan, &done);
        async move {
            if thread == 0 {
                let _done = Done(done);
                for batch in plan {
                    store.commit(vec![batch.clone()]).await.expect("committed");
                }
            }
            while !done.load(Ordering::SeqCst) {
                let waiting =
                    store.due(SHARD, main_queue(), Place::FIRST, 10_000).await.expect("due");
                assert!(waiting.len() % 2 == 0, "due shows half a batch: {}", waiting.len());
                let n = waiting.len() as u64;
                let names = vec![job(n + 2).name, job(n + 1).name];
                let pair = store.get(SHARD, names, later()).await.expect("got");
                assert_eq!(pair[0].is_some(), pair[1].is_some(), "get shows half a batch");
            }
        }
    });
    assert_eq!(fixture.due(&main_queue()).await.len() as u64, 2 * PAIRS);
}

async fn a_takeover_stops_the_former_owner_for_good(mut fixture: Fixture) {
    const BATCHES: u64 = 3_000;
    let mut plan = Vec::new();
    for number in 1..=BATCHES {
        plan.push(fixture.batch(SHARD, vec![put(&job(number))]).await);
    }
    let (store, done) = (fixture.store(), AtomicBool::new(false));
    let answers = in_threads(&fixture, 2, |thread| {
        let (store, plan, done) = (Arc::clone(&store), &plan, &done);
        async move {
            if thread == 1 {
                // Somewhere in the middle, as far as this machine allows.
                while !done.load(Ordering::SeqCst) && next_number(&*store).await < 50 {
                    thread::yield_now();
                }
                store.acquire(SHARD, "the next".to_string()).await.expect("acquired");
                return next_number(&*store).await - 1;
            }
            let _done = Done(done);
            for (acknowledged, batch) in (0..).zip(plan) {
                if let Err(error) = store.commit(vec![batch.clone()]).await {
                    assert_eq!(error.kind(), ErrorKind::Fenced);
                    return acknowledged;
                }
            }
            BATCHES
        }
    });
    let there = fixture.due(&main_queue()).await.len() as u64;
    assert_eq!(there, answers[0], "jobs there, and jobs acknowledged to the former owner");
    assert_eq!(there, answers[1], "jobs there, and jobs that the new owner found");
}

async fn next_number(store: &dyn Store) -> u64 {
    store.recover(SHARD).await.expect("recovered").next_number.0
}

async fn a_batch_sent_by_two_threads_applies_once(mut fixture: Fixture) {
    let job = job(1);
    fixture.commit(vec![put(&job)]).await;
    let mut plan = Vec::new();
    for attempt in 1..=100_u32 {
        let place = |n: u32| super::build::at(i64::from(n));
        let changes =
            vec![super::build::retried(&job, place(attempt), place(attempt + 1), attempt)];
        plan.push(fixture.batch(SHARD, changes).await);
    }
    let store = fixture.store();
    in_threads(&fixture, 3, |_| {
        let (store, plan) = (Arc::clone(&store), &plan);
        async move {
            for batch in plan {
                store.commit(vec![batch.clone()]).await.expect("acknowledged");
            }
        }
    });
    let attempts: Vec<u32> = fixture.attempts(&job).await.iter().map(|it| it.attempt).collect();
    assert_eq!(attempts, (1..=100).collect::<Vec<_>>());
    assert_eq!(fixture.due(&main_queue()).await, [1]);
}

async fn pages_hold_while_others_write(mut fixture: Fixture) {
    let old: Vec<_> = (1..=200).map(|number| job(number * 100)).collect();
    fixture.commit(put_all(&old)).await;
    let mut plan = Vec::new();
    for n in 0..200 {
        plan.push(fixture.batch(SHARD, vec![put(&job(n * 100 + 50))]).await);
    }
    let (store, done) = (fixture.store(), AtomicBool::new(false));
    in_threads(&fixture, 3, |thread| {
        let (store, plan, done) = (Arc::clone(&store), &plan, &done);
        async move {
            if thread == 0 {
                let _done = Done(done);
                for batch in plan {
                    store.commit(vec![batch.clone()]).await.expect("committed");
                }
            }
            while !done.load(Ordering::SeqCst) {
                let (mut seen, mut after) = (Vec::new(), None);
                loop {
                    let (filter, now) = (all_states(), later());
                    let request = ListRequest { filter, after, limit: 17, now };
                    let page = store.list(SHARD, request).await.expect("listed");
                    seen.extend(page.jobs.iter().map(|row: &StoredJob| number_of(row)));
                    assert!(seen.len() <= ROWS_MAX, "pages without end");
                    after = page.next;
                    if after.is_none() {
                        break;
                    }
                }
                seen.retain(|number| number % 100 == 0);
                assert!(seen.is_sorted() && seen.len() == 200, "{} of 200 rows", seen.len());
            }
        }
    });
}
