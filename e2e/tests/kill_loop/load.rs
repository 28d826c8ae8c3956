//! Those who submit and those who pull; what each of them does and hears is recorded.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use hence_e2e::{Answer, Api, Receiver, Seed, clock};
use hence_sim::history::{self, How, Received, Stamp, Submit, Terms, Verb, What};
use serde_json::{Value, json};

use crate::record::{self, Record, TIMEOUT_MS};

/// Between a failed attempt and the next.
const RETRY_MS: u64 = 40;
/// The attempts of a job that never succeeds.
const DOOMED_ATTEMPTS: u32 = 3;
/// The attempts of any other.
const ATTEMPTS: u32 = 50;
/// How long a pull worker may keep a job.
const LEASE_MS: i64 = 2_000;
/// How long a job can be looked at after its end: until the verdict.
const RETENTION_MS: u64 = 3_600_000;

const PRODUCERS: u64 = 3;
const WORKERS: u64 = 4;
const KEYS: u64 = 8;

/// Everything that is known about a run.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) receiver: Receiver,
    pub(crate) record: Record,
    /// Attempts of pulled jobs that workers refuse.
    fails: Mutex<HashMap<String, u32>>,
    asking: AtomicI64,
    accepted: AtomicUsize,
    producing: AtomicBool,
    working: AtomicBool,
}

impl World {
    pub(crate) fn new(address: SocketAddr, receiver: Receiver) -> Self {
        World {
            address,
            receiver,
            record: Record::new(),
            fails: Mutex::default(),
            asking: AtomicI64::new(0),
            accepted: AtomicUsize::new(0),
            producing: AtomicBool::new(true),
            working: AtomicBool::new(true),
        }
    }

    pub(crate) fn stop_producing(&self) {
        self.producing.store(false, Ordering::Relaxed);
    }

    pub(crate) fn stop_working(&self) {
        self.working.store(false, Ordering::Relaxed);
    }

    /// Requests of clients and deliveries to the receiver that have no answer yet.
    pub(crate) fn in_flight(&self) -> i64 {
        self.asking.load(Ordering::Relaxed) + self.receiver.open() as i64
    }

    /// Submissions, one at a time, that were acknowledged.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    fn ask(&self, api: &mut Api, path: &str, body: &Value) -> Result<Answer> {
        self.asking.fetch_add(1, Ordering::Relaxed);
        let answer = api.post(path, body);
        self.asking.fetch_sub(1, Ordering::Relaxed);
        answer
    }

    /// Asks about one lease, on the record.
    fn ask_under(&self, api: &mut Api, path: &str, body: &Value, verb: Verb) -> Result<Answer> {
        let call = self.record.ask("worker", verb);
        let answer = self.ask(api, path, body);
        let told = match &answer {
            Ok(answer) if matches!(answer.status, 200 | 204) => Some(history::Answer::Done),
            // It lost the lease.
            Ok(answer) if answer.status == 409 => Some(history::Answer::Refused),
            Ok(answer) => not_now(answer),
            Err(error) => unheard(error),
        };
        self.record.told("worker", call, told);
        answer
    }
}

/// What is known of a question that has no answer: when nobody listened, it was not asked.
fn unheard(error: &anyhow::Error) -> Option<history::Answer> {
    let io = error.root_cause().downcast_ref::<std::io::Error>();
    let refused = io.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused);
    refused.then_some(history::Answer::Refused)
}

/// What is known of a question that cannot be answered now: nothing was done, unless it is said
/// that nobody knows.
fn not_now(answer: &Answer) -> Option<history::Answer> {
    assert!(matches!(answer.status, 503 | 504), "{answer:?}");
    let problem = answer.value().unwrap_or_default();
    let kind = problem["type"].as_str().unwrap_or_default();
    let unknown = kind.ends_with("#unavailable") || kind.ends_with("#timed-out");
    (!unknown).then_some(history::Answer::Refused)
}

/// What a submission was answered with.
fn added(answer: &Value) -> history::Answer {
    let number = answer["number"].as_u64().unwrap_or_default();
    match answer["how"].as_str() {
        Some("kept") => history::Answer::Kept(number),
        _ => history::Answer::Accepted(number),
    }
}

/// Some submit singly, one in batches.
pub(crate) fn start_producers(world: &Arc<World>, seed: &Seed) -> Vec<JoinHandle<()>> {
    let start = |index: u64, run: fn(&World, &Seed, u64)| {
        let (world, seed) = (Arc::clone(world), seed.fork(index));
        std::thread::spawn(move || run(&world, &seed, index))
    };
    let mut threads: Vec<_> = (0..PRODUCERS).map(|index| start(index, produce_singly)).collect();
    threads.push(start(PRODUCERS, produce_batches));
    threads
}

fn produce_singly(world: &World, seed: &Seed, producer: u64) {
    let mut api = Api::new(world.address).timeout(Duration::from_secs(5));
    for count in 0.. {
        if !world.producing.load(Ordering::Relaxed) {
            return;
        }
        let (job, submit) = plan(world, seed, &format!("s{producer}-{count}"));
        // Half of them persist until they are told something; the others live with not knowing.
        let persist = seed.percent(50);
        loop {
            let call = world.record.ask("producer", Verb::Submit(submit.clone()));
            let answer = world.ask(&mut api, "/v1/jobs", &job);
            let told = match &answer {
                Ok(answer) if matches!(answer.status, 200 | 201) => {
                    Some(added(&answer.value().unwrap_or_default()))
                }
                Ok(answer) => not_now(answer),
                Err(error) => unheard(error),
            };
            world.record.told("producer", call, told.clone());
            let unknown = told.is_none() || answer.is_err();
            let accepted = told.is_some_and(|told| told != history::Answer::Refused);
            world.accepted.fetch_add(usize::from(accepted), Ordering::Relaxed);
            if accepted || (unknown && !persist) {
                break;
            }
            clock::sleep_ms(seed.between(20, 60));
        }
        clock::sleep_ms(seed.between(2, 15));
    }
}

fn produce_batches(world: &World, seed: &Seed, _: u64) {
    let mut api = Api::new(world.address).timeout(Duration::from_secs(5));
    for count in 0.. {
        if !world.producing.load(Ordering::Relaxed) {
            return;
        }
        let size = seed.between(2, 30);
        let (jobs, submits): (Vec<Value>, Vec<Submit>) =
            (0..size).map(|at| plan(world, seed, &format!("b{count}-{at}"))).unzip();
        let ask = |submit| world.record.ask("producer", Verb::Submit(submit));
        let calls: Vec<u64> = submits.into_iter().map(ask).collect();
        let answer = world.ask(&mut api, "/v1/jobs", &json!({ "jobs": jobs }));
        for (at, call) in calls.into_iter().enumerate() {
            world.record.told("producer", call, told_of(&answer, at));
        }
        clock::sleep_ms(seed.between(30, 120));
    }
}

/// What one of many submissions was answered with.
fn told_of(answer: &Result<Answer>, at: usize) -> Option<history::Answer> {
    match answer {
        Ok(answer) if answer.status == 207 => {
            let answer = answer.value().unwrap_or_default();
            let one = &answer["jobs"][at];
            assert_eq!(one["status"], 201, "each job is answered for itself: {answer}");
            Some(added(one))
        }
        Ok(answer) => not_now(answer),
        Err(error) => unheard(error),
    }
}

/// Draws a job: as it is sent, and as it is recorded.
fn plan(world: &World, seed: &Seed, id: &str) -> (Value, Submit) {
    let pulled = seed.percent(40);
    let queue = if pulled { "pulled" } else { "pushed" };
    let key = seed.percent(40).then(|| format!("k{}", seed.between(0, KEYS - 1)));
    let due_at = clock::now_ms() + seed.between(0, 2_000) as i64;
    let doomed = !pulled && seed.percent(3);
    let fails = if seed.percent(15) { seed.between(1, 2) as u32 } else { 0 };
    lock(&world.fails).insert(id.to_owned(), fails);
    let max_attempts = if doomed { DOOMED_ATTEMPTS } else { ATTEMPTS };
    let delay = format!("{RETRY_MS}ms");
    let retry = json!({"max_attempts": max_attempts, "delay": delay, "jitter_percent": 0});
    let mut job = json!({
        "id": id, "at": due_at, "payload_text": id, "retry": retry, "queue": queue,
        "timeout": format!("{TIMEOUT_MS}ms"), "retention": format!("{RETENTION_MS}ms"),
        "on_conflict": "keep",
    });
    if let Some(key) = &key {
        job["key"] = key.as_str().into();
    }
    if !pulled {
        let slow = if seed.percent(30) { seed.between(1, 40) } else { 0 };
        let answer = if doomed { "status=500".to_owned() } else { format!("fail={fails}") };
        job["url"] = world.receiver.url(&format!("/{id}?{answer}&slow={slow}")).into();
    }
    let terms = Terms {
        max_attempts,
        delays_ms: vec![RETRY_MS],
        timeout_ms: TIMEOUT_MS,
        retention_ms: RETENTION_MS,
        pulled,
        ..Terms::default()
    };
    let (name, queue) = (record::name(queue, key.as_deref(), id), queue.to_owned());
    let payload = id.to_owned();
    (job, Submit { job: name, queue, key, due_at, payload, idempotent: true, terms })
}

/// Each takes a few jobs at a time, and finishes them one by one or together.
pub(crate) fn start_workers(world: &Arc<World>, seed: &Seed) -> Vec<JoinHandle<()>> {
    let start = |index| {
        let (world, seed) = (Arc::clone(world), seed.fork(100 + index));
        std::thread::spawn(move || work(&world, &seed, index))
    };
    (0..WORKERS).map(start).collect()
}

fn work(world: &World, seed: &Seed, worker: u64) {
    let mut api = Api::new(world.address).timeout(Duration::from_secs(5));
    let mut refused: HashMap<String, u32> = HashMap::new();
    while world.working.load(Ordering::Relaxed) {
        let request = json!({
            "worker": format!("w{worker}"), "queue": "pulled", "max": seed.between(1, 8),
            "lease": format!("{LEASE_MS}ms"), "wait": "200ms",
        });
        let leased = world.ask(&mut api, "/v1/leases", &request);
        let at_us = clock::now_us();
        let answer = leased.ok().filter(|answer| answer.status == 200);
        let Some(answer) = answer.and_then(|answer| answer.value().ok()) else {
            clock::sleep_ms(10);
            continue;
        };
        let jobs = answer["jobs"].as_array().cloned().unwrap_or_default();
        let jobs: Vec<Received> = jobs.iter().map(received).collect();
        for job in &jobs {
            world.record.tell_at(at_us, "worker", What::Received(job.clone()));
        }
        clock::sleep_ms(seed.between(0, 15));
        for job in &jobs {
            handle(world, &mut api, &mut refused, job, at_us);
        }
    }
}

fn received(job: &Value) -> Received {
    let text = |name: &str| job[name].as_str().unwrap_or_default().to_owned();
    Received {
        job: record::name("pulled", job["key"].as_str(), &text("id")),
        number: job["number"].as_u64().unwrap_or_default(),
        attempt: job["attempt"].as_u64().unwrap_or_default() as u32,
        token: record::stamp(&text("token")),
        payload: text("payload_text"),
        until: job["until_ms"].as_i64().unwrap_or_default(),
        occurrence: None,
    }
}

fn handle(
    world: &World,
    api: &mut Api,
    refused: &mut HashMap<String, u32>,
    job: &Received,
    at_us: i64,
) {
    // A job that has waited for the others of its batch may not be ours any more.
    if clock::now_us() - at_us > (LEASE_MS - 500) * 1_000 {
        return;
    }
    // The payload of a job is its id. Another worker may have refused it before; then it is
    // refused more often, and still ends.
    let fails = lock(&world.fails).get(&job.payload).copied().unwrap_or_default();
    let times = refused.entry(job.payload.clone()).or_default();
    *times += 1;
    let token = job.token;
    // It ends for the worker when it says so, however often it has to say it.
    if *times <= fails {
        let how = How::Failed { retry_after_ms: 0 };
        world.record.tell("worker", What::Ended { token, how });
        let (path, body) = (format!("/v1/leases/{token}/nack"), json!({"reason": "no"}));
        drop(world.ask_under(api, &path, &body, Verb::Nack { token }));
    } else {
        world.record.tell("worker", What::Ended { token, how: How::Done });
        ack(world, api, token);
    }
}

/// Says "done" until there is an answer: the server may be on its way back.
fn ack(world: &World, api: &mut Api, token: Stamp) {
    let deadline = clock::now_ms() + LEASE_MS;
    let path = format!("/v1/leases/{token}/ack");
    loop {
        match world.ask_under(api, &path, &json!({}), Verb::Ack { token }) {
            Ok(answer) if answer.status != 503 => return,
            Err(_) if clock::now_ms() > deadline => return,
            Ok(_) | Err(_) => clock::sleep_ms(10),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
