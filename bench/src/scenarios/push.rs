//! Pushing to a local sink, against what the same client library sends with nothing in front of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use futures::future::join_all;
use hence_core::effect::Delivery;
use hence_core::id::{Epoch, JobId, JobName, JobNumber, QueueName, ShardId, Token, WorkerName};
use hence_core::job::{HttpTarget, Job, JobSpec, Lease, Payload, Target as JobTarget};
use hence_core::time::Timestamp;
use hence_delivery::http::HttpSender;
use hence_delivery::{Report as Outcome, Target};
use serde_json::json;

use super::pull::preload;
use super::threads;
use crate::Scale;
use crate::jobs::{PAYLOAD, refused};
use crate::report::{Report, Row};
use crate::server::Server;
use crate::sink::Sink;

const IN_FLIGHT: usize = 256;

pub(crate) fn run(report: &mut Report, scale: Scale) -> Result<()> {
    let runtime = threads()?;
    let count = scale.of(200_000);
    let sink = runtime.block_on(Sink::start(PAYLOAD.len()))?;
    let url = format!("http://{}/push", sink.address);
    let bare = runtime.block_on(bare_rate(&url, count))?;
    let dir = tempfile::tempdir_in(".")?;
    let server = Server::start(dir.path())?;
    server.call("PATCH", "/v1/queues/default", Some(&json!({"paused_out": true})))?;
    let payload = String::from_utf8_lossy(PAYLOAD);
    preload(&server, count, &|_| json!({"url": url, "payload_text": payload}))?;
    let before = warm_up(count);
    server.call("PATCH", "/v1/queues/default", Some(&json!({"paused_out": false})))?;
    let started = Instant::now();
    let reached =
        async { tokio::time::timeout(Duration::from_mins(2), sink.reach(before + count)).await };
    let (_, cpu_us) = server.cpu_us_each(|| {
        ensure!(runtime.block_on(reached).is_ok(), "not all were pushed within two minutes");
        Ok(count as f64)
    })?;
    let value = count as f64 / started.elapsed().as_secs_f64();
    let what = format!("{count} jobs, {IN_FLIGHT} in flight");
    let against = Some(("the bare client", bare));
    report.row(&Row { what: &what, value, unit: "jobs/s", against, goal: ">= 0.7 x" });
    report.figure("  processor time of the server", cpu_us, "us/job", "");
    Ok(())
}

/// What the bare client has sent in all.
fn warm_up(count: usize) -> usize {
    count + IN_FLIGHT * 4
}

/// Deliveries a second of the sender alone.
async fn bare_rate(url: &str, count: usize) -> Result<f64> {
    let sender = HttpSender::new();
    let job = Arc::new(job(url)?);
    // Connections are opened and code is warm before the clock starts.
    send_all(&sender, &job, IN_FLIGHT * 4).await?;
    let started = Instant::now();
    send_all(&sender, &job, count).await?;
    Ok(count as f64 / started.elapsed().as_secs_f64())
}

async fn send_all(sender: &HttpSender, job: &Arc<Job>, count: usize) -> Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let holder = WorkerName::new("bench").map_err(refused)?;
    let tasks = (0..IN_FLIGHT).map(|_| {
        let (sender, job, next) = (sender.clone(), Arc::clone(job), Arc::clone(&next));
        let holder = holder.clone();
        tokio::spawn(async move {
            while next.fetch_add(1, Ordering::Relaxed) < count {
                let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
                let outcome = sender.deliver(delivery(&job, &holder), deadline).await;
                if !matches!(outcome, Outcome::Succeeded { .. }) {
                    bail!("not delivered: {outcome:?}");
                }
            }
            Ok(())
        })
    });
    for ended in join_all(tasks).await {
        ended??;
    }
    Ok(())
}

fn delivery(job: &Arc<Job>, holder: &WorkerName) -> Delivery {
    let lease = Lease {
        token: Token { shard: ShardId(0), epoch: Epoch(1), counter: 1 },
        attempt: 1,
        holder: holder.clone(),
        granted_at: job.scheduled_for,
        until: Timestamp::MAX,
    };
    Delivery { job: Arc::clone(job), lease, due_at: job.scheduled_for }
}

fn job(url: &str) -> Result<Job> {
    let spec = JobSpec::new(JobTarget::Http(Arc::new(HttpTarget::post(url))));
    let id = JobId::new("01K5ZZZZZZZZZZZZZZZZZZZZZZ").map_err(refused)?;
    Ok(Job {
        number: JobNumber(1),
        name: JobName { queue: QueueName::default_queue(), key: None, id },
        submitted_at: Timestamp::EPOCH,
        scheduled_for: Timestamp::from_millis(1_789_000_000_123),
        payload: Payload { bytes: bytes::Bytes::from_static(PAYLOAD), content_type: None },
        target: spec.target,
        retry: spec.retry,
        timeout: spec.timeout,
        expires_at: None,
        retention: spec.retention,
        keep_result: false,
        key_on_failure: spec.key_on_failure,
        on_unknown: spec.on_unknown,
        occurrence: None,
        fingerprint: None,
    })
}
