//! The one file that says which other files are the store.
//!
//! It is small and always written anew: temporary file, sync, rename, directory sync. A crash
//! leaves the old one or the new one.
//!
//! ```text
//! manifest:  magic 8 | version u32 | checksum u32 | body
//! body:      store 16 | created u64 | flushed sequence u64 | first segment u64 | next table u64
//!            | durable sequence u64, from version 2 on
//!            | maker length u16 | maker | note length u32, all ones = none | note
//!            | tables u32 | per table, newest first: id u64 | bytes u64 | entries u64
//!              | removed u64 | first sequence u64 | last sequence u64 | expiring u64
//!              | over at u64
//! ```

use std::path::{Path, PathBuf};

use super::bytes_io::Reader;
use super::disk::Disk;
use super::error::{Error, Result};
use super::limits::NUMBER_MAX;
use super::segment::read_file;
use super::table_format::TableMeta;

/// Raised with every change of this file's layout.
pub(super) const MANIFEST_VERSION: u32 = 2;

const MAGIC: &[u8; 8] = b"HENCEMAN";
const HEAD_BYTES: usize = 16;
/// Early builds kept a note here; it is passed over and no longer written.
const NO_NOTE: u32 = u32::MAX;

/// What the store consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) store_id: [u8; 16],
    pub(super) created_at_ms: u64,
    /// Which build made the store.
    pub(super) made_by: String,
    /// Everything up to here is in tables.
    pub(super) flushed_sequence: u64,
    /// The first segment that may hold later frames.
    pub(super) first_segment: u64,
    pub(super) next_table: u64,
    /// The log was durable up to here when this was written: one that ends before it has lost
    /// something.
    pub(super) durable_sequence: u64,
    /// Newest first; of two tables that know a key the earlier in this list is right.
    pub(super) tables: Vec<TableMeta>,
}

/// The name of its file.
pub(super) const NAME: &str = "MANIFEST";

/// Where the manifest lies.
pub(super) fn manifest_path(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

impl Manifest {
    /// Reads and judges the manifest.
    pub(super) fn read(disk: &dyn Disk, dir: &Path) -> Result<Self> {
        let path = manifest_path(dir);
        let content = read_file(disk, &path)?;
        let damaged = || Error::corrupt(&path, 0, "the manifest is not valid");
        let (version, body) = open_envelope(&content).ok_or_else(damaged)?;
        if version > MANIFEST_VERSION {
            let file = path.clone();
            return Err(Error::Version { file, found: version, supported: MANIFEST_VERSION });
        }
        decode_body(version, body).ok_or_else(damaged)
    }

    /// Replaces the manifest; it counts from the moment this returns.
    pub(super) fn write(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        let path = manifest_path(dir);
        let temporary = dir.join("MANIFEST.tmp");
        let failed = |operation| {
            let temporary = temporary.clone();
            move |cause| Error::full_or_fatal(operation, &temporary, cause)
        };
        let file = disk.create(&temporary).map_err(failed("create"))?;
        file.write_at(&self.encode(), 0).map_err(failed("write"))?;
        file.sync_data().map_err(failed("sync"))?;
        disk.rename(&temporary, &path).map_err(|cause| Error::fatal("replace", &path, cause))?;
        disk.sync_dir(dir).map_err(|cause| Error::fatal("sync", dir, cause))
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&MANIFEST_VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.store_id);
        for number in [
            self.created_at_ms,
            self.flushed_sequence,
            self.first_segment,
            self.next_table,
            self.durable_sequence,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&(self.made_by.len() as u16).to_le_bytes());
        out.extend_from_slice(self.made_by.as_bytes());
        out.extend_from_slice(&NO_NOTE.to_le_bytes());
        out.extend_from_slice(&(self.tables.len() as u32).to_le_bytes());
        for table in &self.tables {
            for number in [
                table.id,
                table.bytes,
                table.entries,
                table.removed,
                table.first_sequence,
                table.last_sequence,
                table.expiring,
                table.over_at,
            ] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        let checksum = checksum(&out);
        out[12..HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
        out
    }
}

fn open_envelope(content: &[u8]) -> Option<(u32, &[u8])> {
    let mut head = Reader::new(content.get(..HEAD_BYTES)?);
    let magic: [u8; 8] = head.array()?;
    let version = head.u32()?;
    let right = &magic == MAGIC && head.u32()? == checksum(content);
    right.then_some((version, &content[HEAD_BYTES..]))
}

fn decode_body(version: u32, body: &[u8]) -> Option<Manifest> {
    let mut fields = Reader::new(body);
    let store_id = fields.array()?;
    let created_at_ms = fields.u64()?;
    let flushed_sequence = fields.u64()?;
    let first_segment = fields.u64()?;
    let next_table = fields.u64()?;
    let durable_sequence = if version < 2 { flushed_sequence } else { fields.u64()? };
    let maker_len = fields.u16()? as usize;
    let made_by = String::from_utf8(fields.take(maker_len)?.to_vec()).ok()?;
    match fields.u32()? {
        NO_NOTE => {}
        bytes => drop(fields.take(bytes as usize)?),
    }
    let numbers = [flushed_sequence, first_segment, next_table, durable_sequence];
    if numbers.iter().any(|number| *number > NUMBER_MAX) {
        return None;
    }
    let mut tables = Vec::new();
    for _ in 0..fields.u32()? {
        tables.push(TableMeta {
            id: fields.u64()?,
            bytes: fields.u64()?,
            entries: fields.u64()?,
            removed: fields.u64()?,
            first_sequence: fields.u64()?,
            last_sequence: fields.u64()?,
            expiring: fields.u64()?,
            over_at: fields.u64()?,
        });
    }
    fields.is_empty().then_some(Manifest {
        store_id,
        created_at_ms,
        made_by,
        flushed_sequence,
        first_segment,
        next_table,
        durable_sequence,
        tables,
    })
}

fn checksum(content: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&content[..12]), &content[HEAD_BYTES..])
}
