//! Pages of jobs: live ones by walking the slots in the order of time, then finished ones.

use hence_core::change::Place;
use hence_core::id::{Key, QueueName, ScheduleId, ShardId};
use hence_core::time::{Millis, Timestamp};
use hence_store::{Filter, ListRequest, Page, StoreError};

use super::error::failed;
use super::read::{FINISHED, finished_row};
use super::shared::Shared;
use super::snapshot::{Snapshot, Which};
use super::value::Value;
use crate::found::{Filling, only_running, outcomes, wants_live};
use crate::limits::{READ_AHEAD, ROWS_READ_MAX};
use crate::rows::number_column;

pub(super) async fn list(
    shared: &Shared,
    shard: ShardId,
    request: &ListRequest,
) -> Result<Page, StoreError> {
    let snapshot = Snapshot::begin(shared, shard).await?;
    let mut filling = Filling::new(request);
    if wants_live(request) {
        live(&snapshot, request, &mut filling).await?;
    }
    if filling.missing() > 0 {
        finished(&snapshot, request, &mut filling).await?;
    }
    snapshot.end().await;
    Ok(filling.page())
}

async fn live(
    snapshot: &Snapshot<'_>,
    request: &ListRequest,
    filling: &mut Filling<'_>,
) -> Result<(), StoreError> {
    let Filter { queue, key, schedule, from, until, .. } = &request.filter;
    let first = from.unwrap_or(Timestamp::MIN);
    let last = until.map_or(Timestamp::MAX, |until| until.minus(Millis::new(1)));
    let mut after = request.after.as_ref().map(|cursor| {
        (Place { due_at: cursor.at, number: cursor.number }, cursor.queue.as_str().to_string())
    });
    let first = after.as_ref().map_or(first, |(place, _)| first.max(place.due_at));
    let running = only_running(&request.filter).then(|| {
        let leased = snapshot.leased();
        leased.iter().map(|(_, place)| number_column(place.number)).collect::<Vec<i64>>()
    });
    for step in snapshot.layout.walk(first, last) {
        while filling.missing() > 0 {
            let asked = filling.missing().saturating_add(READ_AHEAD).min(ROWS_READ_MAX);
            let which = Which {
                queue: queue.as_ref().map(QueueName::as_str),
                key: key.as_ref().map(Key::as_str),
                schedule: schedule.as_ref().map(ScheduleId::as_str),
                numbers: running.as_deref(),
                after: after.as_ref().map(|(place, queue)| (*place, queue.as_str())),
                limit: asked,
            };
            let found = snapshot.rows(step, &which).await?;
            let more = found.len() == asked;
            if let Some(row) = found.last() {
                after = Some((row.place(), row.live.job.name.queue.as_str().to_string()));
            }
            filling.add_live(found.into_iter().map(|row| snapshot.with_lease(row)));
            if !more {
                break;
            }
        }
    }
    Ok(())
}

async fn finished(
    snapshot: &Snapshot<'_>,
    request: &ListRequest,
    filling: &mut Filling<'_>,
) -> Result<(), StoreError> {
    let Filter { queue, key, schedule, from, until, .. } = &request.filter;
    let outcomes = outcomes(&request.filter);
    if outcomes.is_empty() {
        return Ok(());
    }
    let (mut at, mut number, mut after_queue) = (i64::MIN, i64::MIN, String::new());
    if let Some(after) = request.after.as_ref().filter(|after| after.finished) {
        (at, number) = (after.at.as_millis(), number_column(after.number));
        after.queue.as_str().clone_into(&mut after_queue);
    }
    let limit = i64::try_from(filling.missing()).unwrap_or(i64::MAX);
    let sql = snapshot.shared.sql(&format!(
        "SELECT {FINISHED} FROM @history h WHERE h.shard = $1 AND h.keep_until > $2 \
         AND h.outcome = ANY($3::text[]) AND (h.finished_at, h.number, h.queue) > ($4, $5, $6) \
         AND h.finished_at >= $7 AND h.finished_at < $8 AND ($9::text IS NULL OR h.queue = $9) \
         AND ($10::text IS NULL OR h.key = $10) AND ($11::text IS NULL OR h.schedule = $11) \
         ORDER BY h.finished_at, h.number, h.queue LIMIT $12"
    ));
    let now = request.now.max(snapshot.swept_until);
    let values: [Value<'_>; 12] = [
        &i32::from(snapshot.shard.0),
        &now.as_millis(),
        &outcomes,
        &at,
        &number,
        &after_queue,
        &from.map_or(i64::MIN, Timestamp::as_millis),
        &until.map_or(i64::MAX, Timestamp::as_millis),
        &queue.as_ref().map(QueueName::as_str),
        &key.as_ref().map(Key::as_str),
        &schedule.as_ref().map(ScheduleId::as_str),
        &limit,
    ];
    let found = snapshot.reader.query(&sql, &values).await.map_err(failed("list finished jobs"))?;
    for row in &found {
        filling.add_finished(finished_row(snapshot.shard, row)?.1);
    }
    Ok(())
}
