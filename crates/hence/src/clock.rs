//! The clock: the one file that may read it, and the one that may wait for it.

#![expect(clippy::disallowed_methods, reason = "this is where the clock is read")]

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::FutureExt;
use hence_core::time::{Millis, Timestamp};
use rustix::time::{ClockId, clock_gettime};

/// Tells the time and how long to wait for it.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// How long to sleep until this instant. None: do not sleep, somebody will
    /// [poke](Clock::attach).
    fn until(&self, instant: Timestamp) -> Option<Duration>;

    /// Calls `poke` whenever the time was moved by hand.
    fn attach(&self, poke: Box<dyn Fn() + Send + Sync>);
}

/// A forward step of the wall clock larger than this is not believed at once: a mistaken clock
/// must not fire everything that is due in the next month.
const STEP_BELIEVED: Duration = Duration::from_hours(1);

/// A large step is believed when it has lasted this long.
const STEP_CONFIRMED_AFTER: Duration = Duration::from_secs(5);

/// The longest sleep: within it a step of the wall clock is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(250);

/// The system's wall clock, guarded against large forward steps.
#[derive(Default)]
pub struct SystemClock {
    steps: Mutex<Steps>,
}

/// What the wall clock showed against the clock that only counts (suspension included).
#[derive(Default)]
pub struct Steps {
    /// Wall time minus boot time, as believed.
    offset: Option<Duration>,
    /// A larger offset that was seen, and when first.
    doubted: Option<(Duration, Duration)>,
}

impl SystemClock {
    /// The clock.
    pub fn new() -> Self {
        Self::default()
    }

    fn believed(&self) -> Duration {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.judge(wall, boot_time())
    }
}

impl Steps {
    /// The time to believe, when the wall shows `wall` and the machine has run for `boot`.
    pub fn judge(&mut self, wall: Duration, boot: Duration) -> Duration {
        let offset = wall.saturating_sub(boot);
        let Some(believed) = self.offset else {
            self.offset = Some(offset);
            return wall;
        };
        if offset <= believed + STEP_BELIEVED {
            self.offset = Some(offset);
            self.doubted = None;
            return wall;
        }
        match self.doubted {
            Some((seen, since)) if offset.abs_diff(seen) < STEP_BELIEVED => {
                if boot.saturating_sub(since) >= STEP_CONFIRMED_AFTER {
                    tracing::warn!(
                        step_secs = offset.saturating_sub(believed).as_secs(),
                        "clock step confirmed"
                    );
                    self.offset = Some(offset);
                    self.doubted = None;
                    return wall;
                }
            }
            _ => {
                tracing::warn!(
                    step_secs = offset.saturating_sub(believed).as_secs(),
                    "the wall clock jumped ahead; held until it has stayed there for 5 s"
                );
                self.doubted = Some((offset, boot));
            }
        }
        boot + believed
    }
}

fn boot_time() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // Rounded down: a job due at a millisecond is never handed out before it has begun.
        Timestamp::from_millis(self.believed().as_millis() as i64)
    }

    fn until(&self, instant: Timestamp) -> Option<Duration> {
        let now = self.believed();
        let then = Duration::from_millis(u64::try_from(instant.as_millis()).unwrap_or_default());
        Some(then.saturating_sub(now).min(SLEEP_MAX))
    }

    fn attach(&self, _poke: Box<dyn Fn() + Send + Sync>) {}
}

/// The instant now on the clock that is never set.
pub(crate) fn monotonic() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// The monotonic instant this far ahead, for deadlines of IO.
pub(crate) fn deadline_in(span: Millis) -> tokio::time::Instant {
    monotonic() + Duration::from_millis(span.get())
}

/// Measures how long something took, for metrics.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts measuring.
    pub fn start() -> Self {
        Stopwatch(Instant::now())
    }

    /// The time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// How a thread of ours waits for the store.
#[derive(Clone)]
pub(crate) enum Wait {
    /// It blocks, inside this runtime.
    Blocking(tokio::runtime::Handle),
    /// It does not: the store answers at once.
    NotAtAll,
}

impl Wait {
    /// The answer.
    pub(crate) fn for_answer<T>(
        &self,
        answer: hence_store::Answer<'_, T>,
    ) -> Result<T, hence_store::StoreError> {
        self.block_on(answer)
    }

    /// Whatever comes of answers.
    pub(crate) fn block_on<T>(&self, answers: impl Future<Output = T>) -> T {
        match self {
            Wait::Blocking(runtime) => runtime.block_on(answers),
            Wait::NotAtAll => answers
                .now_or_never()
                .unwrap_or_else(|| unreachable!("a store for stepping answers without waiting")),
        }
    }
}

/// Waits before a store is tried again; blocks the calling thread.
pub(crate) fn pause(span: Duration) {
    std::thread::sleep(span);
}

/// The same for a task.
pub(crate) async fn rest(span: Duration) {
    tokio::time::sleep(span).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn small_steps_are_believed_at_once() {
        let mut steps = Steps::default();
        for (wall, boot) in [(10 * HOUR, 10), (10 * HOUR + 60, 11), (9 * HOUR, 12)] {
            assert_eq!(steps.judge(secs(wall), secs(boot)), secs(wall));
        }
    }

    #[test]
    fn a_large_step_ahead_is_held_until_it_stays() {
        let mut steps = Steps::default();
        let month = 30 * 24 * HOUR;
        assert_eq!(steps.judge(secs(HOUR), secs(100)), secs(HOUR));
        assert_eq!(steps.judge(secs(month), secs(101)), secs(HOUR + 1), "held");
        assert_eq!(steps.judge(secs(month + 3), secs(104)), secs(HOUR + 4), "still held");
        assert_eq!(steps.judge(secs(month + 6), secs(107)), secs(month + 6), "confirmed");
    }

    #[test]
    fn a_step_that_is_taken_back_never_counts() {
        let mut steps = Steps::default();
        steps.judge(secs(HOUR), secs(100));
        steps.judge(secs(100 * HOUR), secs(101));
        assert_eq!(steps.judge(secs(HOUR + 3), secs(103)), secs(HOUR + 3));
        assert_eq!(steps.judge(secs(100 * HOUR), secs(107)), secs(HOUR + 7), "doubted anew");
    }
}
