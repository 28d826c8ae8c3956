//! Those who submit and those who pull, and what each of them was told.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use hence_e2e::{Api, Receiver, Seed, Token, clock};
use serde_json::{Value, json};

/// Between a failed attempt and the next.
pub(crate) const RETRY_MS: i64 = 40;
/// The attempts of a job that never succeeds.
pub(crate) const DOOMED_ATTEMPTS: usize = 3;
/// How long a pull worker may keep a job.
pub(crate) const LEASE_MS: i64 = 2_000;

const PRODUCERS: u64 = 3;
const WORKERS: u64 = 4;
const KEYS: u64 = 8;

/// A job as its producer knows it.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) id: String,
    pub(crate) pulled: bool,
    pub(crate) key: Option<String>,
    pub(crate) due_ms: i64,
    /// Attempts that its receiver refuses.
    pub(crate) fails: u32,
    /// Refused always.
    pub(crate) doomed: bool,
    /// When the producer was told that it is accepted.
    pub(crate) accepted_us: Option<i64>,
    /// The order of submission, as told.
    pub(crate) number: u64,
}

/// A job in the hands of a pull worker.
#[derive(Debug, Clone)]
pub(crate) struct Handling {
    pub(crate) job: String,
    pub(crate) token: Token,
    pub(crate) at_us: i64,
    pub(crate) ended_us: i64,
    pub(crate) payload: String,
    pub(crate) said: Said,
}

/// What a worker said, and what it was told about that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// Done; it was recorded.
    Done,
    /// Done; it was refused as too late.
    DoneTooLate,
    /// Done; no answer.
    DoneUnheard,
    /// Not done, whatever was answered.
    NotDone,
}

/// One kill.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kill {
    pub(crate) at_us: i64,
    /// Requests and deliveries under way at that moment.
    pub(crate) in_flight: i64,
}

/// Everything that is known about a run.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) receiver: Receiver,
    plans: Mutex<HashMap<String, Plan>>,
    handled: Mutex<Vec<Handling>>,
    kills: Mutex<Vec<Kill>>,
    asking: AtomicI64,
    unknown: AtomicI64,
    producing: AtomicBool,
    working: AtomicBool,
}

impl World {
    pub(crate) fn new(address: SocketAddr, receiver: Receiver) -> Self {
        World {
            address,
            receiver,
            plans: Mutex::default(),
            handled: Mutex::default(),
            kills: Mutex::default(),
            asking: AtomicI64::new(0),
            unknown: AtomicI64::new(0),
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

    pub(crate) fn killed(&self, kill: Kill) {
        lock(&self.kills).push(kill);
    }

    pub(crate) fn kills(&self) -> Vec<Kill> {
        lock(&self.kills).clone()
    }

    pub(crate) fn plans(&self) -> Vec<Plan> {
        lock(&self.plans).values().cloned().collect()
    }

    pub(crate) fn handled(&self) -> Vec<Handling> {
        lock(&self.handled).clone()
    }

    /// Requests of clients and deliveries to the receiver that have no answer yet.
    pub(crate) fn in_flight(&self) -> i64 {
        self.asking.load(Ordering::Relaxed) + self.receiver.open() as i64
    }

    /// Jobs acknowledged, and submissions without an answer.
    pub(crate) fn told(&self) -> (usize, i64) {
        let accepted = lock(&self.plans).values().filter(|p| p.accepted_us.is_some()).count();
        (accepted, self.unknown.load(Ordering::Relaxed))
    }

    fn ask(&self, api: &mut Api, path: &str, body: &Value) -> Result<hence_e2e::Answer> {
        self.asking.fetch_add(1, Ordering::Relaxed);
        let answer = api.post(path, body);
        self.asking.fetch_sub(1, Ordering::Relaxed);
        answer
    }

    /// A submission has no answer. When nobody listened, it was not made.
    fn count_unknown(&self, error: &anyhow::Error) {
        let io = error.root_cause().downcast_ref::<std::io::Error>();
        if io.is_none_or(|error| error.kind() != std::io::ErrorKind::ConnectionRefused) {
            self.unknown.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn accept(&self, id: &str, answer: &Value) {
        let mut plans = lock(&self.plans);
        let plan = plans.get_mut(id).expect("a plan is written down before it is sent");
        plan.accepted_us.get_or_insert(clock::now_us());
        plan.number = answer["number"].as_u64().unwrap_or_default();
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
        let job = plan(world, seed, &format!("s{producer}-{count}"));
        // Half of them persist until they are told something; the others live with not knowing.
        let persist = seed.percent(50);
        loop {
            match world.ask(&mut api, "/v1/jobs", &job) {
                Ok(answer) if matches!(answer.status, 200 | 201) => {
                    let answer = answer.value().unwrap_or_default();
                    world.accept(job["id"].as_str().unwrap_or_default(), &answer);
                    break;
                }
                // Starting or stopping: refused, and nothing was done.
                Ok(answer) => assert_eq!(answer.status, 503, "{answer:?}"),
                Err(error) => {
                    world.count_unknown(&error);
                    if !persist {
                        break;
                    }
                }
            }
            clock::sleep_ms(seed.between(5, 20));
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
        let jobs: Vec<Value> =
            (0..size).map(|at| plan(world, seed, &format!("b{count}-{at}"))).collect();
        match world.ask(&mut api, "/v1/jobs", &json!({ "jobs": jobs })) {
            Ok(answer) if answer.status == 207 => {
                let answer = answer.value().unwrap_or_default();
                let answers = answer["jobs"].as_array().cloned().unwrap_or_default();
                assert_eq!(answers.len(), jobs.len(), "each job is answered for itself");
                for (job, answer) in jobs.iter().zip(&answers) {
                    assert_eq!(answer["status"], 201, "{answer}");
                    world.accept(job["id"].as_str().unwrap_or_default(), answer);
                }
            }
            Ok(answer) => assert_eq!(answer.status, 503, "{answer:?}"),
            Err(error) => world.count_unknown(&error),
        }
        clock::sleep_ms(seed.between(30, 120));
    }
}

/// Draws a job and writes it down before anybody hears of it.
fn plan(world: &World, seed: &Seed, id: &str) -> Value {
    let pulled = seed.percent(40);
    let key = seed.percent(40).then(|| format!("k{}", seed.between(0, KEYS - 1)));
    let due_ms = clock::now_ms() + seed.between(0, 2_000) as i64;
    // An attempt of a pulled job can be used up without any worker seeing it (the answer to its
    // lease was cut off), so only for pushed ones the receiver can count them.
    let doomed = !pulled && seed.percent(3);
    let fails = if seed.percent(15) { seed.between(1, 2) as u32 } else { 0 };
    let plan = Plan {
        id: id.to_owned(),
        pulled,
        key: key.clone(),
        due_ms,
        fails,
        doomed,
        accepted_us: None,
        number: 0,
    };
    lock(&world.plans).insert(id.to_owned(), plan);
    let attempts = if doomed { DOOMED_ATTEMPTS } else { 50 };
    let delay = format!("{RETRY_MS}ms");
    let retry = json!({"max_attempts": attempts, "delay": delay, "jitter_percent": 0});
    let mut job = json!({
        "id": id, "at": due_ms, "payload_text": id, "retry": retry,
        "queue": if pulled { "pulled" } else { "pushed" }, "on_conflict": "keep",
    });
    if let Some(key) = key {
        job["key"] = key.into();
    }
    if !pulled {
        let slow = if seed.percent(30) { seed.between(1, 40) } else { 0 };
        let answer = if doomed { "status=500".to_owned() } else { format!("fail={fails}") };
        job["url"] = world.receiver.url(&format!("/{id}?{answer}&slow={slow}")).into();
    }
    job
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
        clock::sleep_ms(seed.between(0, 15));
        for job in &jobs {
            handle(world, &mut api, &mut refused, job, at_us);
        }
    }
}

fn handle(
    world: &World,
    api: &mut Api,
    refused: &mut HashMap<String, u32>,
    job: &Value,
    at_us: i64,
) {
    let text = |name: &str| job[name].as_str().unwrap_or_default().to_owned();
    let (id, token) = (text("id"), text("token"));
    let plan = lock(&world.plans).get(&id).cloned().expect("nobody submitted this job");
    let times = refused.entry(id.clone()).or_default();
    // Another worker may have refused it before; then it is refused more often, and still ends.
    let refuse = plan.doomed || *times < plan.fails;
    *times += 1;
    // It ends for the worker when it says so, however often it has to say it.
    let ended_us = clock::now_us();
    // A job that has waited for the others of its batch may not be ours any more.
    let said = if ended_us - at_us > (LEASE_MS - 500) * 1_000 {
        return;
    } else if refuse {
        drop(world.ask(api, &format!("/v1/leases/{token}/nack"), &json!({"reason": "no"})));
        Said::NotDone
    } else {
        ack(world, api, &token)
    };
    let token = Token::parse(&token);
    let payload = text("payload_text");
    lock(&world.handled).push(Handling { job: id, token, at_us, ended_us, payload, said });
}

/// Says "done" until there is an answer: the server may be on its way back.
fn ack(world: &World, api: &mut Api, token: &str) -> Said {
    let deadline = clock::now_ms() + LEASE_MS;
    loop {
        match world.ask(api, &format!("/v1/leases/{token}/ack"), &json!({})) {
            Ok(answer) if matches!(answer.status, 200 | 204) => return Said::Done,
            Ok(answer) if answer.status == 409 => return Said::DoneTooLate,
            Ok(answer) => assert_eq!(answer.status, 503, "{answer:?}"),
            Err(_) if clock::now_ms() > deadline => return Said::DoneUnheard,
            Err(_) => {}
        }
        clock::sleep_ms(10);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
