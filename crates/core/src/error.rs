//! Why a request is refused. Never about IO: the core does none.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;

use crate::time::Timestamp;

/// A refusal, in the domain's words. Nothing was changed by the request it answers.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Rejection {
    /// A field's value cannot be accepted.
    #[error("{field} {problem}")]
    Invalid {
        /// The field, as the API names it.
        field: Cow<'static, str>,
        /// What is wrong and what would be right.
        problem: Cow<'static, str>,
    },
    /// A field is larger than its limit.
    #[error("{field} has {size} {unit}, at most {max} are allowed")]
    TooLarge {
        /// The field, as the API names it.
        field: Cow<'static, str>,
        /// What was given.
        size: usize,
        /// What is allowed.
        max: usize,
        /// What both are counted in.
        unit: &'static str,
    },
    /// There is no such job (any more).
    #[error("there is no such job; it may have finished and been forgotten")]
    NoSuchJob,
    /// There is no such schedule.
    #[error("there is no such schedule")]
    NoSuchSchedule,
    /// The queue has no settings and never had a job.
    #[error("there is no such queue")]
    NoSuchQueue,
    /// A job of this name exists and `on_conflict` is `reject`.
    #[error("a job of this name exists already; use on_conflict replace or keep to allow it")]
    JobExists,
    /// The idempotency key was used before, for another request.
    #[error("this idempotency key was used for a different request; use a new key")]
    IdempotencyMismatch,
    /// The job's state does not allow the request.
    #[error("the job is {state}; {hint}")]
    WrongState {
        /// The state it is in.
        state: &'static str,
        /// What can be done instead.
        hint: &'static str,
    },
    /// The token is not the one of the current lease.
    #[error(
        "the lease of this token has ended: the job was finished, cancelled, or handed out again"
    )]
    StaleToken,
    /// The queue accepts nothing at the moment.
    #[error("queue {queue} is paused for new jobs; resume it or try later")]
    QueuePaused {
        /// The queue.
        queue: String,
    },
    /// The queue holds as many jobs as it may.
    #[error("queue {queue} is full: at most {max} jobs may be pending; try later")]
    QueueFull {
        /// The queue.
        queue: String,
        /// Its limit.
        max: u64,
    },
    /// The queue still holds jobs.
    #[error(
        "queue {queue} holds jobs: {pending} pending, {running} running, {dead} dead; cancel, \
         finish or forget them first"
    )]
    QueueInUse {
        /// The queue.
        queue: String,
        /// Jobs that wait.
        pending: u64,
        /// Jobs handed out.
        running: u64,
        /// Dead jobs.
        dead: u64,
    },
    /// A bound of the shard is reached.
    #[error("too many {what}: at most {max} are allowed")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The bound.
        max: usize,
    },
    /// The store has no room for new work; acknowledged work goes on.
    #[error("the store is out of space; free some and try again")]
    StoreFull,
    /// The node is shutting down.
    #[error("the server is shutting down; try another one or try later")]
    Draining,
    /// A change would put the job outside of its own limits.
    #[error("the job would expire at {expires_at}, before it is due")]
    ExpiresBeforeDue {
        /// When it would expire.
        expires_at: Timestamp,
    },
}

impl Rejection {
    /// The named field is not acceptable; `problem` continues the sentence "field …".
    pub fn invalid(
        field: impl Into<Cow<'static, str>>,
        problem: impl Into<Cow<'static, str>>,
    ) -> Self {
        Rejection::Invalid { field: field.into(), problem: problem.into() }
    }

    /// The same about a field of another name: where it stands in a request, only its reader knows.
    #[must_use]
    pub fn renamed(self, name: impl FnOnce(&str) -> String) -> Self {
        match self {
            Rejection::Invalid { field, problem } => Rejection::invalid(name(&field), problem),
            Rejection::TooLarge { field, size, max, unit } => {
                Rejection::TooLarge { field: name(&field).into(), size, max, unit }
            }
            other => other,
        }
    }

    /// Whether the same request may be accepted later, with nothing changed about it.
    pub fn is_passing(&self) -> bool {
        match self {
            Rejection::QueuePaused { .. }
            | Rejection::QueueFull { .. }
            | Rejection::StoreFull
            | Rejection::Draining => true,
            Rejection::Invalid { .. }
            | Rejection::TooLarge { .. }
            | Rejection::NoSuchJob
            | Rejection::NoSuchSchedule
            | Rejection::NoSuchQueue
            | Rejection::QueueInUse { .. }
            | Rejection::JobExists
            | Rejection::IdempotencyMismatch
            | Rejection::WrongState { .. }
            | Rejection::StaleToken
            | Rejection::TooMany { .. }
            | Rejection::ExpiresBeforeDue { .. } => false,
        }
    }

    /// The text or the bytes of the named field are too long.
    pub fn too_long(field: impl Into<Cow<'static, str>>, size: usize, max: usize) -> Self {
        Rejection::TooLarge { field: field.into(), size, max, unit: "bytes" }
    }

    /// The named field holds too many of something.
    pub fn too_many_in(field: impl Into<Cow<'static, str>>, size: usize, max: usize) -> Self {
        Rejection::TooLarge { field: field.into(), size, max, unit: "entries" }
    }

    /// The number given lies outside its range.
    pub fn out_of_range(
        field: impl Into<Cow<'static, str>>,
        low: impl core::fmt::Display,
        high: impl core::fmt::Display,
    ) -> Self {
        Rejection::invalid(field, format!("must be between {low} and {high}"))
    }
}
