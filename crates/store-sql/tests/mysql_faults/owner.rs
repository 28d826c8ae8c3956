//! Whoever owns the shard of a test: commits, and repeats what has no answer, as the library does.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hence_core::change::{Change, LeaseGrant, Place};
use hence_core::id::{Epoch, JobId, JobName, JobNumber, QueueName, ShardId, Token, WorkerName};
use hence_core::job::{Finish, Job, JobSpec, Outcome, Payload, Progress, Target};
use hence_core::time::{Millis, Timestamp};
use hence_store::{ErrorKind, ShardBatch, Store, StoreError};
use hence_store_sql::mysql::{self, MySqlStore};
use hence_store_sql::{Options, Slots};
use hence_testkit::until;
use tokio::runtime::Runtime;

/// When everything happens.
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_789_000_000_000);

/// How long an answer is waited for, repetitions included.
const PATIENCE: Duration = Duration::from_mins(2);

const SHARD: ShardId = ShardId(0);

/// A store, its only shard, and the batches so far.
pub(crate) struct Owner {
    pub(crate) store: Arc<MySqlStore>,
    runtime: Runtime,
    epoch: Epoch,
    sequence: u64,
    number: u64,
}

/// Opens the store at this address.
pub(crate) fn open(url: &str) -> Result<MySqlStore, StoreError> {
    open_with(url, Slots { ahead: 1, ..Slots::default() })
}

fn open_with(url: &str, slots: Slots) -> Result<MySqlStore, StoreError> {
    let options = Options { slots, ..Options::new(NOW) };
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(mysql::open(url, &options))
}

impl Owner {
    /// Opens the store and takes its shard.
    pub(crate) fn of(url: &str) -> Result<Self> {
        Owner::with(url, Slots { ahead: 1, ..Slots::default() })
    }

    /// The same, with time cut like this.
    pub(crate) fn with(url: &str, slots: Slots) -> Result<Self> {
        Ok(Owner::over(open_with(url, slots)?)?)
    }

    /// Takes the shard of a store that is open.
    pub(crate) fn over(store: MySqlStore) -> Result<Self, StoreError> {
        let (store, runtime) = (Arc::new(store), Runtime::new().expect("a runtime"));
        let epoch = runtime.block_on(store.acquire(SHARD, "a test".to_owned()))?;
        Ok(Owner { store, runtime, epoch, sequence: 0, number: 0 })
    }

    /// So many jobs are there already.
    pub(crate) fn skip(&mut self, jobs: u64) {
        self.number += jobs;
    }

    /// The next batch: so many new jobs, each with a payload of this size.
    pub(crate) fn batch(&mut self, jobs: u64, payload: usize) -> ShardBatch {
        let put = |number: u64| {
            let job = Arc::new(job(number, payload));
            let progress = Progress::fresh(job.scheduled_for);
            Change::JobPut { job, progress, replaces: None, revives: None }
        };
        let changes = (self.number..self.number + jobs).map(put).collect();
        self.number += jobs;
        self.next(changes)
    }

    /// The next batch: somebody runs these jobs.
    pub(crate) fn granted(&mut self, numbers: Range<u64>) -> ShardBatch {
        let counter = numbers.start + 1;
        let lease = |number| LeaseGrant {
            queue: QueueName::default_queue(),
            place: place(number),
            attempt: 1,
            until: NOW.plus(Millis::from_secs(30)),
        };
        self.next(vec![Change::LeasesGranted {
            first_token: Token { shard: SHARD, epoch: self.epoch, counter },
            holder: WorkerName::new("somebody").expect("a good name"),
            at: NOW,
            leases: numbers.map(lease).collect(),
        }])
    }

    /// The next batch: these jobs have succeeded, and are kept for so many seconds.
    pub(crate) fn succeeded(&mut self, numbers: Range<u64>, seconds: u64) -> ShardBatch {
        let finish = Finish {
            outcome: Outcome::Succeeded,
            at: NOW,
            reason: None,
            result: None,
            keep_until: NOW.plus(Millis::from_secs(seconds)),
        };
        let done = |number| Change::JobFinished {
            job: Arc::new(job(number, 0)),
            progress: Progress::fresh(place(number).due_at),
            finish: Box::new(finish.clone()),
            ended: None,
            keep_payload: false,
        };
        self.next(numbers.map(done).collect())
    }

    fn next(&mut self, changes: Vec<Change>) -> ShardBatch {
        self.sequence += 1;
        ShardBatch {
            shard: SHARD,
            epoch: self.epoch,
            sequence: self.sequence,
            changes: Arc::new(changes),
            counts: Vec::new(),
            next_number: JobNumber(self.number),
        }
    }

    /// Commits once.
    pub(crate) fn try_commit(&self, batch: &ShardBatch) -> Result<(), StoreError> {
        self.runtime.block_on(self.store.commit(vec![batch.clone()]))
    }

    /// Commits, again and again while the outcome is unknown. Says how often it was.
    pub(crate) fn commit(&self, batch: &ShardBatch) -> Result<u32> {
        let mut unknown = 0;
        let answer = until(PATIENCE, || match self.try_commit(batch) {
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                unknown += 1;
                None
            }
            answer => Some(answer),
        });
        answer.with_context(|| format!("no answer within {PATIENCE:?}"))??;
        Ok(unknown)
    }

    /// The numbers of all jobs that are due, in order.
    pub(crate) fn numbers(&self) -> Result<Vec<u64>, StoreError> {
        let due = self.store.due(SHARD, QueueName::default_queue(), Place::FIRST, 1_000_000);
        Ok(self.runtime.block_on(due)?.iter().map(|live| live.job.number.0).collect())
    }

    /// Whether a job with the name of this one is found.
    pub(crate) fn is_there(&self, number: u64) -> Result<bool, StoreError> {
        let found = self.store.get(SHARD, vec![job(number, 0).name], NOW);
        Ok(self.runtime.block_on(found)?.iter().any(Option::is_some))
    }

    /// Brings the tables up to so many seconds later.
    pub(crate) fn keep_up(&self, seconds: u64) -> Result<(), StoreError> {
        let now = NOW.plus(Millis::from_secs(seconds));
        self.runtime.block_on(self.store.keep_up(SHARD, now))
    }

    /// The numbers of jobs that a new owner would find running.
    pub(crate) fn running(&self) -> Result<Vec<u64>, StoreError> {
        let recovered = self.runtime.block_on(self.store.recover(SHARD))?;
        Ok(recovered.active.iter().map(|live| live.job.number.0).collect())
    }

    /// All jobs that were put are there once each, in order.
    pub(crate) fn check(&self) -> Result<()> {
        let expected: Vec<u64> = (0..self.number).collect();
        let found = self.numbers().context("reading what is due")?;
        ensure!(found == expected, "{} jobs were put, {} are there", expected.len(), found.len());
        Ok(())
    }
}

fn place(number: u64) -> Place {
    Place { due_at: NOW.plus(Millis::new(number)), number: JobNumber(number) }
}

fn job(number: u64, payload: usize) -> Job {
    let id = JobId::new(&format!("job-{number}")).expect("a good name");
    let name = JobName { queue: QueueName::default_queue(), key: None, id };
    let payload = Payload { bytes: Bytes::from(vec![7; payload]), content_type: None };
    let spec = JobSpec { payload, ..JobSpec::new(Target::Worker) };
    spec.job(JobNumber(number), name, NOW, NOW.plus(Millis::new(number)))
}
