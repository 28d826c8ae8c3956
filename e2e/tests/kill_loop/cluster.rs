//! A node of the database dies under load: nobody tells Hence, and it goes on by itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Receiver, Seed, Server, Setup, clock};
use hence_testkit::Galera;

use crate::load::World;
use crate::{run, verdict};

/// Submissions that are acknowledged before the kill, and that must be after it.
const ACCEPTED_AROUND: usize = 200;

/// Acknowledged after the kill, by whichever node: more than can have been on their way.
const ACCEPTED_AGAIN: usize = 20;

/// How long the other nodes may take to go on: they miss it for five seconds first. The rest is for
/// a busy machine.
const GOES_ON_WITHIN: Duration = Duration::from_secs(20);

/// At least so many jobs must have succeeded, or the load was too light to prove anything.
const SUCCEEDED_MIN: usize = 300;

pub(crate) fn a_node_of_the_database_dies_under_load() -> Result<Ended> {
    let (seed, number) = Seed::from_env();
    println!("seed {number}: HENCE_SEED={number} replays this run");
    let cluster = Galera::start(3)?;
    let args = vec!["--store".to_owned(), cluster.database()?];
    let mut server = Server::start_with(Setup { args, ..Setup::default() })?;
    let world = Arc::new(World::new(server.address(), Receiver::start()?));
    let result = run(&world, &seed, &mut server, |_| lose_a_node(&world, &cluster));
    let result = result.and_then(|(events, stalled)| {
        let (succeeded, _) = verdict::sums(&events);
        println!(
            "{} events, {succeeded} jobs succeeded; {stalled:.1?} until {ACCEPTED_AGAIN} \
             submissions were acknowledged by the other nodes",
            events.len()
        );
        ensure!(stalled < GOES_ON_WITHIN, "it stood still for {stalled:.1?}");
        ensure!(succeeded >= SUCCEEDED_MIN, "only {succeeded} jobs succeeded");
        Ok(())
    });
    server.explain(result).map_err(|error| error.context(format!("seed {number}")))?;
    ensure!(server.log().contains("trying the next host"), "it was not on the node that died");
    Ok(Ended::Passed)
}

/// How long it took to go on.
fn lose_a_node(world: &World, cluster: &Galera) -> Result<Duration> {
    reach(world, ACCEPTED_AROUND)?;
    ensure!(world.in_flight() > 0, "nothing is in flight");
    cluster.node(0).kill()?;
    let (killed, before) = (Instant::now(), world.accepted());
    reach(world, before + ACCEPTED_AGAIN)?;
    let stalled = killed.elapsed();
    reach(world, before + ACCEPTED_AROUND)?;
    Ok(stalled)
}

fn reach(world: &World, accepted: usize) -> Result<()> {
    let reached = || (world.accepted() >= accepted).then_some(());
    let reached = clock::until(Duration::from_mins(1), reached);
    reached.with_context(|| format!("{} of {accepted} were acknowledged", world.accepted()))
}
