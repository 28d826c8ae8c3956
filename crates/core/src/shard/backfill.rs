//! Backfills: jobs for ticks of the past that made none. What was made is known by the ledger, so
//! that is read first, page by page. The cursor is stored with every job, so that a crash repeats
//! nothing.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use crate::effect::{Answer, Effect};
use crate::error::Rejection;
use crate::id::{JobName, ScheduleId};
use crate::ledger::{Fate, OccurrenceRecord};
use crate::limits;
use crate::schedule::{Backfill, Schedule, ScheduleState};
use crate::time::{Millis, Timestamp};

use super::Shard;
use super::ticks::{NO_ROOM_DELAY, job_name};

/// What is known of the ledger of a schedule that is being backfilled.
#[derive(Debug, Default)]
pub(super) struct Recall {
    /// All is known up to this instant; none while the answer is on its way.
    through: Option<Timestamp>,
    /// The ticks that made a job.
    made: BTreeSet<Timestamp>,
    /// The answer on its way is for a backfill that is no more.
    stale: bool,
    /// The name that was last looked for in the store.
    looked: Option<Looked>,
}

/// Whether a job has a name; none while the answer is on its way.
#[derive(Debug)]
struct Looked {
    name: JobName,
    is_taken: Option<bool>,
}

impl Recall {
    /// Whether an answer of the store is on its way.
    fn is_asked(&self) -> bool {
        let looks = self.looked.as_ref().is_some_and(|looked| looked.is_taken.is_none());
        self.through.is_none() || looks
    }
}

impl Shard {
    pub(super) fn backfill(
        &mut self,
        now: Timestamp,
        id: &ScheduleId,
        range: (Timestamp, Timestamp),
        pace: Millis,
    ) -> Result<Answer, Rejection> {
        let scheduled = self.schedules.get(id).ok_or(Rejection::NoSuchSchedule)?;
        if self.draining {
            return Err(Rejection::Draining);
        }
        if self.store_full {
            return Err(Rejection::StoreFull);
        }
        let mut state = scheduled.state.clone();
        state.progress.backfill = Some(new_backfill(&state, now, range, pace)?);
        let (id, progress) = (id.clone(), state.progress.clone());
        self.change(crate::change::Change::ScheduleAdvanced { id, progress: progress.into() });
        Ok(Answer::Schedule(Box::new(state)))
    }

    /// Ends a backfill where it is; the jobs that it made stay.
    pub(super) fn cancel_backfill(
        &mut self,
        now: Timestamp,
        id: &ScheduleId,
    ) -> Result<Answer, Rejection> {
        let scheduled = self.schedules.get(id).ok_or(Rejection::NoSuchSchedule)?;
        let mut state = scheduled.state.clone();
        let under_way = state.progress.backfill.as_mut().filter(|fill| fill.is_under_way());
        let Some(fill) = under_way else {
            return Err(Rejection::invalid(
                "backfill",
                "is not under way; there is nothing to cancel",
            ));
        };
        fill.ended_at = Some(now);
        self.drop_recall(id);
        let (id, progress) = (id.clone(), state.progress.clone());
        self.change(crate::change::Change::ScheduleAdvanced { id, progress: progress.into() });
        Ok(Answer::Schedule(Box::new(state)))
    }

    /// What is known of a ledger is of no use any more. An answer that is on its way must not be
    /// taken for one to the next backfill.
    pub(super) fn drop_recall(&mut self, id: &ScheduleId) {
        match self.recalls.get_mut(id) {
            Some(recall) if recall.through.is_none() => recall.stale = true,
            _ => drop(self.recalls.remove(id)),
        }
    }

    /// Goes on with a backfill as far as the budget and the pace allow.
    pub(super) fn fill_back(
        &mut self,
        now: Timestamp,
        state: &mut ScheduleState,
        budget: &mut usize,
    ) {
        while self.may_go_on(*budget) {
            let Some(fill) = state.progress.backfill.clone() else { return };
            if !fill.is_under_way() || fill.hold_until > now {
                return;
            }
            let Some(through) = self.recalled_through(state, &fill) else { return };
            let next = state.schedule.plan.ticks_of(fill.done).next();
            let next = next.filter(|at| *at <= through.min(fill.until));
            *budget -= 1;
            let fill = match next {
                Some(at) => match self.fill_tick(now, state, at, fill) {
                    Some(fill) => fill,
                    None => return,
                },
                None => {
                    self.recalls.remove(&state.schedule.id);
                    let ended_at = (through >= fill.until).then_some(now);
                    Backfill { done: through.min(fill.until), ended_at, ..fill }
                }
            };
            state.progress.backfill = Some(fill);
        }
    }

    /// The instant up to which the ledger is known; asks for more when it is not.
    fn recalled_through(&mut self, state: &ScheduleState, fill: &Backfill) -> Option<Timestamp> {
        let id = &state.schedule.id;
        if let Some(recall) = self.recalls.get(id) {
            return recall.through;
        }
        self.recalls.insert(id.clone(), Recall::default());
        let (schedule, after, until) = (id.clone(), fill.done, fill.until);
        let limit = limits::RECALL_MAX;
        self.effects.push_back(Effect::Recall { schedule, after, until, limit });
        None
    }

    /// Deals with one tick; nothing when the store must say something first.
    fn fill_tick(
        &mut self,
        now: Timestamp,
        state: &mut ScheduleState,
        at: Timestamp,
        fill: Backfill,
    ) -> Option<Backfill> {
        let schedule = alloc::sync::Arc::clone(&state.schedule);
        let made = self.recalls.get(&schedule.id).is_some_and(|recall| recall.made.contains(&at));
        // One that waits will have its job. And the ledger may be younger than a job: it goes
        // with its schedule, and jobs stay.
        let waits = state.progress.waiting.contains(&at);
        if made || waits || self.is_taken(&schedule, at)? {
            return Some(Backfill { done: at, kept: fill.kept + 1, ..fill });
        }
        if self.room_for(&schedule).is_err() {
            return Some(Backfill { hold_until: now.plus(NO_ROOM_DELAY), ..fill });
        }
        // Due now, not then: it must not go ahead of what is waiting already.
        let number = self.make_job(now, &schedule, schedule.tick_job(at), at, now).number;
        state.progress.fired += 1;
        self.record_tick(now, state, at, Fate::Backfilled(number));
        let (made, hold_until) = (fill.made + 1, now.plus(fill.pace));
        Some(Backfill { done: at, made, hold_until, ..fill })
    }

    /// Whether a job has the name of a tick's job: a live one, or one that has ended and is kept.
    /// A second one would hide it, so that nobody could replay or forget it any more. What is not
    /// in memory is asked of the store, and nothing is said until it has answered.
    fn is_taken(&mut self, schedule: &Schedule, at: Timestamp) -> Option<bool> {
        let name = job_name(schedule, schedule.tick_job(at));
        if self.named(&name).is_some() {
            return Some(true);
        }
        let recall = self.recalls.get_mut(&schedule.id)?;
        if let Some(looked) = recall.looked.as_ref().filter(|looked| looked.name == name) {
            return looked.is_taken;
        }
        recall.looked = Some(Looked { name: name.clone(), is_taken: None });
        self.look_for(&name, &schedule.id);
        None
    }

    /// The store said whether there is a job of a name.
    pub(super) fn looked_up(&mut self, id: &ScheduleId, name: &JobName, is_taken: bool) {
        let looked = self.recalls.get_mut(id).and_then(|recall| recall.looked.as_mut());
        if let Some(looked) = looked.filter(|looked| looked.name == *name) {
            looked.is_taken = Some(is_taken);
        }
        self.set_wake(id);
    }

    /// Something happened to a name: what the store said of it may not hold any more.
    pub(super) fn doubt_name(&mut self, name: &JobName) {
        for recall in self.recalls.values_mut() {
            let is_it = |looked: &Looked| looked.name == *name && looked.is_taken.is_some();
            if recall.looked.as_ref().is_some_and(is_it) {
                recall.looked = None;
            }
        }
    }

    /// A page of the ledger arrived.
    pub(super) fn recalled(&mut self, id: &ScheduleId, records: &[OccurrenceRecord], more: bool) {
        let Some(recall) = self.recalls.get_mut(id).filter(|recall| recall.through.is_none())
        else {
            return;
        };
        if recall.stale {
            self.recalls.remove(id);
            self.set_wake(id);
            return;
        }
        let made: Vec<Timestamp> = records
            .iter()
            .filter(|record| record.fate.job().is_some())
            .map(|record| record.last)
            .collect();
        recall.made.extend(made);
        // The last tick of a page may have another record on the next one.
        let last = records.last().map(|record| record.last.minus(Millis::new(1)));
        recall.through = last.filter(|_| more).or(Some(Timestamp::MAX));
        self.set_wake(id);
    }

    /// A tick made a job while a backfill is under way: the page that was read does not know.
    pub(super) fn note_made(&mut self, id: &ScheduleId, at: Timestamp) {
        if let Some(recall) = self.recalls.get_mut(id) {
            recall.made.insert(at);
        }
    }

    /// When a backfill goes on by itself.
    pub(super) fn backfill_wake(&self, state: &ScheduleState) -> Option<Timestamp> {
        let fill = state.progress.backfill.as_ref().filter(|fill| fill.is_under_way())?;
        let recall = self.recalls.get(&state.schedule.id);
        let asked = recall.is_some_and(Recall::is_asked);
        (!asked).then_some(fill.hold_until)
    }
}

fn new_backfill(
    state: &ScheduleState,
    now: Timestamp,
    (from, until): (Timestamp, Timestamp),
    pace: Millis,
) -> Result<Backfill, Rejection> {
    if state.progress.backfill.as_ref().is_some_and(Backfill::is_under_way) {
        return Err(Rejection::invalid(
            "backfill",
            "is under way already; wait for its end, or cancel it",
        ));
    }
    if until < from {
        return Err(Rejection::invalid("to", "must not be before the start of the range"));
    }
    if until > now {
        return Err(Rejection::invalid("to", "must not be in the future"));
    }
    if pace > limits::PACE_MAX {
        return Err(Rejection::out_of_range("pace", "0ms", limits::PACE_MAX));
    }
    let known_from = now.minus(state.schedule.ledger_retention);
    if from < known_from {
        let problem = format!("must not be before {known_from}: older ticks are not in the ledger");
        return Err(Rejection::invalid("from", problem));
    }
    let after = from.minus(Millis::new(1));
    // What is not accounted for yet is the misfire policy's business.
    let until = until.min(state.progress.accounted);
    let until = until.min(last_counted(state, after, until)?).max(after);
    let ticks = state.schedule.plan.count_up_to(after, until, limits::BACKFILL_TICKS_MAX + 1);
    if ticks > limits::BACKFILL_TICKS_MAX {
        let max = limits::BACKFILL_TICKS_MAX;
        let problem = format!("has {ticks} ticks in it or more; a backfill has at most {max}");
        return Err(Rejection::invalid("from", problem));
    }
    Ok(Backfill {
        after,
        until,
        pace,
        done: after,
        ticks,
        made: 0,
        kept: 0,
        hold_until: now,
        ended_at: None,
    })
}

/// The last tick that a backfill may reach. With a count there are no ticks but those that it
/// counted: neither later ones, nor any from before the schedule was put.
fn last_counted(
    state: &ScheduleState,
    after: Timestamp,
    until: Timestamp,
) -> Result<Timestamp, Rejection> {
    let (plan, progress) = (&state.schedule.plan, &state.progress);
    if plan.count.is_none() {
        return Ok(until);
    }
    let (counted, last) = (progress.ticked, progress.last_at.unwrap_or(until));
    if plan.count_up_to(after, last, counted.saturating_add(1)) > counted {
        let problem = format!(
            "goes back further than the {counted} ticks that were counted; with a count there are \
             no others"
        );
        return Err(Rejection::invalid("from", problem));
    }
    Ok(last)
}
