//! Operators: they pause and limit queues, and keep schedules.

use std::sync::Arc;

use hence_core::id::{QueueName, ScheduleId};
use hence_core::job::{JobSpec, Payload, Target};
use hence_core::queue::{QueueSettings, Rate};
use hence_core::schedule::{Misfire, Schedule};
use hence_core::time::{Millis, Timestamp};
use hence_core::when::Plan;

use super::World;
use super::clock::sleep_ms;
use super::dice::Dice;
use super::producer::QUEUES;
use crate::history::{Answer, Terms, Verb};

const NAME: &str = "operator";

/// Schedules in all: each makes a job every few seconds, for as long as the world lasts.
pub(super) const SCHEDULES: usize = 3;

/// Turns knobs until the world is to calm down.
pub(super) async fn run(world: Arc<World>) {
    let mut dice = world.dice(NAME);
    let mut made = 0;
    while world.is_active() {
        sleep_ms(dice.between(500, 8_000)).await;
        match dice.between(0, 9) {
            0..=3 => {
                let queue = *dice.pick(&QUEUES);
                let settings = draw_settings(&mut dice);
                put_queue(&world, queue, settings).await;
            }
            4..=6 if made < SCHEDULES => {
                made += 1;
                put_schedule(&world, &mut dice, &format!("s{made}")).await;
            }
            // The first schedule is left alone, so that its ticks can be counted.
            7..=8 if made > 1 => {
                let id = format!("s{}", dice.between(2, made as u64));
                touch_schedule(&world, &mut dice, &id).await;
            }
            _ => {}
        }
    }
}

fn draw_settings(dice: &mut Dice) -> QueueSettings {
    QueueSettings {
        paused_in: dice.chance(0.05),
        paused_out: dice.chance(0.2),
        concurrency: dice.chance(0.5).then(|| dice.between(1, 4) as u32),
        rate: dice.chance(0.3).then(|| Rate {
            count: dice.between(1, 20) as u32,
            per: Millis::new(dice.between(100, 5_000)),
        }),
        pending_max: dice.chance(0.1).then(|| dice.between(5, 50)),
    }
}

/// Sets a queue, and says whether that is certain.
pub(super) async fn put_queue(
    world: &Arc<World>,
    queue: &'static str,
    settings: QueueSettings,
) -> bool {
    let verb = Verb::PutQueue {
        queue: queue.to_owned(),
        paused: settings.paused_out,
        concurrency: settings.concurrency,
    };
    let asked = world.ask(
        NAME,
        verb,
        |_| Answer::Done,
        move |client| {
            let settings = settings.clone();
            async move { client.put_queue(QueueName::new(queue)?, settings).await }
        },
    );
    asked.await.is_some()
}

async fn put_schedule(world: &Arc<World>, dice: &mut Dice, id: &str) {
    let start = world.clock.wall() + dice.between(0, 3_000) as i64 - 1_000;
    let every_ms = dice.between(1_000, 9_000);
    let target = if dice.chance(0.5) { Target::Worker } else { super::push_target() };
    let mut template = JobSpec::new(target);
    template.payload = Payload { bytes: format!("tick of {id}").into(), content_type: None };
    template.timeout = Millis::new(2_000);
    template.retention = Millis::new(86_400_000);
    let plan = Plan::every(Timestamp::from_millis(start), Millis::new(every_ms));
    let queue = *dice.pick(&QUEUES);
    let (Ok(schedule_id), Ok(queue)) = (ScheduleId::new(id), QueueName::new(queue)) else {
        unreachable!("these are names");
    };
    let terms = Terms {
        timeout_ms: template.timeout.get(),
        retention_ms: template.retention.get(),
        pulled: template.target == Target::Worker,
        ..Terms::default()
    };
    let misfire = *dice.pick(&[Misfire::Once, Misfire::Skip, Misfire::Last(2)]);
    let new = Schedule::new(schedule_id, plan, template);
    let schedule = Schedule { queue, misfire, ..new };
    let verb = Verb::PutSchedule { id: id.to_owned(), start, every_ms, terms };
    let asked = world.ask(
        NAME,
        verb,
        |_| Answer::Done,
        move |client| {
            let schedule = schedule.clone();
            async move { client.put_schedule(schedule).await }
        },
    );
    drop(asked.await);
}

async fn touch_schedule(world: &Arc<World>, dice: &mut Dice, id: &str) {
    let Ok(schedule) = ScheduleId::new(id) else { unreachable!("{id} is a name") };
    let what = dice.between(0, 3);
    let verb = Verb::TouchSchedule { id: id.to_owned() };
    let asked = world.ask(
        NAME,
        verb,
        |()| Answer::Done,
        move |client| {
            let id = schedule.clone();
            async move {
                match what {
                    0 => client.pause_schedule(id, "for now").await.map(drop),
                    1 => client.resume_schedule(id).await.map(drop),
                    2 => client.remove_schedule(id).await,
                    _ => client.trigger_schedule(id).await.map(drop),
                }
            }
        },
    );
    drop(asked.await);
}
