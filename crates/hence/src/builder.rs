//! Puts the pieces together and takes them apart again.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use hence_core::change::{Change, LeaseGrant, Place};
use hence_core::effect::Delivery;
use hence_core::error::Rejection;
use hence_core::id::{Epoch, HandlerName, WorkerName};
use hence_core::limits;
use hence_core::shard::{Config as ShardConfig, Shard, Snapshot};
use hence_core::time::Timestamp;
use hence_delivery::Target;
use hence_delivery::http::HttpSender;
use hence_delivery::local::{HandlerFn, Handlers};
use hence_fail::{Point, reach};
use hence_store::{ErrorKind, Letter, LiveJob, Recovered, Store, StoreError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::chance::Chance;
use crate::client::{Client, Inner, SHARD};
use crate::clock::{Clock, Stopwatch, SystemClock, Wait};
use crate::commit::{self, Committer, Line, Over, Patience, Work};
use crate::dispatch::{Dispatch, Room};
use crate::driver::Driver;
use crate::error::Error;
use crate::handler::{Failure, typed};
use crate::mailbox::{Bell, Mailbox, Message};
use crate::observe::{Observer, Observers};
use crate::postman::{Asked, LetterReader, Postman};
use crate::read::{Read, Reader};
use crate::tenure;
use crate::watch::Watchers;

/// Called when nothing can be made durable any more; the process should end.
pub(crate) type OnFatal = Arc<dyn Fn(&StoreError) + Send + Sync>;

/// What may be set about a running Hence.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// HTTP pushes under way at once.
    pub pushes_max: Option<u32>,
    /// In-process handlers under way at once.
    pub handlers_max: Option<u32>,
    /// Jobs kept in memory, shared by the queues; the rest waits in the store.
    pub window_jobs: Option<usize>,
    /// Payload bytes kept in memory, shared by the queues.
    pub window_bytes: Option<usize>,
    /// How long a job whose handler is not registered waits before it is tried again.
    pub unregistered_delay: Option<hence_core::time::Millis>,
    /// How long a dead job is kept.
    pub dead_retention: Option<hence_core::time::Millis>,
}

/// Builds a [`Hence`].
///
/// ```
/// use hence::builder::{Builder, Config};
/// use hence::handler::Failure;
/// use hence::store::MemoryStore;
/// use std::{sync::Arc, time::Duration};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let hence = Builder::new(Arc::new(MemoryStore::new(1)))
///     .node("reports-1")
///     .config(Config { handlers_max: Some(8), ..Config::default() })
///     .on_fatal(|error| eprintln!("the disk is gone: {error}"))
///     .handler("report", |month: u32, _delivery| async move {
///         if month > 12 { Err(Failure::permanent("no such month")) } else { Ok(()) }
///     })?
///     .start()
///     .await?;
/// hence.shutdown(Duration::from_secs(5)).await;
/// # Ok(())
/// # }
/// ```
pub struct Builder {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    chance: Chance,
    node: String,
    config: Config,
    handlers: Handlers,
    /// None: one for as many pushes as may be under way.
    http: Option<Arc<dyn Target>>,
    observers: Observers,
    letters: Option<LetterReader>,
    on_fatal: OnFatal,
}

/// A running scheduler: one shard, its threads, its targets.
///
/// It runs as long as this value lives. [`shutdown`](Hence::shutdown) ends it in good order;
/// dropping it ends it as a crash would, which loses nothing either.
#[must_use = "it stops when it is dropped"]
pub struct Hence {
    client: Client,
    pub(crate) mailbox: Mailbox,
    handlers: Handlers,
    pub(crate) dispatch: Arc<Dispatch>,
    store: Arc<dyn Store>,
    epoch: Epoch,
    recovery_time: Duration,
    over: Over,
    on_fatal: OnFatal,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// What goes on beside them, and ends with them.
    tasks: Mutex<Vec<AbortHandle>>,
}

/// How long the last commits may take at a shutdown. A store that cannot be written by then does
/// not keep the process from ending: what is not durable was not acknowledged.
const SYNC_TIME_MAX: Duration = Duration::from_secs(5);

impl Builder {
    /// Runs on this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Builder {
            store,
            clock: Arc::new(SystemClock::new()),
            chance: Chance::default(),
            node: format!("node-{}", std::process::id()),
            config: Config::default(),
            handlers: Handlers::new(),
            http: None,
            observers: Observers::default(),
            letters: None,
            on_fatal: Arc::new(exit),
        }
    }

    /// Goes by this clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Draws ids and jitter from this seed: for simulation, where the same inputs have the same
    /// consequences. Never for production: ids that can be guessed are ids that collide.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.chance = Chance::seeded(seed);
        self
    }

    /// Is called this in the list of leases.
    #[must_use]
    pub fn node(mut self, name: &str) -> Self {
        name.clone_into(&mut self.node);
        self
    }

    /// With these settings.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sends HTTP deliveries with this sender.
    #[must_use]
    pub fn http(mut self, sender: impl Target + 'static) -> Self {
        self.http = Some(Arc::new(sender));
        self
    }

    /// Seen by this observer too.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.0.push(observer);
        self
    }

    /// Takes what others write into the store, in transactions of their own, and reads it with
    /// this function. A refusal is kept with the letter. Without one, letters wait.
    #[must_use]
    pub fn letters(
        mut self,
        read: impl Fn(&Letter) -> Result<Asked, Rejection> + Send + Sync + 'static,
    ) -> Self {
        self.letters = Some(Arc::new(read));
        self
    }

    /// When nothing can be made durable any more, does this instead of ending the process. Nothing
    /// is acknowledged or delivered afterwards either way.
    #[must_use]
    pub fn on_fatal(mut self, act: impl Fn(&StoreError) + Send + Sync + 'static) -> Self {
        self.on_fatal = Arc::new(act);
        self
    }

    /// Jobs for the handler `name` run this function: see [`Hence::handle`].
    pub fn handler<T, R, F, Fut>(self, name: &str, function: F) -> Result<Self, Rejection>
    where
        T: DeserializeOwned + Send + 'static,
        R: Serialize,
        F: Fn(T, Delivery) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Failure>> + Send + 'static,
    {
        self.handler_fn(name, typed(function))
    }

    /// Jobs for the handler `name` run this function, which sees the bytes as they are.
    pub fn handler_fn(self, name: &str, function: HandlerFn) -> Result<Self, Rejection> {
        self.handlers.register(HandlerName::new(name)?, function);
        Ok(self)
    }

    /// Takes the shard over, recovers it, and starts.
    pub async fn start(self) -> Result<Hence, Error> {
        let wait = Wait::Blocking(Handle::current());
        let (on_fatal, chance) = (Arc::clone(&self.on_fatal), self.chance.clone());
        let read = self.letters.clone();
        let Parts { driver, line, works, reader, reads, hence } =
            self.assemble(wait, Patience::TryAgain, None).await?;
        let threads = vec![
            spawn("hence-driver", move || driver.run()),
            spawn("hence-commit", move || commit::run(line, &works)),
            spawn("hence-read", move || reader.run(&reads)),
        ];
        *hence.threads.lock().unwrap_or_else(PoisonError::into_inner) = threads;
        let (store, over) = (Arc::clone(&hence.store), hence.over.clone());
        hence.accompany(tenure::keep(Arc::clone(&store), SHARD, hence.epoch, over, on_fatal));
        if let Some(read) = read.filter(|_| store.capabilities().inbox) {
            let mailbox = hence.mailbox.clone();
            hence.accompany(Postman { store, mailbox, chance, read }.run());
        }
        Ok(hence)
    }

    /// With the sender that was asked for, or one for as many pushes as may be under way.
    fn dispatch(&self, mailbox: Mailbox) -> Arc<Dispatch> {
        let room = Room {
            pushes: self.config.pushes_max.unwrap_or(limits::PUSHES_DEFAULT),
            handlers: self.config.handlers_max.unwrap_or(limits::HANDLERS_DEFAULT),
        };
        let ours = || Arc::new(HttpSender::builder().at_once(room.pushes).build()) as _;
        let http = self.http.clone().unwrap_or_else(ours);
        let outside = (Arc::clone(&self.clock), self.observers.clone());
        Dispatch::new(Handle::current(), mailbox, http, self.handlers.clone(), room, outside)
    }

    /// Takes the shard over, recovers it, and puts everything together, without starting it.
    pub(crate) async fn assemble(
        self,
        wait: Wait,
        patience: Patience,
        bell: Option<Bell>,
    ) -> Result<Parts, Error> {
        let (epoch, shard, recovery_time) = self.take_over().await?;
        let (mailbox, inbox) = Mailbox::new(bell);
        let (watchers, over) = (Arc::new(Watchers::default()), Over::default());
        let dispatch = self.dispatch(mailbox.clone());
        let (read_line, reads) = std::sync::mpsc::channel();
        let_poke(&*self.clock, mailbox.clone());
        mailbox.send(Message::Handlers(self.handlers.names()))?;
        let committer = Committer {
            shard: SHARD,
            epoch,
            sequence: 0,
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            wait: wait.clone(),
            observers: self.observers.clone(),
            watchers: Arc::clone(&watchers),
            dispatch: Arc::clone(&dispatch),
            mailbox: mailbox.clone(),
            reads: read_line,
            chance: self.chance.clone(),
            over: over.clone(),
            on_fatal: Arc::clone(&self.on_fatal),
            durable_counter: Arc::default(),
        };
        let reader = Reader {
            shard: SHARD,
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            wait,
            mailbox: mailbox.clone(),
            chance: self.chance.clone(),
            over: over.clone(),
            on_fatal: Arc::clone(&self.on_fatal),
            patience,
        };
        let (line, works) = Line::new(committer);
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
        let chance = self.chance.clone();
        let driver = Driver::new(shard, store, clock, chance, self.observers, inbox, line.clone());
        let inner = Inner {
            mailbox: mailbox.clone(),
            store: Arc::clone(&self.store),
            clock: self.clock,
            watchers,
            chance: self.chance,
            aside: aside(&reader.wait, &*self.store),
        };
        let hence = Hence {
            client: Client::new(inner),
            mailbox,
            handlers: self.handlers,
            dispatch,
            store: self.store,
            epoch,
            recovery_time,
            over,
            on_fatal: self.on_fatal,
            threads: Mutex::default(),
            tasks: Mutex::default(),
        };
        Ok(Parts { driver, line, works, reader, reads, hence })
    }

    /// Takes the shard over and rebuilds it from what the store has; says how long the latter took.
    async fn take_over(&self) -> Result<(Epoch, Shard, Duration), Error> {
        let node = WorkerName::new(&self.node)?;
        let epoch = tenure::acquire(&*self.store, SHARD, &self.node, &self.observers).await?;
        reach(Point::StartAcquired);
        let watch = Stopwatch::start();
        let recovered = self.store.recover(SHARD).await?;
        let config = shard_config(node, &self.config, &self.chance);
        let shard = Shard::recover(SHARD, epoch, config, snapshot(recovered));
        reach(Point::StartRecovered);
        Ok((epoch, shard, watch.elapsed()))
    }
}

/// Whoever moves the clock pokes the driver; after its end, nothing.
fn let_poke(clock: &dyn Clock, mailbox: Mailbox) {
    clock.attach(Box::new(move || drop(mailbox.send(Message::Poke))));
}

/// Where clients read from a store that works on the thread that asks. Whoever takes the steps by
/// hand has no other thread than the own one.
fn aside(wait: &Wait, store: &dyn Store) -> Option<Handle> {
    match wait {
        Wait::Blocking(runtime) if !store.capabilities().shared => Some(runtime.clone()),
        Wait::Blocking(_) | Wait::NotAtAll => None,
    }
}

/// Everything that runs, before it does.
pub(crate) struct Parts {
    pub(crate) driver: Driver,
    pub(crate) line: Line,
    pub(crate) works: mpsc::Receiver<Work>,
    pub(crate) reader: Reader,
    pub(crate) reads: mpsc::Receiver<Read>,
    pub(crate) hence: Hence,
}

impl Hence {
    /// Builds one on this store.
    pub fn builder(store: Arc<dyn Store>) -> Builder {
        Builder::new(store)
    }

    /// The way to ask it for something.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// How long it took to read back what the store holds, once the store was its own.
    pub fn recovery_time(&self) -> Duration {
        self.recovery_time
    }

    /// Registers a handler while running; jobs that waited for it go ahead at once. The payload
    /// is read as JSON, and the result is written as JSON.
    pub fn handle<T, R, F, Fut>(&self, name: &str, function: F) -> Result<(), Error>
    where
        T: DeserializeOwned + Send + 'static,
        R: Serialize,
        F: Fn(T, Delivery) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Failure>> + Send + 'static,
    {
        self.handlers.register(HandlerName::new(name)?, typed(function));
        self.mailbox.send(Message::Handlers(self.handlers.names()))
    }

    /// Waits until nothing is due, under way or uncommitted, and says when something is due next.
    pub(crate) async fn settle(&self) -> Result<Option<Timestamp>, Error> {
        let (done, settled) = oneshot::channel();
        self.mailbox.send(Message::Settle(done))?;
        settled.await.map_err(|_| Error::Stopped)
    }

    /// From this call on it accepts nothing and hands out nothing; workers that wait for jobs are
    /// sent home. What is under way may end: acks, nacks, extensions and reads are still answered.
    /// Done when the last delivery has ended; the leases of workers that pull are not waited for,
    /// since they outlive a restart. [`shutdown`](Hence::shutdown) must follow.
    pub fn drain(&self) -> impl Future<Output = ()> + Send + use<> {
        let drained = self.begin_drain();
        async move {
            // An error means that it has stopped: nothing is under way then.
            drop(drained.await);
        }
    }

    fn begin_drain(&self) -> oneshot::Receiver<()> {
        reach(Point::StopDrain);
        let (done, drained) = oneshot::channel();
        // When nobody hears it, whoever waits learns it from `done` being gone.
        drop(self.mailbox.send(Message::Drain(done)));
        // After that nothing that comes back is handed out again.
        self.dispatch.close();
        drained
    }

    /// Stops: accepts nothing, hands out nothing, waits this long for deliveries under way, gives
    /// back what is left, makes everything durable, and ends the threads. A job given back is
    /// delivered again by the next start.
    pub async fn shutdown(self, grace: Duration) {
        let mut drained = self.begin_drain();
        if timeout(grace, &mut drained).await.is_err() {
            self.dispatch.give_all_back();
            // The driver hears of each; when it has stopped, there is nothing to wait for.
            self.or_over(drained).await;
        }
        reach(Point::StopDrained);
        drop(self.mailbox.send(Message::Stop));
        let ended = self.join_threads();
        self.or_over(ended).await;
        // Whoever gives the shard up must not keep it.
        self.end_tasks();
        if self.over.is_set() {
            // A store that takes nothing takes no farewell either.
            return;
        }
        reach(Point::StopRelease);
        match self.store.release(SHARD, self.epoch).await {
            Ok(()) => {}
            // An end that could not be written is no orderly one, and must not look like one.
            Err(error) if error.kind() == ErrorKind::Fatal => {
                if self.over.set() {
                    (self.on_fatal)(&error);
                }
            }
            Err(error) => tracing::warn!(%error, "could not give the shard up"),
        }
    }

    /// Waits for the last commits, but not for ever.
    async fn or_over<T>(&self, mut done: oneshot::Receiver<T>) {
        if timeout(SYNC_TIME_MAX, &mut done).await.is_err() && self.over.set() {
            tracing::error!("the store did not take the last facts in time: going without");
        }
    }

    /// Runs beside the threads until they end.
    fn accompany(&self, task: impl Future<Output = ()> + Send + 'static) {
        let task = tokio::spawn(task).abort_handle();
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }

    fn end_tasks(&self) {
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
    }

    /// Tells when the threads have ended.
    fn join_threads(&self) -> oneshot::Receiver<()> {
        let (done, ended) = oneshot::channel();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        spawn("hence-join", move || {
            for thread in threads {
                if thread.join().is_err() {
                    tracing::error!("a thread of hence panicked");
                }
            }
            // Whoever gave up waiting does not need to know.
            let _ = done.send(());
        });
        ended
    }
}

impl Drop for Hence {
    fn drop(&mut self) {
        self.over.set();
        self.end_tasks();
        self.dispatch.give_all_back();
        // After a shutdown there is nobody left to hear it.
        drop(self.mailbox.send(Message::Stop));
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(run).unwrap_or_else(|error| {
        // Out of threads at the very start: there is no way to go on and nothing to lose.
        unreachable!("cannot start the thread {name}: {error}")
    })
}

fn shard_config(node: WorkerName, config: &Config, chance: &Chance) -> ShardConfig {
    let default = ShardConfig::new(node);
    ShardConfig {
        pushes_max: config.pushes_max.unwrap_or(default.pushes_max),
        handlers_max: config.handlers_max.unwrap_or(default.handlers_max),
        window_jobs: config.window_jobs.unwrap_or(default.window_jobs),
        window_bytes: config.window_bytes.unwrap_or(default.window_bytes),
        unregistered_delay: config.unregistered_delay.unwrap_or(default.unregistered_delay),
        dead_retention: config.dead_retention.unwrap_or(default.dead_retention),
        hash_seed: chance.word(),
        ..default
    }
}

/// The facts that rebuild what the store says.
fn snapshot(recovered: Recovered) -> Snapshot {
    let queues = recovered.queues.into_iter();
    let queues = queues.map(|(name, settings)| Change::QueuePut { name, settings });
    let schedules =
        recovered.schedules.into_iter().map(|state| Change::SchedulePut { state: state.into() });
    let active = recovered.active.into_iter().flat_map(rebuild);
    Snapshot {
        next_number: recovered.next_number,
        changes: queues.chain(schedules).chain(active).collect(),
        counts: recovered.counts,
    }
}

fn rebuild(live: LiveJob) -> Vec<Change> {
    let LiveJob { job, progress, lease } = live;
    let place = Place { due_at: progress.due_at, number: job.number };
    let queue = job.name.queue.clone();
    let put = Change::JobPut { job, progress, replaces: None, revives: None };
    let granted = lease.map(|lease| Change::LeasesGranted {
        first_token: lease.token,
        holder: lease.holder,
        at: lease.granted_at,
        leases: vec![LeaseGrant { queue, place, attempt: lease.attempt, until: lease.until }],
    });
    std::iter::once(put).chain(granted).collect()
}

/// The default end: whatever is not durable by now is not acknowledged either.
fn exit(error: &StoreError) {
    tracing::error!(%error, "the store failed for good: ending the process");
    // EX_IOERR
    std::process::exit(74);
}
