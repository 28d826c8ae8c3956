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
use mysql_async::Row;

use super::commit_row;
use super::session::column;
use super::shared::{Shared, Tables};
use super::snapshot::{BY_HELD_KEY, BY_NAME, COUNTS, Snapshot, Which};
use super::text::Text;
use crate::fold::{CommitRow, Folded};
use crate::found::{self, Found, by_name};
use crate::front::{Page, Tracker};
use crate::limits::{READ_AHEAD, ROWS_READ_MAX};
use crate::names::name_hash;
use crate::rows::{RowName, Stamp, bad_name, number_column, read_finished, refuse_named};

/// The columns of a finished row.
pub(super) const FINISHED: &str = "h.number, h.stamp, h.payload, h.body";

pub(super) async fn due(
    shared: &Shared,
    shard: ShardId,
    queue: &QueueName,
    after: Place,
    limit: usize,
) -> Result<Vec<LiveJob>, StoreError> {
    let look = Look::begin(shared, shard);
    let mut snapshot = Snapshot::begin(shared, shard).await?;
    let mut found: Vec<LiveJob> = Vec::new();
    let (begun, mut after) = (after, after);
    let front = snapshot.fronts.get(queue).copied().unwrap_or(Timestamp::MIN);
    for step in snapshot.layout.walk(after.due_at.max(front), Timestamp::MAX) {
        while found.len() < limit {
            let asked = (limit - found.len()).saturating_add(READ_AHEAD).min(ROWS_READ_MAX);
            let (name, at) = (Some(queue.as_str()), Some((after, queue.as_str())));
            let which = Which { queue: name, after: at, limit: asked, ..Which::default() };
            let rows = snapshot.rows(step, which).await?;
            let more = rows.len() == asked;
            after = rows.last().map_or(after, Found::place);
            let waiting = rows.into_iter().map(|row| snapshot.with_lease(row));
            found.extend(waiting.filter(|live| live.lease.is_none()));
            if !more {
                break;
            }
        }
    }
    let moment = snapshot.moment;
    snapshot.end().await?;
    found.truncate(limit);
    let places = found.iter().map(found::place).collect();
    look.found(moment, Page { queue, after: begun, places, more: found.len() >= limit });
    Ok(found)
}

/// A look at a queue, from which it is learnt where its jobs begin.
struct Look<'a> {
    shared: &'a Shared,
    shard: ShardId,
}

impl<'a> Look<'a> {
    fn begin(shared: &'a Shared, shard: ShardId) -> Self {
        shared.waiting(shard, Tracker::begin);
        Look { shared, shard }
    }

    fn found(self, moment: Stamp, page: Page<'_>) {
        self.shared.waiting(self.shard, |known| known.take(moment, page));
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        self.shared.waiting(self.shard, Tracker::end);
    }
}

pub(super) async fn get(
    shared: &Shared,
    shard: ShardId,
    names: &[JobName],
    now: Timestamp,
) -> Result<Vec<Option<StoredJob>>, StoreError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let mut snapshot = Snapshot::begin(shared, shard).await?;
    let hashes = |text: &mut Text| {
        text.raw(" IN (").list(names, |text, name| {
            text.number(name_hash(name));
        });
        text.raw(")");
    };
    let mut live = snapshot.live(BY_NAME);
    live.raw(" AND j.name_hash");
    hashes(&mut live);
    live.raw(" AND ").raw(&shared.tables.named(COUNTS));
    let head =
        format!("SELECT {FINISHED} FROM @history h FORCE INDEX (@history_name) WHERE h.shard = ");
    let mut finished = shared.tables.text(&head);
    finished.number(i64::from(shard.0)).raw(" AND h.name_hash");
    hashes(&mut finished);
    let live = snapshot.found("look names up", &live).await?;
    let done = snapshot.ask("look names up", &finished).await?.into_iter().flatten();
    let done = done.map(|row| finished_row(shard, row)).collect::<Result<_, _>>()?;
    let live: Vec<LiveJob> = live.into_iter().map(|row| snapshot.with_lease(row)).collect();
    let now = now.max(snapshot.swept_until);
    snapshot.end().await?;
    Ok(by_name(names, now, done, live))
}

/// Reads a finished row, selected by [`FINISHED`].
pub(super) fn finished_row(
    shard: ShardId,
    mut row: Row,
) -> Result<(Stamp, FinishedJob), StoreError> {
    const WHAT: &str = "read a finished job";
    let name = RowName { table: "history", shard, number: column(WHAT, &mut row, 0)? };
    let payload: Option<Vec<u8>> = column(WHAT, &mut row, 2)?;
    let body: Vec<u8> = column(WHAT, &mut row, 3)?;
    let stamp = Stamp(column(WHAT, &mut row, 1)?);
    Ok((stamp, read_finished(name, &body, payload.as_deref())?))
}

pub(super) async fn attempts(
    shared: &Shared,
    shard: ShardId,
    number: JobNumber,
) -> Result<Vec<AttemptRecord>, StoreError> {
    const WHAT: &str = "read attempts";
    let number = number_column(number);
    let swept = shared.swept_until(shard).as_millis();
    let this = format!("shard = {} AND number = {number}", shard.0);
    // What was swept is gone, though its rows go with their slot.
    let sql = shared.tables.text(&format!(
        "SELECT body FROM (SELECT stamp, nth, body FROM @attempts WHERE {this} AND NOT EXISTS \
         (SELECT 1 FROM @history WHERE {this} AND keep_until <= {swept}) \
         UNION ALL SELECT stamp, last_nth, last_attempt FROM @history \
         WHERE {this} AND last_attempt IS NOT NULL AND keep_until > {swept}) a ORDER BY stamp, nth",
    ));
    let mut reader = shared.pool.get().await?;
    let rows = reader.ask(WHAT, &sql).await?.into_iter().flatten();
    reader.give_back();
    let name = RowName { table: "attempts", shard, number };
    let decode = |mut row: Row| {
        let body: Vec<u8> = column(WHAT, &mut row, 0)?;
        codec::decode_attempt(&Bytes::from(body)).map_err(|error| name.refuse(error))
    };
    rows.map(decode).collect()
}

pub(super) async fn occurrences(
    shared: &Shared,
    shard: ShardId,
    request: &LedgerRequest,
) -> Result<Vec<OccurrenceRecord>, StoreError> {
    const WHAT: &str = "read a ledger";
    let (low, high) = request.bounds();
    let order = match request.order {
        LedgerOrder::Newest => "DESC",
        LedgerOrder::Oldest => "ASC",
    };
    let mut sql = shared.tables.text("SELECT number, body FROM @occurrences WHERE shard = ");
    sql.number(i64::from(shard.0));
    sql.raw(" AND schedule = ").bytes(request.schedule.as_str().as_bytes());
    sql.raw(" AND last_at BETWEEN ").time(low.last).raw(" AND ").time(high.last);
    for (operator, edge) in [(">=", low), ("<", high)] {
        sql.raw(" AND (last_at, number) ").raw(operator).raw(" (").time(edge.last).raw(", ");
        sql.number(number_column(edge.number)).raw(")");
    }
    sql.raw(&format!(" ORDER BY last_at {order}, number {order} LIMIT "));
    sql.number(i64::try_from(request.limit).unwrap_or(i64::MAX));
    let mut reader = shared.pool.get().await?;
    let rows = reader.ask(WHAT, &sql).await?.into_iter().flatten();
    reader.give_back();
    let decode = |mut row: Row| {
        let name = RowName { table: "occurrences", shard, number: column(WHAT, &mut row, 0)? };
        let body: Vec<u8> = column(WHAT, &mut row, 1)?;
        codec::decode_occurrence(&Bytes::from(body)).map_err(|error| name.refuse(error))
    };
    rows.map(decode).collect()
}

pub(super) async fn recover(shared: &Shared, shard: ShardId) -> Result<Recovered, StoreError> {
    let owned = shared.owned(shard);
    let mut snapshot = Snapshot::begin(shared, shard).await?;
    let sql = commits_sql(&shared.tables, shard, snapshot.layout.era, None);
    let rows = snapshot.ask("read commits", &sql).await?;
    let mut folded = Folded::default();
    for row in commit_rows(shard, rows)? {
        folded.add(row);
    }
    let mut recovered = Recovered {
        next_number: folded.next_number,
        queues: queues(&mut snapshot).await?,
        schedules: schedules(&mut snapshot, &folded).await?,
        ..Recovered::default()
    };
    for (queue, bytes) in folded.counts {
        let name = RowName { table: "commits", shard, number: snapshot.moment.0 };
        let counts = codec::decode_counts(&Bytes::from(bytes));
        recovered.counts.push((queue, counts.map_err(|error| name.refuse(error))?));
    }
    recovered.active = active(&mut snapshot).await?;
    shared.note_recovered(shard, owned, snapshot.moment, &recovered.active)?;
    snapshot.end().await?;
    Ok(recovered)
}

/// Asks for the commits of an era after a stamp, or for all of them, in order.
pub(super) fn commits_sql(tables: &Tables, shard: ShardId, era: i64, after: Option<Stamp>) -> Text {
    let head = format!("SELECT {} FROM @commits WHERE era = ", commit_row::COLUMNS);
    let mut sql = tables.text(&head);
    sql.number(era).raw(" AND shard = ").number(i64::from(shard.0));
    if let Some(after) = after {
        sql.raw(" AND stamp > ").number(after.0);
    }
    sql.raw(" ORDER BY stamp");
    sql
}

/// Reads the answer to [`commits_sql`].
pub(super) fn commit_rows(
    shard: ShardId,
    sets: Vec<Vec<Row>>,
) -> Result<Vec<CommitRow>, StoreError> {
    sets.into_iter().flatten().map(|row| commit_row::read(shard, row)).collect()
}

async fn queues(
    snapshot: &mut Snapshot<'_>,
) -> Result<Vec<(QueueName, QueueSettings)>, StoreError> {
    const WHAT: &str = "read queues";
    let mut sql = snapshot.shared.tables.text("SELECT name, body FROM @queues WHERE shard = ");
    sql.number(i64::from(snapshot.shard.0)).raw(" ORDER BY name");
    let rows = snapshot.ask(WHAT, &sql).await?.into_iter().flatten();
    let decode = |mut row: Row| {
        let name: String = column(WHAT, &mut row, 0)?;
        let body: Vec<u8> = column(WHAT, &mut row, 1)?;
        let settings = codec::decode_queue(&Bytes::from(body));
        let settings = settings.map_err(|error| refuse_named("queues", &name, &error))?;
        let name = QueueName::new(&name).map_err(|_| bad_name("queues", &name))?;
        Ok((name, settings))
    };
    rows.map(decode).collect()
}

async fn schedules(
    snapshot: &mut Snapshot<'_>,
    folded: &Folded,
) -> Result<Vec<ScheduleState>, StoreError> {
    const WHAT: &str = "read schedules";
    let head = "SELECT id, stamp, body, progress FROM @schedules WHERE shard = ";
    let mut sql = snapshot.shared.tables.text(head);
    sql.number(i64::from(snapshot.shard.0)).raw(" ORDER BY id");
    let rows = snapshot.ask(WHAT, &sql).await?.into_iter().flatten();
    let decode = |mut row: Row| {
        let id: String = column(WHAT, &mut row, 0)?;
        let stamp = Stamp(column(WHAT, &mut row, 1)?);
        let body: Vec<u8> = column(WHAT, &mut row, 2)?;
        let put: Vec<u8> = column(WHAT, &mut row, 3)?;
        let refuse = |error: StoreError| refuse_named("schedules", &id, &error);
        let name = ScheduleId::new(&id).map_err(|_| bad_name("schedules", &id))?;
        let progress = folded.progress_of(&name, stamp).unwrap_or(&put);
        let progress = codec::decode_schedule_progress(&Bytes::copy_from_slice(progress));
        let schedule = codec::decode_schedule(&Bytes::from(body)).map_err(refuse)?;
        Ok(ScheduleState { schedule: Arc::new(schedule), progress: progress.map_err(refuse)? })
    };
    rows.map(decode).collect()
}

/// Running jobs, and those that hold their key, by number.
async fn active(snapshot: &mut Snapshot<'_>) -> Result<Vec<LiveJob>, StoreError> {
    let mut sql = snapshot.live(BY_HELD_KEY);
    sql.raw(" AND j.holds_key = 1 AND ").raw(&snapshot.shared.tables.named(COUNTS));
    let mut rows = snapshot.found("read jobs that hold a key", &sql).await?;
    rows.extend(snapshot.leased().await?);
    Ok(found::active(rows.into_iter().map(|row| snapshot.with_lease(row))))
}
