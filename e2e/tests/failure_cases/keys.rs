//! Cases about names, keys, order and what is left behind.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Receiver, Server, clock};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(20);

/// A job is replaced while its timer runs: sooner, later, elsewhere. The old one never runs.
pub(crate) fn case_03_overwrite_while_the_old_timer_is_armed() -> Result<Ended> {
    let server = Server::start()?;
    let receiver = Receiver::start()?;
    let mut api = server.api();
    let submit = |api: &mut hence_e2e::Api, id: &str, ms: u32, path: &str| {
        api.submit(&json!({"id": id, "in": format!("{ms}ms"), "url": receiver.url(path)}))
    };
    submit(&mut api, "later", 300, "/old")?;
    submit(&mut api, "sooner", 60_000, "/old")?;
    let later = submit(&mut api, "later", 1_200, "/new")?;
    submit(&mut api, "sooner", 300, "/new")?;
    ensure!(later["how"] == "replaced", "{later}");
    let arrived = receiver.wait_for("later", 1, SOON)?;
    let due_us = later["due_at_ms"].as_i64().unwrap_or_default() * 1_000;
    ensure!(arrived[0].at_us >= due_us, "the new time counts");
    receiver.wait_for("sooner", 1, SOON)?;
    clock::sleep_ms(300);
    let paths: Vec<_> = receiver.arrivals().into_iter().map(|arrival| arrival.path).collect();
    ensure!(paths == ["/new", "/new"], "the old one must never run: {paths:?}");
    Ok(Ended::Passed)
}

/// A key goes on after its first job, one at a time, in order of due time.
pub(crate) fn case_05_second_job_of_a_key_after_the_first() -> Result<Ended> {
    let server = Server::start()?;
    let receiver = Receiver::start()?;
    let mut api = server.api();
    let start_ms = clock::now_ms() + 300;
    for n in [2, 0, 3, 1, 4] {
        let url = receiver.url("/?slow=60");
        api.submit(&json!({"id": format!("{n}"), "key": "k", "at": start_ms + n, "url": url}))?;
    }
    receiver.wait_count(5, SOON)?;
    clock::sleep_ms(200);
    let arrivals = receiver.arrivals();
    let order: Vec<_> = arrivals.iter().map(|arrival| arrival.job.as_str()).collect();
    ensure!(order == ["0", "1", "2", "3", "4"], "in order of due time: {order:?}");
    let apart =
        arrivals.windows(2).all(|pair| pair[0].ended_us.is_some_and(|end| end <= pair[1].at_us));
    ensure!(apart, "one at a time: {arrivals:?}");
    Ok(Ended::Passed)
}

/// Right after a start with many keys in the store, jobs of new keys and of old ones are taken in
/// and delivered; an old key's waiting job still comes before the new one.
pub(crate) fn case_06_first_job_of_a_new_key_while_loading() -> Result<Ended> {
    let mut server = Server::start()?;
    let receiver = Receiver::start()?;
    let due_ms = clock::now_ms() + 3_000;
    for page in 0..5 {
        let job = |n: i64| {
            let n = page * 500 + n;
            json!({"id": "old", "key": format!("k{n}"), "at": due_ms, "url": receiver.url("/")})
        };
        let jobs: Vec<Value> = (0..500).map(job).collect();
        server.api().post("/v1/jobs", &json!({ "jobs": jobs }))?.expect(207)?;
    }
    server.kill()?;
    server.restart()?;
    let mut api = server.api();
    api.submit(&json!({"id": "new", "key": "fresh", "url": receiver.url("/")}))?;
    api.submit(&json!({"id": "new", "key": "k7", "at": due_ms + 1, "url": receiver.url("/")}))?;
    let fresh = receiver.wait_for("new", 1, SOON)?;
    ensure!(fresh[0].key.as_deref() == Some("fresh"), "{fresh:?}");
    receiver.wait_count(2_502, Duration::from_secs(40))?;
    let arrivals = receiver.arrivals();
    let of_k7: Vec<_> = arrivals.iter().filter(|a| a.key.as_deref() == Some("k7")).collect();
    let order: Vec<_> = of_k7.iter().map(|arrival| arrival.job.as_str()).collect();
    ensure!(order == ["old", "new"], "in order within the key: {order:?}");
    Ok(Ended::Passed)
}

/// A backlog is handed out by due time, whatever the order of submission.
pub(crate) fn case_13_backlog_in_order_of_due_time() -> Result<Ended> {
    let mut server = Server::start()?;
    let base_ms = clock::now_ms() - 100_000;
    // 37 has no common divisor with 200: every number comes once, in a scattered order.
    let numbers: Vec<i64> = (0..200).map(|n| n * 37 % 200).collect();
    let job = |n: &i64| json!({"id": format!("{n:03}"), "queue": "q", "at": base_ms + n * 10});
    let jobs: Vec<Value> = numbers.iter().map(job).collect();
    server.api().post("/v1/jobs", &json!({ "jobs": jobs }))?.expect(207)?;
    let mut order = lease_ids(&server, 100)?;
    server.kill()?;
    server.restart()?;
    order.extend(lease_ids(&server, 100)?);
    let sorted: Vec<String> = (0..200).map(|n| format!("{n:03}")).collect();
    ensure!(order == sorted, "by due time: {order:?}");
    Ok(Ended::Passed)
}

fn lease_ids(server: &Server, max: usize) -> Result<Vec<String>> {
    let jobs = server.api().lease(&json!({"queue": "q", "max": max, "lease": "60s"}))?;
    Ok(jobs.iter().map(|job| job["id"].as_str().unwrap_or_default().to_owned()).collect())
}

/// Work that is done leaves nothing behind: much more is written than the directory may hold.
pub(crate) fn case_20_finished_work_leaves_no_bytes() -> Result<Ended> {
    const ROUNDS: usize = 60;
    const JOBS: usize = 200;
    const PAYLOAD: usize = 8 * 1024;
    let mut server = Server::start()?;
    let mut api = server.api();
    let payload = "x".repeat(PAYLOAD);
    for _ in 0..ROUNDS {
        let job = |n: usize| {
            json!({"id": "same", "key": format!("k{n}"), "queue": "q", "payload_text": payload,
                   "retention": "0s"})
        };
        let jobs: Vec<Value> = (0..JOBS).map(job).collect();
        api.post("/v1/jobs", &json!({ "jobs": jobs }))?.expect(207)?;
        let leased = api.lease(&json!({"queue": "q", "max": JOBS, "wait": "10s"}))?;
        ensure!(leased.len() == JOBS, "all of them: {}", leased.len());
        let acks: Vec<Value> = leased.iter().map(|job| json!({"token": job["token"]})).collect();
        let answer = api.post("/v1/leases/ack", &json!({ "acks": acks }))?;
        ensure!(matches!(answer.status, 200 | 207), "{answer:?}");
    }
    let written = ROUNDS * JOBS * PAYLOAD;
    // The log's reserve is there in any case; jobs that are done must not add to it for ever.
    let fits = |bytes: u64| bytes < 90 * 1024 * 1024 + written as u64 / 2;
    let shrunk = clock::until(SOON, || Some(bytes_in(server.data())).filter(|bytes| fits(*bytes)));
    shrunk.with_context(|| format!("{} of {written} bytes are left", bytes_in(server.data())))?;
    server.kill()?;
    server.restart()?;
    let left = server.api().get("/v1/jobs?queue=q")?.expect(200)?;
    ensure!(left["jobs"].as_array().is_some_and(Vec::is_empty), "nothing is pending: {left}");
    Ok(Ended::Passed)
}

fn bytes_in(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum()
}

/// A job that always fails holds its own key back until it is dead, or steps aside when asked to;
/// it never touches other keys.
pub(crate) fn case_21_a_poison_job_blocks_only_its_key() -> Result<Ended> {
    let server = Server::start()?;
    let receiver = Receiver::start()?;
    let mut api = server.api();
    let now_ms = clock::now_ms();
    let mut submit = |id: &str, key: &str, at: i64, path: &str, choice: &str| {
        let retry = json!({"max_attempts": 3, "delay": "300ms", "jitter_percent": 0});
        api.submit(&json!({
            "id": id, "key": key, "at": at, "url": receiver.url(path), "retry": retry,
            "key_on_failure": choice,
        }))
    };
    submit("poison", "blocked", now_ms, "/?status=500", "block")?;
    submit("behind", "blocked", now_ms + 1, "/", "block")?;
    submit("polite", "aside", now_ms, "/?status=500", "step_aside")?;
    submit("ahead", "aside", now_ms + 1, "/", "step_aside")?;
    submit("other", "free", now_ms + 1, "/", "block")?;
    let behind = receiver.wait_for("behind", 1, SOON)?.remove(0);
    let poison = receiver.of("poison");
    ensure!(poison.len() == 3, "three attempts before the next of the key: {poison:?}");
    ensure!(poison.iter().all(|arrival| arrival.at_us < behind.at_us), "blocked until dead");
    let polite = receiver.wait_for("polite", 3, SOON)?;
    let ahead = receiver.wait_for("ahead", 1, SOON)?.remove(0);
    ensure!(ahead.at_us < polite[1].at_us, "it went ahead of the retry");
    let other = receiver.wait_for("other", 1, SOON)?.remove(0);
    ensure!(other.at_us < poison[1].at_us, "another key is not touched");
    ensure!(server.api().state("poison?key=blocked")? == "dead");
    Ok(Ended::Passed)
}
