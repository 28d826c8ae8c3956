//! An immutable sorted file, open for reading.
//!
//! Index and filter are in memory, blocks are read when they are asked for. Every byte is under a
//! checksum that is judged before the byte is used.

use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::block::{Block, Rows, Steps};
use super::cache::Cache;
use super::cursor::{Cursor, Direction, Found};
use super::disk::{Access, Disk, DiskFile};
use super::error::{Error, Result};
use super::filter::Filter;
use super::table_format::{BlockPlace, FOOTER_BYTES, Footer, Index, TableMeta, table_path};

#[derive(Debug)]
pub(super) struct Table {
    pub(super) meta: TableMeta,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    index: Index,
    filter: Filter,
}

impl Table {
    /// Opens the table with this number and judges everything but its blocks.
    pub(super) fn open(disk: &dyn Disk, dir: &Path, id: u64, store_id: [u8; 16]) -> Result<Self> {
        let path = table_path(dir, id);
        let failed = |cause: io::Error| match cause.kind() {
            io::ErrorKind::NotFound => Error::corrupt(&path, 0, "the table is missing"),
            _ => Error::io("open", &path, cause),
        };
        let file = disk.open(&path, Access::Read).map_err(failed)?;
        let bytes = file.len().map_err(failed)?;
        let footer_at = bytes.checked_sub(FOOTER_BYTES as u64);
        let footer_at = footer_at.ok_or_else(|| Error::corrupt(&path, 0, "the table is cut"))?;
        let footer = read(&*file, &path, footer_at, FOOTER_BYTES)?;
        let footer = Footer::decode(&path, &footer, bytes, store_id)?;
        if footer.meta.id != id {
            return Err(Error::corrupt(&path, footer_at, "the footer is that of another table"));
        }
        let (filter, index) = read_filter_and_index(&*file, &path, &footer)?;
        if footer.meta.entries != index.entries() {
            return Err(Error::corrupt(&path, footer_at, "the footer counts other entries"));
        }
        Ok(Table { meta: footer.meta, path, file, index, filter })
    }

    /// Whether it is the one that the manifest names, as it says itself.
    pub(super) fn check_named(&self, named: &TableMeta) -> Result<()> {
        if self.meta == *named {
            return Ok(());
        }
        Err(Error::corrupt(&self.path, 0, "the table is not the one the manifest names"))
    }

    /// What this table knows of the key.
    pub(super) fn get(&self, key: &[u8], cache: &Cache) -> Result<Found> {
        if !self.filter.may_contain(key) {
            return Ok(Found::Unknown);
        }
        let Some(place) = self.index.blocks().get(self.index.block_for(key)) else {
            return Ok(Found::Unknown);
        };
        Ok(self.cached_block(place, cache)?.get(key))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn blocks(&self) -> &[BlockPlace] {
        self.index.blocks()
    }

    /// Memory held for this table while it is open.
    pub(super) fn resident_bytes(&self) -> usize {
        self.index.bytes() + self.filter.as_bytes().len()
    }

    /// Reads and judges one block, past the cache.
    pub(super) fn block(&self, place: &BlockPlace) -> Result<Block> {
        let bytes = read(&*self.file, &self.path, place.offset, place.bytes as usize)?;
        Block::open(Bytes::from(bytes), self.meta.id, place.offset)
            .ok_or_else(|| Error::corrupt(&self.path, place.offset, "a block is not valid"))
    }

    fn cached_block(&self, place: &BlockPlace, cache: &Cache) -> Result<Block> {
        let key = (self.meta.id, place.offset);
        if let Some(block) = cache.get(key) {
            return Ok(block);
        }
        let block = self.block(place)?;
        cache.insert(key, block.clone());
        Ok(block)
    }
}

/// Walks a table in one direction.
#[derive(Debug)]
pub(super) struct TableCursor<'a> {
    table: &'a Table,
    /// Absent for long runs through the table, which would only push others out.
    cache: Option<&'a Cache>,
    /// The block that it is in.
    block: usize,
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
        let mut cursor = TableCursor { table, cache, block: 0, here: Here::End };
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
        let block = self.table.index.block_for(key);
        self.load(block, |block| block.first_at_or_after(key).map(Here::Forward))?;
        if matches!(start, Bound::Excluded(_)) && self.key() == Some(key) {
            self.step()?;
        }
        Ok(())
    }

    fn seek_backward(&mut self, start: Bound<&[u8]>) -> Result<()> {
        let Some(last) = self.table.index.blocks().len().checked_sub(1) else {
            return Ok(());
        };
        let (Bound::Included(key) | Bound::Excluded(key)) = start else {
            return self.load(last, last_row);
        };
        let block = self.table.index.block_for(key);
        if block > last {
            return self.load(last, last_row);
        }
        // The block's last key is not before the wanted one, so the row exists.
        self.load(block, |block| {
            let rows = block.rows()?;
            let row = rows.first_at_or_after(key);
            (row < rows.len()).then_some(Here::Backward(rows, row))
        })?;
        if matches!(start, Bound::Excluded(_)) || self.key() != Some(key) {
            self.step()?;
        }
        Ok(())
    }

    /// Moves to a block and a place in it; past the last block the cursor is at its end. Without
    /// such a place the block is not what its table says of it.
    fn load(&mut self, block: usize, find: impl FnOnce(&Block) -> Option<Here>) -> Result<()> {
        self.here = Here::End;
        let Some(place) = self.table.index.blocks().get(block) else {
            return Ok(());
        };
        let read = match self.cache {
            Some(cache) => self.table.cached_block(place, cache)?,
            None => self.table.block(place)?,
        };
        self.block = block;
        self.here = find(&read).ok_or_else(|| self.damaged())?;
        Ok(())
    }

    fn damaged(&self) -> Error {
        let offset = self.table.index.blocks()[self.block].offset;
        Error::corrupt(&self.table.path, offset, "a block does not parse")
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

fn read_filter_and_index(
    file: &dyn DiskFile,
    path: &Path,
    footer: &Footer,
) -> Result<(Filter, Index)> {
    let filter = read(file, path, footer.blocks_bytes, footer.filter_bytes as usize)?;
    let damaged = || Error::corrupt(path, footer.blocks_bytes, "the table's filter is not valid");
    if crc32c::crc32c(&filter) != footer.filter_checksum {
        return Err(damaged());
    }
    let filter = Filter::from_bytes(filter).ok_or_else(damaged)?;
    let index_at = footer.blocks_bytes + footer.filter_bytes;
    let index = read(file, path, index_at, footer.index_bytes as usize)?;
    let damaged = || Error::corrupt(path, index_at, "the table's index is not valid");
    if crc32c::crc32c(&index) != footer.index_checksum {
        return Err(damaged());
    }
    let index = Index::decode(&index, footer.blocks_bytes).ok_or_else(damaged)?;
    Ok((filter, index))
}

fn read(file: &dyn DiskFile, path: &Path, offset: u64, len: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    file.read_at(&mut bytes, offset).map_err(|cause| Error::io("read", path, cause))?;
    Ok(bytes)
}
