//! Queues: look, limit, pause, remove.

use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use hence_core::id::QueueName;
use hence_core::queue::QueueView;
use http::{StatusCode, Uri};

use super::app::{self, App};
use super::errors::Problem;
use super::types::queue::{Doors, QueueOut, QueuesOut, SettingsEdit, SettingsIn};
use super::types::rules;
use super::{body, params};

fn name_of(uri: &Uri) -> Result<QueueName, Problem> {
    params::none(uri)?;
    Ok(QueueName::new(&params::segment(uri, 3)?)?)
}

fn shown(view: &QueueView) -> Response {
    app::json(StatusCode::OK, &QueueOut::from(view))
}

/// Shows all queues that have settings or ever had a job.
#[utoipa::path(
    get, path = "/v1/queues", tag = "queues", operation_id = "queues",
    responses((status = 200, description = "In order of name", body = QueuesOut<'_>))
)]
pub(crate) async fn list(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    params::none(request.uri())?;
    let views = app.client.queues().await?;
    let answer = QueuesOut { queues: views.iter().map(QueueOut::from).collect() };
    Ok(app::json(StatusCode::OK, &answer))
}

/// Shows a queue.
#[utoipa::path(
    get, path = "/v1/queues/{name}", tag = "queues", operation_id = "queue",
    params(("name" = rules::QueueName, Path, description = "The queue")),
    responses((status = 200, description = "The queue", body = QueueOut<'_>))
)]
pub(crate) async fn show(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    Ok(shown(&app.client.queue(name_of(request.uri())?).await?))
}

/// Sets a queue's settings, whole; `{}` takes them all away.
#[utoipa::path(
    put, path = "/v1/queues/{name}", tag = "queues", operation_id = "put_queue",
    params(("name" = rules::QueueName, Path, description = "The queue")),
    request_body(content = SettingsIn, example = json!({
        "concurrency": 10, "rate": {"count": 100, "per": "1s"},
    })),
    responses((status = 200, description = "The queue as it is now", body = QueueOut<'_>))
)]
pub(crate) async fn put(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let name = name_of(request.uri())?;
    let settings = body::json::<SettingsIn>(request).await?.into_settings()?;
    let _alone = app.queue_edits.lock().await;
    Ok(shown(&app.client.put_queue(name, settings).await?))
}

/// Changes some of a queue's settings; `null` lifts a limit.
#[utoipa::path(
    patch, path = "/v1/queues/{name}", tag = "queues", operation_id = "change_queue",
    params(("name" = rules::QueueName, Path, description = "The queue")),
    request_body(content = SettingsEdit, example = json!({"concurrency": 20, "rate": null})),
    responses((status = 200, description = "The queue as it is now", body = QueueOut<'_>))
)]
pub(crate) async fn change(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let name = name_of(request.uri())?;
    let edit = body::json::<SettingsEdit>(request).await?;
    edited(&app, name, edit).await
}

/// Forgets a queue that holds no job, neither live nor dead: its settings and its counts.
///
/// Finished jobs of it stay for their retention, and the next job makes it anew.
#[utoipa::path(
    delete, path = "/v1/queues/{name}", tag = "queues", operation_id = "remove_queue",
    params(("name" = rules::QueueName, Path, description = "The queue")),
    responses((status = 204, description = "It is gone"))
)]
pub(crate) async fn remove(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let name = name_of(request.uri())?;
    let _alone = app.queue_edits.lock().await;
    app.client.remove_queue(name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Pauses a queue: its door for new jobs, its door for due ones, or both.
#[utoipa::path(
    post, path = "/v1/queues/{name}/pause", tag = "queues", operation_id = "pause_queue",
    params(("name" = rules::QueueName, Path, description = "The queue")),
    request_body(content = Option<Doors>, example = json!({"in": true, "out": true})),
    responses((status = 200, description = "The queue as it is now", body = QueueOut<'_>))
)]
pub(crate) async fn pause(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let name = name_of(request.uri())?;
    let doors = body::json_or_default::<Doors>(request).await?;
    edited(&app, name, SettingsEdit::doors(&doors, true)).await
}

/// Resumes a queue.
#[utoipa::path(
    post, path = "/v1/queues/{name}/resume", tag = "queues", operation_id = "resume_queue",
    params(("name" = rules::QueueName, Path, description = "The queue")),
    request_body(content = Option<Doors>, example = json!({"in": true, "out": true})),
    responses((status = 200, description = "The queue as it is now", body = QueueOut<'_>))
)]
pub(crate) async fn resume(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let name = name_of(request.uri())?;
    let doors = body::json_or_default::<Doors>(request).await?;
    edited(&app, name, SettingsEdit::doors(&doors, false)).await
}

async fn edited(app: &App, name: QueueName, edit: SettingsEdit) -> Result<Response, Problem> {
    let _alone = app.queue_edits.lock().await;
    let before = app.client.queue(name.clone()).await?.settings;
    Ok(shown(&app.client.put_queue(name, edit.apply(before)?).await?))
}
