//! `POST /v1/schedules/preview`: what a plan was understood as and when it ticks, before anything
//! depends on it.

use axum::extract::{Request, State};
use axum::response::Response;
use hence_core::error::Rejection;
use hence_core::id::ScheduleId;
use hence_core::when::Reading;
use hence_core::when::limits::PREVIEW_LINES_MAX;
use http::StatusCode;

use super::app::{self, App};
use super::errors::Problem;
use super::types::plan::{PreviewIn, PreviewOut};
use super::{body, kinds, params};
use crate::limits;

/// Shows what a plan is understood as, and its next ticks. Nothing is kept.
#[utoipa::path(
    post, path = "/v1/schedules/preview", tag = "schedules", operation_id = "preview",
    request_body(content = PreviewIn, example = json!({
        "when": "every weekday at 9am", "zone": "Europe/Paris", "ticks": 10,
    })),
    responses((status = 200, description = "The next ticks", body = PreviewOut))
)]
pub(crate) async fn preview(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    params::none(request.uri())?;
    let asked: PreviewIn = body::json(request).await?;
    // A large calendar and many ticks take a moment, in which other requests are to be served.
    let looked = tokio::task::spawn_blocking(move || look(&app, asked)).await;
    let answer = looked.map_err(|error| Problem::new(kinds::INTERNAL, error.to_string()))??;
    Ok(app::json(StatusCode::OK, &answer))
}

fn look(app: &App, mut asked: PreviewIn) -> Result<PreviewOut, Problem> {
    let ticks = asked.ticks.unwrap_or(limits::PREVIEW_TICKS_DEFAULT);
    if !(1..=PREVIEW_LINES_MAX).contains(&ticks) {
        return Err(Rejection::out_of_range("ticks", 1, PREVIEW_LINES_MAX).into());
    }
    let id = asked.id.as_deref().map(ScheduleId::new).transpose()?;
    let reading = app.reading();
    let from = match &asked.from {
        Some(from) => from.bound("from", &reading)?,
        None => reading.now,
    };
    let reading = Reading { schedule: id.as_ref().map(ScheduleId::as_str), ..reading };
    let drafted = asked.draft()?.read(&reading)?;
    Ok(PreviewOut::new(&drafted, from, ticks))
}
