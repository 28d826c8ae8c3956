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

#[cfg(test)]
mod tests {
    use super::*;

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
