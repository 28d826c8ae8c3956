//! The raw limits of a PostgreSQL server: rows with the same columns as Hence's, in a plain table
//! with a primary key and an index by due time, and nothing around them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;
use tokio_postgres::{Client, NoTls, Statement};

use crate::jobs::PAYLOAD;
use crate::machine::now_ms;

/// What the codec makes of a job of the bench, beside its payload.
const BODY: &[u8] = &[7; 60];

const TABLE: &str = "CREATE TABLE plain (
    slot bigint NOT NULL, shard int NOT NULL, queue text NOT NULL, key text, id text NOT NULL,
    name_hash bigint NOT NULL, number bigint PRIMARY KEY, due_at bigint NOT NULL,
    stamp bigint NOT NULL, holds_key boolean NOT NULL, attempts int NOT NULL,
    submitted_at bigint NOT NULL, schedule text, target text NOT NULL, content_type text,
    payload bytea NOT NULL, body bytea NOT NULL);
CREATE INDEX plain_due ON plain (queue, due_at, number)";

const ONE: &str = "INSERT INTO plain VALUES
    (1, 0, 'default', NULL, $1, $2, $2, $3, 1, false, 0, $3, NULL, 'worker', NULL, $4, $5)";

const MANY: &str = "INSERT INTO plain
    SELECT 1, 0, 'default', NULL, id, number, number, due_at, 1, false, 0, due_at, NULL,
        'worker', NULL, payload, body
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bytea[])
    AS t(id, number, due_at, payload, body)";

const CLAIM: &str = "UPDATE plain SET attempts = attempts + 1, stamp = $2 WHERE number IN
    (SELECT number FROM plain WHERE queue = 'default' AND due_at <= $3 AND attempts = 0
     ORDER BY due_at, number FOR UPDATE SKIP LOCKED LIMIT $1)
    RETURNING number, payload";

const COMPLETE: &str = "DELETE FROM plain WHERE number = ANY($1)";

/// A database with the plain table.
pub(crate) struct RawPostgres {
    url: String,
    next: Arc<AtomicI64>,
}

impl RawPostgres {
    pub(crate) async fn create(url: String) -> Result<Self> {
        let raw = RawPostgres { url, next: Arc::new(AtomicI64::new(1)) };
        raw.connect().await?.batch_execute(TABLE).await?;
        Ok(raw)
    }

    /// Rows a second, one a statement.
    pub(crate) async fn insert_singly(&self, clients: usize, span: Duration) -> Result<f64> {
        let due_at = now_ms() + 3_600_000;
        self.rate(clients, span, ONE, async |client, statement| {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let id = id(number);
            client.execute(statement, &[&id, &number, &due_at, &PAYLOAD, &BODY]).await?;
            Ok(1)
        })
        .await
    }

    /// Rows a second, so many a statement.
    pub(crate) async fn insert_many(
        &self,
        clients: usize,
        size: usize,
        span: Duration,
    ) -> Result<f64> {
        let dues = vec![now_ms() + 3_600_000; size];
        let (payloads, bodies) = (vec![PAYLOAD; size], vec![BODY; size]);
        self.rate(clients, span, MANY, async |client, statement| {
            let first = self.next.fetch_add(size as i64, Ordering::Relaxed);
            let numbers: Vec<i64> = (first..first + size as i64).collect();
            let ids: Vec<String> = numbers.iter().map(|number| id(*number)).collect();
            client.execute(statement, &[&ids, &numbers, &dues, &payloads, &bodies]).await?;
            Ok(size)
        })
        .await
    }

    /// Rows a second that are claimed and completed, so many a statement, until they are gone.
    pub(crate) async fn claim(&self, clients: usize, size: usize, rows: usize) -> Result<f64> {
        let fill = self.connect().await?;
        fill.batch_execute("TRUNCATE plain").await?;
        let insert = fill.prepare(MANY).await?;
        for _ in 0..rows / 1_000 {
            let first = self.next.fetch_add(1_000, Ordering::Relaxed);
            let numbers: Vec<i64> = (first..first + 1_000).collect();
            let ids: Vec<String> = numbers.iter().map(|number| id(*number)).collect();
            let (payloads, bodies) = (vec![PAYLOAD; 1_000], vec![BODY; 1_000]);
            let dues = vec![now_ms(); 1_000];
            fill.execute(&insert, &[&ids, &numbers, &dues, &payloads, &bodies]).await?;
        }
        fill.batch_execute("ANALYZE plain").await?;
        self.rate(clients, Duration::from_mins(1), CLAIM, async |client, claim| {
            let now = now_ms();
            let claimed = client.query(claim, &[&(size as i64), &now, &now]).await?;
            let numbers: Vec<i64> = claimed.iter().map(|row| row.get(0)).collect();
            if numbers.is_empty() {
                return Ok(0);
            }
            // By the text: it is planned once for each connection all the same.
            client.execute(COMPLETE, &[&numbers]).await?;
            Ok(numbers.len())
        })
        .await
    }

    /// What all clients do in a second, until the time is up or there is nothing left to do.
    async fn rate(
        &self,
        clients: usize,
        span: Duration,
        text: &str,
        step: impl AsyncFn(&Client, &Statement) -> Result<usize>,
    ) -> Result<f64> {
        let mut sessions = Vec::with_capacity(clients);
        for _ in 0..clients {
            let client = self.connect().await?;
            let statement = client.prepare(text).await?;
            sessions.push((client, statement));
        }
        let done = AtomicUsize::new(0);
        let started = Instant::now();
        let each = sessions.iter().map(async |(client, statement)| {
            while started.elapsed() < span {
                match step(client, statement).await? {
                    0 => break,
                    count => done.fetch_add(count, Ordering::Relaxed),
                };
            }
            anyhow::Ok(())
        });
        try_join_all(each).await?;
        Ok(done.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64())
    }

    async fn connect(&self) -> Result<Client> {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        // An error of the connection is an error of whatever was asked on it.
        tokio::spawn(async move { drop(connection.await) });
        Ok(client)
    }
}

/// As long as an id that Hence draws.
fn id(number: i64) -> String {
    format!("{number:026}")
}
