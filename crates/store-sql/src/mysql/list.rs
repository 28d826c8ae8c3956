//! Pages of jobs: live ones by walking the slots in the order of time, then finished ones.

use hence_core::change::Place;
use hence_core::id::{Key, QueueName, ScheduleId, ShardId};
use hence_core::time::{Millis, Timestamp};
use hence_store::{Filter, ListRequest, LiveJob, Page, StoreError};

use super::read::{FINISHED, finished_row};
use super::shared::Shared;
use super::snapshot::{Snapshot, Which};
use super::text::Text;
use crate::found::{Filling, cursor_of, only_running, outcomes, wants_live};
use crate::limits::{READ_AHEAD, ROWS_READ_MAX};
use crate::rows::number_column;

pub(super) async fn list(
    shared: &Shared,
    shard: ShardId,
    request: &ListRequest,
) -> Result<Page, StoreError> {
    let mut snapshot = Snapshot::begin(shared, shard).await?;
    let mut filling = Filling::new(request);
    if wants_live(request) {
        if only_running(&request.filter) {
            running(&mut snapshot, request, &mut filling).await?;
        } else {
            live(&mut snapshot, request, &mut filling).await?;
        }
    }
    if filling.missing() > 0 {
        finished(&mut snapshot, request, &mut filling).await?;
    }
    snapshot.end().await?;
    Ok(filling.page())
}

async fn live(
    snapshot: &mut Snapshot<'_>,
    request: &ListRequest,
    filling: &mut Filling<'_>,
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
        while filling.missing() > 0 {
            let asked = filling.missing().saturating_add(READ_AHEAD).min(ROWS_READ_MAX);
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
            filling.add_live(found.into_iter().map(|row| snapshot.with_lease(row)));
            if !more {
                break;
            }
        }
    }
    Ok(())
}

async fn running(
    snapshot: &mut Snapshot<'_>,
    request: &ListRequest,
    filling: &mut Filling<'_>,
) -> Result<(), StoreError> {
    let found = snapshot.leased().await?.into_iter();
    let mut found: Vec<LiveJob> = found.map(|row| snapshot.with_lease(row)).collect();
    found.retain(|live| live.lease.is_some() && is_asked_for(request, live));
    found.sort_by_cached_key(cursor_of);
    found.truncate(filling.missing());
    filling.add_live(found);
    Ok(())
}

/// Whether all but its state is as the request says.
fn is_asked_for(request: &ListRequest, live: &LiveJob) -> bool {
    let Filter { queue, key, schedule, from, until, .. } = &request.filter;
    let (LiveJob { job, .. }, cursor) = (live, cursor_of(live));
    let made_by = job.occurrence.as_ref().map(|occurrence| &occurrence.schedule);
    request.after.as_ref().is_none_or(|after| cursor > *after)
        && queue.as_ref().is_none_or(|queue| job.name.queue == *queue)
        && key.as_ref().is_none_or(|key| job.name.key.as_ref() == Some(key))
        && schedule.as_ref().is_none_or(|schedule| made_by == Some(schedule))
        && from.is_none_or(|from| cursor.at >= from)
        && until.is_none_or(|until| cursor.at < until)
}

async fn finished(
    snapshot: &mut Snapshot<'_>,
    request: &ListRequest,
    filling: &mut Filling<'_>,
) -> Result<(), StoreError> {
    let outcomes = outcomes(&request.filter);
    if outcomes.is_empty() {
        return Ok(());
    }
    let mut sql = finished_sql(snapshot, request, &outcomes);
    sql.number(i64::try_from(filling.missing()).unwrap_or(i64::MAX));
    let found = snapshot.ask("list finished jobs", &sql).await?.into_iter().flatten();
    for row in found {
        filling.add_finished(finished_row(snapshot.shard, row)?.1);
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
