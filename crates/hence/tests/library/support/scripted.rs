//! A store that does what the test says: passes a commit on, fails it before or after it was
//! made, or keeps it waiting.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use futures::FutureExt;
use hence::core::id::{Epoch, JobName, JobNumber, QueueName, ShardId};
use hence::core::job::AttemptRecord;
use hence::core::schedule::OccurrenceRecord;
use hence::core::time::Timestamp;
use hence::store::{
    Answer, Capabilities, ErrorKind, LedgerRequest, ListRequest, LiveJob, Page, Place, Pressure,
    Recovered, ShardBatch, Store, StoreError, StoredJob,
};
use tokio::sync::Semaphore;

use super::DEADLINE;

/// What becomes of one commit.
#[derive(Clone)]
pub(crate) enum Step {
    /// It is made.
    Make,
    /// It is not made, and the caller is told so.
    Fail(ErrorKind),
    /// It is made, and the caller is told that it was not.
    MakeAndFail(ErrorKind),
    /// It waits until the gate opens, and is made.
    Wait(Arc<Gate>),
    /// It waits until the gate opens, and is not made.
    WaitAndFail(Arc<Gate>, ErrorKind),
    /// It is made before anybody waits for its answer.
    AtOnce,
    /// The same, but when the gate opens the caller is told that it was not.
    AtOnceAndFail(Arc<Gate>, ErrorKind),
}

/// Keeps commits waiting.
pub(crate) struct Gate {
    arrived: Semaphore,
    open: Semaphore,
}

impl Gate {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Gate { arrived: Semaphore::new(0), open: Semaphore::new(0) })
    }

    /// Waits until a commit stands before it.
    pub(crate) async fn arrival(&self) {
        self.arrived.acquire().await.unwrap().forget();
    }

    pub(crate) fn open(&self) {
        self.open.close();
    }

    async fn pass(&self) {
        self.arrived.add_permits(1);
        // An error means that it is open for good.
        let _ = self.open.acquire().await;
    }
}

type Plan = Box<dyn FnMut(usize) -> Step + Send>;

/// The store. `plan` is asked about every commit, with its number from 1.
pub(crate) struct Scripted {
    inner: Arc<dyn Store>,
    plan: Mutex<Plan>,
    commits: AtomicUsize,
    reads_fail: Mutex<Option<ErrorKind>>,
    /// What keeps the thread that asks for a list until it is told to go on.
    lists_wait: Mutex<Option<mpsc::Receiver<()>>>,
    full: AtomicBool,
    broken: Mutex<Option<ErrorKind>>,
    /// What whoever asks for the shard is refused with, one after the other.
    taken: Mutex<VecDeque<ErrorKind>>,
    /// What whoever gives the shard up is refused with.
    kept: Mutex<Option<ErrorKind>>,
    /// Whether it passes for a store on another machine.
    far: AtomicBool,
}

impl Scripted {
    pub(crate) fn new(
        inner: Arc<dyn Store>,
        plan: impl FnMut(usize) -> Step + Send + 'static,
    ) -> Arc<Self> {
        Arc::new(Scripted {
            inner,
            plan: Mutex::new(Box::new(plan)),
            commits: AtomicUsize::new(0),
            reads_fail: Mutex::default(),
            lists_wait: Mutex::default(),
            full: AtomicBool::new(false),
            broken: Mutex::default(),
            taken: Mutex::default(),
            kept: Mutex::default(),
            far: AtomicBool::new(false),
        })
    }

    /// From now on it passes for a store on another machine.
    pub(crate) fn move_away(&self) {
        self.far.store(true, Ordering::SeqCst);
    }

    /// Everything is passed on until the plan is changed.
    pub(crate) fn passing(inner: Arc<dyn Store>) -> Arc<Self> {
        Self::new(inner, |_| Step::Make)
    }

    pub(crate) fn plan(&self, plan: impl FnMut(usize) -> Step + Send + 'static) {
        *self.plan.lock().unwrap() = Box::new(plan);
    }

    /// Every commit waits before this gate from now on.
    pub(crate) fn hold(&self) -> Arc<Gate> {
        let gate = Gate::new();
        let kept = Arc::clone(&gate);
        self.plan(move |_| Step::Wait(Arc::clone(&kept)));
        gate
    }

    pub(crate) fn fail_reads(&self, kind: Option<ErrorKind>) {
        *self.reads_fail.lock().unwrap() = kind;
    }

    /// The next list keeps the thread that asks for it until something is sent.
    pub(crate) fn hold_list(&self) -> mpsc::Sender<()> {
        let (go_on, wait) = mpsc::channel();
        *self.lists_wait.lock().unwrap() = Some(wait);
        go_on
    }

    pub(crate) fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::SeqCst);
    }

    /// It fails by itself, with nobody calling it.
    pub(crate) fn break_down(&self, kind: ErrorKind) {
        *self.broken.lock().unwrap() = Some(kind);
    }

    /// Whoever asks for the shard is refused so, one after the other.
    pub(crate) fn refuse_shard(&self, kinds: impl IntoIterator<Item = ErrorKind>) {
        self.taken.lock().unwrap().extend(kinds);
    }

    /// Whoever gives the shard up is told this.
    pub(crate) fn fail_release(&self, kind: ErrorKind) {
        *self.kept.lock().unwrap() = Some(kind);
    }

    pub(crate) fn commits(&self) -> usize {
        self.commits.load(Ordering::SeqCst)
    }

    fn read<'a, T: Send + 'a>(&'a self, answer: Answer<'a, T>) -> Answer<'a, T> {
        match *self.reads_fail.lock().unwrap() {
            Some(kind) => std::future::ready(Err(told(kind))).boxed(),
            None => answer,
        }
    }
}

fn told(kind: ErrorKind) -> StoreError {
    StoreError::new(kind, "as the test asked")
}

impl Store for Scripted {
    fn capabilities(&self) -> Capabilities {
        Capabilities { shared: self.far.load(Ordering::SeqCst), ..self.inner.capabilities() }
    }

    fn commit(&self, batches: Vec<ShardBatch>) -> Answer<'_, ()> {
        let number = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        let step = (self.plan.lock().unwrap())(number);
        let early = match &step {
            Step::AtOnce | Step::AtOnceAndFail(..) => {
                self.inner.commit(batches.clone()).now_or_never()
            }
            _ => None,
        };
        async move {
            match step {
                Step::Make => self.inner.commit(batches).await,
                Step::Fail(kind) => Err(told(kind)),
                Step::MakeAndFail(kind) => {
                    self.inner.commit(batches).await?;
                    Err(told(kind))
                }
                Step::Wait(gate) => {
                    gate.pass().await;
                    self.inner.commit(batches).await
                }
                Step::WaitAndFail(gate, kind) | Step::AtOnceAndFail(gate, kind) => {
                    gate.pass().await;
                    Err(told(kind))
                }
                Step::AtOnce => early.expect("the store below answers at once"),
            }
        }
        .boxed()
    }

    fn due(
        &self,
        shard: ShardId,
        queue: QueueName,
        after: Place,
        limit: usize,
    ) -> Answer<'_, Vec<LiveJob>> {
        self.read(self.inner.due(shard, queue, after, limit))
    }

    fn recover(&self, shard: ShardId) -> Answer<'_, Recovered> {
        self.inner.recover(shard)
    }

    fn get(
        &self,
        shard: ShardId,
        names: Vec<JobName>,
        now: Timestamp,
    ) -> Answer<'_, Vec<Option<StoredJob>>> {
        self.read(self.inner.get(shard, names, now))
    }

    fn list(&self, shard: ShardId, request: ListRequest) -> Answer<'_, Page> {
        if let Some(wait) = self.lists_wait.lock().unwrap().take() {
            wait.recv_timeout(DEADLINE).expect("others go on while a list is read");
        }
        self.read(self.inner.list(shard, request))
    }

    fn attempts(
        &self,
        shard: ShardId,
        name: JobName,
        number: JobNumber,
    ) -> Answer<'_, Vec<AttemptRecord>> {
        self.read(self.inner.attempts(shard, name, number))
    }

    fn occurrences(
        &self,
        shard: ShardId,
        request: LedgerRequest,
    ) -> Answer<'_, Vec<OccurrenceRecord>> {
        self.read(self.inner.occurrences(shard, request))
    }

    fn sweep(
        &self,
        shard: ShardId,
        now: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<(QueueName, u64)>> {
        self.read(self.inner.sweep(shard, now, limit))
    }

    fn acquire(&self, shard: ShardId, node: String) -> Answer<'_, Epoch> {
        if let Some(kind) = self.taken.lock().unwrap().pop_front() {
            return std::future::ready(Err(told(kind))).boxed();
        }
        self.inner.acquire(shard, node)
    }

    fn release(&self, shard: ShardId, epoch: Epoch) -> Answer<'_, ()> {
        match *self.kept.lock().unwrap() {
            Some(kind) => std::future::ready(Err(told(kind))).boxed(),
            None => self.inner.release(shard, epoch),
        }
    }

    fn pressure(&self) -> Pressure {
        if self.full.load(Ordering::SeqCst) { Pressure::Full } else { Pressure::Normal }
    }

    fn health(&self) -> Result<(), StoreError> {
        self.broken.lock().unwrap().map_or(Ok(()), |kind| Err(told(kind)))
    }
}
