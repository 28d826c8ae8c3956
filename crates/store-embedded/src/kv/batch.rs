//! A batch of changes that take effect together or not at all, and its bytes.
//!
//! A batch is encoded while it is built, behind room for the head of a record. A large one that is
//! alone becomes the record itself; others are copied once into the log's buffer. The memtable
//! refers to these bytes and copies nothing.
//!
//! ```text
//! operation:  tag u8 | key length u16 | value length u32 | key | value
//! tag:        1 put, 2 delete, 3 put of a fresh key
//! ```

use super::frame::FRAME_HEAD;
use super::limits::{BATCH_BYTES_KEPT, KEY_BYTES_MAX, OWN_RECORD_BYTES_MIN};

/// Bytes of an operation before its key.
pub(super) const OPERATION_HEAD: usize = 7;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const PUT_FRESH: u8 = 3;

/// Changes that become durable and visible together.
#[derive(Debug, Clone)]
pub struct WriteBatch {
    /// Room for a record's head, and the operations.
    record: Vec<u8>,
    count: u32,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        WriteBatch::with_capacity(0)
    }

    /// An empty batch with room for `bytes` of encoded changes.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut record = Vec::with_capacity(FRAME_HEAD + bytes);
        record.resize(FRAME_HEAD, 0);
        WriteBatch { record, count: 0 }
    }

    /// Stores the value under the key, replacing what is there. The caller writes it straight
    /// into the batch.
    pub fn put_with(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.push(PUT, key, write);
    }

    /// Stores the value under the key, replacing what is there.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.put_with(key, |out| out.extend_from_slice(value));
    }

    /// Like [`WriteBatch::put_with`], with the promise that the key has no value at this moment.
    /// If it is removed before the memtable is written out, put and removal vanish together and
    /// leave nothing: most jobs end this way. A broken promise brings an old value back.
    pub fn put_fresh_with(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.push(PUT_FRESH, key, write);
    }

    /// Like [`WriteBatch::put`], with the promise of [`WriteBatch::put_fresh_with`].
    pub fn put_fresh(&mut self, key: &[u8], value: &[u8]) {
        self.put_fresh_with(key, |out| out.extend_from_slice(value));
    }

    /// Removes the key; nothing happens if it is not there.
    pub fn delete(&mut self, key: &[u8]) {
        self.push(DELETE, key, |_| {});
    }

    /// Whether the batch changes nothing.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many keys the batch touches.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Encoded size.
    pub fn bytes(&self) -> usize {
        self.record.len() - FRAME_HEAD
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.record.truncate(FRAME_HEAD);
        self.count = 0;
    }

    pub(super) fn operations(&self) -> &[u8] {
        &self.record[FRAME_HEAD..]
    }

    /// The bytes of the batch behind room for a record's head, if it is worth a record of its own:
    /// what is read from the memtable keeps all of them alive, with what the buffer has to spare.
    pub(super) fn take_record(&mut self) -> Option<Vec<u8>> {
        let spare = self.record.capacity() - self.record.len();
        let is_worth = self.bytes() >= OWN_RECORD_BYTES_MIN && spare <= self.record.len() / 4;
        if !is_worth {
            return None;
        }
        let next = self.next();
        Some(std::mem::replace(self, next).record)
    }

    /// Empties the batch and makes room for another one like it.
    pub(super) fn renew(&mut self) {
        if self.bytes() < OWN_RECORD_BYTES_MIN {
            self.clear();
        } else {
            *self = self.next();
        }
    }

    /// An empty batch with room for a little more than is in this one.
    fn next(&self) -> WriteBatch {
        let bytes = self.bytes();
        WriteBatch::with_capacity(bytes.saturating_add(bytes / 8).min(BATCH_BYTES_KEPT))
    }

    fn push(&mut self, tag: u8, key: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        assert!(!key.is_empty() && key.len() <= KEY_BYTES_MAX, "a key of {} bytes", key.len());
        let head = self.record.len();
        self.record.push(tag);
        self.record.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.record.extend_from_slice(&[0; 4]);
        self.record.extend_from_slice(key);
        let value = self.record.len();
        write(&mut self.record);
        let value_bytes = self.record.len() - value;
        let value_bytes = u32::try_from(value_bytes).expect("a value is far below 4 GiB");
        self.record[head + 3..head + 7].copy_from_slice(&value_bytes.to_le_bytes());
        self.count += 1;
    }
}

impl Default for WriteBatch {
    fn default() -> Self {
        WriteBatch::new()
    }
}

/// What one operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Put,
    Delete,
    PutFresh,
}

/// One decoded operation: where its key and value lie in the buffer it came from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation {
    pub(super) kind: Kind,
    pub(super) key_start: usize,
    pub(super) value_start: usize,
    pub(super) end: usize,
}

/// Decodes the operation that starts at `at`; `None` if the bytes are no operation.
pub(super) fn decode(buffer: &[u8], at: usize) -> Option<Operation> {
    let head = buffer.get(at..at + OPERATION_HEAD)?;
    let kind = match head[0] {
        PUT => Kind::Put,
        DELETE => Kind::Delete,
        PUT_FRESH => Kind::PutFresh,
        _ => return None,
    };
    let key_bytes = u16::from_le_bytes([head[1], head[2]]) as usize;
    let value_bytes = u32::from_le_bytes([head[3], head[4], head[5], head[6]]) as usize;
    let key_start = at + OPERATION_HEAD;
    let value_start = key_start + key_bytes;
    let end = value_start.checked_add(value_bytes)?;
    let plausible = key_bytes > 0 && key_bytes <= KEY_BYTES_MAX && end <= buffer.len();
    plausible.then_some(Operation { kind, key_start, value_start, end })
}
