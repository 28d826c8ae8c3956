//! Refusals as RFC 9457 problem documents: what is wrong, where, and what to do about it.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use hence::Error;
use hence_core::error::Rejection;
use hence_core::when;
use hence_store::ErrorKind;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use super::kinds::{self, Kind};

/// A refusal on its way to the caller.
#[derive(Clone, Debug)]
pub(crate) struct Problem(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    kind: Kind,
    detail: Cow<'static, str>,
    field: Option<Cow<'static, str>>,
    fix: Option<String>,
    place: Option<(usize, usize)>,
    limit: Option<usize>,
    retry_after: Option<u32>,
    unread: Option<Unread>,
}

/// A text that was not understood.
#[derive(Clone, Debug)]
struct Unread {
    text: String,
    problem: when::Problem,
}

/// A problem document, as RFC 9457 describes it.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemOut {
    /// What kind of problem it is: a stable URI reference, explained where it points.
    #[schema(example = "/docs/errors#invalid-value")]
    r#type: String,
    /// The kind in words.
    #[schema(example = "a value cannot be accepted")]
    title: &'static str,
    /// The HTTP status.
    #[schema(example = 422)]
    pub(crate) status: u16,
    /// What is wrong with this request.
    #[schema(example = "timeout must be between 10ms and 1d")]
    detail: String,
    /// The field of the body, the parameter or the header that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "timeout")]
    field: Option<String>,
    /// What to do about it.
    fix: String,
    /// Where a body stops being JSON: the line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// Where a body stops being JSON: the column, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    /// The text that was not understood.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "friday at 3")]
    text: Option<String>,
    /// Where in that text the problem begins: the character, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<usize>,
    /// The character before which it ends; where something is missing, the same as the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<usize>,
    /// What could have been meant: texts that would be understood, the likeliest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(example = json!(["friday at 3am", "friday at 3pm"]))]
    candidates: Vec<String>,
    /// The limit that was passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<usize>,
    /// Seconds after which trying again makes sense.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u32>,
}

impl Problem {
    /// A problem of this kind; `detail` says what is wrong with this request.
    pub(crate) fn new(kind: Kind, detail: impl Into<Cow<'static, str>>) -> Self {
        Problem(Box::new(Parts {
            kind,
            detail: detail.into(),
            field: None,
            fix: None,
            place: None,
            limit: None,
            retry_after: None,
            unread: None,
        }))
    }

    /// A text in this field is not understood: where, why, and what could have been meant.
    pub(crate) fn not_understood(
        field: impl Into<Cow<'static, str>>,
        text: &str,
        problem: when::Problem,
    ) -> Self {
        let field = field.into();
        let trouble = if problem.is_out_of_range { "is out of range" } else { "is not understood" };
        let detail = format!("{field} {trouble}: {}", problem.message);
        let fix = match problem.candidates.as_slice() {
            [] if problem.is_out_of_range => OUT_OF_RANGE.to_owned(),
            [] => examples(&field).to_owned(),
            [only] => format!("say `{only}`"),
            several => format!("say one of `{}`", several.join("`, `")),
        };
        let mut document = Problem::new(kinds::INVALID, detail).field(field).fix(fix);
        document.0.unread = Some(Unread { text: text.to_owned(), problem });
        document
    }

    /// In this field.
    pub(crate) fn field(mut self, field: impl Into<Cow<'static, str>>) -> Self {
        self.0.field = Some(field.into());
        self
    }

    /// Whether it is of this kind, and about one of these fields.
    pub(crate) fn is_about(&self, kind: Kind, fields: &[&str]) -> bool {
        self.0.kind == kind && self.0.field.as_deref().is_some_and(|field| fields.contains(&field))
    }

    /// With a better advice than the kind's.
    pub(crate) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.0.fix = Some(fix.into());
        self
    }

    /// This limit was passed.
    pub(crate) fn limit(mut self, limit: usize) -> Self {
        self.0.limit = Some(limit);
        self
    }

    /// Trying again makes sense after so many seconds.
    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.0.retry_after = Some(seconds);
        self
    }

    /// The status it is answered with.
    pub(crate) fn status(&self) -> StatusCode {
        self.0.kind.status
    }

    /// What is wrong, and what to do about it.
    pub(crate) fn in_words(&self) -> (&str, &str) {
        (&self.0.detail, self.0.fix.as_deref().unwrap_or(self.0.kind.fix))
    }

    /// The document.
    pub(crate) fn into_document(self) -> ProblemOut {
        let Parts { kind, detail, field, fix, place, limit, retry_after, unread } = *self.0;
        let (start, end) = unread.as_ref().map(Unread::characters).unzip();
        let (text, candidates) =
            unread.map(|unread| (unread.text, unread.problem.candidates)).unzip();
        ProblemOut {
            r#type: format!("/docs/errors#{}", kind.name),
            title: kind.title,
            status: kind.status.as_u16(),
            detail: detail.into_owned(),
            field: field.map(Cow::into_owned),
            fix: fix.unwrap_or_else(|| kind.fix.to_owned()),
            line: place.map(|(line, _)| line),
            column: place.map(|(_, column)| column),
            text,
            start,
            end,
            candidates: candidates.unwrap_or_default(),
            limit,
            retry_after,
        }
    }

    /// At this place of the body.
    pub(crate) fn place(mut self, line: usize, column: usize) -> Self {
        self.0.place = (line > 0).then_some((line, column));
        self
    }
}

/// What to do about a time that was understood, and at which nothing may be due.
const OUT_OF_RANGE: &str = "choose a time between 1970 and 200 years from now";

/// What would be understood in this field, for whoever was not understood at all.
fn examples(field: &str) -> &'static str {
    match field {
        "in" => "say it like `5 minutes`, `1h30m` or `2 days`",
        "from" | "until" | "to" | "filter.from" | "filter.until" => {
            "say it like `1 hour ago`, `yesterday 7pm`, `2026-12-24 18:00` or RFC 3339"
        }
        "zone" => "name a place, `UTC` or an offset: `Europe/Paris`, `+02:00`",
        "holidays" => "write dates with names, one a line, or whole-day events of iCalendar",
        field if field.starts_with("when") => {
            "say it like `every weekday at 9am`, `every 15 minutes` or `0 9 * * MON-FRI`"
        }
        _ => "say it like `7pm tomorrow`, `in 2 hours`, `2026-12-24 18:00` or RFC 3339",
    }
}

impl Unread {
    /// The place, counted as most languages count: in characters, not in bytes.
    fn characters(&self) -> (usize, usize) {
        let before =
            |bytes: usize| self.text.char_indices().take_while(|(place, _)| *place < bytes).count();
        (before(self.problem.span.start), before(self.problem.span.end))
    }
}

/// This field must be something, and is something else.
pub(crate) fn must(field: &str, what: &str, found: Option<&str>) -> Problem {
    let detail = match found {
        Some(found) => format!("{field} must {what}, not {found}"),
        None => format!("{field} must {what}"),
    };
    let fix = format!("correct `{field}`: it must {what}");
    Problem::new(kinds::INVALID, detail).field(field.to_owned()).fix(fix)
}

/// What to do about a problem of a field: its sentence says what must be, or ends with what helps.
pub(crate) fn advice(field: &str, problem: &str) -> Option<String> {
    if let Some((_, helps)) = problem.rsplit_once("; ") {
        return Some(helps.to_owned());
    }
    if let Some((_, missing)) = problem.rsplit_once(", but there is no ") {
        return Some(format!("add `{missing}`, or leave `{field}` out"));
    }
    let what = problem.strip_prefix("must ")?;
    Some(format!("correct `{field}`: it must {what}"))
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let detail = rejection.to_string();
        match rejection {
            Rejection::Invalid { field, problem } => {
                let fix = advice(&field, &problem);
                let document = Problem::new(kinds::INVALID, detail).field(field);
                fix.into_iter().fold(document, Problem::fix)
            }
            Rejection::TooLarge { field, max, unit, .. } => {
                let fix = format!("shorten `{field}`: at most {max} {unit} are allowed");
                Problem::new(kinds::TOO_LARGE, detail).field(field).limit(max).fix(fix)
            }
            Rejection::ExpiresBeforeDue { .. } => {
                let fix = "let it expire after it is due, or be due earlier";
                Problem::new(kinds::INVALID, detail).field("expires_at").fix(fix)
            }
            Rejection::NoSuchJob => Problem::new(kinds::NO_SUCH_JOB, detail),
            Rejection::NoSuchSchedule => Problem::new(kinds::NO_SUCH_SCHEDULE, detail),
            Rejection::NoSuchQueue => Problem::new(kinds::NO_SUCH_QUEUE, detail),
            Rejection::QueueInUse { .. } => Problem::new(kinds::QUEUE_IN_USE, detail),
            Rejection::JobExists => Problem::new(kinds::JOB_EXISTS, detail).field("id"),
            Rejection::IdempotencyMismatch => {
                Problem::new(kinds::IDEMPOTENCY_MISMATCH, detail).field("Idempotency-Key")
            }
            Rejection::WrongState { .. } => Problem::new(kinds::WRONG_STATE, detail),
            Rejection::StaleToken => Problem::new(kinds::STALE_TOKEN, detail).field("token"),
            Rejection::QueuePaused { .. } => {
                Problem::new(kinds::QUEUE_PAUSED, detail).field("queue").retry_after(10)
            }
            Rejection::QueueFull { max, .. } => Problem::new(kinds::QUEUE_FULL, detail)
                .field("queue")
                .limit(usize::try_from(max).unwrap_or(usize::MAX))
                .retry_after(1),
            Rejection::TooMany { max, .. } => Problem::new(kinds::TOO_MANY, detail).limit(max),
            Rejection::StoreFull => Problem::new(kinds::STORE_FULL, detail).retry_after(10),
            Rejection::Draining => Problem::new(kinds::DRAINING, detail).retry_after(5),
        }
    }
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        match error {
            Error::Rejected(rejection) => rejection.clone().into(),
            Error::Busy => Problem::new(kinds::BUSY, error.to_string()).retry_after(1),
            Error::Stopped => Problem::new(kinds::UNAVAILABLE, error.to_string()).retry_after(5),
            Error::Store(failure) => from_store(failure),
            Error::Json(failure) => Problem::new(kinds::INTERNAL, failure.to_string()),
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Problem::from(&error)
    }
}

/// Paths and offsets of the store are for the operator's log, not for every caller.
fn from_store(failure: &hence_store::StoreError) -> Problem {
    tracing::error!(error = %failure, kind = ?failure.kind(), "the store failed");
    match failure.kind() {
        ErrorKind::Unavailable => {
            Problem::new(kinds::UNAVAILABLE, "the store cannot be reached").retry_after(1)
        }
        ErrorKind::Full => Problem::new(kinds::STORE_FULL, "the store is full").retry_after(10),
        _ => {
            Problem::new(kinds::STORE_FAILED, "the store failed; the server's log has the details")
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status();
        let retry_after = self.0.retry_after;
        let document = serde_json::to_vec(&self.into_document()).unwrap_or_default();
        let mut response = (status, document).into_response();
        let headers = response.headers_mut();
        let media = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, media);
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"hence\"");
            headers.insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hence_core::time::Timestamp;

    #[test]
    fn every_rejection_has_its_status() {
        let text = |s: &str| s.to_owned();
        let rows = [
            (Rejection::invalid("at", "is wrong"), 422),
            (Rejection::ExpiresBeforeDue { expires_at: Timestamp::EPOCH }, 422),
            (Rejection::too_long("id", 2, 1), 413),
            (Rejection::NoSuchJob, 404),
            (Rejection::NoSuchSchedule, 404),
            (Rejection::NoSuchQueue, 404),
            (Rejection::JobExists, 409),
            (Rejection::IdempotencyMismatch, 409),
            (Rejection::WrongState { state: "dead", hint: "replay it" }, 409),
            (Rejection::StaleToken, 409),
            (Rejection::QueuePaused { queue: text("q") }, 503),
            (Rejection::QueueFull { queue: text("q"), max: 1 }, 429),
            (Rejection::QueueInUse { queue: text("q"), pending: 1, running: 0, dead: 0 }, 409),
            (Rejection::TooMany { what: "queues", max: 1 }, 429),
            (Rejection::StoreFull, 507),
            (Rejection::Draining, 503),
        ];
        for (rejection, status) in rows {
            let retryable = Error::from(rejection.clone()).is_retryable();
            let response = Problem::from(rejection.clone()).into_response();
            assert_eq!(response.status().as_u16(), status, "{rejection:?}");
            let says_when = response.headers().contains_key(header::RETRY_AFTER);
            assert_eq!(says_when, retryable, "{rejection:?}");
        }
        assert_eq!(Problem::from(Error::Busy).status().as_u16(), 503);
    }

    #[test]
    fn the_fix_says_what_must_be_or_what_helps() {
        let rows = [
            ("must be between 1 and 9", Some("correct `f`: it must be between 1 and 9")),
            ("is no token; use the right one", Some("use the right one")),
            ("says what x is, but there is no x", Some("add `x`, or leave `f` out")),
            ("is wrong", None),
        ];
        for (problem, fix) in rows {
            assert_eq!(advice("f", problem).as_deref(), fix, "{problem}");
        }
    }
}
