//! A node of the database dies under load: nobody tells Hence, and it goes on by itself.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Server, clock};
use hence_testkit::Galera;

use crate::kills::on;
use crate::load::World;
use crate::{Sums, live_through};

/// Submissions that are acknowledged before the kill, and that must be after it.
const ACCEPTED_AROUND: usize = 200;

/// Acknowledged after the kill, by whichever node: more than can have been on their way.
const ACCEPTED_AGAIN: usize = 20;

/// How long the other nodes may take to go on: they miss it for five seconds first. The rest is for
/// a busy machine.
const GOES_ON_WITHIN: Duration = Duration::from_secs(20);

pub(crate) fn nothing_acknowledged_is_lost_with_a_node_of_galera() -> Result<Ended> {
    let cluster = Galera::start(3)?;
    let mut server = Server::start_with(on(&cluster.database()?))?;
    let (events, stalled) =
        live_through("cluster", &mut server, |world, _, _| lose_a_node(world, &cluster))?;
    println!("cluster: {stalled:.1?} until {ACCEPTED_AGAIN} were acknowledged by the other nodes");
    ensure!(stalled < GOES_ON_WITHIN, "it stood still for {stalled:.1?}");
    Sums::of("cluster", &events)?;
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
