//! The raw limits of a MySQL or MariaDB server: rows with the same columns as Hence's, in a plain
//! table with a primary key and an index by due time, and nothing around them.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, Params, Statement, Value};

use crate::jobs::PAYLOAD;
use crate::machine::now_ms;

/// What the codec makes of a job of the bench, beside its payload.
const BODY: &[u8] = &[7; 60];

const TABLE: &str = "CREATE TABLE plain (
    slot BIGINT NOT NULL, shard INT NOT NULL, queue VARBINARY(64) NOT NULL,
    job_key VARBINARY(256), id VARBINARY(128) NOT NULL, name_hash BIGINT NOT NULL,
    number BIGINT NOT NULL PRIMARY KEY, due_at BIGINT NOT NULL, stamp BIGINT NOT NULL,
    holds_key TINYINT NOT NULL, attempts INT NOT NULL, submitted_at BIGINT NOT NULL,
    schedule VARBINARY(96), target TEXT NOT NULL, content_type TEXT, payload LONGBLOB NOT NULL,
    body LONGBLOB NOT NULL, KEY plain_due (queue, due_at, number)) ENGINE = InnoDB";

const ROW: &str = "(1, 0, 'default', NULL, ?, ?, ?, ?, 1, 0, 0, ?, NULL, 'worker', NULL, ?, ?)";

/// A database with the plain table.
pub(crate) struct RawMySql {
    options: Opts,
    next: AtomicI64,
}

impl RawMySql {
    pub(crate) async fn create(url: &str) -> Result<Self> {
        let raw = RawMySql { options: Opts::from_url(url)?, next: AtomicI64::new(1) };
        Conn::new(raw.options.clone()).await?.query_drop(TABLE).await?;
        Ok(raw)
    }

    /// Rows a second, so many a statement.
    pub(crate) async fn insert(&self, clients: usize, size: usize, span: Duration) -> Result<f64> {
        let text = format!("INSERT INTO plain VALUES {}", vec![ROW; size].join(", "));
        let mut sessions: Vec<(Conn, Statement)> = Vec::with_capacity(clients);
        for _ in 0..clients {
            let mut session = Conn::new(self.options.clone()).await?;
            let statement = session.prep(text.as_str()).await?;
            sessions.push((session, statement));
        }
        let done = AtomicUsize::new(0);
        let started = Instant::now();
        let each = sessions.iter_mut().map(async |(session, statement)| {
            while started.elapsed() < span {
                session.exec_drop(&*statement, self.rows(size)).await?;
                done.fetch_add(size, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
        try_join_all(each).await?;
        Ok(done.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64())
    }

    fn rows(&self, size: usize) -> Params {
        let due_at = now_ms() + 3_600_000;
        let first = self.next.fetch_add(size as i64, Ordering::Relaxed);
        let row = |number: i64| {
            let id = format!("{number:026}").into_bytes();
            [
                Value::Bytes(id),
                Value::Int(number),
                Value::Int(number),
                Value::Int(due_at),
                Value::Int(due_at),
                Value::Bytes(PAYLOAD.to_vec()),
                Value::Bytes(BODY.to_vec()),
            ]
        };
        Params::Positional((first..first + size as i64).flat_map(row).collect())
    }
}
