//! Sorted entries in a piece of a table that is read and checked as a whole.
//!
//! ```text
//! block:    checksum u32 | payload length u32 | entries u32 | payload
//! payload:  entry … | restart offset u32 … | restarts u32
//! entry:    shared varint | unshared varint | value length + 1 varint, 0 = removed
//!           | unshared key bytes | value
//! ```
//! A key is stored as the part that differs from the key before; every sixteenth is whole. The
//! checksum also covers the table's number and the block's offset, so that a right block in a
//! wrong place is noticed. A block says its own length, so that a table without its index can
//! still be read.

use bytes::Bytes;

use super::bytes_io::{Reader, put_varint, varint};
use super::cursor::Found;
use super::limits::RESTART_INTERVAL;

/// Bytes of a block before its payload.
pub(super) const BLOCK_HEAD: usize = 12;

/// Most keys are shorter, so that room for one is made once.
const KEY_ROOM: usize = 64;

/// Collects sorted entries into a payload.
#[derive(Debug, Default)]
pub(super) struct BlockBuilder {
    payload: Vec<u8>,
    restarts: Vec<u32>,
    last_key: Vec<u8>,
    entries: u32,
}

impl BlockBuilder {
    pub(super) fn add(&mut self, key: &[u8], value: Option<&[u8]>) {
        debug_assert!(self.entries == 0 || self.last_key.as_slice() < key, "entries are sorted");
        let shared = if (self.entries as usize).is_multiple_of(RESTART_INTERVAL) {
            self.restarts.push(self.payload.len() as u32);
            0
        } else {
            shared_bytes(&self.last_key, key)
        };
        put_varint(&mut self.payload, shared as u32);
        put_varint(&mut self.payload, (key.len() - shared) as u32);
        put_varint(&mut self.payload, value.map_or(0, |value| value.len() as u32 + 1));
        self.payload.extend_from_slice(&key[shared..]);
        self.payload.extend_from_slice(value.unwrap_or_default());
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.entries += 1;
    }

    /// Size of the payload so far.
    pub(super) fn bytes(&self) -> usize {
        self.payload.len() + self.restarts.len() * 4 + 4
    }

    pub(super) fn entries(&self) -> u32 {
        self.entries
    }

    pub(super) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Appends the finished block, which will lie at `offset` of the table, and starts a new one.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>, table: u64, offset: u64) {
        for restart in &self.restarts {
            self.payload.extend_from_slice(&restart.to_le_bytes());
        }
        self.payload.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(self.payload.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.entries.to_le_bytes());
        out.extend_from_slice(&self.payload);
        let checksum = checksum(&out[start + 4..], table, offset);
        out[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
        self.payload.clear();
        self.restarts.clear();
        self.last_key.clear();
        self.entries = 0;
    }
}

/// A block whose checksum is right.
#[derive(Debug, Clone)]
pub(super) struct Block {
    payload: Bytes,
    /// Where the entries end and the restarts begin.
    entries_end: usize,
    restarts: usize,
    entries: u32,
}

impl Block {
    /// Judges the bytes of a whole block; `None` if they are damaged.
    pub(super) fn open(bytes: Bytes, table: u64, offset: u64) -> Option<Self> {
        let mut head = Reader::new(&bytes);
        let expected = head.u32()?;
        let payload_bytes = head.u32()? as usize;
        let entries = head.u32()?;
        if bytes.len() != BLOCK_HEAD + payload_bytes
            || checksum(&bytes[4..], table, offset) != expected
        {
            return None;
        }
        let payload = bytes.slice(BLOCK_HEAD..);
        let count_at = payload.len().checked_sub(4)?;
        let restarts = Reader::new(&payload[count_at..]).u32()? as usize;
        let entries_end = count_at.checked_sub(restarts.checked_mul(4)?)?;
        // Each takes three bytes at least: memory is not reserved for more than can be there.
        if entries as usize > entries_end / 3 {
            return None;
        }
        Some(Block { payload, entries_end, restarts, entries })
    }

    /// What this block knows of the key.
    pub(super) fn get(&self, key: &[u8]) -> Found {
        self.find(key).map_or(Found::Unknown, |entry| self.value(&entry).into())
    }

    fn find(&self, key: &[u8]) -> Option<EntryPlace> {
        let mut at = self.restart(self.restart_before(key)?)?;
        let mut current = Vec::with_capacity(key.len() + 16);
        while at < self.entries_end {
            let entry = self.entry(at, &mut current)?;
            match current.as_slice().cmp(key) {
                std::cmp::Ordering::Less => at = entry.end,
                std::cmp::Ordering::Equal => return Some(entry),
                std::cmp::Ordering::Greater => return None,
            }
        }
        None
    }

    /// All entries, with their keys made whole; `None` if the payload does not parse, which a
    /// right checksum makes a bug of the writer.
    pub(super) fn rows(&self) -> Option<Rows> {
        let mut rows = Rows {
            keys: Vec::with_capacity(self.payload.len() / 2),
            places: Vec::with_capacity(self.entries as usize),
            payload: self.payload.clone(),
        };
        let mut current = Vec::new();
        let mut at = 0;
        while at < self.entries_end {
            let entry = self.entry(at, &mut current)?;
            rows.keys.extend_from_slice(&current);
            rows.places.push(Row { key_end: rows.keys.len() as u32, entry });
            at = entry.end;
        }
        (rows.places.len() == self.entries as usize).then_some(rows)
    }

    /// The first entry, to walk on from; `None` as with `rows`, or if there is none.
    pub(super) fn first(&self) -> Option<Steps> {
        Steps::start(self.clone(), 0)
    }

    /// The first entry whose key is not before `key`; the block has one.
    pub(super) fn first_at_or_after(&self, key: &[u8]) -> Option<Steps> {
        let mut steps = Steps::start(self.clone(), self.restart_before(key)?)?;
        while steps.key() < key {
            if !steps.step()? {
                return None;
            }
        }
        Some(steps)
    }

    pub(super) fn bytes(&self) -> usize {
        self.payload.len()
    }

    /// The last whole key that is not behind the wanted one.
    fn restart_before(&self, key: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (0, self.restarts);
        while low + 1 < high {
            let middle = usize::midpoint(low, high);
            let at = self.restart(middle)?;
            let (_, at) = varint(&self.payload, at)?;
            let (key_len, at) = varint(&self.payload, at)?;
            let (_, at) = varint(&self.payload, at)?;
            let found = self.payload.get(at..at + key_len as usize)?;
            if found <= key {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(low)
    }

    fn restart(&self, index: usize) -> Option<usize> {
        let at = self.entries_end + index * 4;
        Some(Reader::new(self.payload.get(at..)?).u32()? as usize)
    }

    /// Reads the entry at `at`; `current` holds the key before it and then its own.
    fn entry(&self, at: usize, current: &mut Vec<u8>) -> Option<EntryPlace> {
        let (shared, at) = varint(&self.payload, at)?;
        let (unshared, at) = varint(&self.payload, at)?;
        let (value_len, at) = varint(&self.payload, at)?;
        let value_start = at.checked_add(unshared as usize)?;
        let end = value_start.checked_add(value_len.saturating_sub(1) as usize)?;
        if shared as usize > current.len() || end > self.entries_end {
            return None;
        }
        current.truncate(shared as usize);
        current.extend_from_slice(&self.payload[at..value_start]);
        Some(EntryPlace { value_start, end, removed: value_len == 0 })
    }

    fn value(&self, entry: &EntryPlace) -> Option<Bytes> {
        (!entry.removed).then(|| self.payload.slice(entry.value_start..entry.end))
    }
}

/// One entry of a block after the other. A key is made whole when it is its turn.
#[derive(Debug)]
pub(super) struct Steps {
    block: Block,
    key: Vec<u8>,
    entry: EntryPlace,
    /// Entries behind this one.
    left: u32,
}

impl Steps {
    fn start(block: Block, restart: usize) -> Option<Self> {
        let before = u32::try_from(restart * RESTART_INTERVAL).ok()?;
        let left = block.entries.checked_sub(before)?.checked_sub(1)?;
        let mut key = Vec::with_capacity(KEY_ROOM);
        let entry = block.entry(block.restart(restart)?, &mut key)?;
        Some(Steps { block, key, entry, left })
    }

    /// Goes to the next entry: `false` if there is none, `None` if the payload does not parse.
    pub(super) fn step(&mut self) -> Option<bool> {
        if self.left == 0 {
            return (self.entry.end == self.block.entries_end).then_some(false);
        }
        self.left -= 1;
        self.entry = self.block.entry(self.entry.end, &mut self.key)?;
        Some(true)
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(super) fn value(&self) -> Option<&[u8]> {
        (!self.entry.removed).then(|| &self.block.payload[self.entry.value_start..self.entry.end])
    }

    pub(super) fn value_bytes(&self) -> Option<Bytes> {
        self.block.value(&self.entry)
    }
}

#[derive(Debug, Clone, Copy)]
struct EntryPlace {
    value_start: usize,
    end: usize,
    removed: bool,
}

#[derive(Debug)]
struct Row {
    key_end: u32,
    entry: EntryPlace,
}

/// The entries of one block, ready to walk in both directions.
#[derive(Debug)]
pub(super) struct Rows {
    keys: Vec<u8>,
    places: Vec<Row>,
    payload: Bytes,
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn key(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.places[before].key_end);
        &self.keys[start as usize..self.places[index].key_end as usize]
    }

    pub(super) fn last_key(&self) -> Option<&[u8]> {
        self.places.len().checked_sub(1).map(|last| self.key(last))
    }

    /// Roughly what they take in a file.
    pub(super) fn bytes(&self) -> usize {
        self.payload.len()
    }

    pub(super) fn value(&self, index: usize) -> Option<&[u8]> {
        let entry = &self.places[index].entry;
        (!entry.removed).then(|| &self.payload[entry.value_start..entry.end])
    }

    pub(super) fn value_bytes(&self, index: usize) -> Option<Bytes> {
        let entry = &self.places[index].entry;
        (!entry.removed).then(|| self.payload.slice(entry.value_start..entry.end))
    }

    /// The index of the first row whose key is not before `key`.
    pub(super) fn first_at_or_after(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.places.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.key(middle) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// How many bytes two keys have in common at their beginning.
fn shared_bytes(left: &[u8], right: &[u8]) -> usize {
    let (left_words, _) = left.as_chunks::<8>();
    let (right_words, _) = right.as_chunks::<8>();
    let words = left_words.iter().zip(right_words).take_while(|(left, right)| left == right);
    let whole = words.count() * 8;
    let rest = left[whole..].iter().zip(&right[whole..]);
    whole + rest.take_while(|(left, right)| left == right).count()
}

fn checksum(covered: &[u8], table: u64, offset: u64) -> u32 {
    let place = crc32c::crc32c_append(crc32c::crc32c(covered), &table.to_le_bytes());
    crc32c::crc32c_append(place, &offset.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by fuzzing: memory for all of them was asked for before the first was read.
    #[test]
    fn a_block_that_claims_four_billion_entries_is_damaged() {
        let mut bytes = sample(3);
        bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        let right = checksum(&bytes[4..], 3, 4096);
        bytes[..4].copy_from_slice(&right.to_le_bytes());
        assert!(Block::open(Bytes::from(bytes), 3, 4096).is_none());
    }

    fn sample(entries: u32) -> Vec<u8> {
        let mut builder = BlockBuilder::default();
        for number in 0..entries {
            let value = format!("value {number}");
            let value = (number % 5 != 0).then_some(value.as_bytes());
            builder.add(format!("key-{:05}", number * 2).as_bytes(), value);
        }
        let mut out = Vec::new();
        builder.finish(&mut out, 3, 4096);
        out
    }

    #[test]
    fn every_key_is_found_and_no_other() {
        let block = Block::open(Bytes::from(sample(100)), 3, 4096).expect("valid");
        for number in 0..100u32 {
            let found = block.get(format!("key-{:05}", number * 2).as_bytes());
            let expected = (number % 5 != 0).then(|| Bytes::from(format!("value {number}")));
            assert_eq!(found, expected.into());
            let absent = format!("key-{:05}", number * 2 + 1);
            assert_eq!(block.get(absent.as_bytes()), Found::Unknown);
        }
        assert_eq!(block.get(b"a"), Found::Unknown);
    }

    #[test]
    fn rows_are_all_entries_in_order() {
        let rows = Block::open(Bytes::from(sample(40)), 3, 4096).and_then(|block| block.rows());
        let rows = rows.expect("valid");
        assert_eq!(rows.len(), 40);
        assert_eq!((rows.key(39), rows.value(39)), (&b"key-00078"[..], Some(&b"value 39"[..])));
        assert_eq!(rows.first_at_or_after(b"key-00003"), 2);
        assert_eq!(rows.first_at_or_after(b"z"), 40);
    }

    #[test]
    fn steps_go_over_the_same_entries_as_rows() {
        let block = Block::open(Bytes::from(sample(40)), 3, 4096).expect("valid");
        let rows = block.rows().expect("valid");
        for start in 0..=80u32 {
            let wanted = format!("key-{start:05}");
            let row = rows.first_at_or_after(wanted.as_bytes());
            let mut steps = block.first_at_or_after(wanted.as_bytes());
            assert_eq!(steps.is_some(), row < rows.len(), "{wanted}");
            for row in row..rows.len() {
                let here = steps.as_mut().expect("there are as many");
                assert_eq!((here.key(), here.value()), (rows.key(row), rows.value(row)));
                assert_eq!(here.value_bytes(), rows.value_bytes(row));
                assert_eq!(here.step(), Some(row + 1 < rows.len()), "behind {row}");
            }
        }
        assert_eq!(block.first().expect("an entry").key(), rows.key(0));
    }

    /// Which a right checksum makes a bug of the writer, and a reason not to copy any of it.
    #[test]
    fn a_block_with_other_entries_than_it_says_does_not_parse() {
        for claimed in [39u32, 41] {
            let mut bytes = sample(40);
            bytes[8..12].copy_from_slice(&claimed.to_le_bytes());
            let right = checksum(&bytes[4..], 3, 4096);
            bytes[..4].copy_from_slice(&right.to_le_bytes());
            let block = Block::open(Bytes::from(bytes), 3, 4096).expect("the checksum is right");
            let mut steps = block.first().expect("an entry");
            let last = std::iter::repeat_with(|| steps.step()).find(|step| *step != Some(true));
            assert_eq!((last, block.rows().is_none()), (Some(None), true), "{claimed}");
        }
    }

    #[test]
    fn damage_and_a_wrong_place_are_noticed() {
        let bytes = sample(20);
        assert!(Block::open(Bytes::from(bytes.clone()), 3, 0).is_none());
        assert!(Block::open(Bytes::from(bytes.clone()), 4, 4096).is_none());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Block::open(Bytes::from(damaged), 3, 4096).is_none(), "bit {bit}");
        }
    }
}
