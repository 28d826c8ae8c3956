//! The verdict: the history of a run, judged by the checker that judges simulated ones.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use hence_e2e::{Api, clock};
use hence_sim::check::{self, Ledger};
use hence_sim::history::{
    Event, Final, FinalAttempt, FinalJob, FinalQueue, How, Stamp, Submit, Verb, What,
};
use serde_json::Value;

use crate::record;

/// Every state, as the API writes them.
const STATES: &str = "scheduled,ready,running,succeeded,dead,cancelled,expired";

/// A history with something made wrong in it, and who must notice.
type Damage = (&'static str, fn(Vec<Event>) -> Option<Vec<Event>>);

/// What is done to a history to see that its verdict can be another.
const DAMAGES: [Damage; 7] = [
    ("lost", forget_a_job),
    ("early", ask_for_later),
    ("invented", change_a_payload),
    ("excused", repeat_without_a_cause),
    ("once", succeed_twice),
    ("witnessed", succeed_unseen),
    ("ended", leave_one_behind),
];

/// Whether every job that was accepted has ended, as far as the server knows.
pub(crate) fn at_rest(api: &mut Api) -> Result<bool> {
    let queues = final_queues(api)?;
    Ok(queues.iter().all(|queue| queue.pending == 0 && queue.running == 0))
}

/// Everything the server has.
pub(crate) fn take_final(address: SocketAddr) -> Result<Final> {
    let mut api = Api::new(address);
    let (mut jobs, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/jobs?state={STATES}&payload=true&limit=1000{cursor}");
        let page = api.get(&path)?.expect(200)?;
        for job in page["jobs"].as_array().context("a page has jobs")? {
            jobs.push(final_job(&mut api, job)?);
        }
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    let queues = final_queues(&mut api)?;
    Ok(Final { jobs, queues, schedules: Vec::new() })
}

/// What the checker finds must be nothing; and it must find what is made wrong on purpose.
pub(crate) fn judge(events: &[Event]) -> Result<()> {
    let findings = check::judge(events);
    let first: Vec<String> = findings.iter().take(5).map(ToString::to_string).collect();
    ensure!(findings.is_empty(), "{} findings: {first:#?}", findings.len());
    for (property, damage) in DAMAGES {
        let damaged = damage(events.to_vec());
        let damaged = damaged.with_context(|| format!("nothing to damage for {property}"))?;
        let found = check::judge(&damaged).iter().any(|finding| finding.property == property);
        ensure!(found, "{property} sees nothing wrong in a history that was damaged");
    }
    Ok(())
}

/// Jobs that succeeded, and deliveries that followed another one which had not been refused.
pub(crate) fn sums(events: &[Event]) -> (usize, usize) {
    let ledger = Ledger::new(events);
    let done = |job: &&check::Job<'_>| job.last.is_some_and(|last| last.state == "succeeded");
    let succeeded = ledger.jobs.values().filter(done).count();
    let mut repeated = 0;
    for job in ledger.jobs.values() {
        let deliveries: Vec<_> = ledger.deliveries_of(job).collect();
        let refused = |how| matches!(how, How::Failed { .. });
        let unrefused = deliveries.windows(2).filter(|pair| match pair[0].ended {
            Some((.., how)) => !refused(how),
            None => true,
        });
        repeated += unrefused.count();
    }
    (succeeded, repeated)
}

fn final_job(api: &mut Api, job: &Value) -> Result<FinalJob> {
    let text = |name: &str| job[name].as_str().unwrap_or_default().to_owned();
    let (queue, id, key) = (text("queue"), text("id"), job["key"].as_str());
    let with_key = key.map(|key| format!("&key={key}")).unwrap_or_default();
    let path = format!("/v1/jobs/{id}/attempts?queue={queue}{with_key}");
    let answer = api.get(&path)?.expect(200)?;
    let attempts = answer["attempts"].as_array().context("a list of attempts")?;
    Ok(FinalJob {
        job: record::name(&queue, key, &id),
        number: job["number"].as_u64().context("a number")?,
        state: text("state"),
        scheduled_for: millis(&job["scheduled_for"])?,
        due_at: millis(&job["due_at"])?,
        payload: job["payload_text"].as_str().map(str::to_owned),
        attempts: attempts.iter().map(final_attempt).collect::<Result<_>>()?,
        queue,
    })
}

fn final_attempt(attempt: &Value) -> Result<FinalAttempt> {
    Ok(FinalAttempt {
        attempt: attempt["attempt"].as_u64().context("a number")? as u32,
        token: record::stamp(attempt["token"].as_str().unwrap_or_default()),
        started_at: millis(&attempt["started_at"])?,
        ended_at: millis(&attempt["ended_at"])?,
        end: attempt["end"].as_str().unwrap_or_default().to_owned(),
    })
}

fn final_queues(api: &mut Api) -> Result<Vec<FinalQueue>> {
    let answer = api.get("/v1/queues")?.expect(200)?;
    let queues = answer["queues"].as_array().context("a list of queues")?;
    let read = |queue: &Value| -> Result<FinalQueue> {
        let mut read: FinalQueue = serde_json::from_value(queue["counts"].clone())?;
        queue["name"].as_str().unwrap_or_default().clone_into(&mut read.queue);
        Ok(read)
    };
    queues.iter().map(read).collect()
}

fn millis(text: &Value) -> Result<i64> {
    let us = text.as_str().and_then(clock::parse_us);
    us.map(|us| us / 1_000).with_context(|| format!("{text} is no time"))
}

/// The job of the first delivery that was done, and where in the history that is.
fn first_done(events: &[Event]) -> Option<(usize, Stamp)> {
    let done = |event: &Event| match event.what {
        What::Ended { token, how: How::Done } => Some(token),
        _ => None,
    };
    events.iter().enumerate().find_map(|(at, event)| done(event).map(|token| (at, token)))
}

fn last(events: &mut [Event]) -> Option<&mut Final> {
    events.iter_mut().rev().find_map(|event| match &mut event.what {
        What::Final(last) => Some(last),
        _ => None,
    })
}

fn succeeded(events: &mut [Event]) -> Option<&mut FinalJob> {
    last(events)?.jobs.iter_mut().find(|job| job.state == "succeeded")
}

fn forget_a_job(mut events: Vec<Event>) -> Option<Vec<Event>> {
    let number = succeeded(&mut events)?.number;
    last(&mut events)?.jobs.retain(|job| job.number != number);
    Some(events)
}

fn ask_for_later(mut events: Vec<Event>) -> Option<Vec<Event>> {
    let done = succeeded(&mut events)?.job.clone();
    for event in &mut events {
        if let What::Ask { verb: Verb::Submit(Submit { job, due_at, .. }), .. } = &mut event.what
            && *job == done
        {
            *due_at += 3_600_000;
        }
    }
    Some(events)
}

fn change_a_payload(mut events: Vec<Event>) -> Option<Vec<Event>> {
    let payload = events.iter_mut().find_map(|event| match &mut event.what {
        What::Received(received) => Some(&mut received.payload),
        _ => None,
    });
    payload?.push('?');
    Some(events)
}

fn repeat_without_a_cause(mut events: Vec<Event>) -> Option<Vec<Event>> {
    events.retain(|event| event.what != What::Died);
    let (at, done) = first_done(&events)?;
    let received = events.iter().find_map(|event| match &event.what {
        What::Received(received) if received.token == done => Some(received.clone()),
        _ => None,
    });
    let mut again = received?;
    again.token = record::stamp("0.4000000000.1");
    let mut event = events[at].clone();
    event.what = What::Received(again);
    events.insert(at + 1, event);
    Some(events)
}

fn succeed_twice(mut events: Vec<Event>) -> Option<Vec<Event>> {
    let attempts = &mut succeeded(&mut events)?.attempts;
    let again = attempts.last()?.clone();
    attempts.push(again);
    Some(events)
}

fn succeed_unseen(mut events: Vec<Event>) -> Option<Vec<Event>> {
    let attempts = &mut succeeded(&mut events)?.attempts;
    attempts.last_mut()?.token = record::stamp("0.4000000000.1");
    Some(events)
}

fn leave_one_behind(mut events: Vec<Event>) -> Option<Vec<Event>> {
    "ready".clone_into(&mut succeeded(&mut events)?.state);
    Some(events)
}
