//! The same story in four languages: an order and its job in one transaction, another one rolled
//! back, the work and its acknowledgement in one transaction, and a second one that is refused.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hence_e2e::suite::Ended;

use crate::packages::{self, run};
use crate::scene::{SOON, Scene};

/// How long a program may take: some compile first.
const ENDS_WITHIN: Duration = Duration::from_mins(10);

pub(crate) fn python() -> Result<Ended> {
    plays_out(packages::python()?)
}

pub(crate) fn go() -> Result<Ended> {
    plays_out(packages::go()?)
}

pub(crate) fn javascript() -> Result<Ended> {
    plays_out(packages::javascript()?)
}

pub(crate) fn rust() -> Result<Ended> {
    plays_out(packages::rust())
}

fn plays_out(program: Command) -> Result<Ended> {
    let scene = Scene::start()?;
    let result = plays_out_in(&scene, program);
    scene.server.explain(result)?;
    Ok(Ended::Passed)
}

fn plays_out_in(scene: &Scene, mut program: Command) -> Result<()> {
    let server = format!("http://{}", scene.server.address());
    program.env("DATABASE_URL", &scene.database.url).env("HENCE_SERVER", server);
    let started = Instant::now();
    let said = run(&mut program, ENDS_WITHIN)?;
    println!("{} ran for {:.1?}", program.get_program().display(), started.elapsed());
    ensure!(said.contains("leased") && said.contains("order-1"), "{said}");
    ensure!(said.contains("rolled back") && said.contains("acknowledged before"), "{said}");

    let mut api = scene.server.api();
    let job = api.ended("order-1?queue=mail", SOON)?;
    ensure!(job["state"] == "succeeded" && job["attempts"] == 1, "{job}");
    let jobs = scene.sql("SELECT queue, id, state, attempts FROM hence.hence_jobs")?;
    ensure!(jobs == "mail|order-1|succeeded|1", "{jobs}");
    ensure!(api.get("/v1/jobs/order-2?queue=mail")?.status == 404, "what was rolled back");
    // `mails` is counted in the second transaction, too: that it is 1 shows the rollback.
    let orders = scene.sql("SELECT id, mailed, mails FROM orders")?;
    ensure!(orders == "1|t|1", "{orders}");
    scene.inbox_is_empty()?;
    let refused = scene.sql("SELECT reason, body FROM hence.inbox_refused")?;
    ensure!(refused.is_empty(), "{refused}");
    Ok(())
}
