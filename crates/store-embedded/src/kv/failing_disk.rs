//! The real disk with a fail point before every call; only in builds made for it.
//!
//! A point is named by the call and the kind of file, which its name tells.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hence_fail::{Act, Point, broken_disk, reach, reach_io};

use super::disk::{Access, Disk, DiskFile, DiskLock, RealDisk};
use super::options::Options;
use super::segment::SEGMENT_HEAD;

/// Small enough that a second of work switches segments, flushes, merges and recycles.
const SMALL_SEGMENT_BYTES: u64 = 32 * 1024;
const SMALL_MEMTABLE_BYTES: usize = 160 * 1024;
const SMALL_SPARES_READY: usize = 1;
/// So that old segments are surely made new, not only removed: whether one is there just when the
/// next is needed depends on how far each thread got.
const SMALL_OLD_KEPT: usize = 1;

/// The disk of this build.
pub(crate) fn disk() -> Arc<dyn Disk> {
    if hence_fail::ON { Arc::new(FailingDisk) } else { Arc::new(RealDisk) }
}

/// The options of this build: those given, or small files if that was asked for.
pub(crate) fn sized(options: Options) -> Options {
    if !hence_fail::small() {
        return options;
    }
    Options {
        segment_bytes: SMALL_SEGMENT_BYTES,
        memtable_bytes: SMALL_MEMTABLE_BYTES,
        spares_ready: SMALL_SPARES_READY,
        old_kept: SMALL_OLD_KEPT,
        ..options
    }
}

#[derive(Debug)]
struct FailingDisk;

#[derive(Debug)]
struct FailingFile {
    kind: Kind,
    file: Arc<dyn DiskFile>,
    /// Frames were written: the segment has got its name since it was made.
    in_use: AtomicBool,
}

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A segment that does not have its name yet.
    NewLog,
    Log,
    Table,
    Manifest,
    /// No part of the store: the lock.
    Other,
}

impl FailingFile {
    fn wrap(kind: Kind, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(FailingFile { kind, file, in_use: AtomicBool::new(false) })
    }

    fn kind(&self) -> Kind {
        let named = self.kind == Kind::NewLog && self.in_use.load(Ordering::Relaxed);
        if named { Kind::Log } else { self.kind }
    }
}

impl Kind {
    fn of(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is = |ending| path.extension().is_some_and(|found| found == ending);
        if name.starts_with("MANIFEST") {
            Kind::Manifest
        } else if name.starts_with("segment-") {
            Kind::NewLog
        } else if is("log") {
            Kind::Log
        } else if name.starts_with("table-") || is("table") {
            Kind::Table
        } else {
            Kind::Other
        }
    }
}

/// Reaches the points; an error when one of them says so.
fn pass(points: &[Option<Point>]) -> io::Result<()> {
    for point in points.iter().flatten() {
        if reach(*point) == Act::Error {
            return Err(broken_disk());
        }
    }
    Ok(())
}

impl Disk for FailingDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        reach_io(Point::DirCreate, || RealDisk.create_dir(dir))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let kind = Kind::of(path);
        pass(&[match kind {
            Kind::NewLog | Kind::Log => Some(Point::LogCreate),
            Kind::Table => Some(Point::TableCreate),
            Kind::Manifest => Some(Point::ManifestCreate),
            Kind::Other => None,
        }])?;
        Ok(FailingFile::wrap(kind, RealDisk.create(path)?))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let kind = Kind::of(path);
        pass(&[match kind {
            Kind::NewLog | Kind::Log => Some(Point::LogOpen),
            Kind::Table => Some(Point::TableOpen),
            Kind::Manifest | Kind::Other => None,
        }])?;
        Ok(FailingFile::wrap(kind, RealDisk.open(path, access)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        pass(&[match (Kind::of(from), Kind::of(to)) {
            (_, Kind::NewLog) => Some(Point::LogRecycle),
            (_, Kind::Log) => Some(Point::LogRename),
            (_, Kind::Table) => Some(Point::TableRename),
            (_, Kind::Manifest) => Some(Point::ManifestRename),
            (_, Kind::Other) => None,
        }])?;
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let temporary = path.extension().is_some_and(|ending| ending == "tmp");
        pass(&[match Kind::of(path) {
            _ if temporary => Some(Point::LeftoverRemove),
            Kind::NewLog | Kind::Log => Some(Point::LogRemove),
            Kind::Table => Some(Point::TableRemove),
            Kind::Manifest | Kind::Other => None,
        }])?;
        RealDisk.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        pass(&[Some(Point::DirList)])?;
        RealDisk.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        reach_io(Point::DirSync, || RealDisk.sync_dir(dir))
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<Box<dyn DiskLock>> {
        pass(&[Some(Point::DirLock)])?;
        RealDisk.lock(path, holder)
    }

    fn entropy(&self) -> u64 {
        RealDisk.entropy()
    }
}

impl DiskFile for FailingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        pass(&[match self.kind {
            Kind::NewLog | Kind::Log => Some(Point::LogRead),
            Kind::Table => Some(Point::TableRead),
            Kind::Manifest => Some(Point::ManifestRead),
            Kind::Other => None,
        }])?;
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if offset >= SEGMENT_HEAD as u64 && bytes.iter().any(|byte| *byte != 0) {
            self.in_use.store(true, Ordering::Relaxed);
        }
        let point = match self.kind() {
            Kind::NewLog => Some(Point::LogFill),
            Kind::Log => Some(Point::LogWrite),
            Kind::Table => Some(Point::TableWrite),
            Kind::Manifest => Some(Point::ManifestWrite),
            Kind::Other => None,
        };
        pass(&[Some(Point::DiskWrite), point])?;
        self.file.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        let point = match self.kind() {
            Kind::NewLog => Point::LogFillSync,
            Kind::Log => Point::LogSync,
            Kind::Table => Point::TableSync,
            Kind::Manifest => Point::ManifestSync,
            Kind::Other => return self.file.sync_data(),
        };
        reach_io(Point::DiskSync, || reach_io(point, || self.file.sync_data()))
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        pass(&[match self.kind {
            Kind::NewLog | Kind::Log => Some(Point::LogReserve),
            Kind::Table => Some(Point::TableReserve),
            Kind::Manifest | Kind::Other => None,
        }])?;
        self.file.preallocate(len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        pass(&[match self.kind {
            Kind::NewLog | Kind::Log => Some(Point::LogTruncate),
            Kind::Table => Some(Point::TableTruncate),
            Kind::Manifest | Kind::Other => None,
        }])?;
        self.file.truncate(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_tells_the_kind() {
        for (name, kind) in [
            ("MANIFEST", Kind::Manifest),
            ("MANIFEST.tmp", Kind::Manifest),
            ("0000000007.log", Kind::Log),
            ("segment-0000000007.tmp", Kind::NewLog),
            ("0000000012.table", Kind::Table),
            ("table-0000000012.tmp", Kind::Table),
            ("LOCK", Kind::Other),
        ] {
            assert_eq!(Kind::of(Path::new("data").join(name).as_path()), kind, "{name}");
        }
    }
}
