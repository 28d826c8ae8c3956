//! The table of promises, on the embedded engine.

use std::process::ExitCode;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use hence_store::conformance::{self, Harness};
use hence_store::{Store, StoreError};
use hence_store_embedded::kv::Options;
use hence_store_embedded::kv::disk::RealDisk;
use hence_store_embedded::{EmbeddedStore, Settings};

/// A directory of its own for each case.
struct Embedded(tempfile::TempDir);

impl Harness for Embedded {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, StoreError>> {
        let settings = Settings { shards: 4, ..Settings::default() };
        // Small, so that the cases meet flushed and merged tables and not only the memtable.
        let options = Options {
            segment_bytes: 256 * 1024,
            memtable_bytes: 64 * 1024,
            ..Options::new(settings.store_id)
        };
        let opened =
            EmbeddedStore::open_with(self.0.path(), &settings, options, Arc::new(RealDisk));
        std::future::ready(opened.map(|store| Arc::new(store) as Arc<dyn Store>)).boxed()
    }
}

fn main() -> ExitCode {
    conformance::main("embedded", || Embedded(tempfile::tempdir().expect("a directory")))
}
