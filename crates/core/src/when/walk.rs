//! From wall times to instants: the walk over the stretches between two changes of a zone's clock.
//!
//! Within a stretch the wall clock runs evenly and the search is one in the calendar. At its ends:
//!
//! ```text
//!            gap                                    fold
//!   01:59:59 │ 03:00                  01:00 … 01:59 │ 01:00 … 01:59 │ 02:00
//!  ──────────┼──────────             ───────────────┼───────────────┼──────
//!   02:00 to 02:59 never come:            first     │    second
//!   one run at 03:00, or none
//! ```

use jiff::civil::{Date, DateTime, Time};

use super::count::{DAY_END, walls_between};
use super::limits::WALK_STEPS_MAX;
use super::zone::{Segment, Zone, wall_from_seconds, wall_seconds};

/// What becomes of wall times that a forward change of the clock leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Gap {
    /// They do not run.
    Skip,
    /// They run once, right after the gap.
    #[default]
    AfterGap,
}

/// Which of two equal wall times counts when the clock goes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fold {
    /// The earlier.
    #[default]
    First,
    /// The later.
    Second,
    /// Both.
    Both,
}

impl Gap {
    /// As the API names it.
    pub fn name(self) -> &'static str {
        match self {
            Gap::Skip => "skip",
            Gap::AfterGap => "after_gap",
        }
    }
}

impl Fold {
    /// As the API names it.
    pub fn name(self) -> &'static str {
        match self {
            Fold::First => "first",
            Fold::Second => "second",
            Fold::Both => "both",
        }
    }
}

/// What is unusual about a tick, or about one that did not happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// It stands for this wall time, which does not exist.
    AfterGap(DateTime),
    /// This wall time does not exist, and was skipped.
    GapSkipped(DateTime),
    /// The wall time comes twice, and this is the first.
    FoldFirst,
    /// The wall time comes twice, and this is the second.
    FoldSecond,
}

/// What ticks at wall times: days, and times of those days.
pub(crate) trait Wall {
    /// The first day on or after this one.
    fn next_day(&self, from: Date) -> Option<Date>;
    /// The first time of such a day, at or after this one.
    fn next_time(&self, from: Time) -> Option<Time>;
    /// How many times of such a day are before this one.
    fn times_before(&self, time: Time) -> u64;
    /// How many times such a day has.
    fn times_in_day(&self) -> u64 {
        self.times_before(DAY_END) + u64::from(self.next_time(DAY_END).is_some())
    }
    /// Whether it ticks with the running of the clock, not at named times.
    fn runs_through(&self) -> bool;
    /// Whether it goes on by itself at this wall time, so that a gap before it needs no making up.
    fn goes_on_at(&self, wall: DateTime) -> bool;

    /// The first wall time at or after this one.
    fn next_wall(&self, from: DateTime) -> Option<DateTime> {
        let day = self.next_day(from.date())?;
        if day != from.date() {
            return Some(day.to_datetime(self.next_time(Time::MIN)?));
        }
        if let Some(time) = self.next_time(from.time()) {
            return Some(day.to_datetime(time));
        }
        let day = self.next_day(day.tomorrow().ok()?)?;
        Some(day.to_datetime(self.next_time(Time::MIN)?))
    }
}

/// The rules by which wall times become instants.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) zone: &'a Zone,
    pub(crate) gap: Gap,
    pub(crate) fold: Fold,
}

/// Something that happens on the walk: a tick, or one that was left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    /// Seconds since the epoch.
    pub(crate) at: i64,
    /// What the wall clock shows then.
    pub(crate) wall: DateTime,
    /// Whether it ticks; if not, the note says why.
    pub(crate) ticks: bool,
    pub(crate) note: Option<Note>,
}

/// No wall clock was ever further from UTC, in seconds.
const OFFSET_MAX: i64 = 26 * 3600;
/// How far back a wall time may still come again or have come: the longest fold and gap.
const CHANGE_MAX: i64 = 2 * 24 * 3600;

/// The first event strictly after this second.
pub(crate) fn next_event(wall: &impl Wall, rules: &Rules<'_>, after: i64) -> Option<Event> {
    let mut from = after.checked_add(1)?;
    for step in 0..WALK_STEPS_MAX {
        if step > 0 {
            from = leap(wall, rules.zone, from)?;
        }
        let segment = rules.zone.segment(from)?;
        if from == segment.start
            && let Some(event) = at_gap(wall, rules, &segment)
        {
            return Some(event);
        }
        if let Some(event) = in_segment(wall, rules, &segment, from) {
            return Some(event);
        }
        if segment.end == i64::MAX {
            return None;
        }
        from = segment.end;
    }
    None
}

/// Passes over stretches in which nothing can happen: a yearly pattern need not look at each.
fn leap(wall: &impl Wall, zone: &Zone, from: i64) -> Option<i64> {
    let segment = zone.segment(from)?;
    let near = wall_from_seconds(from + segment.offset - CHANGE_MAX)?;
    let next = wall_seconds(wall.next_wall(near)?);
    Some(from.max(next - OFFSET_MAX))
}

/// What happens at the very start of a stretch because of the gap before it.
fn at_gap(wall: &impl Wall, rules: &Rules<'_>, segment: &Segment) -> Option<Event> {
    if segment.before >= segment.offset || segment.start == i64::MIN {
        return None;
    }
    let first_missing = wall_from_seconds(segment.start + segment.before)?;
    let resumed = wall_from_seconds(segment.start + segment.offset)?;
    let missing = wall.next_wall(first_missing).filter(|missing| *missing < resumed)?;
    if wall.goes_on_at(resumed) {
        return None;
    }
    let event = |ticks, note| Event { at: segment.start, wall: resumed, ticks, note: Some(note) };
    Some(match rules.gap {
        Gap::AfterGap => event(true, Note::AfterGap(missing)),
        Gap::Skip => {
            // It may tick at this second on its own account.
            event(wall.next_wall(resumed) == Some(resumed), Note::GapSkipped(missing))
        }
    })
}

/// How many ticks there are after one second, up to and with another.
pub(crate) fn counted(wall: &impl Wall, rules: &Rules<'_>, after: i64, until: i64) -> u64 {
    let (mut total, mut from) = (0, after.saturating_add(1));
    while from <= until {
        let Some(segment) = rules.zone.segment(from) else { break };
        let end = segment.end.min(until.saturating_add(1));
        if from == segment.start
            && let Some(event) = at_gap(wall, rules, &segment)
        {
            // It stands for whatever else ticks at that second.
            total += u64::from(event.ticks);
            from += 1;
        }
        let (low, high) = bounds(wall, rules, &segment, from);
        let high = high.min(end.saturating_add(segment.offset));
        if let (Some(low), Some(high)) = (wall_from_seconds(low), wall_from_seconds(high)) {
            total += walls_between(wall, low, high);
        }
        from = from.max(end);
    }
    total
}

/// The seconds of the wall clock, from the first that counts to the first that does not, of a
/// stretch from this second on.
fn bounds(wall: &impl Wall, rules: &Rules<'_>, segment: &Segment, from: i64) -> (i64, i64) {
    let mut low = from + segment.offset;
    let mut high = segment.end.saturating_add(segment.offset);
    if segment.end == i64::MAX {
        high = i64::MAX;
    }
    if !wall.runs_through() {
        match rules.fold {
            Fold::First => low = low.max(segment.repeated_until()),
            Fold::Second => high = high.min(segment.repeated_from()),
            Fold::Both => {}
        }
    }
    (low, high)
}

/// The first tick of a stretch at or after this second.
fn in_segment(wall: &impl Wall, rules: &Rules<'_>, segment: &Segment, from: i64) -> Option<Event> {
    let (low, high) = bounds(wall, rules, segment, from);
    let found = wall.next_wall(wall_from_seconds(low)?)?;
    let seconds = wall_seconds(found);
    if seconds >= high {
        return None;
    }
    let note = if seconds < segment.repeated_until() {
        Some(Note::FoldSecond)
    } else if seconds >= segment.repeated_from() {
        Some(Note::FoldFirst)
    } else {
        None
    };
    Some(Event { at: seconds - segment.offset, wall: found, ticks: true, note })
}
