//! Measures, not promises: run by hand, with `--ignored`, on a machine that does nothing else. Only
//! ratios of one run mean anything.

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hence_testkit::MariaDb;
use hence_testkit::suite::{self, Ended};

use crate::owner::Owner;

pub(crate) const CASES: [(&str, suite::Case); 2] = [
    ("speed_of_commits_and_of_plain_inserts", speed_of_commits_and_of_plain_inserts),
    ("speed_while_an_old_snapshot_is_open", speed_while_an_old_snapshot_is_open),
];

/// How long each row of the table is measured.
const ROUND: Duration = Duration::from_secs(5);

/// What a job carries.
const PAYLOAD: usize = 100;

#[expect(clippy::disallowed_methods, reason = "it measures real time")]
fn rate(span: Duration, mut work: impl FnMut() -> Result<u64>) -> Result<f64> {
    let begun = Instant::now();
    let mut rows = 0;
    while begun.elapsed() < span {
        rows += work()?;
    }
    Ok(rows as f64 / begun.elapsed().as_secs_f64())
}

#[expect(clippy::print_stdout, reason = "what was measured is what it is run for")]
fn show(text: &str) {
    println!("{text}");
}

/// Jobs put, against the same rows copied within the server, a statement for each batch.
fn speed_of_commits_and_of_plain_inserts() -> Result<Ended> {
    let server = MariaDb::start_with(&["innodb_log_file_size = 512M"])?;
    let url = server.database()?;
    let mut owner = Owner::of(&url)?;
    let mut report = String::new();
    for size in [1, 100, 1_000] {
        let put = rate(ROUND, || {
            let batch = owner.batch(size, PAYLOAD);
            owner.commit(&batch)?;
            Ok(size)
        })?;
        server.sql_in(&url, "CREATE OR REPLACE TABLE plain LIKE hence_jobs")?;
        server.sql_in(&url, "ALTER TABLE plain REMOVE PARTITIONING")?;
        // Within the server: without the wire and the client, as fast as it can. The delimiter is
        // for the client, which would part the procedure at its semicolons.
        let seconds = ROUND.as_secs();
        let copy = format!(
            "DELIMITER $$\nCREATE OR REPLACE PROCEDURE copy() BEGIN DECLARE n BIGINT DEFAULT 0; \
             DECLARE until_at DATETIME(6) DEFAULT SYSDATE(6) + INTERVAL {seconds} SECOND; \
             WHILE SYSDATE(6) < until_at DO INSERT INTO plain SELECT slot, shard, queue, job_key, \
             id, name_hash, number, due_at, stamp + n, holds_key, attempts, submitted_at, \
             schedule, target, content_type, payload, body FROM hence_jobs LIMIT {size}; \
             SET n = n + 1; END WHILE; SELECT n * {size} / {seconds}; END$$",
        );
        server.sql_in(&url, &copy)?;
        let plain: f64 = server.sql_in(&url, "CALL copy()")?.parse()?;
        let share = put / plain;
        writeln!(
            report,
            "{size:>5} a batch: commit {put:>8.0}/s, plain {plain:>8.0}/s, {share:.2}"
        )?;
    }
    show(&report);
    Ok(Ended::Passed)
}

/// Jobs from end to end for a minute, with an old snapshot open.
fn speed_while_an_old_snapshot_is_open() -> Result<Ended> {
    let server = MariaDb::start_with(&["innodb_log_file_size = 512M"])?;
    let url = server.database()?;
    let mut owner = Owner::of(&url)?;
    let old = "START TRANSACTION WITH CONSISTENT SNAPSHOT; SELECT SLEEP(600)";
    let address = url.split('@').nth(1).and_then(|rest| rest.split('/').next());
    let (host, port) = address.and_then(|it| it.split_once(':')).context("an address")?;
    let mut session = Command::new("mariadb");
    session.args(["--no-defaults", "-uroot", "-h", host, "-P", port, "-e", old]);
    let mut session = session.stdout(Stdio::null()).spawn()?;
    let mut number = 0;
    for tenth in 1..=6 {
        let whole = rate(Duration::from_secs(10), || {
            let numbers = number..number + 100;
            number += 100;
            let put = owner.batch(100, PAYLOAD);
            owner.commit(&put)?;
            let granted = owner.granted(numbers.clone());
            owner.commit(&granted)?;
            let done = owner.succeeded(numbers, 3_600);
            owner.commit(&done)?;
            Ok(100)
        })?;
        let length = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS \
                      WHERE VARIABLE_NAME = 'INNODB_HISTORY_LIST_LENGTH'";
        let length = server.sql(length)?;
        let due = rate(Duration::from_secs(1), || owner.numbers().map(|_| 1).map_err(Into::into))?;
        show(&format!(
            "{} s: {whole:.0} jobs/s, history list {length}, {due:.0} reads of what is due/s",
            tenth * 10
        ));
    }
    session.kill()?;
    session.wait()?;
    Ok(Ended::Passed)
}
