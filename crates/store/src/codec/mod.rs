//! The one place where core types meet bytes.
//!
//! A record is a version byte and then its fields, in order, without names: numbers as varints
//! (signed ones zigzagged), text and bytes with their length before them, enums as a tag byte.
//! There is one version for all kinds of record, because they nest. A record says neither its kind
//! nor its length: whoever stores it knows both, and puts a checksum over it.
//!
//! ```text
//! ┌─────────┬────────┬────────┬─ ─ ─
//! │ version │ field  │ field  │        nothing may follow the last field
//! └─────────┴────────┴────────┴─ ─ ─
//! ```
//!
//! Bytes are not trusted: a version that is not known is [`ErrorKind::Version`], everything else
//! that does not fit is [`ErrorKind::Corrupt`]. Nothing panics, and no length is believed before it
//! was compared with what is left.
//!
//! # How to change the format
//!
//! 1. Raise [`VERSION`]. Writing always uses the newest; a released version's layout never changes.
//! 2. In the `take` of what changed, ask `input.version()`, and give what the old form lacks the
//!    value it meant then. Keep this for ever: a store may be opened after years.
//! 3. Run the tests with `HENCE_BLESS=1` once, which writes `testdata/formats/v<VERSION>/`, and
//!    commit that. Files of older versions are never written again; the tests still decode them.
//! 4. Say in the change log that older programs will refuse the store, by [`ErrorKind::Version`].
//!
//! A new variant of an enum is a change of the format too: an old program must refuse it by its
//! version, not call it damage. Names are checked again when they are read, so the limits in
//! [`hence_core::limits`] may grow but never shrink.
#![deny(clippy::indexing_slicing)]

use std::sync::Arc;

use bytes::Bytes;
use hence_core::change::Change;
use hence_core::job::{AttemptRecord, Finish, Job, Lease, Progress};
use hence_core::queue::{Counts, QueueSettings};
use hence_core::schedule::{OccurrenceRecord, Schedule, ScheduleProgress};

use crate::{ErrorKind, FinishedJob, ShardBatch, StoreError};

mod change;
mod job;
mod rest;
mod schedule;
mod wire;

use job::{Shown, put_job, put_progress, take_progress};
use wire::{Fault, Reader, Wire};

/// The version that is written, and the newest that is read.
pub const VERSION: u8 = 3;
/// The oldest version that is read. The first was never released, and is refused.
pub const VERSION_OLDEST: u8 = 2;

/// Appends a job.
pub fn encode_job(job: &Job, out: &mut Vec<u8>) {
    encode(out, |out| put_job(job, Shown::Whole, out));
}

/// Reads a job. Its payload is a slice of `bytes`, not a copy, and keeps them all alive.
pub fn decode_job(bytes: &Bytes) -> Result<Job, StoreError> {
    decode("job", bytes, Job::take)
}

/// Appends a live job and how far it has come.
pub fn encode_live(job: &Job, progress: &Progress, out: &mut Vec<u8>) {
    encode(out, |out| {
        put_job(job, Shown::Whole, out);
        put_progress(progress, job.scheduled_for, out);
    });
}

/// Reads a live job and how far it has come. Its payload is a slice of `bytes`.
pub fn decode_live(bytes: &Bytes) -> Result<(Job, Progress), StoreError> {
    decode("live job", bytes, |input| {
        let job = Job::take(input)?;
        let progress = take_progress(job.scheduled_for, input)?;
        Ok((job, progress))
    })
}

/// Appends what is kept of a finished job; the arguments are those of [`Change::JobFinished`].
pub fn encode_finished(
    job: &Job,
    progress: &Progress,
    finish: &Finish,
    keep_payload: bool,
    out: &mut Vec<u8>,
) {
    let shown = if keep_payload { Shown::Whole } else { Shown::WithoutPayload };
    encode(out, |out| {
        put_job(job, shown, out);
        put_progress(progress, job.scheduled_for, out);
        finish.put(out);
    });
}

/// Reads a finished job. Its payload and result are slices of `bytes`.
pub fn decode_finished(bytes: &Bytes) -> Result<FinishedJob, StoreError> {
    decode("finished job", bytes, take_finished)
}

/// Reads a finished job, and gives back what its engine put behind it.
pub fn split_finished(bytes: &Bytes) -> Result<(FinishedJob, Bytes), StoreError> {
    let mut input = Reader::new(bytes);
    let read = input.begin(VERSION_OLDEST..=VERSION).and_then(|()| take_finished(&mut input));
    let left = input.left();
    let job = read.map_err(|fault| refused("finished job", fault, bytes.len() - left))?;
    Ok((job, bytes.slice(bytes.len() - left..)))
}

fn take_finished(input: &mut Reader<'_>) -> Result<FinishedJob, Fault> {
    let job = Job::take(input)?;
    let progress = take_progress(job.scheduled_for, input)?;
    Ok(FinishedJob { job: Arc::new(job), progress, finish: Finish::take(input)? })
}

/// Appends a change. What no engine can need is left out: the payload of a job of which it is not
/// kept, or that is forgotten.
pub fn encode_change(change: &Change, out: &mut Vec<u8>) {
    encode(out, |out| change.put(out));
}

/// Reads a change. Payloads and results in it are slices of `bytes`.
pub fn decode_change(bytes: &Bytes) -> Result<Change, StoreError> {
    decode("change", bytes, Change::take)
}

/// Appends a whole batch: what a log keeps. Its changes are written as [`encode_change`] does, less
/// the version byte.
pub fn encode_batch(batch: &ShardBatch, out: &mut Vec<u8>) {
    encode(out, |out| batch.put(out));
}

/// Reads a whole batch. Payloads and results in it are slices of `bytes`.
pub fn decode_batch(bytes: &Bytes) -> Result<ShardBatch, StoreError> {
    decode("batch", bytes, ShardBatch::take)
}

/// Appends progress alone.
pub fn encode_progress(progress: &Progress, out: &mut Vec<u8>) {
    encode(out, |out| progress.put(out));
}

/// Reads progress alone.
pub fn decode_progress(bytes: &Bytes) -> Result<Progress, StoreError> {
    decode("progress", bytes, Progress::take)
}

/// Appends a lease.
pub fn encode_lease(lease: &Lease, out: &mut Vec<u8>) {
    encode(out, |out| lease.put(out));
}

/// Reads a lease.
pub fn decode_lease(bytes: &Bytes) -> Result<Lease, StoreError> {
    decode("lease", bytes, Lease::take)
}

/// Appends the end of a job alone.
pub fn encode_finish(finish: &Finish, out: &mut Vec<u8>) {
    encode(out, |out| finish.put(out));
}

/// Reads the end of a job alone. Its result is a slice of `bytes`.
pub fn decode_finish(bytes: &Bytes) -> Result<Finish, StoreError> {
    decode("finish", bytes, Finish::take)
}

/// Appends an ended attempt.
pub fn encode_attempt(attempt: &AttemptRecord, out: &mut Vec<u8>) {
    encode(out, |out| attempt.put(out));
}

/// Reads an ended attempt.
pub fn decode_attempt(bytes: &Bytes) -> Result<AttemptRecord, StoreError> {
    decode("attempt", bytes, AttemptRecord::take)
}

/// Appends a schedule.
pub fn encode_schedule(schedule: &Schedule, out: &mut Vec<u8>) {
    encode(out, |out| schedule.put(out));
}

/// Reads a schedule. Its template's payload is a slice of `bytes`.
pub fn decode_schedule(bytes: &Bytes) -> Result<Schedule, StoreError> {
    decode("schedule", bytes, Schedule::take)
}

/// Appends how far a schedule has come.
pub fn encode_schedule_progress(progress: &ScheduleProgress, out: &mut Vec<u8>) {
    encode(out, |out| progress.put(out));
}

/// Reads how far a schedule has come.
pub fn decode_schedule_progress(bytes: &Bytes) -> Result<ScheduleProgress, StoreError> {
    decode("schedule progress", bytes, ScheduleProgress::take)
}

/// Appends an occurrence.
pub fn encode_occurrence(record: &OccurrenceRecord, out: &mut Vec<u8>) {
    encode(out, |out| record.put(out));
}

/// Reads an occurrence.
pub fn decode_occurrence(bytes: &Bytes) -> Result<OccurrenceRecord, StoreError> {
    decode("occurrence", bytes, OccurrenceRecord::take)
}

/// Appends a queue's settings.
pub fn encode_queue(settings: &QueueSettings, out: &mut Vec<u8>) {
    encode(out, |out| settings.put(out));
}

/// Reads a queue's settings.
pub fn decode_queue(bytes: &Bytes) -> Result<QueueSettings, StoreError> {
    decode("queue", bytes, QueueSettings::take)
}

/// Appends a queue's counts.
pub fn encode_counts(counts: &Counts, out: &mut Vec<u8>) {
    encode(out, |out| counts.put(out));
}

/// Reads a queue's counts.
pub fn decode_counts(bytes: &Bytes) -> Result<Counts, StoreError> {
    decode("counts", bytes, Counts::take)
}

fn encode(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    out.push(VERSION);
    put(out);
}

fn decode<T>(
    kind: &'static str,
    bytes: &Bytes,
    take: impl FnOnce(&mut Reader<'_>) -> Result<T, Fault>,
) -> Result<T, StoreError> {
    let mut input = Reader::new(bytes);
    input
        .begin(VERSION_OLDEST..=VERSION)
        .and_then(|()| take(&mut input))
        .and_then(|value| if input.is_empty() { Ok(value) } else { Err(Fault::Trailing) })
        .map_err(|fault| refused(kind, fault, bytes.len() - input.left()))
}

#[cold]
fn refused(kind: &'static str, fault: Fault, offset: usize) -> StoreError {
    let problem = match fault {
        Fault::Version(version) => {
            let known = format!("{VERSION_OLDEST} to {VERSION}");
            let message = format!("read {kind}: version {version} is none of {known}");
            return StoreError::new(ErrorKind::Version, message);
        }
        Fault::Short => "ends too early",
        Fault::Trailing => "goes on after its end",
        Fault::Number => "holds a number that is out of range",
        Fault::Tag => "holds a tag that is not known",
        Fault::Text => "holds text that is not UTF-8",
        Fault::Name => "holds a name that is not allowed",
    };
    StoreError::new(ErrorKind::Corrupt, format!("read {kind}: {problem}, at byte {offset}"))
}
