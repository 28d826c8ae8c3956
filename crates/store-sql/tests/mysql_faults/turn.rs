//! What a turn of an era looks at, and what it carries. Time is an argument: nothing waits.

use std::ops::Range;

use anyhow::{Context, Result, ensure};
use hence_core::time::Millis;
use hence_store_sql::Slots;
use hence_store_sql::limits::CARRY_ROWS_MAX;
use hence_testkit::MariaDb;
use hence_testkit::suite::{self, Ended};

use crate::owner::Owner;
use crate::rows_looked_at;

pub(crate) const CASES: [(&str, suite::Case); 4] = [
    ("a_turn_looks_at_no_job_that_is_over", a_turn_looks_at_no_job_that_is_over),
    (
        "jobs_are_found_by_an_index_whatever_the_statistics",
        jobs_are_found_by_an_index_whatever_the_statistics,
    ),
    ("leases_of_former_owners_are_carried", leases_of_former_owners_are_carried),
    ("many_late_jobs_are_carried_in_parts", many_late_jobs_are_carried_in_parts),
];

/// An era that is over after each second, and slots that are not.
fn short_eras() -> Slots {
    Slots { ahead: 1, era: Millis::from_secs(1), ..Slots::default() }
}

fn a_turn_looks_at_no_job_that_is_over() -> Result<Ended> {
    const JOBS: u64 = 3_000;
    let server = MariaDb::start_with(&[])?;
    let mut owner = Owner::with(&server.database()?, short_eras())?;
    for numbers in (0..JOBS).step_by(500).map(|first| first..first + 500) {
        let put = owner.batch(500, 10);
        owner.commit(&put)?;
        let granted = owner.granted(numbers);
        owner.commit(&granted)?;
    }
    let done = owner.succeeded(1..JOBS, 3_600);
    owner.commit(&done)?;
    let before = rows_looked_at(&server)?;
    owner.keep_up(10)?;
    let looked_at = rows_looked_at(&server)? - before;
    ensure!(looked_at < JOBS / 2, "{looked_at} rows were looked at to find the one that runs");
    ensure!(owner.running()? == [0], "{:?}", owner.running()?);
    Ok(Ended::Passed)
}

/// A server that believes its tables to be empty may as well read all of a shard, if it is left to
/// choose.
fn jobs_are_found_by_an_index_whatever_the_statistics() -> Result<Ended> {
    type Look = fn(&Owner) -> Result<bool>;
    const JOBS: u64 = 5_000;
    const FINISHED: u64 = 1_000;
    const RUNNING: Range<u64> = 2_000..2_100;
    let server = MariaDb::start_with(&["innodb_stats_auto_recalc = OFF"])?;
    let url = server.database()?;
    let mut owner = Owner::with(&url, short_eras())?;
    for batch in
        [owner.batch(JOBS, 10), owner.granted(RUNNING), owner.succeeded(0..FINISHED, 3_600)]
    {
        owner.commit(&batch)?;
    }
    // It counts rows as they come, and after a restart it knows only what the statistics say.
    server.restart()?;
    let owner = Owner::with(&url, short_eras())?;
    let runs = |owner: &Owner| -> Result<bool> { Ok(owner.running()?.into_iter().eq(RUNNING)) };
    // A few looks for each place, at a turn twice, and those that are made anyway.
    let rows: [(&str, Look, u64); 4] = [
        ("a job by its name", |owner| Ok(owner.is_there(JOBS / 2)?), 500),
        ("a finished job by its name", |owner| Ok(owner.is_there(FINISHED / 2)?), 500),
        ("what runs, at a start", runs, 1_000),
        ("what runs, at a turn", |owner| Ok(owner.keep_up(10).map(|()| true)?), 1_500),
    ];
    for (what, look, max) in rows {
        let before = rows_looked_at(&server)?;
        ensure!(look(&owner)?, "{what}: not found");
        let looked_at = rows_looked_at(&server)? - before;
        ensure!(looked_at < max, "{looked_at} rows were looked at to find {what}");
    }
    ensure!(runs(&owner)?, "after a turn: {:?}", owner.running()?);
    Ok(Ended::Passed)
}

/// Each owner knows of the leases of those before it what it read at its start, or nothing.
fn leases_of_former_owners_are_carried() -> Result<Ended> {
    let server = MariaDb::start()?;
    let url = server.database()?;
    let owner = || Owner::with(&url, short_eras());
    let mut first = owner()?;
    let batches = [first.batch(6, 10), first.granted(0..3), first.succeeded(2..3, 3_600)];
    for batch in &batches {
        first.commit(batch)?;
    }
    let mut second = owner()?;
    ensure!(second.running()? == [0, 1], "{:?}", second.running()?);
    for batch in [second.succeeded(1..2, 3_600), second.granted(3..4)] {
        second.commit(&batch)?;
    }
    second.keep_up(3)?;
    ensure!(second.running()? == [0, 3], "after a turn: {:?}", second.running()?);
    // This one does not look before it goes on.
    let mut third = owner()?;
    for batch in [third.granted(4..5), third.succeeded(3..4, 3_600)] {
        third.commit(&batch)?;
    }
    third.keep_up(6)?;
    ensure!(third.running()? == [0, 4], "after a second turn: {:?}", third.running()?);
    // What was carried is not taken for its own.
    let granted = third.granted(5..6);
    third.commit(&granted)?;
    third.keep_up(9)?;
    ensure!(third.running()? == [0, 4, 5], "after one more: {:?}", third.running()?);
    Ok(Ended::Passed)
}

/// More than one transaction may look at, most of them over.
fn many_late_jobs_are_carried_in_parts() -> Result<Ended> {
    const JOBS: u64 = CARRY_ROWS_MAX as u64 + 5_000;
    let server = MariaDb::start_with(&[])?;
    let url = server.database()?;
    let slots = Slots { behind: Millis::from_secs(1), ..short_eras() };
    let mut owner = Owner::with(&url, slots)?;
    for _ in 0..JOBS / 5_000 {
        let put = owner.batch(5_000, 10);
        owner.commit(&put)?;
    }
    let late = JOBS - 1_000;
    let done = owner.succeeded(0..late, 3_600);
    owner.commit(&done)?;
    let commits = || -> Result<u64> {
        let status = server.sql("SHOW GLOBAL STATUS LIKE 'Com_commit'")?;
        Ok(status.split_once('\t').context("a name and a number")?.1.trim().parse()?)
    };
    let before = commits()?;
    owner.keep_up(60)?;
    // One for each part, and one each to see that nothing is left, to open and to fold.
    let parts = commits()? - before - 3;
    ensure!(parts == 2, "carried in {parts} parts");
    ensure!(owner.numbers()? == (late..JOBS).collect::<Vec<_>>(), "{:?}", owner.numbers()?.len());
    let rows = server.sql_in(&url, "SELECT COUNT(*) FROM hence_jobs WHERE slot = 0")?;
    ensure!(rows == "1000", "{rows} rows were carried");
    Ok(Ended::Passed)
}
