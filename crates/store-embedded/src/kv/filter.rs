//! Says "certainly not here" for most keys that are not in a table.
//!
//! A Bloom filter whose bits for one key lie in one cache line, so that asking costs one miss and
//! not six. The hash is part of the format: changing it means a new table version.

use super::limits::FILTER_BITS_PER_KEY;

const LINE_BYTES: usize = 64;
const PROBES: u32 = 6;

/// Keys that are inserted together.
const TOGETHER: usize = 128;

/// The filter of a table, as it is read.
#[derive(Debug, Clone)]
pub(super) struct Filter {
    bits: Vec<u8>,
}

/// The filter of a table that is being written.
///
/// Every key goes to another cache line, which is mostly not at hand. So hashes are gathered and
/// inserted many at a time: the processor then waits for several lines at once (measured: 16
/// against 43 nanoseconds a key).
#[derive(Debug)]
pub(super) struct FilterBuilder {
    filter: Filter,
    gathered: Vec<u64>,
}

impl FilterBuilder {
    /// For at most this many keys.
    pub(super) fn with_capacity(keys: usize) -> Self {
        let lines = (keys * FILTER_BITS_PER_KEY).div_ceil(LINE_BYTES * 8).max(1);
        let filter = Filter { bits: vec![0; lines * LINE_BYTES] };
        FilterBuilder { filter, gathered: Vec::with_capacity(TOGETHER) }
    }

    pub(super) fn insert(&mut self, key: &[u8]) {
        self.gathered.push(hash(key));
        if self.gathered.len() == TOGETHER {
            self.insert_gathered();
        }
    }

    /// The filter of all keys inserted.
    pub(super) fn finish(&mut self) -> &Filter {
        self.insert_gathered();
        &self.filter
    }

    fn insert_gathered(&mut self) {
        for hash in self.gathered.drain(..) {
            let (line, mut probes) = self.filter.place(hash);
            for _ in 0..PROBES {
                let bit = (probes & 511) as usize;
                self.filter.bits[line + bit / 8] |= 1 << (bit % 8);
                probes >>= 9;
            }
        }
    }
}

impl Filter {
    /// The filter with these bytes; `None` if they cannot be one.
    pub(super) fn from_bytes(bits: Vec<u8>) -> Option<Self> {
        let whole = !bits.is_empty() && bits.len().is_multiple_of(LINE_BYTES);
        whole.then_some(Filter { bits })
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bits
    }

    /// `false` only if the key was never inserted.
    pub(super) fn may_contain(&self, key: &[u8]) -> bool {
        let (line, mut probes) = self.place(hash(key));
        for _ in 0..PROBES {
            let bit = (probes & 511) as usize;
            if self.bits[line + bit / 8] & (1 << (bit % 8)) == 0 {
                return false;
            }
            probes >>= 9;
        }
        true
    }

    fn place(&self, hash: u64) -> (usize, u64) {
        let lines = (self.bits.len() / LINE_BYTES) as u64;
        let line = ((hash >> 32) * lines) >> 32;
        (line as usize * LINE_BYTES, mix(hash ^ 0x9e37_79b9_7f4a_7c15))
    }
}

/// Eight bytes a step; quality comes from the last mix. It has no secret: whoever chooses keys to
/// collide makes their own reads slower and nothing else.
fn hash(key: &[u8]) -> u64 {
    let mut state = (key.len() as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        state = step(state, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(step(state, u64::from_le_bytes(last)))
}

fn step(state: u64, word: u64) -> u64 {
    (state ^ word).wrapping_mul(0x9fb2_1c65_1e98_df25).rotate_left(31)
}

fn mix(mut word: u64) -> u64 {
    word ^= word >> 33;
    word = word.wrapping_mul(0xff51_afd7_ed55_8ccd);
    word ^= word >> 33;
    word = word.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ (word >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_found_and_few_others() {
        let keys = 20_000;
        let mut builder = FilterBuilder::with_capacity(keys);
        for number in 0..keys {
            builder.insert(format!("customer-{number}").as_bytes());
        }
        let filter = builder.finish();
        for number in 0..keys {
            assert!(filter.may_contain(format!("customer-{number}").as_bytes()));
        }
        let wrong = (keys..3 * keys)
            .filter(|number| filter.may_contain(format!("customer-{number}").as_bytes()))
            .count();
        assert!(wrong < keys * 2 / 40, "{wrong} of {} are false positives", keys * 2);
    }

    #[test]
    fn the_hash_is_the_one_on_disk() {
        // These figures are in files: when this test fails, the table version must rise.
        assert_eq!(hash(b""), 0);
        assert_eq!(hash(b"hence"), HENCE);
        assert_eq!(hash(b"customer-000017"), CUSTOMER);
    }

    const HENCE: u64 = 4_913_958_708_727_410_383;
    const CUSTOMER: u64 = 13_926_626_513_580_500_193;
}
