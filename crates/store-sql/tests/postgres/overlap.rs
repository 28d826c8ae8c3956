//! Two commits under way at once: the rows of the second are copied while the first is being
//! committed. What comes of both is what would have come of one after the other.

use anyhow::{Context, Result, ensure};
use futures::executor::block_on;
use futures::future::{join, join_all};
use hence_core::id::Epoch;
use hence_store::{ErrorKind, ShardBatch, Store};
use hence_store_sql::limits::COPY_ROWS_MIN;
use hence_testkit::suite::{self, Ended};
use hence_testkit::until;

use crate::faults::{behind_a_wire, insist};
use crate::proxy::Mishap;
use crate::support::{Case, Owner, PATIENCE, at, open, put, short_slots, waiting};

pub(crate) const CASES: [(&str, suite::Case); 5] = [
    ("commits_may_overlap", commits_may_overlap),
    ("the_server_may_isolate_more_than_is_needed", the_server_may_isolate_more_than_is_needed),
    ("a_commit_behind_one_that_is_cut_off", a_commit_behind_one_that_is_cut_off),
    ("rows_copied_ahead_may_be_lost", rows_copied_ahead_may_be_lost),
    ("two_commits_on_a_full_disk", two_commits_on_a_full_disk),
];

const MANY: u64 = COPY_ROWS_MIN as u64;

/// The next batch, with so many jobs from this number on.
fn batch(owner: &mut Owner<'_>, first: u64, many: u64) -> ShardBatch {
    owner.batch((first..first + many).map(|number| put(number, 500)).collect())
}

/// Commits are sent without waiting for the one before.
fn commits_may_overlap() -> Result<Ended> {
    let case = Case::new()?;
    let store = case.open(short_slots())?;
    let mut owner = Owner::new(&store)?;
    let mut next = |nth: u64| {
        let many = if nth.is_multiple_of(2) { MANY } else { 1 };
        batch(&mut owner, nth * 1_000, many)
    };
    let batches: Vec<_> = (1..=20).map(&mut next).collect();
    let commits = batches.iter().map(|batch| store.commit(vec![batch.clone()]));
    for (nth, answer) in block_on(join_all(commits)).into_iter().enumerate() {
        answer.with_context(|| format!("commit {nth}"))?;
    }
    // One that is refused takes none with it but those that build on it.
    let stranger = ShardBatch { epoch: Epoch(99), ..next(22) };
    let (follows, gap) = (ShardBatch { sequence: 21, ..next(24) }, next(26));
    let commits = [stranger, gap, follows].map(|batch| store.commit(vec![batch]));
    let kinds = block_on(join_all(commits)).into_iter().map(|it| it.err().map(|it| it.kind()));
    let kinds: Vec<_> = kinds.collect();
    let refused = kinds[1].is_some_and(|kind| kind != ErrorKind::Fenced);
    ensure!(kinds[0] == Some(ErrorKind::Fenced) && refused && kinds[2].is_none(), "{kinds:?}");
    let rows = case.count("SELECT count(*) FROM @jobs")?;
    ensure!(rows == 10 + 11 * MANY, "{rows} rows");
    Ok(Ended::Passed)
}

/// A fence sees what was committed since its transaction began, whatever the default is.
fn the_server_may_isolate_more_than_is_needed() -> Result<Ended> {
    let case = Case::new()?;
    let url = format!("{}&options=-c%20default_transaction_isolation%3Dserializable", case.url);
    let store = open(&url, short_slots(), at(0))?;
    let mut owner = Owner::new(&store)?;
    for nth in 0..10 {
        let [first, second] = [0, MANY].map(|it| batch(&mut owner, 1 + 2 * MANY * nth + it, MANY));
        let both = join(store.commit(vec![first]), store.commit(vec![second]));
        let (first, second) = block_on(both);
        first.context("the first")?;
        second.context("the second")?;
    }
    ensure!(waiting(&store)?.into_iter().eq(1..=20 * MANY));
    Ok(Ended::Passed)
}

fn a_commit_behind_one_that_is_cut_off() -> Result<Ended> {
    let case = Case::new()?;
    let (store, proxy) = behind_a_wire(&case)?;
    let mut owner = Owner::new(&store)?;
    let mut last = 0;
    // The first arrives or does not; then the second follows it, or is refused.
    for (mishap, follows) in [(Mishap::CutBefore, false), (Mishap::CutAfter, true)] {
        for many in [[1, MANY], [MANY, 1], [MANY, MANY]] {
            let batches = many.map(|many| {
                last += many;
                batch(&mut owner, last + 1 - many, many)
            });
            proxy.prepare(mishap);
            let [first, second] = batches.each_ref().map(|it| store.commit(vec![it.clone()]));
            let (first, second) = block_on(join(first, second));
            let kind = first.map_err(|error| error.kind());
            ensure!(kind == Err(ErrorKind::Unavailable), "{mishap:?}, {many:?}: {kind:?}");
            ensure!(second.is_ok() == follows, "{mishap:?}, {many:?}: {second:?}");
            batches.iter().try_for_each(|batch| insist(&store, batch))?;
            ensure!(waiting(&store)?.into_iter().eq(1..=last), "{mishap:?}, {many:?}");
            let rows = case.count("SELECT count(*) FROM @jobs")?;
            ensure!(rows == last, "{mishap:?}, {many:?}: {rows} rows of {last} jobs");
        }
    }
    Ok(Ended::Passed)
}

/// They are there before their commit has its turn, and gone with their connection.
fn rows_copied_ahead_may_be_lost() -> Result<Ended> {
    let case = Case::new()?;
    let (store, proxy) = behind_a_wire(&case)?;
    let mut owner = Owner::new(&store)?;
    // Both connections are made and know their statements.
    let warm = [1, 1 + MANY].map(|first| batch(&mut owner, first, MANY));
    block_on(join_all(warm.map(|batch| store.commit(vec![batch]))))
        .into_iter()
        .collect::<Result<Vec<()>, _>>()?;
    let batches = [2, 3].map(|nth| batch(&mut owner, 1 + nth * MANY, MANY));
    proxy.prepare(Mishap::Hold);
    let answers = batches.each_ref().map(|batch| store.commit(vec![batch.clone()]));
    proxy.await_mishap();
    let copied = case.text(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE state = \
         'idle in transaction' AND query LIKE 'COPY @jobs %'",
    );
    let cut = until(PATIENCE, || (case.count(&copied).ok()? > 0).then_some(()));
    cut.context("nothing is copied while the first commit is under way")?;
    proxy.prepare(Mishap::CutBefore);
    let [_, second] = answers;
    let lost = block_on(second).map_err(|error| error.kind());
    ensure!(lost == Err(ErrorKind::Unavailable), "the second: {lost:?}");
    batches.iter().try_for_each(|batch| insist(&store, batch))?;
    ensure!(waiting(&store)?.into_iter().eq(1..=4 * MANY));
    ensure!(case.count("SELECT count(*) FROM @jobs")? == 4 * MANY);
    Ok(Ended::Passed)
}

fn two_commits_on_a_full_disk() -> Result<Ended> {
    let case = Case::new()?;
    let store = case.open(short_slots())?;
    let mut owner = Owner::new(&store)?;
    case.ask(
        "CREATE FUNCTION @full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         RAISE EXCEPTION 'could not extend file: No space left on device' \
         USING ERRCODE = '53100'; END $$; \
         CREATE TRIGGER full_disk BEFORE INSERT ON @jobs FOR EACH ROW EXECUTE FUNCTION @full()",
    )?;
    let batches = [1, 1 + MANY].map(|first| batch(&mut owner, first, MANY));
    let answers = batches.each_ref().map(|batch| store.commit(vec![batch.clone()]));
    let kinds: Vec<_> =
        block_on(join_all(answers)).into_iter().map(|it| it.map_err(|it| it.kind())).collect();
    ensure!(kinds == [Err(ErrorKind::Full); 2], "{kinds:?}");
    case.ask("DROP TRIGGER full_disk ON @jobs")?;
    batches.iter().try_for_each(|batch| insist(&store, batch))?;
    ensure!(waiting(&store)?.into_iter().eq(1..=2 * MANY));
    Ok(Ended::Passed)
}
