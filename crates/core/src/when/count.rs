//! How many ticks fall into a stretch of time, without walking over each: what eight days of an
//! outage come to must be known in microseconds.
//!
//! One rhythm is counted by arithmetic: days by the calendar, times of a day by their number,
//! stretch by stretch between two changes of the clock, with the same rules as in `walk.rs`. Where
//! several rhythms meet they tick once, so those are walked, and only so far at a time.

use jiff::civil::{Date, DateTime, Time};

use super::plan::{Plan, rules_of};
use super::recurrence::{Anchor, Interval, Recurrence};
use super::walk::{Rules, Wall, counted};
use crate::time::{Millis, Timestamp};

/// Ticks of a stretch of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tally {
    /// How many there are.
    pub count: u64,
    /// The last of them; where the stretch begins when there is none.
    pub last: Timestamp,
    /// Whether these are all; if not, there are more after the last.
    pub whole: bool,
}

/// How far back the last tick is looked for: from what ticks every second to what ticks each year.
const LOOK_BACK: [Millis; 6] = [
    Millis::from_secs(1),
    Millis::from_secs(60),
    Millis::from_secs(3_600),
    Millis::from_secs(24 * 3_600),
    Millis::from_secs(32 * 24 * 3_600),
    Millis::from_secs(400 * 24 * 3_600),
];

/// Ticks that are walked over rather than searched.
const LOOKED_AT_MAX: u64 = 64;

impl Plan {
    /// The ticks in `(after, until]`, when it has ticked `ticked` times already. Looks at no more
    /// than about `walk_max` ticks one by one; then the rest is left for another call.
    pub fn tally(&self, after: Timestamp, until: Timestamp, ticked: u64, walk_max: usize) -> Tally {
        if self.whens.len() != 1 {
            return self.walk_tally(after, until, ticked, walk_max);
        }
        let left = self.count.map_or(u64::MAX, |count| count.saturating_sub(ticked));
        let all = self.count_in(after, until);
        let count = all.min(left);
        let last =
            if count < all { self.nth_in(after, until, count) } else { self.last_in(after, until) };
        Tally { count, last: last.unwrap_or(after), whole: true }
    }

    /// The last tick in `(after, until]`.
    pub fn last_in(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        self.nth_last_in(after, until, 1)
    }

    /// The `nth` tick from the end of `(after, until]`; 1 is the last.
    pub fn nth_last_in(&self, after: Timestamp, until: Timestamp, nth: u64) -> Option<Timestamp> {
        // Most often it is near the end: looked for there first, in ever wider windows.
        for window in LOOK_BACK {
            let from = until.minus(window).max(after);
            let count = self.count_in(from, until);
            if count >= nth {
                let place = count - nth;
                return if count <= LOOKED_AT_MAX {
                    self.ticks_of(from).nth(place as usize)
                } else {
                    self.nth_in(from, until, place + 1)
                };
            }
            if from == after {
                return None;
            }
        }
        let place = self.count_in(after, until).checked_sub(nth)?;
        self.nth_in(after, until, place + 1)
    }

    /// The `nth` tick after an instant, from 1, if it is not after `until`.
    pub fn nth_in(&self, after: Timestamp, until: Timestamp, nth: u64) -> Option<Timestamp> {
        if nth <= 1 || self.whens.len() != 1 {
            let skipped = usize::try_from(nth.checked_sub(1)?).ok()?;
            let mut ticks = self.ticks_of(after).take_while(|at| *at <= until);
            return ticks.nth(skipped);
        }
        let (mut low, mut high) = (after.as_millis(), until.as_millis());
        if self.count_in(after, until) < nth {
            return None;
        }
        // The first instant up to which there are so many is the tick itself.
        while high.saturating_sub(low) > 1 {
            let middle = low + (high - low) / 2;
            if self.count_in(after, Timestamp::from_millis(middle)) >= nth {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(Timestamp::from_millis(high))
    }

    /// How many ticks there are in `(after, until]`, whatever the plan's count.
    pub fn count_in(&self, after: Timestamp, until: Timestamp) -> u64 {
        let after = self.from(after);
        let until = self.end.map_or(until, |end| end.min(until));
        let [when] = self.whens.as_slice() else {
            return self.ticks_of(after).take_while(|at| *at <= until).count() as u64;
        };
        if self.excluded.is_empty() && self.holidays.is_empty() {
            return count_when(when, &rules_of(self), after, until);
        }
        self.count_open_days(when, after, until)
    }

    /// The same, for those who need not know how many there are beyond `max`.
    pub fn count_up_to(&self, after: Timestamp, until: Timestamp, max: u64) -> u64 {
        if self.whens.len() == 1 {
            return self.count_in(after, until);
        }
        let until = self.end.map_or(until, |end| end.min(until));
        let ticks = self.ticks_of(self.from(after)).take_while(|at| *at <= until);
        ticks.take(max as usize).count() as u64
    }

    /// Every tick after an instant, whatever the plan's count.
    pub(crate) fn ticks_of(&self, after: Timestamp) -> impl Iterator<Item = Timestamp> {
        let mut last = after;
        core::iter::from_fn(move || {
            last = self.next_after(last, 0)?.at;
            Some(last)
        })
    }

    fn walk_tally(
        &self,
        after: Timestamp,
        until: Timestamp,
        ticked: u64,
        walk_max: usize,
    ) -> Tally {
        let ticks = self.ticks(after, ticked).map(|tick| tick.at);
        let mut tally = Tally { count: 0, last: after, whole: true };
        for at in ticks.take_while(|at| *at <= until) {
            if tally.count >= walk_max as u64 {
                return Tally { whole: false, ..tally };
            }
            tally = Tally { count: tally.count + 1, last: at, ..tally };
        }
        tally
    }

    /// Day by day, those that are excluded left out.
    fn count_open_days(&self, when: &Recurrence, after: Timestamp, until: Timestamp) -> u64 {
        let (mut total, mut from) = (0, after);
        while from < until {
            // A tick strictly after `from` is at least a millisecond later.
            let first = from.plus(Millis::new(1));
            let Some(day) = self.zone.wall(first).map(DateTime::date) else { break };
            let end = day.tomorrow().ok().and_then(|next| self.first_second_of(next));
            let end = end.unwrap_or(until).clamp(first, until);
            if self.exclusion(day).is_none() {
                total += count_when(when, &rules_of(self), from, end);
            }
            from = end;
        }
        total
    }
}

fn count_when(when: &Recurrence, rules: &Rules<'_>, after: Timestamp, until: Timestamp) -> u64 {
    if until <= after {
        return 0;
    }
    let second = |at: Timestamp| at.as_millis().div_euclid(1_000);
    match when {
        Recurrence::Cron(cron) => counted(cron, rules, second(after), second(until)),
        Recurrence::Days(days) => counted(days, rules, second(after), second(until)),
        Recurrence::Interval(interval) => {
            interval.ticks_until(until).saturating_sub(interval.ticks_until(after))
        }
    }
}

impl Interval {
    /// The number of ticks at or before an instant, from the epoch or from the start.
    fn ticks_until(&self, instant: Timestamp) -> u64 {
        let start = match self.anchor {
            Anchor::Aligned => Timestamp::EPOCH,
            Anchor::Start(start) => start,
        };
        if instant < start {
            return 0;
        }
        instant.since(start).get() / self.every.get().max(1) + 1
    }
}

/// How many wall times there are in `[from, to)`.
pub(crate) fn walls_between(wall: &impl Wall, from: DateTime, to: DateTime) -> u64 {
    if from >= to {
        return 0;
    }
    let before =
        |at: DateTime| if is_day(wall, at.date()) { wall.times_before(at.time()) } else { 0 };
    let whole = days_between(wall, from.date(), to.date()).saturating_mul(wall.times_in_day());
    (whole + before(to)).saturating_sub(before(from))
}

fn is_day(wall: &impl Wall, day: Date) -> bool {
    wall.next_day(day) == Some(day)
}

/// Days in `[from, to)` on which it ticks.
fn days_between(wall: &impl Wall, from: Date, to: Date) -> u64 {
    let (mut days, mut from) = (0, from);
    while let Some(day) = wall.next_day(from).filter(|day| *day < to) {
        days += 1;
        match day.tomorrow() {
            Ok(next) => from = next,
            Err(_) => break,
        }
    }
    days
}

/// The last second of a day, for counting all of its times.
pub(crate) const DAY_END: Time = Time::constant(23, 59, 59, 0);
