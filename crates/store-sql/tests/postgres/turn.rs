//! What goes and what stays when time moves on. Time is an argument: nothing waits.

use anyhow::{Context, Result, ensure};
use futures::executor::block_on;
use futures::future::join_all;
use hence_core::change::Place;
use hence_core::job::{JobState, Outcome};
use hence_store::{Filter, ListRequest, Store};
use hence_store_sql::limits::COPY_ROWS_MIN;
use hence_store_sql::postgres::PostgresStore;
use hence_testkit::suite::{self, Ended};
use hence_testkit::until;

use crate::support::{
    Case, Owner, PATIENCE, SHARD, at, finished, granted, job, open, put, queue, retried,
    short_slots, waiting,
};

pub(crate) const CASES: [(&str, suite::Case); 11] = [
    ("what_is_over_is_dropped_and_nothing_else", what_is_over_is_dropped_and_nothing_else),
    ("late_and_far_jobs_survive_every_turn", late_and_far_jobs_survive_every_turn),
    ("leases_and_counts_are_carried_over_eras", leases_and_counts_are_carried_over_eras),
    ("a_turn_looks_at_no_job_that_is_over", a_turn_looks_at_no_job_that_is_over),
    ("leases_of_former_owners_are_carried", leases_of_former_owners_are_carried),
    ("a_long_pause_is_made_up_for", a_long_pause_is_made_up_for),
    ("many_late_jobs_are_carried_in_parts", many_late_jobs_are_carried_in_parts),
    ("a_node_that_did_not_turn_the_era_finds_all", a_node_that_did_not_turn_the_era_finds_all),
    ("many_rows_for_slots_that_are_gone_are_kept", many_rows_for_slots_that_are_gone_are_kept),
    ("attempts_go_with_their_job", attempts_go_with_their_job),
    ("dead_jobs_are_reported_over_turns", dead_jobs_are_reported_over_turns),
];

fn partitions(case: &Case, table: &str) -> Result<u64> {
    case.count(&format!("SELECT count(*) FROM pg_inherits WHERE inhparent = '@{table}'::regclass"))
}

fn turn(store: &PostgresStore, now: i64) -> Result<()> {
    block_on(store.keep_up(SHARD, at(now))).context("keep up")
}

fn what_is_over_is_dropped_and_nothing_else() -> Result<Ended> {
    let case = Case::new()?;
    let store = case.open(short_slots())?;
    let mut owner = Owner::new(&store)?;
    owner.commit((1..=100).map(|number| put(number, number as i64 * 50)).collect())?;
    let ends = (1..=100).map(|n| finished(n, n as i64 * 50, Outcome::Succeeded, n as i64 * 100));
    owner.commit(ends.take(90).collect())?;
    let before = (partitions(&case, "jobs")?, partitions(&case, "commits")?);
    for now in [2_000, 4_500, 9_000, 60_000] {
        turn(&store, now)?;
        let left: Vec<u64> = (91..=100).collect();
        ensure!(waiting(&store)? == left, "at {now}: {:?}", waiting(&store)?);
    }
    let after = (partitions(&case, "jobs")?, partitions(&case, "commits")?);
    ensure!(after.0 <= before.0 && after.1 == 1, "partitions: {before:?}, then {after:?}");
    let rows = case.count("SELECT count(*) FROM @jobs")?;
    ensure!(rows == 10, "rows of jobs: {rows}");
    let rows = case.count("SELECT count(*) FROM @gone")?;
    ensure!(rows == 0, "places noted as left: {rows}");
    Ok(Ended::Passed)
}

fn late_and_far_jobs_survive_every_turn() -> Result<Ended> {
    let case = Case::new()?;
    let store = case.open(short_slots())?;
    let mut owner = Owner::new(&store)?;
    // One in every second of a minute: late ones, near ones and far ones.
    owner.commit((1..=60).map(|number| put(number, number as i64 * 1_000)).collect())?;
    let mut left: Vec<u64> = (1..=60).collect();
    for step in 1..=70_i64 {
        turn(&store, step * 1_000 + 300)?;
        ensure!(waiting(&store)? == left, "after second {step}");
        // Every third one ends when it is late, when it is near, and when it is still far.
        if step % 3 == 0 && step <= 60 {
            let number = step as u64;
            owner.commit(vec![finished(number, step * 1_000, Outcome::Succeeded, 1_000_000)])?;
            left.retain(|it| *it != number);
        }
        for name in [&job(1).name, &job(59).name] {
            let found = block_on(store.get(SHARD, vec![name.clone()], at(0)))?;
            ensure!(found[0].is_some(), "{name} is not found by its name after second {step}");
        }
    }
    ensure!(waiting(&store)? == left, "at the end");
    drop(store);
    let store = case.open(short_slots())?;
    ensure!(waiting(&store)? == left, "after a restart");
    Ok(Ended::Passed)
}

fn leases_and_counts_are_carried_over_eras() -> Result<Ended> {
    let case = Case::new()?;
    let store = case.open(short_slots())?;
    let mut owner = Owner::new(&store)?;
    owner.commit(vec![put(1, 100), put(2, 5_000), put(3, 900_000), put(4, 200)])?;
    owner.commit(vec![granted([(1, 100), (2, 5_000), (3, 900_000), (4, 200)], 10)])?;
    owner.commit(vec![finished(4, 200, Outcome::Succeeded, 1_000_000)])?;
    let active = |store: &PostgresStore| block_on(store.recover(SHARD)).context("recover");
    let before = active(&store)?;
    ensure!(before.active.len() == 3, "three run: {:?}", before.active.len());
    for now in [3_000, 8_000, 30_000, 2_000_000] {
        turn(&store, now)?;
        ensure!(active(&store)? == before, "at {now} a new owner finds something else");
        ensure!(waiting(&store)?.is_empty(), "a running job is handed out again at {now}");
    }
    owner.commit(vec![retried(2, 5_000, 2_500_000, 1)])?;
    ensure!(waiting(&store)? == [2], "a job that runs no more waits");
    turn(&store, 3_000_000)?;
    ensure!(waiting(&store)? == [2], "and goes on waiting");
    let rows = case.count("SELECT count(*) FROM @commits")?;
    ensure!(rows == 1, "rows of commits: {rows}");
    Ok(Ended::Passed)
}

/// Each owner knows of the leases of those before it what it read at its start, or nothing.
fn leases_of_former_owners_are_carried() -> Result<Ended> {
    let case = Case::new()?;
    let active = |store: &PostgresStore| -> Result<Vec<u64>> {
        let found = block_on(store.recover(SHARD)).context("recover")?.active;
        ensure!(found.iter().all(|live| live.lease.is_some()), "it runs without a lease");
        Ok(found.iter().map(|live| live.job.number.0).collect())
    };
    let first = case.open(short_slots())?;
    let mut owner = Owner::new(&first)?;
    owner.commit((1..=6).map(|number| put(number, 100)).collect())?;
    owner.commit(vec![granted([(1, 100), (2, 100), (3, 100)], 10)])?;
    owner.commit(vec![finished(3, 100, Outcome::Succeeded, 1_000_000)])?;
    let second = case.open(short_slots())?;
    let mut owner = Owner::new(&second)?;
    ensure!(active(&second)? == [1, 2]);
    owner.commit(vec![finished(2, 100, Outcome::Succeeded, 1_000_000)])?;
    owner.commit(vec![granted([(4, 100)], 20)])?;
    turn(&second, 3_000)?;
    ensure!(active(&second)? == [1, 4], "after a turn: {:?}", active(&second)?);
    // This one does not look before it goes on.
    let third = case.open(short_slots())?;
    let mut owner = Owner::new(&third)?;
    owner.commit(vec![granted([(5, 100)], 30)])?;
    owner.commit(vec![finished(4, 100, Outcome::Succeeded, 1_000_000)])?;
    turn(&third, 6_000)?;
    ensure!(active(&third)? == [1, 5], "after a second turn: {:?}", active(&third)?);
    // What was carried is not taken for its own.
    owner.commit(vec![granted([(6, 100)], 40)])?;
    turn(&third, 7_500)?;
    ensure!(active(&third)? == [1, 5, 6], "after one more: {:?}", active(&third)?);
    // And this one is nobody's owner, and knows only what is written.
    let stranger = case.open(short_slots())?;
    turn(&stranger, 9_000)?;
    ensure!(active(&stranger)? == [1, 5, 6], "after the last: {:?}", active(&stranger)?);
    Ok(Ended::Passed)
}

/// At a few hundred jobs a second, looking at each once more took longer than a turn may take, and
/// no era came to its end.
fn a_turn_looks_at_no_job_that_is_over() -> Result<Ended> {
    const JOBS: u64 = 3_000;
    let case = Case::new()?;
    let url = format!("{}&application_name={}", case.url, case.schema());
    let store = open(&url, short_slots(), at(0))?;
    let mut owner = Owner::new(&store)?;
    owner.commit((1..=JOBS).map(|number| put(number, 5_000)).collect())?;
    owner.commit(vec![granted((1..=JOBS).map(|number| (number, 5_000)), 10)])?;
    let ends = (2..=JOBS).map(|n| finished(n, 5_000, Outcome::Succeeded, 1_000_000));
    owner.commit(ends.collect())?;
    turn(&store, 2_000)?;
    let active = block_on(store.recover(SHARD))?.active;
    ensure!(active.len() == 1 && active[0].lease.is_some(), "{} run", active.len());
    drop(store);
    // A connection tells what it did when it ends.
    let open = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}'",
        case.schema()
    );
    let ended = until(PATIENCE, || (case.count(&open).ok()? == 0).then_some(()));
    ended.context("connections outlive their store")?;
    let looks = case.count(
        "SELECT sum(seq_scan + idx_scan)::bigint FROM pg_stat_user_tables s \
         WHERE s.schemaname || '.' = '@' AND relname ~ '^(jobs|gone)'",
    )?;
    ensure!(looks < JOBS / 10, "tables of jobs were looked into {looks} times");
    Ok(Ended::Passed)
}

fn a_long_pause_is_made_up_for() -> Result<Ended> {
    let case = Case::new()?;
    let store = case.open(short_slots())?;
    let mut owner = Owner::new(&store)?;
    let year = 366 * 24 * 3_600 * 1_000;
    let due = [10, 5_000, 60_000, year - 50_000, year - 500, year + 500, year + 5_000, 3 * year];
    owner.commit((1..).zip(due).map(|(number, due)| put(number, due)).collect())?;
    let all: Vec<u64> = (1..=8).collect();
    turn(&store, year)?;
    ensure!(waiting(&store)? == all, "{:?}", waiting(&store)?);
    owner.commit((1..).zip(due).map(|(n, due)| retried(n, due, due + 1, 1)).collect())?;
    ensure!(waiting(&store)? == all, "moved: {:?}", waiting(&store)?);
    // A clock that was set back changes nothing.
    turn(&store, 0)?;
    ensure!(waiting(&store)? == all, "set back: {:?}", waiting(&store)?);
    Ok(Ended::Passed)
}

fn many_late_jobs_are_carried_in_parts() -> Result<Ended> {
    const JOBS: u64 = 50_000;
    let case = Case::new()?;
    let store = case.open(short_slots())?;
    let mut owner = Owner::new(&store)?;
    let due = |number: u64| (number / 100) as i64;
    for chunk in (1..=JOBS).collect::<Vec<_>>().chunks(10_000) {
        owner.commit(chunk.iter().map(|number| put(*number, due(*number))).collect())?;
    }
    let before = waiting(&store)?;
    turn(&store, 5_000)?;
    ensure!(waiting(&store)? == before && before.len() as u64 == JOBS, "{}", before.len());
    let rows = case.count("SELECT count(*) FROM @jobs_0")?;
    ensure!(rows == JOBS, "rows elsewhere: {rows}");
    Ok(Ended::Passed)
}

/// It thinks that rows lie where they lay.
fn a_node_that_did_not_turn_the_era_finds_all() -> Result<Ended> {
    let case = Case::new()?;
    let store = case.open(short_slots())?;
    let mut owner = Owner::new(&store)?;
    owner.commit(vec![put(1, 100), put(2, 200)])?;
    let other = case.open(short_slots())?;
    ensure!(waiting(&other)? == [1, 2]);
    turn(&store, 20_000)?;
    ensure!(waiting(&other)? == [1, 2]);
    let found = block_on(other.due(SHARD, queue(), Place::FIRST, 1))?;
    ensure!(found.len() == 1);
    owner.commit(vec![finished(1, 100, Outcome::Succeeded, 1_000_000), put(3, 25_000)])?;
    ensure!(waiting(&other)? == [2, 3]);
    // Now the other one turns it, and the owner does not know.
    turn(&other, 60_000)?;
    owner.commit(vec![finished(3, 25_000, Outcome::Succeeded, 1_000_000), put(4, 62_000)])?;
    ensure!(waiting(&store)? == [2, 4] && waiting(&other)? == [2, 4], "{:?}", waiting(&store)?);
    Ok(Ended::Passed)
}

/// They are sent before the server says that the slots have moved on; those of a second commit
/// even before that is known of the first.
fn many_rows_for_slots_that_are_gone_are_kept() -> Result<Ended> {
    let case = Case::new()?;
    let (store, other) = (case.open(short_slots())?, case.open(short_slots())?);
    let mut owner = Owner::new(&store)?;
    owner.commit(vec![put(1, 500)])?;
    turn(&other, 60_000)?;
    let many = COPY_ROWS_MIN as u64;
    let numbers = [2..many + 2, many + 2..2 * many + 2];
    let last = numbers[1].end;
    let batches =
        numbers.map(|numbers| owner.batch(numbers.map(|number| put(number, 500)).collect()));
    let commits = batches.map(|batch| store.commit(vec![batch]));
    block_on(join_all(commits)).into_iter().collect::<Result<Vec<()>, _>>()?;
    let found = waiting(&store)?;
    ensure!(found.iter().copied().eq(1..last), "{found:?}");
    ensure!(case.count("SELECT count(*) FROM @jobs_0")? == found.len() as u64, "in slot 0");
    Ok(Ended::Passed)
}

fn attempts_go_with_their_job() -> Result<Ended> {
    let case = Case::new()?;
    let store = case.open(short_slots())?;
    let mut owner = Owner::new(&store)?;
    owner.commit(vec![put(1, 100), put(2, 100), put(3, 100)])?;
    owner.commit((1..=3).map(|number| retried(number, 100, 200, 1)).collect())?;
    owner.commit(vec![
        finished(1, 200, Outcome::Succeeded, 3_000),
        finished(2, 200, Outcome::Dead, 3_000),
    ])?;
    let attempts = |number| {
        block_on(store.attempts(SHARD, job(number).name.clone(), job(number).number))
            .map(|it| it.len())
    };
    ensure!(attempts(1)? == 2 && attempts(2)? == 2 && attempts(3)? == 1);
    block_on(store.sweep(SHARD, at(60_000), 100))?;
    ensure!(attempts(1)? == 0, "of a job that went with its slot: {}", attempts(1)?);
    ensure!(attempts(2)? == 0, "of a dead job that was swept: {}", attempts(2)?);
    ensure!(attempts(3)? == 1, "of a live job: {}", attempts(3)?);
    Ok(Ended::Passed)
}

fn dead_jobs_are_reported_over_turns() -> Result<Ended> {
    let case = Case::new()?;
    let store = case.open(short_slots())?;
    let mut owner = Owner::new(&store)?;
    owner.commit((1..=9).map(|number| put(number, 100)).collect())?;
    let ends = (1..=9).map(|n| finished(n, 100, Outcome::Dead, n as i64 * 10_000));
    owner.commit(ends.collect())?;
    let mut swept = 0;
    for now in [5_000, 25_000, 55_000, 200_000, 400_000] {
        let dead = block_on(store.sweep(SHARD, at(now), 100))?;
        swept += dead.iter().map(|(_, count)| count).sum::<u64>();
        let filter = Filter { states: vec![JobState::Dead], ..Filter::default() };
        let request = ListRequest { filter, after: None, limit: 100, now: at(0) };
        let left = block_on(store.list(SHARD, request))?.jobs.len() as u64;
        ensure!(swept + left == 9, "at {now}: {swept} reported, {left} left");
    }
    ensure!(swept == 9, "{swept} of nine were reported");
    Ok(Ended::Passed)
}
