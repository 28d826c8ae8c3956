//! Which block of a table holds a key.
//!
//! The index is read a page at a time; in memory is the last key of every page, which is less than
//! a byte for each hundred entries of the table. It was judged as a whole when the table was
//! opened; a page must have the checksum that it had then.

use std::sync::Arc;

use super::bytes_io::Reader;
use super::cache::Cache;
use super::error::Result;
use super::limits::INDEX_PAGE_BYTES;
use super::table_file::TableFile;
use super::table_format::{BlockPlace, Footer, Index, IndexEntry, LastKeys};

/// The index of an open table.
#[derive(Debug, Default)]
pub(super) struct PagedIndex {
    pages: Vec<Page>,
    last_keys: LastKeys,
    blocks: usize,
    entries: u64,
}

#[derive(Debug)]
struct Page {
    offset: u64,
    bytes: u32,
    checksum: u32,
    /// The number of its first block.
    block: usize,
}

impl PagedIndex {
    /// Judges the index of the table with this footer.
    pub(super) fn open(file: &TableFile, footer: &Footer) -> Result<Self> {
        let start = footer.blocks_bytes + footer.filter_bytes;
        let damaged = || file.damaged(start, NOT_VALID);
        let mut opening = Opening::new(start);
        let (mut whole, mut unread) = (0, Vec::new());
        for chunk in file.chunks(start, footer.index_bytes) {
            let chunk = chunk?;
            whole = crc32c::crc32c_append(whole, &chunk);
            unread.extend_from_slice(&chunk);
            let read = opening.take(&unread).ok_or_else(damaged)?;
            unread.drain(..read);
        }
        let is_whole = unread.is_empty() && opening.blocks_bytes == footer.blocks_bytes;
        if whole != footer.index_checksum || !is_whole {
            return Err(damaged());
        }
        Ok(opening.finish())
    }

    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// The entries of all blocks.
    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    /// Memory held while the table is open.
    pub(super) fn bytes(&self) -> usize {
        self.last_keys.bytes() + self.pages.len() * size_of::<Page>()
    }
}

/// Looks up places in a table's index; the page that it looked into last is at hand.
#[derive(Debug)]
pub(super) struct Places<'a> {
    index: &'a PagedIndex,
    file: &'a TableFile,
    /// Absent for long runs through the table, which would only push others out.
    cache: Option<&'a Cache>,
    page: Option<(usize, Arc<Index>)>,
}

impl<'a> Places<'a> {
    pub(super) fn new(
        index: &'a PagedIndex,
        file: &'a TableFile,
        cache: Option<&'a Cache>,
    ) -> Self {
        Places { index, file, cache, page: None }
    }

    /// The first block whose last key is not before `key`, with its number.
    pub(super) fn find(&mut self, key: &[u8]) -> Result<Option<(usize, BlockPlace)>> {
        let number = self.index.last_keys.first_not_before(key);
        let Some(first) = self.index.pages.get(number).map(|page| page.block) else {
            return Ok(None);
        };
        let page = self.page(number)?;
        let block = page.block_for(key);
        Ok(page.blocks().get(block).map(|place| (first + block, *place)))
    }

    /// The block with this number.
    pub(super) fn get(&mut self, block: usize) -> Result<Option<BlockPlace>> {
        if block >= self.index.blocks {
            return Ok(None);
        }
        let number = self.index.pages.partition_point(|page| page.block <= block) - 1;
        let first = self.index.pages[number].block;
        Ok(self.page(number)?.blocks().get(block - first).copied())
    }

    fn page(&mut self, number: usize) -> Result<Arc<Index>> {
        if let Some((at_hand, page)) = &self.page
            && *at_hand == number
        {
            return Ok(Arc::clone(page));
        }
        let Page { offset, .. } = self.index.pages[number];
        let page = match self.cache {
            Some(cache) => {
                cache.indexes.get_or((self.file.id, offset), || self.read_page(number))?
            }
            None => self.read_page(number)?,
        };
        self.page = Some((number, Arc::clone(&page)));
        Ok(page)
    }

    fn read_page(&self, number: usize) -> Result<Arc<Index>> {
        let Page { offset, bytes, checksum, .. } = self.index.pages[number];
        let read = self.file.read(offset, bytes as usize)?;
        let sound = (crc32c::crc32c(&read) == checksum).then(|| Index::decode(&read)).flatten();
        sound.map(Arc::new).ok_or_else(|| self.file.damaged(offset, NOT_VALID))
    }
}

const NOT_VALID: &str = "the table's index is not valid";

/// An index that is being judged and cut into pages.
struct Opening {
    index: PagedIndex,
    /// The page that is not complete: where it begins, its bytes so far, their checksum, its first
    /// block.
    page: Page,
    last_key: Vec<u8>,
    /// Where the next block must begin.
    blocks_bytes: u64,
}

impl Opening {
    fn new(start: u64) -> Self {
        Opening {
            index: PagedIndex::default(),
            page: Page { offset: start, bytes: 0, checksum: 0, block: 0 },
            last_key: Vec::new(),
            blocks_bytes: 0,
        }
    }

    /// Takes the whole entries at the start of these bytes and says how long they are; `None` if
    /// they are no entries of blocks that lie back to back.
    fn take(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut fields = Reader::new(bytes);
        let mut read = 0;
        while let Some(entry) = IndexEntry::read(&mut fields) {
            if entry.offset != self.blocks_bytes {
                return None;
            }
            self.blocks_bytes = self.blocks_bytes.checked_add(u64::from(entry.bytes))?;
            self.index.blocks += 1;
            self.index.entries = self.index.entries.checked_add(u64::from(entry.entries))?;
            let end = read + entry.encoded_bytes();
            self.page.checksum = crc32c::crc32c_append(self.page.checksum, &bytes[read..end]);
            self.page.bytes += (end - read) as u32;
            self.last_key.clear();
            self.last_key.extend_from_slice(entry.last_key);
            read = end;
            if self.page.bytes as usize >= INDEX_PAGE_BYTES {
                self.end_page();
            }
        }
        Some(read)
    }

    fn end_page(&mut self) {
        self.index.last_keys.push(&self.last_key);
        let next = Page {
            offset: self.page.offset + u64::from(self.page.bytes),
            bytes: 0,
            checksum: 0,
            block: self.index.blocks,
        };
        self.index.pages.push(std::mem::replace(&mut self.page, next));
    }

    fn finish(mut self) -> PagedIndex {
        if self.page.bytes > 0 {
            self.end_page();
        }
        self.index.pages.shrink_to_fit();
        self.index.last_keys.shrink_to_fit();
        self.index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::error::Error;
    use crate::kv::fake_disk::FakeDisk;
    use crate::kv::table_format::{TableMeta, table_path};
    use std::path::Path;

    const FILTER_BYTES: u64 = 64;

    /// Blocks of a table whose last keys are the even numbers, of several lengths.
    fn index(blocks: u64) -> Index {
        let mut index = Index::default();
        for number in 0..blocks {
            index.push(number * 100, 100, 7, &key(2 * number));
        }
        index
    }

    fn key(number: u64) -> Vec<u8> {
        let mut key = format!("{number:08}").into_bytes();
        key.resize(8 + number as usize % 40, b'-');
        key
    }

    /// A file of that many bytes of blocks, a filter and these bytes of an index, and its footer.
    fn file_with(index: &[u8], blocks_bytes: u64) -> (FakeDisk, TableFile, Footer) {
        let (disk, dir) = (FakeDisk::new(), Path::new("/store"));
        let before = vec![7; (blocks_bytes + FILTER_BYTES) as usize];
        disk.set_content(&table_path(dir, 3), &[&before, index].concat());
        let (file, _) = TableFile::open(&disk, dir, 3).expect("opens");
        let footer = Footer {
            meta: TableMeta {
                id: 3,
                bytes: 0,
                entries: 0,
                removed: 0,
                first_sequence: 0,
                last_sequence: 0,
                expiring: 0,
                over_at: 0,
            },
            blocks_bytes,
            filter_bytes: FILTER_BYTES,
            index_bytes: index.len() as u64,
            filter_checksum: 0,
            index_checksum: crc32c::crc32c(index),
        };
        (disk, file, footer)
    }

    #[test]
    fn pages_say_what_the_whole_index_says() {
        for blocks in [1, 90, 10_000] {
            let whole = index(blocks);
            let (_disk, file, footer) = file_with(&whole.encode(), blocks * 100);
            let paged = PagedIndex::open(&file, &footer).expect("is sound");
            assert_eq!((paged.blocks() as u64, paged.entries()), (blocks, blocks * 7));
            let cache = Cache::new(1 << 20);
            for cache in [None, Some(&cache)] {
                let mut places = Places::new(&paged, &file, cache);
                for number in 0..=2 * blocks {
                    let found = places.find(&key(number)).expect("reads");
                    let block = whole.block_for(&key(number));
                    let expected = whole.blocks().get(block).map(|place| (block, place.offset));
                    assert_eq!(found.map(|(block, place)| (block, place.offset)), expected);
                }
                for block in (0..=blocks as usize).rev() {
                    let place = places.get(block).expect("reads").map(|place| place.offset);
                    assert_eq!(place, whole.blocks().get(block).map(|place| place.offset));
                }
            }
        }
        // Not one of them is empty, or it would not have been one page, one, and many in chunks.
        assert!(index(10_000).encode().len() > super::super::limits::READ_CHUNK_BYTES);
        assert!(index(90).encode().len() > 3 * INDEX_PAGE_BYTES / 4);
    }

    #[test]
    fn what_is_no_index_of_these_blocks_is_refused() {
        let whole = index(200).encode();
        let other = index(199).encode();
        let swapped = [&whole[200..], &whole[..200]].concat();
        let empty: &[u8] = &[];
        let rows = [(&whole[..whole.len() - 1], 20_000), (&other, 20_000), (&swapped, 20_000)];
        for (bytes, blocks_bytes) in rows.into_iter().chain([(empty, 20_000), (&whole, 0)]) {
            let (_disk, file, footer) = file_with(bytes, blocks_bytes);
            let refused = PagedIndex::open(&file, &footer);
            assert!(matches!(refused, Err(Error::Corrupt { .. })), "{} bytes", bytes.len());
        }
        let (_disk, file, footer) = file_with(&whole, 20_000);
        let wrong = Footer { index_checksum: 1, ..footer };
        assert!(PagedIndex::open(&file, &footer).is_ok());
        assert!(PagedIndex::open(&file, &wrong).is_err());
    }

    #[test]
    fn a_page_that_changed_since_it_was_judged_is_refused() {
        let whole = index(1_000).encode();
        let (disk, file, footer) = file_with(&whole, 100_000);
        let paged = PagedIndex::open(&file, &footer).expect("is sound");
        let mut content = disk.content(&file.path).expect("a table");
        let last = content.len() - 1;
        content[last] ^= 1;
        disk.set_content(&file.path, &content);
        let mut places = Places::new(&paged, &file, None);
        assert!(places.get(0).is_ok());
        let Err(Error::Corrupt { offset, .. }) = places.get(999) else { panic!("it is served") };
        assert_eq!(offset, paged.pages.last().expect("a page").offset);
        assert!(places.find(&key(1_998)).is_err());
    }
}
