//! Lists in a phrase: "monday, wednesday and friday", "8, 12 and 18", "the 1st and 15th".

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Parsed;
use super::clock::{Bare, Clock, parse_clock};
use super::day::parse_ordinal;
use super::token::Cursor;
use super::vocabulary::{month, weekday};
use crate::when::limits::TIMES_MAX;
use crate::when::problem::Problem;

/// Monday to Friday, and Saturday and Sunday; bit 0 is Sunday.
pub(super) const WORKDAYS: u8 = 0b011_1110;
pub(super) const WEEKEND: u8 = 0b100_0001;

/// What stands between two elements.
fn separator(cursor: &mut Cursor<'_>) -> bool {
    let comma = cursor.sign(",") || cursor.sign("&");
    cursor.word(&["and"]).is_some() || comma
}

/// Elements until one is not there; the separator before that is given back.
fn list<T>(
    cursor: &mut Cursor<'_>,
    mut element: impl FnMut(&mut Cursor<'_>) -> Parsed<T>,
) -> Result<Vec<T>, Problem> {
    let mut found = Vec::new();
    loop {
        let mark = cursor.mark();
        if !found.is_empty() && !separator(cursor) {
            break;
        }
        match element(cursor)? {
            Some(next) => found.push(next),
            None => {
                cursor.back_to(mark);
                break;
            }
        }
    }
    Ok(found)
}

/// Days of the week as bits, and whether they were said in the plural or as a range.
pub(super) struct Weekdays {
    pub(super) set: u8,
    pub(super) is_rhythm: bool,
}

/// "monday", "mondays and thursdays", "monday to friday", "mon-fri", "weekdays", "weekends".
pub(super) fn parse_weekdays(cursor: &mut Cursor<'_>) -> Parsed<Weekdays> {
    let mut is_rhythm = false;
    let sets = list(cursor, |cursor| {
        if let Some(word) = cursor.word(&["weekday", "weekdays", "workday", "workdays"]) {
            is_rhythm |= word.ends_with('s');
            return Ok(Some(WORKDAYS));
        }
        if let Some(word) = cursor.word(&["weekend", "weekends"]) {
            is_rhythm |= word.ends_with('s');
            return Ok(Some(WEEKEND));
        }
        let is_plural = cursor.peek_word().is_some_and(|word| word.ends_with("days"));
        let Some(first) = cursor.known(weekday) else { return Ok(None) };
        is_rhythm |= is_plural;
        let mark = cursor.mark();
        let to = cursor.sign("-") || cursor.word(&["to", "through", "till", "until"]).is_some();
        if to && let Some(last) = cursor.known(weekday) {
            is_rhythm = true;
            let days = usize::from(first.until(last).unsigned_abs() % 7) + 1;
            let range = first.cycle_forward().take(days);
            return Ok(Some(range.fold(0, |set, day| set | 1 << day.to_sunday_zero_offset())));
        }
        cursor.back_to(mark);
        Ok(Some(1 << first.to_sunday_zero_offset()))
    })?;
    let set = sets.iter().fold(0, |set, more| set | more);
    Ok((set != 0).then_some(Weekdays { set, is_rhythm }))
}

/// "8 and 20", "noon and 18:00"; lone numbers are hours.
pub(super) fn parse_times(cursor: &mut Cursor<'_>, bare: Bare) -> Result<Vec<Clock>, Problem> {
    let mark = cursor.mark();
    let times = list(cursor, |cursor| {
        cursor.word(&["at"]);
        parse_clock(cursor, bare)
    })?;
    if times.len() > TIMES_MAX {
        let message = format!("more than {TIMES_MAX} times");
        return Err(Problem::new(cursor.span_from(mark), message));
    }
    Ok(times)
}

/// ":15", ":00 and :30".
pub(super) fn parse_minutes(cursor: &mut Cursor<'_>) -> Result<Vec<u32>, Problem> {
    list(cursor, |cursor| {
        let mark = cursor.mark();
        let colon = cursor.sign(":");
        match cursor.number() {
            Some((minute, 2)) if colon && minute < 60 => Ok(Some(minute)),
            Some(_) if colon => Err(Problem::new(cursor.span_from(mark), "a minute is :00 to :59")),
            _ => {
                cursor.back_to(mark);
                Ok(None)
            }
        }
    })
}

/// "minute 50", "minutes 0 and 30".
pub(super) fn parse_minute_words(cursor: &mut Cursor<'_>) -> Result<Vec<u32>, Problem> {
    let mark = cursor.mark();
    if cursor.word(&["minute", "minutes"]).is_none() {
        return Ok(Vec::new());
    }
    let minutes = list(cursor, |cursor| Ok(cursor.number().map(|(minute, _)| minute)))?;
    if minutes.iter().any(|minute| *minute > 59) {
        return Err(Problem::new(cursor.span_from(mark), "a minute is 0 to 59"));
    }
    Ok(minutes)
}

/// "january and july", "april to june", as bits from 1.
pub(super) fn parse_months(cursor: &mut Cursor<'_>) -> Result<u16, Problem> {
    let sets = list(cursor, |cursor| {
        let Some(first) = cursor.known(month) else { return Ok(None) };
        let mark = cursor.mark();
        let to = cursor.sign("-") || cursor.word(&["to", "through"]).is_some();
        if to && let Some(last) = cursor.known(month) {
            let length = (last - first).rem_euclid(12) + 1;
            let number = |at: i8| (first - 1 + at) % 12 + 1;
            return Ok(Some((0..length).fold(0u16, |set, at| set | 1 << number(at))));
        }
        cursor.back_to(mark);
        Ok(Some(1 << first))
    })?;
    Ok(sets.into_iter().fold(0, |set, more| set | more))
}

/// An ordinal, or the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Nth {
    At(u32),
    Last,
}

/// "first and third", "1st and 15th", "last".
pub(super) fn parse_nths(cursor: &mut Cursor<'_>) -> Result<Vec<Nth>, Problem> {
    list(cursor, |cursor| {
        cursor.word(&["the"]);
        if cursor.word(&["last"]).is_some() {
            return Ok(Some(Nth::Last));
        }
        Ok(parse_ordinal(cursor).map(Nth::At))
    })
}

/// Days of the week as a field of cron: "MON-FRI", "SAT,SUN", "FRI-MON".
pub(super) fn weekday_field(set: u8) -> String {
    const NAMES: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
    let has = |day: usize| set & (1 << (day % 7)) != 0;
    // From Monday, unless a run goes over from Sunday.
    let first = if has(0) && has(1) { (2..8).find(|day| !has(*day)).unwrap_or(1) } else { 1 };
    let mut parts: Vec<String> = Vec::new();
    let mut day = first;
    while day < first + 7 {
        let length = (day..first + 7).take_while(|day| has(*day)).count();
        match length {
            0 => day += 1,
            1 | 2 => {
                parts.push(String::from(NAMES[day % 7]));
                day += 1;
            }
            _ => {
                let last = NAMES[(day + length - 1) % 7];
                parts.push(format!("{}-{last}", NAMES[day % 7]));
                day += length;
            }
        }
    }
    parts.join(",")
}

/// A set of numbers as a field of cron: "1-5", "1,3".
pub(super) fn field(set: u64) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut number = 0;
    while number < 64 {
        let length = (number..64).take_while(|bit| set & (1 << bit) != 0).count();
        match length {
            0 => number += 1,
            1 | 2 => {
                parts.push(format!("{number}"));
                number += 1;
            }
            _ => {
                parts.push(format!("{number}-{}", number + length - 1));
                number += length;
            }
        }
    }
    parts.join(",")
}
