//! The turn of an era: every few minutes the rows of a shard are brought to where they belong.
//!
//! 1. The slots of the next days are made, if they are not there.
//! 2. Late jobs are carried from their slots to the rows that are removed one by one.
//! 3. Far jobs whose slot has opened are taken into it.
//! 4. All commits are folded into the first row of the next era.
//! 5. What no shard needs any more is dropped whole.
//!
//! Each of 2 to 4 is a short transaction that holds the shard's lock, moves some rows, and moves
//! the instants that say where rows lie by just as much. It may end anywhere: the next turn goes
//! on.

use std::collections::HashMap;

use hence_core::change::Place;
use hence_core::id::{QueueName, ShardId};
use hence_core::time::{Millis, Timestamp};
use hence_store::{ErrorKind, StoreError};
use mysql_async::Row;

use super::letters;
use super::read::{commit_rows, commits_sql};
use super::schema::Schema;
use super::session::{Session, column};
use super::shared::{Lock, ShardRow, Shared};
use super::snapshot::{COUNTS, PLACES_MAX, at_places};
use super::statements::{self, CommitValues, JOB_COLUMNS};
use super::sweep::BEGIN;
use super::text::Text;
use crate::draft::{Grant, LeaseRow};
use crate::fold::Folded;
use crate::limits::{CARRY_ROWS_MAX, PROGRESS_CARRIED_MAX};
use crate::rows::{Stamp, number_of};
use crate::slots::{Layout, slot_of};

const WHAT: &str = "turn an era";

/// How often a transaction of a turn is made when the server takes it back.
const TRIES_MAX: usize = 4;

/// Brings the shard up to `now`, if its era is over.
pub(super) async fn keep_up(
    shared: &Shared,
    session: &mut Session,
    shard: ShardId,
    now: Timestamp,
) -> Result<(), StoreError> {
    let target = Layout::at(now, &shared.slots);
    let mut sets = session.ask(WHAT, &shared.shard_sql(shard, Lock::None)).await?.into_iter();
    if target.era <= shared.shard_row(shard, &mut sets)?.layout.era {
        return Ok(());
    }
    let mut schema = Schema { session, tables: &shared.tables };
    // One turn at a time: another could drop the era that this one is about to begin.
    schema.lock().await?;
    let turned = turn(shared, schema.session, shard, target).await;
    if turned.is_ok() || !schema.session.is_broken() {
        schema.unlock().await?;
    }
    turned
}

async fn turn(
    shared: &Shared,
    session: &mut Session,
    shard: ShardId,
    target: Layout,
) -> Result<(), StoreError> {
    let mut schema = Schema { session, tables: &shared.tables };
    schema.make_partitions(&target).await?;
    let before = Folded::default();
    let mut turn = Turn { shared, session: schema.session, shard, target, before };
    turn.run_step(Step::Carry).await?;
    turn.run_step(Step::Open).await?;
    turn.fold_before().await?;
    turn.run_step(Step::Fold).await?;
    let mut schema = Schema { session: turn.session, tables: &shared.tables };
    schema.drop_partitions(shared.slots.width).await?;
    letters::forget(shared, schema.session).await
}

struct Turn<'a> {
    shared: &'a Shared,
    session: &'a mut Session,
    shard: ShardId,
    target: Layout,
    /// What the commits of the era came to before the shard was locked for the last step.
    before: Folded,
}

#[derive(Clone, Copy)]
enum Step {
    Carry,
    Open,
    Fold,
}

impl Turn<'_> {
    /// All transactions of a step. One that the server took back is made again.
    async fn run_step(&mut self, step: Step) -> Result<(), StoreError> {
        let mut failures = 0;
        loop {
            match self.take(step).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => {
                    failures += 1;
                    let passes = error.kind() == ErrorKind::Unavailable;
                    if !passes || failures == TRIES_MAX || self.session.is_broken() {
                        return Err(error);
                    }
                    self.session.run(WHAT, &Text::new("ROLLBACK")).await?;
                }
            }
        }
    }

    /// One transaction of a step; whether the step is done.
    async fn take(&mut self, step: Step) -> Result<bool, StoreError> {
        let mut sql = Text::new(BEGIN);
        sql.append(&self.shared.share_sql());
        sql.append(&self.shared.shard_sql(self.shard, Lock::Exclusive));
        let mut sets = self.session.ask(WHAT, &sql).await?.into_iter().skip(3);
        let row = self.shared.shard_row(self.shard, &mut sets)?;
        let done = match step {
            Step::Carry => self.carry(&row.layout).await,
            Step::Open => self.open(&row.layout).await,
            Step::Fold => self.fold(&row).await,
        }?;
        self.session.run(WHAT, &Text::new("COMMIT")).await?;
        Ok(done)
    }

    /// Carries late jobs to slot 0, and the beginning of the near slots past them.
    async fn carry(&mut self, layout: &Layout) -> Result<bool, StoreError> {
        let target = self.target.near_from.min(layout.near_until);
        if target <= layout.near_from {
            self.jump(layout).await?;
            return Ok(true);
        }
        let (first, _) = layout.slots();
        let last = slot_of(target.minus(Millis::new(1)), layout.width);
        let (shard, from) = (self.shard.0, layout.near_from.as_millis());
        let near = format!(
            "FROM @jobs j WHERE j.slot BETWEEN {first} AND {last} AND j.shard = {shard} \
             AND j.due_at >= {from} AND {COUNTS}"
        );
        let until = self.chunk(&near, from, target.as_millis()).await?;
        let columns = prefixed(JOB_COLUMNS);
        self.run(&format!(
            "INSERT INTO @jobs (slot, {JOB_COLUMNS}) SELECT 0, {columns} {near} \
             AND j.due_at < {until}"
        ))
        .await?;
        self.run(&format!("UPDATE @shards SET near_from = {until} WHERE shard = {shard}")).await?;
        Ok(false)
    }

    /// After a long pause all near slots are over, and those up to now were never made: what is due
    /// in them stays elsewhere.
    async fn jump(&mut self, layout: &Layout) -> Result<(), StoreError> {
        let from = self.target.near_from;
        if from <= layout.near_until {
            return Ok(());
        }
        let (shard, from) = (self.shard.0, from.as_millis());
        let sql = format!(
            "UPDATE @shards SET near_from = {from}, near_until = {from} WHERE shard = {shard}"
        );
        self.run(&sql).await
    }

    /// Takes far jobs into the slots that are open now, and the end of the near slots past them.
    async fn open(&mut self, layout: &Layout) -> Result<bool, StoreError> {
        let target = self.target.near_until;
        if target <= layout.near_until {
            return Ok(true);
        }
        let (shard, from) = (self.shard.0, layout.near_until.as_millis());
        let far =
            format!("FROM @jobs j WHERE j.slot = 0 AND j.shard = {shard} AND j.due_at >= {from}");
        let until = self.chunk(&far, from, target.as_millis()).await?;
        let (columns, width) = (prefixed(JOB_COLUMNS), self.target.width.get());
        self.run(&format!(
            "INSERT INTO @jobs (slot, {JOB_COLUMNS}) SELECT j.due_at DIV {width}, {columns} {far} \
             AND j.due_at < {until}"
        ))
        .await?;
        self.run(&format!(
            "DELETE FROM @jobs WHERE slot = 0 AND shard = {shard} AND due_at >= {from} \
             AND due_at < {until}"
        ))
        .await?;
        self.run(&format!("UPDATE @shards SET near_until = {until} WHERE shard = {shard}")).await?;
        Ok(until >= target.as_millis())
    }

    /// Up to which due time rows are moved now: the target, or where enough are moved.
    async fn chunk(&mut self, rows: &str, from: i64, target: i64) -> Result<i64, StoreError> {
        let sql = format!(
            "SELECT j.due_at {rows} AND j.due_at < {target} ORDER BY j.due_at \
             LIMIT {CARRY_ROWS_MAX}, 1"
        );
        let found = self.ask(&sql).await?.into_iter().next();
        let Some(mut row) = found else { return Ok(target) };
        let due_at: i64 = column(WHAT, &mut row, 0)?;
        // All that are due at once are moved together.
        Ok(target.min(due_at.max(from + 1)))
    }

    /// Folds what there is while the shard goes on: with the lock, only what came since is read.
    /// A lease whose job is not there now will not count again.
    async fn fold_before(&mut self) -> Result<(), StoreError> {
        let sql = self.shared.shard_sql(self.shard, Lock::None);
        let mut sets = self.session.ask(WHAT, &sql).await?.into_iter();
        let layout = self.shared.shard_row(self.shard, &mut sets)?.layout;
        let mut folded = self.read_on(&layout, Folded::default()).await?;
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
    async fn fold(&mut self, row: &ShardRow) -> Result<bool, StoreError> {
        if row.layout.era >= self.target.era {
            return Ok(true);
        }
        let folded = self.read_on(&row.layout, self.before.clone()).await?;
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

    /// What a schedule came to before it was put again is over: folded, it would look newer.
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
        folded
            .advanced
            .retain(|id, (stamp, _)| put.get(id.as_str()).is_some_and(|put| *put < *stamp));
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
            let head = format!(
                "SELECT j.queue, j.due_at, j.number, j.stamp FROM @jobs j WHERE j.shard = {} \
                 AND {COUNTS} AND ",
                self.shard.0
            );
            let mut sql = self.shared.tables.text(&head);
            sql.append(&at_places(layout, places));
            for row in self.session.ask(WHAT, &sql).await?.into_iter().flatten() {
                leases.extend(lease(folded, last, row)?);
            }
        }
        Ok(leases)
    }

    async fn ask(&mut self, sql: &str) -> Result<Vec<Row>, StoreError> {
        let sets = self.session.ask(WHAT, &self.shared.tables.text(sql)).await?;
        Ok(sets.into_iter().flatten().collect())
    }

    async fn run(&mut self, sql: &str) -> Result<(), StoreError> {
        self.session.run(WHAT, &self.shared.tables.text(sql)).await
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
    let Some(lease) = folded.leases.lease_of(place, stamp, last) else { return Ok(None) };
    let queue = QueueName::new(&queue).map_err(|_| super::error::unreadable(WHAT))?;
    let (attempt, holder, granted_at) = (lease.attempt, lease.holder, lease.granted_at);
    Ok(Some(LeaseRow {
        queue,
        place,
        token: lease.token,
        until: lease.until,
        grant: Some(Grant { attempt, holder, granted_at }),
    }))
}

/// The columns of the table that is called j.
fn prefixed(columns: &str) -> String {
    columns.split(", ").map(|column| format!("j.{}", column.trim())).collect::<Vec<_>>().join(", ")
}
