//! Producers: they submit jobs with every option there is, repeat what was not answered, and change
//! their minds.

use std::sync::Arc;

use hence::client::Added;
use hence::new_job::Idempotency;
use hence::{Error, NewId, NewJob};
use hence_core::effect::Submitted;
use hence_core::id::JobName;
use hence_core::input::Edit;
use hence_core::job::{KeyOnFailure, OnConflict, OnUnknown, Target};
use hence_core::retry::{Backoff, RetryPolicy};
use hence_core::time::{Millis, Timestamp};

use super::clock::sleep_ms;
use super::dice::Dice;
use super::target::HANDLER;
use super::{World, name_text};
use crate::history::{Answer, Submit, Terms, Verb};

/// The queues there are.
pub(super) const QUEUES: [&str; 3] = ["alpha", "beta", "gamma"];

const KEYS: [&str; 3] = ["k1", "k2", "k3"];

/// How often a submission is repeated when no answer comes.
const TRIES: u32 = 4;

/// A wish, as it is sent.
struct Wish {
    new: NewJob,
    name: JobName,
    submit: Submit,
}

/// Submits until the world is to calm down.
pub(super) async fn run(world: Arc<World>, number: usize) {
    let name = format!("producer {number}");
    let mut dice = world.dice(&name);
    let mut known: Vec<JobName> = Vec::new();
    let mut count = 0;
    while world.is_active() {
        sleep_ms(dice.between(0, world.size.pause_ms_max())).await;
        if !known.is_empty() && dice.chance(0.25) {
            let job = dice.pick(&known).clone();
            change_mind(&world, &name, &mut dice, job).await;
            continue;
        }
        count += 1;
        let id = format!("p{number}-{count}");
        // Sometimes an old name, so that a job takes the place of another.
        let old = known.last().filter(|_| dice.chance(0.1)).cloned();
        let Some(wish) = draw(&world, &mut dice, &id, old) else { continue };
        let job = wish.name.clone();
        submit(&world, &name, &mut dice, wish).await;
        known.push(job);
        if known.len() > 40 {
            known.remove(0);
        }
    }
}

async fn submit(world: &Arc<World>, by: &str, dice: &mut Dice, wish: Wish) {
    for _ in 0..TRIES {
        let verb = Verb::Submit(wish.submit.clone());
        let new = wish.new.clone();
        let asked = world.ask(by, verb, accepted, move |client| {
            let new = new.clone();
            async move { client.add(new).await }
        });
        if asked.await.is_some() || !wish.submit.idempotent {
            return;
        }
        sleep_ms(dice.between(1, 500)).await;
    }
}

fn accepted(added: &Added) -> Answer {
    let number = added.view.job.number.0;
    match added.how {
        Submitted::Created | Submitted::Replaced => Answer::Accepted(number),
        Submitted::Kept => Answer::Kept(number),
    }
}

/// A job with options as they come.
fn draw(world: &World, dice: &mut Dice, id: &str, old: Option<JobName>) -> Option<Wish> {
    let queue = *dice.pick(&QUEUES);
    let mut new = match dice.between(0, 9) {
        0..=3 => NewJob::worker(),
        4..=7 => NewJob::http("http://target.example/"),
        _ => NewJob::handler(HANDLER).ok()?,
    };
    let fresh = old.is_none();
    match old {
        Some(name) => {
            new = new.queue(name.queue.as_str()).ok()?.id(name.id.as_str()).ok()?;
            new.key = name.key;
        }
        None => {
            new = new.queue(queue).ok()?.id(id).ok()?;
            if dice.chance(0.4) {
                let key = *dice.pick(&KEYS);
                new = new.key(key).ok()?;
            }
        }
    }
    let name = JobName {
        queue: new.queue.clone(),
        key: new.key.clone(),
        id: match &new.id {
            NewId::Given(id) => id.clone(),
            NewId::Drawn | NewId::ContentHash => return None,
        },
    };
    // Every intent carries its own payload: that is how deliveries are told apart.
    let payload = format!("{id}:{}", "x".repeat(dice.between(0, 300) as usize));
    let due_at = world.clock.wall() + dice.between(0, 30_000) as i64 - 2_000;
    new = new.payload(payload.clone()).at(Timestamp::from_millis(due_at));
    let idempotent = fresh && dice.chance(0.7);
    if idempotent {
        new.idempotency = Some(Idempotency { key: id.to_owned(), fingerprint: 7 });
    } else if fresh && dice.chance(0.2) {
        new.on_conflict = Some(OnConflict::Reject);
    }
    let terms = draw_terms(dice, &mut new, idempotent);
    let (job, queue) = (name_text(&name), name.queue.to_string());
    let key = name.key.as_ref().map(ToString::to_string);
    let submit = Submit { job, queue, key, due_at, payload, idempotent, terms };
    Some(Wish { new, name, submit })
}

/// What a job asks for besides; the same for the node and for the record.
fn draw_terms(dice: &mut Dice, new: &mut NewJob, idempotent: bool) -> Terms {
    let (retry, delays_ms) = draw_retry(dice);
    let kept = *dice.pick(&[0, 2_000, 3_600_000, 86_400_000]);
    let terms = Terms {
        max_attempts: retry.max_attempts,
        delays_ms,
        cap_ms: retry.cap.get(),
        timeout_ms: dice.between(150, 3_000),
        // Kept long enough that a late repeat finds it.
        retention_ms: if idempotent { 86_400_000 } else { kept },
        expires_ms: dice.chance(0.1).then(|| dice.between(1_000, 60_000)),
        park: dice.chance(0.15),
        step_aside: dice.chance(0.3),
        pulled: new.spec.target == Target::Worker,
    };
    let spec = &mut new.spec;
    spec.retry = retry;
    spec.timeout = Millis::new(terms.timeout_ms);
    spec.retention = Millis::new(terms.retention_ms);
    spec.expires_after = terms.expires_ms.map(Millis::new);
    spec.on_unknown = if terms.park { OnUnknown::Park } else { OnUnknown::Retry };
    spec.key_on_failure =
        if terms.step_aside { KeyOnFailure::StepAside } else { KeyOnFailure::Block };
    terms
}

/// A policy, and its delays worked out by other means than the core's.
fn draw_retry(dice: &mut Dice) -> (RetryPolicy, Vec<u64>) {
    let max_attempts = dice.between(1, 6) as u32;
    let cap_ms = dice.between(500, 20_000);
    let (backoff, delays) = match dice.between(0, 2) {
        0 => {
            let delay = dice.between(0, 5_000);
            (Backoff::Fixed(Millis::new(delay)), vec![delay])
        }
        1 => {
            let first = dice.between(1, 2_000);
            let factor = dice.between(1, 3);
            let backoff = Backoff::Exponential {
                first: Millis::new(first),
                factor_percent: 100 * factor as u32,
            };
            (backoff, (0..max_attempts).map(|n| first * factor.pow(n)).collect())
        }
        _ => {
            let list: Vec<u64> = (0..dice.between(1, 4)).map(|_| dice.between(0, 4_000)).collect();
            (Backoff::List(list.iter().map(|ms| Millis::new(*ms)).collect()), list)
        }
    };
    let jitter_percent = *dice.pick(&[0, 10, 100]);
    let (cap, max_age) = (Millis::new(cap_ms), None);
    let policy = RetryPolicy { max_attempts, backoff, jitter_percent, cap, max_age };
    (policy, delays.into_iter().map(|ms| ms.min(cap_ms)).collect())
}

/// Does something to a job that was submitted before.
async fn change_mind(world: &Arc<World>, by: &str, dice: &mut Dice, name: JobName) {
    let job = name_text(&name);
    match dice.between(0, 4) {
        0 => {
            let verb = Verb::Cancel { job };
            drop(ask(world, by, verb, name, |c, n| async move { c.cancel(n).await }).await);
        }
        1 => {
            let verb = Verb::RunNow { job };
            drop(ask(world, by, verb, name, |c, n| async move { c.run_now(n).await }).await);
        }
        2 => {
            let verb = Verb::Replay { job };
            drop(ask(world, by, verb, name, |c, n| async move { c.replay(n).await }).await);
        }
        3 => {
            let verb = Verb::Forget { job };
            drop(ask(world, by, verb, name, |c, n| async move { c.forget(n).await }).await);
        }
        _ => {
            let due_at = world.clock.wall() + dice.between(0, 30_000) as i64;
            let verb = Verb::Move { job, due_at };
            let due_at = Some(Timestamp::from_millis(due_at));
            let edit = move |client: hence::Client, name| {
                let edit = Edit { due_at, ..Edit::default() };
                async move { client.edit(name, edit).await }
            };
            drop(ask(world, by, verb, name, edit).await);
        }
    }
}

/// Asks for something about one job.
async fn ask<T, F, Asked>(
    world: &Arc<World>,
    by: &str,
    verb: Verb,
    name: JobName,
    act: F,
) -> Option<Result<T, Error>>
where
    T: Send + 'static,
    F: Fn(hence::Client, JobName) -> Asked + Send + 'static,
    Asked: Future<Output = Result<T, Error>> + Send + 'static,
{
    world.ask(by, verb, |_| Answer::Done, move |client| act(client, name.clone())).await
}
