//! One record of the log: everything that one sync makes durable.
//!
//! There is never more than one frame that is written and not synced. Two things follow. A valid
//! frame proves that every frame before it was durable, so a bad frame with a valid one behind it
//! is damage and not a torn tail. And a group of batches is one frame: after a crash all of it is
//! there or nothing.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::batch::{self, WriteBatch};
use super::bytes_io::Reader;
use super::limits::{FRAME_BUFFER_BYTES, NUMBER_MAX};

/// Bytes of a frame before its body.
pub(super) const FRAME_HEAD: usize = 32;

/// Frames begin at multiples of this, so that a search for the next valid one is eight times
/// shorter.
pub(super) const FRAME_ALIGN: usize = 8;

const NO_NOTE: u32 = u32::MAX;

/// Where the parts of a valid frame lie in its segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) sequence: u64,
    pub(super) epoch: u64,
    pub(super) count: u32,
    pub(super) note: Option<Range<usize>>,
    pub(super) operations: Range<usize>,
    pub(super) next: usize,
}

/// What was found at a place in a segment where a frame may begin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A frame with a right checksum.
    Frame(Frame),
    /// Nothing was written here: zeros, or no room for a frame.
    Blank,
    /// Bytes that are no valid frame, and why.
    Bad(&'static str),
}

/// How long the frame of these batches will be.
pub(super) fn frame_bytes(batches: &[WriteBatch]) -> usize {
    let operations: usize = batches.iter().map(WriteBatch::bytes).sum();
    let note = last_note(batches).map_or(0, Bytes::len);
    (FRAME_HEAD + note + operations).next_multiple_of(FRAME_ALIGN)
}

/// Appends an unsealed frame of these batches; sequence, epoch and checksum come with [`seal`].
pub(super) fn build(buffer: &mut BytesMut, batches: &[WriteBatch]) {
    debug_assert!(buffer.is_empty());
    let total = frame_bytes(batches);
    if buffer.capacity() < total {
        // Small frames share one allocation; a big one gets its own.
        *buffer = BytesMut::with_capacity(total.max(FRAME_BUFFER_BYTES));
    }
    let note = last_note(batches);
    let count: u32 = batches.iter().map(|batch| batch.len() as u32).sum();
    let body: usize =
        note.map_or(0, Bytes::len) + batches.iter().map(WriteBatch::bytes).sum::<usize>();
    buffer.extend_from_slice(&[0; 4]);
    buffer.extend_from_slice(&(body as u32).to_le_bytes());
    buffer.extend_from_slice(&[0; 16]);
    buffer.extend_from_slice(&count.to_le_bytes());
    buffer.extend_from_slice(&note.map_or(NO_NOTE, |note| note.len() as u32).to_le_bytes());
    buffer.extend_from_slice(note.map_or(&[], |note| note.as_ref()));
    for batch in batches {
        buffer.extend_from_slice(batch.operations());
    }
    buffer.resize(total, 0);
}

/// Completes a built frame for its place in the log.
pub(super) fn seal(frame: &mut [u8], sequence: u64, epoch: u64) {
    frame[8..16].copy_from_slice(&sequence.to_le_bytes());
    frame[16..24].copy_from_slice(&epoch.to_le_bytes());
    let checksum = crc32c::crc32c(&frame[4..]);
    frame[..4].copy_from_slice(&checksum.to_le_bytes());
}

/// Reads the frame at `at`. The epoch is not judged here: a search without a known epoch is how
/// a segment with a damaged header is salvaged.
pub(super) fn parse(segment: &[u8], at: usize) -> Parsed {
    let Some(head) = segment.get(at..at + FRAME_HEAD) else {
        return Parsed::Blank;
    };
    if head.iter().all(|byte| *byte == 0) {
        return Parsed::Blank;
    }
    match parse_written(segment, at) {
        Some(frame) => Parsed::Frame(frame),
        None => Parsed::Bad("the record's checksum or length is wrong"),
    }
}

/// Whether the operations of a frame can be read. With a right checksum they can, or the writer
/// has a bug: then the record is not taken for a torn one.
pub(super) fn operations_parse(operations: &[u8]) -> bool {
    let mut at = 0;
    while at < operations.len() {
        match batch::decode(operations, at) {
            Some(operation) => at = operation.end,
            None => return false,
        }
    }
    true
}

/// The first valid frame of this epoch at or after `from`.
pub(super) fn find(segment: &[u8], from: usize, epoch: Option<u64>) -> Option<(usize, Frame)> {
    let mut at = from.next_multiple_of(FRAME_ALIGN);
    while let Some(head) = segment.get(at..at + FRAME_HEAD) {
        let candidate = match epoch {
            Some(epoch) => head[16..24] == epoch.to_le_bytes(),
            None => head[..4] != [0; 4] && head[16..24] != [0; 8],
        };
        if candidate && let Some(frame) = parse_written(segment, at) {
            return Some((at, frame));
        }
        at += FRAME_ALIGN;
    }
    None
}

fn parse_written(segment: &[u8], at: usize) -> Option<Frame> {
    let mut head = Reader::new(segment.get(at..at + FRAME_HEAD)?);
    let checksum = head.u32()?;
    let body = head.u32()? as usize;
    let sequence = head.u64()?;
    let epoch = head.u64()?;
    let count = head.u32()?;
    let note = head.u32()?;
    let next = at.checked_add((FRAME_HEAD + body).next_multiple_of(FRAME_ALIGN))?;
    let covered = segment.get(at + 4..next)?;
    if crc32c::crc32c(covered) != checksum {
        return None;
    }
    if sequence > NUMBER_MAX {
        return None;
    }
    let start = at + FRAME_HEAD;
    let end = start + body;
    let (note, operations) = if note == NO_NOTE {
        (None, start..end)
    } else {
        let split = start.checked_add(note as usize).filter(|split| *split <= end)?;
        (Some(start..split), split..end)
    };
    Some(Frame { sequence, epoch, count, note, operations, next })
}

fn last_note(batches: &[WriteBatch]) -> Option<&Bytes> {
    batches.iter().rev().find_map(WriteBatch::note)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut batch = WriteBatch::new();
        batch.put(b"key", b"value");
        batch.set_note(Bytes::from_static(b"note"));
        let mut buffer = BytesMut::new();
        build(&mut buffer, &[batch]);
        seal(&mut buffer, 7, 99);
        buffer.to_vec()
    }

    #[test]
    fn a_sealed_frame_parses() {
        let bytes = sample();
        let Parsed::Frame(frame) = parse(&bytes, 0) else { panic!("no frame") };
        assert_eq!((frame.sequence, frame.epoch, frame.count), (7, 99, 1));
        assert_eq!(&bytes[frame.note.expect("a note")], b"note");
        assert_eq!(frame.next, bytes.len());
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let bytes = sample();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(parse(&damaged, 0), Parsed::Bad(_)), "bit {bit}");
        }
    }

    #[test]
    fn zeros_are_blank_and_a_frame_behind_them_is_found() {
        let mut segment = vec![0; 64];
        assert_eq!(parse(&segment, 0), Parsed::Blank);
        segment.extend(sample());
        assert_eq!(find(&segment, 8, Some(99)).map(|(at, _)| at), Some(64));
        assert_eq!(find(&segment, 8, None).map(|(at, _)| at), Some(64));
        assert_eq!(find(&segment, 8, Some(98)), None);
    }
}
