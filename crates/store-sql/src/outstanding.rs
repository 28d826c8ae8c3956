//! Which leases are not over yet, as far as this process knows by itself.
//!
//! A lease is written with the commit that granted it and never removed: whether it is over can be
//! read from the rows of its job. Whoever made all commits since then need not look: it knows where
//! jobs were handed out and which of these places were left.

use std::collections::HashSet;

use hence_core::change::Place;

use crate::draft::Draft;
use crate::rows::Stamp;

/// Places where jobs were handed out that nobody left since.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outstanding {
    /// The first and the last of the commits that are known, without a gap.
    known: Option<(Stamp, Stamp)>,
    places: HashSet<Place>,
}

impl Outstanding {
    /// Everything up to this stamp was read, and these leases are not over. Says nothing new to
    /// whoever knows something already.
    pub(crate) fn found(&mut self, until: Stamp, places: impl IntoIterator<Item = Place>) {
        if self.known.is_none() {
            self.known = Some((Stamp(i64::MIN), until));
            self.places = places.into_iter().collect();
        }
    }

    /// This was committed. A commit that does not follow the last one makes all before it unknown:
    /// somebody else may have made one in between.
    pub(crate) fn committed(&mut self, draft: &Draft) {
        match self.known {
            Some((first, last)) if (first..=last).contains(&draft.stamp) => return,
            Some((first, last)) if draft.stamp.0 == last.0 + 1 => {
                self.known = Some((first, draft.stamp));
            }
            _ => *self = Outstanding { known: Some((draft.stamp, draft.stamp)), ..Self::default() },
        }
        for left in &draft.left {
            self.places.remove(&left.place);
        }
        self.places.extend(draft.leases.iter().map(|lease| lease.place));
    }

    /// Whether a lease that was written there with this stamp is certainly over.
    pub(crate) fn is_over(&self, place: Place, stamp: Stamp) -> bool {
        let known = self.known.is_some_and(|(first, last)| (first..=last).contains(&stamp));
        known && !self.places.contains(&place)
    }
}

#[cfg(test)]
mod tests {
    use hence_core::id::{Epoch, JobNumber, QueueName, ShardId, Token};
    use hence_core::time::Timestamp;

    use super::*;
    use crate::draft::{LeaseRow, Left};

    fn place(number: u64) -> Place {
        Place { due_at: Timestamp::EPOCH, number: JobNumber(number) }
    }

    fn draft(stamp: i64, left: &[u64], leased: &[u64]) -> Draft {
        let queue = QueueName::default_queue;
        let lease = |number: &u64| LeaseRow {
            queue: queue(),
            place: place(*number),
            token: Token { shard: ShardId(0), epoch: Epoch(1), counter: 1 },
            until: Timestamp::EPOCH,
            grant: None,
        };
        Draft {
            stamp: Stamp(stamp),
            left: left.iter().map(|it| Left { queue: queue(), place: place(*it) }).collect(),
            leases: leased.iter().map(lease).collect(),
            ..Draft::default()
        }
    }

    #[test]
    fn only_what_was_seen_to_end_is_over() {
        let mut outstanding = Outstanding::default();
        assert!(!outstanding.is_over(place(1), Stamp(1)), "nothing is known");
        outstanding.committed(&draft(11, &[], &[1, 2]));
        outstanding.committed(&draft(12, &[2], &[3]));
        // Left, and handed out again where it stood.
        outstanding.committed(&draft(13, &[3], &[3]));
        // The answer was lost, and it is told of twice.
        outstanding.committed(&draft(12, &[2], &[3]));
        let rows = [
            ("runs", 1, 11, false),
            ("ended", 2, 11, true),
            ("runs again", 3, 12, false),
            ("before anything was known", 2, 10, false),
            ("after all that is known", 2, 14, false),
        ];
        for (what, number, stamp, over) in rows {
            assert_eq!(outstanding.is_over(place(number), Stamp(stamp)), over, "{what}");
        }
        outstanding.committed(&draft(15, &[], &[]));
        assert!(!outstanding.is_over(place(2), Stamp(11)), "a gap makes it unknown");
        assert!(outstanding.is_over(place(2), Stamp(15)));
    }

    #[test]
    fn what_was_found_at_the_start_is_known() {
        let mut outstanding = Outstanding::default();
        outstanding.found(Stamp(20), [place(1)]);
        assert!(
            outstanding.is_over(place(2), Stamp(3)) && !outstanding.is_over(place(1), Stamp(3))
        );
        outstanding.committed(&draft(21, &[1], &[2]));
        outstanding.found(Stamp(5), []);
        assert!(
            outstanding.is_over(place(1), Stamp(3)) && !outstanding.is_over(place(2), Stamp(21))
        );
    }
}
