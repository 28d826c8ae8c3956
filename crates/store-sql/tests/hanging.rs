//! A database server that hangs: it is not gone, takes connections, and says nothing, as a process
//! does that was stopped. Whoever calls it is answered in time, the driver tries again, and nothing
//! is lost or doubled when it goes on. Where another host is named, that one is tried.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hence::clock::{Clock, SystemClock};
use hence::observe::{Event, Observer};
use hence::{Client, Hence, NewJob};
use hence_core::change::Place;
use hence_core::id::{QueueName, ShardId};
use hence_core::time::Millis;
use hence_store::{ErrorKind, Store};
use hence_store_sql::{Options, mysql, postgres};
use hence_testkit::suite::{self, Ended, run_trials, trial};
use hence_testkit::{MariaDb, Postgres, Proxy, until};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

const CASES: [(&str, suite::Case); 4] = [
    ("postgres_a_server_that_hangs_is_waited_for", || waits(&OnPostgres::start()?)),
    ("postgres_a_server_that_hangs_is_left_for_another", || leaves(&OnPostgres::start()?)),
    ("mariadb_a_server_that_hangs_is_waited_for", || waits(&OnMariaDb::start()?)),
    ("mariadb_a_server_that_hangs_is_left_for_another", || leaves(&OnMariaDb::start()?)),
];

fn main() -> ExitCode {
    let cases = CASES.into_iter().map(|(name, case)| trial(name.to_owned(), case));
    run_trials(cases.collect(), 2).exit_code()
}

/// How long a call may take: a tenth of what it is by default.
const CALL: Millis = Millis::from_secs(3);

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Jobs that are added at once.
const JOBS: u64 = 20;

/// A server, and a store in it.
trait Database {
    fn url(&self) -> &str;

    fn open(&self, runtime: &Runtime, url: &str) -> Result<Arc<dyn Store>>;
}

struct OnPostgres {
    _server: Postgres,
    url: String,
}

struct OnMariaDb {
    _server: MariaDb,
    url: String,
}

impl OnPostgres {
    fn start() -> Result<Self> {
        let server = Postgres::start_with(&["fsync = off"])?;
        let url = server.database()?;
        Ok(OnPostgres { _server: server, url })
    }
}

impl OnMariaDb {
    fn start() -> Result<Self> {
        let server = MariaDb::start_with(&["innodb_flush_log_at_trx_commit = 0"])?;
        let url = server.database()?;
        Ok(OnMariaDb { _server: server, url })
    }
}

impl Database for OnPostgres {
    fn url(&self) -> &str {
        &self.url
    }

    fn open(&self, runtime: &Runtime, url: &str) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(runtime.block_on(postgres::open(url, &options()))?))
    }
}

impl Database for OnMariaDb {
    fn url(&self) -> &str {
        &self.url
    }

    fn open(&self, runtime: &Runtime, url: &str) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(runtime.block_on(mysql::open(url, &options()))?))
    }
}

fn options() -> Options {
    Options { call: CALL, ..Options::new(SystemClock::new().now()) }
}

fn waits(database: &dyn Database) -> Result<Ended> {
    let proxy = Proxy::before(database.url())?;
    let work = Work::start(database, &proxy.url_of(database.url()))?;
    work.joined(work.add(0..JOBS))?;
    proxy.stall();
    let adding = work.add(JOBS..2 * JOBS);
    work.a_commit_fails()?;
    let due = work.store.due(ShardId(0), QueueName::default_queue(), Place::FIRST, 1);
    let answer = work.runtime.block_on(due).map_err(|error| error.kind());
    ensure!(answer.as_ref().err() == Some(&ErrorKind::Unavailable), "{answer:?}");
    ensure!(!adding.is_finished(), "acknowledged by a server that hangs");
    proxy.open();
    work.joined(adding)?;
    work.each_ran_once(2 * JOBS)
}

fn leaves(database: &dyn Database) -> Result<Ended> {
    let (first, other) = (Proxy::before(database.url())?, Proxy::before(database.url())?);
    let both = format!("{},{}", first.address(), other.address());
    let url = first.url_of(database.url()).replace(&first.address().to_string(), &both);
    // So that all connections lead to the first.
    other.stall();
    let work = Work::start(database, &url)?;
    work.joined(work.add(0..JOBS))?;
    other.open();
    first.stall();
    let adding = work.add(JOBS..2 * JOBS);
    work.a_commit_fails()?;
    work.joined(adding).context("the other host is not tried")?;
    work.each_ran_once(2 * JOBS)?;
    // It wakes, with all that was held up on its way.
    first.open();
    work.joined(work.add(2 * JOBS..3 * JOBS))?;
    work.each_ran_once(3 * JOBS)
}

/// Hence on a store, and what its handler did.
struct Work {
    store: Arc<dyn Store>,
    hence: Hence,
    runtime: Runtime,
    ran: Arc<Mutex<Vec<u64>>>,
    failures: Arc<Failures>,
}

/// Counts commits that will be tried again.
#[derive(Default)]
struct Failures(AtomicU32);

impl Observer for Failures {
    fn observe(&self, event: Event<'_>) {
        if let Event::CommitFailed { error } = event {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Work {
    fn start(database: &dyn Database, url: &str) -> Result<Self> {
        let runtime = Runtime::new()?;
        let store = database.open(&runtime, url)?;
        let (ran, failures) = (Arc::<Mutex<Vec<u64>>>::default(), Arc::<Failures>::default());
        let noted = Arc::clone(&ran);
        let handler = move |number: u64, _| {
            noted.lock().unwrap_or_else(PoisonError::into_inner).push(number);
            std::future::ready(Ok(()))
        };
        let observer: Arc<dyn Observer> = Arc::clone(&failures) as _;
        let builder = Hence::builder(Arc::clone(&store)).observer(observer);
        let hence = runtime.block_on(builder.handler("note", handler)?.start())?;
        Ok(Work { store, hence, runtime, ran, failures })
    }

    /// Begins to add jobs that are due at once.
    fn add(&self, numbers: std::ops::Range<u64>) -> JoinHandle<Result<()>> {
        let client = self.hence.client();
        self.runtime.spawn(add(client, numbers.collect()))
    }

    /// They were acknowledged.
    fn joined(&self, adding: JoinHandle<Result<()>>) -> Result<()> {
        let ended = async { tokio::time::timeout(PATIENCE, adding).await };
        self.runtime.block_on(ended).context("not acknowledged")??
    }

    fn a_commit_fails(&self) -> Result<()> {
        let failed = || (self.failures.0.load(Ordering::SeqCst) > 0).then_some(());
        until(PATIENCE, failed).context("no commit ended with an error")
    }

    fn each_ran_once(&self, jobs: u64) -> Result<Ended> {
        let ran = || self.ran.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let succeeded = || {
            let queue =
                self.runtime.block_on(self.hence.client().queue(QueueName::default_queue()));
            (queue.ok()?.counts.succeeded == jobs).then_some(())
        };
        let ended = until(PATIENCE, succeeded);
        ended.with_context(|| format!("{} of {jobs} jobs ran", ran().len()))?;
        let mut ran = ran();
        ran.sort_unstable();
        ensure!(ran == (0..jobs).collect::<Vec<_>>(), "{ran:?}");
        Ok(Ended::Passed)
    }
}

async fn add(client: Client, numbers: Vec<u64>) -> Result<()> {
    for number in numbers {
        client.add(NewJob::handler("note")?.json(&number)?).await?;
    }
    Ok(())
}
