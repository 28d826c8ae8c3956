//! The newest changes, in memory, in key order.
//!
//! Values are not copied: an entry says where in the log's buffer its value lies. Keys are copied
//! into fixed words, because an ordered insert is mostly comparisons and following a pointer for
//! each of them costs twice the time (measured: 0.45 against 0.95 microseconds for two keys).
//! Keys that begin with the same byte have a list of their own: each kind of key grows at its end.
//! It is not concurrent; the store puts a lock around the one that is written to.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};

use bytes::Bytes;

use super::batch::{self, Kind};
use super::cursor::{Entry, Found};
use super::ordered::Ordered;

/// Key bytes held in place: six words less the byte for the length.
const INLINE_BYTES: usize = 47;

/// What one entry costs beside the log's bytes: its slot and its share of half-empty pieces.
const ENTRY_BYTES: usize = 120;

/// A key in an order-preserving form: zero-padded words, the length in the last byte, and the
/// rest of a long key behind it. Padding cannot confuse two keys, for where the padded bytes are
/// equal the shorter key is a prefix of the longer and the length decides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    head: [u64; 6],
    tail: Option<Box<[u8]>>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    chunk: u32,
    value_start: u32,
    /// `TOMBSTONE` for a removed key.
    value_len: u32,
    key_len: u16,
    /// An older place may hold a value of the key, so its removal must leave a tombstone.
    covers: bool,
}

const TOMBSTONE: u32 = u32::MAX;

/// One entry, where it lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lying<'a> {
    memtable: &'a Memtable,
    slot: &'a Slot,
}

/// One entry that outlives the memtable's lock; no value means that the key was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) key: Bytes,
    pub(super) value: Option<Bytes>,
}

/// Changes up to one sequence number that are not in a table yet.
#[derive(Debug, Default)]
pub(super) struct Memtable {
    /// By the first byte of the key.
    entries: BTreeMap<u8, Ordered<Key, Slot>>,
    chunks: Vec<Bytes>,
    chunk_bytes: usize,
    first_sequence: u64,
    last_sequence: u64,
}

impl Memtable {
    /// Takes over one frame's changes. `chunk` holds the operations and nothing else; `None` if
    /// they are malformed, which a right checksum makes a bug and not damage.
    pub(super) fn apply(&mut self, sequence: u64, chunk: Bytes) -> Option<()> {
        assert!(sequence > self.last_sequence, "frames are applied in order");
        if self.first_sequence == 0 {
            self.first_sequence = sequence;
        }
        self.last_sequence = sequence;
        let number = u32::try_from(self.chunks.len()).ok()?;
        let mut at = 0;
        while at < chunk.len() {
            let operation = batch::decode(&chunk, at)?;
            let key_bytes = &chunk[operation.key_start..operation.value_start];
            let slot = Slot {
                chunk: number,
                value_start: operation.value_start as u32,
                value_len: (operation.end - operation.value_start) as u32,
                key_len: key_bytes.len() as u16,
                covers: false,
            };
            self.apply_one(operation.kind, key_bytes, slot);
            at = operation.end;
        }
        self.chunk_bytes += chunk.len();
        self.chunks.push(chunk);
        Some(())
    }

    /// What this memtable knows of the key.
    pub(super) fn get(&self, key: &[u8]) -> Found {
        let list = key.first().and_then(|first| self.entries.get(first));
        let slot = list.and_then(|list| list.get(&Key::new(key)));
        slot.map_or(Found::Unknown, |slot| self.value(slot).into())
    }

    /// Entries between the bounds, from both ends.
    pub(super) fn range<'a>(
        &'a self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = Lying<'a>> + use<'a> {
        let (from, to) = (from.map(Key::new), to.map(Key::new));
        let slots = (!is_empty_range(&from, &to)).then(|| {
            let lists = self.entries.range(first_byte(&from, 0)..=first_byte(&to, u8::MAX));
            lists.flat_map(move |(_, list)| list.range(from.as_ref(), to.as_ref()))
        });
        slots.into_iter().flatten().map(|slot| Lying { memtable: self, slot })
    }

    /// Memory used, nearly.
    pub(super) fn bytes(&self) -> usize {
        self.chunk_bytes + self.entries.values().map(Ordered::places).sum::<usize>() * ENTRY_BYTES
    }

    pub(super) fn len(&self) -> usize {
        self.entries.values().map(Ordered::len).sum()
    }

    /// Whether no frame was applied since it was made; annihilated entries count as applied.
    pub(super) fn is_untouched(&self) -> bool {
        self.last_sequence == 0
    }

    pub(super) fn first_sequence(&self) -> u64 {
        self.first_sequence
    }

    pub(super) fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    fn apply_one(&mut self, kind: Kind, key: &[u8], slot: Slot) {
        let list = self.entries.entry(key[0]).or_default();
        list.change(Key::new(key), |old| match (kind, old) {
            (Kind::Put | Kind::PutFresh, None) => Some(Slot { covers: kind == Kind::Put, ..slot }),
            (Kind::Put | Kind::PutFresh, Some(old)) => Some(Slot { covers: old.covers, ..slot }),
            (Kind::Delete, Some(old)) if !old.covers => None,
            (Kind::Delete, _) => Some(Slot { value_len: TOMBSTONE, covers: true, ..slot }),
        });
    }

    fn value(&self, slot: &Slot) -> Option<Bytes> {
        Some(self.chunks[slot.chunk as usize].slice(slot.value_range()?))
    }
}

impl Slot {
    fn key_range(&self) -> Range<usize> {
        let end = self.value_start as usize;
        end - self.key_len as usize..end
    }

    fn value_range(&self) -> Option<Range<usize>> {
        let start = self.value_start as usize;
        (self.value_len != TOMBSTONE).then(|| start..start + self.value_len as usize)
    }
}

impl Lying<'_> {
    fn chunk(&self) -> &Bytes {
        &self.memtable.chunks[self.slot.chunk as usize]
    }
}

impl Entry for Lying<'_> {
    fn key(&self) -> &[u8] {
        &self.chunk()[self.slot.key_range()]
    }

    fn value(&self) -> Option<&[u8]> {
        self.slot.value_range().map(|range| &self.chunk()[range])
    }

    fn value_bytes(&self) -> Option<Bytes> {
        self.memtable.value(self.slot)
    }
}

impl From<Lying<'_>> for Item {
    fn from(entry: Lying<'_>) -> Self {
        let key = entry.chunk().slice(entry.slot.key_range());
        Item { key, value: entry.value_bytes() }
    }
}

impl Entry for Item {
    fn key(&self) -> &[u8] {
        &self.key
    }

    fn value(&self) -> Option<&[u8]> {
        self.value.as_deref()
    }

    fn value_bytes(&self) -> Option<Bytes> {
        self.value.clone()
    }
}

impl Key {
    pub(super) fn new(bytes: &[u8]) -> Self {
        let inline = bytes.len().min(INLINE_BYTES);
        let mut padded = [0; 48];
        padded[..inline].copy_from_slice(&bytes[..inline]);
        // A long key sorts behind every inline key that is its prefix.
        padded[47] = bytes.len().min(INLINE_BYTES + 1) as u8;
        let mut head = [0; 6];
        for (word, bytes) in head.iter_mut().zip(padded.as_chunks::<8>().0) {
            *word = u64::from_be_bytes(*bytes);
        }
        let tail = (bytes.len() > INLINE_BYTES).then(|| bytes[INLINE_BYTES..].into());
        Key { head, tail }
    }

    fn first_byte(&self) -> u8 {
        self.head[0].to_be_bytes()[0]
    }
}

fn first_byte(bound: &Bound<Key>, otherwise: u8) -> u8 {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => key.first_byte(),
        Bound::Unbounded => otherwise,
    }
}

/// Whether nothing can be in it: a range of the tree would refuse some of these with a panic.
fn is_empty_range(from: &Bound<Key>, to: &Bound<Key>) -> bool {
    match (from, to) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
        | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::batch::WriteBatch;
    use proptest::prelude::*;

    fn apply(table: &mut Memtable, change: impl FnOnce(&mut WriteBatch)) {
        let mut batch = WriteBatch::new();
        change(&mut batch);
        let chunk = Bytes::copy_from_slice(batch.operations());
        table.apply(table.last_sequence() + 1, chunk).expect("well-formed");
    }

    proptest! {
        #[test]
        fn keys_in_words_sort_like_bytes(
            left in proptest::collection::vec(0u8..3, 1..60),
            right in proptest::collection::vec(0u8..3, 1..60),
        ) {
            prop_assert_eq!(Key::new(&left).cmp(&Key::new(&right)), left.cmp(&right));
        }
    }

    #[test]
    fn a_fresh_key_leaves_nothing_behind() {
        let mut table = Memtable::default();
        apply(&mut table, |batch| batch.put_fresh(b"a", b"1"));
        apply(&mut table, |batch| batch.put(b"a", b"2"));
        apply(&mut table, |batch| batch.delete(b"a"));
        assert_eq!((table.get(b"a"), table.len()), (Found::Unknown, 0));
    }

    #[test]
    fn a_removal_that_older_places_need_stays() {
        let mut table = Memtable::default();
        apply(&mut table, |batch| batch.put(b"a", b"1"));
        apply(&mut table, |batch| batch.delete(b"a"));
        assert_eq!(table.get(b"a"), Found::Removed);
        // Fresh now, but the tombstone it stands on is still needed.
        apply(&mut table, |batch| batch.put_fresh(b"a", b"2"));
        apply(&mut table, |batch| batch.delete(b"a"));
        assert_eq!(table.get(b"a"), Found::Removed);
    }

    #[test]
    fn the_last_change_of_a_key_counts() {
        let mut table = Memtable::default();
        apply(&mut table, |batch| {
            batch.put(b"a", b"1");
            batch.put(b"a", b"22");
            batch.put(b"b", b"3");
            batch.delete(b"b");
        });
        assert_eq!(table.get(b"a"), Found::Value(Bytes::from_static(b"22")));
        assert_eq!(table.get(b"b"), Found::Removed);
        let keys: Vec<_> = table
            .range(Bound::Unbounded, Bound::Unbounded)
            .map(|entry| Item::from(entry).key)
            .collect();
        assert_eq!(keys, ["a", "b"]);
    }

    #[test]
    fn an_inverted_range_is_empty() {
        let mut table = Memtable::default();
        apply(&mut table, |batch| batch.put(b"b", b"1"));
        let (b, a): (&[u8], &[u8]) = (b"b", b"a");
        assert_eq!(table.range(Bound::Included(b), Bound::Excluded(a)).count(), 0);
        assert_eq!(table.range(Bound::Excluded(b), Bound::Excluded(b)).count(), 0);
    }
}
