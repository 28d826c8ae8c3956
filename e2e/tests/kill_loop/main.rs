//! Kill -9, again and again, at random moments under load: of the server, on every kind of store,
//! and of the database beneath it.
//!
//! Producers submit, a receiver and pull workers take and finish, and meanwhile something is killed
//! and started again. What each of them saw is recorded ([`record`]) and judged by the checker that
//! judges simulated worlds ([`verdict`]): no acknowledged job is lost, none is early, a key's jobs
//! come one at a time and in order, tokens grow, a delivery is repeated only with a cause, and one
//! success is recorded. Then the history is damaged, and the checker must notice.
//!
//! `HENCE_SEED=N` replays the choices of a run; `HENCE_KILLS=N` changes how many kills there are;
//! `HENCE_HISTORY=DIRECTORY` is where the histories are written, for `hence-sim check`.

#![expect(clippy::print_stdout, reason = "the seed and the sums belong to the result")]

mod cluster;
mod failover;
mod kills;
mod load;
mod record;
mod verdict;

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hence_e2e::{Receiver, Seed, Server, cases, clock};
use hence_sim::history::{self, Answer, Event, Verb, What};

use load::World;

/// At least so many jobs must have succeeded, or the load was too light to prove anything.
const SUCCEEDED_MIN: usize = 500;

/// How long everything may take to come to rest once nothing is killed any more.
const HEAL_WITHIN: Duration = Duration::from_secs(90);

cases!(
    kills::nothing_acknowledged_is_lost_to_kill_9,
    kills::nothing_acknowledged_is_lost_to_kill_9_on_postgres,
    kills::nothing_acknowledged_is_lost_to_kill_9_on_mariadb,
    failover::nothing_acknowledged_is_lost_to_a_failover_of_postgres,
    cluster::nothing_acknowledged_is_lost_with_a_node_of_galera,
);

/// Puts the server under load, lets `hurt` do its worst, waits for rest, and judges. Returns the
/// history and what `hurt` says.
fn live_through<T>(
    name: &str,
    server: &mut Server,
    hurt: impl FnOnce(&World, &Seed, &mut Server) -> Result<T>,
) -> Result<(Vec<Event>, T)> {
    let (seed, number) = Seed::from_env();
    println!("{name}, seed {number}: HENCE_SEED={number} replays this run");
    let world = Arc::new(World::new(server.address(), Receiver::start()?));
    let lived = run(&world, &seed, name, server, hurt);
    server.explain(lived).map_err(|error| error.context(format!("seed {number}")))
}

fn run<T>(
    world: &Arc<World>,
    seed: &Seed,
    name: &str,
    server: &mut Server,
    hurt: impl FnOnce(&World, &Seed, &mut Server) -> Result<T>,
) -> Result<(Vec<Event>, T)> {
    let producers = load::start_producers(world, seed);
    let workers = load::start_workers(world, seed);
    let hurt = hurt(world, seed, server)?;
    world.stop_producing();
    for producer in producers {
        producer.join().expect("a producer panicked");
    }
    wait_for_rest(server)?;
    world.stop_working();
    for worker in workers {
        worker.join().expect("a worker panicked");
    }
    world.record.tell("harness", What::Final(verdict::take_final(world.address)?));
    let events = world.record.history(&world.receiver.arrivals());
    if let Some(directory) = std::env::var_os("HENCE_HISTORY") {
        let path = PathBuf::from(directory).join(format!("{name}.jsonl"));
        history::write(&events, BufWriter::new(File::create(path).context("HENCE_HISTORY")?))?;
    }
    verdict::judge(&events)?;
    Ok((events, hurt))
}

fn wait_for_rest(server: &Server) -> Result<()> {
    let deadline = Instant::now() + HEAL_WITHIN;
    let mut api = server.api();
    while !verdict::at_rest(&mut api)? && Instant::now() < deadline {
        clock::sleep_ms(250);
    }
    // Whoever still waits for an answer gets it before the verdict.
    clock::sleep_ms(500);
    Ok(())
}

/// Kills the server, on the record.
fn kill(world: &World, server: &mut Server) -> Result<()> {
    let at_us = clock::now_us();
    server.kill()?;
    world.record.tell_at(at_us, "server", What::Died);
    Ok(())
}

/// What a run was made of. One in which little succeeded proves nothing.
struct Sums {
    kills: usize,
    repeated: usize,
}

impl Sums {
    fn of(name: &str, events: &[Event]) -> Result<Self> {
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
            "{name}, {} events: {kills} kills; {asked} submissions, {accepted} acknowledged; \
             {succeeded} jobs succeeded, {repeated} deliveries repeated with a cause",
            events.len()
        );
        ensure!(succeeded >= SUCCEEDED_MIN, "only {succeeded} jobs succeeded");
        Ok(Sums { kills, repeated })
    }
}
