//! Cases in which the process dies at the wrong moment.

use std::time::Duration;

use anyhow::{Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Receiver, Server, clock};
use serde_json::json;

const SOON: Duration = Duration::from_secs(20);

/// The server dies with a job handed to a worker that dies as well: the lease ends, and the job
/// is handed out again under a greater token.
pub(crate) fn case_01_crash_between_taking_and_arming_again() -> Result<Ended> {
    let mut server = Server::start()?;
    let mut api = server.api();
    api.submit(&json!({"id": "taken", "queue": "q"}))?;
    let first = api.lease(&json!({"queue": "q", "worker": "dies", "lease": "700ms"}))?;
    ensure!(first.len() == 1, "handed out: {first:?}");
    server.kill()?;
    server.restart()?;
    let again = api_lease_within(&server, SOON)?;
    ensure!(again["id"] == "taken" && again["token"] != first[0]["token"], "again: {again}");
    let token = again["token"].as_str().unwrap_or_default();
    let mut api = server.api();
    api.post(&format!("/v1/leases/{token}/ack"), &json!({}))?;
    ensure!(api.state("taken?queue=q")? == "succeeded");
    Ok(Ended::Passed)
}

fn api_lease_within(server: &Server, within: Duration) -> Result<serde_json::Value> {
    let request =
        json!({"queue": "q", "worker": "second", "wait": format!("{}s", within.as_secs())});
    let jobs = server.api().timeout(within * 2).lease(&request)?;
    ensure!(jobs.len() == 1, "one job within {within:?}: {jobs:?}");
    Ok(jobs[0].clone())
}

/// The server dies the moment after it said yes, many times: every job it said yes to arrives.
pub(crate) fn case_02_crash_between_storing_and_queueing() -> Result<Ended> {
    let mut server = Server::start()?;
    let receiver = Receiver::start()?;
    for round in 0..8 {
        let id = format!("round-{round}");
        server.api().submit(&json!({"id": id, "in": "300ms", "url": receiver.url("/")}))?;
        server.kill()?;
        server.restart()?;
    }
    for round in 0..8 {
        receiver.wait_for(&format!("round-{round}"), 1, SOON)?;
    }
    Ok(Ended::Passed)
}

/// Jobs due while nobody ran: all arrive, each once, and promptly.
pub(crate) fn case_04_restart_with_overdue_jobs() -> Result<Ended> {
    let mut server = Server::start()?;
    let receiver = Receiver::start()?;
    let due_ms = clock::now_ms() + 1_000;
    let job = |n: i64| json!({"id": format!("j{n}"), "at": due_ms + n, "url": receiver.url("/")});
    let jobs: Vec<_> = (0..200).map(job).collect();
    server.api().post("/v1/jobs", &json!({ "jobs": jobs }))?.expect(207)?;
    server.kill()?;
    clock::sleep_ms(1_500);
    ensure!(receiver.count() == 0, "nothing can arrive from a dead server");
    server.restart()?;
    receiver.wait_count(200, SOON)?;
    clock::sleep_ms(300);
    let arrivals = receiver.arrivals();
    ensure!(arrivals.len() == 200, "each once, not {}", arrivals.len());
    Ok(Ended::Passed)
}

/// The due time is absolute: a restart neither shortens nor restarts the delay.
pub(crate) fn case_10_delay_preserved_over_a_restart() -> Result<Ended> {
    let mut server = Server::start()?;
    let receiver = Receiver::start()?;
    let answer =
        server.api().submit(&json!({"id": "d", "in": "2500ms", "url": receiver.url("/")}))?;
    let due_us = answer["due_at_ms"].as_i64().unwrap_or_default() * 1_000;
    clock::sleep_ms(300);
    server.kill()?;
    server.restart()?;
    let shown = server.api().get("/v1/jobs/d")?.expect(200)?;
    ensure!(shown["due_at_ms"] == answer["due_at_ms"], "due as before: {shown}");
    let arrival = receiver.wait_for("d", 1, SOON)?.remove(0);
    let late_ms = (arrival.at_us - due_us) / 1_000;
    ensure!(arrival.at_us >= due_us, "early by {} ms", -late_ms);
    ensure!(late_ms < 2_000, "late by {late_ms} ms");
    Ok(Ended::Passed)
}

/// A client that gave up does not know whether its job exists. It submits again, under the same
/// id or with the same idempotency key, and there is one job.
pub(crate) fn case_25_submit_again_after_giving_up() -> Result<Ended> {
    let server = Server::start()?;
    let receiver = Receiver::start()?;
    let mut api = server.api();
    let job = json!({"id": "named", "in": "1s", "url": receiver.url("/"), "on_conflict": "keep"});
    for _ in 0..5 {
        api.send_and_leave("POST", "/v1/jobs", &job)?;
    }
    api.submit(&job)?;
    let drawn = json!({"in": "1s", "url": receiver.url("/")}).to_string();
    let headers = [("content-type", "application/json"), ("idempotency-key", "once")];
    let mut answers = Vec::new();
    for _ in 0..3 {
        let answer = api.send("POST", "/v1/jobs", &headers, drawn.as_bytes())?;
        answers.push(answer.value()?["id"].clone());
    }
    ensure!(answers.iter().all(|id| *id == answers[0]), "one id: {answers:?}");
    let other = json!({"in": "2s", "url": receiver.url("/")}).to_string();
    let refused = api.send("POST", "/v1/jobs", &headers, other.as_bytes())?;
    ensure!(refused.status == 409, "the same key for another request: {refused:?}");
    receiver.wait_count(2, SOON)?;
    clock::sleep_ms(500);
    ensure!(receiver.count() == 2, "two jobs, not {}", receiver.count());
    Ok(Ended::Passed)
}
