//! Turns a delivery into an HTTP request. Pure.
//!
//! The producer's headers go first and as they are; ours never give way (a producer who could set
//! them could forge a token), except for three defaults that a producer may know better:
//! `content-type`, `idempotency-key` and `user-agent`.
//!
//! | header | value |
//! |---|---|
//! | `hence-job-id` | the job's id |
//! | `hence-queue` | its queue |
//! | `hence-key` | its key, if it has one |
//! | `hence-delivery-id` | the same in all attempts of this job, different for all other jobs |
//! | `idempotency-key` | the same as `hence-delivery-id` |
//! | `hence-token` | grows with every attempt; refuse one older than you have seen |
//! | `hence-attempt` | which attempt this is, from 1 |
//! | `hence-due-at` | when this attempt was due, RFC 3339 |
//! | `hence-scheduled-for` | when the job was to run at first, RFC 3339 |
//! | `hence-schedule` | the schedule that made it, if one did |
//!
//! Ids and keys may be any text: what is not visible ASCII, and `%` itself, is percent-encoded.

use std::fmt::{Display, Write as _};

use bytes::{Bytes, BytesMut};
use hence_core::effect::Delivery;
use hence_core::job::HttpTarget;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, Uri};
use http_body_util::Full;

const JOB_ID: HeaderName = HeaderName::from_static("hence-job-id");
const QUEUE: HeaderName = HeaderName::from_static("hence-queue");
const KEY: HeaderName = HeaderName::from_static("hence-key");
const DELIVERY_ID: HeaderName = HeaderName::from_static("hence-delivery-id");
const TOKEN: HeaderName = HeaderName::from_static("hence-token");
const ATTEMPT: HeaderName = HeaderName::from_static("hence-attempt");
const DUE_AT: HeaderName = HeaderName::from_static("hence-due-at");
const SCHEDULED_FOR: HeaderName = HeaderName::from_static("hence-scheduled-for");
const SCHEDULE: HeaderName = HeaderName::from_static("hence-schedule");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const AGENT: HeaderValue = HeaderValue::from_static(concat!("hence/", env!("CARGO_PKG_VERSION")));

/// All our header values together are mostly shorter than this; one allocation holds them.
const VALUES_BYTES: usize = 384;

/// A target that no attempt can reach, whatever the receiver does. Says nothing of the values:
/// they may hold secrets.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unsendable {
    #[error("the url is not valid: {0}")]
    Url(#[from] http::uri::InvalidUri),
    #[error("the method is not valid")]
    Method(#[from] http::method::InvalidMethod),
    #[error("a header name is not valid")]
    HeaderName(#[from] http::header::InvalidHeaderName),
    #[error("a header value is not valid")]
    HeaderValue(#[from] http::header::InvalidHeaderValue),
}

/// The request for this delivery.
pub(crate) fn build(
    target: &HttpTarget,
    delivery: &Delivery,
) -> Result<Request<Full<Bytes>>, Unsendable> {
    let mut request = Request::new(Full::new(delivery.job.payload.bytes.clone()));
    *request.method_mut() = Method::from_bytes(target.method.as_bytes())?;
    *request.uri_mut() = Uri::try_from(target.url.as_str())?;
    let mut headers = HeaderMap::with_capacity(target.headers.len() + 16);
    for (name, value) in &target.headers {
        headers
            .append(HeaderName::try_from(name.as_str())?, HeaderValue::try_from(value.as_str())?);
    }
    add_ours(&mut headers, delivery)?;
    // A client says nothing of a body that is empty. Where one is usual, some receivers insist.
    let usual = matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH);
    if usual && delivery.job.payload.bytes.is_empty() {
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    *request.headers_mut() = headers;
    Ok(request)
}

fn add_ours(headers: &mut HeaderMap, delivery: &Delivery) -> Result<(), Unsendable> {
    let Delivery { job, lease, due_at } = delivery;
    let mut values = Values(BytesMut::with_capacity(VALUES_BYTES));
    let delivery_id = values.make(delivery_id(delivery))?;
    headers.insert(JOB_ID, values.make(Encoded(job.name.id.as_str(), VISIBLE))?);
    headers.insert(QUEUE, values.make(&job.name.queue)?);
    if let Some(key) = &job.name.key {
        headers.insert(KEY, values.make(Encoded(key.as_str(), VISIBLE))?);
    }
    headers.insert(DELIVERY_ID, delivery_id.clone());
    headers.insert(TOKEN, values.make(lease.token)?);
    headers.insert(ATTEMPT, values.make(lease.attempt)?);
    headers.insert(DUE_AT, values.make(due_at)?);
    headers.insert(SCHEDULED_FOR, values.make(job.scheduled_for)?);
    if let Some(occurrence) = &job.occurrence {
        headers.insert(SCHEDULE, values.make(&occurrence.schedule)?);
    }
    headers.entry(IDEMPOTENCY_KEY).or_insert(delivery_id);
    headers.entry(USER_AGENT).or_insert(AGENT);
    if let Some(content_type) = &job.payload.content_type
        && !headers.contains_key(CONTENT_TYPE)
    {
        headers.insert(CONTENT_TYPE, values.make(content_type)?);
    }
    Ok(())
}

/// `queue/key/id#number`: the name says which job it is, the number which one of that name. The
/// parts are encoded so that no two names make the same text.
fn delivery_id(delivery: &Delivery) -> impl Display {
    std::fmt::from_fn(|f| {
        let name = &delivery.job.name;
        write!(f, "{}/", Encoded(name.queue.as_str(), PART))?;
        if let Some(key) = &name.key {
            write!(f, "{}/", Encoded(key.as_str(), PART))?;
        }
        write!(f, "{}#{}", Encoded(name.id.as_str(), PART), delivery.job.number.0)
    })
}

/// Header values, cut one after the other from one allocation.
struct Values(BytesMut);

impl Values {
    fn make(&mut self, value: impl Display) -> Result<HeaderValue, Unsendable> {
        // Writing to memory cannot fail, and a short value would be refused just below.
        let _ = write!(self.0, "{value}");
        Ok(HeaderValue::from_maybe_shared(self.0.split().freeze())?)
    }
}

/// Text with everything but some bytes percent-encoded.
struct Encoded<'a>(&'a str, fn(u8) -> bool);

const VISIBLE: fn(u8) -> bool = |b| b.is_ascii_graphic() && b != b'%';
const PART: fn(u8) -> bool = |b| VISIBLE(b) && b != b'/' && b != b'#';

impl Display for Encoded<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Encoded(mut rest, plain) = *self;
        while let Some(at) = rest.bytes().position(|b| !plain(b)) {
            // Encoded bytes of a character go together, so the cut is at a boundary.
            let width = rest[at..].chars().next().map_or(1, char::len_utf8);
            f.write_str(&rest[..at])?;
            for byte in rest[at..at + width].bytes() {
                write!(f, "%{byte:02X}")?;
            }
            rest = &rest[at + width..];
        }
        f.write_str(rest)
    }
}
