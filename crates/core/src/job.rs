//! A job: work due at a time. What a producer asked for never changes after it was put; what
//! happens to it is its [`Progress`], and how it ended is its [`Outcome`].

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;

use bytes::Bytes;

pub use crate::target::{HttpTarget, Target};

use crate::error::Rejection;
use crate::id::{JobName, JobNumber, ScheduleId, Token, WorkerName};
use crate::limits;
use crate::listed::listed;
use crate::retry::RetryPolicy;
use crate::time::{Millis, Timestamp};

/// What a producer asked for, as it was accepted. Shared, never changed: an edit makes a new one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// Its number in the shard; the order of submission.
    pub number: JobNumber,
    /// How producers name it.
    pub name: JobName,
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// When it was to run at first; retries move [`Progress::due_at`], never this.
    pub scheduled_for: Timestamp,
    /// What it carries.
    pub payload: Payload,
    /// Where it goes when it is due.
    pub target: Target,
    /// What happens when an attempt fails.
    pub retry: RetryPolicy,
    /// How long one attempt may take.
    pub timeout: Millis,
    /// It is not started after this instant any more.
    pub expires_at: Option<Timestamp>,
    /// How long it can be looked at after it succeeded, was cancelled or expired, at least; see
    /// [`Job::keep_until`].
    pub retention: Millis,
    /// Whether the result of its success is kept as long as it is.
    pub keep_result: bool,
    /// What a failure means for the later jobs of its key.
    pub key_on_failure: KeyOnFailure,
    /// What to do when nobody can say how an attempt ended.
    pub on_unknown: OnUnknown,
    /// The tick that made it, when a schedule did.
    pub occurrence: Option<Occurrence>,
    /// A digest of the request that made it, when that carried an idempotency key.
    pub fingerprint: Option<u64>,
}

impl Job {
    /// Until when it is kept when it ends at this instant and is to be kept so long. The job is the
    /// memory of its idempotency key: it stays until nobody repeats the request any more.
    pub fn keep_until(&self, ended_at: Timestamp, retention: Millis) -> Timestamp {
        let kept = ended_at.plus(retention);
        match self.fingerprint {
            Some(_) => kept.max(self.submitted_at.plus(limits::IDEMPOTENCY_KEPT)),
            None => kept,
        }
    }

    /// Since when it waits to be handed out: nobody can have been late before it was submitted.
    pub fn waits_since(&self, due_at: Timestamp) -> Timestamp {
        due_at.max(self.submitted_at)
    }
}

/// Bytes and what they are. Hence never looks inside.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Payload {
    /// The bytes.
    pub bytes: Bytes,
    /// Their media type, if the producer said.
    pub content_type: Option<Arc<str>>,
}

/// What a failing job does to the later jobs of its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KeyOnFailure {
    /// They wait until it succeeded or is dead: strict order.
    #[default]
    Block,
    /// They go ahead while it waits for its retry.
    StepAside,
}

/// What to do with an attempt of which nobody can say what it did: the process died or was shut
/// down under it, its lease or its time ran out, or no whole answer came to what was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnUnknown {
    /// Deliver it again: at least once.
    #[default]
    Retry,
    /// Never deliver it again by itself: at most once. The job is dead until a human replays it.
    Park,
}

/// A tick of a schedule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Occurrence {
    /// The schedule.
    pub schedule: ScheduleId,
    /// The nominal instant.
    pub at: Timestamp,
}

/// How far a live job has come. This is what retries and reschedules change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// When it is to be handed out next.
    pub due_at: Timestamp,
    /// Attempts that ended and count.
    pub attempts: u32,
    /// Times its process died with it under way since an attempt last ended.
    pub crashes: u32,
    /// Whether it holds its key while it waits for a retry.
    pub holds_key: bool,
}

impl Progress {
    /// Where every job begins.
    pub fn fresh(due_at: Timestamp) -> Self {
        Progress { due_at, attempts: 0, crashes: 0, holds_key: false }
    }

    /// The state of a job that waits, as people see it at `now`. Due, it is ready also when it is
    /// far: behind a window full of others.
    pub fn state(&self, now: Timestamp) -> JobState {
        if self.due_at <= now { JobState::Ready } else { JobState::Scheduled }
    }
}

/// The right to run a job until a moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    /// Fences this delivery against all others of the job.
    pub token: Token,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// Who has it.
    pub holder: WorkerName,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// When it ends unless it is extended.
    pub until: Timestamp,
}

impl Lease {
    /// Whether one may last so long.
    pub fn check_span(span: Millis) -> Result<(), Rejection> {
        let (low, high) = (limits::LEASE_MIN, limits::LEASE_MAX);
        if span < low || span > high {
            return Err(Rejection::out_of_range("lease", low, high));
        }
        Ok(())
    }
}

/// One delivery, after it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttemptRecord {
    /// Its number, from 1.
    pub attempt: u32,
    /// Its token.
    pub token: Token,
    /// Who ran it.
    pub holder: WorkerName,
    /// When it was handed out.
    pub started_at: Timestamp,
    /// When its end was recorded.
    pub ended_at: Timestamp,
    /// How it ended.
    pub end: AttemptEnd,
    /// What the target said, cut to a sane length.
    pub reason: Option<Arc<str>>,
}

listed! {
    /// How an attempt ended.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum AttemptEnd {
        /// The target accepted the job.
        Succeeded = "succeeded",
        /// The target refused it or failed.
        Failed = "failed",
        /// Nobody answered in time.
        TimedOut = "timed_out",
        /// Given back before it was done: shutdown, or the worker asked for it.
        Released = "released",
        /// No handler of this name was registered.
        Unregistered = "unregistered",
        /// The process died while it was under way.
        Unknown = "unknown",
        /// The job was cancelled while it was under way.
        Cancelled = "cancelled",
    }
}

/// How a job ended for good.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Outcome {
    /// One success was recorded.
    Succeeded,
    /// Its last attempt failed; kept for a human.
    Dead,
    /// Somebody took it back.
    Cancelled,
    /// Its time ran out before it could start.
    Expired,
}

listed! {
    /// Where a job is in its life. See `docs/internals/lifecycle.md` for the picture.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
    pub enum JobState {
        /// Waits for its due time.
        Scheduled = "scheduled",
        /// Due; waits for a worker, its key, or a limit.
        Ready = "ready",
        /// Handed out under a lease.
        Running = "running",
        /// Done.
        Succeeded = "succeeded",
        /// Failed for good.
        Dead = "dead",
        /// Taken back.
        Cancelled = "cancelled",
        /// Too late to start.
        Expired = "expired",
    }
}

impl JobState {
    /// Every change of state there is, with the word that causes it. The diagram in
    /// `docs/internals/lifecycle.md` is compared with this table by a test.
    pub const TRANSITIONS: [(JobState, JobState, &'static str); 16] = [
        (JobState::Scheduled, JobState::Ready, "due"),
        (JobState::Scheduled, JobState::Scheduled, "reschedule"),
        (JobState::Scheduled, JobState::Cancelled, "cancel"),
        (JobState::Scheduled, JobState::Expired, "expire"),
        (JobState::Scheduled, JobState::Succeeded, "complete"),
        (JobState::Ready, JobState::Running, "lease"),
        (JobState::Ready, JobState::Scheduled, "reschedule"),
        (JobState::Ready, JobState::Cancelled, "cancel"),
        (JobState::Ready, JobState::Expired, "expire"),
        (JobState::Ready, JobState::Succeeded, "complete"),
        (JobState::Running, JobState::Succeeded, "succeed"),
        (JobState::Running, JobState::Scheduled, "retry"),
        (JobState::Running, JobState::Dead, "fail"),
        (JobState::Running, JobState::Cancelled, "cancel"),
        (JobState::Running, JobState::Expired, "expire"),
        (JobState::Dead, JobState::Scheduled, "replay"),
    ];

    /// The only way a state changes: asserts that the table above allows it.
    pub fn transition(&mut self, to: JobState) {
        let from = *self;
        assert!(
            Self::TRANSITIONS.iter().any(|(a, b, _)| (*a, *b) == (from, to)),
            "a job cannot go from {} to {}",
            from.as_str(),
            to.as_str()
        );
        *self = to;
    }

    /// Whether nothing will happen to the job any more by itself.
    pub const fn is_final(self) -> bool {
        !matches!(self, JobState::Scheduled | JobState::Ready | JobState::Running)
    }
}

impl Outcome {
    /// Every one of them.
    pub const ALL: [Outcome; 4] =
        [Outcome::Succeeded, Outcome::Dead, Outcome::Cancelled, Outcome::Expired];

    /// The state a job with this outcome is in.
    pub const fn state(self) -> JobState {
        match self {
            Outcome::Succeeded => JobState::Succeeded,
            Outcome::Dead => JobState::Dead,
            Outcome::Cancelled => JobState::Cancelled,
            Outcome::Expired => JobState::Expired,
        }
    }

    /// As the API shows it.
    pub const fn as_str(self) -> &'static str {
        self.state().as_str()
    }
}

/// A job as it can be looked at: live or finished.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobView {
    /// What was asked for. The payload of a finished job that was not kept is empty.
    pub job: Arc<Job>,
    /// Where it is in its life.
    pub state: JobState,
    /// How far it came.
    pub progress: Progress,
    /// Who runs it now.
    pub lease: Option<Box<Lease>>,
    /// How it ended.
    pub finish: Option<Box<Finish>>,
}

/// The end of a job, as kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finish {
    /// How it ended.
    pub outcome: Outcome,
    /// When.
    pub at: Timestamp,
    /// Why, when it did not succeed.
    pub reason: Option<Arc<str>>,
    /// What the target answered, when it was asked to be kept.
    pub result: Option<Payload>,
    /// Until when this can be looked at.
    pub keep_until: Timestamp,
}

impl Finish {
    /// Whether it can still be looked at: at the instant itself its time is up.
    pub fn is_kept(&self, now: Timestamp) -> bool {
        self.keep_until > now
    }
}

/// Where the id of a job comes from, and so what another job of that id means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdOrigin {
    /// The producer's choice.
    Given,
    /// It was drawn afresh: no other job can have it.
    Drawn,
    /// It stands for an idempotency key: another job of it was made by a request with that key.
    Key,
}

/// What a producer hands in. [`Submission::check`] holds every rule about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Submission {
    /// Its full name; the id was drawn by the caller when the producer gave none.
    pub name: JobName,
    /// Where its id comes from.
    pub id_origin: IdOrigin,
    /// When it is to run; the past means at once.
    pub due_at: Timestamp,
    /// What if a job of this name exists.
    pub on_conflict: OnConflict,
    /// Everything else.
    pub spec: JobSpec,
    /// See [`Job::fingerprint`].
    pub fingerprint: Option<u64>,
}

/// The part of a job that a schedule's template and a submission share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobSpec {
    /// See [`Job::payload`].
    pub payload: Payload,
    /// See [`Job::target`].
    pub target: Target,
    /// See [`Job::retry`].
    pub retry: RetryPolicy,
    /// See [`Job::timeout`].
    pub timeout: Millis,
    /// Not started later than this after it was due.
    pub expires_after: Option<Millis>,
    /// See [`Job::retention`].
    pub retention: Millis,
    /// See [`Job::keep_result`].
    pub keep_result: bool,
    /// See [`Job::key_on_failure`].
    pub key_on_failure: KeyOnFailure,
    /// See [`Job::on_unknown`].
    pub on_unknown: OnUnknown,
}

impl JobSpec {
    /// A job for this target, everything else by default.
    pub fn new(target: Target) -> Self {
        JobSpec {
            payload: Payload::default(),
            target,
            retry: RetryPolicy::default(),
            timeout: limits::TIMEOUT_DEFAULT,
            expires_after: None,
            retention: limits::RETENTION_DEFAULT,
            keep_result: false,
            key_on_failure: KeyOnFailure::default(),
            on_unknown: OnUnknown::default(),
        }
    }

    /// The job of this name, accepted now and due then. No schedule has made it, and it has no
    /// fingerprint.
    pub fn job(self, number: JobNumber, name: JobName, now: Timestamp, due_at: Timestamp) -> Job {
        Job {
            number,
            name,
            submitted_at: now,
            scheduled_for: due_at,
            payload: self.payload,
            target: self.target,
            retry: self.retry,
            timeout: self.timeout,
            expires_at: self.expires_after.map(|span| due_at.max(now).plus(span)),
            retention: self.retention,
            keep_result: self.keep_result,
            key_on_failure: self.key_on_failure,
            on_unknown: self.on_unknown,
            occurrence: None,
            fingerprint: None,
        }
    }

    /// Every rule about a job that does not depend on other jobs.
    pub fn check(&self) -> Result<(), Rejection> {
        self.payload.check("payload", limits::PAYLOAD_BYTES_MAX)?;
        if let Target::Http(target) = &self.target {
            target.check()?;
        }
        self.retry.check()?;
        if self.timeout < limits::TIMEOUT_MIN || self.timeout > limits::TIMEOUT_MAX {
            return Err(Rejection::out_of_range(
                "timeout",
                limits::TIMEOUT_MIN,
                limits::TIMEOUT_MAX,
            ));
        }
        if self.expires_after == Some(Millis::ZERO) {
            return Err(Rejection::invalid("expires_in", "must lie after the due time"));
        }
        if self.retention > limits::RETENTION_MAX {
            return Err(Rejection::out_of_range("retention", "0ms", limits::RETENTION_MAX));
        }
        Ok(())
    }
}

impl Submission {
    /// Every rule about a submission that does not depend on other jobs.
    pub fn check(&self, now: Timestamp) -> Result<(), Rejection> {
        self.spec.check()?;
        if crate::schedule::is_reserved(self.name.id.as_str()) {
            // A tick finds its name free without asking the store.
            let problem = "ends like the id of a schedule's job; choose another ending";
            return Err(Rejection::invalid("id", problem));
        }
        check_due(self.due_at, now)
    }
}

/// A due time may lie in the past (the job runs at once) and at most so far in the future.
pub fn check_due(due_at: Timestamp, now: Timestamp) -> Result<(), Rejection> {
    let latest = now.plus(limits::DUE_AHEAD_MAX);
    if (Timestamp::EPOCH..=latest).contains(&due_at) {
        return Ok(());
    }
    // Said so that it is right of an instant and of a span: the reader knows which was given.
    Err(Rejection::invalid("at", format!("must come to a time between 1970 and {latest}")))
}

impl Payload {
    /// The length and content type are within bounds.
    pub fn check(&self, field: &'static str, max: usize) -> Result<(), Rejection> {
        if self.bytes.len() > max {
            return Err(Rejection::too_long(field, self.bytes.len(), max));
        }
        let Some(content_type) = &self.content_type else { return Ok(()) };
        if content_type.len() > limits::CONTENT_TYPE_BYTES_MAX {
            let (size, max) = (content_type.len(), limits::CONTENT_TYPE_BYTES_MAX);
            return Err(Rejection::too_long("content_type", size, max));
        }
        if content_type.is_empty() || !content_type.bytes().all(|b| (0x20..0x7f).contains(&b)) {
            return Err(Rejection::invalid("content_type", "must be printable ASCII, not empty"));
        }
        Ok(())
    }
}

/// What happens when a job of the same name exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnConflict {
    /// The old one never runs; this one does.
    #[default]
    Replace,
    /// The old one stays as it is; this one is forgotten.
    Keep,
    /// This one is refused.
    Reject,
}

/// Cuts a reason to its limit, at a character boundary.
pub fn cut_reason(reason: &str) -> Arc<str> {
    if reason.len() <= limits::REASON_BYTES_MAX {
        return Arc::from(reason);
    }
    let mut end = limits::REASON_BYTES_MAX;
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    Arc::from(&reason[..end])
}
