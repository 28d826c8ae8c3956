//! The table of promises on a database, in three manners: with slots around the time that the cases
//! play in, with all rows elsewhere, and with an era that turns after every few commits, so that
//! rows never come to rest. Where rows lie makes no difference to some topics: the latter two leave
//! them out. Each case has tables of its own.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use hence_core::id::{Epoch, JobName, JobNumber, LetterId, QueueName, ShardId};
use hence_core::job::AttemptRecord;
use hence_core::time::{Millis, Timestamp};
use hence_store::conformance::{self, Arguments, Harness};
use hence_store::{
    Answer, Capabilities, LedgerRequest, Letter, ListRequest, LiveJob, OccurrenceRecord, Page,
    Place, Pressure, Recovered, ShardBatch, Store, StoreError, StoredJob,
};
use hence_store_sql::{Options, Slots};
use hence_testkit::suite::{Ended, run_trials, trial};

/// The instant around which the cases play.
const CASES_PLAY_AT: i64 = 1_789_000_000_000;

/// A store whose tables can be brought up to an instant.
pub(crate) trait Turning: Store {
    /// As a sweep at this instant would.
    fn keep_up(&self, shard: ShardId, now: Timestamp) -> Answer<'_, ()>;

    /// Writes a letter as somebody else would, over a connection of their own.
    fn write_letter(url: &str, body: &'static str) -> Option<BoxFuture<'static, LetterId>>
    where
        Self: Sized;
}

/// How a store is opened.
pub(crate) type Open<S> = fn(&str, &Options) -> BoxFuture<'static, Result<S, StoreError>>;

/// Where the rows of the cases lie.
#[derive(Clone, Copy)]
pub(crate) enum Manner {
    /// Few and short slots, so that the cases meet their borders.
    Near,
    /// No slot covers what the cases do.
    Elsewhere,
    /// The clock of the tables moves on with every commit.
    Restless,
}

/// All of them, the plainest first, each with what it adds to the name of the engine.
pub(crate) const MANNERS: [(&str, Manner); 3] =
    [("", Manner::Near), ("_elsewhere", Manner::Elsewhere), ("_restless", Manner::Restless)];

/// Topics that are not about where rows lie.
const SAME_EVERYWHERE: [&str; 5] = ["bytes/", "precision/", "ownership/", "pressure/", "fencing/"];

/// Runs the table in these manners, and says whether all of it held. `place` makes an address of
/// its own from a number.
pub(crate) fn run<S: Turning>(
    engine: &str,
    manners: &[(&str, Manner)],
    open: Open<S>,
    place: impl Fn(u32) -> String + Clone + Send + Sync + 'static,
) -> bool {
    let next = Arc::new(AtomicU32::new(0));
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(2));
    let mut failed = false;
    for (name, manner) in manners.iter().copied() {
        let (place, next) = (place.clone(), Arc::clone(&next));
        let make = move || {
            let number = next.fetch_add(1, Ordering::Relaxed);
            Tables::new(place(number), open, manner)
        };
        let mut arguments = arguments.clone();
        if !matches!(manner, Manner::Near) {
            arguments.skip.extend(SAME_EVERYWHERE.map(String::from));
        }
        failed |= conformance::run(&arguments, &format!("{engine}{name}"), make).has_failed();
    }
    !failed
}

/// For the process.
pub(crate) fn exit(held: bool) -> ExitCode {
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Every case by its name, as what it is: not run.
pub(crate) fn skip(engine: &str, reason: &str) -> ExitCode {
    let skipped = |(case, name): (&'static conformance::Case, &str)| {
        let reason = reason.to_string();
        trial(format!("{engine}{name}/{}", case.name), move || Ok(Ended::Skipped(reason)))
    };
    let rows = conformance::cases().flat_map(|case| MANNERS.map(|(name, _)| (case, name)));
    run_trials(rows.map(skipped).collect(), 1).exit_code()
}

/// Where one case keeps its rows.
struct Tables<S> {
    url: String,
    open: Open<S>,
    manner: Manner,
    clock: Arc<AtomicI64>,
}

impl<S> Tables<S> {
    fn new(url: String, open: Open<S>, manner: Manner) -> Self {
        let start = match manner {
            Manner::Near => CASES_PLAY_AT,
            Manner::Elsewhere => CASES_PLAY_AT + 1_000_000_000_000,
            Manner::Restless => CASES_PLAY_AT - 150,
        };
        Tables { url, open, manner, clock: Arc::new(AtomicI64::new(start)) }
    }
}

impl<S: Turning> Harness for Tables<S> {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, StoreError>> {
        let now = Timestamp::from_millis(self.clock.load(Ordering::SeqCst));
        let slots = match self.manner {
            Manner::Near | Manner::Elsewhere => Slots {
                width: Millis::new(200),
                ahead: 3,
                behind: Millis::new(600),
                ..Slots::default()
            },
            Manner::Restless => Slots {
                width: Millis::new(50),
                ahead: 6,
                behind: Millis::new(40),
                era: Millis::new(30),
            },
        };
        let options = Options { shards: 4, slots, ..Options::new(now) };
        let opened = (self.open)(&self.url, &options);
        async move {
            let store = opened.await?;
            Ok(match self.manner {
                Manner::Near | Manner::Elsewhere => Arc::new(store) as Arc<dyn Store>,
                Manner::Restless => Arc::new(Restless { store, clock: Arc::clone(&self.clock) }),
            })
        }
        .boxed()
    }

    fn write_letter(&self, body: &'static str) -> Option<BoxFuture<'_, LetterId>> {
        S::write_letter(&self.url, body)
    }
}

/// Turns the era after every few commits.
struct Restless<S> {
    store: S,
    clock: Arc<AtomicI64>,
}

impl<S: Turning> Store for Restless<S> {
    fn commit(&self, batches: Vec<ShardBatch>) -> Answer<'_, ()> {
        let shards: Vec<ShardId> = batches.iter().map(|batch| batch.shard).collect();
        let committed = self.store.commit(batches);
        async move {
            committed.await?;
            for shard in shards {
                let now = self.clock.fetch_add(3, Ordering::SeqCst);
                self.store.keep_up(shard, Timestamp::from_millis(now)).await.expect("kept up");
            }
            Ok(())
        }
        .boxed()
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn due(
        &self,
        shard: ShardId,
        queue: QueueName,
        after: Place,
        limit: usize,
    ) -> Answer<'_, Vec<LiveJob>> {
        self.store.due(shard, queue, after, limit)
    }

    fn recover(&self, shard: ShardId) -> Answer<'_, Recovered> {
        self.store.recover(shard)
    }

    fn get(
        &self,
        shard: ShardId,
        names: Vec<JobName>,
        now: Timestamp,
    ) -> Answer<'_, Vec<Option<StoredJob>>> {
        self.store.get(shard, names, now)
    }

    fn list(&self, shard: ShardId, request: ListRequest) -> Answer<'_, Page> {
        self.store.list(shard, request)
    }

    fn attempts(
        &self,
        shard: ShardId,
        name: JobName,
        number: JobNumber,
    ) -> Answer<'_, Vec<AttemptRecord>> {
        self.store.attempts(shard, name, number)
    }

    fn occurrences(
        &self,
        shard: ShardId,
        request: LedgerRequest,
    ) -> Answer<'_, Vec<OccurrenceRecord>> {
        self.store.occurrences(shard, request)
    }

    fn sweep(
        &self,
        shard: ShardId,
        now: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<(QueueName, u64)>> {
        self.store.sweep(shard, now, limit)
    }

    fn acquire(&self, shard: ShardId, node: String) -> Answer<'_, Epoch> {
        self.store.acquire(shard, node)
    }

    fn release(&self, shard: ShardId, epoch: Epoch) -> Answer<'_, ()> {
        self.store.release(shard, epoch)
    }

    fn renew(&self, shard: ShardId, epoch: Epoch, tenure: Millis) -> Answer<'_, Option<Timestamp>> {
        self.store.renew(shard, epoch, tenure)
    }

    fn letters(&self, after: LetterId, limit: usize) -> Answer<'_, Vec<Letter>> {
        self.store.letters(after, limit)
    }

    fn await_letters(&self) -> Answer<'_, ()> {
        self.store.await_letters()
    }

    fn pressure(&self) -> Pressure {
        self.store.pressure()
    }
}
