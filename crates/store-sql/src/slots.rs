//! Where rows lie, as arithmetic: which slot a due time belongs to, and which slots a walk over the
//! future must visit.
//!
//! ```text
//!       near_from                                   near_until
//!           │                                           │
//!  ─────────┼──────┬──────┬──────┬─ ─ ─ ─ ─ ┬──────┬────┼───────────►  due time
//!  elsewhere│ slot │ slot │ slot │          │ slot │slot│ elsewhere
//! ```
//!
//! What is due between the two instants lies in the slot of its time: rows are added there, and the
//! slot is dropped whole when its time is over. All else lies in slot 0, elsewhere, where rows are
//! removed one by one: late jobs and very far ones, the few. Both instants only ever grow, each
//! time with the shard locked and the rows between moved over, so that the place of a job tells
//! exactly where its row is.

use hence_core::time::{Millis, Timestamp};

use crate::limits::{
    CARRY_BEHIND, ERA_WIDTH, SLOT_WIDTH_DEFAULT, SLOTS_AHEAD_DEFAULT, WALK_SLOTS_FIRST,
};

/// How time is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slots {
    /// The time that a slot covers. A store keeps what it was made with.
    pub width: Millis,
    /// Slots that are open ahead.
    pub ahead: u32,
    /// How late a job must be to be carried elsewhere.
    pub behind: Millis,
    /// How long commits are kept one by one. A store keeps what it was made with.
    pub era: Millis,
}

impl Default for Slots {
    fn default() -> Self {
        Slots {
            width: SLOT_WIDTH_DEFAULT,
            ahead: SLOTS_AHEAD_DEFAULT,
            behind: CARRY_BEHIND,
            era: ERA_WIDTH,
        }
    }
}

/// Slot 0: removed row by row.
pub(crate) const ELSEWHERE: i64 = 0;

/// Where the rows of a shard lie at present.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// The time that a slot covers.
    pub(crate) width: Millis,
    /// What is due before this is elsewhere.
    pub(crate) near_from: Timestamp,
    /// What is due at this or later is elsewhere.
    pub(crate) near_until: Timestamp,
    /// Which partition commits go to.
    pub(crate) era: i64,
}

/// A stretch of due times and the slots its rows lie in, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// The slots; [`ELSEWHERE`] twice, or two that are not.
    pub(crate) slots: (i64, i64),
    /// The first due time.
    pub(crate) first: Timestamp,
    /// The last due time.
    pub(crate) last: Timestamp,
}

impl Layout {
    /// The layout of a store that is made, or kept up, at `now`.
    pub(crate) fn at(now: Timestamp, slots: &Slots) -> Self {
        let Slots { width, ahead, behind, era } = *slots;
        let ahead = Millis::new(width.get().saturating_mul(u64::from(ahead)));
        let last = slot_of(now.plus(ahead), width);
        Layout {
            width,
            near_from: now.minus(behind),
            near_until: start_of(last.saturating_add(1), width),
            era: slot_of(now, era),
        }
    }

    /// The slot of a job that is due then.
    pub(crate) fn slot(&self, due_at: Timestamp) -> i64 {
        let near = self.near_from <= due_at && due_at < self.near_until;
        if near { slot_of(due_at, self.width) } else { ELSEWHERE }
    }

    /// Whether a row of this slot is where it belongs; otherwise it was carried away and is left
    /// over.
    pub(crate) fn holds(&self, slot: i64, due_at: Timestamp) -> bool {
        self.slot(due_at) == slot
    }

    /// The slots that must be there, both ends included.
    pub(crate) fn slots(&self) -> (i64, i64) {
        let last = self.near_until.minus(Millis::new(1));
        (slot_of(self.near_from, self.width), slot_of(last, self.width))
    }

    /// The stretches between two due times, in order. The first is short, because most walks end
    /// in it.
    pub(crate) fn walk(&self, first: Timestamp, last: Timestamp) -> Vec<Step> {
        let before = self.near_from.minus(Millis::new(1));
        let near_last = self.near_until.minus(Millis::new(1));
        let mut steps = Vec::new();
        let elsewhere = (ELSEWHERE, ELSEWHERE);
        push(&mut steps, elsewhere, first, last.min(before));
        let (mut from, end) = (first.max(self.near_from), last.min(near_last));
        let mut slots = WALK_SLOTS_FIRST;
        while from <= end {
            let low = slot_of(from, self.width);
            let high = low.saturating_add(slots - 1).min(slot_of(end, self.width));
            let next = start_of(high.saturating_add(1), self.width);
            push(&mut steps, (low, high), from, end.min(next.minus(Millis::new(1))));
            if next <= from {
                break;
            }
            from = next;
            slots = slots.saturating_mul(2);
        }
        push(&mut steps, elsewhere, first.max(self.near_until), last);
        steps
    }
}

fn push(steps: &mut Vec<Step>, slots: (i64, i64), first: Timestamp, last: Timestamp) {
    if first <= last {
        steps.push(Step { slots, first, last });
    }
}

/// The slot of an instant. Never 0 within the times that jobs can have, beside the first slot of
/// 1970, which is elsewhere for ever.
pub(crate) fn slot_of(at: Timestamp, width: Millis) -> i64 {
    at.as_millis().div_euclid(millis(width))
}

/// The first instant of a slot.
pub(crate) fn start_of(slot: i64, width: Millis) -> Timestamp {
    Timestamp::from_millis(slot.saturating_mul(millis(width)))
}

fn millis(width: Millis) -> i64 {
    i64::try_from(width.get()).unwrap_or(i64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn layout(from: i64, until: i64) -> Layout {
        Layout { width: Millis::new(10), near_from: at(from), near_until: at(until), era: 1 }
    }

    #[test]
    fn a_due_time_has_one_slot() {
        let layout = layout(95, 130);
        let rows = [
            (i64::MIN, 0),
            (94, 0),
            (95, 9),
            (99, 9),
            (100, 10),
            (129, 12),
            (130, 0),
            (i64::MAX, 0),
        ];
        for (due, slot) in rows {
            assert_eq!(layout.slot(at(due)), slot, "due at {due}");
        }
        assert_eq!(layout.slots(), (9, 12));
    }

    #[test]
    fn a_layout_begins_a_while_ago_and_ends_with_a_slot() {
        let now = at(1_789_000_000_123);
        let slots = Slots { width: Millis::from_secs(3600), ahead: 3, ..Slots::default() };
        let layout = Layout::at(now, &slots);
        assert_eq!(layout.near_from, now.minus(CARRY_BEHIND));
        assert_eq!(layout.near_until.as_millis() % 3_600_000, 0);
        assert!(layout.near_until > now.plus(Millis::from_secs(3 * 3600)));
        assert!(layout.near_until <= now.plus(Millis::from_secs(4 * 3600)));
        let later = Layout::at(now.plus(ERA_WIDTH), &slots);
        assert_eq!(later.era, layout.era + 1);
    }

    proptest! {
        /// Every due time between the ends is in exactly one step, in order, with its slot.
        #[test]
        fn a_walk_leaves_nothing_out(
            from in 10_i64..200,
            length in 1_i64..300,
            first in -50_i64..600,
            span in -5_i64..600,
        ) {
            let layout = layout(from, (from + length) / 10 * 10 + 10);
            let last = first + span;
            let steps = layout.walk(at(first), at(last));
            let mut next = first;
            for step in &steps {
                prop_assert_eq!(step.first, at(next));
                for due in step.first.as_millis()..=step.last.as_millis() {
                    let slot = layout.slot(at(due));
                    prop_assert!(step.slots.0 <= slot && slot <= step.slots.1);
                    prop_assert_eq!(slot == ELSEWHERE, step.slots == (ELSEWHERE, ELSEWHERE));
                }
                next = step.last.as_millis() + 1;
            }
            prop_assert_eq!(next, first.max(last + 1));
        }

        #[test]
        fn no_instant_brings_it_down(millis in any::<i64>(), width in any::<u64>()) {
            let slots = Slots { width: Millis::new(width), ..Slots::default() };
            let layout = Layout::at(at(millis), &slots);
            layout.walk(Timestamp::MIN, Timestamp::MAX);
            layout.slots();
        }
    }
}
