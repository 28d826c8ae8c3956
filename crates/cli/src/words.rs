//! Spans, instants and sizes as people write and read them.

use std::time::Duration;

/// Reads a span as the server does: `500ms`, `5s`, `1h30m`, `2 days`; a bare number is seconds.
pub(crate) fn parse_span(text: &str) -> Result<Duration, String> {
    let span = hence_core::when::parse_span(text).map_err(|problem| problem.to_string())?;
    Ok(Duration::from_millis(span.get()))
}

/// A span in the two largest units that matter: `2 ms`, `5 s`, `1 h 30 min`.
pub(crate) fn span(ms: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    if ms < 1_000 {
        return format!("{ms} ms");
    }
    if ms < 10_000 && !ms.is_multiple_of(1_000) {
        return format!("{:.1} s", ms as f64 / 1_000.0);
    }
    let first = UNITS.iter().position(|(size, _)| ms >= *size).unwrap_or(UNITS.len() - 1);
    let (size, name) = UNITS[first];
    let whole = format!("{} {name}", ms / size);
    let Some((next_size, next_name)) = UNITS.get(first + 1) else { return whole };
    match ms % size / next_size {
        0 => whole,
        more => format!("{whole} {more} {next_name}"),
    }
}

/// An instant relative to `now_ms`: `in 5 s`, `now`, `3 min ago`.
pub(crate) fn relative(instant_ms: i64, now_ms: i64) -> String {
    let difference = instant_ms.saturating_sub(now_ms);
    match difference {
        -99..=99 => "now".to_owned(),
        100.. => format!("in {}", span(rounded(difference.unsigned_abs()))),
        _ => format!("{} ago", span(rounded(difference.unsigned_abs()))),
    }
}

/// A person who asked for `in 5s` reads `in 5 s`, not `in 5.0 s` or `in 4 s`: the round trip is
/// not of interest.
fn rounded(ms: u64) -> u64 {
    match ms {
        0..1_000 => (ms + 50) / 100 * 100,
        _ => (ms + 500) / 1_000 * 1_000,
    }
}

/// An instant both ways: `in 5 s, 2026-09-10T00:26:40.123Z`.
pub(crate) fn due(instant_ms: i64, now_ms: i64) -> String {
    format!("{}, {}", relative(instant_ms, now_ms), rfc3339(instant_ms))
}

/// RFC 3339 in UTC with milliseconds, as every answer of the server shows it.
pub(crate) fn rfc3339(instant_ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(instant_ms) {
        Ok(instant) => format!("{instant:.3}"),
        Err(_) => format!("{instant_ms} ms"),
    }
}

/// The time of day in UTC with milliseconds: `12:00:05.002`.
pub(crate) fn time_of_day(instant_ms: i64) -> String {
    let ms = instant_ms.rem_euclid(86_400_000);
    format!(
        "{:02}:{:02}:{:02}.{:03}",
        ms / 3_600_000,
        ms / 60_000 % 60,
        ms / 1_000 % 60,
        ms % 1_000
    )
}

/// Milliseconds since the epoch of an RFC 3339 instant.
pub(crate) fn parse_rfc3339(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

/// How far `actual` lies after `due`: `2 ms late`, or `3 ms EARLY`, which must never be seen.
pub(crate) fn lateness(actual_ms: i64, due_ms: i64) -> String {
    let late = actual_ms.saturating_sub(due_ms);
    if late < 0 {
        format!("{} EARLY", span(late.unsigned_abs()))
    } else {
        format!("{} late", span(late as u64))
    }
}

/// A size: `512 B`, `1.5 KiB`, `2.0 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1_024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

/// `1 job`, `2 jobs`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// One line of at most `max` characters: line breaks shown, the rest cut with an ellipsis.
pub(crate) fn cut(text: &str, max: usize) -> String {
    let flat: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if flat.chars().count() <= max {
        return flat;
    }
    let mut short: String = flat.chars().take(max.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Why a schedule has no next tick.
pub(crate) fn idle(reason: &str) -> &str {
    match reason {
        "ended" => "its end has passed",
        "counted" => "it ticked as often as it was to",
        "exhausted" => "its plan has no further date",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_as_people_write_them() {
        for (text, ms) in [
            ("5", 5_000),
            ("500ms", 500),
            ("5s", 5_000),
            ("1h30m", 5_400_000),
            ("1h 30min", 5_400_000),
            ("2d", 172_800_000),
            ("1w", 604_800_000),
            ("0s", 0),
        ] {
            assert_eq!(parse_span(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", " ", "s", "5x", "5s5", "-5s", "1 month", "99999999999999999999s", "5 5"] {
            assert!(parse_span(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn spans_as_people_read_them() {
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_500, "1.5 s"),
            (5_000, "5 s"),
            (61_000, "1 min 1 s"),
            (5_400_000, "1 h 30 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(span(ms), text);
        }
    }

    #[test]
    fn instants_relative_to_now() {
        for (instant, text) in [
            (4_993, "in 5 s"),
            (50, "now"),
            (-40, "now"),
            (250, "in 300 ms"),
            (493, "in 500 ms"),
            (508, "in 500 ms"),
            (951, "in 1 s"),
            (-140, "100 ms ago"),
            (-180_000, "3 min ago"),
            (3_599_800, "in 1 h"),
        ] {
            assert_eq!(relative(instant, 0), text);
        }
        assert_eq!(due(5_000, 0), "in 5 s, 1970-01-01T00:00:05.000Z");
        assert_eq!(time_of_day(43_205_002), "12:00:05.002");
        assert_eq!(lateness(12, 10), "2 ms late");
        assert_eq!(lateness(7, 10), "3 ms EARLY");
    }

    #[test]
    fn sizes_counts_and_cuts() {
        assert_eq!(size(512), "512 B");
        assert_eq!(size(1_536), "1.5 KiB");
        assert_eq!(count(1, "job"), "1 job");
        assert_eq!(count(0, "job"), "0 jobs");
        assert_eq!(cut("a\nb", 10), "a b");
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
