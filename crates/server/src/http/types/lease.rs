//! Pulling work and saying how it went, on the wire.

use hence::client::LeaseRequest;
use hence_core::effect::Delivery;
use hence_core::error::Rejection;
use hence_core::id::{Key, QueueName, WorkerName};
use hence_core::input::Nack;
use hence_core::job::{Lease, Payload};
use hence_core::time::Millis;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::Stamp;
use super::object::Object;
use super::payload::{Inline, PayloadIn};
use super::rules;
use crate::http::errors::{Problem, ProblemOut};
use crate::http::when::{self, Moment};
use crate::limits;

/// A worker asking for jobs.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LeaseRequest)]
pub(crate) struct LeaseIn<'a> {
    /// Who asks; shown in the list of leases.
    #[schema(value_type = Option<rules::WorkerName>)]
    worker: Option<String>,
    /// From which queues, most important first.
    #[schema(value_type = Option<Vec<rules::QueueName>>, min_items = 1, max_items = 100)]
    queues: Option<Vec<String>>,
    /// From which queue, when it is one; `default` when neither is given.
    #[schema(value_type = Option<rules::QueueName>)]
    queue: Option<String>,
    /// How many jobs at most; 1 when not given.
    #[schema(minimum = 1, maximum = 1000)]
    max: Option<u32>,
    /// For how long; each job's own timeout when not given.
    #[schema(value_type = Option<when::SpanIn>)]
    lease: Option<Moment>,
    /// How long to wait when there is nothing to do; not at all when not given, at most 5 minutes.
    #[schema(value_type = Option<when::SpanIn>)]
    wait: Option<Moment>,
    /// Jobs that are done, at most 1000: finished first, and in the same step. With any of them
    /// the answer comes at once, whatever `wait` says.
    #[serde(borrow, default)]
    #[schema(value_type = Vec<TokenAckIn<'a>>, max_items = 1000)]
    acks: Vec<Object<TokenAckIn<'a>>>,
}

impl<'a> LeaseIn<'a> {
    /// The jobs to be finished first, and the request for the library.
    pub(crate) fn split(
        mut self,
    ) -> Result<(Vec<Object<TokenAckIn<'a>>>, LeaseRequest), Rejection> {
        let acks = std::mem::take(&mut self.acks);
        Ok((acks, self.into_request()?))
    }

    fn into_request(self) -> Result<LeaseRequest, Rejection> {
        let queues = match (self.queues, self.queue) {
            (Some(_), Some(_)) => {
                return Err(Rejection::invalid(
                    "queue",
                    "and queues cannot both be given; give one",
                ));
            }
            (Some(names), None) => {
                let max = hence_core::limits::LEASE_QUEUES_MAX;
                if names.len() > max {
                    return Err(Rejection::too_many_in("queues", names.len(), max));
                }
                let queue = |(index, name): (usize, &String)| {
                    let named = |_: &str| format!("queues[{index}]");
                    QueueName::new(name).map_err(|rejection| rejection.renamed(named))
                };
                names.iter().enumerate().map(queue).collect::<Result<_, _>>()?
            }
            (None, Some(name)) => vec![QueueName::new(&name)?],
            (None, None) => vec![QueueName::default_queue()],
        };
        let wait = self.wait.map(|wait| wait.span("wait")).transpose()?.unwrap_or_default();
        Ok(LeaseRequest {
            worker: WorkerName::new(self.worker.as_deref().unwrap_or("anonymous"))?,
            queues,
            max: self.max.unwrap_or(limits::LEASE_JOBS_DEFAULT),
            lease: self.lease.map(lease_span).transpose()?,
            wait: long_poll("wait", wait)?,
        })
    }
}

/// A time to wait, within what a connection can be expected to survive.
pub(crate) fn long_poll(
    field: &'static str,
    span: Millis,
) -> Result<std::time::Duration, Rejection> {
    let wait = when::duration(span);
    if wait > limits::LONG_POLL_MAX {
        return Err(Rejection::invalid(field, "must be at most 5 minutes; ask again after it"));
    }
    Ok(wait)
}

fn lease_span(moment: Moment) -> Result<Millis, Rejection> {
    let span = moment.span("lease")?;
    Lease::check_span(span)?;
    Ok(span)
}

/// A longer lease.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Extension)]
pub(crate) struct ExtendIn {
    /// For how long from now.
    #[schema(value_type = when::SpanIn)]
    lease: Moment,
}

impl ExtendIn {
    /// The span, within its limits.
    pub(crate) fn into_span(self) -> Result<Millis, Rejection> {
        lease_span(self.lease)
    }
}

/// The job is done.
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
#[schema(as = Ack)]
pub(crate) struct AckIn<'a> {
    /// What came of it, as any JSON value; kept when the job asked for it.
    #[serde(borrow)]
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<&'a RawValue>,
    /// What came of it, as text.
    result_text: Option<String>,
    /// What came of it, as base64 of any bytes.
    result_base64: Option<String>,
    /// The media type of the result.
    content_type: Option<String>,
}

impl AckIn<'_> {
    /// The result, when there is one.
    pub(crate) fn into_result(self) -> Result<Option<Payload>, Rejection> {
        let payload = PayloadIn {
            json: self.result,
            text: self.result_text,
            base64: self.result_base64,
            content_type: self.content_type,
            field: "result",
        };
        let payload = payload.into_payload()?;
        if let Some(payload) = &payload {
            payload.check("result", hence_core::limits::RESULT_BYTES_MAX)?;
        }
        Ok(payload)
    }
}

/// Jobs that are done.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Acks)]
pub(crate) struct AcksIn<'a> {
    /// Each with its token; at most 1000.
    #[serde(borrow)]
    #[schema(value_type = Vec<TokenAckIn<'a>>, min_items = 1, max_items = 1000)]
    pub(crate) acks: Vec<Object<TokenAckIn<'a>>>,
}

/// One of several jobs that are done.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TokenAck)]
pub(crate) struct TokenAckIn<'a> {
    /// The token of its lease.
    #[schema(value_type = rules::LeaseToken)]
    pub(crate) token: String,
    /// What came of it, as any JSON value.
    #[serde(borrow)]
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<&'a RawValue>,
    /// What came of it, as text.
    result_text: Option<String>,
    /// What came of it, as base64 of any bytes.
    result_base64: Option<String>,
    /// The media type of the result.
    content_type: Option<String>,
}

impl<'a> TokenAckIn<'a> {
    /// The token and the rest.
    pub(crate) fn split(self) -> (String, AckIn<'a>) {
        let TokenAckIn { token, result, result_text, result_base64, content_type } = self;
        (token, AckIn { result, result_text, result_base64, content_type })
    }
}

/// The job is not done.
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
#[schema(as = Nack)]
pub(crate) struct NackIn {
    /// How it goes on; `retry` when not given.
    how: Option<NackHow>,
    /// With `retry`: not before this time from now. With `release`: after this time from
    /// now; when not given, at once and at its old place in the queue.
    #[schema(value_type = Option<when::SpanIn>)]
    delay: Option<Moment>,
    /// Why, for people.
    pub(crate) reason: Option<String>,
}

/// How a job that was not done goes on.
#[derive(Deserialize, ToSchema, Clone, Copy)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NackHow {
    /// As a failed attempt, by the job's retry policy.
    Retry,
    /// Given back: the attempt does not count.
    Release,
    /// No further attempt: the job is dead.
    Dead,
}

impl NackIn {
    /// The core's word for it.
    pub(crate) fn how(&self) -> Result<Nack, Rejection> {
        let delay = self.delay.as_ref().map(|delay| delay.span("delay")).transpose()?;
        match (self.how.unwrap_or(NackHow::Retry), delay) {
            (NackHow::Retry, delay) => Ok(Nack::Retry { delay }),
            (NackHow::Release, delay) => Ok(Nack::Release { delay: delay.unwrap_or_default() }),
            (NackHow::Dead, None) => Ok(Nack::Dead),
            (NackHow::Dead, Some(_)) => {
                Err(Rejection::invalid("delay", "makes no sense for a dead job; leave it out"))
            }
        }
    }
}

/// A job handed out.
#[derive(Serialize, ToSchema)]
#[schema(as = LeasedJob)]
pub(crate) struct LeasedOut<'a> {
    /// Say it with every ack, nack and extension: it proves the lease.
    #[schema(example = "0.1.42")]
    token: String,
    /// Which attempt this is, from 1.
    attempt: u32,
    /// How many attempts it has in all: the last one when both are the same.
    max_attempts: u32,
    /// When the lease ends unless it is extended.
    until: Stamp,
    /// The same in Unix milliseconds.
    until_ms: i64,
    /// The queue it is in.
    queue: &'a str,
    /// The key it runs under.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    /// Its id within the two.
    id: &'a str,
    /// The order of submission.
    number: u64,
    /// When it was due.
    due_at: Stamp,
    /// When it was to run at first.
    scheduled_for: Stamp,
    /// The payload, when it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<&'a RawValue>,
    /// The payload, when it is other text.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<&'a str>,
    /// The payload, when it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    /// The media type of the payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    /// The schedule that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<&'a str>,
}

impl<'a> From<&'a Delivery> for LeasedOut<'a> {
    fn from(delivery: &'a Delivery) -> Self {
        let (job, lease) = (&*delivery.job, &delivery.lease);
        let Inline { json, text, base64 } = Inline::of(&job.payload);
        LeasedOut {
            token: lease.token.to_string(),
            attempt: lease.attempt,
            max_attempts: job.retry.max_attempts,
            until: lease.until.into(),
            until_ms: lease.until.as_millis(),
            queue: job.name.queue.as_str(),
            key: job.name.key.as_ref().map(Key::as_str),
            id: job.name.id.as_str(),
            number: job.number.0,
            due_at: delivery.due_at.into(),
            scheduled_for: job.scheduled_for.into(),
            payload: json,
            payload_text: text,
            payload_base64: base64,
            content_type: job.payload.content_type.as_deref(),
            schedule: job.occurrence.as_ref().map(|tick| tick.schedule.as_str()),
        }
    }
}

/// Jobs handed out; none when there were none in time.
#[derive(Serialize, ToSchema)]
#[schema(as = LeasedJobs)]
pub(crate) struct LeasedJobsOut<'a> {
    /// The jobs, in the order in which they are to be done.
    pub(crate) jobs: Vec<LeasedOut<'a>>,
    /// What came of the acks, when there were some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) acks: Option<AckedOut>,
}

/// What came of the acks that went ahead of a lease.
#[derive(Serialize, ToSchema)]
#[schema(as = Acked)]
pub(crate) struct AckedOut {
    /// How many were recorded.
    pub(crate) done: usize,
    /// Those that were refused.
    pub(crate) refused: Vec<AckItem>,
}

/// The answer to one ack of many.
#[derive(Serialize, ToSchema)]
#[schema(as = AckAnswer)]
pub(crate) struct AckItem {
    /// The token it was for.
    token: String,
    /// The status it would have had alone.
    status: u16,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ProblemOut>,
}

impl AckItem {
    pub(crate) fn new(token: String, answer: Result<(), hence::Error>) -> Self {
        match answer {
            Ok(()) => AckItem { token, status: StatusCode::NO_CONTENT.as_u16(), error: None },
            Err(error) => {
                let document = Problem::from(error).into_document();
                AckItem { token, status: document.status, error: Some(document) }
            }
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.error.is_none()
    }
}

/// A lease, to look at: who holds what, since when, until when.
#[derive(Serialize, ToSchema)]
#[schema(as = HeldLease)]
pub(crate) struct HeldOut<'a> {
    /// The queue of the job.
    queue: &'a str,
    /// The key of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    /// The id of the job.
    id: &'a str,
    /// Its token.
    token: String,
    /// Which attempt this is, from 1.
    attempt: u32,
    /// Who has it.
    holder: &'a str,
    /// Since when.
    granted_at: Stamp,
    /// Until when.
    until: Stamp,
}

/// The jobs under way.
#[derive(Serialize, ToSchema)]
#[schema(as = HeldLeases)]
pub(crate) struct HeldLeasesOut<'a> {
    /// In order of their end.
    pub(crate) leases: Vec<HeldOut<'a>>,
}

impl<'a> From<&'a Delivery> for HeldOut<'a> {
    fn from(delivery: &'a Delivery) -> Self {
        let (name, lease) = (&delivery.job.name, &delivery.lease);
        HeldOut {
            queue: name.queue.as_str(),
            key: name.key.as_ref().map(Key::as_str),
            id: name.id.as_str(),
            token: lease.token.to_string(),
            attempt: lease.attempt,
            holder: lease.holder.as_str(),
            granted_at: lease.granted_at.into(),
            until: lease.until.into(),
        }
    }
}

/// When an extended lease ends.
#[derive(Serialize, ToSchema)]
#[schema(as = Extended)]
pub(crate) struct ExtendedOut {
    /// When the lease ends now.
    pub(crate) until: Stamp,
    /// The same in Unix milliseconds.
    pub(crate) until_ms: i64,
}
