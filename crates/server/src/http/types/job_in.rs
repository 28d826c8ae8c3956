//! A job as a producer writes it.

use std::sync::Arc;

use hence::new_job::Idempotency;
use hence::{Due, NewId, NewJob};
use hence_core::error::Rejection;
use hence_core::id::{JobId, Key, QueueName};
use hence_core::input::Edit;
use hence_core::job::{HttpTarget, JobSpec, KeyOnFailure, OnConflict, OnUnknown, Target};
use hence_core::time::{Millis, Timestamp};
use hence_core::when::{Reading, Understood};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::due::{self, DueIn, DueRead, both};
use super::object::Object;
use super::payload::PayloadIn;
use super::retry::RetryIn;
use super::rules;
use super::target::TargetIn;
use super::word::word_or_none;
use crate::http::errors::Problem;
use crate::http::when::{self, Moment};

/// A job to be. Everything may be left out: then it is due now, for a worker of the queue
/// `default`.
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
#[schema(as = NewJob)]
pub(crate) struct JobIn<'a> {
    /// The queue it goes to; `default` when not given.
    #[schema(value_type = Option<rules::QueueName>)]
    pub(crate) queue: Option<String>,
    /// Jobs of one (queue, key) run one at a time, in order of due time.
    #[schema(value_type = Option<rules::Key>)]
    pub(crate) key: Option<String>,
    /// Names the job within its (queue, key); drawn when not given.
    #[schema(value_type = Option<rules::JobId>)]
    id: Option<String>,
    /// How to find the id instead of giving one.
    #[serde(default, deserialize_with = "word_or_none")]
    id_from: Option<IdFrom>,
    /// When it is due. Now when neither it nor `time` nor `in` is given.
    #[schema(value_type = Option<when::InstantIn>)]
    at: Option<Moment>,
    /// Another name for `at`.
    #[schema(value_type = Option<when::InstantIn>)]
    time: Option<Moment>,
    /// How long from now it is due.
    #[schema(value_type = Option<when::SpanIn>)]
    r#in: Option<Moment>,
    /// The zone of times in words, and of days in a span; the server's when not given.
    #[schema(example = "Europe/Paris")]
    zone: Option<String>,
    /// What it carries, as any JSON value.
    #[serde(borrow)]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<&'a RawValue>,
    /// What it carries, as text.
    payload_text: Option<String>,
    /// What it carries, as base64 of any bytes.
    payload_base64: Option<String>,
    /// The media type of the payload; follows from its form when not given.
    content_type: Option<String>,
    /// Where it goes; a worker that pulls when neither it nor `url` is given.
    target: Option<TargetIn>,
    /// Short for an HTTP target that takes a POST.
    #[schema(example = "https://example.com/hook")]
    url: Option<String>,
    /// When and how often it is tried again.
    #[schema(value_type = Option<RetryIn>)]
    retry: Option<Object<RetryIn>>,
    /// How long one attempt may take; 30s when not given. For a worker that pulls it is the length
    /// of its lease, unless it asks for another one or extends it.
    #[schema(value_type = Option<when::SpanIn>)]
    timeout: Option<Moment>,
    /// How long after its due time it may still be started.
    #[schema(value_type = Option<when::SpanIn>)]
    expires_in: Option<Moment>,
    /// Until when it may be started.
    #[schema(value_type = Option<when::InstantIn>)]
    expires_at: Option<Moment>,
    /// How long it can be looked at after it ended; 1h when not given. A job that came with an
    /// Idempotency-Key is kept for 24 hours from its submission at least.
    #[schema(value_type = Option<when::SpanIn>)]
    retention: Option<Moment>,
    /// Whether the result of its success is kept as long as it is: the first 64 KiB of what a URL
    /// answers, or up to 1 MiB from a worker.
    keep_result: Option<bool>,
    /// What happens when a job of the same name exists; `replace`, or `keep` with an
    /// Idempotency-Key or an id from content.
    #[serde(default, deserialize_with = "word_or_none")]
    on_conflict: Option<OnConflictIn>,
    /// What its failure means for the later jobs of its key; `block` when not given.
    #[serde(default, deserialize_with = "word_or_none")]
    key_on_failure: Option<KeyOnFailureIn>,
    /// What to do when nobody can say how an attempt ended; `retry` when not given.
    #[serde(default, deserialize_with = "word_or_none")]
    on_unknown: Option<OnUnknownIn>,
}

/// How to find an id.
#[derive(Deserialize, ToSchema, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IdFrom {
    /// A digest of target and payload: identical jobs collapse into one.
    Content,
}

/// What happens when a job of the same name exists.
#[derive(Deserialize, ToSchema, Clone, Copy)]
#[serde(rename_all = "snake_case")]
#[schema(as = OnConflict)]
pub(crate) enum OnConflictIn {
    /// The old one never runs; this one does.
    Replace,
    /// The old one stays as it is.
    Keep,
    /// This one is refused.
    Reject,
}

/// What a failing job does to the later jobs of its key.
#[derive(Deserialize, Serialize, ToSchema, Clone, Copy)]
#[serde(rename_all = "snake_case")]
#[schema(as = KeyOnFailure)]
pub(crate) enum KeyOnFailureIn {
    /// They wait until it succeeded or is dead.
    Block,
    /// They go ahead while it waits for its retry.
    StepAside,
}

/// What to do when nobody can say what an attempt did: the process died or was shut down under it,
/// its timeout or lease ran out, or no whole answer came.
#[derive(Deserialize, Serialize, ToSchema, Clone, Copy)]
#[serde(rename_all = "snake_case")]
#[schema(as = OnUnknown)]
pub(crate) enum OnUnknownIn {
    /// Deliver it again: at least once.
    Retry,
    /// Never deliver it again by itself: at most once.
    Park,
}

impl JobIn<'_> {
    /// The job to be, and what was understood by its time when that was in words.
    pub(crate) fn into_new_job(
        mut self,
        reading: &Reading<'_>,
        idempotency: Option<Idempotency>,
    ) -> Result<(NewJob, Option<Understood>), Problem> {
        let zone = due::zone(self.zone.as_deref())?;
        let reading = Reading { zone: zone.as_ref().unwrap_or(reading.zone), ..*reading };
        let said = DueIn {
            at: self.at.as_ref(),
            time: self.time.as_ref(),
            r#in: self.r#in.as_ref(),
            zone: zone.as_ref(),
        };
        let DueRead { due, understood } = said.read(&reading)?;
        if zone.is_some() && matches!(due, Due::Now) && self.expires_at.is_none() {
            return Err(zone_of_nothing().into());
        }
        let id = self.new_id()?;
        let expires_at = self.expires_at.take();
        let on_conflict = self.on_conflict.map(Into::into);
        let mut job = NewJob {
            queue: self.queue_name()?,
            key: self.key.as_deref().map(Key::new).transpose()?,
            id,
            due,
            on_conflict,
            spec: self.into_spec()?,
            idempotency,
        };
        if let Some(instant) = expires_at {
            if job.spec.expires_after.is_some() {
                return Err(both("expires_at", "expires_in").into());
            }
            let expires_at = instant.instant("expires_at", &reading)?;
            job.spec.expires_after = Some(expires_after(due, reading.now, expires_at)?);
        }
        Ok((job, understood))
    }

    /// What a schedule makes jobs from: everything that is not about one job only.
    pub(crate) fn into_template(self) -> Result<(QueueName, Option<Key>, JobSpec), Rejection> {
        let single = [
            ("id", self.id.is_some()),
            ("id_from", self.id_from.is_some()),
            ("at", self.at.is_some()),
            ("time", self.time.is_some()),
            ("in", self.r#in.is_some()),
            ("zone", self.zone.is_some()),
            ("expires_at", self.expires_at.is_some()),
            ("on_conflict", self.on_conflict.is_some()),
        ];
        if let Some((field, _)) = single.into_iter().find(|(_, given)| *given) {
            let problem = "does not belong into a schedule, which makes many jobs; leave it out";
            return Err(Rejection::invalid(field, problem));
        }
        let key = self.key.as_deref().map(Key::new).transpose()?;
        Ok((self.queue_name()?, key, self.into_spec()?))
    }

    fn queue_name(&self) -> Result<QueueName, Rejection> {
        self.queue.as_deref().map_or_else(|| Ok(QueueName::default_queue()), QueueName::new)
    }

    fn new_id(&self) -> Result<NewId, Rejection> {
        match (&self.id, self.id_from) {
            (Some(_), Some(IdFrom::Content)) => Err(both("id", "id_from")),
            (Some(id), None) => Ok(NewId::Given(JobId::new(id)?)),
            (None, Some(IdFrom::Content)) => Ok(NewId::ContentHash),
            (None, None) => Ok(NewId::Drawn),
        }
    }

    fn into_spec(self) -> Result<JobSpec, Rejection> {
        let short = self.url.is_some();
        let carried = carried(self.payload_text.as_deref(), self.payload_base64.as_deref());
        let target = target(self.target, self.url)?.unwrap_or(Target::Worker);
        let mut spec = JobSpec::new(target);
        let payload = PayloadIn {
            json: self.payload,
            text: self.payload_text,
            base64: self.payload_base64,
            content_type: self.content_type,
            field: "payload",
        };
        if let Some(payload) = payload.into_payload()? {
            spec.payload = payload;
        }
        if let Some(Object(retry)) = self.retry {
            spec.retry = retry.into_policy()?;
        }
        if let Some(timeout) = self.timeout {
            spec.timeout = timeout.span("timeout")?;
        }
        spec.expires_after = self.expires_in.map(|span| span.span("expires_in")).transpose()?;
        if let Some(retention) = self.retention {
            spec.retention = retention.span("retention")?;
        }
        spec.keep_result = self.keep_result.unwrap_or(spec.keep_result);
        spec.key_on_failure = self.key_on_failure.map_or(spec.key_on_failure, Into::into);
        spec.on_unknown = self.on_unknown.map_or(spec.on_unknown, Into::into);
        spec.check().map_err(|rejection| as_written(rejection, short, carried))?;
        Ok(spec)
    }
}

/// What to change about a job. What is not given stays; a new time takes the expiry along.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = JobChange)]
pub(crate) struct EditIn<'a> {
    /// When it is due.
    #[schema(value_type = Option<when::InstantIn>)]
    at: Option<Moment>,
    /// Another name for `at`.
    #[schema(value_type = Option<when::InstantIn>)]
    time: Option<Moment>,
    /// How long from now it is due.
    #[schema(value_type = Option<when::SpanIn>)]
    r#in: Option<Moment>,
    /// The zone of times in words, and of days in a span; the server's when not given.
    zone: Option<String>,
    /// What it carries, as any JSON value.
    #[serde(borrow)]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<&'a RawValue>,
    /// What it carries, as text.
    payload_text: Option<String>,
    /// What it carries, as base64 of any bytes.
    payload_base64: Option<String>,
    /// The media type of the payload.
    content_type: Option<String>,
    /// Where it goes.
    target: Option<TargetIn>,
    /// Short for an HTTP target that takes a POST.
    url: Option<String>,
    /// When and how often it is tried again: the whole policy.
    #[schema(value_type = Option<RetryIn>)]
    retry: Option<Object<RetryIn>>,
    /// How long one attempt may take.
    #[schema(value_type = Option<when::SpanIn>)]
    timeout: Option<Moment>,
}

impl EditIn<'_> {
    /// The core's edit, and what was understood by its time when that was in words.
    pub(crate) fn into_edit(
        self,
        reading: &Reading<'_>,
    ) -> Result<(Edit, Option<Understood>), Problem> {
        let short = self.url.is_some();
        let carried = carried(self.payload_text.as_deref(), self.payload_base64.as_deref());
        let zone = due::zone(self.zone.as_deref())?;
        let reading = Reading { zone: zone.as_ref().unwrap_or(reading.zone), ..*reading };
        let said = DueIn {
            at: self.at.as_ref(),
            time: self.time.as_ref(),
            r#in: self.r#in.as_ref(),
            zone: zone.as_ref(),
        };
        let DueRead { due, understood } = said.read(&reading)?;
        let due_at = match due {
            Due::Now if zone.is_some() => return Err(zone_of_nothing().into()),
            Due::Now => None,
            Due::At(instant) => Some(instant),
            Due::In(span) => Some(reading.now.plus(span)),
        };
        let payload = PayloadIn {
            json: self.payload,
            text: self.payload_text,
            base64: self.payload_base64,
            content_type: self.content_type,
            field: "payload",
        };
        let edit = Edit {
            due_at,
            payload: payload.into_payload()?,
            target: target(self.target, self.url)?,
            retry: self.retry.map(|Object(retry)| retry.into_policy()).transpose()?,
            timeout: self.timeout.map(|span| span.span("timeout")).transpose()?,
        };
        if edit == Edit::default() {
            let problem = "must name at least one thing to change";
            return Err(Rejection::invalid("body", problem).into());
        }
        edit.check().map_err(|rejection| as_written(rejection, short, carried))?;
        Ok((edit, understood))
    }
}

fn zone_of_nothing() -> Rejection {
    Rejection::invalid("zone", "says where a time is read, and no time is given; add at or in")
}

fn target(target: Option<TargetIn>, url: Option<String>) -> Result<Option<Target>, Rejection> {
    match (target, url) {
        (Some(_), Some(_)) => Err(both("target", "url")),
        (Some(target), None) => target.into_target().map(Some),
        (None, Some(url)) => Ok(Some(Target::Http(Arc::new(HttpTarget::post(&url))))),
        (None, None) => Ok(None),
    }
}

/// How long after it can be started at the earliest: a time that has passed means now.
fn expires_after(due: Due, now: Timestamp, expires_at: Timestamp) -> Result<Millis, Rejection> {
    let due_at = match due {
        Due::Now => now,
        Due::At(instant) => instant.max(now),
        Due::In(span) => now.plus(span),
    };
    if expires_at <= due_at {
        return Err(Rejection::ExpiresBeforeDue { expires_at });
    }
    Ok(expires_at.since(due_at))
}

/// The field that the payload is in.
fn carried(text: Option<&str>, base64: Option<&str>) -> &'static str {
    match (text, base64) {
        (Some(_), _) => "payload_text",
        (None, Some(_)) => "payload_base64",
        (None, None) => "payload",
    }
}

/// The core knows one name for a payload and for a URL; the caller may have used another, and wrote
/// the fields of a target with its kind.
fn as_written(rejection: Rejection, short: bool, carried: &str) -> Rejection {
    rejection.renamed(|field| match field.strip_prefix("target.") {
        Some("url") if short => "url".to_owned(),
        Some(rest) => format!("target.http.{rest}"),
        None if field == "payload" => carried.to_owned(),
        None => field.to_owned(),
    })
}

impl From<OnConflictIn> for OnConflict {
    fn from(choice: OnConflictIn) -> Self {
        match choice {
            OnConflictIn::Replace => OnConflict::Replace,
            OnConflictIn::Keep => OnConflict::Keep,
            OnConflictIn::Reject => OnConflict::Reject,
        }
    }
}

impl From<KeyOnFailureIn> for KeyOnFailure {
    fn from(choice: KeyOnFailureIn) -> Self {
        match choice {
            KeyOnFailureIn::Block => KeyOnFailure::Block,
            KeyOnFailureIn::StepAside => KeyOnFailure::StepAside,
        }
    }
}

impl From<OnUnknownIn> for OnUnknown {
    fn from(choice: OnUnknownIn) -> Self {
        match choice {
            OnUnknownIn::Retry => OnUnknown::Retry,
            OnUnknownIn::Park => OnUnknown::Park,
        }
    }
}

impl From<KeyOnFailure> for KeyOnFailureIn {
    fn from(choice: KeyOnFailure) -> Self {
        match choice {
            KeyOnFailure::Block => KeyOnFailureIn::Block,
            KeyOnFailure::StepAside => KeyOnFailureIn::StepAside,
        }
    }
}

impl From<OnUnknown> for OnUnknownIn {
    fn from(choice: OnUnknown) -> Self {
        match choice {
            OnUnknown::Retry => OnUnknownIn::Retry,
            OnUnknown::Park => OnUnknownIn::Park,
        }
    }
}
