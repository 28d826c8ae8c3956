//! Waiting for what another process does, where nothing tells us.

use std::time::{Duration, Instant};

/// How often it is asked: short beside what a server needs to start.
const ASK_EVERY: Duration = Duration::from_millis(5);

/// Asks again and again until there is an answer, or the time is up.
pub fn until<T>(within: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + within;
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(ASK_EVERY);
    }
}
