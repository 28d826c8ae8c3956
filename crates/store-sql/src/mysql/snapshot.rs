//! One view of a shard: where its rows lie, its leases, and its live rows, all of one moment.
//!
//! A snapshot first takes a share of the tables and looks after that: the server refuses to read a
//! table whose partitions were changed since the view began.

use std::collections::BTreeSet;
use std::sync::Arc;

use hence_core::change::Place;
use hence_core::id::{QueueName, ShardId};
use hence_core::time::Timestamp;
use hence_store::{LiveJob, StoreError};
use mysql_async::Row;

use super::commit_row;
use super::session::column;
use super::shared::{Lock, Reader, ShardRow, Shared};
use super::text::Text;
use crate::found::Found;
use crate::front::Fronts;
use crate::known::EraLog;
use crate::rows::{RowName, Stamp, number_column, read_live};
use crate::slots::{ELSEWHERE, Layout, Step};

/// The first statement reads no row, so the view begins with the second.
const BEGIN: &str = "START TRANSACTION READ ONLY; \
    SELECT 1 FROM @commits c, @jobs j, @gone g, @history h WHERE FALSE; ";

/// The columns of a live row.
pub(super) const LIVE: &str = "j.slot, j.number, j.due_at, j.stamp, j.payload, j.body";

/// Jobs, found by queue and place, by name, or because they hold their key. The index is always
/// named: left to its statistics, which lag behind, the server may read all of a shard.
pub(super) const BY_PLACE: &str = "@jobs j FORCE INDEX (PRIMARY)";
pub(super) const BY_NAME: &str = "@jobs j FORCE INDEX (@jobs_name)";
pub(super) const BY_HELD_KEY: &str = "@jobs j FORCE INDEX (@jobs_holds_key)";

/// What makes a row of near slots count.
pub(super) const COUNTS: &str = "NOT EXISTS (SELECT 1 FROM @gone g WHERE g.slot = j.slot \
    AND g.shard = j.shard AND g.due_at = j.due_at AND g.number = j.number AND g.stamp > j.stamp)";

/// Places in one statement: each is a part of it that the server must parse and keep.
pub(super) const PLACES_MAX: usize = 200;

pub(super) struct Snapshot<'a> {
    pub(super) shared: &'a Shared,
    pub(super) shard: ShardId,
    pub(super) layout: Layout,
    /// The last commit in view.
    pub(super) moment: Stamp,
    pub(super) swept_until: Timestamp,
    pub(super) fronts: Fronts,
    leases: Arc<EraLog>,
    reader: Reader<'a>,
}

/// Which live rows of a step.
#[derive(Clone, Copy, Default)]
pub(super) struct Which<'a> {
    pub(super) queue: Option<&'a str>,
    pub(super) key: Option<&'a str>,
    pub(super) schedule: Option<&'a str>,
    /// Only after this place and, among equals, this queue.
    pub(super) after: Option<(Place, &'a str)>,
    pub(super) limit: usize,
}

impl<'a> Snapshot<'a> {
    /// Begins to look.
    pub(super) async fn begin(shared: &'a Shared, shard: ShardId) -> Result<Self, StoreError> {
        const WHAT: &str = "begin to read";
        let mut reader = shared.pool.get().await?;
        let known = shared.log(shard);
        let high = known.as_ref().map_or(Stamp(-1), |known| known.lock().high());
        let mut sql = shared.tables.text(BEGIN);
        sql.append(&shared.shard_sql(shard, Lock::None)).raw("; ");
        sql.append(&tail(shared, shard, high));
        let mut sets = reader.ask(WHAT, &sql).await?.into_iter().skip(2);
        let row = shared.shard_row(shard, &mut sets)?;
        let rows = sets.next().unwrap_or_default();
        let fresh = || Arc::new(EraLog::new(row.layout.era));
        let (leases, rows) = match known {
            Some(known) if known.era == row.layout.era => (known, rows),
            // What was read goes on from another era, and says nothing about this one.
            Some(_) => {
                let mut sets = reader.ask(WHAT, &tail(shared, shard, Stamp(-1))).await?;
                (fresh(), sets.pop().unwrap_or_default())
            }
            None => (fresh(), rows),
        };
        add_leases(&leases, shard, rows, row.last)?;
        shared.keep_log(shard, &leases);
        let ShardRow { layout, last: moment, swept_until, fronts, .. } = row;
        Ok(Snapshot { shared, shard, layout, moment, swept_until, fronts, leases, reader })
    }

    /// Looks no more.
    pub(super) async fn end(mut self) -> Result<(), StoreError> {
        self.reader.run("end to read", &Text::new("COMMIT")).await?;
        self.reader.give_back();
        Ok(())
    }

    /// Asks in this view.
    pub(super) async fn ask(
        &mut self,
        what: &'static str,
        sql: &Text,
    ) -> Result<Vec<Vec<Row>>, StoreError> {
        self.reader.ask(what, sql).await
    }

    /// The job with its lease, if it has one.
    pub(super) fn with_lease(&self, found: Found) -> LiveJob {
        let place = found.place();
        let lease = self.leases.lock().lease_of(place, found.stamp, self.moment);
        LiveJob { lease, ..found.live }
    }

    /// The live rows of a step, by (due time, number, queue).
    pub(super) async fn rows(
        &mut self,
        step: Step,
        which: Which<'_>,
    ) -> Result<Vec<Found>, StoreError> {
        let mut sql = self.live(BY_PLACE);
        let (first, last) = step.slots;
        sql.raw(" AND j.slot BETWEEN ").number(first).raw(" AND ").number(last);
        sql.raw(" AND j.due_at BETWEEN ").time(step.first).raw(" AND ").time(step.last);
        for (column, value) in
            [("queue", which.queue), ("job_key", which.key), ("schedule", which.schedule)]
        {
            if let Some(value) = value {
                sql.raw(" AND j.").raw(column).raw(" = ").bytes(value.as_bytes());
            }
        }
        if let Some((place, queue)) = which.after {
            sql.raw(" AND (j.due_at, j.number, j.queue) > (").time(place.due_at).raw(", ");
            sql.number(number_column(place.number)).raw(", ").bytes(queue.as_bytes()).raw(")");
        }
        if first != ELSEWHERE {
            sql.raw(" AND ").raw(&self.shared.tables.named(COUNTS));
        }
        sql.raw(" ORDER BY j.due_at, j.number, j.queue LIMIT ");
        sql.number(i64::try_from(which.limit).unwrap_or(i64::MAX));
        self.found("read jobs", &sql).await
    }

    /// The live rows at places where jobs were handed out.
    pub(super) async fn leased(&mut self) -> Result<Vec<Found>, StoreError> {
        let places: Vec<(QueueName, Place)> = {
            let log = self.leases.lock();
            log.places(self.moment).into_iter().map(|(queue, at)| (queue.clone(), at)).collect()
        };
        let mut found = Vec::new();
        for places in places.chunks(PLACES_MAX) {
            let mut sql = Text::new(&format!("SELECT {LIVE}"));
            sql.append(&at_places(self.shared, self.shard, &self.layout, places));
            found.extend(self.found("read running jobs", &sql).await?);
        }
        Ok(found)
    }

    /// The live rows that fit the statement, which selects [`LIVE`], and are where they belong.
    pub(super) async fn found(
        &mut self,
        what: &'static str,
        sql: &Text,
    ) -> Result<Vec<Found>, StoreError> {
        let rows = self.ask(what, sql).await?.into_iter().flatten();
        let (shard, layout) = (self.shard, self.layout);
        let read = rows.map(|row| found(shard, row));
        let belongs = |found: &Result<Found, StoreError>| match found {
            Ok(found) => layout.holds(found.slot, found.live.progress.due_at),
            Err(_) => true,
        };
        read.filter(belongs).collect()
    }

    /// The beginning of a statement about live rows of this shard, found by one of the indexes.
    pub(super) fn live(&self, jobs: &str) -> Text {
        let head = format!("SELECT {LIVE} FROM {jobs} WHERE j.shard = ");
        let mut sql = self.shared.tables.text(&head);
        sql.number(i64::from(self.shard.0));
        sql
    }
}

/// The live rows at these places, as the rest of a statement from its FROM on.
///
/// The places are a table that is read first. Said as `(...) OR (...)`, it would be up to the
/// server whether it looks for each or reads a whole queue; a statement for each takes ten times as
/// long.
pub(super) fn at_places(
    shared: &Shared,
    shard: ShardId,
    layout: &Layout,
    places: &[(QueueName, Place)],
) -> Text {
    let mut sql = Text::new(" FROM (");
    let mut slots = BTreeSet::new();
    for (index, (queue, place)) in places.iter().enumerate() {
        let slot = layout.slot(place.due_at);
        slots.insert(slot);
        sql.raw(if index == 0 { "SELECT " } else { " UNION ALL SELECT " });
        sql.bytes(queue.as_str().as_bytes()).raw(" AS queue, ");
        sql.time(place.due_at).raw(" AS due_at, ");
        sql.number(number_column(place.number)).raw(" AS number, ");
        sql.number(slot).raw(" AS slot");
    }
    sql.raw(&shared.tables.named(&format!(
        ") p STRAIGHT_JOIN {BY_PLACE} ON j.queue = p.queue AND j.due_at = p.due_at \
         AND j.number = p.number AND j.slot = p.slot WHERE j.shard = "
    )));
    // Without constants the server would look into all slots.
    sql.number(i64::from(shard.0)).raw(" AND j.slot IN (").list(slots, |sql, slot| {
        sql.number(slot);
    });
    sql.raw(") AND ").raw(&shared.tables.named(COUNTS));
    sql
}

/// The leases of the present era that were written after a stamp.
fn tail(shared: &Shared, shard: ShardId, after: Stamp) -> Text {
    let mut sql = shared.tables.text("SELECT stamp, leases FROM @commits WHERE shard = ");
    sql.number(i64::from(shard.0));
    sql.raw(&shared.tables.named(" AND era = (SELECT era FROM @shards WHERE shard = "));
    sql.number(i64::from(shard.0)).raw(") AND stamp > ").number(after.0);
    sql.raw(" AND leases IS NOT NULL ORDER BY stamp");
    sql
}

fn add_leases(
    leases: &EraLog,
    shard: ShardId,
    rows: Vec<Row>,
    reached: Stamp,
) -> Result<(), StoreError> {
    const WHAT: &str = "read leases";
    let mut read = Vec::with_capacity(rows.len());
    for mut row in rows {
        let stamp = Stamp(column(WHAT, &mut row, 0)?);
        read.push((stamp, commit_row::leases(shard, stamp, column(WHAT, &mut row, 1)?)?));
    }
    let mut log = leases.lock();
    for (stamp, rows) in read {
        log.add(stamp, rows);
    }
    log.reach(reached);
    Ok(())
}

fn found(shard: ShardId, mut row: Row) -> Result<Found, StoreError> {
    const WHAT: &str = "read a job";
    let number: i64 = column(WHAT, &mut row, 1)?;
    let due_at: i64 = column(WHAT, &mut row, 2)?;
    let payload: Vec<u8> = column(WHAT, &mut row, 4)?;
    let body: Vec<u8> = column(WHAT, &mut row, 5)?;
    let name = RowName { table: "jobs", shard, number };
    Ok(Found {
        slot: column(WHAT, &mut row, 0)?,
        stamp: Stamp(column(WHAT, &mut row, 3)?),
        live: read_live(name, due_at, &body, &payload)?,
    })
}
