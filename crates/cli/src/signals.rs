//! The signals that ask to end: the first politely, the second at once.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::clock;
use crate::failure::Failure;

/// A second signal that comes sooner was sent together with the first, to the process and to its
/// group, as supervisors and terminals do. A person who insists takes longer.
const SECOND_AFTER_MIN: Duration = Duration::from_secs(1);

/// The signals that are always heard.
const ALWAYS: [SignalKind; 2] = [SignalKind::terminate(), SignalKind::interrupt()];
/// Those of a terminal that is closed, or where somebody is impatient. They end a process that does
/// not listen, and what it runs would go on without it.
const UNLESS_IGNORED: [SignalKind; 2] = [SignalKind::hangup(), SignalKind::quit()];

/// SIGTERM, SIGINT, SIGHUP and SIGQUIT, from now on.
pub(crate) struct Signals(Vec<Signal>);

impl Signals {
    /// Listens; what comes from here on is not lost.
    pub(crate) fn listen() -> Result<Self, Failure> {
        // Listening puts an end to ignoring, which `nohup` asked for.
        let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
        let is_heard = |kind: &SignalKind| ignored & mask(*kind) == 0;
        let kinds = ALWAYS.into_iter().chain(UNLESS_IGNORED.into_iter().filter(is_heard));
        let signals = kinds.map(signal).collect::<Result<Vec<Signal>, _>>();
        signals.map(Signals).map_err(|error| Failure::io("listening for signals", &error))
    }

    /// Waits for the first; then the second can be waited for.
    pub(crate) async fn first(mut self) -> Second {
        self.any().await;
        Second { signals: self, first: clock::instant() }
    }

    async fn any(&mut self) {
        poll_fn(|context| {
            let came = self.0.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
            if came { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// The signals that whoever started this process wants ignored, as the kernel says in
/// `/proc/self/status`. Where there is no such file nobody can be asked without unsafe code, and
/// all are heard.
fn ignored(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

/// The bit of a signal: the first signal has the lowest.
fn mask(kind: SignalKind) -> u64 {
    let bit = u32::try_from(kind.as_raw_value() - 1).unwrap_or_default();
    1_u64.checked_shl(bit).unwrap_or_default()
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
    fn what_nohup_ignores_is_read_from_the_kernel() {
        let (hangup, quit) = (mask(SignalKind::hangup()), mask(SignalKind::quit()));
        let rows = [
            ("Name:\thence\nSigIgn:\t0000000000000001\nSigCgt:\t0000000000000004\n", hangup),
            ("SigIgn:\t0000000000001005\n", hangup | quit | 0x1000),
            ("SigIgn:\t0000000000001000\n", 0x1000),
            ("SigIgn:\tnonsense\n", 0),
            ("", 0),
        ];
        for (status, expected) in rows {
            assert_eq!(ignored(status), expected, "{status}");
        }
    }

    #[test]
    fn a_second_signal_within_a_moment_is_the_first() {
        for (ms, expected) in [(0, false), (999, false), (1_000, true), (60_000, true)] {
            assert_eq!(insists(Duration::from_millis(ms)), expected, "{ms}");
        }
    }
}
