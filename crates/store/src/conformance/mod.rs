//! The table of cases that every engine must pass: the promises S1 to S15, made executable.
//!
//! An engine's `tests/conformance.rs` (with `harness = false`) is a [`Harness`] and one call:
//!
//! ```
//! use std::sync::Arc;
//!
//! use futures::FutureExt;
//! use futures::future::BoxFuture;
//! use hence_store::conformance::{self, Harness};
//! use hence_store::{MemoryStore, Store, StoreError};
//!
//! struct Memory(MemoryStore);
//!
//! impl Harness for Memory {
//!     fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, StoreError>> {
//!         let store: Arc<dyn Store> = Arc::new(self.0.clone());
//!         std::future::ready(Ok(store)).boxed()
//!     }
//! }
//!
//! // In an engine: `fn main() -> ExitCode { conformance::main("memory", || …) }`
//! let arguments = conformance::Arguments { quiet: true, ..Default::default() };
//! let conclusion = conformance::run(&arguments, "memory", || Memory(MemoryStore::new(4)));
//! assert!(!conclusion.has_failed());
//! ```
//!
//! A case that an engine's capabilities exclude is shown as ignored, never as passed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;

use futures::future::BoxFuture;
pub use libtest_mimic::{Arguments, Conclusion};
use libtest_mimic::{Completion, Failed, Trial};

use hence_core::id::LetterId;

use crate::{Capabilities, Store, StoreError};

mod block;
mod build;
mod bytes;
mod commit;
mod concurrency;
mod due;
mod fencing;
mod fixture;
mod history;
mod letters;
mod lookup;
mod model;
mod moving;
mod order;
mod ownership;
mod paging;
mod precision;
mod pressure;
mod random;
mod recovery;
mod reopen;
mod tenure;

pub use fixture::{Fixture, Snapshot};

/// Every promise there is.
pub const PROMISES: [&str; 15] = [
    "S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9", "S10", "S11", "S12", "S13", "S14", "S15",
];

/// Where an engine keeps a store, and how to open it. One is made for each case.
pub trait Harness: Send + Sync + 'static {
    /// Opens the store: empty the first time, and with what it held whenever it is opened again, as
    /// after the end of a process. The handle opened before was dropped.
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, StoreError>>;

    /// Whether what was committed is there when the store is opened again. A harness may know
    /// better than the engine: the memory engine keeps nothing, its harness does.
    fn keeps(&self, capabilities: &Capabilities) -> bool {
        capabilities.persistent
    }

    /// Writes a letter, as a user of the engine would, in a transaction of their own. None: this
    /// harness cannot.
    fn write_letter(&self, _body: &'static str) -> Option<BoxFuture<'_, LetterId>> {
        None
    }

    /// Runs the work to its end on this thread. Called from several threads at once; engines that
    /// need a runtime give it here, and it must have threads of its own.
    fn block_on(&self, work: BoxFuture<'_, ()>) {
        block::block_on(work);
    }
}

/// One row of the table.
pub struct Case {
    /// `topic/what_must_hold`.
    pub name: &'static str,
    /// The promise it is about.
    pub promise: &'static str,
    /// False: the engine does not offer what this is about.
    pub needs: fn(&Capabilities) -> bool,
    /// Panics when the promise is broken.
    pub run: fn(Fixture) -> BoxFuture<'static, ()>,
}

/// Every case, topic by topic.
pub fn cases() -> impl Iterator<Item = &'static Case> {
    let topics = [
        commit::CASES,
        fencing::CASES,
        order::CASES,
        due::CASES,
        recovery::CASES,
        lookup::CASES,
        paging::CASES,
        ownership::CASES,
        bytes::CASES,
        history::CASES,
        precision::CASES,
        pressure::CASES,
        letters::CASES,
        tenure::CASES,
        reopen::CASES,
        concurrency::CASES,
        model::CASES,
        moving::CASES,
    ];
    topics.into_iter().flatten()
}

/// The whole of an engine's `main`: runs the table as the command line says.
pub fn main<H: Harness>(engine: &str, make: impl Fn() -> H + Clone + Send + 'static) -> ExitCode {
    run(&Arguments::from_args(), engine, make).exit_code()
}

/// Runs the table on an engine; `make` gives an empty place for each case.
pub fn run<H: Harness>(
    arguments: &Arguments,
    engine: &str,
    make: impl Fn() -> H + Clone + Send + 'static,
) -> Conclusion {
    let trial = |case: &'static Case| {
        let make = make.clone();
        let runner = move || attempt(case, &(Arc::new(make()) as Arc<dyn Harness>));
        Trial::ignorable_test(format!("{engine}/{}", case.name), runner).with_kind(case.promise)
    };
    libtest_mimic::run(arguments, cases().map(trial).collect())
}

fn attempt(case: &'static Case, harness: &Arc<dyn Harness>) -> Result<Completion, Failed> {
    let mut completion = Completion::ignored_with("the engine does not offer this");
    let work = async {
        let fixture = Fixture::open(Arc::clone(harness)).await;
        if (case.needs)(fixture.capabilities()) {
            (case.run)(fixture).await;
            completion = Completion::Completed;
        }
    };
    let ended = catch_unwind(AssertUnwindSafe(|| harness.block_on(Box::pin(work))));
    ended.map(|()| completion).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Failed::from(format!("{} is broken: {}", case.promise, text.unwrap_or_default()))
    })
}

/// What a case may need of an engine.
mod needs {
    use crate::Capabilities;

    pub(super) fn nothing(_: &Capabilities) -> bool {
        true
    }

    pub(super) fn two_shards(capabilities: &Capabilities) -> bool {
        capabilities.shards >= 2
    }

    pub(super) fn persistence(capabilities: &Capabilities) -> bool {
        capabilities.persistent
    }

    pub(super) fn inbox(capabilities: &Capabilities) -> bool {
        capabilities.inbox
    }

    pub(super) fn inbox_and_persistence(capabilities: &Capabilities) -> bool {
        inbox(capabilities) && persistence(capabilities)
    }

    pub(super) fn sharing(capabilities: &Capabilities) -> bool {
        capabilities.shared
    }

    pub(super) fn persistence_and_two_shards(capabilities: &Capabilities) -> bool {
        persistence(capabilities) && two_shards(capabilities)
    }
}

/// A topic's rows: promise, what it needs, and the function, whose name is the case's name.
macro_rules! table {
    ($topic:literal: $($promise:ident $needs:ident $case:ident;)+) => {
        pub(super) const CASES: &[crate::conformance::Case] = &[$(crate::conformance::Case {
            name: concat!($topic, "/", stringify!($case)),
            promise: stringify!($promise),
            needs: crate::conformance::needs::$needs,
            run: |fixture| Box::pin($case(fixture)),
        }),+];
    };
}
use table;
