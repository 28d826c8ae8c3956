//! A server that dies, a wire that is cut, an owner that stands still: what was acknowledged is
//! there, once, and what was not can be repeated.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use futures::executor::block_on;
use futures::future::join_all;
use hence_core::change::Change;
use hence_core::job::Outcome;
use hence_store::{ErrorKind, Pressure, ShardBatch, Store, StoreError};
use hence_store_sql::limits::{COPY_ROWS_MIN, READS_WAITING_MAX};
use hence_store_sql::postgres::PostgresStore;
use hence_testkit::suite::{self, Ended};
use hence_testkit::{Postgres, until};

use crate::proxy::{Mishap, Proxy};
use crate::support::{
    Case, Owner, PATIENCE, SHARD, at, finished, fresh_schema, job, open, put, short_slots, waiting,
};

pub(crate) const CASES: [(&str, suite::Case); 8] = [
    ("a_server_killed_under_load_loses_nothing", a_server_killed_under_load_loses_nothing),
    ("connections_ended_under_load_lose_nothing", connections_ended_under_load_lose_nothing),
    ("a_commit_whose_answer_is_lost_is_repeated", a_commit_whose_answer_is_lost_is_repeated),
    ("an_owner_that_stands_still_is_fenced", an_owner_that_stands_still_is_fenced),
    ("reads_wait_for_a_connection_within_bounds", reads_wait_for_a_connection_within_bounds),
    ("a_full_disk_is_told_and_passes", a_full_disk_is_told_and_passes),
    ("a_read_only_server_is_waited_for", a_read_only_server_is_waited_for),
    ("a_missing_right_is_named", a_missing_right_is_named),
];

/// Repeats the same batch until it is acknowledged, as an owner does.
pub(crate) fn insist(store: &PostgresStore, batch: &ShardBatch) -> Result<()> {
    let mut last = None;
    let done = until(PATIENCE, || match block_on(store.commit(vec![batch.clone()])) {
        Ok(()) => Some(Ok(())),
        Err(error) if error.is_retryable() => {
            last = Some(error);
            None
        }
        Err(error) => Some(Err(error)),
    });
    done.with_context(|| format!("no commit within {PATIENCE:?}: {last:?}"))?.context("commit")
}

/// Sends both at once; when one fails, both are made again in their order, as an owner does.
fn insist_on_both(store: &PostgresStore, batches: &[ShardBatch; 2]) -> Result<()> {
    let answers = block_on(join_all(batches.each_ref().map(|it| store.commit(vec![it.clone()]))));
    if answers.iter().all(Result::is_ok) {
        return Ok(());
    }
    batches.iter().try_for_each(|batch| insist(store, batch))
}

/// Two jobs, and the end of one of the pair before.
fn pair(number: u64) -> Vec<Change> {
    let mut changes = vec![put(2 * number, number as i64), put(2 * number + 1, 0)];
    if number > 1 {
        changes.push(finished(2 * number - 1, 0, Outcome::Succeeded, 1_000_000));
    }
    changes
}

/// Commits without end, while somebody hurts the server so many times.
fn under_load(store: &PostgresStore, times: u64, hurt: impl Fn() -> Result<()>) -> Result<u64> {
    let (done, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let load = scope.spawn(|| -> Result<()> {
            let mut owner = Owner::new(store)?;
            let mut last = 0;
            while !done.load(Ordering::SeqCst) {
                // Few rows and many, one commit sent behind the other.
                let batches = [1, COPY_ROWS_MIN as u64].map(|many| {
                    let numbers = last + 1..=last + many;
                    last += many;
                    owner.batch(numbers.flat_map(pair).collect())
                });
                insist_on_both(store, &batches)?;
                acknowledged.store(last, Ordering::SeqCst);
            }
            Ok(())
        });
        let hurting = (|| -> Result<()> {
            for _ in 0..times {
                let before = acknowledged.load(Ordering::SeqCst);
                let further =
                    || (acknowledged.load(Ordering::SeqCst) > before + 1_000).then_some(());
                until(PATIENCE, further).context("the load does not go on")?;
                hurt()?;
            }
            Ok(())
        })();
        done.store(true, Ordering::SeqCst);
        load.join().expect("the load did not panic")?;
        hurting
    })?;
    Ok(acknowledged.load(Ordering::SeqCst))
}

/// Every pair that was acknowledged is there, and once.
fn check(store: &PostgresStore, pairs: u64) -> Result<()> {
    let mut expected: Vec<u64> = vec![2 * pairs + 1];
    expected.extend((1..=pairs).map(|number| 2 * number));
    let found = waiting(store)?;
    ensure!(found == expected, "{} jobs wait where {} should", found.len(), expected.len());
    Ok(())
}

fn a_server_killed_under_load_loses_nothing() -> Result<Ended> {
    let server = Postgres::start_with(&[])?;
    let url = format!("{}?schema={}", server.url(), fresh_schema());
    let store = open(&url, short_slots(), at(0))?;
    let pairs = under_load(&store, 3, || {
        server.kill()?;
        server.restart()
    })?;
    check(&store, pairs)?;
    Ok(Ended::Passed)
}

fn connections_ended_under_load_lose_nothing() -> Result<Ended> {
    let server = Postgres::start_with(&["fsync = off"])?;
    let url = format!("{}?schema={}", server.url(), fresh_schema());
    let store = open(&url, short_slots(), at(0))?;
    let pairs = under_load(&store, 10, || {
        let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                   WHERE application_name = 'hence'";
        server.sql(sql).map(drop)
    })?;
    check(&store, pairs)?;
    Ok(Ended::Passed)
}

/// The store behind a wire, and the wire.
pub(crate) fn behind_a_wire(case: &Case) -> Result<(PostgresStore, Proxy)> {
    let port = case.url.split("127.0.0.1:").nth(1).and_then(|rest| rest.split('/').next());
    let port = port.and_then(|port| port.parse().ok()).context("the port of the server")?;
    let proxy = Proxy::to(port)?;
    let url = case.url.replace(&format!(":{port}/"), &format!(":{}/", proxy.port()));
    Ok((open(&url, short_slots(), at(0))?, proxy))
}

/// Few rows are sent in arrays, many are copied.
fn a_commit_whose_answer_is_lost_is_repeated() -> Result<Ended> {
    let case = Case::new()?;
    let (store, proxy) = behind_a_wire(&case)?;
    let mut owner = Owner::new(&store)?;
    let mut last = 0;
    for mishap in [Mishap::CutAfter, Mishap::CutBefore, Mishap::CutAfter, Mishap::CutAfter] {
        for many in [1, COPY_ROWS_MIN as u64] {
            let numbers = last + 1..=last + many;
            last += many;
            let batch = owner.batch(numbers.map(|number| put(number, 100)).collect());
            proxy.prepare(mishap);
            let lost = block_on(store.commit(vec![batch.clone()]));
            let kind = lost.map_err(|error| error.kind());
            ensure!(kind == Err(ErrorKind::Unavailable), "{mishap:?}, {many}: {kind:?}");
            insist(&store, &batch)?;
            ensure!(waiting(&store)? == (1..=last).collect::<Vec<_>>(), "{mishap:?}, {many}");
            let rows = case.count("SELECT count(*) FROM @jobs")?;
            ensure!(rows == last, "{mishap:?}, {many}: {rows} rows of {last} jobs");
        }
    }
    Ok(Ended::Passed)
}

/// Its last commit hangs in the wire, all but the end of it; another takes the shard over.
fn an_owner_that_stands_still_is_fenced() -> Result<Ended> {
    [1, COPY_ROWS_MIN as u64].into_iter().try_for_each(stand_still_with)?;
    Ok(Ended::Passed)
}

/// So many rows are in the commit that hangs.
fn stand_still_with(many: u64) -> Result<()> {
    let case = Case::new()?;
    let (paused, proxy) = behind_a_wire(&case)?;
    let mut owner = Owner::new(&paused)?;
    owner.commit(vec![put(1, 100)])?;
    let hanging = owner.batch((2..2 + many).map(|number| put(number, 100)).collect());
    proxy.prepare(Mishap::Hold);
    let answer = paused.commit(vec![hanging.clone()]);
    proxy.await_mishap();
    let other = case.open(short_slots())?;
    let taken = until(PATIENCE, || Owner::new(&other).ok()).context("nobody can take it over")?;
    ensure!(taken.epoch > owner.epoch);
    proxy.prepare(Mishap::CutBefore);
    let late = block_on(answer).map_err(|error| error.kind());
    // An era that turned just before lets the server refuse it and the store try again: that try
    // meets the fence.
    let refused = matches!(late, Err(ErrorKind::Unavailable | ErrorKind::Fenced));
    ensure!(refused, "the commit that hung: {late:?}");
    let fenced = until(PATIENCE, || match block_on(paused.commit(vec![hanging.clone()])) {
        Err(error) if error.is_retryable() => None,
        answer => Some(answer.map_err(|error| error.kind())),
    });
    ensure!(fenced == Some(Err(ErrorKind::Fenced)), "repeated: {fenced:?}");
    ensure!(waiting(&other)? == [1], "what was never acknowledged is there");
    Ok(())
}

fn reads_wait_for_a_connection_within_bounds() -> Result<Ended> {
    let case = Case::new()?;
    let store = open(&format!("{}&readers=1", case.url), short_slots(), at(0))?;
    let mut owner = Owner::new(&store)?;
    owner.commit(vec![put(1, 100)])?;
    let runtime = tokio::runtime::Runtime::new()?;
    let (client, connection) =
        runtime.block_on(tokio_postgres::connect(case.server_url(), tokio_postgres::NoTls))?;
    let _connection = runtime.spawn(connection);
    let lock = case.text("BEGIN; LOCK TABLE @attempts IN ACCESS EXCLUSIVE MODE");
    runtime.block_on(client.batch_execute(&lock))?;
    let beyond = 50;
    // One statement each: all of them come to their turn before a call has taken too long.
    let read = |_| store.attempts(SHARD, job(1).name.clone(), job(1).number);
    let reads: Vec<_> = (0..READS_WAITING_MAX + 1 + beyond).map(read).collect();
    // A commit goes on meanwhile: it has a connection of its own.
    owner.commit(vec![put(2, 100)])?;
    runtime.block_on(client.batch_execute("ROLLBACK"))?;
    let answers: Vec<Result<_, StoreError>> = block_on(join_all(reads));
    let refused = answers.iter().filter(|answer| answer.is_err()).count();
    ensure!(refused <= beyond + 1, "{refused} were refused where {beyond} are too many");
    ensure!(refused > 0, "nobody was refused");
    let kinds = answers.iter().filter_map(|answer| answer.as_ref().err());
    ensure!(kinds.clone().all(|error| error.kind() == ErrorKind::Unavailable));
    Ok(Ended::Passed)
}

fn a_full_disk_is_told_and_passes() -> Result<Ended> {
    let case = Case::new()?;
    let store = case.open(short_slots())?;
    let mut owner = Owner::new(&store)?;
    case.ask(
        "CREATE FUNCTION @full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         RAISE EXCEPTION 'could not extend file: No space left on device' \
         USING ERRCODE = '53100'; END $$",
    )?;
    for many in [1, COPY_ROWS_MIN as u64] {
        let numbers = 1_000 * many..1_001 * many;
        owner.commit(numbers.clone().map(|number| put(number, 100)).collect())?;
        case.ask(
            "CREATE TRIGGER full_disk BEFORE INSERT ON @gone FOR EACH ROW \
             EXECUTE FUNCTION @full()",
        )?;
        let end = |number| finished(number, 100, Outcome::Succeeded, 1_000_000);
        let batch = owner.batch(numbers.map(end).collect());
        let answer = block_on(store.commit(vec![batch.clone()])).map_err(|error| error.kind());
        ensure!(answer == Err(ErrorKind::Full), "{many}: {answer:?}");
        ensure!(store.pressure() == Pressure::Full, "{many}");
        case.ask("DROP TRIGGER full_disk ON @gone")?;
        insist(&store, &batch)?;
        ensure!(store.pressure() == Pressure::Normal, "{many}");
        ensure!(waiting(&store)?.is_empty(), "{many}");
        let rows = case.count("SELECT count(*) FROM @gone")?;
        ensure!(rows == many + u64::from(many > 1), "{many}: {rows} places were left");
    }
    Ok(Ended::Passed)
}

fn a_read_only_server_is_waited_for() -> Result<Ended> {
    let server = Postgres::start_with(&["fsync = off"])?;
    let url = format!("{}?schema={}", server.url(), fresh_schema());
    let store = open(&url, short_slots(), at(0))?;
    let mut owner = Owner::new(&store)?;
    server.sql("ALTER SYSTEM SET default_transaction_read_only = on")?;
    server.sql("SELECT pg_reload_conf()")?;
    let mut batch = owner.batch(vec![]);
    // The server may take a moment to hear of it.
    let refused = until(PATIENCE, || match block_on(store.commit(vec![batch.clone()])) {
        Ok(()) => {
            batch = owner.batch(vec![]);
            None
        }
        Err(error) => Some(error),
    });
    let refused = refused.context("the server still takes writes")?;
    ensure!(refused.kind() == ErrorKind::Unavailable, "{refused}");
    server.sql("ALTER SYSTEM RESET ALL")?;
    server.sql("SELECT pg_reload_conf()")?;
    insist(&store, &batch)?;
    owner.commit(vec![put(1, 100)])?;
    ensure!(waiting(&store)? == [1]);
    Ok(Ended::Passed)
}

fn a_missing_right_is_named() -> Result<Ended> {
    let case = Case::new()?;
    let role = fresh_schema().replace("store", "role");
    case.ask(&format!("CREATE ROLE {role} LOGIN"))?;
    let url = case.url.replace("postgres@", &format!("{role}@"));
    let error = open(&url, short_slots(), at(0)).err().context("it was opened")?;
    ensure!(error.kind() == ErrorKind::Unsupported, "{error}");
    ensure!(error.to_string().contains("GRANT CREATE ON DATABASE"), "{error}");
    // With a schema of its own it needs nothing else.
    case.ask(&format!("CREATE SCHEMA {} AUTHORIZATION {role}", case.schema()))?;
    let store = open(&url, short_slots(), at(0))?;
    Owner::new(&store)?.commit(vec![put(1, 100)])?;
    let found = block_on(store.get(SHARD, vec![job(1).name.clone()], at(0)))?;
    ensure!(found[0].is_some());
    Ok(Ended::Passed)
}
