//! The fold of an era's commits into the first row of the next.
//!
//! Most of the work is done before the shard is locked. A lease that is over stays over, so what
//! was found out early still holds; with the lock, only what was committed since is added.

use std::collections::HashMap;

use hence_core::change::Place;
use hence_core::id::QueueName;
use hence_core::time::Timestamp;
use hence_store::StoreError;
use mysql_async::Row;

use super::read::{commit_rows, commits_sql};
use super::session::column;
use super::shared::{Lock, ShardRow};
use super::snapshot::{PLACES_MAX, at_places};
use super::statements::{self, CommitValues};
use super::text::Text;
use super::turn::{Turn, WHAT};
use crate::draft::LeaseRow;
use crate::fold::Folded;
use crate::limits::PROGRESS_CARRIED_MAX;
use crate::rows::{Stamp, number_of};
use crate::slots::Layout;

impl Turn<'_> {
    /// Folds what there is while the shard goes on: with the lock, only what came since is read.
    /// A lease whose job is not there now will not count again, and what this process has seen to
    /// end need not even be looked at.
    pub(super) async fn fold_before(&mut self) -> Result<(), StoreError> {
        let sql = self.shared.shard_sql(self.shard, Lock::None);
        let mut sets = self.session.ask(WHAT, &sql).await?.into_iter();
        let layout = self.shared.shard_row(self.shard, &mut sets)?.layout;
        let mut folded = self.read_on(&layout, Folded::default()).await?;
        self.shared.leave_out_over(self.shard, &mut folded);
        if let Some(last) = folded.last {
            let live = self.live_leases(&layout, &folded, last).await?;
            folded.leases.keep(live.iter().map(|lease| lease.place));
        }
        self.before = folded;
        Ok(())
    }

    /// Takes in what was committed since.
    async fn read_on(&mut self, layout: &Layout, mut folded: Folded) -> Result<Folded, StoreError> {
        let sql = commits_sql(&self.shared.tables, self.shard, layout.era, folded.last);
        for row in commit_rows(self.shard, self.session.ask(WHAT, &sql).await?)? {
            folded.add(row);
        }
        Ok(folded)
    }

    /// Folds the commits of the era into the first row of the next.
    pub(super) async fn fold(&mut self, row: &ShardRow) -> Result<bool, StoreError> {
        if row.layout.era >= self.target.era {
            return Ok(true);
        }
        let mut folded = self.read_on(&row.layout, self.before.clone()).await?;
        self.shared.leave_out_over(self.shard, &mut folded);
        if let Some(last) = folded.last {
            self.write_fold(row, folded, last).await?;
        }
        let (era, shard) = (self.target.era, self.shard.0);
        self.run(&format!("UPDATE @shards SET era = {era} WHERE shard = {shard}")).await?;
        Ok(true)
    }

    async fn write_fold(
        &mut self,
        row: &ShardRow,
        mut folded: Folded,
        last: Stamp,
    ) -> Result<(), StoreError> {
        self.drop_stale_progress(&mut folded).await?;
        if folded.advanced.len() > PROGRESS_CARRIED_MAX {
            self.write_progress(&folded, last).await?;
            folded.advanced.clear();
        }
        let leases = self.live_leases(&row.layout, &folded, last).await?;
        let values = CommitValues {
            era: self.target.era,
            shard: self.shard.0,
            stamp: last,
            next_number: folded.next_number,
            swept_until: folded.swept_until.max(self.shared.swept_until(self.shard)),
            counts: folded.counts.iter().map(|(name, it)| (name.as_str(), &it[..])).collect(),
            advanced: folded.advanced.iter().map(|(id, it)| (id.as_str(), &it.1[..])).collect(),
            leases: &leases,
            fronts: &row.fronts,
        };
        self.session.run(WHAT, &statements::commit(&self.shared.tables, values)).await
    }

    async fn drop_stale_progress(&mut self, folded: &mut Folded) -> Result<(), StoreError> {
        if folded.advanced.is_empty() {
            return Ok(());
        }
        let sql = format!("SELECT id, stamp FROM @schedules WHERE shard = {}", self.shard.0);
        let mut put = HashMap::new();
        for mut row in self.ask(&sql).await? {
            let id: String = column(WHAT, &mut row, 0)?;
            put.insert(id, Stamp(column(WHAT, &mut row, 1)?));
        }
        folded.drop_stale_progress(&put);
        Ok(())
    }

    async fn write_progress(&mut self, folded: &Folded, last: Stamp) -> Result<(), StoreError> {
        for (id, (_, progress)) in &folded.advanced {
            let mut sql = self.shared.tables.text("UPDATE @schedules SET progress = ");
            sql.bytes(progress).raw(", stamp = ").number(last.0).raw(" WHERE shard = ");
            sql.number(i64::from(self.shard.0)).raw(" AND id = ").bytes(id.as_str().as_bytes());
            self.session.run(WHAT, &sql).await?;
        }
        Ok(())
    }

    /// The leases whose job still runs.
    async fn live_leases(
        &mut self,
        layout: &Layout,
        folded: &Folded,
        last: Stamp,
    ) -> Result<Vec<LeaseRow>, StoreError> {
        let places = folded.leases.places(last).into_iter();
        let places: Vec<(QueueName, Place)> =
            places.map(|(queue, place)| (queue.clone(), place)).collect();
        let mut leases = Vec::new();
        for places in places.chunks(PLACES_MAX) {
            let mut sql = Text::new("SELECT j.queue, j.due_at, j.number, j.stamp");
            sql.append(&at_places(self.shared, self.shard, layout, places));
            for row in self.session.ask(WHAT, &sql).await?.into_iter().flatten() {
                leases.extend(lease(folded, last, row)?);
            }
        }
        Ok(leases)
    }
}

/// The lease of a live row: queue, due time, number, stamp.
fn lease(folded: &Folded, last: Stamp, mut row: Row) -> Result<Option<LeaseRow>, StoreError> {
    let queue: String = column(WHAT, &mut row, 0)?;
    let place = Place {
        due_at: Timestamp::from_millis(column(WHAT, &mut row, 1)?),
        number: number_of(column(WHAT, &mut row, 2)?),
    };
    let stamp = Stamp(column(WHAT, &mut row, 3)?);
    let queue = QueueName::new(&queue).map_err(|_| super::error::unreadable(WHAT))?;
    Ok(folded.leases.carried(&queue, place, stamp, last))
}
