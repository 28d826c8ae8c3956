//! Fifty workers that take and finish, in batches of 16 and one by one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use serde_json::{Value, json};

use super::one_thread;
use crate::Scale;
use crate::beanstalk::Beanstalk;
use crate::http_load::{Connection, post};
use crate::jobs::PAYLOAD;
use crate::report::{Report, Row};
use crate::server::Server;

const WORKERS: usize = 50;

pub(crate) fn run(report: &mut Report, scale: Scale) -> Result<()> {
    let runtime = one_thread()?;
    let peer = runtime.block_on(peer(report, scale))?;
    for (max, count, goal) in
        [(16, 300_000, ">= 240 k/s (1 x Disque durable)"), (1, 100_000, ">= 3 x beanstalkd")]
    {
        let count = scale.of(count);
        let dir = tempfile::tempdir_in(".")?;
        let server = Server::start(dir.path())?;
        preload(&server, count, &|_| json!({"payload_text": String::from_utf8_lossy(PAYLOAD)}))?;
        let started = Instant::now();
        let cost =
            server.cost_of(|| Ok(runtime.block_on(work(server.address, max, count))? as f64))?;
        let value = cost.jobs / started.elapsed().as_secs_f64();
        let what = format!("{WORKERS} workers, {max} at a time");
        let against = peer.map(|rate| ("beanstalkd durable, reserve and delete", rate));
        report.row(&Row { what: &what, value, unit: "jobs/s", against, goal });
        report.figure("  jobs per commit", cost.jobs_per_commit, "jobs", "");
        report.figure("  processor time of the server", cost.cpu_us, "us/job", "");
    }
    Ok(())
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
                let tokens = values_of(body, b"\"token\":\"");
                if tokens.is_empty() {
                    tokio::task::yield_now().await;
                    continue;
                }
                let (status, _) = connection.call(&ack(address, &tokens)).await?;
                ensure!((200..300).contains(&status), "ack was answered {status}");
                done.fetch_add(tokens.len(), Ordering::Relaxed);
            }
            anyhow::Ok(())
        }
    };
    try_join_all((0..WORKERS).map(worker)).await?;
    Ok(done.load(Ordering::Relaxed))
}

/// One is finished by its path, several by one request.
pub(crate) fn ack(address: SocketAddr, tokens: &[String]) -> Vec<u8> {
    if let [token] = tokens {
        return post(address, &format!("/v1/leases/{token}/ack"), "{}");
    }
    let acks: Vec<String> =
        tokens.iter().map(|token| format!("{{\"token\":\"{token}\"}}")).collect();
    post(address, "/v1/leases/ack", &format!("{{\"acks\":[{}]}}", acks.join(",")))
}

/// The texts that follow a mark, up to the next quote: all that is needed of an answer.
pub(crate) fn values_of(body: &[u8], mark: &[u8]) -> Vec<String> {
    let value = |at: usize| {
        let rest = &body[at + mark.len()..];
        let end = memchr::memchr(b'"', rest).unwrap_or(rest.len());
        String::from_utf8_lossy(&rest[..end]).into_owned()
    };
    memchr::memmem::find_iter(body, mark).map(value).collect()
}

async fn peer(report: &Report, scale: Scale) -> Result<Option<f64>> {
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
