//! A clock that was set back. Due times are what people said and stay; but what was put off by a
//! span, from an instant that is now in the future, is put off no longer than by that span from
//! now on.

use alloc::vec::Vec;

use crate::change::Change;
use crate::id::ScheduleId;
use crate::schedule::{Misfire, ScheduleProgress, ScheduleState};
use crate::time::Timestamp;

use super::Shard;
use super::index::Alarm;
use super::ticks::NO_ROOM_DELAY;

impl Shard {
    /// Notes the time. The first time that a shard is told counts as set back: what it recovered
    /// may be from a later one.
    pub(super) fn note_time(&mut self, now: Timestamp) {
        if now < core::mem::replace(&mut self.last_now, now) {
            self.ring_rates();
            self.shorten_holds(now);
        }
    }

    /// Whoever waits for a rate asks again, and hears of a time by the new clock.
    fn ring_rates(&mut self) {
        for (at, queue) in self.queues.iter_mut().enumerate() {
            if let Some(alarm) = queue.rate_alarm.take() {
                self.alarms.remove(&(alarm, Alarm::Rate(at)));
                self.stirred.insert(at);
            }
        }
    }

    /// What is made at a pace waits for that long at most.
    fn shorten_holds(&mut self, now: Timestamp) {
        let all = self.schedules.iter();
        let held: Vec<(ScheduleId, ScheduleProgress)> = all
            .filter_map(|(id, found)| Some((id.clone(), shortened(&found.state, now)?)))
            .collect();
        for (id, progress) in held {
            self.change(Change::ScheduleAdvanced { id, progress: progress.into() });
        }
    }
}

/// The progress of a schedule whose holds were too long, with ones that are not.
fn shortened(state: &ScheduleState, now: Timestamp) -> Option<ScheduleProgress> {
    let old = &state.progress;
    let mut hold_until = old.hold_until;
    if let Misfire::All { pace } = state.schedule.misfire {
        hold_until = hold_until.map(|hold| hold.min(now.plus(pace)));
    }
    let mut backfill = old.backfill.clone();
    if let Some(fill) = backfill.as_mut().filter(|fill| fill.is_under_way()) {
        // It waits for the pace, or for room.
        fill.hold_until = fill.hold_until.min(now.plus(fill.pace.max(NO_ROOM_DELAY)));
    }
    let is_new = hold_until != old.hold_until || backfill != old.backfill;
    is_new.then(|| ScheduleProgress { hold_until, backfill, ..old.clone() })
}
