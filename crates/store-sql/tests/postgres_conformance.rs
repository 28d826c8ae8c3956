//! The table of promises, on a PostgreSQL server. One server for all cases, a schema for each.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use hence_core::time::{Millis, Timestamp};
use hence_store::conformance::{self, Arguments, Harness};
use hence_store::{Store, StoreError};
use hence_store_sql::postgres::{self, Options};
use hence_testkit::suite::{Ended, run_trials, trial};
use hence_testkit::{Missing, Postgres};

/// The instant around which the cases play.
const CASES_PLAY_AT: i64 = 1_789_000_000_000;

/// A schema of its own for each case.
struct Schema {
    url: String,
}

impl Harness for Schema {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, StoreError>> {
        // Few and short slots, so that the cases meet their borders and what lies elsewhere.
        let options = Options {
            shards: 4,
            slot_width: Millis::new(200),
            slots_ahead: 3,
            ..Options::new(Timestamp::from_millis(CASES_PLAY_AT))
        };
        let opened = postgres::open(&self.url, &options);
        async move { opened.await.map(|store| Arc::new(store) as Arc<dyn Store>) }.boxed()
    }
}

fn main() -> ExitCode {
    let server = Postgres::start_with(&["fsync = off", "max_connections = 200"]);
    let database = server.as_ref().map(Postgres::database);
    let url = match (&server, database) {
        (Err(error), _) if error.is::<Missing>() => return skip(&error.to_string()),
        (_, Ok(Ok(url))) => url,
        (_, other) => panic!("PostgreSQL does not start: {other:?}"),
    };
    let next = Arc::new(AtomicU32::new(0));
    let make = move || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        Schema { url: format!("{url}?schema=case_{number}") }
    };
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(2));
    conformance::run(&arguments, "postgres", make).exit_code()
}

/// Every case by its name, as what it is: not run.
fn skip(reason: &str) -> ExitCode {
    let skipped = |case: &'static conformance::Case| {
        let reason = reason.to_string();
        trial(format!("postgres/{}", case.name), move || Ok(Ended::Skipped(reason)))
    };
    run_trials(conformance::cases().map(skipped).collect(), 1).exit_code()
}
