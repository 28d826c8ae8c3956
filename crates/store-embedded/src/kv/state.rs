//! What commits, readers and the background share, and how they tell each other of changes.
//!
//! Locks are taken in this order: writer, manifest, active, view, shelf. No lock but the writer's
//! is held during a call to the disk, except the manifest's while the manifest is replaced.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::time::Duration;

use bytes::BytesMut;

use super::cache::Cache;
use super::disk::{Disk, DiskLock};
use super::error::{Error, Result};
use super::manifest::Manifest;
use super::memtable::Memtable;
use super::options::{Options, Pressure};
use super::segment::{Segment, SegmentMaker};
use super::table::Table;
use super::table_writer::TableMaker;

/// Everything that is not the newest memtable; replaced as a whole.
#[derive(Debug, Default, Clone)]
pub(super) struct View {
    /// Newest first.
    pub(super) frozen: Vec<Arc<Memtable>>,
    /// Newest first, in the manifest's order.
    pub(super) tables: Vec<Arc<Table>>,
}

/// The end of the log.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) segment: Segment,
    /// Where the next frame goes.
    pub(super) end: u64,
    pub(super) next_sequence: u64,
    pub(super) buffer: BytesMut,
    /// Memory used by the memtable that is written to.
    pub(super) memtable_bytes: usize,
}

/// Segments other than the one that is written to.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    /// Ready to be written to, in order.
    pub(super) ready: VecDeque<Segment>,
    /// The number of the next segment to be made.
    pub(super) next_number: u64,
    /// Full ones, oldest first, with the last sequence in each.
    pub(super) closed: VecDeque<(u64, u64)>,
    /// The one that is written to.
    pub(super) current: u64,
    /// No longer needed: to be made new or removed.
    pub(super) obsolete: Vec<u64>,
}

/// Which of the background's duties lacks space.
#[derive(Debug, Clone, Copy)]
pub(super) enum Duty {
    Spares = 1,
    Flush = 2,
    Merge = 4,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) options: Options,
    pub(super) segments: SegmentMaker,
    pub(super) tables: TableMaker,
    pub(super) writer: Mutex<Writer>,
    pub(super) manifest: Mutex<Manifest>,
    pub(super) active: RwLock<Memtable>,
    pub(super) view: RwLock<Arc<View>>,
    pub(super) shelf: Mutex<Shelf>,
    /// The last visible commit; here too, because the writer's lock may be held for long.
    pub(super) last_sequence: AtomicU64,
    pub(super) cache: Cache,
    pub(super) bell: Bell,
    pub(super) closing: AtomicBool,
    pub(super) lacking: AtomicU8,
    pub(super) poison: OnceLock<Error>,
    /// Damage found while merging. Serving goes on: what is read is judged anyway, and a process
    /// that ends itself over one bad block would only find it again after its restart.
    pub(super) damage: OnceLock<Error>,
    /// One merge at a time.
    pub(super) merging: Mutex<()>,
    pub(super) _lock: Box<dyn DiskLock>,
}

impl State {
    /// The error that ended the store, if one did.
    pub(super) fn check_alive(&self) -> Result<()> {
        self.poison.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Ends the store: from now on every commit returns this error.
    pub(super) fn end_with(&self, error: &Error) {
        tracing::error!(%error, "the store stopped");
        let _ = self.poison.set(error.clone());
        self.bell.ring();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.closing.load(Ordering::Acquire) || self.poison.get().is_some()
    }

    /// Whether merging goes on at present.
    pub(super) fn merges(&self) -> bool {
        let lacking = self.lacking.load(Ordering::Acquire) & Duty::Merge as u8 != 0;
        !lacking && self.damage.get().is_none()
    }

    pub(super) fn snapshot(&self) -> Arc<View> {
        read(&self.view).clone()
    }

    pub(super) fn pressure(&self) -> Pressure {
        pressure_of(self.lacking.load(Ordering::Acquire))
    }

    /// A duty found no space.
    pub(super) fn lacks_space(&self, duty: Duty) {
        let before = self.lacking.fetch_or(duty as u8, Ordering::AcqRel);
        self.report(before, before | duty as u8);
    }

    /// A duty found space.
    pub(super) fn has_space(&self, duty: Duty) {
        let before = self.lacking.fetch_and(!(duty as u8), Ordering::AcqRel);
        self.report(before, before & !(duty as u8));
    }

    fn report(&self, before: u8, now: u8) {
        if before == now {
            return;
        }
        if !before & now & Duty::Merge as u8 != 0 {
            tracing::warn!(dir = %self.dir.display(), "there is no space to merge tables");
        }
        if pressure_of(before) != pressure_of(now) {
            self.report_pressure(pressure_of(now));
        }
        // Even if the pressure is the same: a commit may wait for just this duty.
        self.bell.ring();
    }

    fn report_pressure(&self, pressure: Pressure) {
        match pressure {
            Pressure::Full => tracing::warn!(dir = %self.dir.display(), "the disk is full"),
            Pressure::Normal => tracing::info!(dir = %self.dir.display(), "the disk has room"),
        }
        if let Some(listener) = &self.options.on_pressure {
            listener(pressure);
        }
    }
}

/// A merge that finds no space costs speed, and the space of what was removed; new work can still
/// be written.
fn pressure_of(lacking: u8) -> Pressure {
    let needed = Duty::Spares as u8 | Duty::Flush as u8;
    if lacking & needed == 0 { Pressure::Normal } else { Pressure::Full }
}

/// Wakes everybody who waits for a change. A waiter looks at the count, then at the state it
/// cares for, then waits for a later count: no ring between look and wait is missed.
#[derive(Debug, Default)]
pub(super) struct Bell {
    rings: Mutex<u64>,
    rung: Condvar,
}

impl Bell {
    pub(super) fn count(&self) -> u64 {
        *lock(&self.rings)
    }

    pub(super) fn ring(&self) {
        *lock(&self.rings) += 1;
        self.rung.notify_all();
    }

    /// Waits for so long, whatever rings, unless it is over.
    pub(super) fn rest(&self, limit: Duration, is_over: impl Fn() -> bool) {
        let goes_on = |_: &mut u64| !is_over();
        drop(self.rung.wait_timeout_while(lock(&self.rings), limit, goes_on).expect(PANICKED));
    }

    pub(super) fn wait_past(&self, seen: u64, limit: Option<Duration>) {
        let rings = lock(&self.rings);
        let quiet = |rings: &mut u64| *rings == seen;
        match limit {
            None => drop(self.rung.wait_while(rings, quiet).expect(PANICKED)),
            Some(limit) => {
                drop(self.rung.wait_timeout_while(rings, limit, quiet).expect(PANICKED));
            }
        }
    }
}

const PANICKED: &str = "a thread of the store panicked; its state cannot be trusted";

pub(super) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect(PANICKED)
}

pub(super) fn read<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().expect(PANICKED)
}

pub(super) fn write<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().expect(PANICKED)
}
