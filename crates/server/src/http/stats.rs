//! The whole at a glance, and whether the server lives and serves.

use axum::extract::{Request, State};
use axum::response::Response;
use hence_core::schedule::{ScheduleCheck, ScheduleCounts};
use hence_core::time::Millis;
use hence_store::Pressure;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use super::app::{self, App};
use super::errors::Problem;
use super::types::Stamp;
use super::types::queue::CountsOut;
use super::{params, when};
use crate::exposition::Exposition;
use crate::limits;

/// The whole at a glance.
#[derive(Serialize, ToSchema)]
#[schema(as = Stats)]
pub(crate) struct StatsOut {
    /// The counts of all queues together.
    counts: CountsOut,
    /// Due jobs that wait for a worker or a limit, as far as they are in memory.
    ready: u64,
    /// The other pending jobs: their time has not come, or they wait in the store for their turn.
    scheduled: u64,
    /// How many queues there are.
    queues: usize,
    /// The schedules, and whether they are sound.
    schedules: SchedulesCheckOut,
    /// Where jobs are kept.
    store: StoreOut,
    /// The time, as Hence sees it.
    now: Stamp,
    /// How long the server has run.
    uptime: String,
    /// The server's version.
    version: &'static str,
}

/// How many schedules there are, and the self-check: each has a next tick or a reason why not, and
/// no tick is overdue by more than a minute.
#[derive(Serialize, ToSchema)]
#[schema(as = SchedulesCheck)]
pub(crate) struct SchedulesCheckOut {
    /// With a next tick.
    ticking: u64,
    /// Paused.
    paused: u64,
    /// At their end, or without a further date.
    ended: u64,
    /// The first of those that fail the self-check.
    failing: Vec<String>,
}

impl From<ScheduleCheck> for SchedulesCheckOut {
    fn from(check: ScheduleCheck) -> Self {
        let ScheduleCounts { ticking, paused, ended, silent: _ } = check.counts;
        let failing = check.unsound.iter().map(|state| state.schedule.id.to_string()).collect();
        SchedulesCheckOut { ticking, paused, ended, failing }
    }
}

/// Where jobs are kept, and how safely.
#[derive(Serialize, ToSchema)]
#[schema(as = Store)]
pub(crate) struct StoreOut {
    /// The engine.
    engine: &'static str,
    /// What an acknowledged job survives: `durable`, `replicated` or `best-effort`.
    tier: &'static str,
    /// Whether jobs outlive the process.
    persistent: bool,
    /// Whether new jobs are refused for want of space.
    full: bool,
    /// What was found when the engine was questioned.
    notes: Vec<String>,
}

/// Shows totals over all queues, the store and the server.
#[utoipa::path(
    get, path = "/v1/stats", tag = "server", operation_id = "stats",
    responses((status = 200, description = "The whole at a glance", body = StatsOut))
)]
pub(crate) async fn stats(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    params::none(request.uri())?;
    let queues = app.client.queues().await?;
    let mut counts = CountsOut::default();
    for queue in &queues {
        counts.add(&queue.counts);
    }
    let ready = queues.iter().map(|queue| queue.ready).sum();
    let now = app.client.now();
    // Whole seconds: nobody reads more of an uptime.
    let uptime = Millis::from_secs(now.since(app.started_at).get() / 1_000);
    let facts = app.client.capabilities();
    let answer = StatsOut {
        scheduled: counts.pending.saturating_sub(ready),
        counts,
        ready,
        queues: queues.len(),
        schedules: app.client.check_schedules(limits::UNSOUND_SHOWN).await?.into(),
        store: StoreOut {
            engine: facts.engine,
            tier: facts.tier.as_str(),
            persistent: facts.persistent,
            full: app.client.pressure() == Pressure::Full,
            notes: facts.notes,
        },
        now: Stamp(now),
        uptime: when::span_text(uptime),
        version: env!("CARGO_PKG_VERSION"),
    };
    Ok(app::json(StatusCode::OK, &answer))
}

/// Whether the process answers.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`, or why not.
    status: &'static str,
    /// Whether new jobs are refused for want of space.
    #[serde(skip_serializing_if = "Option::is_none")]
    store_full: Option<bool>,
    /// Whether a schedule fails the self-check; `/v1/stats` says which.
    #[serde(skip_serializing_if = "Option::is_none")]
    schedules: Option<&'static str>,
}

/// Whether the process lives. Needs no token.
#[utoipa::path(
    get, path = "/live", tag = "server", operation_id = "live",
    responses((status = 200, description = "It does", body = Health))
)]
pub(crate) async fn live() -> Response {
    app::json(StatusCode::OK, &Health { status: "ok", store_full: None, schedules: None })
}

/// Whether the server takes requests; 503 while it stands by or is shutting down. Needs no token.
#[utoipa::path(
    get, path = "/ready", tag = "server", operation_id = "ready",
    responses(
        (status = 200, description = "It does", body = Health),
        (status = 503, body = Health,
            description = "It is shutting down. Or it stands by: then there is a problem document"),
    )
)]
pub(crate) async fn ready(State(app): State<App>) -> Response {
    // A full store, or a schedule that does not tick, is shown but is no reason to send nobody
    // here: accepted work goes on, and workers must be able to finish it.
    let store_full = Some(app.client.pressure() == Pressure::Full);
    if app.drain.has_begun() {
        let health = Health { status: "draining", store_full, schedules: None };
        return app::json(StatusCode::SERVICE_UNAVAILABLE, &health);
    }
    let schedules = app
        .client
        .check_schedules(1)
        .await
        .ok()
        .map(|check| if check.unsound.is_empty() { "ok" } else { "failing" });
    app::json(StatusCode::OK, &Health { status: "ok", store_full, schedules })
}

/// What an operator watches, in the OpenMetrics text format; in the text format 0.0.4 for whoever
/// accepts `text/plain` and not that.
#[utoipa::path(
    get, path = "/metrics", tag = "server", operation_id = "metrics",
    responses((
        status = 200, description = "The metrics",
        content((String = "application/openmetrics-text"), (String = "text/plain")),
    ))
)]
pub(crate) async fn metrics(
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let text = app.metrics.render(
        &app.client.queues().await?,
        &app.client.check_schedules(limits::UNSOUND_SHOWN).await?,
    );
    Ok(scraped(&headers, text))
}

/// The answer to a scrape.
pub(crate) fn scraped(headers: &HeaderMap, text: String) -> Response {
    let form = Exposition::asked(headers);
    let media = HeaderValue::from_static(form.media_type());
    app::bytes(StatusCode::OK, media, form.of(text).into())
}
