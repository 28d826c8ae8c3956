//! The tables themselves: how few rows die, what people see, what damage is called, and how they
//! are made and taken back.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use futures::executor::block_on;
use hence_core::change::{Change, Place};
use hence_core::id::{HandlerName, Key, ScheduleId};
use hence_core::job::{Job, Occurrence, Outcome, Progress, Target};
use hence_core::ledger::{Fate, OccurrenceRecord};
use hence_core::queue::QueueSettings;
use hence_store::{ErrorKind, LedgerRequest, Store, StoreError, Tier};
use hence_store_sql::limits::COPY_ROWS_MIN;
use hence_store_sql::postgres::{self, Run};
use hence_testkit::Postgres;
use hence_testkit::suite::{self, Ended};

use crate::support::{
    Case, Owner, SHARD, at, finished, fresh_schema, granted, job, open, put, queue, retried,
    short_slots,
};

pub(crate) const CASES: [(&str, suite::Case); 7] = [
    ("hardly_a_row_dies_under_an_old_snapshot", hardly_a_row_dies_under_an_old_snapshot),
    ("rows_are_the_same_however_they_are_sent", rows_are_the_same_however_they_are_sent),
    ("people_see_jobs_in_their_states", people_see_jobs_in_their_states),
    ("damage_is_named_with_its_table_and_row", damage_is_named_with_its_table_and_row),
    ("migrations_go_up_and_down", migrations_go_up_and_down),
    ("a_store_of_another_version_is_refused", a_store_of_another_version_is_refused),
    ("the_tier_is_found_by_asking", the_tier_is_found_by_asking),
];

/// Rows that were changed or deleted and cannot be cleaned up yet.
pub(crate) const DEAD_ROWS: &str = "SELECT sum(s.n_dead_tup)::bigint \
     FROM pg_stat_user_tables s WHERE s.schemaname || '.' = '@'";

/// Ten thousand jobs are put, handed out and finished, while another session looks at an old state.
fn hardly_a_row_dies_under_an_old_snapshot() -> Result<Ended> {
    const BATCHES: u64 = 200;
    const JOBS: u64 = 50;
    let case = Case::new()?;
    let store = case.open(short_slots())?;
    let mut owner = Owner::new(&store)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let (client, connection) =
        runtime.block_on(tokio_postgres::connect(case.server_url(), tokio_postgres::NoTls))?;
    let _connection = runtime.spawn(connection);
    let old = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class";
    runtime.block_on(client.batch_execute(old))?;
    for batch in 0..BATCHES {
        let due = (batch * 50) as i64;
        let numbers = || (batch * JOBS + 1)..=(batch + 1) * JOBS;
        owner.commit(numbers().map(|number| put(number, due)).collect())?;
        owner.commit(vec![granted(numbers().map(|number| (number, due)), batch * JOBS)])?;
        let keep = due + 1_000;
        owner.commit(numbers().map(|n| finished(n, due, Outcome::Succeeded, keep)).collect())?;
        if batch % 20 == 0 {
            block_on(store.sweep(SHARD, at(due), 10_000))?;
        }
    }
    let seen = case.count(
        "SELECT sum(n_tup_ins)::bigint FROM pg_stat_user_tables s \
         WHERE s.schemaname || '.' = '@'",
    );
    let dead = case.count(DEAD_ROWS)?;
    runtime.block_on(client.batch_execute("ROLLBACK"))?;
    // One row of shards for each step of a turn; nothing for a job.
    ensure!(dead <= 100, "{dead} dead rows after {} jobs", BATCHES * JOBS);
    ensure!(seen? > 0, "the server counts nothing: the test shows nothing");
    Ok(Ended::Passed)
}

/// Many rows are copied, few are sent in arrays.
fn rows_are_the_same_however_they_are_sent() -> Result<Ended> {
    let jobs: Vec<Arc<Job>> = (1..=COPY_ROWS_MIN as u64).map(peculiar).collect();
    let puts = |job: &Arc<Job>| {
        let progress = Progress::fresh(at(job.number.0 as i64 * 300));
        Change::JobPut { job: Arc::clone(job), progress, replaces: None, revives: None }
    };
    let ends = |job: &Arc<Job>| {
        let due = job.number.0 as i64 * 300;
        let outcomes = [Outcome::Succeeded, Outcome::Dead, Outcome::Cancelled];
        let outcome = outcomes[job.number.0 as usize % 3];
        let mut end = finished(job.number.0, due, outcome, due + 2_000);
        if let Change::JobFinished { job: ended, finish, keep_payload, .. } = &mut end {
            *ended = Arc::clone(job);
            *keep_payload = outcome != Outcome::Succeeded;
            finish.reason = (outcome == Outcome::Dead).then(|| "a\0b".into());
        }
        end
    };
    let mut found = Vec::new();
    for size in [1, jobs.len()] {
        let case = Case::new()?;
        let store = case.open(short_slots())?;
        let mut owner = Owner::new(&store)?;
        for some in jobs.chunks(size) {
            owner.commit(some.iter().map(puts).collect())?;
        }
        let live = "SELECT slot, queue, key, id, name_hash, number, due_at, holds_key, attempts, \
             submitted_at, schedule, target, content_type, payload, body FROM @jobs \
             ORDER BY number";
        let mut rows = vec![case.ask(live)?];
        for some in jobs.chunks(size) {
            owner.commit(some.iter().map(ends).collect())?;
        }
        rows.push(case.ask("SELECT slot, due_at, number FROM @gone ORDER BY number")?);
        rows.push(case.ask(
            "SELECT slot, queue, key, id, name_hash, number, outcome, finished_at, keep_until, \
             due_at, attempts, submitted_at, schedule, target, content_type, reason, payload, \
             body, last_number, last_end, last_holder, last_started_at, last_ended_at, \
             last_attempt FROM @history ORDER BY number",
        )?);
        ensure!(rows.iter().all(|rows| rows.lines().count() > jobs.len() / 2), "{rows:?}");
        found.push(rows);
    }
    ensure!(found[0] == found[1], "one by one: {:?}\nat once: {:?}", found[0], found[1]);
    Ok(Ended::Passed)
}

/// A job with more or less of everything that has a column.
fn peculiar(number: u64) -> Arc<Job> {
    let mut job = (*job(number)).clone();
    let is = |rest| number % 5 == rest;
    job.name.key = is(1).then(|| Key::new("key ä").expect("a key"));
    job.payload.content_type = is(2).then(|| "text/\0".into());
    job.payload.bytes = vec![0xff; number as usize * 100].into();
    if is(3) {
        job.target = Target::Handler(HandlerName::new("mail").expect("a name"));
    }
    job.occurrence = is(4).then(|| Occurrence {
        schedule: ScheduleId::new("nightly").expect("a name"),
        at: at(number as i64),
    });
    Arc::new(job)
}

fn people_see_jobs_in_their_states() -> Result<Ended> {
    let case = Case::new()?;
    let store = case.open(short_slots())?;
    let mut owner = Owner::new(&store)?;
    // The server's clock judges here: long ago and far ahead are beyond doubt.
    let (past, future) = (-1_000_000_000_000, 3_000_000_000_000);
    owner.commit((1..=4).map(|number| put(number, past)).collect())?;
    owner.commit(vec![put(5, future), put(6, 500), granted([(2, past), (6, 500)], 1)])?;
    owner.commit(vec![retried(1, past, past + 1, 1)])?;
    owner.commit(vec![
        finished(3, past, Outcome::Succeeded, future),
        finished(4, past, Outcome::Dead, past + 5),
    ])?;
    let states = case
        .ask("SELECT string_agg(number || ' ' || state, ', ' ORDER BY number) FROM @hence_jobs")?;
    ensure!(
        states == "1 ready, 2 running, 3 succeeded, 5 scheduled, 6 running",
        "states: {states}"
    );
    let due = case.ask("SELECT due_at AT TIME ZONE 'UTC' FROM @hence_jobs WHERE number = 6")?;
    ensure!(due == "2026-09-10 00:26:40.5", "due: {due}");
    let holder = case.ask("SELECT holder FROM @hence_jobs WHERE number = 2")?;
    ensure!(holder == "worker 1", "holder: {holder}");
    let attempts = case.ask("SELECT count(*) FROM @hence_attempts")?;
    ensure!(attempts == "3", "attempts: {attempts}");
    let nodes = case.ask("SELECT node || ' ' || shards FROM @hence_nodes")?;
    ensure!(nodes == "node 1 1", "nodes: {nodes}");
    case.ask("SELECT * FROM @hence_schedules")?;
    Ok(Ended::Passed)
}

/// Reads what was damaged.
type Look<'a> = &'a dyn Fn() -> Result<(), StoreError>;

fn damage_is_named_with_its_table_and_row() -> Result<Ended> {
    let case = Case::new()?;
    let store = case.open(short_slots())?;
    let mut owner = Owner::new(&store)?;
    let schedule = ScheduleId::new("s").expect("a name");
    let record = OccurrenceRecord {
        schedule: schedule.clone(),
        first: at(0),
        last: at(0),
        count: 1,
        decided_at: at(0),
        fate: Fate::Coalesced,
    };
    let settings = Change::QueuePut { name: queue(), settings: QueueSettings::default() };
    owner.commit(vec![put(1, 100), put(2, 100), put(3, 100), settings])?;
    owner.commit(vec![retried(1, 100, 200, 1), Change::OccurrenceRecorded { record }])?;
    owner.commit(vec![finished(2, 100, Outcome::Succeeded, 9_000), granted([(3, 100)], 1)])?;
    let due = || block_on(store.due(SHARD, queue(), Place::FIRST, 10)).map(drop);
    let get = |n: u64| block_on(store.get(SHARD, vec![job(n).name.clone()], at(0))).map(drop);
    let attempts = || block_on(store.attempts(SHARD, job(1).name.clone(), job(1).number)).map(drop);
    let ledger =
        || block_on(store.occurrences(SHARD, LedgerRequest::newest(schedule.clone(), 9))).map(drop);
    let recover = || block_on(store.recover(SHARD)).map(drop);
    let rows: [(&str, &str, Look<'_>); 6] = [
        ("jobs SET body = body || '\\x00' WHERE number = 1", "jobs, row (shard 0, number 1)", &due),
        ("history SET body = '\\x02'", "history, row (shard 0, number 2)", &|| get(2)),
        ("attempts SET body = '\\x'", "attempts, row (shard 0, number 1)", &attempts),
        ("occurrences SET body = '\\xff'", "occurrences, row (shard 0, number 0)", &ledger),
        ("queues SET body = '\\x0202'", "queues, row \"main\"", &recover),
        (
            "commits SET lease_token = '{nonsense}' WHERE lease_token IS NOT NULL",
            "commits, row",
            &|| {
                // Another node, which has not read it yet.
                let other = case.open(short_slots()).expect("opened");
                block_on(other.due(SHARD, queue(), Place::FIRST, 10)).map(drop)
            },
        ),
    ];
    for (damage, name, read) in rows {
        case.ask(&format!("UPDATE @{damage}"))?;
        let error = read().err().with_context(|| format!("{damage} was not noticed"))?;
        let told = [ErrorKind::Corrupt, ErrorKind::Version].contains(&error.kind());
        ensure!(told && error.to_string().contains(name), "{damage}: {error}");
    }
    Ok(Ended::Passed)
}

fn migrations_go_up_and_down() -> Result<Ended> {
    let case = Case::new()?;
    let status = || block_on(postgres::status(&case.url)).map(|it| it.len());
    let migrate = |to, run| block_on(postgres::migrate_to(&case.url, to, run));
    ensure!(status()? == 0);
    let text = migrate(None, Run::Dry)?;
    ensure!(text.contains(&format!("CREATE TABLE {}.jobs", case.schema())), "{text}");
    ensure!(status()? == 0, "a dry run ran");
    migrate(Some(1), Run::Really)?;
    ensure!(status()? == 1);
    migrate(None, Run::Really)?;
    ensure!(status()? > 1 && migrate(None, Run::Really)?.is_empty());
    let store = case.open(short_slots())?;
    Owner::new(&store)?.commit(vec![put(1, 100)])?;
    drop(store);
    let text = migrate(Some(0), Run::Really)?;
    ensure!(text.contains("DROP TABLE") && status()? == 0, "{text}");
    let left = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                WHERE n.nspname || '.' = '@' AND c.relkind IN ('r', 'p', 'v') \
                AND c.relname <> 'migrations'";
    ensure!(case.count(left)? == 0, "tables are left");
    let store = case.open(short_slots())?;
    Owner::new(&store)?.commit(vec![put(1, 100)])?;
    Ok(Ended::Passed)
}

fn a_store_of_another_version_is_refused() -> Result<Ended> {
    let rows = [
        (
            "INSERT INTO @migrations SELECT max(version) + 1, 'later', 'x' FROM @migrations",
            "use a newer one",
        ),
        ("UPDATE @migrations SET checksum = 'x' WHERE version = 1", "another text"),
        ("DELETE FROM @migrations WHERE version = 1", "has a gap"),
    ];
    for (change, reason) in rows {
        let case = Case::new()?;
        drop(case.open(short_slots())?);
        case.ask(change)?;
        let error = open(&case.url, short_slots(), at(0)).err().context("it was opened")?;
        ensure!(error.kind() == ErrorKind::Version, "{change}: {error}");
        ensure!(error.to_string().contains(reason), "{change}: {error}");
    }
    Ok(Ended::Passed)
}

fn the_tier_is_found_by_asking() -> Result<Ended> {
    let rows = [
        (vec![], Tier::Durable, "flushed before every answer"),
        (vec!["fsync = off"], Tier::BestEffort, "fsync is off"),
        (vec!["synchronous_commit = off"], Tier::BestEffort, "synchronous_commit is off"),
    ];
    for (settings, tier, note) in rows {
        let server = Postgres::start_with(&settings)?;
        let url = format!("{}?schema={}", server.url(), fresh_schema());
        let found = open(&url, short_slots(), at(0))?.capabilities();
        ensure!(found.tier == tier && found.shared && found.persistent, "{settings:?}: {found:?}");
        ensure!(found.notes.iter().any(|it| it.contains(note)), "{settings:?}: {found:?}");
    }
    Ok(Ended::Passed)
}
