//! Commits while a move is under way: to the old store, and what is in step to the new one.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hence_core::id::{JobNumber, Token};

use super::copy::number;
use super::{Moved, Moving, Phase, ShardMove, State, TRIES_MAX};
use crate::{Change, ErrorKind, LeaseGrant, Place, ShardBatch, StoreError, StoredJob};

impl Moving {
    pub(super) async fn commit_both(&self, batches: Vec<ShardBatch>) -> Result<(), StoreError> {
        let mut state = self.state.lock().await;
        if self.moved.load(Ordering::Acquire) {
            let batches = batches.into_iter().map(|batch| renewed(&mut state.shards, batch));
            let mut batches = batches.collect::<Result<Vec<_>, _>>()?;
            if !self.reads_new_letters.load(Ordering::Acquire) {
                batches.iter_mut().for_each(without_letters);
            }
            return self.to.commit(batches).await;
        }
        if state.failed.is_some() || state.interrupted {
            let answer = self.from.commit(batches.clone()).await;
            state.note(&batches, &answer);
            return answer;
        }
        let mut ready = Ok(());
        for batch in &batches {
            let State { shards, moved, .. } = &mut *state;
            let Some(shard) = known(shards, batch) else { continue };
            ready = ready.and(self.bring_in_step(shard, moved, &batch.changes).await);
        }
        let answer = self.from.commit(batches.clone()).await;
        if answer.is_ok() && ready.is_ok() {
            ready = self.forward_all(&mut state, &batches).await;
        }
        state.note(&batches, &answer);
        // The old store has it: whoever commits need not know. The next step says so.
        if let Err(error) = ready {
            state.trouble(&error);
        }
        answer
    }

    async fn forward_all(
        &self,
        state: &mut State,
        batches: &[ShardBatch],
    ) -> Result<(), StoreError> {
        let State { shards, moved, .. } = state;
        for batch in batches {
            let Some(shard) = known(shards, batch) else { continue };
            if batch.sequence > shard.sequence {
                self.forward(shard, moved, batch).await?;
            }
        }
        Ok(())
    }

    /// Everything that the batch speaks of is in the new store as it is now in the old one.
    async fn bring_in_step(
        &self,
        shard: &mut ShardMove,
        moved: &mut Moved,
        changes: &[Change],
    ) -> Result<(), StoreError> {
        if matches!(shard.phase, Phase::Reconcile(_)) {
            return Ok(());
        }
        let (mut names, mut grants) = (Vec::new(), Vec::new());
        let mut made: HashSet<JobNumber> = HashSet::new();
        for change in changes {
            let is_new =
                |number: JobNumber| !shard.jobs.contains(&number) && !made.contains(&number);
            match change {
                Change::JobPut { job, replaces, revives, .. } => {
                    let stood = replaces.map(|place| place.number);
                    let stood = stood.or(revives.map(|place| place.number));
                    names.extend(stood.filter(|it| is_new(*it)).map(|_| job.name.clone()));
                    // One that is brought back has its old number.
                    if job.number >= shard.next_number {
                        made.insert(job.number);
                    }
                }
                Change::JobMoved { job, .. }
                | Change::JobFinished { job, .. }
                | Change::JobForgotten { job, .. } => {
                    names.extend(is_new(job.number).then(|| job.name.clone()));
                }
                Change::LeasesGranted { leases, .. } => {
                    grants.extend(leases.iter().filter(|grant| is_new(grant.place.number)));
                }
                _ => {}
            }
        }
        let mut jobs = self.waiting(shard, &grants).await?;
        jobs.extend(self.look_up(shard, names).await?.into_values());
        // What this batch makes is there already when it was tried before.
        jobs.retain(|job| !made.contains(&number(job)));
        self.copy_jobs(shard, moved, jobs).await?;
        let new = made.into_iter().filter(|number| shard.jobs.insert(*number));
        moved.jobs += new.count() as u64;
        Ok(())
    }

    /// Jobs that are about to be handed out: only their places are known.
    async fn waiting(
        &self,
        shard: &ShardMove,
        grants: &[&LeaseGrant],
    ) -> Result<Vec<StoredJob>, StoreError> {
        let mut jobs = Vec::with_capacity(grants.len());
        for grant in grants {
            let Place { due_at, number } = grant.place;
            let before = Place { due_at, number: JobNumber(number.0.saturating_sub(1)) };
            let found = self.from.due(shard.id, grant.queue.clone(), before, 1).await?;
            let found = found.into_iter().filter(|live| live.job.number == number);
            jobs.extend(found.map(StoredJob::Live));
        }
        Ok(jobs)
    }

    /// The same facts for the new store, as far as they are about what is in step.
    async fn forward(
        &self,
        shard: &mut ShardMove,
        moved: &mut Moved,
        batch: &ShardBatch,
    ) -> Result<(), StoreError> {
        let mut changes = Vec::with_capacity(batch.changes.len());
        for change in batch.changes.iter() {
            shard.follow(change, moved, &mut changes);
        }
        shard.next_number = shard.next_number.max(batch.next_number);
        let mut forwarded = shard.batch(changes);
        forwarded.counts.clone_from(&batch.counts);
        self.put(forwarded).await
    }

    /// Commits to the new store; a passing trouble is waited out, but not for ever.
    pub(super) async fn put(&self, batch: ShardBatch) -> Result<(), StoreError> {
        let mut tries = 1;
        loop {
            match self.to.commit(vec![batch.clone()]).await {
                Err(error) if error.kind() == ErrorKind::Unavailable && tries < TRIES_MAX => {
                    tries += 1;
                }
                answer => return answer,
            }
        }
    }
}

fn known<'a>(shards: &'a mut [ShardMove], batch: &ShardBatch) -> Option<&'a mut ShardMove> {
    let mine = |shard: &&mut ShardMove| (shard.id, shard.epoch) == (batch.shard, batch.epoch);
    shards.iter_mut().find(mine)
}

/// The batch as the new store wants it: under the ownership there. Batches that follow each other
/// here follow each other there.
fn renewed(shards: &mut [ShardMove], batch: ShardBatch) -> Result<ShardBatch, StoreError> {
    let Some(shard) = known(shards, &batch) else {
        let message = format!("commit to {:?} under {:?}: it was lost", batch.shard, batch.epoch);
        return Err(StoreError::new(ErrorKind::Fenced, message));
    };
    let sequence = (shard.new_sequence + batch.sequence).saturating_sub(shard.sequence);
    Ok(ShardBatch { epoch: shard.new_epoch, sequence, ..batch })
}

/// A letter that was read before the old store was let go is one of the old store: another one may
/// have its number in the new one.
fn without_letters(batch: &mut ShardBatch) {
    let is_letter = |change: &Change| matches!(change, Change::LetterTaken { .. });
    if batch.changes.iter().any(is_letter) {
        let kept = batch.changes.iter().filter(|change| !is_letter(change)).cloned();
        batch.changes = Arc::new(kept.collect());
    }
}

impl State {
    /// What the old store said to these batches.
    fn note(&mut self, batches: &[ShardBatch], answer: &Result<(), StoreError>) {
        self.in_doubt = answer.as_ref().is_err_and(StoreError::is_retryable);
        if answer.is_err() {
            return;
        }
        for batch in batches {
            if let Some(shard) = known(&mut self.shards, batch) {
                shard.sequence = shard.sequence.max(batch.sequence);
                shard.next_number = shard.next_number.max(batch.next_number);
            }
        }
    }
}

impl ShardMove {
    /// What the new store is to have of this fact.
    fn follow(&mut self, change: &Change, moved: &mut Moved, changes: &mut Vec<Change>) {
        let follows = match change {
            Change::JobPut { job, replaces, revives, .. } => {
                let stood = replaces.map(|place| place.number);
                let stood = stood.or(revives.map(|place| place.number));
                let follows = self.jobs.contains(&job.number)
                    || stood.is_some_and(|stood| self.jobs.contains(&stood));
                moved.jobs += u64::from(follows && self.jobs.insert(job.number));
                follows
            }
            Change::JobMoved { job, .. }
            | Change::JobFinished { job, .. }
            | Change::JobForgotten { job, .. } => self.jobs.contains(&job.number),
            Change::LeasesGranted { .. } => return self.follow_grants(change, changes),
            Change::LeaseExtended { place, .. } => self.jobs.contains(&place.number),
            Change::QueuePut { .. } => true,
            Change::SchedulePut { state } => self.follows_schedule(&state.schedule.id, moved),
            Change::ScheduleAdvanced { id, .. } => self.schedules.contains(id),
            // If one of this name comes again, it is a new one.
            Change::ScheduleRemoved { id } => self.schedules.remove(id),
            Change::OccurrenceRecorded { record } => self.schedules.contains(&record.schedule),
            Change::LedgerForgotten { schedule, .. } => self.schedules.contains(schedule),
            // It was not written into the new store.
            Change::LetterTaken { .. } => false,
        };
        changes.extend(follows.then(|| change.clone()));
    }

    /// A schedule that is new when all others are known is in step from the beginning.
    fn follows_schedule(&mut self, id: &hence_core::id::ScheduleId, moved: &mut Moved) -> bool {
        let waits = match &self.phase {
            Phase::Reconcile(_) | Phase::Active => true,
            Phase::Schedules(left) => left.contains(id),
            Phase::Jobs(_) | Phase::Copied => false,
        };
        if !waits && self.schedules.insert(id.clone()) {
            moved.schedules += 1;
        }
        self.schedules.contains(id)
    }

    /// Leases have consecutive tokens: when some are left out, each goes by itself.
    fn follow_grants(&self, change: &Change, changes: &mut Vec<Change>) {
        let Change::LeasesGranted { first_token, holder, at, leases } = change else { return };
        let in_step = |grant: &LeaseGrant| self.jobs.contains(&grant.place.number);
        if leases.iter().all(in_step) {
            return changes.push(change.clone());
        }
        for (nth, grant) in (0..).zip(leases).filter(|(_, grant)| in_step(grant)) {
            let first_token = Token { counter: first_token.counter + nth, ..*first_token };
            let (holder, at, leases) = (holder.clone(), *at, vec![grant.clone()]);
            changes.push(Change::LeasesGranted { first_token, holder, at, leases });
        }
    }
}
