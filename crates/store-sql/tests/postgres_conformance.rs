//! The table of promises, on a PostgreSQL server, and once more behind PgBouncer in transaction
//! mode. One server for all cases, a schema for each.

mod manner;

use std::process::ExitCode;

use futures::FutureExt;
use futures::future::BoxFuture;
use hence_core::id::{LetterId, ShardId};
use hence_core::time::Timestamp;
use hence_store::Answer;
use hence_store_sql::postgres::{self, PostgresStore};
use hence_testkit::{Missing, PgBouncer, Postgres};
use tokio_postgres::{NoTls, SimpleQueryMessage};

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

/// By the simple protocol: behind a pooler nothing can be prepared.
async fn write_letter(url: &str, body: &str) -> LetterId {
    let (address, options) = url.split_once("?schema=").expect("an address with a schema");
    let (schema, _) = options.split_once('&').unwrap_or((options, ""));
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.expect("connected");
    let reading = tokio::spawn(connection);
    let sql = format!(
        "WITH told AS (SELECT pg_notify('hence_letters', '{schema}.'))
        INSERT INTO {schema}.inbox (body) SELECT '{}' FROM told RETURNING id",
        body.replace('\'', "''")
    );
    let answer = client.simple_query(&sql).await.expect("written");
    let id = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    });
    drop(client);
    reading.await.expect("read to the end").expect("no error");
    LetterId(id.expect("a number"))
}

fn main() -> ExitCode {
    let server = Postgres::start_with(&["fsync = off", "max_connections = 200"]);
    let database = server.as_ref().map(Postgres::database);
    let (server, url) = match (&server, database) {
        (Err(error), _) if error.is::<Missing>() => {
            return manner::skip("postgres", &error.to_string());
        }
        (Ok(server), Ok(Ok(url))) => (server, url),
        (_, other) => panic!("PostgreSQL does not start: {other:?}"),
    };
    let direct = url.clone();
    let place = move |number| format!("{direct}?schema=case_{number}");
    let held = manner::run("postgres", &manner::MANNERS, postgres::open, place);
    let pooler = match PgBouncer::start(server) {
        Ok(pooler) => pooler,
        Err(error) if error.is::<Missing>() => {
            let skipped = manner::skip("pgbouncer", &error.to_string());
            return if held { skipped } else { ExitCode::FAILURE };
        }
        Err(error) => panic!("PgBouncer does not start: {error:#}"),
    };
    let url = pooler.url_of(&url).expect("its address");
    let place = move |number| format!("{url}?schema=pooled_{number}&pooler=transaction");
    // Where rows lie makes no difference to a pooler.
    let plain = manner::MANNERS.get(..1).unwrap_or_default();
    manner::exit(manner::run("pgbouncer", plain, postgres::open, place) && held)
}
