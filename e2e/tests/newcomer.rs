//! What somebody sees who has just come: the first screen of the README, the demo, and a server
//! that costs nothing while it has nothing to do.

#![expect(clippy::print_stdout, reason = "the figures are wanted when the test is read")]

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Build, Receiver, Server, Setup, cases, clock, server};
use serde_json::{Value, json};

cases!(
    the_first_screen_of_the_readme,
    the_short_form_of_a_job,
    the_demo_ends_well,
    an_idle_server_costs_nothing,
    it_says_where_it_listens,
    it_has_as_many_threads_as_it_is_told,
    its_connections_take_turns_and_its_driver_does_not,
);

/// The job of the README's first screen is accepted, survives a kill, fires, and can be watched.
fn the_first_screen_of_the_readme() -> Result<Ended> {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
    let readme = fs::read_to_string(readme)?;
    ensure!(readme.contains("cargo run --release -- serve"), "the command that starts a server");
    let job = readme.split("--json '").nth(1).and_then(|rest| rest.split('\'').next());
    let job = job.context("the README's first job")?;
    let mut server = Server::start()?;
    let address = server.address().to_string();
    let job: Value = serde_json::from_str(&job.replace("127.0.0.1:7070", &address))?;
    let id = job["id"].as_str().context("it has an id")?.to_owned();
    let accepted = server.api().submit(&job)?;
    server.kill()?;
    server.restart()?;
    let watch = server::hence(&["--server", &format!("http://{address}"), "watch", &id])?;
    let said = String::from_utf8_lossy(&watch.stdout);
    ensure!(watch.status.success(), "watch: {said}{}", String::from_utf8_lossy(&watch.stderr));
    let ended = server.api().get(&format!("/v1/jobs/{id}"))?.expect(200)?;
    ensure!(ended["state"] == "succeeded", "{ended}");
    let due_us = accepted["due_at_ms"].as_i64().unwrap_or_default() * 1_000;
    ensure!(clock::now_us() >= due_us, "not before its time");
    Ok(Ended::Passed)
}

/// Key, id, time and url are all that is needed; the time may be in seconds.
fn the_short_form_of_a_job() -> Result<Ended> {
    let server = Server::start()?;
    let receiver = Receiver::start()?;
    let time = clock::now_ms() / 1_000 + 1;
    let job = json!({
        "key": "user:1234", "id": "renew-subscription", "time": time, "url": receiver.url("/renew"),
    });
    let answer = server.api().submit(&job)?;
    ensure!(answer["due_at_ms"] == time * 1_000, "seconds are understood: {answer}");
    let arrival = receiver.wait_for("renew-subscription", 1, Duration::from_secs(20))?.remove(0);
    ensure!(arrival.key.as_deref() == Some("user:1234"), "{arrival:?}");
    ensure!(arrival.at_us >= time * 1_000_000, "not before its time");
    Ok(Ended::Passed)
}

fn the_demo_ends_well() -> Result<Ended> {
    let started = Instant::now();
    let demo = server::hence(&["demo"])?;
    let took = started.elapsed();
    let (out, err) = (String::from_utf8_lossy(&demo.stdout), String::from_utf8_lossy(&demo.stderr));
    ensure!(demo.status.success(), "it ended with {}:\n{out}{err}", demo.status);
    ensure!(took < Duration::from_secs(20), "it took {took:?}");
    Ok(Ended::Passed)
}

/// With nothing to do it uses next to no processor and little memory, also with work far ahead.
fn an_idle_server_costs_nothing() -> Result<Ended> {
    let server = Server::start()?;
    let mut api = server.api();
    for _ in 0..100 {
        api.submit(&json!({"in": "1h"}))?;
    }
    clock::sleep_ms(1_000);
    let (before, started) = (cpu_ticks(server.pid())?, Instant::now());
    clock::sleep_ms(5_000);
    let ticks = cpu_ticks(server.pid())? - before;
    // A tick is a hundredth of a second.
    let percent = ticks as f64 / started.elapsed().as_secs_f64();
    let mib = |field| kib(server.pid(), field).map(|kib| kib as f64 / 1_024.0);
    let (own, code) = (mib("RssAnon:")?, mib("RssFile:")?);
    println!("idle: {percent:.2} % of a core, {own:.1} MiB of its own, {code:.1} MiB of code");
    // A build without optimisation is several times slower; one tick is a fifth of a per cent. Of
    // its code, which nobody runs, the machine maps two or three times as much as it likes: there
    // only the memory of its own counts, against what the code of a release leaves of 30 MiB.
    let is_debug = cfg!(debug_assertions);
    let (percent_max, mib_max) = if is_debug { (3.0, 16.0) } else { (0.5, 30.0) };
    let mib = if is_debug { own } else { own + code };
    ensure!(mib < mib_max, "{mib:.1} MiB of memory");
    ensure!(percent < percent_max, "{percent:.2} % of a core");
    Ok(Ended::Passed)
}

/// Processor time so far, in ticks.
fn cpu_ticks(pid: u32) -> Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name may hold anything, but ends with the last parenthesis.
    let rest = stat.rsplit_once(')').context("no name")?.1;
    let field = |nth: usize| rest.split_whitespace().nth(nth).and_then(|text| text.parse().ok());
    let (user, system): (u64, u64) = field(11).zip(field(12)).context("no times")?;
    Ok(user + system)
}

/// What the kernel counts under this name.
fn kib(pid: u32, field: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with(field)).context("no such line")?;
    line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).context("no number")
}

/// Port 0 means any: the address is printed, and is the right one.
fn it_says_where_it_listens() -> Result<Ended> {
    let home = tempfile::tempdir()?;
    let log = home.path().join("log");
    let file = fs::File::create(&log)?;
    let mut child = server::command(Build::Normal, &[])
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(home.path().join("data"))
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()?;
    let address = clock::until(Duration::from_secs(20), || {
        let text = fs::read_to_string(&log).ok()?;
        let rest = text.split("listening on http://").nth(1)?;
        let digits = |c: char| c.is_ascii_digit() || matches!(c, '.' | ':');
        rest[..rest.find(|c| !digits(c))?].parse().ok()
    });
    let ready = address.map(|address| hence_e2e::Api::new(address).get("/ready"));
    child.kill()?;
    child.wait()?;
    let said = fs::read_to_string(&log)?;
    ensure!(ready.with_context(|| format!("no address in: {said}"))??.status == 200, "{said}");
    Ok(Ended::Passed)
}

/// A single thread beside the one that decides is enough for a job to arrive, a worker that waits
/// and a list, all at once.
fn it_has_as_many_threads_as_it_is_told() -> Result<Ended> {
    const MANY: usize = 40;
    let told = |threads: usize| {
        let args = vec!["--threads".to_owned(), threads.to_string()];
        Server::start_with(Setup { args, ..Setup::default() })
    };
    let many = told(MANY)?;
    ensure!(runtime_threads(many.pid())? >= MANY, "of {MANY} threads");
    let (one, receiver) = (told(1)?, Receiver::start()?);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let ask = json!({"worker": "patient", "queues": ["later"], "wait": "20s"});
            one.api().post("/v1/leases", &ask)?.expect(200)
        });
        let mut api = one.api();
        api.submit(&json!({"id": "pushed", "url": receiver.url("/pushed")}))?;
        receiver.wait_for("pushed", 1, Duration::from_secs(20))?;
        api.get("/v1/jobs")?.expect(200)?;
        api.submit(&json!({"queue": "later", "id": "pulled"}))?;
        let leased = waiting.join().map_err(|_| anyhow::anyhow!("the worker panicked"))??;
        ensure!(leased["jobs"][0]["id"] == "pulled", "{leased}");
        anyhow::Ok(())
    })?;
    let threads = runtime_threads(one.pid())?;
    ensure!(threads < MANY, "it was told to have one, and has {threads} with those that block");
    Ok(Ended::Passed)
}

/// On a machine that is busy with something else, a turn may come late: whoever decides and
/// commits must not wait for one.
fn its_connections_take_turns_and_its_driver_does_not() -> Result<Ended> {
    const OTHER: i32 = 0;
    const BATCH: i32 = 3;
    let own = policy_in(&fs::read_to_string("/proc/thread-self/stat")?).context("a policy")?.1;
    if own != OTHER {
        return Ok(Ended::Skipped("the tests were started with a policy of their own".to_owned()));
    }
    let server = Server::start()?;
    server.api().submit(&json!({"in": "1h"}))?;
    let policies = policies(server.pid())?;
    for (name, expected) in
        [("tokio-rt-worker", BATCH), ("hence-driver", OTHER), ("hence-commit", OTHER)]
    {
        let of_name: Vec<_> = policies.iter().filter(|(thread, _)| thread == name).collect();
        ensure!(!of_name.is_empty(), "no {name} among {policies:?}");
        ensure!(of_name.iter().all(|(_, policy)| *policy == expected), "{name}: {policies:?}");
    }
    Ok(Ended::Passed)
}

/// Threads of the runtime, whatever they are for: they have one name.
fn runtime_threads(pid: u32) -> Result<usize> {
    let policies = policies(pid)?;
    Ok(policies.iter().filter(|(name, _)| name == "tokio-rt-worker").count())
}

/// The names of a process's threads, and how each is scheduled.
fn policies(pid: u32) -> Result<Vec<(String, i32)>> {
    let mut all = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread that ends meanwhile has no file any more.
        let stat = fs::read_to_string(thread?.path().join("stat")).unwrap_or_default();
        all.extend(policy_in(&stat));
    }
    Ok(all)
}

/// The name of a thread, and how it is scheduled: field 41, counted behind the name, which may
/// hold anything.
fn policy_in(stat: &str) -> Option<(String, i32)> {
    let (head, rest) = stat.rsplit_once(") ")?;
    let name = head.split_once('(')?.1.to_owned();
    Some((name, rest.split(' ').nth(41 - 3)?.parse().ok()?))
}
