//! Jobs and changes for the cases, in few words.

use std::sync::Arc;

use bytes::Bytes;
use hence_core::change::{Change, FinishedPlace, LeaseGrant, Place};
use hence_core::id::{
    Epoch, JobId, JobName, JobNumber, Key, QueueName, ScheduleId, ShardId, Token, WorkerName,
};
use hence_core::job::{
    AttemptEnd, AttemptRecord, Finish, Job, JobSpec, Outcome, Payload, Progress, Target,
};
use hence_core::schedule::{
    Fate, OccurrenceRecord, Overlap, Run, Schedule, ScheduleProgress, ScheduleState,
};
use hence_core::time::Timestamp;

/// So many milliseconds after the day the cases play on.
pub(super) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_789_000_000_000 + millis)
}

/// Later than anything the cases do, before anything they keep is up.
pub(super) fn later() -> Timestamp {
    at(1_000_000)
}

pub(super) fn queue(name: &str) -> QueueName {
    QueueName::new(name).expect("a case names a queue well")
}

/// The queue of jobs that are not put elsewhere.
pub(super) fn main_queue() -> QueueName {
    queue("main")
}

pub(super) fn key(text: &str) -> Key {
    Key::new(text).expect("a case names a key well")
}

pub(super) fn schedule_id(text: &str) -> ScheduleId {
    ScheduleId::new(text).expect("a case names a schedule well")
}

pub(super) fn name(queue_name: &str, key_name: Option<&str>, id: &str) -> JobName {
    let id = JobId::new(id).expect("a case names a job well");
    JobName { queue: queue(queue_name), key: key_name.map(key), id }
}

/// A job of the main queue, due at `at(number)`.
pub(super) fn job(number: u64) -> Job {
    named(number, name("main", None, &format!("job-{number}")))
}

/// The same under another name.
pub(super) fn named(number: u64, name: JobName) -> Job {
    let payload = payload(&number.to_be_bytes());
    let spec = JobSpec { payload, ..JobSpec::new(Target::Worker) };
    spec.job(JobNumber(number), name, at(0), at(number as i64))
}

pub(super) fn payload(bytes: &[u8]) -> Payload {
    let content_type = Some(Arc::from("application/octet-stream"));
    Payload { bytes: Bytes::copy_from_slice(bytes), content_type }
}

/// Jobs `first..=last` of the main queue.
pub(super) fn jobs(first: u64, last: u64) -> Vec<Job> {
    (first..=last).map(job).collect()
}

pub(super) fn fresh(job: &Job) -> Progress {
    Progress::fresh(job.scheduled_for)
}

pub(super) fn place(job: &Job) -> Place {
    Place { due_at: job.scheduled_for, number: job.number }
}

/// The job is accepted, due when it was scheduled for.
pub(super) fn put(job: &Job) -> Change {
    put_with(job, fresh(job))
}

pub(super) fn put_with(job: &Job, progress: Progress) -> Change {
    Change::JobPut { job: Arc::new(job.clone()), progress, replaces: None, revives: None }
}

pub(super) fn put_all<'a>(jobs: impl IntoIterator<Item = &'a Job>) -> Vec<Change> {
    jobs.into_iter().map(put).collect()
}

/// The job takes the place of an older one of its name.
pub(super) fn replaced(old: &Job, new: &Job) -> Change {
    Change::JobPut {
        job: Arc::new(new.clone()),
        progress: fresh(new),
        replaces: Some(place(old)),
        revives: None,
    }
}

pub(super) fn moved(job: &Job, from: Timestamp, progress: Progress) -> Change {
    Change::JobMoved { job: Arc::new(job.clone()), from, progress, ended: None }
}

/// An attempt of the job failed, and it waits until `to`.
pub(super) fn retried(job: &Job, from: Timestamp, to: Timestamp, attempt: u32) -> Change {
    let progress = Progress { attempts: attempt, ..Progress::fresh(to) };
    let ended = Some(Box::new(attempt_record(attempt, AttemptEnd::Failed)));
    Change::JobMoved { job: Arc::new(job.clone()), from, progress, ended }
}

pub(super) fn attempt_record(attempt: u32, end: AttemptEnd) -> AttemptRecord {
    AttemptRecord {
        attempt,
        token: token(u64::from(attempt)),
        holder: worker(),
        started_at: at(i64::from(attempt) * 10),
        ended_at: at(i64::from(attempt) * 10 + 5),
        end,
        reason: Some(Arc::from(format!("attempt {attempt}"))),
    }
}

pub(super) fn worker() -> WorkerName {
    WorkerName::new("worker 1").expect("a case names a worker well")
}

pub(super) fn token(counter: u64) -> Token {
    Token { shard: ShardId(0), epoch: Epoch(1), counter }
}

/// The jobs, which stand where they were scheduled for, are handed out; tokens count from `first`.
pub(super) fn leased<'a>(jobs: impl IntoIterator<Item = &'a Job>, first: u64) -> Change {
    let grant = |job: &Job| LeaseGrant {
        queue: job.name.queue.clone(),
        place: place(job),
        attempt: 1,
        until: at(30_000),
    };
    Change::LeasesGranted {
        first_token: token(first),
        holder: worker(),
        at: at(0),
        leases: jobs.into_iter().map(grant).collect(),
    }
}

/// Ended at this instant, kept for an hour and more: until after [`later`].
pub(super) fn finish(outcome: Outcome, instant: Timestamp) -> Finish {
    Finish { outcome, at: instant, reason: None, result: None, keep_until: at(4_000_000) }
}

/// The job, which stands where it was scheduled for, ended so; its payload is kept.
pub(super) fn finished(job: &Job, finish: Finish) -> Change {
    Change::JobFinished {
        job: Arc::new(job.clone()),
        progress: fresh(job),
        finish: Box::new(finish),
        ended: None,
        keep_payload: true,
    }
}

pub(super) fn succeeded(job: &Job) -> Change {
    finished(job, finish(Outcome::Succeeded, at(500)))
}

pub(super) fn finished_place(job: &Job, finish: &Finish) -> FinishedPlace {
    FinishedPlace { outcome: finish.outcome, at: finish.at, number: job.number }
}

/// A new job, or the same again, in place of one that ended so.
pub(super) fn revived(old: &Job, new: &Job, finish: &Finish) -> Change {
    Change::JobPut {
        job: Arc::new(new.clone()),
        progress: fresh(new),
        replaces: None,
        revives: Some(finished_place(old, finish)),
    }
}

pub(super) fn schedule(id: &str) -> ScheduleState {
    let draft = Schedule::cron("*/5 9-17 * * MON-FRI")
        .zone("Europe/Paris")
        .queue(main_queue())
        .key(key("nightly"))
        .overlap(Overlap::QueueAll);
    let template = JobSpec::new(Target::Worker);
    let schedule = draft.build(schedule_id(id), template, at(0)).expect("a good schedule");
    ScheduleState::new(Arc::new(schedule), at(0))
}

/// The same, further on.
pub(super) fn advanced(id: &str, fired: u64) -> ScheduleProgress {
    let (number, tick) = (JobNumber(7), at(60_000));
    ScheduleProgress {
        last_at: Some(tick),
        fired,
        running: Some(Run { number, at: tick }),
        waiting: vec![at(120_000), at(180_000)],
        ..schedule(id).progress
    }
}

pub(super) fn occurrence(id: &str, minute: i64) -> OccurrenceRecord {
    OccurrenceRecord {
        schedule: schedule_id(id),
        first: at(minute * 60_000),
        last: at(minute * 60_000),
        count: 1,
        decided_at: at(minute * 60_000 + 3),
        fate: Fate::Ran(JobNumber(minute as u64)),
    }
}

pub(super) fn recorded(id: &str, minute: i64) -> Change {
    Change::OccurrenceRecorded { record: occurrence(id, minute) }
}
