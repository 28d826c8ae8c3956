//! Reading and writing little-endian numbers in the store's own formats.
//!
//! The reader never panics on short input: damaged bytes are an answer, not a bug.

/// Reads forward through a slice.
#[derive(Debug, Clone)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes }
    }

    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Appends a number in seven-bit groups, lowest first.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads what [`put_varint`] wrote at `at`; the number and the position after it.
#[inline]
pub(super) fn varint(bytes: &[u8], mut at: usize) -> Option<(u32, usize)> {
    let mut value = 0u32;
    for shift in [0, 7, 14, 21, 28] {
        let byte = *bytes.get(at)?;
        at += 1;
        value |= u32::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some((value, at));
        }
    }
    None
}

/// What blank bytes are compared with: so many at a time that it is done by the word, also where
/// nothing is optimised, and not so many that a written byte is found late.
static BLANK: [u8; LOOK_BYTES] = [0; LOOK_BYTES];
const LOOK_BYTES: usize = 1_024;

/// Whether all are zeros. Most of a log is, and all of it is looked at when it is opened.
pub(super) fn is_blank(bytes: &[u8]) -> bool {
    bytes.chunks(LOOK_BYTES).all(|some| *some == BLANK[..some.len()])
}

/// Where the last byte lies that is not zero.
pub(super) fn last_written(bytes: &[u8]) -> Option<usize> {
    let mut end = bytes.len();
    for some in bytes.rchunks(LOOK_BYTES) {
        let start = end - some.len();
        if !is_blank(some) {
            return some.iter().rposition(|byte| *byte != 0).map(|at| start + at);
        }
        end = start;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_written_byte_is_found_wherever_it_is() {
        for length in [0, 1, LOOK_BYTES - 1, LOOK_BYTES, LOOK_BYTES + 1, 3 * LOOK_BYTES + 7] {
            let mut bytes = vec![0; length];
            assert_eq!((is_blank(&bytes), last_written(&bytes)), (true, None), "{length}");
            for at in 0..length {
                bytes[at] = 0x80;
                let found = (is_blank(&bytes), last_written(&bytes));
                assert_eq!(found, (false, Some(at)), "{at} of {length}");
                bytes[at] = 0;
            }
        }
    }

    #[test]
    fn varints_round_trip_at_every_boundary() {
        for shift in 0..32 {
            for value in [(1u32 << shift) - 1, 1 << shift, u32::MAX] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(varint(&out, 0), Some((value, out.len())));
                assert_eq!(varint(&out[..out.len() - 1], 0), None);
            }
        }
    }
}
