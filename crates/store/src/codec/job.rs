//! Jobs as bytes: the record there are most of, so its optional parts share one byte of flags and
//! its times are differences.

use std::sync::Arc;

use bytes::Bytes;
use hence_core::id::{
    Epoch, HandlerName, JobId, JobName, JobNumber, Key, QueueName, ScheduleId, ShardId, Token,
    WorkerName,
};
use hence_core::job::{
    AttemptEnd, AttemptRecord, Finish, HttpTarget, Job, KeyOnFailure, Lease, Occurrence, OnUnknown,
    Outcome, Payload, Progress, Target,
};
use hence_core::retry::{Backoff, RetryPolicy};
use hence_core::time::{Millis, Timestamp};

use super::wire::{Fault, Reader, Wire, fields, names, put_bytes, put_varint, put_zigzag, tags};

names!(QueueName, Key, JobId, ScheduleId, HandlerName, WorkerName);
fields!(Token { shard, epoch, counter });
fields!(Lease { token, attempt, holder, granted_at, until });
fields!(Finish { outcome, at, reason, result, keep_until });
fields!(AttemptRecord { attempt, token, holder, started_at, ended_at, end, reason });
fields!(Payload { bytes, content_type });
fields!(HttpTarget { method, url, headers });
fields!(RetryPolicy { max_attempts, backoff, jitter_percent, cap, max_age });
tags!(Outcome { Succeeded = 0, Dead = 1, Cancelled = 2, Expired = 3 });
tags!(AttemptEnd {
    Succeeded = 0,
    Failed = 1,
    TimedOut = 2,
    Released = 3,
    Unregistered = 4,
    Unknown = 5,
    Cancelled = 6,
});
tags!(KeyOnFailure { Block = 0, StepAside = 1 });
tags!(OnUnknown { Retry = 0, Park = 1 });

/// How much of a job is written.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Shown {
    Whole,
    WithoutPayload,
}

const HAS_KEY: u8 = 1;
const HAS_CONTENT_TYPE: u8 = 1 << 1;
const HAS_EXPIRY: u8 = 1 << 2;
const KEEPS_RESULT: u8 = 1 << 3;
const STEPS_ASIDE: u8 = 1 << 4;
const PARKS: u8 = 1 << 5;
const HAS_OCCURRENCE: u8 = 1 << 6;
const HAS_FINGERPRINT: u8 = 1 << 7;

/// What a job takes beside its texts and its payload, at most, nearly always.
const JOB_FIXED_BYTES: usize = 96;

pub(super) fn put_job(job: &Job, shown: Shown, out: &mut Vec<u8>) {
    let (bytes, content_type): (&[u8], _) = match shown {
        Shown::Whole => (&job.payload.bytes, job.payload.content_type.as_ref()),
        Shown::WithoutPayload => (&[], None),
    };
    out.reserve(JOB_FIXED_BYTES + bytes.len() + 2 * job.name.id.as_str().len());
    out.push(flags_of(job, content_type.is_some()));
    put_varint(job.number.0, out);
    job.name.queue.put(out);
    put_present(job.name.key.as_ref(), out);
    job.name.id.put(out);
    job.submitted_at.put(out);
    put_after(job.submitted_at, job.scheduled_for, out);
    put_bytes(bytes, out);
    put_present(content_type, out);
    job.target.put(out);
    job.retry.put(out);
    job.timeout.put(out);
    if let Some(at) = job.expires_at {
        put_after(job.scheduled_for, at, out);
    }
    job.retention.put(out);
    if let Some(occurrence) = &job.occurrence {
        occurrence.schedule.put(out);
        put_after(job.scheduled_for, occurrence.at, out);
    }
    if let Some(fingerprint) = job.fingerprint {
        out.extend_from_slice(&fingerprint.to_le_bytes());
    }
}

fn flags_of(job: &Job, content_type: bool) -> u8 {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let steps_aside = match job.key_on_failure {
        KeyOnFailure::Block => false,
        KeyOnFailure::StepAside => true,
    };
    let parks = match job.on_unknown {
        OnUnknown::Retry => false,
        OnUnknown::Park => true,
    };
    flag(job.name.key.is_some(), HAS_KEY)
        | flag(content_type, HAS_CONTENT_TYPE)
        | flag(job.expires_at.is_some(), HAS_EXPIRY)
        | flag(job.keep_result, KEEPS_RESULT)
        | flag(steps_aside, STEPS_ASIDE)
        | flag(parks, PARKS)
        | flag(job.occurrence.is_some(), HAS_OCCURRENCE)
        | flag(job.fingerprint.is_some(), HAS_FINGERPRINT)
}

impl Wire for Job {
    fn put(&self, out: &mut Vec<u8>) {
        put_job(self, Shown::Whole, out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        let flags = input.byte()?;
        let has = |bit: u8| flags & bit != 0;
        let number = JobNumber(input.varint()?);
        let name = JobName {
            queue: QueueName::take(input)?,
            key: take_present(has(HAS_KEY), input)?,
            id: JobId::take(input)?,
        };
        let submitted_at = Timestamp::take(input)?;
        let scheduled_for = take_after(submitted_at, input)?;
        let bytes = Bytes::take(input)?;
        let content_type = take_present(has(HAS_CONTENT_TYPE), input)?;
        let target = Target::take(input)?;
        let retry = RetryPolicy::take(input)?;
        let timeout = Millis::take(input)?;
        let expires_at = has(HAS_EXPIRY).then(|| take_after(scheduled_for, input)).transpose()?;
        let retention = Millis::take(input)?;
        let occurrence =
            has(HAS_OCCURRENCE).then(|| take_occurrence(scheduled_for, input)).transpose()?;
        let fingerprint = has(HAS_FINGERPRINT).then(|| input.fixed_u64()).transpose()?;
        let key_on_failure =
            if has(STEPS_ASIDE) { KeyOnFailure::StepAside } else { KeyOnFailure::Block };
        let on_unknown = if has(PARKS) { OnUnknown::Park } else { OnUnknown::Retry };
        Ok(Job {
            number,
            name,
            submitted_at,
            scheduled_for,
            payload: Payload { bytes, content_type },
            target,
            retry,
            timeout,
            expires_at,
            retention,
            keep_result: has(KEEPS_RESULT),
            key_on_failure,
            on_unknown,
            occurrence,
            fingerprint,
        })
    }
}

fn take_occurrence(scheduled_for: Timestamp, input: &mut Reader<'_>) -> Result<Occurrence, Fault> {
    Ok(Occurrence { schedule: Wire::take(input)?, at: take_after(scheduled_for, input)? })
}

/// What is there, when a flag elsewhere says whether it is.
fn put_present<T: Wire>(value: Option<&T>, out: &mut Vec<u8>) {
    if let Some(value) = value {
        value.put(out);
    }
}

fn take_present<T: Wire>(present: bool, input: &mut Reader<'_>) -> Result<Option<T>, Fault> {
    present.then(|| T::take(input)).transpose()
}

/// An instant as its difference from another one. Wrapping, so that every pair of instants has one.
pub(super) fn put_after(base: Timestamp, instant: Timestamp, out: &mut Vec<u8>) {
    put_zigzag(instant.as_millis().wrapping_sub(base.as_millis()), out);
}

pub(super) fn take_after(base: Timestamp, input: &mut Reader<'_>) -> Result<Timestamp, Fault> {
    Ok(Timestamp::from_millis(base.as_millis().wrapping_add(input.zigzag()?)))
}

impl Wire for Timestamp {
    fn put(&self, out: &mut Vec<u8>) {
        put_zigzag(self.as_millis(), out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        input.zigzag().map(Timestamp::from_millis)
    }
}

impl Wire for Millis {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(self.get(), out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        input.varint().map(Millis::new)
    }
}

const PROGRESS_HOLDS_KEY: u8 = 1;
const PROGRESS_FRESH: u8 = 1 << 1;

/// Progress with its due time as a difference from `base`: for a fresh job of which the base is the
/// first due time, two bytes.
pub(super) fn put_progress(progress: &Progress, base: Timestamp, out: &mut Vec<u8>) {
    let Progress { due_at, attempts, crashes, holds_key } = *progress;
    let fresh = attempts == 0 && crashes == 0;
    let holds_key = if holds_key { PROGRESS_HOLDS_KEY } else { 0 };
    out.push(holds_key | if fresh { PROGRESS_FRESH } else { 0 });
    put_after(base, due_at, out);
    if !fresh {
        attempts.put(out);
        crashes.put(out);
    }
}

pub(super) fn take_progress(base: Timestamp, input: &mut Reader<'_>) -> Result<Progress, Fault> {
    let flags = input.byte()?;
    if flags & !(PROGRESS_HOLDS_KEY | PROGRESS_FRESH) != 0 {
        return Err(Fault::Tag);
    }
    let due_at = take_after(base, input)?;
    let (attempts, crashes) = if flags & PROGRESS_FRESH == 0 { Wire::take(input)? } else { (0, 0) };
    Ok(Progress { due_at, attempts, crashes, holds_key: flags & PROGRESS_HOLDS_KEY != 0 })
}

impl Wire for Progress {
    fn put(&self, out: &mut Vec<u8>) {
        put_progress(self, Timestamp::EPOCH, out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        take_progress(Timestamp::EPOCH, input)
    }
}

const TARGET_HTTP: u8 = 0;
const TARGET_WORKER: u8 = 1;
const TARGET_HANDLER: u8 = 2;

impl Wire for Target {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Target::Http(target) => {
                out.push(TARGET_HTTP);
                target.put(out);
            }
            Target::Worker => out.push(TARGET_WORKER),
            Target::Handler(name) => {
                out.push(TARGET_HANDLER);
                name.put(out);
            }
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        match input.byte()? {
            TARGET_HTTP => Ok(Target::Http(Arc::take(input)?)),
            TARGET_WORKER => Ok(Target::Worker),
            TARGET_HANDLER => Ok(Target::Handler(HandlerName::take(input)?)),
            _ => Err(Fault::Tag),
        }
    }
}

const BACKOFF_FIXED: u8 = 0;
const BACKOFF_EXPONENTIAL: u8 = 1;
const BACKOFF_LIST: u8 = 2;

impl Wire for Backoff {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Backoff::Fixed(delay) => {
                out.push(BACKOFF_FIXED);
                delay.put(out);
            }
            Backoff::Exponential { first, factor_percent } => {
                out.push(BACKOFF_EXPONENTIAL);
                first.put(out);
                factor_percent.put(out);
            }
            Backoff::List(delays) => {
                out.push(BACKOFF_LIST);
                delays.put(out);
            }
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        match input.byte()? {
            BACKOFF_FIXED => Ok(Backoff::Fixed(Wire::take(input)?)),
            BACKOFF_EXPONENTIAL => Ok(Backoff::Exponential {
                first: Wire::take(input)?,
                factor_percent: Wire::take(input)?,
            }),
            BACKOFF_LIST => Ok(Backoff::List(Wire::take(input)?)),
            _ => Err(Fault::Tag),
        }
    }
}

macro_rules! numbers {
    ($($type:ident),+) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }

            fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
                Wire::take(input).map($type)
            }
        }
    )+};
}
numbers!(JobNumber, ShardId, Epoch);
