//! The table of promises, on a PostgreSQL server. One server for all cases, a schema for each.

mod manner;

use std::process::ExitCode;

use hence_core::id::ShardId;
use hence_core::time::Timestamp;
use hence_store::Answer;
use hence_store_sql::postgres::{self, PostgresStore};
use hence_testkit::{Missing, Postgres};

impl manner::Turning for PostgresStore {
    fn keep_up(&self, shard: ShardId, now: Timestamp) -> Answer<'_, ()> {
        PostgresStore::keep_up(self, shard, now)
    }
}

fn main() -> ExitCode {
    let server = Postgres::start_with(&["fsync = off", "max_connections = 200"]);
    let database = server.as_ref().map(Postgres::database);
    let url = match (&server, database) {
        (Err(error), _) if error.is::<Missing>() => {
            return manner::skip("postgres", &error.to_string());
        }
        (_, Ok(Ok(url))) => url,
        (_, other) => panic!("PostgreSQL does not start: {other:?}"),
    };
    manner::run("postgres", postgres::open, move |number| format!("{url}?schema=case_{number}"))
}
