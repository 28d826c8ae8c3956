//! From facts to stored keys, and to what changes in memory once they are durable.
//!
//! A draft changes nothing: it fills a write batch and collects effects, which are applied in the
//! instant in which the batch becomes visible, or dropped with it. Facts of one commit build on
//! each other, so the draft looks at its own effects before it looks at the shard.

use std::collections::BTreeMap;

use hence_core::change::{Change, FinishedPlace, LeaseGrant, Place};
use hence_core::id::{JobNumber, QueueName, ShardId, Token, WorkerName};
use hence_core::job::{AttemptRecord, Finish, Job, Lease, Outcome, Progress};
use hence_core::queue::Counts;
use hence_core::schedule::ScheduleProgress;
use hence_core::time::{Millis, Timestamp};
use hence_store::{ShardBatch, StoreError, codec};

use crate::attempts::Attempts;
use crate::keys::{self, KeyBuffer, Order};
use crate::kv::{Kv, WriteBatch};
use crate::ledgers::Ledgers;
use crate::names::Names;
use crate::shard::{Held, Holder, NumberMap, Shard};
use crate::values::{self, ShardRecord, Spot};

/// Where drafts write to.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    pub(crate) kv: &'a Kv,
    pub(crate) batch: &'a mut WriteBatch,
    pub(crate) key: &'a mut KeyBuffer,
    order: Order,
}

impl<'a> Output<'a> {
    pub(crate) fn new(kv: &'a Kv, batch: &'a mut WriteBatch, key: &'a mut KeyBuffer) -> Self {
        // One writer at a time: the next commit has the next sequence.
        let order = Order { commit: kv.last_sequence() + 1, index: 0 };
        Output { kv, batch, key, order }
    }

    /// Later than everything recorded before.
    pub(crate) fn next_order(&mut self) -> Order {
        self.order.index += 1;
        self.order
    }
}

/// What changes in memory.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) sequence: u64,
    pub(crate) next_number: JobNumber,
    pub(crate) counts: BTreeMap<QueueName, Counts>,
    /// The lowest place put, by queue.
    pub(crate) puts: BTreeMap<QueueName, Place>,
    pub(crate) leases: NumberMap<Option<Held>>,
    pub(crate) holders: NumberMap<Option<Holder>>,
    pub(crate) attempted: NumberMap<bool>,
    pub(crate) ended: Vec<JobNumber>,
}

/// The facts of one shard in one commit.
pub(crate) struct Draft<'a> {
    shard: ShardId,
    state: &'a Shard,
    effects: Effects,
    attempts: Attempts<'a>,
    names: Names,
    ledgers: Ledgers,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(shard: ShardId, state: &'a Shard) -> Self {
        let effects = Effects {
            sequence: state.sequence,
            next_number: state.next_number,
            ..Effects::default()
        };
        let attempts = Attempts::new(shard, &state.attempted);
        let (names, ledgers) = (Names::default(), Ledgers::default());
        Draft { shard, state, effects, attempts, names, ledgers }
    }

    /// These batches will be added. Told of all of them before the first: what one writes, a later
    /// one may ask for.
    pub(crate) fn expect(&mut self, batches: &[ShardBatch]) {
        for batch in batches {
            self.names.expect(&batch.changes);
            self.attempts.expect(&batch.changes);
        }
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.effects.sequence
    }

    pub(crate) fn add(
        &mut self,
        batch: ShardBatch,
        out: &mut Output<'_>,
    ) -> Result<(), StoreError> {
        self.effects.sequence = batch.sequence;
        self.effects.next_number = batch.next_number;
        for (queue, counts) in batch.counts {
            let key = out.key.named(keys::COUNTS, self.shard, queue.as_str());
            out.batch.put_with(key, |value| codec::encode_counts(&counts, value));
            self.effects.counts.insert(queue, counts);
        }
        for change in batch.changes.iter() {
            self.change(change, out)?;
        }
        Ok(())
    }

    /// The record of the shard itself, after all batches; then what is left is memory's.
    pub(crate) fn finish(mut self, out: &mut Output<'_>) -> Effects {
        let record = ShardRecord {
            epoch: self.state.epoch,
            sequence: self.effects.sequence,
            next_number: self.effects.next_number,
            swept_until: self.state.swept_until,
            node: self.state.node.clone(),
        };
        out.batch.put_with(out.key.shard(self.shard), |value| record.encode(value));
        self.effects.attempted = self.attempts.into_effects();
        self.effects
    }

    fn change(&mut self, change: &Change, out: &mut Output<'_>) -> Result<(), StoreError> {
        match change {
            Change::JobPut { job, progress, replaces, revives } => {
                self.put(job, *progress, *replaces, *revives, out)
            }
            Change::JobMoved { job, from, progress, ended } => {
                self.moved(job, *from, *progress, ended.as_deref(), out);
                Ok(())
            }
            Change::LeasesGranted { first_token, holder, at, leases } => {
                self.grant(*first_token, holder, *at, leases, out);
                Ok(())
            }
            Change::LeaseExtended { place, token, until, .. } => {
                self.extend(place.number, *token, *until, out);
                Ok(())
            }
            Change::JobFinished { job, progress, finish, ended, keep_payload } => {
                self.finished(job, *progress, finish, ended.as_deref(), *keep_payload, out)
            }
            Change::JobForgotten { job, place } => self.forgotten(job, *place, out),
            other => self.rest(other, out),
        }
    }

    fn put(
        &mut self,
        job: &Job,
        progress: Progress,
        replaces: Option<Place>,
        revives: Option<FinishedPlace>,
        out: &mut Output<'_>,
    ) -> Result<(), StoreError> {
        if let Some(old) = replaces {
            self.stop(old.number, out);
            if old.number != job.number {
                self.attempts.drop_live(old.number, out)?;
            }
        }
        if let Some(place) = revives {
            let queue = &job.name.queue;
            out.batch.delete(out.key.finished(self.shard, queue, place));
            if place.number == job.number {
                self.attempts.revive(queue, place, out)?;
            } else {
                self.attempts.drop_kept(place.number, out)?;
            }
        }
        self.stand(job, progress, replaces, out);
        Ok(())
    }

    fn moved(
        &mut self,
        job: &Job,
        from: Timestamp,
        progress: Progress,
        ended: Option<&AttemptRecord>,
        out: &mut Output<'_>,
    ) {
        self.stop(job.number, out);
        if let Some(ended) = ended {
            self.attempts.record(job.number, ended, out);
        }
        self.stand(job, progress, Some(Place { due_at: from, number: job.number }), out);
    }

    /// A live job takes its place, and leaves the one before.
    fn stand(
        &mut self,
        job: &Job,
        progress: Progress,
        before: Option<Place>,
        out: &mut Output<'_>,
    ) {
        let queue = &job.name.queue;
        let place = Place { due_at: progress.due_at, number: job.number };
        if let Some(before) = before.filter(|before| *before != place) {
            out.batch.delete(out.key.live(self.shard, queue, before));
        }
        let key = out.key.live(self.shard, queue, place);
        let encode = |value: &mut Vec<u8>| codec::encode_live(job, &progress, value);
        if before == Some(place) {
            out.batch.put_with(key, encode);
        } else {
            out.batch.put_fresh_with(key, encode);
        }
        self.names.lead(self.shard, &job.name, Spot::Live(place), out);
        if progress.holds_key {
            self.hold(job.number, queue, progress.due_at, out);
        }
        self.note_put(queue, place, out);
    }

    fn finished(
        &mut self,
        job: &Job,
        progress: Progress,
        finish: &Finish,
        ended: Option<&AttemptRecord>,
        keep_payload: bool,
        out: &mut Output<'_>,
    ) -> Result<(), StoreError> {
        self.stop(job.number, out);
        let queue = &job.name.queue;
        let place = Place { due_at: progress.due_at, number: job.number };
        out.batch.delete(out.key.live(self.shard, queue, place));
        if !finish.is_kept(finish.at) {
            self.names.forget(self.shard, &job.name, out);
            return self.attempts.drop_live(job.number, out);
        }
        let lies_until = self.lies_until(finish);
        let place = FinishedPlace { outcome: finish.outcome, at: finish.at, number: job.number };
        out.batch.put_fresh_with(out.key.finished(self.shard, queue, place), |value| {
            value.extend_from_slice(&keys::instant_bytes(lies_until));
            codec::encode_finished(job, &progress, finish, keep_payload, value);
            if let Some(ended) = ended {
                codec::encode_attempt(ended, value);
            }
        });
        let spot = Spot::Finished { place, lies_until };
        self.names.lead(self.shard, &job.name, spot, out);
        if finish.outcome == Outcome::Dead {
            let key = out.key.dead(self.shard, finish.keep_until, job.number);
            out.batch.put_with(key, |value| values::encode_dead(finish.at, &job.name, value));
        }
        self.attempts.keep(job.number, ended, lies_until, out)
    }

    /// Until when what is left of a job lies there. A clock that ran ahead may have swept further
    /// than the job is to be kept, and what was swept is not shown and goes with the next merge:
    /// so it lies beyond that, and readers see by the job itself when its time is up.
    fn lies_until(&self, finish: &Finish) -> Timestamp {
        finish.keep_until.max(self.state.swept_until.plus(Millis::new(1)))
    }

    fn forgotten(
        &mut self,
        job: &Job,
        place: FinishedPlace,
        out: &mut Output<'_>,
    ) -> Result<(), StoreError> {
        out.batch.delete(out.key.finished(self.shard, &job.name.queue, place));
        self.names.forget_if_at(self.shard, &job.name, place, out)?;
        self.attempts.drop_kept(place.number, out)
    }

    fn grant(
        &mut self,
        first: Token,
        holder: &WorkerName,
        granted_at: Timestamp,
        leases: &[LeaseGrant],
        out: &mut Output<'_>,
    ) {
        for (offset, grant) in (0..).zip(leases) {
            let LeaseGrant { queue, place, attempt, until } = grant.clone();
            let token = Token { counter: first.counter + offset, ..first };
            let lease = Lease { token, attempt, holder: holder.clone(), granted_at, until };
            let held = Held { queue, due_at: place.due_at, lease };
            self.put_lease(place.number, held, out);
        }
    }

    fn extend(&mut self, number: JobNumber, token: Token, until: Timestamp, out: &mut Output<'_>) {
        let Some(held) = self.lease(number).filter(|held| held.lease.token == token) else {
            return;
        };
        let lease = Lease { until, ..held.lease.clone() };
        let held = Held { lease, ..held.clone() };
        self.put_lease(number, held, out);
    }

    fn put_lease(&mut self, number: JobNumber, held: Held, out: &mut Output<'_>) {
        let key = out.key.numbered(keys::LEASE, self.shard, number);
        let encode = |value: &mut Vec<u8>| {
            values::encode_lease(held.due_at, &held.queue, &held.lease, value);
        };
        if self.lease(number).is_some() {
            out.batch.put_with(key, encode);
        } else {
            out.batch.put_fresh_with(key, encode);
        }
        self.effects.leases.insert(number, Some(held));
    }

    fn hold(
        &mut self,
        number: JobNumber,
        queue: &QueueName,
        due_at: Timestamp,
        out: &mut Output<'_>,
    ) {
        let key = out.key.numbered(keys::HOLDER, self.shard, number);
        out.batch.put_fresh_with(key, |value| values::encode_holder(due_at, queue, value));
        self.effects.holders.insert(number, Some(Holder { queue: queue.clone(), due_at }));
    }

    /// Ends the job's lease and its hold on its key, if it has them.
    fn stop(&mut self, number: JobNumber, out: &mut Output<'_>) {
        if self.lease(number).is_some() {
            out.batch.delete(out.key.numbered(keys::LEASE, self.shard, number));
            self.effects.leases.insert(number, None);
            self.effects.ended.push(number);
        }
        let holds = match self.effects.holders.get(&number) {
            Some(holder) => holder.is_some(),
            None => self.state.holders.contains_key(&number),
        };
        if holds {
            out.batch.delete(out.key.numbered(keys::HOLDER, self.shard, number));
            self.effects.holders.insert(number, None);
        }
    }

    fn lease(&self, number: JobNumber) -> Option<&Held> {
        match self.effects.leases.get(&number) {
            Some(lease) => lease.as_ref(),
            None => self.state.leases.get(&number),
        }
    }

    fn note_put(&mut self, queue: &QueueName, place: Place, out: &mut Output<'_>) {
        if let Some(lowest) = self.effects.puts.get_mut(queue) {
            *lowest = (*lowest).min(place);
            return;
        }
        if !self.state.queues.contains_key(queue) {
            out.batch.put(out.key.named(keys::QUEUE, self.shard, queue.as_str()), &[]);
        }
        self.effects.puts.insert(queue.clone(), place);
    }

    /// Schedules, their ledgers and settings: stored, and not kept in memory.
    fn rest(&mut self, change: &Change, out: &mut Output<'_>) -> Result<(), StoreError> {
        match change {
            Change::SchedulePut { state } => {
                let id = state.schedule.id.as_str();
                let key = out.key.named(keys::SCHEDULE, self.shard, id);
                out.batch.put_with(key, |value| codec::encode_schedule(&state.schedule, value));
                self.put_progress(id, &state.progress, out);
            }
            Change::ScheduleAdvanced { id, progress } => {
                self.put_progress(id.as_str(), progress, out);
            }
            Change::ScheduleRemoved { id } => {
                for kind in [keys::SCHEDULE, keys::SCHEDULE_PROGRESS] {
                    out.batch.delete(out.key.named(kind, self.shard, id.as_str()));
                }
                self.ledgers.forget(self.shard, id, None, out)?;
            }
            Change::OccurrenceRecorded { record } => {
                self.ledgers.record(self.shard, record, out);
            }
            Change::LedgerForgotten { schedule, before } => {
                self.ledgers.forget(self.shard, schedule, Some(*before), out)?;
            }
            Change::QueuePut { name, settings } => {
                let key = out.key.named(keys::SETTINGS, self.shard, name.as_str());
                out.batch.put_with(key, |value| codec::encode_queue(settings, value));
            }
            // There is no inbox here: nobody else can write into the directory.
            Change::LetterTaken { .. } => {}
            Change::JobPut { .. }
            | Change::JobMoved { .. }
            | Change::LeasesGranted { .. }
            | Change::LeaseExtended { .. }
            | Change::JobFinished { .. }
            | Change::JobForgotten { .. } => unreachable!("jobs are dealt with above"),
        }
        Ok(())
    }

    fn put_progress(&self, id: &str, progress: &ScheduleProgress, out: &mut Output<'_>) {
        let key = out.key.named(keys::SCHEDULE_PROGRESS, self.shard, id);
        out.batch.put_with(key, |value| codec::encode_schedule_progress(progress, value));
    }
}

impl Effects {
    /// Brings them about.
    pub(crate) fn apply(self, shard: &mut Shard) {
        shard.sequence = self.sequence;
        shard.next_number = self.next_number;
        shard.counts.extend(self.counts);
        for (queue, place) in self.puts {
            shard.queues.entry(queue).or_default().put(place);
        }
        for (number, lease) in self.leases {
            match lease {
                Some(held) => drop(shard.leases.insert(number, held)),
                None => drop(shard.leases.remove(&number)),
            }
        }
        for (number, holder) in self.holders {
            match holder {
                Some(holder) => drop(shard.holders.insert(number, holder)),
                None => drop(shard.holders.remove(&number)),
            }
        }
        for (number, attempted) in self.attempted {
            if attempted {
                shard.attempted.insert(number);
            } else {
                shard.attempted.remove(&number);
            }
        }
        for number in self.ended {
            shard.ended.push(number);
        }
    }
}
