//! Makes the engine's own bookkeeping agree with the jobs again, after a repair of the files had
//! to give something up. A record that was lost may have been the one that made a queue known, a
//! name found, or a count right; the jobs themselves say all of that once more.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use hence_core::change::Place;
use hence_core::id::{JobNumber, QueueName, ShardId};
use hence_core::job::Outcome;
use hence_store::{StoreError, codec};

use crate::engine::Engine;
use crate::error::{failed, failed_to_open};
use crate::keys::{self, KeyBuffer};
use crate::kv::disk::Disk;
use crate::kv::{self, Kv, Options, Read, RepairReport, WriteBatch};
use crate::read::each_with_prefix;
use crate::values::{self, Spot};
use crate::{SHARDS_DEFAULT, Settings};

/// Changes in one commit of the mending.
const MENDED_AT_ONCE: usize = 10_000;

/// Repairs the store in the directory; it must not be open. A sound store is left as it is.
pub fn repair(dir: &Path, disk: &Arc<dyn Disk>) -> Result<RepairReport, StoreError> {
    let report = kv::repair(dir, disk).map_err(failed_to_open)?;
    if report == RepairReport::default() {
        return Ok(report);
    }
    let options = Options::new(Settings::default().store_id);
    let (engine, _) = Engine::open(dir, SHARDS_DEFAULT, options, Arc::clone(disk))?;
    for shard in 0..engine.shards() {
        mend(&engine, ShardId(shard))?;
    }
    Ok(report)
}

/// What the jobs of a shard say about it.
#[derive(Default)]
struct Tally {
    queues: BTreeMap<QueueName, Held>,
    next_number: JobNumber,
}

/// What a queue holds.
#[derive(Default)]
struct Held {
    live: u64,
    running: u64,
    dead: u64,
}

fn mend(engine: &Engine, shard: ShardId) -> Result<(), StoreError> {
    let mut tally = Tally::default();
    let mut mender = Mender { kv: &engine.kv, batch: WriteBatch::new(), key: KeyBuffer::default() };
    mender.live(shard, &mut tally)?;
    mender.leases(shard, &mut tally)?;
    mender.dead(shard, &mut tally)?;
    mender.queues(shard, &tally)?;
    mender.write()?;
    let mut writer = engine.writer();
    writer.batch.clear();
    engine.commit_shard_record(shard, &mut writer, |record| {
        record.next_number = record.next_number.max(tally.next_number);
    })
}

struct Mender<'a> {
    kv: &'a Kv,
    batch: WriteBatch,
    key: KeyBuffer,
}

impl Mender<'_> {
    /// Every live job is in a queue and is found by its name.
    fn live(&mut self, shard: ShardId, tally: &mut Tally) -> Result<(), StoreError> {
        let mut names = Vec::new();
        each_with_prefix(self.kv, &keys::prefix(keys::LIVE, shard), |_, value| {
            let (job, progress) = codec::decode_live(&value)?;
            let place = Place { due_at: progress.due_at, number: job.number };
            tally.next_number = tally.next_number.max(JobNumber(job.number.0 + 1));
            tally.queues.entry(job.name.queue.clone()).or_default().live += 1;
            names.push((self.key.name(shard, &job.name).to_vec(), place));
            Ok(())
        })?;
        for (name, place) in names {
            self.batch.put_with(&name, |value| Spot::Live(place).encode(value));
            self.write_when_large()?;
        }
        Ok(())
    }

    /// A lease or a held key without its job is nothing.
    fn leases(&mut self, shard: ShardId, tally: &mut Tally) -> Result<(), StoreError> {
        let mut held = Vec::new();
        each_with_prefix(self.kv, &keys::prefix(keys::LEASE, shard), |key, value| {
            let (due_at, queue, _) = values::decode_lease(&value)?;
            held.push((key.to_vec(), due_at, queue));
            Ok(())
        })?;
        let leases = held.len();
        each_with_prefix(self.kv, &keys::prefix(keys::HOLDER, shard), |key, value| {
            let (due_at, queue) = values::decode_holder(&value)?;
            held.push((key.to_vec(), due_at, queue));
            Ok(())
        })?;
        for (nth, (key, due_at, queue)) in held.into_iter().enumerate() {
            let number = keys::number_in(&key).ok_or_else(|| values::malformed("key"))?;
            let place = Place { due_at, number };
            let job = self.kv.get(self.key.live(shard, &queue, place));
            if job.map_err(failed("read a job"))?.is_none() {
                self.batch.delete(&key);
                self.write_when_large()?;
            } else if nth < leases {
                tally.queues.entry(queue).or_default().running += 1;
            }
        }
        Ok(())
    }

    fn dead(&self, shard: ShardId, tally: &mut Tally) -> Result<(), StoreError> {
        each_with_prefix(self.kv, &keys::prefix(keys::FINISHED, shard), |_, value| {
            let (done, _) = codec::split_finished(&values::kept(&value)?)?;
            tally.next_number = tally.next_number.max(JobNumber(done.job.number.0 + 1));
            let held = tally.queues.entry(done.job.name.queue.clone()).or_default();
            held.dead += u64::from(done.finish.outcome == Outcome::Dead);
            Ok(())
        })
    }

    fn queues(&mut self, shard: ShardId, tally: &Tally) -> Result<(), StoreError> {
        for (queue, held) in &tally.queues {
            self.batch.put(self.key.named(keys::QUEUE, shard, queue.as_str()), &[]);
            let key = self.key.named(keys::COUNTS, shard, queue.as_str());
            let stored = self.kv.get(key).map_err(failed("read counts"))?;
            let mut counts = match stored {
                Some(value) => codec::decode_counts(&value)?,
                None => hence_core::queue::Counts::default(),
            };
            counts.running = held.running;
            counts.pending = held.live.saturating_sub(held.running);
            counts.dead = held.dead;
            self.batch.put_with(key, |value| codec::encode_counts(&counts, value));
            self.write_when_large()?;
        }
        Ok(())
    }

    fn write_when_large(&mut self) -> Result<(), StoreError> {
        if self.batch.len() >= MENDED_AT_ONCE { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), StoreError> {
        if !self.batch.is_empty() {
            self.kv.commit(&self.batch).map_err(failed("mend the store"))?;
            self.batch.clear();
        }
        Ok(())
    }
}
