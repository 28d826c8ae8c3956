//! The closed list of everything that can happen to a shard.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::error::Rejection;
use crate::id::{
    HandlerName, JobName, JobNumber, LetterId, QueueName, ScheduleId, Token, WorkerName,
};
use crate::job::{Job, JobSpec, Payload, Progress, Submission, Target};
use crate::ledger::OccurrenceRecord;
use crate::queue::QueueSettings;
use crate::retry::RetryPolicy;
use crate::schedule::Schedule;
use crate::time::{Millis, Timestamp};

/// Marks a request so that its answer finds the way back. The core only hands it through.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

impl Ticket {
    /// Nobody waits for the answer: there will be none.
    pub(crate) const NOBODY: Ticket = Ticket(u64::MAX);
}

/// Something happened.
#[derive(Clone, PartialEq, Debug)]
pub enum Input {
    /// Time passed: the deadline was reached.
    Tick,
    /// Somebody asks for something; there will be exactly one answer.
    Request {
        /// Where the answer goes.
        ticket: Ticket,
        /// What is asked.
        request: Request,
    },
    /// Somebody wrote a request into the store, in a transaction of their own. Answered as any
    /// request; besides, the letter is taken out of the inbox, in the same commit as what came of
    /// it. For a passing reason it stays there, to be read again.
    Letter {
        /// Where the answer goes.
        ticket: Ticket,
        /// Which letter.
        id: LetterId,
        /// What is asked, or why that could not be understood.
        request: Result<Request, Rejection>,
    },
    /// A target says how a delivery ended.
    Delivered {
        /// Which delivery.
        token: Token,
        /// How it ended.
        report: Report,
        /// Any number, for the jitter of a retry.
        random: u64,
    },
    /// The set of handlers registered in this process, whole.
    Handlers(Vec<HandlerName>),
    /// The answer to [`Effect::Find`](crate::effect::Effect::Find).
    Found {
        /// Which name was looked for.
        name: JobName,
        /// What the store has under it.
        found: Option<Found>,
    },
    /// The answer to [`Effect::Load`](crate::effect::Effect::Load).
    Loaded {
        /// The queue.
        queue: QueueName,
        /// The jobs, in order.
        jobs: Vec<(Arc<Job>, Progress)>,
        /// Whether the store has more after these.
        more: bool,
    },
    /// The answer to [`Effect::Recall`](crate::effect::Effect::Recall).
    Recalled {
        /// Whose ledger.
        schedule: ScheduleId,
        /// The records, oldest first.
        records: Vec<OccurrenceRecord>,
        /// Whether the ledger has more of what was asked for.
        more: bool,
    },
    /// Finished jobs were swept from the store; so many of them were dead.
    Swept {
        /// The queue.
        queue: QueueName,
        /// How many dead jobs went.
        dead: u64,
    },
    /// The store has no room for new work, or has room again.
    StoreFull(bool),
    /// The node is shutting down: nothing new is accepted or handed out.
    Drain,
}

/// What is asked of a shard.
#[derive(Clone, PartialEq, Debug)]
pub enum Request {
    /// Accept a job.
    Submit(Box<Submission>),
    /// Show a job.
    Show(JobName),
    /// Say what a due job waits for.
    Explain(JobName),
    /// Change a job that is not running.
    Edit {
        /// Which.
        name: JobName,
        /// What to change.
        edit: Box<Edit>,
    },
    /// Take a job back; if it is running, its success will not be recorded.
    Cancel(JobName),
    /// Make a waiting job due at once.
    RunNow(JobName),
    /// Give a dead job all its attempts again, at once.
    Replay(JobName),
    /// Forget a finished job before its time.
    Forget(JobName),
    /// Hand out ready jobs of pull queues.
    Lease {
        /// To whom.
        worker: WorkerName,
        /// From which queues, most important first.
        queues: Vec<QueueName>,
        /// How many at most.
        max: u32,
        /// For how long; the job's own timeout when not given.
        lease: Option<Millis>,
    },
    /// Hold a lease longer, from now on for this time; it never becomes shorter by it.
    Extend {
        /// Which lease.
        token: Token,
        /// For how long from now.
        lease: Millis,
    },
    /// The job is done.
    Ack {
        /// Which lease.
        token: Token,
        /// What came of it.
        result: Option<Payload>,
    },
    /// The job is done, whoever holds its lease now: its work was committed by a transaction that
    /// can be committed only once.
    Complete {
        /// Which job.
        name: JobName,
        /// The job that was meant, not a later one of its name.
        number: JobNumber,
        /// What came of it.
        result: Option<Payload>,
    },
    /// The job is not done.
    Nack {
        /// Which lease.
        token: Token,
        /// Why.
        reason: Option<Arc<str>>,
        /// How it goes on.
        how: Nack,
        /// Any number, for the jitter of a retry.
        random: u64,
    },
    /// Put a schedule, new or changed, whole. Only a pause stays as it is unless one is given, and
    /// what is counted from when it was said goes on when it is said again.
    PutSchedule {
        /// What is put. A pause of the one before stays, unless this one has its own.
        schedule: Box<Schedule>,
        /// Whether it ticks from now on, also if the one before was paused.
        wake: bool,
    },
    /// Remove a schedule and its ledger; jobs it made stay.
    RemoveSchedule(ScheduleId),
    /// Stop a schedule's ticking.
    PauseSchedule {
        /// Which.
        id: ScheduleId,
        /// Why; may be empty.
        note: Arc<str>,
    },
    /// Let a schedule tick again.
    ResumeSchedule(ScheduleId),
    /// Make jobs of ticks of the past that made none.
    Backfill {
        /// Of which schedule.
        id: ScheduleId,
        /// From this instant on …
        from: Timestamp,
        /// … up to and with this one.
        until: Timestamp,
        /// Jobs at least this far apart.
        pace: Millis,
    },
    /// End a backfill before it is through; the jobs that it made stay.
    CancelBackfill(ScheduleId),
    /// Make a job of the schedule now, outside its rhythm.
    TriggerSchedule(ScheduleId),
    /// Show a schedule.
    ShowSchedule(ScheduleId),
    /// Show all schedules after this one, at most so many.
    ListSchedules {
        /// After which; from the beginning when not given.
        after: Option<ScheduleId>,
        /// How many at most.
        limit: usize,
    },
    /// Count the schedules, and show those that fail the self-check: no next tick and no reason,
    /// or overdue.
    CheckSchedules {
        /// How many at most.
        limit: usize,
    },
    /// Change a queue's settings, whole.
    PutQueue {
        /// Which.
        name: QueueName,
        /// Its settings from now on.
        settings: QueueSettings,
    },
    /// Forget a queue that holds no job: its settings and its counts.
    RemoveQueue(QueueName),
    /// Show a queue.
    ShowQueue(QueueName),
    /// Show all queues.
    ListQueues,
    /// Show the jobs under way, at most so many.
    ListLeases {
        /// How many at most.
        limit: usize,
    },
}

impl Request {
    /// How many bytes it carries for others: a payload, or a result.
    pub fn carried_bytes(&self) -> usize {
        let carried = match self {
            Request::Submit(submission) => Some(&submission.spec.payload),
            Request::Edit { edit, .. } => edit.payload.as_ref(),
            Request::Ack { result, .. } | Request::Complete { result, .. } => result.as_ref(),
            Request::PutSchedule { schedule, .. } => Some(&schedule.template.payload),
            Request::Show(_)
            | Request::Explain(_)
            | Request::Cancel(_)
            | Request::RunNow(_)
            | Request::Replay(_)
            | Request::Forget(_)
            | Request::Lease { .. }
            | Request::Extend { .. }
            | Request::Nack { .. }
            | Request::RemoveSchedule(_)
            | Request::PauseSchedule { .. }
            | Request::ResumeSchedule(_)
            | Request::Backfill { .. }
            | Request::CancelBackfill(_)
            | Request::TriggerSchedule(_)
            | Request::ShowSchedule(_)
            | Request::ListSchedules { .. }
            | Request::CheckSchedules { .. }
            | Request::PutQueue { .. }
            | Request::RemoveQueue(_)
            | Request::ShowQueue(_)
            | Request::ListQueues
            | Request::ListLeases { .. } => None,
        };
        carried.map_or(0, |payload| payload.bytes.len())
    }
}

/// How a job that was not done goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nack {
    /// As a failed attempt, by the job's retry policy; the delay, if given, is a floor.
    Retry {
        /// Not before this time from now.
        delay: Option<Millis>,
    },
    /// Given back: the attempt does not count, the job is due again after this time.
    Release {
        /// After this time from now.
        delay: Millis,
    },
    /// No further attempt: the job is dead.
    Dead,
}

/// What to change about a job. What is not given stays.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Edit {
    /// When it is due.
    pub due_at: Option<Timestamp>,
    /// What it carries.
    pub payload: Option<Payload>,
    /// Where it goes.
    pub target: Option<Target>,
    /// What happens when an attempt fails.
    pub retry: Option<RetryPolicy>,
    /// How long an attempt may take.
    pub timeout: Option<Millis>,
}

impl Edit {
    /// Every rule about what it changes that does not depend on the job.
    pub fn check(&self) -> Result<(), Rejection> {
        let mut spec = JobSpec::new(self.target.clone().unwrap_or(Target::Worker));
        spec.payload = self.payload.clone().unwrap_or_default();
        spec.retry = self.retry.clone().unwrap_or_default();
        spec.timeout = self.timeout.unwrap_or(spec.timeout);
        spec.check()
    }
}

/// How a delivery ended, as the target saw it.
#[derive(Clone, PartialEq, Debug)]
pub enum Report {
    /// The target accepted the job.
    Succeeded {
        /// What it answered.
        result: Option<Payload>,
    },
    /// The target refused it or failed.
    Failed {
        /// In words.
        reason: Arc<str>,
        /// The target's wish for the next attempt.
        retry_after: Option<Millis>,
        /// Whether trying again is pointless.
        permanent: bool,
    },
    /// It was sent, or may have been, and no whole answer came.
    Unanswered {
        /// In words.
        reason: Arc<str>,
    },
    /// The deadline passed; the connection is closed.
    TimedOut,
    /// The target gives it back: not now. The attempt does not count.
    PutOff {
        /// In words.
        reason: Arc<str>,
        /// Not before this time from now.
        delay: Millis,
    },
    /// No handler of this name is registered.
    Unregistered,
    /// The delivery was given up by this node before it began: at a shutdown, or because there was
    /// no place for it in time.
    Released,
    /// The delivery was given up by this node after it had begun: shutdown.
    CutShort,
}

/// What the store has under a name.
#[derive(Clone, PartialEq, Debug)]
pub enum Found {
    /// A live job that is not running (running ones are always in memory).
    Live(Arc<Job>, Progress),
    /// A finished one.
    Finished(Arc<Job>, Progress, Box<crate::job::Finish>),
}
