//! What is measured.

mod database;
mod engine;
mod handler;
mod herd;
mod idle;
mod lateness;
mod many;
mod mysql;
mod postgres;
pub(crate) mod pull;
mod push;
mod submit;

use anyhow::Result;
use tokio::runtime::{Builder, Runtime};

use crate::Scale;
use crate::report::Report;

/// One row of the list.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) run: fn(&mut Report, Scale) -> Result<()>,
}

/// All of them.
pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "engine", what: "the embedded engine against a raw log", run: engine::run },
    Scenario { name: "submit-http", what: "jobs submitted singly", run: submit::singly },
    Scenario { name: "submit-batch", what: "jobs submitted in batches", run: submit::in_batches },
    Scenario { name: "pull", what: "jobs taken and finished by pull workers", run: pull::run },
    Scenario { name: "push", what: "jobs pushed to a local HTTP sink", run: push::run },
    Scenario { name: "handler", what: "jobs to a handler in the process", run: handler::run },
    Scenario { name: "herd", what: "50,000 jobs at one instant, and over 10 s", run: herd::run },
    Scenario { name: "lateness", what: "5,000 jobs/s while 1 M are pending", run: lateness::run },
    Scenario { name: "five-million", what: "5 M pending jobs: open and memory", run: many::run },
    Scenario {
        name: "postgres",
        what: "on PostgreSQL, beside its peers there",
        run: postgres::run,
    },
    Scenario { name: "mysql", what: "on MariaDB", run: mysql::run },
    Scenario { name: "idle", what: "a server with nothing to do", run: idle::run },
];

/// The load generator runs on one thread, so that the server has the other core.
fn one_thread() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// For what runs in this process.
fn threads() -> Result<Runtime> {
    Ok(Builder::new_multi_thread().enable_all().build()?)
}
