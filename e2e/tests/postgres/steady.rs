//! In steady running the store is written and not read: the next jobs of every queue are in memory.
//! The database says so itself, by its own counters.
//!
//! `HENCE_STEADY_SECS=600` makes it ten minutes long.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Api, Server, clock};
use hence_testkit::Postgres;
use serde_json::{Value, json};

use crate::{SOON, on};

/// How long the database is watched.
const SECONDS: u64 = 30;

/// How long it is watched while jobs are looked up on purpose: longer than a connection waits
/// before it tells what it did.
const NAMED_FOR: Duration = Duration::from_secs(5);

/// Jobs that must have ended before it is watched.
const WARM: u64 = 500;

/// Jobs that must end in each second that it is watched, or nothing was shown: a tenth of what a
/// small and busy machine does.
const JOBS_A_SECOND_MIN: u64 = 30;

/// How often tables of jobs may be looked into: to sweep, and to turn an era. Thousands of jobs end
/// in a minute.
const SCANS_A_MINUTE_MAX: u64 = 200;

/// Jobs in one request, and between two of them.
const BATCH: u64 = 30;
const BATCH_EVERY_MS: u64 = 80;

const WORKERS: u64 = 2;

/// How often a statement may be run.
#[derive(Clone, Copy, Debug)]
enum Often {
    /// As often as there are commits.
    Commits,
    /// By the clock, whatever the load: at most so many times in a minute.
    PerMinute(u64),
    /// When an era turns, every five minutes: at most so many times.
    Turns(u64),
}
use Often::{Commits, PerMinute, Turns};

/// Everything that may be run, by how it begins. What is not here may not. None of the statements
/// of commits reads a job.
const ALLOWED: &[(&str, Often, &str)] = &[
    ("BEGIN", Commits, "a transaction"),
    ("COMMIT", Commits, "a transaction"),
    ("SELECT hence.fence(", Commits, "the fence"),
    ("SELECT * FROM hence.shards WHERE shard = in_shard", Commits, "in the fence: the shard"),
    ("SELECT stamp FROM hence.commits", Commits, "in the fence: the last commit"),
    ("INSERT INTO hence.jobs", Commits, "new jobs"),
    ("INSERT INTO hence.gone", Commits, "jobs that have left their place"),
    ("INSERT INTO hence.history", Commits, "jobs that have ended"),
    ("INSERT INTO hence.attempts", Commits, "attempts that were not the last: given back"),
    ("INSERT INTO hence.commits", Commits, "counts and leases"),
    ("COPY hence.", Commits, "many of these rows at once, after a pause"),
    ("WITH held AS", PerMinute(90), "the tenure is renewed"),
    ("SELECT id, (extract(", PerMinute(10), "letters are looked for"),
    ("WITH swept AS", PerMinute(20), "what was kept long enough goes"),
    ("SELECT pg_advisory_xact_lock(", Turns(50), "one node at a time changes tables"),
    ("SELECT c.relname", Turns(50), "which partitions there are"),
    ("CREATE TABLE hence.", Turns(200), "a partition"),
    ("ALTER TABLE hence.", Turns(200), "a partition"),
    ("SET LOCAL lock_timeout", Turns(50), "a partition goes"),
    ("SET ", Turns(20), "a turn needs one more connection, which is new"),
    ("DROP TABLE", Turns(50), "a partition goes"),
    ("SELECT min(near_from)", Turns(50), "which partitions are over"),
    ("SELECT near_from, near_until, era FROM hence.shards", Turns(200), "where rows lie"),
    ("SELECT s.near_from", Turns(5), "where rows lie"),
    ("UPDATE hence.shards SET", Turns(100), "where rows lie"),
    ("WITH RECURSIVE q(queue)", Turns(200), "late and far jobs are moved, in portions"),
    ("SELECT stamp, next_number", Turns(5), "the commits of the era, to fold them"),
    ("SELECT t.nth, j.stamp", Turns(5), "which of the last leases are over, all at once"),
    ("DELETE FROM hence.acknowledged", Turns(5), "what nobody can repeat any more"),
    ("ROLLBACK", Turns(50), "another node was faster, or a partition is in use"),
    ("SELECT pg_stat_statements_reset", PerMinute(2), "this test"),
    ("SELECT relname, ", PerMinute(2), "this test"),
];

/// What is in the database's counters: how often each statement was run.
type Counters = BTreeMap<String, u64>;

pub(crate) fn steady_work_reads_no_jobs() -> Result<Ended> {
    let given = std::env::var("HENCE_STEADY_SECS").ok().and_then(|seconds| seconds.parse().ok());
    let watched = Duration::from_secs(given.unwrap_or(SECONDS));
    let postgres = Postgres::start_with(&[
        "shared_preload_libraries = 'pg_stat_statements'",
        // Also what functions run.
        "pg_stat_statements.track = 'all'",
    ])?;
    let database = Database { url: postgres.database()?, postgres };
    database.sql("CREATE EXTENSION pg_stat_statements")?;
    let server = Server::start_with(on(&database.url))?;
    let work = Work::default();
    let address = server.address();
    let result = std::thread::scope(|scope| {
        scope.spawn(|| work.produce(address));
        for _ in 0..WORKERS {
            scope.spawn(|| work.work(address));
        }
        let result = watch(&database, &work, watched);
        work.over.store(true, Ordering::Relaxed);
        result
    });
    server.explain(result)?;
    Ok(Ended::Passed)
}

fn watch(database: &Database, work: &Work, watched: Duration) -> Result<()> {
    work.until_done(WARM).context("the load does not begin")?;
    let Seen { statements, scans, done } = database.during(work, watched)?;
    let found = judge(&statements, watched);
    ensure!(found.is_empty(), "not steady: {found:#?}");
    let most = SCANS_A_MINUTE_MAX * watched.as_secs().div_ceil(60);
    ensure!(scans <= most, "tables of jobs were looked into {scans} times, not {most}");
    let least = JOBS_A_SECOND_MIN * watched.as_secs();
    ensure!(done >= least, "only {done} jobs ended in {watched:?}");
    // Names that producers choose have to be looked up: this is what a read looks like.
    work.named.store(true, Ordering::Relaxed);
    let named = database.during(work, NAMED_FOR)?;
    let found = judge(&named.statements, NAMED_FOR);
    let noticed = found.iter().any(|finding| finding.contains("FROM hence.jobs"));
    ensure!(noticed, "jobs were looked up by their names, and this was found: {found:#?}");
    let scans = named.scans;
    ensure!(scans > SCANS_A_MINUTE_MAX, "and tables were looked into {scans} times only");
    Ok(())
}

/// What was run and is not in the table, or was run more often than it may be.
fn judge(seen: &Counters, watched: Duration) -> Vec<String> {
    let (minutes, turns) = (watched.as_secs().div_ceil(60), watched.as_secs() / 300 + 1);
    let most = |text: &str| {
        let row = ALLOWED.iter().find(|(start, ..)| text.starts_with(start));
        row.map_or(0, |(_, often, _)| match often {
            Commits => u64::MAX,
            PerMinute(times) => times * minutes,
            Turns(times) => times * turns,
        })
    };
    let too_often = seen.iter().filter(|(text, calls)| **calls > most(text));
    too_often.map(|(text, calls)| format!("{calls} times, not {}: {text}", most(text))).collect()
}

/// What works, and how much was done.
#[derive(Default)]
struct Work {
    over: AtomicBool,
    /// Whether jobs get their names from the producer.
    named: AtomicBool,
    done: AtomicU64,
}

impl Work {
    /// Submits batches until it is over.
    fn produce(&self, address: SocketAddr) {
        let mut api = Api::new(address);
        for batch in 0.. {
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            let job = |nth: u64| {
                let mut job = json!({"queue": "steady", "in": format!("{}ms", nth * 50)});
                if self.named.load(Ordering::Relaxed) {
                    job["id"] = format!("named-{batch}-{nth}").into();
                }
                job
            };
            let jobs: Vec<Value> = (0..BATCH).map(job).collect();
            let answer = api.post("/v1/jobs", &json!({ "jobs": jobs }));
            assert_eq!(answer.expect("an answer").status, 207);
            clock::sleep_ms(BATCH_EVERY_MS);
        }
    }

    /// Takes what is due and says that it is done, until it is over.
    fn work(&self, address: SocketAddr) {
        let mut api = Api::new(address);
        while !self.over.load(Ordering::Relaxed) {
            let request = json!({"worker": "w", "queue": "steady", "max": 100, "wait": "500ms"});
            let leased = api.lease(&request).expect("leases");
            if leased.is_empty() {
                continue;
            }
            let acks: Vec<Value> =
                leased.iter().map(|job| json!({"token": job["token"]})).collect();
            let answer = api.post("/v1/leases/ack", &json!({ "acks": acks })).expect("an answer");
            let answer = answer.expect(207).expect("one answer for each");
            self.done.fetch_add(answer["done"].as_u64().unwrap_or_default(), Ordering::Relaxed);
        }
    }

    /// Waits until so many more jobs have ended.
    fn until_done(&self, more: u64) -> Option<()> {
        let wanted = self.done.load(Ordering::Relaxed) + more;
        clock::until(SOON, || (self.done.load(Ordering::Relaxed) >= wanted).then_some(()))
    }
}

/// What was seen for a while.
struct Seen {
    statements: Counters,
    /// How often tables of jobs were looked into.
    scans: u64,
    /// Jobs that ended.
    done: u64,
}

struct Database {
    url: String,
    postgres: Postgres,
}

impl Database {
    fn sql(&self, text: &str) -> Result<String> {
        self.postgres.sql_in(&self.url, text)
    }

    /// What is run while work goes on for so long, and how many jobs end meanwhile.
    fn during(&self, work: &Work, watched: Duration) -> Result<Seen> {
        let before = work.done.load(Ordering::Relaxed);
        self.sql("SELECT pg_stat_statements_reset()")?;
        let mut scans = self.scans()?;
        // Time is what is given to it: there is nothing to wait for.
        let until = Instant::now() + watched;
        clock::until(watched + SOON, || (Instant::now() >= until).then_some(()));
        let statements = self.statements()?;
        let done = work.done.load(Ordering::Relaxed) - before;
        let since = |(table, now): (String, u64)| now - scans.remove(&table).unwrap_or_default();
        let scans = self.scans()?.into_iter().map(since).sum();
        println!("{watched:?}: {done} jobs ended, tables of jobs were looked into {scans} times");
        for (text, calls) in &statements {
            println!("{calls:>8}  {}", text.chars().take(90).collect::<String>());
        }
        Ok(Seen { statements, scans, done })
    }

    /// How often each statement was run, all white space made one.
    fn statements(&self) -> Result<Counters> {
        let rows = self.sql(
            "SELECT calls, regexp_replace(query, '\\s+', ' ', 'g') FROM pg_stat_statements s \
             JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = current_database()",
        )?;
        let mut counters = Counters::new();
        for row in rows.lines() {
            let (calls, text) = row.split_once('|').with_context(|| row.to_owned())?;
            *counters.entry(text.to_owned()).or_default() += calls.parse::<u64>()?;
        }
        Ok(counters)
    }

    /// How often tables of jobs were looked into.
    fn scans(&self) -> Result<Counters> {
        let rows = self.sql(
            "SELECT relname, seq_scan + coalesce(idx_scan, 0) FROM pg_stat_user_tables \
             WHERE schemaname = 'hence' AND relname ~ '^(jobs|gone|history|attempts)'",
        )?;
        let read = |row: &str| -> Result<(String, u64)> {
            let (table, scans) = row.split_once('|').with_context(|| row.to_owned())?;
            Ok((table.to_owned(), scans.parse()?))
        };
        rows.lines().map(read).collect()
    }
}
