//! Looking things up: what is due, jobs by name, attempts, ledgers, and all a new owner must know.

use std::sync::Arc;

use bytes::Bytes;
use hence_core::change::Place;
use hence_core::id::{JobName, JobNumber, QueueName, ScheduleId, ShardId};
use hence_core::job::AttemptRecord;
use hence_core::queue::QueueSettings;
use hence_core::schedule::ScheduleState;
use hence_core::time::Timestamp;
use hence_store::{
    FinishedJob, LedgerOrder, LedgerRequest, LiveJob, OccurrenceRecord, Recovered, StoreError,
    StoredJob, codec,
};
use tokio_postgres::Row;

use super::error::{Columns, failed};
use super::shared::Shared;
use super::snapshot::{COUNTS, LEASES, LIVE, Snapshot, Which, leases_at};
use super::value::Value;
use crate::fold::{CommitRow, Folded};
use crate::found::{self, Found, by_name};
use crate::limits::{READ_AHEAD, ROWS_READ_MAX};
use crate::names::name_hash;
use crate::rows::{
    RowName, Stamp, bad_name, number_column, number_of, read_finished, refuse_named,
};

/// The columns of a finished row.
pub(super) const FINISHED: &str = "h.number, h.stamp, h.payload, h.body";

const ATTEMPTS: &str = "SELECT body FROM (
    SELECT stamp, nth, body FROM @attempts WHERE shard = $1 AND number = $2
    UNION ALL
    SELECT stamp, last_nth, last_attempt FROM @history
    WHERE shard = $1 AND number = $2 AND last_attempt IS NOT NULL) a
ORDER BY stamp, nth";

pub(super) async fn due(
    shared: &Shared,
    shard: ShardId,
    queue: &QueueName,
    after: Place,
    limit: usize,
) -> Result<Vec<LiveJob>, StoreError> {
    let snapshot = Snapshot::begin(shared, shard).await?;
    let mut found: Vec<LiveJob> = Vec::new();
    for step in snapshot.layout.walk(after.due_at, Timestamp::MAX) {
        let mut after = after;
        while found.len() < limit {
            let asked = (limit - found.len()).saturating_add(READ_AHEAD).min(ROWS_READ_MAX);
            let which = Which {
                queue: Some(queue.as_str()),
                after: Some((after, queue.as_str())),
                limit: asked,
                ..Which::default()
            };
            let rows = snapshot.rows(step, &which).await?;
            let more = rows.len() == asked;
            after = rows.last().map_or(after, Found::place);
            let waiting = rows.into_iter().map(|row| snapshot.with_lease(row));
            found.extend(waiting.filter(|live| live.lease.is_none()));
            if !more {
                break;
            }
        }
    }
    snapshot.end().await;
    found.truncate(limit);
    Ok(found)
}

pub(super) async fn get(
    shared: &Shared,
    shard: ShardId,
    names: &[JobName],
    now: Timestamp,
) -> Result<Vec<Option<StoredJob>>, StoreError> {
    let mut hashes: Vec<i64> = names.iter().map(name_hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    let number = i32::from(shard.0);
    let values: [Value<'_>; 2] = [&number, &hashes];
    let live = shared.sql(&format!(
        "SELECT {LIVE} FROM @jobs j WHERE j.shard = $1 AND j.name_hash = ANY($2::bigint[])"
    ));
    let finished = shared.sql(&format!(
        "SELECT {FINISHED} FROM @history h WHERE h.shard = $1 AND h.name_hash = ANY($2::bigint[])"
    ));
    let questions: [(&str, &[Value<'_>]); 2] = [(&finished, &values), (&live, &values)];
    let (snapshot, mut answers) = Snapshot::begin_with(shared, shard, &questions).await?;
    let (live, done) = (answers.pop().unwrap_or_default(), answers.pop().unwrap_or_default());
    let done = done.iter().map(|row| finished_row(shard, row)).collect::<Result<_, _>>()?;
    let live = snapshot.still_there(snapshot.in_place(&live)?).await?;
    let live: Vec<LiveJob> = live.into_iter().map(|row| snapshot.with_lease(row)).collect();
    let now = now.max(snapshot.swept_until);
    snapshot.end().await;
    Ok(by_name(names, now, done, live))
}

/// Reads a finished row, selected by [`FINISHED`].
pub(super) fn finished_row(shard: ShardId, row: &Row) -> Result<(Stamp, FinishedJob), StoreError> {
    let wrong = || failed("read a finished job");
    let number: i64 = row.try_get(0).map_err(wrong())?;
    let stamp: i64 = row.try_get(1).map_err(wrong())?;
    let payload: Option<&[u8]> = row.try_get(2).map_err(wrong())?;
    let body: &[u8] = row.try_get(3).map_err(wrong())?;
    let name = RowName { table: "history", shard, number };
    Ok((Stamp(stamp), read_finished(name, body, payload)?))
}

pub(super) async fn attempts(
    shared: &Shared,
    shard: ShardId,
    number: JobNumber,
) -> Result<Vec<AttemptRecord>, StoreError> {
    let reader = shared.pool.get().await?;
    let (shard_number, column) = (i32::from(shard.0), number_column(number));
    let rows = reader.query(&shared.sql(ATTEMPTS), &[&shard_number, &column]).await;
    let rows = rows.map_err(failed("read attempts"))?;
    reader.give_back();
    let name = RowName { table: "attempts", shard, number: column };
    let decode = |row: &Row| {
        let body: &[u8] = row.try_get(0).map_err(failed("read attempts"))?;
        let decoded = codec::decode_attempt(&Bytes::copy_from_slice(body));
        decoded.map_err(|error| name.refuse(error))
    };
    rows.iter().map(decode).collect()
}

pub(super) async fn occurrences(
    shared: &Shared,
    shard: ShardId,
    request: &LedgerRequest,
) -> Result<Vec<OccurrenceRecord>, StoreError> {
    let (low, high) = request.bounds();
    let order = match request.order {
        LedgerOrder::Newest => "DESC",
        LedgerOrder::Oldest => "ASC",
    };
    let sql = shared.sql(&format!(
        "SELECT number, body FROM @occurrences WHERE shard = $1 AND schedule = $2 \
         AND (last, number) >= ($3, $4) AND (last, number) < ($5, $6) \
         ORDER BY last {order}, number {order} LIMIT $7"
    ));
    let reader = shared.pool.get().await?;
    let limit = i64::try_from(request.limit).unwrap_or(i64::MAX);
    let values: [Value<'_>; 7] = [
        &i32::from(shard.0),
        &request.schedule.as_str(),
        &low.last.as_millis(),
        &number_column(low.number),
        &high.last.as_millis(),
        &number_column(high.number),
        &limit,
    ];
    let rows = reader.query(&sql, &values).await.map_err(failed("read a ledger"))?;
    reader.give_back();
    let decode = |row: &Row| {
        let read = || -> Columns<(i64, &[u8])> { Ok((row.try_get(0)?, row.try_get(1)?)) };
        let (number, body) = read().map_err(failed("read a ledger"))?;
        let decoded = codec::decode_occurrence(&Bytes::copy_from_slice(body));
        decoded.map_err(|error| RowName { table: "occurrences", shard, number }.refuse(error))
    };
    rows.iter().map(decode).collect()
}

pub(super) async fn recover(shared: &Shared, shard: ShardId) -> Result<Recovered, StoreError> {
    let owned = shared.owned(shard);
    let snapshot = Snapshot::begin(shared, shard).await?;
    let folded = fold(&snapshot).await?;
    let mut recovered = Recovered {
        next_number: folded.next_number,
        queues: queues(&snapshot).await?,
        schedules: schedules(&snapshot, &folded).await?,
        ..Recovered::default()
    };
    for (queue, bytes) in &folded.counts {
        let name = RowName { table: "commits", shard, number: snapshot.moment.0 };
        let counts = codec::decode_counts(&Bytes::copy_from_slice(bytes));
        recovered.counts.push((queue.clone(), counts.map_err(|error| name.refuse(error))?));
    }
    recovered.active = active(&snapshot).await?;
    shared.note_recovered(shard, owned, snapshot.moment, &recovered.active)?;
    snapshot.end().await;
    Ok(recovered)
}

async fn queues(snapshot: &Snapshot<'_>) -> Result<Vec<(QueueName, QueueSettings)>, StoreError> {
    let sql = snapshot.shared.sql("SELECT name, body FROM @queues WHERE shard = $1 ORDER BY name");
    let rows = snapshot.reader.query(&sql, &[&i32::from(snapshot.shard.0)]).await;
    let decode = |row: &Row| {
        let read = || -> Columns<(&str, &[u8])> { Ok((row.try_get(0)?, row.try_get(1)?)) };
        let (name, body) = read().map_err(failed("read a queue"))?;
        let settings = codec::decode_queue(&Bytes::copy_from_slice(body))
            .map_err(|error| refuse_named("queues", name, &error))?;
        Ok((queue_name(name)?, settings))
    };
    rows.map_err(failed("read queues"))?.iter().map(decode).collect()
}

async fn schedules(
    snapshot: &Snapshot<'_>,
    folded: &Folded,
) -> Result<Vec<ScheduleState>, StoreError> {
    let sql = "SELECT id, stamp, body, progress FROM @schedules WHERE shard = $1 ORDER BY id";
    let rows =
        snapshot.reader.query(&snapshot.shared.sql(sql), &[&i32::from(snapshot.shard.0)]).await;
    let decode = |row: &Row| {
        let read = || -> Columns<(&str, i64, &[u8], &[u8])> {
            Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?))
        };
        let (id, stamp, body, progress) = read().map_err(failed("read a schedule"))?;
        let refuse = |error: StoreError| refuse_named("schedules", id, &error);
        let name = ScheduleId::new(id).map_err(|_| bad_name("schedules", id))?;
        let progress = folded.progress_of(&name, Stamp(stamp)).unwrap_or(progress);
        let schedule = codec::decode_schedule(&Bytes::copy_from_slice(body)).map_err(refuse)?;
        let progress = codec::decode_schedule_progress(&Bytes::copy_from_slice(progress));
        Ok(ScheduleState { schedule: Arc::new(schedule), progress: progress.map_err(refuse)? })
    };
    rows.map_err(failed("read schedules"))?.iter().map(decode).collect()
}

/// Running jobs, and those that hold their key, by number.
async fn active(snapshot: &Snapshot<'_>) -> Result<Vec<LiveJob>, StoreError> {
    let sql = format!("SELECT {LIVE} FROM @jobs j WHERE j.shard = $1 AND j.holds_key AND {COUNTS}");
    let values: [Value<'_>; 1] = [&i32::from(snapshot.shard.0)];
    let holding = snapshot.reader.query(&snapshot.shared.sql(&sql), &values).await;
    let mut rows = holding.map_err(failed("read jobs that hold a key"))?;
    rows.extend(leased(snapshot).await?);
    let rows = snapshot.in_place(&rows)?.into_iter();
    Ok(found::active(rows.map(|row| snapshot.with_lease(row))))
}

/// The rows at a place, one look for each: the offset keeps the planner from reading all jobs.
pub(super) const AT_PLACE: &str = "SELECT * FROM @jobs j WHERE j.slot = t.slot AND j.shard = $1 \
     AND j.queue = t.queue AND j.due_at = t.due_at AND j.number = t.number";

/// The live rows at places where jobs were handed out.
async fn leased(snapshot: &Snapshot<'_>) -> Result<Vec<Row>, StoreError> {
    let places = snapshot.leased();
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let queues: Vec<&str> = places.iter().map(|(queue, _)| queue.as_str()).collect();
    let due: Vec<i64> = places.iter().map(|(_, place)| place.due_at.as_millis()).collect();
    let numbers: Vec<i64> = places.iter().map(|(_, place)| number_column(place.number)).collect();
    let slots: Vec<i64> =
        places.iter().map(|(_, place)| snapshot.layout.slot(place.due_at)).collect();
    let sql = format!(
        "SELECT {LIVE} FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::bigint[]) \
         AS t(slot, queue, due_at, number) CROSS JOIN LATERAL ({AT_PLACE} OFFSET 0) j \
         WHERE {COUNTS}"
    );
    let shard = i32::from(snapshot.shard.0);
    let values: [Value<'_>; 5] = [&shard, &slots, &queues, &due, &numbers];
    let rows = snapshot.reader.query(&snapshot.shared.sql(&sql), &values).await;
    rows.map_err(failed("read running jobs"))
}

/// What the commits of the shard come to.
async fn fold(snapshot: &Snapshot<'_>) -> Result<Folded, StoreError> {
    let (shard, era) = (snapshot.shard, snapshot.layout.era);
    let rows = commit_rows(snapshot.shared, &snapshot.reader, shard, era, Stamp(-1)).await?;
    let mut folded = Folded::default();
    for row in rows {
        folded.add(row);
    }
    Ok(folded)
}

/// The commits of an era after a stamp, in order.
pub(super) async fn commit_rows(
    shared: &Shared,
    session: &super::session::Session,
    shard: ShardId,
    era: i64,
    after: Stamp,
) -> Result<Vec<CommitRow>, StoreError> {
    let sql = shared.sql(&format!(
        "SELECT stamp, next_number, swept_until, count_queue, count_value, advanced_id, \
         advanced_value, {LEASES} FROM @commits WHERE era = $1 AND shard = $2 AND stamp > $3 \
         ORDER BY stamp"
    ));
    let rows = session.query(&sql, &[&era, &i32::from(shard.0), &after.0]).await;
    let rows = rows.map_err(failed("read commits"))?;
    rows.iter().map(|row| commit_row(shard, row)).collect()
}

fn commit_row(shard: ShardId, row: &Row) -> Result<CommitRow, StoreError> {
    type Pairs<'a> = Vec<(&'a str, &'a [u8])>;
    let read = || -> Columns<(i64, i64, i64, Pairs<'_>, Pairs<'_>)> {
        let pairs = |at: usize| -> Columns<Pairs<'_>> {
            let names: Option<Vec<&str>> = row.try_get(at)?;
            let values: Option<Vec<&[u8]>> = row.try_get(at + 1)?;
            Ok(names.unwrap_or_default().into_iter().zip(values.unwrap_or_default()).collect())
        };
        Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, pairs(3)?, pairs(5)?))
    };
    let (stamp, next, swept, counts, advanced) = read().map_err(failed("read a commit"))?;
    let counts = counts.into_iter().map(|(name, value)| Ok((queue_name(name)?, value.to_vec())));
    let advanced = advanced.into_iter().map(|(id, value)| {
        let id = ScheduleId::new(id).map_err(|_| bad_name("commits", id))?;
        Ok((id, value.to_vec()))
    });
    Ok(CommitRow {
        stamp: Stamp(stamp),
        next_number: number_of(next),
        swept_until: Timestamp::from_millis(swept),
        counts: counts.collect::<Result<_, StoreError>>()?,
        advanced: advanced.collect::<Result<_, StoreError>>()?,
        leases: leases_at(shard, Stamp(stamp), row, 7)?,
    })
}

fn queue_name(text: &str) -> Result<QueueName, StoreError> {
    QueueName::new(text).map_err(|_| bad_name("queues", text))
}
