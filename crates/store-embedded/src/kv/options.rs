//! What the caller decides about a store.

use std::fmt;
use std::sync::Arc;

use super::limits;

/// Knows which entries go by themselves. Deadlines are numbers of the owner's choice; a larger one
/// is later.
pub trait Expiry: Send + Sync {
    /// After what the entry may go; `None` if it stays until it is removed.
    fn deadline(&self, key: &[u8], value: &[u8]) -> Option<u64>;
    /// Whether the entry may go now, for good: nobody will ask for it again.
    fn is_over(&self, key: &[u8], deadline: u64) -> bool;
    /// Roughly the deadlines reached by now: a table whose entries are mostly over is written anew.
    fn reached(&self) -> u64;
}

/// Told of every change between normal and full.
pub type PressureListener = dyn Fn(Pressure) + Send + Sync;

/// Whether the disk has room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressure {
    /// All reserves are in place.
    Normal,
    /// Space ran out in the background. Commits still work from the reserve: use them to finish
    /// what was accepted, and accept nothing new.
    Full,
}

/// Who does the work that no commit should wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// Threads of the store's own.
    Threads,
    /// The caller of commit, before it returns: for tests and simulation, where the same inputs
    /// must give the same calls to the disk.
    Inline,
}

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    /// The identity of a store that is made by this open; 16 random bytes.
    pub store_id: [u8; 16],
    /// When the store is made, for a store that is made by this open.
    pub created_at_ms: u64,
    /// Which build makes the store.
    pub made_by: String,
    /// Length of a new log segment.
    pub segment_bytes: u64,
    /// Segments kept ready ahead: the reserve for a full disk.
    pub spares_ready: usize,
    /// Old segments kept until one of them is made new. None in production: that is as much work as
    /// to make one from nothing.
    pub old_kept: usize,
    /// The largest commit, in bytes of the log.
    pub commit_bytes_max: usize,
    /// Memory of one memtable.
    pub memtable_bytes: usize,
    /// Memory for blocks, filters and indexes that were read.
    pub cache_bytes: usize,
    /// Who flushes, merges and prepares segments.
    pub background: Background,
    /// Entries to leave out when tables are written.
    pub expiry: Option<Arc<dyn Expiry>>,
    /// Called from a background thread when the disk becomes full or has room again.
    pub on_pressure: Option<Arc<PressureListener>>,
}

impl Options {
    /// The values for production.
    pub fn new(store_id: [u8; 16]) -> Self {
        Options {
            store_id,
            created_at_ms: 0,
            made_by: concat!("hence ", env!("CARGO_PKG_VERSION")).to_owned(),
            segment_bytes: limits::SEGMENT_BYTES,
            spares_ready: limits::SPARES_READY,
            old_kept: 0,
            commit_bytes_max: limits::FRAME_BYTES_MAX,
            memtable_bytes: limits::MEMTABLE_BYTES,
            cache_bytes: limits::CACHE_BYTES,
            background: Background::Threads,
            expiry: None,
            on_pressure: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Options")
            .field("segment_bytes", &self.segment_bytes)
            .field("spares_ready", &self.spares_ready)
            .field("memtable_bytes", &self.memtable_bytes)
            .field("background", &self.background)
            .finish_non_exhaustive()
    }
}
