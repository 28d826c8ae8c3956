//! Schedules: put, look, pause, trigger, backfill.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use hence_core::id::ScheduleId;
use hence_core::schedule::ScheduleState;
use hence_core::time::Millis;
use http::{StatusCode, Uri};

use super::app::{self, App};
use super::errors::Problem;
use super::params::{self, Params};
use super::types::job_out::JobOut;
use super::types::rules;
use super::types::schedule::{
    BackfillIn, PauseIn, ScheduleAsked, ScheduleIn, ScheduleOut, SchedulesOut,
};
use super::{body, cursor, kinds};
use crate::limits;

pub(crate) fn id_of(uri: &Uri) -> Result<ScheduleId, Problem> {
    Ok(ScheduleId::new(&params::segment(uri, 3)?)?)
}

fn only_id_of(uri: &Uri) -> Result<ScheduleId, Problem> {
    params::none(uri)?;
    id_of(uri)
}

fn shown(state: &ScheduleState) -> Response {
    app::json(StatusCode::OK, &ScheduleOut::whole(state))
}

/// Lists schedules, page by page.
#[utoipa::path(
    get, path = "/v1/schedules", tag = "schedules", operation_id = "schedules",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "Rows at most, 1 to 1000; 100 when not given"),
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
    let schedules = states.iter().map(ScheduleOut::brief).collect();
    Ok(app::json(StatusCode::OK, &SchedulesOut { schedules, next }))
}

/// Shows a schedule.
#[utoipa::path(
    get, path = "/v1/schedules/{id}", tag = "schedules", operation_id = "schedule",
    params(("id" = rules::ScheduleId, Path, description = "The schedule's id")),
    responses((status = 200, description = "The schedule", body = ScheduleOut<'_>))
)]
pub(crate) async fn show(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    Ok(shown(&app.client.schedule(only_id_of(request.uri())?).await?))
}

/// Puts a schedule, new or changed.
///
/// The body replaces all that was: what it does not say is the default again. Only a pause stays,
/// unless `paused` is given. Putting the same one again changes nothing: what is counted from when
/// it was said goes on.
#[utoipa::path(
    put, path = "/v1/schedules/{id}", tag = "schedules", operation_id = "put_schedule",
    params(("id" = rules::ScheduleId, Path, description = "The schedule's id")),
    request_body(content = ScheduleIn<'_>, example = json!({
        "when": "every weekday at 9am", "zone": "Europe/Paris", "overlap": "skip",
        "job": {"url": "https://example.com/report", "retry": {"max_attempts": 3}},
    })),
    responses((status = 200, description = "The schedule as it is now", body = ScheduleOut<'_>))
)]
pub(crate) async fn put(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let id = only_id_of(request.uri())?;
    let bytes = body::read(request, limits::BODY_BYTES_MAX).await?;
    let reader = app.clone();
    // A large calendar takes a moment, in which other requests are to be served.
    let read = tokio::task::spawn_blocking(move || {
        let new = body::parse::<ScheduleIn<'_>>(body::text(&bytes)?)?;
        new.into_schedule(id, &reader.reading())
    });
    let read = read.await.map_err(|error| Problem::new(kinds::INTERNAL, error.to_string()))?;
    let ScheduleAsked { schedule, wake } = read?;
    let put = if wake {
        app.client.put_schedule_awake(schedule).await
    } else {
        app.client.put_schedule(schedule).await
    };
    Ok(shown(&put?))
}

/// Removes a schedule; jobs it made stay.
#[utoipa::path(
    delete, path = "/v1/schedules/{id}", tag = "schedules", operation_id = "remove_schedule",
    params(("id" = rules::ScheduleId, Path, description = "The schedule's id")),
    responses((status = 204, description = "It is gone"))
)]
pub(crate) async fn remove(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    app.client.remove_schedule(only_id_of(request.uri())?).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Stops a schedule's ticking. Its ticks are accounted for as skipped when it resumes.
#[utoipa::path(
    post, path = "/v1/schedules/{id}/pause", tag = "schedules", operation_id = "pause_schedule",
    params(("id" = rules::ScheduleId, Path, description = "The schedule's id")),
    request_body(content = Option<PauseIn>, example = json!({"note": "the mail provider is down"})),
    responses((status = 200, description = "The schedule as it is now", body = ScheduleOut<'_>))
)]
pub(crate) async fn pause(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let id = only_id_of(request.uri())?;
    let asked: PauseIn = body::json_or_default(request).await?;
    Ok(shown(&app.client.pause_schedule(id, asked.note.as_deref().unwrap_or_default()).await?))
}

/// Resumes a schedule's ticking.
#[utoipa::path(
    post, path = "/v1/schedules/{id}/resume", tag = "schedules", operation_id = "resume_schedule",
    params(("id" = rules::ScheduleId, Path, description = "The schedule's id")),
    responses((status = 200, description = "The schedule as it is now", body = ScheduleOut<'_>))
)]
pub(crate) async fn resume(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let id = only_id_of(request.uri())?;
    body::nothing(request).await?;
    Ok(shown(&app.client.resume_schedule(id).await?))
}

/// Makes a job of the schedule now, outside its rhythm.
#[utoipa::path(
    post, path = "/v1/schedules/{id}/trigger", tag = "schedules", operation_id = "trigger_schedule",
    params(("id" = rules::ScheduleId, Path, description = "The schedule's id")),
    responses((status = 201, description = "The job", body = JobOut<'_>))
)]
pub(crate) async fn trigger(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let id = only_id_of(request.uri())?;
    body::nothing(request).await?;
    let view = app.client.trigger_schedule(id).await?;
    Ok(app::json(StatusCode::CREATED, &JobOut::whole(&view)))
}

/// Makes the jobs of past ticks that made none. Answers at once; the schedule shows how far it has
/// come.
#[utoipa::path(
    post, path = "/v1/schedules/{id}/backfill", tag = "schedules", operation_id = "backfill",
    params(("id" = rules::ScheduleId, Path, description = "The schedule's id")),
    request_body(content = BackfillIn, example = json!({"from": "2026-09-01", "pace": "1s"})),
    responses((status = 202, description = "The schedule as it is now", body = ScheduleOut<'_>))
)]
pub(crate) async fn backfill(
    State(app): State<App>,
    request: Request,
) -> Result<Response, Problem> {
    let id = only_id_of(request.uri())?;
    let asked: BackfillIn = body::json(request).await?;
    let reading = app.reading();
    let from = asked.from.bound("from", &reading)?;
    let to = asked.to.map_or(Ok(reading.now), |to| to.bound("to", &reading))?;
    let pace = asked.pace.map_or(Ok(Millis::ZERO), |pace| pace.span("pace"))?;
    let state = app.client.backfill(id, from, to, pace).await?;
    Ok(app::json(StatusCode::ACCEPTED, &ScheduleOut::whole(&state)))
}

/// Ends a backfill before it is through; the jobs that it made stay.
#[utoipa::path(
    delete, path = "/v1/schedules/{id}/backfill", tag = "schedules",
    operation_id = "cancel_backfill",
    params(("id" = rules::ScheduleId, Path, description = "The schedule's id")),
    responses((status = 200, description = "The schedule as it is now", body = ScheduleOut<'_>))
)]
pub(crate) async fn cancel_backfill(
    State(app): State<App>,
    request: Request,
) -> Result<Response, Problem> {
    Ok(shown(&app.client.cancel_backfill(only_id_of(request.uri())?).await?))
}
