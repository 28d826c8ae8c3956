//! The power is cut: what was acknowledged is there when it comes back.
//!
//! The real binary works on a real ext4, on a disk of ours that writes down every write and every
//! flush ([`nbd`]). Then the disk is put together as a cut might have left it ([`replay`]):
//! everything up to a flush, and of what came after it some writes, some half, some not at all. The
//! file system mends itself, the store is opened by the real binary, and every job that had been
//! acknowledged by that moment must be there. The same without syncs must be caught, or the test
//! proves nothing.
//!
//! `HENCE_STATES=N` changes how many states there are, `HENCE_SEED=N` replays the choices of a run.

#![expect(clippy::print_stdout, reason = "the sums and the seed belong to the result")]

mod nbd;
mod replay;
mod volume;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use hence_e2e::suite::{self, Ended};
use hence_e2e::{Build, Seed, Server, Setup, server};
use serde_json::json;

use nbd::{Event, Recorder};
use replay::Acknowledged;
use volume::{Volume, unavailable};

/// States of the disk that are looked at.
const STATES: usize = 500;

/// For the run without syncs: losses are the rule there.
const CONTROL_STATES: usize = 40;

/// Jobs that are acknowledged while the disk is recorded.
const JOBS: usize = 150;

fn main() -> ExitCode {
    // One after the other, before anything runs: builds of both kinds pass through one name.
    server::binary(Build::Failing);
    server::binary(Build::Normal);
    suite::run(&[
        ("acknowledged_jobs_survive_a_power_cut", acknowledged_jobs_survive_a_power_cut),
        ("a_disk_without_syncs_is_caught", a_disk_without_syncs_is_caught),
    ])
}

fn acknowledged_jobs_survive_a_power_cut() -> Result<Ended> {
    if let Some(reason) = unavailable() {
        return Ok(Ended::Skipped(reason));
    }
    let states = std::env::var("HENCE_STATES").ok().and_then(|n| n.parse().ok()).unwrap_or(STATES);
    let (seed, number) = Seed::from_env();
    let (journal, acknowledged) = record(&[])?;
    let sum = replay::replay(&journal, &acknowledged, states, &seed)?;
    println!("{sum}; seed {number}");
    ensure!(sum.lost.is_empty(), "seed {number}, lost: {:?}", sum.lost.first());
    ensure!(sum.torn > 0 && sum.dropped > 0, "no write was torn or dropped: {sum}");
    Ok(Ended::Passed)
}

/// The control: the same binary, told to leave the syncs of its files out.
fn a_disk_without_syncs_is_caught() -> Result<Ended> {
    if let Some(reason) = unavailable() {
        return Ok(Ended::Skipped(reason));
    }
    let (seed, number) = Seed::from_env();
    let (journal, acknowledged) = record(&[("HENCE_FAIL", "disk.sync=skip")])?;
    let sum = replay::replay(&journal, &acknowledged, CONTROL_STATES, &seed)?;
    println!("without syncs: {sum}; seed {number}");
    ensure!(!sum.lost.is_empty(), "nothing was lost without a single sync: {sum}");
    Ok(Ended::Passed)
}

/// Lets the server work on a recorded disk. Gives what the disk was told, and what clients were
/// told when.
fn record(env: &[(&str, &str)]) -> Result<(Vec<Event>, Vec<Acknowledged>)> {
    let home = tempfile::tempdir()?;
    let recorder = Recorder::start(&home.path().join("socket"))?;
    let volume = Volume::make(home.path())?;
    let mut env: Vec<(String, String)> =
        env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    env.push(("HENCE_FAIL_SMALL".to_owned(), "1".to_owned()));
    let data = Some(volume.path().join("data"));
    let setup = Setup { data, env, build: Build::Failing, ..Setup::default() };
    let mut server = Server::start_with(setup)?;
    let worked = work(&server, &recorder);
    let acknowledged = server.explain(worked)?;
    server.kill()?;
    // Up to here: to unmount is to write the superblock, two sectors that ext4 itself cannot do
    // without, and no part of the server's life.
    let journal = recorder.journal();
    volume.unmount()?;
    Ok((journal, acknowledged))
}

/// Submits jobs, and finishes every fifth. An answer is stamped with the length of the journal.
fn work(server: &Server, recorder: &Recorder) -> Result<Vec<Acknowledged>> {
    let mut api = server.api();
    let mut acknowledged = Vec::new();
    for n in 0..JOBS {
        let id = format!("j{n}");
        let text = "x".repeat(n * 37 % 3_000);
        api.submit(&json!({"id": id, "queue": "q", "in": "0s", "payload_text": text}))?;
        acknowledged.push(Acknowledged { id, done: false, events: recorder.events() });
        if n % 5 == 4 {
            for job in api.lease(&json!({"queue": "q", "lease": "60s"}))? {
                let token = job["token"].as_str().unwrap_or_default();
                let answer = api.post(&format!("/v1/leases/{token}/ack"), &json!({}))?;
                ensure!(answer.status == 204, "{answer:?}");
                let id = job["id"].as_str().unwrap_or_default().to_owned();
                acknowledged.push(Acknowledged { id, done: true, events: recorder.events() });
            }
        }
    }
    Ok(acknowledged)
}

/// The path as an argument.
fn text(path: &Path) -> String {
    path.display().to_string()
}
