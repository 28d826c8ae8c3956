//! The work during which a fault is made: pushed jobs, large enough to fill memtables and
//! segments, and pulled ones. Whatever is answered is written down; what is not is unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, ensure};
use hence_e2e::{Api, Arrival, Receiver, Server, clock};
use serde_json::{Value, json};

/// Jobs that wait in the directory to begin with.
pub(crate) const SEEDED: usize = 60;

/// Batches of a load, and jobs in each: about a megabyte, so that tables are merged.
const BATCHES: usize = 12;
const BATCH_JOBS: usize = 20;

const PAYLOAD_BYTES: usize = 4 * 1024;

const LEASE_MS: u64 = 1_000;

/// What producers and workers were told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// When each job that was sent is due, in milliseconds since 1970.
    pub(crate) due_ms: BTreeMap<String, i64>,
    /// Those that were acknowledged.
    pub(crate) accepted: BTreeSet<String>,
    /// Seeded jobs whose success was recorded, and those of which that is unknown.
    pub(crate) done: BTreeSet<String>,
    pub(crate) maybe_done: BTreeSet<String>,
}

/// What a job carries: its name, and enough to fill a memtable.
pub(crate) fn payload(id: &str) -> String {
    format!("{id}:{}", "x".repeat(PAYLOAD_BYTES))
}

/// Works until everything is done or the server has ended. Ids begin with `name`.
pub(crate) fn work(server: &mut Server, receiver: &Receiver, told: &mut Told, name: &str) {
    for batch in 0..BATCHES {
        if submit_batch(server, receiver, told, &format!("{name}{batch}")).is_none() {
            return;
        }
        if batch % 4 == 0 && pull(server, told).is_none() {
            return;
        }
    }
    for n in 0..10 {
        if submit_one(server, receiver, told, &format!("{name}-one{n}")).is_none() {
            return;
        }
    }
    let all = told.accepted.clone();
    clock::until(Duration::from_secs(10), || {
        let arrived: BTreeSet<String> =
            receiver.arrivals().into_iter().filter(Arrival::succeeded).map(|a| a.job).collect();
        (all.is_subset(&arrived) || server.has_ended()).then_some(())
    });
}

fn submit_batch(
    server: &mut Server,
    receiver: &Receiver,
    told: &mut Told,
    name: &str,
) -> Option<()> {
    let jobs: Vec<Value> = (0..BATCH_JOBS)
        .map(|n| job(receiver, told, &format!("{name}-{n}"), (n as i64 * 37) % 200))
        .collect();
    let answer = server.api().post("/v1/jobs", &json!({ "jobs": jobs })).ok()?;
    let answer = answer.value().ok()?;
    for (job, answer) in jobs.iter().zip(answer["jobs"].as_array()?) {
        if matches!(answer["status"].as_u64(), Some(200 | 201)) {
            told.accepted.insert(job["id"].as_str()?.to_owned());
        }
    }
    Some(())
}

/// Submits one job; none when nothing was answered.
fn submit_one(server: &Server, receiver: &Receiver, told: &mut Told, id: &str) -> Option<()> {
    let job = job(receiver, told, id, 20);
    let answer = server.api().post("/v1/jobs", &job).ok()?;
    if matches!(answer.status, 200 | 201) {
        told.accepted.insert(id.to_owned());
    }
    Some(())
}

fn job(receiver: &Receiver, told: &mut Told, id: &str, in_ms: i64) -> Value {
    let due_ms = clock::now_ms() + in_ms;
    told.due_ms.insert(id.to_owned(), due_ms);
    json!({"id": id, "at": due_ms, "url": receiver.url("/"), "payload_text": payload(id),
           "on_conflict": "keep"})
}

/// Takes some of the seeded jobs and finishes them.
fn pull(server: &Server, told: &mut Told) -> Option<()> {
    let mut api = server.api();
    let lease = format!("{LEASE_MS}ms");
    let jobs = api.lease(&json!({"queue": "seeded", "max": 5, "lease": lease})).ok()?;
    for job in jobs {
        finish(&mut api, told, &job)?;
    }
    Some(())
}

fn finish(api: &mut Api, told: &mut Told, job: &Value) -> Option<()> {
    let id = job["id"].as_str()?.to_owned();
    // Handed out although its success was recorded: the judge sees it as not known.
    if told.done.contains(&id) {
        told.due_ms.insert(format!("{id} was handed out again"), i64::MAX);
    }
    told.maybe_done.insert(id.clone());
    let answer =
        api.post(&format!("/v1/leases/{}/ack", job["token"].as_str()?), &json!({})).ok()?;
    if answer.status == 204 {
        told.done.insert(id);
    }
    Some(())
}

/// Takes and finishes what is left of the seeded jobs. Leases of before the fault have to run out.
pub(crate) fn finish_seeded(server: &Server, told: &mut Told) -> Result<()> {
    let mut api = server.api();
    let all_done = clock::until(Duration::from_secs(20), || {
        let request = json!({"queue": "seeded", "max": 50, "wait": "100ms"});
        for job in api.lease(&request).ok()? {
            finish(&mut api, told, &job)?;
        }
        let unsure: Vec<String> = told.maybe_done.difference(&told.done).cloned().collect();
        for id in unsure {
            if api.state(&format!("{id}?queue=seeded")).ok()? == "succeeded" {
                told.done.insert(id);
            }
        }
        (told.done.len() == SEEDED).then_some(())
    });
    ensure!(all_done.is_some(), "{} of {SEEDED} seeded jobs were finished", told.done.len());
    Ok(())
}
