//! The one file of the command line that reads a clock or sleeps. The server's clock decides about
//! jobs; this one only words times for people and paces the client's own loops.

#![expect(
    clippy::disallowed_methods,
    reason = "this is where the client reads the clock and sleeps"
)]

pub(crate) use std::time::Instant;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch by this machine's clock.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as i64
}

/// A moment on the clock that never goes back.
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Waits.
pub(crate) async fn sleep(span: Duration) {
    tokio::time::sleep(span).await;
}

/// Waits for `work`, at most so long.
pub(crate) async fn within<T>(span: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(span, work).await.ok()
}
