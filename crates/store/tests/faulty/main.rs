//! A store that fails now and then: what it does to calls, and that sending again is always safe.

mod stubborn;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use hence_core::id::ShardId;
use hence_store::conformance::{Case, Fixture, Harness, cases};
use hence_store::{
    Capabilities, ErrorKind, FaultCounts, Faults, Faulty, MemoryStore, Store, StoreError,
};

use stubborn::Stubborn;

const BAD: Faults = Faults {
    delayed: 0.3,
    delay_polls_max: 5,
    refused: 0.1,
    timed_out: 0.1,
    lost: 0.1,
    only_commits: false,
};
const SHARD: ShardId = ShardId(0);

struct Bad(Arc<Faulty<MemoryStore>>);

impl Harness for Bad {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, StoreError>> {
        let store: Arc<dyn Store> = Arc::new(Stubborn(Arc::clone(&self.0)));
        std::future::ready(Ok(store)).boxed()
    }

    fn keeps(&self, _: &Capabilities) -> bool {
        true
    }
}

fn faulty(seed: u64, faults: Faults) -> Arc<Faulty<MemoryStore>> {
    Arc::new(Faulty::new(Arc::new(MemoryStore::new(4)), seed, faults))
}

/// Runs a case through a bad store, and says what went wrong under way.
fn run(case: &Case, seed: u64) -> FaultCounts {
    let bad = Arc::new(Bad(faulty(seed, BAD)));
    let harness: Arc<dyn Harness> = Arc::clone(&bad) as _;
    bad.block_on(Box::pin(async {
        (case.run)(Fixture::open(harness).await).await;
    }));
    bad.0.counts()
}

/// Whether a case must hold for a caller who sends again until there is an answer. Those of S11
/// need not: what a lost sweep would have reported cannot be asked for again. Nor does one that
/// compares what is there with what was acknowledged: a commit without an answer may be there.
fn holds_when_sent_again(case: &Case) -> bool {
    // The second counts on an order that delays do not keep.
    let others = [
        "concurrency/a_takeover_stops_the_former_owner_for_good",
        "order/batches_sent_at_once_take_effect_in_order",
    ];
    ["S2", "S3", "S4", "S6"].contains(&case.promise) && !others.contains(&case.name)
}

#[test]
fn sending_again_is_always_safe() {
    let mut total = FaultCounts::default();
    for case in cases().filter(|case| holds_when_sent_again(case)) {
        for seed in 0..3 {
            let counts = run(case, seed);
            total.calls += counts.calls;
            total.delayed += counts.delayed;
            total.refused += counts.refused;
            total.timed_out += counts.timed_out;
            total.lost += counts.lost;
        }
    }
    let rare = [total.refused, total.timed_out, total.lost].into_iter().min();
    assert!(rare > Some(total.calls / 20), "faults were to be common: {total:?}");
    assert!(total.delayed > total.calls / 5, "delays were to be common: {total:?}");
}

#[test]
fn a_refused_call_was_not_executed() {
    let store = faulty(1, Faults { refused: 1.0, ..Faults::default() });
    let answer = store.acquire(SHARD, "a".to_string()).now_or_never().expect("answered at once");
    assert_eq!(answer.map_err(|error| error.kind()), Err(ErrorKind::Unavailable));
    assert_eq!(store.counts(), FaultCounts { calls: 1, refused: 1, ..FaultCounts::default() });
}

#[test]
fn a_call_that_timed_out_was_executed() {
    let inner = Arc::new(MemoryStore::new(1));
    let faults = Faults { timed_out: 1.0, ..Faults::default() };
    let store = Faulty::new(Arc::clone(&inner), 1, faults);
    let answer = store.acquire(SHARD, "a".to_string()).now_or_never().expect("answered at once");
    assert_eq!(answer.map_err(|error| error.kind()), Err(ErrorKind::Unavailable));
    assert_eq!(epoch_after(&inner), 2, "the first one was given to the call that timed out");
}

#[test]
fn a_lost_call_was_executed_and_stays_silent() {
    let inner = Arc::new(MemoryStore::new(1));
    let store = Faulty::new(Arc::clone(&inner), 1, Faults { lost: 1.0, ..Faults::default() });
    assert!(store.acquire(SHARD, "a".to_string()).now_or_never().is_none());
    assert_eq!(epoch_after(&inner), 2, "the first one was given to the call that was lost");
    assert_eq!(store.counts().lost, 1);
}

#[test]
fn a_delayed_call_asks_to_be_polled_again() {
    let store = faulty(1, Faults { delayed: 1.0, delay_polls_max: 3, ..Faults::default() });
    assert!(store.recover(SHARD).now_or_never().is_none(), "not at the first poll");
    let bad = Bad(Arc::clone(&store));
    bad.block_on(Box::pin(async {
        store.recover(SHARD).await.expect("executed in the end");
    }));
}

#[test]
fn no_faults_means_none() {
    let store = faulty(1, Faults::default());
    for _ in 0..100 {
        store.recover(SHARD).now_or_never().expect("at once").expect("well");
    }
    assert_eq!(store.counts(), FaultCounts { calls: 100, ..FaultCounts::default() });
}

#[test]
fn the_same_seed_gives_the_same_faults() {
    let trace = |seed| {
        let store = faulty(seed, Faults { delayed: 0.0, ..BAD });
        let kind = |answer: Option<Result<_, StoreError>>| match answer {
            None => 'l',
            Some(Err(_)) => 'e',
            Some(Ok(_)) => '.',
        };
        (0..100).map(|_| kind(store.recover(SHARD).now_or_never())).collect::<String>()
    };
    assert_eq!(trace(7), trace(7));
    assert_ne!(trace(7), trace(8));
}

fn epoch_after(inner: &MemoryStore) -> u32 {
    let answer = inner.acquire(SHARD, "b".to_string()).now_or_never().expect("answered at once");
    answer.expect("acquired").0
}
