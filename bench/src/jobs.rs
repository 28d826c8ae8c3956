//! Jobs as the store sees them.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use bytes::Bytes;
use hence_core::change::{Change, LeaseGrant, Place};
use hence_core::error::Rejection;
use hence_core::id::{Epoch, JobId, JobName, JobNumber, QueueName, ShardId, Token, WorkerName};
use hence_core::job::{
    AttemptEnd, AttemptRecord, Finish, Job, JobSpec, Outcome, Payload, Progress, Target,
};
use hence_core::queue::Counts;
use hence_core::time::Timestamp;
use hence_store::{ShardBatch, Store};
use tokio::runtime::Handle;

/// What a job carries, as in most measurements of the peers.
pub(crate) const PAYLOAD: &[u8] = &[b'x'; 100];

/// A refusal as an error.
pub(crate) fn refused(rejection: Rejection) -> anyhow::Error {
    anyhow!("refused: {rejection}")
}

/// Writes batches to a store, as the library would.
pub(crate) struct Writer {
    store: Arc<dyn Store>,
    epoch: Epoch,
    sequence: u64,
    number: u64,
    counter: u64,
    queue: QueueName,
    worker: WorkerName,
    counts: Counts,
}

impl Writer {
    pub(crate) fn new(store: Arc<dyn Store>) -> Result<Self> {
        let epoch = Handle::current().block_on(store.acquire(ShardId(0), "bench".to_owned()))?;
        let recovered = Handle::current().block_on(store.recover(ShardId(0)))?;
        let queue = QueueName::default_queue();
        let counts = recovered.counts.iter().find(|(name, _)| *name == queue);
        Ok(Writer {
            store,
            epoch,
            sequence: 0,
            number: recovered.next_number.0.max(1),
            counter: 0,
            counts: counts.map(|(_, counts)| *counts).unwrap_or_default(),
            queue,
            worker: WorkerName::new("bench").map_err(refused)?,
        })
    }

    /// A new job of this id for a worker, due at this instant.
    pub(crate) fn job(&mut self, id: &str, due_at: Timestamp) -> Result<Arc<Job>> {
        let number = JobNumber(self.number);
        self.number += 1;
        Ok(Arc::new(job(number, id, due_at, Target::Worker)?))
    }

    /// The fact that a job was accepted, in place of another or not.
    pub(crate) fn put(&mut self, job: &Arc<Job>, replaces: Option<Place>) -> Change {
        if replaces.is_none() {
            self.counts.pending += 1;
        }
        let (job, progress) = (Arc::clone(job), Progress::fresh(job.scheduled_for));
        Change::JobPut { job, progress, replaces, revives: None }
    }

    /// The fact that these were handed out.
    pub(crate) fn leased(&mut self, jobs: &[Arc<Job>]) -> Change {
        let first_token = Token { shard: ShardId(0), epoch: self.epoch, counter: self.counter + 1 };
        self.counter += jobs.len() as u64;
        let grant = |job: &Arc<Job>| LeaseGrant {
            queue: self.queue.clone(),
            place: place(job),
            attempt: 1,
            until: Timestamp::MAX,
        };
        let leases = jobs.iter().map(grant).collect();
        Change::LeasesGranted {
            first_token,
            holder: self.worker.clone(),
            at: jobs[0].scheduled_for,
            leases,
        }
    }

    /// The facts that these succeeded, after [`leased`](Writer::leased).
    pub(crate) fn finished(&mut self, jobs: &[Arc<Job>]) -> Vec<Change> {
        self.counts.pending -= jobs.len() as u64;
        let first = self.counter + 1 - jobs.len() as u64;
        let each = |(index, job): (usize, &Arc<Job>)| {
            let at = job.scheduled_for;
            let counter = first + index as u64;
            let token = Token { shard: ShardId(0), epoch: self.epoch, counter };
            let ended = AttemptRecord {
                attempt: 1,
                token,
                holder: self.worker.clone(),
                started_at: at,
                ended_at: at,
                end: AttemptEnd::Succeeded,
                reason: None,
            };
            let keep_until = at.plus(job.retention);
            Change::JobFinished {
                job: Arc::clone(job),
                progress: Progress { attempts: 1, ..Progress::fresh(at) },
                finish: Box::new(Finish {
                    outcome: Outcome::Succeeded,
                    at,
                    reason: None,
                    result: None,
                    keep_until,
                }),
                ended: Some(Box::new(ended)),
                keep_payload: false,
            }
        };
        jobs.iter().enumerate().map(each).collect()
    }

    /// Makes the facts durable.
    pub(crate) fn commit(&mut self, changes: Vec<Change>) -> Result<()> {
        self.sequence += 1;
        let batch = ShardBatch {
            shard: ShardId(0),
            epoch: self.epoch,
            sequence: self.sequence,
            changes: Arc::new(changes),
            counts: vec![(self.queue.clone(), self.counts)],
            next_number: JobNumber(self.number),
        };
        Handle::current().block_on(self.store.commit(vec![batch]))?;
        Ok(())
    }

    /// Gives the store back.
    pub(crate) fn release(self) -> Result<()> {
        Handle::current().block_on(self.store.release(ShardId(0), self.epoch))?;
        Ok(())
    }

    /// Adds so many jobs, due one after the other from this instant on.
    pub(crate) fn fill(&mut self, count: usize, from: Timestamp, apart_ms: i64) -> Result<()> {
        let mut done = 0;
        while done < count {
            let group = (count - done).min(4_096);
            let mut changes = Vec::with_capacity(group);
            for index in done..done + group {
                let due_at = Timestamp::from_millis(from.as_millis() + index as i64 * apart_ms);
                let id = format!("far-{}", self.number);
                let job = self.job(&id, due_at)?;
                changes.push(self.put(&job, None));
            }
            self.commit(changes)?;
            done += group;
        }
        Ok(())
    }
}

/// A job of the default queue, due at this instant.
pub(crate) fn job(number: JobNumber, id: &str, due_at: Timestamp, target: Target) -> Result<Job> {
    let id = JobId::new(id).map_err(refused)?;
    let name = JobName { queue: QueueName::default_queue(), key: None, id };
    let payload = Payload { bytes: Bytes::from_static(PAYLOAD), content_type: None };
    let spec = JobSpec { payload, ..JobSpec::new(target) };
    Ok(spec.job(number, name, due_at, due_at))
}

/// Where a job stands.
pub(crate) fn place(job: &Job) -> Place {
    Place { due_at: job.scheduled_for, number: job.number }
}

/// The embedded engine on this directory.
pub(crate) fn open(dir: &std::path::Path) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(hence_store_embedded::EmbeddedStore::open(
        dir,
        &hence_store_embedded::Settings::default(),
    )?))
}
