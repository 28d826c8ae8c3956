//! What goes when its time is up.
//!
//! Most finished jobs are never removed: once their time is up they are no longer shown, and they
//! are left out when tables are merged. Only dead jobs are removed one by one, because each must
//! be reported exactly once.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use hence_core::change::FinishedPlace;
use hence_core::id::{JobName, JobNumber, QueueName, ShardId};
use hence_core::job::Outcome;
use hence_core::queue::Counts;
use hence_core::time::{Millis, Timestamp};
use hence_store::{StoreError, codec};

use crate::draft::Output;
use crate::engine::Engine;
use crate::error::failed;
use crate::keys::{self, KeyBuffer};
use crate::kv::{Direction, Expiry, Read, Span, WriteBatch};
use crate::read::{decode_finished, each_with_prefix, scan};
use crate::values::{self, Spot};

/// How long finished jobs whose time is up stay on an idle disk at most before that is noted.
const SWEEP_EVERY: Millis = Millis::from_secs(60);

/// Until when each shard was swept, as far as that is stored: what was to be kept until then may
/// be left out of merged tables, for nobody will ask for it again, whatever their clock says.
#[derive(Debug)]
pub(crate) struct SweptUntil {
    shards: Vec<AtomicU64>,
    /// The latest of all.
    latest: AtomicU64,
}

impl SweptUntil {
    pub(crate) fn new() -> Self {
        let shards = (0..=u16::MAX).map(|_| AtomicU64::new(0)).collect();
        SweptUntil { shards, latest: AtomicU64::new(0) }
    }

    pub(crate) fn set(&self, shard: ShardId, until: Timestamp) {
        self.shards[usize::from(shard.0)].store(ordered(until), Ordering::Release);
        self.latest.fetch_max(ordered(until), Ordering::AcqRel);
    }

    fn is_behind(&self, shard: ShardId, instant: Timestamp) -> bool {
        self.shards[usize::from(shard.0)].load(Ordering::Acquire) < ordered(instant)
    }
}

impl Expiry for SweptUntil {
    fn deadline(&self, key: &[u8], value: &[u8]) -> Option<u64> {
        keep_until(key, value).map(ordered)
    }

    fn is_over(&self, key: &[u8], deadline: u64) -> bool {
        let shard = u16::from_be_bytes([key[1], key[2]]);
        deadline <= self.shards[usize::from(shard)].load(Ordering::Acquire)
    }

    fn reached(&self) -> u64 {
        self.latest.load(Ordering::Acquire)
    }
}

/// An instant as a number that is larger when it is later.
fn ordered(instant: Timestamp) -> u64 {
    u64::from_be_bytes(keys::instant_bytes(instant))
}

/// Until when an entry is kept; `None` for those that do not go by themselves.
fn keep_until(key: &[u8], value: &[u8]) -> Option<Timestamp> {
    match *key.first()? {
        keys::KEPT_ATTEMPT => values::kept_until(value),
        keys::NAME => Spot::keep_until(value),
        keys::FINISHED => {
            let outcome = key.get(key.len().checked_sub(17)?)?;
            let dead = keys::outcome_byte(Outcome::Dead);
            (*outcome != dead).then(|| values::kept_until(value))?
        }
        _ => None,
    }
}

struct Dead {
    /// The key under which it waits to be swept.
    key: Vec<u8>,
    name: JobName,
    place: FinishedPlace,
}

impl Engine {
    pub(crate) fn sweep(
        &self,
        shard: ShardId,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<(QueueName, u64)>, StoreError> {
        let mut writer = self.writer();
        {
            let mut state = self.shard_mut(shard)?;
            state.swept_until = state.swept_until.max(now);
        }
        let dead = self.dead_until(shard, now, limit)?;
        if dead.is_empty() && !self.sweeps_enough(shard, now) {
            return Ok(Vec::new());
        }
        let mut swept: BTreeMap<QueueName, u64> = BTreeMap::new();
        writer.batch.clear();
        let writer = &mut *writer;
        let mut out = Output::new(&self.kv, &mut writer.batch, &mut writer.key);
        for dead in dead {
            if self.remove_dead(shard, &dead, now, &mut out)? {
                *swept.entry(dead.name.queue).or_default() += 1;
            }
        }
        let counts = self.counts_without(shard, &swept)?;
        for (queue, counts) in &counts {
            let key = out.key.named(keys::COUNTS, shard, queue.as_str());
            out.batch.put_with(key, |value| codec::encode_counts(counts, value));
        }
        self.commit_shard_record(shard, writer, |_| {})?;
        self.shard_mut(shard)?.counts.extend(counts);
        self.kv.expire().map_err(failed("sweep"))?;
        Ok(swept.into_iter().collect())
    }

    /// The counts of these queues once so many dead jobs of them are gone. The owner will say the
    /// same when it has heard of the sweep, but it may end before that, and whoever comes next
    /// believes what is stored.
    fn counts_without(
        &self,
        shard: ShardId,
        swept: &BTreeMap<QueueName, u64>,
    ) -> Result<Vec<(QueueName, Counts)>, StoreError> {
        let state = self.shard(shard)?;
        let lowered = swept.iter().filter_map(|(queue, gone)| {
            let counts = state.counts.get(queue)?;
            let dead = counts.dead.saturating_sub(*gone);
            Some((queue.clone(), Counts { dead, ..*counts }))
        });
        Ok(lowered.collect())
    }

    /// Whether so much time is up that it is worth a commit to let it go from the disk as well.
    fn sweeps_enough(&self, shard: ShardId, now: Timestamp) -> bool {
        self.swept_until.is_behind(shard, now.minus(SWEEP_EVERY))
    }

    fn dead_until(
        &self,
        shard: ShardId,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Dead>, StoreError> {
        let from = keys::prefix(keys::DEAD, shard);
        let to = KeyBuffer::default().dead(shard, now, JobNumber(u64::MAX)).to_vec();
        let mut found = Vec::new();
        scan(&self.kv, Span::between(&from, &to), Direction::Forward, |key, value| {
            if found.len() == limit {
                return Ok(ControlFlow::Break(()));
            }
            let waits = keys::place_in(key).ok_or_else(|| values::malformed("dead job"))?;
            let (at, name) = values::decode_dead(&value)?;
            let place = FinishedPlace { outcome: Outcome::Dead, at, number: waits.number };
            found.push(Dead { key: key.to_vec(), name, place });
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// Removes what is left of a dead job; `false` if it was forgotten or revived before.
    fn remove_dead(
        &self,
        shard: ShardId,
        dead: &Dead,
        now: Timestamp,
        out: &mut Output<'_>,
    ) -> Result<bool, StoreError> {
        out.batch.delete(&dead.key);
        let key = out.key.finished(shard, &dead.name.queue, dead.place);
        let stored = self.kv.get(key).map_err(failed("read a dead job"))?;
        let done = stored.map(|value| decode_finished(&value)).transpose()?;
        // It may have died again at the same instant, to be kept longer.
        if done.is_none_or(|done| done.finish.is_kept(now)) {
            return Ok(false);
        }
        out.batch.delete(key);
        let spot = self.kv.get(out.key.name(shard, &dead.name)).map_err(failed("read a name"))?;
        let spot = spot.map(|value| Spot::decode(&value)).transpose()?;
        if matches!(spot, Some(Spot::Finished { place, .. }) if place == dead.place) {
            out.batch.delete(out.key.name(shard, &dead.name));
        }
        let prefix = keys::number_prefix(keys::KEPT_ATTEMPT, shard, dead.place.number);
        let batch: &mut WriteBatch = out.batch;
        each_with_prefix(&self.kv, &prefix, |key, _| {
            batch.delete(key);
            Ok(())
        })?;
        Ok(true)
    }
}
