//! The reference engine: every promise in the plainest code there is. It keeps sorted maps behind
//! one lock, looks at everything, and is what other engines are compared with.
//!
//! A change that speaks of a live job that is not there is a defect of whoever made it, and is
//! asserted; an engine that writes without reading may not notice. A finished job that is not there
//! is none: it may just have been swept.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::FutureExt;
use futures::channel::oneshot;
use hence_core::id::{
    Epoch, JobName, JobNumber, LetterId, QueueName, ScheduleId, ShardId, Token, WorkerName,
};
use hence_core::job::{AttemptRecord, Finish, Job, Lease, Outcome, Payload, Progress};
use hence_core::queue::{Counts, QueueSettings};
use hence_core::schedule::{OccurrenceRecord, ScheduleState};
use hence_core::time::Timestamp;

use crate::{
    Answer, Capabilities, Change, Cursor, ErrorKind, Filter, FinishedJob, FinishedPlace,
    LeaseGrant, LedgerOrder, LedgerPlace, LedgerRequest, Letter, ListRequest, LiveJob, Page, Place,
    Pressure, Recovered, ShardBatch, Store, StoreError, StoredJob, Tier,
};

/// A store in memory. Clones share what it holds, so that a test can drop one handle, as a dying
/// process would, and go on with another.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    shards: Arc<Mutex<Vec<Shard>>>,
    inbox: Arc<Mutex<Inbox>>,
}

/// What others wrote.
#[derive(Default, Debug)]
struct Inbox {
    last: LetterId,
    letters: BTreeMap<LetterId, Letter>,
    /// Letters that nothing came of, and why.
    refused: Vec<(Letter, Arc<str>)>,
    /// Whoever waits for the next one.
    waiting: Vec<oneshot::Sender<()>>,
}

/// All that is known of one shard.
#[derive(Default, Debug)]
struct Shard {
    epoch: Epoch,
    owner: Option<String>,
    sequence: u64,
    next_number: JobNumber,
    live: BTreeMap<(QueueName, Place), LiveJob>,
    finished: BTreeMap<FinishedKey, FinishedJob>,
    names: BTreeMap<JobName, Spot>,
    attempts: BTreeMap<JobNumber, Vec<AttemptRecord>>,
    counts: BTreeMap<QueueName, Counts>,
    queues: BTreeMap<QueueName, QueueSettings>,
    schedules: BTreeMap<ScheduleId, ScheduleState>,
    occurrences: BTreeMap<(ScheduleId, LedgerPlace), OccurrenceRecord>,
}

type FinishedKey = (Timestamp, JobNumber);

/// Where the job of a name is.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Spot {
    Live(Place),
    Finished(FinishedKey),
}

impl MemoryStore {
    /// An empty store of so many shards.
    pub fn new(shards: u16) -> Self {
        let shards = (0..shards).map(|_| Shard::default()).collect();
        MemoryStore { shards: Arc::new(Mutex::new(shards)), inbox: Arc::default() }
    }

    /// Writes a letter, as others do in a transaction of their own.
    pub fn write_letter(&self, at: Timestamp, body: impl Into<Bytes>) -> LetterId {
        let mut inbox = self.inbox();
        let id = LetterId(inbox.last.0 + 1);
        inbox.last = id;
        inbox.letters.insert(id, Letter { id, at, body: body.into() });
        for waiting in inbox.waiting.drain(..) {
            // Whoever gave up waiting does not need to know.
            let _ = waiting.send(());
        }
        id
    }

    /// Letters that nothing came of, and why.
    pub fn refused_letters(&self) -> Vec<(Letter, Arc<str>)> {
        self.inbox().refused.clone()
    }

    /// Runs `act` on a shard, at once: there is nothing to wait for but the lock.
    fn with<T: Send + 'static>(
        &self,
        shard: ShardId,
        act: impl FnOnce(&mut Shard) -> T,
    ) -> Answer<'_, T> {
        let answer = shard_in(&mut self.lock(), shard).map(act);
        std::future::ready(answer).boxed()
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Shard>> {
        // Only an assertion about a change can panic under the lock, and that ends the test.
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shard_in(shards: &mut [Shard], shard: ShardId) -> Result<&mut Shard, StoreError> {
    let missing = || StoreError::new(ErrorKind::Unsupported, format!("there is no {shard:?}"));
    shards.get_mut(usize::from(shard.0)).ok_or_else(missing)
}

impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            engine: "memory",
            tier: Tier::BestEffort,
            shared: false,
            persistent: false,
            inbox: true,
            shards: self.lock().len() as u16,
            notes: vec!["everything is lost when the process ends".to_string()],
        }
    }

    fn commit(&self, batches: Vec<ShardBatch>) -> Answer<'_, ()> {
        let mut shards = self.lock();
        let answer = check(&mut shards, &batches).map(|()| {
            for batch in batches {
                let shard = &mut shards[usize::from(batch.shard.0)];
                if batch.sequence > shard.sequence {
                    self.inbox().take(&batch.changes);
                    shard.apply(batch);
                }
            }
        });
        std::future::ready(answer).boxed()
    }

    fn due(
        &self,
        shard: ShardId,
        queue: QueueName,
        after: Place,
        limit: usize,
    ) -> Answer<'_, Vec<LiveJob>> {
        self.with(shard, |shard| {
            let (first, last) = ((queue.clone(), after), (queue, Place::LAST));
            let range = shard.live.range((Bound::Excluded(first), Bound::Included(last)));
            let waiting = range.map(|(_, live)| live).filter(|live| live.lease.is_none());
            waiting.take(limit).cloned().collect()
        })
    }

    fn recover(&self, shard: ShardId) -> Answer<'_, Recovered> {
        self.with(shard, |shard| shard.recover())
    }

    fn get(
        &self,
        shard: ShardId,
        names: Vec<JobName>,
        now: Timestamp,
    ) -> Answer<'_, Vec<Option<StoredJob>>> {
        self.with(shard, |shard| names.iter().map(|name| shard.get(name, now)).collect())
    }

    fn list(&self, shard: ShardId, request: ListRequest) -> Answer<'_, Page> {
        self.with(shard, |shard| shard.list(&request))
    }

    fn attempts(
        &self,
        shard: ShardId,
        _name: JobName,
        number: JobNumber,
    ) -> Answer<'_, Vec<AttemptRecord>> {
        self.with(shard, |shard| shard.attempts.get(&number).cloned().unwrap_or_default())
    }

    fn occurrences(
        &self,
        shard: ShardId,
        request: LedgerRequest,
    ) -> Answer<'_, Vec<OccurrenceRecord>> {
        self.with(shard, |shard| shard.ledger(&request))
    }

    fn sweep(
        &self,
        shard: ShardId,
        now: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<(QueueName, u64)>> {
        self.with(shard, |shard| shard.sweep(now, limit))
    }

    fn acquire(&self, shard: ShardId, node: String) -> Answer<'_, Epoch> {
        self.with(shard, |shard| {
            shard.epoch = Epoch(shard.epoch.0 + 1);
            shard.owner = Some(node);
            shard.sequence = 0;
            shard.epoch
        })
    }

    fn release(&self, shard: ShardId, epoch: Epoch) -> Answer<'_, ()> {
        self.with(shard, |shard| {
            if shard.epoch == epoch {
                shard.owner = None;
            }
        })
    }

    fn letters(&self, after: LetterId, limit: usize) -> Answer<'_, Vec<Letter>> {
        let inbox = self.inbox();
        let letters = inbox.letters.range((Bound::Excluded(after), Bound::Unbounded));
        let letters = letters.take(limit).map(|(_, letter)| letter.clone()).collect();
        std::future::ready(Ok(letters)).boxed()
    }

    fn await_letters(&self) -> Answer<'_, ()> {
        let (tell, told) = oneshot::channel();
        self.inbox().waiting.push(tell);
        // Nobody drops the other end but with the store itself.
        told.map(|_| Ok(())).boxed()
    }

    fn pressure(&self) -> Pressure {
        Pressure::Normal
    }
}

impl Inbox {
    fn take(&mut self, changes: &[Change]) {
        for change in changes {
            let Change::LetterTaken { id, refused } = change else { continue };
            let letter = self.letters.remove(id).expect("a change speaks of a letter");
            self.refused.extend(refused.clone().map(|why| (letter, why)));
        }
    }
}

/// Whether all batches may be applied: every fence holds, no sequence has a gap.
fn check(shards: &mut [Shard], batches: &[ShardBatch]) -> Result<(), StoreError> {
    let mut last = BTreeMap::new();
    for batch in batches {
        let shard = shard_in(shards, batch.shard)?;
        if shard.owner.is_none() || shard.epoch != batch.epoch {
            let (theirs, ours) = (batch.epoch, shard.epoch);
            let message =
                format!("commit to {:?} under {theirs:?}: it is {ours:?} now", batch.shard);
            return Err(StoreError::new(ErrorKind::Fenced, message));
        }
        let last = last.entry(batch.shard).or_insert(shard.sequence);
        if batch.sequence > *last + 1 {
            let message = format!("commit to {:?}: {} after {last}", batch.shard, batch.sequence);
            return Err(StoreError::new(ErrorKind::Unsupported, message));
        }
        *last = batch.sequence.max(*last);
    }
    Ok(())
}

impl Shard {
    fn apply(&mut self, batch: ShardBatch) {
        self.sequence = batch.sequence;
        self.next_number = batch.next_number;
        self.counts.extend(batch.counts);
        for change in Arc::unwrap_or_clone(batch.changes) {
            self.change(change);
        }
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::JobPut { job, progress, replaces, revives } => {
                if let Some(place) = replaces {
                    let old = self.take_live(&job.name.queue, place);
                    self.drop_history(old.job.number, Some(job.number));
                }
                if let Some(place) = revives {
                    self.forget(place, Some(job.number));
                }
                self.put_live(job, progress);
            }
            Change::JobMoved { job, from, progress, ended } => {
                self.take_live(&job.name.queue, Place { due_at: from, number: job.number });
                self.record(job.number, ended);
                self.put_live(job, progress);
            }
            Change::LeasesGranted { first_token, holder, at, leases } => {
                self.grant(first_token, &holder, at, leases);
            }
            Change::LeaseExtended { queue, place, token, until } => {
                let lease = self.live_at(queue, place).lease.as_mut();
                let lease = lease.filter(|lease| lease.token == token);
                lease.expect("a lease is extended while it is held").until = until;
            }
            Change::JobFinished { job, progress, finish, ended, keep_payload } => {
                let place = Place { due_at: progress.due_at, number: job.number };
                self.take_live(&job.name.queue, place);
                self.record(job.number, ended);
                self.finish(job, progress, *finish, keep_payload);
            }
            Change::JobForgotten { place, .. } => self.forget(place, None),
            Change::SchedulePut { state } => {
                self.schedules.insert(state.schedule.id.clone(), *state);
            }
            Change::ScheduleAdvanced { id, progress } => {
                let state = self.schedules.get_mut(&id);
                state.expect("a change speaks of a schedule").progress = *progress;
            }
            Change::ScheduleRemoved { id } => {
                self.schedules.remove(&id);
                self.occurrences.retain(|(schedule, _), _| *schedule != id);
            }
            Change::OccurrenceRecorded { record } => {
                self.occurrences.insert((record.schedule.clone(), record.place()), record);
            }
            Change::LedgerForgotten { schedule, before } => {
                self.occurrences.retain(|(of, place), _| *of != schedule || place.last >= before);
            }
            Change::QueuePut { name, settings } => {
                self.queues.insert(name, settings);
            }
            // The inbox is not the shard's: it was looked after before.
            Change::LetterTaken { .. } => {}
        }
    }

    fn put_live(&mut self, job: Arc<Job>, progress: Progress) {
        let place = Place { due_at: progress.due_at, number: job.number };
        self.names.insert(job.name.clone(), Spot::Live(place));
        let key = (job.name.queue.clone(), place);
        let before = self.live.insert(key, LiveJob { job, progress, lease: None });
        assert!(before.is_none(), "a place belongs to one job");
    }

    fn live_at(&mut self, queue: QueueName, place: Place) -> &mut LiveJob {
        self.live.get_mut(&(queue, place)).expect("a change speaks of a live job")
    }

    fn take_live(&mut self, queue: &QueueName, place: Place) -> LiveJob {
        let live = self.live.remove(&(queue.clone(), place));
        let live = live.expect("a change speaks of a live job");
        self.names.remove(&live.job.name);
        live
    }

    fn grant(
        &mut self,
        first: Token,
        holder: &WorkerName,
        granted_at: Timestamp,
        leases: Vec<LeaseGrant>,
    ) {
        for (offset, LeaseGrant { queue, place, attempt, until }) in (0..).zip(leases) {
            let token = Token { counter: first.counter + offset, ..first };
            let holder = holder.clone();
            let lease = Lease { token, attempt, holder, granted_at, until };
            self.live_at(queue, place).lease = Some(lease);
        }
    }

    fn record(&mut self, number: JobNumber, ended: Option<Box<AttemptRecord>>) {
        if let Some(ended) = ended {
            self.attempts.entry(number).or_default().push(*ended);
        }
    }

    fn finish(&mut self, job: Arc<Job>, progress: Progress, finish: Finish, keep_payload: bool) {
        if !finish.is_kept(finish.at) {
            self.attempts.remove(&job.number);
            return;
        }
        let job = if keep_payload { job } else { without_payload(&job) };
        let key = (finish.at, job.number);
        self.names.insert(job.name.clone(), Spot::Finished(key));
        self.finished.insert(key, FinishedJob { job, progress, finish });
    }

    /// Removes a finished job.
    fn forget(&mut self, place: FinishedPlace, heir: Option<JobNumber>) {
        self.remove_finished((place.at, place.number));
        self.drop_history(place.number, heir);
    }

    fn remove_finished(&mut self, key: FinishedKey) -> Option<FinishedJob> {
        let done = self.finished.remove(&key)?;
        // The name may belong to a newer job: then it was put when this one's time was up already.
        if self.names.get(&done.job.name) == Some(&Spot::Finished(key)) {
            self.names.remove(&done.job.name);
        }
        Some(done)
    }

    /// The attempts go with the job, unless it goes on under its number.
    fn drop_history(&mut self, number: JobNumber, heir: Option<JobNumber>) {
        if heir != Some(number) {
            self.attempts.remove(&number);
        }
    }

    fn recover(&self) -> Recovered {
        let active = |live: &&LiveJob| live.lease.is_some() || live.progress.holds_key;
        let mut active: Vec<LiveJob> = self.live.values().filter(active).cloned().collect();
        active.sort_by_key(|live| live.job.number);
        Recovered {
            next_number: self.next_number,
            counts: self.counts.clone().into_iter().collect(),
            queues: self.queues.clone().into_iter().collect(),
            schedules: self.schedules.values().cloned().collect(),
            active,
        }
    }

    fn get(&self, name: &JobName, now: Timestamp) -> Option<StoredJob> {
        match self.names.get(name)? {
            Spot::Live(place) => {
                let live = self.live.get(&(name.queue.clone(), *place));
                Some(StoredJob::Live(live.expect("a name leads to its job").clone()))
            }
            Spot::Finished(key) => {
                let done = self.finished.get(key).expect("a name leads to its job");
                (done.finish.is_kept(now)).then(|| StoredJob::Finished(done.clone()))
            }
        }
    }

    fn ledger(&self, request: &LedgerRequest) -> Vec<OccurrenceRecord> {
        let (low, high) = request.bounds();
        let fits = |place: LedgerPlace| low <= place && place < high;
        let of = |(schedule, place): &(ScheduleId, LedgerPlace)| {
            *schedule == request.schedule && fits(*place)
        };
        let mut found: Vec<_> =
            self.occurrences.iter().filter(|(key, _)| of(key)).map(|(_, it)| it.clone()).collect();
        if request.order == LedgerOrder::Newest {
            found.reverse();
        }
        found.truncate(request.limit);
        found
    }

    fn list(&self, request: &ListRequest) -> Page {
        let live = self.live.values().cloned().map(StoredJob::Live);
        let finished = self.finished.values().cloned().map(StoredJob::Finished);
        let mut rows: Vec<(Cursor, StoredJob)> = live
            .chain(finished)
            .map(|job| (cursor_of(&job), job))
            .filter(|(cursor, _)| request.after.as_ref().is_none_or(|after| cursor > after))
            .filter(|(cursor, job)| matches(&request.filter, cursor, job, request.now))
            .collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        let more = rows.len() > request.limit;
        rows.truncate(request.limit);
        let next = rows.last().filter(|_| more).map(|(cursor, _)| cursor.clone());
        Page { jobs: rows.into_iter().map(|(_, job)| job).collect(), next }
    }

    fn sweep(&mut self, now: Timestamp, limit: usize) -> Vec<(QueueName, u64)> {
        let over = self.finished.iter().filter(|(_, done)| !done.finish.is_kept(now));
        let keys: Vec<FinishedKey> = over.map(|(key, _)| *key).take(limit).collect();
        let mut dead: BTreeMap<QueueName, u64> = BTreeMap::new();
        for key in keys {
            let Some(done) = self.remove_finished(key) else { continue };
            self.attempts.remove(&done.job.number);
            if done.finish.outcome == Outcome::Dead {
                *dead.entry(done.job.name.queue.clone()).or_default() += 1;
            }
        }
        dead.into_iter().collect()
    }
}

fn without_payload(job: &Job) -> Arc<Job> {
    Arc::new(Job { payload: Payload::default(), ..job.clone() })
}

fn cursor_of(job: &StoredJob) -> Cursor {
    let (finished, at, job) = match job {
        StoredJob::Live(live) => (false, live.progress.due_at, &live.job),
        StoredJob::Finished(done) => (true, done.finish.at, &done.job),
    };
    Cursor { finished, at, number: job.number, queue: job.name.queue.clone() }
}

fn matches(filter: &Filter, cursor: &Cursor, stored: &StoredJob, now: Timestamp) -> bool {
    let view = stored.clone().view(now);
    let gone = view.finish.as_ref().is_some_and(|finish| !finish.is_kept(now));
    let state_fits = match filter.states.as_slice() {
        [] => !view.state.is_final(),
        states => states.contains(&view.state),
    };
    let made_by = view.job.occurrence.as_ref().map(|occurrence| &occurrence.schedule);
    !gone
        && state_fits
        && filter.queue.as_ref().is_none_or(|queue| view.job.name.queue == *queue)
        && filter.key.as_ref().is_none_or(|key| view.job.name.key.as_ref() == Some(key))
        && filter.schedule.as_ref().is_none_or(|schedule| made_by == Some(schedule))
        && filter.from.is_none_or(|from| cursor.at >= from)
        && filter.until.is_none_or(|until| cursor.at < until)
}
