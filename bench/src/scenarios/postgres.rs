//! Hence on PostgreSQL, the raw server, and the peers that live in one: all on the same server,
//! each in a database of its own, one after the other.

use std::time::Duration;

use anyhow::Result;
use hence_testkit::Postgres;

use super::database::{BATCHES, CLIENTS, Place};
use super::threads;
use crate::Scale;
use crate::peers::{self, Measured, PEERS, Peer};
use crate::raw_postgres::RawPostgres;
use crate::report::{Report, Row};

/// Durable as it comes (fsync, synchronous_commit and full_page_writes are on); memory and log for
/// a machine that does more than run tests.
const SETTINGS: [&str; 4] =
    ["shared_buffers = '1GB'", "max_wal_size = '8GB'", "max_connections = 200", "jit = off"];

/// Connections that send rows in batches: more only wait for each other on two cores.
const RAW_BATCHES: usize = 4;

/// Time for a peer to submit all jobs of a herd.
const LEAD: Duration = Duration::from_secs(15);

pub(crate) fn run(report: &mut Report, scale: Scale) -> Result<()> {
    let server = Postgres::start_with(&SETTINGS)?;
    let fresh = || server.database();
    let place = Place { fresh: &fresh, pid: server.pid()? };
    submit(report, scale, &place)?;
    let peers = install(report);
    for peer in &peers {
        submit_to(report, scale, &place, peer)?;
    }
    end_to_end(report, scale, &place, &peers)?;
    herds(report, scale, &place, &peers)
}

/// Hence and the raw server in turns, then what the raw server does with rows that are taken.
fn submit(report: &Report, scale: Scale, place: &Place<'_>) -> Result<()> {
    let runtime = threads()?;
    let raw = runtime.block_on(RawPostgres::create((place.fresh)()?))?;
    place.submit(report, scale.span(), &|size, span| match size {
        1 => runtime.block_on(raw.insert_singly(CLIENTS, span)),
        _ => runtime.block_on(raw.insert_many(RAW_BATCHES, size, span)),
    })?;
    for size in [16, 100] {
        let rows = scale.of(100_000);
        let rate = runtime.block_on(raw.claim(RAW_BATCHES, size, rows))?;
        let what = format!("raw: claim and complete, SKIP LOCKED, {size} at a time");
        report.figure(&what, rate, "jobs/s", "");
    }
    Ok(())
}

fn install(report: &Report) -> Vec<Peer> {
    let install = |(name, installer)| match peers::install(name, installer) {
        Ok(peer) => Some(peer),
        Err(error) => {
            report.skipped(&format!("peer: {name}"), &format!("{error:#}"));
            None
        }
    };
    PEERS.into_iter().filter_map(install).collect()
}

/// One step of a peer on an empty database; one that fails is named, with the reason.
fn measure(
    report: &Report,
    place: &Place<'_>,
    peer: &Peer,
    step: &str,
    numbers: &[usize],
) -> Result<Option<Measured>> {
    let url = (place.fresh)()?;
    match peer.measure(&url, step, numbers) {
        Ok(measured) => Ok(Some(measured)),
        Err(error) => {
            report.skipped(&format!("peer: {}, {step}", peer.name), &format!("{error:#}"));
            Ok(None)
        }
    }
}

fn submit_to(report: &Report, scale: Scale, place: &Place<'_>, peer: &Peer) -> Result<()> {
    let span = scale.span().as_millis() as usize;
    if let Some(measured) = measure(report, place, peer, "singly", &[CLIENTS, span])? {
        let what = format!("peer: {}, {CLIENTS} callers, singly", peer.name);
        report.figure(&what, measured.rate(), "jobs/s", "");
    }
    for (callers, size) in BATCHES {
        if let Some(measured) = measure(report, place, peer, "batches", &[callers, size, span])? {
            let what = format!("peer: {}, {callers} callers, {size} a call", peer.name);
            report.figure(&what, measured.rate(), "jobs/s", "");
        }
    }
    Ok(())
}

fn end_to_end(report: &Report, scale: Scale, place: &Place<'_>, peers: &[Peer]) -> Result<()> {
    let count = scale.of(100_000);
    let mut best: Option<(&str, f64)> = None;
    for peer in peers {
        let Some(measured) = measure(report, place, peer, "work", &[count])? else { continue };
        let what = format!("peer: {}, {count} jobs end to end", peer.name);
        report.figure(&what, measured.rate(), "jobs/s", "");
        if best.is_none_or(|(_, rate)| rate < measured.rate()) {
            best = Some((&peer.name, measured.rate()));
        }
    }
    let row = Row {
        what: &format!("in-process handler, {count} jobs end to end"),
        value: place.to_handler(count)?,
        unit: "jobs/s",
        against: best,
        goal: ">= 2 x",
    };
    report.row(&row);
    let what = format!("{CLIENTS} workers over HTTP, 16 at a time, end to end");
    place.to_workers(report, count, &Row { what: &what, ..row })
}

fn herds(report: &Report, scale: Scale, place: &Place<'_>, peers: &[Peer]) -> Result<()> {
    let count = scale.of(50_000);
    let lead = scale.of(LEAD.as_millis() as usize).max(3_000);
    let mut best: Option<(&str, f64)> = None;
    for peer in peers {
        let Some(measured) = measure(report, place, peer, "herd", &[count, lead])? else {
            continue;
        };
        let what = format!("peer: {}, until all {count} have arrived", peer.name);
        report.figure(&what, measured.arrived, "s", "");
        report.figure("  until all are recorded", measured.seconds, "s", "");
        if measured.early > 0 {
            report.figure("  early", measured.early as f64, "jobs", "");
        }
        if best.is_none_or(|(_, least)| least > measured.arrived) {
            best = Some((&peer.name, measured.arrived));
        }
    }
    place.herds(report, count, best)
}
