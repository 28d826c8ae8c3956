//! A server with nothing to do.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::Scale;
use crate::machine::{cpu_time, rss_bytes};
use crate::report::Report;
use crate::server::Server;

pub(crate) fn run(report: &mut Report, scale: Scale) -> Result<()> {
    let dir = tempfile::tempdir_in(".")?;
    let server = Server::start(dir.path())?;
    std::thread::sleep(Duration::from_secs(1));
    let (before, started) = (cpu_time(server.pid())?, Instant::now());
    std::thread::sleep(scale.span() * 5);
    let used = cpu_time(server.pid())?.saturating_sub(before);
    let percent = used.as_secs_f64() / started.elapsed().as_secs_f64() * 100.0;
    report.figure("processor", percent, "% a core", "< 0.5 %");
    let rss = rss_bytes(server.pid())? as f64 / 1_048_576.0;
    report.figure("memory", rss, "MiB", "< 30 MiB");
    Ok(())
}
