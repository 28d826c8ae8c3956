//! Decides what happens to jobs and when; does nothing.
//!
//! No clock, no IO, no randomness, no thread: events in, effects out. `no_std`, so that none of
//! them can be imported by mistake. The whole system is three calls on a [`shard::Shard`]:
//! `handle(now, input)`, `poll_effect()`, `deadline()`. Moving a number moves the world:
//!
//! ```
//! use hence_core::effect::Effect;
//! use hence_core::id::{Epoch, JobId, JobName, QueueName, ShardId, WorkerName};
//! use hence_core::input::{Input, Request, Ticket};
//! use hence_core::job::{HttpTarget, IdOrigin, JobSpec, OnConflict, Submission, Target};
//! use hence_core::shard::{Config, Shard, Snapshot};
//! use hence_core::time::Timestamp;
//! # fn main() -> Result<(), hence_core::error::Rejection> {
//!
//! let at = Timestamp::from_millis;
//! let config = Config::new(WorkerName::new("node-1")?);
//! let mut shard = Shard::recover(ShardId(0), Epoch(1), config, Snapshot::default());
//!
//! // At 1,000 ms, somebody wants a POST at 5,000 ms.
//! let submission = Submission {
//!     name: JobName { queue: QueueName::new("mail")?, key: None, id: JobId::new("welcome")? },
//!     id_origin: IdOrigin::Drawn,
//!     due_at: at(5_000),
//!     on_conflict: OnConflict::Replace,
//!     spec: JobSpec::new(Target::Http(HttpTarget::post("https://example.com/hook").into())),
//!     fingerprint: None,
//! };
//! let request = Request::Submit(Box::new(submission));
//! shard.handle(at(1_000), Input::Request { ticket: Ticket(7), request });
//! assert!(matches!(shard.poll_effect(), Some(Effect::Persist(_))), "first it is made durable,");
//! assert!(matches!(shard.poll_effect(), Some(Effect::Reply { .. })), "then it is acknowledged,");
//! assert_eq!(shard.poll_effect(), None, "and nothing is sent:");
//! assert_eq!(shard.deadline(), Some(at(5_000)), "it is not due yet.");
//!
//! shard.handle(at(5_000), Input::Tick);
//! assert!(matches!(shard.poll_effect(), Some(Effect::Persist(_))), "the lease is durable");
//! assert!(matches!(shard.poll_effect(), Some(Effect::Deliver(_))), "before the first byte.");
//! # Ok(())
//! # }
//! ```
#![no_std]

extern crate alloc;

pub mod change;
pub mod effect;
pub mod error;
mod flow;
pub mod id;
pub mod input;
pub mod job;
pub mod ledger;
pub mod limits;
mod listed;
pub mod queue;
pub mod retry;
pub mod schedule;
pub mod shard;
pub mod target;
pub mod time;
pub mod waiting;
pub mod when;
