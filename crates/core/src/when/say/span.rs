//! Spans of time in words: "5 minutes", "1h30m", "half an hour", `PT5M`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Parsed;
use super::token::{Cursor, Kind};
use super::vocabulary::{number_word, tens_word};
use crate::time::Millis;
use crate::when::cron::join;
use crate::when::problem::Problem;

/// A span: the calendar's part, which depends on where it starts, and the clock's, which does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Span {
    pub(crate) months: i64,
    pub(crate) days: i64,
    pub(crate) millis: i64,
}

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// Digits of a number before a unit: more is a mistake, and none of these overflows.
const DIGITS_MAX: usize = 9;
/// What amounts are counted in, of one: parts of an hour are told apart to the millisecond.
const ONE: i64 = 1_000_000_000;
const HALF: i64 = ONE / 2;
/// Years after which nothing is due.
const YEARS_MAX: i64 = 200;
/// Digits behind the point that an amount keeps.
const FRACTION_DIGITS: usize = 9;

/// What a span is counted in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Unit {
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Unit {
    pub(crate) fn from_word(word: &str) -> Option<Unit> {
        Some(match word {
            "ms" | "millis" | "millisecond" | "milliseconds" => Unit::Millisecond,
            "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
            "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
            "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
            "d" | "day" | "days" => Unit::Day,
            "w" | "wk" | "wks" | "week" | "weeks" => Unit::Week,
            "mo" | "month" | "months" => Unit::Month,
            "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
            _ => return None,
        })
    }

    /// So many of it, in billionths; none when a part of the calendar would have to be divided.
    fn times(self, billionths: i64) -> Option<Span> {
        let whole = || (billionths % ONE == 0).then_some(billionths / ONE);
        // Rounded up, as everywhere: a job is never early.
        let millis = |unit: i64| {
            let billionths = i128::from(billionths) * i128::from(unit) + i128::from(ONE - 1);
            i64::try_from(billionths / i128::from(ONE)).ok()
        };
        let none = Span::default();
        Some(match self {
            Unit::Millisecond => Span { millis: millis(1)?, ..none },
            Unit::Second => Span { millis: millis(SECOND)?, ..none },
            Unit::Minute => Span { millis: millis(MINUTE)?, ..none },
            Unit::Hour => Span { millis: millis(HOUR)?, ..none },
            Unit::Day => Span { days: whole()?, ..none },
            Unit::Week => Span { days: whole()?.checked_mul(7)?, ..none },
            Unit::Month => Span { months: whole()?, ..none },
            Unit::Year => Span { months: whole()?.checked_mul(12)?, ..none },
        })
    }
}

impl Span {
    fn plus(self, other: Span) -> Option<Span> {
        Some(Span {
            months: self.months.checked_add(other.months)?,
            days: self.days.checked_add(other.days)?,
            millis: self.millis.checked_add(other.millis)?,
        })
    }

    /// The same, back from where it starts.
    pub(crate) fn reversed(self) -> Self {
        Span { months: -self.months, days: -self.days, millis: -self.millis }
    }

    pub(crate) fn is_reversed(&self) -> bool {
        self.months < 0 || self.days < 0 || self.millis < 0
    }

    /// Whether only the calendar moves, so that a time of day may be said with it.
    pub(crate) fn is_calendar(&self) -> bool {
        self.millis == 0
    }
}

/// "2 hours and 30 minutes", units from large to small, each once.
pub(crate) fn parse_span(cursor: &mut Cursor<'_>) -> Parsed<Span> {
    let start = cursor.mark();
    let mut total: Option<(Span, Unit)> = None;
    loop {
        let mark = cursor.mark();
        if total.is_some() && !cursor.sign(",") {
            cursor.word(&["and"]);
        }
        let Some((span, unit)) = parse_item(cursor)? else {
            cursor.back_to(mark);
            break;
        };
        let sum = match total {
            None => Some(span),
            Some((_, last)) if unit >= last => {
                let message = "units go from large to small, each once";
                return Err(Problem::new(cursor.span_from(mark), message));
            }
            Some((sum, _)) => sum.plus(span),
        };
        let too_long = || Problem::new(cursor.span_from(start), "longer than anything lasts");
        total = Some((sum.ok_or_else(too_long)?, unit));
    }
    Ok(total.map(|(span, _)| span))
}

/// A number and its unit.
fn parse_item(cursor: &mut Cursor<'_>) -> Parsed<(Span, Unit)> {
    let mark = cursor.mark();
    refuse_vague(cursor)?;
    let Some(billionths) = parse_amount(cursor)? else {
        cursor.back_to(mark);
        return Ok(None);
    };
    if let Some(kind) = cursor.word(&["business", "working"]) {
        let message =
            format!("{kind} days depend on a calendar; say the date, or a recurring time");
        return Err(Problem::new(cursor.span_from(mark), message));
    }
    if cursor.word(&["fortnight", "fortnights"]).is_some() {
        let span = Unit::Week.times(billionths.saturating_mul(2));
        return Ok(span.map(|span| (span, Unit::Week)));
    }
    let Some(unit) = cursor.known(Unit::from_word) else {
        cursor.back_to(mark);
        return Ok(None);
    };
    let extra = if cursor.words("and a half") { HALF } else { 0 };
    let Some(span) = unit.times(billionths.saturating_add(extra)) else {
        let message = "a part of a day, a week or a month is not one length; say it in hours";
        let span = cursor.span_from(mark);
        let hours = match unit {
            Unit::Day => {
                let hours = i128::from(billionths) * 24 / i128::from(ONE);
                Some(cursor.with(&span, &format!("{hours} hours")))
            }
            _ => None,
        };
        return Err(Problem::new(span, message).or(hours));
    };
    Ok(Some((span, unit)))
}

fn refuse_vague(cursor: &mut Cursor<'_>) -> Result<(), Problem> {
    let mark = cursor.mark();
    cursor.word(&["a", "an"]);
    if let Some(word) = cursor.word(&["few", "couple", "some", "several", "bit", "while", "moment"])
    {
        let message = format!("{word} is not a number");
        let span = cursor.span_from(mark);
        return Err(Problem::new(span, message).or(["in 5 minutes", "in 2 hours"]));
    }
    cursor.back_to(mark);
    Ok(())
}

/// "5", "1.5", "two", "twenty five", "a", "half a", in billionths.
fn parse_amount(cursor: &mut Cursor<'_>) -> Parsed<i64> {
    if cursor.word(&["half"]).is_some() {
        cursor.word(&["a", "an"]);
        return Ok(Some(HALF));
    }
    if cursor.words("a quarter of an") || cursor.words("quarter of an") {
        return Ok(Some(HALF / 2));
    }
    if cursor.word(&["a", "an"]).is_some() {
        if cursor.word(&["half"]).is_some() {
            return Ok(Some(HALF));
        }
        return Ok(Some(ONE));
    }
    if let Some(tens) = cursor.known(tens_word) {
        let mark = cursor.mark();
        cursor.sign("-");
        if let Some(ones) = cursor.known(number_word).filter(|ones| *ones < 10) {
            return Ok(Some(i64::from(tens + ones) * ONE));
        }
        cursor.back_to(mark);
        return Ok(Some(i64::from(tens) * ONE));
    }
    if let Some(number) = cursor.known(number_word) {
        let extra = if cursor.words("and a half") { HALF } else { 0 };
        return Ok(Some(i64::from(number) * ONE + extra));
    }
    let Some(token) = cursor.peek().cloned() else { return Ok(None) };
    let too_long = || Problem::new(token.span.clone(), "a number of at most nine digits");
    match token.kind {
        Kind::Number if token.text.len() > DIGITS_MAX => Err(too_long()),
        Kind::Number => {
            cursor.step();
            let extra = if cursor.words("and a half") { HALF } else { 0 };
            Ok(token.text.parse::<i64>().ok().map(|number| number * ONE + extra))
        }
        Kind::Decimal => {
            cursor.step();
            let (whole, fraction) = token.text.split_once('.').unwrap_or((&token.text, ""));
            if whole.len() > DIGITS_MAX {
                return Err(too_long());
            }
            Ok(parse_decimal(whole, fraction))
        }
        Kind::Word | Kind::Sign => Ok(None),
    }
}

/// Rounded up where a fraction has more digits than are kept.
fn parse_decimal(whole: &str, fraction: &str) -> Option<i64> {
    let (kept, rest) = fraction.split_at_checked(FRACTION_DIGITS).unwrap_or((fraction, ""));
    let billionths: i64 = format!("{whole}{kept:0<FRACTION_DIGITS$}").parse().ok()?;
    Some(billionths + i64::from(rest.bytes().any(|digit| digit != b'0')))
}

/// `PT5M`, `P1DT2H`, as the standard has it; none when the text is not of that form.
pub(crate) fn parse_iso(text: &str) -> Parsed<Span> {
    let mut letters = text.chars();
    let is_iso = matches!(letters.next(), Some('P' | 'p'))
        && letters.next().is_some_and(|c| c.is_ascii_digit() || matches!(c, 'T' | 't'));
    if !is_iso {
        return Ok(None);
    }
    let not_one = || {
        Problem::new(0..text.len(), format!("{text} is not an ISO 8601 duration"))
            .or(["PT5M", "P1D", "PT1H30M"])
    };
    let span: jiff::Span = text.parse().map_err(|_| not_one())?;
    let months = i64::from(span.get_years()) * 12 + i64::from(span.get_months());
    let days = i64::from(span.get_weeks()) * 7 + i64::from(span.get_days());
    let clock = i64::from(span.get_hours())
        .checked_mul(HOUR)
        .and_then(|sum| sum.checked_add(span.get_minutes().checked_mul(MINUTE)?))
        .and_then(|sum| sum.checked_add(span.get_seconds().checked_mul(SECOND)?))
        .and_then(|sum| sum.checked_add(span.get_milliseconds()))
        .and_then(|sum| sum.checked_add(i64::from(has_less_than_a_millisecond(&span))))
        .ok_or_else(not_one)?;
    Ok(Some(Span { months, days, millis: clock }))
}

/// Whether something is left below the milliseconds, which are rounded up.
fn has_less_than_a_millisecond(span: &jiff::Span) -> bool {
    span.get_microseconds() != 0 || span.get_nanoseconds() != 0
}

/// A span that is the same everywhere: what intervals are made of. A day of it is 24 hours.
pub(crate) fn parse_elapsed(text: &str) -> Result<Millis, Problem> {
    let span = match parse_iso(text.trim())? {
        Some(span) => span,
        None => {
            let mut cursor = Cursor::new(text)?;
            match parse_span(&mut cursor)? {
                Some(span) if cursor.is_at_end() => span,
                _ => return Err(cursor.not_understood().or(["5m", "1h30m"])),
            }
        }
    };
    let too_long = || Problem::new(0..text.len(), "longer than anything lasts");
    match span.months {
        0 => {}
        // As long as a job may lie ahead: beyond it the unit of months is the smaller mistake.
        months if months > YEARS_MAX * 12 => return Err(too_long()),
        _ => {
            let message = "a month is not one length; say it in days";
            return Err(Problem::new(0..text.len(), message).or(["@monthly"]));
        }
    }
    let millis = span.days.checked_mul(DAY).and_then(|days| days.checked_add(span.millis));
    match millis.and_then(|millis| u64::try_from(millis).ok()) {
        Some(millis) => Ok(Millis::new(millis)),
        None => Err(too_long()),
    }
}

const PARTS: [(i64, &str, &str); 4] = [
    (HOUR, "h", "hour"),
    (MINUTE, "m", "minute"),
    (SECOND, "s", "second"),
    (1, "ms", "millisecond"),
];

/// `1h30m`.
pub(crate) fn show_elapsed(span: Millis) -> String {
    parts_of(span, |count, (_, short, _)| format!("{count}{short}")).concat()
}

/// "1 hour and 30 minutes".
pub(crate) fn spell_elapsed(span: Millis) -> String {
    let spell = |count: u64, (_, _, long): &(i64, &str, &str)| {
        format!("{count} {long}{}", if count == 1 { "" } else { "s" })
    };
    join(&parts_of(span, spell))
}

fn parts_of(
    span: Millis,
    show: impl Fn(u64, &(i64, &'static str, &'static str)) -> String,
) -> Vec<String> {
    let mut rest = span.get();
    let mut parts = Vec::new();
    for part in &PARTS {
        let unit = part.0.unsigned_abs();
        if rest >= unit {
            parts.push(show(rest / unit, part));
            rest %= unit;
        }
    }
    if parts.is_empty() {
        parts.push("0s".to_string());
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_spans_read_back() {
        for millis in [100, 1_000, 61_000, 5_400_000, 86_400_000, 90_061_001, 604_800_000] {
            let span = Millis::new(millis);
            assert_eq!(parse_elapsed(&show_elapsed(span)), Ok(span));
            assert_eq!(parse_elapsed(&spell_elapsed(span)), Ok(span));
        }
    }
}
