//! A place for a store that outlives whoever uses it, once for each engine.

use std::sync::Arc;

use hence::store::{MemoryStore, Store};
use hence_store_embedded::{EmbeddedStore, Settings};
use tempfile::TempDir;

/// Where a store is. Opened again, it holds what it held.
pub(crate) enum Disk {
    Memory(MemoryStore),
    Directory(TempDir),
}

impl Disk {
    /// An empty one in memory.
    pub(crate) fn memory() -> Self {
        Disk::Memory(MemoryStore::new(1))
    }

    /// An empty one in a directory.
    pub(crate) fn embedded() -> Self {
        Disk::Directory(tempfile::tempdir().unwrap())
    }

    /// An empty one for each engine, with its name.
    pub(crate) fn of_each_engine() -> [(&'static str, Self); 2] {
        [("memory", Self::memory()), ("embedded", Self::embedded())]
    }

    /// The store. Of the embedded engine only one can be open at a time.
    pub(crate) fn open(&self) -> Arc<dyn Store> {
        match self {
            Disk::Memory(store) => Arc::new(store.clone()),
            Disk::Directory(directory) => {
                Arc::new(EmbeddedStore::open(directory.path(), &Settings::default()).unwrap())
            }
        }
    }
}
