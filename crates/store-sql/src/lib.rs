//! The engines that keep jobs in a database: append, and drop by the slot.
//!
//! What a database is worst at is changing rows: each change leaves the old one behind, and while
//! any session looks at an old state, none of it can be cleaned up. So rows are added here and
//! hardly ever changed; they go by the partition, whole, when their time is over
//! ([decision 8](../../../docs/decisions/0008-append-and-drop.md)).
//!
//! Reading order: [`slots`] where rows lie, [`draft`] what a batch comes to, [`rows`] rows and what
//! they stand for, [`leases`] and [`fold`] what commits come to. None of these knows a dialect.

mod draft;
mod fold;
mod leases;
pub mod limits;
mod migrate;
pub mod mysql;
mod names;
mod options;
mod rows;
mod slots;
mod threads;

pub use migrate::{Applied, Direction, Step};
pub use names::SqlName;
pub use options::{Options, Run};
