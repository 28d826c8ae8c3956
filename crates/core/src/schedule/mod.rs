//! A schedule makes jobs again and again. When it ticks is its plan; what happens to ticks that
//! were missed, or that come while a job of it still runs, are its policies. All of it is data.
//! How far it has come is its [`ScheduleProgress`]; what became of its ticks is in the ledger.

mod build;
mod policy;
mod progress;

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub use build::ScheduleDraft;
pub use policy::{Misfire, Overlap};
pub(crate) use progress::earlier;
pub use progress::{
    Backfill, Idle, LedgerSpan, Run, ScheduleCheck, ScheduleCounts, ScheduleProgress, ScheduleState,
};

pub use crate::ledger::{Fate, LedgerPlace, OccurrenceRecord, SkipReason};

use crate::error::Rejection;
use crate::id::{JobId, JobNumber, Key, QueueName, ScheduleId};
use crate::job::JobSpec;
use crate::limits;
use crate::time::{Millis, Timestamp};
use crate::when::{Anchor, Dialect, Plan, Recurrence};

/// What makes jobs, and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// Its name.
    pub id: ScheduleId,
    /// When it ticks.
    pub plan: Plan,
    /// The words from which the plan was read, as they were said; none when there were no words.
    pub said: Vec<Said>,
    /// The queue its jobs go to.
    pub queue: QueueName,
    /// The key its jobs run under, if any.
    pub key: Option<Key>,
    /// What its jobs are.
    pub template: JobSpec,
    /// It makes no jobs while this is given.
    pub paused: Option<Pause>,
    /// What becomes of ticks that were missed.
    pub misfire: Misfire,
    /// How late a tick may be and still not count as missed. When not given: until the next tick
    /// is due, and a minute at most.
    pub grace: Option<Millis>,
    /// What becomes of a tick while the job of an earlier one lives.
    pub overlap: Overlap,
    /// A tick's job is due within this time after the tick, at a moment drawn from the schedule's
    /// id and the tick.
    pub spread: Millis,
    /// How long the ledger remembers what became of its ticks.
    pub ledger_retention: Millis,
}

/// A rhythm as somebody wrote it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
    /// The words, or the cron expression.
    pub text: String,
    /// The dialect of cron, when it was cron.
    pub dialect: Option<Dialect>,
}

/// Why a schedule rests, and since when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pause {
    /// In the words of whoever paused it; may be empty.
    pub note: Arc<str>,
    /// Since when.
    pub since: Timestamp,
}

impl Schedule {
    /// A schedule with this plan, everything else by default.
    pub fn new(id: ScheduleId, plan: Plan, template: JobSpec) -> Self {
        Schedule {
            id,
            plan,
            said: Vec::new(),
            queue: QueueName::default_queue(),
            key: None,
            template,
            paused: None,
            misfire: Misfire::default(),
            grace: None,
            overlap: Overlap::default(),
            spread: Millis::ZERO,
            ledger_retention: limits::LEDGER_RETENTION_DEFAULT,
        }
    }

    /// Every rule about a schedule.
    pub fn check(&self) -> Result<(), Rejection> {
        self.plan.check()?;
        for when in &self.plan.whens {
            check_when(when)?;
        }
        let bounds = [("start", self.plan.start), ("end", self.plan.end)];
        for (field, at) in bounds.into_iter().filter_map(|(field, at)| Some((field, at?))) {
            check_instant(field, at)?;
        }
        if self.plan.count == Some(0) {
            return Err(Rejection::invalid("count", "must be at least 1"));
        }
        self.check_policies()?;
        if let Some(pause) = &self.paused {
            pause.check()?;
        }
        self.template.check()
    }

    fn check_policies(&self) -> Result<(), Rejection> {
        let within = |field: &'static str, span: Millis, max: Millis| {
            if span > max { Err(Rejection::out_of_range(field, "0ms", max)) } else { Ok(()) }
        };
        within("grace", self.grace.unwrap_or_default(), limits::GRACE_MAX)?;
        within("spread", self.spread, limits::SPREAD_MAX)?;
        match self.misfire {
            Misfire::Last(count) if !(1..=limits::MISFIRE_LAST_MAX).contains(&count) => {
                let max = limits::MISFIRE_LAST_MAX;
                return Err(Rejection::out_of_range("misfire.last", 1, max));
            }
            Misfire::Skip | Misfire::Once | Misfire::Last(_) => {}
            Misfire::All { pace } => within("misfire.pace", pace, limits::PACE_MAX)?,
        }
        let (low, high) = (limits::LEDGER_RETENTION_MIN, limits::LEDGER_RETENTION_MAX);
        if self.ledger_retention < low || self.ledger_retention > high {
            return Err(Rejection::out_of_range("ledger_retention", low, high));
        }
        Ok(())
    }

    /// A pace at which missed ticks run that is no faster than new ones come: behind once, behind
    /// for ever. No part of [`Schedule::check`], since a store may have such a schedule from before
    /// it was refused. Of cron it is not said: how far apart its ticks are differs.
    pub(crate) fn check_catches_up(&self) -> Result<(), Rejection> {
        let Misfire::All { pace } = self.misfire else { return Ok(()) };
        let is_endless = self.plan.end.is_none() && self.plan.count.is_none();
        let intervals = self.plan.whens.iter().filter_map(|when| match when {
            Recurrence::Interval(interval) => Some(interval.every),
            Recurrence::Cron(_) | Recurrence::Days(_) => None,
        });
        match intervals.min() {
            Some(every) if is_endless && pace >= every => {
                let problem = format!(
                    "must be shorter than the interval: with jobs {pace} apart and a tick every \
                     {every}, missed ticks are never caught up with"
                );
                Err(Rejection::invalid("misfire.pace", problem))
            }
            _ => Ok(()),
        }
    }

    /// Takes over from the schedule of this id what being put again does not change. A pause
    /// stays: a deployment must not wake what somebody put to rest. What is counted from when it
    /// was said goes on from when it was first said.
    pub(crate) fn go_on_from(&mut self, old: &Schedule) {
        self.paused = match (self.paused.take(), &old.paused) {
            (None, standing) => standing.clone(),
            (Some(new), None) => Some(new),
            (Some(new), Some(standing)) if new.note.is_empty() => {
                Some(Pause { note: Arc::clone(&standing.note), ..standing.clone() })
            }
            (Some(new), Some(standing)) => Some(Pause { since: standing.since, ..new }),
        };
        let clock = |schedule: &Schedule| (schedule.plan.zone.clone(), schedule.plan.start);
        if !self.said.is_empty() && self.said == old.said && clock(self) == clock(old) {
            self.plan.whens.clone_from(&old.plan.whens);
        }
    }

    /// Whether this one ticks in the rhythm of another: as it was said, whatever the zone, the
    /// bounds and the days without ticks. While it does, a count goes on.
    pub(crate) fn has_rhythm_of(&self, other: &Schedule) -> bool {
        let is_said_again = !self.said.is_empty() && self.said == other.said;
        is_said_again || self.plan.whens == other.plan.whens
    }

    /// When the job of a tick is due: never before the tick, and the same whenever it is asked.
    pub fn due_of(&self, tick: Timestamp) -> Timestamp {
        let spread = self.spread.get();
        if spread == 0 {
            return tick;
        }
        tick.plus(Millis::new(crate::id::spread_of(self.id.as_str(), tick.as_millis()) % spread))
    }

    /// The id of the job of a tick: the same tick cannot make two jobs.
    pub fn tick_job(&self, tick: Timestamp) -> JobId {
        tick_job(&self.id, tick)
    }

    /// The id of a job that was made by hand, by its number.
    pub(crate) fn trigger_job(&self, number: JobNumber) -> JobId {
        trigger_job(&self.id, number)
    }
}

pub(crate) fn tick_job(id: &ScheduleId, tick: Timestamp) -> JobId {
    job_id(&format!("{id}@{tick}"))
}

pub(crate) fn trigger_job(id: &ScheduleId, number: JobNumber) -> JobId {
    job_id(&format!("{id}!{}", number.0))
}

/// Whether a job's id is of the kind that schedules give to their jobs.
pub(crate) fn is_reserved(id: &str) -> bool {
    let digit = |byte: u8| byte.is_ascii_digit();
    let is_instant = |text: &str| {
        let shape = "dddd-dd-ddTdd:dd:dd.dddZ";
        text.len() == shape.len()
            && text.bytes().zip(shape.bytes()).all(|(byte, kind)| match kind {
                b'd' => digit(byte),
                _ => byte == kind,
            })
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(digit);
    id.rsplit_once('@').is_some_and(|(_, at)| is_instant(at))
        || id.rsplit_once('!').is_some_and(|(_, number)| is_number(number))
}

fn job_id(text: &str) -> JobId {
    JobId::new(text).unwrap_or_else(|_| unreachable!("{text} is a name by construction"))
}

impl Pause {
    /// A note is short.
    pub fn check(&self) -> Result<(), Rejection> {
        if self.note.len() > limits::PAUSE_NOTE_BYTES_MAX {
            let max = limits::PAUSE_NOTE_BYTES_MAX;
            return Err(Rejection::too_long("note", self.note.len(), max));
        }
        if self.note.chars().any(char::is_control) {
            return Err(Rejection::invalid("note", "must not hold control characters"));
        }
        Ok(())
    }
}

/// What a rhythm's own reader checks, for one that was not read.
fn check_when(when: &Recurrence) -> Result<(), Rejection> {
    let Recurrence::Interval(interval) = when else { return Ok(()) };
    if interval.every < limits::EVERY_MIN {
        return Err(Rejection::invalid("every", "must be at least 100ms"));
    }
    if interval.every > limits::DUE_AHEAD_MAX {
        return Err(Rejection::invalid("every", "must be at most 200 years"));
    }
    match interval.anchor {
        Anchor::Aligned => Ok(()),
        Anchor::Start(start) => check_instant("start", start),
    }
}

fn check_instant(field: &'static str, at: Timestamp) -> Result<(), Rejection> {
    if at < Timestamp::EPOCH {
        return Err(Rejection::invalid(field, "lies before 1970; was it in another unit?"));
    }
    if at > Timestamp::EPOCH.plus(limits::START_MAX) {
        let problem = "lies after the year 2300; was it in another unit?";
        return Err(Rejection::invalid(field, problem));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Target;

    fn schedule(id: &str) -> Schedule {
        let id = ScheduleId::new(id).unwrap();
        let now = Timestamp::from_millis(1_772_638_200_000);
        Schedule::cron("0 9 * * *").build(id, JobSpec::new(Target::Worker), now).unwrap()
    }

    #[test]
    fn every_limit_is_refused_by_its_field() {
        type Row = (&'static str, fn(&mut Schedule));
        let rows: [Row; 11] = [
            ("grace", |s| s.grace = Some(limits::GRACE_MAX.plus(Millis::new(1)))),
            ("spread", |s| s.spread = limits::SPREAD_MAX.plus(Millis::new(1))),
            ("misfire.last", |s| s.misfire = Misfire::Last(0)),
            ("misfire.last", |s| s.misfire = Misfire::Last(limits::MISFIRE_LAST_MAX + 1)),
            ("misfire.pace", |s| {
                s.misfire = Misfire::All { pace: limits::PACE_MAX.plus(Millis::new(1)) };
            }),
            ("ledger_retention", |s| s.ledger_retention = Millis::ZERO),
            ("ledger_retention", |s| {
                s.ledger_retention = limits::LEDGER_RETENTION_MAX.plus(Millis::new(1));
            }),
            ("count", |s| s.plan.count = Some(0)),
            ("start", |s| s.plan.start = Some(Timestamp::from_millis(-1))),
            ("end", |s| s.plan.end = Some(Timestamp::MAX)),
            ("note", |s| {
                let note = "x".repeat(limits::PAUSE_NOTE_BYTES_MAX + 1).into();
                s.paused = Some(Pause { note, since: Timestamp::EPOCH });
            }),
        ];
        assert_eq!(schedule("s").check(), Ok(()));
        for (field, spoil) in rows {
            let mut spoiled = schedule("s");
            spoil(&mut spoiled);
            let refused = spoiled.check().expect_err(field);
            let named = match &refused {
                Rejection::Invalid { field, .. } | Rejection::TooLarge { field, .. } => field,
                other => panic!("{other}"),
            };
            assert_eq!(named, field);
        }
    }

    #[test]
    fn a_spread_is_drawn_once_and_for_all() {
        let tick = Timestamp::from_millis(1_772_638_200_000);
        let spread = |id: &str, tick| {
            let schedule = Schedule { spread: Millis::new(60_000), ..schedule(id) };
            schedule.due_of(tick).since(tick).get()
        };
        // Moving one of these moves somebody's job.
        assert_eq!([spread("a", tick), spread("b", tick)], [2_398, 32_187]);
        assert_ne!(spread("a", tick), spread("b", tick));
        assert_ne!(spread("a", tick), spread("a", tick.plus(Millis::new(60_000))));
        for id in ["a", "b", "c", "d"] {
            assert!(spread(id, tick) < 60_000, "{id}");
        }
        assert_eq!(schedule("a").due_of(tick), tick);
    }

    #[test]
    fn ids_that_schedules_give_are_reserved() {
        let tick = Timestamp::from_millis(1_772_638_200_000);
        let given = schedule("nightly/report").tick_job(tick);
        let triggered = schedule("s").trigger_job(JobNumber(17));
        for id in [given.as_str(), triggered.as_str(), "@2026-03-04T15:30:00.000Z"] {
            assert!(is_reserved(id), "{id}");
        }
        for id in ["a", "a@b", "me@example.com", "a!", "a!b", "x@2026-03-04", "!important", "@"] {
            assert!(!is_reserved(id), "{id}");
        }
    }
}
