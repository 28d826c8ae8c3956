//! The fold of an era's commits into the first row of the next.
//!
//! Most of the work is done before the shard is locked: its commits are read, and leases whose job
//! runs no more are left out. A lease that is over stays over, so what was found out early still
//! holds. Under the lock only what was committed since is added, and the few leases that are left
//! are looked at again.
//!
//! A shard enters an era with the lock of the schema held, as whoever drops one does: an era that a
//! shard is about to enter is never dropped.

use std::collections::HashMap;

use hence_core::id::ScheduleId;
use hence_store::StoreError;

use super::bind::{self, CommitValues};
use super::error::{Columns, failed};
use super::read::{AT_PLACE, commit_rows};
use super::schema::Schema;
use super::snapshot::COUNTS;
use super::turn::Turn;
use super::value::Value;
use crate::draft::LeaseRow;
use crate::fold::Folded;
use crate::limits::PROGRESS_CARRIED_MAX;
use crate::rows::{Stamp, number_column};
use crate::slots::Layout;

impl Turn<'_> {
    pub(super) async fn fold(&self, schema: &Schema<'_>) -> Result<(), StoreError> {
        let layout = self.present_layout().await?;
        let mut folded = Folded::default();
        self.read_on(&mut folded, layout.era).await?;
        self.shared.leave_out_over(self.shard, &mut folded);
        if let Some(last) = folded.last {
            let live = self.live_leases(&layout, &folded, last).await?;
            folded.leases.keep(live.iter().map(|lease| lease.place));
        }
        schema.with_era(self.target.era, self.fold_rest(folded, layout.era)).await
    }

    /// What is left to do under the lock.
    async fn fold_rest(&self, mut folded: Folded, era: i64) -> Result<(), StoreError> {
        let layout = self.locked_layout().await?;
        if layout.era != era || era >= self.target.era {
            // Another node was faster.
            return Ok(());
        }
        self.read_on(&mut folded, era).await?;
        self.shared.leave_out_over(self.shard, &mut folded);
        if let Some(last) = folded.last {
            self.write_fold(&layout, folded, last).await?;
        }
        let sql = "UPDATE @shards SET era = $2 WHERE shard = $1";
        self.query(sql, &[&self.number(), &self.target.era]).await.map(drop)
    }

    /// Adds the commits of an era that are not folded yet.
    async fn read_on(&self, folded: &mut Folded, era: i64) -> Result<(), StoreError> {
        let after = folded.last.unwrap_or(Stamp(-1));
        for row in commit_rows(self.shared, self.session, self.shard, era, after).await? {
            folded.add(row);
        }
        Ok(())
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

    async fn drop_stale_progress(&self, folded: &mut Folded) -> Result<(), StoreError> {
        let ids: Vec<&str> = folded.advanced.keys().map(ScheduleId::as_str).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let sql = "SELECT id, stamp FROM @schedules WHERE shard = $1 AND id = ANY($2::text[])";
        let rows = self.query(sql, &[&self.number(), &ids]).await?;
        let mut put = HashMap::new();
        for row in &rows {
            let read = || -> Columns<(String, i64)> { Ok((row.try_get(0)?, row.try_get(1)?)) };
            let (id, stamp) = read().map_err(failed("read schedules"))?;
            put.insert(id, Stamp(stamp));
        }
        folded.drop_stale_progress(&put);
        Ok(())
    }

    async fn write_progress(&self, folded: &Folded, last: Stamp) -> Result<(), StoreError> {
        let ids: Vec<&str> = folded.advanced.keys().map(ScheduleId::as_str).collect();
        let progress: Vec<&[u8]> = folded.advanced.values().map(|it| it.1.as_slice()).collect();
        let sql = "UPDATE @schedules s SET progress = t.progress, stamp = $2 \
                   FROM unnest($3::text[], $4::bytea[]) AS t(id, progress) \
                   WHERE s.shard = $1 AND s.id = t.id";
        let values: [Value<'_>; 4] = [&self.number(), &last.0, &ids, &progress];
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
             CROSS JOIN LATERAL ({AT_PLACE} OFFSET 0) j WHERE {COUNTS} ORDER BY t.nth"
        );
        let shard = self.number();
        let values: [Value<'_>; 5] = [&shard, &slots, &queues, &due, &numbers];
        let mut leases = Vec::new();
        for row in self.query(&sql, &values).await? {
            let read = || -> Columns<(i64, i64)> { Ok((row.try_get(0)?, row.try_get(1)?)) };
            let (nth, stamp) = read().map_err(failed("read running jobs"))?;
            let Some((queue, place)) = places.get(nth as usize - 1) else { continue };
            leases.extend(folded.leases.carried(queue, *place, Stamp(stamp), last));
        }
        Ok(leases)
    }
}
