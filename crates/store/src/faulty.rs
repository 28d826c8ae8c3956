//! An engine that has bad days: wraps another one, and delays, refuses and loses calls at random,
//! from a seed. For tests of whoever must cope with it. It never sleeps and never lies: a call that
//! it answers with `Ok` was executed once.

use std::fmt;
use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use futures::FutureExt;
use hence_core::id::{Epoch, JobName, JobNumber, LetterId, QueueName, ShardId};
use hence_core::job::AttemptRecord;
use hence_core::schedule::OccurrenceRecord;
use hence_core::time::{Millis, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::{
    Answer, Capabilities, ErrorKind, LedgerRequest, Letter, ListRequest, LiveJob, Page, Place,
    Pressure, Recovered, ShardBatch, Store, StoreError, StoredJob,
};

/// How often what goes wrong: probabilities per call, each from 0 to 1. The three last exclude each
/// other, so they must not exceed 1 together.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Faults {
    /// The call is polled some times before anything happens.
    pub delayed: f64,
    /// How many times at most.
    pub delay_polls_max: u32,
    /// The call is answered with [`ErrorKind::Unavailable`] and was not executed.
    pub refused: f64,
    /// The call was executed, and is answered with [`ErrorKind::Unavailable`] all the same.
    pub timed_out: f64,
    /// The call was executed, and no answer ever comes: the caller must give up by itself.
    pub lost: f64,
    /// Only commits meet them.
    pub only_commits: bool,
}

/// How often what went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultCounts {
    /// Calls in all.
    pub calls: u64,
    /// See [`Faults::delayed`].
    pub delayed: u64,
    /// See [`Faults::refused`].
    pub refused: u64,
    /// See [`Faults::timed_out`].
    pub timed_out: u64,
    /// See [`Faults::lost`].
    pub lost: u64,
}

/// A store that fails now and then. The same seed and the same calls give the same faults.
pub struct Faulty<S: ?Sized = dyn Store> {
    inner: Arc<S>,
    faults: Faults,
    dice: Mutex<StdRng>,
    calls: AtomicU64,
    delayed: AtomicU64,
    refused: AtomicU64,
    timed_out: AtomicU64,
    lost: AtomicU64,
}

/// What happens to one call.
#[derive(Clone, Copy)]
struct Fortune {
    polls: u32,
    end: End,
}

impl Fortune {
    const GOOD: Fortune = Fortune { polls: 0, end: End::Fine };
}

#[derive(Clone, Copy)]
enum End {
    Fine,
    Refused,
    TimedOut,
    Lost,
}

impl<S: Store + ?Sized> Faulty<S> {
    /// Wraps `inner`.
    pub fn new(inner: Arc<S>, seed: u64, faults: Faults) -> Self {
        let ends = faults.refused + faults.timed_out + faults.lost;
        assert!((0.0..=1.0).contains(&ends), "these exclude each other: {faults:?}");
        Faulty {
            inner,
            faults,
            dice: Mutex::new(StdRng::seed_from_u64(seed)),
            calls: AtomicU64::default(),
            delayed: AtomicU64::default(),
            refused: AtomicU64::default(),
            timed_out: AtomicU64::default(),
            lost: AtomicU64::default(),
        }
    }

    /// What fired so far. A test that counts on faults must see here that there were some.
    pub fn counts(&self) -> FaultCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FaultCounts {
            calls: read(&self.calls),
            delayed: read(&self.delayed),
            refused: read(&self.refused),
            timed_out: read(&self.timed_out),
            lost: read(&self.lost),
        }
    }

    fn draw(&self) -> Fortune {
        let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
        // Always the same number of draws, so that one fault more does not change all that follow.
        let (delay, polls): (f64, f64) = (dice.random(), dice.random());
        let end: f64 = dice.random();
        drop(dice);
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut fortune = Fortune::GOOD;
        if delay < self.faults.delayed {
            self.delayed.fetch_add(1, Ordering::Relaxed);
            fortune.polls = 1 + (polls * f64::from(self.faults.delay_polls_max)) as u32;
        }
        let Faults { refused, timed_out, lost, .. } = self.faults;
        let (counter, end) = match end {
            end if end < refused => (&self.refused, End::Refused),
            end if end < refused + timed_out => (&self.timed_out, End::TimedOut),
            end if end < refused + timed_out + lost => (&self.lost, End::Lost),
            _ => return fortune,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        Fortune { end, ..fortune }
    }

    /// One call, with its fortune drawn now and `call` made only if it is to be.
    fn call<'a, T: Send + 'a>(
        &'a self,
        call: impl FnOnce(&'a S) -> Answer<'a, T> + Send + 'a,
    ) -> Answer<'a, T> {
        let fortune = if self.faults.only_commits { Fortune::GOOD } else { self.draw() };
        self.meet(fortune, call)
    }

    fn meet<'a, T: Send + 'a>(
        &'a self,
        Fortune { polls, end }: Fortune,
        call: impl FnOnce(&'a S) -> Answer<'a, T> + Send + 'a,
    ) -> Answer<'a, T> {
        async move {
            come_back(polls).await;
            if let End::Refused = end {
                return Err(unavailable("it was not executed"));
            }
            let answer = call(&self.inner).await;
            match end {
                End::Fine | End::Refused => answer,
                End::TimedOut => Err(unavailable("it was executed, but too late to say so")),
                End::Lost => pending().await,
            }
        }
        .boxed()
    }
}

/// Is not ready so many times, and asks to be polled again each time.
async fn come_back(mut times: u32) {
    poll_fn(move |context| {
        if times == 0 {
            return Poll::Ready(());
        }
        times -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn unavailable(what: &str) -> StoreError {
    StoreError::new(ErrorKind::Unavailable, format!("call a faulty store: {what}"))
}

impl<S: ?Sized> fmt::Debug for Faulty<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty").field("faults", &self.faults).finish_non_exhaustive()
    }
}

impl<S: Store + ?Sized> Store for Faulty<S> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn commit(&self, batches: Vec<ShardBatch>) -> Answer<'_, ()> {
        let fortune = self.draw();
        self.meet(fortune, move |inner| inner.commit(batches))
    }

    fn due(
        &self,
        shard: ShardId,
        queue: QueueName,
        after: Place,
        limit: usize,
    ) -> Answer<'_, Vec<LiveJob>> {
        self.call(move |inner| inner.due(shard, queue, after, limit))
    }

    fn recover(&self, shard: ShardId) -> Answer<'_, Recovered> {
        self.call(move |inner| inner.recover(shard))
    }

    fn get(
        &self,
        shard: ShardId,
        names: Vec<JobName>,
        now: Timestamp,
    ) -> Answer<'_, Vec<Option<StoredJob>>> {
        self.call(move |inner| inner.get(shard, names, now))
    }

    fn list(&self, shard: ShardId, request: ListRequest) -> Answer<'_, Page> {
        self.call(move |inner| inner.list(shard, request))
    }

    fn attempts(
        &self,
        shard: ShardId,
        name: JobName,
        number: JobNumber,
    ) -> Answer<'_, Vec<AttemptRecord>> {
        self.call(move |inner| inner.attempts(shard, name, number))
    }

    fn occurrences(
        &self,
        shard: ShardId,
        request: LedgerRequest,
    ) -> Answer<'_, Vec<OccurrenceRecord>> {
        self.call(move |inner| inner.occurrences(shard, request))
    }

    fn sweep(
        &self,
        shard: ShardId,
        now: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<(QueueName, u64)>> {
        self.call(move |inner| inner.sweep(shard, now, limit))
    }

    fn acquire(&self, shard: ShardId, node: String) -> Answer<'_, Epoch> {
        self.call(move |inner| inner.acquire(shard, node))
    }

    fn release(&self, shard: ShardId, epoch: Epoch) -> Answer<'_, ()> {
        self.call(move |inner| inner.release(shard, epoch))
    }

    fn renew(&self, shard: ShardId, epoch: Epoch, tenure: Millis) -> Answer<'_, Option<Timestamp>> {
        self.call(move |inner| inner.renew(shard, epoch, tenure))
    }

    fn letters(&self, after: LetterId, limit: usize) -> Answer<'_, Vec<Letter>> {
        self.call(move |inner| inner.letters(after, limit))
    }

    fn await_letters(&self) -> Answer<'_, ()> {
        self.inner.await_letters()
    }

    fn pressure(&self) -> Pressure {
        self.inner.pressure()
    }

    fn health(&self) -> Result<(), StoreError> {
        self.inner.health()
    }
}
