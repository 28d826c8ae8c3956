//! How fast a queue may go. A meter lets `count` starts through in every `per`, in bursts of at
//! most `count` (the generic cell rate algorithm): all that it has to know is one instant. That is
//! kept with the counts of the queue, so that a restart gives nothing away.

use crate::queue::Rate;
use crate::time::{Millis, Timestamp};

/// Lets one start through, or says when to come back. `used_until_us` is when all that was let
/// through so far will have been made up for.
pub(crate) fn take(used_until_us: &mut u64, rate: Rate, now: Timestamp) -> Result<(), Timestamp> {
    let now_us = u64::try_from(now.as_millis()).unwrap_or(0).saturating_mul(1_000);
    let per_us = rate.per.get().saturating_mul(1_000);
    let step_us = (per_us / u64::from(rate.count)).max(1);
    let burst_us = step_us.saturating_mul(u64::from(rate.count) - 1);
    // By itself it never stands further ahead than this: if it does, the rate was another one or
    // the clock was set back, and it is as full as it can be.
    let full_us = now_us.saturating_add(burst_us).saturating_add(step_us);
    *used_until_us = (*used_until_us).clamp(now_us, full_us);
    let ahead_us = *used_until_us - now_us;
    if ahead_us > burst_us {
        // Rounded up: asking again at that instant must succeed.
        return Err(now.plus(Millis::new((ahead_us - burst_us) / 1_000 + 1)));
    }
    *used_until_us = used_until_us.saturating_add(step_us);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lets_a_burst_through_and_then_the_rate() {
        let rate = Rate { count: 5, per: Millis::new(1_000) };
        let mut used_until_us = 0;
        let mut now = Timestamp::from_millis(1_000_000);
        let begin = now;
        let mut started = 0;
        while now.since(begin) < Millis::new(10_000) {
            match take(&mut used_until_us, rate, now) {
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
        let mut used_until_us = 0;
        let mut now = Timestamp::from_millis(5);
        for _ in 0..1_000 {
            if let Err(next) = take(&mut used_until_us, rate, now) {
                now = next;
                assert!(take(&mut used_until_us, rate, now).is_ok());
            }
        }
    }
}
