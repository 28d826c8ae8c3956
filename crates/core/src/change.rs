//! Durable facts. Everything a shard knows can be rebuilt by applying them in order; an engine
//! stores them in its own best way. Each carries what an engine needs to write it without reading.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::id::{JobNumber, LetterId, QueueName, ScheduleId, Token, WorkerName};
use crate::job::{AttemptRecord, Finish, Job, Progress};
use crate::ledger::OccurrenceRecord;
use crate::queue::QueueSettings;
use crate::schedule::{ScheduleProgress, ScheduleState};
use crate::time::Timestamp;

/// Where a live job stands in its queue: the order in which jobs are handed out, and the place
/// under which a store keeps it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// When it is due.
    pub due_at: Timestamp,
    /// First come, first served among equals.
    pub number: JobNumber,
}

impl Place {
    /// Before every job.
    pub const FIRST: Place = Place { due_at: Timestamp::MIN, number: JobNumber(0) };
    /// After every job.
    pub const LAST: Place = Place { due_at: Timestamp::MAX, number: JobNumber(u64::MAX) };
}

/// One durable fact. What only some have is boxed: facts are moved often, and most are small.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A job was accepted, edited, or brought back from the dead. It is live, at
    /// `place(job.number, progress.due_at)`, and not running.
    JobPut {
        /// The job.
        job: Arc<Job>,
        /// Where it starts.
        progress: Progress,
        /// The live job of the same name that it takes the place of, and where that stood.
        replaces: Option<Place>,
        /// A finished job of the same name that is forgotten with this.
        revives: Option<FinishedPlace>,
    },
    /// A live job goes on waiting: rescheduled, retried, or given back. Any lease of it ends.
    JobMoved {
        /// The job.
        job: Arc<Job>,
        /// When it was due until now.
        from: Timestamp,
        /// Where it is now.
        progress: Progress,
        /// The attempt that ended with this, if one did.
        ended: Option<Box<AttemptRecord>>,
    },
    /// Jobs were handed out, all to one holder, with consecutive tokens.
    LeasesGranted {
        /// The first job's token; the others' counters follow.
        first_token: Token,
        /// Who has them.
        holder: WorkerName,
        /// When.
        at: Timestamp,
        /// The jobs, in order.
        leases: Vec<LeaseGrant>,
    },
    /// A lease ends later than it was to.
    LeaseExtended {
        /// The queue of the job.
        queue: QueueName,
        /// The job.
        place: Place,
        /// The lease.
        token: Token,
        /// Its new end.
        until: Timestamp,
    },
    /// A live job ended for good. It stays visible until `finish.keep_until`; when that is not
    /// after `finish.at`, nothing of it is kept.
    JobFinished {
        /// The job; its payload is dropped from what is kept when `keep_payload` is false.
        job: Arc<Job>,
        /// How far it came.
        progress: Progress,
        /// How it ended.
        finish: Box<Finish>,
        /// The attempt that ended with this, if one did.
        ended: Option<Box<AttemptRecord>>,
        /// Whether the payload is kept with it.
        keep_payload: bool,
    },
    /// A finished job is forgotten before its time.
    JobForgotten {
        /// The job.
        job: Arc<Job>,
        /// Where it is kept.
        place: FinishedPlace,
    },
    /// A schedule was put, new or changed.
    SchedulePut {
        /// The schedule, whole.
        state: Box<ScheduleState>,
    },
    /// A schedule that was put before has come further.
    ScheduleAdvanced {
        /// Which.
        id: ScheduleId,
        /// How far.
        progress: Box<ScheduleProgress>,
    },
    /// A schedule was removed, and its ledger with it.
    ScheduleRemoved {
        /// Which.
        id: ScheduleId,
    },
    /// A tick, or a run of ticks, was accounted for.
    OccurrenceRecorded {
        /// What became of it.
        record: OccurrenceRecord,
    },
    /// Old records of a schedule's ledger are forgotten.
    LedgerForgotten {
        /// Whose.
        schedule: ScheduleId,
        /// Those whose last tick is before this instant.
        before: Timestamp,
    },
    /// A queue's settings were changed.
    QueuePut {
        /// Which.
        name: QueueName,
        /// Its settings now.
        settings: QueueSettings,
    },
    /// A letter was dealt with, and leaves the inbox with the facts that came of it.
    LetterTaken {
        /// Which.
        id: LetterId,
        /// Why nothing came of it, if that is so.
        refused: Option<Arc<str>>,
    },
}

impl Change {
    /// About how many bytes it takes to write it down: what it carries for others, and a little
    /// for itself.
    pub fn weight(&self) -> usize {
        let carried = match self {
            Change::JobPut { job, .. } | Change::JobMoved { job, .. } => job.payload.bytes.len(),
            Change::JobFinished { job, finish, keep_payload, .. } => {
                let payload = if *keep_payload { job.payload.bytes.len() } else { 0 };
                payload + finish.result.as_ref().map_or(0, |result| result.bytes.len())
            }
            Change::LeasesGranted { leases, .. } => leases.len() * OWN_WEIGHT,
            Change::SchedulePut { state } => state.schedule.template.payload.bytes.len(),
            Change::LeaseExtended { .. }
            | Change::JobForgotten { .. }
            | Change::ScheduleAdvanced { .. }
            | Change::ScheduleRemoved { .. }
            | Change::OccurrenceRecorded { .. }
            | Change::LedgerForgotten { .. }
            | Change::QueuePut { .. }
            | Change::LetterTaken { .. } => 0,
        };
        OWN_WEIGHT + carried
    }
}

/// What a fact weighs that carries nothing.
const OWN_WEIGHT: usize = 128;

/// One job of a batch of leases.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseGrant {
    /// The queue of the job.
    pub queue: QueueName,
    /// Where the job stands.
    pub place: Place,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// When the lease ends.
    pub until: Timestamp,
}

/// Where a finished job is kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FinishedPlace {
    /// How it ended.
    pub outcome: crate::job::Outcome,
    /// When it ended.
    pub at: Timestamp,
    /// Its number.
    pub number: JobNumber,
}
