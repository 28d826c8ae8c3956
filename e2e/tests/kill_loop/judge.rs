//! The verdict: what producers were told against what receivers saw.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Result, bail, ensure};
use hence_e2e::{Api, Token};
use serde_json::Value;

use crate::load::{DOOMED_ATTEMPTS, LEASE_MS, Plan, RETRY_MS, Said, World};

/// How long after the receiver's answer a kill may still undo it: the answer has to travel, and to
/// be written down. Beyond this, a repeat has no excuse.
const RECORDED_WITHIN_US: i64 = 1_000_000;

/// What was sent before a kill may be read by the receiver after it.
const IN_SOCKET_US: i64 = 200_000;

/// One delivery, pushed or pulled, as whoever got it saw it.
#[derive(Debug, Clone)]
struct Delivery {
    job: String,
    at_us: i64,
    ended_us: i64,
    token: Token,
    payload: String,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The receiver said yes.
    Yes,
    /// The receiver said yes, and was told that this is recorded.
    Recorded,
    /// The receiver said no.
    No,
    /// The receiver could not say anything.
    Nothing,
}

/// Deliveries of each job, in order of arrival.
fn deliveries(world: &World) -> HashMap<String, Vec<Delivery>> {
    let pushed = world.receiver.arrivals().into_iter().map(|arrival| Delivery {
        end: match arrival.status {
            Some(200..300) => End::Yes,
            Some(_) => End::No,
            None => End::Nothing,
        },
        job: arrival.job,
        at_us: arrival.at_us,
        ended_us: arrival.ended_us.unwrap_or(i64::MAX),
        token: arrival.token,
        payload: String::from_utf8_lossy(&arrival.body).into_owned(),
    });
    let pulled = world.handled().into_iter().map(|handling| Delivery {
        end: match handling.said {
            Said::Done => End::Recorded,
            Said::DoneTooLate | Said::DoneUnheard => End::Yes,
            Said::NotDone => End::No,
        },
        job: handling.job,
        at_us: handling.at_us,
        ended_us: handling.ended_us,
        token: handling.token,
        payload: handling.payload,
    });
    let mut jobs: HashMap<String, Vec<Delivery>> = HashMap::new();
    for delivery in pushed.chain(pulled) {
        jobs.entry(delivery.job.clone()).or_default().push(delivery);
    }
    for list in jobs.values_mut() {
        list.sort_by_key(|delivery| delivery.at_us);
    }
    jobs
}

impl Delivery {
    fn said_yes(&self) -> bool {
        matches!(self.end, End::Yes | End::Recorded)
    }
}

/// Acknowledged jobs that have not come to their end at a receiver.
pub(crate) fn unfinished(world: &World) -> Vec<Plan> {
    let seen = deliveries(world);
    let ended = |plan: &Plan| {
        let list = seen.get(&plan.id).map_or(&[][..], Vec::as_slice);
        if plan.doomed {
            list.iter().filter(|delivery| delivery.end == End::No).count() >= DOOMED_ATTEMPTS
        } else {
            list.iter().any(Delivery::said_yes)
        }
    };
    let accepted = world.plans().into_iter().filter(|plan| plan.accepted_us.is_some());
    accepted.filter(|plan| !ended(plan)).collect()
}

/// Jobs whose receiver said yes.
pub(crate) fn succeeded(world: &World) -> usize {
    deliveries(world).values().filter(|list| list.iter().any(Delivery::said_yes)).count()
}

/// Deliveries that followed another one which had not been refused.
pub(crate) fn repeated(world: &World) -> usize {
    let jobs = deliveries(world);
    let pairs = jobs.values().flat_map(|list| list.windows(2));
    pairs.filter(|pair| pair[0].end != End::No).count()
}

/// Everything that must hold.
pub(crate) fn judge(world: &World) -> Result<()> {
    let jobs = deliveries(world);
    let kills: Vec<i64> = world.kills().iter().map(|kill| kill.at_us).collect();
    let plans: HashMap<String, Plan> =
        world.plans().into_iter().map(|plan| (plan.id.clone(), plan)).collect();
    for (id, list) in &jobs {
        let Some(plan) = plans.get(id) else { bail!("{id} was invented: {list:?}") };
        judge_job(plan, list, &kills)?;
    }
    judge_keys(&plans, &jobs, &kills)?;
    judge_records(world, &plans, &jobs)
}

fn judge_job(plan: &Plan, list: &[Delivery], kills: &[i64]) -> Result<()> {
    for delivery in list {
        let early = plan.due_ms * 1_000 - delivery.at_us;
        ensure!(early <= 0, "{} came {early} us early: {delivery:?}", plan.id);
        ensure!(delivery.payload == plan.id, "another payload: {delivery:?}");
    }
    for pair in list.windows(2) {
        let (one, next) = (&pair[0], &pair[1]);
        ensure!(one.token < next.token, "tokens must grow: {one:?}, then {next:?}");
        judge_repeat(plan, one, next, kills)?;
    }
    let recorded = list.iter().filter(|delivery| delivery.end == End::Recorded).count();
    ensure!(recorded <= 1, "{} was recorded {recorded} times: {list:?}", plan.id);
    Ok(())
}

/// `next` followed `one`: there must be a reason, and time enough between the two.
fn judge_repeat(plan: &Plan, one: &Delivery, next: &Delivery, kills: &[i64]) -> Result<()> {
    let killed_between = |from: i64, to: i64| kills.iter().any(|at| (from..to).contains(at));
    let excused = match one.end {
        End::Recorded => bail!("{} came again after its success was recorded: {next:?}", plan.id),
        End::No => true,
        End::Yes | End::Nothing => {
            let recorded_by = one.ended_us.saturating_add(RECORDED_WITHIN_US);
            let killed = killed_between(one.at_us - IN_SOCKET_US, next.at_us.min(recorded_by));
            killed && one.token.epoch < next.token.epoch
        }
    };
    let lapsed = plan.pulled && next.at_us - one.at_us >= LEASE_MS * 1_000;
    ensure!(excused || lapsed, "repeated without a cause: {one:?}, then {next:?}");
    if one.end == End::No && !killed_between(one.at_us, next.at_us) {
        let waited = next.at_us - one.ended_us;
        // Times are whole milliseconds, rounded down, so a delay may lack a part of one.
        let least = (RETRY_MS - 1) * 1_000;
        ensure!(waited >= least, "tried again after {waited} us: {one:?}, then {next:?}");
    }
    Ok(())
}

/// Of one key: one at a time, and none before those due before it have ended.
fn judge_keys(
    plans: &HashMap<String, Plan>,
    jobs: &HashMap<String, Vec<Delivery>>,
    kills: &[i64],
) -> Result<()> {
    let mut keys: BTreeMap<(bool, &str), Vec<&Plan>> = BTreeMap::new();
    for plan in plans.values().filter(|plan| jobs.contains_key(&plan.id)) {
        if let Some(key) = &plan.key {
            keys.entry((plan.pulled, key)).or_default().push(plan);
        }
    }
    for ((_, key), mut plans) in keys {
        let mut all: Vec<&Delivery> = plans.iter().flat_map(|plan| &jobs[&plan.id]).collect();
        all.sort_by_key(|delivery| delivery.at_us);
        for pair in all.windows(2) {
            let (one, next) = (pair[0], pair[1]);
            let sent_us = one.at_us - IN_SOCKET_US;
            let cut_off = one.token.epoch < next.token.epoch
                && kills.iter().any(|at| (sent_us..next.at_us).contains(at));
            let apart = one.ended_us <= next.at_us;
            ensure!(apart || cut_off, "two at once of {key}: {one:?} and {next:?}");
        }
        plans.sort_by_key(|plan| (plan.due_ms, plan.number));
        for pair in plans.windows(2) {
            judge_order(pair[0], pair[1], jobs)?;
        }
    }
    Ok(())
}

/// `first` is due before `second`. If it was there in time, nothing of it may follow the other.
fn judge_order(first: &Plan, second: &Plan, jobs: &HashMap<String, Vec<Delivery>>) -> Result<()> {
    // Only then it is certain that the first was known when the second could start at the earliest.
    let in_time = first.accepted_us.is_some_and(|at| at < second.due_ms * 1_000);
    let (Some(last), Some(begin)) = (jobs[&first.id].last(), jobs[&second.id].first()) else {
        return Ok(());
    };
    let ordered = last.at_us <= begin.at_us;
    ensure!(!in_time || ordered, "out of order in a key: {first:?} {last:?}, {second:?} {begin:?}");
    Ok(())
}

/// What Hence says in the end agrees with what was seen: one success each, of a delivery that was
/// seen to succeed.
fn judge_records(
    world: &World,
    plans: &HashMap<String, Plan>,
    jobs: &HashMap<String, Vec<Delivery>>,
) -> Result<()> {
    let mut api = Api::new(world.address);
    for plan in plans.values() {
        let queue = if plan.pulled { "pulled" } else { "pushed" };
        let key = plan.key.as_ref().map(|key| format!("&key={key}")).unwrap_or_default();
        let path = format!("/v1/jobs/{}/attempts?queue={queue}{key}", plan.id);
        let answer = api.get(&path)?;
        if answer.status == 404 && plan.accepted_us.is_none() {
            ensure!(!jobs.contains_key(&plan.id), "{plan:?} came and is not known");
            continue;
        }
        let answer = answer.expect(200)?;
        let attempts = answer["attempts"].as_array().cloned().unwrap_or_default();
        let none = Vec::new();
        judge_attempts(plan, &attempts, jobs.get(&plan.id).unwrap_or(&none))?;
        let job = api.get(&path.replace("/attempts", ""))?.expect(200)?;
        let expected = if plan.doomed { "dead" } else { "succeeded" };
        ensure!(job["state"] == expected, "{} should be {expected}: {job}", plan.id);
    }
    Ok(())
}

fn judge_attempts(plan: &Plan, attempts: &[Value], seen: &[Delivery]) -> Result<()> {
    let ends = |end: &str| attempts.iter().filter(|attempt| attempt["end"] == end).count();
    if plan.doomed {
        let counted = ends("failed") + ends("timed_out");
        ensure!(counted == DOOMED_ATTEMPTS, "{} has {counted} failures: {attempts:?}", plan.id);
        return Ok(());
    }
    ensure!(ends("succeeded") == 1, "not one success: {plan:?} {attempts:?}");
    let won = attempts.iter().find(|attempt| attempt["end"] == "succeeded");
    let token = Token::parse(won.and_then(|a| a["token"].as_str()).unwrap_or_default());
    let witness = seen.iter().find(|delivery| delivery.token == token);
    let yes = witness.is_some_and(Delivery::said_yes);
    ensure!(yes, "{} succeeded with {token:?}, which nobody saw: {seen:?}", plan.id);
    if let Some(told) = seen.iter().find(|delivery| delivery.end == End::Recorded) {
        ensure!(told.token == token, "another success is recorded than was told: {told:?}");
    }
    Ok(())
}
