//! Times as they stand in a request. A thin adapter: JSON numbers and texts go to
//! `hence_core::when`, which has the rules, and its problems come back with the field they are in.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use hence_core::error::Rejection;
use hence_core::time::{Millis, Timestamp};
use hence_core::when::limits::TEXT_BYTES_MAX;
use hence_core::when::{
    self, Reading, Understood, parse_bound, parse_in, parse_instant, plain_instant, plain_span,
    unix_instant,
};
use serde::{Deserialize, Deserializer, de};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

use super::errors::Problem;

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
    /// The instant, when it is in a form that programs write: these need no words.
    pub(crate) fn plain_instant(&self) -> Option<Timestamp> {
        match self {
            Moment::Text(text) => plain_instant(text),
            Moment::Whole(number) => unix_instant(*number),
            Moment::Negative | Moment::Fraction(_) => None,
        }
    }

    /// The span, when it is in a form that programs write.
    pub(crate) fn plain_span(&self) -> Option<Millis> {
        match self {
            Moment::Text(text) => plain_span(text),
            Moment::Whole(seconds) => Some(Millis::from_secs(*seconds)),
            Moment::Negative | Moment::Fraction(_) => None,
        }
    }

    /// Understands it as an instant.
    pub(crate) fn instant(
        &self,
        field: &'static str,
        reading: &Reading<'_>,
    ) -> Result<Timestamp, Problem> {
        match self.plain_instant() {
            Some(instant) => Ok(instant),
            None => self.moment(field, reading).map(|understood| understood.instant),
        }
    }

    /// Understands it as one end of a range to be looked through, which may lie in the past.
    pub(crate) fn bound(
        &self,
        field: &'static str,
        reading: &Reading<'_>,
    ) -> Result<Timestamp, Problem> {
        match self.plain_instant() {
            Some(instant) => Ok(instant),
            None => bound(field, &self.clone().into_text(field)?, reading),
        }
    }

    /// Understands it as an instant, and says it back.
    pub(crate) fn moment(
        &self,
        field: &'static str,
        reading: &Reading<'_>,
    ) -> Result<Understood, Problem> {
        let text = self.clone().into_text(field)?;
        understand(field, &text, |text| parse_instant(text, reading.now, reading.zone))
    }

    /// Understands it as how long from now, and says back when that is.
    pub(crate) fn ahead(
        &self,
        field: &'static str,
        reading: &Reading<'_>,
    ) -> Result<Understood, Problem> {
        let text: Cow<'_, str> = match self {
            Moment::Text(text) => text.into(),
            number => format!("{}ms", number.span(field)?.get()).into(),
        };
        understand(field, &text, |text| parse_in(text, reading.now, reading.zone))
    }

    /// As the text that it could have been.
    pub(crate) fn into_text(self, field: &'static str) -> Result<String, Rejection> {
        match self {
            Moment::Text(text) => Ok(text),
            Moment::Whole(number) => Ok(number.to_string()),
            Moment::Negative => Err(Rejection::invalid(field, "must not lie before 1970")),
            Moment::Fraction(_) => {
                let problem = "must be a whole number of seconds or milliseconds, or a text";
                Err(Rejection::invalid(field, problem))
            }
        }
    }

    /// Understands it as a span that is the same everywhere.
    pub(crate) fn span(&self, field: &'static str) -> Result<Millis, Rejection> {
        match self {
            Moment::Text(text) => span(field, text),
            Moment::Whole(seconds) => Ok(Millis::from_secs(*seconds)),
            Moment::Negative => Err(Rejection::invalid(field, "must not be negative")),
            Moment::Fraction(seconds) => seconds_to_millis(field, *seconds),
        }
    }
}

/// Understands a text as one end of a range to be looked through, which may lie in the past.
pub(crate) fn bound(
    field: &'static str,
    text: &str,
    reading: &Reading<'_>,
) -> Result<Timestamp, Problem> {
    match plain_instant(text) {
        Some(instant) => Ok(instant),
        None => understand(field, text, |text| parse_bound(text, reading.now, reading.zone))
            .map(|understood| understood.instant),
    }
}

/// Understands a text as a span that is the same everywhere.
pub(crate) fn span(field: &'static str, text: &str) -> Result<Millis, Rejection> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Rejection::too_long(field, text.len(), TEXT_BYTES_MAX));
    }
    when::parse_span(text).map_err(|problem| {
        let wanted = "must be a span such as 5s, 1h30m, 2 days or PT5M, or a number of seconds";
        Rejection::invalid(field, format!("{wanted}: {problem}"))
    })
}

/// Reads a text with one of the core's readers; its problem is one of this field.
pub(crate) fn understand<T>(
    field: impl Into<Cow<'static, str>>,
    text: &str,
    read: impl FnOnce(&str) -> Result<T, when::Problem>,
) -> Result<T, Problem> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Rejection::too_long(field, text.len(), TEXT_BYTES_MAX).into());
    }
    read(text).map_err(|problem| Problem::not_understood(field, text, problem))
}

/// The span for the runtime's timers.
pub(crate) fn duration(span: Millis) -> Duration {
    Duration::from_millis(span.get())
}

/// The shortest text that reads back as this span.
pub(crate) fn span_text(span: Millis) -> String {
    span.to_string()
}

fn seconds_to_millis(field: &'static str, seconds: f64) -> Result<Millis, Rejection> {
    // Beyond this a double has no milliseconds left.
    const SECONDS_MAX: f64 = 1e12;
    if seconds < 0.0 {
        return Err(Rejection::invalid(field, "must not be negative"));
    }
    if !seconds.is_finite() || seconds > SECONDS_MAX {
        return Err(Rejection::invalid(field, format!("must be at most {SECONDS_MAX} seconds")));
    }
    // To whole microseconds first, then up: 0.1 is a little more than a tenth, and nobody means
    // that little.
    let micros = (seconds * 1_000_000.0).round();
    Ok(Millis::new((micros / 1_000.0).ceil() as u64))
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
            "An instant: RFC 3339, Unix time in seconds (10 digits) or milliseconds (13 digits), \
             or words, read in the zone: `7pm tomorrow`, `next friday at 9am`, `2026-12-24 18:00`",
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
        either("A span: 5s, 1h30m, 2 days, half an hour, PT5M, or a number of seconds", "1h30m")
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
    use hence_core::when::Zone;

    /// 2026-09-10T00:26:40Z, a Thursday.
    const NOW: Timestamp = Timestamp::from_millis(1_789_000_000_000);

    fn moment(json: &str) -> Moment {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn instants_are_told_apart_safely() {
        let zone = Zone::UTC;
        let reading = Reading::new(NOW, &zone);
        let rows: [(&str, Option<i64>); 19] = [
            ("1789000000", Some(1_789_000_000_000)),
            ("1789000000123", Some(1_789_000_000_123)),
            ("\"1789000000\"", Some(1_789_000_000_000)),
            ("\" 1789000000 \"", Some(1_789_000_000_000)),
            ("0", None),
            ("99999999999", None),
            ("100000000000", None),
            ("\"2026-09-10T00:26:40Z\"", Some(1_789_000_000_000)),
            ("\"2026-09-10T02:26:40+02:00\"", Some(1_789_000_000_000)),
            ("\"2026-09-10T00:26:40.0001Z\"", Some(1_789_000_000_001)),
            ("\"2026-09-10T00:26:40\"", Some(1_789_000_000_000)),
            ("\"2026-02-30T00:00:00Z\"", None),
            ("\"in 5 minutes\"", Some(1_789_000_300_000)),
            ("\"9:00 on 11 September\"", Some(1_789_117_200_000)),
            ("\"\"", None),
            ("-1", None),
            ("1.5", None),
            ("1e30", None),
            ("18446744073709551615", None),
        ];
        for (json, expected) in rows {
            let instant = moment(json).instant("at", &reading).ok().map(Timestamp::as_millis);
            assert_eq!(instant, expected, "{json}");
        }
    }

    #[test]
    fn spans_in_every_dress() {
        let zone = Zone::UTC;
        let reading = Reading::new(NOW, &zone);
        let rows: [(&str, Option<u64>); 19] = [
            ("\"5s\"", Some(5_000)),
            ("\"0.0001s\"", Some(1)),
            ("0.0001", Some(1)),
            ("1.0005", Some(1_001)),
            ("\"half an hour\"", Some(1_800_000)),
            ("\"2 days\"", Some(172_800_000)),
            ("\"PT5M\"", Some(300_000)),
            ("\"90\"", Some(90_000)),
            ("90", Some(90_000)),
            ("0.25", Some(250)),
            ("0.1", Some(100)),
            ("0", Some(0)),
            ("\"-5s\"", None),
            ("-5", None),
            ("-0.5", None),
            ("\"P1Y\"", None),
            ("\"soon\"", None),
            ("1e300", None),
            ("\"tomorrow\"", None),
        ];
        for (json, expected) in rows {
            let moment = moment(json);
            assert_eq!(moment.span("in").ok().map(Millis::get), expected, "{json}");
            // Counted from now, a year is one of the calendar.
            if json != "\"P1Y\"" {
                let ahead = moment.ahead("in", &reading).ok();
                let since = ahead.map(|found| found.instant.since(NOW).get());
                assert_eq!(since, expected, "{json} from now");
            }
        }
        assert!(moment("\"P1Y\"").ahead("in", &reading).is_ok());
    }

    #[test]
    fn texts_are_bounded_before_they_are_read() {
        let zone = Zone::UTC;
        let reading = Reading::new(NOW, &zone);
        let long = "9".repeat(TEXT_BYTES_MAX + 1);
        let status = |answer: Result<Timestamp, Problem>| answer.unwrap_err().status().as_u16();
        assert_eq!(status(bound("from", &long, &reading)), 413);
        assert_eq!(status(bound("from", &long[1..], &reading)), 422);
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
