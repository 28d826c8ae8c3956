//! The bare client library: what Hence pushes with and nothing behind it, in a process of its own.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::future::join_all;
use hence_core::effect::Delivery;
use hence_core::id::{Epoch, JobNumber, ShardId, Token, WorkerName};
use hence_core::job::{HttpTarget, Job, Lease, Target as JobTarget};
use hence_core::time::Timestamp;
use hence_delivery::http::HttpSender;
use hence_delivery::{Report as Outcome, Target};

use crate::jobs::{self, refused};
use crate::report;

/// The hidden command that runs it.
pub(crate) const COMMAND: &str = "send-bare";
const WORK: &str = "HENCE_BENCH_SEND";

/// Deliveries under way at once, here and in a server as it comes.
pub(crate) const IN_FLIGHT: usize = 256;

/// Sent before the clock starts: connections are open and code is warm by then.
const WARM_UP: usize = IN_FLIGHT * 4;

/// Deliveries a second of the sender alone.
pub(crate) fn rate(sink: SocketAddr, count: usize) -> Result<f64> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(COMMAND).env(WORK, format!("{count} http://{sink}/push")).stderr(Stdio::inherit());
    let output = command.output()?;
    ensure!(output.status.success(), "the bare client failed");
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
}

/// Sends, and says at which rate.
#[tokio::main]
pub(crate) async fn send() -> Result<()> {
    let work = std::env::var(WORK)?;
    let (count, url) = work.split_once(' ').context("a number and a URL")?;
    let count: usize = count.parse()?;
    let sender = HttpSender::new();
    let target = JobTarget::Http(Arc::new(HttpTarget::post(url)));
    let due_at = Timestamp::from_millis(1_789_000_000_123);
    let job = jobs::job(JobNumber(1), "01K5ZZZZZZZZZZZZZZZZZZZZZZ", due_at, target)?;
    let job = Arc::new(job);
    send_all(&sender, &job, WARM_UP).await?;
    let started = Instant::now();
    send_all(&sender, &job, count).await?;
    report::say(&format!("{}", count as f64 / started.elapsed().as_secs_f64()));
    Ok(())
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
