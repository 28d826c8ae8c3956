//! A clock that was set back. Due times are what people said and stay; but what was put off by a
//! span, from an instant that is now in the future, is put off no longer than by that span from
//! now on.

use crate::time::Timestamp;

use super::Shard;
use super::index::Alarm;

impl Shard {
    /// Notes the time. The first time that a shard is told counts as set back: what it recovered
    /// may be from a later one.
    pub(super) fn note_time(&mut self, now: Timestamp) {
        if now < core::mem::replace(&mut self.last_now, now) {
            self.ring_rates();
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
}
