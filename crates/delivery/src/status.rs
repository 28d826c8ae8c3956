//! What an HTTP answer means for the job. Pure: time is an argument.
//!
//! | status | report | why |
//! |---|---|---|
//! | 2xx | succeeded | the receiver has it |
//! | 3xx | failed | redirects are not followed; the URL may be corrected before the next attempt |
//! | 408, 425, 429 | failed | the receiver asks for another attempt |
//! | 410 | failed, permanent | the receiver says that it is gone for good |
//! | other 4xx | failed | a deploy or a new secret mends most, so the job's policy decides |
//! | 5xx | failed | the receiver is unwell |
//! | anything else | failed | not an answer to a request like ours |
//!
//! Every failure but a permanent one honours `Retry-After`; how long a wait may be in the end is
//! for the job's policy to say.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use hence_core::input::Report;
use hence_core::job::Payload;
use hence_core::limits::RETRY_DELAY_MAX;
use hence_core::time::{Millis, Timestamp};
use http::StatusCode;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

use crate::limits;

/// An HTTP answer, as far as it was read.
#[derive(Clone, PartialEq, Debug)]
pub struct HttpAnswer {
    /// Its status.
    pub status: StatusCode,
    /// The wait it asks for, see [`parse_retry_after`].
    pub retry_after: Option<Millis>,
    /// The media type of its body.
    pub content_type: Option<Arc<str>>,
    /// Its body, cut at [`limits::BODY_BYTES_MAX`].
    pub body: Bytes,
}

/// Turns an answer into the report of its delivery, by the table above.
pub fn report(answer: HttpAnswer) -> Report {
    if answer.status.is_success() {
        let result = Payload { bytes: answer.body, content_type: answer.content_type };
        return Report::Succeeded { result: Some(result) };
    }
    let permanent = answer.status == StatusCode::GONE;
    Report::Failed {
        reason: reason(answer.status, &answer.body).into(),
        retry_after: if permanent { None } else { answer.retry_after },
        permanent,
    }
}

/// `answered 503 service unavailable: …`, with the start of the body if there is one.
fn reason(status: StatusCode, body: &[u8]) -> String {
    let mut text = format!("answered {}", status.as_u16());
    if let Some(phrase) = status.canonical_reason() {
        let _ = write!(text, " {}", phrase.to_ascii_lowercase());
    }
    if status.is_redirection() {
        text.push_str(", redirects are not followed");
    }
    let excerpt = excerpt(body);
    if !excerpt.is_empty() {
        let _ = write!(text, ": {excerpt}");
    }
    text
}

/// A reason without what the receiver said, which may repeat what it was sent, secrets included:
/// so it can be logged. Other reasons are as they were, also those that quote one of these.
pub fn without_excerpt(reason: &str) -> &str {
    let excerpt = reason.find("answered ").and_then(|at| Some(at + reason[at..].find(": ")?));
    excerpt.map_or(reason, |at| &reason[..at])
}

/// The first characters of a body on one line. What a terminal or a log could take for a command
/// is escaped: control characters, and the marks that change the direction of writing.
fn excerpt(body: &[u8]) -> String {
    // A character has at most four bytes: no need to look at more.
    let start = &body[..body.len().min(limits::EXCERPT_CHARS_MAX * 4)];
    let text = String::from_utf8_lossy(start);
    let mut shown = String::new();
    for c in text.trim().chars().take(limits::EXCERPT_CHARS_MAX) {
        if c.is_control() || turns_text(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Whether it would turn or break the line it is shown in.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The wait that a `Retry-After` asks for: seconds or an HTTP date. A date in the past means at
/// once, a wait beyond [`RETRY_DELAY_MAX`] is cut to it, and what is neither is no wish at all.
///
/// ```
/// use hence_core::time::{Millis, Timestamp};
/// use hence_delivery::status::{parse_http_date, parse_retry_after};
///
/// let now = parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
/// assert_eq!(parse_retry_after("120", now), Some(Millis::from_secs(120)));
/// let date = "Sun, 06 Nov 1994 08:50:07 GMT";
/// assert_eq!(parse_retry_after(date, now), Some(Millis::from_secs(30)));
/// assert_eq!(parse_retry_after("soon", now), None);
/// ```
pub fn parse_retry_after(value: &str, now: Timestamp) -> Option<Millis> {
    let value = value.trim();
    let wait = if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        // Digits that do not fit are a very long wait, not a broken one.
        Millis::from_secs(value.parse().unwrap_or(u64::MAX))
    } else {
        parse_http_date(value)?.since(now)
    };
    Some(wait.min(RETRY_DELAY_MAX))
}

/// An HTTP date (RFC 9110, section 5.6.7), in today's form or in one of the two old ones that a
/// recipient must still accept.
pub fn parse_http_date(value: &str) -> Option<Timestamp> {
    const FORMS: [&str; 3] =
        ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    let date = FORMS.iter().find_map(|form| {
        let civil = strtime::parse(form, value.trim()).ok()?.to_datetime().ok()?;
        civil.to_zoned(TimeZone::UTC).ok()
    })?;
    Some(Timestamp::from_millis(date.timestamp().as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &'static [u8]) -> HttpAnswer {
        HttpAnswer {
            status: StatusCode::from_u16(status).expect("a status"),
            retry_after: Some(Millis::from_secs(7)),
            content_type: None,
            body: Bytes::from_static(body),
        }
    }

    /// A receiver that answers with what it was sent brought payloads and secrets into the log.
    #[test]
    fn what_a_receiver_said_can_be_left_out() {
        for status in [StatusCode::INTERNAL_SERVER_ERROR, StatusCode::FOUND, StatusCode::NOT_FOUND]
        {
            let (said, silent) = (reason(status, b"Bearer x: y"), reason(status, b""));
            assert!(said.contains("Bearer"), "{said}");
            assert_eq!(without_excerpt(&said), silent);
            assert_eq!(without_excerpt(&silent), silent);
            let quoted = format!("it is too old: {said}");
            assert_eq!(without_excerpt(&quoted), format!("it is too old: {silent}"));
        }
        let other = "cannot connect: connection refused";
        assert_eq!(without_excerpt(other), other);
    }

    #[test]
    fn every_status_means_what_the_table_says() {
        let retry = Some(Millis::from_secs(7));
        for status in 100..=999 {
            match report(answer(status, b"")) {
                Report::Succeeded { .. } => assert!((200..300).contains(&status), "{status}"),
                Report::Failed { retry_after, permanent, reason } => {
                    assert!(!(200..300).contains(&status), "{status}");
                    assert_eq!(permanent, status == 410, "{status}");
                    assert_eq!(retry_after, if permanent { None } else { retry }, "{status}");
                    assert!(reason.starts_with(&format!("answered {status}")), "{reason}");
                }
                other => panic!("{status}: {other:?}"),
            }
        }
    }

    #[test]
    fn the_reason_names_status_and_body() {
        let rows: [(u16, &[u8], &str); 6] = [
            (503, b"", "answered 503 service unavailable"),
            (500, b" database gone\n", "answered 500 internal server error: database gone"),
            (302, b"", "answered 302 found, redirects are not followed"),
            (599, b"a\x1b[31m\r\nb", "answered 599: a\\u{1b}[31m\\r\\nb"),
            (400, b"\xff\xfe", "answered 400 bad request: \u{fffd}\u{fffd}"),
            (400, "x\u{202e}y".as_bytes(), "answered 400 bad request: x\\u{202e}y"),
        ];
        for (status, body, expected) in rows {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(reason(status, body), expected);
        }
        let long = "ä".repeat(1000);
        assert_eq!(excerpt(long.as_bytes()), "ä".repeat(limits::EXCERPT_CHARS_MAX));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        // Sun, 06 Nov 1994 08:49:37 GMT
        let date = 784_111_777_000;
        let now = Timestamp::from_millis(date - 90_000);
        let rows: [(&str, Option<Millis>); 14] = [
            ("120", Some(Millis::from_secs(120))),
            (" 0 ", Some(Millis::ZERO)),
            ("99999999999999999999999", Some(RETRY_DELAY_MAX)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(Millis::from_secs(90))),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(Millis::from_secs(90))),
            ("Sun Nov  6 08:49:37 1994", Some(Millis::from_secs(90))),
            ("Sat, 05 Nov 1994 08:49:37 GMT", Some(Millis::ZERO)),
            ("Thu, 31 Dec 9998 23:59:59 GMT", Some(RETRY_DELAY_MAX)),
            ("Sun, 06 Nov 1994 08:49:37 CET", None),
            ("Sun, 31 Feb 1994 08:49:37 GMT", None),
            ("-5", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ];
        for (value, expected) in rows {
            assert_eq!(parse_retry_after(value, now), expected, "{value:?}");
        }
    }
}
