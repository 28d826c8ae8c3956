//! The attempts of jobs, while facts are being written.
//!
//! The attempt with which a job finished lies within the finished job: mostly it is the only one.
//! Earlier ones have entries of their own, and those of live jobs and of finished jobs lie apart:
//! the latter carry the instant until which they are kept, so that they go by themselves, without a
//! removal for each. When a job finishes, its earlier attempts move over; mostly there are none,
//! and that is known without reading.

use bytes::Bytes;
use hence_core::change::{Change, FinishedPlace};
use hence_core::id::{JobNumber, QueueName, ShardId};
use hence_core::job::AttemptRecord;
use hence_core::time::Timestamp;
use hence_store::{StoreError, codec};

use crate::draft::Output;
use crate::error::failed;
use crate::keys::{self, Order, instant_bytes};
use crate::kv::Read;
use crate::read::each_with_prefix;
use crate::shard::{NumberMap, NumberSet};
use crate::values;

/// One attempt, encoded.
type Encoded = (Order, Bytes);

#[derive(Debug)]
pub(crate) struct Attempts<'a> {
    shard: ShardId,
    /// Live jobs with stored attempts.
    attempted: &'a NumberSet,
    live: NumberMap<Touched>,
    /// All attempts of jobs that this commit itself finished, not to be found by reading: present
    /// if a fact in it may ask.
    kept: Option<NumberMap<Vec<Encoded>>>,
}

/// The attempts of a live job that this commit has touched.
#[derive(Debug)]
struct Touched {
    /// Whether there are stored ones as well.
    stored: bool,
    recorded: Vec<Encoded>,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(shard: ShardId, attempted: &'a NumberSet) -> Self {
        Attempts { shard, attempted, live: NumberMap::default(), kept: None }
    }

    /// These facts will come.
    pub(crate) fn expect(&mut self, changes: &[Change]) {
        let asks = |change: &Change| {
            matches!(change, Change::JobForgotten { .. } | Change::JobPut { revives: Some(_), .. })
        };
        if self.kept.is_none() && changes.iter().any(asks) {
            self.kept = Some(NumberMap::default());
        }
    }

    /// An attempt of a live job ended.
    pub(crate) fn record(
        &mut self,
        number: JobNumber,
        ended: &AttemptRecord,
        out: &mut Output<'_>,
    ) {
        self.put_live(number, (out.next_order(), encoded(ended)), out);
    }

    /// The job finished: its earlier attempts are kept for a while. The one that ended with it goes
    /// where the job goes.
    pub(crate) fn keep(
        &mut self,
        number: JobNumber,
        ended: Option<&AttemptRecord>,
        lies_until: Timestamp,
        out: &mut Output<'_>,
    ) -> Result<(), StoreError> {
        for (order, encoded) in self.take_live(number, out)? {
            let key = out.key.attempt(keys::KEPT_ATTEMPT, self.shard, number, order);
            out.batch.put_fresh_with(key, |value| {
                value.extend_from_slice(&instant_bytes(lies_until));
                value.extend_from_slice(&encoded);
            });
            self.note_kept(number, order, encoded);
        }
        if let Some(ended) = ended.filter(|_| self.kept.is_some()) {
            self.note_kept(number, out.next_order(), encoded(ended));
        }
        Ok(())
    }

    fn note_kept(&mut self, number: JobNumber, order: Order, encoded: Bytes) {
        if let Some(kept) = &mut self.kept {
            kept.entry(number).or_default().push((order, encoded));
        }
    }

    /// The finished job lives again under its number.
    pub(crate) fn revive(
        &mut self,
        queue: &QueueName,
        place: FinishedPlace,
        out: &mut Output<'_>,
    ) -> Result<(), StoreError> {
        let number = place.number;
        let finished_here = self.kept.as_ref().is_some_and(|kept| kept.contains_key(&number));
        let mut all = self.take_kept(number, out)?;
        if !finished_here {
            all.extend(self.stored_last(queue, place, out)?);
        }
        for attempt in all {
            self.put_live(number, attempt, out);
        }
        Ok(())
    }

    /// The attempt within a finished job.
    fn stored_last(
        &self,
        queue: &QueueName,
        place: FinishedPlace,
        out: &mut Output<'_>,
    ) -> Result<Option<Encoded>, StoreError> {
        let key = out.key.finished(self.shard, queue, place);
        let Some(value) = out.kv.get(key).map_err(failed("read a finished job"))? else {
            return Ok(None);
        };
        let (_, last) = codec::split_finished(&values::kept(&value)?)?;
        Ok((!last.is_empty()).then(|| (out.next_order(), last)))
    }

    /// Nothing is kept of the live job.
    pub(crate) fn drop_live(
        &mut self,
        number: JobNumber,
        out: &mut Output<'_>,
    ) -> Result<(), StoreError> {
        self.take_live(number, out).map(drop)
    }

    /// Nothing is kept of the finished job any more.
    pub(crate) fn drop_kept(
        &mut self,
        number: JobNumber,
        out: &mut Output<'_>,
    ) -> Result<(), StoreError> {
        self.take_kept(number, out).map(drop)
    }

    /// Which live jobs have stored attempts now and had none before, or the reverse.
    pub(crate) fn into_effects(self) -> NumberMap<bool> {
        let attempted = |touched: Touched| touched.stored || !touched.recorded.is_empty();
        self.live.into_iter().map(|(number, touched)| (number, attempted(touched))).collect()
    }

    fn put_live(&mut self, number: JobNumber, attempt: Encoded, out: &mut Output<'_>) {
        let key = out.key.attempt(keys::LIVE_ATTEMPT, self.shard, number, attempt.0);
        out.batch.put_fresh(key, &attempt.1);
        let stored = self.attempted.contains(&number);
        let touched = self.live.entry(number);
        let touched = touched.or_insert_with(|| Touched { stored, recorded: Vec::new() });
        touched.recorded.push(attempt);
    }

    fn take_live(
        &mut self,
        number: JobNumber,
        out: &mut Output<'_>,
    ) -> Result<Vec<Encoded>, StoreError> {
        let stored = self
            .live
            .get(&number)
            .map_or_else(|| self.attempted.contains(&number), |touched| touched.stored);
        let mut all = Vec::new();
        if stored {
            let prefix = keys::number_prefix(keys::LIVE_ATTEMPT, self.shard, number);
            each_with_prefix(out.kv, &prefix, |key, value| {
                let order = keys::order_in(key).ok_or_else(|| values::malformed("attempt"))?;
                all.push((order, value));
                Ok(())
            })?;
        }
        if let Some(touched) = self.live.get_mut(&number) {
            all.append(&mut touched.recorded);
        }
        if !all.is_empty() {
            self.live.insert(number, Touched { stored: false, recorded: Vec::new() });
        }
        for (order, _) in &all {
            let key = out.key.attempt(keys::LIVE_ATTEMPT, self.shard, number, *order);
            out.batch.delete(key);
        }
        Ok(all)
    }

    fn take_kept(
        &mut self,
        number: JobNumber,
        out: &mut Output<'_>,
    ) -> Result<Vec<Encoded>, StoreError> {
        let mut all = Vec::new();
        if let Some(kept) = self.kept.as_mut().and_then(|kept| kept.remove(&number)) {
            all = kept;
        } else {
            let prefix = keys::number_prefix(keys::KEPT_ATTEMPT, self.shard, number);
            each_with_prefix(out.kv, &prefix, |key, value| {
                let order = keys::order_in(key).ok_or_else(|| values::malformed("attempt"))?;
                all.push((order, values::kept(&value)?));
                Ok(())
            })?;
        }
        for (order, _) in &all {
            let key = out.key.attempt(keys::KEPT_ATTEMPT, self.shard, number, *order);
            out.batch.delete(key);
        }
        Ok(all)
    }
}

fn encoded(attempt: &AttemptRecord) -> Bytes {
    let mut bytes = Vec::new();
    codec::encode_attempt(attempt, &mut bytes);
    Bytes::from(bytes)
}
