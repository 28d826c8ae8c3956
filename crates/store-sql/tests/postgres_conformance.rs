//! The table of promises, on a PostgreSQL server. One server for all cases, a schema for each.

mod manner;

use std::process::ExitCode;

use futures::FutureExt;
use futures::future::BoxFuture;
use hence_core::id::{LetterId, ShardId};
use hence_core::time::Timestamp;
use hence_store::Answer;
use hence_store_sql::postgres::{self, PostgresStore};
use hence_testkit::{Missing, Postgres};
use tokio_postgres::NoTls;

impl manner::Turning for PostgresStore {
    fn keep_up(&self, shard: ShardId, now: Timestamp) -> Answer<'_, ()> {
        PostgresStore::keep_up(self, shard, now)
    }

    fn write_letter(url: &str, body: &'static str) -> Option<BoxFuture<'static, LetterId>> {
        let url = url.to_owned();
        let writing = async move {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(write_letter(&url, body))
        };
        Some(writing.boxed())
    }
}

async fn write_letter(url: &str, body: &str) -> LetterId {
    let (address, schema) = url.split_once("?schema=").expect("an address with a schema");
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.expect("connected");
    let reading = tokio::spawn(connection);
    let sql = format!(
        "WITH told AS (SELECT pg_notify('hence_letters', '{schema}.'))
        INSERT INTO {schema}.inbox (body) SELECT $1 FROM told RETURNING id"
    );
    let id: i64 = client.query_one(&sql, &[&body]).await.expect("written").get(0);
    drop(client);
    reading.await.expect("read to the end").expect("no error");
    LetterId(id as u64)
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
