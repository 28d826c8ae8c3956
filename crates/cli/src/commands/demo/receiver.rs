//! A tiny HTTP receiver: notes what arrives and when, and refuses the first attempt of some jobs.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::clock;
use crate::failure::Failure;
use crate::words;

/// One request that arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) job: String,
    pub(super) attempt: u32,
    pub(super) due_at: Option<i64>,
    pub(super) at: i64,
    pub(super) accepted: bool,
}

/// Listens until it is dropped.
pub(super) struct Receiver {
    address: std::net::SocketAddr,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    accepting: JoinHandle<()>,
}

/// What the connections share.
struct Desk {
    /// Jobs whose next request is refused.
    refused: Mutex<HashSet<String>>,
    arrivals: mpsc::UnboundedSender<Arrival>,
}

impl Receiver {
    pub(super) async fn start(
        refuse_once: impl Iterator<Item = &'static str>,
    ) -> Result<Self, Failure> {
        let problem = |error| Failure::io("opening a port for the demo's receiver", &error);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(problem)?;
        let address = listener.local_addr().map_err(problem)?;
        // Unbounded, but fed only by the few jobs of the demo.
        let (sender, arrivals) = mpsc::unbounded_channel();
        let refused = refuse_once.map(str::to_owned).collect();
        let desk = Arc::new(Desk { refused: Mutex::new(refused), arrivals: sender });
        let accepting = tokio::spawn(accept(listener, desk));
        Ok(Receiver { address, arrivals, accepting })
    }

    /// Where this job is to be sent.
    pub(super) fn url(&self, job: &str) -> String {
        format!("http://{}/{job}", self.address)
    }

    pub(super) async fn next(&mut self) -> Option<Arrival> {
        self.arrivals.recv().await
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, desk: Arc<Desk>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, Arc::clone(&desk)));
    }
}

async fn serve(stream: TcpStream, desk: Arc<Desk>) {
    let answer = service_fn(move |request| {
        let response = desk.receive(&request);
        async move { Ok::<_, Infallible>(response) }
    });
    // The server that sends is killed in the demo: broken connections are part of it.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
}

impl Desk {
    fn receive(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let at = clock::now_ms();
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        let job = request.uri().path().trim_start_matches('/').to_owned();
        let accepted = !self.refused.lock().unwrap_or_else(PoisonError::into_inner).remove(&job);
        let arrival = Arrival {
            job,
            attempt: header("hence-attempt").and_then(|text| text.parse().ok()).unwrap_or_default(),
            due_at: header("hence-due-at").and_then(instant),
            at,
            accepted,
        };
        // Nobody listens any more when the demo has ended.
        let _ = self.arrivals.send(arrival);
        let status = if accepted { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let mut response = Response::new(Full::new(Bytes::new()));
        *response.status_mut() = status;
        response
    }
}

/// RFC 3339, or milliseconds.
fn instant(text: &str) -> Option<i64> {
    words::parse_rfc3339(text).or_else(|| text.parse().ok())
}
