//! The server is killed at random moments, and started again on what it left.

use anyhow::{Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Seed, Server, Setup, clock};
use hence_testkit::{MariaDb, Postgres};

use crate::load::World;
use crate::{Sums, kill, live_through};

/// How often, and how long the server is left alone in between.
struct Pace {
    kills: usize,
    alone_ms: (u64, u64),
}

const IN_A_DIRECTORY: Pace = Pace { kills: 60, alone_ms: (20, 400) };

/// Fewer: after each kill the tenure of the dead node must end first.
const IN_A_DATABASE: Pace = Pace { kills: 12, alone_ms: (300, 1_500) };

pub(crate) fn nothing_acknowledged_is_lost_to_kill_9() -> Result<Ended> {
    killed("embedded", Setup::default(), &IN_A_DIRECTORY)
}

pub(crate) fn nothing_acknowledged_is_lost_to_kill_9_on_postgres() -> Result<Ended> {
    let database = Postgres::start()?;
    killed("postgres", on(&database.database()?), &IN_A_DATABASE)
}

pub(crate) fn nothing_acknowledged_is_lost_to_kill_9_on_mariadb() -> Result<Ended> {
    let database = MariaDb::start()?;
    killed("mariadb", on(&database.database()?), &IN_A_DATABASE)
}

fn killed(name: &str, setup: Setup, pace: &Pace) -> Result<Ended> {
    let mut server = Server::start_with(setup)?;
    let given = std::env::var("HENCE_KILLS").ok().and_then(|kills| kills.parse().ok());
    let wanted = given.unwrap_or(pace.kills);
    let (events, busy) = live_through(name, &mut server, |world, seed, server| {
        kill_again_and_again(world, seed, server, wanted, pace.alone_ms)
    })?;
    let Sums { kills, repeated } = Sums::of(name, &events)?;
    println!("{name}: {busy} of {wanted} kills with work in flight");
    ensure!(kills >= wanted, "only {kills} kills");
    ensure!(busy * 2 >= wanted, "only {busy} of {wanted} kills hit work in flight");
    ensure!(repeated > 0, "no delivery was cut off: the kills missed");
    Ok(Ended::Passed)
}

/// A server on this database.
pub(crate) fn on(url: &str) -> Setup {
    Setup { args: vec!["--store".to_owned(), url.to_owned()], ..Setup::default() }
}

/// How many of the kills hit work in flight.
fn kill_again_and_again(
    world: &World,
    seed: &Seed,
    server: &mut Server,
    kills: usize,
    alone_ms: (u64, u64),
) -> Result<usize> {
    let mut busy = 0;
    for _ in 0..kills {
        clock::sleep_ms(seed.between(alone_ms.0, alone_ms.1));
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
