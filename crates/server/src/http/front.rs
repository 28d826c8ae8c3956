//! What happens to every request, whatever it asks: guarded, bounded in time, measured. One
//! layer: each one more would cost every request an allocation.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use hence::clock::Stopwatch;
use http::{Method, StatusCode, Uri};

use super::app::App;
use super::errors::Problem;
use super::kinds;
use crate::alarm::Alarm;
use crate::limits;

/// Routes that may wait, or work through many jobs.
const LONG: [&str; 3] = ["/v1/leases", "/v1/jobs/{id}/wait", "/v1/jobs/bulk"];

/// The other end of the connection, for the audit.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Guards, bounds and measures a request that found its handler through the router.
pub(crate) async fn front(State(app): State<App>, request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or("unmatched", MatchedPath::as_str);
    attend(app, route, request, None, |request| next.run(request)).await
}

/// Guards, bounds and measures a request to this route, which is answered by `handle`. The request
/// goes straight to that: whatever waits here would carry it along, and be copied with it.
pub(crate) fn attend<F: Future<Output = Response> + Send>(
    app: App,
    route: &str,
    request: Request,
    alarm: Option<Alarm>,
    handle: impl FnOnce(Request) -> F,
) -> impl Future<Output = Response> + Send {
    let watch = Stopwatch::start();
    let act = act_of(route, &request).map(Box::new);
    let handling = check(&app, &request).map(|()| handle(request));
    async move {
        let response = match handling {
            Ok(handling) => answer(&app, route, alarm, handling).await,
            Err(problem) => problem.into_response(),
        };
        if let Some(act) = act {
            act.log(response.status());
        }
        app.metrics.request(route, response.status(), watch.elapsed());
        response
    }
}

/// What somebody wants to change about queues, schedules, or many jobs: worth a line, granted or
/// not. What happens to single jobs is logged by the library.
struct Act {
    method: Method,
    uri: Uri,
    peer: Option<SocketAddr>,
}

impl Act {
    fn log(&self, status: StatusCode) {
        let (method, path, status) = (&self.method, self.uri.path(), status.as_u16());
        let peer = self.peer.map(tracing::field::display);
        tracing::info!(target: "hence::audit", %method, path, status, peer, "asked for");
    }
}

fn act_of(route: &str, request: &Request) -> Option<Act> {
    const ADMIN: [&str; 3] = ["/v1/queues", "/v1/schedules", "/v1/jobs/bulk"];
    let admin = ADMIN.iter().any(|prefix| route.starts_with(prefix));
    if !admin || request.method().is_safe() {
        return None;
    }
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0);
    Some(Act { method: request.method().clone(), uri: request.uri().clone(), peer })
}

fn check(app: &App, request: &Request) -> Result<(), Problem> {
    app.guard.check(request)?;
    let length = request.uri().path_and_query().map_or(0, |uri| uri.as_str().len());
    if length > limits::URI_BYTES_MAX {
        let detail =
            format!("it has {length} bytes, at most {} are allowed", limits::URI_BYTES_MAX);
        return Err(Problem::new(kinds::URI_TOO_LONG, detail).limit(limits::URI_BYTES_MAX));
    }
    Ok(())
}

async fn answer(
    app: &App,
    route: &str,
    alarm: Option<Alarm>,
    handling: impl Future<Output = Response>,
) -> Response {
    let patience = app.bounds.request_timeout;
    let patience = if LONG.contains(&route) { patience + limits::LONG_POLL_MAX } else { patience };
    let unwind = AssertUnwindSafe(handling).catch_unwind();
    let answered = match alarm {
        Some(alarm) => alarm.within(patience, unwind).await,
        None => tokio::time::timeout(patience, unwind).await.ok(),
    };
    match answered {
        Some(Ok(response)) => response,
        Some(Err(_)) => {
            tracing::error!(route, "a request made its handler panic");
            Problem::new(kinds::INTERNAL, "the request made its handler panic").into_response()
        }
        None => {
            let detail = format!("it was given up after {} seconds", patience.as_secs());
            Problem::new(kinds::TIMED_OUT, detail).into_response()
        }
    }
}

/// There is nothing at this path.
pub(crate) async fn no_such_route(request: Request) -> Problem {
    let path: String = request.uri().path().chars().take(200).collect();
    Problem::new(kinds::NO_SUCH_ROUTE, format!("there is nothing at {path}"))
}

/// The path exists, the method does not. The router adds the Allow header.
pub(crate) async fn method_not_allowed(method: Method) -> Problem {
    Problem::new(kinds::METHOD_NOT_ALLOWED, format!("{method} is not possible here"))
}
