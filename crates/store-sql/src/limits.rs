//! Every bound of the SQL engines, with its reason.

use hence_core::time::Millis;

/// How long it is remembered that a job was acknowledged in a transaction: far longer than any
/// lease lasts, so that nobody can still do so a second time.
pub const ACKNOWLEDGED_DAYS: u32 = 30;

/// Bits of a stamp that count the batches of one ownership: a million commits a second for twelve
/// days, without a change of owner.
pub const SEQUENCE_BITS: u32 = 40;
/// The largest sequence that fits.
pub const SEQUENCE_MAX: u64 = (1 << SEQUENCE_BITS) - 1;
/// The largest epoch that fits beside it in a signed number: a change of owner each minute for
/// fifteen years.
pub const EPOCH_MAX: u32 = (1 << (63 - SEQUENCE_BITS)) - 1;

/// How much time one slot covers. Shorter ones make more tables, each of which a lookup by name
/// must ask; longer ones keep what is over for longer.
pub const SLOT_WIDTH_DEFAULT: Millis = Millis::from_secs(2 * 3600);
/// The shortest slot, for tests.
pub const SLOT_WIDTH_MIN: Millis = Millis::new(1);
/// The longest slot: a day of rows is dropped at once then.
pub const SLOT_WIDTH_MAX: Millis = Millis::from_secs(24 * 3600);
/// Slots that are open ahead of now: three days of them by default.
pub const SLOTS_AHEAD_DEFAULT: u32 = 36;
/// Slots that may be open ahead of now: each is three tables and their indexes.
pub const SLOTS_AHEAD_MAX: u32 = 400;
/// A job that is late by this much is carried to the rows that are removed one by one. Whoever asks
/// for the first jobs of a queue walks over what became of this much time.
pub const CARRY_BEHIND: Millis = Millis::from_secs(15 * 60);
/// How long commits are kept row by row before they are folded into one: what a new owner reads.
pub const ERA_WIDTH: Millis = Millis::from_secs(5 * 60);
/// Rows looked at for carrying in one transaction: its shard cannot commit meanwhile.
pub const CARRY_ROWS_MAX: i64 = 20_000;
/// Schedules whose progress is carried from fold to fold; when there are more, it is written to
/// their own rows.
pub const PROGRESS_CARRIED_MAX: usize = 1_000;

/// Shards of one store: each has a row, an owner and a memory of its leases.
pub const SHARDS_MAX: u16 = 1_024;
/// A schema's name or a prefix of tables: leaves room for what is added within the 63 bytes that
/// PostgreSQL keeps of a name.
pub const NAME_BYTES_MAX: usize = 30;
/// Hosts in one address: they are tried one after the other, and each may take
/// [`CONNECT_SECS_MAX`].
pub const HOSTS_MAX: usize = 9;
/// Connections that read, by default.
pub const READERS_DEFAULT: usize = 4;
/// Connections that read, at most: more would only wait for the same disks.
pub const READERS_MAX: usize = 64;
/// Commits that wait for their turn. An owner has two under way at a time at most.
pub const COMMITS_WAITING_MAX: usize = 1_024;
/// Commits under way at once: the rows of the next are copied while the one before is committed.
/// Each needs a connection; more than one ahead would only wait for the same disks.
pub const COMMITS_AHEAD_MAX: usize = 2;
/// Reads that wait for a connection.
pub const READS_WAITING_MAX: usize = 1_024;
/// How long a connection may take to be made.
pub const CONNECT_SECS_MAX: u64 = 5;
/// How long the other servers of an address are waited for, once one takes writes: long enough to
/// hear of one that was promoted since, short enough for a machine that is gone.
pub const LOOK_AROUND_MILLIS: u64 = 1_000;
/// How long one call may take, waiting for its turn included. Longer than any lock is held, shorter
/// than the patience of whoever renews an ownership.
pub const CALL_SECS_MAX: u64 = 30;
/// How long one call may take at least, where a shorter time is set: a server on this machine needs
/// a part of it even when the machine is busy.
pub const CALL_MILLIS_MIN: u64 = 300;
/// How long a transaction may stand still between two statements. Its process was stopped or is
/// gone, and it may hold the lock of a shard that somebody else has to take over.
pub const IDLE_IN_TRANSACTION_SECS_MAX: u64 = 5;
/// How long a statement waits for a lock: longer than whoever holds one may stand still.
pub const LOCK_SECS_MAX: u64 = 10;
/// How long sent bytes may stay unacknowledged before the connection counts as lost.
pub const UNACKNOWLEDGED_SECS_MAX: u64 = 10;
/// How long the dropping of a table waits for those who read it: everybody else waits behind it.
pub const DROP_WAIT_MILLIS_MAX: u64 = 100;
/// Payloads and results sent in one statement: PostgreSQL takes a gigabyte at most, and what is
/// sent is held twice.
pub const STATEMENT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Rows of one table from which on they are copied and not sent in arrays: a row costs PostgreSQL
/// a third less then, and the commit a round trip more.
pub const COPY_ROWS_MIN: usize = 64;
/// Slots read in the first step of a walk; each further step reads twice as many.
pub const WALK_SLOTS_FIRST: i64 = 1;
/// Queues of which each commit says where their waiting jobs begin: some sixty bytes each.
pub const FRONTS_MAX: usize = 64;
/// Waiting jobs whose places are remembered for that, by shard: twice a window, some five
/// megabytes.
pub const FRONT_PLACES_MAX: usize = 200_000;
/// Changes of places that are remembered while somebody looks: some ten megabytes. A look that
/// takes longer is not learnt from.
pub const FRONT_CHANGES_MAX: usize = 100_000;
/// Rows read at once, however many are asked for: what a page of them holds in memory.
pub const ROWS_READ_MAX: usize = 10_000;
/// Rows read beyond what was asked for, since running jobs among them are left out.
pub const READ_AHEAD: usize = 64;

const _: () = {
    assert!(IDLE_IN_TRANSACTION_SECS_MAX < LOCK_SECS_MAX && LOCK_SECS_MAX < CALL_SECS_MAX);
};
