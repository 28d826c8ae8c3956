//! An ordered key-value store in one directory: a log, tables, and nothing else.
//!
//! It is made for a job scheduler: many small writes that must be durable before they are
//! acknowledged, most of them undone within minutes, and reads mostly by range. It is not a
//! database: there is one writer, no transactions that read, no snapshots, and no keys or values
//! beyond what the log can hold in one record.
//!
//! # A write
//!
//! ```text
//!  batches ──► frame ──► log segment ──► fdatasync ──► memtable ──► visible
//!                                                         │ full
//!                                                      frozen ──► table ──► merged tables
//! ```
//!
//! # Files
//!
//! ```text
//!  LOCK                 held by the process that has the store open; says which
//!  MANIFEST             names every other file that counts; replaced as a whole
//!  0000000007.log       segments of the log, numbered without gaps; the last few are spares
//!  0000000012.table     sorted tables
//!  *.tmp                being made; removed at open
//!  *.damaged            set aside by repair
//! ```
//!
//! # Segment: 16 MiB, made of zeros before it is written to
//!
//! ```text
//!  0        8         12         16       24      32      40        56     64
//!  ├────────┼─────────┼──────────┼────────┼───────┼───────┼─────────┼──────┤
//!  │HENCELOG│ version │ checksum │ number │ epoch │ bytes │ store   │ zero │ frame … zeros
//!  └────────┴─────────┴──────────┴────────┴───────┴───────┴─────────┴──────┘
//! ```
//!
//! # Frame: what one sync makes durable, at a multiple of eight
//!
//! ```text
//!  0          4             8          16      24           28          32
//!  ├──────────┼─────────────┼──────────┼───────┼────────────┼───────────┼──────┬──────────┬─────┐
//!  │ checksum │ body length │ sequence │ epoch │ operations │ note size │ note │ operation│ pad │
//!  └──────────┴─────────────┴──────────┴───────┴────────────┴───────────┴──────┴──────────┴─────┘
//!  operation:  tag u8 │ key length u16 │ value length u32 │ key │ value
//!  note size:  all ones, no note; those of early builds are passed over
//! ```
//!
//! The epoch is a random number of the segment: nobody who chooses keys and values can write
//! bytes that pass for a frame. Only one frame is ever written and not synced, hence:
//!
//! | found behind the last valid frame | meaning |
//! |---|---|
//! | zeros | the end of the log |
//! | other bytes, no valid frame behind them | a torn tail: dropped and reported |
//! | other bytes, a valid frame behind them, here or in a later segment | damage: refused |
//! | a sequence that is not the next | damage: refused |
//!
//! # Table: blocks of about 16 KiB, filter, index, footer
//!
//! ```text
//!  ┌───────┬───────┬─────┬────────┬───────┬────────┐
//!  │ block │ block │  …  │ filter │ index │ footer │   each with its own checksum
//!  └───────┴───────┴─────┴────────┴───────┴────────┘
//!  block:    checksum u32 │ payload length u32 │ entries u32 │ payload
//!  payload:  entry … │ restart offset u32 … │ restarts u32
//!  entry:    shared varint │ unshared varint │ value length + 1 varint │ key rest │ value
//! ```
//! Index, footer and manifest are drawn beside their code, in `table_format` and `manifest`.
//! All numbers are little-endian, all checksums are CRC32C.
//!
//! # Changing a format
//!
//! 1. Raise the version beside the struct (`SEGMENT_VERSION`, `TABLE_VERSION`,
//!    `MANIFEST_VERSION`) and keep reading the old one.
//! 2. Leave `testdata/v1` as it is and add the new version's directory beside it; the golden test
//!    opens all of them, for ever.
//! 3. Say in the change's message how a store is taken back to the build before, or that it is not.

mod background;
mod batch;
mod block;
mod bytes_io;
mod cache;
mod check;
mod commit;
mod compact;
mod cursor;
pub mod disk;
mod error;
mod expiring;
pub(crate) mod failing_disk;
pub mod fake_disk;
mod filter;
mod flush;
mod frame;
pub mod limits;
mod manifest;
mod memtable;
mod options;
mod ordered;
mod recover;
mod repair;
mod salvage;
mod scan;
mod segment;
mod state;
mod survey;
mod table;
mod table_file;
mod table_format;
mod table_index;
mod table_writer;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use bytes::Bytes;

pub use batch::WriteBatch;
pub use check::{Report, check};
pub use cursor::Direction;
pub use error::{Error, Result};
pub use options::{Background, Expiry, Options, Pressure, PressureListener};
pub use recover::OpenReport;
pub use repair::{GivenUp, RepairReport, repair};
pub use scan::{Pinned, Read, Span, Visit};
pub use survey::{Finding, TornTail};

use disk::Disk;
use state::{State, lock, read};

/// An open store. Share it by reference: commits take turns, reads run beside them.
pub struct Kv {
    state: Arc<State>,
    threads: Vec<JoinHandle<()>>,
}

/// Figures of an open store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// The sequence of the last commit.
    pub last_sequence: u64,
    /// Tables in use.
    pub tables: usize,
    /// Their bytes on disk.
    pub table_bytes: u64,
    /// Their entries, removals included.
    pub table_entries: u64,
    /// Memory that is held for them, beside what the cache keeps of their pages.
    pub table_resident_bytes: usize,
    /// Memory the memtables use.
    pub memtable_bytes: usize,
    /// Memtables that wait to be written out.
    pub frozen: usize,
    /// Segments ready to be written to.
    pub spares: usize,
}

impl Kv {
    /// Opens the store in the directory, or makes it.
    pub fn open(dir: &Path, options: Options, disk: Arc<dyn Disk>) -> Result<(Kv, OpenReport)> {
        let background = options.background;
        let (state, report) = recover::open(dir, options, disk)?;
        let state = Arc::new(state);
        let threads = match background {
            Background::Threads => background::start(&state)?,
            Background::Inline => {
                state.work_inline()?;
                Vec::new()
            }
        };
        Ok((Kv { state, threads }, report))
    }

    /// Makes the batch durable and then visible; returns its sequence number.
    pub fn commit(&self, batch: &WriteBatch) -> Result<u64> {
        self.commit_group(std::slice::from_ref(batch))
    }

    /// The same, and the batch is empty afterwards, however it ends. `then` runs in the instant in
    /// which it becomes visible, so that what the caller keeps in memory changes together with
    /// what is stored. It must not use the store.
    pub fn commit_then(&self, batch: &mut WriteBatch, then: impl FnOnce()) -> Result<u64> {
        self.state.commit_then(batch, then)
    }

    /// Commits several batches with one sync, unless they are too much for one record. Each is
    /// atomic; after a crash the first ones may be there without the later ones.
    pub fn commit_group(&self, batches: &[WriteBatch]) -> Result<u64> {
        self.state.commit(batches)
    }

    /// Stops the moment for several reads. Commits wait for it to be dropped: be quick, and ask
    /// the pinned moment only, never the store itself.
    pub fn pin(&self) -> Pinned<'_> {
        self.state.pin()
    }

    /// The sequence of the last commit that is visible.
    pub fn last_sequence(&self) -> u64 {
        self.state.last_sequence.load(Ordering::Acquire)
    }

    /// Whether the disk has room.
    pub fn pressure(&self) -> Pressure {
        self.state.pressure()
    }

    /// The error that ended the store, if one did: in a commit, or in the background.
    pub fn health(&self) -> Result<()> {
        self.state.check_alive()
    }

    /// Damage that was met while merging tables, if any.
    pub fn damage(&self) -> Option<Error> {
        self.state.damage.get().cloned()
    }

    /// Writes everything in memory out as tables.
    pub fn flush(&self) -> Result<()> {
        let mut writer = lock(&self.state.writer);
        self.state.check_alive()?;
        self.state.freeze(&mut writer)?;
        drop(writer);
        self.state.work_inline()?;
        loop {
            let seen = self.state.bell.count();
            self.state.check_alive()?;
            if self.state.snapshot().frozen.is_empty() {
                return Ok(());
            }
            match self.state.options.background {
                Background::Threads => self.state.bell.wait_past(seen, None),
                // What is left was left for lack of space.
                Background::Inline => drop(self.state.flush_one()?),
            }
        }
    }

    /// Writes down how far the log goes, so that the loss of its end is known for damage later.
    /// Without it an end that cannot be read may be a write that was never acknowledged.
    pub fn vouch(&self) -> Result<()> {
        self.state.check_alive()?;
        self.state.install(|_| {}, |_| {})
    }

    /// Merges all tables into one, leaving out what was removed.
    pub fn compact(&self) -> Result<()> {
        self.flush()?;
        self.state.merge_all()
    }

    /// Tells the background that more entries may be over.
    pub fn expire(&self) -> Result<()> {
        self.state.check_alive()?;
        self.state.bell.ring();
        self.state.work_inline()
    }

    /// Figures for people and metrics.
    pub fn stats(&self) -> Stats {
        let active_bytes = read(&self.state.active).bytes();
        let view = self.state.snapshot();
        let metas = || view.tables.iter().map(|table| &table.meta);
        Stats {
            last_sequence: self.last_sequence(),
            tables: view.tables.len(),
            table_bytes: metas().map(|meta| meta.bytes).sum(),
            table_entries: metas().map(|meta| meta.entries).sum(),
            table_resident_bytes: view.tables.iter().map(|table| table.resident_bytes()).sum(),
            memtable_bytes: active_bytes
                + view.frozen.iter().map(|memtable| memtable.bytes()).sum::<usize>(),
            frozen: view.frozen.len(),
            spares: lock(&self.state.shelf).ready.len(),
        }
    }
}

/// Whether a file of this name belongs to a store and to nothing else: its manifest, a segment of
/// its log, or a table.
pub fn is_store_file(name: &str) -> bool {
    name == manifest::NAME
        || segment::segment_number(name).is_some()
        || table_format::table_number(name).is_some()
}

impl Read for Kv {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.state.get(key)
    }

    fn scan(&self, span: Span<'_>, direction: Direction, visit: &mut Visit<'_>) -> Result<()> {
        self.state.scan(span, direction, visit)
    }
}

impl Drop for Kv {
    fn drop(&mut self) {
        background::stop(&self.state, &mut self.threads);
    }
}

impl fmt::Debug for Kv {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Kv").field("dir", &self.state.dir).finish_non_exhaustive()
    }
}
