//! Sends a job's payload to a URL and reads what comes back, within bounds. See [`crate::status`]
//! for what an answer means.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use futures::future::BoxFuture;
use hence_core::job::{Job, Payload};
use hence_core::time::Timestamp;
use http::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderName, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use tokio::time::Instant;

use crate::connect::{Connector, Dial, SystemDial};
use crate::failure::explain;
use crate::status::{self, HttpAnswer};
use crate::{Delivery, Report, Target, limits, request};

/// Sends jobs over HTTP/1.1, and HTTP/2 where TLS negotiates it. Connections are kept and reused;
/// a clone shares them.
#[derive(Clone)]
pub struct HttpSender {
    client: Client<Connector, Full<Bytes>>,
}

/// What of a sender can be replaced.
#[derive(Default)]
pub struct HttpSenderBuilder {
    dial: Option<Arc<dyn Dial>>,
    tls: Option<ClientConfig>,
    at_once: Option<u32>,
    idle_max: Option<usize>,
}

impl HttpSender {
    /// A sender that connects wherever a URL points, and trusts the system's root certificates.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A sender with a part of it replaced.
    pub fn builder() -> HttpSenderBuilder {
        HttpSenderBuilder::default()
    }

    async fn send(&self, delivery: Delivery) -> Report {
        let hence_core::job::Target::Http(target) = &delivery.job.target else {
            return hopeless("this job has no url to go to");
        };
        let request = match request::build(target, &delivery) {
            Ok(request) => request,
            Err(problem) => return hopeless(&problem.to_string()),
        };
        let response = match self.client.request(request).await {
            Ok(response) => response,
            Err(error) if error.is_connect() => {
                return failed(&format!("cannot connect: {}", explain(&error)));
            }
            Err(error) => return unanswered(&format!("no answer: {}", explain(&error))),
        };
        match read_answer(response, delivery.lease.granted_at).await {
            Ok(answer) => keep_result_if_asked(&delivery.job, status::report(answer)),
            Err((status, error)) => {
                let cause = explain(&error);
                unanswered(&format!("answered {} and broke off: {cause}", status.as_u16()))
            }
        }
    }
}

impl Default for HttpSender {
    fn default() -> Self {
        Self::new()
    }
}

impl Target for HttpSender {
    fn deliver(&self, delivery: Delivery, deadline: Instant) -> BoxFuture<'_, Report> {
        // The one deadline (D1). Dropping what it bounds closes the connection (D5).
        tokio::time::timeout_at(deadline, self.send(delivery))
            .map(|ended| ended.unwrap_or(Report::TimedOut))
            .boxed()
    }
}

impl HttpSenderBuilder {
    /// Opens connections by this, say to keep deliveries out of one's own network.
    #[must_use]
    pub fn dial(mut self, dial: Arc<dyn Dial>) -> Self {
        self.dial = Some(dial);
        self
    }

    /// Verifies receivers by this, say for a private authority or a client certificate. Which
    /// protocols are offered is set by the sender.
    #[must_use]
    pub fn tls(mut self, config: ClientConfig) -> Self {
        self.tls = Some(config);
        self
    }

    /// So many deliveries may be under way at once. As many idle connections are kept for one host,
    /// so that a steady load opens no new ones.
    #[must_use]
    pub fn at_once(mut self, deliveries: u32) -> Self {
        self.at_once = Some(deliveries);
        self
    }

    /// So many idle connections are kept, all hosts together;
    /// [`limits::IDLE_CONNECTIONS_MAX`] when it is not said.
    #[must_use]
    pub fn idle_max(mut self, connections: usize) -> Self {
        self.idle_max = Some(connections);
        self
    }

    /// The sender. Nothing is opened or read before the first delivery.
    pub fn build(self) -> HttpSender {
        let at_once = self.at_once.unwrap_or(hence_core::limits::PUSHES_DEFAULT) as usize;
        let kept_max = at_once + self.idle_max.unwrap_or(limits::IDLE_CONNECTIONS_MAX);
        let dial = self.dial.unwrap_or_else(|| Arc::new(SystemDial::new()));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(limits::IDLE_TIME_MAX)
            .pool_max_idle_per_host(at_once)
            .http1_max_buf_size(limits::HEAD_BYTES_MAX)
            // Of headers hyper takes `limits::HEADERS_MAX` unless told otherwise. A number that it
            // is told, if only this one, makes it fill and copy two arrays for every answer.
            .http2_max_header_list_size(limits::HEAD_BYTES_MAX as u32)
            .http2_initial_stream_window_size(limits::BODY_BYTES_MAX as u32)
            .http2_initial_connection_window_size(limits::H2_CONNECTION_WINDOW)
            .http2_keep_alive_interval(limits::H2_SILENCE_MAX)
            .http2_keep_alive_timeout(limits::H2_PONG_TIME_MAX)
            .build(Connector::new(dial, self.tls, kept_max));
        HttpSender { client }
    }
}

/// Reads an answer to its end or to its bound. The error says which status it had.
async fn read_answer(
    response: Response<Incoming>,
    started_at: Timestamp,
) -> Result<HttpAnswer, (StatusCode, hyper::Error)> {
    let (head, body) = response.into_parts();
    let body = read_body(body).await.map_err(|error| (head.status, error))?;
    let retry_after = text(&head.headers, &RETRY_AFTER)
        .and_then(|value| status::parse_retry_after(value, answer_time(&head.headers, started_at)));
    let content_type = text(&head.headers, &CONTENT_TYPE).map(Arc::from);
    Ok(HttpAnswer { status: head.status, retry_after, content_type, body })
}

/// What is beyond the bound is left in the socket: the body is dropped unread, and the client
/// closes a connection whose answer was not read to its end. No memory is reserved by the length
/// that an answer merely claims.
async fn read_body(mut body: Incoming) -> Result<Bytes, hyper::Error> {
    let mut kept = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        // Most answers come in one piece; that is kept as it is.
        if kept.is_empty() && body.is_end_stream() && data.len() <= limits::BODY_BYTES_MAX {
            return Ok(data);
        }
        let room = limits::BODY_BYTES_MAX - kept.len();
        kept.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            break;
        }
    }
    Ok(kept.freeze())
}

/// The instant by which the answer's dates are to be understood: its own `Date`, so that a
/// receiver's wrong clock does not change the wait it asks for. When it gives none, the start of
/// the attempt: no later than now, so the wait is never too short.
fn answer_time(headers: &HeaderMap, started_at: Timestamp) -> Timestamp {
    text(headers, &DATE).and_then(status::parse_http_date).unwrap_or(started_at)
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// A result that nobody asked for is dropped here, before it costs anything further on; a content
/// type that a payload may not have is dropped from one that is kept.
fn keep_result_if_asked(job: &Job, report: Report) -> Report {
    let Report::Succeeded { result: Some(result) } = report else { return report };
    if !job.keep_result {
        return Report::Succeeded { result: None };
    }
    let result = match result.check("result", limits::BODY_BYTES_MAX) {
        Ok(()) => result,
        Err(_) => Payload { bytes: result.bytes, content_type: None },
    };
    Report::Succeeded { result: Some(result) }
}

fn failed(reason: &str) -> Report {
    Report::Failed {
        reason: hence_core::job::cut_reason(reason),
        retry_after: None,
        permanent: false,
    }
}

/// It was sent, and what the receiver did with it is not known.
fn unanswered(reason: &str) -> Report {
    Report::Unanswered { reason: hence_core::job::cut_reason(reason) }
}

/// No later attempt can end otherwise.
fn hopeless(reason: &str) -> Report {
    Report::Failed {
        reason: hence_core::job::cut_reason(reason),
        retry_after: None,
        permanent: true,
    }
}
