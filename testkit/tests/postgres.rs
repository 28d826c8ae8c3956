//! A private PostgreSQL server does what tests want of it.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use hence_testkit::suite::Ended;
use hence_testkit::{Fault, PgBouncer, Postgres, Proxy, until};

hence_testkit::cases!(
    two_run_side_by_side_with_their_own_settings,
    what_was_committed_outlives_kill_9,
    a_paused_server_says_nothing_until_it_goes_on,
    a_start_that_fails_shows_the_log,
    nothing_is_left_behind,
    a_killed_test_leaves_nothing_behind,
    a_standby_has_what_was_committed_and_takes_over,
    pgbouncer_shares_connections_between_transactions,
    a_commit_whose_answer_is_lost_took_effect,
);

fn two_run_side_by_side_with_their_own_settings() -> Result<Ended> {
    let one = Postgres::start_with(&["work_mem = '1234kB'"])?;
    let two = Postgres::start_with(&[])?;
    ensure!(one.sql("SHOW work_mem")? == "1234kB");
    ensure!(two.sql("SHOW work_mem")? == "4MB");
    let (a, b) = (one.database()?, one.database()?);
    ensure!(a != b && a.starts_with("postgres://postgres@127.0.0.1:"), "{a} {b}");
    ensure!(one.sql("SHOW fsync; SHOW server_encoding")? == "on\nUTF8");
    Ok(Ended::Passed)
}

fn what_was_committed_outlives_kill_9() -> Result<Ended> {
    let server = Postgres::start_with(&[])?;
    let url = server.url();
    server.sql("CREATE TABLE t AS SELECT 7 AS x")?;
    server.kill()?;
    ensure!(server.sql("SELECT 1").is_err(), "a dead server answers");
    server.restart()?;
    ensure!(server.sql("SELECT x FROM t")? == "7" && server.url() == url);
    server.restart()?;
    ensure!(server.sql("SELECT x FROM t")? == "7");
    Ok(Ended::Passed)
}

fn a_paused_server_says_nothing_until_it_goes_on() -> Result<Ended> {
    let server = Postgres::start_with(&[])?;
    server.pause()?;
    // The kernel accepts, nobody answers.
    let url = format!("{}?connect_timeout=2", server.url());
    let silent = Command::new("psql").args([&url, "-c", "SELECT 1"]).output()?;
    ensure!(!silent.status.success(), "a paused server answers");
    server.resume()?;
    ensure!(server.sql("SELECT 1")? == "1");
    Ok(Ended::Passed)
}

fn a_start_that_fails_shows_the_log() -> Result<Ended> {
    let Err(error) = Postgres::start_with(&["no_such_setting = 1"]) else {
        anyhow::bail!("it started")
    };
    let text = format!("{error:#}");
    // Anything else that is wrong here is said as well, as a skip or a failure.
    if error.is::<hence_testkit::Missing>() {
        return Err(error);
    }
    ensure!(text.contains("no_such_setting"), "{text}");
    Ok(Ended::Passed)
}

fn nothing_is_left_behind() -> Result<Ended> {
    let server = Postgres::start_with(&[])?;
    let (home, port) = server.socket()?;
    ensure!(home.is_dir());
    drop(server);
    ensure!(!home.exists(), "{} is still there", home.display());
    let gone = until(Duration::from_secs(5), || TcpStream::connect(("127.0.0.1", port)).err());
    ensure!(gone.is_some(), "somebody still listens");
    Ok(Ended::Passed)
}

/// Runs itself a second time, and kills that.
fn a_killed_test_leaves_nothing_behind() -> Result<Ended> {
    const HOME_GOES_TO: &str = "HENCE_TESTKIT_HOME_GOES_TO";
    if let Some(file) = std::env::var_os(HOME_GOES_TO) {
        let server = Postgres::start_with(&[])?;
        std::fs::write(file, server.socket()?.0.display().to_string())?;
        loop {
            std::thread::park();
        }
    }
    drop(Postgres::start_with(&[])?); // skips here when it cannot run
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("home");
    let mut test = Command::new(std::env::current_exe()?);
    test.args(["--exact", "a_killed_test_leaves_nothing_behind"]).env(HOME_GOES_TO, &file);
    let mut test = test.spawn()?;
    let home = until(Duration::from_mins(1), || {
        std::fs::read_to_string(&file).ok().filter(|text| !text.is_empty()).map(PathBuf::from)
    });
    test.kill()?;
    test.wait()?;
    let home = home.expect("the other one starts");
    let gone = until(Duration::from_secs(10), || (!home.exists()).then_some(()));
    ensure!(gone.is_some(), "{} is still there", home.display());
    Ok(Ended::Passed)
}

fn a_standby_has_what_was_committed_and_takes_over() -> Result<Ended> {
    let primary = Postgres::start_with(&[])?;
    let standby = primary.standby()?;
    primary.sql("CREATE TABLE t AS SELECT 7 AS x")?;
    ensure!(standby.sql("INSERT INTO t VALUES (8)").is_err(), "a standby takes writes");
    primary.kill()?;
    standby.promote()?;
    ensure!(standby.sql("INSERT INTO t VALUES (8); SELECT count(*) FROM t")? == "2");
    Ok(Ended::Passed)
}

fn pgbouncer_shares_connections_between_transactions() -> Result<Ended> {
    let server = Postgres::start_with(&[])?;
    let bouncer = PgBouncer::start(&server)?;
    let url = bouncer.url_of(&server.url())?;
    let backend = || server.sql_in(&url, "SELECT pg_backend_pid()");
    ensure!(backend()? == backend()?, "two clients, one after the other, got two backends");
    bouncer.kill()?;
    ensure!(backend().is_err(), "a dead pgbouncer answers");
    bouncer.restart()?;
    ensure!(backend().is_ok());
    Ok(Ended::Passed)
}

fn a_commit_whose_answer_is_lost_took_effect() -> Result<Ended> {
    let server = Postgres::start_with(&[])?;
    server.sql("CREATE TABLE t (x INT)")?;
    let proxy = Proxy::before(&server.url())?;
    let url = proxy.url_of(&server.url());
    for (fault, rows) in
        [(Fault::BeforeMessage("COMMIT".into()), "0"), (Fault::AfterMessage("COMMIT".into()), "1")]
    {
        proxy.arm(fault.clone());
        let ended = server.sql_in(&url, "BEGIN; INSERT INTO t VALUES (1); COMMIT");
        ensure!(ended.is_err(), "{fault:?}: {ended:?}");
        let count = || server.sql("SELECT count(*) FROM t").ok().filter(|count| count == rows);
        ensure!(until(Duration::from_secs(10), count).is_some(), "{fault:?}");
    }
    Ok(Ended::Passed)
}
