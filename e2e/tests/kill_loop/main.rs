//! Kill -9, again and again, at random moments under load.
//!
//! Producers submit, a receiver and pull workers take and finish, and meanwhile the server is
//! killed and started on the same directory. Judged is what producers were told and what
//! receivers saw ([`judge`]): no acknowledged job is lost, none is early, a key's jobs come one
//! at a time and in order, tokens grow, a delivery is repeated only with a cause, and one success
//! is recorded.
//!
//! `HENCE_SEED=N` replays the choices of a run; `HENCE_KILLS=N` changes how many kills there are.

#![expect(clippy::print_stdout, reason = "the seed and the sums belong to the result")]

mod judge;
mod load;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Receiver, Seed, Server, cases, clock};

use load::{Kill, World};

/// At least so many jobs must have succeeded, or the load was too light to prove anything.
const SUCCEEDED_MIN: usize = 500;

/// How long everything may take to come to rest once nothing is killed any more.
const HEAL_WITHIN: Duration = Duration::from_secs(90);

cases!(nothing_acknowledged_is_lost_to_kill_9);

fn nothing_acknowledged_is_lost_to_kill_9() -> Result<Ended> {
    let (seed, number) = Seed::from_env();
    let kills = std::env::var("HENCE_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    println!("seed {number}: HENCE_SEED={number} replays this run");
    let mut server = Server::start()?;
    let receiver = Receiver::start()?;
    let world = Arc::new(World::new(server.address(), receiver));
    let result = run(&world, &seed, &mut server, kills);
    server.explain(result).map_err(|error| error.context(format!("seed {number}")))?;
    Ok(Ended::Passed)
}

fn run(world: &Arc<World>, seed: &Seed, server: &mut Server, kills: usize) -> Result<()> {
    let producers = load::start_producers(world, seed);
    let workers = load::start_workers(world, seed);
    kill_again_and_again(world, seed, server, kills)?;
    world.stop_producing();
    for producer in producers {
        producer.join().expect("a producer panicked");
    }
    let deadline = Instant::now() + HEAL_WITHIN;
    while !judge::unfinished(world).is_empty() && Instant::now() < deadline {
        clock::sleep_ms(250);
    }
    // Whoever still waits for an answer gets it before the verdict.
    clock::sleep_ms(500);
    world.stop_working();
    for worker in workers {
        worker.join().expect("a worker panicked");
    }
    let unfinished = judge::unfinished(world);
    ensure!(unfinished.is_empty(), "lost: {} jobs, {:?}", unfinished.len(), unfinished.first());
    judge::judge(world)?;
    prove(world, kills)
}

fn kill_again_and_again(
    world: &World,
    seed: &Seed,
    server: &mut Server,
    kills: usize,
) -> Result<()> {
    for _ in 0..kills {
        clock::sleep_ms(seed.between(20, 400));
        let in_flight = world.in_flight();
        let at_us = clock::now_us();
        server.kill()?;
        world.killed(Kill { at_us, in_flight });
        if seed.percent(15) {
            // Into the middle of recovery.
            server.spawn()?;
            clock::sleep_ms(seed.between(0, 60));
            let at_us = clock::now_us();
            server.kill()?;
            world.killed(Kill { at_us, in_flight: 0 });
        }
        server.restart()?;
    }
    Ok(())
}

/// A run that killed an idle server, or in which little succeeded, proves nothing.
fn prove(world: &World, wanted: usize) -> Result<()> {
    let kills = world.kills();
    let busy = kills.iter().filter(|kill| kill.in_flight > 0).count();
    let succeeded = judge::succeeded(world);
    let repeated = judge::repeated(world);
    let (accepted, unknown) = world.told();
    println!(
        "{} kills, {busy} with work in flight; {accepted} jobs acknowledged, {unknown} submissions \
         without an answer; {succeeded} succeeded, {repeated} deliveries repeated with a cause",
        kills.len()
    );
    ensure!(kills.len() >= wanted, "only {} kills", kills.len());
    ensure!(busy * 2 >= wanted, "only {busy} of {wanted} kills hit work in flight");
    ensure!(succeeded >= SUCCEEDED_MIN, "only {succeeded} jobs succeeded");
    ensure!(repeated > 0, "no delivery was cut off: the kills missed");
    Ok(())
}
