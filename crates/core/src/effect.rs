//! The closed list of everything a shard can ask for. Nothing in it may happen before the facts
//! that came out before it are durable.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::change::{Change, Place};
use crate::error::Rejection;
use crate::id::{HandlerName, JobName, QueueName, ScheduleId, Token};
use crate::input::Ticket;
use crate::job::{Job, JobView, Lease};
use crate::queue::QueueView;
use crate::schedule::{ScheduleCheck, ScheduleState};
use crate::time::{Millis, Timestamp};
use crate::waiting::WaitingFor;

/// Something is to be done. Several a job are moved from hand to hand: what is large and rare in
/// them is boxed.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// Make this fact durable; everything after it waits for that.
    Persist(Change),
    /// Answer a request.
    Reply {
        /// Whose.
        ticket: Ticket,
        /// What.
        answer: Result<Answer, Rejection>,
    },
    /// Hand this job to its target now.
    Deliver(Delivery),
    /// Stop this delivery if it can be stopped: its outcome will not count.
    Abandon(Token),
    /// Jobs of this queue wait for a worker to pull them.
    Wake(QueueName),
    /// Look for a name in the store; answer with `Found`.
    Find(JobName),
    /// Read the next jobs of a queue from the store; answer with `Loaded`.
    Load {
        /// The queue.
        queue: QueueName,
        /// After this place.
        after: Place,
        /// At most so many.
        limit: usize,
    },
    /// Read the ledger of a schedule, oldest first; answer with `Recalled`.
    Recall {
        /// Whose.
        schedule: ScheduleId,
        /// Records whose last tick is after this instant …
        after: Timestamp,
        /// … and not after this one.
        until: Timestamp,
        /// At most so many.
        limit: usize,
    },
    /// Something that people should know of, and nobody asked for.
    Notice(Notice),
}

/// Something that people should know of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A new zone database moved the next tick of a schedule.
    TickMoved {
        /// Whose.
        schedule: ScheduleId,
        /// The release that the old one was computed with.
        zones: Arc<str>,
        /// When it was to be.
        before: Option<Timestamp>,
        /// When it is now.
        after: Option<Timestamp>,
    },
    /// A job is due and no handler of its name is registered. Said once, until it is handed out.
    Unregistered {
        /// Which job.
        job: JobName,
        /// Whom it waits for.
        handler: HandlerName,
    },
}

const _: () = assert!(size_of::<Effect>() <= 96, "box what makes effects larger");

/// A job on its way to its target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The job.
    pub job: Arc<Job>,
    /// The lease it runs under.
    pub lease: Lease,
    /// When it was due.
    pub due_at: Timestamp,
}

impl Delivery {
    /// How late it is.
    pub fn late(&self, now: Timestamp) -> Millis {
        now.since(self.job.waits_since(self.due_at))
    }

    /// How long its attempt may take if it begins now: its timeout, or what is left of its lease,
    /// which is less after a commit that took very long. None if it must not begin: its job has
    /// expired since it was handed out, or not even half of its timeout is left. An attempt that
    /// hardly can succeed would count.
    pub fn time_to_run(&self, now: Timestamp) -> Option<Millis> {
        let (timeout, expires_at) = (self.job.timeout, self.job.expires_at);
        let time = self.lease.until.since(now).min(timeout);
        let has_expired = expires_at.is_some_and(|at| at <= now);
        (!has_expired && time.get() >= timeout.get().div_ceil(2)).then_some(time)
    }
}

/// What a request is answered with.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// A job was accepted, or stood already.
    Submitted {
        /// The job as it is now.
        view: JobView,
        /// What became of the submission.
        how: Submitted,
    },
    /// A job, as it is now.
    Job(JobView),
    /// What a job waits for, if it is due and waits.
    WaitingFor(Option<WaitingFor>),
    /// Jobs handed out.
    Leased(Vec<Delivery>),
    /// A lease ends then.
    Extended(Timestamp),
    /// Done; nothing more to say.
    Done,
    /// A schedule.
    Schedule(Box<ScheduleState>),
    /// Schedules, in order of id.
    Schedules(Vec<ScheduleState>),
    /// The self-check of schedules.
    ScheduleCheck(Box<ScheduleCheck>),
    /// A queue.
    Queue(Box<QueueView>),
    /// Queues, in order of name.
    Queues(Vec<QueueView>),
    /// Jobs under way.
    Leases(Vec<Delivery>),
}

/// What became of a submission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Submitted {
    /// A new job.
    Created,
    /// It took the place of one of the same name.
    Replaced,
    /// One of the same name stood already and was kept.
    Kept,
}
