//! What is to be done about the ticks of a schedule that have come: pure, one step at a time. The
//! policies about missed ticks are here and nowhere else.

use crate::ledger::{Fate, SkipReason};
use crate::limits;
use crate::schedule::{Misfire, ScheduleState};
use crate::time::{Millis, Timestamp};

/// What happens to the first ticks that are not accounted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// This one, the first of them, is to run.
    Run(Timestamp),
    /// These make no job.
    Pass(Passed),
}

/// A run of consecutive ticks that make no job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Passed {
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    pub(super) count: u64,
    pub(super) fate: Fate,
}

/// One moment before: ticks are after an instant or not, in milliseconds.
const INSTANT: Millis = Millis::new(1);

/// The next step for a schedule, if a tick of it has come.
pub(super) fn next_step(state: &ScheduleState, now: Timestamp) -> Option<Step> {
    let (schedule, progress) = (&state.schedule, &state.progress);
    let next = progress.next_at.filter(|at| *at <= now)?;
    if let Some(until) = progress.paused_until.filter(|until| next <= *until) {
        return Some(pass_until(state, next, until, Fate::Skipped(SkipReason::Paused)));
    }
    if progress.hold_until.is_some_and(|hold| hold > now) {
        return None;
    }
    let until = missed_until(state, next, now);
    if next > until {
        return Some(Step::Run(next));
    }
    let missed = Fate::Skipped(SkipReason::Misfire);
    Some(match schedule.misfire {
        Misfire::All { .. } => Step::Run(next),
        Misfire::Skip => pass_until(state, next, until, missed),
        Misfire::Once => stand_for(state, next, until, now),
        Misfire::Last(kept) => {
            let tally = tally(state, until);
            match tally.count.checked_sub(u64::from(kept)) {
                None | Some(0) => Step::Run(next),
                Some(count) => {
                    let (plan, accounted) = (&schedule.plan, progress.accounted);
                    let last = plan.nth_last_in(accounted, tally.last, u64::from(kept) + 1);
                    let last = last.unwrap_or(next);
                    Step::Pass(Passed { first: next, last, count, fate: missed })
                }
            }
        }
    })
}

/// Whether a tick is so late that it counts as missed.
pub(super) fn is_missed(state: &ScheduleState, tick: Timestamp, now: Timestamp) -> bool {
    let late = now.since(tick);
    match state.schedule.grace {
        Some(grace) => late > grace,
        None => late > limits::GRACE_DEFAULT || next_of(state, tick).is_some_and(|at| at <= now),
    }
}

/// The ticks of the plan that are due and not accounted for, whatever the policy.
pub(super) fn pass_all(state: &ScheduleState, until: Timestamp, fate: Fate) -> Option<Passed> {
    let (plan, progress) = (&state.schedule.plan, &state.progress);
    let first = plan.next_after(progress.accounted, progress.ticked)?.at;
    let tally = plan.tally(progress.accounted, until, progress.ticked, usize::MAX);
    (first <= until).then_some(Passed { first, last: tally.last, count: tally.count, fate })
}

/// The instant up to which ticks count as missed.
fn missed_until(state: &ScheduleState, next: Timestamp, now: Timestamp) -> Timestamp {
    if let Some(grace) = state.schedule.grace {
        return now.minus(grace).minus(INSTANT);
    }
    let long_ago = now.minus(limits::GRACE_DEFAULT).minus(INSTANT);
    match next_of(state, next) {
        // The next one is due already: all before the last are missed.
        Some(second) if second <= now => tally(state, now).last.minus(INSTANT).max(long_ago),
        _ => long_ago,
    }
}

/// The next tick that runs stands for the missed ones; if there is none, the last of them runs.
fn stand_for(state: &ScheduleState, next: Timestamp, until: Timestamp, now: Timestamp) -> Step {
    let tally = tally(state, until);
    let ticked = state.progress.ticked.saturating_add(tally.count);
    let later = state.schedule.plan.next_after(tally.last, ticked);
    let count =
        if later.is_some_and(|tick| tick.at <= now) { tally.count } else { tally.count - 1 };
    if count == 0 {
        return Step::Run(next);
    }
    let mut last = tally.last;
    if count < tally.count {
        let before = last.minus(INSTANT);
        last = state.schedule.plan.last_in(state.progress.accounted, before).unwrap_or(next);
    }
    Step::Pass(Passed { first: next, last, count, fate: Fate::Coalesced })
}

fn pass_until(state: &ScheduleState, first: Timestamp, until: Timestamp, fate: Fate) -> Step {
    let tally = tally(state, until);
    Step::Pass(Passed { first, last: tally.last, count: tally.count, fate })
}

fn tally(state: &ScheduleState, until: Timestamp) -> crate::when::Tally {
    let (plan, progress) = (&state.schedule.plan, &state.progress);
    plan.tally(progress.accounted, until, progress.ticked, limits::TICKS_WALKED_MAX)
}

/// The tick after one that is not accounted for.
fn next_of(state: &ScheduleState, tick: Timestamp) -> Option<Timestamp> {
    let ticked = state.progress.ticked.saturating_add(1);
    state.schedule.plan.next_after(tick, ticked).map(|tick| tick.at)
}
