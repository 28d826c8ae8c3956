//! The words that times are said with.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::civil::Weekday;

use crate::when::cron::join;

/// From Monday.
pub(crate) const WEEKDAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
pub(crate) const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const NUMBERS: [&str; 20] = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
];
const TENS: [(&str, u32); 5] =
    [("twenty", 20), ("thirty", 30), ("forty", 40), ("fifty", 50), ("sixty", 60)];
const ORDINALS: [&str; 12] = [
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    "eleventh", "twelfth",
];
/// Words that only the grammar knows, for suggestions.
const OTHERS: [&str; 42] = [
    "tomorrow",
    "today",
    "tonight",
    "noon",
    "midnight",
    "midday",
    "every",
    "other",
    "daily",
    "hourly",
    "weekly",
    "monthly",
    "yearly",
    "quarterly",
    "annually",
    "weekday",
    "weekdays",
    "weekend",
    "weekends",
    "between",
    "from",
    "now",
    "next",
    "last",
    "end",
    "start",
    "morning",
    "afternoon",
    "evening",
    "night",
    "after",
    "second",
    "seconds",
    "minute",
    "minutes",
    "hour",
    "hours",
    "week",
    "weeks",
    "month",
    "months",
    "quarter",
];

/// Every word worth suggesting.
pub(super) fn all_words() -> impl Iterator<Item = &'static str> {
    WEEKDAYS.into_iter().chain(MONTHS).chain(OTHERS).chain(NUMBERS).chain(ORDINALS)
}

/// "friday", "fri", "fridays".
pub(crate) fn weekday(word: &str) -> Option<Weekday> {
    let singular = word.strip_suffix('s').filter(|short| short.len() > 4).unwrap_or(word);
    let shortened = |name: &str| match singular {
        "tues" => name == "tuesday",
        "thur" | "thurs" => name == "thursday",
        "wednes" => false,
        _ => singular == name || (singular.len() == 3 && name.starts_with(singular)),
    };
    let at = WEEKDAYS.iter().position(|name| shortened(name))?;
    Weekday::from_monday_zero_offset(at as i8).ok()
}

/// "december", "dec", "sept".
pub(crate) fn month(word: &str) -> Option<i8> {
    let is_month = |name: &str| {
        word == name
            || (word.len() == 3 && name.starts_with(word))
            || (word == "sept" && name == "september")
    };
    MONTHS.iter().position(|name| is_month(name)).map(|at| at as i8 + 1)
}

/// "one" to "twenty", and the tens to sixty.
pub(crate) fn number_word(word: &str) -> Option<u32> {
    if let Some(at) = NUMBERS.iter().position(|name| *name == word) {
        return Some(at as u32 + 1);
    }
    tens_word(word)
}

pub(crate) fn tens_word(word: &str) -> Option<u32> {
    TENS.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
}

/// "first" to "twelfth".
pub(crate) fn ordinal_word(word: &str) -> Option<u32> {
    ORDINALS.iter().position(|name| *name == word).map(|at| at as u32 + 1)
}

/// "Friday".
pub(crate) fn weekday_name(weekday: Weekday) -> String {
    capital(WEEKDAYS[weekday.to_monday_zero_offset() as usize % 7])
}

/// "March".
pub(crate) fn month_name(month: i8) -> String {
    capital(MONTHS[(month as usize).saturating_sub(1) % 12])
}

/// "Monday and Friday" for bits of which the lowest is Sunday.
pub(crate) fn spell_weekdays(set: u8) -> String {
    let is_in = |day: &usize| set & (1 << ((day + 1) % 7)) != 0;
    let names: Vec<String> = (0..7).filter(is_in).map(|day| WEEKDAYS[day].to_string()).collect();
    join(&names)
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    match letters.next() {
        Some(first) => format!("{}{}", first.to_ascii_uppercase(), letters.as_str()),
        None => String::new(),
    }
}
