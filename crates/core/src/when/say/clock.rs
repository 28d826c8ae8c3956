//! Times of day: "9am", "21:30", "noon", "half past nine", and parts of a day.

use alloc::format;
use alloc::string::String;
use core::ops::Range;

use jiff::civil::{Time, time};

use super::Parsed;
use super::token::{Cursor, Kind};
use super::vocabulary::number_word;
use crate::when::problem::Problem;

/// A time of day as it was said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Clock {
    /// On the 24-hour clock, if that is how it was meant.
    pub(crate) time: Time,
    pub(crate) form: Form,
    /// Where it was said.
    pub(crate) span: Range<usize>,
}

/// How certain a time is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// There is one reading.
    Exact,
    /// There is one reading, since "am" or "pm" was said.
    TwelveHour,
    /// An hour from 1 to 12 of which half of the day it is in was not said.
    Half,
    /// The word: the end of one day and the beginning of the next.
    Midnight,
    /// 24:00: the end of a day, which is to be said as the beginning of the next.
    EndOfDay,
}

/// A part of the day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DayPart {
    Morning,
    Afternoon,
    Evening,
    Night,
}

impl DayPart {
    fn from_word(word: &str) -> Option<DayPart> {
        Some(match word {
            "morning" => DayPart::Morning,
            "afternoon" => DayPart::Afternoon,
            "evening" => DayPart::Evening,
            "night" => DayPart::Night,
            _ => return None,
        })
    }

    /// The time it stands for when no time is said.
    pub(crate) fn time(self) -> Time {
        match self {
            DayPart::Morning => time(9, 0, 0, 0),
            DayPart::Afternoon => time(15, 0, 0, 0),
            DayPart::Evening => time(19, 0, 0, 0),
            DayPart::Night => time(21, 0, 0, 0),
        }
    }

    /// Whether an hour of the 24-hour clock is in it.
    fn has(self, hour: i8) -> bool {
        match self {
            DayPart::Morning => hour < 12,
            DayPart::Afternoon => (12..=18).contains(&hour),
            DayPart::Evening => hour >= 16,
            DayPart::Night => !(6..18).contains(&hour),
        }
    }

    /// The half of the day that an hour is in when this was said with it.
    fn place(self, hour: i8) -> Option<i8> {
        match (self, hour) {
            (DayPart::Morning, 1..=11) => Some(hour),
            (DayPart::Afternoon, 12) => Some(12),
            (DayPart::Afternoon, 1..=6) | (DayPart::Evening, 4..=11) | (DayPart::Night, 6..=11) => {
                Some(hour + 12)
            }
            _ => None,
        }
    }
}

impl Clock {
    /// The time, with the part of the day that was said; refused when the two do not fit.
    pub(crate) fn in_part(&self, part: DayPart, cursor: &Cursor<'_>) -> Result<Time, Problem> {
        let hour = self.time.hour();
        match self.form {
            Form::Midnight => Ok(self.time),
            Form::EndOfDay => Err(self.ends_which_day()),
            Form::Exact | Form::TwelveHour if part.has(hour) => Ok(self.time),
            // "Tonight at 11:30" is not in the morning, although 11:30 is.
            Form::Exact | Form::Half => match part.place(hour) {
                Some(hour) => Ok(self.with_hour(hour)),
                None => Err(self.which_half(cursor)),
            },
            Form::TwelveHour => {
                let message = "that is another part of the day";
                Err(Problem::new(self.span.clone(), message))
            }
        }
    }

    /// Refuses to guess which half of the day was meant.
    pub(crate) fn which_half(&self, cursor: &Cursor<'_>) -> Problem {
        let (hour, minute) = (self.time.hour(), self.time.minute());
        let said = if minute == 0 { format!("{hour}") } else { format!("{hour}:{minute:02}") };
        if hour == 12 && minute == 0 {
            let word = |word: &str| cursor.with(&self.span, word);
            let problem = Problem::new(self.span.clone(), "noon or midnight?");
            return problem.or([word("12:00"), word("00:00")]);
        }
        let message = format!("{said} in the morning or in the evening?");
        let half = |half: &str| cursor.with(&self.span, &format!("{said}{half}"));
        Problem::new(self.span.clone(), message).or([half("am"), half("pm")])
    }

    /// 24:00, where nobody said of which day.
    pub(crate) fn ends_which_day(&self) -> Problem {
        let message = "24:00 is 00:00 of the next day; say which day";
        Problem::new(self.span.clone(), message).or(["00:00", "midnight"])
    }

    /// 24:00 of a day, and the midnight that it is.
    pub(crate) fn ends_day(&self, midnight: Option<String>) -> Problem {
        let message = "24:00 is 00:00 of the next day; say that day";
        Problem::new(self.span.clone(), message).or(midnight)
    }

    fn with_hour(&self, hour: i8) -> Time {
        time(hour, self.time.minute(), self.time.second(), self.time.subsec_nanosecond())
    }
}

/// Whether a lone number may be an hour.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bare {
    Hour,
    NotAnHour,
}

/// A time of day; a lone number only where the caller allows it, as after "at".
pub(crate) fn parse_clock(cursor: &mut Cursor<'_>, bare: Bare) -> Parsed<Clock> {
    match parse_clock_or_end(cursor, bare)? {
        Some(clock) if clock.form == Form::EndOfDay => Err(clock.ends_which_day()),
        found => Ok(found),
    }
}

/// The same, and 24:00, for a caller that knows the day it ends and can name the next.
pub(crate) fn parse_clock_or_end(cursor: &mut Cursor<'_>, bare: Bare) -> Parsed<Clock> {
    let mark = cursor.mark();
    let exact = |time: Time, form: Form, cursor: &Cursor<'_>| {
        Ok(Some(Clock { time, form, span: cursor.span_from(mark) }))
    };
    if cursor.word(&["noon", "midday"]).is_some() {
        return exact(time(12, 0, 0, 0), Form::Exact, cursor);
    }
    if cursor.word(&["midnight"]).is_some() {
        return exact(Time::MIN, Form::Midnight, cursor);
    }
    let shift = parse_past(cursor);
    let Some((hour, digits)) = parse_hour(cursor) else {
        cursor.back_to(mark);
        return Ok(None);
    };
    let has_colon = shift.is_none() && cursor.sign(":");
    let (minute, rest) = if has_colon { parse_minutes(cursor, mark)? } else { (0, (0, 0)) };
    cursor.word(&["o'clock", "oclock"]);
    let half = cursor.word(&["am", "pm"]).or_else(|| dotted_half(cursor));
    let is_clock = has_colon || half.is_some() || shift.is_some() || said_o_clock(cursor, mark);
    if !is_clock && bare == Bare::NotAnHour {
        cursor.back_to(mark);
        return Ok(None);
    }
    let span = cursor.span_from(mark);
    let (hour, form) = match half.as_deref() {
        Some(half) => (twelve_hours(hour, half, &span)?, Form::TwelveHour),
        None if has_colon || digits == 2 && hour < 10 => (hour, Form::Exact),
        // A quarter to one is before one, not at the end of the night.
        None if hour == 1 && shift.is_some_and(|minutes| minutes < 0) => (13, Form::Half),
        None if (1..=12).contains(&hour) => (hour, Form::Half),
        None => (hour, Form::Exact),
    };
    let (second, nano) = rest;
    if (hour, minute, second) == (24, 0, 0) && shift.is_none() {
        return Ok(Some(Clock { time: Time::MIN, form: Form::EndOfDay, span }));
    }
    let plain = in_day(hour, minute, second, nano, &span)?;
    let time = shift.map_or(Some(plain), |minutes| shifted(plain, minutes));
    let time = time.ok_or_else(|| Problem::new(span.clone(), "not a time of one day"))?;
    Ok(Some(Clock { time, form, span }))
}

fn said_o_clock(cursor: &Cursor<'_>, mark: usize) -> bool {
    cursor.text[cursor.span_from(mark)].to_lowercase().ends_with("clock")
}

/// "in the morning", "morning", "at night".
pub(crate) fn parse_day_part(cursor: &mut Cursor<'_>) -> Option<DayPart> {
    let mark = cursor.mark();
    let _ = cursor.words("in the") || cursor.words("at");
    let part = cursor.known(DayPart::from_word);
    if part.is_none() {
        cursor.back_to(mark);
    }
    part
}

/// "half past", "quarter to": minutes to be added to the hour.
fn parse_past(cursor: &mut Cursor<'_>) -> Option<i64> {
    let mark = cursor.mark();
    cursor.word(&["a"]);
    let minutes = match cursor.word(&["half", "quarter"])?.as_str() {
        "half" => 30,
        _ => 15,
    };
    match cursor.word(&["past", "to"]).as_deref() {
        Some("past") => Some(minutes),
        Some(_) if minutes == 15 => Some(-minutes),
        _ => {
            cursor.back_to(mark);
            None
        }
    }
}

/// The hour, and of how many digits it is; a word has none.
fn parse_hour(cursor: &mut Cursor<'_>) -> Option<(u32, usize)> {
    if let Some(found) = cursor.number() {
        return Some(found);
    }
    cursor.known(number_word).filter(|hour| *hour <= 12).map(|hour| (hour, 0))
}

/// Minutes, and seconds with their fraction in nanoseconds.
fn parse_minutes(cursor: &mut Cursor<'_>, mark: usize) -> Result<(u32, (u32, u32)), Problem> {
    let two_digits = "minutes have two digits";
    let Some((minute, 2)) = cursor.number() else {
        return Err(Problem::new(cursor.span_from(mark), two_digits).or(["9:05"]));
    };
    if !cursor.sign(":") {
        return Ok((minute, (0, 0)));
    }
    let Some(token) = cursor.step() else {
        return Err(Problem::new(cursor.span_from(mark), "seconds are missing"));
    };
    let (whole, fraction) = token.text.split_once('.').unwrap_or((&token.text, ""));
    let is_number = matches!(token.kind, Kind::Number | Kind::Decimal);
    let second = whole.parse().ok().filter(|_| is_number && whole.len() == 2);
    let millis = format!("{fraction:0<3}").parse::<u32>().ok().filter(|_| fraction.len() <= 3);
    match (second, millis) {
        (Some(second), Some(millis)) => Ok((minute, (second, millis * 1_000_000))),
        _ => Err(Problem::new(cursor.span_from(mark), "seconds have two digits").or(["9:05:30"])),
    }
}

/// "a.m." and "p.m.".
fn dotted_half(cursor: &mut Cursor<'_>) -> Option<String> {
    let mark = cursor.mark();
    let letter = cursor.word(&["a", "p"]);
    if let Some(letter) = letter
        && cursor.sign(".")
        && cursor.word(&["m"]).is_some()
    {
        cursor.sign(".");
        return Some(format!("{letter}m"));
    }
    cursor.back_to(mark);
    None
}

fn twelve_hours(hour: u32, half: &str, span: &Range<usize>) -> Result<u32, Problem> {
    match (hour, half) {
        (12, "am") => Ok(0),
        (12, _) => Ok(12),
        (1..=11, "am") => Ok(hour),
        (1..=11, _) => Ok(hour + 12),
        _ => Err(Problem::new(span.clone(), format!("{hour}{half} is not a time: 1 to 12"))),
    }
}

fn in_day(
    hour: u32,
    minute: u32,
    second: u32,
    nano: u32,
    span: &Range<usize>,
) -> Result<Time, Problem> {
    let part = |number: u32| i8::try_from(number).unwrap_or(i8::MAX);
    Time::new(part(hour), part(minute), part(second), nano as i32).map_err(|_| {
        let message = format!("{hour}:{minute:02} is not a time of day");
        let colon =
            (100..2_400).contains(&hour).then(|| format!("{}:{:02}", hour / 100, hour % 100));
        Problem::new(span.clone(), message).or(colon)
    })
}

fn shifted(time: Time, minutes: i64) -> Option<Time> {
    time.checked_add(jiff::Span::new().minutes(minutes)).ok()
}
