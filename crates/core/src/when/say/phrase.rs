//! A rhythm in words: its parts in whatever order they are said. What they come to together is in
//! `assemble.rs`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use jiff::civil::Date;

use super::clock::{Bare, Clock, DayPart, parse_clock, parse_day_part};
use super::day::{Day, parse_day, parse_month_day};
use super::list::{
    Nth, parse_minute_words, parse_minutes, parse_months, parse_nths, parse_times, parse_weekdays,
};
use super::span::{Unit, parse_elapsed};
use super::token::{Cursor, parse_zone};
use super::vocabulary::{number_word, weekday};
use crate::when::cron::ordinal;
use crate::when::problem::Problem;
use crate::when::recurrence::{Reading, Rhythm};
use crate::when::zone::Zone;

/// What was said, part by part.
#[derive(Default)]
pub(super) struct Parts {
    /// "every 2 weeks", and where it was said.
    pub(super) rate: Option<(u32, Unit, Range<usize>)>,
    /// Bits; bit 0 is Sunday.
    pub(super) weekdays: u8,
    /// Terms of cron for the n-th weekday of a month: `TUE#2`.
    pub(super) nth: Vec<String>,
    /// Terms of cron for days of the month: `1`, `L`, `LW`.
    pub(super) month_days: Vec<String>,
    /// Bits from 1.
    pub(super) months: u16,
    pub(super) times: Vec<Clock>,
    /// Minutes of the hour.
    pub(super) minutes: Vec<u32>,
    pub(super) window: Option<(Clock, Clock)>,
    pub(super) part: Option<DayPart>,
    /// "twice a day".
    pub(super) count: Option<(u32, Unit, Range<usize>)>,
    pub(super) anchor: Option<Date>,
    pub(super) zone: Option<Zone>,
    /// Whether months are counted in quarters.
    pub(super) is_quarterly: bool,
    /// Whether something says that it comes again.
    is_rhythm: bool,
}

/// Reads a rhythm in words.
pub(crate) fn parse_rhythm(text: &str, reading: &Reading<'_>) -> Result<Rhythm, Problem> {
    let mut cursor = Cursor::new(text)?;
    let mut parts = Parts::default();
    while !cursor.is_at_end() {
        let mark = cursor.mark();
        if !parts.parse_part(&mut cursor)? {
            cursor.back_to(mark);
            return Err(a_span_alone(text).unwrap_or_else(|| cursor.not_understood()));
        }
        cursor.sign(",");
    }
    if !parts.is_rhythm {
        let message = "this says one moment, not something that comes again";
        let candidates = [format!("every {text}"), format!("every day {text}")];
        return Err(Problem::new(0..text.len(), message).or(candidates));
    }
    parts.assemble(&cursor, reading)
}

/// What is meant by `5s` is plain, and one word is missing.
fn a_span_alone(text: &str) -> Option<Problem> {
    parse_elapsed(text).ok()?;
    let message = "this says how long, not that it comes again";
    let candidates = [format!("every {text}"), format!("@every {text}")];
    Some(Problem::new(0..text.len(), message).or(candidates))
}

impl Parts {
    /// Takes one part.
    fn parse_part(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Problem> {
        refuse(cursor)?;
        let mark = cursor.mark();
        if cursor.words("and every") || cursor.words("and each") {
            return Err(two_rhythms(cursor.span_from(mark)));
        }
        if self.zone.is_none() && (self.is_rhythm || !self.times.is_empty()) {
            self.zone = parse_zone(cursor)?.map(|(zone, _)| zone);
            if self.zone.is_some() {
                return Ok(true);
            }
        }
        if cursor.word(&["every", "each"]).is_some() {
            return self.parse_every(cursor);
        }
        Ok(self.parse_adverb(cursor)?
            || self.parse_count(cursor)
            || self.parse_anchor(cursor)?
            || self.parse_window(cursor)?
            || self.parse_at(cursor)?
            || self.parse_days(cursor)?
            || self.parse_in(cursor)?)
    }

    fn set_rate(&mut self, n: u32, unit: Unit, span: Range<usize>) -> Result<bool, Problem> {
        if self.rate.is_some() {
            return Err(two_rhythms(span));
        }
        self.is_rhythm = true;
        self.rate = Some((n, unit, span));
        Ok(true)
    }

    fn parse_every(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Problem> {
        let mark = cursor.mark();
        if self.is_rhythm {
            return Err(two_rhythms(cursor.span_from(mark.saturating_sub(1))));
        }
        self.is_rhythm = true;
        if cursor.word(&["other"]).is_some() {
            return self.parse_every_nth(cursor, 2, mark);
        }
        for (words, minutes) in [
            ("half hour", 30),
            ("half an hour", 30),
            ("quarter hour", 15),
            ("quarter of an hour", 15),
        ] {
            if cursor.words(words) {
                return self.set_rate(minutes, Unit::Minute, cursor.span_from(mark));
            }
        }
        if cursor.word(&["quarter"]).is_some() {
            self.is_quarterly = true;
            return self.set_rate(3, Unit::Month, cursor.span_from(mark));
        }
        if let Some((n, unit)) = parse_rate(cursor) {
            return self.set_rate(n, unit, cursor.span_from(mark));
        }
        if let Some(part) = parse_day_part(cursor) {
            self.part = Some(part);
            return self.set_rate(1, Unit::Day, cursor.span_from(mark));
        }
        if self.parse_year_day(cursor)? {
            return Ok(true);
        }
        // "Every second" is a unit, "every second friday" is not.
        if !is_second_alone(cursor) && self.parse_every_ordinal(cursor)? {
            return Ok(true);
        }
        if let Some(unit) = cursor.known(singular) {
            return self.set_rate(1, unit, cursor.span_from(mark));
        }
        self.parse_days(cursor)
    }

    /// "other day", "other friday", "2nd day".
    fn parse_every_nth(
        &mut self,
        cursor: &mut Cursor<'_>,
        n: u32,
        mark: usize,
    ) -> Result<bool, Problem> {
        if let Some(unit) = cursor.known(singular) {
            return self.set_rate(n, unit, cursor.span_from(mark));
        }
        if let Some(day) = cursor.known(weekday) {
            self.weekdays |= 1 << day.to_sunday_zero_offset();
            return self.set_rate(n, Unit::Week, cursor.span_from(mark));
        }
        Ok(false)
    }

    /// "every december 25", "every 25th of december", "every january".
    fn parse_year_day(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Problem> {
        let mark = cursor.mark();
        if let Some(Day::InYear { month, day }) = parse_year_day(cursor)? {
            self.months |= 1 << month;
            self.month_days.push(day.to_string());
            return Ok(true);
        }
        cursor.back_to(mark);
        self.months |= parse_months(cursor)?;
        if self.months != 0 {
            return self.set_rate(1, Unit::Year, cursor.span_from(mark));
        }
        Ok(false)
    }

    /// "every 2nd tuesday of the month", "every second day", "every last friday of the month".
    fn parse_every_ordinal(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Problem> {
        let mark = cursor.mark();
        let nths = parse_nths(cursor)?;
        let [Nth::At(n)] = nths[..] else {
            cursor.back_to(mark);
            return self.parse_ordinals(cursor);
        };
        let after = cursor.mark();
        if cursor.known(singular).is_some() {
            let unit = cursor.span_from(after);
            if !cursor.words("of the month") && !cursor.words("of every month") {
                cursor.back_to(after);
                return self.parse_every_nth(cursor, n, mark);
            }
            if n > 1 {
                let span = cursor.span_from(mark);
                let message = format!("day {n} of each month, or one in {n} days?");
                let units = format!("{n} {}s", &cursor.text[unit]);
                let of_month = cursor.with(&span, &format!("month on the {}", ordinal(n)));
                return Err(
                    Problem::new(span.clone(), message).or([of_month, cursor.with(&span, &units)])
                );
            }
        } else if cursor.known(weekday).is_some() && cursor.word(&["of", "in"]).is_none() {
            let span = cursor.span_from(mark);
            let said = &cursor.text[span.clone()];
            let day = cursor.text[cursor.span_from(after)].to_lowercase();
            let message = format!("the {said} of each month, or one in {n} weeks?");
            let of_month = cursor.with(&span, &format!("{said} of the month"));
            let weeks = cursor.with(&span, &format!("{n} weeks on {day}"));
            return Err(Problem::new(span, message).or([of_month, weeks]));
        }
        cursor.back_to(mark);
        self.parse_ordinals(cursor)
    }

    fn parse_adverb(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Problem> {
        let mark = cursor.mark();
        let rates = [
            ("hourly", 1, Unit::Hour),
            ("daily", 1, Unit::Day),
            ("weekly", 1, Unit::Week),
            ("fortnightly", 2, Unit::Week),
            ("monthly", 1, Unit::Month),
            ("yearly", 1, Unit::Year),
            ("annually", 1, Unit::Year),
        ];
        for (word, n, unit) in rates {
            if cursor.word(&[word]).is_some() {
                return self.set_rate(n, unit, cursor.span_from(mark));
            }
        }
        if cursor.word(&["quarterly"]).is_some() {
            self.is_quarterly = true;
            return self.set_rate(3, Unit::Month, cursor.span_from(mark));
        }
        if let Some(part) = cursor.word(&["mornings", "afternoons", "evenings", "nights"]) {
            let mut singular = Cursor::new(part.strip_suffix('s').unwrap_or(&part))?;
            self.part = parse_day_part(&mut singular);
            return self.set_rate(1, Unit::Day, cursor.span_from(mark));
        }
        Ok(false)
    }

    /// "twice a day", "3 times a week".
    fn parse_count(&mut self, cursor: &mut Cursor<'_>) -> bool {
        let mark = cursor.mark();
        let count = if let Some(word) = cursor.word(&["once", "twice", "thrice"]) {
            Some(
                ["once", "twice", "thrice"]
                    .iter()
                    .position(|w| *w == word)
                    .map_or(1, |at| at as u32 + 1),
            )
        } else {
            let number = cursor.number().map(|(n, _)| n).or_else(|| cursor.known(number_word));
            number.filter(|_| cursor.word(&["times"]).is_some())
        };
        if let Some(count) = count
            && cursor.word(&["a", "an", "per", "every", "each"]).is_some()
            && let Some(unit) = cursor.known(singular)
        {
            self.is_rhythm = true;
            self.count = Some((count, unit, cursor.span_from(mark)));
            return true;
        }
        cursor.back_to(mark);
        false
    }

    /// "between 9am and 5pm", "from 9:00 to 17:00".
    fn parse_window(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Problem> {
        let mark = cursor.mark();
        let joints: &[&str] = match cursor.word(&["between", "from"]).as_deref() {
            Some("between") => &["and"],
            Some(_) => &["to", "until", "till"],
            None => return Ok(false),
        };
        if let Some(first) = parse_clock(cursor, Bare::Hour)?
            && cursor.word(joints).is_some()
            && let Some(last) = parse_clock(cursor, Bare::Hour)?
            && self.window.is_none()
        {
            self.window = Some((first, last));
            return Ok(true);
        }
        cursor.back_to(mark);
        Ok(false)
    }

    /// "from 2026-03-04": what days and weeks are counted from.
    fn parse_anchor(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Problem> {
        let mark = cursor.mark();
        if cursor.word(&["from"]).is_some()
            && let Some(Day::Date(date)) = parse_day(cursor)?
            && self.anchor.is_none()
        {
            self.anchor = Some(date);
            return Ok(true);
        }
        cursor.back_to(mark);
        Ok(false)
    }

    /// "at 8 and 20", "at :15", "on the hour", "9am".
    fn parse_at(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Problem> {
        let mark = cursor.mark();
        if cursor.words("on the hour") {
            self.minutes.push(0);
            return Ok(true);
        }
        let has_at = cursor.word(&["at"]).is_some();
        if self.minutes.is_empty() {
            self.minutes = parse_minutes(cursor)?;
            if self.minutes.is_empty() && has_at {
                self.minutes = parse_minute_words(cursor)?;
            }
            if !self.minutes.is_empty() {
                let _ = cursor.words("past the hour") || cursor.words("past");
                return Ok(true);
            }
        }
        if self.times.is_empty() {
            let bare = if has_at { Bare::Hour } else { Bare::NotAnHour };
            self.times = parse_times(cursor, bare)?;
            if !self.times.is_empty() {
                return Ok(true);
            }
        }
        cursor.back_to(mark);
        Ok(false)
    }

    /// "on mondays", "on the first", "weekdays", "the last day of every month".
    fn parse_days(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Problem> {
        let mark = cursor.mark();
        cursor.word(&["on"]);
        if self.weekdays == 0
            && let Some(found) = parse_weekdays(cursor)?
        {
            self.weekdays = found.set;
            self.is_rhythm |= found.is_rhythm;
            return Ok(true);
        }
        if self.month_days.is_empty() {
            if let Some(Day::InYear { month, day }) = parse_year_day(cursor)? {
                self.months |= 1 << month;
                self.month_days.push(day.to_string());
                return Ok(true);
            }
            if self.parse_ordinals(cursor)? {
                return Ok(true);
            }
        }
        cursor.back_to(mark);
        Ok(false)
    }

    /// "first and third monday of the month", "the 1st and 15th", "last weekday of every month".
    fn parse_ordinals(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Problem> {
        let mark = cursor.mark();
        let nths = parse_nths(cursor)?;
        if nths.is_empty() {
            cursor.back_to(mark);
            return Ok(false);
        }
        let day = cursor.known(weekday);
        let kind = if day.is_none() { cursor.word(&["day", "weekday", "workday"]) } else { None };
        let span = cursor.span_from(mark);
        let no_such = || Problem::new(span.clone(), "no month has that many");
        for nth in nths {
            match (nth, day, kind.as_deref()) {
                (Nth::At(n), Some(day), _) if (1..=5).contains(&n) => {
                    self.nth.push(format!("{}#{n}", day.to_sunday_zero_offset()));
                }
                (Nth::Last, Some(day), _) => {
                    self.nth.push(format!("{}L", day.to_sunday_zero_offset()));
                }
                (Nth::At(n), None, None | Some("day")) if (1..=31).contains(&n) => {
                    self.month_days.push(n.to_string());
                }
                (Nth::Last, None, Some("day")) => self.month_days.push("L".to_string()),
                (Nth::At(1), None, Some(_)) => self.month_days.push("1W".to_string()),
                (Nth::Last, None, Some(_)) => self.month_days.push("LW".to_string()),
                _ => return Err(no_such()),
            }
        }
        self.parse_of(cursor)?;
        Ok(true)
    }

    /// "of the month", "of every month", "of january and july", "of the quarter".
    fn parse_of(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        let mark = cursor.mark();
        if cursor.word(&["of", "in"]).is_none() {
            return Ok(());
        }
        let comes_again = cursor.word(&["every", "each"]).is_some();
        if !comes_again {
            cursor.word(&["the"]);
        }
        self.is_rhythm |= comes_again;
        if cursor.word(&["month"]).is_some() {
            self.is_rhythm = true;
            return Ok(());
        }
        if cursor.word(&["quarter"]).is_some() {
            self.is_rhythm = true;
            self.is_quarterly = true;
            return Ok(());
        }
        let months = parse_months(cursor)?;
        if months == 0 {
            cursor.back_to(mark);
        }
        self.months |= months;
        Ok(())
    }

    /// "in december", "in the morning".
    fn parse_in(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Problem> {
        if self.part.is_none() {
            self.part = parse_day_part(cursor);
            if self.part.is_some() {
                return Ok(true);
            }
        }
        let mark = cursor.mark();
        if cursor.word(&["in"]).is_some() && self.months == 0 {
            self.months = parse_months(cursor)?;
            if self.months != 0 {
                return Ok(true);
            }
        }
        cursor.back_to(mark);
        Ok(false)
    }
}

fn two_rhythms(span: Range<usize>) -> Problem {
    Problem::new(span, "two rhythms at once; give them one by one")
}

/// Whether the word here is "second", and nothing follows that could be the second of its kind.
fn is_second_alone(cursor: &mut Cursor<'_>) -> bool {
    let mark = cursor.mark();
    let is_second = cursor.word(&["second"]).is_some();
    let of_a_kind = |word: &str| {
        singular(word).is_some() || weekday(word).is_some() || ["and", "weekday"].contains(&word)
    };
    let is_alone = is_second && !cursor.peek_word().is_some_and(of_a_kind);
    cursor.back_to(mark);
    is_alone
}

/// "5 minutes", "two weeks".
fn parse_rate(cursor: &mut Cursor<'_>) -> Option<(u32, Unit)> {
    let mark = cursor.mark();
    let number = cursor.number().map(|(n, _)| n).or_else(|| cursor.known(number_word));
    if let Some(n) = number
        && let Some(unit) = cursor.known(Unit::from_word)
    {
        return Some((n, unit));
    }
    cursor.back_to(mark);
    None
}

/// "december 25", "25 december", "25th of december": a month must be said.
fn parse_year_day(cursor: &mut Cursor<'_>) -> Result<Option<Day>, Problem> {
    let mark = cursor.mark();
    match parse_month_day(cursor)? {
        found @ Some(Day::InYear { .. }) => Ok(found),
        _ => {
            cursor.back_to(mark);
            Ok(None)
        }
    }
}

fn singular(word: &str) -> Option<Unit> {
    let is_whole = ["second", "minute", "hour", "day", "week", "month", "year"].contains(&word);
    is_whole.then(|| Unit::from_word(word)).flatten()
}

/// Words that have a place of their own, or no single meaning.
fn refuse(cursor: &mut Cursor<'_>) -> Result<(), Problem> {
    const REFUSED: [(&[&str], &str, &[&str]); 5] = [
        (
            &["except", "excluding", "unless", "skipping", "but"],
            "what is excluded is given beside the rhythm, as dates or a calendar",
            &[],
        ),
        (
            &["starting", "beginning", "until", "till", "ending", "since"],
            "a start and an end are given beside the rhythm",
            &[],
        ),
        (
            &["biweekly", "bimonthly", "biannually", "semiweekly", "bi"],
            "twice in that time, or every second?",
            &["every 2 weeks on monday", "twice a week on monday and thursday"],
        ),
        (&["nightly"], "at which time of the night?", &["every day at 02:00"]),
        (
            &["sometimes", "often", "regularly", "occasionally", "randomly"],
            "that is not a rhythm",
            &["every day at 9am"],
        ),
    ];
    let mark = cursor.mark();
    for (words, message, candidates) in REFUSED {
        if cursor.word(words).is_some() {
            let problem = Problem::new(cursor.span_from(mark), message);
            return Err(problem.or(candidates.iter()));
        }
    }
    Ok(())
}
