//! S6: a store gives back exactly what it was given, so that everything can be moved into it and
//! out of it while work goes on, and broken off and gone on with at any moment.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use hence_core::id::ShardId;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::fixture::{Fixture, SHARD};
use super::random::History;
use super::{Harness, table};
use crate::moving::{Begin, Moving};
use crate::{ErrorKind, MemoryStore, ShardBatch, Store, StoreError};

table! { "moving":
    S6 nothing everything_moves_in_while_work_goes_on;
    S6 nothing everything_moves_out_while_work_goes_on;
    S6 nothing a_move_that_broke_off_goes_on;
    S6 nothing a_store_that_holds_something_is_not_moved_into;
}

/// Batches before, during and after a move.
const BATCHES: usize = 120;

/// Jobs copied in a step: few, so that much happens between two steps.
const PAGE: usize = 3;

/// The same store, whenever it is opened.
struct Given(Arc<dyn Store>);

impl Harness for Given {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, StoreError>> {
        std::future::ready(Ok(Arc::clone(&self.0))).boxed()
    }
}

/// A history that is made in a store and in the reference.
struct Work {
    history: History,
    dice: StdRng,
    reference: Fixture,
}

impl Work {
    async fn new(seed: u64) -> Self {
        let reference: Arc<dyn Store> = Arc::new(MemoryStore::new(1));
        Work {
            history: History::new(seed),
            dice: StdRng::seed_from_u64(seed),
            reference: given(reference).await,
        }
    }

    /// One batch in both.
    async fn go_on(&mut self, store: &mut Fixture) {
        let changes = self.history.batch();
        for fixture in [store, &mut self.reference] {
            let batch = fixture.batch(SHARD, changes.clone()).await;
            let batch = ShardBatch { counts: self.history.counts(), ..batch };
            // As the library does it: the same batch until there is an answer.
            while let Err(error) = fixture.send(vec![batch.clone()]).await {
                assert!(error.is_retryable(), "{error}");
            }
        }
    }

    async fn compare(&self, store: &Fixture, when: &str) {
        let now = self.history.now();
        let (found, expected) = (store.snapshot(now).await, self.reference.snapshot(now).await);
        assert_eq!(found.differs_from(&expected), None, "{when}");
    }
}

async fn given(store: Arc<dyn Store>) -> Fixture {
    Fixture::open(Arc::new(Given(store))).await
}

/// A move, and a hand that works on it. All shards are owned.
async fn begin(from: &Arc<dyn Store>, to: &Arc<dyn Store>, begin: Begin) -> (Arc<Moving>, Fixture) {
    let moving = Moving::new(Arc::clone(from), Arc::clone(to), begin).expect("the same shards");
    let moving = Arc::new(moving.page(PAGE));
    let mut fixture = given(Arc::clone(&moving) as Arc<dyn Store>).await;
    for shard in 0..from.capabilities().shards {
        fixture.acquire(ShardId(shard)).await;
    }
    (moving, fixture)
}

/// Moves while work goes on; no less than a batch between two steps until `steps` were taken.
async fn work_and_step(
    work: &mut Work,
    moving: &Moving,
    fixture: &mut Fixture,
    steps: usize,
) -> bool {
    for _ in 0..steps {
        for _ in 0..work.dice.random_range(1..4) {
            work.go_on(fixture).await;
        }
        match moving.step(work.history.now()).await {
            Ok(moved) if moved.done => return true,
            Err(error) if !error.is_retryable() => panic!("{error}"),
            _ => {}
        }
        work.compare(fixture, "during the move").await;
    }
    false
}

/// Everything arrives, and from then on the new store is used alone.
async fn finish(work: &mut Work, moving: &Moving, fixture: &mut Fixture, to: &Arc<dyn Store>) {
    assert!(work_and_step(work, moving, fixture, 10_000).await, "the move ends");
    for _ in 0..BATCHES {
        work.go_on(fixture).await;
    }
    work.compare(fixture, "after the move").await;
    work.compare(&given(Arc::clone(to)).await, "in the new store itself").await;
}

async fn move_all(from: Arc<dyn Store>, to: Arc<dyn Store>, seed: u64) {
    let mut work = Work::new(seed).await;
    let mut before = given(Arc::clone(&from)).await;
    for _ in 0..BATCHES {
        work.go_on(&mut before).await;
    }
    drop(before);
    let (moving, mut fixture) = begin(&from, &to, Begin::Afresh).await;
    finish(&mut work, &moving, &mut fixture, &to).await;
}

fn memory_like(store: &Arc<dyn Store>) -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(store.capabilities().shards))
}

async fn everything_moves_in_while_work_goes_on(fixture: Fixture) {
    let to = fixture.store();
    move_all(memory_like(&to), to, 7).await;
}

async fn everything_moves_out_while_work_goes_on(fixture: Fixture) {
    let from = fixture.store();
    let to = memory_like(&from);
    move_all(from, to, 8).await;
}

async fn a_move_that_broke_off_goes_on(fixture: Fixture) {
    let to = fixture.store();
    let from = memory_like(&to);
    let mut work = Work::new(9).await;
    let mut alone = given(Arc::clone(&from)).await;
    for _ in 0..BATCHES {
        work.go_on(&mut alone).await;
    }
    for _ in 0..3 {
        let (moving, mut fixture) = begin(&from, &to, Begin::GoOn).await;
        assert!(!work_and_step(&mut work, &moving, &mut fixture, 5).await, "it breaks off");
        drop((moving, fixture));
        // Somebody works on the old store alone, and the new one knows nothing of it.
        alone.acquire(SHARD).await;
        for _ in 0..BATCHES / 4 {
            work.go_on(&mut alone).await;
        }
    }
    let (moving, mut fixture) = begin(&from, &to, Begin::GoOn).await;
    finish(&mut work, &moving, &mut fixture, &to).await;
}

async fn a_store_that_holds_something_is_not_moved_into(mut fixture: Fixture) {
    fixture.commit(vec![super::build::put(&super::build::job(1))]).await;
    let to = fixture.store();
    let moving = Moving::new(memory_like(&to), to, Begin::Afresh).expect("the same shards");
    let refused = moving.acquire(SHARD, "node 1".to_owned()).await;
    assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::Unsupported));
}

#[cfg(test)]
mod tests {
    use hence_core::id::LetterId;
    use hence_core::time::Timestamp;

    use super::*;
    use crate::Change;
    use crate::conformance::block::block_on;
    use crate::faulty::{Faults, Faulty};

    const SEEDS: u64 = 60;

    fn memory() -> Arc<dyn Store> {
        Arc::new(MemoryStore::new(2))
    }

    /// Commits that fail, and commits that were made although they seem to have failed.
    fn faulty(seed: u64) -> (Arc<dyn Store>, Arc<Faulty<MemoryStore>>) {
        let faults =
            Faults { refused: 0.1, timed_out: 0.1, only_commits: true, ..Faults::default() };
        let store = Arc::new(Faulty::new(Arc::new(MemoryStore::new(2)), seed, faults));
        (Arc::clone(&store) as Arc<dyn Store>, store)
    }

    #[test]
    fn whoever_waited_during_the_move_hears_of_a_letter_in_the_new_store() {
        block_on(async {
            let (from, to) = (memory(), Arc::new(MemoryStore::new(2)));
            let new = Arc::clone(&to) as Arc<dyn Store>;
            let (moving, _fixture) = begin(&from, &new, Begin::Afresh).await;
            let waiting = moving.await_letters();
            let now = History::new(1).now();
            while !moving.step(now).await.expect("memory does not fail").done {}
            let id = to.write_letter(now, "a");
            assert!(waiting.now_or_never().is_some_and(|told| told.is_ok()), "it was not told");
            let letters = moving.letters(LetterId(0), 10).await.expect("read");
            assert_eq!(letters.iter().map(|letter| letter.id).collect::<Vec<_>>(), [id]);
        });
    }

    #[test]
    fn a_letter_of_the_old_store_takes_none_of_the_new_one() {
        let (old, new) = (MemoryStore::new(1), MemoryStore::new(1));
        let from: Arc<dyn Store> = Arc::new(old.clone());
        let to: Arc<dyn Store> = Arc::new(new.clone());
        let taken = |id| Change::LetterTaken { id, refused: None };
        block_on(Box::pin(async {
            let (moving, mut fixture) = begin(&from, &to, Begin::Afresh).await;
            let id = old.write_letter(Timestamp::EPOCH, "old");
            assert_eq!(new.write_letter(Timestamp::EPOCH, "new"), id);
            assert_eq!(moving.letters(LetterId(0), 9).await.expect("read").len(), 1);
            while !moving.step(Timestamp::EPOCH).await.expect("a step").done {}
            fixture.commit(vec![taken(id)]).await;
            let left = moving.letters(LetterId(0), 9).await.expect("read");
            assert_eq!(left.iter().map(|it| &it.body[..]).collect::<Vec<_>>(), [b"new"]);
            fixture.commit(vec![taken(id)]).await;
            assert!(moving.letters(LetterId(0), 9).await.expect("read").is_empty());
        }));
    }

    #[test]
    fn every_history_moves() {
        for seed in 0..SEEDS {
            block_on(Box::pin(move_all(memory(), memory(), seed)));
        }
    }

    #[test]
    fn every_history_moves_from_a_store_that_fails_now_and_then() {
        for seed in 0..SEEDS {
            let (from, faults) = faulty(seed);
            block_on(Box::pin(move_all(from, memory(), seed)));
            assert!(faults.counts().timed_out > 0 && faults.counts().refused > 0);
        }
    }

    #[test]
    fn every_history_moves_to_a_store_that_fails_now_and_then() {
        for seed in 0..SEEDS {
            let (to, faults) = faulty(seed);
            block_on(Box::pin(move_all(memory(), to, seed)));
            assert!(faults.counts().timed_out > 0 && faults.counts().refused > 0);
        }
    }
}
