//! The turn of an era: every few minutes the rows of a shard are brought to where they belong.
//!
//! 1. The slots of the next days are made, if they are not there.
//! 2. Late jobs are carried from their slots to the rows that are removed one by one.
//! 3. Far jobs whose slot has opened are taken into it.
//! 4. All commits are folded into the first row of the next era.
//! 5. What no shard needs any more is dropped whole.
//!
//! Each of 2 to 4 is a short transaction that holds the shard's lock, moves some rows, and moves the
//! instants that say where rows lie by just as much. It may end anywhere: the next turn goes on. A
//! shard enters an era with the lock of the schema held, as whoever drops one does: an era that a
//! shard is about to enter is never dropped.

use hence_core::id::ShardId;
use hence_core::time::Timestamp;
use hence_store::{ErrorKind, StoreError};
use tokio_postgres::{Error, Row};

use super::bind::{self, CommitValues};
use super::error::failed;
use super::read::commit_rows;
use super::schema::Schema;
use super::session::{Session, Value};
use super::shared::Shared;
use super::snapshot::COUNTS;
use crate::draft::{Grant, LeaseRow};
use crate::fold::Folded;
use crate::limits::{CARRY_ROWS_MAX, PROGRESS_CARRIED_MAX};
use crate::rows::{Stamp, number_column};
use crate::slots::Layout;

/// Where the rows of the shard lie, held until the transaction ends.
const LOCK: &str =
    "SELECT near_from, near_until, era FROM @shards WHERE shard = $1 FOR NO KEY UPDATE";

const COLUMNS: &str =
    "shard, queue, key, id, name_hash, number, due_at, stamp, holds_key, attempts,
    submitted_at, schedule, target, content_type, payload, body";

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
    for step in [Step::Carry, Step::Open] {
        while !turn.take(step).await? {}
    }
    schema.with_era(target.era, turn.fold()).await?;
    shared.forget_layout(shard);
    schema.drop_partitions(shared.slots.width).await?;
    Ok(())
}

struct Turn<'a> {
    shared: &'a Shared,
    session: &'a Session,
    shard: ShardId,
    target: Layout,
}

#[derive(Clone, Copy)]
enum Step {
    Carry,
    Open,
}

impl Turn<'_> {
    /// One transaction of a step; whether the step is done.
    async fn take(&self, step: Step) -> Result<bool, StoreError> {
        self.session.run("BEGIN").await.map_err(failed("begin a turn"))?;
        let taken = self.under_lock(step).await;
        let end = if taken.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = self.session.run(end).await.map_err(failed("commit a turn"));
        let done = taken?;
        ended.map(|()| done)
    }

    async fn under_lock(&self, step: Step) -> Result<bool, StoreError> {
        let layout = self.locked_layout().await?;
        match step {
            Step::Carry => self.carry(&layout).await,
            Step::Open => self.open(&layout).await,
        }
    }

    async fn locked_layout(&self) -> Result<Layout, StoreError> {
        let rows = self.query(LOCK, &[&i32::from(self.shard.0)]).await?;
        let Some(row) = rows.first() else {
            let message = format!("there is no {:?}", self.shard);
            return Err(StoreError::new(ErrorKind::Unsupported, message));
        };
        let read = || -> Result<Layout, Error> {
            Ok(Layout {
                width: self.target.width,
                near_from: Timestamp::from_millis(row.try_get(0)?),
                near_until: Timestamp::from_millis(row.try_get(1)?),
                era: row.try_get(2)?,
            })
        };
        read().map_err(failed("read a shard"))
    }

    /// Carries late jobs to slot 0, and the beginning of the near slots past them.
    async fn carry(&self, layout: &Layout) -> Result<bool, StoreError> {
        let target = self.target.near_from.min(layout.near_until);
        if target <= layout.near_from {
            self.jump(layout).await?;
            return Ok(true);
        }
        let (first, last) = layout.slots();
        let near = format!(
            "FROM @jobs j WHERE j.slot BETWEEN {first} AND {last} AND j.shard = $1 \
             AND j.due_at >= $2 AND {COUNTS}"
        );
        let from = layout.near_from.as_millis();
        let beyond = format!("SELECT j.due_at {near} ORDER BY j.due_at OFFSET $3 LIMIT 1");
        let until = self.chunk(&beyond, from, target.as_millis()).await?;
        let sql = format!(
            "INSERT INTO @jobs_0 (slot, {COLUMNS}) SELECT 0, {COLUMNS} {near} AND j.due_at < $3"
        );
        self.query(&sql, &[&i32::from(self.shard.0), &from, &until]).await?;
        self.query(
            "UPDATE @shards SET near_from = $2 WHERE shard = $1",
            &[&i32::from(self.shard.0), &until],
        )
        .await?;
        Ok(false)
    }

    /// After a long pause all near slots are over, and those up to now were never made: what is due
    /// in them stays elsewhere.
    async fn jump(&self, layout: &Layout) -> Result<(), StoreError> {
        let from = self.target.near_from;
        if from <= layout.near_until {
            return Ok(());
        }
        let sql = "UPDATE @shards SET near_from = $2, near_until = $2 WHERE shard = $1";
        self.query(sql, &[&i32::from(self.shard.0), &from.as_millis()]).await.map(drop)
    }

    /// Takes far jobs into the slots that are open now, and the end of the near slots past them.
    async fn open(&self, layout: &Layout) -> Result<bool, StoreError> {
        let target = self.target.near_until;
        if target <= layout.near_until {
            return Ok(true);
        }
        let from = layout.near_until.as_millis();
        let far = "FROM @jobs_0 j WHERE j.shard = $1 AND j.due_at >= $2";
        let beyond = format!("SELECT j.due_at {far} ORDER BY j.due_at OFFSET $3 LIMIT 1");
        let until = self.chunk(&beyond, from, target.as_millis()).await?;
        let sql = format!(
            "WITH moved AS (DELETE FROM @jobs_0 j WHERE j.shard = $1 AND j.due_at >= $2 \
             AND j.due_at < $3 RETURNING j.*) \
             INSERT INTO @jobs (slot, {COLUMNS}) SELECT due_at / $4, {COLUMNS} FROM moved"
        );
        let width = self.target.width.get() as i64;
        self.query(&sql, &[&i32::from(self.shard.0), &from, &until, &width]).await?;
        self.query(
            "UPDATE @shards SET near_until = $2 WHERE shard = $1",
            &[&i32::from(self.shard.0), &until],
        )
        .await?;
        Ok(until >= target.as_millis())
    }

    /// Up to which due time rows are moved now: the target, or where enough are moved.
    async fn chunk(&self, beyond: &str, from: i64, target: i64) -> Result<i64, StoreError> {
        let values: [Value<'_>; 3] = [&i32::from(self.shard.0), &from, &CARRY_ROWS_MAX];
        let rows = self.query(beyond, &values).await?;
        let Some(row) = rows.first() else { return Ok(target) };
        let due_at: i64 = row.try_get(0).map_err(failed("read a job"))?;
        // All that are due at once are moved together.
        Ok(target.min(due_at.max(from + 1)))
    }

    /// Folds the commits of the era into the first row of the next.
    async fn fold(&self) -> Result<(), StoreError> {
        let layout = self.locked_layout().await?;
        if layout.era >= self.target.era {
            return Ok(());
        }
        let rows = commit_rows(self.shared, self.session, self.shard, layout.era).await?;
        let mut folded = Folded::default();
        rows.into_iter().for_each(|row| folded.add(row));
        if let Some(last) = folded.last {
            self.write_fold(&layout, folded, last).await?;
        }
        let sql = "UPDATE @shards SET era = $2 WHERE shard = $1";
        self.query(sql, &[&i32::from(self.shard.0), &self.target.era]).await.map(drop)
    }

    async fn write_fold(
        &self,
        layout: &Layout,
        mut folded: Folded,
        last: Stamp,
    ) -> Result<(), StoreError> {
        self.drop_stale_progress(&mut folded).await?;
        if folded.advanced.len() > PROGRESS_CARRIED_MAX {
            self.write_progress(&folded, last).await?;
            folded.advanced.clear();
        }
        let leases = self.live_leases(layout, &folded, last).await?;
        let row = CommitValues {
            era: self.target.era,
            shard: self.shard.0,
            stamp: last.0,
            next_number: number_column(folded.next_number),
            swept_until: folded.swept_until.max(self.shared.swept_until(self.shard)),
            counts: folded.counts.iter().map(|(name, it)| (name.as_str(), &it[..])).collect(),
            advanced: folded.advanced.iter().map(|(id, it)| (id.as_str(), &it.1[..])).collect(),
            leases: leases.iter().collect(),
        };
        let request = bind::commit(&row);
        let values: Vec<Value<'_>> = request.values.iter().map(|it| &**it as Value<'_>).collect();
        self.query(request.sql, &values).await.map(drop)
    }

    /// What a schedule came to before it was put again is over: folded, it would look newer.
    async fn drop_stale_progress(&self, folded: &mut Folded) -> Result<(), StoreError> {
        let ids: Vec<&str> = folded.advanced.keys().map(|id| id.as_str()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let sql = "SELECT id, stamp FROM @schedules WHERE shard = $1 AND id = ANY($2::text[])";
        let rows = self.query(sql, &[&i32::from(self.shard.0), &ids]).await?;
        let mut put = std::collections::HashMap::new();
        for row in &rows {
            let read =
                || -> Result<(String, i64), Error> { Ok((row.try_get(0)?, row.try_get(1)?)) };
            let (id, stamp) = read().map_err(failed("read schedules"))?;
            put.insert(id, Stamp(stamp));
        }
        folded
            .advanced
            .retain(|id, (stamp, _)| put.get(id.as_str()).is_some_and(|put| *put < *stamp));
        Ok(())
    }

    async fn write_progress(&self, folded: &Folded, last: Stamp) -> Result<(), StoreError> {
        let ids: Vec<&str> = folded.advanced.keys().map(|id| id.as_str()).collect();
        let progress: Vec<&[u8]> = folded.advanced.values().map(|it| it.1.as_slice()).collect();
        let sql = "UPDATE @schedules s SET progress = t.progress, stamp = $2 \
                   FROM unnest($3::text[], $4::bytea[]) AS t(id, progress) \
                   WHERE s.shard = $1 AND s.id = t.id";
        let values: [Value<'_>; 4] = [&i32::from(self.shard.0), &last.0, &ids, &progress];
        self.query(sql, &values).await.map(drop)
    }

    /// The leases whose job still runs.
    async fn live_leases(
        &self,
        layout: &Layout,
        folded: &Folded,
        last: Stamp,
    ) -> Result<Vec<LeaseRow>, StoreError> {
        let places = folded.leases.places(last);
        let queues: Vec<&str> = places.iter().map(|(queue, _)| queue.as_str()).collect();
        let due: Vec<i64> = places.iter().map(|(_, place)| place.due_at.as_millis()).collect();
        let numbers: Vec<i64> = places.iter().map(|it| number_column(it.1.number)).collect();
        let slots: Vec<i64> = places.iter().map(|it| layout.slot(it.1.due_at)).collect();
        let sql = format!(
            "SELECT t.nth, j.stamp FROM unnest($2::bigint[], $3::text[], $4::bigint[], \
             $5::bigint[]) WITH ORDINALITY AS t(slot, queue, due_at, number, nth) \
             JOIN @jobs j ON j.slot = t.slot AND j.shard = $1 AND j.queue = t.queue \
             AND j.due_at = t.due_at AND j.number = t.number WHERE {COUNTS} ORDER BY t.nth"
        );
        let shard = i32::from(self.shard.0);
        let values: [Value<'_>; 5] = [&shard, &slots, &queues, &due, &numbers];
        let mut leases = Vec::new();
        for row in self.query(&sql, &values).await? {
            let read = || -> Result<(i64, i64), Error> { Ok((row.try_get(0)?, row.try_get(1)?)) };
            let (nth, stamp) = read().map_err(failed("read running jobs"))?;
            let Some((queue, place)) = places.get(nth as usize - 1) else { continue };
            let Some(lease) = folded.leases.lease_of(*place, Stamp(stamp), last) else { continue };
            let (attempt, holder, granted_at) = (lease.attempt, lease.holder, lease.granted_at);
            leases.push(LeaseRow {
                queue: (*queue).clone(),
                place: *place,
                token: lease.token,
                until: lease.until,
                grant: Some(Grant { attempt, holder, granted_at }),
            });
        }
        Ok(leases)
    }

    async fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
        let asked = self.session.query(&self.shared.sql(sql), values).await;
        asked.map_err(failed("turn an era"))
    }
}
