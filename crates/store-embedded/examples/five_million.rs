//! The engine with millions of pending jobs: how fast it fills, opens and works, and what it costs.
//!
//! `cargo run --release -p hence-store-embedded --example five_million [directory] [jobs]`
#![expect(clippy::print_stdout, reason = "an example's output is its purpose")]
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::FutureExt;
use hence_core::change::{Change, LeaseGrant, Place};
use hence_core::id::{Epoch, JobId, JobName, JobNumber, QueueName, ShardId, Token, WorkerName};
use hence_core::job::{Finish, Job, JobSpec, Outcome, Payload, Progress, Target};
use hence_core::time::Timestamp;
use hence_store::{Answer, ShardBatch, Store, StoreError};
use hence_store_embedded::{EmbeddedStore, Settings};

const SHARD: ShardId = ShardId(0);
const DAY_MS: u64 = 86_400_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let root = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let jobs: u64 = arguments.next().map_or(Ok(5_000_000), |text| text.parse())?;
    let dir = root.join(format!("five-million-{}", std::process::id()));
    fill(&dir, jobs)?;
    let start = Instant::now();
    let store = EmbeddedStore::open(&dir, &Settings::default())?;
    println!("open with {jobs} pending: {:.2?}, {}", start.elapsed(), memory()?);
    println!("{:?}", store.kv().stats());
    let mut owner = Owner::new(&store, jobs)?;
    read(&store, jobs)?;
    for per_sync in [1, 16, 256, 4096] {
        let rate = owner.insert(per_sync, (per_sync * 2_000).min(400_000))?;
        println!("insert, {per_sync:>4} a sync: {rate:>9.0} jobs/s");
    }
    for per_sync in [16, 256, 4096] {
        let rate = owner.cycle(per_sync, (per_sync * 1_000).min(400_000))?;
        println!("insert, lease, finish, {per_sync:>4} a sync: {rate:>9.0} jobs/s");
    }
    println!("{:?}", store.kv().stats());
    println!("at the end: {}", memory()?);
    drop(store);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

fn fill(dir: &Path, jobs: u64) -> Result<(), Box<dyn Error>> {
    let store = EmbeddedStore::open(dir, &Settings::default())?;
    let mut owner = Owner::new(&store, 0)?;
    let start = Instant::now();
    owner.insert(4096, jobs)?;
    println!("fill with {jobs}: {:.1?}, {}", start.elapsed(), memory()?);
    store.kv().flush()?;
    println!("on disk: {} bytes a job", store.kv().stats().table_bytes / jobs);
    Ok(())
}

fn read(store: &EmbeddedStore, jobs: u64) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let first = now(store.due(SHARD, queue(), Place::FIRST, 1))?;
    println!("first due: {:.2?}", start.elapsed());
    let start = Instant::now();
    let page = now(store.due(SHARD, queue(), Place::FIRST, 100_000))?;
    let rate = page.len() as f64 / start.elapsed().as_secs_f64();
    println!("due, {} jobs: {rate:.0} jobs/s", page.len());
    assert_eq!(first[0].job.number, page[0].job.number);
    for (what, shift) in [("present", 0), ("absent", jobs)] {
        let names = (0..20_000).map(|n| name(scatter(n) % jobs + 1 + shift)).collect();
        let start = Instant::now();
        let found = now(store.get(SHARD, names, Timestamp::EPOCH))?;
        let each = start.elapsed().as_secs_f64() * 1e6 / found.len() as f64;
        println!("look up a name that is {what}: {each:.2} µs");
    }
    Ok(())
}

struct Owner<'a> {
    store: &'a EmbeddedStore,
    epoch: Epoch,
    sequence: u64,
    number: u64,
}

impl<'a> Owner<'a> {
    fn new(store: &'a EmbeddedStore, number: u64) -> Result<Self, StoreError> {
        let epoch = now(store.acquire(SHARD, "here".to_owned()))?;
        Ok(Owner { store, epoch, sequence: 0, number })
    }

    /// Jobs per second.
    fn insert(&mut self, per_sync: u64, count: u64) -> Result<f64, StoreError> {
        let start = Instant::now();
        let mut done = 0;
        while done < count {
            let changes = (0..per_sync).map(|_| self.next()).map(put).collect();
            self.commit(changes)?;
            done += per_sync;
        }
        Ok(done as f64 / start.elapsed().as_secs_f64())
    }

    /// Jobs per second through a whole life of three commits.
    fn cycle(&mut self, per_sync: u64, count: u64) -> Result<f64, StoreError> {
        let start = Instant::now();
        let mut done = 0;
        while done < count {
            let jobs: Vec<Arc<Job>> = (0..per_sync).map(|_| Arc::new(self.next())).collect();
            self.commit(jobs.iter().map(put_shared).collect())?;
            self.commit(vec![leased(&jobs, self.sequence * 10_000)])?;
            self.commit(jobs.iter().map(finished).collect())?;
            done += per_sync;
        }
        Ok(done as f64 / start.elapsed().as_secs_f64())
    }

    fn next(&mut self) -> Job {
        self.number += 1;
        job(self.number)
    }

    fn commit(&mut self, changes: Vec<Change>) -> Result<(), StoreError> {
        self.sequence += 1;
        now(self.store.commit(vec![ShardBatch {
            shard: SHARD,
            epoch: self.epoch,
            sequence: self.sequence,
            changes: Arc::new(changes),
            counts: Vec::new(),
            next_number: JobNumber(self.number + 1),
        }]))
    }
}

fn job(number: u64) -> Job {
    let due = (scatter(number) % DAY_MS) as i64;
    let due_at = Timestamp::from_millis(1_800_000_000_000 + due);
    let payload = Payload { bytes: Bytes::from_static(&[7; 100]), content_type: None };
    let spec = JobSpec { payload, ..JobSpec::new(Target::Worker) };
    spec.job(JobNumber(number), name(number), Timestamp::EPOCH, due_at)
}

fn name(number: u64) -> JobName {
    let id = JobId::new(&format!("invoice-{:016x}", scatter(number))).expect("a good id");
    JobName { queue: queue(), key: None, id }
}

fn queue() -> QueueName {
    QueueName::default_queue()
}

fn put(job: Job) -> Change {
    put_shared(&Arc::new(job))
}

fn put_shared(job: &Arc<Job>) -> Change {
    let progress = Progress::fresh(job.scheduled_for);
    Change::JobPut { job: Arc::clone(job), progress, replaces: None, revives: None }
}

fn leased(jobs: &[Arc<Job>], first: u64) -> Change {
    let grant = |job: &Arc<Job>| LeaseGrant {
        queue: queue(),
        place: Place { due_at: job.scheduled_for, number: job.number },
        attempt: 1,
        until: Timestamp::from_millis(1_900_000_000_000),
    };
    Change::LeasesGranted {
        first_token: Token { shard: SHARD, epoch: Epoch(1), counter: first },
        holder: WorkerName::new("worker").expect("a good name"),
        at: Timestamp::EPOCH,
        leases: jobs.iter().map(grant).collect(),
    }
}

fn finished(job: &Arc<Job>) -> Change {
    let finish = Finish {
        outcome: Outcome::Succeeded,
        at: Timestamp::from_millis(1_800_000_000_000),
        reason: None,
        result: None,
        keep_until: Timestamp::from_millis(1_800_003_600_000),
    };
    let (job, progress) = (Arc::clone(job), Progress::fresh(job.scheduled_for));
    let finish = Box::new(finish);
    Change::JobFinished { job, progress, finish, ended: None, keep_payload: false }
}

/// Nothing in the engine waits for anything but the disk.
fn now<T>(answer: Answer<'_, T>) -> Result<T, StoreError> {
    answer.now_or_never().expect("the engine answers at once")
}

/// Resident memory now and at its highest.
fn memory() -> Result<String, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let kilobytes = line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default();
        kilobytes / 1024
    };
    Ok(format!("{} MiB resident, {} MiB at most", field("VmRSS:"), field("VmHWM:")))
}

fn scatter(number: u64) -> u64 {
    let mut word = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word ^ (word >> 31)
}
