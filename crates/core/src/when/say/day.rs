//! Days in words: "tomorrow", "next friday", "Dec 25", "first monday of april", "end of month".
//!
//! A day that was said is a rule for a date, and some rules fit several dates ("friday", "Dec 25").
//! [`Day::dates`] gives them in order; the caller takes the first that is not past.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use jiff::civil::{Date, Weekday};

use super::Parsed;
use super::span::{Span, parse_span};
use super::token::Cursor;
use super::vocabulary::{month, month_name, ordinal_word, weekday};
use crate::when::problem::Problem;

/// A day as it was said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Day {
    /// With its year: it may be past.
    Date(Date),
    /// "Dec 25".
    InYear { month: i8, day: i8 },
    /// "the 15th".
    InMonth(i8),
    /// "friday": the first one, today included.
    Weekday(Weekday),
    /// "this friday": the one of this week, Monday to Sunday.
    ThisWeek(Weekday),
    /// "next friday": the first one after today.
    NextWeekday(Weekday),
    /// "friday next week".
    NextWeek(Weekday),
    /// "last friday": the last one before today.
    LastWeekday(Weekday),
    /// "tomorrow", "yesterday".
    Ahead(i64),
    /// "first monday of april", "last friday of the month"; -1 is the last.
    Nth { nth: i8, weekday: Weekday, of: Month },
    /// "the 15th of next month".
    Within { day: i8, of: Month },
    /// "the last day of february".
    LastIn(Month),
    /// "end of the month".
    EndOfMonth(Month),
    /// "end of the week", "end of next week": the n-th after this one.
    EndOfWeek(i64),
    /// "end of the year".
    EndOfYear,
    /// "a week from friday".
    After(Span, Box<Day>),
}

/// A month as it was said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Month {
    /// The n-th after this one.
    FromThis(i8),
    /// The next of this name.
    Named(i8),
    /// Of a year.
    In(i8, i16),
}

/// Years that are looked at for a day without one: a leap day may be eight years away.
const YEARS_AHEAD: i16 = 8;

impl Day {
    /// Whether a date was said that can only be this one, past or not.
    pub(crate) fn is_explicit(&self) -> bool {
        match self {
            Day::Date(_) => true,
            Day::Nth { of, .. }
            | Day::Within { of, .. }
            | Day::LastIn(of)
            | Day::EndOfMonth(of) => matches!(of, Month::In(..)),
            Day::After(_, base) => base.is_explicit(),
            _ => false,
        }
    }

    /// Whether it ends with that day rather than begins with it.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self, Day::EndOfMonth(_) | Day::EndOfWeek(_) | Day::EndOfYear)
    }

    /// The dates it can mean, in order.
    pub(crate) fn dates(&self, today: Date) -> Vec<Date> {
        let plus = |days: i64| today.checked_add(jiff::Span::new().days(days)).ok();
        let until = |weekday: Weekday| i64::from(today.weekday().until(weekday));
        let monday = -i64::from(today.weekday().to_monday_zero_offset());
        let in_week = |weekday: Weekday| monday + i64::from(weekday.to_monday_zero_offset());
        match self {
            Day::Date(date) => alloc::vec![*date],
            Day::InYear { month, day } => (today.year()..=today.year().saturating_add(YEARS_AHEAD))
                .filter_map(|year| Date::new(year, *month, *day).ok())
                .collect(),
            Day::InMonth(day) => (0..=12)
                .filter_map(|ahead| Month::FromThis(ahead).firsts(today).first().copied())
                .filter_map(|first| first.with().day(*day).build().ok())
                .collect(),
            Day::Weekday(weekday) => {
                let days = until(*weekday) % 7;
                [plus(days), plus(days + 7)].into_iter().flatten().collect()
            }
            Day::ThisWeek(weekday) => plus(in_week(*weekday)).into_iter().collect(),
            Day::NextWeekday(weekday) => {
                let days = until(*weekday) % 7;
                plus(if days == 0 { 7 } else { days }).into_iter().collect()
            }
            Day::LastWeekday(weekday) => {
                let days = until(*weekday) % 7;
                plus(days - 7).into_iter().collect()
            }
            Day::NextWeek(weekday) => plus(7 + in_week(*weekday)).into_iter().collect(),
            Day::Ahead(days) => plus(*days).into_iter().collect(),
            Day::Nth { nth, weekday, of } => {
                // A fifth Monday that is years away is not what was meant.
                let nth = |first: Date| first.nth_weekday_of_month(*nth, *weekday).ok();
                of.firsts(today).into_iter().take(2).filter_map(nth).collect()
            }
            Day::Within { day, of } => {
                let on = |first: Date| first.with().day(*day).build().ok();
                of.firsts(today).into_iter().filter_map(on).collect()
            }
            Day::LastIn(of) | Day::EndOfMonth(of) => {
                of.firsts(today).into_iter().map(Date::last_of_month).collect()
            }
            Day::EndOfWeek(ahead) => plus(monday + 6 + 7 * ahead).into_iter().collect(),
            Day::EndOfYear => alloc::vec![today.last_of_year()],
            Day::After(span, base) => {
                let shift = |date: Date| add_days(date, span);
                base.dates(today).into_iter().filter_map(shift).collect()
            }
        }
    }
}

/// A date moved by the calendar's part of a span.
pub(crate) fn add_days(date: Date, span: &Span) -> Option<Date> {
    let span = jiff::Span::new().try_months(span.months).ok()?.try_days(span.days).ok()?;
    date.checked_add(span).ok()
}

impl Month {
    /// The first days of the months it can mean.
    fn firsts(self, today: Date) -> Vec<Date> {
        match self {
            Month::FromThis(ahead) => {
                let span = jiff::Span::new().months(ahead);
                today.first_of_month().checked_add(span).into_iter().collect()
            }
            Month::Named(month) => (today.year()..=today.year().saturating_add(YEARS_AHEAD))
                .filter_map(|year| Date::new(year, month, 1).ok())
                .collect(),
            Month::In(month, year) => Date::new(year, month, 1).into_iter().collect(),
        }
    }
}

/// A day, if one is said here.
pub(crate) fn parse_day(cursor: &mut Cursor<'_>) -> Parsed<Day> {
    let readers: [fn(&mut Cursor<'_>) -> Parsed<Day>; 7] = [
        parse_relative,
        parse_after,
        parse_numeric,
        |cursor| Ok(parse_end(cursor)),
        parse_month_day,
        parse_ordinal_day,
        parse_weekday,
    ];
    for reader in readers {
        let mark = cursor.mark();
        if let Some(day) = reader(cursor)? {
            return Ok(Some(day));
        }
        cursor.back_to(mark);
    }
    Ok(None)
}

fn parse_relative(cursor: &mut Cursor<'_>) -> Parsed<Day> {
    for (words, days) in
        [("the day after tomorrow", 2), ("day after tomorrow", 2), ("today", 0), ("tomorrow", 1)]
    {
        if cursor.words(words) {
            return Ok(Some(Day::Ahead(days)));
        }
    }
    let mark = cursor.mark();
    if cursor.words("the day before yesterday") || cursor.words("day before yesterday") {
        return past(cursor, mark, Day::Ahead(-2), "the day before yesterday is past");
    }
    if cursor.word(&["yesterday"]).is_some() {
        return past(cursor, mark, Day::Ahead(-1), "yesterday is past");
    }
    if let Some(which) = cursor.word(&["next", "this"])
        && let Some(unit) = cursor.word(&["week", "month", "year", "quarter", "weekend"])
    {
        let span = cursor.span_from(mark);
        let message = format!("which day of {which} {unit}?");
        let candidates: &[&str] = match (which.as_str(), unit.as_str()) {
            ("next", "week") => &["monday next week", "in 1 week"],
            ("next", "month") => &["the 1st of next month", "in 1 month"],
            ("next", "year") => &["in 1 year", "January 1st"],
            _ => &["this friday", "end of the month"],
        };
        let candidates = candidates.iter().map(|other| cursor.with(&span, other));
        return Err(Problem::new(span.clone(), message).or(candidates));
    }
    Ok(None)
}

/// A day that cannot lie ahead.
fn past(cursor: &Cursor<'_>, mark: usize, day: Day, refusal: &str) -> Parsed<Day> {
    if cursor.sees_past() {
        return Ok(Some(day));
    }
    Err(Problem::new(cursor.span_from(mark), refusal))
}

/// "a week from friday", "two days after tomorrow".
fn parse_after(cursor: &mut Cursor<'_>) -> Parsed<Day> {
    let Some(span) = parse_span(cursor)? else { return Ok(None) };
    if cursor.word(&["from", "after"]).is_none() || !span.is_calendar() {
        return Ok(None);
    }
    let base = parse_day(cursor)?;
    Ok(base.map(|base| Day::After(span, Box::new(base))))
}

/// `2026-12-24`, `2026/12/24`, `24.12.2026`, `03/04/2026`.
fn parse_numeric(cursor: &mut Cursor<'_>) -> Parsed<Day> {
    let mark = cursor.mark();
    let Some((first, digits)) = cursor.number() else { return Ok(None) };
    let Some(sign) = ["-", "/", "."].into_iter().find(|sign| cursor.sign(sign)) else {
        return Ok(None);
    };
    let Some((second, _)) = cursor.number() else { return Ok(None) };
    if !cursor.sign(sign) {
        return two_numbers(cursor, mark, sign, (first, second));
    }
    let Some((third, last_digits)) = cursor.number() else { return Ok(None) };
    let span = cursor.span_from(mark);
    let date = |year: u32, month: u32, day: u32| {
        let small = |number: u32| i8::try_from(number).ok();
        Date::new(i16::try_from(year).ok()?, small(month)?, small(day)?).ok()
    };
    let no_such = || {
        let said = &cursor.text[span.clone()];
        Problem::new(span.clone(), format!("{said} is not a date"))
    };
    if digits == 4 {
        return date(first, second, third).map(|date| Some(Day::Date(date))).ok_or_else(no_such);
    }
    if last_digits != 4 {
        return Err(no_such().or(["2026-12-24", "24 December 2026"]));
    }
    let (day_first, month_first) = (date(third, second, first), date(third, first, second));
    match (day_first, month_first) {
        (Some(a), Some(b)) if a != b => {
            let message = "day first or month first?";
            let candidates = [a, b].map(|date| cursor.with(&span, &date.to_string()));
            Err(Problem::new(span.clone(), message).or(candidates))
        }
        (Some(date), _) | (None, Some(date)) => Ok(Some(Day::Date(date))),
        (None, None) => Err(no_such()),
    }
}

fn two_numbers(
    cursor: &Cursor<'_>,
    mark: usize,
    sign: &str,
    (first, second): (u32, u32),
) -> Parsed<Day> {
    if sign != "/" {
        return Ok(None);
    }
    let span = cursor.span_from(mark);
    let both = [(first, second), (second, first)].into_iter().filter_map(|(day, month)| {
        let name = i8::try_from(month).ok().filter(|month| (1..=12).contains(month))?;
        let day = (1..=31).contains(&day).then_some(day)?;
        Some(cursor.with(&span, &format!("{day} {}", month_name(name))))
    });
    Err(Problem::new(span.clone(), "day first or month first?").or(both))
}

/// "end of month", "end of the month", "end of next month", "start of next month".
fn parse_end(cursor: &mut Cursor<'_>) -> Option<Day> {
    cursor.word(&["the"]);
    let side = cursor.word(&["end", "start", "beginning"])?;
    cursor.word(&["of"])?;
    let is_end = side == "end";
    if cursor.words("the year") || cursor.words("year") || cursor.words("this year") {
        return is_end.then_some(Day::EndOfYear);
    }
    if cursor.words("the week") || cursor.words("week") || cursor.words("this week") {
        return is_end.then_some(Day::EndOfWeek(0));
    }
    if cursor.words("next week") {
        let start = Day::NextWeek(Weekday::Monday);
        return Some(if is_end { Day::EndOfWeek(1) } else { start });
    }
    let month = if cursor.words("month") { Some(Month::FromThis(0)) } else { parse_month(cursor) };
    month.map(|of| if is_end { Day::EndOfMonth(of) } else { Day::Within { day: 1, of } })
}

/// "the month", "this month", "next month", "april", "april 2027".
fn parse_month(cursor: &mut Cursor<'_>) -> Option<Month> {
    if cursor.words("the month") || cursor.words("this month") {
        return Some(Month::FromThis(0));
    }
    if cursor.words("next month") {
        return Some(Month::FromThis(1));
    }
    let found = cursor.known(month)?;
    Some(parse_year(cursor).map_or(Month::Named(found), |year| Month::In(found, year)))
}

/// Four digits, perhaps after a comma.
fn parse_year(cursor: &mut Cursor<'_>) -> Option<i16> {
    let mark = cursor.mark();
    cursor.sign(",");
    if let Some((year, 4)) = cursor.number()
        && let Ok(year) = i16::try_from(year)
    {
        // "Dec 25 1800" is a year only if no colon follows: 18:00 has one, "at 1800" has an "at".
        return Some(year);
    }
    cursor.back_to(mark);
    None
}

/// "Dec 25", "25 December 2026", "March 1st", "the 25th of December".
pub(super) fn parse_month_day(cursor: &mut Cursor<'_>) -> Parsed<Day> {
    let mark = cursor.mark();
    cursor.word(&["the"]);
    let (month, day) = if let Some(found) = cursor.known(month) {
        cursor.word(&["the"]);
        let Some(day) = parse_day_number(cursor) else { return Ok(None) };
        // "december 9:30" is no date.
        if cursor.peek().is_some_and(|token| token.text == ":") {
            return Ok(None);
        }
        (found, day)
    } else {
        let Some(day) = parse_day_number(cursor) else { return Ok(None) };
        cursor.word(&["of"]);
        let Some(found) = cursor.known(month) else { return Ok(None) };
        (found, day)
    };
    let year = parse_year(cursor);
    let span = cursor.span_from(mark);
    let no_such = || {
        let said = cursor.text[span.clone()].to_string();
        Problem::new(span.clone(), format!("{said} is not a date"))
    };
    // A leap year, so that February has all the days it can have.
    Date::new(year.unwrap_or(2_000), month, day).map_err(|_| no_such())?;
    match year {
        Some(year) => {
            Date::new(year, month, day).map(|date| Some(Day::Date(date))).map_err(|_| no_such())
        }
        None => Ok(Some(Day::InYear { month, day })),
    }
}

/// "25", "25th", "first".
fn parse_day_number(cursor: &mut Cursor<'_>) -> Option<i8> {
    if let Some(ordinal) = parse_ordinal(cursor) {
        return i8::try_from(ordinal).ok();
    }
    let (day, digits) = cursor.number()?;
    i8::try_from(day).ok().filter(|_| digits <= 2)
}

/// "1st", "first", "3rd".
pub(super) fn parse_ordinal(cursor: &mut Cursor<'_>) -> Option<u32> {
    if let Some(ordinal) = cursor.known(ordinal_word) {
        return Some(ordinal);
    }
    let mark = cursor.mark();
    if let Some((number, _)) = cursor.number()
        && cursor.is_glued()
        && cursor.word(&["st", "nd", "rd", "th"]).is_some()
    {
        return Some(number);
    }
    cursor.back_to(mark);
    None
}

/// "first monday of april", "last day of the month", "the 15th", "the 1st of next month".
fn parse_ordinal_day(cursor: &mut Cursor<'_>) -> Parsed<Day> {
    let mark = cursor.mark();
    let has_the = cursor.word(&["the"]).is_some();
    let is_last = cursor.word(&["last"]).is_some();
    let ordinal = if is_last { None } else { parse_ordinal(cursor) };
    if !is_last && ordinal.is_none() {
        return Ok(None);
    }
    let weekday = cursor.known(weekday);
    let said_day = weekday.is_none() && cursor.word(&["day"]).is_some();
    let of = if cursor.word(&["of"]).is_some() || cursor.word(&["in"]).is_some() {
        parse_month(cursor)
    } else {
        None
    };
    let span = cursor.span_from(mark);
    let has_digits = cursor.text[span.clone()].contains(|c: char| c.is_ascii_digit());
    let number = |max: u32| {
        let ordinal = ordinal.filter(|ordinal| (1..=max).contains(ordinal));
        let number = ordinal.and_then(|ordinal| i8::try_from(ordinal).ok());
        number.ok_or_else(|| Problem::new(span.clone(), "no month has that many"))
    };
    match (weekday, of) {
        (Some(weekday), Some(of)) => {
            let nth = if is_last { -1 } else { number(5)? };
            Ok(Some(Day::Nth { nth, weekday, of }))
        }
        // "last friday", for who looks back.
        (Some(_), None) if is_last && !has_the && cursor.sees_past() => Ok(None),
        (Some(_), None) => Err(which_month(cursor, mark)),
        (None, Some(of)) if is_last && said_day => Ok(Some(Day::LastIn(of))),
        (None, Some(of)) if !is_last => Ok(Some(Day::Within { day: number(31)?, of })),
        (None, None) if !is_last && !said_day && (has_the || has_digits) => {
            Ok(Some(Day::InMonth(number(31)?)))
        }
        _ => Ok(None),
    }
}

fn which_month(cursor: &Cursor<'_>, mark: usize) -> Problem {
    let span = cursor.span_from(mark);
    let said = &cursor.text[span.clone()];
    let of = |month: &str| cursor.with(&span, &format!("{said} of {month}"));
    Problem::new(span.clone(), "of which month?").or([of("this month"), of("next month")])
}

/// "friday", "this friday", "next friday", "friday next week", "friday 6 March 2026".
fn parse_weekday(cursor: &mut Cursor<'_>) -> Parsed<Day> {
    let mark = cursor.mark();
    let which = cursor.word(&["this", "next", "coming", "last"]);
    let is_plural = cursor.peek_word().is_some_and(|word| word.ends_with("days"));
    let before = cursor.mark();
    let Some(found) = cursor.known(weekday) else { return Ok(None) };
    if is_plural {
        let span = cursor.span_from(before);
        let one = cursor.text[span.clone()].trim_end_matches(['s', 'S']);
        let one = cursor.with(&span, one);
        return Err(Problem::new(span, "many days, where one moment is meant").or([one]));
    }
    if cursor.words("of next week") || cursor.words("next week") {
        return Ok(which.is_none().then_some(Day::NextWeek(found)));
    }
    if cursor.words("of this week") || cursor.words("this week") {
        return Ok(which.is_none().then_some(Day::ThisWeek(found)));
    }
    match which.as_deref() {
        None => Ok(Some(Day::Weekday(found))),
        Some("this") => Ok(Some(Day::ThisWeek(found))),
        Some("last") => past(cursor, mark, Day::LastWeekday(found), "that is past"),
        Some(_) => Ok(Some(Day::NextWeekday(found))),
    }
}
