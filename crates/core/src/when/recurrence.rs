//! Rhythms: cron, every n-th day or week, intervals; and the one function that reads them all.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::civil::{Date, DateTime, Time};

use super::cron::{Cron, Dialect, join, looks_like_cron, recognise, show_time};
use super::problem::{Problem, check_length};
use super::say;
use super::walk::Wall;
use super::zone::Zone;
use crate::limits::{DUE_AHEAD_MAX, EVERY_MIN};
use crate::time::{Millis, Timestamp};

/// Something that comes again and again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Recurrence {
    /// A cron expression, by the wall clock.
    Cron(Cron),
    /// Every n-th day or week from a day, by the wall clock.
    Days(Days),
    /// A span of elapsed time, whatever the wall clock does.
    Interval(Interval),
}

/// A span of elapsed time, again and again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// The span.
    pub every: Millis,
    /// Where it is counted from.
    pub anchor: Anchor,
}

/// Where an interval is counted from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anchor {
    /// The Unix epoch: all intervals of one length tick together, on round times of UTC.
    Aligned,
    /// An instant, at which it ticks as well.
    Start(Timestamp),
}

/// Every n-th day, or some days of every n-th week.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Days {
    pub(crate) step: u32,
    /// Bit 0 is Sunday; none when days are counted, not weeks.
    pub(crate) weekdays: Option<u8>,
    /// The day, or a day of the week, that is counted from.
    pub(crate) anchor: Date,
    /// In order.
    pub(crate) times: Vec<Time>,
}

/// What a text is read by.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// What intervals are counted from when the text does not say.
    pub now: Timestamp,
    /// The zone, when the text names none.
    pub zone: &'a Zone,
    /// The dialect of cron; none to recognise it.
    pub dialect: Option<Dialect>,
    /// The id that `H` and `~` are drawn from.
    pub schedule: Option<&'a str>,
}

/// A text that was understood: one rhythm, or several that together are what was said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rhythm {
    /// The rhythms; at least one.
    pub whens: Vec<Recurrence>,
    /// The zone of their wall times.
    pub zone: Zone,
    /// The dialect that was recognised, when the text was cron.
    pub dialect: Option<Dialect>,
}

impl<'a> Reading<'a> {
    /// Any dialect, no schedule's id.
    pub fn new(now: Timestamp, zone: &'a Zone) -> Self {
        Reading { now, zone, dialect: None, schedule: None }
    }
}

/// Reads cron, an interval, or words. All of the text must be understood.
pub fn parse_recurrence(text: &str, reading: &Reading<'_>) -> Result<Rhythm, Problem> {
    check_length(text)?;
    if text.trim().is_empty() {
        return Err(Problem::new(0..text.len(), "nothing was said")
            .or(["every weekday at 9am", "*/15 * * * *"]));
    }
    // A candidate is a promise: what would be refused in its turn is not offered.
    let only_good = |mut problem: Problem| {
        problem.candidates.retain(|other| {
            let free = Reading { dialect: None, ..*reading };
            parse_whole(other, reading).is_ok() || parse_whole(other, &free).is_ok()
        });
        problem
    };
    parse_whole(text, reading).map_err(only_good)
}

/// The zone before it, and the rest.
fn parse_whole(text: &str, reading: &Reading<'_>) -> Result<Rhythm, Problem> {
    let (body, at, zone) = split_zone(text, reading.zone)?;
    let reading = Reading { zone: &zone, ..*reading };
    parse_body(body, &reading).map_err(|problem| problem.shifted(at))
}

/// `TZ=Europe/Paris` or `CRON_TZ=…` before the rest, the rest, and where that starts.
fn split_zone<'t>(text: &'t str, zone: &Zone) -> Result<(&'t str, usize, Zone), Problem> {
    let indent = text.len() - text.trim_start().len();
    let trimmed = text.trim();
    for prefix in ["CRON_TZ=", "TZ="] {
        if let Some(rest) = trimmed.strip_prefix(prefix) {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let name = &rest[..end];
            let name_at = indent + prefix.len();
            let zone = Zone::named(name).map_err(|mut problem| {
                for candidate in &mut problem.candidates {
                    *candidate = format!("{prefix}{candidate}{}", &rest[end..]);
                }
                problem.shifted(name_at)
            })?;
            let body = rest[end..].trim_start();
            let body_at = indent + trimmed.len() - body.len();
            return Ok((body, body_at, zone));
        }
    }
    Ok((trimmed, indent, zone.clone()))
}

fn parse_body(text: &str, reading: &Reading<'_>) -> Result<Rhythm, Problem> {
    if let Some(interval) = parse_interval(text, reading.now)? {
        return Ok(rhythm(Recurrence::Interval(interval), reading.zone.clone(), None));
    }
    if let Some(dialect) = reading.dialect {
        return Ok(cron(dialect, Cron::parse(text, dialect, reading.schedule)?, reading));
    }
    if looks_like_cron(text) {
        let (dialect, found) = recognise(text, reading.schedule)?;
        return Ok(cron(dialect, found, reading));
    }
    say::parse_rhythm(text, reading)
}

fn cron(dialect: Dialect, cron: Cron, reading: &Reading<'_>) -> Rhythm {
    // WorkKit's times are UTC by definition, whatever zone was asked for.
    let zone = if dialect == Dialect::Workkit { Zone::UTC } else { reading.zone.clone() };
    rhythm(Recurrence::Cron(cron), zone, Some(dialect))
}

fn rhythm(when: Recurrence, zone: Zone, dialect: Option<Dialect>) -> Rhythm {
    Rhythm { whens: alloc::vec![when], zone, dialect }
}

/// `@every 5m`, `@every 5m aligned`, `@every 5m from 2026-01-01T00:00:00Z`.
fn parse_interval(text: &str, now: Timestamp) -> Result<Option<Interval>, Problem> {
    let Some((head, rest)) = text.split_once(char::is_whitespace) else {
        return Ok(None);
    };
    if !head.eq_ignore_ascii_case("@every") {
        return Ok(None);
    }
    let at = text.len() - rest.len();
    let (span, anchor) = if let Some(span) = rest.strip_suffix(" aligned") {
        (span, Anchor::Aligned)
    } else if let Some((span, from)) = rest.split_once(" from ") {
        let start: jiff::Timestamp = from.trim().parse().map_err(|_| {
            let message = "an interval starts at an instant with an offset";
            Problem::new(text.len() - from.len()..text.len(), message)
                .or(["2026-01-01T00:00:00Z", "2026-01-01T00:00:00+01:00"])
        })?;
        (span, Anchor::Start(Timestamp::from_millis(start.as_millisecond())))
    } else {
        (rest, Anchor::Start(now))
    };
    let every = say::parse_elapsed(span).map_err(|problem| problem.shifted(at))?;
    checked(every, at..at + span.len()).map(|every| Some(Interval { every, anchor }))
}

/// The span, if a schedule may have it.
pub(crate) fn checked(every: Millis, span: core::ops::Range<usize>) -> Result<Millis, Problem> {
    if every < EVERY_MIN {
        return Err(Problem::new(span, "an interval lasts at least 100ms"));
    }
    if every > DUE_AHEAD_MAX {
        return Err(Problem::new(span, "an interval lasts at most 200 years"));
    }
    Ok(every)
}

impl Rhythm {
    /// One text for each rhythm; each reads back as that rhythm.
    pub fn canonical(&self) -> Vec<String> {
        self.whens.iter().map(Recurrence::canonical).collect()
    }

    /// In plain words, with the zone.
    pub fn words(&self) -> String {
        let parts: Vec<String> = self.whens.iter().map(Recurrence::words).collect();
        let only_elapsed = self.whens.iter().all(|when| matches!(when, Recurrence::Interval(_)));
        if only_elapsed {
            parts.join("; and ")
        } else {
            format!("{} ({})", parts.join("; and "), self.zone)
        }
    }
}

impl Recurrence {
    /// A text that reads back as this: cron where there is one.
    pub fn canonical(&self) -> String {
        match self {
            Recurrence::Cron(cron) => cron.canonical().to_string(),
            Recurrence::Days(days) => days.canonical(),
            Recurrence::Interval(interval) => interval.canonical(),
        }
    }

    /// In plain words, without the zone.
    pub fn words(&self) -> String {
        match self {
            Recurrence::Cron(cron) => cron.words(),
            Recurrence::Days(days) => days.canonical(),
            Recurrence::Interval(interval) => interval.words(),
        }
    }
}

impl Interval {
    /// The first tick strictly after this instant; none beyond the end of time.
    pub fn next_after(&self, instant: Timestamp) -> Option<Timestamp> {
        let start = match self.anchor {
            Anchor::Aligned => Timestamp::EPOCH.as_millis(),
            Anchor::Start(start) if instant < start => return Some(start),
            Anchor::Start(start) => start.as_millis(),
        };
        let every = i64::try_from(self.every.get()).ok().filter(|every| *every > 0)?;
        let since = instant.as_millis().checked_sub(start)?;
        let ticks = since.div_euclid(every).checked_add(1)?;
        Some(Timestamp::from_millis(start.checked_add(ticks.checked_mul(every)?)?))
    }

    fn canonical(&self) -> String {
        let every = say::show_elapsed(self.every);
        match self.anchor {
            Anchor::Aligned => format!("@every {every} aligned"),
            Anchor::Start(start) => match jiff::Timestamp::from_millisecond(start.as_millis()) {
                Ok(start) => format!("@every {every} from {start}"),
                Err(_) => format!("@every {every} aligned"),
            },
        }
    }

    fn words(&self) -> String {
        let every = say::spell_elapsed(self.every);
        match self.anchor {
            Anchor::Aligned => format!("every {every} of elapsed time, on round times of UTC"),
            Anchor::Start(start) => format!("every {every} of elapsed time from {start}"),
        }
    }
}

impl Days {
    /// The n-th day or week that a day is in, from the anchor; negative before it.
    fn count(&self, day: Date) -> i64 {
        let anchor = match self.weekdays {
            None => self.anchor,
            Some(_) => monday_of(self.anchor).unwrap_or(self.anchor),
        };
        let days = i64::from(days_between(anchor, day));
        if self.weekdays.is_some() { days.div_euclid(7) } else { days }
    }

    fn is_day(&self, day: Date) -> bool {
        let bit = 1 << day.weekday().to_sunday_zero_offset();
        let on_weekday = self.weekdays.is_none_or(|weekdays| weekdays & bit != 0);
        day >= self.anchor && on_weekday && self.count(day).rem_euclid(i64::from(self.step)) == 0
    }

    fn canonical(&self) -> String {
        let unit = if self.weekdays.is_some() { "week" } else { "day" };
        let times: Vec<String> = self.times.iter().map(|time| show_time(*time)).collect();
        let on = match self.weekdays {
            Some(weekdays) => format!(" on {}", say::spell_weekdays(weekdays)),
            None => String::new(),
        };
        let plural = if self.step == 1 { "" } else { "s" };
        let times = join(&times);
        format!("every {} {unit}{plural}{on} at {times} from {}", self.step, self.anchor)
    }
}

/// The Monday that starts this day's week.
fn monday_of(day: Date) -> Option<Date> {
    let back = i32::from(day.weekday().to_monday_zero_offset());
    day.checked_sub(jiff::Span::new().days(back)).ok()
}

/// Days from one date to another.
pub(crate) fn days_between(from: Date, to: Date) -> i32 {
    // A difference of two dates in days cannot fail: both are in the calendar.
    from.until(to).map_or(0, |span| span.get_days())
}

impl Wall for Days {
    fn next_day(&self, from: Date) -> Option<Date> {
        let mut day = from.max(self.anchor);
        if self.weekdays.is_none() {
            let step = i64::from(self.step);
            let missing = (step - self.count(day).rem_euclid(step)) % step;
            return day.checked_add(jiff::Span::new().days(missing)).ok();
        }
        let week = self.count(day).rem_euclid(i64::from(self.step));
        if week != 0 {
            let weeks = i64::from(self.step) - week;
            day = monday_of(day)?.checked_add(jiff::Span::new().weeks(weeks)).ok()?;
        }
        for _ in 0..7 {
            if self.is_day(day) {
                return Some(day);
            }
            day = day.tomorrow().ok()?;
        }
        // The week is over; the next one that counts starts `step - 1` weeks after this Monday.
        let weeks = i64::from(self.step) - self.count(day).rem_euclid(i64::from(self.step));
        let mut day = monday_of(day)?
            .checked_add(jiff::Span::new().weeks(weeks % i64::from(self.step)))
            .ok()?;
        while !self.is_day(day) {
            day = day.tomorrow().ok()?;
        }
        Some(day)
    }

    fn next_time(&self, from: Time) -> Option<Time> {
        self.times.iter().copied().find(|time| *time >= from)
    }

    fn times_before(&self, time: Time) -> u64 {
        self.times.iter().filter(|one| **one < time).count() as u64
    }

    fn runs_through(&self) -> bool {
        false
    }

    fn goes_on_at(&self, _: DateTime) -> bool {
        false
    }
}

impl Wall for Cron {
    fn next_day(&self, from: Date) -> Option<Date> {
        self.next_day(from)
    }

    fn next_time(&self, from: Time) -> Option<Time> {
        self.next_time(from)
    }

    fn times_before(&self, time: Time) -> u64 {
        self.times_before(time)
    }

    fn runs_through(&self) -> bool {
        self.runs_through()
    }

    fn goes_on_at(&self, wall: DateTime) -> bool {
        self.goes_on_at(wall.date(), wall.hour())
    }
}
