//! Hence on MariaDB, and the raw server: on the same server, each in a database of its own.

use anyhow::Result;
use hence_testkit::MariaDb;

use super::database::{CLIENTS, Place};
use super::threads;
use crate::Scale;
use crate::raw_mysql::RawMySql;
use crate::report::{Report, Row};

/// Durable as it comes (a sync for every commit); memory and log for a machine that does more than
/// run tests.
const SETTINGS: [&str; 3] =
    ["innodb_buffer_pool_size = 1G", "innodb_log_file_size = 1G", "max_connections = 200"];

/// Connections that send rows in batches: more only wait for each other on two cores.
const RAW_BATCHES: usize = 4;

pub(crate) fn run(report: &mut Report, scale: Scale) -> Result<()> {
    let server = MariaDb::start_with(&SETTINGS)?;
    let fresh = || server.database();
    let place = Place { fresh: &fresh, pid: server.pid()? };
    let runtime = threads()?;
    let raw = runtime.block_on(RawMySql::create(&(place.fresh)()?))?;
    place.submit(report, scale.span(), &|size, span| {
        let clients = if size == 1 { CLIENTS } else { RAW_BATCHES };
        runtime.block_on(raw.insert(clients, size, span))
    })?;
    let count = scale.of(100_000);
    let row = Row {
        what: &format!("in-process handler, {count} jobs end to end"),
        value: place.to_handler(count)?,
        unit: "jobs/s",
        against: None,
        goal: "",
    };
    report.row(&row);
    let what = format!("{CLIENTS} workers over HTTP, 16 at a time, end to end");
    place.to_workers(report, count, &Row { what: &what, ..row })?;
    place.herds(report, scale.of(50_000), None)
}
