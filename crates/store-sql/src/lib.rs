//! The engines that keep jobs in a database: append, and drop by the slot.
//!
//! What a database is worst at is changing rows: each change leaves the old one behind, and while
//! any session looks at an old state, none of it can be cleaned up. So rows are added here and
//! hardly ever changed; they go by the partition, whole, when their time is over
//! ([decision 8](../../../docs/decisions/0008-append-and-drop.md)).
//!
//! Reading order: [`slots`] where rows lie, [`draft`] what a batch comes to, [`rows`] rows and what
//! they stand for, [`leases`] and [`fold`] what commits come to. None of these knows a dialect;
//! [`postgres`] is one.

mod draft;
mod fold;
mod leases;
pub mod limits;
mod migrate;
mod names;
pub mod postgres;
mod rows;
mod slots;
mod url;

use std::sync::Arc;

use hence_core::time::Timestamp;
use hence_store::{ErrorKind, Store, StoreError};

pub use migrate::{Applied, Direction, Step};
pub use names::SqlName;
pub use slots::Slots;

/// Opens the store behind this address, and makes it when it is not there.
pub async fn open(url: &str, now: Timestamp) -> Result<Arc<dyn Store>, StoreError> {
    match Engine::of(url)? {
        Engine::Postgres => {
            let store = postgres::open(url, &postgres::Options::new(now)).await?;
            Ok(Arc::new(store))
        }
    }
}

/// Brings the tables to a version; the newest, without one. Gives the statements; a dry run runs
/// none of them.
pub async fn migrate_to(
    url: &str,
    to: Option<u32>,
    run: postgres::Run,
) -> Result<String, StoreError> {
    match Engine::of(url)? {
        Engine::Postgres => postgres::migrate_to(url, to, run).await,
    }
}

/// The migrations that were run.
pub async fn status(url: &str) -> Result<Vec<Applied>, StoreError> {
    match Engine::of(url)? {
        Engine::Postgres => postgres::status(url).await,
    }
}

enum Engine {
    Postgres,
}

impl Engine {
    fn of(url: &str) -> Result<Self, StoreError> {
        match url.split_once("://").map(|(scheme, _)| scheme) {
            Some("postgres" | "postgresql") => Ok(Engine::Postgres),
            _ => {
                let message = "store URL: must begin with postgres://";
                Err(StoreError::new(ErrorKind::Unsupported, message))
            }
        }
    }
}
