//! Chances. Everybody has dice of their own, thrown from the seed and their name: to take one actor
//! or one fault away does not change what the others do first.

use std::hash::Hasher;

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// Somebody's dice.
pub(super) struct Dice(SmallRng);

impl Dice {
    pub(super) fn new(seed: u64, name: &str) -> Self {
        // Any hasher that is the same everywhere and for ever would do.
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        hasher.write(name.as_bytes());
        hasher.write_u64(seed);
        Dice(SmallRng::seed_from_u64(hasher.finish()))
    }

    /// Whether something with this probability happens.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.0.random::<f64>() < probability
    }

    /// A number of `low..=high`.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0.random_range(low..=high)
    }

    pub(super) fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.0.random_range(0..among.len())]
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        items.shuffle(&mut self.0);
    }

    pub(super) fn word(&mut self) -> u64 {
        self.0.random()
    }
}

struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
