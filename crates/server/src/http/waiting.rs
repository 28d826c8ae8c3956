//! What is answered before the store is ours: the process lives, and somebody else is to be asked.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hence_core::schedule::{ScheduleCheck, ScheduleCounts};
use http::HeaderMap;

use super::errors::Problem;
use super::{kinds, stats};
use crate::guard::Guard;
use crate::limits::STANDBY_RETRY_AFTER_SECS;
use crate::metrics::Metrics;

/// What such a server knows.
pub(crate) struct Waiting {
    /// Who may speak.
    pub(crate) guard: Guard,
    /// What is measured.
    pub(crate) metrics: Arc<Metrics>,
}

/// The service for all requests, until there is another one.
pub(crate) fn router(waiting: Arc<Waiting>) -> Router {
    Router::new()
        .route("/live", get(stats::live))
        .route("/metrics", get(metrics))
        .fallback(not_yet)
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&waiting), guard))
        .with_state(waiting)
}

async fn guard(State(waiting): State<Arc<Waiting>>, request: Request, next: Next) -> Response {
    match waiting.guard.check(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

async fn metrics(State(waiting): State<Arc<Waiting>>, headers: HeaderMap) -> Response {
    let none = ScheduleCheck { counts: ScheduleCounts::default(), unsound: Vec::new() };
    stats::scraped(&headers, waiting.metrics.render(&[], &none))
}

async fn not_yet(State(waiting): State<Arc<Waiting>>) -> Problem {
    let detail = if waiting.metrics.stands_by() {
        "standing by: another server works on the store, and this one takes over when it is gone"
    } else {
        "starting: the store is being opened"
    };
    Problem::new(kinds::STANDING_BY, detail).retry_after(STANDBY_RETRY_AFTER_SECS)
}
