//! The only place where a shard's state changes: one function per fact. Nothing is decided here,
//! and no time is known: what is due is found out by the next call of `handle`.

use alloc::boxed::Box;
use alloc::sync::Arc;

use crate::change::{Change, FinishedPlace, LeaseGrant, Place};
use crate::id::{JobNumber, QueueName, Token, WorkerName};
use crate::job::{AttemptEnd, AttemptRecord, Finish, Job, JobState, Lease, Outcome, Progress};
use crate::limits;
use crate::queue::Counts;
use crate::schedule::ScheduleState;
use crate::time::Timestamp;

use super::Shard;
use super::index::{Alarm, Entry, Lane, Seat};
use super::ticks::Scheduled;

impl Shard {
    /// Takes in a fact. Deciding and recovery both end here.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::JobPut { job, progress, replaces, revives } => {
                self.apply_put(job, *progress, *replaces, *revives);
            }
            Change::JobMoved { job, from: _, progress, ended } => {
                self.apply_moved(job, *progress, ended.as_deref());
            }
            Change::LeasesGranted { first_token, holder, at, leases } => {
                for (nth, grant) in leases.iter().enumerate() {
                    let counter = first_token.counter + nth as u64;
                    let token = Token { counter, ..*first_token };
                    self.apply_grant(token, holder, *at, grant);
                }
            }
            Change::LeaseExtended { queue: _, place, token, until } => {
                self.apply_extended(place.number, *token, *until);
            }
            Change::JobFinished { job, progress: _, finish, ended, keep_payload: _ } => {
                self.apply_finished(job, finish, ended.as_deref());
            }
            Change::JobForgotten { job, place } => self.apply_forgotten(job, *place),
            Change::SchedulePut { state } => self.apply_schedule(state),
            Change::ScheduleRemoved { id } => {
                if let Some(old) = self.schedules.remove(id) {
                    *self.schedule_counts.place(&old.state.progress) -= 1;
                    if let Some(wake) = old.wake {
                        self.wakes.remove(&(wake, id.clone()));
                    }
                }
                self.stale.remove(id);
                self.drop_recall(id);
            }
            Change::ScheduleAdvanced { id, progress } => {
                let Some(scheduled) = self.schedules.get_mut(id) else {
                    unreachable!("only a schedule comes further");
                };
                *self.schedule_counts.place(&scheduled.state.progress) -= 1;
                *self.schedule_counts.place(progress) += 1;
                scheduled.state.progress = (**progress).clone();
                self.set_wake(id);
            }
            Change::OccurrenceRecorded { record: _ }
            | Change::LedgerForgotten { schedule: _, before: _ }
            | Change::LetterTaken { id: _, refused: _ } => {}
            Change::QueuePut { name, settings } => {
                let at = self.queue_at(name);
                let queue = &mut self.queues[at];
                // What the old rate put off is looked at again, by the new one.
                if queue.settings.rate != settings.rate
                    && let Some(alarm) = queue.rate_alarm.take()
                {
                    self.alarms.remove(&(alarm, Alarm::Rate(at)));
                }
                queue.settings = settings.clone();
                self.touched.insert(at);
                self.stirred.insert(at);
            }
        }
    }

    fn apply_put(
        &mut self,
        job: &Arc<Job>,
        progress: Progress,
        replaces: Option<Place>,
        revives: Option<FinishedPlace>,
    ) {
        let at = self.queue_at(&job.name.queue);
        if let Some(old) = replaces {
            self.drop_live(at, old.number);
            self.counts(at).replaced += 1;
        }
        if let Some(old) = revives {
            let counts = self.counts(at);
            counts.dead -= u64::from(old.outcome == Outcome::Dead && counts.dead > 0);
        }
        // A job brought back from the dead has its old number.
        let next = self.next_number;
        let counts = self.counts(at);
        counts.pending += 1;
        counts.submitted += u64::from(job.number >= next);
        self.next_number = self.next_number.max(JobNumber(job.number.0 + 1));
        self.admit_to_window(at, job, progress);
        self.disturb_find(&job.name);
    }

    /// A live job ceases to be, wherever it was. Also one in memory may be in a page that is on
    /// its way: a job that holds its key is in memory wherever it stands.
    fn drop_live(&mut self, at: usize, number: JobNumber) {
        self.note_far_removed(at, number);
        match self.jobs.get(number).map(|entry| entry.state) {
            Some(JobState::Running) => {
                self.end_lease(number);
                self.leave_memory(number);
                self.counts(at).running -= 1;
            }
            Some(_) => {
                self.leave_memory(number);
                self.counts(at).pending -= 1;
            }
            None => self.counts(at).pending -= 1,
        }
    }

    fn apply_moved(&mut self, job: &Arc<Job>, progress: Progress, ended: Option<&AttemptRecord>) {
        let at = self.queue_at(&job.name.queue);
        let number = job.number;
        if ended.is_some_and(|attempt| counts_as_failed(attempt.end)) {
            self.counts(at).failed += 1;
        }
        match self.jobs.get(number).map(|entry| entry.state) {
            Some(JobState::Running) => {
                self.end_lease(number);
                let counts = self.counts(at);
                counts.running -= 1;
                counts.pending += 1;
                self.reseat(number, job, progress);
            }
            Some(_) => {
                self.touched.insert(at);
                self.rise(number);
                self.reseat(number, job, progress);
            }
            None => {
                self.touched.insert(at);
                self.note_far_removed(at, number);
                self.admit_to_window(at, job, progress);
            }
        }
        self.disturb_find(&job.name);
    }

    /// A job that has just risen goes back to waiting, or leaves the memory.
    fn reseat(&mut self, number: JobNumber, job: &Arc<Job>, progress: Progress) {
        if let Some(alarm) = self.jobs[number].expiry_alarm() {
            self.alarms.remove(&alarm);
        }
        if !progress.holds_key {
            self.release_key(number);
        }
        let (held, lacks) = (self.hold(job, progress), self.lacks(&job.target));
        let Some(entry) = self.jobs.get_mut(number) else { return };
        entry.held = held;
        entry.lane = Lane::of(&job.target);
        entry.lacks = lacks;
        entry.progress = progress;
        entry.state.transition(JobState::Scheduled);
        let (at, place, kind) = (entry.at(), entry.place(), entry.kind());
        if progress.holds_key {
            self.hold_key(number);
            return self.sit(number, Seat::Holding);
        }
        if place <= self.queues[at].stretch(kind).through {
            self.sit(number, Seat::Waiting);
            self.shrink_window(at);
        } else {
            self.note_far_put(at, job, progress);
            self.jobs.remove(number);
        }
    }

    pub(super) fn apply_grant(
        &mut self,
        token: Token,
        holder: &WorkerName,
        at: Timestamp,
        grant: &LeaseGrant,
    ) {
        let number = grant.place.number;
        assert!(self.jobs.contains(number), "only jobs in memory are handed out");
        self.rise(number);
        self.hold_key(number);
        let Some(entry) = self.jobs.get_mut(number) else { return };
        assert!(entry.lease.is_none(), "one consumer at a time");
        if entry.state == JobState::Scheduled {
            entry.state.transition(JobState::Ready);
        }
        entry.state.transition(JobState::Running);
        entry.lease = Some(Box::new(Lease {
            token,
            attempt: grant.attempt,
            holder: holder.clone(),
            granted_at: at,
            until: grant.until,
        }));
        let (expiry, queue, lane) = (entry.expiry_alarm(), entry.at(), entry.lane);
        self.sit(number, Seat::Running);
        if let Some(alarm) = expiry {
            self.alarms.remove(&alarm);
        }
        self.alarms.insert((grant.until, Alarm::Lease(number)));
        self.tokens.insert(token, number);
        self.count_running(lane, 1);
        self.queues[queue].running += 1;
        let counts = self.counts(queue);
        counts.pending = counts.pending.saturating_sub(1);
        counts.running += 1;
        counts.delivered += 1;
    }

    fn apply_extended(&mut self, number: JobNumber, token: Token, until: Timestamp) {
        let Some(entry) = self.jobs.get_mut(number) else {
            unreachable!("only running jobs have leases");
        };
        let queue = entry.at();
        let Some(lease) = entry.lease.as_mut() else { unreachable!("only leases are extended") };
        assert!(lease.token == token, "a lease is extended by its own token");
        self.alarms.remove(&(lease.until, Alarm::Lease(number)));
        lease.until = until;
        self.alarms.insert((until, Alarm::Lease(number)));
        self.touched.insert(queue);
    }

    fn apply_finished(&mut self, job: &Arc<Job>, finish: &Finish, ended: Option<&AttemptRecord>) {
        let at = self.queue_at(&job.name.queue);
        if let Some(attempt) = ended {
            self.counts(at).failed += u64::from(counts_as_failed(attempt.end));
            self.remember(attempt.token, finish.outcome);
        }
        self.note_transition(job.number, finish.outcome);
        self.drop_live(at, job.number);
        let kept = finish.keep_until > finish.at;
        let counts = self.counts(at);
        match finish.outcome {
            Outcome::Succeeded => counts.succeeded += 1,
            Outcome::Dead => {
                counts.died += 1;
                counts.dead += u64::from(kept);
            }
            Outcome::Cancelled => counts.cancelled += 1,
            Outcome::Expired => counts.expired += 1,
        }
        self.stirred.insert(at);
        self.disturb_find(&job.name);
    }

    /// Every change of state goes through the table, the last one too.
    fn note_transition(&mut self, number: JobNumber, outcome: Outcome) {
        if let Some(entry) = self.jobs.get(number) {
            let mut state = entry.state;
            state.transition(outcome.state());
        }
    }

    fn apply_forgotten(&mut self, job: &Arc<Job>, place: FinishedPlace) {
        let at = self.queue_at(&job.name.queue);
        let counts = self.counts(at);
        counts.dead -= u64::from(place.outcome == Outcome::Dead && counts.dead > 0);
        self.disturb_find(&job.name);
    }

    fn apply_schedule(&mut self, state: &ScheduleState) {
        let id = state.schedule.id.clone();
        let old = self.schedules.get(&id);
        if let Some(old) = old {
            *self.schedule_counts.place(&old.state.progress) -= 1;
        }
        *self.schedule_counts.place(&state.progress) += 1;
        let wake = old.and_then(|old| old.wake);
        self.schedules.insert(id.clone(), Scheduled { state: state.clone(), wake });
        self.set_wake(&id);
    }

    /// The lease of a running job ends; the job has no seat afterwards.
    fn end_lease(&mut self, number: JobNumber) {
        self.rise(number);
        let Some(entry) = self.jobs.get_mut(number) else { return };
        let (queue, lane) = (entry.at(), entry.lane);
        if let Some(lease) = entry.lease.take() {
            self.alarms.remove(&(lease.until, Alarm::Lease(number)));
            self.tokens.remove(&lease.token);
        }
        self.count_running(lane, -1);
        self.queues[queue].running -= 1;
        self.stirred.insert(queue);
    }

    /// A job leaves the memory for good; a running one has ended its lease before.
    fn leave_memory(&mut self, number: JobNumber) {
        let Some(entry) = self.jobs.get(number) else { return };
        let expiry = entry.expiry_alarm();
        if entry.state != JobState::Running {
            self.rise(number);
        }
        if let Some(alarm) = expiry {
            self.alarms.remove(&alarm);
        }
        self.release_key(number);
        self.jobs.remove(number);
    }

    /// A job enters the memory, waiting.
    pub(super) fn enter_memory(&mut self, at: usize, job: &Arc<Job>, progress: Progress) {
        let number = job.number;
        let held = self.hold(job, progress);
        let entry = Entry {
            number,
            held,
            progress,
            lease: None,
            queue: at as u32,
            state: JobState::Scheduled,
            seat: Seat::Waiting,
            lane: Lane::of(&job.target),
            lacks: self.lacks(&job.target),
        };
        self.jobs.insert(entry);
        if progress.holds_key {
            self.hold_key(number);
        }
        self.sit(number, if progress.holds_key { Seat::Holding } else { Seat::Waiting });
    }

    fn count_running(&mut self, lane: Lane, by: i32) {
        let count = match lane {
            Lane::Pull => return,
            Lane::Push => &mut self.pushes_running,
            Lane::Handler => &mut self.handlers_running,
        };
        let Some(new) = count.checked_add_signed(by) else {
            unreachable!("no more deliveries end than began")
        };
        *count = new;
    }

    fn remember(&mut self, token: Token, outcome: Outcome) {
        if self.finished_order.len() >= limits::FINISHED_TOKENS_MAX
            && let Some(oldest) = self.finished_order.pop_front()
        {
            self.finished.remove(&oldest);
        }
        self.finished.insert(token, outcome);
        self.finished_order.push_back(token);
    }

    /// The counts as stored replace those that recovery happened to add up.
    pub(super) fn adopt_counts(&mut self, counts: &[(QueueName, Counts)]) {
        for (name, counts) in counts {
            let at = self.queue_at(name);
            *self.counts(at) = *counts;
        }
        for (at, queue) in self.queues.iter_mut().enumerate() {
            let here = (queue.in_memory() + queue.holding.len()) as u64;
            if queue.counts.pending > here {
                for stretch in &mut queue.stretches {
                    stretch.through = Place::FIRST;
                }
                self.far.insert(at);
            }
        }
        // What a queue that was removed left in the store.
        for at in core::mem::take(&mut self.touched) {
            self.give_up_blank(at);
        }
    }
}

fn counts_as_failed(end: AttemptEnd) -> bool {
    match end {
        AttemptEnd::Failed | AttemptEnd::TimedOut | AttemptEnd::Unknown => true,
        AttemptEnd::Succeeded
        | AttemptEnd::Released
        | AttemptEnd::Unregistered
        | AttemptEnd::Cancelled => false,
    }
}
