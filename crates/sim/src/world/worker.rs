//! Workers that pull: they work, extend, give back, fail, die before and after the effect, and
//! sleep past their lease.

use std::sync::Arc;
use std::time::Duration;

use hence::Client;
use hence::client::LeaseRequest;
use hence_core::effect::Delivery;
use hence_core::id::{QueueName, Token, WorkerName};
use hence_core::input::Nack;
use hence_core::time::Millis;

use super::World;
use super::clock::sleep_ms;
use super::dice::Dice;
use super::faults::Fault;
use super::producer::QUEUES;
use super::target::draw_failure;
use crate::history::{Answer, How, Stamp, Verb, What};

/// How often an answer is repeated when nothing comes back.
const TRIES: u32 = 3;

/// Pulls and works, as long as the world lasts.
pub(super) async fn run(world: Arc<World>, number: usize) {
    let name = format!("worker {number}");
    let mut dice = world.dice(&name);
    loop {
        let mut queues: Vec<QueueName> = QUEUES.iter().flat_map(|q| QueueName::new(q)).collect();
        dice.shuffle(&mut queues);
        let lease = dice.chance(0.5).then(|| Millis::new(dice.between(200, 4_000)));
        let request = LeaseRequest {
            worker: WorkerName::new(&name.replace(' ', "-"))
                .unwrap_or_else(|_| unreachable!("{name} is a name")),
            queues,
            max: dice.between(1, 4) as u32,
            lease,
            wait: Duration::from_millis(if dice.chance(0.3) { 0 } else { dice.between(1, 5_000) }),
        };
        let pull = move |client: Client| {
            let request = request.clone();
            async move { client.lease(request).await }
        };
        let asked = world.send(pull, || {});
        let Some(Ok(deliveries)) = asked.await else {
            sleep_ms(dice.between(10, 300)).await;
            continue;
        };
        if deliveries.is_empty() {
            sleep_ms(dice.between(1, 200)).await;
        }
        for delivery in &deliveries {
            world.receive(&name, delivery);
        }
        for delivery in deliveries {
            work(&world, &name, &mut dice, delivery).await;
        }
    }
}

async fn work(world: &Arc<World>, name: &str, dice: &mut Dice, delivery: Delivery) {
    let token = delivery.lease.token;
    let ended = |how| world.story.tell(name, What::Ended { token: Stamp(token), how });
    sleep_ms(dice.between(0, 60)).await;
    if world.is_healed() {
        ended(How::Done);
        return ack(world, name, token).await;
    }
    if world.strikes(Fault::WorkerDies, 0.08, dice) {
        world.story.fault(Fault::WorkerDies, Some(Stamp(token)));
        return ended(How::Crashed);
    }
    if world.strikes(Fault::WorkerDiesLate, 0.08, dice) {
        world.story.fault(Fault::WorkerDiesLate, Some(Stamp(token)));
        return ended(How::CrashedDone);
    }
    if world.strikes(Fault::WorkerSleeps, 0.08, dice) {
        world.story.fault(Fault::WorkerSleeps, Some(Stamp(token)));
        sleep_ms(dice.between(1_000, 8_000)).await;
    } else if dice.chance(0.15) {
        let lease_ms = dice.between(100, 5_000);
        extend(world, name, token, lease_ms).await;
        sleep_ms(dice.between(0, lease_ms)).await;
    }
    if world.strikes(Fault::TargetFails, 0.3, dice) {
        world.story.fault(Fault::TargetFails, None);
        let how = draw_failure(dice);
        ended(how);
        return nack(world, name, token, how).await;
    }
    if dice.chance(0.05) {
        ended(How::Released);
        return nack(world, name, token, How::Released).await;
    }
    ended(How::Done);
    ack(world, name, token).await;
}

async fn ack(world: &Arc<World>, name: &str, token: Token) {
    for _ in 0..TRIES {
        let verb = Verb::Ack { token: Stamp(token) };
        let asked = world.ask(
            name,
            verb,
            |()| Answer::Done,
            move |client| async move { client.ack(token, None).await },
        );
        if asked.await.is_some() {
            return;
        }
    }
}

async fn nack(world: &Arc<World>, name: &str, token: Token, how: How) {
    let how = match how {
        How::Hopeless => Nack::Dead,
        How::Released => Nack::Release { delay: Millis::ZERO },
        How::Failed { retry_after_ms } => {
            Nack::Retry { delay: (retry_after_ms > 0).then(|| Millis::new(retry_after_ms)) }
        }
        How::Done | How::Crashed | How::CrashedDone => unreachable!("these say nothing"),
    };
    for _ in 0..TRIES {
        let verb = Verb::Nack { token: Stamp(token) };
        let asked = world.ask(
            name,
            verb,
            |()| Answer::Done,
            move |client| async move { client.nack(token, how, None).await },
        );
        if asked.await.is_some() {
            return;
        }
    }
}

async fn extend(world: &Arc<World>, name: &str, token: Token, lease_ms: u64) {
    let verb = Verb::Extend { token: Stamp(token), lease_ms };
    let asked = world.ask(
        name,
        verb,
        |_| Answer::Done,
        move |client| async move { client.extend(token, Millis::new(lease_ms)).await },
    );
    drop(asked.await);
}
