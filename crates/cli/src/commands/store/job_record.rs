//! A job as a line of an export: what was asked for, how far it came, how it ended, every attempt.

use std::sync::Arc;

use hence_core::id::{JobId, JobName, JobNumber, Key, QueueName, ScheduleId, Token, WorkerName};
use hence_core::job::{
    AttemptEnd, AttemptRecord, Finish, Job, JobSpec, Lease, Occurrence, Outcome, Progress,
};
use hence_core::time::{Millis, Timestamp};
use hence_store::{FinishedJob, LiveJob, StoredJob};
use serde::{Deserialize, Serialize};

use super::record::{PayloadRecord, Problem, SpecRecord, words};

/// A job.
#[derive(Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct JobRecord {
    queue: String,
    key: Option<String>,
    id: String,
    submitted_at_ms: i64,
    scheduled_for_ms: i64,
    expires_at_ms: Option<i64>,
    schedule: Option<String>,
    occurrence_ms: Option<i64>,
    fingerprint: Option<u64>,
    spec: SpecRecord,
    due_at_ms: i64,
    attempts: u32,
    crashes: u32,
    holds_key: bool,
    lease: Option<LeaseRecord>,
    finish: Option<FinishRecord>,
    attempt_log: Vec<AttemptLine>,
}

/// Who ran it when the export was made.
#[derive(Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct LeaseRecord {
    pub(super) attempt: u32,
    pub(super) holder: String,
    pub(super) granted_at_ms: i64,
    pub(super) until_ms: i64,
}

#[derive(Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct FinishRecord {
    outcome: String,
    at_ms: i64,
    reason: Option<String>,
    result: Option<PayloadRecord>,
    keep_until_ms: i64,
}

#[derive(Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct AttemptLine {
    attempt: u32,
    token: String,
    holder: String,
    started_at_ms: i64,
    ended_at_ms: i64,
    end: String,
    reason: Option<String>,
}

/// A job read from a line; its number is the importing store's to give.
pub(super) struct ReadJob {
    pub(super) job: Job,
    pub(super) progress: Progress,
    pub(super) lease: Option<LeaseRecord>,
    pub(super) finish: Option<Finish>,
    pub(super) attempts: Vec<AttemptRecord>,
}

impl JobRecord {
    pub(super) fn new(stored: &StoredJob, attempts: &[AttemptRecord]) -> Self {
        let (job, progress, lease, finish) = match stored {
            StoredJob::Live(LiveJob { job, progress, lease }) => {
                (job, progress, lease.as_ref(), None)
            }
            StoredJob::Finished(FinishedJob { job, progress, finish }) => {
                (job, progress, None, Some(finish))
            }
        };
        JobRecord {
            queue: job.name.queue.as_str().to_owned(),
            key: job.name.key.as_ref().map(|key| key.as_str().to_owned()),
            id: job.name.id.as_str().to_owned(),
            submitted_at_ms: job.submitted_at.as_millis(),
            scheduled_for_ms: job.scheduled_for.as_millis(),
            expires_at_ms: job.expires_at.map(Timestamp::as_millis),
            schedule: job.occurrence.as_ref().map(|tick| tick.schedule.as_str().to_owned()),
            occurrence_ms: job.occurrence.as_ref().map(|tick| tick.at.as_millis()),
            fingerprint: job.fingerprint,
            spec: SpecRecord::new(&spec_of(job)),
            due_at_ms: progress.due_at.as_millis(),
            attempts: progress.attempts,
            crashes: progress.crashes,
            holds_key: progress.holds_key,
            lease: lease.map(LeaseRecord::new),
            finish: finish.map(FinishRecord::new),
            attempt_log: attempts.iter().map(AttemptLine::new).collect(),
        }
    }

    pub(super) fn into_job(self) -> Result<ReadJob, Problem> {
        let spec = self.spec.into_spec()?;
        let occurrence = self.schedule.as_deref().zip(self.occurrence_ms);
        let occurrence = occurrence.map(|(schedule, at)| {
            let schedule = ScheduleId::new(schedule).map_err(words)?;
            Ok::<_, Problem>(Occurrence { schedule, at: Timestamp::from_millis(at) })
        });
        let job = Job {
            number: JobNumber::default(),
            name: JobName {
                queue: QueueName::new(&self.queue).map_err(words)?,
                key: self.key.as_deref().map(Key::new).transpose().map_err(words)?,
                id: JobId::new(&self.id).map_err(words)?,
            },
            submitted_at: Timestamp::from_millis(self.submitted_at_ms),
            scheduled_for: Timestamp::from_millis(self.scheduled_for_ms),
            payload: spec.payload,
            target: spec.target,
            retry: spec.retry,
            timeout: spec.timeout,
            expires_at: self.expires_at_ms.map(Timestamp::from_millis),
            retention: spec.retention,
            keep_result: spec.keep_result,
            key_on_failure: spec.key_on_failure,
            on_unknown: spec.on_unknown,
            occurrence: occurrence.transpose()?,
            fingerprint: self.fingerprint,
        };
        let progress = Progress {
            due_at: Timestamp::from_millis(self.due_at_ms),
            attempts: self.attempts,
            crashes: self.crashes,
            holds_key: self.holds_key,
        };
        let finish = self.finish.map(FinishRecord::into_finish).transpose()?;
        let attempts = self
            .attempt_log
            .into_iter()
            .map(AttemptLine::into_attempt)
            .collect::<Result<_, _>>()?;
        Ok(ReadJob { job, progress, lease: self.lease, finish, attempts })
    }
}

fn spec_of(job: &Job) -> JobSpec {
    JobSpec {
        payload: job.payload.clone(),
        target: job.target.clone(),
        retry: job.retry.clone(),
        timeout: job.timeout,
        expires_after: None,
        retention: job.retention,
        keep_result: job.keep_result,
        key_on_failure: job.key_on_failure,
        on_unknown: job.on_unknown,
    }
}

impl LeaseRecord {
    fn new(lease: &Lease) -> Self {
        LeaseRecord {
            attempt: lease.attempt,
            holder: lease.holder.as_str().to_owned(),
            granted_at_ms: lease.granted_at.as_millis(),
            until_ms: lease.until.as_millis(),
        }
    }
}

impl FinishRecord {
    fn new(finish: &Finish) -> Self {
        FinishRecord {
            outcome: finish.outcome.as_str().to_owned(),
            at_ms: finish.at.as_millis(),
            reason: finish.reason.as_deref().map(str::to_owned),
            result: finish.result.as_ref().map(PayloadRecord::new),
            keep_until_ms: finish.keep_until.as_millis(),
        }
    }

    fn into_finish(self) -> Result<Finish, Problem> {
        let outcome = Outcome::ALL.into_iter().find(|outcome| outcome.as_str() == self.outcome);
        Ok(Finish {
            outcome: outcome.ok_or_else(|| format!("`{}` is no outcome", self.outcome))?,
            at: Timestamp::from_millis(self.at_ms),
            reason: self.reason.as_deref().map(Arc::from),
            result: self.result.map(PayloadRecord::into_payload).transpose()?,
            keep_until: Timestamp::from_millis(self.keep_until_ms),
        })
    }
}

impl AttemptLine {
    fn new(attempt: &AttemptRecord) -> Self {
        AttemptLine {
            attempt: attempt.attempt,
            token: attempt.token.to_string(),
            holder: attempt.holder.as_str().to_owned(),
            started_at_ms: attempt.started_at.as_millis(),
            ended_at_ms: attempt.ended_at.as_millis(),
            end: attempt.end.as_str().to_owned(),
            reason: attempt.reason.as_deref().map(str::to_owned),
        }
    }

    fn into_attempt(self) -> Result<AttemptRecord, Problem> {
        let end = AttemptEnd::ALL.into_iter().find(|end| end.as_str() == self.end);
        Ok(AttemptRecord {
            attempt: self.attempt,
            token: self.token.parse::<Token>().map_err(words)?,
            holder: WorkerName::new(&self.holder).map_err(words)?,
            started_at: Timestamp::from_millis(self.started_at_ms),
            ended_at: Timestamp::from_millis(self.ended_at_ms),
            end: end.ok_or_else(|| format!("`{}` is no end of an attempt", self.end))?,
            reason: self.reason.as_deref().map(Arc::from),
        })
    }
}

impl LeaseRecord {
    /// How long the lease was, for the store that takes it over.
    pub(super) fn until(&self) -> Timestamp {
        Timestamp::from_millis(self.granted_at_ms).plus(Millis::new(
            self.until_ms.saturating_sub(self.granted_at_ms).max(0).unsigned_abs(),
        ))
    }
}
