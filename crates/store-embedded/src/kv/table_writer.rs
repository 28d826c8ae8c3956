//! Writes one table from sorted entries.
//!
//! The file has a temporary name until it is whole and synced. It is not part of the store before
//! the manifest names it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::block::BlockBuilder;
use super::disk::{Disk, DiskFile};
use super::error::{Error, Result};
use super::expiring::Expiring;
use super::filter::FilterBuilder;
use super::limits::{BLOCK_BYTES, RESERVE_STEP_BYTES, SYNC_EVERY_BYTES, WRITE_CHUNK_BYTES};
use super::table_format::{Footer, Index, TableMeta, table_path};

/// What every table of one store is made with.
#[derive(Debug, Clone)]
pub(super) struct TableMaker {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) store_id: [u8; 16],
}

/// How large a table may become: known before it is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    pub(super) entries_max: u64,
    pub(super) bytes: u64,
}

#[derive(Debug)]
pub(super) struct TableWriter {
    maker: TableMaker,
    id: u64,
    temporary: PathBuf,
    file: Arc<dyn DiskFile>,
    out: Vec<u8>,
    /// Bytes that the disk has set aside, and how many it may have to in the end.
    reserved: u64,
    bytes_max: u64,
    /// Bytes already given to the disk.
    written: u64,
    synced: u64,
    block: BlockBuilder,
    index: Index,
    filter: FilterBuilder,
    entries: u64,
    removed: u64,
    expiring: Expiring,
}

impl TableMaker {
    /// Starts the table with this number. All that it may come to is reserved first, so that its
    /// file lies in few pieces. Where there is no room for that, space is reserved step by step:
    /// a table is often far smaller than it might be, and the merge that would make room on a disk
    /// that is nearly full must not be refused for what it will not need.
    pub(super) fn start(&self, id: u64, expected: Expected) -> Result<TableWriter> {
        let temporary = self.dir.join(format!("table-{id:010}.tmp"));
        let file = self.disk.create(&temporary).map_err(failed("create", &temporary))?;
        let (whole, step) = (expected.bytes.max(1), expected.bytes.clamp(1, RESERVE_STEP_BYTES));
        let reserve = |bytes| {
            let reserved = file.preallocate(bytes).map(|()| bytes);
            reserved.map_err(failed("reserve space for", &temporary))
        };
        let reserved = match reserve(whole) {
            Err(error) if error.is_full() => reserve(step),
            settled => settled,
        };
        if reserved.is_err() {
            let _ = self.disk.remove(&temporary);
        }
        let reserved = reserved?;
        Ok(TableWriter {
            reserved,
            bytes_max: expected.bytes,
            maker: self.clone(),
            id,
            temporary,
            file,
            out: Vec::with_capacity(WRITE_CHUNK_BYTES + 2 * BLOCK_BYTES),
            written: 0,
            synced: 0,
            block: BlockBuilder::default(),
            index: Index::default(),
            filter: FilterBuilder::with_capacity(expected.entries_max as usize),
            entries: 0,
            removed: 0,
            expiring: Expiring::default(),
        })
    }
}

impl TableWriter {
    /// Adds an entry; keys come in ascending order. No value records a removal.
    pub(super) fn add(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.block.add(key, value);
        self.filter.insert(key);
        self.entries += 1;
        self.removed += u64::from(value.is_none());
        if self.block.bytes() >= BLOCK_BYTES {
            self.end_block();
            self.write_out(WRITE_CHUNK_BYTES)?;
        }
        Ok(())
    }

    /// The entry added last goes by itself.
    pub(super) fn note_deadline(&mut self, deadline: u64) {
        self.expiring.add(deadline);
    }

    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    /// Completes the file, makes it durable and gives it its name.
    pub(super) fn finish(mut self, first_sequence: u64, last_sequence: u64) -> Result<TableMeta> {
        let finished = self.complete(first_sequence, last_sequence);
        if finished.is_err() {
            let _ = self.maker.disk.remove(&self.temporary);
        }
        finished
    }

    /// Gives the half-written file up.
    pub(super) fn abandon(self) {
        // Best effort: open removes temporary files as well.
        let _ = self.maker.disk.remove(&self.temporary);
    }

    fn complete(&mut self, first_sequence: u64, last_sequence: u64) -> Result<TableMeta> {
        self.end_block();
        let blocks_bytes = self.written + self.out.len() as u64;
        let index = self.index.encode();
        let filter = self.filter.finish();
        let bytes_before_footer = blocks_bytes + filter.len() as u64 + index.len() as u64;
        let meta = TableMeta {
            id: self.id,
            bytes: bytes_before_footer + super::table_format::FOOTER_BYTES as u64,
            entries: self.entries,
            removed: self.removed,
            first_sequence,
            last_sequence,
            expiring: self.expiring.count(),
            over_at: self.expiring.mostly_over_at(),
        };
        let footer = Footer {
            meta,
            blocks_bytes,
            filter_bytes: filter.len() as u64,
            index_bytes: index.len() as u64,
            filter_checksum: crc32c::crc32c(&filter),
            index_checksum: crc32c::crc32c(&index),
        };
        let footer = footer.encode(self.maker.store_id);
        for part in [filter, index, footer] {
            for chunk in part.chunks(WRITE_CHUNK_BYTES) {
                self.out.extend_from_slice(chunk);
                self.write_out(WRITE_CHUNK_BYTES)?;
            }
        }
        self.write_out(0)?;
        assert_eq!(self.written, meta.bytes, "the footer says how long the file is");
        self.publish(meta)
    }

    fn publish(&self, meta: TableMeta) -> Result<TableMeta> {
        let at = self.temporary.as_path();
        // More was reserved than is used.
        self.file.truncate(meta.bytes).map_err(failed("set the length of", at))?;
        self.file.sync_data().map_err(failed("sync", at))?;
        let path = table_path(&self.maker.dir, self.id);
        self.maker.disk.rename(&self.temporary, &path).map_err(failed("name", &path))?;
        let dir = &self.maker.dir;
        self.maker.disk.sync_dir(dir).map_err(|cause| Error::fatal("sync", dir, cause))?;
        Ok(meta)
    }

    fn end_block(&mut self) {
        if self.block.entries() == 0 {
            return;
        }
        let offset = self.written + self.out.len() as u64;
        let (start, entries) = (self.out.len(), self.block.entries());
        let last_key = self.block.last_key().to_vec();
        self.block.finish(&mut self.out, self.id, offset);
        self.index.push(offset, (self.out.len() - start) as u32, entries, &last_key);
    }

    /// Gives collected bytes to the disk once there are more than `keep`.
    fn write_out(&mut self, keep: usize) -> Result<()> {
        if self.out.len() <= keep {
            return Ok(());
        }
        let end = self.written + self.out.len() as u64;
        if end > self.reserved {
            let next = (end + RESERVE_STEP_BYTES).min(self.bytes_max.max(end));
            let reserved = self.file.preallocate(next);
            reserved.map_err(failed("reserve space for", &self.temporary))?;
            self.reserved = next;
        }
        self.file.write_at(&self.out, self.written).map_err(failed("write", &self.temporary))?;
        self.written = end;
        self.out.clear();
        if self.written - self.synced >= SYNC_EVERY_BYTES {
            self.file.sync_data().map_err(failed("sync", &self.temporary))?;
            self.synced = self.written;
        }
        Ok(())
    }
}

fn failed<'a>(
    operation: &'static str,
    path: &'a Path,
) -> impl FnOnce(std::io::Error) -> Error + 'a {
    move |cause| Error::full_or_fatal(operation, path, cause)
}
