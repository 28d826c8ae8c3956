//! The timer of a connection. Each request has two bounds, on how long its head and its answer may
//! take, and nearly all keep both. A timer of the runtime for each would be entered into a list of
//! all timers and crossed out again, behind a lock that all threads share. So a connection has one:
//! it goes on when nobody needs it any more, and is set again only when it rings too early.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use hyper_util::rt::TokioTimer;

/// The timer. For the task of its connection alone: it wakes whoever asked last.
#[derive(Clone)]
pub(crate) struct Alarm(Arc<Mutex<Set>>);

/// What it is set for.
struct Set {
    at: Instant,
    sleep: Pin<Box<dyn Sleep>>,
}

impl Alarm {
    /// One that will be asked for the first time in about this span.
    pub(crate) fn new(span: Duration) -> Self {
        let at = TokioTimer::new().now() + span;
        Alarm(Arc::new(Mutex::new(Set { at, sleep: TokioTimer::new().sleep_until(at) })))
    }

    /// What comes of `future`; none if that takes longer than `span`.
    pub(crate) async fn within<F: Future>(&self, span: Duration, future: F) -> Option<F::Output> {
        let deadline = self.now() + span;
        let mut future = pin!(future);
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => self.poll_until(cx, deadline).map(|()| None),
        })
        .await
    }

    fn poll_until(&self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        let mut set = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if set.at > deadline {
            set.to(deadline);
        }
        while set.sleep.as_mut().poll(cx).is_ready() {
            if set.at >= deadline {
                return Poll::Ready(());
            }
            // It was set for something else that has been done with in time.
            set.to(deadline);
        }
        Poll::Pending
    }
}

impl Set {
    fn to(&mut self, at: Instant) {
        self.at = at;
        TokioTimer::new().reset(&mut self.sleep, at);
    }
}

/// For hyper, which bounds the time of a head.
impl Timer for Alarm {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Until { alarm: self.clone(), deadline })
    }

    fn now(&self) -> Instant {
        TokioTimer::new().now()
    }
}

/// Ends at the deadline.
struct Until {
    alarm: Alarm,
    deadline: Instant,
}

impl Sleep for Until {}

impl Future for Until {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.alarm.poll_until(cx, self.deadline)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn each_bound_is_kept_whatever_the_timer_was_set_for() {
        let alarm = Alarm::new(SECOND);
        // A bound that was kept leaves the timer where nobody needs it: before the next, or after.
        let rows = [(1, 9), (10, 3), (2, 9), (30, 99), (5, 1), (60, 7), (20, 99), (1, 9)];
        for (bound, takes) in rows {
            let started = alarm.now();
            let work = tokio::time::timeout(takes * SECOND, pending::<()>());
            let done = alarm.within(bound * SECOND, work).await;
            assert_eq!(done.is_some(), takes < bound, "{takes} of {bound}");
            let (took, expected) = (alarm.now() - started, takes.min(bound) * SECOND);
            assert!((expected..expected + SECOND / 100).contains(&took), "{took:?}, {expected:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn two_bounds_of_one_task_are_kept_both() {
        let alarm = Alarm::new(SECOND);
        let started = alarm.now();
        let head = async {
            alarm.sleep(3 * SECOND).await;
            alarm.now() - started
        };
        let answer = async {
            assert_eq!(alarm.within(5 * SECOND, pending::<()>()).await, None);
            alarm.now() - started
        };
        let (head, answer) = tokio::join!(head, answer);
        assert_eq!((head.as_secs(), answer.as_secs()), (3, 5));
    }
}
