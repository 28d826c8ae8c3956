//! The reference engine keeps its own promises.

use std::process::ExitCode;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use hence_core::id::LetterId;
use hence_core::time::Timestamp;
use hence_store::conformance::{self, Harness};
use hence_store::{Capabilities, MemoryStore, Store, StoreError};

struct Memory(MemoryStore);

impl Harness for Memory {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, StoreError>> {
        let store: Arc<dyn Store> = Arc::new(self.0.clone());
        std::future::ready(Ok(store)).boxed()
    }

    fn keeps(&self, _: &Capabilities) -> bool {
        true // this value outlives the handles that the cases drop
    }

    fn write_letter(&self, body: &'static str) -> Option<BoxFuture<'_, LetterId>> {
        Some(async move { self.0.write_letter(Timestamp::from_millis(0), body) }.boxed())
    }
}

fn main() -> ExitCode {
    conformance::main("memory", || Memory(MemoryStore::new(4)))
}
