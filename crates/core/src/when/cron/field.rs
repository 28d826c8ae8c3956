//! One field of a cron expression, read into terms: what is between two spaces.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;

use super::dialect::Dialect;
use super::spread;
use crate::when::limits::{TERMS_MAX, YEAR_MAX, YEAR_MIN};
use crate::when::problem::{Problem, nearest};

/// What a field counts. The numbers enter the hash of `H` and must not change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    Second = 0,
    Minute = 1,
    Hour = 2,
    MonthDay = 3,
    Month = 4,
    Weekday = 5,
    Year = 6,
}

/// One element of a field's list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Term {
    /// `*`, `*/n`, and `?`.
    Star { step: u16 },
    /// `a`, `a-b`, `a-b/n`; wraps around when the first is the greater.
    Range { first: u16, last: u16, step: u16 },
    /// `L`, `L-n`.
    BeforeLast(u16),
    /// `LW`.
    LastWeekday,
    /// `nW`.
    Nearest(u16),
    /// `d#n`.
    Nth { weekday: u16, nth: u16 },
    /// `dL`.
    LastOf(u16),
}

pub(super) const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

impl Unit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Unit::Second => "second",
            Unit::Minute => "minute",
            Unit::Hour => "hour",
            Unit::MonthDay => "day of the month",
            Unit::Month => "month",
            Unit::Weekday => "day of the week",
            Unit::Year => "year",
        }
    }

    /// With its article.
    fn one(self) -> String {
        let article = if self == Unit::Hour { "an" } else { "a" };
        format!("{article} {}", self.name())
    }

    /// The least and the greatest value; Sunday is 0.
    pub(super) fn range(self) -> (u16, u16) {
        match self {
            Unit::Second | Unit::Minute => (0, 59),
            Unit::Hour => (0, 23),
            Unit::MonthDay => (1, 31),
            Unit::Month => (1, 12),
            Unit::Weekday => (0, 6),
            Unit::Year => (YEAR_MIN as u16, YEAR_MAX as u16),
        }
    }

    /// Names of values, and the value of the first.
    fn names(self) -> (&'static [&'static str], u16) {
        match self {
            Unit::Month => (&MONTHS, 1),
            Unit::Weekday => (&WEEKDAYS, 0),
            Unit::Second | Unit::Minute | Unit::Hour | Unit::MonthDay | Unit::Year => (&[], 0),
        }
    }
}

/// A field, where it stands, and what it is read by.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) text: &'a str,
    /// Where it starts in the whole text.
    pub(super) at: usize,
    pub(super) unit: Unit,
    pub(super) dialect: Dialect,
    /// The id that `H` is drawn from.
    pub(super) schedule: Option<&'a str>,
}

impl Field<'_> {
    /// Its terms.
    pub(super) fn terms(&self) -> Result<Vec<Term>, Problem> {
        let mut terms = Vec::new();
        let mut at = self.at;
        for text in self.text.split(',') {
            let term = Field { text, at, ..*self };
            terms.push(term.term()?);
            at += text.len() + 1;
        }
        if terms.len() > TERMS_MAX {
            return Err(self.problem(format!("more than {TERMS_MAX} values in one field")));
        }
        let is_plain_star = |term: &Term| matches!(term, Term::Star { step: 1 });
        if terms.len() > 1 && terms.iter().any(is_plain_star) {
            return Err(self.problem("a star beside other values already includes them"));
        }
        Ok(terms)
    }

    fn term(&self) -> Result<Term, Problem> {
        if self.text.is_empty() {
            return Err(self.problem(format!("a value for the {} is missing", self.unit.name())));
        }
        if let Some(term) = self.spread_term()? {
            return Ok(term);
        }
        let special = match self.unit {
            Unit::MonthDay if self.dialect != Dialect::Workkit => self.month_day_term()?,
            Unit::Weekday if self.dialect == Dialect::Workkit => self.workkit_weekday()?,
            Unit::Weekday => self.weekday_term()?,
            _ => None,
        };
        match special {
            Some(term) => Ok(term),
            None => self.range_term(),
        }
    }

    /// `*`, `a`, `a-b`, each with a step.
    fn range_term(&self) -> Result<Term, Problem> {
        let (range, step) = match self.text.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (self.text, None),
        };
        let (low, high) = self.unit.range();
        if range == "*" || (range == "?" && step.is_none()) {
            let is_day = matches!(self.unit, Unit::MonthDay | Unit::Weekday);
            if range == "?" && (!is_day || self.dialect == Dialect::Workkit) {
                let message = "? stands only in the two fields of days, of unix and quartz";
                return Err(self.problem(message));
            }
            let step = step.map_or(Ok(1), |step| self.step(step, high - low))?;
            return Ok(Term::Star { step });
        }
        if let Some((first, last)) = range.split_once('-') {
            let (first, last) = self.bounds(first, last)?;
            let size = high - low + 1;
            let length = (last + size - first) % size;
            let step = step.map_or(Ok(1), |step| self.step(step, length))?;
            return Ok(Term::Range { first, last, step });
        }
        let value = self.value(range)?;
        match step {
            None => Ok(Term::Range { first: value, last: value, step: 1 }),
            Some(step) => self.stepped_value(range, value, step),
        }
    }

    /// `a/n`, which the dialects do not agree about.
    fn stepped_value(&self, text: &str, value: u16, step: &str) -> Result<Term, Problem> {
        let (_, high) = self.unit.range();
        match self.dialect {
            Dialect::Quartz => {
                let step = self.step(step, high - value)?;
                Ok(Term::Range { first: value, last: high, step })
            }
            Dialect::Unix => {
                let message = format!("{} has no agreed meaning; say where it ends", self.text);
                Err(self.problem(message).or([format!("{text}-{high}/{step}")]))
            }
            Dialect::Workkit => {
                let message = "value/n means every n-th occurrence in the month, which only a day \
                               of the week has";
                Err(self.problem(message).or([format!("{text}-{high}/{step}")]))
            }
        }
    }

    /// Both ends of a range. `0-7` and `7-3` are unix ways to write Sunday.
    fn bounds(&self, first: &str, last: &str) -> Result<(u16, u16), Problem> {
        let (a, b) = (self.value(first)?, self.value(last)?);
        if self.unit == Unit::Weekday && last == "7" && self.dialect == Dialect::Unix && a == 0 {
            return Ok(if first == "7" { (0, 0) } else { (0, 6) });
        }
        if self.unit == Unit::Year && a > b {
            return Err(self.problem(format!("{first} is after {last}, and years do not wrap")));
        }
        Ok((a, b))
    }

    fn step(&self, text: &str, longest: u16) -> Result<u16, Problem> {
        match number(text) {
            Some(0) => Err(self.problem("a step of 0 never moves")),
            Some(step) if step <= longest => Ok(step),
            Some(step) => {
                let message = format!(
                    "a step of {step} leaves the field after its first value; \
                     it does not reach into the next {}",
                    next_greater(self.unit)
                );
                Err(self.problem(message).or(self.interval(step)))
            }
            None => Err(self.problem(format!("{text:?} is not a step"))),
        }
    }

    /// What somebody who wrote `*/90` probably wants.
    fn interval(&self, step: u16) -> Option<String> {
        match self.unit {
            Unit::Second => Some(format!("@every {step}s")),
            Unit::Minute => Some(format!("@every {step}m")),
            Unit::Hour => Some(format!("@every {step}h")),
            Unit::MonthDay | Unit::Month | Unit::Weekday | Unit::Year => None,
        }
    }

    /// A number or a name.
    fn value(&self, text: &str) -> Result<u16, Problem> {
        let (names, first) = self.unit.names();
        let has_names = self.dialect != Dialect::Workkit;
        if let Some(at) = names.iter().position(|name| name.eq_ignore_ascii_case(text))
            && has_names
        {
            return Ok(at as u16 + first);
        }
        let Some(value) = number(text) else {
            let message = format!("{text:?} is not {}", self.unit.one());
            return Err(self.problem(message).or(nearest(text, names.iter().copied(), 1)));
        };
        let (low, high) = self.written_range();
        if !(low..=high).contains(&value) {
            let one = self.unit.one();
            return Err(self.problem(format!("{value} is not {one}: {low} to {high}")));
        }
        Ok(match (self.unit, self.dialect) {
            (Unit::Weekday, Dialect::Quartz) => value - 1,
            (Unit::Weekday, Dialect::Unix) => value % 7,
            _ => value,
        })
    }

    /// The numbers that may be written: Sunday is 0 or 7 for unix, 1 for quartz.
    fn written_range(&self) -> (u16, u16) {
        match (self.unit, self.dialect) {
            (Unit::Weekday, Dialect::Unix) => (0, 7),
            (Unit::Weekday, Dialect::Quartz) => (1, 7),
            _ => self.unit.range(),
        }
    }

    /// `L`, `L-n`, `LW`, `nW`.
    fn month_day_term(&self) -> Result<Option<Term>, Problem> {
        let upper = self.text.to_ascii_uppercase();
        if upper == "L" {
            return Ok(Some(Term::BeforeLast(0)));
        }
        if upper == "LW" || upper == "WL" {
            return Ok(Some(Term::LastWeekday));
        }
        if let Some(days) = upper.strip_prefix("L-") {
            return match number(days) {
                Some(days) if days <= 30 => Ok(Some(Term::BeforeLast(days))),
                _ => Err(self.problem(format!("{} does not count days: L-0 to L-30", self.text))),
            };
        }
        if let Some(day) = upper.strip_suffix('W') {
            return Ok(Some(Term::Nearest(self.value(day)?)));
        }
        Ok(None)
    }

    /// `dL`, `d#n`, and quartz's lone `L`.
    fn weekday_term(&self) -> Result<Option<Term>, Problem> {
        let upper = self.text.to_ascii_uppercase();
        if upper == "L" {
            return match self.dialect {
                Dialect::Quartz => Ok(Some(Term::Range { first: 6, last: 6, step: 1 })),
                Dialect::Unix | Dialect::Workkit => {
                    let message = "L needs a day here: which last day of the week of the month?";
                    Err(self.problem(message).or(["FRIL", "SATL", "6"]))
                }
            };
        }
        if let Some((day, nth)) = upper.split_once('#') {
            return self.nth(day, nth).map(Some);
        }
        match upper.strip_suffix('L') {
            Some(day) => Ok(Some(Term::LastOf(self.value(day)?))),
            None => Ok(None),
        }
    }

    /// `d/n`: the n-th in the month.
    fn workkit_weekday(&self) -> Result<Option<Term>, Problem> {
        match self.text.split_once('/') {
            Some((day, _)) if day.contains('-') => {
                let message = "value/n means the n-th of the month here; a range has no n-th";
                Err(self.problem(message))
            }
            Some((day, nth)) if day != "*" => self.nth(day, nth).map(Some),
            _ => Ok(None),
        }
    }

    fn nth(&self, day: &str, nth: &str) -> Result<Term, Problem> {
        let weekday = self.value(day)?;
        match number(nth) {
            Some(nth @ 1..=5) => Ok(Term::Nth { weekday, nth }),
            _ => {
                let message = format!("a month has a weekday four or five times, not {nth:?}");
                let last = WEEKDAYS.get(usize::from(weekday)).map(|day| format!("{day}L"));
                Err(self.problem(message).or(last))
            }
        }
    }

    /// `H`, `H/n`, `H(a-b)`, `H(a-b)/n`, `~`, `a~b`.
    fn spread_term(&self) -> Result<Option<Term>, Problem> {
        let (body, step) = match self.text.split_once('/') {
            Some((body, step)) => (body, Some(step)),
            None => (self.text, None),
        };
        let Some((first, last)) = self.spread_range(body)? else {
            return Ok(None);
        };
        if self.dialect != Dialect::Unix || self.unit == Unit::Year {
            return Err(self.problem("H and ~ stand in unix cron only, and not for a year"));
        }
        let Some(schedule) = self.schedule else {
            return Err(self.problem("H and ~ are drawn from a schedule's id, and there is none"));
        };
        Ok(Some(match step {
            None => {
                let value = spread::place(schedule, self.unit, first, last);
                Term::Range { first: value, last: value, step: 1 }
            }
            Some(step) => {
                let step = self.step(step, last - first)?;
                let start = spread::place(schedule, self.unit, first, first + step - 1);
                // A step that hits once is written as the value it hits: `16-23/20` is refused.
                let (last, step) = if start + step > last { (start, 1) } else { (last, step) };
                Term::Range { first: start, last, step }
            }
        }))
    }

    fn spread_range(&self, body: &str) -> Result<Option<(u16, u16)>, Problem> {
        let (low, high) = self.unit.range();
        // Every month has a 28th; a day drawn beyond it would be missing in some.
        let all = if self.unit == Unit::MonthDay { (low, 28) } else { (low, high) };
        let ends = if body.eq_ignore_ascii_case("h") || body == "~" {
            return Ok(Some(all));
        } else if let Some(inner) = body.strip_prefix(['H', 'h']) {
            let inner = inner.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
            match inner.and_then(|inner| inner.split_once('-')) {
                Some(ends) => ends,
                None => return Err(self.problem("write H, H/15, H(0-29) or H(0-29)/10")),
            }
        } else if let Some((first, last)) = body.split_once('~') {
            (first, last)
        } else {
            return Ok(None);
        };
        let end = |text: &str, open: u16| {
            if text.is_empty() { Ok(open) } else { self.value(text) }
        };
        let (first, last) = (end(ends.0, all.0)?, end(ends.1, all.1)?);
        if first > last {
            return Err(self.problem(format!("{} is greater than {}", ends.0, ends.1)));
        }
        Ok(Some((first, last)))
    }

    pub(super) fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::new(self.at..self.at + self.text.len(), message)
    }
}

/// The values of all terms that are ranges, as bits.
pub(super) fn range_bits(unit: Unit, terms: &[Term]) -> u64 {
    let (low, high) = unit.range();
    let size = high - low + 1;
    let mut set = 0;
    for term in terms {
        let (first, length, step) = match *term {
            Term::Star { step } => (low, size, step),
            Term::Range { first, last, step } => (first, (last + size - first) % size + 1, step),
            _ => continue,
        };
        for at in (0..length).step_by(usize::from(step)) {
            set |= 1 << ((first - low + at) % size + low);
        }
    }
    set
}

/// The terms as they are shown: one way to write each.
pub(super) fn show(unit: Unit, terms: &[Term]) -> String {
    let mut text = String::new();
    for (index, term) in terms.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        show_term(&mut text, unit, *term);
    }
    text
}

fn show_term(text: &mut String, unit: Unit, term: Term) {
    let value = |value: u16| match unit {
        Unit::Weekday => WEEKDAYS[usize::from(value) % 7].to_string(),
        _ => value.to_string(),
    };
    let shown = match term {
        Term::Star { step: 1 } => "*".to_string(),
        Term::Star { step } => format!("*/{step}"),
        Term::Range { first, last, .. } if first == last => value(first),
        Term::Range { first, last, step: 1 } => format!("{}-{}", value(first), value(last)),
        Term::Range { first, last, step } => format!("{}-{}/{step}", value(first), value(last)),
        Term::BeforeLast(0) => "L".to_string(),
        Term::BeforeLast(days) => format!("L-{days}"),
        Term::LastWeekday => "LW".to_string(),
        Term::Nearest(day) => format!("{day}W"),
        Term::Nth { weekday, nth } => format!("{}#{nth}", value(weekday)),
        Term::LastOf(weekday) => format!("{}L", value(weekday)),
    };
    let _ = write!(text, "{shown}");
}

/// A whole number without a sign, of at most four digits.
pub(super) fn number(text: &str) -> Option<u16> {
    let is_short = (1..=4).contains(&text.len());
    (is_short && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

fn next_greater(unit: Unit) -> &'static str {
    match unit {
        Unit::Second => "minute",
        Unit::Minute => "hour",
        Unit::Hour => "day",
        Unit::MonthDay => "month",
        Unit::Weekday => "week",
        Unit::Month => "year",
        Unit::Year => "century",
    }
}
