//! The engine itself: the store, what is kept in memory of it, and the one writer.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hence_core::id::{Epoch, ShardId};
use hence_store::{ErrorKind, ShardBatch, StoreError, codec};

use crate::draft::{Draft, Effects, Output};
use crate::error::{failed, failed_to_open};
use crate::keys::{self, KeyBuffer};
use crate::kv::disk::Disk;
use crate::kv::{Kv, OpenReport, Options, Read, WriteBatch};
use crate::read::{each_with_prefix, queue_in};
use crate::shard::{Front, Held, Holder, Shard};
use crate::sweep::SweptUntil;
use crate::values::{self, ShardRecord};

pub(crate) struct Engine {
    pub(crate) kv: Kv,
    shards: Vec<RwLock<Shard>>,
    writer: Mutex<Writer>,
    pub(crate) swept_until: Arc<SweptUntil>,
}

/// Held by whoever changes the store; its buffers are used again and again.
#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) batch: WriteBatch,
    pub(crate) key: KeyBuffer,
}

impl Engine {
    /// Opens or makes the store; `shards` counts when it is made.
    pub(crate) fn open(
        dir: &Path,
        shards: u16,
        options: Options,
        disk: Arc<dyn Disk>,
    ) -> Result<(Self, OpenReport), StoreError> {
        let swept_until = Arc::new(SweptUntil::new());
        let options = Options { expiry: Some(swept_until.clone()), ..options };
        let (kv, report) = Kv::open(dir, options, disk).map_err(failed_to_open)?;
        let count = shards_of(&kv, shards)?;
        let mut shards = Vec::with_capacity(usize::from(count));
        for number in 0..count {
            let shard = load(&kv, ShardId(number))?;
            swept_until.set(ShardId(number), shard.swept_until);
            shards.push(RwLock::new(shard));
        }
        let writer = Mutex::new(Writer::default());
        Ok((Engine { kv, shards, writer, swept_until }, report))
    }

    pub(crate) fn shards(&self) -> u16 {
        self.shards.len() as u16
    }

    /// The shard, to look at. Never held while the store is read: a commit takes the two in the
    /// other order.
    pub(crate) fn shard(&self, shard: ShardId) -> Result<RwLockReadGuard<'_, Shard>, StoreError> {
        Ok(self.cell(shard)?.read().expect(PANICKED))
    }

    pub(crate) fn shard_mut(
        &self,
        shard: ShardId,
    ) -> Result<RwLockWriteGuard<'_, Shard>, StoreError> {
        Ok(self.cell(shard)?.write().expect(PANICKED))
    }

    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().expect(PANICKED)
    }

    /// Commits the batches, all or none.
    pub(crate) fn commit(&self, batches: Vec<ShardBatch>) -> Result<(), StoreError> {
        let mut writer = self.writer();
        let writer = &mut *writer;
        writer.batch.clear();
        let mut groups: Vec<(ShardId, Vec<ShardBatch>)> = Vec::new();
        for batch in batches {
            match groups.iter_mut().find(|(shard, _)| *shard == batch.shard) {
                Some((_, group)) => group.push(batch),
                None => groups.push((batch.shard, vec![batch])),
            }
        }
        let mut effects = Vec::new();
        let mut out = Output::new(&self.kv, &mut writer.batch, &mut writer.key);
        for (shard, group) in groups {
            effects.extend(self.draft(shard, group, &mut out)?.map(|effects| (shard, effects)));
        }
        if effects.is_empty() {
            return Ok(());
        }
        let then = || self.apply(effects);
        self.kv.commit_then(&mut writer.batch, then).map_err(failed("commit")).map(drop)
    }

    /// Takes the shard over.
    pub(crate) fn acquire(&self, shard: ShardId, node: String) -> Result<Epoch, StoreError> {
        let mut writer = self.writer();
        writer.batch.clear();
        let epoch = Epoch(self.shard(shard)?.epoch.0 + 1);
        self.commit_shard_record(shard, &mut writer, |record| {
            record.epoch = epoch;
            record.sequence = 0;
            record.node = node;
        })?;
        self.shard_mut(shard)?.owned = true;
        Ok(epoch)
    }

    /// Gives the shard up, if this is still its epoch. That is not stored: after a restart no
    /// shard is owned anyway. How far the log goes is, since this is how an orderly end begins.
    pub(crate) fn release(&self, shard: ShardId, epoch: Epoch) -> Result<(), StoreError> {
        let _writer = self.writer();
        let mut state = self.shard_mut(shard)?;
        if state.epoch == epoch {
            state.owned = false;
        }
        drop(state);
        self.kv.vouch().map_err(failed("close the store"))
    }

    /// Commits what is in the writer's batch together with the shard's own record.
    pub(crate) fn commit_shard_record(
        &self,
        shard: ShardId,
        writer: &mut Writer,
        change: impl FnOnce(&mut ShardRecord),
    ) -> Result<(), StoreError> {
        let mut record = {
            let state = self.shard(shard)?;
            ShardRecord {
                epoch: state.epoch,
                sequence: state.sequence,
                next_number: state.next_number,
                swept_until: state.swept_until,
                node: state.node.clone(),
            }
        };
        change(&mut record);
        writer.batch.put_with(writer.key.shard(shard), |value| record.encode(value));
        let then = || {
            let mut state = self.shards[usize::from(shard.0)].write().expect(PANICKED);
            state.epoch = record.epoch;
            state.sequence = record.sequence;
            state.node.clone_from(&record.node);
            self.swept_until.set(shard, record.swept_until);
        };
        self.kv.commit_then(&mut writer.batch, then).map_err(failed("commit")).map(drop)
    }

    /// Writes the batches of one shard; `None` if all of them were applied before.
    fn draft(
        &self,
        shard: ShardId,
        batches: Vec<ShardBatch>,
        out: &mut Output<'_>,
    ) -> Result<Option<Effects>, StoreError> {
        let state = self.shard(shard)?;
        let mut draft = Draft::new(shard, &state);
        let before = draft.sequence();
        draft.expect(&batches);
        for batch in batches {
            check(&state, &batch, draft.sequence())?;
            if batch.sequence > draft.sequence() {
                draft.add(batch, out)?;
            }
        }
        let changed = draft.sequence() > before;
        Ok(changed.then(|| draft.finish(out)))
    }

    fn apply(&self, effects: Vec<(ShardId, Effects)>) {
        for (shard, effects) in effects {
            let mut state = self.shards[usize::from(shard.0)].write().expect(PANICKED);
            effects.apply(&mut state);
            self.swept_until.set(shard, state.swept_until);
        }
    }

    fn cell(&self, shard: ShardId) -> Result<&RwLock<Shard>, StoreError> {
        let missing = || StoreError::new(ErrorKind::Unsupported, format!("there is no {shard:?}"));
        self.shards.get(usize::from(shard.0)).ok_or_else(missing)
    }
}

const PANICKED: &str = "a thread of the engine panicked; its state cannot be trusted";

/// Whether the batch may be applied: the fence holds, the sequence has no gap.
fn check(state: &Shard, batch: &ShardBatch, sequence: u64) -> Result<(), StoreError> {
    let ShardBatch { shard, epoch, .. } = batch;
    if !state.owned || state.epoch != *epoch {
        let now = state.epoch;
        let message = format!("commit to {shard:?} under {epoch:?}: it is {now:?} now");
        return Err(StoreError::new(ErrorKind::Fenced, message));
    }
    if batch.sequence > sequence + 1 {
        let message = format!("commit to {shard:?}: {} after {sequence}", batch.sequence);
        return Err(StoreError::new(ErrorKind::Unsupported, message));
    }
    Ok(())
}

/// How many shards the store has; a new store gets as many as are asked for.
fn shards_of(kv: &Kv, asked: u16) -> Result<u16, StoreError> {
    let found = kv.get(keys::STORE).map_err(failed("read the store"))?;
    if let Some(value) = found {
        return values::decode_store(&value);
    }
    let mut batch = WriteBatch::new();
    batch.put_with(keys::STORE, |value| values::encode_store(asked, value));
    kv.commit(&batch).map_err(failed("make the store"))?;
    Ok(asked)
}

/// Reads back what is kept of a shard in memory.
fn load(kv: &Kv, shard: ShardId) -> Result<Shard, StoreError> {
    let mut state = Shard::default();
    let mut key = KeyBuffer::default();
    let record = kv.get(key.shard(shard)).map_err(failed("read a shard"))?;
    if let Some(record) = record.map(|value| ShardRecord::decode(&value)).transpose()? {
        state.epoch = record.epoch;
        state.sequence = record.sequence;
        state.next_number = record.next_number;
        state.swept_until = record.swept_until;
        state.node = record.node;
    }
    let malformed = || values::malformed("key");
    let number = |key: &[u8]| keys::number_in(key).ok_or_else(malformed);
    each_with_prefix(kv, &keys::prefix(keys::COUNTS, shard), |key, value| {
        state.counts.insert(queue_in(key)?, codec::decode_counts(&value)?);
        Ok(())
    })?;
    each_with_prefix(kv, &keys::prefix(keys::QUEUE, shard), |key, _| {
        state.queues.insert(queue_in(key)?, Front::default());
        Ok(())
    })?;
    each_with_prefix(kv, &keys::prefix(keys::LEASE, shard), |key, value| {
        let (due_at, queue, lease) = values::decode_lease(&value)?;
        state.leases.insert(number(key)?, Held { queue, due_at, lease });
        Ok(())
    })?;
    each_with_prefix(kv, &keys::prefix(keys::HOLDER, shard), |key, value| {
        let (due_at, queue) = values::decode_holder(&value)?;
        state.holders.insert(number(key)?, Holder { queue, due_at });
        Ok(())
    })?;
    each_with_prefix(kv, &keys::prefix(keys::LIVE_ATTEMPT, shard), |key, _| {
        state.attempted.insert(number(key)?);
        Ok(())
    })?;
    Ok(state)
}
