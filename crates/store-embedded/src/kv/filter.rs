//! Says "certainly not here" for most keys that are not in a table.
//!
//! A Bloom filter whose bits for one key lie in one cache line, so that asking costs one miss and
//! not six, and one page of it is enough. The hash is part of the format: changing it means a new
//! table version.

use bytes::Bytes;

use super::cache::Cache;
use super::error::Result;
use super::limits::{FILTER_BITS_PER_KEY, FILTER_PAGE_BYTES, READ_CHUNK_BYTES};
use super::table_file::TableFile;

const LINE_BYTES: usize = 64;
const PROBES: u32 = 6;

const _: () = assert!(FILTER_PAGE_BYTES.is_multiple_of(LINE_BYTES));
const _: () = assert!(READ_CHUNK_BYTES.is_multiple_of(FILTER_PAGE_BYTES));

/// Keys that are inserted together.
const TOGETHER: usize = 128;

/// The filter of a table, as it is read: a page at a time. It was judged as a whole when the table
/// was opened; a page must have the checksum that it had then.
#[derive(Debug)]
pub(super) struct Filter {
    /// Where it begins in the table's file.
    start: u64,
    lines: u64,
    checksums: Vec<u32>,
}

/// The filter of a table that is being written.
///
/// Every key goes to another cache line, which is mostly not at hand. So hashes are gathered and
/// inserted many at a time: the processor then waits for several lines at once (measured: 16
/// against 43 nanoseconds a key).
#[derive(Debug)]
pub(super) struct FilterBuilder {
    bits: Vec<u8>,
    gathered: Vec<u64>,
}

impl FilterBuilder {
    /// For at most this many keys.
    pub(super) fn with_capacity(keys: usize) -> Self {
        let lines = (keys * FILTER_BITS_PER_KEY).div_ceil(LINE_BYTES * 8).max(1);
        FilterBuilder { bits: vec![0; lines * LINE_BYTES], gathered: Vec::with_capacity(TOGETHER) }
    }

    pub(super) fn insert(&mut self, key: &[u8]) {
        self.gathered.push(hash(key));
        if self.gathered.len() == TOGETHER {
            self.insert_gathered();
        }
    }

    /// The filter of all keys inserted; nothing is left of it here.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        self.insert_gathered();
        std::mem::take(&mut self.bits)
    }

    fn insert_gathered(&mut self) {
        let lines = (self.bits.len() / LINE_BYTES) as u64;
        for hash in self.gathered.drain(..) {
            let line = line_of(hash, lines) as usize * LINE_BYTES;
            for bit in bits_of(hash) {
                self.bits[line + bit / 8] |= 1 << (bit % 8);
            }
        }
    }
}

impl Filter {
    /// Judges the filter that lies in this part of the table's file.
    pub(super) fn open(file: &TableFile, start: u64, bytes: u64, checksum: u32) -> Result<Self> {
        let (mut whole, mut checksums) = (0, Vec::new());
        for chunk in file.chunks(start, bytes) {
            let chunk = chunk?;
            whole = crc32c::crc32c_append(whole, &chunk);
            checksums.extend(chunk.chunks(FILTER_PAGE_BYTES).map(crc32c::crc32c));
        }
        let has_lines = bytes > 0 && bytes.is_multiple_of(LINE_BYTES as u64);
        if whole != checksum || !has_lines {
            return Err(file.damaged(start, NOT_VALID));
        }
        Ok(Filter { start, lines: bytes / LINE_BYTES as u64, checksums })
    }

    /// `false` only if the key was never inserted.
    pub(super) fn may_contain(&self, key: &[u8], file: &TableFile, cache: &Cache) -> Result<bool> {
        let hash = hash(key);
        let at = line_of(hash, self.lines) as usize * LINE_BYTES;
        let number = at / FILTER_PAGE_BYTES;
        let offset = self.start + (number * FILTER_PAGE_BYTES) as u64;
        let page = cache.filters.get_or((file.id, offset), || self.page(number, offset, file))?;
        let line = &page[at % FILTER_PAGE_BYTES..][..LINE_BYTES];
        Ok(bits_of(hash).all(|bit| line[bit / 8] & (1 << (bit % 8)) != 0))
    }

    /// Memory held while the table is open.
    pub(super) fn bytes(&self) -> usize {
        self.checksums.len() * size_of::<u32>()
    }

    fn page(&self, number: usize, offset: u64, file: &TableFile) -> Result<Bytes> {
        let rest = self.start + self.lines * LINE_BYTES as u64 - offset;
        let page = file.read(offset, rest.min(FILTER_PAGE_BYTES as u64) as usize)?;
        if crc32c::crc32c(&page) != self.checksums[number] {
            return Err(file.damaged(offset, NOT_VALID));
        }
        Ok(Bytes::from(page))
    }
}

const NOT_VALID: &str = "the table's filter is not valid";

/// The line of so many that the bits of this hash lie in.
fn line_of(hash: u64, lines: u64) -> u64 {
    ((hash >> 32) * lines) >> 32
}

/// Its bits in that line.
fn bits_of(hash: u64) -> impl Iterator<Item = usize> {
    let probes = mix(hash ^ 0x9e37_79b9_7f4a_7c15);
    (0..PROBES).map(move |probe| ((probes >> (9 * probe)) & 511) as usize)
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
    use crate::kv::error::Error;
    use crate::kv::fake_disk::FakeDisk;
    use crate::kv::table_format::table_path;
    use std::path::Path;

    #[test]
    fn every_key_is_found_and_few_others() {
        let keys = 20_000;
        let mut builder = FilterBuilder::with_capacity(keys);
        for number in 0..keys {
            builder.insert(format!("customer-{number}").as_bytes());
        }
        let (disk, file, filter) = opened(&builder.finish());
        assert!(filter.checksums.len() > 5, "it has several pages");
        let cache = Cache::new(1 << 20);
        let may_contain = |number: usize| {
            let key = format!("customer-{number}");
            filter.may_contain(key.as_bytes(), &file, &cache).expect("reads")
        };
        assert!((0..keys).all(may_contain));
        let wrong = (keys..3 * keys).filter(|number| may_contain(*number)).count();
        assert!(wrong < keys * 2 / 40, "{wrong} of {} are false positives", keys * 2);
        // What is at hand is not read again.
        disk.set_content(&file.path, &[]);
        assert!((0..keys).all(may_contain));
    }

    /// A file in which the filter is not at the start.
    fn opened(bits: &[u8]) -> (FakeDisk, TableFile, Filter) {
        let (disk, dir) = (FakeDisk::new(), Path::new("/store"));
        let content = [&[7; START], bits].concat();
        disk.set_content(&table_path(dir, 3), &content);
        let (file, _) = TableFile::open(&disk, dir, 3).expect("opens");
        let checksum = crc32c::crc32c(bits);
        let filter = Filter::open(&file, START as u64, bits.len() as u64, checksum);
        (disk, file, filter.expect("is sound"))
    }

    #[test]
    fn a_page_that_changed_since_it_was_judged_is_refused() {
        let (disk, file, filter) = opened(&[0xff; 10_048]);
        for at in [0, 4_095, 4_096, 10_047] {
            let mut content = disk.content(&file.path).expect("a table");
            content[START + at] ^= 1;
            disk.set_content(&file.path, &content);
        }
        let cache = Cache::new(1 << 20);
        let mut seen = [false; 3];
        for number in 0..100 {
            let key = format!("customer-{number}");
            let page = line_of(hash(key.as_bytes()), filter.lines) as usize * LINE_BYTES / 4_096;
            let found = filter.may_contain(key.as_bytes(), &file, &cache);
            let offset = (START + page * 4_096) as u64;
            assert!(matches!(found, Err(Error::Corrupt { offset: at, .. }) if at == offset));
            seen[page] = true;
        }
        assert_eq!(seen, [true; 3], "keys of every page");
    }

    const START: usize = 1_234;

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
