//! Ten thousand schedules at the same minute: the ledger and the receiver show each tick exactly
//! once, also when the process dies in the middle of them, and after an outage of eight days under
//! every misfire policy.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{FakeClock, Receiver, Server, Setup, clock, server};
use serde_json::{Value, json};

const SCHEDULES: usize = 10_000;
/// Clients that put them at once.
const CLIENTS: usize = 8;
/// A debug build on a busy machine.
const ALL_WITHIN: Duration = Duration::from_mins(1);
const DAY_MS: i64 = 24 * 3_600 * 1_000;
/// Each with what becomes of nine missed ticks: how many jobs it makes of them.
const POLICIES: [(&str, u64); 4] = [("skip", 0), ("once", 1), ("last 3", 3), ("all", 9)];

hence_e2e::cases!(each_tick_once_across_a_kill, each_tick_once_across_eight_days);

fn each_tick_once_across_a_kill() -> Result<Ended> {
    let Some(fake) = FakeClock::new()? else {
        return Ok(Ended::Skipped("libfaketime is not installed".to_owned()));
    };
    let receiver = Receiver::start()?;
    let job = json!({"url": receiver.url("/")});
    let (mut server, tick_ms) = start_with_schedules(&fake, |_| "once", &job)?;
    let result = herd(&mut server, &fake, &receiver, tick_ms);
    server.explain(result)?;
    Ok(Ended::Passed)
}

fn herd(server: &mut Server, fake: &FakeClock, receiver: &Receiver, tick_ms: i64) -> Result<()> {
    server.kill()?;
    // Two seconds before the minute.
    fake.set((tick_ms - clock::now_ms()) / 1_000 - 2)?;
    server.restart()?;
    receiver.wait_count(SCHEDULES / 5, ALL_WITHIN)?;
    server.kill()?;
    let (before, open) = (receiver.count(), receiver.open());
    ensure!(before < SCHEDULES, "it was to die in the middle of them, not after");
    server.restart()?;
    let jobs = || receiver.arrivals().into_iter().map(|arrival| arrival.job).collect();
    let arrived = clock::until(ALL_WITHIN, || {
        let jobs: BTreeSet<String> = jobs();
        (jobs.len() >= SCHEDULES).then_some(jobs)
    });
    let arrived = arrived.with_context(|| format!("{} arrivals", receiver.count()))?;
    ensure!(arrived.len() == SCHEDULES, "{} jobs of {SCHEDULES} ticks", arrived.len());
    let schedules: BTreeSet<&str> = arrived
        .iter()
        .filter_map(|job| job.split_once('@'))
        .map(|(schedule, _)| schedule)
        .collect();
    ensure!(schedules.len() == SCHEDULES, "{} schedules ran", schedules.len());
    // What was handed out when it died comes again, and nothing else does: 256 pushes and as many
    // ahead, some of which had come to their end by then, without a record of it.
    let again = receiver.count() - SCHEDULES;
    ensure!(again <= 2 * 256 + open, "{again} came twice, of {open} that were open");
    let ledger = ledger(server)?;
    ensure!(ledger.len() == SCHEDULES, "{} ledgers", ledger.len());
    for (schedule, records) in &ledger {
        ensure!(records.len() == 1 && records[0].at_ms == tick_ms, "{schedule}: {records:?}");
        ensure!(matches!(records[0].fate.as_str(), "ran" | "late"), "{schedule}: {records:?}");
    }
    Ok(())
}

fn each_tick_once_across_eight_days() -> Result<Ended> {
    let Some(fake) = FakeClock::new()? else {
        return Ok(Ended::Skipped("libfaketime is not installed".to_owned()));
    };
    let policy = |number: usize| POLICIES[number % POLICIES.len()].0;
    let (mut server, tick_ms) = start_with_schedules(&fake, policy, &json!({}))?;
    let result = outage(&mut server, &fake, tick_ms);
    server.explain(result)?;
    Ok(Ended::Passed)
}

fn outage(server: &mut Server, fake: &FakeClock, tick_ms: i64) -> Result<()> {
    server.kill()?;
    // Nine ticks are missed, the last one an hour ago.
    fake.set((tick_ms + 8 * DAY_MS + 3_600_000 - clock::now_ms()) / 1_000)?;
    let expected = POLICIES.iter().map(|(_, jobs)| jobs).sum::<u64>() * SCHEDULES as u64 / 4;
    server.spawn()?;
    server.wait_ready()?;
    // Once more, while it catches up or right after.
    server.kill()?;
    server.restart()?;
    let mut api = server.api();
    let pending = |api: &mut hence_e2e::Api| {
        let stats = api.get("/v1/stats").ok()?.value().ok()?;
        stats["counts"]["pending"].as_u64()
    };
    let all = clock::until(ALL_WITHIN, || pending(&mut api).filter(|jobs| *jobs >= expected));
    let jobs = all.with_context(|| format!("{:?} of {expected} jobs", pending(&mut api)))?;
    ensure!(jobs == expected, "{jobs} jobs, not {expected}");
    let stats = api.get("/v1/stats")?.expect(200)?;
    ensure!(stats["schedules"]["failing"] == json!([]), "{stats}");
    for (schedule, records) in ledger(server)? {
        let number: usize = schedule.trim_start_matches("s-").parse()?;
        let (policy, jobs) = POLICIES[number % POLICIES.len()];
        let late = records.iter().filter(|record| record.fate == "late").count() as u64;
        let ticks: u64 = records.iter().map(|record| record.count).sum();
        ensure!(late == jobs, "{schedule}, {policy}: {late} ran: {records:?}");
        ensure!(ticks == 9, "{schedule}, {policy}: {ticks} ticks of nine: {records:?}");
    }
    Ok(())
}

/// A server with all schedules, each ticking once a day from an hour ahead on.
fn start_with_schedules(
    fake: &FakeClock,
    policy: impl Fn(usize) -> &'static str + Sync,
    job: &Value,
) -> Result<(Server, i64)> {
    let args = ["--log", "warn,hence::schedule=error"].map(str::to_owned).to_vec();
    let setup = Setup { env: fake.env(), args, ..Setup::default() };
    let server = Server::start_with(setup)?;
    let tick_ms = (clock::now_ms() / 60_000 + 60) * 60_000;
    let put = |number: usize, api: &mut hence_e2e::Api| -> Result<()> {
        let schedule = json!({
            "when": "@every 24h", "start": tick_ms, "misfire": policy(number), "job": job,
        });
        let path = format!("/v1/schedules/s-{number}");
        api.json("PUT", &path, &schedule)?.expect(200).map(|_| ())
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (put, mut api) = (&put, server.api());
                scope.spawn(move || {
                    let mut mine = (client..SCHEDULES).step_by(CLIENTS);
                    mine.try_for_each(|number| put(number, &mut api))
                })
            })
            .collect();
        let mut ends = clients.into_iter().map(std::thread::ScopedJoinHandle::join);
        ends.try_for_each(|end| end.unwrap_or_else(|_| anyhow::bail!("a client panicked")))
    })?;
    Ok((server, tick_ms))
}

/// What a ledger says of one tick, or of several.
#[derive(Debug)]
struct Record {
    at_ms: i64,
    fate: String,
    count: u64,
}

/// All ledgers, read from the directory of a server that is stopped.
fn ledger(server: &mut Server) -> Result<BTreeMap<String, Vec<Record>>> {
    server.kill()?;
    let data = server.data().to_string_lossy().into_owned();
    let output = server::hence(&["store", "export", &data])?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut ledgers: BTreeMap<String, Vec<Record>> = BTreeMap::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let line: Value = serde_json::from_str(line)?;
        let Some(record) = line.get("occurrence") else { continue };
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| record[name].as_i64().unwrap_or_default();
        ledgers.entry(text("schedule")).or_default().push(Record {
            at_ms: number("at_ms"),
            fate: text("fate"),
            count: number("ticks") as u64,
        });
    }
    Ok(ledgers)
}
