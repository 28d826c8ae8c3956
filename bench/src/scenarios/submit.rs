//! Submitting: singly from 1, 10 and 50 clients that keep their connections, and in batches.

use std::time::Duration;

use anyhow::Result;
use tokio::runtime::Runtime;

use super::one_thread;
use crate::Scale;
use crate::beanstalk::Beanstalk;
use crate::echo::Echo;
use crate::http_load::{Load, hammer, post};
use crate::jobs::PAYLOAD;
use crate::report::{Report, Row};
use crate::server::Server;

const PATH: &str = "/v1/jobs";

/// A job an hour ahead, for a pull worker.
fn job() -> String {
    let payload = String::from_utf8_lossy(PAYLOAD);
    format!("{{\"in\":\"1h\",\"payload_text\":\"{payload}\"}}")
}

fn batch(size: usize) -> String {
    format!("{{\"jobs\":[{}]}}", vec![job(); size].join(","))
}

pub(crate) fn singly(report: &mut Report, scale: Scale) -> Result<()> {
    let runtime = one_thread()?;
    let span = scale.span();
    let dir = tempfile::tempdir_in(".")?;
    let server = Server::start(dir.path())?;
    let echo = Echo::start()?;
    let mut last = None;
    for clients in [1, 10, 50] {
        let bare = post(echo.address, PATH, &job());
        let limit = runtime.block_on(hammer(echo.address, clients, span, &bare, 201))?;
        let commits = server.metric("hence_commit_seconds_count")?;
        let load = submit(&runtime, &server, clients, span)?;
        let commits = server.metric("hence_commit_seconds_count")? - commits;
        let what = format!("{clients} clients");
        let against = Some(("bare HTTP echo", limit.rate));
        let goal = if clients == 50 { ">= 30 k/s, >= 0.6 x" } else { "" };
        report.row(&Row { what: &what, value: load.rate, unit: "jobs/s", against, goal });
        report.figure("  p50 / p99 of an answer: p50", load.latency.p50, "ms", "");
        report.figure("  p50 / p99 of an answer: p99", load.latency.p99, "ms", "");
        let per_commit = load.rate * span.as_secs_f64() / commits.max(1.0);
        report.figure("  jobs per sync", per_commit, "jobs", "");
        last = Some(load);
    }
    drop(echo);
    factor(report, &runtime, &server, last.map_or(0.0, |load| load.rate), span)?;
    drop(server);
    with_full_log(report, &runtime, span)?;
    peer(report, &runtime, span)
}

fn submit(runtime: &Runtime, server: &Server, clients: usize, span: Duration) -> Result<Load> {
    let request = post(server.address, PATH, &job());
    runtime.block_on(hammer(server.address, clients, span, &request, 201))
}

/// Fifty clients with one job each against one client with fifty jobs: what group commit recovers
/// of a batch that somebody made by hand.
fn factor(
    report: &Report,
    runtime: &Runtime,
    server: &Server,
    singly: f64,
    span: Duration,
) -> Result<()> {
    let request = post(server.address, PATH, &batch(50));
    let batches = runtime.block_on(hammer(server.address, 1, span, &request, 207))?;
    let against = Some(("50 jobs in one request and sync", batches.rate * 50.0));
    let what = "group commit, 50 clients";
    report.row(&Row { what, value: singly, unit: "jobs/s", against, goal: ">= 0.33 x" });
    Ok(())
}

fn with_full_log(report: &Report, runtime: &Runtime, span: Duration) -> Result<()> {
    let dir = tempfile::tempdir_in(".")?;
    let server = Server::start_with(dir.path(), &[("HENCE_LOG", "info")])?;
    let load = submit(runtime, &server, 50, span)?;
    report.figure("50 clients, every step of a job logged", load.rate, "jobs/s", "");
    Ok(())
}

fn peer(report: &Report, runtime: &Runtime, span: Duration) -> Result<()> {
    let dir = tempfile::tempdir_in(".")?;
    match Beanstalk::start(dir.path()) {
        Ok(beanstalk) => {
            for clients in [1, 10, 50] {
                let rate = runtime.block_on(beanstalk.put_rate(clients, span))?;
                let what = format!("peer: beanstalkd durable, put, {clients} clients");
                report.figure(&what, rate, "jobs/s", "");
            }
        }
        Err(error) => report.skipped("peer: beanstalkd durable, put", &format!("{error:#}")),
    }
    Ok(())
}

pub(crate) fn in_batches(report: &mut Report, scale: Scale) -> Result<()> {
    let runtime = one_thread()?;
    let span = scale.span();
    let dir = tempfile::tempdir_in(".")?;
    let server = Server::start(dir.path())?;
    let echo = Echo::start()?;
    for (clients, size) in [(1, 100), (4, 100), (16, 100), (4, 1_000)] {
        let body = batch(size);
        let bare = post(echo.address, PATH, &body);
        let limit = runtime.block_on(hammer(echo.address, clients, span, &bare, 201))?;
        let request = post(server.address, PATH, &body);
        let load = runtime.block_on(hammer(server.address, clients, span, &request, 207))?;
        let what = format!("{clients} clients, {size} jobs a request");
        let against = Some(("bare HTTP echo of the same bytes", limit.rate * size as f64));
        let goal = if size == 100 && clients == 4 { ">= 300 k jobs/s" } else { "" };
        let value = load.rate * size as f64;
        report.row(&Row { what: &what, value, unit: "jobs/s", against, goal });
    }
    Ok(())
}
