//! The whole conformance table on a real server, twice: with slots around the times of the cases,
//! so that rows are added and dropped by the slot, and far away from them, so that all of them are
//! deleted one by one.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use hence_core::time::{Millis, Timestamp};
use hence_store::conformance::{self, Arguments, Harness};
use hence_store::{Store, StoreError};
use hence_store_sql::{Options, mysql};
use hence_testkit::{MariaDb, suite};

/// Where one case keeps its tables.
struct Prefix {
    url: String,
    options: Options,
}

impl Harness for Prefix {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, StoreError>> {
        let opening = mysql::open(&self.url, &self.options);
        async move {
            let store: Arc<dyn Store> = Arc::new(opening.await?);
            Ok(store)
        }
        .boxed()
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let started = MariaDb::start().and_then(|server| {
        let url = server.database()?;
        Ok((server, url))
    });
    let (server, url) = match started {
        Ok(started) => started,
        Err(error) => {
            let why = suite::trial("mysql/conformance".to_owned(), move || Err(error));
            return suite::run_trials(vec![why], 1).exit_code();
        }
    };
    let near = Options {
        now: Timestamp::from_millis(100),
        shards: 4,
        slot_width: Millis::new(20),
        slots_ahead: 5,
    };
    let far = Options {
        now: Timestamp::from_millis(1_789_000_000_000),
        slot_width: Millis::from_secs(3600),
        slots_ahead: 1,
        ..near
    };
    let mut well = true;
    for (engine, options) in [("mysql, near", near), ("mysql, far", far)] {
        let url = url.clone();
        let conclusion = conformance::run(&arguments, engine, move || {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            Prefix { url: format!("{url}?prefix=c{number}_"), options: options.clone() }
        });
        well &= !conclusion.has_failed();
    }
    drop(server);
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
