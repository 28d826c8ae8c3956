//! A plan: rhythms in a zone, their rules, what is excluded, and from when to when.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::civil::{Date, DateTime, Time};

use super::holidays::Holidays;
use super::limits::{EXCLUDED_DATES_MAX, EXCLUDED_DAYS_RUN_MAX, GAPS_RUN_MAX, WHENS_MAX};
use super::recurrence::{Anchor, Interval, Recurrence, Rhythm};
use super::walk::{self, Event, Fold, Gap, Note, Rules};
use super::zone::{Zone, wall_seconds};
use crate::error::Rejection;
use crate::time::{Millis, Timestamp};

/// When a schedule ticks. All of it is data: the same plan gives the same ticks everywhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// It ticks when any of these does; at one instant only once.
    pub whens: Vec<Recurrence>,
    /// The zone of wall times and of excluded dates.
    pub zone: Zone,
    /// What happens in a gap of the wall clock.
    pub gap: Gap,
    /// What happens in a fold of the wall clock.
    pub fold: Fold,
    /// Days on which it does not tick.
    pub excluded: BTreeSet<Date>,
    /// More such days.
    pub holidays: Holidays,
    /// No tick before this.
    pub start: Option<Timestamp>,
    /// No tick after this.
    pub end: Option<Timestamp>,
    /// No more ticks than this.
    pub count: Option<u64>,
}

/// One tick of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tick {
    /// The instant.
    pub at: Timestamp,
    /// What the plan's wall clock shows then.
    pub wall: DateTime,
    /// What is unusual about it.
    pub note: Option<Note>,
}

/// Why something that could have been a tick was none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Skip {
    /// The wall time does not exist.
    Gap(DateTime),
    /// The day is excluded, by date or by a holiday of this name.
    Excluded(Date, String),
}

/// What comes next: a tick, something skipped, or both at one instant.
pub(crate) struct Step {
    pub(crate) at: Timestamp,
    pub(crate) tick: Option<Tick>,
    pub(crate) skip: Option<Skip>,
    /// Where to look on from.
    pub(crate) after: Timestamp,
}

impl Plan {
    /// The plan of a text that was understood, with the default rules.
    pub fn new(rhythm: Rhythm) -> Self {
        Plan {
            whens: rhythm.whens,
            zone: rhythm.zone,
            gap: Gap::default(),
            fold: Fold::default(),
            excluded: BTreeSet::new(),
            holidays: Holidays::default(),
            start: None,
            end: None,
            count: None,
        }
    }

    /// The plan of several texts, each understood for itself, with the default rules. A plan has
    /// one wall clock: texts that name two zones make no plan.
    pub fn of(rhythms: Vec<Rhythm>) -> Result<Self, Rejection> {
        let mut rhythms = rhythms.into_iter();
        let Some(first) = rhythms.next() else {
            return Err(Rejection::invalid("when", "must say at least one time"));
        };
        let mut plan = Plan::new(first);
        for rhythm in rhythms {
            if rhythm.zone != plan.zone {
                let (one, other) = (&plan.zone, &rhythm.zone);
                let problem = format!("is in two zones, {one} and {other}; a plan has one");
                return Err(Rejection::invalid("when", problem));
            }
            plan.whens.extend(rhythm.whens);
        }
        Ok(plan)
    }

    /// A span of elapsed time from a start, again and again.
    pub fn every(start: Timestamp, every: Millis) -> Self {
        let interval = Interval { every, anchor: Anchor::Start(start) };
        let whens = alloc::vec![Recurrence::Interval(interval)];
        Plan::new(Rhythm { whens, zone: Zone::UTC, dialect: None })
    }

    /// The start and the span, when the plan is one interval from a start.
    pub fn interval(&self) -> Option<(Timestamp, Millis)> {
        match self.whens.as_slice() {
            [Recurrence::Interval(Interval { every, anchor: Anchor::Start(start) })] => {
                Some((*start, *every))
            }
            _ => None,
        }
    }

    /// Every rule about a plan that its parts do not keep by themselves.
    pub fn check(&self) -> Result<(), Rejection> {
        if self.whens.is_empty() {
            return Err(Rejection::invalid("when", "must say at least one time"));
        }
        if self.whens.len() > WHENS_MAX {
            return Err(Rejection::TooMany { what: "times in one schedule", max: WHENS_MAX });
        }
        if self.excluded.len() > EXCLUDED_DATES_MAX {
            return Err(Rejection::TooMany { what: "excluded dates", max: EXCLUDED_DATES_MAX });
        }
        match (self.start, self.end) {
            (Some(start), Some(end)) if end < start => {
                Err(Rejection::invalid("end", "must not be before the start"))
            }
            _ => Ok(()),
        }
    }

    /// The first tick strictly after this instant, when it has ticked `ticked` times already.
    pub fn next_after(&self, instant: Timestamp, ticked: u64) -> Option<Tick> {
        if self.count.is_some_and(|count| ticked >= count) {
            return None;
        }
        let mut after = self.from(instant);
        let mut gaps = 0;
        for _ in 0..EXCLUDED_DAYS_RUN_MAX {
            let step = self.step(after)?;
            if step.tick.is_some() {
                return step.tick;
            }
            gaps += usize::from(matches!(step.skip, Some(Skip::Gap(_))));
            if gaps == GAPS_RUN_MAX {
                return None;
            }
            after = step.after;
        }
        None
    }

    /// All ticks strictly after this instant, when it has ticked `ticked` times already.
    pub fn ticks(&self, after: Timestamp, ticked: u64) -> Ticks<'_> {
        Ticks { plan: self, after, ticked }
    }

    /// Where the search begins: a tick at the start itself counts.
    pub(crate) fn from(&self, instant: Timestamp) -> Timestamp {
        match self.start {
            Some(start) if start > instant => {
                Timestamp::from_millis(start.as_millis().saturating_sub(1))
            }
            _ => instant,
        }
    }

    /// What comes first strictly after this instant.
    pub(crate) fn step(&self, after: Timestamp) -> Option<Step> {
        let rules = rules_of(self);
        let mut next: Option<Found> = None;
        for when in &self.whens {
            if let Some(found) = find(when, &rules, after) {
                next = Some(match next {
                    Some(other) => other.or_earlier(found),
                    None => found,
                });
            }
        }
        let found = next.filter(|found| self.end.is_none_or(|end| found.at <= end))?;
        match self.exclusion(found.wall.date()) {
            Some(name) => Some(self.excluded_step(&found, name)),
            None => Some(found.step()),
        }
    }

    /// Why this day is excluded, if it is.
    pub(crate) fn exclusion(&self, day: Date) -> Option<String> {
        if self.excluded.contains(&day) {
            return Some("excluded date".to_string());
        }
        self.holidays.covering(day).map(ToString::to_string)
    }

    /// A whole day is passed over at once: a plan that ticks every second would take 86,400 steps.
    fn excluded_step(&self, found: &Found, name: String) -> Step {
        let day = found.wall.date();
        let day_end = day.tomorrow().ok().and_then(|next| self.first_second_of(next));
        let after = day_end.map_or(found.at, |end| found.at.max(end));
        let skip = Some(Skip::Excluded(day, name));
        Step { at: found.at, tick: None, skip, after }
    }

    /// The millisecond before a day begins here.
    pub(crate) fn first_second_of(&self, day: Date) -> Option<Timestamp> {
        let start = self.zone.inner().to_ambiguous_timestamp(day.to_datetime(Time::MIN));
        let start = start.compatible().ok()?;
        Some(Timestamp::from_millis(start.as_millisecond() - 1))
    }
}

/// The rules by which a plan's wall times become instants.
pub(crate) fn rules_of(plan: &Plan) -> Rules<'_> {
    Rules { zone: &plan.zone, gap: plan.gap, fold: plan.fold }
}

/// The next event of one rhythm.
struct Found {
    at: Timestamp,
    wall: DateTime,
    ticks: bool,
    note: Option<Note>,
}

fn find(when: &Recurrence, rules: &Rules<'_>, after: Timestamp) -> Option<Found> {
    let second = after.as_millis().div_euclid(1_000);
    match when {
        Recurrence::Cron(cron) => walk::next_event(cron, rules, second).map(Found::from),
        Recurrence::Days(days) => walk::next_event(days, rules, second).map(Found::from),
        Recurrence::Interval(interval) => {
            let at = interval.next_after(after)?;
            Some(Found { at, wall: rules.zone.wall(at)?, ticks: true, note: None })
        }
    }
}

impl From<Event> for Found {
    fn from(event: Event) -> Self {
        let at = Timestamp::from_millis(event.at.saturating_mul(1_000));
        Found { at, wall: event.wall, ticks: event.ticks, note: event.note }
    }
}

impl Found {
    /// The earlier of two; at one instant, both as one.
    fn or_earlier(self, other: Found) -> Found {
        if self.at < other.at {
            return self;
        }
        if other.at < self.at {
            return other;
        }
        // A note about a tick is worth more than one about a skip, and a plain tick beside a
        // made-up one is the plain one.
        let note = if self.ticks == other.ticks { self.note.or(other.note) } else { self.note };
        Found { ticks: self.ticks || other.ticks, note, ..self }
    }

    fn step(self) -> Step {
        let skip = match self.note {
            Some(Note::GapSkipped(missing)) => Some(Skip::Gap(missing)),
            _ => None,
        };
        let note = if skip.is_some() { None } else { self.note };
        let tick = self.ticks.then_some(Tick { at: self.at, wall: self.wall, note });
        Step { at: self.at, tick, skip, after: self.at }
    }
}

impl Tick {
    /// What the wall clock is ahead of UTC, as `+02:00`.
    pub fn offset(&self) -> String {
        let ahead = wall_seconds(self.wall) - self.at.as_millis().div_euclid(1_000);
        let offset = i32::try_from(ahead).ok().and_then(|s| jiff::tz::Offset::from_seconds(s).ok());
        super::zone::show_offset(offset.unwrap_or(jiff::tz::Offset::UTC))
    }
}

/// The ticks of a plan, one after the other.
#[derive(Clone, Debug)]
pub struct Ticks<'a> {
    plan: &'a Plan,
    after: Timestamp,
    ticked: u64,
}

impl Iterator for Ticks<'_> {
    type Item = Tick;

    fn next(&mut self) -> Option<Tick> {
        let tick = self.plan.next_after(self.after, self.ticked)?;
        self.after = tick.at;
        self.ticked = self.ticked.saturating_add(1);
        Some(tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::when::{Reading, parse_recurrence};

    #[test]
    fn several_texts_make_a_plan_when_they_share_a_clock() {
        let zone = Zone::UTC;
        let reading = Reading::new(Timestamp::EPOCH, &zone);
        let read = |text: &&str| parse_recurrence(text, &reading).unwrap();
        let rows: [(&[&str], Result<usize, &str>); 3] = [
            (&["every day at 9am", "every 15 minutes between 9:30 and 17:00"], Ok(3)),
            (
                &["every day at 9am", "TZ=Europe/Paris 0 9 * * *"],
                Err("when is in two zones, UTC and Europe/Paris; a plan has one"),
            ),
            (&[], Err("when must say at least one time")),
        ];
        for (texts, expected) in rows {
            let plan = Plan::of(texts.iter().map(read).collect());
            let found = plan.map(|plan| plan.whens.len()).map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(ToString::to_string), "{texts:?}");
        }
    }
}
