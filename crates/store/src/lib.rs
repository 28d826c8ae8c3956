//! What every storage engine promises.
//!
//! An engine holds no rules. It makes batches of facts ([`Change`]) durable, fenced and atomic, and
//! gives them back. The contract is the trait [`Store`]; its promises are numbered so that the
//! conformance table, the docs and the engines can cite them:
//!
//! - **S1 durable** — what a commit that returned `Ok` contained is there after any crash that the
//!   declared tier survives.
//! - **S2 atomic** — after a crash a commit is there whole or not at all, over all its shards.
//! - **S3 fenced** — a batch of an epoch other than the shard's current one, or of one that was
//!   given up, is refused with [`ErrorKind::Fenced`] and changes nothing, within the same atomic
//!   step.
//! - **S4 in order** — commits of one shard take effect in the order they were made; `sequence`
//!   grows by one (a gap is refused with [`ErrorKind::Unsupported`]), and a batch that was already
//!   applied is acknowledged again without effect.
//! - **S5 due order** — `due` returns the live jobs of a queue after a place, by place, none left
//!   out, none twice, running ones left out.
//! - **S6 recovery** — `recover` returns exactly what a new owner must know: leases, jobs that hold
//!   a key, schedules, queue settings, counts, the next job number.
//! - **S7 lookup** — `get` finds a job by name, live or finished, and nothing that was replaced,
//!   forgotten or swept.
//! - **S8 pages** — `list` pages by keyset: every row that was there all the time appears exactly
//!   once. A page may be short, or empty, and still say where to go on, but only further on.
//! - **S9 ownership** — `acquire` gives a higher epoch each time; a shard has at most one owner.
//! - **S10 bytes** — payloads, names and results come back as they were given, byte by byte.
//! - **S11 history** — attempts and occurrences are returned in order; a finished job is visible
//!   while `now < keep_until` and not after; at that instant its time is up. A ledger loses what is
//!   forgotten of it, goes with its schedule, and loses nothing else.
//! - **S12 pressure** — an engine that runs out of room says so before a commit of finished work
//!   fails.
//! - **S13 inbox** — a letter that was committed by whoever wrote it is returned, by number, until
//!   a commit takes it, and never after that.
//! - **S14 tenure** — while an owner keeps renewing, by the store's clock, nobody else can acquire
//!   its shard; when it stops, somebody can as soon as the time is up.
//! - **S15 health** — an engine that fails while nobody calls it says so when it is asked, and
//!   takes no more commits.

use std::future::{pending, ready};
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;

pub use hence_core::change::{Change, FinishedPlace, LeaseGrant, Place};
use hence_core::id::{Epoch, JobName, JobNumber, Key, LetterId, QueueName, ScheduleId, ShardId};
use hence_core::job::{AttemptRecord, Finish, Job, JobState, JobView, Lease, Progress};
pub use hence_core::ledger::{LedgerPlace, OccurrenceRecord};
use hence_core::queue::{Counts, QueueSettings};
use hence_core::schedule::ScheduleState;
use hence_core::time::{Millis, Timestamp};

pub mod codec;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod error;
pub mod faulty;
pub mod memory;
pub mod moving;

pub use error::{ErrorKind, StoreError};
pub use faulty::{FaultCounts, Faults, Faulty};
pub use memory::MemoryStore;
pub use moving::Moving;

/// What an engine answers.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// The contract. Object-safe; every method may be called from any thread.
pub trait Store: Send + Sync + 'static {
    /// What this engine can do and how safe it is, as facts.
    fn capabilities(&self) -> Capabilities;

    /// Makes the batches durable and visible, all or none (S1, S2, S3, S4).
    fn commit(&self, batches: Vec<ShardBatch>) -> Answer<'_, ()>;

    /// The next live, not running jobs of a queue after a place, in order (S5).
    fn due(
        &self,
        shard: ShardId,
        queue: QueueName,
        after: Place,
        limit: usize,
    ) -> Answer<'_, Vec<LiveJob>>;

    /// What a new owner must know (S6).
    fn recover(&self, shard: ShardId) -> Answer<'_, Recovered>;

    /// The jobs of these names, in their order; finished ones whose time is up at `now` are gone
    /// (S7).
    fn get(
        &self,
        shard: ShardId,
        names: Vec<JobName>,
        now: Timestamp,
    ) -> Answer<'_, Vec<Option<StoredJob>>>;

    /// A page of jobs (S8).
    fn list(&self, shard: ShardId, request: ListRequest) -> Answer<'_, Page>;

    /// The ended attempts of the job of this name and number, in order (S11). An engine finds them
    /// by the one or the other; a caller that knows the job knows both.
    fn attempts(
        &self,
        shard: ShardId,
        name: JobName,
        number: JobNumber,
    ) -> Answer<'_, Vec<AttemptRecord>>;

    /// Records of a schedule's ledger, by place (S11).
    fn occurrences(
        &self,
        shard: ShardId,
        request: LedgerRequest,
    ) -> Answer<'_, Vec<OccurrenceRecord>>;

    /// Removes finished jobs whose time is up, at most about `limit`, and says how many dead ones
    /// of which queue went (S11).
    fn sweep(
        &self,
        shard: ShardId,
        now: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<(QueueName, u64)>>;

    /// Takes ownership of a shard; the previous owner is fenced from here on (S9). Refused with
    /// [`ErrorKind::Locked`] while that one's tenure lasts (S14).
    fn acquire(&self, shard: ShardId, node: String) -> Answer<'_, Epoch>;

    /// Gives up ownership, when it is still held (S9).
    fn release(&self, shard: ShardId, epoch: Epoch) -> Answer<'_, ()>;

    /// Keeps everybody else from acquiring the shard for this long from now, by the store's clock,
    /// and says what that clock shows. Refused with [`ErrorKind::Fenced`] when it is lost already
    /// (S14). None: only one process can have the store open, so there is nothing to keep.
    fn renew(
        &self,
        _shard: ShardId,
        _epoch: Epoch,
        _tenure: Millis,
    ) -> Answer<'_, Option<Timestamp>> {
        ready(Ok(None)).boxed()
    }

    /// The letters after this one that nobody took yet, by number (S13).
    fn letters(&self, _after: LetterId, _limit: usize) -> Answer<'_, Vec<Letter>> {
        ready(Ok(Vec::new())).boxed()
    }

    /// Waits until there may be letters that were not there when this was called. Listens from the
    /// call on, not from the first poll (S13).
    fn await_letters(&self) -> Answer<'_, ()> {
        pending().boxed()
    }

    /// Whether there is room for new work (S12).
    fn pressure(&self) -> Pressure;

    /// The error that ended the engine, if one did (S15). Asked several times a second: it only
    /// looks. An engine that does nothing between calls fails in one of them, or not at all.
    fn health(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A request that somebody wrote into the store, in a transaction of their own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Letter {
    /// Its number.
    pub id: LetterId,
    /// When it was written, by the store's clock.
    pub at: Timestamp,
    /// What it says. The store does not look at it.
    pub body: Bytes,
}

/// The facts about an engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// The engine's name, as in its URL.
    pub engine: &'static str,
    /// What an acknowledged commit survives.
    pub tier: Tier,
    /// Whether several nodes can use it at once.
    pub shared: bool,
    /// Whether data outlives the process at all (false for the memory engine).
    pub persistent: bool,
    /// Whether others can write letters into it.
    pub inbox: bool,
    /// How many shards the store was made with.
    pub shards: u16,
    /// What was found when the engine was questioned, for people: `fdatasync before every answer`.
    pub notes: Vec<String>,
}

/// What an acknowledged commit survives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Tier {
    /// Only the process's own life, or luck.
    BestEffort,
    /// The loss of a node, not of all at once.
    Replicated,
    /// A power cut.
    Durable,
}

impl Tier {
    /// As people and flags write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Tier::BestEffort => "best-effort",
            Tier::Replicated => "replicated",
            Tier::Durable => "durable",
        }
    }
}

/// Whether there is room for new work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pressure {
    /// All is well.
    Normal,
    /// No new work, please; what is kept back is for finishing what was accepted.
    Full,
}

/// The facts of one shard in one commit.
#[derive(Clone, PartialEq, Debug)]
pub struct ShardBatch {
    /// Which shard.
    pub shard: ShardId,
    /// Under which ownership.
    pub epoch: Epoch,
    /// Counts the batches of this ownership, from 1.
    pub sequence: u64,
    /// The facts, in order. Shared: whoever commits keeps them until the store has answered.
    pub changes: Arc<Vec<Change>>,
    /// The counts, after this batch, of every queue it touched.
    pub counts: Vec<(QueueName, Counts)>,
    /// The number that the next job will get.
    pub next_number: JobNumber,
}

/// A live job as stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveJob {
    /// The job.
    pub job: Arc<Job>,
    /// How far it has come.
    pub progress: Progress,
    /// Who runs it.
    pub lease: Option<Lease>,
}

impl LiveJob {
    /// Its state as people see it at `now`.
    pub fn state(&self, now: Timestamp) -> JobState {
        match &self.lease {
            Some(_) => JobState::Running,
            None => self.progress.state(now),
        }
    }
}

/// A job as stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoredJob {
    /// Something may still happen to it.
    Live(LiveJob),
    /// Nothing will, by itself.
    Finished(FinishedJob),
}

impl StoredJob {
    /// The job, in whatever state it is.
    pub fn job(&self) -> &Arc<Job> {
        match self {
            StoredJob::Live(live) => &live.job,
            StoredJob::Finished(finished) => &finished.job,
        }
    }
}

/// A finished job as stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FinishedJob {
    /// The job; the payload is [`Payload::default`](hence_core::job::Payload) when it was not kept.
    pub job: Arc<Job>,
    /// How far it came.
    pub progress: Progress,
    /// How it ended.
    pub finish: Finish,
}

impl StoredJob {
    /// The job as people see it at `now`.
    pub fn view(self, now: Timestamp) -> JobView {
        match self {
            StoredJob::Live(live) => {
                let state = live.state(now);
                let LiveJob { job, progress, lease } = live;
                JobView { job, state, progress, lease: lease.map(Box::new), finish: None }
            }
            StoredJob::Finished(FinishedJob { job, progress, finish }) => {
                let state = finish.outcome.state();
                JobView { job, state, progress, lease: None, finish: Some(Box::new(finish)) }
            }
        }
    }
}

/// What a new owner must know before it may act.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Recovered {
    /// The number that the next job will get.
    pub next_number: JobNumber,
    /// The counts of every queue that ever had a job or settings.
    pub counts: Vec<(QueueName, Counts)>,
    /// The queues with settings.
    pub queues: Vec<(QueueName, QueueSettings)>,
    /// The schedules.
    pub schedules: Vec<ScheduleState>,
    /// Running jobs, and waiting jobs that hold their key, by number.
    pub active: Vec<LiveJob>,
}

impl Recovered {
    /// The same, with the lists whose order is not promised in one that can be compared.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.counts.sort_by(|a, b| a.0.cmp(&b.0));
        self.queues.sort_by(|a, b| a.0.cmp(&b.0));
        self.schedules.sort_by(|a, b| a.schedule.id.cmp(&b.schedule.id));
        self
    }
}

/// Which records of a ledger, which page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LedgerRequest {
    /// Of this schedule.
    pub schedule: ScheduleId,
    /// Whose last tick is at or after this …
    pub from: Timestamp,
    /// … and before this.
    pub until: Timestamp,
    /// Where the last page ended.
    pub after: Option<LedgerPlace>,
    /// Which come first.
    pub order: LedgerOrder,
    /// How many at most.
    pub limit: usize,
}

/// Which records of a ledger come first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LedgerOrder {
    /// The newest.
    Newest,
    /// The oldest.
    Oldest,
}

impl LedgerRequest {
    /// All records of a schedule, the newest first.
    pub fn newest(schedule: ScheduleId, limit: usize) -> Self {
        let (from, until) = (Timestamp::MIN, Timestamp::MAX);
        LedgerRequest { schedule, from, until, after: None, order: LedgerOrder::Newest, limit }
    }

    /// The places that are asked for: from the first, to before the second.
    pub fn bounds(&self) -> (LedgerPlace, LedgerPlace) {
        let edge = |last: Timestamp| LedgerPlace { last, number: JobNumber(0) };
        let (low, high) = (edge(self.from), edge(self.until));
        match (self.after, self.order) {
            (None, _) => (low, high),
            (Some(after), LedgerOrder::Newest) => (low, high.min(after)),
            (Some(after), LedgerOrder::Oldest) => {
                let number = JobNumber(after.number.0.saturating_add(1));
                (low.max(LedgerPlace { number, ..after }), high)
            }
        }
    }
}

/// Which jobs, which page.
#[derive(Clone, PartialEq, Debug)]
pub struct ListRequest {
    /// Which jobs.
    pub filter: Filter,
    /// Where the last page ended.
    pub after: Option<Cursor>,
    /// How many rows at most.
    pub limit: usize,
    /// Judges what is ready, scheduled, or gone.
    pub now: Timestamp,
}

/// Which jobs. Everything given must hold.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Filter {
    /// In this queue.
    pub queue: Option<QueueName>,
    /// Under this key.
    pub key: Option<Key>,
    /// In one of these states; none given means the live ones.
    pub states: Vec<JobState>,
    /// Made by this schedule.
    pub schedule: Option<ScheduleId>,
    /// Due (or finished, for finished ones) at or after this.
    pub from: Option<Timestamp>,
    /// Due (or finished) before this.
    pub until: Option<Timestamp>,
}

/// The sort key of the last row that a page looked at. Rows come in the order: live jobs by (due,
/// number, queue), then finished ones by (finished, number, queue).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cursor {
    /// False: the row was live. True: it was finished.
    pub finished: bool,
    /// Its due time, or when it finished.
    pub at: Timestamp,
    /// Its number.
    pub number: JobNumber,
    /// Its queue.
    pub queue: QueueName,
}

/// Rows and where to go on.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Page {
    /// The rows, in order.
    pub jobs: Vec<StoredJob>,
    /// Given when there may be more, however few rows there are here: an engine need not look at
    /// millions to fill a page.
    pub next: Option<Cursor>,
}
