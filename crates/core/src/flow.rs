//! How fast a queue may go. A meter lets `count` starts through in every `per`, in bursts of at
//! most `count` (the generic cell rate algorithm). It lives in memory only: after a restart a
//! queue may burst once more.

use crate::queue::Rate;
use crate::time::{Millis, Timestamp};

/// The memory of one queue's rate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    /// When the bucket would be empty, in microseconds since the epoch.
    empty_at_us: i64,
}

impl Meter {
    /// Lets one start through, or says when to come back.
    pub(crate) fn take(&mut self, rate: Rate, now: Timestamp) -> Result<(), Timestamp> {
        let now_us = now.as_millis().saturating_mul(1_000);
        let per_us = rate.per.get().saturating_mul(1_000) as i64;
        let step_us = (per_us / i64::from(rate.count)).max(1);
        let burst_us = step_us.saturating_mul(i64::from(rate.count) - 1);
        // By itself a meter never stands further ahead than this: if it does, the rate was another
        // one or the clock was set back, and it is as full as it can be.
        let full_us = now_us.saturating_add(burst_us).saturating_add(step_us);
        self.empty_at_us = self.empty_at_us.clamp(now_us, full_us);
        if self.empty_at_us - now_us > burst_us {
            // Rounded up: asking again at that instant must succeed.
            let wait_us = self.empty_at_us - now_us - burst_us;
            let wait = Millis::new(wait_us.div_euclid(1_000) as u64 + 1);
            return Err(now.plus(wait));
        }
        self.empty_at_us = self.empty_at_us.saturating_add(step_us);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lets_a_burst_through_and_then_the_rate() {
        let rate = Rate { count: 5, per: Millis::new(1_000) };
        let mut meter = Meter::default();
        let mut now = Timestamp::from_millis(1_000_000);
        let begin = now;
        let mut started = 0;
        while now.since(begin) < Millis::new(10_000) {
            match meter.take(rate, now) {
                Ok(()) => started += 1,
                Err(next) => {
                    assert!(next > now);
                    now = next;
                }
            }
        }
        assert!((54..=56).contains(&started), "a burst of 5 and 50 in ten seconds, not {started}");
    }

    #[test]
    fn the_instant_named_is_good() {
        let rate = Rate { count: 3, per: Millis::new(7) };
        let mut meter = Meter::default();
        let mut now = Timestamp::from_millis(5);
        for _ in 0..1_000 {
            if let Err(next) = meter.take(rate, now) {
                now = next;
                assert!(meter.take(rate, now).is_ok());
            }
        }
    }
}
