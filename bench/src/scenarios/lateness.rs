//! How late jobs are while a million others wait: 5,000 a second for ten seconds.

use anyhow::{Result, ensure};
use hence_core::time::Timestamp;

use super::{herd, threads};
use crate::Scale;
use crate::jobs::{self, Writer};
use crate::machine::{noise, now_ms};
use crate::report::Report;
use crate::server::Server;

const GOAL: &str = "over the control: p50 <= 2, p99 <= 10, p99.9 <= 50 ms";

pub(crate) fn run(report: &mut Report, scale: Scale) -> Result<()> {
    let dir = tempfile::tempdir_in(".")?;
    let (pending, count) = (scale.of(1_000_000), scale.of(50_000));
    let span_ms = scale.of(10_000) as i64;
    {
        let runtime = threads()?;
        let _inside = runtime.enter();
        let mut writer = Writer::new(jobs::open(dir.path())?)?;
        writer.fill(pending, Timestamp::from_millis(now_ms() + 3_600_000), 1)?;
        writer.release()?;
    }
    let control = noise(scale.span());
    let in_process = herd::to_handler(dir.path(), count, span_ms)?;
    let runtime = threads()?;
    let server = Server::start(dir.path())?;
    let pushed = herd::push(&runtime, &server, count, span_ms)?;
    for (name, herd) in [("in-process handler", in_process), ("local HTTP sink", pushed)] {
        let spread = herd.lateness.spread();
        ensure!(spread.early == 0, "{} came early", spread.early);
        let what = format!("{name}, 5,000/s, {pending} pending");
        report.lateness(&what, &spread, &control, GOAL);
    }
    Ok(())
}
