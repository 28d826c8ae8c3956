//! In steady running the database is written and not read: what is near is in memory.
//!
//! The binary works on MariaDB for a while; jobs are submitted, pushed and pulled, and end. Then
//! the server is asked how often a row of each table was fetched, and how often an index was looked
//! into at all. [`ALLOWED`] names the tables that are looked at, how often, and why; a single row
//! of any other is a finding, around the turn of an era too. Counters decide, not times. (Its
//! counts of statements are no use here: of those that come together in one packet, the server
//! counts all under the name of the first.)
//!
//! `HENCE_ZERO_READS_SECONDS=N` changes how long it works; ten minutes take in two turns of an era.

#![expect(clippy::print_stdout, reason = "the figures are wanted when the test is read")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Api, Receiver, Server, Setup, clock};
use hence_testkit::MariaDb;
use serde_json::json;

hence_e2e::cases!(nothing_is_read_in_steady_running);

/// How long it works, unless the environment says otherwise.
const SECONDS: u64 = 60;

/// How long it may work: from then on a turn walks once over what became of five minutes of jobs,
/// to carry those that are a quarter of an hour late.
const SECONDS_MAX: u64 = 840;

/// Jobs that must have ended in each second, or there was no work to read anything for.
const ENDED_EACH_SECOND: usize = 10;

/// Clients that submit, and how often each of them does.
const PRODUCERS: usize = 2;
const SUBMIT_EVERY_MS: u64 = 10;

/// A table that is looked at, and how often at most.
struct Allowed {
    table: &'static str,
    each_commit: u64,
    each_second: u64,
    each_turn: u64,
    why: &'static str,
}

/// All that may be fetched. Of jobs, only what a turn must see.
const ALLOWED: [Allowed; 5] = [
    Allowed {
        table: "hence_shards",
        each_commit: 1,
        each_second: 5,
        each_turn: 20,
        why: "each commit locks the row of its shard; the owner renews its tenure each second",
    },
    Allowed {
        table: "hence_commits",
        each_commit: 1,
        each_second: 5,
        each_turn: 20,
        why: "each commit looks at the one before it; every ten seconds there is a sweep; a turn \
              folds all of an era",
    },
    Allowed {
        table: "hence_jobs",
        each_commit: 0,
        each_second: 0,
        each_turn: JOBS_OF_A_TURN,
        why: "a turn looks for the queues that have rows, and for what runs",
    },
    Allowed {
        table: "hence_gone",
        each_commit: 0,
        each_second: 0,
        each_turn: JOBS_OF_A_TURN,
        why: "a turn looks whether what runs is still there",
    },
    Allowed {
        table: "hence_acknowledged",
        each_commit: 0,
        each_second: 0,
        each_turn: 1,
        why: "a turn forgets what nobody can repeat any more",
    },
];

/// Looks into an index for those: at the shard, and at the commits of this era and at those
/// without.
const LOOKS_EACH_COMMIT: u64 = 3;

/// Looks into an index beside those: for letters, four times a second when none come, and for what
/// is to be swept.
const LOOKS_EACH_SECOND: u64 = 60;

/// How often it is looked at the counters.
const SLICE_SECONDS: u64 = 10;

/// Rows of jobs that a turn may fetch: a few for each queue, and those that run at the moment. Some
/// thousands have ended since the turn before.
const JOBS_OF_A_TURN: u64 = 100;

/// Looks into an index at a turn, beside those at commits.
const LOOKS_OF_A_TURN: u64 = 500;
const TURN_EVERY_SECONDS: u64 = 300;

fn nothing_is_read_in_steady_running() -> Result<Ended> {
    let given = std::env::var("HENCE_ZERO_READS_SECONDS").ok();
    let seconds = given.and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    ensure!(
        seconds <= SECONDS_MAX,
        "HENCE_ZERO_READS_SECONDS: must not be more than {SECONDS_MAX}"
    );
    let database = MariaDb::start_with(&["performance_schema = ON"])?;
    let url = database.database()?;
    let args = vec!["--store".to_owned(), url.clone()];
    let server = Server::start_with(Setup { args, ..Setup::default() })?;
    let result = works(&server, &database, &url, seconds);
    server.explain(result)?;
    Ok(Ended::Passed)
}

fn works(server: &Server, database: &MariaDb, url: &str, seconds: u64) -> Result<()> {
    let receiver = Receiver::start()?;
    let (working, ended) = (AtomicBool::new(true), AtomicUsize::new(0));
    let target = receiver.url("/");
    std::thread::scope(|scope| {
        let (working, ended, target) = (&working, &ended, &target);
        for _ in 0..PRODUCERS {
            scope.spawn(move || produce(server.api(), target, working));
        }
        scope.spawn(move || pull(server.api(), working, ended));
        let found =
            watch(database, url, seconds, &|| ended.load(Ordering::Relaxed) + receiver.count());
        working.store(false, Ordering::Relaxed);
        found
    })
}

/// Jobs without a name of their own: one that is named may be there already, and is looked for.
fn produce(mut api: Api, target: &str, working: &AtomicBool) {
    for n in 0_u64.. {
        if !working.load(Ordering::Relaxed) {
            return;
        }
        let due = format!("{}ms", 100 * (n % 30));
        let job = match n % 3 {
            0 => json!({"queue": "pulled", "in": due, "key": format!("k{}", n % 7)}),
            _ => json!({"queue": "pushed", "in": due, "url": target}),
        };
        api.submit(&job).expect("accepted");
        clock::sleep_ms(SUBMIT_EVERY_MS);
    }
}

fn pull(mut api: Api, working: &AtomicBool, ended: &AtomicUsize) {
    while working.load(Ordering::Relaxed) {
        let request = json!({"queue": "pulled", "max": 20, "lease": "30s", "wait": "1s"});
        for job in api.lease(&request).expect("answered") {
            let path = format!("/v1/leases/{}/ack", job["token"].as_str().unwrap_or_default());
            let answer = api.post(&path, &json!({})).expect("answered");
            assert!(matches!(answer.status, 200 | 204), "{answer:?}");
            ended.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What the server has counted so far.
struct Counts {
    /// Rows fetched, of each table.
    fetched: BTreeMap<String, u64>,
    /// Looks into an index, those that find nothing included.
    looks: u64,
    commits: u64,
    era: String,
}

impl Counts {
    fn of(database: &MariaDb, url: &str) -> Result<Self> {
        let number = |text: &str| text.parse::<u64>().with_context(|| text.to_owned());
        let sql = "SELECT OBJECT_NAME, COUNT_FETCH, COUNT_INSERT \
                   FROM performance_schema.table_io_waits_summary_by_table \
                   WHERE OBJECT_SCHEMA = DATABASE()";
        let (mut fetched, mut commits) = (BTreeMap::new(), 0);
        for line in database.sql_in(url, sql)?.lines() {
            let mut parts = line.split('\t');
            let mut next = || parts.next().with_context(|| line.to_owned());
            let (table, fetches, inserts) = (next()?, number(next()?)?, number(next()?)?);
            if table == "hence_commits" {
                commits = inserts;
            }
            fetched.insert(table.to_owned(), fetches);
        }
        let looks = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS \
                     WHERE VARIABLE_NAME = 'HANDLER_READ_KEY'";
        let looks = number(&database.sql(looks)?)?;
        let era = database.sql_in(url, "SELECT era FROM hence_shards")?;
        Ok(Counts { fetched, looks, commits, era })
    }
}

/// Waits until the work is under way, lets it go on, and judges what the server counted.
fn watch(database: &MariaDb, url: &str, seconds: u64, ended: &dyn Fn() -> usize) -> Result<()> {
    let warm = || (ended() > 20 * ENDED_EACH_SECOND).then_some(());
    clock::until(Duration::from_mins(1), warm).context("nothing ends")?;
    let (mut counts, done) = (vec![Counts::of(database, url)?], ended());
    for _ in 0..seconds.div_ceil(SLICE_SECONDS) {
        clock::sleep_ms(1_000 * SLICE_SECONDS);
        counts.push(Counts::of(database, url)?);
    }
    let done = ended() - done;
    ensure!(done >= ENDED_EACH_SECOND * seconds as usize, "only {done} jobs ended");
    let turned = |at: usize| counts.get(at..at + 2).is_some_and(|it| it[0].era != it[1].era);
    let slices = counts.len() - 1;
    let turns = (0..slices).filter(|at| turned(*at)).count();
    let turns_max = (seconds / TURN_EVERY_SECONDS + 1) as usize;
    ensure!(turns <= turns_max, "{turns} turns in {seconds} s");
    let (mut sums, mut findings) = (BTreeMap::new(), Vec::new());
    for at in 0..slices {
        // A turn may begin in the slice before and end in the one behind.
        let near = turned(at) || turned(at + 1) || (at > 0 && turned(at - 1));
        let around = if near { Around::Turn } else { Around::Nothing };
        findings.extend(judge(&counts[at], &counts[at + 1], around, &mut sums));
    }
    println!("{done} jobs ended in {seconds} s; {turns} turns of an era");
    println!("fetched: {sums:?}");
    ensure!(findings.is_empty(), "{}", findings.join("\n"));
    Ok(())
}

/// What is near a slice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Around {
    Nothing,
    Turn,
}

/// Judges what happened between two looks, and adds it up. Gives what should not have happened.
fn judge(
    before: &Counts,
    after: &Counts,
    around: Around,
    sums: &mut BTreeMap<String, u64>,
) -> Vec<String> {
    let commits = after.commits - before.commits;
    let turn = u64::from(around == Around::Turn);
    // All commits of an era are folded when it turns.
    let seen = commits + turn * after.commits;
    let mut findings = Vec::new();
    for (table, count) in &after.fetched {
        let rows = count - before.fetched.get(table).unwrap_or(&0);
        let allowed = ALLOWED.iter().find(|it| it.table == *table);
        let max = allowed.map_or(0, |it| {
            it.each_commit * seen + it.each_second * SLICE_SECONDS + it.each_turn * turn
        });
        if rows > max {
            let why = allowed.map_or("nothing of it is to be read", |it| it.why);
            findings.push(format!("{rows} rows of {table}, more than {max}: {why}"));
        }
        *sums.entry(table.clone()).or_default() += rows;
    }
    let looks = after.looks - before.looks;
    let max = LOOKS_EACH_COMMIT * commits + LOOKS_EACH_SECOND * SLICE_SECONDS;
    let max = max + LOOKS_OF_A_TURN * turn;
    if looks > max {
        findings.push(format!("{looks} looks into an index, more than {max}, {commits} commits"));
    }
    for (what, count) in [("commits", commits), ("looks into an index", looks)] {
        *sums.entry(what.to_owned()).or_default() += count;
    }
    findings
}
