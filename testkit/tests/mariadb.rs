//! A private MariaDB server does what tests want of it.

use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use hence_testkit::suite::Ended;
use hence_testkit::{Galera, MariaDb, Missing, until};

hence_testkit::cases!(
    two_run_side_by_side_with_their_own_settings,
    what_was_committed_outlives_kill_9,
    a_paused_server_goes_on,
    a_start_that_fails_shows_the_log,
    nodes_of_a_cluster_have_the_same,
);

fn two_run_side_by_side_with_their_own_settings() -> Result<Ended> {
    let one = MariaDb::start_with(&["max_connections = 77"])?;
    let two = MariaDb::start_with(&[])?;
    ensure!(one.sql("SELECT @@max_connections")? == "77");
    ensure!(two.sql("SELECT @@max_connections")? == "151");
    let (a, b) = (one.database()?, one.database()?);
    ensure!(a != b && a.starts_with("mysql://root@127.0.0.1:"), "{a} {b}");
    ensure!(one.sql_in(&a, "SHOW TABLES")?.is_empty());
    ensure!(one.sql("SELECT @@innodb_flush_log_at_trx_commit, @@sync_binlog")? == "1\t0");
    Ok(Ended::Passed)
}

fn what_was_committed_outlives_kill_9() -> Result<Ended> {
    let server = MariaDb::start_with(&[])?;
    let url = server.database()?;
    server.sql_in(&url, "CREATE TABLE t (x INT) ENGINE = InnoDB; INSERT INTO t VALUES (7)")?;
    server.kill()?;
    ensure!(server.sql("SELECT 1").is_err(), "a dead server answers");
    server.restart()?;
    ensure!(server.sql_in(&url, "SELECT x FROM t")? == "7");
    server.configure(&["max_connections = 78"])?;
    server.restart()?;
    ensure!(server.sql_in(&url, "SELECT x, @@max_connections FROM t")? == "7\t78");
    Ok(Ended::Passed)
}

fn a_paused_server_goes_on() -> Result<Ended> {
    let server = MariaDb::start_with(&[])?;
    server.pause()?;
    let url = server.url();
    let address = url.trim_start_matches("mysql://root@").trim_end_matches("/mysql");
    // The kernel accepts; the greeting does not come.
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_millis(300)))?;
    let silent = std::io::Read::read(&mut stream, &mut [0; 1]);
    ensure!(silent.is_err(), "a paused server speaks: {silent:?}");
    server.resume()?;
    let answer = until(Duration::from_secs(10), || server.sql("SELECT 1").ok());
    ensure!(answer.as_deref() == Some("1"));
    Ok(Ended::Passed)
}

fn a_start_that_fails_shows_the_log() -> Result<Ended> {
    match MariaDb::start_with(&["no_such_setting = 1"]) {
        Ok(_) => bail!("it started"),
        Err(error) if error.is::<Missing>() => Err(error),
        Err(error) => {
            let text = format!("{error:#}");
            ensure!(text.contains("no_such_setting") || text.contains("no-such-setting"), "{text}");
            Ok(Ended::Passed)
        }
    }
}

fn nodes_of_a_cluster_have_the_same() -> Result<Ended> {
    let cluster = Galera::start(3)?;
    let url = cluster.database()?;
    ensure!(url.matches("127.0.0.1:").count() == 3, "{url}");
    let at = |node| cluster.url_at(node, &url);
    let make = "CREATE TABLE t (x INT PRIMARY KEY) ENGINE = InnoDB; INSERT INTO t VALUES (7)";
    cluster.node(0).sql_in(&at(0)?, make)?;
    let read = "SET SESSION wsrep_sync_wait = 1; SELECT x FROM t";
    ensure!(cluster.node(2).sql_in(&at(2)?, read)? == "7");
    cluster.node(0).kill()?;
    cluster.wait_for(1, 2)?;
    cluster.node(1).sql_in(&at(1)?, "INSERT INTO t VALUES (8)")?;
    ensure!(cluster.node(2).sql_in(&at(2)?, read)? == "7\n8");
    Ok(Ended::Passed)
}
