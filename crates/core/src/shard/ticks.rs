//! Ticks: a tick that has come makes its job, is accounted for, and the schedule moves on, all in
//! one commit. Work is bounded: what is left over is done in the next call, which is wanted at
//! once.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::change::Change;
use crate::effect::{Effect, Notice};
use crate::error::Rejection;
use crate::id::{JobId, JobName, ScheduleId};
use crate::input::{Request, Ticket};
use crate::job::{Job, Occurrence, Progress};
use crate::ledger::{Fate, OccurrenceRecord, SkipReason};
use crate::limits;
use crate::schedule::{
    LedgerSpan, Misfire, Overlap, Run, Schedule, ScheduleProgress, ScheduleState, earlier,
};
use crate::time::{Millis, Timestamp};
use crate::when::ZONES_VERSION;

use super::Shard;
use super::catch_up::{Passed, Step, is_missed, next_step};

/// How long ticks wait when there is no room for their jobs.
pub(super) const NO_ROOM_DELAY: Millis = Millis::from_secs(1);

/// A schedule in memory, and when something is to be done about it.
#[derive(Debug)]
pub(super) struct Scheduled {
    pub(super) state: ScheduleState,
    pub(super) wake: Option<Timestamp>,
}

impl Shard {
    /// Does what is to be done about schedules by now, as far as the budget goes.
    pub(super) fn tick_schedules(&mut self, now: Timestamp, budget: &mut usize) {
        self.note_time(now);
        self.clear_ended_runs();
        // A clock that was set back must not put ticks off until it has caught up.
        self.ticks_from = self.ticks_from.min(now.plus(NO_ROOM_DELAY));
        if self.draining || self.ticks_from > now {
            return;
        }
        self.compute_anew(budget);
        while self.may_go_on(*budget)
            && let Some((at, id)) = self.wakes.first().cloned()
        {
            if at > now {
                return;
            }
            if self.store_full {
                self.ticks_from = now.plus(NO_ROOM_DELAY);
                return;
            }
            self.act(now, &id, budget);
        }
    }

    /// Acts on one schedule.
    pub(super) fn act(&mut self, now: Timestamp, id: &ScheduleId, budget: &mut usize) {
        let Some(scheduled) = self.schedules.get(id) else { return };
        let mut state = scheduled.state.clone();
        self.forget_records(now, &mut state);
        self.release_waiting(now, &mut state, budget);
        while self.may_go_on(*budget)
            && let Some(step) = next_step(&state, now)
        {
            *budget -= 1;
            match step {
                Step::Run(at) => self.run_tick(now, &mut state, at),
                Step::Pass(passed) => self.pass_ticks(now, &mut state, passed),
            }
        }
        *budget = budget.saturating_sub(1);
        self.fill_back(now, &mut state, budget);
        let id = id.clone();
        self.change(Change::ScheduleAdvanced { id, progress: state.progress.into() });
    }

    /// A new zone database may have moved ticks: they are computed anew from what is accounted for.
    fn compute_anew(&mut self, budget: &mut usize) {
        while self.may_go_on(*budget)
            && let Some(id) = self.stale.pop_first()
        {
            *budget -= 1;
            let Some(scheduled) = self.schedules.get(&id) else { continue };
            let mut state = scheduled.state.clone();
            let (before, zones) = (state.progress.next_at, Arc::clone(&state.progress.zones));
            state.look_ahead();
            let after = state.progress.next_at;
            let progress = state.progress;
            self.change(Change::ScheduleAdvanced { id: id.clone(), progress: progress.into() });
            if before != after {
                let notice = Notice::TickMoved { schedule: id, zones, before, after };
                self.effects.push_back(Effect::Notice(notice));
            }
        }
    }

    /// The first tick runs, unless an earlier one's job is in its way.
    fn run_tick(&mut self, now: Timestamp, state: &mut ScheduleState, at: Timestamp) {
        let missed = is_missed(state, at, now);
        advance_to(state, at, 1);
        let progress = &mut state.progress;
        progress.hold_until = match state.schedule.misfire {
            Misfire::All { pace } if missed => Some(now.plus(pace)),
            Misfire::All { .. } | Misfire::Skip | Misfire::Once | Misfire::Last(_) => None,
        };
        if progress.running.is_none() && progress.waiting.is_empty() {
            return self.start(now, state, at, missed);
        }
        let skipped = match state.schedule.overlap {
            Overlap::Allow | Overlap::Replace => return self.start(now, state, at, missed),
            overlap if progress.waiting.len() < overlap.waiting_max() => {
                return progress.waiting.push(at);
            }
            Overlap::QueueAll => SkipReason::Backlog,
            Overlap::Skip | Overlap::QueueOne => SkipReason::Overlap,
        };
        self.record_tick(now, state, at, Fate::Skipped(skipped));
    }

    /// Ticks that waited for the end of a job.
    fn release_waiting(&mut self, now: Timestamp, state: &mut ScheduleState, budget: &mut usize) {
        while self.may_go_on(*budget)
            && state.schedule.paused.is_none()
            && state.progress.running.is_none()
            && !state.progress.waiting.is_empty()
        {
            *budget -= 1;
            let at = state.progress.waiting.remove(0);
            let missed = is_missed(state, at, now);
            self.start(now, state, at, missed);
        }
    }

    /// Makes the job of a tick, if its queue takes it.
    fn start(&mut self, now: Timestamp, state: &mut ScheduleState, at: Timestamp, missed: bool) {
        let schedule = Arc::clone(&state.schedule);
        let replaced = state.progress.running.filter(|_| schedule.overlap == Overlap::Replace);
        if let Err(reason) = self.room_in_place_of(replaced, &schedule) {
            return self.record_tick(now, state, at, Fate::Skipped(reason));
        }
        if let Some(run) = replaced {
            state.progress.running = None;
            self.cancel_run(now, &schedule, run);
        }
        let (id, due_at) = (schedule.tick_job(at), schedule.due_of(at));
        // Of a schedule that was removed and put again at its tick, the job may be there already.
        let standing = self.named(&job_name(&schedule, id.clone()));
        let number =
            standing.unwrap_or_else(|| self.make_job(now, &schedule, id, at, due_at).number);
        state.progress.fired += 1;
        if schedule.overlap != Overlap::Allow {
            state.progress.running = Some(Run { number, at });
        }
        let fate = if missed { Fate::Late(number, now.since(at)) } else { Fate::Ran(number) };
        self.record_tick(now, state, at, fate);
    }

    fn cancel_run(&mut self, now: Timestamp, schedule: &Schedule, run: Run) {
        let name = job_name(schedule, schedule.tick_job(run.at));
        // It may be in the store only; then it is looked for, and cancelled when it is found.
        self.with_subject(now, Ticket::NOBODY, &name.clone(), Request::Cancel(name));
    }

    fn pass_ticks(&mut self, now: Timestamp, state: &mut ScheduleState, passed: Passed) {
        advance_to(state, passed.last, passed.count);
        self.record_passed(now, state, passed);
    }

    pub(super) fn record_passed(
        &mut self,
        now: Timestamp,
        state: &mut ScheduleState,
        passed: Passed,
    ) {
        let Passed { first, last, count, fate } = passed;
        let schedule = state.schedule.id.clone();
        if fate.job().is_some() {
            self.note_made(&schedule, last);
        }
        let span = state.progress.ledger.unwrap_or(LedgerSpan { first: last, last });
        let (oldest, newest) = (span.first.min(last), span.last.max(last));
        state.progress.ledger = Some(LedgerSpan { first: oldest, last: newest });
        let record = OccurrenceRecord { schedule, first, last, count, decided_at: now, fate };
        self.change(Change::OccurrenceRecorded { record });
    }

    pub(super) fn record_tick(
        &mut self,
        now: Timestamp,
        state: &mut ScheduleState,
        at: Timestamp,
        fate: Fate,
    ) {
        self.record_passed(now, state, Passed { first: at, last: at, count: 1, fate });
    }

    /// Forgets what the ledger need not remember any more.
    fn forget_records(&mut self, now: Timestamp, state: &mut ScheduleState) {
        if state.forget_at().is_none_or(|at| at > now) {
            return;
        }
        let before = now.minus(state.schedule.ledger_retention);
        let span = state.progress.ledger.filter(|span| span.last >= before);
        state.progress.ledger = span.map(|span| LedgerSpan { first: before, ..span });
        let schedule = state.schedule.id.clone();
        self.change(Change::LedgerForgotten { schedule, before });
    }

    pub(super) fn make_job(
        &mut self,
        now: Timestamp,
        schedule: &Schedule,
        id: JobId,
        at: Timestamp,
        due_at: Timestamp,
    ) -> Arc<Job> {
        let occurrence = Some(Occurrence { schedule: schedule.id.clone(), at });
        let name = job_name(schedule, id);
        let job = self.new_job(now, name, due_at, schedule.template.clone(), occurrence, None);
        let progress = Progress::fresh(due_at);
        let (replaces, revives) = (None, None);
        self.change(Change::JobPut { job: Arc::clone(&job), progress, replaces, revives });
        job
    }

    /// A tick cannot be told to come again later, so a queue that takes nothing costs it its job.
    pub(super) fn room_for(&self, schedule: &Schedule) -> Result<(), SkipReason> {
        self.check_queue(&schedule.queue).map_err(|refused| skip_reason(&refused))
    }

    /// The same for a job in whose favour another one is cancelled: one goes, one comes. But one
    /// that runs leaves no place among those that wait.
    fn room_in_place_of(&self, run: Option<Run>, schedule: &Schedule) -> Result<(), SkipReason> {
        let is_leased = |number| self.jobs.get(number).is_some_and(|entry| entry.lease.is_some());
        match run {
            // What is not in memory waits in the store.
            Some(run) if !is_leased(run.number) => {
                self.check_open(&schedule.queue).map_err(|refused| skip_reason(&refused))
            }
            _ => self.room_for(schedule),
        }
    }

    /// Jobs of ticks that have ended are no longer in the way.
    fn clear_ended_runs(&mut self) {
        for (id, number) in core::mem::take(&mut self.ended_runs) {
            let Some(scheduled) = self.schedules.get(&id) else { continue };
            let progress = &scheduled.state.progress;
            if progress.running.is_some_and(|run| run.number == number) {
                let progress = ScheduleProgress { running: None, ..progress.clone() };
                self.change(Change::ScheduleAdvanced { id, progress: progress.into() });
            }
        }
    }

    /// Notes that a job has ended, when a schedule may wait for that.
    pub(super) fn note_ended(&mut self, job: &Job) {
        if let Some(occurrence) = &job.occurrence {
            self.ended_runs.push((occurrence.schedule.clone(), job.number));
        }
    }

    /// The youngest live job that one of the last ticks made. It is looked for by its name, and in
    /// memory only: a policy holds from the next tick on, and should not wait for the store.
    pub(super) fn live_run(&self, state: &ScheduleState) -> Option<Run> {
        let (schedule, last) = (&state.schedule, state.progress.last_at?);
        let plan = &schedule.plan;
        let first = plan.nth_last_in(Timestamp::EPOCH, last, limits::WAITING_TICKS_MAX as u64);
        let before = first.unwrap_or(Timestamp::EPOCH).minus(Millis::new(1));
        let ticks: Vec<Timestamp> = plan.ticks_of(before).take_while(|at| *at <= last).collect();
        ticks.into_iter().rev().find_map(|at| {
            let number = self.named(&job_name(schedule, schedule.tick_job(at)))?;
            let job = self.job_of(self.jobs.get(number)?);
            (!is_backfilled(&job, at)).then_some(Run { number, at })
        })
    }

    /// The job of a tick lives again: it is in the way of the next ones, unless another one is.
    pub(super) fn note_replayed(&mut self, job: &Job) {
        let Some(Occurrence { schedule: id, at }) = &job.occurrence else { return };
        let Some(state) = self.schedules.get(id).map(|scheduled| &scheduled.state) else { return };
        let (schedule, progress) = (&state.schedule, &state.progress);
        // One that was triggered has another name; that and a backfilled one are in nobody's way.
        let named = job.name == job_name(schedule, schedule.tick_job(*at));
        let of_tick = named && !is_backfilled(job, *at);
        if !of_tick || schedule.overlap == Overlap::Allow || progress.running.is_some() {
            return;
        }
        let running = Some(Run { number: job.number, at: *at });
        let progress = ScheduleProgress { running, ..progress.clone() };
        self.change(Change::ScheduleAdvanced { id: id.clone(), progress: progress.into() });
    }

    /// Keeps the order in which schedules are looked at.
    pub(super) fn set_wake(&mut self, id: &ScheduleId) {
        let Some(scheduled) = self.schedules.get(id) else { return };
        let wake = earlier(scheduled.state.wake_at(), self.backfill_wake(&scheduled.state));
        if wake == scheduled.wake {
            return;
        }
        if let Some(old) = scheduled.wake {
            self.wakes.remove(&(old, id.clone()));
        }
        if let Some(new) = wake {
            self.wakes.insert((new, id.clone()));
        }
        if let Some(scheduled) = self.schedules.get_mut(id) {
            scheduled.wake = wake;
        }
    }

    /// Schedules whose next tick was computed with another zone database.
    pub(super) fn note_stale(&mut self) {
        let is_stale = |scheduled: &Scheduled| *scheduled.state.progress.zones != *ZONES_VERSION;
        let stale = self.schedules.iter().filter(|(_, scheduled)| is_stale(scheduled));
        self.stale = stale.map(|(id, _)| id.clone()).collect();
    }

    /// When something is to be done about schedules.
    pub(super) fn schedules_deadline(&self) -> Option<Timestamp> {
        if self.draining {
            return None;
        }
        let stale = (!self.stale.is_empty()).then_some(Timestamp::EPOCH);
        let wake = earlier(stale, self.wakes.first().map(|(at, _)| *at));
        wake.map(|at| at.max(self.ticks_from))
    }
}

/// So many ticks, the last of them at this instant, are accounted for.
pub(super) fn advance_to(state: &mut ScheduleState, last: Timestamp, count: u64) {
    let progress = &mut state.progress;
    progress.accounted = last;
    progress.last_at = Some(last);
    progress.ticked = progress.ticked.saturating_add(count);
    if progress.paused_until.is_some_and(|until| until <= last) {
        progress.paused_until = None;
    }
    state.look_ahead();
}

fn skip_reason(refused: &Rejection) -> SkipReason {
    match refused {
        Rejection::QueuePaused { .. } => SkipReason::QueuePaused,
        _ => SkipReason::QueueFull,
    }
}

/// Whether a backfill made the job of a tick, as it stood in its first life: it was due when it was
/// made, and that was later than the tick.
fn is_backfilled(job: &Job, at: Timestamp) -> bool {
    job.submitted_at > at && job.scheduled_for == job.submitted_at
}

pub(super) fn job_name(schedule: &Schedule, id: JobId) -> JobName {
    JobName { queue: schedule.queue.clone(), key: schedule.key.clone(), id }
}

/// How much one call may do about schedules.
pub(super) const BUDGET: usize = limits::TICKS_PER_CALL_MAX;
