//! A MariaDB server that dies, connections that are cut, rights and room that are missing; and a
//! cluster of servers.

mod cluster;
mod measure;
mod owner;
mod turn;

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hence_core::id::LetterId;
use hence_core::time::Millis;
use hence_store::{ErrorKind, Pressure, Store, StoreError, Tier};
use hence_store_sql::{Run, Slots, mysql};
use hence_testkit::suite::{self, Ended, run_trials, trial};
use hence_testkit::{Certificates, Fault, MariaDb, Proxy, until};
use owner::{Owner, open};
use tokio::runtime::Runtime;

/// What must hold.
const CASES: [(&str, suite::Case); 15] = [
    (
        "a_server_that_is_killed_under_load_loses_nothing",
        a_server_that_is_killed_under_load_loses_nothing,
    ),
    (
        "a_commit_without_an_answer_is_repeated_without_effect",
        a_commit_without_an_answer_is_repeated_without_effect,
    ),
    ("connections_that_are_killed_are_replaced", connections_that_are_killed_are_replaced),
    ("the_tier_is_what_the_server_answers", the_tier_is_what_the_server_answers),
    ("a_missing_right_is_answered_with_the_grant", a_missing_right_is_answered_with_the_grant),
    ("tls_is_spoken_and_the_certificate_checked", tls_is_spoken_and_the_certificate_checked),
    ("a_read_only_server_is_unavailable", a_read_only_server_is_unavailable),
    ("a_server_for_small_packets_is_refused", a_server_for_small_packets_is_refused),
    ("a_full_tablespace_is_told_and_forgotten", a_full_tablespace_is_told_and_forgotten),
    ("migrations_lead_up_and_down", migrations_lead_up_and_down),
    ("nodes_that_start_at_once_make_one_store", nodes_that_start_at_once_make_one_store),
    ("views_show_jobs_in_words", views_show_jobs_in_words),
    ("letters_are_part_of_the_callers_transaction", letters_are_part_of_the_callers_transaction),
    ("what_is_over_is_dropped_and_nothing_else", what_is_over_is_dropped_and_nothing_else),
    ("a_new_owner_does_not_walk_over_what_is_over", a_new_owner_does_not_walk_over_what_is_over),
];

fn main() -> ExitCode {
    let cases = CASES
        .into_iter()
        .chain(turn::CASES)
        .chain(cluster::CASES)
        .map(|(name, case)| trial(name.to_owned(), case));
    let measures = measure::CASES.into_iter();
    let measures =
        measures.map(|(name, case)| trial(name.to_owned(), case).with_ignored_flag(true));
    run_trials(cases.chain(measures).collect(), 2).exit_code()
}

/// How often the server dies while batches are committed, and how many are between.
const KILLS: u32 = 3;
const COMMITS_BETWEEN: u32 = 30;

fn a_server_that_is_killed_under_load_loses_nothing() -> Result<Ended> {
    let server = MariaDb::start_with(&[])?;
    let mut owner = Owner::of(&server.database()?)?;
    let commits = AtomicU32::new(0);
    let unknown = thread::scope(|scope| {
        let killing = scope.spawn(|| -> Result<()> {
            for kill in 1..=KILLS {
                let enough =
                    || (commits.load(Ordering::SeqCst) >= kill * COMMITS_BETWEEN).then_some(());
                until(Duration::from_mins(2), enough).context("commits do not go on")?;
                server.kill()?;
                server.restart()?;
            }
            Ok(())
        });
        let mut unknown = 0;
        while !killing.is_finished() {
            let batch = owner.batch(20, 100);
            unknown += owner.commit(&batch)?;
            commits.fetch_add(1, Ordering::SeqCst);
        }
        killing.join().expect("the one who kills does not panic")?;
        anyhow::Ok(unknown)
    })?;
    ensure!(unknown > 0, "{commits:?} commits, and none of them met a dead server");
    owner.check()?;
    Ok(Ended::Passed)
}

fn a_commit_without_an_answer_is_repeated_without_effect() -> Result<Ended> {
    let server = MariaDb::start()?;
    let url = server.database()?;
    let proxy = Proxy::before(&url)?;
    let mut owner = Owner::of(&proxy.url_of(&url))?;
    let first = owner.batch(1, 10);
    owner.commit(&first)?;
    let cut = ";\nCOMMIT".to_owned();
    for (fault, there) in
        [(Fault::AfterMessage(cut.clone()), true), (Fault::BeforeMessage(cut), false)]
    {
        let batch = owner.batch(3, 10);
        proxy.arm(fault.clone());
        let answer = owner.try_commit(&batch).map_err(|error| error.kind());
        ensure!(answer == Err(ErrorKind::Unavailable), "{fault:?}: {answer:?}");
        ensure!(proxy.happened(Duration::ZERO), "{fault:?} did not happen");
        let count = format!("SELECT COUNT(*) >= {} FROM hence_jobs", batch.next_number.0);
        let arrived = || server.sql_in(&url, &count).ok().filter(|answer| answer == "1");
        let arrived = until(Duration::from_secs(3), arrived).is_some();
        ensure!(arrived == there, "{fault:?}: written is {arrived}");
        ensure!(owner.commit(&batch)? == 0, "{fault:?}: the repetition fails");
        owner.check().with_context(|| format!("{fault:?}"))?;
    }
    Ok(Ended::Passed)
}

fn connections_that_are_killed_are_replaced() -> Result<Ended> {
    let server = MariaDb::start()?;
    let url = server.database()?;
    let mut owner = Owner::of(&url)?;
    for round in 0..3 {
        let batch = owner.batch(2, 10);
        owner.commit(&batch)?;
        owner.check()?;
        let ids = server.sql_in(
            &url,
            "SELECT id FROM information_schema.PROCESSLIST \
             WHERE db = DATABASE() AND id <> CONNECTION_ID()",
        )?;
        ensure!(ids.lines().count() >= 2, "a writer and a reader, not {ids:?}");
        for id in ids.lines() {
            server.sql(&format!("KILL {id}"))?;
        }
        owner.check().with_context(|| format!("round {round}: a read is tried again"))?;
        let batch = owner.batch(2, 10);
        owner.commit(&batch)?;
        owner.check()?;
    }
    Ok(Ended::Passed)
}

fn the_tier_is_what_the_server_answers() -> Result<Ended> {
    let rows: [(&[&str], Tier, &str); 4] = [
        (&[], Tier::Durable, "synced before every answer"),
        (
            &["innodb_flush_log_at_trx_commit = 2"],
            Tier::BestEffort,
            "innodb_flush_log_at_trx_commit is 2",
        ),
        (&["log_bin", "sync_binlog = 1"], Tier::Durable, "synced before every answer"),
        (&["log_bin", "sync_binlog = 0"], Tier::BestEffort, "sync_binlog is 0"),
    ];
    for (settings, tier, note) in rows {
        let server = MariaDb::start_with(settings)?;
        let found = open(&server.database()?)?.capabilities();
        ensure!(found.tier == tier, "{settings:?}: {found:?}");
        ensure!(found.notes.iter().any(|line| line.contains(note)), "{settings:?}: {found:?}");
        ensure!(found.engine == "mysql" && found.shared && found.persistent);
    }
    Ok(Ended::Passed)
}

/// A user with these rights on a new database, and its address.
fn user(server: &MariaDb, rights: &str) -> Result<String> {
    let url = server.database()?;
    let (start, database) = url.rsplit_once('/').context("an address has a database")?;
    server.sql(&format!(
        "CREATE OR REPLACE USER guest@'%' IDENTIFIED BY 'secret'; \
         GRANT {rights} ON {database}.* TO guest@'%'"
    ))?;
    let address = start.rsplit_once('@').map_or(start, |(_, address)| address);
    Ok(format!("mysql://guest:secret@{address}/{database}"))
}

fn refused<T>(answer: Result<T, StoreError>) -> Result<StoreError> {
    match answer {
        Ok(_) => bail!("it was taken"),
        Err(error) => Ok(error),
    }
}

fn a_missing_right_is_answered_with_the_grant() -> Result<Ended> {
    let server = MariaDb::start_with(&[])?;
    let url = user(&server, "SELECT")?;
    let error = refused(open(&url))?;
    ensure!(error.kind() == ErrorKind::Unsupported, "{error}");
    ensure!(error.to_string().contains("GRANT SELECT, INSERT"), "{error}");
    let wrong = refused(open(&url.replace("secret", "wrong")))?;
    ensure!(wrong.kind() == ErrorKind::Unsupported, "{wrong}");
    ensure!(!wrong.to_string().contains("wrong"), "{wrong}");
    let rights = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX, CREATE VIEW, \
                  CREATE ROUTINE, ALTER ROUTINE";
    let mut owner = Owner::of(&user(&server, rights)?)?;
    let batch = owner.batch(1, 10);
    owner.commit(&batch)?;
    owner.check()?;
    Ok(Ended::Passed)
}

fn tls_is_spoken_and_the_certificate_checked() -> Result<Ended> {
    let (ours, others) =
        (Certificates::for_host("localhost")?, Certificates::for_host("localhost")?);
    let server = MariaDb::start_with(&[
        &format!("ssl_cert = {}", ours.certificate().display()),
        &format!("ssl_key = {}", ours.key().display()),
    ])?;
    let url = user(&server, "ALL")?;
    server.sql("ALTER USER guest@'%' REQUIRE SSL")?;
    let named = url.replace("127.0.0.1", "localhost");
    let (trusted, distrusted) = (ours.authority(), others.authority());
    let with = |url: &str, authority: &Path| {
        format!("{url}?sslmode=verify-full&sslrootcert={}", authority.display())
    };
    let rows = [
        ("in the clear", format!("{named}?sslmode=disable"), Some(ErrorKind::Unsupported)),
        ("by TLS", with(&named, &trusted), None),
        ("of another authority", with(&named, &distrusted), Some(ErrorKind::Unavailable)),
        ("of another name", with(&url, &trusted), Some(ErrorKind::Unavailable)),
        (
            "of no public authority",
            format!("{named}?sslmode=require"),
            Some(ErrorKind::Unavailable),
        ),
    ];
    for (what, url, refused) in rows {
        let opened = Owner::of(&url).and_then(|mut owner| {
            let batch = owner.batch(1, 10);
            owner.commit(&batch)?;
            owner.check()
        });
        let kind = opened
            .as_ref()
            .err()
            .and_then(|error| Some(error.downcast_ref::<StoreError>()?.kind()));
        ensure!(kind == refused && opened.is_ok() == refused.is_none(), "{what}: {opened:?}");
    }
    Ok(Ended::Passed)
}

fn a_read_only_server_is_unavailable() -> Result<Ended> {
    let server = MariaDb::start_with(&[])?;
    let mut owner = Owner::of(&user(&server, "ALL")?)?;
    server.sql("SET GLOBAL read_only = 1")?;
    let batch = owner.batch(1, 10);
    let error = refused(owner.try_commit(&batch))?;
    ensure!(error.kind() == ErrorKind::Unavailable, "{error}");
    ensure!(error.to_string().contains("must lead to the primary"), "{error}");
    server.sql("SET GLOBAL read_only = 0")?;
    owner.commit(&batch)?;
    owner.check()?;
    Ok(Ended::Passed)
}

fn a_server_for_small_packets_is_refused() -> Result<Ended> {
    let server = MariaDb::start_with(&["max_allowed_packet = 4M"])?;
    let error = refused(open(&server.database()?))?;
    ensure!(error.kind() == ErrorKind::Unsupported, "{error}");
    ensure!(error.to_string().contains("set it to 16M or more"), "{error}");
    Ok(Ended::Passed)
}

fn a_full_tablespace_is_told_and_forgotten() -> Result<Ended> {
    let size =
        |megabytes: u32| format!("innodb_data_file_path = ibdata1:12M:autoextend:max:{megabytes}M");
    let server = MariaDb::start_with(&["innodb_file_per_table = OFF", &size(100)])?;
    let mut owner = Owner::of(&server.database()?)?;
    let mut left_out = None;
    for _ in 0..200 {
        let batch = owner.batch(1, 1_000_000);
        match owner.try_commit(&batch) {
            Ok(()) => ensure!(owner.store.pressure() == Pressure::Normal),
            Err(error) => {
                ensure!(error.kind() == ErrorKind::Full, "{error}");
                left_out = Some(batch);
                break;
            }
        }
    }
    let batch = left_out.context("200 megabytes fit into 100")?;
    ensure!(owner.store.pressure() == Pressure::Full);
    server.configure(&["innodb_file_per_table = OFF", &size(200)])?;
    server.kill()?;
    server.restart()?;
    owner.commit(&batch)?;
    ensure!(owner.store.pressure() == Pressure::Normal);
    owner.check()?;
    Ok(Ended::Passed)
}

fn migrations_lead_up_and_down() -> Result<Ended> {
    let server = MariaDb::start()?;
    let url = format!("{}?prefix=jobs_", server.database()?);
    let runtime = Runtime::new()?;
    let versions = || runtime.block_on(mysql::status(&url));
    let tables = || server.sql_in(url.split('?').next().unwrap_or_default(), "SHOW TABLES");
    ensure!(versions()?.is_empty());
    let text = runtime.block_on(mysql::migrate_to(&url, None, Run::Dry))?;
    ensure!(text.contains("CREATE TABLE IF NOT EXISTS jobs_jobs"), "{text}");
    ensure!(tables()?.is_empty(), "a dry run makes nothing");
    runtime.block_on(mysql::migrate_to(&url, None, Run::Really))?;
    ensure!(versions()?.len() == 5);
    drop(open(&url)?);
    runtime.block_on(mysql::migrate_to(&url, Some(0), Run::Really))?;
    ensure!(versions()?.is_empty() && tables()? == "jobs_migrations", "{}", tables()?);
    drop(open(&url)?);
    let spoilt = "UPDATE jobs_migrations SET checksum = 'other'";
    server.sql_in(url.split('?').next().unwrap_or_default(), spoilt)?;
    let error = refused(open(&url))?;
    ensure!(error.kind() == ErrorKind::Version, "{error}");
    Ok(Ended::Passed)
}

fn nodes_that_start_at_once_make_one_store() -> Result<Ended> {
    let server = MariaDb::start()?;
    let url = server.database()?;
    thread::scope(|scope| {
        let starts: Vec<_> = (0..4).map(|_| scope.spawn(|| open(&url).map(drop))).collect();
        for start in starts {
            start.join().expect("no start panics")?;
        }
        anyhow::Ok(())
    })?;
    ensure!(server.sql_in(&url, "SELECT COUNT(*) FROM hence_meta")? == "1");
    ensure!(server.sql_in(&url, "SELECT COUNT(*) FROM hence_shards")? == "1");
    Ok(Ended::Passed)
}

fn letters_are_part_of_the_callers_transaction() -> Result<Ended> {
    let server = MariaDb::start()?;
    let url = server.database()?;
    let owner = Owner::of(&url)?;
    let runtime = Runtime::new()?;
    let bodies = || -> Result<Vec<String>> {
        let letters = runtime.block_on(owner.store.letters(LetterId(0), 10))?;
        Ok(letters.iter().map(|it| String::from_utf8_lossy(&it.body).into_owned()).collect())
    };
    server.sql_in(&url, r#"START TRANSACTION; CALL hence_add('{"queue": "a"}'); ROLLBACK"#)?;
    ensure!(bodies()?.is_empty(), "what was rolled back was never there");
    server.sql_in(&url, r#"START TRANSACTION; CALL hence_add('{"queue": "b"}'); COMMIT"#)?;
    ensure!(bodies()? == [r#"{"add":{"queue": "b"}}"#], "{:?}", bodies()?);
    ensure!(server.sql_in(&url, "CALL hence_add('[1]')").is_err(), "a job is an object");
    let job = r#"{"token": "0.3.9", "queue": "q", "key": "k", "id": "x", "number": 7, "a": 1}"#;
    server.sql_in(&url, &format!("CALL hence_ack('{job}', '[1]')"))?;
    let done = r#"{"done":{"queue":"q","key":"k","id":"x","number":7,"answer":{"result":[1]}}}"#;
    ensure!(bodies()?[1] == done, "{:?}", bodies()?);
    let again = server.sql_in(&url, &format!("CALL hence_ack('{job}', NULL)"));
    let refused = again.as_ref().is_err_and(|error| format!("{error:#}").contains("before"));
    ensure!(refused, "a job is acknowledged once: {again:?}");
    ensure!(server.sql_in(&url, "CALL hence_ack('{}', NULL)").is_err(), "it must be a job");
    ensure!(bodies()?.len() == 2, "what was refused left nothing behind");
    Ok(Ended::Passed)
}

fn views_show_jobs_in_words() -> Result<Ended> {
    let server = MariaDb::start()?;
    let url = server.database()?;
    let mut owner = Owner::of(&url)?;
    let batch = owner.batch(2, 10);
    owner.commit(&batch)?;
    let grant = owner.granted(0..1);
    owner.commit(&grant)?;
    let jobs = server.sql_in(
        &url,
        "SELECT queue, id, state = 'running', due_at, payload_bytes FROM hence_jobs_view \
         ORDER BY number",
    )?;
    let expected = "default\tjob-0\t1\t2026-09-10 00:26:40.000000\t10\n\
                    default\tjob-1\t0\t2026-09-10 00:26:40.001000\t10";
    ensure!(jobs == expected, "{jobs}");
    let leases = "SELECT queue, number, holder, attempt FROM hence_leases_view";
    ensure!(server.sql_in(&url, leases)? == "default\t0\tsomebody\t1");
    ensure!(server.sql_in(&url, "SELECT node, shards FROM hence_nodes_view")? == "a test\t1");
    for view in ["attempts", "schedules"] {
        server.sql_in(&url, &format!("SELECT * FROM hence_{view}_view"))?;
    }
    Ok(Ended::Passed)
}

fn what_is_over_is_dropped_and_nothing_else() -> Result<Ended> {
    let server = MariaDb::start()?;
    let url = server.database()?;
    let second = Millis::from_secs(1);
    let slots = Slots { width: second, ahead: 3, behind: second, era: second };
    let mut owner = Owner::with(&url, slots)?;
    let count = |table: &str| server.sql_in(&url, &format!("SELECT COUNT(*) FROM hence_{table}"));
    let oldest = || {
        let name = "CAST(SUBSTRING(PARTITION_NAME, 2) AS SIGNED)";
        server.sql_in(
            &url,
            &format!(
                "SELECT MIN({name}) FROM information_schema.PARTITIONS \
                 WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'hence_gone' AND {name} > 0"
            ),
        )
    };
    let put = owner.batch(100, 10);
    owner.commit(&put)?;
    let done = owner.succeeded(0..50, 2);
    owner.commit(&done)?;
    let granted = owner.granted(60..62);
    owner.commit(&granted)?;
    ensure!(count("gone")? == "50" && count("history")? == "50" && count("commits")? == "3");
    let before = oldest()?;
    owner.keep_up(10)?;
    ensure!(oldest()? > before, "the oldest slot is still {before}");
    for (table, rows) in [("gone", "0"), ("history", "0"), ("jobs", "50"), ("commits", "1")] {
        ensure!(count(table)? == rows, "{table} has {} rows, not {rows}", count(table)?);
    }
    owner.keep_up(20)?;
    let waiting: Vec<u64> = (50..60).chain(62..100).collect();
    ensure!(owner.numbers()? == waiting, "{:?}", owner.numbers()?);
    ensure!(owner.running()? == [60, 61], "{:?}", owner.running()?);
    let rest = owner.succeeded(50..100, 60);
    owner.commit(&rest)?;
    ensure!(count("jobs")? == "0" && owner.running()?.is_empty() && owner.numbers()?.is_empty());
    Ok(Ended::Passed)
}

/// Rows that the server has looked at so far.
fn rows_looked_at(server: &MariaDb) -> Result<u64> {
    let status = server.sql("SHOW GLOBAL STATUS LIKE 'Handler_read%'")?;
    let count = |line: &str| line.split_once('\t')?.1.parse::<u64>().ok();
    Ok(status.lines().filter_map(count).sum())
}

/// Jobs that are over when the shard is taken over, and rows that may be looked at to find the ten
/// that wait.
const OVER: u64 = 5_000;
const LOOKED_AT_MAX: u64 = 200;

fn a_new_owner_does_not_walk_over_what_is_over() -> Result<Ended> {
    let server = MariaDb::start_with(&[])?;
    let url = server.database()?;
    let mut owner = Owner::of(&url)?;
    // As every owner does first.
    ensure!(owner.numbers()?.is_empty());
    for numbers in (0..OVER).step_by(500).map(|first| first..first + 500) {
        let put = owner.batch(500, 10);
        owner.commit(&put)?;
        let granted = owner.granted(numbers.clone());
        owner.commit(&granted)?;
        let done = owner.succeeded(numbers, 3_600);
        owner.commit(&done)?;
    }
    let put = owner.batch(10, 10);
    owner.commit(&put)?;
    let waiting: Vec<u64> = (OVER..OVER + 10).collect();
    // Commits are folded when the era turns: that must not forget where jobs begin.
    for turn in ["before the turn of an era", "after it"] {
        let new = Owner::of(&url)?;
        let before = rows_looked_at(&server)?;
        ensure!(new.numbers()? == waiting, "{turn}: {:?}", new.numbers()?);
        let rows = rows_looked_at(&server)? - before;
        ensure!(rows < LOOKED_AT_MAX, "{turn}: {rows} rows were looked at to find ten jobs");
        new.keep_up(600)?;
    }
    Ok(Ended::Passed)
}
