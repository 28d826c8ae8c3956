//! What is promised about letters, whoever writes them.

use std::fs;

use anyhow::{Context, Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Api, Receiver};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::scene::{SOON, Scene};

/// SQL that schedules a job when it is committed.
pub(crate) fn add(job: &Value) -> String {
    format!("SELECT hence.hence_add('{job}');")
}

/// SQL that does the work of a job and acknowledges it.
fn mail(job: &Value) -> String {
    format!("INSERT INTO mails VALUES (1); SELECT hence.hence_ack('{job}');")
}

/// From before the commit until the request is at the receiver, as seen from outside.
pub(crate) fn what_is_committed_is_scheduled_within_a_second() -> Result<Ended> {
    let scene = Scene::start()?;
    let receiver = Receiver::start()?;
    let mut took_us = Vec::new();
    for n in 0..20 {
        let id = format!("j{n}");
        let add = add(&json!({"id": id, "url": receiver.url("/")}));
        let stamp = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
        let answer = scene.sql(&format!("{add} {stamp}"))?;
        let written_us: i64 = answer.lines().last().unwrap_or_default().parse()?;
        let arrival = receiver.wait_for(&id, 1, SOON)?.remove(0);
        took_us.push(arrival.at_us - written_us);
    }
    took_us.sort_unstable();
    let (median, max) = (took_us[took_us.len() / 2], took_us[took_us.len() - 1]);
    println!(
        "from commit to delivery: median {:.1} ms, worst {:.1} ms",
        median as f64 / 1e3,
        max as f64 / 1e3
    );
    // Without being notified, the server looks after thirty seconds.
    ensure!(median < 1_000_000, "half of them took {median} µs and more");
    Ok(Ended::Passed)
}

pub(crate) fn a_letter_for_a_paused_queue_waits() -> Result<Ended> {
    let scene = Scene::start()?;
    let mut api = scene.server.api();
    api.json("PATCH", "/v1/queues/mail", &json!({"paused_in": true}))?.expect(200)?;
    scene.sql(&add(&json!({"queue": "mail", "id": "a"})))?;
    scene.sql(&add(&json!({"queue": "other", "id": "b"})))?;
    // Letters are taken in order: when the second one is a job, the first one was looked at.
    scene.database.until("SELECT id FROM hence.hence_jobs", "b")?;
    let waiting = scene.sql("SELECT body::json->'add'->>'id' FROM hence.inbox")?;
    ensure!(waiting == "a", "what waits: {waiting}");
    ensure!(scene.sql("SELECT * FROM hence.inbox_refused")?.is_empty(), "it is not refused");
    api.json("PATCH", "/v1/queues/mail", &json!({"paused_in": false}))?.expect(200)?;
    scene.database.until("SELECT id FROM hence.hence_jobs ORDER BY id", "a\nb")?;
    scene.inbox_is_empty()?;
    Ok(Ended::Passed)
}

pub(crate) fn nonsense_is_kept_with_its_reason() -> Result<Ended> {
    let scene = Scene::start()?;
    scene.database.refused("SELECT hence.hence_add('[]')", "a job is an object")?;
    scene.database.refused("SELECT hence.hence_ack('{\"id\": \"a\"}')", "as it was handed out")?;
    let unknown = json!({"queue": "q", "id": "nobody", "number": 7, "token": "0.1.1"});
    let rows = [
        (add(&json!({"quue": "mail"})), "did you mean `queue`"),
        (add(&json!({"at": "yesteryear"})), "at is not understood"),
        // Written by hand, which nobody should: past `hence_add`, which would have refused it.
        (
            "INSERT INTO hence.inbox (body) VALUES ('nonsense');
             SELECT pg_notify('hence_letters', 'hence.')"
                .to_owned(),
            "cannot be taken",
        ),
        (format!("SELECT hence.hence_ack('{unknown}')"), "there is no such job"),
    ];
    for (sql, reason) in &rows {
        scene.sql(sql)?;
        let kept = "SELECT reason FROM hence.inbox_refused";
        scene.database.until(&format!("SELECT count(*) FROM ({kept}) AS kept"), "1")?;
        let said = scene.sql("DELETE FROM hence.inbox_refused RETURNING reason, body")?;
        ensure!(said.contains(reason), "{sql} is refused with {said}, not {reason}");
    }
    scene.sql(&add(&json!({"id": "sense"})))?;
    scene.database.until("SELECT id FROM hence.hence_jobs", "sense")?;
    scene.inbox_is_empty()?;
    Ok(Ended::Passed)
}

/// The server stands still while letters are committed, and is killed before it sees them.
pub(crate) fn a_kill_before_letters_are_taken_loses_nothing() -> Result<Ended> {
    const LETTERS: usize = 50;
    let mut scene = Scene::start()?;
    let receiver = Receiver::start()?;
    scene.sql("CREATE TABLE mails (x int)")?;
    let mut api = scene.server.api();
    api.submit(&json!({"queue": "mail", "id": "leased"}))?;
    let leased = one(&mut api, &json!({"queue": "mail", "lease": "1m"}))?;
    scene.server.signal(Signal::STOP)?;
    for n in 0..LETTERS {
        scene.sql(&add(&json!({"id": format!("j{n}"), "url": receiver.url("/")})))?;
    }
    scene.sql(&mail(&leased))?;
    scene.server.kill()?;
    let waiting = scene.sql("SELECT count(*) FROM hence.inbox")?;
    ensure!(waiting == (LETTERS + 1).to_string(), "{waiting} letters wait");
    scene.server.restart()?;
    for n in 0..LETTERS {
        receiver.wait_for(&format!("j{n}"), 1, SOON)?;
    }
    let job = scene.server.api().ended("leased?queue=mail", SOON)?;
    ensure!(job["state"] == "succeeded" && job["attempts"] == 1, "{job}");
    scene.inbox_is_empty()?;
    let jobs = scene.sql("SELECT count(*) FROM hence.hence_jobs WHERE state = 'succeeded'")?;
    ensure!(jobs == (LETTERS + 1).to_string(), "{jobs} jobs");
    ensure!(receiver.count() == LETTERS, "{} deliveries", receiver.count());
    Ok(Ended::Passed)
}

/// A lease runs out while its worker is at work, and the job goes to another one. Both finish; the
/// work of one of them counts.
pub(crate) fn two_workers_one_effect() -> Result<Ended> {
    let scene = Scene::start()?;
    scene.sql("CREATE TABLE mails (x int)")?;
    let mut api = scene.server.api();
    scene.sql(&add(&json!({"queue": "mail", "id": "a"})))?;
    let slow = one(&mut api, &json!({"queue": "mail", "lease": "500ms", "wait": "10s"}))?;
    let quick = one(&mut api, &json!({"queue": "mail", "lease": "1m", "wait": "20s"}))?;
    ensure!(slow["number"] == quick["number"] && slow["token"] != quick["token"], "{quick}");
    // The one whose lease is over comes first: it has done the work, so its work counts.
    scene.sql(&mail(&slow))?;
    scene.database.refused(&mail(&quick), "job mail/a was acknowledged before: roll back")?;
    let mails = scene.sql("SELECT count(*) FROM mails")?;
    ensure!(mails == "1", "{mails} mails");
    let job = api.ended("a?queue=mail", SOON)?;
    ensure!(job["state"] == "succeeded", "{job}");
    let attempts = api.get("/v1/jobs/a/attempts?queue=mail")?.expect(200)?;
    ensure!(attempts["attempts"][0]["end"] == "timed_out", "{attempts}");
    Ok(Ended::Passed)
}

/// The rights that the guide names are enough, and each of them is needed.
pub(crate) fn an_application_needs_the_rights_of_the_guide() -> Result<Ended> {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guides/postgres.md");
    let guide = fs::read_to_string(guide)?;
    let rights: Vec<&str> = guide.lines().filter(|line| line.starts_with("GRANT ")).collect();
    ensure!(rights.len() == 3, "the rights of the guide: {rights:?}");
    let scene = Scene::start()?;
    scene.sql("CREATE ROLE app LOGIN")?;
    let mut number = 0;
    let mut write = || {
        number += 1;
        let done = json!({"queue": "q", "id": "a", "number": number, "token": "0.1.1"});
        let letters = format!("{} SELECT hence.hence_ack('{done}')", add(&json!({})));
        scene.database.sql_as("app", &letters)
    };
    scene.sql(&rights.join("\n"))?;
    write().context("with all rights")?;
    for right in &rights {
        let revoke = right.replacen("GRANT", "REVOKE", 1).replacen(" TO ", " FROM ", 1);
        scene.sql(&revoke)?;
        ensure!(write().is_err(), "not needed: {right}");
        scene.sql(right)?;
    }
    write().context("with all rights again")?;
    Ok(Ended::Passed)
}

/// Takes a job that must be there.
fn one(api: &mut Api, request: &Value) -> Result<Value> {
    let mut jobs = api.lease(request)?;
    jobs.pop().with_context(|| format!("{request} got nothing"))
}
