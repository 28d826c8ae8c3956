//! A run of a few jobs, in which every write, and then every sync, fails once.

use std::time::Duration;

use anyhow::{Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Build, Receiver, Server, Setup, clock, server};
use hence_fail::Point;
use serde_json::json;

use crate::case::{Action, Armed, Report, environment};

/// More failures than a short run has writes: a bound, so that a mistake here ends.
const RUNS_MAX: u64 = 500;

/// Fewer would mean that the run was not one.
const RUNS_MIN: u64 = 15;

const SOON: Duration = Duration::from_secs(10);

/// EIO at the first, the second, … until a run comes to its end without: after each, what was
/// acknowledged is there, and nothing was acknowledged after the failure.
pub(crate) fn every_one_fails(point: Point) -> Result<Ended> {
    for at in 1..RUNS_MAX {
        if !fails_once(Armed { point, action: Action::Error, at })? {
            println!("{}: EIO at each of {} in turn", point.name(), at - 1);
            ensure!(at > RUNS_MIN, "only {} of {}", at - 1, point.name());
            return Ok(Ended::Passed);
        }
    }
    anyhow::bail!("a short run has fewer than {RUNS_MAX} of {}", point.name())
}

/// False: the run ended before so many.
fn fails_once(armed: Armed) -> Result<bool> {
    let home = tempfile::tempdir()?;
    let report = home.path().join("report");
    let env = environment(Some(armed), &report);
    let setup = Setup { build: Build::Failing, env, ..Setup::default() };
    let mut server = Server::prepare(setup)?;
    let receiver = Receiver::start()?;
    let result = short_run(&mut server, &receiver, armed, &report);
    server.explain(result.map_err(|error| error.context(armed.spec())))
}

fn short_run(
    server: &mut Server,
    receiver: &Receiver,
    armed: Armed,
    report: &std::path::Path,
) -> Result<bool> {
    let fired = || !Report::read(report).fired.is_empty();
    let mut accepted = Vec::new();
    server.spawn()?;
    if server.wait_ready().is_ok() {
        for n in 0..8 {
            let id = format!("j{n}");
            let job = json!({"id": id, "in": "10ms", "url": receiver.url("/")});
            // A fault in the background is found by the commit that follows it, not sooner.
            let Ok(answer) = server.api().post("/v1/jobs", &job) else { break };
            if answer.status != 201 {
                ensure!(answer.status == 503, "{answer:?}");
                break;
            }
            accepted.push(id);
        }
        clock::until(SOON, || {
            (receiver.count() >= accepted.len() || server.has_ended()).then_some(())
        });
        // Gives the background time to come to its own writes, and a commit to find out.
        clock::until(Duration::from_millis(300), || server.has_ended().then_some(()));
        if fired() && !server.has_ended() {
            drop(server.api().post("/v1/jobs", &json!({"id": "last", "in": "1h", "queue": "q"})));
        }
    }
    // The end of a run writes as well.
    let status = if fired() { server.wait_end(SOON)? } else { server.stop(SOON)? };
    if !fired() {
        ensure!(status.code() == Some(0), "stopped with {status}");
        return Ok(false);
    }
    // What fails while it is made ready for later, when all the rest has ended, harms nobody.
    let unneeded = status.code() == Some(0) && server.log().contains("/segment-");
    ensure!(status.code() == Some(74) || unneeded, "{}: ended with {status}", armed.spec());
    server.set_env(environment(None, report));
    server.restart()?;
    for id in &accepted {
        receiver.wait_for(id, 1, SOON)?;
    }
    let status = server.stop(SOON)?;
    ensure!(status.code() == Some(0), "in the end it stopped with {status}");
    Ok(true)
}

/// What is released knows nothing of fail points: not even the name of the variable is in it.
pub(crate) fn normal_build() -> Result<Ended> {
    for (build, expected) in [(Build::Normal, false), (Build::Failing, true)] {
        let bytes = std::fs::read(server::binary(build))?;
        let found = bytes.windows(10).any(|window| window == b"HENCE_FAIL");
        ensure!(found == expected, "{build:?}: HENCE_FAIL is in it: {found}");
    }
    Ok(Ended::Passed)
}
