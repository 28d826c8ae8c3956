//! The table of promises, on a PostgreSQL server. One server for all cases, a schema for each.
//!
//! The table runs three times: with slots around the time that the cases play in, with all rows
//! elsewhere, and with an era that turns after every few commits, so that rows never come to rest.
//! Where rows lie makes no difference to some topics: the latter two leave them out.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use hence_core::id::{Epoch, JobName, JobNumber, QueueName, ShardId};
use hence_core::job::AttemptRecord;
use hence_core::time::{Millis, Timestamp};
use hence_store::conformance::{self, Arguments, Harness};
use hence_store::{
    Answer, Capabilities, LedgerRequest, ListRequest, LiveJob, OccurrenceRecord, Page, Place,
    Pressure, Recovered, ShardBatch, Store, StoreError, StoredJob,
};
use hence_store_sql::Slots;
use hence_store_sql::postgres::{self, Options, PostgresStore};
use hence_testkit::suite::{Ended, run_trials, trial};
use hence_testkit::{Missing, Postgres};

/// The instant around which the cases play.
const CASES_PLAY_AT: i64 = 1_789_000_000_000;

#[derive(Clone, Copy)]
enum Manner {
    /// Few and short slots, so that the cases meet their borders.
    Near,
    /// No slot covers what the cases do.
    Elsewhere,
    /// The clock of the tables moves on with every commit.
    Restless,
}

/// A schema of its own for each case.
struct Schema {
    url: String,
    manner: Manner,
    clock: Arc<AtomicI64>,
}

impl Schema {
    fn new(url: String, manner: Manner) -> Self {
        let start = match manner {
            Manner::Near => CASES_PLAY_AT,
            Manner::Elsewhere => CASES_PLAY_AT + 1_000_000_000_000,
            Manner::Restless => CASES_PLAY_AT - 150,
        };
        Schema { url, manner, clock: Arc::new(AtomicI64::new(start)) }
    }
}

impl Harness for Schema {
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
        let opened = postgres::open(&self.url, &options);
        async move {
            let store = opened.await?;
            Ok(match self.manner {
                Manner::Near | Manner::Elsewhere => Arc::new(store) as Arc<dyn Store>,
                Manner::Restless => Arc::new(Restless { store, clock: Arc::clone(&self.clock) }),
            })
        }
        .boxed()
    }
}

/// Turns the era after every few commits.
struct Restless {
    store: PostgresStore,
    clock: Arc<AtomicI64>,
}

impl Store for Restless {
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

    fn attempts(&self, shard: ShardId, number: JobNumber) -> Answer<'_, Vec<AttemptRecord>> {
        self.store.attempts(shard, number)
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

    fn pressure(&self) -> Pressure {
        self.store.pressure()
    }
}

/// Topics that are not about where rows lie.
const SAME_EVERYWHERE: [&str; 5] = ["bytes/", "precision/", "ownership/", "pressure/", "fencing/"];

const MANNERS: [(&str, Manner); 3] = [
    ("postgres", Manner::Near),
    ("postgres_elsewhere", Manner::Elsewhere),
    ("postgres_restless", Manner::Restless),
];

fn main() -> ExitCode {
    let server = Postgres::start_with(&["fsync = off", "max_connections = 200"]);
    let database = server.as_ref().map(Postgres::database);
    let url = match (&server, database) {
        (Err(error), _) if error.is::<Missing>() => return skip(&error.to_string()),
        (_, Ok(Ok(url))) => url,
        (_, other) => panic!("PostgreSQL does not start: {other:?}"),
    };
    let next = Arc::new(AtomicU32::new(0));
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(2));
    let mut failed = false;
    for (name, manner) in MANNERS {
        let (url, next) = (url.clone(), Arc::clone(&next));
        let make = move || {
            let number = next.fetch_add(1, Ordering::Relaxed);
            Schema::new(format!("{url}?schema=case_{number}"), manner)
        };
        let mut arguments = arguments.clone();
        if !matches!(manner, Manner::Near) {
            arguments.skip.extend(SAME_EVERYWHERE.map(String::from));
        }
        failed |= conformance::run(&arguments, name, make).has_failed();
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Every case by its name, as what it is: not run.
fn skip(reason: &str) -> ExitCode {
    let skipped = |(case, name): (&'static conformance::Case, &str)| {
        let reason = reason.to_string();
        trial(format!("{name}/{}", case.name), move || Ok(Ended::Skipped(reason)))
    };
    let rows = conformance::cases().flat_map(|case| MANNERS.map(|(name, _)| (case, name)));
    run_trials(rows.map(skipped).collect(), 1).exit_code()
}
