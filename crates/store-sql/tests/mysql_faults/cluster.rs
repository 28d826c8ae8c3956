//! A Galera cluster: locks that one node knows, nodes that die or are cut off, tables that change
//! on all nodes at once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hence_core::time::Millis;
use hence_store::{ErrorKind, Store, StoreError, Tier};
use hence_store_sql::Slots;
use hence_testkit::suite::{self, Ended};
use hence_testkit::{Galera, until};

use crate::owner::{Owner, open};

pub(crate) const CASES: [(&str, suite::Case); 6] = [
    ("cluster_a_deposed_owner_on_another_node_is_refused", a_deposed_owner_is_refused),
    ("cluster_a_takeover_sees_what_another_node_committed", a_takeover_sees_all),
    ("cluster_a_node_that_dies_is_left", a_node_that_dies_is_left),
    ("cluster_a_node_that_is_cut_off_is_left", a_node_that_is_cut_off_is_left),
    ("cluster_tables_turn_on_all_nodes", tables_turn_on_all_nodes),
    ("cluster_nodes_start_at_once_and_say_how_safe_they_are", nodes_start_at_once),
];

/// A node may stand still for a while without being cut off.
const PATIENT: &str = "evs.suspect_timeout=PT30S;evs.inactive_timeout=PT60S;\
                       evs.install_timeout=PT60S;evs.delay_margin=PT30S";

/// How long a write may take to be on its way, and a cluster to go on without a node: it misses it
/// for five seconds first.
const SOON: Duration = Duration::from_secs(30);

/// How often two writes are sent until they are put in order as the case wants it. Now and then the
/// third node stands still too late to hold the first one up, or the second overtakes it.
const ORDER_TRIES_MAX: usize = 8;

/// While the third node stands still, no write is put in order on any. A takeover on the second and
/// a commit on the first are on their way then, in this order, and neither has seen the other.
fn a_deposed_owner_is_refused() -> Result<Ended> {
    let cluster = Galera::start_with(3, PATIENT, &[])?;
    for _ in 0..ORDER_TRIES_MAX {
        let url = cluster.database()?;
        let Some(answer) = commit_behind_a_takeover(&cluster, &url)? else { continue };
        let kind = answer.as_ref().map_err(StoreError::kind);
        ensure!(kind == Err(ErrorKind::Fenced), "a deposed owner was answered {answer:?}");
        let second = cluster.url_at(1, &url)?;
        let jobs = cluster.node(1).sql_in(&second, "SELECT COUNT(*) FROM hence_jobs")?;
        ensure!(jobs == "1", "{jobs} jobs are there");
        return Ok(Ended::Passed);
    }
    bail!("no takeover was put in order before a commit that was on its way")
}

/// What the commit was answered; nothing, when it did not come behind the takeover.
fn commit_behind_a_takeover(cluster: &Galera, url: &str) -> Result<Option<Result<(), StoreError>>> {
    let mut owner = Owner::of(&cluster.url_at(0, url)?)?;
    let first = owner.batch(1, 10);
    owner.commit(&first)?;
    let late = owner.batch(2, 10);
    let second = cluster.url_at(1, url)?;
    let taken_back = || {
        let sql = "SELECT SUM(VARIABLE_VALUE) FROM information_schema.GLOBAL_STATUS \
                   WHERE VARIABLE_NAME IN ('WSREP_LOCAL_CERT_FAILURES', 'WSREP_LOCAL_BF_ABORTS')";
        cluster.node(1).sql(sql)
    };
    let before = taken_back()?;
    cluster.node(2).pause()?;
    let answer = thread::scope(|scope| {
        // What a takeover writes, without its look at what other nodes have, which would wait.
        let take = "UPDATE hence_shards SET epoch = epoch + 1, owner = 'another'";
        let taking = scope.spawn(|| cluster.node(1).sql_in(&second, take));
        let statement = "UPDATE hence_shards SET epoch%";
        let on_its_way = on_its_way_unless(cluster, 1, statement, || taking.is_finished());
        let committing = scope.spawn(|| owner.try_commit(&late));
        let on_its_way = on_its_way.and_then(|way| match way {
            Way::Over => Ok(way),
            Way::Waits => on_its_way_unless(cluster, 0, "COMMIT", || committing.is_finished()),
        });
        cluster.node(2).resume()?;
        taking.join().expect("no panic")?;
        let answer = committing.join().expect("no panic");
        Ok::<_, anyhow::Error>((on_its_way? == Way::Waits).then_some(answer))
    })?;
    Ok(answer.filter(|_| taken_back().is_ok_and(|after| after == before)))
}

/// What became of a statement.
#[derive(PartialEq, Eq)]
enum Way {
    /// It waits for the other nodes.
    Waits,
    /// It did not have to wait.
    Over,
}

/// Waits until this statement waits for the other nodes.
fn on_its_way(cluster: &Galera, node: usize, statement: &str) -> Result<()> {
    on_its_way_unless(cluster, node, statement, || false).map(drop)
}

/// The same, unless it is over before it was seen to wait.
fn on_its_way_unless(
    cluster: &Galera,
    node: usize,
    statement: &str,
    is_over: impl Fn() -> bool,
) -> Result<Way> {
    let sql = format!(
        "SELECT STATE FROM information_schema.PROCESSLIST \
         WHERE INFO LIKE '{statement}' AND STATE <> ''"
    );
    let mut last = String::new();
    let found = until(SOON, || {
        if is_over() {
            return Some(Way::Over);
        }
        last = cluster.node(node).sql(&sql).ok()?;
        (last == "Waiting for certification").then_some(Way::Waits)
    });
    found.with_context(|| format!("{statement} is not on its way, but {last:?}"))
}

/// The other way round: the commit is on its way first, and the takeover waits for it.
fn a_takeover_sees_all() -> Result<Ended> {
    let cluster = Galera::start_with(3, PATIENT, &[])?;
    let url = cluster.database()?;
    let mut old = Owner::of(&cluster.url_at(0, &url)?)?;
    let first = old.batch(1, 10);
    old.commit(&first)?;
    let last = old.batch(5, 10);
    let store = open(&cluster.url_at(1, &url)?)?;
    cluster.node(2).pause()?;
    let (committed, mut new) = thread::scope(|scope| {
        let committing = scope.spawn(|| old.try_commit(&last));
        let on_its_way = on_its_way(&cluster, 0, "COMMIT");
        let taking = scope.spawn(|| Owner::over(store));
        cluster.node(2).resume()?;
        on_its_way?;
        let taken = taking.join().expect("no panic")?;
        Ok::<_, anyhow::Error>((committing.join().expect("no panic"), taken))
    })?;
    committed.context("what was on its way first")?;
    let found = new.numbers()?.len();
    ensure!(found == 6, "the new owner sees {found} of 6 jobs");
    let late = old.batch(1, 10);
    let answer = old.try_commit(&late).map_err(|error| error.kind());
    ensure!(answer == Err(ErrorKind::Fenced), "{answer:?}");
    // So many that another node is still at it when they are acknowledged.
    new.skip(6);
    let many = new.batch(20_000, 100);
    new.commit(&many)?;
    let found = old.numbers()?.len();
    ensure!(found == 20_006, "the other node shows {found} of 20,006 jobs");
    Ok(Ended::Passed)
}

/// How many commits there are before and after.
const COMMITS_AROUND: u32 = 50;

fn a_node_that_dies_is_left() -> Result<Ended> {
    let cluster = Galera::start(3)?;
    let url = cluster.database()?;
    let mut owner = Owner::of(&url)?;
    let commits = AtomicU32::new(0);
    let reached = |count: u32| {
        let enough = || (commits.load(Ordering::SeqCst) >= count).then_some(());
        until(SOON, enough).with_context(|| format!("{count} commits are not reached"))
    };
    thread::scope(|scope| {
        let killing = scope.spawn(|| -> Result<()> {
            reached(COMMITS_AROUND)?;
            cluster.node(0).kill()?;
            let before = commits.load(Ordering::SeqCst);
            reached(before + COMMITS_AROUND)
        });
        while !killing.is_finished() {
            let batch = owner.batch(20, 100);
            owner.commit(&batch)?;
            commits.fetch_add(1, Ordering::SeqCst);
        }
        killing.join().expect("the one who kills does not panic")
    })?;
    owner.check()?;
    owner.keep_up(600)?;
    owner.check()?;
    Ok(Ended::Passed)
}

/// The node lives and takes connections, but is alone.
fn a_node_that_is_cut_off_is_left() -> Result<Ended> {
    let cluster = Galera::start(3)?;
    let url = cluster.database()?;
    let mut owner = Owner::of(&url)?;
    let first = owner.batch(2, 10);
    owner.commit(&first)?;
    owner.check()?;
    cluster.node(0).sql("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'")?;
    let batch = owner.batch(2, 10);
    owner.commit(&batch)?;
    owner.check()?;
    let refused = cluster.node(0).sql("SELECT COUNT(*) FROM mysql.user");
    ensure!(refused.is_err(), "the first node is not cut off: {refused:?}");
    let Err(error) = open(&cluster.url_at(0, &url)?) else { bail!("the first node is used") };
    ensure!(error.kind() == ErrorKind::Unavailable, "{error}");
    Ok(Ended::Passed)
}

/// Partitions are made and dropped by statements that all nodes run at the same point.
fn tables_turn_on_all_nodes() -> Result<Ended> {
    let cluster = Galera::start(3)?;
    let url = cluster.database()?;
    let second = Millis::from_secs(1);
    let slots = Slots { width: second, ahead: 3, behind: second, era: second };
    let mut owner = Owner::with(&url, slots)?;
    let put = owner.batch(100, 10);
    owner.commit(&put)?;
    let done = owner.succeeded(0..50, 2);
    owner.commit(&done)?;
    // Others turn the same tables on another node: a turn is nobody's privilege.
    let other = Owner::with(&cluster.url_at(1, &url)?, slots)?;
    thread::scope(|scope| {
        let turning = scope.spawn(|| (1..10).try_for_each(|round| kept_up(&other, 10 * round)));
        (1..10).try_for_each(|round| kept_up(&owner, 10 * round + 3))?;
        turning.join().expect("no panic")?;
        Ok::<_, anyhow::Error>(())
    })?;
    let waiting: Vec<u64> = (50..100).collect();
    ensure!(other.numbers()? == waiting, "{:?}", other.numbers()?);
    let partitions = "SELECT TABLE_NAME, PARTITION_NAME, TABLE_ROWS >= 0 \
                      FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() \
                      ORDER BY 1, 2";
    let count = "SELECT (SELECT COUNT(*) FROM hence_jobs), (SELECT COUNT(*) FROM hence_gone), \
                 (SELECT COUNT(*) FROM hence_history), (SELECT COUNT(*) FROM hence_commits)";
    let count = format!("SET SESSION wsrep_sync_wait = 1; {count}");
    let mut seen = Vec::new();
    for node in 0..3 {
        let url = cluster.url_at(node, &url)?;
        let server = cluster.node(node);
        seen.push((server.sql_in(&url, &count)?, server.sql_in(&url, partitions)?));
    }
    ensure!(seen[0].0 == "50\t0\t0\t1", "{}", seen[0].0);
    ensure!(seen[1] == seen[0] && seen[2] == seen[0], "{seen:#?}");
    Ok(Ended::Passed)
}

/// As sweeps do: what fails in a way that passes is gone on with later.
fn kept_up(owner: &Owner, seconds: u64) -> Result<(), StoreError> {
    let kept = until(SOON, || match owner.keep_up(seconds) {
        Err(error) if error.kind() == ErrorKind::Unavailable => None,
        answer => Some(answer),
    });
    kept.unwrap_or_else(|| owner.keep_up(seconds))
}

fn nodes_start_at_once() -> Result<Ended> {
    let cluster = Galera::start(3)?;
    let url = cluster.database()?;
    thread::scope(|scope| {
        let urls = (0..3).map(|node| cluster.url_at(node, &url)).collect::<Result<Vec<_>>>()?;
        let starts: Vec<_> =
            urls.into_iter().map(|url| scope.spawn(move || open(&url).map(drop))).collect();
        for start in starts {
            start.join().expect("no start panics")?;
        }
        anyhow::Ok(())
    })?;
    let first = cluster.url_at(0, &url)?;
    let made = cluster.node(0).sql_in(&first, "SELECT COUNT(*) FROM hence_shards")?;
    ensure!(made == "1", "{made} shards");
    let found = open(&url)?.capabilities();
    ensure!(found.tier == Tier::Durable, "{found:?}");
    ensure!(found.notes.iter().any(|line| line.contains("all 3 nodes")), "{found:?}");
    // A node that is not asked by its settings is one that can lose what it has acknowledged.
    cluster.node(2).sql("SET GLOBAL innodb_flush_log_at_trx_commit = 0")?;
    let found = open(&url)?.capabilities();
    ensure!(found.tier == Tier::Replicated, "{found:?}");
    let note = "innodb_flush_log_at_trx_commit is 0";
    ensure!(found.notes.iter().any(|line| line.contains(note)), "{found:?}");
    let unkeyed = cluster.node(0).sql_in(
        &first,
        "SELECT t.TABLE_NAME FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA = DATABASE() \
         AND t.TABLE_TYPE = 'BASE TABLE' AND NOT EXISTS (SELECT 1 \
         FROM information_schema.TABLE_CONSTRAINTS c WHERE c.TABLE_SCHEMA = t.TABLE_SCHEMA \
         AND c.TABLE_NAME = t.TABLE_NAME AND c.CONSTRAINT_TYPE = 'PRIMARY KEY')",
    )?;
    ensure!(unkeyed.is_empty(), "without a primary key: {unkeyed}");
    Ok(Ended::Passed)
}
