//! The net effect of a batch, as rows: what is added, and which places are left.
//!
//! A batch may touch a job several times: put it, hand it out, move it and finish it. Its rows all
//! carry one stamp, so only what is true after the last fact is written. Nothing is read: every
//! fact says where the job stood before. A draft knows neither slots nor a dialect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hence_core::change::{Change, FinishedPlace, LeaseGrant, Place};
use hence_core::id::{JobNumber, LetterId, QueueName, ScheduleId, ShardId, Token, WorkerName};
use hence_core::job::{AttemptRecord, Finish, Job, Progress};
use hence_core::ledger::{LedgerPlace, OccurrenceRecord};
use hence_core::queue::QueueSettings;
use hence_core::schedule::{Schedule, ScheduleProgress};
use hence_core::time::Timestamp;
use hence_store::{ShardBatch, StoreError, codec};

use crate::rows::{AttemptRow, FinishedRow, JobRow, Stamp};

/// The rows of one batch.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Draft {
    pub(crate) shard: ShardId,
    pub(crate) epoch: u32,
    pub(crate) stamp: Stamp,
    pub(crate) next_number: JobNumber,
    /// The counts of queues, encoded.
    pub(crate) counts: Vec<(QueueName, Vec<u8>)>,
    /// Places where a job stood before the batch. It stands there no more, or anew.
    pub(crate) left: Vec<Left>,
    /// Live jobs, by place.
    pub(crate) jobs: Vec<JobRow>,
    /// Leases, by place.
    pub(crate) leases: Vec<LeaseRow>,
    /// Finished jobs that are kept, by number.
    pub(crate) finished: Vec<FinishedRow>,
    /// Finished jobs of before the batch that are kept no more.
    pub(crate) forgotten: Vec<Forgotten>,
    /// Attempts of live jobs, in order.
    pub(crate) attempts: Vec<AttemptRow>,
    /// Jobs whose attempts of before the batch are not kept.
    pub(crate) attempts_dropped: Vec<JobNumber>,
    /// Schedules that are no more, or were put anew after that.
    pub(crate) schedules_removed: Vec<ScheduleId>,
    /// Schedules as they were put last, and how far they are.
    pub(crate) schedules_put: Vec<ScheduleRow>,
    /// Schedules of before the batch that came further, encoded.
    pub(crate) advanced: Vec<(ScheduleId, Vec<u8>)>,
    /// Ledgers of before the batch: what is before the instant goes; all of it, without one.
    pub(crate) ledgers_forgotten: Vec<(ScheduleId, Option<Timestamp>)>,
    /// Records of ledgers.
    pub(crate) occurrences: Vec<OccurrenceRecord>,
    /// Settings of queues.
    pub(crate) queues: Vec<(QueueName, QueueSettings)>,
    /// Letters that leave the inbox, and why nothing came of them.
    pub(crate) letters: Vec<(LetterId, Option<Arc<str>>)>,
}

/// A place that a job left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Left {
    pub(crate) queue: QueueName,
    pub(crate) place: Place,
}

/// A lease, or the new end of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LeaseRow {
    pub(crate) queue: QueueName,
    pub(crate) place: Place,
    pub(crate) token: Token,
    pub(crate) until: Timestamp,
    /// Absent when the lease was granted before and only ends later now.
    pub(crate) grant: Option<Grant>,
}

/// What only the beginning of a lease says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Grant {
    pub(crate) attempt: u32,
    pub(crate) holder: WorkerName,
    pub(crate) granted_at: Timestamp,
}

/// A finished job that is kept no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Forgotten {
    pub(crate) place: FinishedPlace,
    pub(crate) attempts: Attempts,
}

/// What becomes of the attempts of a finished job that is kept no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attempts {
    /// They go with it.
    Go,
    /// It lives again under its number, and so do they: the last one joins the others.
    Stay,
}

/// A schedule as it was put, encoded.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ScheduleRow {
    pub(crate) id: ScheduleId,
    pub(crate) body: Vec<u8>,
    pub(crate) progress: Vec<u8>,
}

impl Draft {
    /// The rows of a batch.
    pub(crate) fn of(batch: &ShardBatch) -> Result<Self, StoreError> {
        let mut net = Net::default();
        for change in batch.changes.iter() {
            net.change(change);
        }
        let counts = batch.counts.iter().map(|(queue, counts)| {
            let encoded = encoded(|out| codec::encode_counts(counts, out));
            (queue.clone(), encoded)
        });
        let draft = Draft {
            shard: batch.shard,
            epoch: batch.epoch.0,
            stamp: Stamp::of(batch)?,
            next_number: batch.next_number,
            counts: counts.collect(),
            ..Draft::default()
        };
        Ok(net.into_draft(draft))
    }
}

/// What is true so far.
#[derive(Default)]
struct Net {
    places: BTreeMap<Place, Spot>,
    leases: BTreeMap<Place, LeaseRow>,
    finished: BTreeMap<JobNumber, FinishedRow>,
    forgotten: Vec<Forgotten>,
    attempts: Vec<AttemptRow>,
    attempts_dropped: BTreeSet<JobNumber>,
    nth: i32,
    schedules: BTreeMap<ScheduleId, (Arc<Schedule>, ScheduleProgress)>,
    schedules_removed: BTreeSet<ScheduleId>,
    advanced: BTreeMap<ScheduleId, ScheduleProgress>,
    ledgers_forgotten: BTreeMap<ScheduleId, Option<Timestamp>>,
    occurrences: BTreeMap<(ScheduleId, LedgerPlace), OccurrenceRecord>,
    queues: BTreeMap<QueueName, QueueSettings>,
    letters: Vec<(LetterId, Option<Arc<str>>)>,
}

/// A place that the batch speaks of.
struct Spot {
    queue: QueueName,
    /// Whether a job stood here before the batch: whoever is mentioned first by leaving did.
    before: bool,
    row: Option<JobRow>,
}

impl Net {
    fn change(&mut self, change: &Change) {
        match change {
            Change::JobPut { job, progress, replaces, revives } => {
                self.put(job, *progress, *replaces, *revives);
            }
            Change::JobMoved { job, from, progress, ended } => {
                self.leave(&job.name.queue, Place { due_at: *from, number: job.number });
                let ended = self.attempt(job.number, ended.as_deref());
                self.attempts.extend(ended);
                self.stand(job, *progress);
            }
            Change::LeasesGranted { first_token, holder, at, leases } => {
                self.grant(*first_token, holder, *at, leases);
            }
            Change::LeaseExtended { queue, place, token, until } => {
                self.extend(queue, *place, *token, *until);
            }
            Change::JobFinished { job, progress, finish, ended, keep_payload } => {
                self.finish(job, *progress, finish, ended.as_deref(), *keep_payload);
            }
            Change::JobForgotten { place, .. } => self.forget(*place, Attempts::Go),
            Change::SchedulePut { state } => {
                let id = state.schedule.id.clone();
                self.advanced.remove(&id);
                let put = (state.schedule.clone(), state.progress.clone());
                self.schedules.insert(id, put);
            }
            Change::ScheduleAdvanced { id, progress } => self.advance(id, progress),
            Change::ScheduleRemoved { id } => {
                self.schedules.remove(id);
                self.advanced.remove(id);
                self.schedules_removed.insert(id.clone());
                self.forget_ledger(id, None);
            }
            Change::OccurrenceRecorded { record } => {
                let key = (record.schedule.clone(), record.place());
                self.occurrences.insert(key, record.clone());
            }
            Change::LedgerForgotten { schedule, before } => {
                self.forget_ledger(schedule, Some(*before));
            }
            Change::QueuePut { name, settings } => {
                self.queues.insert(name.clone(), settings.clone());
            }
            Change::LetterTaken { id, refused } => self.letters.push((*id, refused.clone())),
        }
    }

    fn put(
        &mut self,
        job: &Arc<Job>,
        progress: Progress,
        replaces: Option<Place>,
        revives: Option<FinishedPlace>,
    ) {
        if let Some(old) = replaces {
            self.leave(&job.name.queue, old);
            if old.number != job.number {
                self.drop_attempts(old.number);
            }
        }
        if let Some(place) = revives {
            let same = place.number == job.number;
            self.forget(place, if same { Attempts::Stay } else { Attempts::Go });
        }
        self.stand(job, progress);
    }

    /// The job at the place, and its lease, are there no more.
    fn leave(&mut self, queue: &QueueName, place: Place) {
        let spot = || Spot { queue: queue.clone(), before: true, row: None };
        self.places.entry(place).or_insert_with(spot).row = None;
        self.leases.remove(&place);
    }

    fn stand(&mut self, job: &Arc<Job>, progress: Progress) {
        let row = JobRow { job: Arc::clone(job), progress };
        let spot = || Spot { queue: job.name.queue.clone(), before: false, row: None };
        let place = row.place();
        self.places.entry(place).or_insert_with(spot).row = Some(row);
    }

    fn grant(&mut self, first: Token, holder: &WorkerName, at: Timestamp, leases: &[LeaseGrant]) {
        for (offset, lease) in (0..).zip(leases) {
            let LeaseGrant { queue, place, attempt, until } = lease.clone();
            let token = Token { counter: first.counter + offset, ..first };
            let grant = Some(Grant { attempt, holder: holder.clone(), granted_at: at });
            self.leases.insert(place, LeaseRow { queue, place, token, until, grant });
        }
    }

    fn extend(&mut self, queue: &QueueName, place: Place, token: Token, until: Timestamp) {
        match self.leases.get_mut(&place) {
            Some(lease) if lease.token == token => lease.until = until,
            Some(_) => {}
            None => {
                let queue = queue.clone();
                self.leases.insert(place, LeaseRow { queue, place, token, until, grant: None });
            }
        }
    }

    fn finish(
        &mut self,
        job: &Arc<Job>,
        progress: Progress,
        finish: &Finish,
        ended: Option<&AttemptRecord>,
        keep_payload: bool,
    ) {
        self.leave(&job.name.queue, Place { due_at: progress.due_at, number: job.number });
        if !finish.is_kept(finish.at) {
            self.drop_attempts(job.number);
            return;
        }
        let last = self.attempt(job.number, ended);
        let (job, finish) = (Arc::clone(job), finish.clone());
        let row = FinishedRow { job, progress, finish, keep_payload, last };
        self.finished.insert(row.job.number, row);
    }

    /// A finished job is kept no more.
    fn forget(&mut self, place: FinishedPlace, attempts: Attempts) {
        let mine = self
            .finished
            .get(&place.number)
            .is_some_and(|row| (row.finish.outcome, row.finish.at) == (place.outcome, place.at));
        if mine {
            let row = self.finished.remove(&place.number);
            if attempts == Attempts::Stay {
                self.attempts.extend(row.and_then(|row| row.last));
            }
        } else {
            self.forgotten.push(Forgotten { place, attempts });
        }
        if attempts == Attempts::Go {
            self.drop_attempts(place.number);
        }
    }

    fn attempt(&mut self, number: JobNumber, ended: Option<&AttemptRecord>) -> Option<AttemptRow> {
        let record = ended?.clone();
        self.nth += 1;
        Some(AttemptRow { number, nth: self.nth, record })
    }

    fn drop_attempts(&mut self, number: JobNumber) {
        self.attempts.retain(|attempt| attempt.number != number);
        self.attempts_dropped.insert(number);
    }

    fn advance(&mut self, id: &ScheduleId, progress: &ScheduleProgress) {
        match self.schedules.get_mut(id) {
            Some((_, known)) => known.clone_from(progress),
            None => {
                self.advanced.insert(id.clone(), progress.clone());
            }
        }
    }

    fn forget_ledger(&mut self, schedule: &ScheduleId, before: Option<Timestamp>) {
        let goes = |last: Timestamp| before.is_none_or(|before| last < before);
        self.occurrences.retain(|(of, place), _| of != schedule || !goes(place.last));
        let entry = self.ledgers_forgotten.entry(schedule.clone()).or_insert(before);
        *entry = match (*entry, before) {
            (Some(old), Some(new)) => Some(old.max(new)),
            _ => None,
        };
    }

    fn into_draft(self, mut draft: Draft) -> Draft {
        for (place, Spot { queue, before, row }) in self.places {
            if before {
                draft.left.push(Left { queue, place });
            }
            draft.jobs.extend(row);
        }
        draft.leases = self.leases.into_values().collect();
        draft.finished = self.finished.into_values().collect();
        draft.forgotten = self.forgotten;
        draft.attempts = self.attempts;
        draft.attempts_dropped = self.attempts_dropped.into_iter().collect();
        draft.schedules_removed = self.schedules_removed.into_iter().collect();
        let row = |(id, (schedule, progress)): (ScheduleId, (Arc<Schedule>, ScheduleProgress))| {
            let body = encoded(|out| codec::encode_schedule(&schedule, out));
            ScheduleRow { id, body, progress: encoded_progress(&progress) }
        };
        draft.schedules_put = self.schedules.into_iter().map(row).collect();
        let advanced = self.advanced.into_iter();
        draft.advanced = advanced.map(|(id, at)| (id, encoded_progress(&at))).collect();
        draft.ledgers_forgotten = self.ledgers_forgotten.into_iter().collect();
        draft.occurrences = self.occurrences.into_values().collect();
        draft.queues = self.queues.into_iter().collect();
        draft.letters = self.letters;
        draft
    }
}

fn encoded_progress(progress: &ScheduleProgress) -> Vec<u8> {
    encoded(|out| codec::encode_schedule_progress(progress, out))
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

#[cfg(test)]
mod tests;
