//! The process does not run for a while, as on a machine that is suspended.

use std::time::Duration;

use anyhow::{Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Receiver, Server, clock};
use rustix::process::Signal;
use serde_json::json;

const SOON: Duration = Duration::from_secs(20);

/// Its lease ran out while nothing ran: another worker gets the job and finishes it, and the first
/// one's success is refused.
pub(crate) fn a_pause_longer_than_a_lease_lets_another_worker_finish() -> Result<Ended> {
    let server = Server::start()?;
    let mut api = server.api();
    api.submit(&json!({"id": "pulled", "queue": "q", "retry": {"delay": "0s"}}))?;
    let first = api.lease(&json!({"queue": "q", "lease": "500ms"}))?;
    ensure!(first.len() == 1, "{first:?}");
    pause(&server, 2_000)?;
    let second = api.lease(&json!({"queue": "q", "lease": "10s", "wait": "10s"}))?;
    ensure!(second.len() == 1, "the lease did not run out");
    let ack = |token: &serde_json::Value| {
        format!("/v1/leases/{}/ack", token.as_str().unwrap_or_default())
    };
    let late = api.post(&ack(&first[0]["token"]), &json!({}))?;
    ensure!(late.status == 409, "a success after its lease: {late:?}");
    let good = api.post(&ack(&second[0]["token"]), &json!({}))?;
    ensure!(good.status == 204, "{good:?}");
    let attempts = api.get("/v1/jobs/pulled/attempts?queue=q")?.expect(200)?;
    let ends: Vec<_> = attempts["attempts"]
        .as_array()
        .map(|all| all.iter().map(|attempt| attempt["end"].clone()).collect())
        .unwrap_or_default();
    ensure!(ends == [json!("timed_out"), json!("succeeded")], "{ends:?}");
    Ok(Ended::Passed)
}

/// The receiver answers while the server is stopped, longer than the timeout of the job: one
/// success is recorded, whether the answer counts or the attempt is repeated.
pub(crate) fn a_pause_in_the_middle_of_a_delivery_records_one_success() -> Result<Ended> {
    let server = Server::start()?;
    let receiver = Receiver::start()?;
    let mut api = server.api();
    for n in 0..20 {
        let job = json!({"id": format!("j{n}"), "url": receiver.url("/?slow=300"),
                         "timeout": "1s", "retry": {"delay": "0s"}});
        api.submit(&job)?;
    }
    receiver.wait_count(20, SOON)?;
    pause(&server, 2_500)?;
    for n in 0..20 {
        let id = format!("j{n}");
        let ended = api.ended(&id, SOON)?;
        ensure!(ended["state"] == "succeeded", "{ended}");
        let attempts = api.get(&format!("/v1/jobs/{id}/attempts"))?.expect(200)?;
        let all = attempts["attempts"].as_array().cloned().unwrap_or_default();
        let successes = all.iter().filter(|attempt| attempt["end"] == "succeeded").count();
        ensure!(successes == 1, "{all:?}");
        let arrivals = receiver.of(&id);
        ensure!(arrivals.len() == all.len(), "each delivery is an attempt: {arrivals:?} {all:?}");
        let grow = arrivals.windows(2).all(|pair| pair[0].token < pair[1].token);
        ensure!(grow, "tokens must grow: {arrivals:?}");
    }
    Ok(Ended::Passed)
}

/// Stops the process, and lets it go on.
fn pause(server: &Server, millis: u64) -> Result<()> {
    server.signal(Signal::STOP)?;
    clock::sleep_ms(millis);
    server.signal(Signal::CONT)
}
