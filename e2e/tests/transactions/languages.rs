//! The same story in four languages, on PostgreSQL and on MariaDB: an order and its job in one
//! transaction, another one rolled back, the work and its acknowledgement in one transaction, and a
//! second one that is refused.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hence_e2e::Server;
use hence_e2e::packages::run;
use hence_e2e::suite::Ended;
use hence_testkit::MariaDb;

use crate::packages;
use crate::scene::{SOON, Scene, on};

/// How long a program may take: some compile first.
const ENDS_WITHIN: Duration = Duration::from_mins(10);

pub(crate) fn python() -> Result<Ended> {
    plays_out(packages::python("orders.py")?)
}

pub(crate) fn go() -> Result<Ended> {
    plays_out(packages::go(".")?)
}

pub(crate) fn javascript() -> Result<Ended> {
    plays_out(packages::javascript("orders.mjs")?)
}

pub(crate) fn rust() -> Result<Ended> {
    plays_out(packages::rust("transactions"))
}

pub(crate) fn python_on_mysql() -> Result<Ended> {
    plays_out_on_mysql(packages::python("orders_mysql.py")?)
}

pub(crate) fn go_on_mysql() -> Result<Ended> {
    plays_out_on_mysql(packages::go("mysql")?)
}

pub(crate) fn javascript_on_mysql() -> Result<Ended> {
    plays_out_on_mysql(packages::javascript("orders_mysql.mjs")?)
}

pub(crate) fn rust_on_mysql() -> Result<Ended> {
    plays_out_on_mysql(packages::rust("transactions_mysql"))
}

fn plays_out(program: Command) -> Result<Ended> {
    let scene = Scene::start()?;
    let result = plays_out_in(&scene, program);
    scene.server.explain(result)?;
    Ok(Ended::Passed)
}

fn plays_out_in(scene: &Scene, program: Command) -> Result<()> {
    plays(&scene.server, &scene.database.url, program)?;
    let jobs = scene.sql("SELECT queue, id, state, attempts FROM hence.hence_jobs")?;
    ensure!(jobs == "mail|order-1|succeeded|1", "{jobs}");
    // `mails` is counted in the second transaction, too: that it is 1 shows the rollback.
    let orders = scene.sql("SELECT id, mailed, mails FROM orders")?;
    ensure!(orders == "1|t|1", "{orders}");
    scene.inbox_is_empty()?;
    let refused = scene.sql("SELECT reason, body FROM hence.inbox_refused")?;
    ensure!(refused.is_empty(), "{refused}");
    Ok(())
}

fn plays_out_on_mysql(program: Command) -> Result<Ended> {
    let database = MariaDb::start_with(&[])?;
    let url = database.database()?;
    let server = Server::start_with(on(&url))?;
    let result = plays(&server, &url, program).and_then(|()| {
        // As above.
        let rows = [
            (
                "SELECT queue, id, state, attempts FROM hence_jobs_view",
                "mail\torder-1\tsucceeded\t1",
            ),
            ("SELECT id, mailed, mails FROM orders", "1\t1\t1"),
            ("SELECT body FROM hence_inbox", ""),
            ("SELECT reason, body FROM hence_inbox_refused", ""),
        ];
        for (sql, expected) in rows {
            let found = database.sql_in(&url, sql)?;
            ensure!(found == expected, "{sql}: {found}");
        }
        Ok(())
    });
    server.explain(result)?;
    Ok(Ended::Passed)
}

/// Runs the program, and asks Hence what came of it.
fn plays(server: &Server, url: &str, mut program: Command) -> Result<()> {
    let address = format!("http://{}", server.address());
    program.env("DATABASE_URL", url).env("HENCE_SERVER", address);
    let started = Instant::now();
    let said = run(&mut program, ENDS_WITHIN)?;
    println!("{} ran for {:.1?}", program.get_program().display(), started.elapsed());
    ensure!(said.contains("leased") && said.contains("order-1"), "{said}");
    ensure!(said.contains("rolled back") && said.contains("acknowledged before"), "{said}");

    let mut api = server.api();
    let job = api.ended("order-1?queue=mail", SOON)?;
    ensure!(job["state"] == "succeeded" && job["attempts"] == 1, "{job}");
    ensure!(api.get("/v1/jobs/order-2?queue=mail")?.status == 404, "what was rolled back");
    Ok(())
}
