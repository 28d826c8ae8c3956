//! The engines that keep jobs in a database: append, and drop by the slot.
//!
//! What a database is worst at is changing rows: each change leaves the old one behind, and while
//! any session looks at an old state, none of it can be cleaned up. So rows are added here and
//! hardly ever changed; they go by the partition, whole, when their time is over
//! ([decision 8](../../../docs/decisions/0008-append-and-drop.md)).
//!
//! Reading order: `slots` where rows lie, `draft` what a batch comes to, `rows` rows and what they
//! stand for, `leases`, `outstanding` and `fold` what commits come to, `front` where jobs begin,
//! `known` what a process remembers of all that, `found` how answers are put together. None of
//! these knows a dialect; [`postgres`] is one, [`mysql`] the other.

mod draft;
mod fold;
mod found;
mod front;
mod known;
mod leases;
pub mod limits;
mod migrate;
pub mod mysql;
mod names;
mod options;
mod outstanding;
mod patience;
mod pool;
pub mod postgres;
mod rows;
mod slots;
mod threads;
mod url;

use std::sync::Arc;

use hence_core::time::Timestamp;
use hence_store::{ErrorKind, Store, StoreError};

pub use migrate::{Applied, Direction, Step};
pub use names::SqlName;
pub use options::{Options, Run};
pub use slots::Slots;

/// Opens the store behind this address, and makes it when it is not there.
pub async fn open(url: &str, now: Timestamp) -> Result<Arc<dyn Store>, StoreError> {
    let options = Options::new(now);
    match Engine::of(url)? {
        Engine::Postgres => Ok(Arc::new(postgres::open(url, &options).await?)),
        Engine::MySql => Ok(Arc::new(mysql::open(url, &options).await?)),
    }
}

/// Brings the tables to a version; the newest, without one. Gives the statements; a dry run runs
/// none of them.
pub async fn migrate_to(url: &str, to: Option<u32>, run: Run) -> Result<String, StoreError> {
    match Engine::of(url)? {
        Engine::Postgres => postgres::migrate_to(url, to, run).await,
        Engine::MySql => mysql::migrate_to(url, to, run).await,
    }
}

/// The migrations that were run.
pub async fn status(url: &str) -> Result<Vec<Applied>, StoreError> {
    match Engine::of(url)? {
        Engine::Postgres => postgres::status(url).await,
        Engine::MySql => mysql::status(url).await,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Engine {
    Postgres,
    MySql,
}

impl Engine {
    fn of(url: &str) -> Result<Self, StoreError> {
        match url.split_once("://").map(|(scheme, _)| scheme) {
            Some("postgres" | "postgresql") => Ok(Engine::Postgres),
            Some("mysql" | "mariadb") => Ok(Engine::MySql),
            _ => {
                let message = "store URL: must begin with postgres:// or mysql://";
                Err(StoreError::new(ErrorKind::Unsupported, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_names_the_engine() {
        let rows = [
            ("postgres://h/d", Some(Engine::Postgres)),
            ("postgresql://h/d", Some(Engine::Postgres)),
            ("mysql://h/d", Some(Engine::MySql)),
            ("mariadb://h/d", Some(Engine::MySql)),
            ("redis://h", None),
            ("hence-data", None),
        ];
        for (url, engine) in rows {
            assert_eq!(Engine::of(url).ok(), engine, "{url}");
        }
    }
}
