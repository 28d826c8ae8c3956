//! Fifty workers that take and finish, in batches of 16 and one by one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::one_thread;
use crate::Scale;
use crate::beanstalk::Beanstalk;
use crate::disque::Disque;
use crate::http_load::{Connection, post};
use crate::jobs::PAYLOAD;
use crate::machine::{ROUNDS, median};
use crate::report::{Report, Row};
use crate::server::Server;

const WORKERS: usize = 50;

pub(crate) fn run(report: &mut Report, scale: Scale) -> Result<()> {
    let runtime = one_thread()?;
    let beanstalk = runtime.block_on(beanstalk(report, scale))?;
    let dir = tempfile::tempdir_in(".")?;
    let disque = match Disque::start(dir.path()) {
        Ok(disque) => Some(disque),
        Err(error) => {
            report.skipped("peer: Disque durable", &format!("{error:#}"));
            None
        }
    };
    let beanstalk = beanstalk.map(|rate| ("beanstalkd durable, reserve and delete", rate));
    let (rounds, peer) = in_rounds(report, &runtime, disque.as_ref(), 16, scale.of(200_000))?;
    let against = peer.map(|rate| ("Disque durable", rate)).or(beanstalk);
    show(report, rounds, 16, against, ">= 1 x Disque");
    let (rounds, _) = in_rounds(report, &runtime, disque.as_ref(), 1, scale.of(50_000))?;
    show(report, rounds, 1, beanstalk, ">= 3 x beanstalkd");
    Ok(())
}

/// What was measured in each round.
#[derive(Default)]
struct Rounds {
    rates: Vec<f64>,
    jobs_per_commit: Vec<f64>,
    cpu_us: Vec<f64>,
}

/// So many jobs, in turns with Disque where that is installed; its rate, too.
fn in_rounds(
    report: &Report,
    runtime: &Runtime,
    disque: Option<&Disque>,
    max: usize,
    count: usize,
) -> Result<(Rounds, Option<f64>)> {
    let dir = tempfile::tempdir_in(".")?;
    let server = Server::start(dir.path())?;
    let (mut rounds, mut peer) = (Rounds::default(), Vec::new());
    for _ in 0..ROUNDS {
        if let Some(disque) = disque {
            peer.push(runtime.block_on(disque.take_rate(WORKERS, max, count))?);
        }
        preload(&server, count, &|_| json!({"payload_text": String::from_utf8_lossy(PAYLOAD)}))?;
        let mut rate = 0.0;
        let cost = server.cost_of(|| {
            let started = Instant::now();
            let taken = runtime.block_on(work(server.address, max, count))? as f64;
            rate = taken / started.elapsed().as_secs_f64();
            Ok(taken)
        })?;
        rounds.rates.push(rate);
        rounds.jobs_per_commit.push(cost.jobs_per_commit);
        rounds.cpu_us.push(cost.cpu_us);
    }
    let peer = (!peer.is_empty()).then(|| median(peer));
    if let Some(rate) = peer {
        let what = format!("peer: Disque durable, {max} at a time");
        report.figure(&what, rate, "jobs/s", "");
    }
    Ok((rounds, peer))
}

fn show(report: &Report, rounds: Rounds, max: usize, against: Option<(&str, f64)>, goal: &str) {
    let what = format!("{WORKERS} workers, {max} at a time");
    let value = median(rounds.rates);
    report.row(&Row { what: &what, value, unit: "jobs/s", against, goal });
    report.figure("  jobs per commit", median(rounds.jobs_per_commit), "jobs", "");
    report.figure("  processor time of the server", median(rounds.cpu_us), "us/job", "");
}

/// Submits jobs in batches, apart from what is measured.
pub(crate) fn preload(server: &Server, count: usize, job: &dyn Fn(usize) -> Value) -> Result<()> {
    let mut done = 0;
    while done < count {
        let size = (count - done).min(1_000);
        let jobs: Vec<Value> = (done..done + size).map(job).collect();
        let answer = server.call("POST", "/v1/jobs", Some(&json!({ "jobs": jobs })))?;
        ensure!(answer["accepted"] == size, "not all were accepted: {answer}");
        done += size;
    }
    Ok(())
}

/// Takes and finishes all of them; returns how many there were.
async fn work(address: SocketAddr, max: usize, count: usize) -> Result<usize> {
    let done = Arc::new(AtomicUsize::new(0));
    let worker = |_| {
        let done = Arc::clone(&done);
        async move {
            let body = format!("{{\"worker\":\"bench\",\"max\":{max},\"lease\":\"60s\"}}");
            let request = post(address, "/v1/leases", &body);
            let mut connection = Connection::open(address).await?;
            while done.load(Ordering::Relaxed) < count {
                let (status, body) = connection.call(&request).await?;
                ensure!(status == 200, "lease was answered {status}");
                let Some((taken, request)) = acks(address, body) else {
                    tokio::task::yield_now().await;
                    continue;
                };
                let (status, _) = connection.call(&request).await?;
                ensure!((200..300).contains(&status), "ack was answered {status}");
                done.fetch_add(taken, Ordering::Relaxed);
            }
            anyhow::Ok(())
        }
    };
    try_join_all((0..WORKERS).map(worker)).await?;
    Ok(done.load(Ordering::Relaxed))
}

/// The request that finishes all jobs of a lease's answer: one by its path, several together. Says
/// how many they are; without any there is nothing to ask for.
pub(crate) fn acks(address: SocketAddr, answer: &[u8]) -> Option<(usize, Vec<u8>)> {
    let tokens: Vec<&str> = values_of(answer, b"\"token\":\"").collect();
    let request = match tokens[..] {
        [] => return None,
        [token] => post(address, &format!("/v1/leases/{token}/ack"), "{}"),
        _ => {
            let mut body = String::with_capacity(tokens.len() * 32);
            for token in &tokens {
                let start = if body.is_empty() { "{\"acks\":[" } else { "," };
                body.extend([start, "{\"token\":\"", token, "\"}"]);
            }
            body.push_str("]}");
            post(address, "/v1/leases/ack", &body)
        }
    };
    Some((tokens.len(), request))
}

/// The texts that follow a mark, up to the next quote: all that is needed of an answer.
pub(crate) fn values_of<'a>(body: &'a [u8], mark: &'a [u8]) -> impl Iterator<Item = &'a str> {
    memchr::memmem::find_iter(body, mark).map(move |at| {
        let rest = &body[at + mark.len()..];
        let text = &rest[..memchr::memchr(b'"', rest).unwrap_or(rest.len())];
        std::str::from_utf8(text).unwrap_or_default()
    })
}

async fn beanstalk(report: &Report, scale: Scale) -> Result<Option<f64>> {
    let dir = tempfile::tempdir_in(".")?;
    let beanstalk = match Beanstalk::start(dir.path()) {
        Ok(beanstalk) => beanstalk,
        Err(error) => {
            report.skipped("peer: beanstalkd durable, reserve and delete", &format!("{error:#}"));
            return Ok(None);
        }
    };
    // Putting and taking are about as fast: twice the time fills enough.
    beanstalk.put_rate(WORKERS, scale.span() * 2).await?;
    Ok(Some(beanstalk.take_rate(WORKERS, scale.span()).await?))
}
