//! What the parts of a rhythm come to: cron where there is one, else days counted from a day, or
//! elapsed time.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use jiff::civil::Time;

use super::clock::{Clock, Form};
use super::list::{field, weekday_field};
use super::phrase::Parts;
use super::span::Unit;
use super::token::Cursor;
use crate::time::Millis;
use crate::when::cron::{Cron, Dialect};
use crate::when::limits::CALENDAR_STEP_MAX;
use crate::when::problem::{Problem, check_shown};
use crate::when::recurrence::{Anchor, Days, Interval, Reading, Recurrence, Rhythm, checked};
use crate::when::zone::Zone;

/// The fields of cron that say which days: day of the month, month, day of the week.
struct DayFields {
    month_day: String,
    month: String,
    weekday: String,
}

impl Parts {
    pub(super) fn assemble(
        mut self,
        cursor: &Cursor<'_>,
        reading: &Reading<'_>,
    ) -> Result<Rhythm, Problem> {
        let zone = self.zone.take().unwrap_or_else(|| reading.zone.clone());
        self.check_count(cursor)?;
        let whens = match self.rate.clone() {
            Some((
                n,
                unit @ (Unit::Millisecond | Unit::Second | Unit::Minute | Unit::Hour),
                span,
            )) => self.within_day(n, unit, &span, cursor, reading)?,
            Some((n, unit @ (Unit::Day | Unit::Week), span)) if n > 1 => {
                alloc::vec![self.counted_days(n, unit, &span, cursor, reading, &zone)?]
            }
            rate => {
                let days = self.day_fields(rate, cursor)?;
                self.refuse_within_day(cursor)?;
                crons(&self.times(cursor)?, &days, cursor)?
            }
        };
        Ok(Rhythm { whens, zone, dialect: None })
    }

    /// "twice a day" must be followed by two times.
    fn check_count(&mut self, cursor: &Cursor<'_>) -> Result<(), Problem> {
        let Some((count, unit, span)) = self.count.clone() else { return Ok(()) };
        let said = match unit {
            Unit::Day => self.times.len(),
            Unit::Week => self.weekdays.count_ones() as usize,
            Unit::Month | Unit::Year => self.month_days.len() + self.nth.len(),
            Unit::Hour => self.minutes.len(),
            Unit::Millisecond | Unit::Second | Unit::Minute => 0,
        };
        if said != count as usize {
            let what = match unit {
                Unit::Day => "times",
                Unit::Hour => "minutes",
                _ => "days",
            };
            let message = format!("which {what}? {count} wanted, {said} given");
            let example = match unit {
                Unit::Day => "twice a day at 8 and 20",
                Unit::Week => "once a week on monday at 9:00",
                _ => "once a month on the 1st at 9:00",
            };
            return Err(Problem::new(span, message).or([example]));
        }
        if self.rate.is_none() {
            self.rate = Some((1, unit, span));
        } else {
            return Err(Problem::new(0..cursor.text.len(), "two rhythms at once"));
        }
        Ok(())
    }

    /// Times on the 24-hour clock, unless a part of the day says otherwise; midnight if none.
    fn times(&self, cursor: &Cursor<'_>) -> Result<Vec<Time>, Problem> {
        if self.times.is_empty() {
            let part = self.part.map(super::clock::DayPart::time);
            return Ok(alloc::vec![part.unwrap_or(Time::MIN)]);
        }
        let twelve = self.times.iter().any(|clock| clock.form == Form::TwelveHour);
        let mut times = Vec::new();
        for clock in &self.times {
            times.push(match (clock.form, self.part) {
                (_, Some(part)) => clock.in_part(part, cursor)?,
                (Form::Half, None) if twelve => return Err(clock.which_half(cursor)),
                (_, None) => clock.time,
            });
            if clock.time.subsec_nanosecond() != 0 {
                return Err(Problem::new(clock.span.clone(), "a rhythm has whole seconds"));
            }
        }
        times.sort_unstable();
        times.dedup();
        Ok(times)
    }

    fn refuse_within_day(&self, cursor: &Cursor<'_>) -> Result<(), Problem> {
        let all = 0..cursor.text.len();
        if self.window.is_some() {
            let message = "how often in that time?";
            return Err(Problem::new(all, message).or(["every 15 minutes between 9am and 5pm"]));
        }
        if !self.minutes.is_empty() {
            let message = "a minute of which hour?";
            return Err(Problem::new(all, message).or(["every hour at :15", "every day at 09:15"]));
        }
        if self.anchor.is_some() {
            return Err(Problem::new(all, "a day to count from, and nothing that is counted"));
        }
        Ok(())
    }

    /// Every n-th day or week.
    fn counted_days(
        &self,
        n: u32,
        unit: Unit,
        span: &Range<usize>,
        cursor: &Cursor<'_>,
        reading: &Reading<'_>,
        zone: &Zone,
    ) -> Result<Recurrence, Problem> {
        let all = 0..cursor.text.len();
        let others = !self.nth.is_empty() || !self.month_days.is_empty() || self.months != 0;
        if others || self.window.is_some() || !self.minutes.is_empty() || n > CALENDAR_STEP_MAX {
            let message = "every n-th day or week goes with times, and weeks with weekdays";
            return Err(Problem::new(all, message));
        }
        let weekdays = match (unit, self.weekdays) {
            (Unit::Week, 0) => {
                let candidate = cursor.with(span, &format!("{n} weeks on monday"));
                return Err(Problem::new(span.clone(), "on which day?").or([candidate]));
            }
            (Unit::Week, set) => Some(set),
            (_, 0) => None,
            (_, _) => {
                let message = "every n-th day, or a day of the week?";
                return Err(Problem::new(all, message).or(["every 2 weeks on monday"]));
            }
        };
        let today = zone.wall(reading.now).map(jiff::civil::DateTime::date);
        let anchor = self.anchor.or(today);
        let anchor = anchor.ok_or_else(|| Problem::new(all, "now is not a time"))?;
        let times = self.times(cursor)?;
        let days = Recurrence::Days(Days { step: n, weekdays, anchor, times });
        check_shown(&days.canonical(), cursor.text)?;
        Ok(days)
    }

    /// The days, for cron.
    fn day_fields(
        &self,
        rate: Option<(u32, Unit, Range<usize>)>,
        cursor: &Cursor<'_>,
    ) -> Result<DayFields, Problem> {
        let all = 0..cursor.text.len();
        let mut month_day = self.month_days.join(",");
        let mut weekday: Vec<String> = self.nth.clone();
        if self.weekdays != 0 {
            weekday.insert(0, weekday_field(self.weekdays));
        }
        let weekday = weekday.join(",");
        if !month_day.is_empty() && !weekday.is_empty() {
            let message = "a day of the month and a day of the week: cron ticks on either";
            return Err(Problem::new(all, message));
        }
        let mut month = if self.months == 0 { "*".to_string() } else { field(self.months.into()) };
        let says_day = !month_day.is_empty() || !weekday.is_empty();
        let span = rate.as_ref().map_or(all.clone(), |(_, _, span)| span.clone());
        let which_day = |examples: [&str; 2]| {
            let candidates = examples.map(|example| cursor.with(&span, example));
            Err(Problem::new(span.clone(), "on which day?").or(candidates))
        };
        match rate.map(|(n, unit, _)| (n, unit)) {
            Some((0, _)) => return Err(Problem::new(span, "every 0 is never")),
            Some((1, Unit::Day))
                if !self.month_days.is_empty()
                    || !self.nth.is_empty()
                    || self.weekdays.is_power_of_two() =>
            {
                return Err(Problem::new(all, "every day, or only some days?"));
            }
            Some((1, Unit::Week)) if self.weekdays == 0 => {
                return which_day(["week on monday", "weekly on monday"]);
            }
            Some((n, Unit::Month)) => {
                if n != 1 && self.months != 0 {
                    return Err(Problem::new(span, "every n-th month, or months by name?"));
                }
                if 12 % n != 0 || n == 12 {
                    let message = format!("{n} months are not a part of a year");
                    return Err(Problem::new(span, message).or(["every 3 months", "every year"]));
                }
                if n > 1 && !self.is_quarterly {
                    month = format!("*/{n}");
                }
                if !says_day {
                    month_day = "1".to_string();
                }
            }
            Some((1, Unit::Year)) => match (self.months, says_day) {
                (0, false) => (month_day, month) = ("1".to_string(), "1".to_string()),
                (0, true) => return Err(Problem::new(span, "in which month?")),
                (_, false) => {
                    return which_day(["january on the 1st", "every january on the 1st"]);
                }
                (_, true) => {}
            },
            Some((_, Unit::Year)) => {
                let message = "every n-th year is said with a year field of cron";
                return Err(Problem::new(span, message).or(["0 0 0 1 1 * 2026-2099/2"]));
            }
            Some(_) | None => {}
        }
        if self.is_quarterly {
            month = self.quarter_months(&all)?.to_string();
        }
        let star = |text: String| if text.is_empty() { "*".to_string() } else { text };
        Ok(DayFields { month_day: star(month_day), month, weekday: star(weekday) })
    }

    /// A quarter begins with its first month and ends with its third.
    fn quarter_months(&self, all: &Range<usize>) -> Result<&'static str, Problem> {
        let is_last = |term: &&String| term.contains('L');
        let terms = || self.month_days.iter().chain(&self.nth);
        match (terms().count(), terms().filter(is_last).count()) {
            _ if self.months != 0 => {
                Err(Problem::new(all.clone(), "every quarter, or months by name?"))
            }
            (_, 0) => Ok("*/3"),
            (days, last) if days == last => Ok("3-12/3"),
            (_, _) => Err(Problem::new(
                all.clone(),
                "the first and the last of a quarter: say them apart",
            )),
        }
    }

    /// Every n seconds, minutes or hours.
    fn within_day(
        &self,
        n: u32,
        unit: Unit,
        span: &Range<usize>,
        cursor: &Cursor<'_>,
        reading: &Reading<'_>,
    ) -> Result<Vec<Recurrence>, Problem> {
        if let Some(clock) = self.times.first() {
            let message = "a time of day, and something that comes more often";
            let minute = format!(":{:02}", clock.time.hour().min(59));
            let minute = (unit == Unit::Hour).then(|| cursor.with(&clock.span, &minute));
            return Err(Problem::new(clock.span.clone(), message).or(minute));
        }
        if self.part.is_some() || self.anchor.is_some() {
            let message = "say the hours: between 9:00 and 12:00";
            return Err(Problem::new(0..cursor.text.len(), message));
        }
        let (n, unit) = rounded(n, unit);
        if unit != Unit::Hour && !self.minutes.is_empty() {
            return Err(Problem::new(span.clone(), "a minute goes with hours"));
        }
        let is_plain = self.weekdays == 0
            && self.nth.is_empty()
            && self.month_days.is_empty()
            && self.months == 0
            && self.window.is_none()
            && self.minutes.is_empty();
        if !fits_evenly(n, unit) && is_plain {
            return elapsed(n, unit, span, reading).map(|when| alloc::vec![when]);
        }
        let days = self.day_fields(None, cursor)?;
        let window = self.window(cursor)?;
        let whole = (0, 24 * 60);
        let lines = match unit {
            Unit::Hour => hour_lines(n, window, &self.minutes, span)?,
            _ if !fits_evenly(n, unit) => return Err(uneven(n, unit, span)),
            Unit::Minute => minute_lines(n, window.unwrap_or(whole)),
            _ => second_lines(n, window.unwrap_or(whole), span)?,
        };
        lines.iter().map(|line| cron(line, &days, cursor)).collect()
    }

    /// The window in minutes of the day; its end may be after midnight.
    fn window(&self, cursor: &Cursor<'_>) -> Result<Option<(u32, u32)>, Problem> {
        let Some((first, last)) = &self.window else { return Ok(None) };
        let is_half = |clock: &Clock| clock.form == Form::Half;
        let is_twelve = |clock: &Clock| clock.form == Form::TwelveHour;
        // 9 to 17 is the 24-hour clock; 9 to 5, or 9am to 5, could be anything.
        let backwards = last.time <= first.time;
        if is_half(first) && is_half(last) && backwards {
            let span = first.span.start..last.span.end;
            let (a, b) = (first.time.hour(), last.time.hour());
            let meant = |text: String| cursor.with(&span, &text);
            let joint = &cursor.text[first.span.end..last.span.start];
            let candidates =
                [meant(format!("{a}am{joint}{b}pm")), meant(format!("{a:02}:00{joint}{b:02}:00"))];
            return Err(Problem::new(span.clone(), "in which halves of the day?").or(candidates));
        }
        if is_half(last) && (is_twelve(first) || backwards) {
            return Err(last.which_half(cursor));
        }
        if is_half(first) && is_twelve(last) {
            return Err(first.which_half(cursor));
        }
        for clock in [first, last] {
            if clock.time.second() != 0 || clock.time.subsec_nanosecond() != 0 {
                return Err(Problem::new(clock.span.clone(), "whole minutes only"));
            }
        }
        let minutes =
            |time: Time| u32::from(time.hour() as u8) * 60 + u32::from(time.minute() as u8);
        let (from, to) = (minutes(first.time), minutes(last.time));
        if from == to {
            return Err(Problem::new(last.span.clone(), "that is no time, or all day"));
        }
        Ok(Some((from, if to > from { to } else { to + 24 * 60 })))
    }
}

/// 60 minutes are an hour: one way to say it.
fn rounded(n: u32, unit: Unit) -> (u32, Unit) {
    match unit {
        Unit::Second if n > 0 && n.is_multiple_of(60) => rounded(n / 60, Unit::Minute),
        Unit::Minute if n > 0 && n.is_multiple_of(60) => (n / 60, Unit::Hour),
        _ => (n, unit),
    }
}

fn fits_evenly(n: u32, unit: Unit) -> bool {
    match unit {
        Unit::Second | Unit::Minute => n > 0 && n < 60 && 60 % n == 0,
        Unit::Hour => n > 0 && n < 24 && 24 % n == 0,
        _ => false,
    }
}

fn uneven(n: u32, unit: Unit, span: &Range<usize>) -> Problem {
    if n == 0 {
        return Problem::new(span.clone(), "an interval lasts at least 100ms");
    }
    let (name, whole) = match unit {
        Unit::Hour => ("hours", "a day"),
        Unit::Minute => ("minutes", "an hour"),
        _ => ("seconds", "a minute"),
    };
    let message =
        format!("{n} {name} do not fit into {whole} evenly, so only elapsed time will do");
    Problem::new(span.clone(), message).or([format!("every {n} {name}")])
}

fn elapsed(
    n: u32,
    unit: Unit,
    span: &Range<usize>,
    reading: &Reading<'_>,
) -> Result<Recurrence, Problem> {
    let millis: u64 = match unit {
        Unit::Hour => 3_600_000,
        Unit::Minute => 60_000,
        Unit::Second => 1_000,
        _ => 1,
    };
    let every = checked(Millis::new(u64::from(n).saturating_mul(millis)), span.clone())?;
    Ok(Recurrence::Interval(Interval { every, anchor: Anchor::Start(reading.now) }))
}

/// Seconds, minutes and hours of a line of cron.
type ClockFields = (String, String, String);

fn step(n: u32) -> String {
    if n == 1 { "*".to_string() } else { format!("*/{n}") }
}

/// Hours from one to another, the second not included; across midnight they wrap.
fn hours(first: u32, end: u32) -> String {
    match end - first {
        24 => "*".to_string(),
        1 => (first % 24).to_string(),
        _ => format!("{}-{}", first % 24, (end - 1) % 24),
    }
}

fn hour_lines(
    n: u32,
    window: Option<(u32, u32)>,
    minutes: &[u32],
    span: &Range<usize>,
) -> Result<Vec<ClockFields>, Problem> {
    let list = |minutes: &[u32]| field(minutes.iter().fold(0, |set, minute| set | 1 << minute));
    let zero = "0".to_string();
    let Some((from, to)) = window else {
        if !fits_evenly(n, Unit::Hour) {
            return Err(uneven(n, Unit::Hour, span));
        }
        let minutes = if minutes.is_empty() { zero.clone() } else { list(minutes) };
        return Ok(alloc::vec![(zero, minutes, step(n))]);
    };
    if n == 0 {
        return Err(uneven(n, Unit::Hour, span));
    }
    // Counted from the start of the window, at its minute unless minutes are said.
    let minutes = if minutes.is_empty() { alloc::vec![from % 60] } else { minutes.to_vec() };
    let mut by_hours: BTreeMap<Vec<u32>, Vec<u32>> = BTreeMap::new();
    for minute in &minutes {
        let start = from - from % 60 + minute;
        let start = if start < from { start + 60 } else { start };
        let found: Vec<u32> =
            (start..to).step_by(n.saturating_mul(60) as usize).map(|at| at / 60 % 24).collect();
        by_hours.entry(found).or_default().push(*minute);
    }
    let line = |(found, minutes): (Vec<u32>, Vec<u32>)| match found[..] {
        [] => None,
        [first, .., last] if n > 1 => {
            Some(("0".to_string(), list(&minutes), format!("{first}-{last}/{n}")))
        }
        [first, .., last] => Some(("0".to_string(), list(&minutes), format!("{first}-{last}"))),
        [only] => Some(("0".to_string(), list(&minutes), only.to_string())),
    };
    Ok(by_hours.into_iter().filter_map(line).collect())
}

/// Up to three lines: the rest of the first hour, whole hours, and the beginning of the last.
fn minute_lines(n: u32, (from, to): (u32, u32)) -> Vec<ClockFields> {
    let part = |first: u32, end: u32| {
        let bits = (0..60u32).step_by(n as usize).filter(|minute| (first..end).contains(minute));
        field(bits.fold(0, |set, minute| set | 1 << minute))
    };
    let zero = || "0".to_string();
    let (first_whole, last_whole) = (from.div_ceil(60), to / 60);
    let mut lines = Vec::new();
    let mut add = |minutes: String, hours: String| {
        if !minutes.is_empty() {
            lines.push((zero(), minutes, hours));
        }
    };
    if first_whole > last_whole {
        add(part(from % 60, to % 60), (from / 60 % 24).to_string());
        return lines;
    }
    if from % 60 != 0 {
        add(part(from % 60, 60), (from / 60 % 24).to_string());
    }
    if last_whole > first_whole {
        add(step(n), hours(first_whole, last_whole));
    }
    if to % 60 != 0 {
        add(part(0, to % 60), (last_whole % 24).to_string());
    }
    lines
}

fn second_lines(
    n: u32,
    (from, to): (u32, u32),
    span: &Range<usize>,
) -> Result<Vec<ClockFields>, Problem> {
    if from % 60 != 0 || to % 60 != 0 {
        let message = "every few seconds goes with whole hours: between 9:00 and 17:00";
        return Err(Problem::new(span.clone(), message));
    }
    Ok(alloc::vec![(step(n), "*".to_string(), hours(from / 60, to / 60))])
}

/// One line for all times that share their minute and second, or one for all of them.
fn crons(
    times: &[Time],
    days: &DayFields,
    cursor: &Cursor<'_>,
) -> Result<Vec<Recurrence>, Problem> {
    let mut hours_by_minute: BTreeMap<(i8, i8), u64> = BTreeMap::new();
    for time in times {
        *hours_by_minute.entry((time.second(), time.minute())).or_default() |= 1 << time.hour();
    }
    let mut minutes_by_hours: BTreeMap<(i8, u64), u64> = BTreeMap::new();
    for ((second, minute), hours) in hours_by_minute {
        *minutes_by_hours.entry((second, hours)).or_default() |= 1 << minute;
    }
    let line = |((second, hours), minutes): (&(i8, u64), &u64)| {
        cron(&(second.to_string(), field(*minutes), field(*hours)), days, cursor)
    };
    minutes_by_hours.iter().map(line).collect()
}

fn cron(clock: &ClockFields, days: &DayFields, cursor: &Cursor<'_>) -> Result<Recurrence, Problem> {
    let (second, minute, hour) = clock;
    let DayFields { month_day, month, weekday } = days;
    let text = format!("{second} {minute} {hour} {month_day} {month} {weekday}");
    let place = |problem: Problem| Problem { span: 0..cursor.text.len(), ..problem };
    Cron::parse(&text, Dialect::Unix, None).map(Recurrence::Cron).map_err(place)
}
