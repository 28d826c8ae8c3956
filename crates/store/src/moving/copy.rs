//! What is there, put into the new store, and read back.

use std::sync::Arc;

use hence_core::id::{JobName, JobNumber, ScheduleId, ShardId};
use hence_core::job::{AttemptRecord, Job, JobState, Progress};
use hence_core::ledger::OccurrenceRecord;
use hence_core::time::Timestamp;

use super::{Found, Moved, Moving, ShardMove};
use crate::{
    Change, Cursor, ErrorKind, Filter, LeaseGrant, LedgerOrder, LedgerRequest, ListRequest, Place,
    Store, StoreError, StoredJob,
};

impl Moving {
    /// Settings, and what runs or holds its key: facts about these name no more than a place, so
    /// they come first. Says which schedules there are.
    pub(super) async fn copy_active(
        &self,
        shard: &mut ShardMove,
        moved: &mut Moved,
    ) -> Result<Vec<ScheduleId>, StoreError> {
        let recovered = self.from.recover(shard.id).await?;
        shard.next_number = recovered.next_number;
        let queues = recovered.queues.into_iter();
        let settings = queues.map(|(name, settings)| Change::QueuePut { name, settings });
        let mut batch = shard.batch(settings.collect());
        batch.counts = recovered.counts;
        self.put(batch).await?;
        let active = recovered.active.into_iter().map(StoredJob::Live).collect();
        self.copy_jobs(shard, moved, active).await?;
        let ids = recovered.schedules.into_iter().map(|state| state.schedule.id.clone());
        Ok(ids.filter(|id| !shard.schedules.contains(id)).collect())
    }

    /// Schedules and their ledgers.
    pub(super) async fn copy_schedules(
        &self,
        shard: &mut ShardMove,
        moved: &mut Moved,
        ids: &[ScheduleId],
    ) -> Result<(), StoreError> {
        let recovered = self.from.recover(shard.id).await?;
        for state in recovered.schedules.into_iter().filter(|it| ids.contains(&it.schedule.id)) {
            let id = state.schedule.id.clone();
            self.put(shard.batch(vec![Change::SchedulePut { state: Box::new(state) }])).await?;
            self.copy_ledger(shard, moved, &id).await?;
            shard.schedules.insert(id);
            moved.schedules += 1;
        }
        // Those that were removed meanwhile need nothing more.
        shard.schedules.extend(ids.iter().cloned());
        Ok(())
    }

    async fn copy_ledger(
        &self,
        shard: &mut ShardMove,
        moved: &mut Moved,
        id: &ScheduleId,
    ) -> Result<(), StoreError> {
        let order = LedgerOrder::Oldest;
        let mut request = LedgerRequest { order, ..LedgerRequest::newest(id.clone(), self.page) };
        loop {
            let records = self.from.occurrences(shard.id, request.clone()).await?;
            let whole = records.len() < self.page;
            request.after = records.last().map(OccurrenceRecord::place);
            moved.occurrences += records.len() as u64;
            let recorded = records.into_iter().map(|record| Change::OccurrenceRecorded { record });
            self.put(shard.batch(recorded.collect())).await?;
            if whole {
                return Ok(());
            }
        }
    }

    /// The jobs after a place, live ones first. None: that was all.
    pub(super) async fn copy_page(
        &self,
        shard: &mut ShardMove,
        moved: &mut Moved,
        after: Option<Cursor>,
        now: Timestamp,
    ) -> Result<Option<Cursor>, StoreError> {
        let page = self.from.list(shard.id, everything(after, now, self.page)).await?;
        self.copy_jobs(shard, moved, page.jobs).await?;
        Ok(page.next)
    }

    /// Brings these jobs in step, and proves it.
    pub(super) async fn copy_jobs(
        &self,
        shard: &mut ShardMove,
        moved: &mut Moved,
        mut jobs: Vec<StoredJob>,
    ) -> Result<(), StoreError> {
        jobs.retain(|job| !shard.jobs.contains(&number(job)));
        // A batch may speak of a job twice, by its place and by its name.
        jobs.sort_by_key(number);
        jobs.dedup_by_key(|job| number(job));
        if jobs.is_empty() {
            return Ok(());
        }
        let mut changes = Vec::new();
        for job in &jobs {
            let attempts = attempts(&*self.from, shard.id, job).await?;
            facts_of(job, attempts, &mut changes);
        }
        let batch = shard.batch(changes);
        self.put(batch).await?;
        self.read_back(shard, &jobs).await?;
        moved.jobs += jobs.len() as u64;
        shard.jobs.extend(jobs.iter().map(number));
        Ok(())
    }

    /// What the new store says of these is what the old one said.
    async fn read_back(&self, shard: &ShardMove, jobs: &[StoredJob]) -> Result<(), StoreError> {
        let names = jobs.iter().map(|stored| stored.job().name.clone()).collect();
        let found = self.to.get(shard.id, names, Timestamp::MIN).await?;
        for (job, found) in jobs.iter().zip(found) {
            if found.as_ref() != Some(job) {
                let name = &job.job().name;
                let message = format!("the new store does not give {name} back as it was put");
                return Err(StoreError::new(ErrorKind::Corrupt, message));
            }
        }
        Ok(())
    }

    /// What the old store has under these names, finished jobs included.
    pub(super) async fn look_up(
        &self,
        shard: &ShardMove,
        names: Vec<JobName>,
    ) -> Result<Found, StoreError> {
        let found = self.from.get(shard.id, names.clone(), Timestamp::MIN).await?;
        let found = names.into_iter().zip(found);
        Ok(found.filter_map(|(name, job)| Some((name, job?))).collect())
    }
}

/// A page of all jobs there are.
pub(super) fn everything(after: Option<Cursor>, now: Timestamp, limit: usize) -> ListRequest {
    let filter = Filter { states: JobState::ALL.to_vec(), ..Filter::default() };
    ListRequest { filter, after, limit, now }
}

pub(super) async fn attempts(
    store: &dyn Store,
    shard: ShardId,
    stored: &StoredJob,
) -> Result<Vec<AttemptRecord>, StoreError> {
    let job = stored.job();
    store.attempts(shard, job.name.clone(), job.number).await
}

pub(super) fn number(stored: &StoredJob) -> JobNumber {
    stored.job().number
}

/// The facts that make the job what it is, in the order in which they happened.
fn facts_of(stored: &StoredJob, mut attempts: Vec<AttemptRecord>, changes: &mut Vec<Change>) {
    let job = stored.job();
    let progress = *match stored {
        StoredJob::Live(live) => &live.progress,
        StoredJob::Finished(finished) => &finished.progress,
    };
    let put = Change::JobPut { job: Arc::clone(job), progress, replaces: None, revives: None };
    changes.push(put);
    let finish = match stored {
        StoredJob::Live(_) => None,
        StoredJob::Finished(finished) => Some(&finished.finish),
    };
    let last = finish.and_then(|_| attempts.pop());
    changes.extend(attempts.into_iter().map(|ended| moved(job, progress, ended)));
    match stored {
        StoredJob::Live(live) => changes.extend(live.lease.as_ref().map(|lease| {
            let place = Place { due_at: progress.due_at, number: job.number };
            let queue = job.name.queue.clone();
            let grant = LeaseGrant { queue, place, attempt: lease.attempt, until: lease.until };
            Change::LeasesGranted {
                first_token: lease.token,
                holder: lease.holder.clone(),
                at: lease.granted_at,
                leases: vec![grant],
            }
        })),
        StoredJob::Finished(finished) => changes.push(Change::JobFinished {
            job: Arc::clone(job),
            progress,
            finish: Box::new(finished.finish.clone()),
            ended: last.map(Box::new),
            keep_payload: true,
        }),
    }
}

fn moved(job: &Arc<Job>, progress: Progress, ended: AttemptRecord) -> Change {
    let (from, ended) = (progress.due_at, Some(Box::new(ended)));
    Change::JobMoved { job: Arc::clone(job), from, progress, ended }
}
