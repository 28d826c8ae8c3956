//! Hence on a database server: submitted over HTTP to the real binary, taken by pull workers or by
//! a handler in the process. What it is compared with is the caller's.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::future::{select, try_join_all};
use hence_core::time::Timestamp;
use hence_store::Store;
use tokio::sync::Notify;

use super::herd::{self, Herd};
use super::pull::{tokens, with_acks};
use super::submit::{PATH, batch, job};
use super::{handler, one_thread, threads};
use crate::http_load::{Connection, hammer, post};
use crate::jobs::PAYLOAD;
use crate::machine::{ROUNDS, family_cpu_time, in_turns, median, noise, now_ms};
use crate::report::{Report, Row};
use crate::server::Server;

/// Clients that submit singly, and workers that pull.
pub(crate) const CLIENTS: usize = 50;
/// Jobs in one request, and who sends them.
pub(crate) const BATCHES: [(usize, usize); 2] = [(16, 100), (4, 1_000)];
/// Whoever submits while others work.
const PRODUCERS: usize = 4;

/// A database server.
pub(crate) struct Place<'a> {
    /// Makes an empty database and gives its address.
    pub(crate) fresh: &'a dyn Fn() -> Result<String>,
    /// The server's first process.
    pub(crate) pid: u32,
}

/// Rows a second of the raw server: so many at a time, for so long.
pub(crate) type Raw<'a> = &'a dyn Fn(usize, Duration) -> Result<f64>;

/// What jobs cost: commits, and processor time of Hence and of the server beneath it.
#[derive(Default)]
struct Spent {
    jobs_per_commit: Vec<f64>,
    hence: Vec<f64>,
    database: Vec<f64>,
}

impl Spent {
    fn show(self, report: &Report) {
        report.figure("  jobs per commit", median(self.jobs_per_commit), "jobs", "");
        report.figure("  processor time of hence", median(self.hence), "us/job", "");
        report.figure("  processor time of the database", median(self.database), "us/job", "");
    }
}

impl Place<'_> {
    /// Adds what the work of so many jobs takes.
    fn spend(
        &self,
        server: &Server,
        spent: &mut Spent,
        act: impl FnOnce() -> Result<f64>,
    ) -> Result<()> {
        // Processes that served others end now, and what they used is theirs.
        std::thread::sleep(Duration::from_millis(100));
        let before = family_cpu_time(self.pid)?;
        let cost = server.cost_of(act)?;
        let database = family_cpu_time(self.pid)?.saturating_sub(before);
        spent.hence.push(cost.cpu_us);
        spent.jobs_per_commit.push(cost.jobs_per_commit);
        spent.database.push(database.as_secs_f64() * 1e6 / cost.jobs.max(1.0));
        Ok(())
    }

    /// Submits singly and in batches, in turns with the raw server.
    pub(crate) fn submit(&self, report: &Report, span: Duration, raw: Raw<'_>) -> Result<()> {
        let runtime = one_thread()?;
        let server = Server::start_in(&(self.fresh)()?)?;
        let singly = [(CLIENTS, 1)];
        for (clients, size) in singly.iter().chain(&BATCHES).copied() {
            let body = if size == 1 { job() } else { batch(size) };
            let request = post(server.address, PATH, &body);
            let status = if size == 1 { 201 } else { 207 };
            let mut spent = Spent::default();
            let ours = || {
                let mut rate = 0.0;
                self.spend(&server, &mut spent, || {
                    let load = hammer(server.address, clients, span / ROUNDS, &request, status);
                    let load = runtime.block_on(load)?;
                    rate = load.rate * size as f64;
                    Ok(load.count * size as f64)
                })?;
                Ok(rate)
            };
            let (value, limit) = in_turns(ours, || raw(size, span / ROUNDS))?;
            let (what, against, goal) = match size {
                1 => (format!("{clients} clients, singly"), "single-row INSERT", ">= 2.5 x"),
                _ => (format!("{clients} clients, {size} a request"), "as many rows", ">= 0.6 x"),
            };
            let against = Some((against, limit));
            report.row(&Row { what: &what, value, unit: "jobs/s", against, goal });
            spent.show(report);
        }
        Ok(())
    }

    /// From the first submission until the last is recorded: a handler in this process.
    pub(crate) fn to_handler(&self, count: usize) -> Result<f64> {
        let url = (self.fresh)()?;
        let runtime = threads()?;
        runtime.block_on(async {
            handler::end_to_end(open(&url).await?, handler::DEFAULT, count, true).await
        })
    }

    /// From the first submission until the last is recorded: workers that pull 16 at a time.
    pub(crate) fn to_workers(&self, report: &Report, count: usize, row: &Row<'_>) -> Result<()> {
        let runtime = one_thread()?;
        let server = Server::start_in(&(self.fresh)()?)?;
        let (mut spent, started) = (Spent::default(), Instant::now());
        self.spend(&server, &mut spent, || {
            runtime.block_on(submit_and_pull(server.address, count))?;
            Ok(count as f64)
        })?;
        let value = count as f64 / started.elapsed().as_secs_f64();
        report.row(&Row { value, ..*row });
        spent.show(report);
        Ok(())
    }

    /// So many jobs for one instant.
    pub(crate) fn herds(&self, report: &Report, count: usize, peer: Peer<'_>) -> Result<()> {
        let control = noise(Duration::from_secs(1));
        let runtime = threads()?;
        let store = runtime.block_on(async { open(&(self.fresh)()?).await })?;
        let to_handler = herd::to_handler_of(store, count, 0)?;
        let server = Server::start_in(&(self.fresh)()?)?;
        let to_workers = herd::to_workers_of(&server, count, 0)?;
        for (name, herd) in [("in-process handler", to_handler), ("pull workers", to_workers)] {
            let Herd { lateness, took } = herd;
            let spread = lateness.spread();
            ensure!(spread.early == 0, "{} came early", spread.early);
            report.lateness(&format!("{name}, one instant"), &spread, &control, "none early");
            let what = format!("{name}, until all {count} have arrived");
            let value = took.as_secs_f64();
            report.row(&Row { what: &what, value, unit: "s", against: peer, goal: "" });
        }
        Ok(())
    }
}

/// The best of the peers, if there is one.
pub(crate) type Peer<'a> = Option<(&'a str, f64)>;

async fn open(url: &str) -> Result<Arc<dyn Store>> {
    Ok(hence_store_sql::open(url, Timestamp::from_millis(now_ms())).await?)
}

/// Producers and workers at once; workers finish jobs as they ask for the next. Ends with the
/// answer that the last job is done.
async fn submit_and_pull(address: SocketAddr, count: usize) -> Result<()> {
    let done = Arc::new(AtomicUsize::new(0));
    let finished = Arc::new(Notify::new());
    let left = Arc::new(AtomicUsize::new(count / 1_000));
    let producers = (0..PRODUCERS).map(|_| produce(address, Arc::clone(&left)));
    let worker = || work(address, count, Arc::clone(&done), Arc::clone(&finished));
    let workers = try_join_all((0..CLIENTS).map(|_| worker()));
    let all = async { tokio::try_join!(try_join_all(producers), workers).map(drop) };
    let ended = finished.notified();
    // Workers that still wait for jobs are not waited for.
    match select(std::pin::pin!(ended), std::pin::pin!(all)).await {
        futures::future::Either::Left(_) => Ok(()),
        futures::future::Either::Right((outcome, _)) => outcome,
    }
}

async fn produce(address: SocketAddr, left: Arc<AtomicUsize>) -> Result<()> {
    let payload = String::from_utf8_lossy(PAYLOAD);
    let jobs = vec![format!("{{\"payload_text\":\"{payload}\"}}"); 1_000];
    let request = post(address, PATH, &format!("{{\"jobs\":[{}]}}", jobs.join(",")));
    let mut connection = Connection::open(address).await?;
    let take = |left: usize| left.checked_sub(1);
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
        let (status, _) = connection.call(&request).await?;
        ensure!(status == 207, "a batch was answered {status}");
    }
    Ok(())
}

async fn work(
    address: SocketAddr,
    count: usize,
    done: Arc<AtomicUsize>,
    finished: Arc<Notify>,
) -> Result<()> {
    let ask = "{\"worker\":\"bench\",\"max\":16,\"lease\":\"60s\",\"wait\":\"1s\",\"acks\":[";
    let mut connection = Connection::open(address).await?;
    let (mut request, mut taken) = (post(address, "/v1/leases", &with_acks(ask, &[])), 0);
    loop {
        let (status, body) = connection.call(&request).await?;
        ensure!(status == 200, "lease was answered {status}");
        if done.fetch_add(taken, Ordering::Relaxed) + taken >= count {
            finished.notify_one();
            return Ok(());
        }
        let tokens = tokens(body);
        taken = tokens.len();
        request = post(address, "/v1/leases", &with_acks(ask, &tokens));
    }
}
