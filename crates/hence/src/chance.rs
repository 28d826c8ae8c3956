//! Where randomness enters: ids, the jitter of retries and of reconnecting, the seed of the core's
//! maps.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hence_core::id::JobId;
use hence_core::time::Timestamp;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A source of random numbers. A clone is the same source.
#[derive(Clone, Default)]
pub(crate) struct Chance {
    /// None: the system's.
    seeded: Option<Arc<Mutex<StdRng>>>,
    /// The number in the last id.
    last_id: Arc<Mutex<u128>>,
}

impl Chance {
    /// The same numbers for the same seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        let seeded = Some(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))));
        Chance { seeded, ..Chance::default() }
    }

    /// Any number.
    pub(crate) fn word(&self) -> u64 {
        match &self.seeded {
            None => rand::random(),
            Some(dice) => dice.lock().unwrap_or_else(PoisonError::into_inner).random(),
        }
    }

    /// From half as long to half as long again: those who were cut off together do not all come
    /// back at the same moment.
    pub(crate) fn about(&self, span: Duration) -> Duration {
        let percent = 50 + u32::try_from(self.word() % 101).unwrap_or_default();
        span * percent / 100
    }

    /// A fresh id: 48 bits of milliseconds and 80 random bits, as a ULID, and behind all that were
    /// drawn here before. So jobs are listed by id as they were submitted, and a store that keeps
    /// names in order puts each one at the end.
    pub(crate) fn id(&self, now: Timestamp) -> JobId {
        const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
        let millis = u128::from(now.as_millis().max(0) as u64) & 0xffff_ffff_ffff;
        let random = (u128::from(self.word()) << 64 | u128::from(self.word())) >> 48;
        let mut last = self.last_id.lock().unwrap_or_else(PoisonError::into_inner);
        let value = (millis << 80 | random).max(last.wrapping_add(1));
        *last = value;
        drop(last);
        let mut text = [0u8; 26];
        for (at, digit) in text.iter_mut().enumerate() {
            let shift = 5 * (25 - at);
            *digit = DIGITS[(value >> shift) as usize & 31];
        }
        let text = std::str::from_utf8(&text).unwrap_or_default();
        JobId::new(text).unwrap_or_else(|_| unreachable!("a drawn id is a name"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_ids_sort_as_they_were_drawn() {
        let chance = Chance::default();
        let early = chance.id(Timestamp::from_millis(1_789_000_000_000));
        let late = chance.id(Timestamp::from_millis(1_789_000_000_001));
        assert!(early < late);
        assert_eq!(early.as_str().len(), 26);
        let drawn: Vec<JobId> = (0..1_000).map(|_| chance.id(Timestamp::EPOCH)).collect();
        assert!(late < drawn[0], "though the clock was set back");
        assert!(drawn.is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn about_so_long_is_half_of_it_up_to_half_as_long_again() {
        let chance = Chance::seeded(1);
        let drawn = (0..1_000).map(|_| chance.about(Duration::from_millis(100)));
        let (mut least, mut most) = (Duration::MAX, Duration::ZERO);
        for span in drawn {
            (least, most) = (least.min(span), most.max(span));
        }
        assert_eq!((least.as_millis(), most.as_millis()), (50, 150));
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let draw = |seed| {
            let chance = Chance::seeded(seed);
            [(); 3].map(|()| chance.word())
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
