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

/// Early builds kept a note before the operations; it is passed over and no longer written.
const NO_NOTE: u32 = u32::MAX;

/// Where the parts of a valid frame lie in its segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) sequence: u64,
    pub(super) epoch: u64,
    pub(super) count: u32,
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

/// A frame on its way into the log.
#[derive(Debug)]
pub(super) struct Unwritten {
    bytes: BytesMut,
    operations: Range<usize>,
}

impl Unwritten {
    /// A frame of these batches, in a part of the buffer.
    pub(super) fn of(batches: &[WriteBatch], buffer: &mut BytesMut) -> Self {
        let end = FRAME_HEAD + batches.iter().map(WriteBatch::bytes).sum::<usize>();
        let total = end.next_multiple_of(FRAME_ALIGN);
        if buffer.capacity() < total {
            // Small frames share one allocation; a big one gets its own.
            *buffer = BytesMut::with_capacity(total.max(FRAME_BUFFER_BYTES));
        }
        buffer.resize(FRAME_HEAD, 0);
        for batch in batches {
            buffer.extend_from_slice(batch.operations());
        }
        Unwritten { bytes: buffer.split(), operations: FRAME_HEAD..end }
            .begun(batches.iter().map(WriteBatch::len).sum())
    }

    /// A frame of one batch, which is empty afterwards.
    pub(super) fn take(batch: &mut WriteBatch, buffer: &mut BytesMut) -> Self {
        let count = batch.len();
        let Some(record) = batch.take_record() else {
            let frame = Unwritten::of(std::slice::from_ref(batch), buffer);
            batch.renew();
            return frame;
        };
        let operations = FRAME_HEAD..record.len();
        let bytes = BytesMut::from(Bytes::from(record));
        Unwritten { bytes, operations }.begun(count)
    }

    /// Pads it, and writes of the head what is known before its place in the log is.
    fn begun(mut self, count: usize) -> Self {
        self.bytes.resize(self.operations.end.next_multiple_of(FRAME_ALIGN), 0);
        let body = self.operations.end - FRAME_HEAD;
        self.bytes[4..8].copy_from_slice(&(body as u32).to_le_bytes());
        self.bytes[24..28].copy_from_slice(&(count as u32).to_le_bytes());
        self.bytes[28..FRAME_HEAD].copy_from_slice(&NO_NOTE.to_le_bytes());
        self
    }

    /// Completes it for its place in the log.
    pub(super) fn seal(&mut self, sequence: u64, epoch: u64) {
        self.bytes[8..16].copy_from_slice(&sequence.to_le_bytes());
        self.bytes[16..24].copy_from_slice(&epoch.to_le_bytes());
        let checksum = crc32c::crc32c(&self.bytes[4..]);
        self.bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// All of it, as it goes into the log.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What the memtable takes over.
    pub(super) fn into_operations(self) -> Bytes {
        self.bytes.freeze().slice(self.operations)
    }
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
    let note_bytes = if note == NO_NOTE { 0 } else { note as usize };
    let start = start.checked_add(note_bytes).filter(|start| *start <= end)?;
    Some(Frame { sequence, epoch, count, operations: start..end, next })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut batch = WriteBatch::new();
        batch.put(b"key", b"value");
        let mut frame = Unwritten::of(&[batch], &mut BytesMut::new());
        frame.seal(7, 99);
        frame.bytes().to_vec()
    }

    #[test]
    fn a_sealed_frame_parses() {
        let bytes = sample();
        let Parsed::Frame(frame) = parse(&bytes, 0) else { panic!("no frame") };
        assert_eq!((frame.sequence, frame.epoch, frame.count), (7, 99, 1));
        assert_eq!(frame.next, bytes.len());
        assert!(operations_parse(&bytes[frame.operations]));
    }

    #[test]
    fn a_note_is_passed_over_if_it_fits() {
        // In a body of 16 bytes.
        for (note, expected) in [(8, true), (15, true), (16, true), (17, false), (1 << 30, false)] {
            let mut bytes = sample();
            bytes[4..8].copy_from_slice(&16u32.to_le_bytes());
            bytes.resize(FRAME_HEAD + 16, 0);
            bytes[28..FRAME_HEAD].copy_from_slice(&u32::to_le_bytes(note));
            let checksum = crc32c::crc32c(&bytes[4..]);
            bytes[..4].copy_from_slice(&checksum.to_le_bytes());
            let found = match parse(&bytes, 0) {
                Parsed::Frame(frame) => Some(frame.operations),
                Parsed::Blank | Parsed::Bad(_) => None,
            };
            let operations = FRAME_HEAD + note as usize..FRAME_HEAD + 16;
            assert_eq!(found, expected.then_some(operations), "{note}");
        }
    }

    /// A batch of so many bytes of value, in a buffer with so much room.
    fn batch(bytes: usize, room: usize) -> WriteBatch {
        let mut batch = WriteBatch::with_capacity(room);
        batch.put(b"key", &vec![7; bytes]);
        batch
    }

    #[test]
    fn a_large_batch_becomes_its_frame_and_a_frame_is_the_same_either_way() {
        let rows = [(100, 200, false), (40_000, 44_000, true), (40_000, 90_000, false)];
        for (bytes, room, becomes) in rows {
            let mut taken = batch(bytes, room);
            let mut copied = Unwritten::of(&[taken.clone()], &mut BytesMut::new());
            let place = taken.operations().as_ptr();
            let mut frame = Unwritten::take(&mut taken, &mut BytesMut::new());
            let is_place = frame.bytes()[FRAME_HEAD..].as_ptr() == place;
            assert_eq!((is_place, taken.is_empty()), (becomes, true), "{bytes} in {room}");
            frame.seal(7, 99);
            copied.seal(7, 99);
            assert_eq!(frame.bytes(), copied.bytes(), "{bytes} in {room}");
            assert_eq!(frame.into_operations(), copied.into_operations(), "{bytes} in {room}");
            // The next of this size has tight room, whatever this one had.
            let mut next = taken;
            next.put(b"key", &vec![7; bytes]);
            assert_eq!(next.take_record().is_some(), bytes > 100, "after {bytes} in {room}");
        }
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
