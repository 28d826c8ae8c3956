//! The verdict: what producers and workers were told against what the receiver saw.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use hence_e2e::{Api, Arrival, Receiver, Server};

use crate::case::Begin;
use crate::load::{SEEDED, Told, payload};

/// Nothing acknowledged is lost, nothing is early, nothing is repeated without a cause, and one
/// success of each is recorded.
pub(crate) fn judge(server: &Server, receiver: &Receiver, told: &Told, begin: Begin) -> Result<()> {
    ensure!(told.accepted.len() > 200, "only {} were accepted", told.accepted.len());
    for id in &told.accepted {
        receiver.wait_for(id, 1, Duration::from_secs(10))?;
    }
    let mut jobs: HashMap<String, Vec<Arrival>> = HashMap::new();
    for arrival in receiver.arrivals() {
        jobs.entry(arrival.job.clone()).or_default().push(arrival);
    }
    for (id, arrivals) in &jobs {
        judge_arrivals(told, id, arrivals)?;
    }
    let mut api = server.api();
    for id in &told.accepted {
        one_success(&mut api, id, "default")?;
    }
    if begin == Begin::Seeded {
        for n in 0..SEEDED {
            one_success(&mut api, &format!("s{n}"), "seeded")?;
        }
    }
    let again: Vec<_> = told.due_ms.keys().filter(|id| id.ends_with("again")).collect();
    ensure!(again.is_empty(), "after the success was recorded: {again:?}");
    Ok(())
}

fn judge_arrivals(told: &Told, id: &str, arrivals: &[Arrival]) -> Result<()> {
    let Some(due_ms) = told.due_ms.get(id) else { anyhow::bail!("{id} was invented") };
    for arrival in arrivals {
        let early_us = due_ms * 1_000 - arrival.at_us;
        ensure!(early_us <= 0, "{id} came {early_us} us early");
        ensure!(arrival.body == payload(id), "{id} carries something else");
    }
    for pair in arrivals.windows(2) {
        let (one, next) = (&pair[0], &pair[1]);
        ensure!(one.token < next.token, "tokens must grow: {one:?}, then {next:?}");
        // The only cause there is here: the process that sent the first one died.
        let died = one.token.epoch < next.token.epoch;
        ensure!(died, "repeated without a cause: {one:?}, then {next:?}");
    }
    Ok(())
}

fn one_success(api: &mut Api, id: &str, queue: &str) -> Result<()> {
    let path = format!("/v1/jobs/{id}/attempts?queue={queue}");
    // The receiver has answered; that this is recorded takes another moment.
    let recorded = hence_e2e::clock::until(Duration::from_secs(5), || {
        let answer = api.get(&path).ok()?.value().ok()?;
        let attempts = answer["attempts"].as_array()?;
        let successes = attempts.iter().filter(|attempt| attempt["end"] == "succeeded").count();
        (successes > 0).then_some(successes)
    });
    ensure!(recorded == Some(1), "{id} has {recorded:?} recorded successes");
    Ok(())
}
