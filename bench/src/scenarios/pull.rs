//! Fifty workers that take and finish, in batches of 16 and one by one, with two requests for it
//! and with one. In batches also jobs that are forgotten when they are done, as the peers forget
//! theirs.

use std::net::SocketAddr;
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

/// How a worker says that jobs are done.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Finish {
    /// In a request of its own.
    Apart,
    /// In the request for the next ones.
    WithNext,
}

impl Finish {
    fn name(self) -> &'static str {
        match self {
            Finish::Apart => "two requests",
            Finish::WithNext => "one request",
        }
    }
}

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
    let rows = [
        (16, 200_000, After::Kept, ">= 1 x Disque"),
        (16, 200_000, After::Forgotten, ">= 1 x Disque"),
        (1, 50_000, After::Kept, ">= 3 x beanstalkd"),
    ];
    for (max, count, after, goal) in rows {
        for finish in [Finish::Apart, Finish::WithNext] {
            let load = Load { max, finish, after, count: scale.of(count) };
            let (rounds, peer) = in_rounds(report, &runtime, disque.as_ref(), load)?;
            let disque = peer.map(|rate| ("Disque durable", rate)).filter(|_| max > 1);
            show(report, rounds, load, disque.or(beanstalk), goal);
        }
    }
    Ok(())
}

/// What becomes of jobs that are done.
#[derive(Clone, Copy)]
enum After {
    /// They can be looked at for a while, as it is by default.
    Kept,
    Forgotten,
}

/// What the workers do.
#[derive(Clone, Copy)]
struct Load {
    max: usize,
    finish: Finish,
    after: After,
    count: usize,
}

impl Load {
    fn name(self) -> String {
        format!("{} at a time, {}", self.max, self.finish.name())
    }

    fn job(self) -> Value {
        let payload = String::from_utf8_lossy(PAYLOAD);
        match self.after {
            After::Kept => json!({"payload_text": payload}),
            After::Forgotten => json!({"payload_text": payload, "retention": "0s"}),
        }
    }
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
    load: Load,
) -> Result<(Rounds, Option<f64>)> {
    let Load { max, finish, count, .. } = load;
    let dir = tempfile::tempdir_in(".")?;
    let server = Server::start(dir.path())?;
    let (mut rounds, mut peer) = (Rounds::default(), Vec::new());
    for _ in 0..ROUNDS {
        if let Some(disque) = disque {
            peer.push(runtime.block_on(disque.take_rate(WORKERS, max, finish, count))?);
        }
        preload(&server, count, &|_| load.job())?;
        let mut rate = 0.0;
        let cost = server.cost_of(|| {
            let started = Instant::now();
            let taken = runtime.block_on(work(server.address, load))? as f64;
            rate = taken / started.elapsed().as_secs_f64();
            Ok(taken)
        })?;
        rounds.rates.push(rate);
        rounds.jobs_per_commit.push(cost.jobs_per_commit);
        rounds.cpu_us.push(cost.cpu_us);
    }
    let peer = (!peer.is_empty()).then(|| median(peer));
    if let Some(rate) = peer {
        let what = format!("peer: Disque durable, {}", load.name());
        report.figure(&what, rate, "jobs/s", "");
    }
    Ok((rounds, peer))
}

fn show(report: &Report, rounds: Rounds, load: Load, against: Option<(&str, f64)>, goal: &str) {
    let after = match load.after {
        After::Kept => "",
        After::Forgotten => ", forgotten",
    };
    let what = format!("{WORKERS} workers, {}{after}", load.name());
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
async fn work(address: SocketAddr, load: Load) -> Result<usize> {
    let done = AtomicUsize::new(0);
    let ask = format!("{{\"worker\":\"bench\",\"max\":{},\"lease\":\"60s\"", load.max);
    let worker = || async {
        let first = post(address, "/v1/leases", &format!("{ask}}}"));
        let with_next = format!("{ask},\"acks\":[");
        let mut connection = Connection::open(address).await?;
        let (mut request, mut taken) = (first.clone(), 0);
        while done.load(Ordering::Relaxed) < load.count {
            let (status, body) = connection.call(&request).await?;
            ensure!(status == 200, "lease was answered {status}");
            done.fetch_add(taken, Ordering::Relaxed);
            taken = 0;
            request.clone_from(&first);
            if load.finish == Finish::WithNext {
                let tokens = tokens(body);
                taken = tokens.len();
                request = post(address, "/v1/leases", &with_acks(&with_next, &tokens));
            } else if let Some((finished, request)) = acks(address, body) {
                let (status, _) = connection.call(&request).await?;
                ensure!((200..300).contains(&status), "ack was answered {status}");
                done.fetch_add(finished, Ordering::Relaxed);
            } else {
                tokio::task::yield_now().await;
            }
        }
        anyhow::Ok(())
    };
    try_join_all((0..WORKERS).map(|_| worker())).await?;
    Ok(done.load(Ordering::Relaxed))
}

/// The request that finishes all jobs of a lease's answer: one by its path, several together. Says
/// how many they are; without any there is nothing to ask for.
pub(crate) fn acks(address: SocketAddr, answer: &[u8]) -> Option<(usize, Vec<u8>)> {
    let tokens = tokens(answer);
    let request = match tokens[..] {
        [] => return None,
        [token] => post(address, &format!("/v1/leases/{token}/ack"), "{}"),
        _ => post(address, "/v1/leases/ack", &with_acks("{\"acks\":[", &tokens)),
    };
    Some((tokens.len(), request))
}

/// Of the jobs in a lease's answer.
pub(crate) fn tokens(answer: &[u8]) -> Vec<&str> {
    values_of(answer, b"\"token\":\"").collect()
}

/// A body that begins so and ends with these acks.
pub(crate) fn with_acks(start: &str, tokens: &[&str]) -> String {
    let mut body = String::with_capacity(start.len() + tokens.len() * 32);
    body.push_str(start);
    for (place, token) in tokens.iter().enumerate() {
        let comma = if place > 0 { "," } else { "" };
        body.extend([comma, "{\"token\":\"", token, "\"}"]);
    }
    body.push_str("]}");
    body
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
