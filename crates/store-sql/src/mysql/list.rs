//! Pages of jobs: live ones by walking the slots in the order of time, then finished ones.

use hence_core::change::Place;
use hence_core::id::{Key, QueueName, ScheduleId, ShardId};
use hence_core::job::JobState;
use hence_core::time::{Millis, Timestamp};
use hence_store::{Cursor, Filter, ListRequest, LiveJob, Page, StoreError, StoredJob};

use super::read::{FINISHED, finished_row};
use super::shared::Shared;
use super::snapshot::{Found, Snapshot, Which};
use super::text::Text;
use crate::limits::READ_AHEAD;
use crate::rows::number_column;

/// Rows read at once, however large the page is.
const ROWS_MAX: usize = 10_000;

type Rows = Vec<(Cursor, StoredJob)>;

pub(super) async fn list(
    shared: &Shared,
    shard: ShardId,
    request: &ListRequest,
) -> Result<Page, StoreError> {
    let mut snapshot = Snapshot::begin(shared, shard).await?;
    // One more than fits tells whether there is a next page.
    let wanted = request.limit.saturating_add(1);
    let mut rows: Rows = Vec::new();
    let after = request.after.as_ref();
    if wants_live(&request.filter) && after.is_none_or(|after| !after.finished) {
        if only_running(&request.filter) {
            running(&mut snapshot, request, wanted, &mut rows).await?;
        } else {
            live(&mut snapshot, request, wanted, &mut rows).await?;
        }
    }
    if rows.len() < wanted {
        finished(&mut snapshot, request, wanted, &mut rows).await?;
    }
    snapshot.end().await?;
    let more = rows.len() > request.limit;
    rows.truncate(request.limit);
    let next = rows.last().filter(|_| more).map(|(cursor, _)| cursor.clone());
    Ok(Page { jobs: rows.into_iter().map(|(_, job)| job).collect(), next })
}

async fn live(
    snapshot: &mut Snapshot<'_>,
    request: &ListRequest,
    wanted: usize,
    rows: &mut Rows,
) -> Result<(), StoreError> {
    let Filter { queue, key, schedule, from, until, .. } = &request.filter;
    let first = from.unwrap_or(Timestamp::MIN);
    let last = until.map_or(Timestamp::MAX, |until| until.minus(Millis::new(1)));
    let mut after = request
        .after
        .as_ref()
        .map(|cursor| (Place { due_at: cursor.at, number: cursor.number }, cursor.queue.clone()));
    let first = after.as_ref().map_or(first, |(place, _)| first.max(place.due_at));
    for step in snapshot.layout.walk(first, last) {
        while rows.len() < wanted {
            let asked = (wanted - rows.len()).saturating_add(READ_AHEAD).min(ROWS_MAX);
            let which = Which {
                queue: queue.as_ref().map(QueueName::as_str),
                key: key.as_ref().map(Key::as_str),
                schedule: schedule.as_ref().map(ScheduleId::as_str),
                after: after.as_ref().map(|(place, queue)| (*place, queue.as_str())),
                limit: asked,
            };
            let found = snapshot.rows(step, which).await?;
            let more = found.len() == asked;
            if let Some(row) = found.last() {
                after = Some((row.place(), row.live.job.name.queue.clone()));
            }
            rows.extend(found.into_iter().filter_map(|row| fitting(snapshot, request, row)));
            if !more {
                break;
            }
        }
    }
    Ok(())
}

/// Running ones are few, and it is known where they stand.
async fn running(
    snapshot: &mut Snapshot<'_>,
    request: &ListRequest,
    wanted: usize,
    rows: &mut Rows,
) -> Result<(), StoreError> {
    let found = snapshot.leased().await?;
    let mut fits: Rows =
        found.into_iter().filter_map(|row| fitting(snapshot, request, row)).collect();
    fits.retain(|(cursor, job)| {
        let Filter { queue, key, schedule, from, until, .. } = &request.filter;
        let StoredJob::Live(LiveJob { job, .. }) = job else { return false };
        let made_by = job.occurrence.as_ref().map(|occurrence| &occurrence.schedule);
        request.after.as_ref().is_none_or(|after| cursor > after)
            && queue.as_ref().is_none_or(|queue| job.name.queue == *queue)
            && key.as_ref().is_none_or(|key| job.name.key.as_ref() == Some(key))
            && schedule.as_ref().is_none_or(|schedule| made_by == Some(schedule))
            && from.is_none_or(|from| cursor.at >= from)
            && until.is_none_or(|until| cursor.at < until)
    });
    fits.sort_by(|a, b| a.0.cmp(&b.0));
    fits.truncate(wanted);
    rows.extend(fits);
    Ok(())
}

fn fitting(
    snapshot: &Snapshot<'_>,
    request: &ListRequest,
    found: Found,
) -> Option<(Cursor, StoredJob)> {
    let place = found.place();
    let live = snapshot.with_lease(found);
    let states = &request.filter.states;
    if !states.is_empty() && !states.contains(&state_of(&live, request.now)) {
        return None;
    }
    let queue = live.job.name.queue.clone();
    let cursor = Cursor { finished: false, at: place.due_at, number: place.number, queue };
    Some((cursor, StoredJob::Live(live)))
}

fn state_of(live: &LiveJob, now: Timestamp) -> JobState {
    match &live.lease {
        Some(_) => JobState::Running,
        None if live.progress.due_at <= now => JobState::Ready,
        None => JobState::Scheduled,
    }
}

async fn finished(
    snapshot: &mut Snapshot<'_>,
    request: &ListRequest,
    wanted: usize,
    rows: &mut Rows,
) -> Result<(), StoreError> {
    let states = request.filter.states.iter();
    let outcomes: Vec<&str> =
        states.filter(|state| state.is_final()).map(|state| state.as_str()).collect();
    if outcomes.is_empty() {
        return Ok(());
    }
    let mut sql = finished_sql(snapshot, request, &outcomes);
    sql.number(i64::try_from(wanted - rows.len()).unwrap_or(i64::MAX));
    let found = snapshot.ask("list finished jobs", &sql).await?.into_iter().flatten();
    for row in found {
        let (_, done) = finished_row(snapshot.shard, row)?;
        let (at, number) = (done.finish.at, done.job.number);
        let cursor = Cursor { finished: true, at, number, queue: done.job.name.queue.clone() };
        rows.push((cursor, StoredJob::Finished(done)));
    }
    Ok(())
}

/// Asks for finished jobs; the limit is to follow.
fn finished_sql(snapshot: &Snapshot<'_>, request: &ListRequest, outcomes: &[&str]) -> Text {
    let Filter { queue, key, schedule, from, until, .. } = &request.filter;
    let head = format!("SELECT {FINISHED} FROM @history h WHERE h.shard = ");
    let mut sql = snapshot.shared.tables.text(&head);
    sql.number(i64::from(snapshot.shard.0));
    let now = request.now.max(snapshot.swept_until);
    sql.raw(" AND h.keep_until > ").time(now).raw(" AND h.outcome IN (");
    sql.list(outcomes, |sql, outcome| {
        sql.text(outcome);
    });
    sql.raw(")");
    let (queue, key) = (queue.as_ref().map(QueueName::as_str), key.as_ref().map(Key::as_str));
    let schedule = schedule.as_ref().map(ScheduleId::as_str);
    for (column, value) in [("queue", queue), ("job_key", key), ("schedule", schedule)] {
        if let Some(value) = value {
            sql.raw(" AND h.").raw(column).raw(" = ").bytes(value.as_bytes());
        }
    }
    for (operator, at) in [(">=", from), ("<", until)] {
        if let Some(at) = at {
            sql.raw(" AND h.finished_at ").raw(operator).raw(" ").time(*at);
        }
    }
    if let Some(after) = request.after.as_ref().filter(|after| after.finished) {
        sql.raw(" AND h.finished_at >= ").time(after.at);
        sql.raw(" AND (h.finished_at, h.number, h.queue) > (").time(after.at).raw(", ");
        sql.number(number_column(after.number)).raw(", ");
        sql.bytes(after.queue.as_str().as_bytes()).raw(")");
    }
    sql.raw(" ORDER BY h.finished_at, h.number, h.queue LIMIT ");
    sql
}

fn wants_live(filter: &Filter) -> bool {
    filter.states.is_empty() || filter.states.iter().any(|state| !state.is_final())
}

fn only_running(filter: &Filter) -> bool {
    let mut live = filter.states.iter().filter(|state| !state.is_final()).peekable();
    live.peek().is_some() && live.all(|state| *state == JobState::Running)
}
