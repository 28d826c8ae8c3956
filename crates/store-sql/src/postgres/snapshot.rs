//! One view of a shard: where its rows lie, its leases, and its live rows, all of one moment.
//!
//! A snapshot first takes a share of the tables and looks after that: a slot cannot be dropped from
//! under it, since whoever drops one waits for it or has finished before.

use std::collections::HashMap;
use std::sync::Arc;

use futures::FutureExt;
use hence_core::change::Place;
use hence_core::id::ShardId;
use hence_core::time::Timestamp;
use hence_store::{LiveJob, StoreError};
use tokio_postgres::{Error, Row};

use super::error::{Columns, failed};
use super::session::pipelined;
use super::shared::{Reader, SHARD, Shared};
use super::value::Value;
use crate::draft::LeaseRow;
use crate::found::Found;
use crate::known::EraLog;
use crate::leases::LeaseColumns;
use crate::rows::{RowName, Stamp, number_column, read_live};
use crate::slots::{ELSEWHERE, Layout, Step};

const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
LOCK TABLE ONLY @jobs, ONLY @gone, ONLY @history, ONLY @commits IN ACCESS SHARE MODE";

/// The columns of leases.
pub(super) const LEASES: &str = "lease_queue, lease_due_at, lease_number, lease_token, lease_until,
    lease_attempt, lease_holder, lease_granted_at";

const TAIL: &str =
    "SELECT stamp, lease_queue, lease_due_at, lease_number, lease_token, lease_until,
    lease_attempt, lease_holder, lease_granted_at
FROM @commits WHERE era = (SELECT era FROM @shards WHERE shard = $1) AND shard = $1
    AND stamp > $2 AND lease_number IS NOT NULL ORDER BY stamp";

/// The columns of a live row.
pub(super) const LIVE: &str = "j.slot, j.number, j.due_at, j.stamp, j.payload, j.body";

/// What makes a row of near slots count. Without the offset, which changes nothing, the planner may
/// decide to read all that is gone instead of looking a few places up.
pub(super) const COUNTS: &str = "NOT EXISTS (SELECT FROM @gone g WHERE g.slot = j.slot
    AND g.shard = j.shard AND g.due_at = j.due_at AND g.number = j.number AND g.stamp > j.stamp
    OFFSET 0)";

pub(super) struct Snapshot<'a> {
    pub(super) shared: &'a Shared,
    pub(super) reader: Reader<'a>,
    pub(super) shard: ShardId,
    pub(super) layout: Layout,
    /// The last commit in view.
    pub(super) moment: Stamp,
    pub(super) swept_until: Timestamp,
    leases: Arc<EraLog>,
}

/// Which live rows of a step.
#[derive(Default)]
pub(super) struct Which<'a> {
    pub(super) queue: Option<&'a str>,
    pub(super) key: Option<&'a str>,
    pub(super) schedule: Option<&'a str>,
    /// Only jobs of these numbers.
    pub(super) numbers: Option<&'a [i64]>,
    /// Only after this place and, among equals, this queue.
    pub(super) after: Option<(Place, &'a str)>,
    pub(super) limit: usize,
}

impl<'a> Snapshot<'a> {
    /// Begins to look.
    pub(super) async fn begin(shared: &'a Shared, shard: ShardId) -> Result<Self, StoreError> {
        Ok(Self::begin_with(shared, shard, &[]).await?.0)
    }

    /// Begins to look, and asks at once, in the same round trip.
    pub(super) async fn begin_with(
        shared: &'a Shared,
        shard: ShardId,
        questions: &[(&str, &[Value<'_>])],
    ) -> Result<(Self, Vec<Vec<Row>>), StoreError> {
        let reader = shared.pool.get().await?;
        let number = i32::from(shard.0);
        let known = shared.log(shard);
        let high = known.as_ref().map_or(-1, |known| known.lock().high().0);
        let (begin, shard_sql, tail_sql) = (shared.sql(BEGIN), shared.sql(SHARD), shared.sql(TAIL));
        let texts = questions.iter().map(|(sql, _)| *sql);
        // Prepared before the transaction begins: its first statement decides what it sees.
        for sql in [shard_sql.as_str(), &tail_sql].into_iter().chain(texts) {
            reader.prepare(sql).await.map_err(failed("prepare to read"))?;
        }
        let begun = async { reader.run(&begin).await.map(|()| Vec::new()) };
        let tail_values: [Value<'_>; 2] = [&number, &high];
        let shard_values: [Value<'_>; 1] = [&number];
        let mut requests = vec![
            begun.boxed(),
            reader.query(&shard_sql, &shard_values).boxed(),
            reader.query(&tail_sql, &tail_values).boxed(),
        ];
        requests.extend(questions.iter().map(|(sql, values)| reader.query(sql, values).boxed()));
        let answers: Result<Vec<Vec<Row>>, Error> = pipelined(requests).await.into_iter().collect();
        let mut answers = answers.map_err(failed("begin to read"))?;
        let asked = answers.split_off(3);
        let row = shared.shard_row(shard, answers.get(1).map_or(&[], Vec::as_slice))?;
        let tail = answers.pop().unwrap_or_default();
        let fresh = || Arc::new(EraLog::new(row.layout.era));
        let (leases, tail) = match known {
            Some(known) if known.era == row.layout.era => (known, tail),
            // What was read goes on from another era, and says nothing about this one.
            Some(_) => {
                let values: [Value<'_>; 2] = [&number, &-1_i64];
                let all = reader.query(&tail_sql, &values).await;
                (fresh(), all.map_err(failed("read leases"))?)
            }
            None => (fresh(), tail),
        };
        let mut rows = Vec::with_capacity(tail.len());
        for row in &tail {
            rows.push(lease_rows(shard, row)?);
        }
        {
            let mut log = leases.lock();
            for (stamp, rows) in rows {
                log.add(stamp, rows);
            }
            log.reach(row.last);
        }
        shared.keep_log(shard, &leases);
        let swept_until = row.swept_until.max(shared.swept_until(shard));
        let (layout, moment) = (row.layout, row.last);
        Ok((Snapshot { shared, reader, shard, layout, moment, swept_until, leases }, asked))
    }

    /// Looks no more.
    pub(super) async fn end(self) {
        // A connection whose transaction cannot be ended is of no use to the next.
        if self.reader.run("COMMIT").await.is_ok() {
            self.reader.give_back();
        }
    }

    /// The job with its lease, if it has one.
    pub(super) fn with_lease(&self, found: Found) -> LiveJob {
        let place = found.place();
        let lease = self.leases.lock().lease_of(place, found.stamp, self.moment);
        LiveJob { lease, ..found.live }
    }

    /// Where jobs stood that were handed out: queue and place.
    pub(super) fn leased(&self) -> Vec<(String, Place)> {
        let log = self.leases.lock();
        let places = log.places(self.moment).into_iter();
        places.map(|(queue, place)| (queue.as_str().to_string(), place)).collect()
    }

    /// The live rows of a step, by (due time, number, queue).
    pub(super) async fn rows(
        &self,
        step: Step,
        which: &Which<'_>,
    ) -> Result<Vec<Found>, StoreError> {
        let (first, last) = (step.first.as_millis(), step.last.as_millis());
        let (shard, limit) =
            (i32::from(self.shard.0), i64::try_from(which.limit).unwrap_or(i64::MAX));
        let (mut text, mut values) = (String::new(), Values::default());
        for (clause, value) in [
            ("j.shard = ", &shard as Value<'_>),
            (" AND j.due_at >= ", &first),
            (" AND j.due_at <= ", &last),
        ] {
            text += &values.clause(clause, value);
        }
        for (clause, value) in
            [("queue", &which.queue), ("key", &which.key), ("schedule", &which.schedule)]
        {
            if value.is_some() {
                text += &values.clause(&format!(" AND j.{clause} = "), value);
            }
        }
        if which.numbers.is_some() {
            text += &values.clause(" AND j.number = ANY", &which.numbers);
        }
        let after = which
            .after
            .map(|(place, queue)| (place.due_at.as_millis(), number_column(place.number), queue));
        if let Some((due_at, number, queue)) = &after {
            text += " AND (j.due_at, j.number, j.queue) > (";
            text += &values.clause("", due_at);
            text += &values.clause(", ", number);
            text += &values.clause(", ", queue);
            text += ")";
        }
        let limit = values.clause(" LIMIT ", &limit);
        let order = format!("ORDER BY j.due_at, j.number, j.queue{limit}");
        // Each slot by its own name: asked of all at once, the planner would weigh each slot of
        // jobs against each slot of what is gone.
        let one = |slot: i64| {
            let counts = if slot == ELSEWHERE { String::new() } else { counts_in(slot) };
            format!("(SELECT {LIVE}, j.queue FROM @jobs_{slot} j WHERE {text}{counts} {order})")
        };
        let slots: Vec<String> = (step.slots.0..=step.slots.1).map(one).collect();
        let sql = match slots.as_slice() {
            [only] => self.shared.sql(only),
            all => {
                self.shared.sql(&format!("SELECT * FROM ({}) j {order}", all.join(" UNION ALL ")))
            }
        };
        let rows = self.reader.query_once(&sql, &values.0).await.map_err(failed("read jobs"))?;
        rows.iter().map(|row| self.found(row)).collect()
    }

    /// Leaves out rows whose place was left since they were written.
    pub(super) async fn still_there(&self, rows: Vec<Found>) -> Result<Vec<Found>, StoreError> {
        let slot = |found: &Found| self.layout.slot(found.place().due_at);
        let near: Vec<&Found> = rows.iter().filter(|found| slot(found) != ELSEWHERE).collect();
        if near.is_empty() {
            return Ok(rows);
        }
        let places: Vec<(i64, i64, i64)> = near
            .iter()
            .map(|found| {
                let place = found.place();
                (slot(found), place.due_at.as_millis(), number_column(place.number))
            })
            .collect();
        let column = |of: fn(&(i64, i64, i64)) -> i64| places.iter().map(of).collect::<Vec<i64>>();
        let (slots, due, numbers) = (column(|it| it.0), column(|it| it.1), column(|it| it.2));
        let mut distinct = slots.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let one = |slot: i64| {
            format!(
                "SELECT t.due_at, t.number, (SELECT max(g.stamp) FROM @gone_{slot} g \
                 WHERE g.shard = $1 AND g.due_at = t.due_at AND g.number = t.number) \
                 FROM unnest($2, $3, $4) AS t(slot, due_at, number) WHERE t.slot = {slot}"
            )
        };
        let texts: Vec<String> = distinct.into_iter().map(one).collect();
        let shard = i32::from(self.shard.0);
        let values: [Value<'_>; 4] = [&shard, &slots, &due, &numbers];
        let sql = self.shared.sql(&texts.join(" UNION ALL "));
        let answers = self.reader.query_once(&sql, &values).await;
        let mut left: HashMap<(i64, i64), Stamp> = HashMap::new();
        for row in answers.map_err(failed("look at what is gone"))? {
            let read = || -> Columns<(i64, i64, Option<i64>)> {
                Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))
            };
            let (due_at, number, stamp) = read().map_err(failed("look at what is gone"))?;
            left.insert((due_at, number), Stamp(stamp.unwrap_or(i64::MIN)));
        }
        let there = |found: &Found| {
            let place = found.place();
            let key = (place.due_at.as_millis(), number_column(place.number));
            slot(found) == ELSEWHERE || left.get(&key).is_none_or(|left| *left <= found.stamp)
        };
        Ok(rows.into_iter().filter(there).collect())
    }

    /// Reads live rows, selected by [`LIVE`], and leaves out those that do not lie where they
    /// belong.
    pub(super) fn in_place(&self, rows: &[Row]) -> Result<Vec<Found>, StoreError> {
        let mut found = rows.iter().map(|row| self.found(row)).collect::<Result<Vec<_>, _>>()?;
        found.retain(|row| self.layout.holds(row.slot, row.live.progress.due_at));
        Ok(found)
    }

    fn found(&self, row: &Row) -> Result<Found, StoreError> {
        let wrong = || failed("read a job");
        let number = row.try_get(1).map_err(wrong())?;
        let due_at = row.try_get(2).map_err(wrong())?;
        let payload: &[u8] = row.try_get(4).map_err(wrong())?;
        let body: &[u8] = row.try_get(5).map_err(wrong())?;
        let name = RowName { table: "jobs", shard: self.shard, number };
        Ok(Found {
            slot: row.try_get(0).map_err(wrong())?,
            stamp: Stamp(row.try_get(3).map_err(wrong())?),
            live: read_live(name, due_at, body, payload)?,
        })
    }
}

/// What makes a row of this slot count.
fn counts_in(slot: i64) -> String {
    format!(
        " AND NOT EXISTS (SELECT FROM @gone_{slot} g WHERE g.shard = j.shard \
         AND g.due_at = j.due_at AND g.number = j.number AND g.stamp > j.stamp OFFSET 0)"
    )
}

/// Values of a statement that is put together.
#[derive(Default)]
struct Values<'a>(Vec<Value<'a>>);

impl<'a> Values<'a> {
    fn clause(&mut self, text: &str, value: Value<'a>) -> String {
        self.0.push(value);
        let parameter = self.0.len();
        if text.ends_with("ANY") {
            format!("{text}(${parameter})")
        } else {
            format!("{text}${parameter}")
        }
    }
}

/// The leases of a row: a stamp, then [`LEASES`].
pub(super) fn lease_rows(shard: ShardId, row: &Row) -> Result<(Stamp, Vec<LeaseRow>), StoreError> {
    let wrong = || failed("read leases");
    let stamp = Stamp(row.try_get(0).map_err(wrong())?);
    Ok((stamp, leases_at(shard, stamp, row, 1)?))
}

/// The leases of a row whose columns begin there.
pub(super) fn leases_at(
    shard: ShardId,
    stamp: Stamp,
    row: &Row,
    at: usize,
) -> Result<Vec<LeaseRow>, StoreError> {
    let read = || -> Columns<Option<Leases<'_>>> {
        let Some(queues) = row.try_get::<_, Option<Vec<&str>>>(at)? else { return Ok(None) };
        Ok(Some(Leases {
            queues,
            due: row.try_get(at + 1)?,
            numbers: row.try_get(at + 2)?,
            tokens: row.try_get(at + 3)?,
            untils: row.try_get(at + 4)?,
            attempts: row.try_get(at + 5)?,
            holders: row.try_get(at + 6)?,
            granted: row.try_get(at + 7)?,
        }))
    };
    let Some(columns) = read().map_err(failed("read leases"))? else { return Ok(Vec::new()) };
    (0..columns.queues.len()).map(|nth| columns.at(nth).read(shard, stamp)).collect()
}

struct Leases<'a> {
    queues: Vec<&'a str>,
    due: Vec<i64>,
    numbers: Vec<i64>,
    tokens: Vec<&'a str>,
    untils: Vec<i64>,
    attempts: Vec<Option<i32>>,
    holders: Vec<Option<&'a str>>,
    granted: Vec<Option<i64>>,
}

impl Leases<'_> {
    /// What is missing in a shorter array is read as nonsense, and refused.
    fn at(&self, nth: usize) -> LeaseColumns<'_> {
        LeaseColumns {
            queue: self.queues.get(nth).copied().unwrap_or_default(),
            due_at: self.due.get(nth).copied().unwrap_or_default(),
            number: self.numbers.get(nth).copied().unwrap_or_default(),
            token: self.tokens.get(nth).copied().unwrap_or_default(),
            until: self.untils.get(nth).copied().unwrap_or_default(),
            attempt: self.attempts.get(nth).copied().flatten(),
            holder: self.holders.get(nth).copied().flatten(),
            granted_at: self.granted.get(nth).copied().flatten(),
        }
    }
}
