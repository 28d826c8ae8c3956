//! What a case works with: an open store, a hand that commits to it, and eyes that read it back.

use std::collections::BTreeMap;
use std::sync::Arc;

use hence_core::id::{Epoch, JobName, JobNumber, QueueName, ScheduleId, ShardId};
use hence_core::job::{AttemptRecord, Job, JobState};
use hence_core::queue::Counts;
use hence_core::schedule::OccurrenceRecord;
use hence_core::time::Timestamp;

use super::Harness;
use crate::{
    Capabilities, Change, Cursor, ErrorKind, Filter, LedgerRequest, ListRequest, LiveJob, Page,
    Place, Recovered, ShardBatch, Store, StoreError, StoredJob,
};

/// The shard of cases that need one only.
pub(super) const SHARD: ShardId = ShardId(0);
/// Another one, for engines that have two.
pub(super) const OTHER: ShardId = ShardId(1);

/// More rows than any case makes: a cursor that goes nowhere must end in an answer.
pub(super) const ROWS_MAX: usize = 20_000;

/// An open store and the ownership of its shards.
pub struct Fixture {
    harness: Arc<dyn Harness>,
    capabilities: Capabilities,
    store: Option<Arc<dyn Store>>,
    owners: BTreeMap<ShardId, Owner>,
}

/// What the owner of a shard counts.
#[derive(Clone, Copy, Default)]
struct Owner {
    epoch: Epoch,
    sequence: u64,
    next_number: JobNumber,
}

/// Everything that can be read from a shard, to be compared with what can be read another time.
#[derive(Clone, PartialEq, Debug)]
pub struct Snapshot {
    recovered: Recovered,
    due: Vec<(QueueName, Vec<LiveJob>)>,
    jobs: Vec<StoredJob>,
    found: Vec<Option<StoredJob>>,
    attempts: Vec<Vec<AttemptRecord>>,
    occurrences: Vec<Vec<OccurrenceRecord>>,
}

impl Snapshot {
    /// Which part is not the same, if one is: a whole snapshot is too long to be read.
    pub(super) fn differs_from(&self, other: &Snapshot) -> Option<String> {
        let parts = [
            ("what a new owner must know", self.recovered == other.recovered),
            ("what waits", self.due == other.due),
            ("the list of jobs", self.jobs == other.jobs),
            ("jobs by name", self.found == other.found),
            ("attempts", self.attempts == other.attempts),
            ("ledgers", self.occurrences == other.occurrences),
        ];
        let different: Vec<&str> =
            parts.into_iter().filter(|(_, same)| !same).map(|(part, _)| part).collect();
        (!different.is_empty()).then(|| different.join(", "))
    }
}

impl Fixture {
    /// Opens the store of a harness.
    pub async fn open(harness: Arc<dyn Harness>) -> Self {
        let store = harness.open().await.expect("the store opens");
        let mut capabilities = store.capabilities();
        capabilities.persistent = harness.keeps(&capabilities);
        // Nothing is written before the answer is polled.
        capabilities.inbox &= harness.write_letter("").is_some();
        Fixture { harness, capabilities, store: Some(store), owners: BTreeMap::new() }
    }

    /// What the engine and its harness offer.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The store, to be shared with other threads.
    pub(super) fn store(&self) -> Arc<dyn Store> {
        Arc::clone(self.store.as_ref().expect("the store is open"))
    }

    pub(super) fn harness(&self) -> Arc<dyn Harness> {
        Arc::clone(&self.harness)
    }

    /// Ends the process, as far as the store can tell, and starts it again.
    pub(super) async fn reopen(&mut self) {
        self.store = None;
        self.owners.clear();
        self.store = Some(self.harness.open().await.expect("the store opens again"));
    }

    /// Takes a shard over, as a new process would.
    pub(super) async fn acquire(&mut self, shard: ShardId) -> Epoch {
        let store = self.store();
        let epoch = store.acquire(shard, "node 1".to_string()).await.expect("acquired");
        let next_number = store.recover(shard).await.expect("recovered").next_number;
        self.owners.insert(shard, Owner { epoch, sequence: 0, next_number });
        epoch
    }

    /// The next batch of a shard, which is taken over first when it is not owned.
    pub(super) async fn batch(&mut self, shard: ShardId, changes: Vec<Change>) -> ShardBatch {
        if !self.owners.contains_key(&shard) {
            self.acquire(shard).await;
        }
        let owner = self.owners.entry(shard).or_default();
        owner.sequence += 1;
        let numbers = changes.iter().filter_map(|change| match change {
            Change::JobPut { job, .. } => Some(JobNumber(job.number.0 + 1)),
            _ => None,
        });
        owner.next_number = numbers.fold(owner.next_number, JobNumber::max);
        let Owner { epoch, sequence, next_number } = *owner;
        let changes = Arc::new(changes);
        ShardBatch { shard, epoch, sequence, changes, counts: Vec::new(), next_number }
    }

    /// Commits to the first shard.
    pub(super) async fn commit(&mut self, changes: Vec<Change>) {
        self.commit_to(SHARD, changes).await;
    }

    pub(super) async fn commit_to(&mut self, shard: ShardId, changes: Vec<Change>) {
        let batch = self.batch(shard, changes).await;
        self.send(vec![batch]).await.expect("committed");
    }

    pub(super) async fn commit_counts(&mut self, counts: Vec<(QueueName, Counts)>) {
        let batch = self.batch(SHARD, Vec::new()).await;
        self.send(vec![ShardBatch { counts, ..batch }]).await.expect("committed");
    }

    /// Commits these very batches.
    pub(super) async fn send(&self, batches: Vec<ShardBatch>) -> Result<(), StoreError> {
        self.store().commit(batches).await
    }

    /// These batches are refused for this reason.
    pub(super) async fn refused(&self, batches: Vec<ShardBatch>, kind: ErrorKind) {
        let answer = self.send(batches).await;
        assert_eq!(answer.map_err(|error| error.kind()), Err(kind), "the commit's answer");
    }

    pub(super) async fn get(&self, name: &JobName, now: Timestamp) -> Option<StoredJob> {
        let found = self.store().get(SHARD, vec![name.clone()], now).await.expect("got");
        assert_eq!(found.len(), 1, "one name, one answer");
        found.into_iter().next().flatten()
    }

    /// The live job of this name, which must be there.
    pub(super) async fn live(&self, job: &Job) -> LiveJob {
        match self.get(&job.name, super::build::later()).await {
            Some(StoredJob::Live(live)) => live,
            other => panic!("{} is not live but {other:?}", job.name),
        }
    }

    /// Whether a job of this name is there, live or finished.
    pub(super) async fn has(&self, job: &Job) -> bool {
        self.get(&job.name, super::build::later()).await.is_some()
    }

    /// The numbers of what waits in a queue, in order.
    pub(super) async fn due(&self, queue: &QueueName) -> Vec<u64> {
        let waiting = self.due_after(queue, Place::FIRST, 100_000).await;
        waiting.iter().map(|live| live.job.number.0).collect()
    }

    pub(super) async fn due_after(
        &self,
        queue: &QueueName,
        after: Place,
        limit: usize,
    ) -> Vec<LiveJob> {
        self.store().due(SHARD, queue.clone(), after, limit).await.expect("due")
    }

    pub(super) async fn recover(&self) -> Recovered {
        self.store().recover(SHARD).await.expect("recovered")
    }

    /// One page.
    pub(super) async fn page(
        &self,
        filter: &Filter,
        after: Option<Cursor>,
        limit: usize,
        now: Timestamp,
    ) -> Page {
        let request = ListRequest { filter: filter.clone(), after, limit, now };
        self.store().list(SHARD, request).await.expect("listed")
    }

    /// All rows, by pages of `limit`.
    pub(super) async fn rows(
        &self,
        filter: &Filter,
        limit: usize,
        now: Timestamp,
    ) -> Vec<StoredJob> {
        let (mut rows, mut after) = (Vec::new(), None);
        loop {
            let page = self.page(filter, after.clone(), limit, now).await;
            assert!(page.jobs.len() <= limit, "a page of {} where {limit} fit", page.jobs.len());
            assert!(page.next.is_none() || page.next > after, "a page goes nowhere");
            rows.extend(page.jobs);
            assert!(rows.len() <= ROWS_MAX, "pages without end");
            after = page.next;
            if after.is_none() {
                return rows;
            }
        }
    }

    /// The numbers of all rows.
    pub(super) async fn listed(&self, filter: &Filter, now: Timestamp) -> Vec<u64> {
        self.rows(filter, 1_000, now).await.iter().map(number_of).collect()
    }

    pub(super) async fn attempts(&self, job: &Job) -> Vec<AttemptRecord> {
        self.store().attempts(SHARD, job.name.clone(), job.number).await.expect("attempts")
    }

    pub(super) async fn occurrences(
        &self,
        id: &ScheduleId,
        before: Timestamp,
        limit: usize,
    ) -> Vec<OccurrenceRecord> {
        let request = LedgerRequest { until: before, ..LedgerRequest::newest(id.clone(), limit) };
        self.ledger(request).await
    }

    pub(super) async fn ledger(&self, request: LedgerRequest) -> Vec<OccurrenceRecord> {
        self.store().occurrences(SHARD, request).await.expect("occurrences")
    }

    /// Dead jobs swept, by queue.
    pub(super) async fn sweep(&self, now: Timestamp, limit: usize) -> BTreeMap<QueueName, u64> {
        let swept = self.store().sweep(SHARD, now, limit).await.expect("swept");
        let mut dead = BTreeMap::new();
        for (queue, count) in swept {
            *dead.entry(queue).or_default() += count;
        }
        dead
    }

    /// Everything that can be read from the first shard at `now`.
    pub(super) async fn snapshot(&self, now: Timestamp) -> Snapshot {
        snapshot(&*self.store(), SHARD, now).await
    }
}

/// Any state, live or final.
pub(super) fn all_states() -> Filter {
    Filter { states: JobState::ALL.to_vec(), ..Filter::default() }
}

pub(super) fn number_of(stored: &StoredJob) -> u64 {
    stored.job().number.0
}

/// Everything that can be read from a shard at `now`.
pub(super) async fn snapshot(store: &dyn Store, shard: ShardId, now: Timestamp) -> Snapshot {
    let recovered = store.recover(shard).await.expect("recovered").sorted();
    let request = ListRequest { filter: all_states(), after: None, limit: 100_000, now };
    let jobs = store.list(shard, request).await.expect("listed").jobs;
    let names: Vec<JobName> = jobs.iter().map(|job| job.job().name.clone()).collect();
    let mut queues: Vec<QueueName> = names.iter().map(|name| name.queue.clone()).collect();
    queues.sort();
    queues.dedup();
    let mut due = Vec::new();
    for queue in queues {
        let waiting = store.due(shard, queue.clone(), Place::FIRST, 100_000).await.expect("due");
        due.push((queue, waiting));
    }
    let mut attempts = Vec::new();
    for job in &jobs {
        let job = job.job();
        let of_this = store.attempts(shard, job.name.clone(), job.number).await;
        attempts.push(of_this.expect("attempts"));
    }
    let mut occurrences = Vec::new();
    for state in &recovered.schedules {
        let id = state.schedule.id.clone();
        let all = store.occurrences(shard, LedgerRequest::newest(id, 100_000)).await;
        occurrences.push(all.expect("occurrences"));
    }
    let found = store.get(shard, names, now).await.expect("got");
    Snapshot { recovered, due, jobs, found, attempts, occurrences }
}
