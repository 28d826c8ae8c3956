//! A job, its end and its attempts as an answer shows them.

use hence::client::Added;
use hence_core::effect::Submitted;
use hence_core::job::{AttemptRecord, Finish, JobView, Lease};
use hence_core::waiting::WaitingFor;
use hence_core::when::Understood;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::Stamp;
use super::due::UnderstoodOut;
use super::job_in::{KeyOnFailureIn, OnUnknownIn};
use super::names::{EndOut, OutcomeOut, StateOut, SubmittedOut};
use super::payload::Inline;
use super::retry::RetryOut;
use super::target::TargetOut;
use crate::http::when;

/// A job as it is now.
#[derive(Serialize, ToSchema)]
#[schema(as = Job)]
pub(crate) struct JobOut<'a> {
    /// The queue it is in.
    queue: &'a str,
    /// The key it runs under.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    /// Its id within the two.
    id: &'a str,
    /// The order of submission.
    number: u64,
    /// Where it is in its life.
    state: StateOut,
    /// When it is, or was last, to be handed out.
    due_at: Stamp,
    /// The same in Unix milliseconds.
    due_at_ms: i64,
    /// When it was to run at first; retries do not change this.
    scheduled_for: Stamp,
    /// When it was submitted.
    submitted_at: Stamp,
    /// Attempts that ended and count.
    attempts: u32,
    /// Where it goes.
    target: TargetOut<'a>,
    /// The payload, when it is JSON and not large.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<&'a RawValue>,
    /// The payload, when it is other text and not large.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<&'a str>,
    /// The payload, when it is not text and not large.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    /// The media type of the payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    /// The length of the payload in bytes. Large ones are at `/v1/jobs/{id}/payload`. A job that
    /// has ended has none any more, unless it is dead.
    payload_size: usize,
    /// When and how often it is tried again.
    retry: RetryOut,
    /// How long one attempt may take.
    timeout: String,
    /// Until when it may be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Stamp>,
    /// How long it can be looked at after it ended.
    retention: String,
    /// Whether its result is kept.
    keep_result: bool,
    /// What its failure means for the later jobs of its key.
    key_on_failure: KeyOnFailureIn,
    /// What happens when nobody can say how an attempt ended.
    on_unknown: OnUnknownIn,
    /// What it waits for when it is due and not handed out: only where one job is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waiting_for: Option<WaitingForOut>,
    /// Who runs it now.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<LeaseOut<'a>>,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    finish: Option<FinishOut<'a>>,
    /// The schedule that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<&'a str>,
    /// The tick of the schedule that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    occurrence: Option<Stamp>,
    /// What was understood by the time of this request, when it was in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) understood: Option<UnderstoodOut<'a>>,
}

/// What a due job waits for.
#[derive(Serialize, ToSchema)]
#[schema(as = WaitingFor)]
pub(crate) struct WaitingForOut {
    /// `turn`, `key`, `handler`, `restart`, `resume`, `concurrency`, `rate`, `worker` or `room`.
    #[schema(example = "worker")]
    what: &'static str,
    /// The same for people.
    #[schema(example = "a worker that pulls from its queue")]
    detail: String,
}

impl From<&WaitingFor> for WaitingForOut {
    fn from(why: &WaitingFor) -> Self {
        WaitingForOut { what: why.as_str(), detail: why.to_string() }
    }
}

/// The right to run a job until a moment.
#[derive(Serialize, ToSchema)]
#[schema(as = Lease)]
pub(crate) struct LeaseOut<'a> {
    /// Fences this delivery against all others of the job.
    #[schema(example = "0.1.42")]
    token: String,
    /// Which attempt this is, from 1.
    attempt: u32,
    /// Who has it.
    holder: &'a str,
    /// When it was granted.
    granted_at: Stamp,
    /// When it ends unless it is extended.
    until: Stamp,
}

/// The end of a job.
#[derive(Serialize, ToSchema)]
#[schema(as = Finish)]
pub(crate) struct FinishOut<'a> {
    /// In which way.
    outcome: OutcomeOut,
    /// When it ended.
    at: Stamp,
    /// Why, when it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// The kept result, when it is JSON and not large.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<&'a RawValue>,
    /// The kept result, when it is other text and not large.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_text: Option<&'a str>,
    /// The kept result, when it is not text and not large.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_base64: Option<String>,
    /// The media type of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_content_type: Option<&'a str>,
    /// The length of the kept result. Large ones are at `/v1/jobs/{id}/result`.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_size: Option<usize>,
    /// Until when this can be looked at.
    keep_until: Stamp,
}

impl<'a> JobOut<'a> {
    /// The job with its payload, unless that is large.
    pub(crate) fn whole(view: &'a JobView) -> Self {
        let mut out = JobOut::brief(view);
        let Inline { json, text, base64 } = Inline::of_small(&view.job.payload);
        (out.payload, out.payload_text, out.payload_base64) = (json, text, base64);
        out
    }

    /// The job without its payload, for lists.
    pub(crate) fn brief(view: &'a JobView) -> Self {
        let job = &*view.job;
        JobOut {
            queue: job.name.queue.as_str(),
            key: job.name.key.as_ref().map(hence_core::id::Key::as_str),
            id: job.name.id.as_str(),
            number: job.number.0,
            state: view.state.into(),
            due_at: view.progress.due_at.into(),
            due_at_ms: view.progress.due_at.as_millis(),
            scheduled_for: job.scheduled_for.into(),
            submitted_at: job.submitted_at.into(),
            attempts: view.progress.attempts,
            target: (&job.target).into(),
            payload: None,
            payload_text: None,
            payload_base64: None,
            content_type: job.payload.content_type.as_deref(),
            payload_size: job.payload.bytes.len(),
            retry: (&job.retry).into(),
            timeout: when::span_text(job.timeout),
            expires_at: job.expires_at.map(Stamp),
            retention: when::span_text(job.retention),
            keep_result: job.keep_result,
            key_on_failure: job.key_on_failure.into(),
            on_unknown: job.on_unknown.into(),
            waiting_for: None,
            lease: view.lease.as_deref().map(LeaseOut::from),
            finish: view.finish.as_deref().map(FinishOut::from),
            schedule: job.occurrence.as_ref().map(|tick| tick.schedule.as_str()),
            occurrence: job.occurrence.as_ref().map(|tick| tick.at.into()),
            understood: None,
        }
    }
}

impl<'a> From<&'a Lease> for LeaseOut<'a> {
    fn from(lease: &'a Lease) -> Self {
        LeaseOut {
            token: lease.token.to_string(),
            attempt: lease.attempt,
            holder: lease.holder.as_str(),
            granted_at: lease.granted_at.into(),
            until: lease.until.into(),
        }
    }
}

impl<'a> From<&'a Finish> for FinishOut<'a> {
    fn from(finish: &'a Finish) -> Self {
        let result = finish.result.as_ref();
        let Inline { json, text, base64 } = result.map(Inline::of_small).unwrap_or_default();
        FinishOut {
            outcome: finish.outcome.into(),
            at: finish.at.into(),
            reason: finish.reason.as_deref(),
            result: json,
            result_text: text,
            result_base64: base64,
            result_content_type: result.and_then(|payload| payload.content_type.as_deref()),
            result_size: result.map(|payload| payload.bytes.len()),
            keep_until: finish.keep_until.into(),
        }
    }
}

/// What became of a submission: short, since producers send many.
#[derive(Serialize, ToSchema)]
#[schema(as = Accepted)]
pub(crate) struct AddedOut<'a> {
    /// In an answer to many: the status it would have had alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    /// The queue it is in.
    queue: &'a str,
    /// The key it runs under.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    /// Its id within the two.
    id: &'a str,
    /// The order of submission.
    number: u64,
    /// Where it is in its life.
    state: StateOut,
    /// When it is due, as understood.
    due_at: Stamp,
    /// The same in Unix milliseconds.
    due_at_ms: i64,
    /// What became of the submission.
    how: SubmittedOut,
    /// What was understood by a time in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    understood: Option<UnderstoodOut<'a>>,
}

impl<'a> AddedOut<'a> {
    /// The answer to a submission in which this was understood by the time.
    pub(crate) fn new(added: &'a Added, understood: Option<&'a Understood>) -> Self {
        let (job, progress) = (&*added.view.job, &added.view.progress);
        AddedOut {
            status: None,
            queue: job.name.queue.as_str(),
            key: job.name.key.as_ref().map(hence_core::id::Key::as_str),
            id: job.name.id.as_str(),
            number: job.number.0,
            state: added.view.state.into(),
            due_at: progress.due_at.into(),
            due_at_ms: progress.due_at.as_millis(),
            how: added.how.into(),
            // A job that was kept is due when it was, whatever this request said.
            understood: match added.how {
                Submitted::Created | Submitted::Replaced => understood.map(Into::into),
                Submitted::Kept => None,
            },
        }
    }
}

/// An attempt that ended.
#[derive(Serialize, ToSchema)]
#[schema(as = Attempt)]
pub(crate) struct AttemptOut<'a> {
    /// Its number, from 1.
    attempt: u32,
    /// Its token.
    token: String,
    /// Who ran it.
    holder: &'a str,
    /// When it was handed out.
    started_at: Stamp,
    /// When its end was recorded.
    ended_at: Stamp,
    /// In which way it ended.
    end: EndOut,
    /// What the target said.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl<'a> From<&'a AttemptRecord> for AttemptOut<'a> {
    fn from(record: &'a AttemptRecord) -> Self {
        AttemptOut {
            attempt: record.attempt,
            token: record.token.to_string(),
            holder: record.holder.as_str(),
            started_at: record.started_at.into(),
            ended_at: record.ended_at.into(),
            end: record.end.into(),
            reason: record.reason.as_deref(),
        }
    }
}
