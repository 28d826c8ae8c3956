//! How long, and how long from now.

use super::instant::{Understood, parse_instant};
use super::plain::plain_span;
use super::problem::{Problem, check_length};
use super::say::{Cursor, Span, later, parse_elapsed, parse_iso, parse_words};
use super::zone::Zone;
use crate::time::{Millis, Timestamp};

/// Reads a span that is the same everywhere: a timeout, a delay, a retention. A bare number is
/// seconds, a day is 24 hours, and a month has no one length.
///
/// ```
/// use hence_core::time::Millis;
/// use hence_core::when::parse_span;
/// for text in ["90", "90s", "1m30s", "1.5 minutes", "a minute and 30 seconds", "PT1M30S"] {
///     assert_eq!(parse_span(text).unwrap(), Millis::from_secs(90), "{text}");
/// }
/// assert!(parse_span("1 month").is_err());
/// ```
pub fn parse_span(text: &str) -> Result<Millis, Problem> {
    check(text)?;
    match plain_span(text.trim()) {
        Some(span) => Ok(span),
        None => parse_elapsed(text).map_err(|mut problem| {
            // What an interval could be instead is not always a span.
            problem.candidates.retain(|other| parse_elapsed(other).is_ok());
            problem
        }),
    }
}

/// Reads how long from now, and says when that is. Hours and less are elapsed time; days and more
/// move the calendar of the zone and keep the time of day. A bare number is seconds.
pub fn parse_in(text: &str, now: Timestamp, zone: &Zone) -> Result<Understood, Problem> {
    read_in(text, now, zone).map_err(|mut problem| {
        // A candidate is a promise: what would be refused in its turn is not offered.
        problem.candidates.retain(|other| read_in(other, now, zone).is_ok());
        problem
    })
}

fn read_in(text: &str, now: Timestamp, zone: &Zone) -> Result<Understood, Problem> {
    check(text)?;
    let trimmed = text.trim();
    let body = match trimmed.get(..3) {
        Some(head) if head.eq_ignore_ascii_case("in ") => trimmed[3..].trim_start(),
        _ => trimmed,
    };
    let at = text.trim_end().len() - body.len();
    let instant = match plain_span(body) {
        Some(span) => now.plus(span),
        None => {
            let span = parse_any_span(body).map_err(|problem| {
                // Somebody who says a moment here has the right words in the wrong place.
                match parse_instant(body, now, zone) {
                    Ok(_) => Problem::new(0..body.len(), "a moment, not a span; say it as `at`"),
                    Err(_) => problem,
                }
            });
            let place = |problem: Problem| problem.shifted(at);
            match span.map_err(place)? {
                span if span == Span::default() => now,
                span => later(now, &span, zone, at..at + body.len())?,
            }
        }
    };
    Understood::checked(instant, zone.clone(), now, 0..text.len())
}

/// Of the calendar or of the clock.
fn parse_any_span(text: &str) -> Result<Span, Problem> {
    if let Some(span) = parse_iso(text)? {
        return Ok(span);
    }
    let mut cursor = Cursor::new(text)?;
    match parse_words(&mut cursor)? {
        Some(span) if cursor.is_at_end() => Ok(span),
        _ => {
            let problem = cursor.not_understood();
            let is_guessed = !problem.candidates.is_empty();
            Err(if is_guessed { problem } else { problem.or(["5 minutes", "1h30m"]) })
        }
    }
}

fn check(text: &str) -> Result<(), Problem> {
    check_length(text)?;
    let indent = text.len() - text.trim_start().len();
    if text[indent..].starts_with('-') {
        return Err(Problem::new(indent..indent + 1, "a span must not be negative"));
    }
    if text.trim().is_empty() {
        return Err(Problem::new(0..text.len(), "nothing was said").or(["5 minutes", "1h30m"]));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::when::limits::TEXT_BYTES_MAX;
    use alloc::string::ToString;

    #[test]
    fn spans_in_every_dress() {
        let rows: [(&str, Option<u64>); 34] = [
            ("5s", Some(5_000)),
            (" 5s ", Some(5_000)),
            ("1h30m", Some(5_400_000)),
            ("1h 30min", Some(5_400_000)),
            ("250ms", Some(250)),
            ("1.5ms", Some(2)),
            // Less than a millisecond is rounded up, whatever the unit.
            ("0.0001s", Some(1)),
            ("1.0005s", Some(1_001)),
            ("0.0010s", Some(1)),
            ("0.0001ms", Some(1)),
            ("0.0001h", Some(360)),
            ("0.12345h", Some(444_420)),
            ("0.00000000000000000001 seconds", Some(1)),
            ("999999999.9999 hours", Some(3_599_999_999_999_640)),
            ("1.50000000000 minutes", Some(90_000)),
            ("1.0001 days", None),
            ("2 days", Some(172_800_000)),
            ("1w", Some(604_800_000)),
            ("PT5M", Some(300_000)),
            ("PT0.0001S", Some(1)),
            ("P1D", Some(86_400_000)),
            ("90", Some(90_000)),
            ("0", Some(0)),
            ("an hour and a half", Some(5_400_000)),
            ("-5s", None),
            ("-PT5M", None),
            ("1 month", None),
            ("P1Y", None),
            ("soon", None),
            ("", None),
            ("5x", None),
            ("tomorrow", None),
            ("99999999999999999999s", None),
            ("1s1h", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_span(text).ok().map(Millis::get), expected, "{text}");
        }
    }

    #[test]
    fn a_span_from_now_keeps_the_time_of_day_when_it_is_days() {
        // Saturday 2026-03-28 12:00 in Paris, the day before its clock goes forward.
        let now = Timestamp::from_millis(1_774_695_600_000);
        let paris = Zone::named("Europe/Paris").unwrap();
        let rows = [
            ("1 day", "2026-03-29T12:00:00+02:00[Europe/Paris]"),
            ("1d", "2026-03-29T12:00:00+02:00[Europe/Paris]"),
            ("in 1 day", "2026-03-29T12:00:00+02:00[Europe/Paris]"),
            ("24h", "2026-03-29T13:00:00+02:00[Europe/Paris]"),
            ("86400", "2026-03-29T13:00:00+02:00[Europe/Paris]"),
            ("a month", "2026-04-28T12:00:00+02:00[Europe/Paris]"),
            ("0s", "2026-03-28T12:00:00+01:00[Europe/Paris]"),
            ("0 minutes", "2026-03-28T12:00:00+01:00[Europe/Paris]"),
        ];
        for (text, expected) in rows {
            let found = parse_in(text, now, &paris).map(|found| found.canonical);
            assert_eq!(found.as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_span_from_now_is_refused_where_it_is() {
        let now = Timestamp::from_millis(1_774_695_600_000);
        let rows = [
            ("tomorrow", 0..8, "a moment, not a span; say it as `at`"),
            (" in  2 hors", 7..11, "\"hors\" is not understood here"),
            (" -5 minutes", 1..2, "a span must not be negative"),
            ("in a few minutes", 3..8, "few is not a number"),
            ("  ", 0..2, "nothing was said"),
        ];
        for (text, span, message) in rows {
            let problem = parse_in(text, now, &Zone::UTC).unwrap_err();
            assert_eq!((problem.span, problem.message.as_str()), (span, message), "{text}");
        }
        let far = parse_in("300 years", now, &Zone::UTC).unwrap_err();
        assert!(far.is_out_of_range && far.candidates.is_empty());
        let far = far.to_string();
        assert!(far.contains("is not between 1970 and 2226"), "{far}");
        let long = "9".repeat(TEXT_BYTES_MAX + 1);
        assert!(parse_in(&long, now, &Zone::UTC).is_err() && parse_span(&long).is_err());
    }
}
