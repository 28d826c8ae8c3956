//! Fate: makes each fault of the seed's mix happen, at a time of its own choosing, and takes it
//! back.

use std::sync::Arc;

use hence_store_embedded::kv::fake_disk::Faulty;

use super::World;
use super::clock::sleep_ms;
use super::dice::Dice;
use super::faults::Fault;
use super::node::{Dies, Order};

/// The longest time that passes before the wall clock is put right again after showing nonsense:
/// less than it takes to be believed.
const MAD_MS_MAX: u64 = 4_000;

/// The longest that a node does nothing.
const STALL_MS_MAX: u64 = 4_000;

/// Half seconds that a fault is given beyond its time.
const LONGER_MAX: u32 = 40;

/// A fault and when it comes.
struct Incident {
    at_ms: u64,
    fault: Fault,
    seed: u64,
}

/// Brings about what the mix holds, within this time.
pub(super) async fn run(world: Arc<World>, span_ms: u64) {
    for Incident { at_ms, fault, seed } in plan(&world, span_ms) {
        sleep_ms(at_ms.saturating_sub(world.clock.true_ms())).await;
        if !world.is_active() {
            return;
        }
        let world = Arc::clone(&world);
        tokio::spawn(async move { happen(&world, fault, Dice::new(seed, fault.as_str())).await });
    }
}

fn plan(world: &World, span_ms: u64) -> Vec<Incident> {
    let mut incidents = Vec::new();
    for fault in world.mix.all().iter().copied().filter(|fault| !fault.is_of_receivers()) {
        let mut dice = world.dice(fault.as_str());
        let size = world.size;
        let most = if is_of_clock(fault) { size.clock_times_max() } else { size.times_max() };
        for _ in 0..dice.between(1, most) {
            // What has to wait for its turn must come before the healing.
            let latest = if is_of_clock(fault) { span_ms / 2 } else { span_ms };
            let at_ms = dice.between(span_ms / 20, latest);
            incidents.push(Incident { at_ms, fault, seed: dice.word() });
        }
    }
    incidents.sort_by_key(|incident| (incident.at_ms, incident.fault));
    incidents
}

/// These take turns, so there is time for few of each only.
fn is_of_clock(fault: Fault) -> bool {
    matches!(fault, Fault::ClockAhead | Fault::ClockBack | Fault::ClockMad | Fault::ClockDrift)
}

async fn happen(world: &World, fault: Fault, mut dice: Dice) {
    match fault {
        Fault::Kill | Fault::NewOwner => {
            world.story.fault(fault, None);
            let who = if fault == Fault::Kill { Dies::Process } else { Dies::Owner };
            world.node.order(Order::Die { who, after_steps: dice.between(0, 60) });
        }
        Fault::Restart => {
            world.story.fault(fault, None);
            world.node.order(Order::Stop);
        }
        Fault::Stall => {
            world.story.fault(fault, None);
            world.node.order(Order::Stall { ms: dice.between(100, STALL_MS_MAX) });
        }
        Fault::PowerCut => {
            world.story.fault(fault, None);
            world.disk.lose_power_after(dice.between(0, 12));
            sleep_ms(dice.between(1, 3_000)).await;
            // It may not have written anything meanwhile: the power is gone all the same.
            world.node.order(Order::Die { who: Dies::Process, after_steps: 0 });
        }
        Fault::WriteError | Fault::SyncError => {
            world.story.fault(fault, None);
            let what = if fault == Fault::WriteError { Faulty::Write } else { Faulty::Sync };
            world.disk.fail(what);
            sleep_ms(dice.between(1, 3_000)).await;
            world.node.order(Order::Die { who: Dies::Process, after_steps: 0 });
        }
        Fault::MisdirectedWrite => misdirect(world, &mut dice).await,
        Fault::ReadError => fail_reads(world, &mut dice).await,
        Fault::DiskFull => {
            world.story.fault(fault, None);
            world.disk.limit(Some(dice.between(0, 40_000)));
            sleep_ms(dice.between(500, 10_000)).await;
            world.disk.limit(None);
        }
        Fault::StoreRefused | Fault::StoreTimedOut | Fault::StoreLate => {
            world.line.begin(fault, 0.1 + 0.8 * dice.between(0, 100) as f64 / 100.0);
            until_fired(world, fault, dice.between(500, 6_000)).await;
            world.line.end(fault);
        }
        Fault::NetLoss | Fault::NetDuplicate | Fault::NetCut => {
            trouble_net(world, fault, &mut dice).await;
        }
        Fault::ClockAhead | Fault::ClockBack | Fault::ClockMad | Fault::ClockDrift => {
            let _turn = world.clock_turn.lock().await;
            if world.is_active() {
                move_clock(world, fault, &mut dice).await;
                // The node must have seen where the wall stands before that is moved again: what it
                // goes by while the wall shows nonsense is what it saw last.
                sleep_ms(STALL_MS_MAX + 500).await;
            }
        }
        Fault::WorkerDies
        | Fault::WorkerDiesLate
        | Fault::WorkerSleeps
        | Fault::TargetFails
        | Fault::TargetSlow
        | Fault::TargetSilent => unreachable!("receivers bring these about themselves"),
    }
}

/// One write of a kind lands elsewhere, or any if there is none of that kind for a while.
async fn misdirect(world: &World, dice: &mut Dice) {
    let before = world.disk.misdirected();
    let kind = *dice.pick(&["", ".log", "table", "MANIFEST"]);
    world.disk.misdirect(kind, dice.word());
    let happened = || world.disk.misdirected() > before;
    wait_for(world, happened, LONGER_MAX / 2).await;
    if !happened() {
        world.disk.misdirect("", dice.word());
        wait_for(world, happened, LONGER_MAX).await;
    }
    if happened() {
        world.story.fault(Fault::MisdirectedWrite, None);
    }
}

/// Reads fail for a moment. Without any in that moment, there are some at the next start.
async fn fail_reads(world: &World, dice: &mut Dice) {
    let before = world.disk.failed();
    let happened = || world.disk.failed() > before;
    world.disk.fail_reads(true);
    sleep_ms(dice.between(1, 3_000)).await;
    if !happened() {
        world.node.order(Order::Die { who: Dies::Process, after_steps: 0 });
        wait_for(world, happened, LONGER_MAX).await;
    }
    if happened() {
        world.story.fault(Fault::ReadError, None);
    }
    world.disk.fail_reads(false);
}

async fn trouble_net(world: &World, fault: Fault, dice: &mut Dice) {
    let (net, often) = (&world.net, dice.between(10, 60) as f64 / 100.0);
    match fault {
        Fault::NetLoss => net.set_loss(often),
        Fault::NetDuplicate => net.set_duplicates(often),
        _ => net.set_cut(true),
    }
    until_fired(world, fault, dice.between(500, 10_000)).await;
    match fault {
        Fault::NetLoss => net.set_loss(0.0),
        Fault::NetDuplicate => net.set_duplicates(0.0),
        _ => net.set_cut(false),
    }
}

async fn move_clock(world: &World, fault: Fault, dice: &mut Dice) {
    world.story.fault(fault, None);
    let by = *dice.pick(&[1_500, 30_000, 600_000, 3_000_000]);
    match fault {
        Fault::ClockAhead => world.clock.jump(by),
        Fault::ClockBack => world.clock.jump(-by),
        Fault::ClockDrift => world.clock.drift(dice.between(0, 1_000) as i64 - 500),
        _ => {
            // Never twice the same: what is seen again later counts as having stayed.
            world.clock.go_mad(dice.between(100, 2_000) as i64 * 3_600_000);
            sleep_ms(dice.between(100, MAD_MS_MAX)).await;
            world.clock.go_mad(0);
        }
    }
}

/// Waits so long, and longer if nothing has come of the fault by then.
async fn until_fired(world: &World, fault: Fault, span_ms: u64) {
    let before = world.story.fired(fault);
    sleep_ms(span_ms).await;
    wait_for(world, || world.story.fired(fault) > before, LONGER_MAX).await;
}

/// Waits until it has happened, so many half seconds at most.
async fn wait_for(world: &World, happened: impl Fn() -> bool, halves: u32) {
    for _ in 0..halves {
        if happened() || !world.is_active() {
            return;
        }
        sleep_ms(500).await;
    }
}
