//! Five million pending jobs: how long it takes to be ready with them, and what they cost in
//! memory.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use hence_core::time::Timestamp;

use super::threads;
use crate::Scale;
use crate::jobs::{self, Writer};
use crate::machine::{now_ms, rss_bytes};
use crate::report::Report;
use crate::server::Server;

pub(crate) fn run(report: &mut Report, scale: Scale) -> Result<()> {
    let dir = tempfile::tempdir_in(".")?;
    let empty = settled_rss(dir.path(), &[])?.0;
    report.figure("memory, no jobs", mib(empty), "MiB", "< 30 MiB");
    let steps = [scale.of(1_000_000), scale.of(5_000_000)];
    let mut before: Option<(usize, u64)> = None;
    let mut there = 0;
    for count in steps {
        let rate = fill(dir.path(), count - there)?;
        there = count;
        report.figure(&format!("filled to {count} jobs, 4,096 per sync"), rate, "jobs/s", "");
        let (rss, ready) = settled_rss(dir.path(), &[])?;
        let goal = if count == steps[1] { "<= 2 s" } else { "" };
        report.figure(&format!("{count} jobs: ready after"), ready.as_secs_f64(), "s", goal);
        report.figure(&format!("{count} jobs: memory"), mib(rss), "MiB", "");
        let per_job = rss.saturating_sub(empty) as f64 / count as f64;
        report.figure(&format!("{count} jobs: memory of each"), per_job, "B", "<= 100 B");
        if let Some((fewer, less)) = before {
            let grown = (rss as f64 - less as f64) / (count - fewer) as f64;
            report.figure("memory of each job beyond the window", grown, "B", "<= 1 B");
        }
        before = Some((count, rss));
    }
    let window = scale.of(1_000_000);
    let text = window.to_string();
    let wide = [("HENCE_WINDOW_JOBS", text.as_str()), ("HENCE_WINDOW_BYTES", "4GiB")];
    let (rss, _) = settled_rss(dir.path(), &wide)?;
    let inside = rss.saturating_sub(empty) as f64 / window as f64;
    let what = format!("memory of each of {window} inside the window");
    report.figure(&what, inside, "B", "<= 100 B and its payload of 100 B");
    Ok(())
}

fn fill(dir: &Path, count: usize) -> Result<f64> {
    let runtime = threads()?;
    let _inside = runtime.enter();
    let started = Instant::now();
    let mut writer = Writer::new(jobs::open(dir)?)?;
    writer.fill(count, Timestamp::from_millis(now_ms() + 3_600_000), 1)?;
    let rate = count as f64 / started.elapsed().as_secs_f64();
    writer.release()?;
    Ok(rate)
}

/// Starts the server; returns its memory when it has come to rest, and how long it took to be
/// ready.
fn settled_rss(dir: &Path, env: &[(&str, &str)]) -> Result<(u64, Duration)> {
    let mut all = vec![("HENCE_LOG", "warn")];
    all.extend_from_slice(env);
    let server = Server::start_with(dir, &all)?;
    let ready = server.ready_after;
    let mut rss = 0;
    // Its window is filled in the background: wait until it does not grow any more.
    for _ in 0..60 {
        std::thread::sleep(Duration::from_millis(500));
        let now = rss_bytes(server.pid())?;
        if now.abs_diff(rss) < 256 * 1024 {
            break;
        }
        rss = now;
    }
    Ok((rss_bytes(server.pid())?, ready))
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}
