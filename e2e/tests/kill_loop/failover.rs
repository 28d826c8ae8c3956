//! The database is killed, and its synchronous standby is promoted. Then the old primary comes
//! back, alone and unaware.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Server, clock};
use hence_testkit::Postgres;

use crate::kills::on;
use crate::load::World;
use crate::{Sums, kill, live_through};

/// Deliveries that must arrive before anything is done, and after each thing that is done.
const DELIVERIES: usize = 150;

/// From the promotion to the next delivery, on a busy machine.
const GOES_ON_WITHIN: Duration = Duration::from_secs(10);

/// How long so many deliveries may take.
const SOON: Duration = Duration::from_mins(1);

/// The last commit of a server.
const LAST_COMMIT: &str = "SELECT max(stamp) FROM hence.commits";

pub(crate) fn nothing_acknowledged_is_lost_to_a_failover_of_postgres() -> Result<Ended> {
    let primary = Postgres::start_with(&[])?;
    let database = primary.database()?;
    let standby = primary.standby()?;
    let mut server = Server::start_with(on(&primary.url_with(&standby, &database)?))?;
    let (events, ()) = live_through("failover", &mut server, |world, _, server| {
        deliveries(world, "before the failover")?;
        fail_over(world, &primary, &standby)?;
        deliveries(world, "after the failover")?;
        let left = old_primary_returns(&primary, &database)?;
        connections_end(&standby)?;
        deliveries(world, "after the old primary came back")?;
        kill(world, server)?;
        server.restart()?;
        deliveries(world, "after a new start")?;
        let old = primary.sql_in(&database, LAST_COMMIT)?;
        let new = standby.sql_in(&standby.url_of(&database)?, LAST_COMMIT)?;
        ensure!(old == left, "the old primary was written to: {left}, then {old}");
        ensure!(
            new.parse::<i64>()? > old.parse::<i64>()?,
            "the new one was not: {new} after {old}"
        );
        Ok(())
    })?;
    Sums::of("failover", &events)?;
    Ok(Ended::Passed)
}

/// The primary dies, its standby takes its place, and work goes on by itself.
fn fail_over(world: &World, primary: &Postgres, standby: &Postgres) -> Result<()> {
    let (busy, killed) = (world.in_flight(), Instant::now());
    primary.kill()?;
    standby.promote()?;
    let (promoted, promoted_us) = (killed.elapsed(), clock::now_us());
    let on_again = || {
        let last = world.receiver.arrivals().pop()?;
        (last.at_us > promoted_us).then_some(())
    };
    clock::until(GOES_ON_WITHIN, on_again).context("nothing is delivered after the promotion")?;
    let took = killed.elapsed();
    println!("failover: promoted {promoted:.1?} after kill -9, the next delivery after {took:.1?}");
    ensure!(busy > 0, "the primary was killed while nothing was under way");
    Ok(())
}

/// The old primary is started as it was, and would take writes again. Returns its last commit.
fn old_primary_returns(primary: &Postgres, database: &str) -> Result<String> {
    primary.restart()?;
    // Else it would wait for a standby for ever: this is the worse case.
    primary.sql("ALTER SYSTEM RESET synchronous_standby_names")?;
    primary.sql("SELECT pg_reload_conf()")?;
    primary.sql_in(database, "CREATE TABLE written_alone (x INT)")?;
    primary.sql_in(database, LAST_COMMIT)
}

/// Everything has to be connected anew.
fn connections_end(server: &Postgres) -> Result<()> {
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE application_name = 'hence'";
    let ended: usize = server.sql(sql)?.parse()?;
    ensure!(ended > 0, "nobody is connected to the new primary");
    Ok(())
}

/// Waits for more deliveries.
fn deliveries(world: &World, when: &str) -> Result<()> {
    let wanted = world.receiver.count() + DELIVERIES;
    world.receiver.wait_count(wanted, SOON).context(when.to_owned())
}
