//! Pushing to a local sink, against what the same client library sends with nothing behind it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use super::pull::preload;
use super::threads;
use crate::Scale;
use crate::bare_client::{self, IN_FLIGHT};
use crate::jobs::PAYLOAD;
use crate::machine::{ROUNDS, in_turns, median};
use crate::report::{Report, Row};
use crate::server::Server;
use crate::sink::Sink;

pub(crate) fn run(report: &mut Report, scale: Scale) -> Result<()> {
    let runtime = threads()?;
    let count = scale.of(300_000) / ROUNDS as usize;
    let sink = runtime.block_on(Sink::start(PAYLOAD.len()))?;
    let url = format!("http://{}/push", sink.address);
    let dir = tempfile::tempdir_in(".")?;
    let server = Server::start(dir.path())?;
    let (mut cpu_us, mut per_commit) = (Vec::new(), Vec::new());
    let ours = || {
        pause(&server, true)?;
        let payload = String::from_utf8_lossy(PAYLOAD);
        preload(&server, count, &|_| json!({"url": url, "payload_text": payload}))?;
        let before = sink.received();
        let mut rate = 0.0;
        let cost = server.cost_of(|| {
            let started = Instant::now();
            pause(&server, false)?;
            let all = async {
                tokio::time::timeout(Duration::from_mins(1), sink.reach(before + count)).await
            };
            ensure!(runtime.block_on(all).is_ok(), "not all were pushed within a minute");
            rate = count as f64 / started.elapsed().as_secs_f64();
            Ok(count as f64)
        })?;
        cpu_us.push(cost.cpu_us);
        per_commit.push(cost.jobs_per_commit);
        Ok(rate)
    };
    let (value, limit) = in_turns(ours, || bare_client::rate(sink.address, count))?;
    let what = format!("{IN_FLIGHT} in flight");
    let against = Some(("the bare client", limit));
    report.row(&Row { what: &what, value, unit: "jobs/s", against, goal: ">= 0.7 x" });
    report.figure("  jobs per commit", median(per_commit), "jobs", "");
    report.figure("  processor time of the server", median(cpu_us), "us/job", "");
    Ok(())
}

/// While jobs are submitted, none leaves.
fn pause(server: &Server, paused: bool) -> Result<()> {
    server.call("PATCH", "/v1/queues/default", Some(&json!({"paused_out": paused})))?;
    Ok(())
}
