//! A moment in words: its parts in whatever order they are said, and what they come to.

use alloc::format;
use alloc::string::String;
use core::ops::Range;

use jiff::civil::{Date, DateTime, Time, time};
use jiff::tz::Offset;

use super::clock::{Bare, Clock, DayPart, Form, parse_clock, parse_clock_or_end, parse_day_part};
use super::day::{Day, parse_day};
use super::span::{Span, parse_span};
use super::token::{Cursor, parse_zone};
use crate::time::Timestamp;
use crate::when::cron::show_time;
use crate::when::problem::Problem;
use crate::when::zone::{Zone, show_offset};

/// The parts of a phrase, in whatever order they were said.
#[derive(Default)]
pub(crate) struct Said {
    span: Option<Span>,
    day: Option<(Day, Range<usize>)>,
    weekday: Option<(jiff::civil::Weekday, Range<usize>)>,
    clock: Option<Clock>,
    part: Option<DayPart>,
    zone: Option<(Zone, Option<Offset>)>,
    /// "end of day": the last second, unless a time is said.
    is_end: bool,
    is_tonight: bool,
}

impl Said {
    pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Result<Self, Problem> {
        let mut said = Said::default();
        while !cursor.is_at_end() {
            let mark = cursor.mark();
            if !said.parse_part(cursor)? {
                cursor.back_to(mark);
                return Err(cursor.not_understood());
            }
            cursor.sign(",");
        }
        Ok(said)
    }

    /// Takes one part that is not there yet.
    fn parse_part(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Problem> {
        let mark = cursor.mark();
        if let Some(word) = cursor.word(&["soon", "later", "asap", "shortly", "eventually"]) {
            let message = format!("{word} is not a time");
            return Err(Problem::new(cursor.span_from(mark), message).or(["in 5 minutes"]));
        }
        if cursor.word(&["every", "each"]).is_some() {
            let message = "again and again, where one moment is meant";
            return Err(Problem::new(cursor.span_from(mark), message));
        }
        if self.zone.is_none()
            && (self.clock.is_some() || self.day.is_some() || self.span.is_some())
        {
            self.zone = parse_zone(cursor)?;
            if self.zone.is_some() {
                return Ok(true);
            }
        }
        if self.part.is_none() && cursor.word(&["tonight"]).is_some() {
            (self.part, self.is_tonight) = (Some(DayPart::Night), true);
            return Ok(self.set_day(Day::Ahead(0), cursor.span_from(mark)));
        }
        if self.part.is_none() && cursor.word(&["this"]).is_some() {
            self.part = parse_day_part(cursor);
            if self.part.is_some() {
                return Ok(self.set_day(Day::Ahead(0), cursor.span_from(mark)));
            }
            cursor.back_to(mark);
        }
        if self.parse_day(cursor)? || self.parse_span(cursor)? {
            return Ok(true);
        }
        if self.part.is_none() {
            self.part = parse_day_part(cursor);
            if self.part.is_some() {
                return Ok(true);
            }
        }
        self.parse_clock(cursor)
    }

    /// "at 9", "9am", "9 in the evening".
    fn parse_clock(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Problem> {
        let mark = cursor.mark();
        let bare = if cursor.word(&["at"]).is_some() { Bare::Hour } else { Bare::NotAnHour };
        let mut clock = parse_clock_or_end(cursor, bare)?;
        if clock.is_none() && self.part.is_none() {
            // Whether it is an hour shows only behind it: a number too large is no problem yet.
            clock = parse_clock(cursor, Bare::Hour).unwrap_or(None);
            self.part = parse_day_part(cursor);
            if self.part.is_none() {
                return Ok(false);
            }
        }
        match clock {
            Some(_) if self.clock.is_some() => {
                Err(Problem::new(cursor.span_from(mark), "a second time of day"))
            }
            None => Ok(false),
            found => {
                self.clock = found;
                Ok(true)
            }
        }
    }

    fn parse_day(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Problem> {
        let mark = cursor.mark();
        cursor.word(&["on"]);
        let after_on = cursor.mark();
        if cursor.words("end of day") || cursor.words("end of the day") || cursor.words("eod") {
            self.is_end = true;
            return Ok(self.set_day(Day::Ahead(0), cursor.span_from(mark)));
        }
        let day = parse_day(cursor)?;
        let span = cursor.span_from(after_on);
        match day {
            Some(Day::Weekday(weekday)) if self.day.is_none() && self.weekday.is_none() => {
                self.weekday = Some((weekday, span));
                Ok(true)
            }
            Some(day) if self.day.is_none() => Ok(self.set_day(day, span)),
            Some(_) => Err(Problem::new(span, "a second day")),
            None => {
                cursor.back_to(mark);
                Ok(false)
            }
        }
    }

    fn set_day(&mut self, day: Day, span: Range<usize>) -> bool {
        let is_first = self.day.is_none();
        self.is_end |= day.is_end();
        self.day = Some((day, span));
        is_first
    }

    /// "in 5 minutes", "5 minutes", "5 minutes from now".
    fn parse_span(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Problem> {
        if self.span.is_some() || self.day.is_some() {
            return Ok(false);
        }
        let mark = cursor.mark();
        let is_ahead = cursor.word(&["in"]).is_some();
        let Some(span) = parse_span(cursor)? else {
            cursor.back_to(mark);
            return Ok(false);
        };
        if cursor.word(&["ago"]).is_some() {
            if is_ahead || !cursor.sees_past() {
                return Err(Problem::new(cursor.span_from(mark), "that is past"));
            }
            self.span = Some(span.reversed());
            return Ok(true);
        }
        let _ = cursor.words("from now") || cursor.word(&["hence"]).is_some();
        self.span = Some(span);
        Ok(true)
    }
}

/// Hours that are in the morning when a day but no half of it was said.
const MORNING_HOURS: core::ops::RangeInclusive<i8> = 8..=11;
const LAST_SECOND: Time = time(23, 59, 59, 0);

impl Said {
    /// The instant, and the zone it was read in.
    pub(crate) fn resolve(
        mut self,
        cursor: &Cursor<'_>,
        now: Timestamp,
        zone: &Zone,
    ) -> Result<(Timestamp, Zone), Problem> {
        let said_zone = self.zone.take();
        let is_zone_said = said_zone.is_some();
        let (zone, offset) = said_zone.unwrap_or_else(|| (zone.clone(), None));
        let all = 0..cursor.text.len();
        let today = zone.wall(now).ok_or_else(|| Problem::new(all.clone(), "now is not a time"))?;
        let instant = match self.span {
            Some(span) => self.after_span(&span, cursor, now, &zone)?,
            None => self.on_day(cursor, now, today, &zone, offset)?,
        };
        match &self.clock {
            Some(clock) if clock.form == Form::EndOfDay => {
                let zone_said = if is_zone_said { format!(" {zone}") } else { String::new() };
                let date = zone.wall(instant).map(DateTime::date);
                Err(clock.ends_day(date.map(|date| format!("{date} 00:00{zone_said}"))))
            }
            _ => Ok((instant, zone)),
        }
    }

    /// "in two weeks", with or without a time of day.
    fn after_span(
        &self,
        span: &Span,
        cursor: &Cursor<'_>,
        now: Timestamp,
        zone: &Zone,
    ) -> Result<Timestamp, Problem> {
        let all = 0..cursor.text.len();
        if let Some((_, day)) = &self.day {
            return Err(Problem::new(day.clone(), "a span and a day; say one of them"));
        }
        if let Some((_, weekday)) = &self.weekday {
            let message =
                "a span and a day of the week; say one of them, or \"a week from friday\"";
            return Err(Problem::new(weekday.clone(), message));
        }
        if self.clock.is_none() && self.part.is_none() {
            return later(now, span, zone, all);
        }
        if !span.is_calendar() {
            let message = "a span of hours and a time of day; say one of them";
            return Err(Problem::new(all, message));
        }
        let moved = later(now, span, zone, all.clone())?;
        let date = zone.wall(moved).map(DateTime::date);
        let date = date
            .ok_or_else(|| Problem::out_of_range(all.clone(), "beyond the end of the calendar"))?;
        let (time, days) = self.time(cursor)?;
        self.first_of(&[date], time, days, cursor, (now, zone, None))
    }

    fn on_day(
        &self,
        cursor: &Cursor<'_>,
        now: Timestamp,
        today: DateTime,
        zone: &Zone,
        offset: Option<Offset>,
    ) -> Result<Timestamp, Problem> {
        let (time, days) = self.time(cursor)?;
        let mut dates = match (&self.day, &self.weekday) {
            (Some((day, _)), _) => day.dates(today.date()),
            (None, Some((weekday, _))) => Day::Weekday(*weekday).dates(today.date()),
            // A time alone is today, or tomorrow when it has passed.
            (None, None) if self.clock.is_some() || self.part.is_some() => {
                let mut dates = Day::Ahead(0).dates(today.date());
                dates.extend(Day::Ahead(1).dates(today.date()));
                dates
            }
            (None, None) => return Err(cursor.not_understood()),
        };
        if let (Some((_, said)), Some((weekday, span))) = (&self.day, &self.weekday) {
            let first = dates.first().copied();
            dates.retain(|date| date.weekday() == *weekday);
            if let (true, Some(first)) = (dates.is_empty(), first) {
                let message = format!("{first} is a {}", super::weekday_name(first.weekday()));
                let right = cursor.with(span, &super::weekday_name(first.weekday()));
                let place = span.start.min(said.start)..span.end.max(said.end);
                return Err(Problem::new(place, message).or([right]));
            }
        }
        self.first_of(&dates, time, days, cursor, (now, zone, offset))
    }

    /// The first of these dates at this time that is not past; a date with its year may be. Who
    /// looks back gets the last of them when all are past.
    fn first_of(
        &self,
        dates: &[Date],
        time: Time,
        days: i64,
        cursor: &Cursor<'_>,
        (now, zone, offset): (Timestamp, &Zone, Option<Offset>),
    ) -> Result<Timestamp, Problem> {
        let span = match (&self.day, &self.clock) {
            (Some((_, span)), _) if self.clock.is_none() => span.clone(),
            (_, Some(clock)) => clock.span.clone(),
            _ => 0..cursor.text.len(),
        };
        let is_explicit = self.day.as_ref().is_some_and(|(day, _)| day.is_explicit());
        let wall_now = zone.wall(now);
        for date in dates {
            let date = date.checked_add(jiff::Span::new().days(days)).unwrap_or(*date);
            let wall = date.to_datetime(time);
            if !is_explicit && wall_now.is_some_and(|now| wall <= now) {
                continue;
            }
            let instant = at_wall(wall, zone, offset, span.clone())?;
            if is_explicit || instant > now {
                return Ok(instant);
            }
        }
        if let (true, Some(date)) = (cursor.sees_past(), dates.last()) {
            let date = date.checked_add(jiff::Span::new().days(days)).unwrap_or(*date);
            return at_wall(date.to_datetime(time), zone, offset, span);
        }
        Err(self.is_past(cursor, span, dates, time))
    }

    fn is_past(
        &self,
        cursor: &Cursor<'_>,
        span: Range<usize>,
        dates: &[Date],
        time: Time,
    ) -> Problem {
        let Some(date) = dates.last() else {
            return Problem::new(span, "there is no such day");
        };
        let message = format!("{date} {} is past", show_time(time));
        let problem = Problem::new(span, message);
        if self.clock.is_some() || self.part.is_some() {
            return problem;
        }
        problem.or([format!("{} at 23:00", cursor.text)])
    }

    /// The time of day, and the days to add for a midnight that ends a day.
    fn time(&self, cursor: &Cursor<'_>) -> Result<(Time, i64), Problem> {
        let has_day = self.day.is_some() || self.weekday.is_some() || self.span.is_some();
        let Some(clock) = &self.clock else {
            let by_part = self.part.map(DayPart::time);
            let start = if self.is_end { LAST_SECOND } else { Time::MIN };
            return Ok((by_part.unwrap_or(start), 0));
        };
        match clock.form {
            Form::Exact | Form::TwelveHour => match self.part {
                Some(DayPart::Night) if clock.time.hour() < 6 => {
                    let message = "in the night before that day, or after it?";
                    Err(Problem::new(clock.span.clone(), message))
                }
                Some(part) => Ok((clock.in_part(part, cursor)?, 0)),
                None => Ok((clock.time, 0)),
            },
            Form::Midnight if self.is_tonight => Ok((Time::MIN, 1)),
            Form::EndOfDay if has_day => Ok((Time::MIN, 1)),
            Form::EndOfDay => Err(clock.ends_which_day()),
            Form::Midnight if has_day => Err(which_midnight(clock, cursor)),
            Form::Midnight => Ok((Time::MIN, 0)),
            Form::Half => {
                if let Some(part) = self.part {
                    return Ok((clock.in_part(part, cursor)?, 0));
                }
                if has_day && MORNING_HOURS.contains(&clock.time.hour()) {
                    return Ok((clock.time, 0));
                }
                Err(clock.which_half(cursor))
            }
        }
    }
}

fn which_midnight(clock: &Clock, cursor: &Cursor<'_>) -> Problem {
    let message = "the midnight that begins the day, or the one that ends it?";
    let at = |time: &str| cursor.with(&clock.span, time);
    Problem::new(clock.span.clone(), message).or([at("00:00"), at("23:59:59")])
}

/// The instant of a wall time. What does not exist or comes twice is refused: for a single moment,
/// somebody can be asked.
pub(crate) fn at_wall(
    wall: DateTime,
    zone: &Zone,
    offset: Option<Offset>,
    span: Range<usize>,
) -> Result<Timestamp, Problem> {
    use jiff::tz::AmbiguousOffset as Kind;
    let shown = |offset: Offset| format!("{wall}{}", show_offset(offset));
    let found = match (zone.inner().to_ambiguous_timestamp(wall).offset(), offset) {
        (Kind::Unambiguous { offset }, None) => offset,
        (Kind::Unambiguous { offset }, Some(said)) if said == offset => offset,
        (Kind::Fold { before, after }, Some(said)) if said == before || said == after => said,
        (Kind::Fold { before, after }, None) => {
            let message = format!("{wall} comes twice in {zone}; say which");
            return Err(Problem::new(span, message).or([shown(before), shown(after)]));
        }
        (Kind::Gap { before, after }, _) => {
            let message = format!("{wall} does not exist in {zone}: the clock goes forward");
            // Counted on from the time before the gap, it is this much later by the new clock.
            let later = i64::from(after.seconds() - before.seconds());
            let moved = wall.checked_add(jiff::Span::new().seconds(later)).unwrap_or(wall);
            let moved = format!("{moved}{}", show_offset(after));
            return Err(Problem::new(span, message).or([moved]));
        }
        (Kind::Unambiguous { offset } | Kind::Fold { before: offset, .. }, Some(said)) => {
            let (said, is) = (show_offset(said), show_offset(offset));
            let message = format!("{zone} is at {is} then, not at {said}");
            return Err(Problem::new(span, message));
        }
    };
    match found.to_timestamp(wall) {
        Ok(instant) => Ok(Timestamp::from_millis(instant.as_millisecond())),
        Err(_) => Err(Problem::out_of_range(span, "beyond the end of the calendar")),
    }
}

/// So much later, or earlier for a span that is reversed: months and days by the calendar of the
/// zone, the rest by elapsed time.
pub(crate) fn later(
    now: Timestamp,
    span: &Span,
    zone: &Zone,
    place: Range<usize>,
) -> Result<Timestamp, Problem> {
    if *span == Span::default() {
        return Err(Problem::new(place, "that is now, not later").or(["now"]));
    }
    let moved = || {
        let start = jiff::Timestamp::from_millisecond(now.as_millis()).ok()?;
        let calendar = jiff::Span::new().try_months(span.months).ok()?.try_days(span.days).ok()?;
        let day = start.to_zoned(zone.inner().clone()).checked_add(calendar).ok()?;
        let clock = jiff::SignedDuration::from_millis(span.millis);
        day.timestamp().checked_add(clock).ok()
    };
    let instant = moved().map(|instant| Timestamp::from_millis(instant.as_millisecond()));
    match instant {
        Some(instant) if if span.is_reversed() { instant < now } else { instant > now } => {
            Ok(instant)
        }
        _ => Err(Problem::new(place, "longer than the calendar")),
    }
}
