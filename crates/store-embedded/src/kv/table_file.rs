//! A table's file, read in pieces.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{Access, Disk, DiskFile};
use super::error::{Error, Result};
use super::limits::READ_CHUNK_BYTES;
use super::table_format::table_path;

/// The file of one table, open for reading.
#[derive(Debug)]
pub(super) struct TableFile {
    pub(super) id: u64,
    pub(super) path: PathBuf,
    file: Arc<dyn DiskFile>,
}

impl TableFile {
    /// Opens the file of the table with this number; also says how long it is.
    pub(super) fn open(disk: &dyn Disk, dir: &Path, id: u64) -> Result<(Self, u64)> {
        let path = table_path(dir, id);
        let failed = |cause: io::Error| match cause.kind() {
            io::ErrorKind::NotFound => Error::corrupt(&path, 0, "the table is missing"),
            _ => Error::io("open", &path, cause),
        };
        let file = disk.open(&path, Access::Read).map_err(failed)?;
        let bytes = file.len().map_err(failed)?;
        Ok((TableFile { id, path, file }, bytes))
    }

    pub(super) fn read(&self, offset: u64, bytes: usize) -> Result<Vec<u8>> {
        let mut read = vec![0; bytes];
        let failed = |cause| Error::io("read", &self.path, cause);
        self.file.read_at(&mut read, offset).map_err(failed)?;
        Ok(read)
    }

    /// Reads a part of the file from its start to its end without holding all of it.
    pub(super) fn chunks(&self, start: u64, bytes: u64) -> impl Iterator<Item = Result<Vec<u8>>> {
        let end = start + bytes;
        (start..end).step_by(READ_CHUNK_BYTES).map(move |at| {
            let bytes = (end - at).min(READ_CHUNK_BYTES as u64);
            self.read(at, bytes as usize)
        })
    }

    pub(super) fn damaged(&self, offset: u64, what: &'static str) -> Error {
        Error::corrupt(&self.path, offset, what)
    }
}
