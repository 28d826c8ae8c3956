//! Why a job that is due is not handed out.

use core::fmt;

use crate::id::{HandlerName, JobId};
use crate::time::Timestamp;

/// What a due job waits for. Where several things are in its way, it is the first of this list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WaitingFor {
    /// The jobs of its queue that are due before it: it is not in memory yet.
    Turn,
    /// A job of its key that comes before it.
    Key(JobId),
    /// Its handler, which is not registered.
    Handler(HandlerName),
    /// Another process: this one is shutting down.
    Restart,
    /// Its queue, which is paused.
    Resume,
    /// The end of another job: its queue runs so many at once.
    Concurrency(u32),
    /// This instant: its queue starts no more before.
    Rate(Timestamp),
    /// A worker that pulls.
    Worker,
    /// The end of another delivery: this node has as many under way as it may.
    Room,
}

impl WaitingFor {
    /// As the API shows it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            WaitingFor::Turn => "turn",
            WaitingFor::Key(_) => "key",
            WaitingFor::Handler(_) => "handler",
            WaitingFor::Restart => "restart",
            WaitingFor::Resume => "resume",
            WaitingFor::Concurrency(_) => "concurrency",
            WaitingFor::Rate(_) => "rate",
            WaitingFor::Worker => "worker",
            WaitingFor::Room => "room",
        }
    }
}

/// For people, to be read after "waits for".
impl fmt::Display for WaitingFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitingFor::Turn => f.write_str("the jobs of its queue that are due before it"),
            WaitingFor::Key(id) => write!(f, "job {id}, which comes before it in its key"),
            WaitingFor::Handler(name) => write!(f, "a handler called {name} to be registered"),
            WaitingFor::Restart => f.write_str("another process, as this one is shutting down"),
            WaitingFor::Resume => f.write_str("its queue to be resumed"),
            WaitingFor::Concurrency(max) => {
                write!(f, "another job to end, as its queue runs {max} at once")
            }
            WaitingFor::Rate(at) => write!(f, "{at}, as its queue starts no more before"),
            WaitingFor::Worker => f.write_str("a worker that pulls from its queue"),
            WaitingFor::Room => f.write_str("another delivery of this node to end"),
        }
    }
}
