//! Two nodes on one database, and one that moves there.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Api, Receiver, Server, Setup, clock};
use serde_json::json;

use crate::letters::add;
use crate::scene::{Database, SOON, Scene, on};

/// Three seconds of tenure, and a look every second; the rest is for a busy machine.
const TAKES_OVER_WITHIN: Duration = Duration::from_secs(8);

/// Jobs for later that are there before the move begins.
const FAR: usize = 20_000;

/// Clients that submit meanwhile.
const PRODUCERS: usize = 4;

/// Jobs that must be accepted while the move is under way, or nothing was shown.
const MEANWHILE: usize = 10;

/// Jobs that must be accepted after the move, before it is judged.
const AFTERWARDS: usize = 100;

pub(crate) fn a_second_node_stands_by_and_takes_over() -> Result<Ended> {
    let mut scene = Scene::start()?;
    let receiver = Receiver::start()?;
    let mut second = Server::prepare(Setup {
        args: [on(&scene.database.url).args, vec!["--node".to_owned(), "second".to_owned()]]
            .concat(),
        ..Setup::default()
    })?;
    second.spawn()?;
    await_standing_by(&second)?;
    ends_while_it_stands_by(&scene.database.url)?;
    scene.server.api().submit(&json!({"id": "far", "in": "1h"}))?;
    let due = json!({"id": "due", "in": "1s", "url": receiver.url("/")});
    scene.server.api().submit(&due)?;
    sends_everybody_away(&second)?;

    scene.server.kill()?;
    let killed = Instant::now();
    // Committed while nobody is there.
    scene.sql(&add(&json!({"id": "letter", "url": receiver.url("/")})))?;
    second.wait_ready()?;
    let took = killed.elapsed();
    println!("taken over {took:.1?} after kill -9");
    ensure!(took < TAKES_OVER_WITHIN, "it took {took:.1?}");
    receiver.wait_for("due", 1, SOON)?;
    receiver.wait_for("letter", 1, SOON)?;
    ensure!(second.api().state("far")? == "scheduled", "what the first one had accepted");
    for id in ["due", "letter"] {
        let job = second.api().ended(id, SOON)?;
        ensure!(job["state"] == "succeeded" && job["attempts"] == 1, "{job}");
    }
    ensure!(receiver.count() == 2, "each once: {:?}", receiver.arrivals());
    Ok(Ended::Passed)
}

fn await_standing_by(server: &Server) -> Result<()> {
    let told = clock::until(SOON, || server.log().contains("standing by").then_some(()));
    server.explain(told.context("it does not stand by"))
}

/// It lives and can be measured, and that is all.
fn sends_everybody_away(server: &Server) -> Result<()> {
    let mut api = server.api();
    ensure!(api.get("/live")?.status == 200, "it does not live");
    let metrics = String::from_utf8_lossy(&api.get("/metrics")?.body).into_owned();
    ensure!(metrics.contains("hence_standing_by 1\n"), "{metrics}");
    for (method, path) in [("GET", "/ready"), ("POST", "/v1/jobs"), ("GET", "/v1/stats")] {
        let answer = api.json(method, path, &json!({}))?;
        let problem = answer.expect(503)?;
        ensure!(problem["type"] == "/docs/errors#standing-by", "{method} {path}: {problem}");
        ensure!(problem["detail"].as_str().unwrap_or_default().starts_with("standing by"));
        ensure!(answer.header("retry-after") == Some("3"), "{method} {path}: {answer:?}");
    }
    Ok(())
}

/// A signal ends a server that stands by as it ends any other.
fn ends_while_it_stands_by(url: &str) -> Result<()> {
    let mut third = Server::prepare(on(url))?;
    third.spawn()?;
    await_standing_by(&third)?;
    let status = third.stop(SOON)?;
    ensure!(status.code() == Some(0), "{status}:\n{}", third.log_tail());
    Ok(())
}

/// Jobs are submitted and delivered all the time while everything goes from a directory to
/// PostgreSQL.
pub(crate) fn moved_while_work_goes_on() -> Result<Ended> {
    let database = Database::start()?;
    let receiver = Receiver::start()?;
    let data = tempfile::tempdir()?;
    with_jobs_for_later(data.path())?;
    let args = vec!["--move-to".to_owned(), database.url.clone()];
    let mut moving = Server::prepare(setup(data.path(), args))?;
    let accepted = moved(&mut moving, &receiver);
    let accepted = moving.explain(accepted)?;
    // This very process works on the database already: it takes letters.
    database.sql(&add(&json!({"id": "letter", "url": receiver.url("/")})))?;
    receiver.wait_for("letter", 1, SOON)?;
    each_once(&receiver, &accepted)?;
    let status = moving.stop(SOON)?;
    ensure!(status.code() == Some(0), "{status}:\n{}", moving.log_tail());

    let server = Server::start_with(on(&database.url))?;
    let mut api = server.api();
    for id in &accepted {
        let job = api.ended(id, SOON)?;
        ensure!(job["state"] == "succeeded" && job["attempts"] == 1, "{job}");
    }
    let jobs = "SELECT state, count(*) FROM hence.hence_jobs GROUP BY state ORDER BY state";
    let expected = format!("scheduled|{FAR}\nsucceeded|{}", accepted.len() + 1);
    database.until(jobs, &expected)?;
    for id in ["far-0".to_owned(), format!("far-{}", FAR - 1)] {
        ensure!(api.state(&id)? == "scheduled", "{id}");
    }
    each_once(&receiver, &accepted)?;
    Ok(Ended::Passed)
}

fn setup(data: &Path, args: Vec<String>) -> Setup {
    Setup { data: Some(data.to_path_buf()), args, ..Setup::default() }
}

/// So that there is something to move.
fn with_jobs_for_later(data: &Path) -> Result<()> {
    let mut server = Server::start_with(setup(data, Vec::new()))?;
    let jobs: Vec<_> = (0..FAR).map(|n| json!({"id": format!("far-{n}"), "in": "2h"})).collect();
    for jobs in jobs.chunks(500) {
        server.api().post("/v1/jobs", &json!({"jobs": jobs}))?.expect(207)?;
    }
    server.stop(SOON)?;
    Ok(())
}

/// Produces from the first moment of the move until some time after it. Returns what was accepted.
fn moved(server: &mut Server, receiver: &Receiver) -> Result<Vec<String>> {
    let (producing, count) = (AtomicBool::new(true), AtomicUsize::new(0));
    let (address, url) = (server.address(), receiver.url("/?slow=20"));
    std::thread::scope(|scope| {
        let (producing, count, url) = (&producing, &count, &url);
        let produce = |nth| move || produce(address, nth, url, producing, count);
        let producers: Vec<_> = (0..PRODUCERS).map(|nth| scope.spawn(produce(nth))).collect();
        let ended = until_moved(server, count);
        producing.store(false, Ordering::Relaxed);
        let mut accepted = Vec::new();
        for producer in producers {
            let mine = producer.join().map_err(|_| anyhow::anyhow!("a producer panicked"))?;
            accepted.extend(mine?);
        }
        ended.map(|()| accepted)
    })
}

fn until_moved(server: &mut Server, count: &AtomicUsize) -> Result<()> {
    server.spawn()?;
    server.wait_ready()?;
    let started = Instant::now();
    let moved = || server.log().contains("moved: from the next start on").then_some(());
    clock::until(Duration::from_mins(2), moved).context("it does not come to an end")?;
    let meanwhile = count.load(Ordering::Relaxed);
    println!("{FAR} jobs moved in {:.1?}, {meanwhile} accepted meanwhile", started.elapsed());
    ensure!(meanwhile >= MEANWHILE, "{meanwhile} jobs were accepted during the move");
    let more = || (count.load(Ordering::Relaxed) >= meanwhile + AFTERWARDS).then_some(());
    clock::until(SOON, more).context("nothing is accepted after the move")
}

/// Submits until told to stop; returns what was accepted.
fn produce(
    address: SocketAddr,
    nth: usize,
    url: &str,
    producing: &AtomicBool,
    count: &AtomicUsize,
) -> Result<Vec<String>> {
    let mut api = Api::new(address);
    let mut accepted = Vec::new();
    for n in 0.. {
        if !producing.load(Ordering::Relaxed) {
            break;
        }
        let id = format!("j{nth}-{n}");
        let job = json!({"id": id, "in": format!("{}ms", n % 300), "url": url});
        match api.post("/v1/jobs", &job) {
            Ok(answer) if answer.status == 201 => {
                accepted.push(id);
                count.fetch_add(1, Ordering::Relaxed);
            }
            // It is not there yet, or has just begun to start.
            answer => ensure!(accepted.is_empty(), "{job} was answered {answer:?}"),
        }
        clock::sleep_ms(5);
    }
    Ok(accepted)
}

/// Every accepted job arrived, each once, and was answered.
fn each_once(receiver: &Receiver, accepted: &[String]) -> Result<()> {
    for id in accepted {
        receiver.wait_for(id, 1, SOON)?;
    }
    let answered = clock::until(SOON, || (receiver.open() == 0).then_some(()));
    answered.context("some are not answered")?;
    let mut counts: HashMap<String, usize> = HashMap::new();
    for arrival in receiver.arrivals() {
        ensure!(arrival.status == Some(200), "cut off in the middle: {arrival:?}");
        *counts.entry(arrival.job).or_default() += 1;
    }
    let doubled: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    ensure!(doubled.is_empty(), "delivered twice: {doubled:?}");
    // The letter came, too.
    ensure!(counts.len() == accepted.len() + 1, "{} jobs arrived", counts.len());
    Ok(())
}
