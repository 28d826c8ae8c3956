//! For tests of your own schedules: a clock that you move, and a Hence in memory that goes by it.
//!
//! ```
//! use hence::testing::ManualClock;
//! use hence::core::time::{Millis, Timestamp};
//! use hence::{Hence, NewJob, store::memory::MemoryStore};
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
//! let (sent, mut inbox) = tokio::sync::mpsc::unbounded_channel();
//! let hence = Hence::builder(Arc::new(MemoryStore::new(1)))
//!     .clock(Arc::new(clock.clone()))
//!     .handler("greet", move |name: String, _| {
//!         let sent = sent.clone();
//!         async move { Ok(sent.send(name)?) }
//!     })?
//!     .start()
//!     .await?;
//!
//! let job = NewJob::handler("greet")?.json(&"Ada")?.after(Millis::from_secs(3600));
//! hence.client().add(job).await?;
//! clock.advance(Millis::from_secs(3599));
//! assert!(inbox.try_recv().is_err(), "not yet");
//! clock.advance(Millis::from_secs(1));
//! assert_eq!(inbox.recv().await.as_deref(), Some("Ada"));
//! # hence.shutdown(std::time::Duration::from_secs(1)).await;
//! # Ok(())
//! # }
//! ```

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hence_core::time::{Millis, Timestamp};

use crate::clock::Clock;

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
