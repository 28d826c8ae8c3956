//! Cron expressions: what one is after it was read, and the search for its next wall time.
//!
//! Fields are sets of bits, days of a month are one word of bits, so that a month is looked at in
//! a few dozen instructions and forty empty years in microseconds. Zones are not known here: the
//! walk over clock changes is in `walk.rs`.

mod dialect;
mod field;
mod spread;
mod words;

use alloc::string::String;
use alloc::vec::Vec;

use jiff::civil::{Date, Time, date, time};

use super::limits::{PATTERN_YEARS_MAX, YEAR_MAX, YEAR_MIN};

pub use dialect::Dialect;
pub(crate) use dialect::{looks_like_cron, recognise};
pub(crate) use words::{join, ordinal, show_time};

/// A cron expression that was understood. Two are equal when they tick alike and read alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cron {
    pattern: Pattern,
    canonical: String,
}

/// When it ticks, whatever it was written like.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Pattern {
    seconds: u64,
    minutes: u64,
    hours: u64,
    months: u64,
    month_days: MonthDays,
    weekdays: Weekdays,
    /// Whether either of the two fields of days is enough (neither was a star).
    either: bool,
    /// Ranges of years with a step; none means all years.
    years: Vec<(i16, i16, i16)>,
    /// Whether the minutes were written with a star: such a pattern runs through folds.
    minute_star: bool,
}

/// Days counted in the month: bit n is day n.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct MonthDays {
    days: u64,
    /// Bit n is the n-th day before the last.
    before_last: u64,
    /// Bit n is the weekday nearest to day n.
    nearest: u64,
    last_weekday: bool,
}

/// Days of the week: bit 0 is Sunday.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Weekdays {
    days: u64,
    /// The n-th of the month, from 1.
    nth: [u64; 5],
    last: u64,
}

const HOURS_ALL: u64 = (1 << 24) - 1;
const MINUTES_ALL: u64 = (1 << 60) - 1;

impl Cron {
    /// The expression in the unix dialect, days of the week by name: the way it is shown.
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    /// The first day on or after this one on which it ticks.
    pub(crate) fn next_day(&self, from: Date) -> Option<Date> {
        self.pattern.next_day(from)
    }

    /// The first time of day, at or after this one, at which it ticks on its days.
    pub(crate) fn next_time(&self, from: Time) -> Option<Time> {
        self.pattern.next_time(from)
    }

    /// How many of its times of day are before this one.
    pub(crate) fn times_before(&self, time: Time) -> u64 {
        let Pattern { seconds, minutes, hours, .. } = &self.pattern;
        let below = |set: u64, bit: i8| u64::from((set & ((1 << bit) - 1)).count_ones());
        let has = |set: u64, bit: i8| u64::from(set & (1 << bit) != 0);
        let (in_minute, in_hour) = (
            u64::from(seconds.count_ones()),
            u64::from(minutes.count_ones()) * u64::from(seconds.count_ones()),
        );
        let in_this_minute = has(*minutes, time.minute()) * below(*seconds, time.second());
        let in_this_hour = below(*minutes, time.minute()) * in_minute + in_this_minute;
        below(*hours, time.hour()) * in_hour + has(*hours, time.hour()) * in_this_hour
    }

    /// Whether it ticks by the clock going on (every hour, or a star in the minutes) rather than
    /// at named times: then a repeated hour is not a repeated tick.
    pub(crate) fn runs_through(&self) -> bool {
        self.pattern.hours == HOURS_ALL || self.has_minute_star()
    }

    /// Whether it goes on by itself at this hour of this day.
    pub(crate) fn goes_on_at(&self, day: Date, hour: i8) -> bool {
        self.runs_through()
            && self.pattern.hours & (1 << hour) != 0
            && self.pattern.next_day(day) == Some(day)
    }

    fn has_minute_star(&self) -> bool {
        self.pattern.minute_star || self.pattern.minutes == MINUTES_ALL
    }
}

impl Pattern {
    fn next_day(&self, from: Date) -> Option<Date> {
        let mut year = self.next_year(from.year())?;
        // Without a year field the dates repeat, so that a pattern which has no day in forty years
        // has none; with one, there are only so many years to look at.
        let within = if self.years.is_empty() { PATTERN_YEARS_MAX } else { YEAR_MAX };
        let last = year.saturating_add(within).min(YEAR_MAX);
        // There are fourteen kinds of year. One of a kind that had no day has none either.
        let mut empty_kinds = 0u16;
        while year <= last {
            let first = date(year, 1, 1);
            let is_whole = year != from.year();
            let kind =
                1 << (first.weekday().to_sunday_zero_offset() * 2 + i8::from(first.in_leap_year()));
            if !is_whole || empty_kinds & kind == 0 {
                let (month, day) = if is_whole { (1, 1) } else { (from.month(), from.day()) };
                if let Some(found) = self.next_day_in_year(year, month, day) {
                    return Some(found);
                }
                empty_kinds |= if is_whole { kind } else { 0 };
            }
            year = self.next_year(year + 1)?;
        }
        None
    }

    fn next_day_in_year(&self, year: i16, month: i8, day: i8) -> Option<Date> {
        let mut first = day;
        let mut from = month;
        while let Some(month) = next_bit(self.months, from) {
            if month != from {
                first = 1;
            }
            if let Some(day) = next_bit(self.days_of_month(year, month), first) {
                return Date::new(year, month, day).ok();
            }
            from = month + 1;
            first = 1;
        }
        None
    }

    fn next_year(&self, from: i16) -> Option<i16> {
        let from = from.max(YEAR_MIN);
        if self.years.is_empty() {
            return (from <= YEAR_MAX).then_some(from);
        }
        let in_range = |&(first, last, step): &(i16, i16, i16)| {
            let steps = (from.max(first) - first + step - 1) / step;
            let year = first + steps * step;
            (year <= last).then_some(year)
        };
        self.years.iter().filter_map(in_range).min()
    }

    fn next_time(&self, from: Time) -> Option<Time> {
        let first_minute = next_bit(self.minutes, 0)?;
        let first_second = next_bit(self.seconds, 0)?;
        if self.hours & (1 << from.hour()) != 0 {
            if self.minutes & (1 << from.minute()) != 0
                && let Some(second) = next_bit(self.seconds, from.second())
            {
                return Some(time(from.hour(), from.minute(), second, 0));
            }
            if let Some(minute) = next_bit(self.minutes, from.minute() + 1) {
                return Some(time(from.hour(), minute, first_second, 0));
            }
        }
        let hour = next_bit(self.hours, from.hour() + 1)?;
        Some(time(hour, first_minute, first_second, 0))
    }

    /// The days of this month on which it ticks: bit n is day n.
    fn days_of_month(&self, year: i16, month: i8) -> u64 {
        let first = date(year, month, 1);
        let length = first.days_in_month();
        let weekday = first.weekday().to_sunday_zero_offset();
        let month_days = self.month_days.of_month(length, weekday);
        let weekdays = self.weekdays.of_month(length, weekday);
        if self.either { month_days | weekdays } else { month_days & weekdays }
    }
}

impl MonthDays {
    /// The days of a month of this length whose first day is this weekday.
    fn of_month(&self, length: i8, first: i8) -> u64 {
        let mut days = self.days & month_mask(length);
        for before in bits(self.before_last) {
            if before < length {
                days |= 1 << (length - before);
            }
        }
        for near in bits(self.nearest) {
            if near <= length {
                days |= 1 << nearest_weekday(near, length, first);
            }
        }
        if self.last_weekday {
            days |= 1 << nearest_weekday(length, length, first);
        }
        days
    }
}

impl Weekdays {
    fn of_month(&self, length: i8, first: i8) -> u64 {
        const EVERY_SEVENTH: u64 = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28;
        let mask = month_mask(length);
        let mut days = 0;
        for weekday in 0..7 {
            let bit = 1 << weekday;
            let earliest = (weekday + 7 - first) % 7 + 1;
            let all = (EVERY_SEVENTH << earliest) & mask;
            if self.days & bit != 0 {
                days |= all;
                continue;
            }
            for (index, nth) in (0i8..).zip(&self.nth) {
                if nth & bit != 0 {
                    days |= 1 << (earliest + 7 * index) & mask;
                }
            }
            if self.last & bit != 0 {
                days |= 1 << all.ilog2();
            }
        }
        days
    }
}

/// The days 1 to `length`.
fn month_mask(length: i8) -> u64 {
    (1 << (length + 1)) - 2
}

/// Monday to Friday nearest to this day without leaving the month.
fn nearest_weekday(day: i8, length: i8, first: i8) -> i8 {
    match (first + day - 1) % 7 {
        // Saturday: the day before, unless that is in the month before.
        6 if day == 1 => 3,
        6 => day - 1,
        // Sunday: the day after, unless that is in the next month.
        0 if day == length => day - 2,
        0 => day + 1,
        _ => day,
    }
}

/// The lowest bit that is set, at or above this one.
fn next_bit(set: u64, from: i8) -> Option<i8> {
    let rest = set.checked_shr(u32::try_from(from).ok()?)?;
    (rest != 0).then(|| from + rest.trailing_zeros() as i8)
}

/// The bits that are set, lowest first.
fn bits(set: u64) -> impl Iterator<Item = i8> {
    (0..64i8).filter(move |bit| set & (1 << bit) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_weekday_never_leaves_the_month() {
        // (day, length, weekday of the first, expected); 0 is Sunday.
        let rows = [
            (1, 31, 6, 3),
            (1, 31, 0, 2),
            (1, 31, 1, 1),
            (31, 31, 5, 29),
            (31, 31, 4, 30),
            (15, 30, 6, 14),
            (15, 30, 0, 16),
            (28, 28, 1, 26),
        ];
        for (day, length, first, expected) in rows {
            assert_eq!(nearest_weekday(day, length, first), expected, "{day} {length} {first}");
        }
    }

    /// Found by fuzzing: `H/20` in the hours was called `16-23/20`, a name that is refused when it
    /// is read.
    #[test]
    fn a_spread_step_that_hits_once() {
        let mut once = 0;
        for number in 0..100 {
            let schedule = alloc::format!("s{number}");
            let drawn = Cron::parse("0 H/20 * * *", Dialect::Unix, Some(&schedule)).unwrap();
            let named = drawn.canonical();
            let again = Cron::parse(named, Dialect::Unix, None);
            let again = again.unwrap_or_else(|problem| panic!("{named}: {problem:?}"));
            assert_eq!(again.canonical(), named);
            once += u32::from(!named.contains('/'));
        }
        assert!(once > 50, "{once} of 100 hit once");
    }

    #[test]
    fn a_bit_is_found_or_not() {
        assert_eq!(next_bit(0b1010, 0), Some(1));
        assert_eq!(next_bit(0b1010, 2), Some(3));
        assert_eq!(next_bit(0b1010, 4), None);
        assert_eq!(next_bit(1 << 63, 63), Some(63));
        assert_eq!(next_bit(u64::MAX, 64), None);
    }
}
