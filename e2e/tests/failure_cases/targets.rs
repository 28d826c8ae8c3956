//! Cases about those who receive.

use std::time::Duration;

use anyhow::{Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Receiver, Server, server};
use serde_json::json;

const SOON: Duration = Duration::from_secs(20);

/// A receiver that says no, a worker that says no, a command that fails: none of it is a success.
pub(crate) fn case_16_a_failure_is_not_acknowledged() -> Result<Ended> {
    let server = Server::start()?;
    let receiver = Receiver::start()?;
    let mut api = server.api();
    let retry = json!({"max_attempts": 3, "delay": "100ms", "jitter_percent": 0});
    for (id, path) in
        [("flaky", "/?fail=2"), ("refused", "/?status=503"), ("moved", "/?status=302")]
    {
        api.submit(&json!({"id": id, "url": receiver.url(path), "retry": retry}))?;
    }
    let flaky = api.ended("flaky", SOON)?;
    ensure!(flaky["state"] == "succeeded" && receiver.of("flaky").len() == 3, "{flaky}");
    for id in ["refused", "moved"] {
        let job = api.ended(id, SOON)?;
        ensure!(job["state"] == "dead" && job["finish"]["reason"].is_string(), "{job}");
        ensure!(receiver.of(id).len() == 3, "{id} is tried as often as its producer asked");
    }
    for pair in receiver.of("refused").windows(2) {
        let waited = pair[1].at_us - pair[0].ended_us.unwrap_or_default();
        ensure!(waited >= 100_000, "tried again after {waited} us");
    }
    api.submit(&json!({"id": "command", "queue": "q", "retry": {"max_attempts": 1}}))?;
    let url = format!("http://{}", server.address());
    server::hence(&["--server", &url, "work", "q", "--once", "--", "sh", "-c", "exit 3"])?;
    ensure!(api.ended("command?queue=q", SOON)?["state"] == "dead");
    Ok(Ended::Passed)
}

/// A target that never answers is given up after the job's timeout, and holds up nobody else.
pub(crate) fn case_22_a_hanging_target_times_out() -> Result<Ended> {
    let server = Server::start()?;
    let receiver = Receiver::start()?;
    let mut api = server.api();
    let retry = json!({"max_attempts": 2, "delay": "100ms", "jitter_percent": 0});
    for n in 0..20 {
        api.submit(&json!({
            "id": format!("hangs-{n}"), "url": receiver.url("/?hang=1"), "timeout": "500ms",
            "retry": retry,
        }))?;
    }
    for n in 0..20 {
        api.submit(&json!({"id": format!("fine-{n}"), "url": receiver.url("/")}))?;
    }
    for n in 0..20 {
        let fine = receiver.wait_for(&format!("fine-{n}"), 1, Duration::from_secs(10))?;
        ensure!(fine[0].attempt == 1, "{fine:?}");
    }
    for n in 0..20 {
        let job = api.ended(&format!("hangs-{n}"), SOON)?;
        ensure!(job["state"] == "dead", "{job}");
        let arrivals = receiver.of(&format!("hangs-{n}"));
        ensure!(arrivals.len() == 2, "as many attempts as asked for: {arrivals:?}");
        let (one, next) = (&arrivals[0], &arrivals[1]);
        ensure!(
            one.ended_us.is_some_and(|end| end <= next.at_us),
            "closed before the next: {one:?}"
        );
    }
    let attempts = api.get("/v1/jobs/hangs-0/attempts")?.expect(200)?;
    ensure!(attempts["attempts"][0]["end"] == "timed_out", "{attempts}");
    Ok(Ended::Passed)
}
