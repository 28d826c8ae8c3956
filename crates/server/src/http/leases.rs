//! Pulling work: lease, extend, ack, nack, and who holds what.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use hence::client::{Exchange, LeaseRequest};
use hence_core::effect::Delivery;
use hence_core::error::Rejection;
use hence_core::id::Token;
use hence_core::job::Payload;
use hence_core::limits::LEASE_BATCH_MAX;
use hence_fail::{Point, reach};
use http::{StatusCode, Uri};
use serde::Serialize;
use utoipa::ToSchema;

use super::app::{self, App};
use super::body;
use super::errors::Problem;
use super::params::{self, Params};
use super::types::Stamp;
use super::types::lease::{
    AckIn, AckItem, AckedOut, AcksIn, ExtendIn, ExtendedOut, HeldLeasesOut, HeldOut, LeaseIn,
    LeasedJobsOut, LeasedOut, NackIn, TokenAckIn,
};
use super::types::object::Object;
use super::types::rules;
use crate::limits;

/// What a job takes in an answer, about and beside its payload.
const JOB_BYTES: usize = 384;

/// Takes ready jobs, waiting for some when there are none.
///
/// Queues are looked at from left to right. An empty answer means that there were none in time.
/// Each job is the worker's until `until`: ack, nack or extend it before that. A worker that has
/// finished jobs says so in `acks` when it asks for the next ones: one request instead of two.
#[utoipa::path(
    post, path = "/v1/leases", tag = "leases", operation_id = "lease",
    request_body(content = LeaseIn<'_>, example = json!({
        "worker": "mailer-1", "queues": ["urgent", "mail"],
        "max": 10, "lease": "1m", "wait": "30s",
    })),
    responses((status = 200, description = "The jobs", body = LeasedJobsOut<'_>))
)]
pub(crate) async fn lease(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    params::none(request.uri())?;
    let bytes = body::read(request, app.bounds.body_bytes_max).await?;
    let (acks, lease) = body::parse::<LeaseIn<'_>>(body::text(&bytes)?)?.split()?;
    if !acks.is_empty() {
        return ack_and_lease(&app, Acks::read(acks)?, lease).await;
    }
    if app.drain.has_begun() {
        return Err(Rejection::Draining.into());
    }
    reach(Point::HttpLease);
    // Whatever is on its way when the wait is given up goes back: the library sees to it.
    let deliveries = tokio::select! {
        biased;
        deliveries = app.client.lease(lease) => deliveries?,
        () = app.drain.begun() => Vec::new(),
    };
    reach(Point::HttpLeased);
    Ok(leased(&deliveries, None))
}

/// While the server drains, what is done is still recorded, and nothing is handed out any more.
async fn ack_and_lease(app: &App, acks: Acks, lease: LeaseRequest) -> Result<Response, Problem> {
    let Acks { tokens, good } = acks;
    reach(Point::HttpAck);
    let Exchange { acks, jobs } = if app.drain.has_begun() {
        lease.check()?;
        Exchange { acks: app.client.ack_many(good).await?, jobs: Vec::new() }
    } else {
        app.client.ack_and_lease(good, lease).await?
    };
    reach(Point::HttpAcked);
    let items = ack_items(tokens, acks);
    let given = items.len();
    let refused: Vec<AckItem> = items.into_iter().filter(|item| !item.is_done()).collect();
    let done = given - refused.len();
    Ok(leased(&jobs, Some(AckedOut { done, refused })))
}

fn leased(jobs: &[Delivery], acks: Option<AckedOut>) -> Response {
    let answer = LeasedJobsOut { jobs: jobs.iter().map(LeasedOut::from).collect(), acks };
    let bytes = jobs.iter().map(|delivery| JOB_BYTES + delivery.job.payload.bytes.len());
    app::json_of(StatusCode::OK, &answer, JOB_BYTES + bytes.sum::<usize>())
}

/// Shows who holds what, since when, until when.
#[utoipa::path(
    get, path = "/v1/leases", tag = "leases", operation_id = "leases",
    params(("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
        description = "Rows at most, 1 to 1000; 100 when not given")),
    responses((status = 200, description = "The jobs under way", body = HeldLeasesOut<'_>))
)]
pub(crate) async fn held(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let limit = Params::read(request.uri(), &["limit"])?.limit()?;
    let leases = app.client.leases(limit).await?;
    let answer = HeldLeasesOut { leases: leases.iter().map(HeldOut::from).collect() };
    Ok(app::json(StatusCode::OK, &answer))
}

/// The job is done.
///
/// Repeating it is answered as the first time.
#[utoipa::path(
    post, path = "/v1/leases/{token}/ack", tag = "leases", operation_id = "ack",
    params(("token" = rules::LeaseToken, Path, description = "The token of the lease")),
    request_body(content = Option<AckIn<'_>>, example = json!({"result": {"sent": true}})),
    responses((status = 204, description = "The success is recorded"))
)]
pub(crate) async fn ack(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let token = token_of(request.uri())?;
    let bytes = body::read(request, limits::BODY_BYTES_MAX).await?;
    let ack = match body::text(&bytes)? {
        "" => AckIn::default(),
        text => body::parse(text)?,
    };
    let result = ack.into_result()?;
    reach(Point::HttpAck);
    app.client.ack(token, result).await?;
    reach(Point::HttpAcked);
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The job is not done.
#[utoipa::path(
    post, path = "/v1/leases/{token}/nack", tag = "leases", operation_id = "nack",
    params(("token" = rules::LeaseToken, Path, description = "The token of the lease")),
    request_body(content = Option<NackIn>, example = json!({
        "how": "retry", "delay": "1m", "reason": "mail server is down",
    })),
    responses((status = 204, description = "It is recorded"))
)]
pub(crate) async fn nack(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let token = token_of(request.uri())?;
    let nack = body::json_or_default::<NackIn>(request).await?;
    app.client.nack(token, nack.how()?, nack.reason.as_deref()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Holds a lease longer: until so long from now, and never shorter than it was.
#[utoipa::path(
    post, path = "/v1/leases/{token}/extend", tag = "leases", operation_id = "extend",
    params(("token" = rules::LeaseToken, Path, description = "The token of the lease")),
    request_body(content = ExtendIn, example = json!({"lease": "1m"})),
    responses((status = 200, description = "When it ends now", body = ExtendedOut))
)]
pub(crate) async fn extend(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let token = token_of(request.uri())?;
    let span = body::json::<ExtendIn>(request).await?.into_span()?;
    let until = app.client.extend(token, span).await?;
    let answer = ExtendedOut { until: Stamp(until), until_ms: until.as_millis() };
    Ok(app::json(StatusCode::OK, &answer))
}

/// The answers to many acks, in their order.
#[derive(Serialize, ToSchema)]
#[schema(as = AckAnswers)]
pub(crate) struct AcksOut {
    /// How many were recorded.
    done: usize,
    /// How many were refused.
    refused: usize,
    /// One answer for each.
    acks: Vec<AckItem>,
}

/// Many jobs are done, each answered for itself.
#[utoipa::path(
    post, path = "/v1/leases/ack", tag = "leases", operation_id = "ack_many",
    request_body(content = AcksIn<'_>, example = json!({
        "acks": [{"token": "0.1.42"}, {"token": "0.1.43", "result": 7}],
    })),
    responses((status = 207, description = "One answer for each", body = AcksOut))
)]
pub(crate) async fn ack_many(
    State(app): State<App>,
    request: Request,
) -> Result<Response, Problem> {
    params::none(request.uri())?;
    let bytes = body::read(request, app.bounds.body_bytes_max).await?;
    let AcksIn { acks } = body::parse(body::text(&bytes)?)?;
    let Acks { tokens, good } = Acks::read(acks)?;
    let acks = ack_items(tokens, app.client.ack_many(good).await?);
    let done = acks.iter().filter(|item| item.is_done()).count();
    let answer = AcksOut { done, refused: acks.len() - done, acks };
    Ok(app::json(StatusCode::MULTI_STATUS, &answer))
}

/// Acks as they came.
struct Acks {
    /// All tokens in their order, and what is wrong with those that are no good.
    tokens: Vec<(String, Option<Rejection>)>,
    good: Vec<(Token, Option<Payload>)>,
}

impl Acks {
    fn read(acks: Vec<Object<TokenAckIn<'_>>>) -> Result<Self, Rejection> {
        let max = LEASE_BATCH_MAX as usize;
        if acks.is_empty() || acks.len() > max {
            return Err(Rejection::invalid("acks", format!("must hold between 1 and {max}")));
        }
        let (tokens, good) = (Vec::with_capacity(acks.len()), Vec::with_capacity(acks.len()));
        let mut read = Acks { tokens, good };
        for Object(ack) in acks {
            let (text, ack) = ack.split();
            let parsed = text.parse::<Token>().and_then(|token| Ok((token, ack.into_result()?)));
            let refusal = parsed.map(|ack| read.good.push(ack)).err();
            read.tokens.push((text, refusal));
        }
        Ok(read)
    }
}

/// One answer for each: its own refusal, or the next of those given to the good ones.
fn ack_items(
    tokens: Vec<(String, Option<Rejection>)>,
    answers: Vec<Result<(), hence::Error>>,
) -> Vec<AckItem> {
    let mut answers = answers.into_iter();
    let item = |(token, refusal): (String, Option<Rejection>)| match refusal {
        Some(rejection) => AckItem::new(token, Err(rejection.into())),
        None => AckItem::new(token, answers.next().unwrap_or(Err(hence::Error::Stopped))),
    };
    tokens.into_iter().map(item).collect()
}

fn token_of(uri: &Uri) -> Result<Token, Problem> {
    params::none(uri)?;
    Ok(params::segment(uri, 3)?.parse::<Token>()?)
}
