//! For tests of your own jobs and schedules: a Hence in memory, and a clock that you move.
//!
//! Nothing sleeps and nothing is polled: [`TestHence::advance`] goes from deadline to deadline and
//! comes back when everything that was due has ended.
//!
//! ```
//! use hence::core::time::Millis;
//! use hence::testing::{TestHence, in_memory};
//! use hence::NewJob;
//! use std::sync::{Arc, Mutex};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let greeted = Arc::new(Mutex::new(Vec::new()));
//! let list = Arc::clone(&greeted);
//! let builder = in_memory().handler("greet", move |name: String, _| {
//!     let list = Arc::clone(&list);
//!     async move { Ok(list.lock().unwrap().push(name)) }
//! })?;
//! let hence = TestHence::start(builder).await?;
//!
//! let job = NewJob::handler("greet")?.json(&"Ada")?.after(Millis::from_secs(3600));
//! hence.client().add(job).await?;
//! hence.advance(Millis::from_secs(3599)).await?;
//! assert!(greeted.lock().unwrap().is_empty(), "not yet");
//! hence.advance(Millis::from_secs(1)).await?;
//! assert_eq!(*greeted.lock().unwrap(), ["Ada"]);
//! # Ok(())
//! # }
//! ```

use std::ops::Deref;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hence_core::time::{Millis, Timestamp};
use hence_store::MemoryStore;

use crate::builder::{Builder, Hence};
use crate::clock::Clock;
use crate::error::Error;

/// Where a test's clock stands at first: a Monday, 2029-01-01T00:00:00Z.
pub const TEST_EPOCH: Timestamp = Timestamp::from_millis(1_861_920_000_000);

/// Begins a Hence on an empty store in memory.
pub fn in_memory() -> Builder {
    Builder::new(Arc::new(MemoryStore::new(1)))
}

/// A running Hence and the clock it goes by. It can do all that a [`Hence`] can.
#[must_use = "it stops when it is dropped"]
pub struct TestHence {
    hence: Hence,
    clock: ManualClock,
}

impl TestHence {
    /// Starts with a clock that shows [`TEST_EPOCH`].
    pub async fn start(builder: Builder) -> Result<Self, Error> {
        Self::start_at(builder, ManualClock::new(TEST_EPOCH)).await
    }

    /// Starts with this clock, say the one of an earlier life on the same store.
    pub async fn start_at(builder: Builder, clock: ManualClock) -> Result<Self, Error> {
        let hence = builder.clock(Arc::new(clock.clone())).start().await?;
        Ok(TestHence { hence, clock })
    }

    /// The clock, to be moved by hand; [`settle`](TestHence::settle) waits for what follows.
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// Lets this much time pass, as it would pass by itself: from one deadline to the next, so that
    /// every retry and every tick of a schedule happens at its own instant. Comes back when
    /// everything due by then has [settled](TestHence::settle).
    pub async fn advance(&self, span: Millis) -> Result<(), Error> {
        let end = self.clock.now().plus(span);
        while let Some(next) = self.settle().await?.filter(|next| *next <= end) {
            self.clock.set(next);
        }
        self.clock.set(end);
        self.settle().await?;
        Ok(())
    }

    /// Moves the clock on by this much in one step, as for a machine that was asleep, and waits
    /// until everything has [settled](TestHence::settle).
    pub async fn jump(&self, span: Millis) -> Result<(), Error> {
        self.clock.advance(span);
        self.settle().await?;
        Ok(())
    }

    /// Waits until nothing is due any more, all deliveries have ended and all of that is durable.
    /// Says when something is due next. Jobs that wait for a worker, or are with one, are not
    /// waited for: workers come and go as they like.
    pub async fn settle(&self) -> Result<Option<Timestamp>, Error> {
        self.hence.settle().await
    }

    /// See [`Hence::shutdown`].
    pub async fn shutdown(self, grace: Duration) {
        self.hence.shutdown(grace).await;
    }
}

impl Deref for TestHence {
    type Target = Hence;

    fn deref(&self) -> &Hence {
        &self.hence
    }
}

type Poke = Box<dyn Fn() + Send + Sync>;

/// A clock that stands still until it is moved. A clone is the same clock.
#[derive(Clone, Default)]
pub struct ManualClock {
    inner: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    now: AtomicI64,
    pokes: Mutex<Vec<Poke>>,
}

impl ManualClock {
    /// A clock that shows this instant.
    pub fn new(now: Timestamp) -> Self {
        let clock = ManualClock::default();
        clock.inner.now.store(now.as_millis(), Ordering::SeqCst);
        clock
    }

    /// Moves on by this much. What is due by then happens as soon as its threads get to it.
    pub fn advance(&self, span: Millis) {
        self.set(self.now().plus(span));
    }

    /// Shows this instant from now on, also an earlier one.
    pub fn set(&self, now: Timestamp) {
        self.inner.now.store(now.as_millis(), Ordering::SeqCst);
        for poke in self.inner.pokes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            poke();
        }
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.inner.now.load(Ordering::SeqCst))
    }

    fn until(&self, instant: Timestamp) -> Option<Duration> {
        (instant <= self.now()).then_some(Duration::ZERO)
    }

    fn attach(&self, poke: Poke) {
        self.inner.pokes.lock().unwrap_or_else(PoisonError::into_inner).push(poke);
    }
}
