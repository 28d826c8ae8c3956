//! The engine alone: how much of the raw log's speed is left when names, order and recovery are
//! added.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use hence_core::job::Job;
use hence_core::time::Timestamp;

use super::threads;
use crate::Scale;
use crate::jobs::{self, Writer, place};
use crate::machine::{ROUNDS, in_turns, now_ms, settle};
use crate::raw_log;
use crate::report::{Report, Row};

/// How many jobs one sync makes durable.
const GROUPS: [usize; 4] = [1, 16, 256, 4_096];

pub(crate) fn run(report: &mut Report, scale: Scale) -> Result<()> {
    let runtime = threads()?;
    let _inside = runtime.enter();
    let dir = tempfile::tempdir_in(".")?;
    let span = scale.span();
    let raw = raw_log::RawLog::create(dir.path())?;
    let mut raw_256 = 0.0;
    for group in GROUPS {
        let (_home, mut writer) = writer()?;
        let ours = || inserts(&mut writer, group, span / ROUNDS);
        let (value, limit) = in_turns(ours, || raw.rate(group, span / ROUNDS))?;
        if group == 256 {
            raw_256 = limit;
        }
        let what = format!("insert, {group} per sync");
        let goal = if group == 256 { ">= 0.5 x" } else { "" };
        let against = Some(("raw log", limit));
        report.row(&Row { what: &what, value, unit: "jobs/s", against, goal });
    }
    let against = Some(("raw log", raw_256));
    let value = overwrites(scale.of(20_000), span)?;
    report.row(&Row {
        what: "overwrite by name, 256 per sync",
        value,
        unit: "jobs/s",
        against,
        goal: "",
    });
    let value = cycles(span)?;
    let what = "insert, lease, finish, 256 per sync";
    report.row(&Row { what, value, unit: "jobs/s", against, goal: "" });
    Ok(())
}

fn writer() -> Result<(tempfile::TempDir, Writer)> {
    let dir = tempfile::tempdir_in(".")?;
    let store = jobs::open(dir.path())?;
    settle(dir.path());
    Ok((dir, Writer::new(store)?))
}

fn soon() -> Timestamp {
    Timestamp::from_millis(now_ms() + 3_600_000)
}

/// Only the commits are measured: making the jobs is the caller's work.
fn inserts(writer: &mut Writer, group: usize, span: Duration) -> Result<f64> {
    let (mut spent, mut count) = (Duration::ZERO, 0);
    while spent < span {
        let batch = batch(writer, group)?;
        let changes = batch.iter().map(|job| writer.put(job, None)).collect();
        let started = Instant::now();
        writer.commit(changes)?;
        spent += started.elapsed();
        count += group;
    }
    Ok(count as f64 / spent.as_secs_f64())
}

/// New jobs, with ids that sort as they were submitted, as those that Hence draws do.
fn batch(writer: &mut Writer, group: usize) -> Result<Vec<Arc<Job>>> {
    let due_at = soon();
    let id = |n| format!("{:013}-{n:06}", due_at.as_millis());
    (0..group).map(|n| writer.job(&id(n), due_at)).collect()
}

fn overwrites(names: usize, span: Duration) -> Result<f64> {
    let (_dir, mut writer) = writer()?;
    let mut standing = Vec::with_capacity(names);
    for n in 0..names {
        standing.push(writer.job(&format!("name-{n}"), soon())?);
    }
    for chunk in standing.chunks(4_096) {
        let changes = chunk.iter().map(|job| writer.put(job, None)).collect();
        writer.commit(changes)?;
    }
    let (mut spent, mut count) = (Duration::ZERO, 0);
    while spent < span {
        let mut changes = Vec::with_capacity(256);
        for _ in 0..256 {
            // A step that has no common divisor with the number of names visits them all.
            let at = count * 7_919 % names;
            let id = format!("name-{at}");
            let next = writer.job(&id, soon())?;
            changes.push(writer.put(&next, Some(place(&standing[at]))));
            standing[at] = next;
            count += 1;
        }
        let started = Instant::now();
        writer.commit(changes)?;
        spent += started.elapsed();
    }
    Ok(count as f64 / spent.as_secs_f64())
}

fn cycles(span: Duration) -> Result<f64> {
    let (_dir, mut writer) = writer()?;
    let (mut spent, mut count) = (Duration::ZERO, 0);
    while spent < span {
        let batch = batch(&mut writer, 256)?;
        let put = batch.iter().map(|job| writer.put(job, None)).collect();
        let leased = vec![writer.leased(&batch)];
        let finished = writer.finished(&batch);
        let started = Instant::now();
        for changes in [put, leased, finished] {
            writer.commit(changes)?;
        }
        spent += started.elapsed();
        count += batch.len();
    }
    Ok(count as f64 / spent.as_secs_f64())
}
