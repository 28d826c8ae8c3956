//! A schedule makes jobs again and again. Each tick is an occurrence, and every occurrence is
//! accounted for. Here an interval is the only kind of `when`.

use alloc::sync::Arc;

use crate::error::Rejection;
use crate::id::{JobNumber, Key, QueueName, ScheduleId};
use crate::job::JobSpec;
use crate::limits;
use crate::time::{Millis, Timestamp};

/// What makes jobs, and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// Its name.
    pub id: ScheduleId,
    /// When it ticks.
    pub every: Every,
    /// The queue its jobs go to.
    pub queue: QueueName,
    /// The key its jobs run under, if any.
    pub key: Option<Key>,
    /// What its jobs are.
    pub template: JobSpec,
    /// It makes no jobs while this is set.
    pub paused: bool,
}

/// An interval of elapsed time from a start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Every {
    /// The first tick; all others are whole intervals after it.
    pub start: Timestamp,
    /// The interval.
    pub interval: Millis,
}

impl Every {
    /// The first tick strictly after `instant`.
    pub fn next_after(&self, instant: Timestamp) -> Timestamp {
        if instant < self.start {
            return self.start;
        }
        let ticks = self.ticks_until(instant);
        self.start.plus(Millis::new((ticks).saturating_mul(self.interval.get())))
    }

    /// The number of ticks at or before `instant`.
    fn ticks_until(&self, instant: Timestamp) -> u64 {
        if instant < self.start {
            return 0;
        }
        instant.since(self.start).get() / self.interval.get() + 1
    }

    /// The number of ticks in `(after, until]`.
    pub fn ticks_between(&self, after: Timestamp, until: Timestamp) -> u64 {
        self.ticks_until(until).saturating_sub(self.ticks_until(after))
    }

    /// The last tick at or before `instant`.
    pub fn last_at_or_before(&self, instant: Timestamp) -> Option<Timestamp> {
        let ticks = self.ticks_until(instant).checked_sub(1)?;
        Some(self.start.plus(Millis::new(ticks.saturating_mul(self.interval.get()))))
    }
}

impl Schedule {
    /// Every rule about a schedule.
    pub fn check(&self) -> Result<(), Rejection> {
        if self.every.interval < limits::EVERY_MIN {
            return Err(Rejection::invalid("every", "must be at least 100ms"));
        }
        if self.every.interval > limits::DUE_AHEAD_MAX {
            return Err(Rejection::invalid("every", "must be at most 200 years"));
        }
        if self.every.start < Timestamp::EPOCH {
            return Err(Rejection::invalid("start", "lies before 1970; was it in another unit?"));
        }
        if self.every.start > Timestamp::EPOCH.plus(limits::START_MAX) {
            let problem = "lies after the year 2300; was it in another unit?";
            return Err(Rejection::invalid("start", problem));
        }
        self.template.check()
    }
}

/// A schedule and how far it has come: what is stored of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleState {
    /// The schedule.
    pub schedule: Arc<Schedule>,
    /// Its next tick; none while it is paused.
    pub next_at: Option<Timestamp>,
    /// The last tick that was accounted for.
    pub last_at: Option<Timestamp>,
    /// Jobs made since it was first put.
    pub fired: u64,
}

/// What became of a tick.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OccurrenceRecord {
    /// The schedule.
    pub schedule: ScheduleId,
    /// The nominal instant.
    pub at: Timestamp,
    /// When it was decided.
    pub decided_at: Timestamp,
    /// What was decided.
    pub fate: Fate,
}

/// What became of a tick (or, for coalesced ones, of a run of ticks ending at it).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It made this job.
    Ran(JobNumber),
    /// So many ticks were missed and are stood for by the next one that ran.
    Coalesced(u64),
    /// It was triggered by hand, outside the rhythm.
    Triggered(JobNumber),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_whole_intervals_from_the_start() {
        let at = Timestamp::from_millis;
        let every = Every { start: at(1_000), interval: Millis::new(100) };
        for (instant, next) in [(0, 1_000), (999, 1_000), (1_000, 1_100), (1_099, 1_100)] {
            assert_eq!(every.next_after(at(instant)), at(next), "after {instant}");
        }
        assert_eq!(every.ticks_between(at(0), at(999)), 0);
        assert_eq!(every.ticks_between(at(0), at(1_000)), 1);
        assert_eq!(every.ticks_between(at(1_000), at(1_350)), 3);
        assert_eq!(every.last_at_or_before(at(1_350)), Some(at(1_300)));
        assert_eq!(every.last_at_or_before(at(999)), None);
    }
}
