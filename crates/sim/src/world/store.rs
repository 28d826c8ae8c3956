//! The way to the store: the real engine behind a line that breaks before, after, or long before
//! what was asked for is done.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use hence_core::id::{Epoch, JobName, JobNumber, QueueName, ShardId};
use hence_core::job::AttemptRecord;
use hence_core::ledger::OccurrenceRecord;
use hence_core::time::Timestamp;
use hence_store::{
    Answer, Capabilities, ErrorKind, LedgerRequest, ListRequest, LiveJob, Page, Place, Pressure,
    Recovered, ShardBatch, Store, StoreError, StoredJob,
};
use hence_store_embedded::EmbeddedStore;

use super::dice::Dice;
use super::faults::Fault;
use super::name_text;
use super::story::Story;
use crate::history::{Read, What};

/// How likely a late commit is to arrive at each opportunity.
const ARRIVES: f64 = 0.2;

/// How the line to the store is at the moment. A clone is the same line.
#[derive(Clone)]
pub(super) struct Line {
    state: Arc<Mutex<LineState>>,
    story: Story,
}

struct LineState {
    dice: Dice,
    /// What goes wrong at the moment, and how often.
    trouble: Vec<(Fault, f64)>,
    /// Reads are those of people from now on.
    shown: bool,
}

impl Line {
    pub(super) fn new(dice: Dice, story: Story) -> Self {
        let state = LineState { dice, trouble: Vec::new(), shown: false };
        Line { state: Arc::new(Mutex::new(state)), story }
    }

    pub(super) fn begin(&self, fault: Fault, probability: f64) {
        self.lock().trouble.push((fault, probability));
    }

    pub(super) fn end(&self, fault: Fault) {
        self.lock().trouble.retain(|(other, _)| *other != fault);
    }

    /// From now on the node is asked what it has: what it reads for that is not written down.
    pub(super) fn show(&self) {
        self.lock().shown = true;
    }

    /// What happens to the next call, if anything.
    fn draw(&self) -> Option<Fault> {
        let mut state = self.lock();
        let LineState { dice, trouble, .. } = &mut *state;
        let drawn = trouble.iter().find(|(_, probability)| dice.chance(*probability));
        drawn.map(|(fault, _)| *fault)
    }

    fn lock(&self) -> MutexGuard<'_, LineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A store at the end of such a line.
pub(super) struct SimStore<S> {
    inner: S,
    line: Line,
    /// Commits that were given up and are still on their way.
    on_their_way: Mutex<Vec<Vec<ShardBatch>>>,
    /// The epoch of whoever committed last.
    owner: AtomicU32,
}

impl<S: Store> SimStore<S> {
    pub(super) fn new(inner: S, line: Line) -> Self {
        SimStore { inner, line, on_their_way: Mutex::default(), owner: AtomicU32::default() }
    }

    /// Some of what was still on its way arrives. It is late: the engine must see to it that it
    /// does no harm.
    pub(super) fn arrive(&self) {
        let owner = self.owner.load(Ordering::Relaxed);
        self.arrive_if(|late| late.epoch.0 == owner && self.line.lock().dice.chance(ARRIVES));
    }

    /// What an earlier owner sent waits for the worst moment: when its number is the next one.
    fn arrive_before(&self, next: &[ShardBatch]) {
        let Some(next) = next.first() else { return };
        self.owner.store(next.epoch.0, Ordering::Relaxed);
        self.arrive_if(|late| late.epoch != next.epoch && late.sequence == next.sequence);
    }

    fn arrive_if(&self, arrives: impl Fn(&ShardBatch) -> bool) {
        let mut waiting = self.on_their_way.lock().unwrap_or_else(PoisonError::into_inner);
        let late: Vec<_> =
            waiting.extract_if(.., |batches| batches.first().is_some_and(&arrives)).collect();
        drop(waiting);
        for batches in late {
            let said = self.inner.commit(batches).now_or_never();
            self.line.story.note("store", format!("a late commit arrives: {}", verdict(said)));
        }
    }

    fn commit_somehow(&self, batches: Vec<ShardBatch>) -> Result<(), StoreError> {
        self.arrive_before(&batches);
        let fault = self.line.draw();
        if let Some(fault) = fault {
            self.line.story.fault(fault, None);
        }
        match fault {
            Some(Fault::StoreLate) => {
                self.arrive();
                let mut late = self.on_their_way.lock().unwrap_or_else(PoisonError::into_inner);
                late.push(batches);
                Err(unavailable())
            }
            Some(Fault::StoreTimedOut) => {
                self.inner.commit(batches).now_or_never().unwrap_or(Ok(()))?;
                Err(unavailable())
            }
            Some(_) => Err(unavailable()),
            None => {
                let said = self.inner.commit(batches).now_or_never().unwrap_or(Ok(()));
                self.arrive();
                said
            }
        }
    }

    /// A call that changes nothing: it is answered or it is not.
    fn read<'a, T: Send + 'a>(
        &'a self,
        call: impl FnOnce(&'a S) -> Answer<'a, T> + Send + 'a,
    ) -> Answer<'a, T> {
        if let Some(fault) = self.line.draw() {
            self.line.story.fault(fault, None);
            return async { Err(unavailable()) }.boxed();
        }
        call(&self.inner)
    }
}

impl<S> SimStore<S> {
    /// Writes down what is read.
    fn tell(&self, read: Read) {
        if !self.line.lock().shown {
            self.line.story.tell("store", What::Read(read));
        }
    }
}

fn unavailable() -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "the line to the store is broken".to_owned())
}

fn verdict(said: Option<Result<(), StoreError>>) -> String {
    match said {
        Some(Ok(())) => "taken or known".to_owned(),
        Some(Err(error)) => error.to_string(),
        None => "no answer".to_owned(),
    }
}

impl SimStore<EmbeddedStore> {
    /// Whether a full disk has room again: what threads look after in the real engine.
    pub(super) fn look_for_room(&self) {
        if self.inner.pressure() == Pressure::Full {
            // An engine that has failed says so at the next commit.
            drop(self.inner.kv().expire());
        }
    }
}

impl<S: Store> Store for SimStore<S> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn commit(&self, batches: Vec<ShardBatch>) -> Answer<'_, ()> {
        async move { self.commit_somehow(batches) }.boxed()
    }

    fn due(
        &self,
        shard: ShardId,
        queue: QueueName,
        after: Place,
        limit: usize,
    ) -> Answer<'_, Vec<LiveJob>> {
        self.read(move |inner| {
            self.tell(Read::Page { queue: queue.to_string() });
            inner.due(shard, queue, after, limit)
        })
    }

    fn recover(&self, shard: ShardId) -> Answer<'_, Recovered> {
        self.read(move |inner| inner.recover(shard))
    }

    fn get(
        &self,
        shard: ShardId,
        names: Vec<JobName>,
        now: Timestamp,
    ) -> Answer<'_, Vec<Option<StoredJob>>> {
        self.read(move |inner| {
            self.tell(Read::Names { names: names.iter().map(name_text).collect() });
            inner.get(shard, names, now)
        })
    }

    fn list(&self, shard: ShardId, request: ListRequest) -> Answer<'_, Page> {
        self.read(move |inner| inner.list(shard, request))
    }

    fn attempts(
        &self,
        shard: ShardId,
        name: JobName,
        number: JobNumber,
    ) -> Answer<'_, Vec<AttemptRecord>> {
        self.read(move |inner| inner.attempts(shard, name.clone(), number))
    }

    fn occurrences(
        &self,
        shard: ShardId,
        request: LedgerRequest,
    ) -> Answer<'_, Vec<OccurrenceRecord>> {
        self.read(move |inner| inner.occurrences(shard, request))
    }

    fn sweep(
        &self,
        shard: ShardId,
        now: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<(QueueName, u64)>> {
        self.read(move |inner| inner.sweep(shard, now, limit))
    }

    fn acquire(&self, shard: ShardId, node: String) -> Answer<'_, Epoch> {
        // What an earlier owner sent may arrive just before, or at any time after.
        self.read(move |inner| inner.acquire(shard, node))
    }

    fn release(&self, shard: ShardId, epoch: Epoch) -> Answer<'_, ()> {
        self.read(move |inner| inner.release(shard, epoch))
    }

    fn pressure(&self) -> Pressure {
        self.inner.pressure()
    }

    fn health(&self) -> Result<(), StoreError> {
        self.inner.health()
    }
}
