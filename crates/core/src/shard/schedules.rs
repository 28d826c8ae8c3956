//! Schedules: at each tick a job is made, the tick is accounted for, and the schedule moves on,
//! all in one commit. Ticks that were missed are stood for by the last of them, and counted.

use alloc::sync::Arc;

use crate::change::Change;
use crate::effect::Answer;
use crate::error::Rejection;
use crate::id::{JobId, JobName, ScheduleId};
use crate::job::{Job, Occurrence, Progress};
use crate::limits;
use crate::schedule::{Fate, OccurrenceRecord, Schedule, ScheduleState};
use crate::time::{Millis, Timestamp};

use super::Shard;
use super::submit::fresh_view;

/// How long a tick waits when there is no room for its job.
const NO_ROOM_DELAY: Millis = Millis::from_secs(1);

impl Shard {
    pub(super) fn put_schedule(
        &mut self,
        now: Timestamp,
        schedule: Schedule,
    ) -> Result<Answer, Rejection> {
        schedule.check()?;
        let old = self.schedules.get(&schedule.id);
        if old.is_none() && self.schedules.len() >= limits::SCHEDULES_MAX {
            return Err(Rejection::TooMany { what: "schedules", max: limits::SCHEDULES_MAX });
        }
        if self.store_full {
            return Err(Rejection::StoreFull);
        }
        // A tick at this very instant is still to come.
        let next = schedule.every.next_after(now.minus(Millis::new(1)));
        let state = ScheduleState {
            next_at: (!schedule.paused).then_some(next),
            last_at: old.and_then(|old| old.last_at),
            fired: old.map_or(0, |old| old.fired),
            schedule: Arc::new(schedule),
        };
        // The same tick is never accounted for twice, also when a schedule is put again.
        let state = match (state.next_at, state.last_at) {
            (Some(next), Some(last)) if next <= last => {
                ScheduleState { next_at: Some(state.schedule.every.next_after(last)), ..state }
            }
            _ => state,
        };
        self.change(Change::SchedulePut { state: state.clone() });
        Ok(Answer::Schedule(state))
    }

    pub(super) fn remove_schedule(&mut self, id: ScheduleId) -> Result<Answer, Rejection> {
        if !self.schedules.contains_key(&id) {
            return Err(Rejection::NoSuchSchedule);
        }
        self.change(Change::ScheduleRemoved { id });
        Ok(Answer::Done)
    }

    pub(super) fn pause_schedule(
        &mut self,
        now: Timestamp,
        id: &ScheduleId,
        paused: bool,
    ) -> Result<Answer, Rejection> {
        let old = self.schedules.get(id).ok_or(Rejection::NoSuchSchedule)?;
        if old.schedule.paused == paused {
            return Ok(Answer::Schedule(old.clone()));
        }
        let schedule = Schedule { paused, ..Schedule::clone(&old.schedule) };
        let after = old.last_at.map_or(now, |last| last.max(now));
        let next_at = (!paused).then(|| schedule.every.next_after(after));
        let state = ScheduleState { schedule: Arc::new(schedule), next_at, ..old.clone() };
        self.change(Change::SchedulePut { state: state.clone() });
        Ok(Answer::Schedule(state))
    }

    pub(super) fn trigger_schedule(
        &mut self,
        now: Timestamp,
        id: &ScheduleId,
    ) -> Result<Answer, Rejection> {
        // A tick of this very instant comes first: the two are one job.
        self.tick_schedules(now);
        let state = self.schedules.get(id).cloned().ok_or(Rejection::NoSuchSchedule)?;
        if self.draining {
            return Err(Rejection::Draining);
        }
        if self.store_full {
            return Err(Rejection::StoreFull);
        }
        // A second trigger at the same instant is the same trigger.
        let name = occurrence_name(&state.schedule, now);
        if let Some(number) = self.names.get(&name) {
            let subject = super::window::Subject::Here(*number);
            return self.standing(&subject).map(Answer::Job).ok_or(Rejection::NoSuchJob);
        }
        let job = self.make_job(now, &state.schedule, now);
        self.account(id, now, now, Fate::Triggered(job.number));
        let state = ScheduleState { fired: state.fired + 1, ..state };
        self.change(Change::SchedulePut { state });
        Ok(Answer::Job(fresh_view(job, now)))
    }

    /// Every schedule whose tick has come makes its job.
    pub(super) fn tick_schedules(&mut self, now: Timestamp) {
        // A clock that was set back must not put ticks off until it has caught up.
        self.ticks_from = self.ticks_from.min(now.plus(NO_ROOM_DELAY));
        while let Some((at, id)) = self.ticks.first() {
            if self.draining || *at > now || self.ticks_from > now {
                return;
            }
            if self.store_full {
                self.ticks_from = now.plus(NO_ROOM_DELAY);
                return;
            }
            let Some(state) = self.schedules.get(id).cloned() else {
                unreachable!("only schedules tick");
            };
            self.tick(now, &state);
        }
    }

    fn tick(&mut self, now: Timestamp, state: &ScheduleState) {
        let (Some(next), every) = (state.next_at, &state.schedule.every) else { return };
        // However late it is, the last tick that has passed is the one that runs.
        let last = every.last_at_or_before(now).unwrap_or(next).max(next);
        let missed = every.ticks_between(next.minus(Millis::new(1)), last) - 1;
        let id = &state.schedule.id;
        if missed > 0 {
            let before = last.minus(every.interval);
            self.account(id, before, now, Fate::Coalesced(missed));
        }
        // Its job may be there already: triggered at that instant, or of a schedule that was
        // removed and put again.
        let standing = self.names.get(&occurrence_name(&state.schedule, last)).copied();
        let number = standing.unwrap_or_else(|| self.make_job(now, &state.schedule, last).number);
        self.account(id, last, now, Fate::Ran(number));
        let state = ScheduleState {
            schedule: Arc::clone(&state.schedule),
            next_at: Some(every.next_after(last)),
            last_at: Some(last),
            fired: state.fired + 1,
        };
        self.change(Change::SchedulePut { state });
    }

    fn make_job(&mut self, now: Timestamp, schedule: &Schedule, at: Timestamp) -> Arc<Job> {
        let occurrence = Occurrence { schedule: schedule.id.clone(), at };
        let name = occurrence_name(schedule, at);
        let job = self.new_job(now, name, at, schedule.template.clone(), Some(occurrence), None);
        let progress = Progress::fresh(at);
        let (replaces, revives) = (None, None);
        self.change(Change::JobPut { job: Arc::clone(&job), progress, replaces, revives });
        job
    }

    fn account(&mut self, id: &ScheduleId, at: Timestamp, now: Timestamp, fate: Fate) {
        let record = OccurrenceRecord { schedule: id.clone(), at, decided_at: now, fate };
        self.change(Change::OccurrenceRecorded { record });
    }

    pub(super) fn show_schedule(&self, id: &ScheduleId) -> Result<Answer, Rejection> {
        self.schedules.get(id).cloned().map(Answer::Schedule).ok_or(Rejection::NoSuchSchedule)
    }

    pub(super) fn list_schedules(&self, after: Option<ScheduleId>, limit: usize) -> Answer {
        use core::ops::Bound;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.schedules.range((from, Bound::Unbounded));
        Answer::Schedules(range.take(limit).map(|(_, state)| state.clone()).collect())
    }
}

/// The name of the job of an occurrence: the same tick can never make two jobs.
fn occurrence_name(schedule: &Schedule, at: Timestamp) -> JobName {
    let id = alloc::format!("{}@{at}", schedule.id);
    let id = JobId::new(&id).unwrap_or_else(|_| unreachable!("{id} is a name by construction"));
    JobName { queue: schedule.queue.clone(), key: schedule.key.clone(), id }
}
