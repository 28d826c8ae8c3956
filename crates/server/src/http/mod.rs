//! HTTP/JSON under `/v1`, and the pages around it. One file per resource; [`router`] is the list
//! of all routes, and the OpenAPI document is made from the same list.

pub(crate) mod app;
mod body;
mod cursor;
mod docs;
pub(crate) mod entrance;
pub(crate) mod errors;
pub(crate) mod front;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod job;
mod jobs;
pub(crate) mod kinds;
mod leases;
mod ledger;
pub(crate) mod letters;
mod mismatch;
pub(crate) mod openapi;
mod params;
mod preview;
mod queues;
mod refusals;
mod schedules;
mod stats;
mod submit;
pub(crate) mod types;
pub(crate) mod waiting;
pub(crate) mod when;

#[cfg(test)]
mod tests;

use axum::Router;
use axum::routing::get;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use app::App;

/// Every route, with its description.
fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(openapi::head())
        .routes(routes!(submit::submit, jobs::list))
        .routes(routes!(jobs::bulk))
        .routes(routes!(job::show, job::change, job::cancel))
        .routes(routes!(job::run))
        .routes(routes!(job::replay))
        .routes(routes!(job::attempts))
        .routes(routes!(job::wait))
        .routes(routes!(job::payload))
        .routes(routes!(job::result))
        .routes(routes!(leases::lease, leases::held))
        .routes(routes!(leases::ack_many))
        .routes(routes!(leases::ack))
        .routes(routes!(leases::nack))
        .routes(routes!(leases::extend))
        .routes(routes!(queues::list))
        .routes(routes!(queues::show, queues::put, queues::change, queues::remove))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(schedules::list))
        .routes(routes!(preview::preview))
        .routes(routes!(schedules::show, schedules::put, schedules::remove))
        .routes(routes!(schedules::pause))
        .routes(routes!(schedules::resume))
        .routes(routes!(schedules::trigger))
        .routes(routes!(schedules::backfill, schedules::cancel_backfill))
        .routes(routes!(ledger::occurrences))
        .routes(routes!(ledger::forecast))
        .routes(routes!(stats::stats))
        .routes(routes!(stats::live))
        .routes(routes!(stats::ready))
        .routes(routes!(stats::metrics))
        .routes(routes!(docs::root))
        .routes(routes!(docs::openapi))
        .routes(routes!(docs::page))
        .routes(routes!(docs::script))
        .routes(routes!(docs::style))
        .routes(routes!(docs::errors))
}

/// The service for all requests, whatever they ask for.
fn router(app: App) -> Router {
    // A job may be called `bulk` too: the methods that bulk actions do not use are the job's. So
    // may a schedule be called `preview`.
    let named_bulk = get(job::show).patch(job::change).delete(job::cancel);
    let named_preview = get(schedules::show).put(schedules::put).delete(schedules::remove);
    let (router, _) = routes().split_for_parts();
    router
        .route("/v1/jobs/bulk", named_bulk)
        .route("/v1/schedules/preview", named_preview)
        .fallback(front::no_such_route)
        .method_not_allowed_fallback(front::method_not_allowed)
        .layer(axum::middleware::from_fn_with_state(app.clone(), front::front))
        .with_state(app)
}
