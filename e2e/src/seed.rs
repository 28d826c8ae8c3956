//! Random numbers that can be had again: a failed run prints its seed, `HENCE_SEED` replays it.

use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random numbers (splitmix64).
#[derive(Debug)]
pub struct Seed(AtomicU64);

impl Seed {
    /// The seed of `HENCE_SEED`, else a fresh one; and its number, to be printed.
    pub fn from_env() -> (Self, u64) {
        let given = std::env::var("HENCE_SEED").ok().and_then(|text| text.parse().ok());
        let number = given.unwrap_or_else(|| crate::clock::now_us().unsigned_abs());
        (Seed::new(number), number)
    }

    /// The numbers that follow from this one.
    pub fn new(number: u64) -> Self {
        Seed(AtomicU64::new(number))
    }

    /// Another source, for another thread: what it gives does not depend on the order of threads.
    #[must_use]
    pub fn fork(&self, which: u64) -> Self {
        Seed::new(mix(self.0.load(Ordering::Relaxed) ^ mix(which)))
    }

    /// Any number.
    pub fn any(&self) -> u64 {
        mix(self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed))
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&self, low: u64, high: u64) -> u64 {
        low + self.any() % (high - low + 1)
    }

    /// True in so many of a hundred cases.
    pub fn percent(&self, chance: u64) -> bool {
        self.any() % 100 < chance
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
