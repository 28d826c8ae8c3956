//! What every handler can reach, and how answers are made.

use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hence::Client;
use hence_core::time::Timestamp;
use hence_core::when::{Reading, Zone};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::drain::Drain;
use crate::guard::Guard;
use crate::limits;
use crate::metrics::Metrics;

/// The state shared by all requests.
pub(crate) type App = Arc<AppState>;

/// See [`App`].
pub(crate) struct AppState {
    /// The way to the library.
    pub(crate) client: Client,
    /// What is measured.
    pub(crate) metrics: Arc<Metrics>,
    /// Who may speak.
    pub(crate) guard: Guard,
    /// Whether the server is going away.
    pub(crate) drain: Drain,
    /// The bounds that can be configured.
    pub(crate) bounds: Bounds,
    /// The zone of wall times when a request names none.
    pub(crate) zone: Zone,
    /// When the server started.
    pub(crate) started_at: Timestamp,
    /// The OpenAPI document.
    pub(crate) openapi: Bytes,
    /// Held while a queue's settings are read, changed and written: two changes do not undo
    /// each other.
    pub(crate) queue_edits: tokio::sync::Mutex<()>,
}

impl AppState {
    /// What the times of a request that comes now are read by.
    pub(crate) fn reading(&self) -> Reading<'_> {
        Reading::new(self.client.now(), &self.zone)
    }
}

/// The bounds that can be configured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The largest body of a batch.
    pub(crate) body_bytes_max: usize,
    /// The time for a request that does not wait for anything.
    pub(crate) request_timeout: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            body_bytes_max: limits::BATCH_BODY_BYTES_MAX,
            request_timeout: limits::REQUEST_TIMEOUT_DEFAULT,
        }
    }
}

/// An answer in JSON.
pub(crate) fn json(status: StatusCode, answer: &impl Serialize) -> Response {
    // Large enough for an answer about one job: most answers are.
    json_of(status, answer, 256)
}

/// An answer in JSON, of about so many bytes.
pub(crate) fn json_of(status: StatusCode, answer: &impl Serialize, bytes_about: usize) -> Response {
    let mut body = Vec::with_capacity(bytes_about);
    if let Err(error) = serde_json::to_writer(&mut body, answer) {
        tracing::error!(%error, "an answer could not be written");
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    bytes(status, HeaderValue::from_static("application/json"), Bytes::from(body))
}

/// An answer of these bytes.
pub(crate) fn bytes(status: StatusCode, media: HeaderValue, body: Bytes) -> Response {
    let mut response = Response::new(axum::body::Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}
