//! One moment, from what somebody wrote.

use alloc::format;
use alloc::string::{String, ToString};
use core::ops::Range;

use jiff::civil::{Date, DateTime};

use super::cron::show_time;
use super::plain::{lost_to_leap_second, rounded_up, standard_instant, unix_instant};
use super::problem::{Problem, check_length};
use super::say::{self, Cursor, Parsed, Said, View, at_wall, later, parse_iso};
use super::zone::{Zone, show_offset};
use crate::limits::DUE_AHEAD_MAX;
use crate::time::Timestamp;

/// What was understood: said back, so that a misunderstanding is seen before it matters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Understood {
    /// The instant.
    pub instant: Timestamp,
    /// The zone it was read in.
    pub zone: Zone,
    /// As RFC 9557 writes it; reads back as the same.
    pub canonical: String,
    /// In words, with the weekday, the zone and the offset; reads back as the same.
    pub words: String,
}

/// Reads one moment. All of the text must be understood. What was not said with its date is in the
/// future; what could mean two things is refused with both.
///
/// ```
/// use hence_core::time::Timestamp;
/// use hence_core::when::{Zone, parse_instant};
/// let now = Timestamp::from_millis(1_772_638_200_000); // Wednesday 2026-03-04 15:30 UTC
/// let read = |text| parse_instant(text, now, &Zone::UTC).map(|found| found.canonical);
/// assert_eq!(read("in half an hour").unwrap(), "2026-03-04T16:00:00+00:00[UTC]");
/// assert_eq!(read("at 9").unwrap_err().candidates, ["at 9am", "at 9pm"]);
/// ```
pub fn parse_instant(text: &str, now: Timestamp, zone: &Zone) -> Result<Understood, Problem> {
    parse_in_view(text, now, zone, View::Ahead)
}

/// Reads one end of a range to be looked through. As [`parse_instant`], and what cannot lie ahead
/// may be past: "1 hour ago", "yesterday", "last friday", "today at 9am" when that was.
///
/// ```
/// use hence_core::time::Timestamp;
/// use hence_core::when::{Zone, parse_bound};
/// let now = Timestamp::from_millis(1_772_638_200_000); // Wednesday 2026-03-04 15:30 UTC
/// let read = |text| parse_bound(text, now, &Zone::UTC).map(|found| found.canonical);
/// assert_eq!(read("half an hour ago").unwrap(), "2026-03-04T15:00:00+00:00[UTC]");
/// assert_eq!(read("yesterday 7pm").unwrap(), "2026-03-03T19:00:00+00:00[UTC]");
/// assert_eq!(read("7pm").unwrap(), "2026-03-04T19:00:00+00:00[UTC]");
/// ```
pub fn parse_bound(text: &str, now: Timestamp, zone: &Zone) -> Result<Understood, Problem> {
    parse_in_view(text, now, zone, View::Both)
}

fn parse_in_view(
    text: &str,
    now: Timestamp,
    zone: &Zone,
    view: View,
) -> Result<Understood, Problem> {
    check_length(text)?;
    let trimmed = text.trim();
    let indent = text.len() - text.trim_start().len();
    let place = |problem: Problem| problem.shifted(indent);
    let read = |text: &str| parse_trimmed(text, now, zone, view);
    // A candidate is a promise: what would be refused in its turn is not offered.
    let is_good = |other: &String| read(other).is_ok_and(|(at, _)| fits(at, now));
    let only_good = |mut problem: Problem| {
        problem.candidates.retain(is_good);
        problem
    };
    let (instant, zone) = read(trimmed).map_err(only_good).map_err(place)?;
    Understood::checked(instant, zone, now, 0..text.len())
}

/// Whether a job may be due then.
fn fits(instant: Timestamp, now: Timestamp) -> bool {
    (Timestamp::EPOCH..=now.plus(DUE_AHEAD_MAX)).contains(&instant)
}

impl Understood {
    /// The instant said back, if a job may be due then.
    pub(crate) fn checked(
        instant: Timestamp,
        zone: Zone,
        now: Timestamp,
        place: Range<usize>,
    ) -> Result<Self, Problem> {
        let understood = Understood::new(instant, zone);
        match understood {
            Some(understood) if fits(instant, now) => Ok(understood),
            understood => {
                let said = understood.map_or_else(|| "that".to_string(), |shown| shown.words);
                let latest = now.plus(DUE_AHEAD_MAX);
                let message = format!("{said} is not between 1970 and {latest}");
                Err(Problem::out_of_range(place, message))
            }
        }
    }

    /// An instant said back in a zone; none outside of the calendar.
    pub fn new(instant: Timestamp, zone: Zone) -> Option<Self> {
        let at = jiff::Timestamp::from_millisecond(instant.as_millis()).ok()?;
        let offset = zone.inner().to_offset(at);
        let wall = offset.to_datetime(at);
        let (offset, name) = (show_offset(offset), zone.name().to_string());
        let words =
            format!("{} at {} {name} ({offset})", spell_date(wall.date()), show_time(wall.time()));
        let canonical = format!("{wall}{offset}[{name}]");
        Some(Understood { instant, zone, canonical, words })
    }
}

/// "Friday, 6 March 2026".
fn spell_date(date: Date) -> String {
    let weekday = say::weekday_name(date.weekday());
    format!("{weekday}, {} {} {}", date.day(), say::month_name(date.month()), date.year())
}

fn parse_trimmed(
    text: &str,
    now: Timestamp,
    zone: &Zone,
    view: View,
) -> Result<(Timestamp, Zone), Problem> {
    if text.is_empty() {
        return Err(Problem::new(0..0, "nothing was said").or(["tomorrow at 9am", "in 5 minutes"]));
    }
    if text.eq_ignore_ascii_case("now") {
        return Ok((now, zone.clone()));
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return parse_unix(text, zone).map(|instant| (instant, zone.clone()));
    }
    if let Some((seconds, fraction)) = text.split_once('.')
        && [seconds, fraction].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
    {
        let message = "a fraction of what? Unix time with a fraction is given in milliseconds";
        return Err(Problem::new(0..text.len(), message).or([format!("{seconds}{fraction:0<3.3}")]));
    }
    if let Some(found) = parse_standard(text, zone)? {
        return Ok(found);
    }
    let (iso, at) = match text.get(..3) {
        Some(head) if head.eq_ignore_ascii_case("in ") => (&text[3..], 3),
        _ => (text, 0),
    };
    if let Some(span) = parse_iso(iso).map_err(|problem| problem.shifted(at))? {
        return Ok((later(now, &span, zone, 0..text.len())?, zone.clone()));
    }
    let mut cursor = Cursor::with_view(text, view)?;
    let said = Said::parse(&mut cursor)?;
    said.resolve(&cursor, now, zone)
}

fn parse_unix(text: &str, zone: &Zone) -> Result<Timestamp, Problem> {
    let span = 0..text.len();
    let number: i64 = text.parse().unwrap_or(i64::MAX);
    if let Some(instant) = unix_instant(number.unsigned_abs()) {
        return Ok(instant);
    }
    let as_seconds = || Timestamp::from_millis(number.saturating_mul(1_000));
    let as_millis = || Timestamp::from_millis(number);
    let shown = |instant: Timestamp| Understood::new(instant, zone.clone()).map(|u| u.canonical);
    match number {
        0..=24 => {
            let message = format!("{text} of what?");
            // As numbers: however many zeros were written, nobody means an hour of ten digits.
            let hour = format!("at {number}:00");
            Err(Problem::new(span, message).or([format!("in {number} minutes"), hour]))
        }
        10_000_000_000..1_000_000_000_000 => {
            let message = "Unix seconds or milliseconds?";
            let both = [shown(as_seconds()), shown(as_millis())];
            Err(Problem::new(span, message).or(both.into_iter().flatten()))
        }
        _ => {
            let message = "neither Unix seconds (10 digits) nor milliseconds (13 digits)";
            Err(Problem::new(span, message).or(["2026-12-24T18:00:00Z"]))
        }
    }
}

/// RFC 3339 and 9557, and the same without an offset.
fn parse_standard(text: &str, zone: &Zone) -> Parsed<(Timestamp, Zone)> {
    let bytes = text.as_bytes();
    let is_date = bytes.len() > 10 && bytes[..4].iter().all(u8::is_ascii_digit) && bytes[4] == b'-';
    if !is_date || !(matches!(bytes[10], b'T' | b't') || text.contains('[')) {
        return Ok(None);
    }
    if text.contains('[') {
        let found: jiff::Zoned = text.parse().map_err(|_| {
            let message = "not a date and time with a zone as RFC 9557 has it, or the offset is \
                           not that zone's";
            Problem::new(0..text.len(), message).or(["2026-12-24T18:00:00+01:00[Europe/Paris]"])
        })?;
        let name = found
            .time_zone()
            .iana_name()
            .map_or_else(|| show_offset(found.offset()), ToString::to_string);
        let instant = rounded_up(found.timestamp()).plus(lost_to_leap_second(text));
        return Ok(Some((instant, Zone::named(&name)?)));
    }
    if let Some(instant) = standard_instant(text) {
        return Ok(Some((instant, zone.clone())));
    }
    let has_offset = text.get(11..).is_some_and(|time| time.contains(['+', '-', 'Z', 'z']));
    match text.parse::<DateTime>() {
        Ok(wall) if !has_offset => {
            let instant = at_wall(wall, zone, None, 0..text.len())?;
            Ok(Some((instant.plus(lost_to_leap_second(text)), zone.clone())))
        }
        _ => Err(Problem::new(0..text.len(), "not a date and time as RFC 3339 has it")
            .or(["2026-12-24T18:00:00Z", "2026-12-24T18:00:00+01:00"])),
    }
}
