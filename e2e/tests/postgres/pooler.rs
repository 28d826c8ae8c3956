//! Behind PgBouncer in transaction mode: every transaction may get another connection, nothing can
//! be prepared for later, and nobody can be notified.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Receiver, Server};
use hence_testkit::{PgBouncer, Postgres};
use serde_json::json;

use crate::{SOON, on};

/// Jobs in the load.
const JOBS: usize = 600;

/// Letters that are written one after the other.
const LETTERS: usize = 10;

pub(crate) fn a_pooler_in_transaction_mode_loses_nothing() -> Result<Ended> {
    let postgres = Postgres::start_with(&[])?;
    let database = postgres.database()?;
    let pooler = PgBouncer::start(&postgres)?;
    let url = format!("{}?pooler=transaction", pooler.url_of(&database)?);
    let server = Server::start_with(on(&url))?;
    let receiver = Receiver::start()?;
    let lived = (|| {
        load(&server, &receiver, &pooler)?;
        letters(&postgres, &database, &receiver)
    })();
    server.explain(lived)?;
    // A session setting of ours would be somebody else's next.
    let shown = postgres.sql_in(&pooler.url_of(&database)?, "SHOW statement_timeout")?;
    ensure!(shown == "0", "a connection was left with statement_timeout = {shown}");
    Ok(Ended::Passed)
}

/// Jobs are submitted and delivered, while the pooler is killed once. Each is delivered once.
fn load(server: &Server, receiver: &Receiver, pooler: &PgBouncer) -> Result<()> {
    let mut api = server.api();
    let url = receiver.url("/");
    for batch in 0..JOBS / 50 {
        if batch == JOBS / 100 {
            pooler.kill()?;
            pooler.restart()?;
        }
        let job = |nth| json!({"id": format!("j{batch}-{nth}"), "in": "200ms", "url": url});
        let jobs: Vec<_> = (0..50).map(job).collect();
        api.post("/v1/jobs", &json!({ "jobs": jobs }))?.expect(207)?;
    }
    receiver.wait_count(JOBS, SOON)?;
    for batch in 0..JOBS / 50 {
        for nth in 0..50 {
            let id = format!("j{batch}-{nth}");
            let job = api.ended(&id, SOON)?;
            ensure!(job["state"] == "succeeded" && job["attempts"] == 1, "{job}");
        }
    }
    ensure!(receiver.count() == JOBS, "{} deliveries of {JOBS} jobs", receiver.count());
    Ok(())
}

/// Nobody tells of letters, and they are seen soon all the same.
fn letters(postgres: &Postgres, database: &str, receiver: &Receiver) -> Result<()> {
    let begun = Instant::now();
    for nth in 0..LETTERS {
        let id = format!("letter-{nth}");
        let letter = json!({"id": id, "url": receiver.url("/")});
        postgres.sql_in(database, &format!("SELECT hence.hence_add('{letter}')"))?;
        receiver.wait_for(&id, 1, SOON)?;
    }
    let each = begun.elapsed() / LETTERS as u32;
    println!("behind a pooler: {each:.1?} from before a letter is written to its delivery");
    // It is looked four times a second; without that, it would be after thirty seconds.
    ensure!(each < Duration::from_secs(3), "a letter takes {each:.1?}");
    Ok(())
}

pub(crate) fn a_pooler_that_was_not_told_of_is_refused() -> Result<Ended> {
    let postgres = Postgres::start_with(&[])?;
    let pooler = PgBouncer::start(&postgres)?;
    let url = pooler.url_of(&postgres.database()?)?;
    let mut server = Server::prepare(on(&url))?;
    server.spawn()?;
    let status = server.wait_end(SOON)?;
    ensure!(status.code() == Some(2), "{status}:\n{}", server.log_tail());
    ensure!(server.log().contains("say pooler=transaction"), "{}", server.log_tail());
    Ok(Ended::Passed)
}
