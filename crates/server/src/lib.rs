//! The HTTP front end: configuration, logs, metrics, and the API under `/v1` over the library.
//!
//! Read [`serve`] for the life of the process, `http/mod.rs` for the list of routes, and
//! `http/types` for the wire. Nothing here decides about jobs: the core does, through the
//! library's `Client`.

mod alarm;
pub mod config;
mod connection;
mod drain;
mod exposition;
#[cfg(test)]
mod golden;
mod guard;
mod http;
pub mod limits;
pub mod metrics;
mod nearest;
pub mod serve;
mod stall;
pub mod telemetry;

use hence_core::time::Timestamp;
use hence_core::when::{Drafted, Understood};

pub use config::Config;
#[cfg(feature = "fuzzing")]
pub use http::fuzzing;
pub use serve::{ServeError, Server, must_be_guarded};

/// The next `count` ticks of a plan, in the form of `POST /v1/schedules/preview`.
pub fn preview_json(drafted: &Drafted, from: Timestamp, count: usize) -> serde_json::Value {
    serde_json::json!(http::types::plan::PreviewOut::new(drafted, from, count))
}

/// What was understood by a moment, in the form in which answers about jobs say it back.
pub fn understood_json(moment: &Understood) -> serde_json::Value {
    serde_json::json!({"understood": http::types::due::UnderstoodOut::from(moment)})
}

/// The OpenAPI document of the API, as kept in `docs/reference/openapi.json`.
pub fn openapi_json() -> String {
    http::openapi::text()
}
