//! Random histories, on the engine and on the reference: whatever can be read must be the same.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::fixture::{Fixture, SHARD, all_states};
use super::random::History;
use super::{Harness, table};
use crate::{MemoryStore, ShardBatch, Store, StoreError};

table! { "model":
    S7 nothing a_random_history_reads_like_the_reference;
    S8 nothing another_random_history_reads_like_the_reference;
    S1 persistence a_random_history_reads_the_same_over_restarts;
}

/// Batches in one history: long enough that every kind of change meets every other.
const BATCHES: usize = 400;

async fn a_random_history_reads_like_the_reference(fixture: Fixture) {
    compare(fixture, 1, 0.0).await;
}

async fn another_random_history_reads_like_the_reference(fixture: Fixture) {
    compare(fixture, 4_711, 0.0).await;
}

async fn a_random_history_reads_the_same_over_restarts(fixture: Fixture) {
    compare(fixture, 42, 0.05).await;
}

/// Makes the same history in both, and reads both now and then. Now and then the engine is started
/// again, and so is the reference, which then continues as another owner would.
async fn compare(mut engine: Fixture, seed: u64, restarts: f64) {
    let mut reference = Fixture::open(Arc::new(Reference(MemoryStore::new(1)))).await;
    let mut history = History::new(seed);
    let mut dice = StdRng::seed_from_u64(seed);
    for step in 0..BATCHES {
        if dice.random_bool(restarts) {
            engine.reopen().await;
            reference.reopen().await;
        }
        let changes = history.batch();
        for fixture in [&mut engine, &mut reference] {
            let batch = fixture.batch(SHARD, changes.clone()).await;
            let batch = ShardBatch { counts: history.counts(), ..batch };
            fixture.send(vec![batch]).await.expect("committed");
        }
        if dice.random_bool(0.1) {
            let swept = engine.sweep(history.now(), 100_000).await;
            assert_eq!(swept, reference.sweep(history.now(), 100_000).await, "step {step}");
        }
        if dice.random_bool(0.1) || step + 1 == BATCHES {
            same(&engine, &reference, &history, &format!("seed {seed}, step {step}")).await;
        }
    }
}

async fn same(engine: &Fixture, reference: &Fixture, history: &History, when: &str) {
    let now = history.now();
    let (found, expected) = (engine.snapshot(now).await, reference.snapshot(now).await);
    assert_eq!(found, expected, "{when}");
    let names = History::names();
    let found = engine.store().get(SHARD, names.clone(), now).await.expect("got");
    let expected = reference.store().get(SHARD, names, now).await.expect("got");
    assert_eq!(found, expected, "names, {when}");
    let found = engine.rows(&all_states(), 3, now).await;
    let expected = reference.rows(&all_states(), 3, now).await;
    assert_eq!(found, expected, "pages of three, {when}");
}

struct Reference(MemoryStore);

impl Harness for Reference {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, StoreError>> {
        let store: Arc<dyn Store> = Arc::new(self.0.clone());
        std::future::ready(Ok(store)).boxed()
    }
}
