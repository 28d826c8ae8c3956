//! What people do to schedules: put, pause, resume, trigger, remove, look.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::change::Change;
use crate::effect::Answer;
use crate::error::Rejection;
use crate::id::ScheduleId;
use crate::ledger::{Fate, SkipReason};
use crate::limits;
use crate::schedule::{Overlap, Pause, Schedule, ScheduleCheck, ScheduleState};
use crate::time::{Millis, Timestamp};

use super::Shard;
use super::catch_up::pass_all;
use super::submit::fresh_view;
use super::ticks::{self, Scheduled, advance_to};

impl Shard {
    pub(super) fn put_schedule(
        &mut self,
        now: Timestamp,
        mut schedule: Schedule,
        wake: bool,
    ) -> Result<Answer, Rejection> {
        schedule.check()?;
        schedule.check_catches_up()?;
        let is_new = !self.schedules.contains_key(&schedule.id);
        if is_new && self.schedules.len() >= limits::SCHEDULES_MAX {
            return Err(Rejection::TooMany { what: "schedules", max: limits::SCHEDULES_MAX });
        }
        if self.store_full {
            return Err(Rejection::StoreFull);
        }
        let id = schedule.id.clone();
        self.settle(now);
        let state = match self.schedules.get(&id).map(|old| old.state.clone()) {
            None => ScheduleState::new(Arc::new(schedule), now),
            Some(old) => {
                schedule.go_on_from(&old.schedule);
                if wake {
                    schedule.paused = None;
                }
                self.changed(now, old, schedule)
            }
        };
        self.change(Change::SchedulePut { state: Box::new(state.clone()) });
        Ok(Answer::Schedule(Box::new(state)))
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
        note: &Arc<str>,
    ) -> Result<Answer, Rejection> {
        self.settle(now);
        let old = self.state_of(id)?;
        let since = old.schedule.paused.as_ref().map_or(now, |pause| pause.since);
        let pause = Pause { note: Arc::clone(note), since };
        pause.check()?;
        Ok(self.rest(now, old, Some(pause)))
    }

    pub(super) fn resume_schedule(
        &mut self,
        now: Timestamp,
        id: &ScheduleId,
    ) -> Result<Answer, Rejection> {
        let old = self.state_of(id)?;
        Ok(self.rest(now, old, None))
    }

    fn rest(&mut self, now: Timestamp, old: ScheduleState, paused: Option<Pause>) -> Answer {
        if old.schedule.paused == paused {
            return Answer::Schedule(Box::new(old));
        }
        let schedule = Schedule { paused, ..Schedule::clone(&old.schedule) };
        let state = self.changed(now, old, schedule);
        self.change(Change::SchedulePut { state: Box::new(state.clone()) });
        Answer::Schedule(Box::new(state))
    }

    /// What has come by now is acted on first, by the rules that held then.
    fn settle(&mut self, now: Timestamp) {
        let mut budget = ticks::BUDGET;
        self.tick_schedules(now, &mut budget);
    }

    /// A schedule goes on as another. Ticks of a plan that is no more are accounted for.
    fn changed(&mut self, now: Timestamp, mut old: ScheduleState, new: Schedule) -> ScheduleState {
        let was_paused = old.schedule.paused.is_some();
        if old.schedule.plan != new.plan {
            self.leave_plan(now, &mut old);
            if !new.has_rhythm_of(&old.schedule) {
                old.progress.ticked = 0;
            }
        } else if was_paused && new.paused.is_none() {
            // They are recorded in turn, like all that is missed.
            old.progress.paused_until = Some(now);
        }
        let moved = (&old.schedule.queue, &old.schedule.key) != (&new.queue, &new.key);
        if moved || new.overlap == Overlap::Allow {
            old.progress.running = None;
        } else if old.schedule.overlap == Overlap::Allow {
            // Nobody asked until now.
            old.progress.running = self.live_run(&old);
        }
        let kept = old.progress.waiting.len().min(new.overlap.waiting_max());
        for at in old.progress.waiting.split_off(kept) {
            self.record_tick(now, &mut old, at, Fate::Skipped(SkipReason::Changed));
        }
        if old.schedule.misfire != new.misfire {
            old.progress.hold_until = None;
        }
        let mut state = ScheduleState { schedule: Arc::new(new), ..old };
        state.look_ahead();
        state
    }

    fn leave_plan(&mut self, now: Timestamp, state: &mut ScheduleState) {
        // A tick of the new plan at this very instant is still to come.
        let before_now = now.minus(Millis::new(1));
        let mut rest = SkipReason::Changed;
        if state.schedule.paused.is_some() {
            rest = SkipReason::Paused;
        }
        let paused_until = state.progress.paused_until.unwrap_or(Timestamp::MIN);
        let parts = [(paused_until.min(before_now), SkipReason::Paused), (before_now, rest)];
        for (until, reason) in parts {
            if let Some(passed) = pass_all(state, until, Fate::Skipped(reason)) {
                advance_to(state, passed.last, passed.count);
                self.record_passed(now, state, passed);
            }
        }
        let progress = &mut state.progress;
        progress.accounted = progress.accounted.max(before_now);
        progress.paused_until = None;
    }

    pub(super) fn trigger_schedule(
        &mut self,
        now: Timestamp,
        id: &ScheduleId,
    ) -> Result<Answer, Rejection> {
        self.settle(now);
        let mut state = self.state_of(id)?;
        if self.draining {
            return Err(Rejection::Draining);
        }
        if self.store_full {
            return Err(Rejection::StoreFull);
        }
        let schedule = Arc::clone(&state.schedule);
        self.check_queue(&schedule.queue)?;
        let name = schedule.trigger_job(self.next_number);
        let job = self.make_job(now, &schedule, name, now, now);
        state.progress.fired += 1;
        self.record_tick(now, &mut state, now, Fate::Triggered(job.number));
        self.change(Change::ScheduleAdvanced { id: id.clone(), progress: state.progress.into() });
        Ok(Answer::Job(fresh_view(job, now)))
    }

    pub(super) fn show_schedule(&self, id: &ScheduleId) -> Result<Answer, Rejection> {
        self.state_of(id).map(|state| Answer::Schedule(Box::new(state)))
    }

    pub(super) fn list_schedules(&self, after: Option<ScheduleId>, limit: usize) -> Answer {
        use core::ops::Bound;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.schedules.range((from, Bound::Unbounded));
        Answer::Schedules(range.take(limit).map(|(_, found)| found.state.clone()).collect())
    }

    /// The self-check: those that have neither a next tick nor a reason, or are overdue.
    pub(super) fn check_schedules(&self, now: Timestamp, limit: usize) -> Answer {
        let counts = self.schedule_counts;
        let unsound = |scheduled: &&Scheduled| !scheduled.state.is_sound(now);
        let overdue = self.wakes.iter().take_while(|(at, _)| *at < now);
        let overdue = overdue.filter_map(|(_, id)| self.schedules.get(id)).filter(unsound);
        let mut found: Vec<ScheduleState> =
            overdue.take(limit).map(|scheduled| scheduled.state.clone()).collect();
        if counts.silent > 0 {
            // Never, by the rules; so nobody minds that all are looked at.
            let silent = self.schedules.values().filter(unsound);
            found = silent.take(limit).map(|scheduled| scheduled.state.clone()).collect();
        }
        Answer::ScheduleCheck(Box::new(ScheduleCheck { counts, unsound: found }))
    }

    fn state_of(&self, id: &ScheduleId) -> Result<ScheduleState, Rejection> {
        let found = self.schedules.get(id).map(|scheduled| scheduled.state.clone());
        found.ok_or(Rejection::NoSuchSchedule)
    }
}
