//! A receiver of deliveries that believes nobody: it stamps every request when it arrives and
//! when it was answered, and keeps all of them.
//!
//! What it answers is in the URL of the job, so that a job says itself what will happen to it:
//!
//! | query | answer |
//! |---|---|
//! | none | 200 |
//! | `fail=N` | 500 to the first N requests of the job, then 200 |
//! | `status=CODE` | always this |
//! | `slow=MS` | after so long |
//! | `hang=1` | never |
//! | `retry_after=S` | with this header, on failures |

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::clock;

/// A fencing token, in its order: `shard.epoch.counter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    /// The shard.
    pub shard: u64,
    /// Grows with every start of the server.
    pub epoch: u64,
    /// Grows with every delivery.
    pub counter: u64,
}

/// One delivery, as it arrived.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// When its head had been read, in microseconds since 1970.
    pub at_us: i64,
    /// When it was answered, or when the connection was lost; none while it is open.
    pub ended_us: Option<i64>,
    /// What was answered; none when nothing could be.
    pub status: Option<u16>,
    /// The job's id.
    pub job: String,
    /// Its key.
    pub key: Option<String>,
    /// Which attempt.
    pub attempt: u32,
    /// The token.
    pub token: Token,
    /// When the attempt was due, by its header, in microseconds since 1970.
    pub due_us: i64,
    /// The path of the request.
    pub path: String,
    /// The id that all attempts of a job share.
    pub delivery_id: String,
    /// The body.
    pub body: Bytes,
}

#[derive(Default)]
struct Seen {
    arrivals: Vec<Arrival>,
    /// Requests of each job so far.
    counts: HashMap<String, u32>,
}

/// A running receiver. Ends with its value.
pub struct Receiver {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Receiver {
    /// Starts one on a free port.
    pub fn start() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("receiver")
            .enable_all()
            .build()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        let seen = Arc::new(Mutex::new(Seen::default()));
        runtime.spawn(accept(listener, Arc::clone(&seen)));
        Ok(Receiver { address, seen, runtime: Some(runtime) })
    }

    /// A URL here.
    pub fn url(&self, path_and_query: &str) -> String {
        format!("http://{}{path_and_query}", self.address)
    }

    /// Everything that arrived, in order.
    pub fn arrivals(&self) -> Vec<Arrival> {
        lock(&self.seen).arrivals.clone()
    }

    /// What arrived for one job, in order.
    pub fn of(&self, job: &str) -> Vec<Arrival> {
        let seen = lock(&self.seen);
        seen.arrivals.iter().filter(|arrival| arrival.job == job).cloned().collect()
    }

    /// How many have arrived.
    pub fn count(&self) -> usize {
        lock(&self.seen).arrivals.len()
    }

    /// How many wait for their answer.
    pub fn open(&self) -> usize {
        lock(&self.seen).arrivals.iter().filter(|arrival| arrival.ended_us.is_none()).count()
    }

    /// Waits for so many arrivals of one job, and returns them.
    pub fn wait_for(&self, job: &str, count: usize, within: Duration) -> Result<Vec<Arrival>> {
        let found = clock::until(within, || {
            let found = self.of(job);
            (found.len() >= count).then_some(found)
        });
        found.with_context(|| {
            let found = self.of(job);
            format!("{job} arrived {} times within {within:?}, not {count}: {found:?}", found.len())
        })
    }

    /// Waits for so many arrivals in all.
    pub fn wait_count(&self, count: usize, within: Duration) -> Result<()> {
        let reached = clock::until(within, || (self.count() >= count).then_some(()));
        reached.with_context(|| format!("{} of {count} arrived within {within:?}", self.count()))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(listener: TcpListener, seen: Arc<Mutex<Seen>>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, Arc::clone(&seen)));
    }
}

async fn serve(stream: TcpStream, seen: Arc<Mutex<Seen>>) {
    // Without it answers wait for the peer's delayed acknowledgement.
    drop(stream.set_nodelay(true));
    let service = service_fn(move |request| answer(request, Arc::clone(&seen)));
    // A peer that was killed breaks the connection: that is what happens here all the time.
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

async fn answer(
    request: Request<Incoming>,
    seen: Arc<Mutex<Seen>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let at_us = clock::now_us();
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let arrival = arrival(at_us, &head.headers, &head.uri, body);
    let plan = Plan::of(&head.uri);
    let (index, nth) = enter(&seen, arrival);
    let mut open = Open { seen, index, status: None };
    if plan.hang {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(Duration::from_millis(plan.slow_ms)).await;
    let status = plan.status.unwrap_or(if nth <= plan.fail { 500 } else { 200 });
    open.status = Some(status);
    let mut response = Response::new(Full::new(Bytes::new()));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    if let (Some(seconds), 400..) = (plan.retry_after, status) {
        response.headers_mut().insert(hyper::header::RETRY_AFTER, seconds.into());
    }
    Ok(response)
}

fn arrival(at_us: i64, headers: &HeaderMap, uri: &Uri, body: Bytes) -> Arrival {
    let text = |name: &str| {
        headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    Arrival {
        at_us,
        ended_us: None,
        status: None,
        job: text("hence-job-id"),
        key: Some(text("hence-key")).filter(|key| !key.is_empty()),
        attempt: text("hence-attempt").parse().unwrap_or_default(),
        token: Token::parse(&text("hence-token")),
        due_us: clock::parse_us(&text("hence-due-at")).unwrap_or_default(),
        path: uri.path().to_owned(),
        delivery_id: text("hence-delivery-id"),
        body,
    }
}

/// Writes an arrival down; returns its index, and how many requests its job has now made.
fn enter(seen: &Mutex<Seen>, arrival: Arrival) -> (usize, u32) {
    let mut seen = lock(seen);
    let nth = seen.counts.entry(arrival.job.clone()).or_default();
    *nth += 1;
    let nth = *nth;
    seen.arrivals.push(arrival);
    (seen.arrivals.len() - 1, nth)
}

/// Writes the end of a request down, however it ends: hyper drops the service's future when the
/// connection is lost.
struct Open {
    seen: Arc<Mutex<Seen>>,
    index: usize,
    status: Option<u16>,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut seen = lock(&self.seen);
        let arrival = &mut seen.arrivals[self.index];
        arrival.ended_us = Some(clock::now_us());
        arrival.status = self.status;
    }
}

#[derive(Default)]
struct Plan {
    fail: u32,
    status: Option<u16>,
    slow_ms: u64,
    hang: bool,
    retry_after: Option<u64>,
}

impl Plan {
    fn of(uri: &Uri) -> Self {
        let mut plan = Plan::default();
        for (name, value) in
            uri.query().unwrap_or_default().split('&').filter_map(|p| p.split_once('='))
        {
            match name {
                "fail" => plan.fail = value.parse().unwrap_or_default(),
                "status" => plan.status = value.parse().ok(),
                "slow" => plan.slow_ms = value.parse().unwrap_or_default(),
                "hang" => plan.hang = true,
                "retry_after" => plan.retry_after = value.parse().ok(),
                _ => {}
            }
        }
        plan
    }
}

impl Token {
    /// From its text; all zeros when it is not one.
    pub fn parse(text: &str) -> Self {
        let mut parts = text.split('.').map(|part| part.parse().unwrap_or_default());
        let mut next = || parts.next().unwrap_or_default();
        Token { shard: next(), epoch: next(), counter: next() }
    }
}

impl Arrival {
    /// Whether the receiver said yes.
    pub fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
