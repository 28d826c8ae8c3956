//! The table of promises, on a MariaDB server, and on MySQL 8 where one is named. One server for
//! all cases, a prefix for each.

mod manner;

use std::process::ExitCode;

use futures::FutureExt;
use futures::future::BoxFuture;
use hence_core::id::{LetterId, ShardId};
use hence_core::time::Timestamp;
use hence_store::Answer;
use hence_store_sql::mysql::{self, MySqlStore};
use hence_testkit::suite::{Ended, run_trials, trial};
use hence_testkit::{MariaDb, Missing};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

impl manner::Turning for MySqlStore {
    fn keep_up(&self, shard: ShardId, now: Timestamp) -> Answer<'_, ()> {
        MySqlStore::keep_up(self, shard, now)
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
    let (address, prefix) = url.split_once("?prefix=").expect("an address with a prefix");
    let mut conn = Conn::from_url(address).await.expect("connected");
    let sql = format!("INSERT INTO {prefix}inbox (body) VALUES (?)");
    conn.exec_drop(sql, (body,)).await.expect("written");
    let id = conn.last_insert_id().expect("a number");
    conn.disconnect().await.expect("gone");
    LetterId(id)
}

/// Names an empty database in a server of MySQL 8.
const MYSQL_8: &str = "HENCE_TEST_MYSQL8_URL";

fn main() -> ExitCode {
    // Its syncs are none of these cases' business, and every case makes some forty files.
    let settings = [
        "innodb_flush_log_at_trx_commit = 0",
        "innodb_flush_method = nosync",
        "table_open_cache = 4000",
    ];
    let server = MariaDb::start_with(&settings);
    let database = server.as_ref().map(MariaDb::database);
    let url = match (&server, database) {
        (Err(error), _) if error.is::<Missing>() => {
            return manner::skip("mysql", &error.to_string());
        }
        (_, Ok(Ok(url))) => url,
        (_, other) => panic!("MariaDB does not start: {other:?}"),
    };
    let place = |url: String| move |number| format!("{url}?prefix=case_{number}_");
    let on_mariadb = manner::run("mysql", &manner::MANNERS, mysql::open, place(url));
    let on_mysql = match std::env::var(MYSQL_8) {
        Ok(url) => manner::exit(manner::run("mysql8", &manner::MANNERS, mysql::open, place(url))),
        Err(_) => skip_mysql_8(),
    };
    if on_mariadb { on_mysql } else { manner::exit(false) }
}

/// One line for all cases: nobody would read more.
fn skip_mysql_8() -> ExitCode {
    let skipped = trial("mysql8".to_owned(), || {
        let why = format!("MySQL 8: no package brings its server; name a database with {MYSQL_8}");
        Ok(Ended::Skipped(why))
    });
    run_trials(vec![skipped], 1).exit_code()
}
