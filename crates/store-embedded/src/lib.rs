//! The embedded engine: an append-only log and sorted tables in one directory.
//!
//! One process, one directory, no server. [`EmbeddedStore`] keeps the promises of
//! [`hence_store::Store`] on top of [`kv`], which knows nothing of jobs. The engine holds no
//! rules: it turns facts into keys (`draft`), and keys into answers (`read`, `list`, `sweep`).
//!
//! Calls do their work on the thread that polls them, and a commit waits for the disk: call them
//! from a thread that may wait.
//!
//! ```
//! use hence_store::Store;
//! use hence_store_embedded::{EmbeddedStore, Settings};
//!
//! let directory = tempfile::tempdir()?;
//! let store = EmbeddedStore::open(directory.path(), &Settings::default())?;
//! assert_eq!(store.capabilities().engine, "embedded");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attempts;
mod draft;
mod engine;
mod error;
mod keys;
pub mod kv;
mod ledgers;
mod list;
mod mend;
mod names;
mod read;
mod shard;
mod sweep;
#[cfg(test)]
mod tests;
mod values;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use futures::FutureExt;
use hence_core::change::Place;
use hence_core::id::{Epoch, JobName, JobNumber, QueueName, ShardId};
use hence_core::job::AttemptRecord;
use hence_core::schedule::OccurrenceRecord;
use hence_core::time::Timestamp;
use hence_store::{
    Answer, Capabilities, LedgerRequest, ListRequest, LiveJob, Page, Pressure, Recovered,
    ShardBatch, Store, StoreError, StoredJob, Tier,
};

pub use mend::repair;

use engine::Engine;
use kv::disk::{Disk, RealDisk};
use kv::{OpenReport, Options, failing_disk};

/// Shards of a store that is made without a number: one process owns them all, and one writer
/// serves them all.
pub const SHARDS_DEFAULT: u16 = 1;

/// A store in a directory. Clones share it; the directory is free again when the last is dropped.
#[derive(Clone)]
pub struct EmbeddedStore {
    engine: Arc<Engine>,
    opened: Arc<OpenReport>,
}

/// What counts when a store is made; an existing one is opened as it is.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many shards it has.
    pub shards: u16,
    /// Its identity; random.
    pub store_id: [u8; 16],
    /// When it is made.
    pub created_at: Timestamp,
}

impl Default for Settings {
    fn default() -> Self {
        let mut store_id = [0; 16];
        store_id[..8].copy_from_slice(&RealDisk.entropy().to_le_bytes());
        store_id[8..].copy_from_slice(&RealDisk.entropy().to_le_bytes());
        Settings { shards: SHARDS_DEFAULT, store_id, created_at: Timestamp::EPOCH }
    }
}

impl EmbeddedStore {
    /// Opens the store in the directory, or makes it.
    pub fn open(dir: &Path, settings: &Settings) -> Result<Self, StoreError> {
        let options = failing_disk::sized(Options::new(settings.store_id));
        Self::open_with(dir, settings, options, failing_disk::disk())
    }

    /// The same, with everything that can be chosen; for tests, simulation and measurements.
    pub fn open_with(
        dir: &Path,
        settings: &Settings,
        options: Options,
        disk: Arc<dyn Disk>,
    ) -> Result<Self, StoreError> {
        assert!(settings.shards > 0, "a store has at least one shard");
        let created_at_ms = settings.created_at.as_millis().max(0) as u64;
        let options = Options { store_id: settings.store_id, created_at_ms, ..options };
        let (engine, opened) = Engine::open(dir, settings.shards, options, disk)?;
        Ok(EmbeddedStore { engine: Arc::new(engine), opened: Arc::new(opened) })
    }

    /// What was found when the store was opened.
    pub fn opened(&self) -> &OpenReport {
        &self.opened
    }

    /// The store below, for figures and maintenance. Never write to it.
    pub fn kv(&self) -> &kv::Kv {
        &self.engine.kv
    }
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("EmbeddedStore").field("kv", &self.engine.kv).finish_non_exhaustive()
    }
}

impl Store for EmbeddedStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            engine: "embedded",
            tier: Tier::Durable,
            shared: false,
            inbox: false,
            persistent: true,
            shards: self.engine.shards(),
            notes: vec!["fdatasync before every answer".to_owned()],
        }
    }

    fn commit(&self, batches: Vec<ShardBatch>) -> Answer<'_, ()> {
        async move { self.engine.commit(batches) }.boxed()
    }

    fn due(
        &self,
        shard: ShardId,
        queue: QueueName,
        after: Place,
        limit: usize,
    ) -> Answer<'_, Vec<LiveJob>> {
        async move { self.engine.due(shard, &queue, after, limit) }.boxed()
    }

    fn recover(&self, shard: ShardId) -> Answer<'_, Recovered> {
        async move { self.engine.recover(shard) }.boxed()
    }

    fn get(
        &self,
        shard: ShardId,
        names: Vec<JobName>,
        now: Timestamp,
    ) -> Answer<'_, Vec<Option<StoredJob>>> {
        async move { self.engine.get(shard, &names, now) }.boxed()
    }

    fn list(&self, shard: ShardId, request: ListRequest) -> Answer<'_, Page> {
        async move { self.engine.list(shard, &request) }.boxed()
    }

    fn attempts(
        &self,
        shard: ShardId,
        name: JobName,
        number: JobNumber,
    ) -> Answer<'_, Vec<AttemptRecord>> {
        async move { self.engine.attempts(shard, &name, number) }.boxed()
    }

    fn occurrences(
        &self,
        shard: ShardId,
        request: LedgerRequest,
    ) -> Answer<'_, Vec<OccurrenceRecord>> {
        async move { self.engine.occurrences(shard, &request) }.boxed()
    }

    fn sweep(
        &self,
        shard: ShardId,
        now: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<(QueueName, u64)>> {
        async move { self.engine.sweep(shard, now, limit) }.boxed()
    }

    fn acquire(&self, shard: ShardId, node: String) -> Answer<'_, Epoch> {
        async move { self.engine.acquire(shard, node) }.boxed()
    }

    fn release(&self, shard: ShardId, epoch: Epoch) -> Answer<'_, ()> {
        async move { self.engine.release(shard, epoch) }.boxed()
    }

    fn pressure(&self) -> Pressure {
        match self.engine.kv.pressure() {
            kv::Pressure::Normal => Pressure::Normal,
            kv::Pressure::Full => Pressure::Full,
        }
    }

    fn health(&self) -> Result<(), StoreError> {
        self.engine.kv.health().map_err(error::failed("write in the background"))
    }
}
