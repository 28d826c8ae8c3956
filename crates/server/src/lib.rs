//! The HTTP front end: configuration, logs, metrics, and the API under `/v1` over the library.
//!
//! Read [`serve`] for the life of the process, `http/mod.rs` for the list of routes, and
//! `http/types` for the wire. Nothing here decides about jobs: the core does, through the
//! library's `Client`.

pub mod config;
mod connection;
mod drain;
#[cfg(test)]
mod golden;
mod guard;
mod http;
pub mod limits;
pub mod metrics;
mod nearest;
pub mod serve;
pub mod telemetry;

pub use config::Config;
pub use serve::{ServeError, Server};

/// The OpenAPI document of the API, as kept in `docs/reference/openapi.json`.
pub fn openapi_json() -> String {
    http::openapi::text()
}
