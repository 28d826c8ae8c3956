//! Makes a damaged store whole again, and says exactly what that cost.
//!
//! Everything valid is kept: the sound blocks of damaged tables and all valid frames of the log,
//! which are written out as tables. Damaged files are set aside, never removed. A crash during
//! repair is harmless: until the new manifest is in place nothing of the old store was changed,
//! and what then has to be set aside is announced before, so that open does it if repair could not.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::check::check;
use super::cursor::{Cursor, EntryCursor};
use super::disk::{Access, Disk};
use super::error::{Error, Result};
use super::frame::operations_parse;
use super::limits::{SEGMENT_BYTES, SEGMENT_BYTES_MIN};
use super::manifest::{Manifest, manifest_path};
use super::memtable::Memtable;
use super::recover::{segment_numbers, take_lock};
use super::salvage::{Piece, pieces, salvage_segment, salvage_table};
use super::segment::{SegmentMaker, header_store_id, read_file, segment_path};
use super::table::Table;
use super::table_format::{TableMeta, table_number, table_path};
use super::table_writer::{Expected, TableMaker};

/// What repair did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// What could not be kept.
    pub given_up: Vec<GivenUp>,
    /// Damaged files, under the names they have now.
    pub set_aside: Vec<PathBuf>,
    /// Frames of the log that were kept.
    pub frames_kept: u64,
    /// Entries of damaged tables that were kept.
    pub entries_kept: u64,
}

/// One stretch of bytes that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenUp {
    /// The file as it was called.
    pub file: PathBuf,
    /// From this byte.
    pub from: u64,
    /// Up to, not including, this byte.
    pub to: u64,
    /// The commits that are lost, where the log says so.
    pub sequences: Option<RangeInclusive<u64>>,
    /// How many entries are lost, where an index says so.
    pub entries: Option<u64>,
    /// What this means.
    pub why: String,
}

/// Repairs the store in the directory; it must not be open. A sound store is left as it is.
pub fn repair(dir: &Path, disk: &Arc<dyn Disk>) -> Result<RepairReport> {
    if check(dir, &**disk)?.findings.is_empty() {
        return Ok(RepairReport::default());
    }
    let _lock = take_lock(&**disk, dir)?;
    let (unknown, report) = (Vec::new(), RepairReport::default());
    let mut repair = Repair { disk, dir, unknown, report };
    repair.run()?;
    Ok(repair.report)
}

struct Repair<'a> {
    disk: &'a Arc<dyn Disk>,
    dir: &'a Path,
    /// Tables that neither they themselves nor a manifest say anything about.
    unknown: Vec<PathBuf>,
    report: RepairReport,
}

impl Repair<'_> {
    fn run(&mut self) -> Result<()> {
        let mut manifest = match Manifest::read(&**self.disk, self.dir) {
            Ok(manifest) => manifest,
            Err(error @ Error::Version { .. }) => return Err(error),
            Err(_) => self.rebuild_manifest()?,
        };
        let mut damaged = self.salvage_tables(&mut manifest)?;
        let (memtable, mut damaged_segments) = self.salvage_log(&manifest)?;
        let numbers = segment_numbers(&**self.disk, self.dir, 0)?;
        let next_segment = numbers.last().map_or(manifest.first_segment, |last| last + 1);
        if !memtable.is_untouched() {
            self.keep_log(&mut manifest, &memtable)?;
        }
        let segments = SegmentMaker {
            disk: Arc::clone(self.disk),
            dir: self.dir.to_owned(),
            store_id: manifest.store_id,
            bytes: self.segment_bytes(numbers.last().copied()),
        };
        segments.make(next_segment, None)?;
        manifest.first_segment = next_segment;
        // What is lost was given up; it is not to be missed again.
        manifest.durable_sequence = manifest.flushed_sequence;
        damaged.append(&mut damaged_segments);
        damaged.append(&mut self.unknown);
        self.announce(&damaged)?;
        manifest.write(&**self.disk, self.dir)?;
        for path in damaged {
            self.set_aside(&path)?;
        }
        self.disk.sync_dir(self.dir).map_err(|cause| Error::fatal("sync", self.dir, cause))
    }

    /// As long as the last segment there is; the usual length if there is none.
    fn segment_bytes(&self, last: Option<u64>) -> u64 {
        let path = last.map(|number| segment_path(self.dir, number));
        let file = path.and_then(|path| self.disk.open(&path, Access::Read).ok());
        let bytes = file.and_then(|file| file.len().ok());
        bytes.filter(|bytes| *bytes >= SEGMENT_BYTES_MIN).unwrap_or(SEGMENT_BYTES)
    }

    /// A manifest from the files themselves.
    fn rebuild_manifest(&mut self) -> Result<Manifest> {
        let path = manifest_path(self.dir);
        if let Ok(content) = read_file(&**self.disk, &path) {
            let copy = self.dir.join("MANIFEST.damaged");
            self.write_copy(&copy, &content)?;
            self.report.set_aside.push(copy);
        }
        let why = "it could not be read, and is made anew from the other files";
        self.give_up(&path, 0..0, None, None, why);
        let store_id = self.find_store_id()?;
        let tables = self.find_tables(store_id)?;
        let names = self.disk.list(self.dir).map_err(|e| Error::io("list", self.dir, e))?;
        let highest = names.iter().filter_map(|name| table_number(name)).max().unwrap_or(0);
        let numbers = segment_numbers(&**self.disk, self.dir, 0)?;
        Ok(Manifest {
            store_id,
            created_at_ms: 0,
            made_by: "repair".to_owned(),
            flushed_sequence: tables.iter().map(|table| table.last_sequence).max().unwrap_or(0),
            durable_sequence: 0,
            first_segment: numbers.first().copied().unwrap_or(1),
            next_table: highest + 1,
            tables,
        })
    }

    fn find_store_id(&self) -> Result<[u8; 16]> {
        for number in segment_numbers(&**self.disk, self.dir, 0)? {
            let content = read_file(&**self.disk, &segment_path(self.dir, number))?;
            if let Some(store_id) = header_store_id(&content) {
                return Ok(store_id);
            }
        }
        let what = "neither the manifest nor any segment says which store this is";
        Err(Error::corrupt(&manifest_path(self.dir), 0, what))
    }

    /// Sound tables, newest first, without those that were merged into another. Of the others
    /// nobody knows which are older: they are set aside.
    fn find_tables(&mut self, store_id: [u8; 16]) -> Result<Vec<TableMeta>> {
        let names = self.disk.list(self.dir).map_err(|e| Error::io("list", self.dir, e))?;
        let mut found: Vec<TableMeta> = Vec::new();
        for id in names.iter().filter_map(|name| table_number(name)) {
            if let Ok(table) = Table::open(&**self.disk, self.dir, id, store_id) {
                found.push(table.meta);
                continue;
            }
            let path = table_path(self.dir, id);
            let why = "the table does not say what it is, and no manifest does";
            let file = self.disk.open(&path, Access::Read).and_then(|file| file.len());
            self.give_up(&path, 0..file.unwrap_or_default(), None, None, why);
            self.unknown.push(path);
        }
        let all = found.clone();
        found.retain(|table| !all.iter().any(|other| was_merged_into(table, other)));
        found.sort_by_key(|table| std::cmp::Reverse(table.last_sequence));
        Ok(found)
    }

    /// Replaces every damaged table by one with what is left of it; returns the damaged files.
    fn salvage_tables(&mut self, manifest: &mut Manifest) -> Result<Vec<PathBuf>> {
        let mut damaged = Vec::new();
        let mut kept = Vec::new();
        for meta in manifest.tables.clone() {
            let path = table_path(self.dir, meta.id);
            let Ok(salvage) = salvage_table(&**self.disk, self.dir, meta.id, manifest.store_id)
            else {
                let why = "the table is missing; older values of its keys may show again";
                self.give_up(&path, 0..meta.bytes, None, Some(meta.entries), why);
                continue;
            };
            let whole = Table::open(&**self.disk, self.dir, meta.id, manifest.store_id);
            if let Ok(table) = whole
                && salvage.lost.is_empty()
            {
                // It knows better what it is than a manifest that names another.
                kept.push(table.meta);
                continue;
            }
            for (range, entries) in salvage.lost {
                let why = "blocks are not valid; older values of their keys may show again";
                self.give_up(&path, range, None, entries, why);
            }
            damaged.push(path);
            let id = manifest.next_table;
            manifest.next_table += 1;
            kept.extend(self.rewrite_table(manifest.store_id, id, &meta, &salvage.rows)?);
        }
        manifest.tables = kept;
        Ok(damaged)
    }

    fn rewrite_table(
        &mut self,
        store_id: [u8; 16],
        id: u64,
        old: &TableMeta,
        blocks: &[super::block::Rows],
    ) -> Result<Option<TableMeta>> {
        let entries: usize = blocks.iter().map(super::block::Rows::len).sum();
        if entries == 0 {
            return Ok(None);
        }
        // Not what the manifest says of the old one: that may be anything.
        let bytes = blocks.iter().map(|rows| rows.bytes() as u64).sum();
        let expected = Expected { entries_max: entries as u64, bytes };
        let mut writer = self.table_maker(store_id).start(id, expected)?;
        for rows in blocks {
            for row in 0..rows.len() {
                writer.add(rows.key(row), rows.value(row))?;
            }
        }
        self.report.entries_kept += entries as u64;
        writer.finish(old.first_sequence, old.last_sequence).map(Some)
    }

    /// Collects every valid frame that is not in tables; returns the damaged segments as well.
    fn salvage_log(&mut self, manifest: &Manifest) -> Result<(Memtable, Vec<PathBuf>)> {
        let mut frames: BTreeMap<u64, Bytes> = BTreeMap::new();
        let mut damaged = Vec::new();
        let mut expected = None;
        let numbers = segment_numbers(&**self.disk, self.dir, manifest.first_segment)?;
        for number in numbers {
            let found = salvage_segment(&**self.disk, self.dir, number, manifest.store_id)?;
            let image = &found.image;
            let mut is_damaged = !found.bad.is_empty();
            let mut bad: Vec<std::ops::Range<u64>> = Vec::new();
            for piece in pieces(&found) {
                let (offset, frame) = match piece {
                    Piece::Bad(range) => {
                        bad.push(range.start as u64..range.end as u64);
                        continue;
                    }
                    Piece::Frame(offset, frame) => (offset, frame),
                };
                if !operations_parse(&image.content[frame.operations.clone()]) {
                    bad.push(offset as u64..frame.next as u64);
                    is_damaged = true;
                    continue;
                }
                self.give_up_before(&image.path, &mut bad, expected, frame.sequence);
                expected = Some(frame.sequence + 1);
                if frame.sequence > manifest.flushed_sequence {
                    let operations = image.content.slice(frame.operations.clone());
                    frames.entry(frame.sequence).or_insert(operations);
                }
            }
            if is_damaged {
                damaged.push(image.path.clone());
            }
            for range in bad {
                let why = "no valid record follows in this segment; it may be a torn tail";
                self.give_up(&image.path, range, None, None, why);
            }
        }
        self.give_up_durable(manifest, expected);
        self.report.frames_kept = frames.len() as u64;
        let mut memtable = Memtable::default();
        for (sequence, operations) in frames {
            let applied = memtable.apply(sequence, operations);
            assert!(applied.is_some(), "it was seen to parse");
        }
        Ok((memtable, damaged))
    }

    /// What is missing right before a valid frame.
    fn give_up_before(
        &mut self,
        path: &Path,
        bad: &mut Vec<std::ops::Range<u64>>,
        expected: Option<u64>,
        found: u64,
    ) {
        let sequences = expected.filter(|expected| *expected < found);
        let sequences = sequences.map(|expected| expected..=found - 1);
        if bad.is_empty() && sequences.is_some() {
            bad.push(0..0);
        }
        for range in bad.drain(..) {
            let why = "records of the log are not valid";
            self.give_up(path, range, sequences.clone(), None, why);
        }
    }

    /// What is missing behind the last valid frame, as far as it is known to have been durable.
    fn give_up_durable(&mut self, manifest: &Manifest, expected: Option<u64>) {
        // What the tables hold is not missing.
        let next = expected.unwrap_or(0).max(manifest.flushed_sequence + 1);
        if next <= manifest.durable_sequence {
            let lost = next..=manifest.durable_sequence;
            let path = segment_path(self.dir, manifest.first_segment);
            self.give_up(&path, 0..0, Some(lost), None, "the end of the log is missing");
        }
    }

    /// Writes the salvaged log out as the newest table.
    fn keep_log(&mut self, manifest: &mut Manifest, memtable: &Memtable) -> Result<()> {
        if memtable.len() > 0 {
            let expected =
                Expected { entries_max: memtable.len() as u64, bytes: memtable.bytes() as u64 };
            let mut writer =
                self.table_maker(manifest.store_id).start(manifest.next_table, expected)?;
            let mut cursor = EntryCursor::new(memtable.range(Bound::Unbounded, Bound::Unbounded));
            while let Some(key) = cursor.key() {
                writer.add(key, cursor.value())?;
                cursor.step()?;
            }
            let meta = writer.finish(memtable.first_sequence(), memtable.last_sequence())?;
            manifest.tables.insert(0, meta);
            manifest.next_table += 1;
        }
        manifest.flushed_sequence = memtable.last_sequence();
        Ok(())
    }

    fn table_maker(&self, store_id: [u8; 16]) -> TableMaker {
        TableMaker { disk: Arc::clone(self.disk), dir: self.dir.to_owned(), store_id }
    }

    fn write_copy(&self, path: &Path, content: &[u8]) -> Result<()> {
        let failed = |operation| move |cause| Error::full_or_fatal(operation, path, cause);
        let file = self.disk.create(path).map_err(failed("create"))?;
        file.write_at(content, 0).map_err(failed("write"))?;
        file.sync_data().map_err(failed("sync"))
    }

    /// Takes the names under which files will be set aside. They must not get them before the new
    /// manifest counts, or a crash would leave the old one without its files; and as soon as it
    /// counts, open would take them for leftovers.
    fn announce(&self, damaged: &[PathBuf]) -> Result<()> {
        for path in damaged {
            self.write_copy(&aside_path(path), &[])?;
        }
        self.disk.sync_dir(self.dir).map_err(|cause| Error::fatal("sync", self.dir, cause))
    }

    fn set_aside(&mut self, path: &Path) -> Result<()> {
        let aside = aside_path(path);
        self.disk.rename(path, &aside).map_err(|cause| Error::fatal("set aside", path, cause))?;
        self.report.set_aside.push(aside);
        Ok(())
    }

    fn give_up(
        &mut self,
        file: &Path,
        range: std::ops::Range<u64>,
        sequences: Option<RangeInclusive<u64>>,
        entries: Option<u64>,
        why: &str,
    ) {
        let (from, to) = (range.start, range.end);
        let (file, why) = (file.to_owned(), why.to_owned());
        self.report.given_up.push(GivenUp { file, from, to, sequences, entries, why });
    }
}

/// The name of a damaged file once it is set aside.
pub(super) fn aside_path(path: &Path) -> PathBuf {
    path.with_added_extension("damaged")
}

/// Whether `other` holds everything that `table` does, because it was made from it.
fn was_merged_into(table: &TableMeta, other: &TableMeta) -> bool {
    let within =
        other.first_sequence <= table.first_sequence && table.last_sequence <= other.last_sequence;
    within && other.id > table.id
}
