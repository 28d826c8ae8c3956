//! How fast this node's own deliveries end, to know how many of them to hand out ahead.
//!
//! A lease must be durable before its delivery begins. Were there never more leases than may be
//! under way, each place would stay empty while the next lease is written. So there are a few more,
//! whose deliveries begin when others end: as many as end in [`AHEAD_SPAN`], so that none waits for
//! much longer than that. Where receivers are slow that is next to none, and whatever comes, or
//! matters more, finds the next place.

use crate::limits::AHEAD_SPAN;
use crate::time::Timestamp;

/// What has ended lately.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Pace {
    /// Which span of time it is.
    span: i64,
    ended: u32,
    /// In the span before, and in the one before that.
    before: [u32; 2],
}

impl Pace {
    /// A delivery has ended.
    pub(super) fn note(&mut self, now: Timestamp) {
        self.move_on(now);
        self.ended += 1;
    }

    /// How many end in a span, by the last two that are over: many that end at once, and then none
    /// for a while, are no pace.
    pub(super) fn per_span(&mut self, now: Timestamp) -> u32 {
        self.move_on(now);
        let [last, one_before] = self.before;
        last.min(one_before)
    }

    fn move_on(&mut self, now: Timestamp) {
        let span = now.as_millis().div_euclid(AHEAD_SPAN.get() as i64);
        let before = match span.checked_sub(self.span) {
            Some(0) => return,
            Some(1) => [self.ended, self.before[0]],
            _ => [0, 0],
        };
        *self = Pace { span, ended: 0, before };
    }
}
