//! Measures, not promises: run by hand, with `--ignored`, on a machine that does nothing else. Only
//! ratios of one run mean anything.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::executor::block_on;
use hence_core::job::Outcome;
use hence_store::Store;
use hence_store_sql::Slots;
use hence_testkit::Postgres;
use hence_testkit::suite::{self, Ended};

use crate::support::{Owner, SHARD, at, finished, fresh_schema, granted, job, open, put};
use crate::tables::DEAD_ROWS;

pub(crate) const CASES: [(&str, suite::Case); 2] = [
    ("speed_of_commits_and_of_plain_inserts", speed_of_commits_and_of_plain_inserts),
    ("dead_rows_in_ten_minutes", dead_rows_in_ten_minutes),
];

/// How long each row of the table is measured.
const ROUND: Duration = Duration::from_secs(3);

#[expect(clippy::disallowed_methods, reason = "it measures real time")]
fn rate(mut work: impl FnMut() -> Result<u64>) -> Result<f64> {
    let begun = Instant::now();
    let mut rows = 0;
    while begun.elapsed() < ROUND {
        rows += work()?;
    }
    Ok(rows as f64 / begun.elapsed().as_secs_f64())
}

#[expect(clippy::print_stdout, reason = "what was measured is what it is run for")]
fn show(text: &str) {
    println!("{text}");
}

/// Jobs put, against the same columns in one statement with nothing else.
fn speed_of_commits_and_of_plain_inserts() -> Result<Ended> {
    let server = Postgres::start_with(&["shared_buffers = '512MB'", "max_wal_size = '4GB'"])?;
    let schema = fresh_schema();
    let url = format!("{}?schema={schema}", server.url());
    let store = open(&url, Slots::default(), at(0))?;
    let mut owner = Owner::new(&store)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let (client, connection) =
        runtime.block_on(tokio_postgres::connect(&server.url(), tokio_postgres::NoTls))?;
    let _connection = runtime.spawn(connection);
    let table = format!("CREATE TABLE plain (LIKE {schema}.jobs INCLUDING ALL)");
    runtime.block_on(client.batch_execute(&table))?;
    let insert = "INSERT INTO plain \
        (slot, shard, queue, key, id, name_hash, number, due_at, stamp, holds_key, attempts, \
        submitted_at, schedule, target, content_type, payload, body) \
        SELECT 1, 0, 'main', NULL, id, number, number, 1789000000000, 1, false, 0, \
        1789000000000, NULL, 'worker', NULL, payload, body \
        FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::bytea[]) \
        AS t(id, number, payload, body)";
    let insert = runtime.block_on(client.prepare(insert))?;
    let mut report = String::new();
    let mut number = 0_u64;
    for batch in [1_u64, 100, 1_000] {
        let plain = rate(|| {
            let numbers: Vec<i64> = (0..batch).map(|nth| (number + nth) as i64).collect();
            number += batch;
            let ids: Vec<String> = numbers.iter().map(|number| format!("job-{number}")).collect();
            let payloads: Vec<Vec<u8>> = numbers.iter().map(|n| n.to_be_bytes().to_vec()).collect();
            let bodies: Vec<Vec<u8>> = numbers.iter().map(|_| vec![7; 60]).collect();
            let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                [&ids, &numbers, &payloads, &bodies];
            Ok(runtime.block_on(client.execute(&insert, &values))?)
        })?;
        let engine = rate(|| {
            let changes = (0..batch).map(|nth| put(number + nth, 1_000)).collect();
            number += batch;
            owner.commit(changes)?;
            Ok(batch)
        })?;
        let share = engine / plain;
        writeln!(
            report,
            "{batch:>5} a batch: commit {engine:>8.0}/s, plain {plain:>8.0}/s, {share:.2}"
        )?;
    }
    let whole = rate(|| {
        let numbers = || number..number + 100;
        owner.commit(numbers().map(|it| put(it, 1_000)).collect())?;
        owner.commit(vec![granted(numbers().map(|it| (it, 1_000)), number)])?;
        let ends = numbers().map(|it| finished(it, 1_000, Outcome::Succeeded, 3_600_000));
        owner.commit(ends.collect())?;
        number += 100;
        Ok(100)
    })?;
    writeln!(report, "  100 a batch: put, granted and finished {whole:.0} jobs/s")?;
    for names in [1_usize, 100] {
        let mut next = 0;
        let found = rate(|| {
            let asked = (0..names).map(|_| {
                next += 1;
                job(next % number).name.clone()
            });
            block_on(store.get(SHARD, asked.collect(), at(0)))?;
            Ok(names as u64)
        })?;
        writeln!(report, "{names:>5} names at once: {found:.0} looked up/s")?;
    }
    show(&report);
    Ok(Ended::Passed)
}

/// A thousand jobs a second from end to end for ten minutes, with an old snapshot open.
#[expect(clippy::disallowed_methods, reason = "it measures real time")]
fn dead_rows_in_ten_minutes() -> Result<Ended> {
    const SECONDS: u64 = 600;
    let server = Postgres::start_with(&["max_wal_size = '4GB'"])?;
    let schema = fresh_schema();
    let url = format!("{}?schema={schema}", server.url());
    let store = Arc::new(open(&url, Slots::default(), at(0))?);
    let mut owner = Owner::new(&*store)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let (client, connection) =
        runtime.block_on(tokio_postgres::connect(&server.url(), tokio_postgres::NoTls))?;
    let _connection = runtime.spawn(connection);
    let old = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class";
    runtime.block_on(client.batch_execute(old))?;
    let begun = Instant::now();
    let count = DEAD_ROWS.replace('@', &format!("{schema}."));
    for second in 0..SECONDS {
        let now = second as i64 * 1_000;
        for tenth in 0..10_u64 {
            let first = second * 1_000 + tenth * 100 + 1;
            let due = now + tenth as i64 * 100;
            let numbers = || first..first + 100;
            owner.commit(numbers().map(|number| put(number, due)).collect())?;
            owner.commit(vec![granted(numbers().map(|number| (number, due)), first)])?;
            let ends = numbers().map(|it| finished(it, due, Outcome::Succeeded, due + 3_600_000));
            owner.commit(ends.collect())?;
        }
        if second % 10 == 0 {
            block_on(store.sweep(SHARD, at(now), 10_000))?;
        }
        if second % 60 == 59 {
            show(&format!("{} s: {} dead rows", second + 1, server.sql(&count)?));
        }
        // No faster than a thousand a second.
        let ahead = Duration::from_secs(second + 1).saturating_sub(begun.elapsed());
        std::thread::park_timeout(ahead);
    }
    show(&format!("after {:?}: {} dead rows", begun.elapsed(), server.sql(&count)?));
    Ok(Ended::Passed)
}
