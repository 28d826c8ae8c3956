//! What the tests on a real server have in common: jobs in few words, an owner that commits, and a
//! store of its own for each case.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::executor::block_on;
use hence_core::change::{Change, LeaseGrant, Place};
use hence_core::id::{Epoch, JobId, JobName, JobNumber, QueueName, ShardId, Token, WorkerName};
use hence_core::job::{
    AttemptEnd, AttemptRecord, Finish, Job, JobSpec, Outcome, Payload, Progress, Target,
};
use hence_core::time::{Millis, Timestamp};
use hence_store::{ShardBatch, Store, StoreError};
use hence_store_sql::Slots;
use hence_store_sql::postgres::{self, Options, PostgresStore};
use hence_testkit::Postgres;

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The only shard of most cases.
pub(crate) const SHARD: ShardId = ShardId(0);

/// So many milliseconds after the day the cases play on.
pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_789_000_000_000 + millis)
}

pub(crate) fn queue() -> QueueName {
    QueueName::new("main").expect("a name")
}

pub(crate) fn job(number: u64) -> Arc<Job> {
    let id = JobId::new(&format!("job-{number}")).expect("an id");
    let name = JobName { queue: queue(), key: None, id };
    let bytes = Bytes::copy_from_slice(&number.to_be_bytes());
    let payload = Payload { bytes, content_type: None };
    let spec = JobSpec { payload, ..JobSpec::new(Target::Worker) };
    Arc::new(spec.job(JobNumber(number), name, at(0), at(0)))
}

/// The job is accepted, due then.
pub(crate) fn put(number: u64, due: i64) -> Change {
    let progress = Progress::fresh(at(due));
    Change::JobPut { job: job(number), progress, replaces: None, revives: None }
}

/// The jobs, each due then, are handed out.
pub(crate) fn granted(jobs: impl IntoIterator<Item = (u64, i64)>, token: u64) -> Change {
    let lease = |(number, due)| LeaseGrant {
        queue: queue(),
        place: Place { due_at: at(due), number: JobNumber(number) },
        attempt: 1,
        until: at(30_000),
    };
    Change::LeasesGranted {
        first_token: Token { shard: SHARD, epoch: Epoch(1), counter: token },
        holder: worker(),
        at: at(0),
        leases: jobs.into_iter().map(lease).collect(),
    }
}

/// An attempt failed, and the job waits again.
pub(crate) fn retried(number: u64, from: i64, to: i64, attempt: u32) -> Change {
    let progress = Progress { attempts: attempt, ..Progress::fresh(at(to)) };
    let ended = Some(Box::new(ended(attempt, AttemptEnd::Failed)));
    Change::JobMoved { job: job(number), from: at(from), progress, ended }
}

/// The job, due then, ends and is kept until.
pub(crate) fn finished(number: u64, due: i64, outcome: Outcome, keep_until: i64) -> Change {
    let (reason, result) = (None, None);
    let finish = Finish { outcome, at: at(due), reason, result, keep_until: at(keep_until) };
    Change::JobFinished {
        job: job(number),
        progress: Progress::fresh(at(due)),
        finish: Box::new(finish),
        ended: Some(Box::new(ended(1, AttemptEnd::Succeeded))),
        keep_payload: false,
    }
}

fn ended(attempt: u32, end: AttemptEnd) -> AttemptRecord {
    AttemptRecord {
        attempt,
        token: Token { shard: SHARD, epoch: Epoch(1), counter: 1 },
        holder: worker(),
        started_at: at(0),
        ended_at: at(1),
        end,
        reason: None,
    }
}

fn worker() -> WorkerName {
    WorkerName::new("worker 1").expect("a name")
}

/// Slots of a second, ten ahead, and eras of a second.
pub(crate) fn short_slots() -> Slots {
    let second = Millis::from_secs(1);
    Slots { width: second, ahead: 10, behind: second, era: second }
}

/// A store that is not there yet, on a server that all cases share: none may hurt it.
pub(crate) struct Case {
    server: &'static Postgres,
    schema: String,
    pub(crate) url: String,
}

impl Case {
    pub(crate) fn new() -> Result<Self> {
        static SERVER: Mutex<Option<&'static Postgres>> = Mutex::new(None);
        let mut server = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
        let server = match *server {
            Some(server) => server,
            None => {
                let started = Postgres::start_with(&["fsync = off", "max_connections = 200"])?;
                server.insert(Box::leak(Box::new(started)))
            }
        };
        let schema = fresh_schema();
        let url = format!("{}?schema={schema}", server.url());
        Ok(Case { server, schema, url })
    }

    pub(crate) fn open(&self, slots: Slots) -> Result<PostgresStore> {
        open(&self.url, slots, at(0)).context("open")
    }

    /// The server, whatever the schema.
    pub(crate) fn server_url(&self) -> &str {
        self.url.split('?').next().unwrap_or_default()
    }

    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    /// The text with the schema of the case where `@` stands for it.
    pub(crate) fn text(&self, text: &str) -> String {
        text.replace('@', &format!("{}.", self.schema))
    }

    /// Asks in the schema of the case.
    pub(crate) fn ask(&self, text: &str) -> Result<String> {
        self.server.sql(&self.text(text))
    }

    /// The one number that the server answers.
    pub(crate) fn count(&self, text: &str) -> Result<u64> {
        let answer = self.ask(text)?;
        answer.trim().parse().with_context(|| format!("{text}: {answer:?}"))
    }
}

pub(crate) fn fresh_schema() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("store_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn open(url: &str, slots: Slots, now: Timestamp) -> Result<PostgresStore, StoreError> {
    block_on(postgres::open(url, &Options { slots, ..Options::new(now) }))
}

/// Owns the only shard of a store, and counts its batches.
pub(crate) struct Owner<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) epoch: Epoch,
    pub(crate) sequence: u64,
}

impl<'a> Owner<'a> {
    pub(crate) fn new(store: &'a dyn Store) -> Result<Self> {
        let epoch = block_on(store.acquire(SHARD, "node 1".to_string())).context("acquire")?;
        Ok(Owner { store, epoch, sequence: 0 })
    }

    /// The next batch.
    pub(crate) fn batch(&mut self, changes: Vec<Change>) -> ShardBatch {
        self.sequence += 1;
        let numbers = changes.iter().filter_map(|change| match change {
            Change::JobPut { job, .. } => Some(job.number.0 + 1),
            _ => None,
        });
        ShardBatch {
            shard: SHARD,
            epoch: self.epoch,
            sequence: self.sequence,
            next_number: JobNumber(numbers.max().unwrap_or_default()),
            changes: Arc::new(changes),
            counts: Vec::new(),
        }
    }

    pub(crate) fn commit(&mut self, changes: Vec<Change>) -> Result<()> {
        let batch = self.batch(changes);
        block_on(self.store.commit(vec![batch])).context("commit")
    }
}

/// The numbers of what waits, in order.
pub(crate) fn waiting(store: &dyn Store) -> Result<Vec<u64>> {
    let found = block_on(store.due(SHARD, queue(), Place::FIRST, 1_000_000)).context("due")?;
    Ok(found.iter().map(|live| live.job.number.0).collect())
}
