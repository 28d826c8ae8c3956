//! From files to a running store.
//!
//! Open trusts nothing: the manifest, every table's footer, index and filter, and every frame of
//! the log are judged before the first read is served. Only the traces of a crash are cleaned
//! away, and only if nothing else is wrong: a torn tail, temporary files, and files the manifest
//! does not name. All else that is not as it should be is an error that names the place.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use bytes::{Bytes, BytesMut};
use hence_fail::{Point, reach};

use super::cache::Cache;
use super::disk::{Access, Disk, DiskLock};
use super::error::{Error, Result};
use super::limits::REPLAYED_PART;
use super::manifest::{Manifest, manifest_path};
use super::memtable::Memtable;
use super::options::Options;
use super::repair::aside_path;
use super::segment::{SEGMENT_HEAD, segment_path};
use super::segment::{Segment, SegmentMaker, read_file, read_segment, segment_number};
use super::state::{Bell, Shelf, State, View, Writer};
use super::survey::{Judge, Survey, TornTail, Verdict, survey};
use super::table::Table;
use super::table_format::table_number;
use super::table_writer::TableMaker;

/// What open found.
#[derive(Debug, Clone)]
pub struct OpenReport {
    /// Whether this open made the store.
    pub created: bool,
    /// The identity given when the store was made.
    pub store_id: [u8; 16],
    /// When the store was made.
    pub created_at_ms: u64,
    /// Which build made the store.
    pub made_by: String,
    /// The sequence of the last commit; 0 if there was none.
    pub last_sequence: u64,
    /// Frames of the log that were not in tables yet.
    pub frames_replayed: u64,
    /// Tables in use.
    pub tables: usize,
    /// The unfinished end of the log that was dropped, if there was one.
    pub torn: Option<TornTail>,
}

/// Opens or makes the store in `dir`.
pub(super) fn open(
    dir: &Path,
    options: Options,
    disk: Arc<dyn Disk>,
) -> Result<(State, OpenReport)> {
    disk.create_dir(dir).map_err(|cause| Error::io("create", dir, cause))?;
    let lock = take_lock(&*disk, dir)?;
    reach(Point::OpenLocked);
    let (manifest, created) = read_or_create(&disk, dir, &options)?;
    reach(Point::OpenTables);
    let mut tables = Vec::new();
    for meta in &manifest.tables {
        let table = Table::open(&*disk, dir, meta.id, manifest.store_id)?;
        table.check_named(meta)?;
        tables.push(Arc::new(table));
    }
    reach(Point::OpenReplay);
    let log = replay(&*disk, dir, &manifest, options.memtable_bytes)?;
    reach(Point::OpenClean);
    // Last: beside a manifest from a backup, what it does not name may be the only copy. None of
    // it is read above, and all of it is gone before a segment or a table is made.
    clean_up(&*disk, dir, &manifest)?;
    let report = OpenReport {
        created,
        store_id: manifest.store_id,
        created_at_ms: manifest.created_at_ms,
        made_by: manifest.made_by.clone(),
        last_sequence: log.next_sequence - 1,
        frames_replayed: log.frames,
        tables: tables.len(),
        torn: log.torn.clone(),
    };
    Ok((assemble(disk, dir, options, lock, manifest, tables, log), report))
}

/// Takes the directory for this process.
pub(super) fn take_lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DiskLock>> {
    let path = dir.join("LOCK");
    let holder = format!("process {}", std::process::id());
    disk.lock(&path, &holder).map_err(|cause| {
        if cause.kind() != io::ErrorKind::WouldBlock {
            return Error::io("lock", &path, cause);
        }
        let holder = read_file(disk, &path).ok();
        let holder = holder.map(|content| String::from_utf8_lossy(&content).into_owned());
        let holder = holder.filter(|name| !name.is_empty());
        let holder = holder.unwrap_or_else(|| "another process".to_owned());
        Error::Locked { dir: dir.to_owned(), holder }
    })
}

/// The numbers of the segments from `first` on, ascending.
pub(super) fn segment_numbers(disk: &dyn Disk, dir: &Path, first: u64) -> Result<Vec<u64>> {
    let names = disk.list(dir).map_err(|cause| Error::io("list", dir, cause))?;
    let mut numbers: Vec<u64> =
        names.iter().filter_map(|name| segment_number(name)).filter(|n| *n >= first).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn read_or_create(disk: &Arc<dyn Disk>, dir: &Path, options: &Options) -> Result<(Manifest, bool)> {
    let names = disk.list(dir).map_err(|cause| Error::io("list", dir, cause))?;
    if names.iter().any(|name| name == "MANIFEST") {
        return Ok((Manifest::read(&**disk, dir)?, false));
    }
    refuse_without_manifest(&**disk, dir, &names)?;
    let segments = SegmentMaker {
        disk: Arc::clone(disk),
        dir: dir.to_owned(),
        store_id: options.store_id,
        bytes: options.segment_bytes,
    };
    segments.make(1, None)?;
    let manifest = Manifest {
        store_id: options.store_id,
        created_at_ms: options.created_at_ms,
        made_by: options.made_by.clone(),
        flushed_sequence: 0,
        first_segment: 1,
        next_table: 1,
        durable_sequence: 0,
        tables: Vec::new(),
    };
    manifest.write(&**disk, dir)?;
    Ok((manifest, true))
}

/// A directory without a manifest is new only if nothing was ever committed in it: the making of
/// a store may have been cut short after its first, still empty segment.
fn refuse_without_manifest(disk: &dyn Disk, dir: &Path, names: &[String]) -> Result<()> {
    let missing = |what| Err(Error::corrupt(&manifest_path(dir), 0, what));
    for name in names {
        if table_number(name).is_some() {
            return missing("the manifest is missing, but there are tables");
        }
        if let Some(number) = segment_number(name) {
            let content = read_file(disk, &segment_path(dir, number))?;
            let written = content.iter().skip(SEGMENT_HEAD).any(|byte| *byte != 0);
            if number != 1 || written {
                return missing("the manifest is missing, but there is a log");
            }
        }
    }
    Ok(())
}

/// Removes what a crash may leave behind: it was never part of the store, or is no more. What a
/// repair was about to set aside is set aside.
fn clean_up(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Result<()> {
    let names = disk.list(dir).map_err(|cause| Error::io("list", dir, cause))?;
    for name in &names {
        let unnamed_table =
            table_number(name).is_some_and(|id| manifest.tables.iter().all(|table| table.id != id));
        let old_segment =
            segment_number(name).is_some_and(|number| number < manifest.first_segment);
        let temporary = Path::new(name).extension().is_some_and(|ending| ending == "tmp");
        if unnamed_table || old_segment || temporary {
            let path = dir.join(name);
            let aside = aside_path(&path);
            if names.iter().any(|other| dir.join(other) == aside) {
                disk.rename(&path, &aside).map_err(|cause| Error::io("set aside", &path, cause))?;
                continue;
            }
            tracing::debug!(file = %path.display(), "removing a leftover");
            disk.remove(&path).map_err(|cause| Error::io("remove", &path, cause))?;
        }
    }
    Ok(())
}

/// The log as read back.
struct Log {
    /// Full memtables, newest first, and the one to go on with.
    frozen: Vec<Arc<Memtable>>,
    active: Memtable,
    frames: u64,
    next_sequence: u64,
    torn: Option<TornTail>,
    segment: Segment,
    end: u64,
    shelf: Shelf,
}

fn replay(disk: &dyn Disk, dir: &Path, manifest: &Manifest, memtable_bytes: usize) -> Result<Log> {
    let mut judge = Judge::new(manifest);
    let mut replayed = Replayed::default();
    let numbers = segment_numbers(disk, dir, manifest.first_segment)?;
    for number in &numbers {
        let survey = survey(read_segment(disk, dir, *number, manifest.store_id)?);
        judge.take(&survey);
        if let Some(finding) = judge.findings().first() {
            return Err(finding.clone().into_error());
        }
        replayed.take(&survey, manifest.flushed_sequence, memtable_bytes)?;
    }
    let verdict = judge.finish(dir);
    if let Some(finding) = verdict.findings.first() {
        return Err(finding.clone().into_error());
    }
    if numbers.is_empty() {
        let path = segment_path(dir, manifest.first_segment);
        return Err(Error::corrupt(&path, 0, "the segment is missing"));
    }
    replayed.freeze_beyond(memtable_bytes / REPLAYED_PART);
    reach(Point::OpenTail);
    settle_tail(disk, &replayed, &verdict)?;
    replayed.into_log(disk, verdict)
}

#[derive(Default)]
struct Replayed {
    frozen: Vec<Arc<Memtable>>,
    active: Memtable,
    frames: u64,
    /// Number, path, length and last sequence of each segment.
    segments: Vec<(u64, PathBuf, u64, Option<u64>)>,
    /// Which of the segments is written to next, where its frames end, and its last frame.
    current: usize,
    end: usize,
    last_frame: Option<(usize, Bytes)>,
    epochs: Vec<u64>,
}

impl Replayed {
    fn take(&mut self, survey: &Survey, flushed: u64, memtable_bytes: usize) -> Result<()> {
        let image = &survey.image;
        for (offset, frame) in &survey.frames {
            if frame.sequence <= flushed {
                continue;
            }
            let operations = image.content.slice(frame.operations.clone());
            let applied = self.active.apply(frame.sequence, operations);
            applied.ok_or_else(|| {
                let what = "a record with a right checksum does not parse";
                Error::corrupt(&image.path, *offset as u64, what)
            })?;
            self.frames += 1;
            self.freeze_beyond(memtable_bytes);
        }
        if self.segments.is_empty() || !survey.frames.is_empty() {
            self.current = self.segments.len();
            self.end = survey.end();
            self.last_frame = survey
                .frames
                .last()
                .map(|(offset, frame)| (*offset, image.content.slice(*offset..frame.next)));
        }
        let last = survey.frames.last().map(|(_, frame)| frame.sequence);
        let bytes = image.content.len() as u64;
        self.segments.push((image.number, image.path.clone(), bytes, last));
        self.epochs.push(image.epoch);
        Ok(())
    }

    /// Sets the memtable aside to be written out if it uses more memory than this.
    fn freeze_beyond(&mut self, bytes: usize) {
        if self.active.bytes() > bytes {
            self.frozen.insert(0, Arc::new(std::mem::take(&mut self.active)));
        }
    }

    fn into_log(self, disk: &dyn Disk, verdict: Verdict) -> Result<Log> {
        let mut shelf = Shelf::default();
        let mut current = None;
        for (index, (number, path, bytes, last)) in self.segments.into_iter().enumerate() {
            shelf.next_number = number + 1;
            if index < self.current {
                // A segment before the current one without frames was passed over by none.
                shelf.closed.push_back((number, last.unwrap_or(0)));
                continue;
            }
            let file =
                disk.open(&path, Access::Write).map_err(|cause| Error::io("open", &path, cause))?;
            let segment = Segment { number, epoch: self.epochs[index], bytes, path, file };
            if index == self.current {
                shelf.current = number;
                current = Some(segment);
            } else {
                shelf.ready.push_back(segment);
            }
        }
        Ok(Log {
            frozen: self.frozen,
            active: self.active,
            frames: self.frames,
            next_sequence: verdict.next_sequence,
            torn: verdict.torn,
            segment: current.expect("there is at least one segment"),
            end: self.end as u64,
            shelf,
        })
    }
}

/// Brings the end of the log into a known state on the disk itself.
///
/// The last frame may have been read from the page cache of a process that died, or whose sync
/// failed, without being on the disk; it is served from now on, so it is written again and
/// synced. What is torn is overwritten with zeros, which is what the end of a log looks like.
fn settle_tail(disk: &dyn Disk, replayed: &Replayed, verdict: &Verdict) -> Result<()> {
    if let Some((offset, frame)) = &replayed.last_frame {
        let path = &replayed.segments[replayed.current].1;
        rewrite(disk, path, *offset as u64, frame)?;
    }
    if let Some(torn) = &verdict.torn {
        tracing::warn!(file = %torn.file.display(), offset = torn.offset, bytes = torn.bytes,
            "dropping the unfinished end of the log");
        rewrite(disk, &torn.file, torn.offset, &vec![0; torn.bytes as usize])?;
    }
    Ok(())
}

fn rewrite(disk: &dyn Disk, path: &Path, offset: u64, bytes: &[u8]) -> Result<()> {
    let failed = |operation| move |cause| Error::fatal(operation, path, cause);
    let file = disk.open(path, Access::Write).map_err(failed("open"))?;
    file.write_at(bytes, offset).map_err(failed("write"))?;
    file.sync_data().map_err(failed("sync"))
}

fn assemble(
    disk: Arc<dyn Disk>,
    dir: &Path,
    options: Options,
    lock: Box<dyn DiskLock>,
    manifest: Manifest,
    tables: Vec<Arc<Table>>,
    log: Log,
) -> State {
    let store_id = manifest.store_id;
    let segments = SegmentMaker {
        disk: Arc::clone(&disk),
        dir: dir.to_owned(),
        store_id,
        bytes: options.segment_bytes,
    };
    let writer = Writer {
        segment: log.segment,
        end: log.end,
        next_sequence: log.next_sequence,
        buffer: BytesMut::new(),
        memtable_bytes: log.active.bytes(),
    };
    State {
        tables: TableMaker { disk: Arc::clone(&disk), dir: dir.to_owned(), store_id },
        dir: dir.to_owned(),
        cache: Cache::new(options.cache_bytes),
        writer: Mutex::new(writer),
        manifest: Mutex::new(manifest),
        active: RwLock::new(log.active),
        view: RwLock::new(Arc::new(View { frozen: log.frozen, tables })),
        shelf: Mutex::new(log.shelf),
        last_sequence: AtomicU64::new(log.next_sequence - 1),
        bell: Bell::default(),
        closing: AtomicBool::new(false),
        lacking: AtomicU8::new(0),
        poison: OnceLock::new(),
        damage: OnceLock::new(),
        merging: Mutex::new(()),
        _lock: lock,
        disk,
        options,
        segments,
    }
}
