//! Instants and spans as people and programs write them. The only file that reads them.
//!
//! An instant is RFC 3339 (`2026-09-10T00:26:40Z`) or Unix time: whole seconds or milliseconds,
//! told apart by size. A span is `5s`, `1h30m`, `250ms`, `2 days`, ISO 8601 (`PT5M`), or a number
//! of seconds. Both are rounded up to whole milliseconds: a job is never early.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use hence_core::error::Rejection;
use hence_core::time::{Millis, Timestamp};
use jiff::{Span, SpanRelativeTo};
use serde::{Deserialize, Deserializer, de};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

/// Unix times below this are seconds, from this on milliseconds. As seconds it is the year 5138, as
/// milliseconds March 1973: no sane time lies on the wrong side.
const SECONDS_BELOW: u64 = 100_000_000_000;
/// The longest text that can be an instant or a span; nothing longer is looked at.
const TEXT_BYTES_MAX: usize = 100;

/// An instant or a span as it stands in a body, not yet understood: only who knows the field can
/// say what is wrong with it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Moment {
    Text(String),
    Whole(u64),
    Negative,
    Fraction(f64),
}

impl Moment {
    /// Understands it as an instant.
    pub(crate) fn instant(&self, field: &'static str) -> Result<Timestamp, Rejection> {
        match self {
            Moment::Text(text) => instant(field, text),
            Moment::Whole(number) => unix(field, *number),
            Moment::Negative => Err(Rejection::invalid(field, "must not lie before 1970")),
            Moment::Fraction(_) => Err(Rejection::invalid(
                field,
                "must be a whole number of seconds or milliseconds, or an RFC 3339 text",
            )),
        }
    }

    /// Understands it as a span.
    pub(crate) fn span(&self, field: &'static str) -> Result<Millis, Rejection> {
        match self {
            Moment::Text(text) => span(field, text),
            Moment::Whole(seconds) => Ok(Millis::from_secs(*seconds)),
            Moment::Negative => Err(negative(field)),
            Moment::Fraction(seconds) => seconds_to_millis(field, *seconds),
        }
    }
}

/// Understands a text as an instant.
pub(crate) fn instant(field: &'static str, text: &str) -> Result<Timestamp, Rejection> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Rejection::too_long(field, text.len(), TEXT_BYTES_MAX));
    }
    let text = text.trim();
    if is_digits(text) {
        let number = text.parse().map_err(|_| not_an_instant(field))?;
        return unix(field, number);
    }
    let instant: jiff::Timestamp = text.parse().map_err(|_| not_an_instant(field))?;
    let nanos = instant.as_nanosecond();
    let millis = nanos.div_euclid(1_000_000) + i128::from(nanos.rem_euclid(1_000_000) > 0);
    i64::try_from(millis).map(Timestamp::from_millis).map_err(|_| not_an_instant(field))
}

/// Understands a text as a span.
pub(crate) fn span(field: &'static str, text: &str) -> Result<Millis, Rejection> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Rejection::too_long(field, text.len(), TEXT_BYTES_MAX));
    }
    let text = text.trim();
    if is_digits(text) {
        let seconds = text.parse().map_err(|_| not_a_span(field))?;
        return Ok(Millis::from_secs(seconds));
    }
    let span: Span = text.parse().map_err(|_| not_a_span(field))?;
    if span.get_months() != 0 || span.get_years() != 0 {
        let problem = "must not use months or years: they have no fixed length; use days";
        return Err(Rejection::invalid(field, problem));
    }
    let duration = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|_| Rejection::invalid(field, "is too long"))?;
    if duration.is_negative() {
        return Err(negative(field));
    }
    let nanos = duration.as_nanos().unsigned_abs();
    let millis = u64::try_from(nanos.div_ceil(1_000_000));
    millis.map(Millis::new).map_err(|_| Rejection::invalid(field, "is too long"))
}

/// The span for the runtime's timers.
pub(crate) fn duration(span: Millis) -> Duration {
    Duration::from_millis(span.get())
}

/// The shortest text that reads back as this span.
pub(crate) fn span_text(span: Millis) -> String {
    const UNITS: [(u64, &str); 4] =
        [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let millis = span.get();
    let whole = UNITS.iter().find(|(size, _)| millis > 0 && millis.is_multiple_of(*size));
    match whole {
        Some((size, unit)) => format!("{}{unit}", millis / size),
        None => format!("{millis}ms"),
    }
}

fn unix(field: &'static str, number: u64) -> Result<Timestamp, Rejection> {
    let millis = if number < SECONDS_BELOW { number * 1_000 } else { number };
    i64::try_from(millis).map(Timestamp::from_millis).map_err(|_| not_an_instant(field))
}

fn seconds_to_millis(field: &'static str, seconds: f64) -> Result<Millis, Rejection> {
    // Beyond this a double has no milliseconds left.
    const SECONDS_MAX: f64 = 1e12;
    if seconds < 0.0 {
        return Err(negative(field));
    }
    if !seconds.is_finite() || seconds > SECONDS_MAX {
        return Err(Rejection::invalid(field, "is too long"));
    }
    // Not rounded up: 0.1 is a little more than a tenth, and nobody means that little.
    Ok(Millis::new((seconds * 1_000.0).round() as u64))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn not_an_instant(field: &'static str) -> Rejection {
    Rejection::invalid(
        field,
        "must be an RFC 3339 instant with an offset (2026-09-10T00:26:40Z) or Unix time in whole \
         seconds or milliseconds",
    )
}

fn not_a_span(field: &'static str) -> Rejection {
    Rejection::invalid(
        field,
        "must be a span such as 5s, 1h30m, 250ms, 2 days or PT5M, or a number of seconds",
    )
}

fn negative(field: &'static str) -> Rejection {
    Rejection::invalid(field, "must not be negative")
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MomentVisitor)
    }
}

struct MomentVisitor;

impl de::Visitor<'_> for MomentVisitor {
    type Value = Moment;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Moment, E> {
        Ok(Moment::Text(text.to_owned()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Moment, E> {
        Ok(Moment::Whole(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Moment, E> {
        Ok(u64::try_from(number).map_or(Moment::Negative, Moment::Whole))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Moment, E> {
        Ok(Moment::Fraction(number))
    }
}

/// How the document describes an instant in a request.
pub(crate) struct InstantIn;

/// How the document describes a span in a request.
pub(crate) struct SpanIn;

impl PartialSchema for InstantIn {
    fn schema() -> RefOr<Schema> {
        either(
            "An instant: RFC 3339 with an offset, or Unix time in whole seconds or milliseconds",
            "2026-09-10T00:26:40Z",
        )
    }
}

impl ToSchema for InstantIn {
    fn name() -> Cow<'static, str> {
        "AnyInstant".into()
    }
}

impl PartialSchema for SpanIn {
    fn schema() -> RefOr<Schema> {
        either("A span: 5s, 1h30m, 250ms, 2 days, PT5M, or a number of seconds", "1h30m")
    }
}

impl ToSchema for SpanIn {
    fn name() -> Cow<'static, str> {
        "AnySpan".into()
    }
}

fn either(description: &str, example: &'static str) -> RefOr<Schema> {
    let types = SchemaType::Array(vec![Type::String, Type::Number]);
    let object = ObjectBuilder::new().schema_type(types).description(Some(description));
    Schema::Object(object.examples([example]).build()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(json: &str) -> Moment {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn instants_are_told_apart_safely() {
        let rows: [(&str, Option<i64>); 18] = [
            ("1789000000", Some(1_789_000_000_000)),
            ("1789000000123", Some(1_789_000_000_123)),
            ("\"1789000000\"", Some(1_789_000_000_000)),
            ("0", Some(0)),
            ("99999999999", Some(99_999_999_999_000)),
            ("100000000000", Some(100_000_000_000)),
            ("\"2026-09-10T00:26:40Z\"", Some(1_789_000_000_000)),
            ("\"2026-09-10T02:26:40+02:00\"", Some(1_789_000_000_000)),
            ("\"2026-09-10T00:26:40.0001Z\"", Some(1_789_000_000_001)),
            ("\"2026-09-10T00:26:40.123Z\"", Some(1_789_000_000_123)),
            ("\"2026-09-10T00:26:40\"", None),
            ("\"2026-02-30T00:00:00Z\"", None),
            ("\"tomorrow\"", None),
            ("\"\"", None),
            ("-1", None),
            ("1.5", None),
            ("1e30", None),
            ("18446744073709551615", None),
        ];
        for (json, expected) in rows {
            let instant = moment(json).instant("at").ok().map(Timestamp::as_millis);
            assert_eq!(instant, expected, "{json}");
        }
    }

    #[test]
    fn spans_in_every_dress() {
        let rows: [(&str, Option<u64>); 20] = [
            ("\"5s\"", Some(5_000)),
            ("\"1h30m\"", Some(5_400_000)),
            ("\"250ms\"", Some(250)),
            ("\"2 days\"", Some(172_800_000)),
            ("\"1w\"", Some(604_800_000)),
            ("\"PT5M\"", Some(300_000)),
            ("\"P1D\"", Some(86_400_000)),
            ("\"1us\"", Some(1)),
            ("\"90\"", Some(90_000)),
            ("90", Some(90_000)),
            ("0.25", Some(250)),
            ("0.1", Some(100)),
            ("0", Some(0)),
            ("\"-5s\"", None),
            ("-5", None),
            ("-0.5", None),
            ("\"1 month\"", None),
            ("\"P1Y\"", None),
            ("\"soon\"", None),
            ("1e300", None),
        ];
        for (json, expected) in rows {
            assert_eq!(moment(json).span("in").ok().map(Millis::get), expected, "{json}");
        }
    }

    #[test]
    fn texts_are_bounded_before_they_are_read() {
        let long = "9".repeat(TEXT_BYTES_MAX + 1);
        assert!(matches!(instant("at", &long), Err(Rejection::TooLarge { .. })));
        assert!(matches!(span("in", &long), Err(Rejection::TooLarge { .. })));
    }

    #[test]
    fn span_texts_read_back() {
        for (millis, text) in
            [(0, "0ms"), (1, "1ms"), (1_000, "1s"), (90_000, "90s"), (86_400_000, "1d")]
        {
            assert_eq!(span_text(Millis::new(millis)), text);
            assert_eq!(span("x", text).ok(), Some(Millis::new(millis)));
        }
    }
}
