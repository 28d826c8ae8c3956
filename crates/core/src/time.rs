//! Instants and spans as integers with units. There is no way to ask for "now" here: time is an
//! argument of everything that depends on it.

use core::fmt;

/// An instant: milliseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

/// A span of time in whole milliseconds, never negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(u64);

impl Timestamp {
    /// Before everything: the lower end of the order, not a time anyone can ask for.
    pub const MIN: Timestamp = Timestamp(i64::MIN);
    /// After everything: the upper end of the order, not a time anyone can ask for.
    pub const MAX: Timestamp = Timestamp(i64::MAX);
    /// The Unix epoch.
    pub const EPOCH: Timestamp = Timestamp(0);

    /// The instant this many milliseconds after the Unix epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Timestamp(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The later instant; stops at the end of time instead of wrapping.
    #[must_use]
    pub const fn plus(self, span: Millis) -> Self {
        let span = if span.0 > i64::MAX as u64 { i64::MAX } else { span.0 as i64 };
        Timestamp(self.0.saturating_add(span))
    }

    /// The earlier instant; stops at the beginning of time instead of wrapping.
    #[must_use]
    pub const fn minus(self, span: Millis) -> Self {
        let span = if span.0 > i64::MAX as u64 { i64::MAX } else { span.0 as i64 };
        Timestamp(self.0.saturating_sub(span))
    }

    /// The span from `earlier` to here; zero when `earlier` is in fact later.
    pub const fn since(self, earlier: Timestamp) -> Millis {
        let span = self.0.saturating_sub(earlier.0);
        Millis(if span < 0 { 0 } else { span as u64 })
    }
}

impl Millis {
    /// No time at all.
    pub const ZERO: Millis = Millis(0);

    /// This many milliseconds.
    pub const fn new(millis: u64) -> Self {
        Millis(millis)
    }

    /// This many seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Millis(secs.saturating_mul(1_000))
    }

    /// The number of milliseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The sum; stops at the largest span instead of wrapping.
    #[must_use]
    pub const fn plus(self, other: Millis) -> Self {
        Millis(self.0.saturating_add(other.0))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Timestamp {
    /// RFC 3339 with milliseconds, as every answer shows it. None for what does not fit: before the
    /// year 0, or too late for a calendar.
    pub fn rfc3339(self) -> Option<[u8; 24]> {
        let instant = jiff::Timestamp::from_millisecond(self.0).ok()?;
        let wall = jiff::tz::Offset::UTC.to_datetime(instant);
        if wall.year() < 0 {
            return None;
        }
        // Written digit by digit: an answer has several instants a job, and the general way takes
        // as long as the rest of it.
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let parts = [
            (0..4, wall.year() as u32),
            (5..7, wall.month() as u32),
            (8..10, wall.day() as u32),
            (11..13, wall.hour() as u32),
            (14..16, wall.minute() as u32),
            (17..19, wall.second() as u32),
            (20..23, wall.millisecond() as u32),
        ];
        for (place, mut rest) in parts {
            for digit in text[place].iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
        Some(text)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = self.rfc3339() {
            return f.write_str(core::str::from_utf8(&text).unwrap_or_default());
        }
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(instant) => write!(f, "{instant:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

impl fmt::Debug for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

/// In the largest unit that leaves nothing over: `90s`, `2h`, `1500ms`. Can be read back.
impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] =
            [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
        let whole = UNITS.iter().find(|(size, _)| self.0 > 0 && self.0.is_multiple_of(*size));
        match whole {
            Some((size, unit)) => write!(f, "{}{unit}", self.0 / size),
            None => write!(f, "{}ms", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn arithmetic_stops_at_the_ends() {
        assert_eq!(Timestamp::MAX.plus(Millis::new(1)), Timestamp::MAX);
        assert_eq!(Timestamp::EPOCH.plus(Millis::new(u64::MAX)), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.minus(Millis::new(1)), Timestamp::MIN);
        assert_eq!(Timestamp::EPOCH.since(Timestamp::from_millis(5)), Millis::ZERO);
    }

    #[test]
    fn a_span_is_shown_in_its_largest_whole_unit() {
        let rows = [(0, "0ms"), (999, "999ms"), (1_000, "1s"), (1_500, "1500ms"), (90_000, "90s")];
        let long = [(60_000, "1m"), (7_200_000, "2h"), (86_400_000, "1d"), (86_401_000, "86401s")];
        for (millis, text) in rows.into_iter().chain(long) {
            assert_eq!(Millis::new(millis).to_string(), text);
        }
    }

    #[test]
    fn shown_as_rfc_3339() {
        assert_eq!(
            Timestamp::from_millis(1_789_000_000_123).to_string(),
            "2026-09-10T00:26:40.123Z"
        );
        assert_eq!(Timestamp::MAX.to_string(), "9223372036854775807ms");
        // From the year -9999 to 9999, with every field at its ends now and then.
        let step = 86_399_999_u64 * 37 + 1;
        let first = Timestamp::from_millis(-377_705_023_201_000);
        for nth in 0..100_000 {
            let instant = first.plus(Millis::new(nth * 2 * step));
            let Ok(known) = jiff::Timestamp::from_millisecond(instant.as_millis()) else { break };
            assert_eq!(instant.to_string(), alloc::format!("{known:.3}"));
        }
    }
}
