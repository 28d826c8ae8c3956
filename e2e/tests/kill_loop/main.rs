//! Kill -9, again and again, at random moments under load.
//!
//! Producers submit, a receiver and pull workers take and finish, and meanwhile the server is
//! killed and started on the same directory. What each of them saw is recorded ([`record`]) and
//! judged by the checker that judges simulated worlds ([`verdict`]): no acknowledged job is lost,
//! none is early, a key's jobs come one at a time and in order, tokens grow, a delivery is repeated
//! only with a cause, and one success is recorded. Then the history is damaged, and the checker
//! must notice. The same is done to a node of the cluster that the database is ([`cluster`]).
//!
//! `HENCE_SEED=N` replays the choices of a run; `HENCE_KILLS=N` changes how many kills there are;
//! `HENCE_HISTORY=FILE` is where the history is written, for `hence-sim check`.

#![expect(clippy::print_stdout, reason = "the seed and the sums belong to the result")]

mod cluster;
mod load;
mod record;
mod verdict;

use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Receiver, Seed, Server, cases, clock};
use hence_sim::history::{self, Answer, Event, Verb, What};

use cluster::a_node_of_the_database_dies_under_load;
use load::World;

/// At least so many jobs must have succeeded, or the load was too light to prove anything.
const SUCCEEDED_MIN: usize = 500;

/// How long everything may take to come to rest once nothing is killed any more.
const HEAL_WITHIN: Duration = Duration::from_secs(90);

cases!(nothing_acknowledged_is_lost_to_kill_9, a_node_of_the_database_dies_under_load,);

fn nothing_acknowledged_is_lost_to_kill_9() -> Result<Ended> {
    let (seed, number) = Seed::from_env();
    let kills = std::env::var("HENCE_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    println!("seed {number}: HENCE_SEED={number} replays this run");
    let mut server = Server::start()?;
    let receiver = Receiver::start()?;
    let world = Arc::new(World::new(server.address(), receiver));
    let kill = |server: &mut Server| kill_again_and_again(&world, &seed, server, kills);
    let result = run(&world, &seed, &mut server, kill);
    let result = result.and_then(|(events, busy)| prove(&events, kills, busy));
    server.explain(result).map_err(|error| error.context(format!("seed {number}")))?;
    Ok(Ended::Passed)
}

/// Works and disturbs, then lets everything come to rest, and judges it.
fn run<T>(
    world: &Arc<World>,
    seed: &Seed,
    server: &mut Server,
    disturb: impl FnOnce(&mut Server) -> Result<T>,
) -> Result<(Vec<Event>, T)> {
    let producers = load::start_producers(world, seed);
    let workers = load::start_workers(world, seed);
    let disturbed = disturb(server)?;
    world.stop_producing();
    for producer in producers {
        producer.join().expect("a producer panicked");
    }
    let deadline = Instant::now() + HEAL_WITHIN;
    let mut api = server.api();
    while !verdict::at_rest(&mut api)? && Instant::now() < deadline {
        clock::sleep_ms(250);
    }
    // Whoever still waits for an answer gets it before the verdict.
    clock::sleep_ms(500);
    world.stop_working();
    for worker in workers {
        worker.join().expect("a worker panicked");
    }
    world.record.tell("harness", What::Final(verdict::take_final(world.address)?));
    let events = world.record.history(&world.receiver.arrivals());
    if let Some(path) = std::env::var_os("HENCE_HISTORY") {
        history::write(&events, BufWriter::new(File::create(path).context("HENCE_HISTORY")?))?;
    }
    verdict::judge(&events)?;
    Ok((events, disturbed))
}

/// How many of the kills hit work in flight.
fn kill_again_and_again(
    world: &World,
    seed: &Seed,
    server: &mut Server,
    kills: usize,
) -> Result<usize> {
    let mut busy = 0;
    for _ in 0..kills {
        clock::sleep_ms(seed.between(20, 400));
        busy += usize::from(world.in_flight() > 0);
        kill(world, server)?;
        if seed.percent(15) {
            // Into the middle of recovery.
            server.spawn()?;
            clock::sleep_ms(seed.between(0, 60));
            kill(world, server)?;
        }
        server.restart()?;
    }
    Ok(busy)
}

fn kill(world: &World, server: &mut Server) -> Result<()> {
    let at_us = clock::now_us();
    server.kill()?;
    world.record.tell_at(at_us, "server", What::Died);
    Ok(())
}

/// A run that killed an idle server, or in which little succeeded, proves nothing.
fn prove(events: &[Event], wanted: usize, busy: usize) -> Result<()> {
    let count =
        |matches: fn(&What) -> bool| events.iter().filter(|event| matches(&event.what)).count();
    let kills = count(|what| matches!(what, What::Died));
    let asked = count(|what| matches!(what, What::Ask { verb: Verb::Submit(_), .. }));
    let accepted = count(|what| match what {
        What::Told { answer, .. } => matches!(answer, Answer::Accepted(_) | Answer::Kept(_)),
        _ => false,
    });
    let (succeeded, repeated) = verdict::sums(events);
    println!(
        "{} events: {kills} kills, {busy} with work in flight; {asked} submissions, {accepted} \
         acknowledged; {succeeded} jobs succeeded, {repeated} deliveries repeated with a cause",
        events.len()
    );
    ensure!(kills >= wanted, "only {kills} kills");
    ensure!(busy * 2 >= wanted, "only {busy} of {wanted} kills hit work in flight");
    ensure!(succeeded >= SUCCEEDED_MIN, "only {succeeded} jobs succeeded");
    ensure!(repeated > 0, "no delivery was cut off: the kills missed");
    Ok(())
}
