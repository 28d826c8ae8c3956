//! The library in one process: submitted, made durable, handed to a handler, its success made
//! durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::FutureExt;
use futures::future::try_join_all;
use hence::{Client, Hence, NewJob};
use hence_core::input::Report as Outcome;
use hence_delivery::local::HandlerFn;
use hence_store::Store;

use super::threads;
use crate::Scale;
use crate::jobs::{self, PAYLOAD, refused};
use crate::machine::cpu_time;
use crate::report::Report;

const PRODUCERS: usize = 4;
const BATCH: usize = 1_000;

pub(crate) fn run(report: &mut Report, scale: Scale) -> Result<()> {
    let runtime = threads()?;
    for retention in ["kept for an hour", "forgotten when done"] {
        let dir = tempfile::tempdir_in(".")?;
        let keep = retention.starts_with("kept");
        let before = cpu_time(std::process::id())?;
        let count = scale.of(400_000);
        let rate = runtime.block_on(end_to_end(jobs::open(dir.path())?, count, keep))?;
        let spent = cpu_time(std::process::id())?.saturating_sub(before);
        let what = format!("submit, run, finish; {retention}");
        report.figure(&what, rate, "jobs/s", if keep { ">= 250 k/s" } else { "" });
        let each = spent.as_secs_f64() * 1e6 / count as f64;
        report.figure("  processor time of everything", each, "us/job", "");
    }
    Ok(())
}

/// A library on this store, with this handler under the name `work`.
pub(crate) async fn start(store: Arc<dyn Store>, handler: HandlerFn) -> Result<Hence> {
    let builder = Hence::builder(store).handler_fn("work", handler).map_err(refused)?;
    Ok(builder.start().await?)
}

/// Jobs a second, from the first submission until the last is recorded as done.
pub(crate) async fn end_to_end(store: Arc<dyn Store>, count: usize, keep: bool) -> Result<f64> {
    let done = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&done);
    let handler: HandlerFn = Arc::new(move |_, _| {
        counter.fetch_add(1, Ordering::Relaxed);
        async { Outcome::Succeeded { result: None } }.boxed()
    });
    let hence = start(store, handler).await?;
    let started = Instant::now();
    let producers = (0..PRODUCERS).map(|_| {
        let client = hence.client();
        async move { tokio::spawn(produce(client, count / PRODUCERS, keep)).await? }
    });
    try_join_all(producers).await?;
    let count = count / PRODUCERS * PRODUCERS;
    while done.load(Ordering::Relaxed) < count {
        ensure!(started.elapsed() < Duration::from_mins(2), "not done within two minutes");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Ended means recorded as well: shutting down waits for that.
    hence.shutdown(Duration::from_mins(1)).await;
    Ok(count as f64 / started.elapsed().as_secs_f64())
}

async fn produce(client: Client, count: usize, keep: bool) -> Result<()> {
    let mut job = NewJob::handler("work").map_err(refused)?.payload(PAYLOAD);
    if !keep {
        job = job.retention(hence_core::time::Millis::ZERO);
    }
    let mut done = 0;
    while done < count {
        let size = (count - done).min(BATCH);
        for answer in client.add_many(vec![job.clone(); size]).await? {
            answer?;
        }
        done += size;
    }
    Ok(())
}
