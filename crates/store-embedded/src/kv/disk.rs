//! Everything the store asks of a file system, as one small contract.
//!
//! The real disk is here; a disk in memory that loses, tears and refuses writes is in
//! [`super::fake_disk`]. Nothing else in the store touches files. There is no buffering here: a
//! call is a system call.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// A file system with one directory of interest.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Makes the directory, readable by its owner only; it is no error if it exists.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes an empty file, readable by its owner only; what was there before is gone.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens a file that exists.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>>;
    /// Gives a file another name, replacing what had that name; durable after [`Disk::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file; durable after [`Disk::sync_dir`].
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The names of the files in a directory, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Returns after every creation, rename and removal in the directory is durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes an exclusive lock on the file and writes `holder` into it; held until the guard is
    /// dropped or the process ends. `WouldBlock` if somebody else has it.
    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn DiskLock>>;
    /// A number nobody can guess; it tells this use of a segment from any forged one.
    fn entropy(&self) -> u64;
}

/// One open file.
#[expect(clippy::len_without_is_empty, reason = "nobody asks a file whether it is empty")]
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Fills the buffer from the offset; an error if the file ends before.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all bytes at the offset.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Returns after everything written so far, and the length, is durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Reserves space so that later writes below `len` do not run out of it.
    fn preallocate(&self, len: u64) -> io::Result<()>;
    /// Cuts or extends the file to `len`.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// The length of the file.
    fn len(&self) -> io::Result<u64>;
}

/// Held while a directory is open.
pub trait DiskLock: Send + Sync + fmt::Debug {}

/// What an opened file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading only: works on a read-only file system.
    Read,
    /// Reading and writing.
    Write,
}

/// The file system of the operating system.
#[derive(Debug, Default, Clone, Copy)]
pub struct RealDisk;

#[derive(Debug)]
struct RealFile(File);

#[derive(Debug)]
struct RealLock(#[expect(dead_code, reason = "the lock lives as long as the file is open")] File);

const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

impl Disk for RealDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)?;
        match dir.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => self.sync_dir(parent),
            _ => self.sync_dir(Path::new(".")),
        }
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(FILE_MODE);
        Ok(Arc::new(RealFile(options.open(path)?)))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let write = access == Access::Write;
        Ok(Arc::new(RealFile(OpenOptions::new().read(true).write(write).open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn DiskLock>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let mut file = options.open(path)?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        file.set_len(0)?;
        file.write_all(holder.as_bytes())?;
        Ok(Box::new(RealLock(file)))
    }

    fn entropy(&self) -> u64 {
        // The standard library seeds this from the operating system and offers no plainer way.
        RandomState::new().build_hasher().finish()
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        use rustix::io::Errno;
        match rustix::fs::fallocate(&self.0, rustix::fs::FallocateFlags::empty(), 0, len) {
            // File systems without reservation show a full disk at the write instead.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            other => Ok(other?),
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

impl DiskLock for RealLock {}
