//! A delivery reaches its receiver or not, and its end is recorded or not: the four cases of the
//! runbook, on the real binary and a real database that can be cut off.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Receiver, Server, Setup, cases, clock};
use hence_testkit::{MariaDb, Proxy};
use serde_json::{Value, json};

/// A debug build on a busy machine, and the tenure of a server that was killed.
const SOON: Duration = Duration::from_secs(30);

cases!(
    case_a_it_arrived_and_that_is_recorded,
    case_b_it_did_not_arrive_and_that_is_recorded,
    case_c_it_arrived_and_the_database_was_away,
    case_c_it_arrived_and_the_process_was_killed,
    case_d_neither,
);

/// A server whose database can be cut off.
struct Scene {
    // In the order in which they end.
    server: Server,
    proxy: Proxy,
    receiver: Receiver,
    _database: MariaDb,
}

impl Scene {
    fn start() -> Result<Self> {
        let database = MariaDb::start_with(&[])?;
        let url = database.database()?;
        let proxy = Proxy::before(&url)?;
        let args = vec!["--store".to_owned(), proxy.url_of(&url)];
        let server = Server::start_with(Setup { args, ..Setup::default() })?;
        Ok(Scene { server, proxy, receiver: Receiver::start()?, _database: database })
    }

    /// The job in its end, and its attempts.
    fn ended(&self) -> Result<(Value, Value)> {
        let mut api = self.server.api();
        let job = api.ended("j", SOON)?;
        let attempts = api.get("/v1/jobs/j/attempts")?.expect(200)?["attempts"].clone();
        Ok((job, attempts))
    }

    /// Submits a job that its receiver has for a while before it answers, and waits for it to
    /// arrive.
    fn at_the_receiver(&self) -> Result<()> {
        let url = self.receiver.url("/?slow=500");
        self.server.api().submit(&json!({"id": "j", "url": url}))?;
        self.receiver.wait_for("j", 1, SOON)?;
        Ok(())
    }

    /// Waits until the receiver has answered.
    fn answered(&self) -> Result<()> {
        let answered = || (self.receiver.open() == 0).then_some(());
        clock::until(SOON, answered).context("the receiver has not answered")
    }
}

fn case_a_it_arrived_and_that_is_recorded() -> Result<Ended> {
    let scene = Scene::start()?;
    scene.at_the_receiver()?;
    let (job, attempts) = scene.ended()?;
    ensure!(job["state"] == "succeeded" && attempts[0]["end"] == "succeeded", "{job} {attempts}");
    ensure!(scene.receiver.count() == 1, "{:?}", scene.receiver.arrivals());
    Ok(Ended::Passed)
}

/// Dead, with the reason; delivered once somebody has mended the cause and said so.
fn case_b_it_did_not_arrive_and_that_is_recorded() -> Result<Ended> {
    let scene = Scene::start()?;
    let url = scene.receiver.url("/?fail=1");
    let job = json!({"id": "j", "url": url, "retry": {"max_attempts": 1}});
    scene.server.api().submit(&job)?;
    let (job, attempts) = scene.ended()?;
    ensure!(job["state"] == "dead" && attempts[0]["end"] == "failed", "{job} {attempts}");
    let reason = attempts[0]["reason"].as_str().unwrap_or_default();
    ensure!(reason.contains("500"), "it says why: {attempts}");
    scene.server.api().post("/v1/jobs/j/replay", &json!({}))?.expect(200)?;
    scene.receiver.wait_for("j", 2, SOON)?;
    let (job, _) = scene.ended()?;
    ensure!(job["state"] == "succeeded", "{job}");
    Ok(Ended::Passed)
}

/// The process remembers what it could not record, and nothing is sent twice.
fn case_c_it_arrived_and_the_database_was_away() -> Result<Ended> {
    let scene = Scene::start()?;
    scene.at_the_receiver()?;
    scene.proxy.refuse();
    scene.answered()?;
    scene.proxy.open();
    let (job, attempts) = scene.ended()?;
    ensure!(job["state"] == "succeeded" && attempts[0]["end"] == "succeeded", "{job} {attempts}");
    ensure!(scene.receiver.count() == 1, "{:?}", scene.receiver.arrivals());
    Ok(Ended::Passed)
}

/// Nobody knows that it arrived: it is sent again, so that the receiver can tell.
fn case_c_it_arrived_and_the_process_was_killed() -> Result<Ended> {
    let mut scene = Scene::start()?;
    scene.at_the_receiver()?;
    scene.proxy.refuse();
    scene.answered()?;
    scene.server.kill()?;
    scene.proxy.open();
    scene.server.restart()?;
    let arrivals = scene.receiver.wait_for("j", 2, SOON)?;
    ensure!(arrivals[0].delivery_id == arrivals[1].delivery_id, "one delivery: {arrivals:?}");
    ensure!(arrivals[0].token < arrivals[1].token, "another lease: {arrivals:?}");
    let (job, attempts) = scene.ended()?;
    ensure!(attempts[0]["end"] == "unknown", "{attempts}");
    ensure!(job["state"] == "succeeded" && attempts[1]["end"] == "succeeded", "{job} {attempts}");
    ensure!(scene.receiver.count() == 2, "{:?}", scene.receiver.arrivals());
    Ok(Ended::Passed)
}

/// Nothing is sent that could not be recorded before.
fn case_d_neither() -> Result<Ended> {
    let mut scene = Scene::start()?;
    let due_us = (clock::now_ms() + 1_000) * 1_000;
    let job = json!({"id": "j", "at": due_us / 1_000, "url": scene.receiver.url("/")});
    scene.server.api().submit(&job)?;
    scene.proxy.refuse();
    let long_due = clock::until(SOON, || (clock::now_us() > due_us + 500_000).then_some(()));
    long_due.context("the clock stands still")?;
    ensure!(scene.receiver.count() == 0, "it was sent: {:?}", scene.receiver.arrivals());
    scene.server.kill()?;
    scene.proxy.open();
    scene.server.restart()?;
    scene.receiver.wait_for("j", 1, SOON)?;
    let (job, attempts) = scene.ended()?;
    ensure!(job["state"] == "succeeded" && job["attempts"] == 1, "{job} {attempts}");
    ensure!(scene.receiver.count() == 1, "{:?}", scene.receiver.arrivals());
    Ok(Ended::Passed)
}
