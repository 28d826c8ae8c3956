//! The bytes around a table's blocks: index and footer.
//!
//! ```text
//! table:   block … | filter | index | footer
//! index:   per block: offset u64 | bytes u32 | entries u32 | key length u16 | last key
//! footer:  magic 8 | version u32 | checksum u32 | store 16 | table u64 | entries u64
//!          | removed u64 | first sequence u64 | last sequence u64 | expiring u64
//!          | over at u64 | blocks' bytes u64
//!          | filter bytes u64 | index bytes u64 | filter checksum u32 | index checksum u32
//! ```

use std::path::{Path, PathBuf};

use super::bytes_io::Reader;
use super::error::{Error, Result};
use super::limits::NUMBER_MAX;

/// Bytes of the footer, at the very end of the file.
pub(super) const FOOTER_BYTES: usize = 120;

/// Raised with every change of block, filter, index or footer.
pub(super) const TABLE_VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"HENCETAB";
const SUFFIX: &str = ".table";

/// What is known of a table without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TableMeta {
    pub(super) id: u64,
    pub(super) bytes: u64,
    pub(super) entries: u64,
    /// Entries that only say that a key was removed.
    pub(super) removed: u64,
    pub(super) first_sequence: u64,
    pub(super) last_sequence: u64,
    /// Entries that go by themselves.
    pub(super) expiring: u64,
    /// When most of those are over.
    pub(super) over_at: u64,
}

/// The decoded end of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) meta: TableMeta,
    pub(super) blocks_bytes: u64,
    pub(super) filter_bytes: u64,
    pub(super) index_bytes: u64,
    pub(super) filter_checksum: u32,
    pub(super) index_checksum: u32,
}

/// One block as the index knows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockPlace {
    pub(super) offset: u64,
    pub(super) bytes: u32,
    pub(super) entries: u32,
}

/// The last keys of blocks or of pages, in order, one behind the other.
#[derive(Debug, Default)]
pub(super) struct LastKeys {
    keys: Vec<u8>,
    ends: Vec<u32>,
}

impl LastKeys {
    pub(super) fn push(&mut self, key: &[u8]) {
        self.keys.extend_from_slice(key);
        self.ends.push(self.keys.len() as u32);
    }

    /// The first that is not before `key`; one past the end if there is none.
    pub(super) fn first_not_before(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.get(middle) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    pub(super) fn bytes(&self) -> usize {
        self.keys.len() + self.ends.len() * size_of::<u32>()
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.keys.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    fn get(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.keys[start as usize..self.ends[number] as usize]
    }
}

/// Places and last keys of blocks: of all, while a table is written; of a page, when it is read.
#[derive(Debug, Default)]
pub(super) struct Index {
    blocks: Vec<BlockPlace>,
    last_keys: LastKeys,
}

/// What the index says of one block.
#[derive(Debug)]
pub(super) struct IndexEntry<'a> {
    pub(super) offset: u64,
    pub(super) bytes: u32,
    pub(super) entries: u32,
    pub(super) last_key: &'a [u8],
}

impl<'a> IndexEntry<'a> {
    /// Bytes of an entry before its key.
    const HEAD: usize = 18;

    /// The next entry, if all of it is there.
    pub(super) fn read(fields: &mut Reader<'a>) -> Option<Self> {
        let (offset, bytes, entries) = (fields.u64()?, fields.u32()?, fields.u32()?);
        let key_len = fields.u16()? as usize;
        Some(IndexEntry { offset, bytes, entries, last_key: fields.take(key_len)? })
    }

    pub(super) fn encoded_bytes(&self) -> usize {
        IndexEntry::HEAD + self.last_key.len()
    }
}

/// Where the table with this number lies.
pub(super) fn table_path(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("{id:010}{SUFFIX}"))
}

/// The number in a table's file name.
pub(super) fn table_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let number = digits.parse().ok().filter(|number| *number <= NUMBER_MAX)?;
    (format!("{number:010}") == digits).then_some(number)
}

impl TableMeta {
    /// Whether the counts can be true of any table; if so they can be reckoned with.
    fn adds_up(&self) -> bool {
        let sequences = [self.first_sequence, self.last_sequence];
        self.removed <= self.entries
            && self.expiring <= self.entries
            && sequences.iter().all(|sequence| *sequence <= NUMBER_MAX)
    }
}

impl Index {
    pub(super) fn push(&mut self, offset: u64, bytes: u32, entries: u32, last_key: &[u8]) {
        self.last_keys.push(last_key);
        self.blocks.push(BlockPlace { offset, bytes, entries });
    }

    pub(super) fn blocks(&self) -> &[BlockPlace] {
        &self.blocks
    }

    /// The first block whose last key is not before `key`; one past the end if there is none.
    pub(super) fn block_for(&self, key: &[u8]) -> usize {
        self.last_keys.first_not_before(key)
    }

    pub(super) fn bytes(&self) -> usize {
        self.last_keys.bytes() + self.blocks.len() * size_of::<BlockPlace>()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out =
            Vec::with_capacity(self.last_keys.bytes() + self.blocks.len() * IndexEntry::HEAD);
        for (number, block) in self.blocks.iter().enumerate() {
            let key = self.last_keys.get(number);
            out.extend_from_slice(&block.offset.to_le_bytes());
            out.extend_from_slice(&block.bytes.to_le_bytes());
            out.extend_from_slice(&block.entries.to_le_bytes());
            out.extend_from_slice(&(key.len() as u16).to_le_bytes());
            out.extend_from_slice(key);
        }
        out
    }

    /// `None` if the bytes are no entries.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut index = Index::default();
        let mut fields = Reader::new(bytes);
        while !fields.is_empty() {
            let entry = IndexEntry::read(&mut fields)?;
            index.push(entry.offset, entry.bytes, entry.entries, entry.last_key);
        }
        index.blocks.shrink_to_fit();
        index.last_keys.shrink_to_fit();
        Some(index)
    }
}

impl Footer {
    pub(super) fn encode(&self, store_id: [u8; 16]) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&TABLE_VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&store_id);
        let meta = &self.meta;
        for number in [
            meta.id,
            meta.entries,
            meta.removed,
            meta.first_sequence,
            meta.last_sequence,
            meta.expiring,
            meta.over_at,
            self.blocks_bytes,
            self.filter_bytes,
            self.index_bytes,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.filter_checksum.to_le_bytes());
        out.extend_from_slice(&self.index_checksum.to_le_bytes());
        assert_eq!(out.len(), FOOTER_BYTES);
        let checksum = footer_checksum(&out);
        out[12..16].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Judges the last bytes of a table file that is `file_bytes` long.
    pub(super) fn decode(
        path: &Path,
        footer: &[u8],
        file_bytes: u64,
        store_id: [u8; 16],
    ) -> Result<Self> {
        let at = file_bytes.saturating_sub(FOOTER_BYTES as u64);
        let damaged = || Error::corrupt(path, at, "the table's footer is not valid");
        let (version, decoded) = decode_fields(footer, file_bytes, store_id).ok_or_else(damaged)?;
        if version > TABLE_VERSION {
            let file = path.to_owned();
            return Err(Error::Version { file, found: version, supported: TABLE_VERSION });
        }
        let parts = [decoded.blocks_bytes, decoded.filter_bytes, decoded.index_bytes];
        let total = parts.iter().try_fold(FOOTER_BYTES as u64, |sum, part| sum.checked_add(*part));
        if total != Some(file_bytes) {
            return Err(Error::corrupt(path, at, "the table's length is not what it says"));
        }
        if !decoded.meta.adds_up() {
            return Err(Error::corrupt(path, at, "the table's counts do not add up"));
        }
        Ok(decoded)
    }
}

fn decode_fields(footer: &[u8], file_bytes: u64, store_id: [u8; 16]) -> Option<(u32, Footer)> {
    let mut fields = Reader::new(footer);
    let magic: [u8; 8] = fields.array()?;
    let version = fields.u32()?;
    let checksum = fields.u32()?;
    let store: [u8; 16] = fields.array()?;
    if footer.len() != FOOTER_BYTES
        || &magic != MAGIC
        || checksum != footer_checksum(footer)
        || store != store_id
    {
        return None;
    }
    let meta = TableMeta {
        id: fields.u64()?,
        bytes: file_bytes,
        entries: fields.u64()?,
        removed: fields.u64()?,
        first_sequence: fields.u64()?,
        last_sequence: fields.u64()?,
        expiring: fields.u64()?,
        over_at: fields.u64()?,
    };
    let footer = Footer {
        meta,
        blocks_bytes: fields.u64()?,
        filter_bytes: fields.u64()?,
        index_bytes: fields.u64()?,
        filter_checksum: fields.u32()?,
        index_checksum: fields.u32()?,
    };
    Some((version, footer))
}

fn footer_checksum(footer: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&footer[..12]), &footer[16..])
}
