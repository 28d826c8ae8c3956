//! Cases about who may have a job, and for how long.

use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Build, Server, clock, server};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(20);

/// Takes one job, waiting for it.
fn take(server: &Server, worker: &str, lease: &str) -> Result<Value> {
    let request = json!({"queue": "q", "worker": worker, "lease": lease, "wait": "15s"});
    let jobs = server.api().lease(&request)?;
    jobs.into_iter().next().context("no job in time")
}

fn token(job: &Value) -> &str {
    job["token"].as_str().unwrap_or_default()
}

/// Says done; returns the status.
fn ack(server: &Server, token: &str) -> Result<u16> {
    Ok(server.api().post(&format!("/v1/leases/{token}/ack"), &json!({}))?.status)
}

/// The first worker finishes after its lease, while a second has the job: refused, and the second's
/// success is the one that counts.
pub(crate) fn case_07_first_worker_finishes_after_its_lease() -> Result<Ended> {
    let server = Server::start()?;
    server.api().submit(&json!({"id": "job", "queue": "q", "keep_result": true}))?;
    let first = take(&server, "first", "200ms")?;
    let second = take(&server, "second", "30s")?;
    ensure!(second["id"] == "job" && token(&second) != token(&first), "{second}");
    let mut api = server.api();
    let late =
        api.post(&format!("/v1/leases/{}/ack", token(&first)), &json!({"result": "first"}))?;
    ensure!(late.status == 409, "too late: {late:?}");
    ensure!(api.state("job?queue=q")? == "running", "the second one still has it");
    api.post(&format!("/v1/leases/{}/ack", token(&second)), &json!({"result": "second"}))?;
    let job = api.get("/v1/jobs/job?queue=q")?.expect(200)?;
    ensure!(job["state"] == "succeeded" && job["finish"]["result"] == "second", "{job}");
    ensure!(ack(&server, token(&first))? == 409, "and it stays refused");
    Ok(Ended::Passed)
}

/// A claim that ended does not stand in the way of the next, however often.
pub(crate) fn case_08_second_claim_after_an_ended_claim() -> Result<Ended> {
    let server = Server::start()?;
    let retry = json!({"max_attempts": 10, "delay": "0s", "jitter_percent": 0});
    server.api().submit(&json!({"id": "job", "queue": "q", "retry": retry}))?;
    let mut tokens = Vec::new();
    for _ in 0..4 {
        let job = take(&server, "sleeper", "150ms")?;
        tokens.push(hence_e2e::Token::parse(token(&job)));
    }
    ensure!(tokens.is_sorted_by(|one, next| one < next), "tokens grow: {tokens:?}");
    let last = take(&server, "worker", "30s")?;
    ensure!(matches!(ack(&server, token(&last))?, 200 | 204));
    ensure!(server.api().state("job?queue=q")? == "succeeded");
    Ok(Ended::Passed)
}

/// A worker is stopped (SIGSTOP) for longer than its lease, and wakes up when another has done its
/// job: its own end changes nothing.
pub(crate) fn case_09_holder_paused_longer_than_its_lease() -> Result<Ended> {
    let server = Server::start()?;
    let retry = json!({"max_attempts": 10, "delay": "0s", "jitter_percent": 0});
    server
        .api()
        .submit(&json!({"id": "job", "queue": "q", "retry": retry, "keep_result": true}))?;
    let url = format!("http://{}", server.address());
    let mut worker = server::command(Build::Normal, &[]);
    worker.args(["--server", &url, "work", "q", "--once", "--lease", "1s", "--keep-output"]);
    worker.args(["--name", "sleeper", "--", "sh", "-c", "sleep 0.6; echo sleeper"]);
    let mut worker = worker.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    let running = clock::until(SOON, || {
        server.api().state("job?queue=q").ok().filter(|state| state == "running")
    });
    running.context("the worker takes the job")?;
    signal(&worker, Signal::STOP)?;
    let second = take(&server, "second", "30s")?;
    signal(&worker, Signal::CONT)?;
    let ended = clock::until(SOON, || worker.try_wait().ok().flatten());
    if ended.is_none() {
        worker.kill()?;
    }
    ended.context("the paused worker ends once it woke up")?;
    ensure!(server.api().state("job?queue=q")? == "running", "the second one has it");
    let mut api = server.api();
    let path = format!("/v1/leases/{}/ack", token(&second));
    ensure!(matches!(api.post(&path, &json!({"result": "second"}))?.status, 200 | 204));
    let job = api.get("/v1/jobs/job?queue=q")?.expect(200)?;
    ensure!(job["finish"]["result"] == "second", "{job}");
    Ok(Ended::Passed)
}

fn signal(child: &Child, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(i32::try_from(child.id())?).context("no pid")?;
    Ok(kill_process(pid, signal)?)
}

/// A job that takes longer than its lease is not handed out again as long as the lease is extended,
/// also over a kill of the server.
pub(crate) fn case_17_a_long_job_keeps_its_lease() -> Result<Ended> {
    let mut server = Server::start()?;
    server.api().submit(&json!({"id": "long", "queue": "q"}))?;
    let job = take(&server, "slow", "1s")?;
    let path = format!("/v1/leases/{}/extend", token(&job));
    for round in 0..6 {
        clock::sleep_ms(400);
        if round == 3 {
            server.api().post(&path, &json!({"lease": "20s"}))?.expect(200)?;
            server.kill()?;
            server.restart()?;
        }
        server.api().post(&path, &json!({"lease": "1s"}))?.expect(200)?;
        let others = server.api().lease(&json!({"queue": "q", "worker": "other"}))?;
        ensure!(others.is_empty(), "round {round}: it has its holder: {others:?}");
    }
    ensure!(matches!(ack(&server, token(&job))?, 200 | 204));
    let attempts = server.api().get("/v1/jobs/long/attempts?queue=q")?.expect(200)?;
    ensure!(attempts["attempts"].as_array().is_some_and(|list| list.len() == 1), "{attempts}");
    Ok(Ended::Passed)
}

/// An ack for something that nobody here handed out is refused, and makes nothing.
pub(crate) fn case_24_ack_of_an_unknown_token() -> Result<Ended> {
    let server = Server::start()?;
    let mut api = server.api();
    api.submit(&json!({"id": "job", "queue": "q"}))?;
    let before = api.get("/v1/jobs?queue=q")?.expect(200)?;
    for token in ["0.1.999999", "0.9.1", "63.1.1", "0.0.0"] {
        for verb in ["ack", "nack", "extend"] {
            let body = if verb == "extend" { json!({"lease": "30s"}) } else { json!({}) };
            let answer = api.post(&format!("/v1/leases/{token}/{verb}"), &body)?;
            ensure!(answer.status == 409, "{verb} {token}: {answer:?}");
        }
    }
    let nonsense = api.post("/v1/leases/nonsense/ack", &json!({}))?;
    ensure!((400..500).contains(&nonsense.status), "{nonsense:?}");
    ensure!(api.get("/v1/jobs?queue=q")?.expect(200)? == before, "nothing has changed");
    Ok(Ended::Passed)
}
