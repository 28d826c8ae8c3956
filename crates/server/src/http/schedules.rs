//! Schedules: put, look, pause, trigger, account.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use hence_core::error::Rejection;
use hence_core::id::ScheduleId;
use hence_core::schedule::ScheduleState;
use hence_core::time::{Millis, Timestamp};
use hence_store::LedgerRequest;
use http::{StatusCode, Uri};

use super::app::{self, App};
use super::errors::Problem;
use super::params::{self, Params};
use super::types::Stamp;
use super::types::job_out::JobOut;
use super::types::schedule::{
    OccurrenceOut, OccurrencesOut, ScheduleIn, ScheduleOut, SchedulesOut,
};
use super::{body, cursor};
use crate::limits;

fn id_of(uri: &Uri) -> Result<ScheduleId, Problem> {
    Ok(ScheduleId::new(&params::segment(uri, 3)?)?)
}

fn only_id_of(uri: &Uri) -> Result<ScheduleId, Problem> {
    params::none(uri)?;
    id_of(uri)
}

fn shown(state: &ScheduleState) -> Response {
    app::json(StatusCode::OK, &ScheduleOut::from(state))
}

/// Lists schedules, page by page.
#[utoipa::path(
    get, path = "/v1/schedules", tag = "schedules", operation_id = "schedules",
    params(
        ("limit" = Option<u32>, Query, description = "Rows at most, 1 to 1000; 100 when not given"),
        ("cursor" = Option<String>, Query, description = "The `next` of the page before"),
    ),
    responses((status = 200, description = "A page, in order of id", body = SchedulesOut<'_>))
)]
pub(crate) async fn list(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let params = Params::read(request.uri(), &["limit", "cursor"])?;
    let (limit, after) = (params.limit()?, params.one("cursor")?);
    let states =
        app.client.schedules(after.map(cursor::decode_schedule).transpose()?, limit).await?;
    let last = states.last().filter(|_| states.len() == limit);
    let next = last.map(|state| cursor::encode_schedule(&state.schedule.id));
    let schedules = states.iter().map(ScheduleOut::from).collect();
    Ok(app::json(StatusCode::OK, &SchedulesOut { schedules, next }))
}

/// Shows a schedule.
#[utoipa::path(
    get, path = "/v1/schedules/{id}", tag = "schedules", operation_id = "schedule",
    params(("id" = String, Path, description = "The schedule's id")),
    responses((status = 200, description = "The schedule", body = ScheduleOut<'_>))
)]
pub(crate) async fn show(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    Ok(shown(&app.client.schedule(only_id_of(request.uri())?).await?))
}

/// Puts a schedule, new or changed. Putting the same one again changes nothing.
#[utoipa::path(
    put, path = "/v1/schedules/{id}", tag = "schedules", operation_id = "put_schedule",
    params(("id" = String, Path, description = "The schedule's id")),
    request_body(content = ScheduleIn<'_>, example = json!({"every": "5m", "job": {"url": "https://example.com/tick", "retry": {"max_attempts": 3}}})),
    responses((status = 200, description = "The schedule as it is now", body = ScheduleOut<'_>))
)]
pub(crate) async fn put(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let id = only_id_of(request.uri())?;
    let bytes = body::read(request, limits::BODY_BYTES_MAX).await?;
    let new = body::parse::<ScheduleIn<'_>>(body::text(&bytes)?)?;
    let existing = match app.client.schedule(id.clone()).await {
        Ok(state) => Some(state.schedule),
        Err(hence::Error::Rejected(Rejection::NoSuchSchedule)) => None,
        Err(error) => return Err(error.into()),
    };
    let schedule = new.into_schedule(id, existing.as_deref(), &app.reading())?;
    Ok(shown(&app.client.put_schedule(schedule).await?))
}

/// Removes a schedule; jobs it made stay.
#[utoipa::path(
    delete, path = "/v1/schedules/{id}", tag = "schedules", operation_id = "remove_schedule",
    params(("id" = String, Path, description = "The schedule's id")),
    responses((status = 204, description = "It is gone"))
)]
pub(crate) async fn remove(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    app.client.remove_schedule(only_id_of(request.uri())?).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Stops a schedule's ticking.
#[utoipa::path(
    post, path = "/v1/schedules/{id}/pause", tag = "schedules", operation_id = "pause_schedule",
    params(("id" = String, Path, description = "The schedule's id")),
    responses((status = 200, description = "The schedule as it is now", body = ScheduleOut<'_>))
)]
pub(crate) async fn pause(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    Ok(shown(&app.client.pause_schedule(only_id_of(request.uri())?, "").await?))
}

/// Resumes a schedule's ticking.
#[utoipa::path(
    post, path = "/v1/schedules/{id}/resume", tag = "schedules", operation_id = "resume_schedule",
    params(("id" = String, Path, description = "The schedule's id")),
    responses((status = 200, description = "The schedule as it is now", body = ScheduleOut<'_>))
)]
pub(crate) async fn resume(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    Ok(shown(&app.client.resume_schedule(only_id_of(request.uri())?).await?))
}

/// Makes a job of the schedule now, outside its rhythm.
#[utoipa::path(
    post, path = "/v1/schedules/{id}/trigger", tag = "schedules", operation_id = "trigger_schedule",
    params(("id" = String, Path, description = "The schedule's id")),
    responses((status = 201, description = "The job", body = JobOut<'_>))
)]
pub(crate) async fn trigger(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let view = app.client.trigger_schedule(only_id_of(request.uri())?).await?;
    Ok(app::json(StatusCode::CREATED, &JobOut::whole(&view)))
}

/// Shows what became of a schedule's ticks, newest first.
#[utoipa::path(
    get, path = "/v1/schedules/{id}/occurrences", tag = "schedules", operation_id = "occurrences",
    params(
        ("id" = String, Path, description = "The schedule's id"),
        ("before" = Option<String>, Query, description = "Only ticks before this instant"),
        ("limit" = Option<u32>, Query, description = "Rows at most, 1 to 1000; 100 when not given"),
    ),
    responses((status = 200, description = "The occurrences", body = OccurrencesOut))
)]
pub(crate) async fn occurrences(
    State(app): State<App>,
    request: Request,
) -> Result<Response, Problem> {
    let params = Params::read(request.uri(), &["before", "limit"])?;
    let (id, limit) = (id_of(request.uri())?, params.limit()?);
    // Asked first: an id that never was must not look like a schedule that never ticked.
    app.client.schedule(id.clone()).await?;
    // A tick of this very millisecond belongs to the past that is shown.
    let until_now = || app.client.now().plus(Millis::new(1));
    let before: Timestamp = params.instant("before", &app.reading())?.unwrap_or_else(until_now);
    let page = LedgerRequest { until: before, ..LedgerRequest::newest(id, limit) };
    let records = app.client.occurrences(page).await?;
    let oldest = records.last().filter(|_| records.len() == limit);
    let answer = OccurrencesOut {
        occurrences: records.iter().map(OccurrenceOut::from).collect(),
        next_before: oldest.map(|record| Stamp(record.last)),
    };
    Ok(app::json(StatusCode::OK, &answer))
}
