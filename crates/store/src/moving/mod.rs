//! From one store to another while work goes on.
//!
//! [`Moving`] is a store over two: it is used as the old one, and [`Moving::step`] copies what is
//! there to the new one, a page at a time. Every commit goes to both. When all is copied, the next
//! step lets go of the old one; whoever uses the store notices nothing but a slow commit.
//!
//! What makes it right: a job (or schedule) is *in step* from when it was copied on, which means
//! that the new store has of it what the old one has. Before a batch is committed, every job that
//! it speaks of is brought in step; then the same facts keep it so. A schedule that is not in step
//! yet is left out of the batch for the new store: it is copied later, as it is by then. Copying
//! and committing never overlap.
//!
//! Breaking off is harmless: the old store was never without anything. When the new store cannot
//! be reached, the old one goes on alone; when it can be reached again, or when another process
//! goes on with the move, it begins by looking through the new store: what is still the same is in
//! step, whatever differs is removed there. Meanwhile nothing is brought in step.
//!
//! Numbers, counts and tokens stay as they are, so both stores must have the same shards.

mod copy;
mod forward;
mod reconcile;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::future::select;
use futures::lock::Mutex;
use hence_core::id::{Epoch, JobName, JobNumber, LetterId, QueueName, ScheduleId, ShardId};
use hence_core::job::AttemptRecord;
use hence_core::ledger::OccurrenceRecord;
use hence_core::time::{Millis, Timestamp};

use crate::{
    Answer, Capabilities, Change, Cursor, ErrorKind, LedgerRequest, Letter, ListRequest, LiveJob,
    Page, Place, Pressure, Recovered, ShardBatch, Store, StoreError, StoredJob,
};

/// Jobs copied in one step, unless told otherwise. Commits wait meanwhile.
const PAGE: usize = 500;

/// Schedules copied in one step, with their ledgers.
const SCHEDULES: usize = 50;

/// Tries of a commit to the new store before the old one goes on alone.
const TRIES_MAX: usize = 5;

/// Epochs that the new store may be behind. Each costs a write, once.
const EPOCHS_MAX: u32 = 1_000_000;

/// Two stores, used as one.
pub struct Moving {
    from: Arc<dyn Store>,
    to: Arc<dyn Store>,
    /// The old store has been let go.
    moved: AtomicBool,
    /// Letters that are taken now were read from the new store.
    reads_new_letters: AtomicBool,
    begin: Begin,
    page: usize,
    state: Mutex<State>,
}

/// What the new store may hold already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    /// Nothing: anything else is somebody's data.
    Afresh,
    /// A part of the old store, from a move that broke off. Whatever differs is removed.
    GoOn,
}

/// How far a move has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moved {
    /// Jobs in step.
    pub jobs: u64,
    /// Schedules in step.
    pub schedules: u64,
    /// Records of ledgers that were copied.
    pub occurrences: u64,
    /// Jobs of an earlier move that were there already.
    pub found: u64,
    /// Things of an earlier move that had changed meanwhile, and were removed from the new store.
    pub removed: u64,
    /// All is copied, and the old store was let go.
    pub done: bool,
}

#[derive(Default)]
struct State {
    shards: Vec<ShardMove>,
    moved: Moved,
    /// The new store could not be written: the old one goes on alone until it can.
    interrupted: bool,
    /// Why the move was given up. The old store goes on alone.
    failed: Option<(ErrorKind, String)>,
    /// The old store did not say whether it took the last batch: it will be asked again.
    in_doubt: bool,
}

/// What is known of one shard's move.
struct ShardMove {
    id: ShardId,
    /// Who owns it.
    node: String,
    /// The ownership in the old store, and the last batch committed under it.
    epoch: Epoch,
    sequence: u64,
    /// The ownership in the new store, and the batches committed under it.
    new_epoch: Epoch,
    new_sequence: u64,
    next_number: JobNumber,
    phase: Phase,
    /// In step.
    jobs: HashSet<JobNumber>,
    schedules: HashSet<ScheduleId>,
}

/// What is copied next.
enum Phase {
    /// Look through the new store for what an earlier move left there.
    Reconcile(Option<Cursor>),
    /// Settings, and what runs or holds its key.
    Active,
    /// Schedules with their ledgers, a few at a time.
    Schedules(Vec<ScheduleId>),
    /// Jobs, page by page.
    Jobs(Option<Cursor>),
    Copied,
}

impl Moving {
    /// Moves from the one to the other.
    pub fn new(from: Arc<dyn Store>, to: Arc<dyn Store>, begin: Begin) -> Result<Self, StoreError> {
        let (old, new) = (from.capabilities().shards, to.capabilities().shards);
        if old != new {
            let message = format!(
                "cannot move from {old} shards to {new}: export from the old store and import \
                 into the new one"
            );
            return Err(StoreError::new(ErrorKind::Unsupported, message));
        }
        let (moved, reads_new_letters) = (AtomicBool::new(false), AtomicBool::new(false));
        let state = Mutex::default();
        Ok(Moving { from, to, moved, reads_new_letters, begin, page: PAGE, state })
    }

    /// Copies so many jobs in one step.
    #[must_use]
    pub fn page(mut self, jobs: usize) -> Self {
        assert!(jobs > 0, "a step copies something");
        self.page = jobs;
        self
    }

    /// Copies the next page. Commits wait meanwhile; the shards must have been acquired. With
    /// nothing left to copy, it lets the old store go.
    pub async fn step(&self, now: Timestamp) -> Result<Moved, StoreError> {
        let mut state = self.state.lock().await;
        if state.in_doubt || state.moved.done {
            return Ok(state.moved);
        }
        if let Some((kind, message)) = &state.failed {
            return Err(StoreError::new(*kind, format!("the move was given up: {message}")));
        }
        let stepped = self.step_on(&mut state, now).await;
        if let Err(error) = &stepped {
            state.trouble(error);
        }
        stepped.map(|()| state.moved)
    }

    async fn step_on(&self, state: &mut State, now: Timestamp) -> Result<(), StoreError> {
        if state.interrupted {
            self.reach_again(state).await?;
        }
        let State { shards, moved, .. } = state;
        let all_owned = shards.len() == usize::from(self.from.capabilities().shards);
        match shards.iter_mut().find(|shard| !matches!(shard.phase, Phase::Copied)) {
            Some(shard) => self.copy_some(shard, moved, now).await,
            None if all_owned => self.let_go(shards, moved).await,
            None => Ok(()),
        }
    }

    /// Begins anew with the new store: nobody knows what it took last.
    async fn reach_again(&self, state: &mut State) -> Result<(), StoreError> {
        for shard in &mut state.shards {
            // It is kept for this very node: whoever takes it anew must not be kept out by that.
            self.to.release(shard.id, shard.new_epoch).await?;
            shard.new_epoch = self.acquire_new(shard.id, &shard.node, shard.epoch).await?;
            shard.new_sequence = 0;
            shard.phase = Phase::Reconcile(None);
            shard.jobs.clear();
            shard.schedules.clear();
        }
        state.moved = Moved::default();
        state.interrupted = false;
        Ok(())
    }

    /// Takes the shard in the new store, under an epoch that is not behind: tokens go on growing.
    async fn acquire_new(
        &self,
        shard: ShardId,
        node: &str,
        epoch: Epoch,
    ) -> Result<Epoch, StoreError> {
        let mut new_epoch = self.to.acquire(shard, node.to_owned()).await?;
        if epoch.0.saturating_sub(new_epoch.0) > EPOCHS_MAX {
            let message = format!("the new store would have to catch up with {epoch:?}");
            return Err(StoreError::new(ErrorKind::Unsupported, message));
        }
        while new_epoch < epoch {
            new_epoch = self.to.acquire(shard, node.to_owned()).await?;
        }
        Ok(new_epoch)
    }

    async fn copy_some(
        &self,
        shard: &mut ShardMove,
        moved: &mut Moved,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        match std::mem::replace(&mut shard.phase, Phase::Copied) {
            Phase::Reconcile(after) => {
                let next = self.reconcile(shard, moved, after.clone(), now).await;
                let next = next.inspect_err(|_| shard.phase = Phase::Reconcile(after))?;
                shard.phase = next.map_or(Phase::Active, |after| Phase::Reconcile(Some(after)));
            }
            Phase::Active => {
                let schedules = self.copy_active(shard, moved).await;
                let schedules = schedules.inspect_err(|_| shard.phase = Phase::Active)?;
                shard.phase = Phase::Schedules(schedules);
            }
            Phase::Schedules(mut left) => {
                let some = left.split_off(left.len().saturating_sub(SCHEDULES));
                if some.is_empty() {
                    shard.phase = Phase::Jobs(None);
                    return Ok(());
                }
                let copied = self.copy_schedules(shard, moved, &some).await;
                left.extend(some.into_iter().filter(|id| !shard.schedules.contains(id)));
                shard.phase = Phase::Schedules(left);
                copied?;
            }
            Phase::Jobs(after) => {
                let next = self.copy_page(shard, moved, after.clone(), now).await;
                let next = next.inspect_err(|_| shard.phase = Phase::Jobs(after))?;
                shard.phase = next.map_or(Phase::Copied, |after| Phase::Jobs(Some(after)));
            }
            Phase::Copied => {}
        }
        Ok(())
    }

    /// From here on there is only the new store.
    async fn let_go(&self, shards: &[ShardMove], moved: &mut Moved) -> Result<(), StoreError> {
        for shard in shards {
            self.compare(shard.id).await?;
        }
        moved.done = true;
        self.moved.store(true, Ordering::Release);
        for shard in shards {
            // It is not used any more either way; giving it up is a courtesy.
            drop(self.from.release(shard.id, shard.epoch).await);
        }
        Ok(())
    }

    /// What is kept and never counted, and what a new owner would go by, must be the same.
    async fn compare(&self, shard: ShardId) -> Result<(), StoreError> {
        let (old, new) = (self.from.recover(shard).await?, self.to.recover(shard).await?);
        if old.sorted() == new.sorted() {
            return Ok(());
        }
        let message = format!("{shard:?} is not the same in both stores after the copy");
        Err(StoreError::new(ErrorKind::Corrupt, message))
    }

    async fn first_phase(&self, shard: ShardId) -> Result<Phase, StoreError> {
        let there = self.to.recover(shard).await?;
        if there == Recovered::default() {
            return Ok(Phase::Active);
        }
        if self.begin == Begin::GoOn {
            return Ok(Phase::Reconcile(None));
        }
        let message = "the new store is not empty: move into an empty one, or go on with the move \
                       that filled it";
        Err(StoreError::new(ErrorKind::Unsupported, message))
    }

    fn current(&self) -> &dyn Store {
        if self.moved.load(Ordering::Acquire) { &*self.to } else { &*self.from }
    }

    /// Takes the shard in both stores.
    async fn acquire_both(&self, shard: ShardId, node: String) -> Result<Epoch, StoreError> {
        let mut state = self.state.lock().await;
        if self.moved.load(Ordering::Acquire) {
            let epoch = self.to.acquire(shard, node).await?;
            let known = state.shards.iter_mut().find(|known| known.id == shard);
            let known = known.unwrap_or_else(|| unreachable!("what was moved was owned"));
            (known.epoch, known.new_epoch, known.sequence, known.new_sequence) =
                (epoch, epoch, 0, 0);
            return Ok(epoch);
        }
        let epoch = self.from.acquire(shard, node.clone()).await?;
        let new_epoch = self.acquire_new(shard, &node, epoch).await?;
        let next_number = self.from.recover(shard).await?.next_number;
        let phase = self.first_phase(shard).await?;
        state.shards.retain(|known| known.id != shard);
        state.shards.push(ShardMove {
            id: shard,
            node,
            epoch,
            sequence: 0,
            new_epoch,
            new_sequence: 0,
            next_number,
            phase,
            jobs: HashSet::new(),
            schedules: HashSet::new(),
        });
        Ok(epoch)
    }
}

impl State {
    /// The new store cannot be used, for a while or for good.
    fn trouble(&mut self, error: &StoreError) {
        if error.is_retryable() {
            self.interrupted = true;
        } else {
            self.failed = Some((error.kind(), error.to_string()));
        }
    }
}

impl ShardMove {
    /// A batch for the new store.
    fn batch(&mut self, changes: Vec<Change>) -> ShardBatch {
        self.new_sequence += 1;
        ShardBatch {
            shard: self.id,
            epoch: self.new_epoch,
            sequence: self.new_sequence,
            changes: Arc::new(changes),
            counts: Vec::new(),
            next_number: self.next_number,
        }
    }
}

impl Store for Moving {
    fn capabilities(&self) -> Capabilities {
        // Asked for once, at the start: whoever brings letters must be there when all is moved.
        let inbox = self.from.capabilities().inbox || self.to.capabilities().inbox;
        Capabilities { inbox, ..self.current().capabilities() }
    }

    fn commit(&self, batches: Vec<ShardBatch>) -> Answer<'_, ()> {
        self.commit_both(batches).boxed()
    }

    fn due(
        &self,
        shard: ShardId,
        queue: QueueName,
        after: Place,
        limit: usize,
    ) -> Answer<'_, Vec<LiveJob>> {
        self.current().due(shard, queue, after, limit)
    }

    fn recover(&self, shard: ShardId) -> Answer<'_, Recovered> {
        self.current().recover(shard)
    }

    fn get(
        &self,
        shard: ShardId,
        names: Vec<JobName>,
        now: Timestamp,
    ) -> Answer<'_, Vec<Option<StoredJob>>> {
        self.current().get(shard, names, now)
    }

    fn list(&self, shard: ShardId, request: ListRequest) -> Answer<'_, Page> {
        self.current().list(shard, request)
    }

    fn attempts(
        &self,
        shard: ShardId,
        name: JobName,
        number: JobNumber,
    ) -> Answer<'_, Vec<AttemptRecord>> {
        self.current().attempts(shard, name, number)
    }

    fn occurrences(
        &self,
        shard: ShardId,
        request: LedgerRequest,
    ) -> Answer<'_, Vec<OccurrenceRecord>> {
        self.current().occurrences(shard, request)
    }

    fn sweep(
        &self,
        shard: ShardId,
        now: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<(QueueName, u64)>> {
        async move {
            let _quiet = self.state.lock().await;
            if !self.moved.load(Ordering::Acquire) {
                // What the new store still has beyond its time is not shown; it may go later.
                drop(self.to.sweep(shard, now, limit).await);
            }
            self.current().sweep(shard, now, limit).await
        }
        .boxed()
    }

    fn acquire(&self, shard: ShardId, node: String) -> Answer<'_, Epoch> {
        self.acquire_both(shard, node).boxed()
    }

    fn release(&self, shard: ShardId, epoch: Epoch) -> Answer<'_, ()> {
        async move {
            let state = self.state.lock().await;
            if let Some(known) = state.shards.iter().find(|known| known.id == shard) {
                self.to.release(shard, known.new_epoch).await?;
            }
            self.from.release(shard, epoch).await
        }
        .boxed()
    }

    fn renew(&self, shard: ShardId, epoch: Epoch, tenure: Millis) -> Answer<'_, Option<Timestamp>> {
        async move {
            let new = {
                let state = self.state.lock().await;
                let known = state.shards.iter().find(|known| known.id == shard);
                known.map(|known| known.new_epoch)
            };
            let renewed = match new {
                Some(new_epoch) => self.to.renew(shard, new_epoch, tenure).await?,
                None => None,
            };
            if self.moved.load(Ordering::Acquire) {
                return Ok(renewed);
            }
            Ok(self.from.renew(shard, epoch, tenure).await?.or(renewed))
        }
        .boxed()
    }

    fn letters(&self, after: LetterId, limit: usize) -> Answer<'_, Vec<Letter>> {
        // One page is dealt with before the next is read, so what is taken from now on was read
        // from the same store.
        self.reads_new_letters.store(self.moved.load(Ordering::Acquire), Ordering::Release);
        self.current().letters(after, limit)
    }

    fn await_letters(&self) -> Answer<'_, ()> {
        let in_the_new = self.to.await_letters();
        if self.moved.load(Ordering::Acquire) {
            return in_the_new;
        }
        // Of either: the move may be done before there is one.
        let in_the_old = self.from.await_letters();
        async move { select(in_the_old, in_the_new).await.factor_first().0 }.boxed()
    }

    fn pressure(&self) -> Pressure {
        self.current().pressure()
    }

    fn health(&self) -> Result<(), StoreError> {
        // The new one is written to all the time, the old one until it has been let go.
        self.current().health()?;
        self.to.health()
    }
}

/// By name, what is under it.
type Found = HashMap<JobName, StoredJob>;
