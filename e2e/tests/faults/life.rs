//! Faults of processes: two at once, signals, neighbours that hang.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Api, Receiver, Seed, Server, clock, server};
use rustix::process::Signal;
use serde_json::json;

const SOON: Duration = Duration::from_secs(20);

/// Two processes on one directory: the second says so, and who the first is, and ends with 69.
/// Also by way of another name of the directory.
pub(crate) fn a_second_process_is_refused() -> Result<Ended> {
    let server = Server::start()?;
    let links = tempfile::tempdir()?;
    let link = links.path().join("other-name");
    std::os::unix::fs::symlink(server.data(), &link)?;
    for data in [server.data(), &link] {
        let data = data.to_str().context("a plain path")?;
        let second = server::hence(&["serve", "--listen", "127.0.0.1:0", "--data", data])?;
        let said = String::from_utf8_lossy(&second.stderr);
        ensure!(second.status.code() == Some(69), "ended with {}: {said}", second.status);
        ensure!(said.contains("in use"), "it says why: {said}");
        ensure!(said.contains(&server.pid().to_string()), "and by whom: {said}");
    }
    ensure!(server.api().get("/ready")?.status == 200, "the first one was not disturbed");
    Ok(Ended::Passed)
}

/// SIGTERM in the middle of work, several times: exit code 0, and every job arrives exactly once.
pub(crate) fn sigterm_under_load_loses_and_doubles_nothing() -> Result<Ended> {
    let mut server = Server::start()?;
    let receiver = Receiver::start()?;
    let producing = Arc::new(AtomicBool::new(true));
    let producer = {
        let (producing, address) = (Arc::clone(&producing), server.address());
        let url = receiver.url("/?slow=60");
        std::thread::spawn(move || produce(address, &url, &producing))
    };
    let (seed, number) = Seed::from_env();
    for _ in 0..5 {
        clock::sleep_ms(seed.between(200, 600));
        let status = server.stop(Duration::from_secs(20))?;
        ensure!(status.code() == Some(0), "seed {number}: {status}:\n{}", server.log_tail());
        server.restart()?;
    }
    producing.store(false, Ordering::Relaxed);
    let accepted = producer.join().expect("the producer panicked");
    ensure!(accepted.len() > 50, "only {} jobs were accepted", accepted.len());
    for id in &accepted {
        receiver.wait_for(id, 1, SOON)?;
    }
    clock::sleep_ms(300);
    let mut counts: HashMap<String, usize> = HashMap::new();
    for arrival in receiver.arrivals() {
        ensure!(arrival.status == Some(200), "cut off in the middle: {arrival:?}");
        *counts.entry(arrival.job).or_default() += 1;
    }
    let doubled: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    ensure!(doubled.is_empty(), "seed {number}: delivered twice: {doubled:?}");
    Ok(Ended::Passed)
}

/// Submits until told to stop; returns what was accepted.
fn produce(address: std::net::SocketAddr, url: &str, producing: &AtomicBool) -> Vec<String> {
    let mut api = Api::new(address);
    let mut accepted = Vec::new();
    for n in 0.. {
        if !producing.load(Ordering::Relaxed) {
            break;
        }
        let id = format!("j{n}");
        let job =
            json!({"id": id, "in": format!("{}ms", n % 300), "url": url, "on_conflict": "keep"});
        match api.post("/v1/jobs", &job) {
            Ok(answer) if matches!(answer.status, 200 | 201) => accepted.push(id),
            Ok(answer) => assert_eq!(answer.status, 503, "{answer:?}"),
            Err(_) => clock::sleep_ms(10),
        }
        clock::sleep_ms(3);
    }
    accepted
}

/// A receiver hangs, so a polite end would take long: whoever asks twice gets it at once.
pub(crate) fn a_second_sigterm_ends_it_at_once() -> Result<Ended> {
    let mut server = Server::start()?;
    let receiver = Receiver::start()?;
    let job = json!({"id": "hangs", "url": receiver.url("/?hang=1"), "timeout": "60s"});
    server.api().submit(&job)?;
    receiver.wait_for("hangs", 1, SOON)?;
    server.signal(Signal::TERM)?;
    // A second one within a second counts as the first.
    clock::sleep_ms(2_000);
    let asked = Instant::now();
    server.stop(Duration::from_secs(10))?;
    let took = asked.elapsed();
    ensure!(took < Duration::from_secs(3), "it took {took:?}");
    server.restart()?;
    let again = receiver.wait_for("hangs", 2, SOON)?;
    ensure!(again[0].token < again[1].token, "handed back and delivered again: {again:?}");
    Ok(Ended::Passed)
}

/// Two hundred deliveries hang; others arrive as if nothing were wrong. More of them than pushes
/// are allowed at once hold up nobody either, when their queue has a limit.
pub(crate) fn hanging_receivers_hold_up_nobody_else() -> Result<Ended> {
    let server = Server::start()?;
    let receiver = Receiver::start()?;
    let mut api = server.api();
    let limit = api.json("PATCH", "/v1/queues/limited", &json!({"concurrency": 20}))?;
    ensure!(limit.status == 200, "{limit:?}");
    for (queue, count) in [("bad", 200), ("limited", 400)] {
        let job = |n: usize| {
            json!({"id": format!("{n}"), "queue": queue, "url": receiver.url("/?hang=1"),
                   "timeout": "30s"})
        };
        let jobs: Vec<_> = (0..count).map(job).collect();
        api.post("/v1/jobs", &json!({ "jobs": jobs }))?.expect(207)?;
    }
    receiver.wait_count(220, SOON)?;
    let due_ms = clock::now_ms() + 200;
    for n in 0..50 {
        api.submit(&json!({"id": format!("fine-{n}"), "at": due_ms, "url": receiver.url("/")}))?;
    }
    for n in 0..50 {
        let fine = receiver.wait_for(&format!("fine-{n}"), 1, Duration::from_secs(5))?.remove(0);
        let late_ms = fine.at_us / 1_000 - due_ms;
        ensure!(late_ms < 3_000, "fine-{n} was late by {late_ms} ms");
    }
    let hanging = receiver.arrivals().iter().filter(|arrival| arrival.path == "/").count() - 50;
    ensure!(hanging == 220, "the limit of the queue holds: {hanging} hang");
    Ok(Ended::Passed)
}

/// The process is stopped (as by a suspended machine) past due times and leases. It wakes up,
/// delivers what is due, each once, and gives the lost leases to others.
pub(crate) fn a_stopped_server_goes_on_where_it_was() -> Result<Ended> {
    let server = Server::start()?;
    let receiver = Receiver::start()?;
    let mut api = server.api();
    api.submit(&json!({"id": "leased", "queue": "q"}))?;
    let first = api.lease(&json!({"queue": "q", "lease": "500ms"}))?;
    for n in 0..50 {
        let job = json!({"id": format!("j{n}"), "in": "300ms", "url": receiver.url("/")});
        api.submit(&job)?;
    }
    server.signal(Signal::STOP)?;
    clock::sleep_ms(2_000);
    server.signal(Signal::CONT)?;
    receiver.wait_count(50, SOON)?;
    let again = api.lease(&json!({"queue": "q", "wait": "10s"}))?;
    ensure!(again.len() == 1 && again[0]["token"] != first[0]["token"], "{again:?}");
    clock::sleep_ms(300);
    ensure!(receiver.count() == 50, "each once: {}", receiver.count());
    Ok(Ended::Passed)
}
