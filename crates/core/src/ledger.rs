//! The ledger: what became of every tick of every schedule. A run of consecutive ticks with the
//! same fate is one record, so that a long outage is a line, and its count is exact.

use crate::id::{JobId, JobNumber, ScheduleId};
use crate::listed::listed;
use crate::schedule::{tick_job, trigger_job};
use crate::time::{Millis, Timestamp};

/// What became of a tick, or of a run of consecutive ticks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OccurrenceRecord {
    /// The schedule.
    pub schedule: ScheduleId,
    /// The nominal instant of the first tick.
    pub first: Timestamp,
    /// The nominal instant of the last tick: where the record stands in the ledger.
    pub last: Timestamp,
    /// How many ticks there are.
    pub count: u64,
    /// When it was decided.
    pub decided_at: Timestamp,
    /// What was decided.
    pub fate: Fate,
}

/// What became of a tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It made this job, in time.
    Ran(JobNumber),
    /// It made this job, too late by this much.
    Late(JobNumber, Millis),
    /// It made no job, for this reason.
    Skipped(SkipReason),
    /// It was missed, and a later one stands for it.
    Coalesced,
    /// No tick: somebody asked for this job, outside the rhythm.
    Triggered(JobNumber),
    /// It had made no job, and was given this one later.
    Backfilled(JobNumber),
}

listed! {
    /// Why a tick made no job.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
    pub enum SkipReason {
        /// It was missed, and missed ticks are to be skipped.
        Misfire = "misfire",
        /// The job of an earlier tick was still there.
        Overlap = "overlap",
        /// As many ticks waited for that job's end as may.
        Backlog = "backlog",
        /// The schedule was paused.
        Paused = "paused",
        /// Its queue accepted no jobs.
        QueuePaused = "queue_paused",
        /// Its queue was full.
        QueueFull = "queue_full",
        /// The schedule was changed before the tick was acted on.
        Changed = "changed",
    }
}

/// Where a record stands in the ledger of its schedule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LedgerPlace {
    /// The nominal instant of the last tick.
    pub last: Timestamp,
    /// The job that was made; 0 for none. No two records have both in common.
    pub number: JobNumber,
}

impl LedgerPlace {
    /// Before every record.
    pub const FIRST: LedgerPlace = LedgerPlace { last: Timestamp::MIN, number: JobNumber(0) };
    /// After every record.
    pub const LAST: LedgerPlace = LedgerPlace { last: Timestamp::MAX, number: JobNumber(u64::MAX) };
}

impl OccurrenceRecord {
    /// Where it stands.
    pub fn place(&self) -> LedgerPlace {
        LedgerPlace { last: self.last, number: self.fate.job().unwrap_or_default() }
    }

    /// The id of the job that was made.
    pub fn job_id(&self) -> Option<JobId> {
        match self.fate {
            Fate::Ran(_) | Fate::Late(..) | Fate::Backfilled(_) => {
                Some(tick_job(&self.schedule, self.last))
            }
            Fate::Triggered(number) => Some(trigger_job(&self.schedule, number)),
            Fate::Skipped(_) | Fate::Coalesced => None,
        }
    }
}

impl Fate {
    /// Every name, as the API has it.
    pub const NAMES: [&'static str; 6] =
        ["ran", "late", "skipped", "coalesced", "triggered", "backfilled"];

    /// As the API names it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Fate::Ran(_) => "ran",
            Fate::Late(..) => "late",
            Fate::Skipped(_) => "skipped",
            Fate::Coalesced => "coalesced",
            Fate::Triggered(_) => "triggered",
            Fate::Backfilled(_) => "backfilled",
        }
    }

    /// The job that was made.
    pub const fn job(self) -> Option<JobNumber> {
        match self {
            Fate::Ran(job) | Fate::Late(job, _) | Fate::Triggered(job) | Fate::Backfilled(job) => {
                Some(job)
            }
            Fate::Skipped(_) | Fate::Coalesced => None,
        }
    }
}
