//! Changes and batches of them as bytes.

use std::sync::Arc;

use hence_core::change::{Change, FinishedPlace, LeaseGrant, Place};
use hence_core::id::{JobNumber, LetterId, QueueName, Token, WorkerName};
use hence_core::job::{Finish, Job, Progress};
use hence_core::time::Timestamp;

use super::job::{Shown, put_after, put_job, put_progress, take_after, take_progress};
use super::wire::{Fault, Reader, Wire, fields, list_of, put_varint, put_zigzag};
use crate::ShardBatch;

fields!(Place { due_at, number });
fields!(FinishedPlace { outcome, at, number });
fields!(ShardBatch { shard, epoch, sequence, changes, counts, next_number });

const JOB_PUT: u8 = 0;
const JOB_MOVED: u8 = 1;
const LEASES_GRANTED: u8 = 2;
const LEASE_EXTENDED: u8 = 3;
const JOB_FINISHED: u8 = 4;
const JOB_FORGOTTEN: u8 = 5;
const SCHEDULE_PUT: u8 = 6;
const SCHEDULE_REMOVED: u8 = 7;
const OCCURRENCE_RECORDED: u8 = 8;
const QUEUE_PUT: u8 = 9;
const SCHEDULE_ADVANCED: u8 = 10;
const LEDGER_FORGOTTEN: u8 = 11;
const LETTER_TAKEN: u8 = 12;

impl Wire for Change {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Change::JobPut { job, progress, replaces, revives } => {
                out.push(JOB_PUT);
                job.put(out);
                put_progress(progress, job.scheduled_for, out);
                replaces.put(out);
                revives.put(out);
            }
            Change::JobMoved { job, from, progress, ended } => {
                out.push(JOB_MOVED);
                job.put(out);
                put_after(job.scheduled_for, *from, out);
                put_progress(progress, job.scheduled_for, out);
                ended.put(out);
            }
            Change::LeasesGranted { first_token, holder, at, leases } => {
                out.push(LEASES_GRANTED);
                put_leases(*first_token, holder, *at, leases, out);
            }
            Change::LeaseExtended { queue, place, token, until } => {
                out.push(LEASE_EXTENDED);
                queue.put(out);
                place.put(out);
                token.put(out);
                until.put(out);
            }
            Change::JobFinished { job, progress, finish, ended, keep_payload } => {
                out.push(JOB_FINISHED);
                put_finished(job, progress, finish, *keep_payload, out);
                ended.put(out);
                keep_payload.put(out);
            }
            Change::JobForgotten { job, place } => {
                out.push(JOB_FORGOTTEN);
                put_job(job, Shown::WithoutPayload, out);
                place.put(out);
            }
            Change::SchedulePut { state } => {
                out.push(SCHEDULE_PUT);
                state.put(out);
            }
            Change::ScheduleAdvanced { id, progress } => {
                out.push(SCHEDULE_ADVANCED);
                id.put(out);
                progress.put(out);
            }
            Change::ScheduleRemoved { id } => {
                out.push(SCHEDULE_REMOVED);
                id.put(out);
            }
            Change::OccurrenceRecorded { record } => {
                out.push(OCCURRENCE_RECORDED);
                record.put(out);
            }
            Change::LedgerForgotten { schedule, before } => {
                out.push(LEDGER_FORGOTTEN);
                schedule.put(out);
                before.put(out);
            }
            Change::QueuePut { name, settings } => {
                out.push(QUEUE_PUT);
                name.put(out);
                settings.put(out);
            }
            Change::LetterTaken { id, refused } => put_letter(*id, refused.as_ref(), out),
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(match input.byte()? {
            JOB_PUT => take_job_put(input)?,
            JOB_MOVED => take_job_moved(input)?,
            LEASES_GRANTED => take_leases(input)?,
            LEASE_EXTENDED => Change::LeaseExtended {
                queue: Wire::take(input)?,
                place: Wire::take(input)?,
                token: Wire::take(input)?,
                until: Wire::take(input)?,
            },
            JOB_FINISHED => take_job_finished(input)?,
            JOB_FORGOTTEN => {
                Change::JobForgotten { job: Wire::take(input)?, place: Wire::take(input)? }
            }
            SCHEDULE_PUT => Change::SchedulePut { state: Wire::take(input)? },
            SCHEDULE_ADVANCED => {
                Change::ScheduleAdvanced { id: Wire::take(input)?, progress: Wire::take(input)? }
            }
            LEDGER_FORGOTTEN => {
                Change::LedgerForgotten { schedule: Wire::take(input)?, before: Wire::take(input)? }
            }
            SCHEDULE_REMOVED => Change::ScheduleRemoved { id: Wire::take(input)? },
            OCCURRENCE_RECORDED => Change::OccurrenceRecorded { record: Wire::take(input)? },
            QUEUE_PUT => {
                Change::QueuePut { name: Wire::take(input)?, settings: Wire::take(input)? }
            }
            LETTER_TAKEN => {
                Change::LetterTaken { id: LetterId(input.varint()?), refused: Wire::take(input)? }
            }
            _ => return Err(Fault::Tag),
        })
    }
}

fn put_letter(id: LetterId, refused: Option<&Arc<str>>, out: &mut Vec<u8>) {
    out.push(LETTER_TAKEN);
    put_varint(id.0, out);
    refused.cloned().put(out);
}

fn put_finished(
    job: &Job,
    progress: &Progress,
    finish: &Finish,
    keep_payload: bool,
    out: &mut Vec<u8>,
) {
    let kept = keep_payload && finish.is_kept(finish.at);
    put_job(job, if kept { Shown::Whole } else { Shown::WithoutPayload }, out);
    put_progress(progress, job.scheduled_for, out);
    finish.put(out);
}

fn take_job_put(input: &mut Reader<'_>) -> Result<Change, Fault> {
    let job = Arc::<Job>::take(input)?;
    let progress = take_progress(job.scheduled_for, input)?;
    let replaces = Wire::take(input)?;
    let revives = Wire::take(input)?;
    Ok(Change::JobPut { job, progress, replaces, revives })
}

fn take_job_moved(input: &mut Reader<'_>) -> Result<Change, Fault> {
    let job = Arc::<Job>::take(input)?;
    let from = take_after(job.scheduled_for, input)?;
    let progress = take_progress(job.scheduled_for, input)?;
    let ended = Wire::take(input)?;
    Ok(Change::JobMoved { job, from, progress, ended })
}

fn take_job_finished(input: &mut Reader<'_>) -> Result<Change, Fault> {
    let job = Arc::<Job>::take(input)?;
    let progress = take_progress(job.scheduled_for, input)?;
    let finish: Box<Finish> = Wire::take(input)?;
    let ended = Wire::take(input)?;
    let keep_payload = bool::take(input)?;
    Ok(Change::JobFinished { job, progress, finish, ended, keep_payload })
}

/// The attempt's number and whether a queue's name follows, in one number: a batch is nearly always
/// of one queue, and its name must not be paid for with every job.
fn put_leases(
    first_token: Token,
    holder: &WorkerName,
    at: Timestamp,
    leases: &[LeaseGrant],
    out: &mut Vec<u8>,
) {
    first_token.put(out);
    holder.put(out);
    at.put(out);
    put_varint(leases.len() as u64, out);
    let mut last: Option<&LeaseGrant> = None;
    for grant in leases {
        let LeaseGrant { queue, place, attempt, until } = grant;
        let same_queue = last.is_some_and(|last| last.queue == *queue);
        put_varint(u64::from(*attempt) << 1 | u64::from(!same_queue), out);
        if !same_queue {
            queue.put(out);
        }
        put_after(at, place.due_at, out);
        // Neighbours in a queue are often neighbours in number.
        let last_number = last.map_or(0, |last| last.place.number.0);
        put_zigzag(place.number.0.wrapping_sub(last_number) as i64, out);
        put_after(at, *until, out);
        last = Some(grant);
    }
}

fn take_leases(input: &mut Reader<'_>) -> Result<Change, Fault> {
    let first_token = Token::take(input)?;
    let holder = WorkerName::take(input)?;
    let at = Timestamp::take(input)?;
    let count = input.count()?;
    let mut leases: Vec<LeaseGrant> = list_of(count);
    for _ in 0..count {
        let grant = take_grant(at, leases.last(), input)?;
        leases.push(grant);
    }
    Ok(Change::LeasesGranted { first_token, holder, at, leases })
}

fn take_grant(
    at: Timestamp,
    last: Option<&LeaseGrant>,
    input: &mut Reader<'_>,
) -> Result<LeaseGrant, Fault> {
    let head = input.varint()?;
    let attempt = u32::try_from(head >> 1).map_err(|_| Fault::Number)?;
    let queue = match last {
        _ if head & 1 == 1 => QueueName::take(input)?,
        Some(last) => last.queue.clone(),
        None => return Err(Fault::Tag),
    };
    let due_at = take_after(at, input)?;
    let last_number = last.map_or(0, |last| last.place.number.0);
    let number = JobNumber(last_number.wrapping_add(input.zigzag()? as u64));
    let until = take_after(at, input)?;
    Ok(LeaseGrant { queue, place: Place { due_at, number }, attempt, until })
}
