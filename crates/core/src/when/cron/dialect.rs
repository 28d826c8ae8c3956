//! The three dialects: how many fields, in which order, and how to tell which one is meant.
//!
//! An expression is recognised without being told its dialect only when every dialect that can read
//! it means the same by it. Otherwise the readings are shown, and somebody must choose.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use jiff::civil::date;

use super::field::{self, Field, Term, Unit};
use super::{Cron, MonthDays, Pattern, Weekdays};
use crate::listed::listed;
use crate::when::limits::YEAR_MIN;
use crate::when::problem::{Problem, check_length, check_shown};

listed! {
    /// How a cron expression is to be read. The likeliest first: readings are tried and shown in
    /// this order.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Dialect {
        /// `[second] minute hour day-of-month month day-of-week [year]`; Sunday is 0 or 7.
        Unix = "unix",
        /// `second minute hour day-of-month month day-of-week [year]`; Sunday is 1, one day is `?`.
        Quartz = "quartz",
        /// `year month day-of-month day-of-week hour minute second`, in UTC; Sunday is 0.
        Workkit = "workkit",
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Dialect {
    type Err = Problem;
    fn from_str(text: &str) -> Result<Self, Problem> {
        Dialect::ALL.into_iter().find(|dialect| dialect.as_str() == text).ok_or_else(|| {
            let message = format!("{text} is not a dialect of cron");
            Problem::new(0..text.len(), message).or(Dialect::ALL)
        })
    }
}

const SEVEN: [Unit; 7] = [
    Unit::Second,
    Unit::Minute,
    Unit::Hour,
    Unit::MonthDay,
    Unit::Month,
    Unit::Weekday,
    Unit::Year,
];
const WORKKIT: [Unit; 7] = [
    Unit::Year,
    Unit::Month,
    Unit::MonthDay,
    Unit::Weekday,
    Unit::Hour,
    Unit::Minute,
    Unit::Second,
];

/// What stands for a field that was left out.
fn left_out(unit: Unit) -> Term {
    match unit {
        Unit::Second => Term::Range { first: 0, last: 0, step: 1 },
        _ => Term::Star { step: 1 },
    }
}

impl Cron {
    /// Reads an expression in this dialect. `schedule` is the id that `H` and `~` are drawn from.
    pub fn parse(text: &str, dialect: Dialect, schedule: Option<&str>) -> Result<Cron, Problem> {
        check_length(text)?;
        let expanded = expand_alias(text, dialect)?;
        let words = split(expanded);
        let units = units_of(text, &words, dialect)?;
        let mut terms: [Vec<Term>; 7] = SEVEN.map(|unit| alloc::vec![left_out(unit)]);
        let mut days_at = 0..text.len();
        for ((at, word), unit) in words.iter().zip(units) {
            let field = Field { text: word, at: *at, unit: *unit, dialect, schedule };
            terms[*unit as usize] = field.terms()?;
            if *unit == Unit::MonthDay {
                days_at = *at..*at + word.len();
            }
        }
        if dialect == Dialect::Quartz {
            check_question_mark(text, &words)?;
        }
        let pattern = compile(&terms);
        if pattern.next_day(date(YEAR_MIN, 1, 1)).is_none() {
            return Err(Problem::new(days_at, "this date never comes"));
        }
        let canonical = canonical(&terms);
        check_shown(&canonical, text)?;
        Ok(Cron { pattern, canonical })
    }

    /// Whether both tick at the same times, whatever they were written like.
    fn ticks_like(&self, other: &Cron) -> bool {
        self.pattern == other.pattern
    }
}

/// Reads an expression whose dialect was not named, if there is no doubt about it.
pub(crate) fn recognise(text: &str, schedule: Option<&str>) -> Result<(Dialect, Cron), Problem> {
    let mut first_problem = None;
    let mut readings: Vec<(Dialect, Cron)> = Vec::new();
    for dialect in Dialect::ALL {
        match Cron::parse(text, dialect, schedule) {
            Ok(cron) if readings.iter().all(|(_, other)| !cron.ticks_like(other)) => {
                readings.push((dialect, cron));
            }
            Ok(_) => {}
            Err(problem) => {
                if likeliest(text) == dialect {
                    first_problem = Some(problem);
                }
            }
        }
    }
    if readings.len() > 1 {
        let names: Vec<&str> = readings.iter().map(|(dialect, _)| dialect.as_str()).collect();
        let message = format!("{} read this differently; name the dialect", names.join(" and "));
        let shown = readings.iter().map(|(_, cron)| cron.canonical());
        return Err(Problem::new(0..text.len(), message).or(shown));
    }
    match (readings.pop(), first_problem) {
        (Some(reading), _) => Ok(reading),
        (None, Some(problem)) => Err(problem),
        (None, None) => Err(Problem::new(0..text.len(), "not a cron expression")),
    }
}

/// The dialect whose complaint is worth showing when none can read it.
fn likeliest(text: &str) -> Dialect {
    let words = split(text);
    match words.first() {
        Some((_, year)) if words.len() == 7 && has_year(year) => Dialect::Workkit,
        _ => Dialect::Unix,
    }
}

/// Whether a text is meant as cron rather than as words: every part is made of what fields are.
pub(crate) fn looks_like_cron(text: &str) -> bool {
    if text.starts_with('@') {
        return true;
    }
    let words = split(text);
    let is_field = |word: &str| {
        let parts = word.split(|c: char| !c.is_ascii_alphabetic()).filter(|part| !part.is_empty());
        let known = |part: &str| {
            let part = part.to_ascii_uppercase();
            let day = part.strip_suffix('L').unwrap_or(&part);
            ["H", "L", "W", "LW", "WL"].contains(&part.as_str())
                || field::number(day).is_some()
                || is_name(day)
                || is_name(&part)
        };
        parts.into_iter().all(known) && !word.contains(':')
    };
    let has_star = words.iter().any(|(_, word)| word.contains(['*', '?', '~']));
    (words.len() >= 5 || has_star) && words.iter().all(|(_, word)| is_field(word))
}

fn is_name(part: &str) -> bool {
    const NAMES: &str = " JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC \
                         SUN MON TUE WED THU FRI SAT ";
    part.len() == 3 && NAMES.contains(&format!(" {part} "))
}

/// The words of a text, each with its place.
fn split(text: &str) -> Vec<(usize, &str)> {
    let place = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    text.split_ascii_whitespace().map(|word| (place(word), word)).collect()
}

fn expand_alias(text: &str, dialect: Dialect) -> Result<&str, Problem> {
    let trimmed = text.trim();
    if !trimmed.starts_with('@') {
        return Ok(text);
    }
    let span = 0..text.len();
    if dialect != Dialect::Unix {
        return Err(Problem::new(span, format!("{dialect} cron knows no @ names")));
    }
    match trimmed.to_ascii_lowercase().as_str() {
        "@hourly" => Ok("0 * * * *"),
        "@daily" | "@midnight" => Ok("0 0 * * *"),
        "@weekly" => Ok("0 0 * * 0"),
        "@monthly" => Ok("0 0 1 * *"),
        "@yearly" | "@annually" => Ok("0 0 1 1 *"),
        "@reboot" => Err(Problem::new(span, "@reboot is not a time: nothing here is rebooted")),
        _ => Err(Problem::new(span, format!("{trimmed} is not a known name")).or([
            "@hourly",
            "@daily",
            "@weekly",
            "@monthly",
            "@yearly",
            "@every 5m",
        ])),
    }
}

/// What each word counts.
fn units_of(
    text: &str,
    words: &[(usize, &str)],
    dialect: Dialect,
) -> Result<&'static [Unit], Problem> {
    let last_is_year = words.last().is_some_and(|(_, word)| has_year(word));
    let (found, wanted) = match (dialect, words.len()) {
        (Dialect::Unix, 5) => return Ok(&SEVEN[1..6]),
        (Dialect::Unix, 6) if last_is_year => return Ok(&SEVEN[1..]),
        (Dialect::Unix | Dialect::Quartz, 6) => return Ok(&SEVEN[..6]),
        (Dialect::Unix | Dialect::Quartz, 7) => return Ok(&SEVEN),
        (Dialect::Workkit, 7) => return Ok(&WORKKIT),
        (Dialect::Unix, found) => (found, "5 fields, with seconds or a year 6, with both 7"),
        (Dialect::Quartz, found) => (found, "6 fields, with a year 7"),
        (Dialect::Workkit, found) => (found, "7 fields"),
    };
    let fields = if found == 1 { "1 field" } else { &format!("{found} fields") };
    Err(Problem::new(0..text.len(), format!("{dialect} cron has {wanted}; this has {fields}")))
}

/// Whether a word has a number of four digits in it: only a year has.
fn has_year(word: &str) -> bool {
    word.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() == 4)
}

/// Quartz wants exactly one of the two fields of days to say that it says nothing.
fn check_question_mark(text: &str, words: &[(usize, &str)]) -> Result<(), Problem> {
    let word = |index: usize| words.get(index).map_or("", |(_, word)| word);
    let instead = |index: usize| {
        let mut words: Vec<&str> = words.iter().map(|(_, word)| *word).collect();
        words[index] = "?";
        words.join(" ")
    };
    match (word(3), word(5)) {
        ("?", "?") => {
            let message = "quartz wants one ?, not two: which day is it?";
            Err(Problem::new(0..text.len(), message))
        }
        ("?", _) | (_, "?") => Ok(()),
        (month_day, weekday) => {
            let message = "quartz wants a ? in one of the two fields of days";
            let mut problem = Problem::new(0..text.len(), message);
            if weekday == "*" || month_day != "*" {
                problem = problem.or([instead(5)]);
            }
            if month_day == "*" || weekday != "*" {
                problem = problem.or([instead(3)]);
            }
            Err(problem)
        }
    }
}

fn compile(terms: &[Vec<Term>; 7]) -> Pattern {
    let of = |unit: Unit| terms[unit as usize].as_slice();
    let range = |unit: Unit| field::range_bits(unit, of(unit));
    let has_star = |unit: Unit| matches!(of(unit).first(), Some(Term::Star { .. }));
    Pattern {
        seconds: range(Unit::Second),
        minutes: range(Unit::Minute),
        hours: range(Unit::Hour),
        months: range(Unit::Month),
        month_days: compile_month_days(of(Unit::MonthDay)),
        weekdays: compile_weekdays(of(Unit::Weekday)),
        // The rule of Paul Vixie's cron, stars with a step included.
        either: !has_star(Unit::MonthDay) && !has_star(Unit::Weekday),
        years: compile_years(of(Unit::Year)),
        minute_star: has_star(Unit::Minute),
    }
}

fn compile_month_days(terms: &[Term]) -> MonthDays {
    let mut days =
        MonthDays { days: field::range_bits(Unit::MonthDay, terms), ..MonthDays::default() };
    for term in terms {
        match *term {
            Term::BeforeLast(before) => days.before_last |= 1 << before,
            Term::Nearest(day) => days.nearest |= 1 << day,
            Term::LastWeekday => days.last_weekday = true,
            Term::Star { .. } | Term::Range { .. } | Term::Nth { .. } | Term::LastOf(_) => {}
        }
    }
    days
}

fn compile_weekdays(terms: &[Term]) -> Weekdays {
    let mut days =
        Weekdays { days: field::range_bits(Unit::Weekday, terms), ..Weekdays::default() };
    for term in terms {
        match *term {
            Term::Nth { weekday, nth } => days.nth[usize::from(nth) - 1] |= 1 << weekday,
            Term::LastOf(weekday) => days.last |= 1 << weekday,
            Term::Star { .. }
            | Term::Range { .. }
            | Term::BeforeLast(_)
            | Term::LastWeekday
            | Term::Nearest(_) => {}
        }
    }
    days
}

fn compile_years(terms: &[Term]) -> Vec<(i16, i16, i16)> {
    let (low, high) = Unit::Year.range();
    let mut years = Vec::new();
    for term in terms {
        match *term {
            Term::Star { step: 1 } => return Vec::new(),
            Term::Star { step } => years.push((low as i16, high as i16, step as i16)),
            Term::Range { first, last, step } => {
                years.push((first as i16, last as i16, step as i16));
            }
            Term::BeforeLast(_)
            | Term::LastWeekday
            | Term::Nearest(_)
            | Term::Nth { .. }
            | Term::LastOf(_) => {}
        }
    }
    years
}

/// In the unix dialect: five fields where that is enough, seven where a year is named.
fn canonical(terms: &[Vec<Term>; 7]) -> String {
    let is_left_out = |unit: Unit| terms[unit as usize] == [left_out(unit)];
    let has_year = !is_left_out(Unit::Year);
    let mut fields = Vec::new();
    for unit in SEVEN {
        let skipped = match unit {
            Unit::Second => is_left_out(Unit::Second) && !has_year,
            Unit::Year => !has_year,
            _ => false,
        };
        if !skipped {
            fields.push(field::show(unit, &terms[unit as usize]));
        }
    }
    fields.join(" ")
}
