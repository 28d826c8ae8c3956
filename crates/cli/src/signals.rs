//! The signals that ask to end: the first politely, the second at once.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::clock;
use crate::failure::Failure;

/// A second signal that comes sooner was sent together with the first, to the process and to its
/// group, as supervisors and terminals do. A person who insists takes longer.
const SECOND_AFTER_MIN: Duration = Duration::from_secs(1);

/// SIGTERM and SIGINT, from now on.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens; what comes from here on is not lost.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen =
            |kind| signal(kind).map_err(|error| Failure::io("listening for signals", &error));
        let (terminate, interrupt) =
            (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        Ok(Signals { terminate, interrupt })
    }

    /// Waits for the first; then the second can be waited for.
    pub(crate) async fn first(mut self) -> Second {
        self.any().await;
        Second { signals: self, first: clock::instant() }
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Signals of which the first has come.
pub(crate) struct Second {
    signals: Signals,
    first: clock::Instant,
}

impl Second {
    /// Waits for one that was sent by somebody who knew of the first.
    pub(crate) async fn second(mut self) {
        loop {
            self.signals.any().await;
            if insists(clock::instant() - self.first) {
                return;
            }
        }
    }
}

/// Whether a signal so long after the first means something else than the first.
fn insists(after_first: Duration) -> bool {
    after_first >= SECOND_AFTER_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_signal_within_a_moment_is_the_first() {
        for (ms, expected) in [(0, false), (999, false), (1_000, true), (60_000, true)] {
            assert_eq!(insists(Duration::from_millis(ms)), expected, "{ms}");
        }
    }
}
