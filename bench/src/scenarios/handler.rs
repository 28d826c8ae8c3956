//! The library in one process: submitted, made durable, handed to a handler, its success made
//! durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::FutureExt;
use futures::future::try_join_all;
use hence::builder::Config;
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

/// Handlers under way at once, unless a program says otherwise.
pub(crate) const DEFAULT: u32 = hence_core::limits::HANDLERS_DEFAULT;
/// What a program says whose handlers are as short as these.
const MANY: u32 = 4_096;

pub(crate) fn run(report: &mut Report, scale: Scale) -> Result<()> {
    let runtime = threads()?;
    for (at_once, keep, goal) in
        [(DEFAULT, true, ""), (MANY, true, ">= 250 k/s"), (MANY, false, ">= 250 k/s")]
    {
        let dir = tempfile::tempdir_in(".")?;
        let before = cpu_time(std::process::id())?;
        let count = scale.of(400_000);
        let store = jobs::open(dir.path())?;
        let rate = runtime.block_on(end_to_end(store, at_once, count, keep))?;
        let spent = cpu_time(std::process::id())?.saturating_sub(before);
        let retention = if keep { "kept for an hour" } else { "forgotten when done" };
        let what = format!("up to {at_once} at once; {retention}");
        report.figure(&what, rate, "jobs/s", goal);
        let each = spent.as_secs_f64() * 1e6 / count as f64;
        report.figure("  processor time of everything", each, "us/job", "");
    }
    Ok(())
}

/// A library on this store, with this handler under the name `work`.
pub(crate) async fn start(
    store: Arc<dyn Store>,
    at_once: u32,
    handler: HandlerFn,
) -> Result<Hence> {
    let config = Config { handlers_max: Some(at_once), ..Config::default() };
    let builder = Hence::builder(store).config(config);
    Ok(builder.handler_fn("work", handler).map_err(refused)?.start().await?)
}

/// Jobs a second, from the first submission until the last is recorded as done.
pub(crate) async fn end_to_end(
    store: Arc<dyn Store>,
    at_once: u32,
    count: usize,
    keep: bool,
) -> Result<f64> {
    let done = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&done);
    let handler: HandlerFn = Arc::new(move |_, _| {
        counter.fetch_add(1, Ordering::Relaxed);
        async { Outcome::Succeeded { result: None } }.boxed()
    });
    let hence = start(store, at_once, handler).await?;
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
