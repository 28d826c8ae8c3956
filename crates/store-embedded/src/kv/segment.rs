//! One file of the log: its name, its header, and how it is made.
//!
//! A segment is reserved, filled with zeros, given its header and synced under a temporary name,
//! and only then renamed: a segment with its right name is always whole. Writing into space that
//! has been written before nearly halves the time of a sync, because no metadata changes with it.
//! An old segment is made new the same way; its old frames are overwritten with zeros, so that
//! anything but zeros behind the last frame is known to be torn or damaged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::bytes_io::{Reader, is_blank};
use super::disk::{Access, Disk, DiskFile};
use super::error::{Error, Result};
use super::limits::{NUMBER_MAX, READ_CHUNK_BYTES, WRITE_CHUNK_BYTES};

/// Bytes of a segment before its first frame.
pub(super) const SEGMENT_HEAD: usize = 64;

/// Raised with every change of the segment's or the frame's layout.
pub(super) const SEGMENT_VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"HENCELOG";
const SUFFIX: &str = ".log";

/// A segment that frames can be written to.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) epoch: u64,
    pub(super) bytes: u64,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn DiskFile>,
}

/// A segment as read back: its header is known to be right.
#[derive(Debug, Clone)]
pub(super) struct SegmentImage {
    pub(super) path: PathBuf,
    pub(super) number: u64,
    pub(super) epoch: u64,
    pub(super) content: Bytes,
}

/// What every segment of one store is made with.
#[derive(Debug, Clone)]
pub(super) struct SegmentMaker {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) store_id: [u8; 16],
    pub(super) bytes: u64,
}

impl SegmentMaker {
    /// Makes the segment with this number, out of an old one if there is one to spare.
    pub(super) fn make(&self, number: u64, recycled: Option<u64>) -> Result<Segment> {
        let temporary = self.dir.join(format!("segment-{number:010}.tmp"));
        let epoch = self.disk.entropy() | 1;
        let made = self.fill(&temporary, number, epoch, recycled);
        if made.is_err() {
            // A half-made file would hold the space that is lacking; open removes it as well.
            let _ = self.disk.remove(&temporary);
        }
        let file = made?;
        let path = segment_path(&self.dir, number);
        let name = |cause| Error::full_or_fatal("name", &path, cause);
        self.disk.rename(&temporary, &path).map_err(name)?;
        self.disk.sync_dir(&self.dir).map_err(|cause| Error::fatal("sync", &self.dir, cause))?;
        Ok(Segment { number, epoch, bytes: self.bytes, path, file })
    }

    /// Makes an empty segment longer; its new length. A crash in between leaves a file that is
    /// longer than its header says, which is the same as a shorter one.
    pub(super) fn lengthen(&self, segment: &Segment, bytes: u64) -> Result<u64> {
        let failed = |operation| move |cause| Error::full_or_fatal(operation, &segment.path, cause);
        segment.file.preallocate(bytes).map_err(failed("reserve space for"))?;
        segment.file.truncate(bytes).map_err(failed("set the length of"))?;
        segment.file.sync_data().map_err(failed("sync"))?;
        let header = encode_header(self.store_id, segment.number, segment.epoch, bytes);
        segment.file.write_at(&header, 0).map_err(failed("write"))?;
        segment.file.sync_data().map_err(failed("sync"))?;
        Ok(bytes)
    }

    fn fill(
        &self,
        temporary: &Path,
        number: u64,
        epoch: u64,
        recycled: Option<u64>,
    ) -> Result<Arc<dyn DiskFile>> {
        let failed = |operation| move |cause| Error::full_or_fatal(operation, temporary, cause);
        let file = match recycled {
            Some(old) => {
                let old = segment_path(&self.dir, old);
                self.disk.rename(&old, temporary).map_err(failed("rename to"))?;
                self.disk.open(temporary, Access::Write).map_err(failed("open"))?
            }
            None => self.disk.create(temporary).map_err(failed("create"))?,
        };
        file.preallocate(self.bytes).map_err(failed("reserve space for"))?;
        file.truncate(self.bytes).map_err(failed("set the length of"))?;
        let zeros = vec![0; WRITE_CHUNK_BYTES.min(self.bytes as usize)];
        let mut at = 0;
        while at < self.bytes {
            let len = zeros.len().min((self.bytes - at) as usize);
            file.write_at(&zeros[..len], at).map_err(failed("fill"))?;
            at += len as u64;
        }
        let header = encode_header(self.store_id, number, epoch, self.bytes);
        file.write_at(&header, 0).map_err(failed("write"))?;
        file.sync_data().map_err(failed("sync"))?;
        Ok(file)
    }
}

/// Where the segment with this number lies.
pub(super) fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:010}{SUFFIX}"))
}

/// The number in a segment's file name.
pub(super) fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let number = digits.parse().ok().filter(|number| *number <= NUMBER_MAX)?;
    (format!("{number:010}") == digits).then_some(number)
}

/// Reads a whole segment and judges its header.
pub(super) fn read_segment(
    disk: &dyn Disk,
    dir: &Path,
    number: u64,
    store_id: [u8; 16],
) -> Result<SegmentImage> {
    let path = segment_path(dir, number);
    let content = read_file(disk, &path)?;
    let (found, epoch, bytes) = decode_header(&path, &content, store_id)?;
    if found != number {
        return Err(Error::corrupt(&path, 16, format!("the header is that of segment {found}")));
    }
    let content = content.slice(..bytes as usize);
    Ok(SegmentImage { path, number, epoch, content })
}

/// Reads a whole file into memory; only for files whose size the store itself bounds.
///
/// Most of a segment is zeros, ready to be written over. Memory that was asked for zeroed and is
/// never written to costs nothing, so those are left out: what is read stays as long as the
/// memtable that points into it.
pub(super) fn read_file(disk: &dyn Disk, path: &Path) -> Result<Bytes> {
    let failed = |cause| Error::io("read", path, cause);
    let file = disk.open(path, Access::Read).map_err(failed)?;
    let mut content = vec![0; file.len().map_err(failed)? as usize];
    let mut piece = vec![0; READ_CHUNK_BYTES.min(content.len())];
    let mut offset = 0;
    for part in content.chunks_mut(READ_CHUNK_BYTES) {
        let piece = &mut piece[..part.len()];
        file.read_at(piece, offset).map_err(failed)?;
        if !is_blank(piece) {
            part.copy_from_slice(piece);
        }
        offset += part.len() as u64;
    }
    Ok(Bytes::from(content))
}

/// Which store a segment belongs to, if its header is sound.
pub(super) fn header_store_id(content: &[u8]) -> Option<[u8; 16]> {
    let header = content.get(..SEGMENT_HEAD)?;
    let checksum = Reader::new(&header[12..]).u32()?;
    let sound = header.starts_with(MAGIC) && checksum == header_checksum(header);
    sound.then(|| Reader::new(&header[40..]).array())?
}

fn encode_header(store_id: [u8; 16], number: u64, epoch: u64, bytes: u64) -> [u8; SEGMENT_HEAD] {
    let mut header = [0; SEGMENT_HEAD];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&SEGMENT_VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&number.to_le_bytes());
    header[24..32].copy_from_slice(&epoch.to_le_bytes());
    header[32..40].copy_from_slice(&bytes.to_le_bytes());
    header[40..56].copy_from_slice(&store_id);
    let checksum = header_checksum(&header);
    header[12..16].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// Number, epoch and length.
fn decode_header(path: &Path, content: &[u8], store_id: [u8; 16]) -> Result<(u64, u64, u64)> {
    let damaged = |what: &str| Error::corrupt(path, 0, what);
    let header = content.get(..SEGMENT_HEAD).ok_or_else(|| damaged("no room for a header"))?;
    let short = || damaged("no room for a header");
    let mut fields = Reader::new(header);
    let magic: [u8; 8] = fields.array().ok_or_else(short)?;
    let version = fields.u32().ok_or_else(short)?;
    let checksum = fields.u32().ok_or_else(short)?;
    if &magic != MAGIC || checksum != header_checksum(header) {
        return Err(damaged("the segment's header is not valid"));
    }
    if version > SEGMENT_VERSION {
        let found = version;
        return Err(Error::Version { file: path.to_owned(), found, supported: SEGMENT_VERSION });
    }
    let number = fields.u64().ok_or_else(short)?;
    let epoch = fields.u64().ok_or_else(short)?;
    let bytes = fields.u64().ok_or_else(short)?;
    if fields.array() != Some(store_id) {
        return Err(damaged("the segment belongs to another store"));
    }
    if bytes > content.len() as u64 {
        let what = format!("the segment should be {bytes} bytes long, not {}", content.len());
        return Err(damaged(&what));
    }
    Ok((number, epoch, bytes))
}

fn header_checksum(header: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[..12]), &header[16..SEGMENT_HEAD])
}
