//! Where requests come in. Those of steady work, submitting, taking and finishing jobs, go straight
//! to their handlers; all others find theirs through the router.
//!
//! The router is the list of all routes, and these are among them: it would answer just the same.
//! But it costs a request more than reading and writing its JSON, in boxes and copies.

use std::convert::Infallible;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::future::RouteFuture;
use futures::FutureExt;
use futures::future::{BoxFuture, Either};
use http::Method;

use super::app::App;
use super::errors::Problem;
use super::front::Peer;
use super::{front, leases, submit};
use crate::alarm::Alarm;

/// Whoever answers requests.
#[derive(Clone)]
pub(crate) struct Entrance {
    router: Router,
    /// Absent while the store is not ours: then there is no steady work.
    app: Option<App>,
}

/// The answer to a request, on its way.
pub(crate) type Answering = Either<Boxed, RouteFuture<Infallible>>;

type Boxed = BoxFuture<'static, Result<Response, Infallible>>;

impl Entrance {
    /// To everything there is.
    pub(crate) fn new(app: App) -> Self {
        Entrance { router: super::router(app.clone()), app: Some(app) }
    }

    /// To this router alone.
    pub(crate) fn only(router: Router) -> Self {
        Entrance { router, app: None }
    }

    /// Answers a request from there. With an alarm, it is the one of the task that asks.
    pub(crate) fn call(
        &self,
        mut request: Request,
        peer: Option<Peer>,
        alarm: Option<Alarm>,
    ) -> Answering {
        if let Some(app) = &self.app
            && let Some(steady) = Steady::of(&request)
        {
            return Either::Left(steady.answer(app, request, alarm));
        }
        if let Some(peer) = peer {
            request.extensions_mut().insert(peer);
        }
        // A router is always ready.
        Either::Right(tower::Service::call(&mut self.router.clone(), request))
    }
}

/// What a client asks for again and again.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Steady {
    Submit,
    Lease,
    Ack,
    AckMany,
}

impl Steady {
    fn of(request: &Request) -> Option<Self> {
        if request.method() != Method::POST {
            return None;
        }
        match request.uri().path() {
            "/v1/jobs" => Some(Steady::Submit),
            "/v1/leases" => Some(Steady::Lease),
            "/v1/leases/ack" => Some(Steady::AckMany),
            path => {
                let token = path.strip_prefix("/v1/leases/")?.strip_suffix("/ack")?;
                (!token.is_empty() && !token.contains('/')).then_some(Steady::Ack)
            }
        }
    }

    /// Its route, as the router has it.
    const fn route(self) -> &'static str {
        match self {
            Steady::Submit => "/v1/jobs",
            Steady::Lease => "/v1/leases",
            Steady::Ack => "/v1/leases/{token}/ack",
            Steady::AckMany => "/v1/leases/ack",
        }
    }

    fn answer(self, app: &App, request: Request, alarm: Option<Alarm>) -> Boxed {
        match self {
            Steady::Submit => self.attended(app, request, alarm, submit::submit),
            Steady::Lease => self.attended(app, request, alarm, leases::lease),
            Steady::Ack => self.attended(app, request, alarm, leases::ack),
            Steady::AckMany => self.attended(app, request, alarm, leases::ack_many),
        }
    }

    fn attended<F>(
        self,
        app: &App,
        request: Request,
        alarm: Option<Alarm>,
        handler: fn(State<App>, Request) -> F,
    ) -> Boxed
    where
        F: Future<Output = Result<Response, Problem>> + Send + 'static,
    {
        let state = State(app.clone());
        let handle = move |request| handler(state, request).map(IntoResponse::into_response);
        front::attend(app.clone(), self.route(), request, alarm, handle).map(Ok).boxed()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;
    use crate::http::openapi;

    #[test]
    fn steady_work_is_told_from_all_else() {
        let token = Some(Steady::Ack);
        let rows = [
            ("POST", "/v1/jobs", Some(Steady::Submit)),
            ("POST", "/v1/jobs?zone=UTC", Some(Steady::Submit)),
            ("POST", "/v1/leases", Some(Steady::Lease)),
            ("POST", "/v1/leases/ack", Some(Steady::AckMany)),
            ("POST", "/v1/leases/0.1.42/ack", token),
            ("POST", "/v1/leases/ack/ack", token),
            ("GET", "/v1/jobs", None),
            ("GET", "/v1/leases", None),
            ("PUT", "/v1/leases/0.1.42/ack", None),
            ("POST", "/v1/jobs/", None),
            ("POST", "/v1/jobs/bulk", None),
            ("POST", "/v1/leases/", None),
            ("POST", "/v1/leases//ack", None),
            ("POST", "/v1/leases/0.1.42/", None),
            ("POST", "/v1/leases/0.1.42/nack", None),
            ("POST", "/v1/leases/0.1/42/ack", None),
            ("POST", "/v1/leases/0.1.42/ack/", None),
        ];
        let document = serde_json::to_value(openapi::document()).unwrap();
        for (method, uri, expected) in rows {
            let request = Request::builder().method(method).uri(uri).body(Body::empty()).unwrap();
            let steady = Steady::of(&request);
            assert_eq!(steady, expected, "{method} {uri}");
            if let Some(steady) = steady {
                assert!(document["paths"][steady.route()]["post"].is_object(), "{steady:?}");
            }
        }
    }
}
