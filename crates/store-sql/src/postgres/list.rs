//! Pages of jobs: live ones by walking the slots in the order of time, then finished ones.

use hence_core::change::Place;
use hence_core::id::Key;
use hence_core::job::JobState;
use hence_core::time::{Millis, Timestamp};
use hence_store::{Cursor, Filter, ListRequest, LiveJob, Page, StoreError, StoredJob};

use super::error::failed;
use super::read::{FINISHED, finished_row};
use super::shared::Shared;
use super::snapshot::{Found, Snapshot, Which};
use super::value::Value;
use crate::limits::READ_AHEAD;
use crate::rows::number_column;
use hence_core::id::ShardId;

/// Rows read at once, however large the page is.
const ROWS_MAX: usize = 10_000;

pub(super) async fn list(
    shared: &Shared,
    shard: ShardId,
    request: &ListRequest,
) -> Result<Page, StoreError> {
    let snapshot = Snapshot::begin(shared, shard).await?;
    // One more than fits tells whether there is a next page.
    let wanted = request.limit.saturating_add(1);
    let mut rows: Vec<(Cursor, StoredJob)> = Vec::new();
    let after = request.after.as_ref();
    if wants_live(&request.filter) && after.is_none_or(|after| !after.finished) {
        live(&snapshot, request, wanted, &mut rows).await?;
    }
    if rows.len() < wanted {
        finished(&snapshot, request, wanted, &mut rows).await?;
    }
    snapshot.end().await;
    let more = rows.len() > request.limit;
    rows.truncate(request.limit);
    let next = rows.last().filter(|_| more).map(|(cursor, _)| cursor.clone());
    Ok(Page { jobs: rows.into_iter().map(|(_, job)| job).collect(), next })
}

async fn live(
    snapshot: &Snapshot<'_>,
    request: &ListRequest,
    wanted: usize,
    rows: &mut Vec<(Cursor, StoredJob)>,
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
        while rows.len() < wanted {
            let asked = (wanted - rows.len()).saturating_add(READ_AHEAD).min(ROWS_MAX);
            let which = Which {
                queue: queue.as_ref().map(hence_core::id::QueueName::as_str),
                key: key.as_ref().map(Key::as_str),
                schedule: schedule.as_ref().map(hence_core::id::ScheduleId::as_str),
                numbers: running.as_deref(),
                after: after.as_ref().map(|(place, queue)| (*place, queue.as_str())),
                limit: asked,
            };
            let found = snapshot.rows(step, &which).await?;
            let more = found.len() == asked;
            if let Some(row) = found.last() {
                after = Some((row.place(), row.live.job.name.queue.as_str().to_string()));
            }
            rows.extend(found.into_iter().filter_map(|row| fitting(snapshot, request, row)));
            if !more {
                break;
            }
        }
    }
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
    snapshot: &Snapshot<'_>,
    request: &ListRequest,
    wanted: usize,
    rows: &mut Vec<(Cursor, StoredJob)>,
) -> Result<(), StoreError> {
    let Filter { queue, key, states, schedule, from, until } = &request.filter;
    let outcomes: Vec<&str> =
        states.iter().filter(|state| state.is_final()).map(|state| state.as_str()).collect();
    if outcomes.is_empty() {
        return Ok(());
    }
    let (mut at, mut number, mut after_queue) = (i64::MIN, i64::MIN, String::new());
    if let Some(after) = request.after.as_ref().filter(|after| after.finished) {
        (at, number) = (after.at.as_millis(), number_column(after.number));
        after.queue.as_str().clone_into(&mut after_queue);
    }
    let limit = i64::try_from(wanted - rows.len()).unwrap_or(i64::MAX);
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
        &queue.as_ref().map(hence_core::id::QueueName::as_str),
        &key.as_ref().map(Key::as_str),
        &schedule.as_ref().map(hence_core::id::ScheduleId::as_str),
        &limit,
    ];
    let found = snapshot.reader.query(&sql, &values).await.map_err(failed("list finished jobs"))?;
    for row in &found {
        let (_, done) = finished_row(snapshot.shard, row)?;
        let (at, number) = (done.finish.at, done.job.number);
        let cursor = Cursor { finished: true, at, number, queue: done.job.name.queue.clone() };
        rows.push((cursor, StoredJob::Finished(done)));
    }
    Ok(())
}

fn wants_live(filter: &Filter) -> bool {
    filter.states.is_empty() || filter.states.iter().any(|state| !state.is_final())
}

/// Running ones are few, and it is known where they stand.
fn only_running(filter: &Filter) -> bool {
    let mut live = filter.states.iter().filter(|state| !state.is_final()).peekable();
    live.peek().is_some() && live.all(|state| *state == JobState::Running)
}
