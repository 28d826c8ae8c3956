//! An immutable sorted file, open for reading.
//!
//! Blocks, and the pages of index and filter, are read when they are asked for. Every byte is under
//! a checksum that is judged before the byte is used.

use std::ops::Bound;
use std::path::Path;

use bytes::Bytes;

use super::block::{Block, Rows, Steps};
use super::cache::Cache;
use super::cursor::{Cursor, Direction, Found};
use super::disk::Disk;
use super::error::{Error, Result};
use super::filter::Filter;
use super::table_file::TableFile;
use super::table_format::{BlockPlace, FOOTER_BYTES, Footer, TableMeta};
use super::table_index::{PagedIndex, Places};

#[derive(Debug)]
pub(super) struct Table {
    pub(super) meta: TableMeta,
    file: TableFile,
    index: PagedIndex,
    filter: Filter,
}

impl Table {
    /// Opens the table with this number and judges everything but its blocks.
    pub(super) fn open(disk: &dyn Disk, dir: &Path, id: u64, store_id: [u8; 16]) -> Result<Self> {
        let (file, bytes) = TableFile::open(disk, dir, id)?;
        let footer_at = bytes.checked_sub(FOOTER_BYTES as u64);
        let footer_at = footer_at.ok_or_else(|| file.damaged(0, "the table is cut"))?;
        let footer = file.read(footer_at, FOOTER_BYTES)?;
        let footer = Footer::decode(&file.path, &footer, bytes, store_id)?;
        if footer.meta.id != id {
            return Err(file.damaged(footer_at, "the footer is that of another table"));
        }
        let Footer { blocks_bytes, filter_bytes, filter_checksum, .. } = footer;
        let filter = Filter::open(&file, blocks_bytes, filter_bytes, filter_checksum)?;
        let index = PagedIndex::open(&file, &footer)?;
        if footer.meta.entries != index.entries() {
            return Err(file.damaged(footer_at, "the footer counts other entries"));
        }
        Ok(Table { meta: footer.meta, file, index, filter })
    }

    /// Whether it is the one that the manifest names, as it says itself.
    pub(super) fn check_named(&self, named: &TableMeta) -> Result<()> {
        if self.meta == *named {
            return Ok(());
        }
        Err(self.file.damaged(0, "the table is not the one the manifest names"))
    }

    /// What this table knows of the key.
    pub(super) fn get(&self, key: &[u8], cache: &Cache) -> Result<Found> {
        if !self.filter.may_contain(key, &self.file, cache)? {
            return Ok(Found::Unknown);
        }
        let Some((_, place)) = self.places(Some(cache)).find(key)? else {
            return Ok(Found::Unknown);
        };
        Ok(self.cached_block(&place, cache)?.get(key))
    }

    pub(super) fn path(&self) -> &Path {
        &self.file.path
    }

    /// Where each block lies, in order.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Result<BlockPlace>> {
        let mut places = self.places(None);
        (0..self.index.blocks()).filter_map(move |block| places.get(block).transpose())
    }

    /// Memory held for this table while it is open.
    pub(super) fn resident_bytes(&self) -> usize {
        self.index.bytes() + self.filter.bytes()
    }

    /// Reads and judges one block, past the cache.
    pub(super) fn block(&self, place: &BlockPlace) -> Result<Block> {
        let bytes = self.file.read(place.offset, place.bytes as usize)?;
        Block::open(Bytes::from(bytes), self.meta.id, place.offset)
            .ok_or_else(|| self.file.damaged(place.offset, "a block is not valid"))
    }

    fn cached_block(&self, place: &BlockPlace, cache: &Cache) -> Result<Block> {
        cache.blocks.get_or((self.meta.id, place.offset), || self.block(place))
    }

    fn places<'a>(&'a self, cache: Option<&'a Cache>) -> Places<'a> {
        Places::new(&self.index, &self.file, cache)
    }
}

/// Walks a table in one direction.
#[derive(Debug)]
pub(super) struct TableCursor<'a> {
    table: &'a Table,
    /// Absent for long runs through the table, which would only push others out.
    cache: Option<&'a Cache>,
    places: Places<'a>,
    /// The block that it is in, and where that begins.
    block: usize,
    offset: u64,
    here: Here,
}

/// Where in a block a cursor is. Forward, keys are made whole one by one, so that a short walk
/// does not pay for all of them; backward they must all be known.
#[derive(Debug)]
enum Here {
    Forward(Steps),
    Backward(Rows, usize),
    End,
}

impl<'a> TableCursor<'a> {
    /// Stands on the first entry at or past `start`, seen in the direction of the walk.
    pub(super) fn seek(
        table: &'a Table,
        cache: Option<&'a Cache>,
        direction: Direction,
        start: Bound<&[u8]>,
    ) -> Result<Self> {
        let places = table.places(cache);
        let mut cursor = TableCursor { table, cache, places, block: 0, offset: 0, here: Here::End };
        match direction {
            Direction::Forward => cursor.seek_forward(start)?,
            Direction::Backward => cursor.seek_backward(start)?,
        }
        Ok(cursor)
    }

    fn seek_forward(&mut self, start: Bound<&[u8]>) -> Result<()> {
        let (Bound::Included(key) | Bound::Excluded(key)) = start else {
            return self.load(0, first_step);
        };
        let Some((block, place)) = self.places.find(key)? else {
            return Ok(());
        };
        self.load_at(block, place, |block| block.first_at_or_after(key).map(Here::Forward))?;
        if matches!(start, Bound::Excluded(_)) && self.key() == Some(key) {
            self.step()?;
        }
        Ok(())
    }

    fn seek_backward(&mut self, start: Bound<&[u8]>) -> Result<()> {
        let Some(last) = self.table.index.blocks().checked_sub(1) else {
            return Ok(());
        };
        let (Bound::Included(key) | Bound::Excluded(key)) = start else {
            return self.load(last, last_row);
        };
        let Some((block, place)) = self.places.find(key)? else {
            return self.load(last, last_row);
        };
        // The block's last key is not before the wanted one, so the row exists.
        self.load_at(block, place, |block| {
            let rows = block.rows()?;
            let row = rows.first_at_or_after(key);
            (row < rows.len()).then_some(Here::Backward(rows, row))
        })?;
        if matches!(start, Bound::Excluded(_)) || self.key() != Some(key) {
            self.step()?;
        }
        Ok(())
    }

    /// Moves to a block and a place in it; past the last block the cursor is at its end.
    fn load(&mut self, block: usize, find: impl FnOnce(&Block) -> Option<Here>) -> Result<()> {
        self.here = Here::End;
        match self.places.get(block)? {
            Some(place) => self.load_at(block, place, find),
            None => Ok(()),
        }
    }

    /// The same, with the block's place. Without such a place in it the block is not what its table
    /// says of it.
    fn load_at(
        &mut self,
        block: usize,
        place: BlockPlace,
        find: impl FnOnce(&Block) -> Option<Here>,
    ) -> Result<()> {
        self.here = Here::End;
        let read = match self.cache {
            Some(cache) => self.table.cached_block(&place, cache)?,
            None => self.table.block(&place)?,
        };
        (self.block, self.offset) = (block, place.offset);
        self.here = find(&read).ok_or_else(|| self.damaged())?;
        Ok(())
    }

    fn damaged(&self) -> Error {
        self.table.file.damaged(self.offset, "a block does not parse")
    }
}

fn first_step(block: &Block) -> Option<Here> {
    block.first().map(Here::Forward)
}

fn last_row(block: &Block) -> Option<Here> {
    let rows = block.rows()?;
    let last = rows.len().checked_sub(1)?;
    Some(Here::Backward(rows, last))
}

impl Cursor for TableCursor<'_> {
    fn key(&self) -> Option<&[u8]> {
        match &self.here {
            Here::Forward(steps) => Some(steps.key()),
            Here::Backward(rows, row) => Some(rows.key(*row)),
            Here::End => None,
        }
    }

    fn value(&self) -> Option<&[u8]> {
        match &self.here {
            Here::Forward(steps) => steps.value(),
            Here::Backward(rows, row) => rows.value(*row),
            Here::End => None,
        }
    }

    fn value_bytes(&self) -> Option<Bytes> {
        match &self.here {
            Here::Forward(steps) => steps.value_bytes(),
            Here::Backward(rows, row) => rows.value_bytes(*row),
            Here::End => None,
        }
    }

    fn step(&mut self) -> Result<()> {
        match &mut self.here {
            Here::Forward(steps) => match steps.step() {
                Some(true) => Ok(()),
                Some(false) => self.load(self.block + 1, first_step),
                None => Err(self.damaged()),
            },
            Here::Backward(_, row) if *row > 0 => {
                *row -= 1;
                Ok(())
            }
            Here::Backward(..) if self.block > 0 => self.load(self.block - 1, last_row),
            Here::Backward(..) => {
                self.here = Here::End;
                Ok(())
            }
            Here::End => Ok(()),
        }
    }
}
