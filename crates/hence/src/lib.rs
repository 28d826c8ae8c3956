//! Durable scheduling of future work, as a library.
//!
//! The only crate that owns threads, timers and the real clock. It drives the pure core: gathers
//! inputs, calls the shard, makes its facts durable, and only then carries out its effects.
//!
//! ```
//! use hence::{Hence, NewJob, core::time::Millis, store::MemoryStore};
//! use std::{sync::Arc, time::Duration};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let hence = Hence::builder(Arc::new(MemoryStore::new(1)))
//!     .handler("greet", |name: String, _| async move { Ok(format!("hello {name}")) })?
//!     .start()
//!     .await?;
//! let client = hence.client();
//! let job = NewJob::handler("greet")?.json(&"Ada")?.after(Millis::new(5)).keep_result();
//! let name = client.add(job).await?.view.job.name.clone();
//! let ended = client.wait(name, Duration::from_secs(5)).await?.expect("it is due by then");
//! assert_eq!(&ended.finish.unwrap().result.unwrap().bytes[..], b"\"hello Ada\"");
//! hence.shutdown(Duration::from_secs(5)).await;
//! # Ok(())
//! # }
//! ```
//!
//! `docs/guides/library.md` goes through all of it, and `examples/` has a small program for each
//! feature. For tests of your own jobs and schedules there is [`testing`], with a clock that you
//! move.

pub mod builder;
pub mod client;
pub mod clock;
pub mod error;
pub mod handler;
mod lane;
pub mod new_job;
pub mod observe;
pub mod postman;
pub mod stepped;
pub mod testing;

mod ahead;
mod chance;
mod commit;
mod dispatch;
mod driver;
mod mailbox;
mod read;
mod tenure;
mod watch;

pub use builder::{Builder, Hence};
pub use client::Client;
pub use error::Error;
pub use new_job::{Due, NewId, NewJob};

pub use hence_core as core;
pub use hence_store as store;
