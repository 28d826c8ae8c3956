//! Every number that bounds the store, with its reason.

/// Keys are names and places, not documents; the length is a `u16` on disk.
pub const KEY_BYTES_MAX: usize = 4 * 1024;

/// Sequences and numbers of files are counted from one, never chosen: one beyond this was not
/// written by us, and adding to it must not overflow.
pub const NUMBER_MAX: u64 = 1 << 62;

/// Long enough that switching segments is rare (about 50,000 small jobs), short enough that
/// reading one at open takes milliseconds.
pub const SEGMENT_BYTES: u64 = 16 * 1024 * 1024;

/// Shorter segments are cut ones.
pub const SEGMENT_BYTES_MIN: u64 = 4 * 1024;

/// One commit is one record; a larger one gets a segment of its own length, up to here: far more
/// than a request may carry, and little enough to be read back into memory.
pub const FRAME_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Batches of a group are collected into records of about this size.
pub const GROUP_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Segments kept ready: with the default size 64 MiB in which acknowledged work can still be
/// finished after the disk has become full.
pub const SPARES_READY: usize = 4;

/// Memory one memtable may use before it is written out as a table.
pub const MEMTABLE_BYTES: usize = 32 * 1024 * 1024;

/// What open read back from the log is written out as a table when it is more than this part of a
/// memtable: it holds on to whole segments in memory, and the next open need not read it again.
/// Less is gone on with, so that a store that is opened often does not fill up with small tables.
pub const REPLAYED_PART: usize = 16;

/// Frozen memtables that may wait for the disk; beyond it commits wait, so memory is bounded by
/// `(FROZEN_MAX + 1) * MEMTABLE_BYTES`.
pub const FROZEN_MAX: usize = 3;

/// One read from the disk and one checksum per point read; larger blocks compress and index
/// better, smaller ones read faster.
pub const BLOCK_BYTES: usize = 16 * 1024;

/// Whole keys are stored at this interval inside a block, so that a search starts near its goal.
pub const RESTART_INTERVAL: usize = 16;

/// About one false positive in seventy for keys that are not there.
pub const FILTER_BITS_PER_KEY: usize = 10;

/// Pages in which a filter is read: what one miss costs beside what a page's checksum costs all
/// the time.
pub const FILTER_PAGE_BYTES: usize = 4 * 1024;

/// Pages in which an index is read, nearly: a page ends with a whole entry.
pub const INDEX_PAGE_BYTES: usize = 4 * 1024;

/// Blocks and pages kept in memory: one half for blocks, most of the other for filters, which make
/// up for a hundred bytes of blocks with one of theirs.
pub const CACHE_BYTES: usize = 16 * 1024 * 1024;

/// Runs of similar size that are merged into one: each entry is rewritten about
/// `log8(total / memtable)` times. With four, merging took a seventh of the processor time under
/// load; with more, reads would look into too many.
pub const RUNS_MERGE_MIN: usize = 8;

/// Most runs merged at once: bounds open cursors and the time of one step.
pub const RUNS_MERGE_MAX: usize = 16;

/// Beyond this many runs neighbours are merged whatever their sizes: each run costs every point
/// read one look into a filter.
pub const RUNS_MAX: usize = 16;

/// Beyond this many runs commits wait for the merging to catch up, unless that lacks space or met
/// damage: each run is an open file, and a cost for every read.
pub const RUNS_STALL: usize = 64;

/// How far merging steps back for those who commit, as in `nice`.
pub const MERGE_NICENESS: i32 = 5;

/// Entries copied out of the live memtable under its lock: about 50 microseconds, the longest a
/// reader keeps a commit waiting.
pub const SCAN_CHUNK: usize = 512;

/// Files that are written in the background are synced every so often, so that one big sync does
/// not fill the disk's queue in front of a commit.
pub const SYNC_EVERY_BYTES: u64 = 4 * 1024 * 1024;

/// Bytes handed to the disk in one write when a file is built or filled with zeros.
pub const WRITE_CHUNK_BYTES: usize = 1024 * 1024;

/// Space set aside at once for a table that might come to more than there is: enough that its file
/// lies in few pieces, little enough that a small one needs little.
pub const RESERVE_STEP_BYTES: u64 = 8 * 1024 * 1024;

/// Bytes asked of the disk at once when a whole file is read: small beside a segment, most of
/// which is zeros that need not be kept.
pub const READ_CHUNK_BYTES: usize = 256 * 1024;

/// How long the background waits before it asks a full disk again.
pub const FULL_RETRY_MS: u64 = 250;

/// How long a merge rests at first that found no space; each further time twice as long.
pub const FULL_REST_MS: u64 = 5_000;

/// How long it rests at most: room that somebody made is found within minutes.
pub const FULL_REST_MAX_MS: u64 = 300_000;

/// Frames share buffers of this size, so that a small commit does not allocate.
pub const FRAME_BUFFER_BYTES: usize = 256 * 1024;

/// A batch of at least this size becomes its frame instead of being copied into one: an allocation
/// is then cheap beside the copy that it spares.
pub const OWN_RECORD_BYTES_MIN: usize = 32 * 1024;

/// Memory that a batch keeps for the next one at most.
pub const BATCH_BYTES_KEPT: usize = 4 * 1024 * 1024;
