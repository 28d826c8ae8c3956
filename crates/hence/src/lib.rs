//! Durable scheduling of future work, as a library.
//!
//! The only crate that owns threads, timers and the real clock. It drives the pure core: gathers
//! inputs, calls the shard, makes its facts durable, and only then carries out its effects.

pub mod builder;
pub mod client;
pub mod clock;
pub mod error;
pub mod handler;
pub mod new_job;
pub mod observe;
pub mod testing;

mod commit;
mod dispatch;
mod driver;
mod mailbox;
mod watch;

pub use builder::{Builder, Hence};
pub use client::Client;
pub use error::Error;
pub use new_job::{Due, NewId, NewJob};

pub use hence_core as core;
pub use hence_store as store;
