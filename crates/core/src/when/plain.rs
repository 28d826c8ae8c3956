//! The forms that programs write: they mean the same to whoever reads them, need neither a clock
//! nor a zone, and are read without the cost of words. Whatever is not plain is left to
//! [`parse_instant`](super::parse_instant) and [`parse_span`](super::parse_span), which say what
//! is wrong with it.

use jiff::civil::{DateTime, date};
use jiff::fmt::temporal::Pieces;
use jiff::tz::Offset;

use crate::time::{Millis, Timestamp};

/// The instant of RFC 3339 with an offset, or of Unix seconds or milliseconds. What this finds,
/// [`parse_instant`](super::parse_instant) finds too.
///
/// ```
/// use hence_core::time::Timestamp;
/// use hence_core::when::plain_instant;
/// let instant = Some(Timestamp::from_millis(1_789_000_000_000));
/// assert_eq!(plain_instant("2026-09-10T02:26:40+02:00"), instant);
/// assert_eq!(plain_instant("1789000000"), instant);
/// assert_eq!(plain_instant("7pm tomorrow"), None);
/// ```
pub fn plain_instant(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    if bytes.len() <= 13 && bytes.iter().all(u8::is_ascii_digit) {
        return unix_instant(text.parse().ok()?);
    }
    let is_standard = bytes.len() >= 20 && bytes[4] == b'-' && matches!(bytes[10], b'T' | b't');
    if !is_standard || bytes.contains(&b'[') {
        return None;
    }
    standard_instant(text).filter(|instant| *instant >= Timestamp::EPOCH)
}

/// The instant of RFC 3339 with an offset. Read by its parts: the library's own instants end a day
/// before the year 9999 does, and "never" is often written as the last second of that year.
pub(crate) fn standard_instant(text: &str) -> Option<Timestamp> {
    const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);
    const NANOS: i128 = 1_000_000_000;
    let pieces = Pieces::parse(text).ok()?;
    let offset = pieces.to_numeric_offset().filter(|offset| is_offset(*offset))?;
    if pieces.time_zone_annotation().is_some() {
        return None;
    }
    let wall = pieces.date().to_datetime(pieces.time()?);
    let since = wall.duration_since(EPOCH).as_nanos() - i128::from(offset.seconds()) * NANOS;
    // Rounded up, as everywhere: a job is never early.
    let millis = since.div_euclid(1_000_000) + i128::from(since.rem_euclid(1_000_000) > 0);
    let instant = Timestamp::from_millis(i64::try_from(millis).ok()?);
    Some(instant.plus(lost_to_leap_second(text)))
}

/// Whether it can be that of a time: RFC 3339 has hours up to 23, the library a few more.
pub(crate) fn is_offset(offset: Offset) -> bool {
    offset.seconds().unsigned_abs() < 24 * 3600
}

/// What the library takes from a time in a leap second: it reads 23:59:60 as 23:59:59, and a job
/// would be early.
pub(crate) fn lost_to_leap_second(text: &str) -> Millis {
    let time = text.get(11..).unwrap_or_default().bytes().filter(|byte| *byte != b':');
    let seconds = time.take_while(u8::is_ascii_digit).skip(4);
    if seconds.eq(*b"60") { Millis::from_secs(1) } else { Millis::ZERO }
}

/// The instant of a bare number. Seconds have ten digits in our time and milliseconds thirteen;
/// nothing else is certain.
pub fn unix_instant(number: u64) -> Option<Timestamp> {
    let millis = match number {
        1_000_000_000..10_000_000_000 => number * 1_000,
        1_000_000_000_000..10_000_000_000_000 => number,
        _ => return None,
    };
    i64::try_from(millis).ok().map(Timestamp::from_millis)
}

/// The span of `5s`, `1h30m`, `250ms`, or of a bare number of seconds. Days are not plain: how long
/// one is depends on the zone. What this finds, [`parse_span`](super::parse_span) finds too.
pub fn plain_span(text: &str) -> Option<Millis> {
    const UNITS: [(&[u8], u64); 4] = [(b"h", 3_600_000), (b"m", 60_000), (b"s", 1_000), (b"ms", 1)];
    let mut rest = text.as_bytes();
    if rest.is_empty() {
        return None;
    }
    if rest.iter().all(u8::is_ascii_digit) {
        return text.parse::<u64>().ok()?.checked_mul(1_000).map(Millis::new);
    }
    let (mut total, mut left) = (0_u64, &UNITS[..]);
    while !rest.is_empty() {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, tail) = rest.split_at(digits);
        let letters = tail.iter().take_while(|byte| byte.is_ascii_lowercase()).count();
        let (unit, tail) = tail.split_at(letters);
        // From large to small, each once: a unit is looked for behind the one before it.
        let place = left.iter().position(|(name, _)| *name == unit)?;
        let number: u64 = core::str::from_utf8(number).ok()?.parse().ok()?;
        total = total.checked_add(number.checked_mul(left[place].1)?)?;
        left = &left[place + 1..];
        rest = tail;
    }
    Some(Millis::new(total))
}

/// Whole milliseconds, never before the instant: a job is never early.
pub(crate) fn rounded_up(instant: jiff::Timestamp) -> Timestamp {
    let millis = instant.as_millisecond();
    let rest = instant.subsec_nanosecond() % 1_000_000;
    Timestamp::from_millis(if rest > 0 { millis.saturating_add(1) } else { millis })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::when::{Zone, parse_instant, parse_span};

    #[test]
    fn what_is_plain_is_what_the_readers_of_words_understand() {
        let now = Timestamp::from_millis(1_772_638_200_000);
        let rows: [(&str, Option<i64>); 25] = [
            ("1789000000", Some(1_789_000_000_000)),
            ("1789000000123", Some(1_789_000_000_123)),
            ("2026-09-10T00:26:40Z", Some(1_789_000_000_000)),
            ("2026-09-10t00:26:40z", Some(1_789_000_000_000)),
            ("2026-09-10T02:26:40+02:00", Some(1_789_000_000_000)),
            ("2026-09-10T00:26:40.0001Z", Some(1_789_000_000_001)),
            ("2026-09-10T00:26:40.123Z", Some(1_789_000_000_123)),
            ("2026-09-10T00:26:40-00:00", Some(1_789_000_000_000)),
            // The second after, and never the one before.
            ("2030-06-30T23:59:60Z", Some(1_909_094_400_000)),
            ("2030-06-30T23:59:60.25Z", Some(1_909_094_400_250)),
            ("2030-06-30T235960+0000", Some(1_909_094_400_000)),
            ("2030-07-01T00:00:00Z", Some(1_909_094_400_000)),
            ("2026-09-10T23:26:39+23:00", Some(1_788_999_999_000)),
            ("2026-09-10T02:26:40+24:00", None),
            ("2026-09-10T02:26:40-25:00", None),
            ("2026-09-10T00:26:40", None),
            ("2026-09-10T02:26:40+02:00[Europe/Paris]", None),
            ("2026-02-30T00:00:00Z", None),
            ("1969-12-31T23:59:59.9Z", None),
            ("0", None),
            ("17890000000", None),
            ("17890000000000", None),
            ("", None),
            ("tomorrow", None),
            (" 1789000000", None),
        ];
        for (text, expected) in rows {
            let found = plain_instant(text);
            assert_eq!(found.map(Timestamp::as_millis), expected, "{text}");
            if let Some(instant) = found {
                let read = parse_instant(text, now, &Zone::UTC).map(|read| read.instant);
                assert_eq!(read, Ok(instant), "{text}");
            }
        }
    }

    #[test]
    fn the_last_second_of_the_calendar_is_an_instant() {
        let rows = [
            ("9999-12-31T23:59:59Z", 253_402_300_799_000),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
            ("9999-12-31T23:59:59-23:59", 253_402_387_139_000),
        ];
        for (text, millis) in rows {
            assert_eq!(plain_instant(text), Some(Timestamp::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn plain_spans_are_those_of_programs() {
        let rows: [(&str, Option<u64>); 18] = [
            ("5s", Some(5_000)),
            ("250ms", Some(250)),
            ("1h30m", Some(5_400_000)),
            ("1h1m1s1ms", Some(3_661_001)),
            ("90", Some(90_000)),
            ("0", Some(0)),
            ("2592000001ms", Some(2_592_000_001)),
            ("", None),
            ("s", None),
            ("5", Some(5_000)),
            ("5s5", None),
            ("30m1h", None),
            ("1h1h", None),
            ("2d", None),
            ("5 s", None),
            ("-5s", None),
            ("99999999999999999999s", None),
            ("18446744073709551615h", None),
        ];
        for (text, expected) in rows {
            let found = plain_span(text);
            assert_eq!(found.map(Millis::get), expected, "{text}");
            if let Some(span) = found {
                assert_eq!(parse_span(text), Ok(span), "{text}");
            }
        }
    }
}
