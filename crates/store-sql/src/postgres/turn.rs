//! The turn of an era: every few minutes the rows of a shard are brought to where they belong.
//!
//! 1. The slots of the next days are made, if they are not there.
//! 2. Late jobs are carried from their slots to the rows that are removed one by one.
//! 3. Far jobs whose slot has opened are taken into it.
//! 4. All commits are folded into the first row of the next era ([`super::folding`]).
//! 5. What no shard needs any more is dropped whole.
//!
//! Each of 2 and 3 is done in portions. A portion is a short transaction that holds the shard's
//! lock, moves some rows, and moves the instants that say where rows lie by just as much. It may
//! end anywhere: the next turn goes on.

use hence_core::id::ShardId;
use hence_core::time::Timestamp;
use hence_store::{ErrorKind, StoreError};
use tokio_postgres::Row;

use super::error::{Columns, failed};
use super::letters;
use super::schema::Schema;
use super::session::Session;
use super::shared::Shared;
use super::value::Value;
use crate::limits::CARRY_ROWS_MAX;
use crate::slots::{Layout, start_of};

/// Where the rows of the shard lie.
const LOOK: &str = "SELECT near_from, near_until, era FROM @shards WHERE shard = $1";
/// The same, held until the transaction ends.
const LOCK: &str =
    "SELECT near_from, near_until, era FROM @shards WHERE shard = $1 FOR NO KEY UPDATE";

/// Columns of jobs beside their slot.
const COLUMNS: [&str; 16] = [
    "shard",
    "queue",
    "key",
    "id",
    "name_hash",
    "number",
    "due_at",
    "stamp",
    "holds_key",
    "attempts",
    "submitted_at",
    "schedule",
    "target",
    "content_type",
    "payload",
    "body",
];

/// Brings the shard up to `now`, if its era is over.
pub(super) async fn keep_up(
    shared: &Shared,
    session: &Session,
    shard: ShardId,
    now: Timestamp,
) -> Result<(), StoreError> {
    let target = Layout::at(now, &shared.slots);
    let layout = shared.layout(session, shard).await?;
    if target.era <= layout.era {
        return Ok(());
    }
    let schema = Schema { session, name: &shared.schema };
    schema.ensure_slots(&target).await?;
    let turn = Turn { shared, session, shard, target };
    turn.carry().await?;
    turn.open().await?;
    turn.fold(&schema).await?;
    shared.forget_layout(shard);
    schema.drop_partitions(shared.slots.width).await?;
    letters::forget(shared, session).await
}

pub(super) struct Turn<'a> {
    pub(super) shared: &'a Shared,
    pub(super) session: &'a Session,
    pub(super) shard: ShardId,
    pub(super) target: Layout,
}

impl Turn<'_> {
    /// Carries late jobs to slot 0, and the beginning of the near slots past them.
    async fn carry(&self) -> Result<(), StoreError> {
        loop {
            let layout = self.layout(LOOK).await?;
            let from = layout.near_from;
            let end = self.target.near_from.min(layout.near_until);
            if end <= from {
                return self.jump().await;
            }
            let slot = layout.slot(from);
            let table = format!("@jobs_{slot}");
            let end = end.min(start_of(slot + 1, layout.width));
            let until = self.portion(&table, from, end).await?;
            let sql = format!(
                "{} INSERT INTO @jobs_0 (slot, {}) SELECT 0, {} FROM q CROSS JOIN LATERAL ( \
                 SELECT * FROM {table} j WHERE j.shard = $1 AND j.queue = q.queue \
                 AND j.due_at >= $2 AND j.due_at < $3 AND NOT EXISTS ( \
                 SELECT FROM @gone_{slot} g WHERE g.shard = j.shard AND g.due_at = j.due_at \
                 AND g.number = j.number AND g.stamp > j.stamp OFFSET 0)) j",
                queues_of(&table),
                columns(""),
                columns("j."),
            );
            self.locked(&layout, async {
                self.query_once(&sql, from, until).await?;
                let sql = "UPDATE @shards SET near_from = $2 WHERE shard = $1";
                self.query(sql, &[&self.number(), &until.as_millis()]).await.map(drop)
            })
            .await?;
        }
    }

    /// After a long pause all near slots are over, and those up to now were never made: what is due
    /// in them stays elsewhere.
    async fn jump(&self) -> Result<(), StoreError> {
        let layout = self.layout(LOOK).await?;
        let from = self.target.near_from;
        if from <= layout.near_until {
            return Ok(());
        }
        self.locked(&layout, async {
            let sql = "UPDATE @shards SET near_from = $2, near_until = $2 WHERE shard = $1";
            self.query(sql, &[&self.number(), &from.as_millis()]).await.map(drop)
        })
        .await
    }

    /// Takes far jobs into the slots that are open now, and the end of the near slots past them.
    async fn open(&self) -> Result<(), StoreError> {
        loop {
            let layout = self.layout(LOOK).await?;
            let (from, end) = (layout.near_until, self.target.near_until);
            if end <= from {
                return Ok(());
            }
            let until = self.portion("@jobs_0", from, end).await?;
            let sql = format!(
                "{}, moved AS (DELETE FROM @jobs_0 j USING q WHERE j.shard = $1 \
                 AND j.queue = q.queue AND j.due_at >= $2 AND j.due_at < $3 RETURNING j.*) \
                 INSERT INTO @jobs (slot, {}) SELECT due_at / {}, {} FROM moved",
                queues_of("@jobs_0"),
                columns(""),
                layout.width.get(),
                columns(""),
            );
            self.locked(&layout, async {
                self.query_once(&sql, from, until).await?;
                let sql = "UPDATE @shards SET near_until = $2 WHERE shard = $1";
                self.query(sql, &[&self.number(), &until.as_millis()]).await.map(drop)
            })
            .await?;
        }
    }

    /// Up to which due time rows are moved at once: the end, or where there are enough. All that
    /// are due at one instant go together.
    async fn portion(
        &self,
        table: &str,
        from: Timestamp,
        end: Timestamp,
    ) -> Result<Timestamp, StoreError> {
        let sql = format!(
            "{} SELECT j.due_at FROM q CROSS JOIN LATERAL (SELECT j.due_at FROM {table} j \
             WHERE j.shard = $1 AND j.queue = q.queue AND j.due_at >= $2 AND j.due_at < $3 \
             ORDER BY j.due_at LIMIT {CARRY_ROWS_MAX} + 1) j \
             ORDER BY j.due_at OFFSET {CARRY_ROWS_MAX} LIMIT 1",
            queues_of(table),
        );
        let rows = self.query_once(&sql, from, end).await?;
        let Some(row) = rows.first() else { return Ok(end) };
        let due_at: i64 = row.try_get(0).map_err(failed("read a job"))?;
        let at_least = from.as_millis().saturating_add(1);
        Ok(end.min(Timestamp::from_millis(due_at.max(at_least))))
    }

    /// Runs the work in a transaction that holds the shard's lock, if its rows still lie where they
    /// lay.
    async fn locked(
        &self,
        layout: &Layout,
        work: impl Future<Output = Result<(), StoreError>>,
    ) -> Result<(), StoreError> {
        self.session.run("BEGIN").await.map_err(failed("begin a turn"))?;
        let done = match self.layout(LOCK).await {
            Ok(present) if present == *layout => work.await,
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = self.session.run(end).await.map_err(failed("commit a turn"));
        done.and(ended)
    }

    /// Where the rows lie, by [`LOOK`] or [`LOCK`].
    async fn layout(&self, sql: &str) -> Result<Layout, StoreError> {
        let rows = self.query(sql, &[&self.number()]).await?;
        let Some(row) = rows.first() else {
            let message = format!("there is no {:?}", self.shard);
            return Err(StoreError::new(ErrorKind::Unsupported, message));
        };
        let read = || -> Columns<Layout> {
            Ok(Layout {
                width: self.target.width,
                near_from: Timestamp::from_millis(row.try_get(0)?),
                near_until: Timestamp::from_millis(row.try_get(1)?),
                era: row.try_get(2)?,
            })
        };
        read().map_err(failed("read a shard"))
    }

    /// The same, held until the transaction ends.
    pub(super) async fn locked_layout(&self) -> Result<Layout, StoreError> {
        self.layout(LOCK).await
    }

    /// Where the rows lie, as of now.
    pub(super) async fn present_layout(&self) -> Result<Layout, StoreError> {
        self.layout(LOOK).await
    }

    pub(super) fn number(&self) -> i32 {
        i32::from(self.shard.0)
    }

    pub(super) async fn query(
        &self,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        let asked = self.session.query(&self.shared.sql(sql), values).await;
        asked.map_err(failed("turn an era"))
    }

    /// A text that may never come again, about a shard and a stretch of due times.
    async fn query_once(
        &self,
        sql: &str,
        from: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<Row>, StoreError> {
        let (shard, from, until) = (self.number(), from.as_millis(), until.as_millis());
        let asked = self.session.query_once(&self.shared.sql(sql), &[&shard, &from, &until]).await;
        asked.map_err(failed("turn an era"))
    }
}

/// The queues of a table, found by leaping from one to the next: rows lie by queue and due time,
/// and without the queue all of them would have to be looked at.
fn queues_of(table: &str) -> String {
    format!(
        "WITH RECURSIVE q(queue) AS ( \
         (SELECT j.queue FROM {table} j WHERE j.shard = $1 ORDER BY j.queue LIMIT 1) \
         UNION ALL SELECT (SELECT j.queue FROM {table} j WHERE j.shard = $1 \
         AND j.queue > q.queue ORDER BY j.queue LIMIT 1) FROM q WHERE q.queue IS NOT NULL)"
    )
}

fn columns(of: &str) -> String {
    COLUMNS.map(|column| format!("{of}{column}")).join(", ")
}
