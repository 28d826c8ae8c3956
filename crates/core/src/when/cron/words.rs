//! A cron expression in plain words: what somebody reads to see whether they were understood.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;

use jiff::civil::{Time, time};

use super::field::Unit;
use super::{Cron, HOURS_ALL, Pattern, bits};

/// Times of a day that are listed one by one; more are described by their fields.
const TIMES_LISTED_MAX: usize = 8;

const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

impl Cron {
    /// In plain words.
    pub fn words(&self) -> String {
        let pattern = &self.pattern;
        let listed = pattern.listed_times();
        let days = pattern.day_words();
        let mut words = match (&listed, &days) {
            (Some(times), None) => format!("every day at {}", join(times)),
            (Some(times), Some(days)) => format!("{days} at {}", join(times)),
            (None, None) => pattern.running_words(),
            (None, Some(days)) => format!("{} {days}", pattern.running_words()),
        };
        if let Some(months) = pattern.month_words()
            && !pattern.says_months_with_days()
        {
            let _ = write!(words, " in {months}");
        }
        if !pattern.years.is_empty() {
            let years: Vec<String> = pattern.years.iter().map(|range| year_words(*range)).collect();
            let _ = write!(words, " of {}", join(&years));
        }
        words
    }
}

impl Pattern {
    /// "January and July"; nothing when every month will do.
    fn month_words(&self) -> Option<String> {
        let months: Vec<i8> = bits(self.months).collect();
        let name = |month: i8| MONTHS[(month as usize - 1) % 12].to_string();
        (months.len() < 12).then(|| runs(&months, name))
    }

    /// Whether every day it ticks on is said as a day of its month: "the 25th of December".
    fn says_months_with_days(&self) -> bool {
        let all_days = self.month_days.days.count_ones() == 31;
        match self.weekdays.days.count_ones() {
            7 => !all_days,
            0 => true,
            _ => false,
        }
    }

    /// What days are days of.
    fn month_of_days(&self) -> String {
        self.month_words().unwrap_or_else(|| "the month".to_string())
    }

    /// The times of its days, when they are few.
    fn listed_times(&self) -> Option<Vec<String>> {
        let count = |set: u64| set.count_ones() as usize;
        let all = count(self.hours) * count(self.minutes) * count(self.seconds);
        if all > TIMES_LISTED_MAX || self.hours == HOURS_ALL {
            return None;
        }
        let mut times = Vec::new();
        for hour in bits(self.hours) {
            for minute in bits(self.minutes) {
                for second in bits(self.seconds) {
                    times.push(show_time(time(hour, minute, second, 0)));
                }
            }
        }
        Some(times)
    }

    /// "every 5 seconds in the hours 9 to 17".
    fn running_words(&self) -> String {
        let only_second = self.seconds.is_power_of_two().then_some(self.seconds.trailing_zeros());
        let only_minute = self.minutes.is_power_of_two().then_some(self.minutes.trailing_zeros());
        let hours = set_words(Unit::Hour, self.hours);
        match (only_second, only_minute) {
            (Some(second), Some(minute)) => {
                let past = if second == 0 {
                    format!(":{minute:02}")
                } else {
                    format!(":{minute:02}:{second:02}")
                };
                match hours {
                    Words::All => format!("every hour at {past}"),
                    Words::Step(n) => format!("every {n} hours at {past}"),
                    Words::List(list) => format!("at {past} in the hours {list}"),
                }
            }
            (Some(second), None) => {
                let at = if second == 0 { String::new() } else { format!(" at second {second}") };
                format!("{}{at}{}", repeated(Unit::Minute, self.minutes), within_hours(&hours))
            }
            (None, _) => {
                let minutes = match set_words(Unit::Minute, self.minutes) {
                    Words::All => String::new(),
                    Words::Step(n) => format!(" of every {} minute", ordinal(n)),
                    Words::List(list) => format!(" in the minutes {list}"),
                };
                let seconds = repeated(Unit::Second, self.seconds);
                format!("{seconds}{minutes}{}", within_hours(&hours))
            }
        }
    }

    /// "on the 1st of the month or on Monday"; nothing when every day will do.
    fn day_words(&self) -> Option<String> {
        match (self.month_day_words(), self.weekday_words()) {
            (None, None) => None,
            (Some(days), None) | (None, Some(days)) => Some(format!("on {days}")),
            (Some(days), Some(weekdays)) if self.either => {
                Some(format!("on {days} or on {weekdays}"))
            }
            (Some(days), Some(weekdays)) => Some(format!("on {days} if it is {weekdays}")),
        }
    }

    fn month_day_words(&self) -> Option<String> {
        let days = &self.month_days;
        let listed: Vec<i8> = bits(days.days).collect();
        if listed.len() == 31 {
            // Nothing to say, unless it is one of two days that are enough.
            return self.either.then(|| "any day of the month".to_string());
        }
        let month = self.month_of_days();
        let mut parts = Vec::new();
        if !listed.is_empty() {
            let text = runs(&listed, |day| ordinal(day as u32));
            // Said aloud, since somebody may think that the 31st is the end of every month.
            let is_rare = listed.iter().all(|day| *day > 28) && month == "the month";
            let rare = if is_rare { " where there is one" } else { "" };
            parts.push(format!("the {text} of {month}{rare}"));
        }
        for before in bits(days.before_last) {
            parts.push(match before {
                0 => format!("the last day of {month}"),
                1 => format!("the day before the last of {month}"),
                _ => format!("the {} day before the last of {month}", ordinal(before as u32)),
            });
        }
        for day in bits(days.nearest) {
            parts.push(format!("the weekday nearest to the {} of {month}", ordinal(day as u32)));
        }
        if days.last_weekday {
            parts.push(format!("the last weekday of {month}"));
        }
        Some(join(&parts))
    }

    fn weekday_words(&self) -> Option<String> {
        let days = &self.weekdays;
        if days.days.count_ones() == 7 {
            return self.either.then(|| "any day of the week".to_string());
        }
        let month = self.month_of_days();
        let mut parts = Vec::new();
        if days.days != 0 {
            // From Monday, so that a weekend is one run.
            let from_monday: Vec<i8> =
                (1..8).filter(|day| days.days & (1 << (day % 7)) != 0).collect();
            parts.push(runs(&from_monday, weekday_name));
        }
        for (index, nth) in (1..).zip(&days.nth) {
            for day in bits(*nth) {
                let name = weekday_name(day);
                parts.push(format!("the {} {name} of {month}", ordinal(index)));
            }
        }
        for day in bits(days.last) {
            parts.push(format!("the last {} of {month}", weekday_name(day)));
        }
        Some(join(&parts))
    }
}

/// How a set of numbers is said.
enum Words {
    All,
    /// Every n-th from the first.
    Step(u32),
    List(String),
}

fn set_words(unit: Unit, set: u64) -> Words {
    let (low, high) = unit.range();
    let all: Vec<i8> = (low as i8..=high as i8).collect();
    let found: Vec<i8> = bits(set).collect();
    if found == all {
        return Words::All;
    }
    if let [first, second, ..] = found[..]
        && first == low as i8
    {
        let step = usize::from((second - first) as u8);
        let stepped: Vec<i8> = all.into_iter().step_by(step).collect();
        // "Every 7 minutes" would promise seven minutes across the hour too.
        let is_even = (usize::from(high - low) + 1).is_multiple_of(step);
        if stepped == found && is_even && step > 1 {
            return Words::Step(step as u32);
        }
    }
    Words::List(runs(&found, |number| number.to_string()))
}

fn repeated(unit: Unit, set: u64) -> String {
    let name = unit.name();
    match set_words(unit, set) {
        Words::All => format!("every {name}"),
        Words::Step(n) => format!("every {n} {name}s"),
        Words::List(list) => format!("at the {name}s {list}"),
    }
}

fn within_hours(hours: &Words) -> String {
    match hours {
        Words::All => String::new(),
        Words::Step(n) => format!(" of every {} hour", ordinal(*n)),
        Words::List(list) if list.parse::<u8>().is_ok() => format!(" in the hour {list}"),
        Words::List(list) => format!(" in the hours {list}"),
    }
}

fn year_words((first, last, step): (i16, i16, i16)) -> String {
    match (first == last, step) {
        (true, _) => first.to_string(),
        (false, 1) => format!("{first} to {last}"),
        (false, _) => format!("every {} year from {first} to {last}", ordinal(step as u32)),
    }
}

/// Numbers in order as "1, 3 to 5 and 9".
fn runs(numbers: &[i8], name: impl Fn(i8) -> String) -> String {
    let mut parts = Vec::new();
    let mut rest = numbers;
    while let [first, ..] = *rest {
        let length = rest.iter().zip(first..).take_while(|(a, b)| *a == b).count();
        let (run, left) = rest.split_at(length);
        match *run {
            [a, .., b] if length > 2 => parts.push(format!("{} to {}", name(a), name(b))),
            _ => parts.extend(run.iter().map(|number| name(*number))),
        }
        rest = left;
    }
    join(&parts)
}

fn weekday_name(day: i8) -> String {
    WEEKDAYS[day as usize % 7].to_string()
}

/// "1st", "2nd", "11th".
pub(crate) fn ordinal(number: u32) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// "a, b and c".
pub(crate) fn join(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// `09:00`, with seconds when there are some.
pub(crate) fn show_time(time: Time) -> String {
    match (time.second(), time.millisecond()) {
        (0, 0) => format!("{:02}:{:02}", time.hour(), time.minute()),
        (second, 0) => format!("{:02}:{:02}:{second:02}", time.hour(), time.minute()),
        (second, milli) => {
            format!("{:02}:{:02}:{second:02}.{milli:03}", time.hour(), time.minute())
        }
    }
}
