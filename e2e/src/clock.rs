//! The machine's clocks. All processes of a test run on one machine, so that their stamps can be
//! compared without tolerance.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use hence_testkit::until;

/// Microseconds since 1970, by the wall clock.
pub fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}

/// Milliseconds since 1970, by the wall clock.
pub fn now_ms() -> i64 {
    now_us() / 1_000
}

/// Waits for so many milliseconds.
pub fn sleep_ms(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

/// Microseconds since 1970 of an RFC 3339 text.
pub fn parse_us(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_microsecond)
}
