//! How far a schedule has come.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Schedule;
use crate::id::JobNumber;
use crate::limits;
use crate::listed::listed;
use crate::time::{Millis, Timestamp};
use crate::when::ZONES_VERSION;

/// A schedule and how far it has come: what is stored of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleState {
    /// The schedule.
    pub schedule: Arc<Schedule>,
    /// How far it has come.
    pub progress: ScheduleProgress,
}

/// How far a schedule has come. Written with every tick, so it is small.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleProgress {
    /// Every tick up to this instant is accounted for.
    pub accounted: Timestamp,
    /// The next tick that is to be accounted for; none when there is a reason why not.
    pub next_at: Option<Timestamp>,
    /// Why there is no next tick.
    pub idle: Option<Idle>,
    /// The last tick that was accounted for.
    pub last_at: Option<Timestamp>,
    /// Ticks of the rhythm that were accounted for: what the plan's count is compared with.
    pub ticked: u64,
    /// Jobs made since it was first put.
    pub fired: u64,
    /// No tick is acted on before this: the pace of catching up.
    pub hold_until: Option<Timestamp>,
    /// Ticks up to this instant fell into a pause.
    pub paused_until: Option<Timestamp>,
    /// The job of a tick that still lives, when the overlap policy asks for it.
    pub running: Option<Run>,
    /// Ticks that wait for its end, oldest first.
    pub waiting: Vec<Timestamp>,
    /// The last backfill, under way or done.
    pub backfill: Option<Backfill>,
    /// The release of the zone database that the next tick was computed with.
    pub zones: Arc<str>,
    /// The ticks that the ledger may have records of; none when it has none.
    pub ledger: Option<LedgerSpan>,
}

/// The oldest and the newest tick that a ledger may have records of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LedgerSpan {
    /// None is older than this.
    pub first: Timestamp,
    /// None is newer than this.
    pub last: Timestamp,
}

/// A live job and the tick that made it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The job.
    pub number: JobNumber,
    /// The tick.
    pub at: Timestamp,
}

listed! {
    /// Why a schedule has no next tick.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Idle {
        /// It is paused.
        Paused = "paused",
        /// Its end has passed.
        Ended = "ended",
        /// It ticked as often as it was to.
        Counted = "counted",
        /// Its plan has no further date.
        Exhausted = "exhausted",
    }
}

/// Jobs for ticks of the past that made none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backfill {
    /// Ticks after this instant …
    pub after: Timestamp,
    /// … up to and with this one.
    pub until: Timestamp,
    /// Jobs are made at least this far apart.
    pub pace: Millis,
    /// Ticks up to this instant are done.
    pub done: Timestamp,
    /// How many ticks there are.
    pub ticks: u64,
    /// How many of them were made a job of.
    pub made: u64,
    /// How many of them had made one already.
    pub kept: u64,
    /// No job before this: the pace.
    pub hold_until: Timestamp,
    /// When the last was done.
    pub ended_at: Option<Timestamp>,
}

/// How many schedules there are of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScheduleCounts {
    /// With a next tick.
    pub ticking: u64,
    /// Paused.
    pub paused: u64,
    /// At their end, by date or by count, or without a further date.
    pub ended: u64,
    /// With neither a next tick nor a reason: there are none, or there is a fault.
    pub silent: u64,
}

/// The result of the self-check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleCheck {
    /// How many there are of each kind.
    pub counts: ScheduleCounts,
    /// Those that have neither a next tick nor a reason, or are overdue; not all, if there are
    /// many.
    pub unsound: Vec<ScheduleState>,
}

impl ScheduleCounts {
    /// Where a schedule is counted.
    pub(crate) fn place(&mut self, progress: &ScheduleProgress) -> &mut u64 {
        match (progress.next_at, progress.idle) {
            (Some(_), _) => &mut self.ticking,
            (None, Some(Idle::Paused)) => &mut self.paused,
            (None, Some(Idle::Ended | Idle::Counted | Idle::Exhausted)) => &mut self.ended,
            (None, None) => &mut self.silent,
        }
    }
}

impl ScheduleState {
    /// A schedule that starts at this instant: a tick at this very instant is still to come.
    pub fn new(schedule: Arc<Schedule>, now: Timestamp) -> Self {
        let progress = ScheduleProgress {
            accounted: now.minus(Millis::new(1)),
            next_at: None,
            idle: None,
            last_at: None,
            ticked: 0,
            fired: 0,
            hold_until: None,
            paused_until: None,
            running: None,
            waiting: Vec::new(),
            backfill: None,
            zones: Arc::from(ZONES_VERSION),
            ledger: None,
        };
        let mut state = ScheduleState { schedule, progress };
        state.look_ahead();
        state
    }

    /// Finds the next tick, or why there is none: from the plan and from what is accounted for,
    /// never from when a job started or ended.
    pub(crate) fn look_ahead(&mut self) {
        let (schedule, progress) = (&self.schedule, &mut self.progress);
        let next = schedule.plan.next_after(progress.accounted, progress.ticked);
        progress.zones = Arc::from(ZONES_VERSION);
        progress.next_at = next.map(|tick| tick.at).filter(|_| schedule.paused.is_none());
        progress.idle = match progress.next_at {
            Some(_) => None,
            None if schedule.paused.is_some() => Some(Idle::Paused),
            None if schedule.plan.count.is_some_and(|count| progress.ticked >= count) => {
                Some(Idle::Counted)
            }
            None if schedule.plan.end.is_some() => Some(Idle::Ended),
            None => Some(Idle::Exhausted),
        };
    }

    /// When the job of the next tick is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.progress.next_at.map(|at| self.schedule.due_of(at))
    }

    /// When the jobs of coming ticks are due, in the order of the ticks, with each tick.
    pub fn coming(&self) -> impl Iterator<Item = (Timestamp, Timestamp)> {
        let progress = &self.progress;
        let ticks = self.schedule.plan.ticks(progress.accounted, progress.ticked);
        let ticks = ticks.map(|tick| (tick.at, self.schedule.due_of(tick.at)));
        progress.next_at.into_iter().flat_map(move |_| ticks.clone())
    }

    /// The self-check: a schedule has a next tick or a reason why not, and no tick is overdue.
    pub fn is_sound(&self, now: Timestamp) -> bool {
        let has_next = self.progress.next_at.is_some();
        let overdue = self.tick_at().is_some_and(|at| now.since(at) > limits::GRACE_DEFAULT);
        has_next != self.progress.idle.is_some() && !overdue
    }

    /// The first instant at which something is to be done about it by itself, backfills aside.
    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        let waits = !self.progress.waiting.is_empty() && self.schedule.paused.is_none();
        let released = (waits && self.progress.running.is_none()).then_some(Timestamp::EPOCH);
        earlier(earlier(self.tick_at(), self.forget_at()), released)
    }

    /// When the next tick is acted on.
    fn tick_at(&self) -> Option<Timestamp> {
        let progress = &self.progress;
        progress.next_at.map(|at| progress.hold_until.map_or(at, |hold| hold.max(at)))
    }

    /// When old records of the ledger are to be forgotten.
    pub(crate) fn forget_at(&self) -> Option<Timestamp> {
        let kept = self.schedule.ledger_retention;
        let slack = Millis::new(kept.get() / FORGET_PARTS).min(FORGET_SLACK_MAX);
        self.progress.ledger.map(|span| span.first.plus(kept).plus(slack))
    }
}

/// The ledger is cut when it is this part longer than it is to be …
const FORGET_PARTS: u64 = 16;
/// … or by this time: often enough that one cut is small, seldom enough not to be felt.
const FORGET_SLACK_MAX: Millis = Millis::from_secs(6 * 3600);

pub(crate) fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl Backfill {
    /// Whether there is something left to do.
    pub fn is_under_way(&self) -> bool {
        self.ended_at.is_none()
    }

    /// Whether it was ended before it was through.
    pub fn is_cancelled(&self) -> bool {
        self.ended_at.is_some() && self.done < self.until
    }
}
