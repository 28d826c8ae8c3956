//! One job: look, change, take back, run now, replay, wait for its end.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use hence_core::error::Rejection;
use hence_core::job::{JobState, JobView, Payload};
use hence_core::waiting::WaitingFor;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

use super::app::{self, App};
use super::errors::Problem;
use super::params::{self, JobParams, Params};
use super::types::job_in::EditIn;
use super::types::job_out::{AttemptOut, JobOut};
use super::types::lease::long_poll;
use super::types::payload::RawBytes;
use super::{body, kinds};
use crate::limits;

fn shown(view: &JobView) -> Response {
    app::json(StatusCode::OK, &JobOut::whole(view))
}

/// Shows a job, and what it waits for if it is due.
#[utoipa::path(
    get, path = "/v1/jobs/{id}", tag = "jobs", operation_id = "show",
    params(JobParams),
    responses((status = 200, description = "The job", body = JobOut<'_>))
)]
pub(crate) async fn show(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let name = params::job_name(request.uri())?;
    let view = app.client.show(name).await?;
    let waiting_for = waiting_for(&app, &view).await?;
    let mut answer = JobOut::whole(&view);
    answer.waiting_for = waiting_for.as_ref().map(Into::into);
    Ok(app::json(StatusCode::OK, &answer))
}

async fn waiting_for(app: &App, view: &JobView) -> Result<Option<WaitingFor>, Problem> {
    let waits = matches!(view.state, JobState::Scheduled | JobState::Ready);
    if !waits || view.progress.due_at > app.client.now() {
        return Ok(None);
    }
    match app.client.waiting_for(view.job.name.clone()).await {
        // It ended since it was shown, and nothing of it is kept.
        Err(hence::Error::Rejected(Rejection::NoSuchJob)) => Ok(None),
        answer => Ok(answer?),
    }
}

/// Changes a job that is not running.
#[utoipa::path(
    patch, path = "/v1/jobs/{id}", tag = "jobs", operation_id = "change",
    params(JobParams),
    request_body(content = EditIn<'_>, example = json!({"in": "1h"})),
    responses((status = 200, description = "The job as it is now", body = JobOut<'_>))
)]
pub(crate) async fn change(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let name = params::job_name(request.uri())?;
    let bytes = body::read(request, limits::BODY_BYTES_MAX).await?;
    let edit = body::parse::<EditIn<'_>>(body::text(&bytes)?).map_err(name_stays)?;
    let (edit, understood) = edit.into_edit(&app.reading())?;
    let view = app.client.edit(name, edit).await?;
    let mut answer = JobOut::whole(&view);
    answer.understood = understood.as_ref().map(Into::into);
    Ok(app::json(StatusCode::OK, &answer))
}

/// What names a job is no field of a change, whatever it looks like a misspelling of.
fn name_stays(problem: Problem) -> Problem {
    if problem.is_about(kinds::UNKNOWN_FIELD, &["id", "queue", "key"]) {
        let fix = "a job's name cannot be changed: submit it under the other name, and cancel this \
                   one";
        return problem.fix(fix);
    }
    problem
}

/// Cancels a job, or forgets a finished one.
///
/// If the job is running, its success will not be recorded.
#[utoipa::path(
    delete, path = "/v1/jobs/{id}", tag = "jobs", operation_id = "cancel",
    params(
        JobParams,
        ("forget" = Option<bool>, Query, description = "Forget a finished job before its time"),
    ),
    responses(
        (status = 200, description = "The job as it is now", body = JobOut<'_>),
        (status = 204, description = "The finished job is forgotten"),
    )
)]
pub(crate) async fn cancel(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let params = Params::read(request.uri(), &["queue", "key", "forget"])?;
    let name = params.job_name(request.uri())?;
    if params.flag("forget")? {
        app.client.forget(name).await?;
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(shown(&app.client.cancel(name).await?))
}

/// Makes a waiting job due at once.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/run", tag = "jobs", operation_id = "run",
    params(JobParams),
    responses((status = 200, description = "The job as it is now", body = JobOut<'_>))
)]
pub(crate) async fn run(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let name = params::job_name(request.uri())?;
    body::nothing(request).await?;
    Ok(shown(&app.client.run_now(name).await?))
}

/// Gives a dead job all its attempts again, at once.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/replay", tag = "jobs", operation_id = "replay",
    params(JobParams),
    responses((status = 200, description = "The job as it is now", body = JobOut<'_>))
)]
pub(crate) async fn replay(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let name = params::job_name(request.uri())?;
    body::nothing(request).await?;
    Ok(shown(&app.client.replay(name).await?))
}

/// The attempts of a job.
#[derive(Serialize, ToSchema)]
#[schema(as = Attempts)]
pub(crate) struct AttemptsOut<'a> {
    /// Those that ended, in order.
    attempts: Vec<AttemptOut<'a>>,
}

/// Shows the attempts of a job that have ended.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/attempts", tag = "jobs", operation_id = "attempts",
    params(JobParams),
    responses((status = 200, description = "The attempts", body = AttemptsOut<'_>))
)]
pub(crate) async fn attempts(
    State(app): State<App>,
    request: Request,
) -> Result<Response, Problem> {
    let records = app.client.attempts(params::job_name(request.uri())?).await?;
    let answer = AttemptsOut { attempts: records.iter().map(AttemptOut::from).collect() };
    Ok(app::json(StatusCode::OK, &answer))
}

/// Waits until a job has ended, and shows it with its result.
///
/// 202 means that it has not ended in time: ask again.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/wait", tag = "jobs", operation_id = "wait",
    params(
        JobParams,
        ("timeout" = Option<String>, Query,
            description = "How long to wait; 30s when not given, at most 5 minutes"),
    ),
    responses(
        (status = 200, description = "The job has ended", body = JobOut<'_>),
        (status = 202, description = "The job has not ended yet", body = JobOut<'_>),
    )
)]
pub(crate) async fn wait(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let params = Params::read(request.uri(), &["queue", "key", "timeout"])?;
    let name = params.job_name(request.uri())?;
    let timeout = match params.span("timeout")? {
        Some(span) => long_poll("timeout", span)?,
        None => limits::WAIT_DEFAULT,
    };
    let was_draining = app.drain.has_begun();
    let ended = tokio::select! {
        biased;
        ended = app.client.wait(name.clone(), timeout) => ended?,
        () = app.drain.begun() => None,
    };
    if let Some(view) = ended {
        return Ok(shown(&view));
    }
    let view = app.client.show(name).await?;
    if view.state.is_final() {
        return Ok(shown(&view));
    }
    if was_draining {
        // To be told to ask again, at once and every time, would make it a busy loop.
        return Err(Rejection::Draining.into());
    }
    Ok(app::json(StatusCode::ACCEPTED, &JobOut::whole(&view)))
}

/// The payload of a job, byte by byte.
///
/// A job that succeeded, was cancelled or expired has none any more: the answer is empty.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/payload", tag = "jobs", operation_id = "payload",
    params(JobParams),
    responses((
        status = 200, description = "The bytes, under their own media type",
        body = RawBytes, content_type = "*/*",
    ))
)]
pub(crate) async fn payload(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let view = app.client.show(params::job_name(request.uri())?).await?;
    Ok(raw(&view.job.payload))
}

/// The kept result of a job, byte by byte.
///
/// Of what a URL answered these are the first 64 KiB at most: what is longer was cut there.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/result", tag = "jobs", operation_id = "result",
    params(JobParams),
    responses((
        status = 200, description = "The bytes, under their own media type",
        body = RawBytes, content_type = "*/*",
    ))
)]
pub(crate) async fn result(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let view = app.client.show(params::job_name(request.uri())?).await?;
    let result = view.finish.as_ref().and_then(|finish| finish.result.as_ref());
    match result {
        Some(payload) => Ok(raw(payload)),
        None => {
            let detail = format!("the job is {} and has no result", view.state.as_str());
            Err(Problem::new(kinds::NO_RESULT, detail))
        }
    }
}

/// Somebody else's bytes under their own media type. The headers keep a browser from running what
/// may be a page.
fn raw(payload: &Payload) -> Response {
    let declared = payload.content_type.as_deref().and_then(|t| HeaderValue::from_str(t).ok());
    let media = declared.unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let mut response = app::bytes(StatusCode::OK, media, payload.bytes.clone());
    let headers = response.headers_mut();
    let policy = HeaderValue::from_static("default-src 'none'; sandbox");
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
