//! 50,000 jobs at one instant, and spread over ten seconds: to a handler in the process, to pull
//! workers, to a local HTTP sink. How late they were, beside what the machine itself adds.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::FutureExt;
use futures::future::try_join_all;
use hence::NewJob;
use hence_core::input::Report as Outcome;
use hence_core::time::Timestamp;
use hence_delivery::local::HandlerFn;
use hence_store::Store;
use serde_json::json;

use super::handler::{DEFAULT, start};
use super::pull::{acks, preload, values_of};
use super::{one_thread, threads};
use crate::Scale;
use crate::http_load::{Connection, post};
use crate::jobs::{self, refused};
use crate::machine::{Lateness, noise, now_ms, now_us};
use crate::report::Report;
use crate::server::Server;
use crate::sink::Sink;

/// When each job is due.
#[derive(Clone, Copy)]
pub(crate) struct Dues {
    /// The first.
    pub(crate) from_ms: i64,
    /// The time from the first to the last.
    pub(crate) span_ms: i64,
    /// How many.
    pub(crate) count: usize,
}

impl Dues {
    pub(crate) fn of(&self, index: usize) -> i64 {
        self.from_ms + self.span_ms * index as i64 / self.count as i64
    }
}

/// How it went.
pub(crate) struct Herd {
    pub(crate) lateness: Lateness,
    /// From the due time of the first to the arrival of the last.
    pub(crate) took: Duration,
}

type Run = fn(&Path, usize, i64) -> Result<Herd>;

pub(crate) fn run(report: &mut Report, scale: Scale) -> Result<()> {
    let count = scale.of(50_000);
    let targets: [(&str, Run, &str); 3] = [
        ("in-process handler", to_handler, "<= 0.3 s"),
        ("pull workers", to_workers, "<= 0.6 s"),
        ("local HTTP sink", to_sink, "<= 2.5 s"),
    ];
    for (name, run, goal) in targets {
        for (pattern, span_ms) in [("one instant", 0), ("spread over 10 s", 10_000)] {
            let control = noise(scale.span());
            let dir = tempfile::tempdir_in(".")?;
            let herd = run(dir.path(), count, span_ms)?;
            let spread = herd.lateness.spread();
            ensure!(spread.early == 0, "{} came early", spread.early);
            report.lateness(&format!("{name}, {pattern}"), &spread, &control, "none early");
            if span_ms == 0 {
                let what = format!("{name}, until all {count} have arrived");
                report.figure(&what, herd.took.as_secs_f64(), "s", goal);
            }
        }
    }
    Ok(())
}

/// Time enough to submit them all before the first is due.
fn dues(count: usize, span_ms: i64) -> Dues {
    Dues { from_ms: now_ms() + 1_500 + count as i64 / 25, span_ms, count }
}

fn took(dues: &Dues, last_us: i64) -> Duration {
    Duration::from_micros((last_us - dues.from_ms * 1_000).unsigned_abs())
}

pub(crate) fn to_handler(dir: &Path, count: usize, span_ms: i64) -> Result<Herd> {
    to_handler_of(jobs::open(dir)?, count, span_ms)
}

pub(crate) fn to_handler_of(store: Arc<dyn Store>, count: usize, span_ms: i64) -> Result<Herd> {
    let runtime = threads()?;
    let lateness = Arc::new(Mutex::new(Lateness::new()));
    let last = Arc::new(AtomicI64::new(0));
    let (late, newest) = (Arc::clone(&lateness), Arc::clone(&last));
    let handler: HandlerFn = Arc::new(move |delivery, _| {
        let now = now_us();
        let due_us = delivery.due_at.as_millis() * 1_000;
        late.lock().unwrap_or_else(PoisonError::into_inner).add(now - due_us);
        newest.fetch_max(now, Ordering::Relaxed);
        async { Outcome::Succeeded { result: None } }.boxed()
    });
    let dues = runtime.block_on(async {
        let hence = start(store, DEFAULT, handler).await?;
        let dues = dues(count, span_ms);
        let job = NewJob::handler("work").map_err(refused)?;
        for first in (0..count).step_by(1_000) {
            let due = |index| job.clone().at(Timestamp::from_millis(dues.of(index)));
            let jobs = (first..count.min(first + 1_000)).map(due).collect();
            for answer in hence.client().add_many(jobs).await? {
                answer?;
            }
        }
        let seen = || lateness.lock().unwrap_or_else(PoisonError::into_inner).count();
        let started = Instant::now();
        while seen() < count as u64 {
            ensure!(started.elapsed() < Duration::from_mins(1), "only {} arrived", seen());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        hence.shutdown(Duration::from_secs(30)).await;
        anyhow::Ok(dues)
    })?;
    drop(runtime);
    let lateness = Arc::into_inner(lateness).context("a handler still runs")?;
    let lateness = lateness.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Herd { lateness, took: took(&dues, last.load(Ordering::Relaxed)) })
}

pub(crate) fn to_workers(dir: &Path, count: usize, span_ms: i64) -> Result<Herd> {
    to_workers_of(&Server::start(dir)?, count, span_ms)
}

pub(crate) fn to_workers_of(server: &Server, count: usize, span_ms: i64) -> Result<Herd> {
    let runtime = one_thread()?;
    let dues = dues(count, span_ms);
    preload(server, count, &|n| json!({"at": dues.of(n), "payload_text": dues.of(n).to_string()}))?;
    let (lateness, last_us) = runtime.block_on(pull(server.address, count))?;
    Ok(Herd { lateness, took: took(&dues, last_us) })
}

/// Fifty workers that wait for work and take 16 at a time.
async fn pull(address: SocketAddr, count: usize) -> Result<(Lateness, i64)> {
    let done = Arc::new(AtomicUsize::new(0));
    let worker = |_| {
        let done = Arc::clone(&done);
        async move {
            let body = "{\"worker\":\"bench\",\"max\":16,\"lease\":\"60s\",\"wait\":\"1s\"}";
            let request = post(address, "/v1/leases", body);
            let mut connection = Connection::open(address).await?;
            let (mut lateness, mut last_us) = (Lateness::new(), 0);
            while done.load(Ordering::Relaxed) < count {
                let (status, body) = connection.call(&request).await?;
                let now = now_us();
                ensure!(status == 200, "lease was answered {status}");
                for due_ms in values_of(body, b"\"payload_text\":\"") {
                    lateness.add(now - due_ms.parse::<i64>()? * 1_000);
                    last_us = now;
                }
                if let Some((taken, request)) = acks(address, body) {
                    connection.call(&request).await?;
                    done.fetch_add(taken, Ordering::Relaxed);
                }
            }
            anyhow::Ok((lateness, last_us))
        }
    };
    let mut all = (Lateness::new(), 0);
    for (lateness, last_us) in try_join_all((0..50).map(worker)).await? {
        all.0.merge(&lateness);
        all.1 = all.1.max(last_us);
    }
    Ok(all)
}

pub(crate) fn to_sink(dir: &Path, count: usize, span_ms: i64) -> Result<Herd> {
    let runtime = threads()?;
    let server = Server::start(dir)?;
    push(&runtime, &server, count, span_ms)
}

/// Submits jobs for a sink of its own, and waits until all have arrived there.
pub(crate) fn push(
    runtime: &tokio::runtime::Runtime,
    server: &Server,
    count: usize,
    span_ms: i64,
) -> Result<Herd> {
    let sink = runtime.block_on(Sink::start(0))?;
    let dues = dues(count, span_ms);
    let address = sink.address;
    preload(
        server,
        count,
        &|n| json!({"at": dues.of(n), "url": format!("http://{address}/{}", dues.of(n))}),
    )?;
    let reached = async { tokio::time::timeout(Duration::from_mins(2), sink.reach(count)).await };
    ensure!(runtime.block_on(reached).is_ok(), "not all arrived within two minutes");
    Ok(Herd { lateness: sink.take_lateness(), took: took(&dues, sink.last_us()) })
}
