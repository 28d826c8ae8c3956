//! The promise of the ledger, over random histories: every tick has exactly one fate, whatever the
//! policies, crashes, outages, pauses, backfills and changes; and no tick makes two jobs.

mod support;

use std::collections::BTreeMap;

use hence_core::input::{Input, Nack, Request};
use hence_core::ledger::Fate;
use hence_core::schedule::{Misfire, Overlap, Schedule};

use support::draft::ms;
use support::rng::Rng;
use support::verbs::{schedule, schedule_id};
use support::{World, at, config, window};

const HISTORIES: u64 = 200;
const STEPS: u64 = 60;

#[test]
fn every_tick_has_exactly_one_fate() {
    let (mut ticks, mut fates) = (0, BTreeMap::new());
    for seed in 0..HISTORIES {
        let history = std::panic::catch_unwind(|| run(seed));
        let (world, interval) = history.unwrap_or_else(|_| panic!("seed {seed}"));
        ticks += check(&world, interval, seed);
        for record in world.disk.occurrences.iter().chain(&world.disk.gone) {
            *fates.entry(record.fate.as_str()).or_insert(0) += record.count;
        }
    }
    assert!(ticks > 20_000, "{ticks} ticks are too few to mean anything");
    let all = ["backfilled", "coalesced", "late", "ran", "skipped", "triggered"];
    assert!(fates.keys().eq(all.iter()), "every fate was there: {fates:?}");
}

fn run(seed: u64) -> (World, i64) {
    let mut rng = Rng::new(seed);
    let mut world = World::new(if rng.below(2) == 0 { config() } else { window(1) });
    let interval = (1 + rng.below(20)) as i64 * 1_000;
    let mut made = schedule("s", interval, interval as u64);
    if rng.below(4) == 0 {
        made.plan.count = Some(rng.below(200) + 1);
    }
    world.put_schedule(policies(&mut rng, made.clone()));
    for _ in 0..STEPS {
        step(&mut world, &mut rng, &made);
    }
    world.feed(Input::StoreFull(false));
    world.resume("s");
    (world, interval)
}

fn policies(rng: &mut Rng, made: Schedule) -> Schedule {
    let misfire = match rng.below(5) {
        0 => Misfire::Skip,
        1 | 2 => Misfire::Once,
        3 => Misfire::Last(1 + rng.below(5) as u32),
        _ => Misfire::All { pace: ms(rng.below(3) * 450) },
    };
    let overlap = Overlap::ALL[rng.below(5) as usize];
    let grace = (rng.below(2) == 0).then(|| ms(rng.below(60_000)));
    Schedule { misfire, overlap, grace, spread: ms(rng.below(2) * 3_000), ..made }
}

fn step(world: &mut World, rng: &mut Rng, made: &Schedule) {
    let now = world.now.as_millis();
    match rng.below(16) {
        0..=5 => world.run_to(now + rng.below(30_000) as i64),
        6 | 7 => {
            let deadline = world.shard.deadline().unwrap_or(world.now).max(world.now);
            world.now = deadline.min(at(now + 3_600_000));
            world.feed_and_lose(Input::Tick);
            world.crash();
        }
        8 => {
            world.now = at(now + rng.below(8 * 24 * 3_600_000 / 50) as i64);
            world.crash();
        }
        9 => drop(world.pause("s")),
        10 => drop(world.resume("s")),
        11 | 12 => {
            for delivery in world.lease(&["default"], 3, Some(60_000)) {
                let token = delivery.lease.token;
                match rng.below(3) {
                    0 => world.nack(token, Nack::Retry { delay: None }).expect("it runs"),
                    _ => world.ack(token).expect("it runs"),
                }
            }
        }
        13 => drop(world.put_schedule(policies(rng, made.clone()))),
        14 => drop(world.call(Request::TriggerSchedule(schedule_id("s")))),
        _ => {
            let from = at((now - rng.below(300_000) as i64).max(0));
            let (until, pace) = (world.now, ms(rng.below(2) * 900));
            // One may be under way.
            drop(world.call(Request::Backfill { id: schedule_id("s"), from, until, pace }));
        }
    }
}

/// Whether this accounts for ticks of the plan; every tick has exactly one such record. A trigger
/// is no tick, and a backfill comes beside the record of its tick.
fn accounts(fate: Fate) -> bool {
    match fate {
        Fate::Ran(_) | Fate::Late(..) | Fate::Skipped(_) | Fate::Coalesced => true,
        Fate::Triggered(_) | Fate::Backfilled(_) => false,
    }
}

/// The runs of ticks in the ledger follow each other without a gap, and no tick made two jobs. Says
/// how many ticks there were.
fn check(world: &World, interval: i64, seed: u64) -> u64 {
    let progress = &world.disk.schedules[&schedule_id("s")].progress;
    let records = || world.disk.gone.iter().chain(&world.disk.occurrences);
    let waiting = progress.waiting.iter().map(|at| (at.as_millis(), at.as_millis(), 1));
    let runs = records()
        .filter(|record| accounts(record.fate))
        .map(|record| (record.first.as_millis(), record.last.as_millis(), record.count));
    let mut runs: Vec<(i64, i64, u64)> = runs.chain(waiting).collect();
    runs.sort_unstable();
    let (mut next, mut ticks) = (interval, 0);
    for (first, last, count) in runs {
        assert_eq!(first, next, "seed {seed}: a tick without a fate, or with two");
        assert_eq!(count as i64, (last - first) / interval + 1, "seed {seed}: of {first}");
        (next, ticks) = (last + interval, ticks + count);
    }
    assert_eq!(progress.ticked, ticks, "seed {seed}");
    let mut made: Vec<_> = records()
        .filter(|record| record.fate.job().is_some() && record.fate.as_str() != "triggered")
        .map(|record| record.last)
        .collect();
    let jobs = made.len();
    made.sort_unstable();
    made.dedup();
    assert_eq!(made.len(), jobs, "seed {seed}: a tick made two jobs");
    let held = progress.hold_until.is_some_and(|hold| hold > world.now);
    let overdue = !held && progress.next_at.is_some_and(|at| at <= world.now);
    assert!(!overdue, "seed {seed}: a tick is overdue");
    ticks
}
