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
use crate::machine::{ROUNDS, in_turns, median};
use crate::report::{Report, Row};
use crate::server::Server;

/// Where jobs are submitted.
pub(crate) const PATH: &str = "/v1/jobs";

/// A job an hour ahead, for a pull worker.
pub(crate) fn job() -> String {
    let payload = String::from_utf8_lossy(PAYLOAD);
    format!("{{\"in\":\"1h\",\"payload_text\":\"{payload}\"}}")
}

/// So many of them in one request.
pub(crate) fn batch(size: usize) -> String {
    format!("{{\"jobs\":[{}]}}", vec![job(); size].join(","))
}

pub(crate) fn singly(report: &mut Report, scale: Scale) -> Result<()> {
    let runtime = one_thread()?;
    let span = scale.span();
    let dir = tempfile::tempdir_in(".")?;
    let server = Server::start(dir.path())?;
    let echo = Echo::start()?;
    let mut fifty = 0.0;
    for clients in [1, 10, 50] {
        fifty = one_number(report, &runtime, &server, &echo, clients, span)?;
    }
    drop(echo);
    factor(report, &runtime, &server, fifty, span)?;
    drop(server);
    with_full_log(report, &runtime, span)?;
    peer(report, &runtime, span)
}

/// So many clients, against the bare server library with as many.
fn one_number(
    report: &Report,
    runtime: &Runtime,
    server: &Server,
    echo: &Echo,
    clients: usize,
    span: Duration,
) -> Result<f64> {
    let bare = post(echo.address, PATH, &job());
    let (mut per_sync, mut cpu_us, mut latency) = (Vec::new(), Vec::new(), Vec::new());
    let ours = || {
        let mut rate = 0.0;
        let cost = server.cost_of(|| {
            let load = submit(runtime, server, clients, span / ROUNDS)?;
            rate = load.rate;
            latency.push(load.latency.p50);
            Ok(load.count)
        })?;
        per_sync.push(cost.jobs_per_commit);
        cpu_us.push(cost.cpu_us);
        Ok(rate)
    };
    let theirs =
        || Ok(runtime.block_on(hammer(echo.address, clients, span / ROUNDS, &bare, 201))?.rate);
    let (value, limit) = in_turns(ours, theirs)?;
    let what = format!("{clients} clients");
    let against = Some(("bare HTTP echo", limit));
    let goal = if clients == 50 { ">= 30 k/s, >= 0.6 x" } else { "" };
    report.row(&Row { what: &what, value, unit: "jobs/s", against, goal });
    report.figure("  half of the answers within", median(latency), "ms", "");
    report.figure("  jobs per sync", median(per_sync), "jobs", "");
    report.figure("  processor time of the server", median(cpu_us), "us/job", "");
    Ok(value)
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
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let load = runtime.block_on(hammer(server.address, 1, span / ROUNDS, &request, 207))?;
        rates.push(load.rate * 50.0);
    }
    let against = Some(("50 jobs in one request and sync", median(rates)));
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
        let request = post(server.address, PATH, &body);
        let mut cpu_us = Vec::new();
        let ours = || {
            let mut rate = 0.0;
            let cost = server.cost_of(|| {
                let load = hammer(server.address, clients, span / ROUNDS, &request, 207);
                let load = runtime.block_on(load)?;
                rate = load.rate * size as f64;
                Ok(load.count * size as f64)
            })?;
            cpu_us.push(cost.cpu_us);
            Ok(rate)
        };
        let theirs = || {
            let load = hammer(echo.address, clients, span / ROUNDS, &bare, 201);
            Ok(runtime.block_on(load)?.rate * size as f64)
        };
        let (value, limit) = in_turns(ours, theirs)?;
        let what = format!("{clients} clients, {size} jobs a request");
        let against = Some(("bare HTTP echo of the same bytes", limit));
        let goal = if size == 100 && clients == 4 { ">= 300 k jobs/s" } else { "" };
        report.row(&Row { what: &what, value, unit: "jobs/s", against, goal });
        report.figure("  processor time of the server", median(cpu_us), "us/job", "");
    }
    Ok(())
}
