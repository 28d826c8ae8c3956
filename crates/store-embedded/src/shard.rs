//! What is kept of a shard in memory: little, and never jobs.
//!
//! Leases and held keys are few; counts are one per queue. Everything here but the fronts and the
//! ended leases is also stored, and is read back at open.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use hence_core::change::Place;
use hence_core::id::{Epoch, JobNumber, QueueName};
use hence_core::job::Lease;
use hence_core::queue::Counts;
use hence_core::time::Timestamp;

/// Ended leases remembered: a listing that is overtaken by more than these reads rows again.
const ENDED_MAX: usize = 65_536;

pub(crate) type NumberMap<T> = HashMap<JobNumber, T, BuildHasherDefault<NumberHasher>>;
pub(crate) type NumberSet = HashSet<JobNumber, BuildHasherDefault<NumberHasher>>;

/// A lease and where its job stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Held {
    pub(crate) queue: QueueName,
    pub(crate) due_at: Timestamp,
    pub(crate) lease: Lease,
}

/// A waiting job that holds its key, and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Holder {
    pub(crate) queue: QueueName,
    pub(crate) due_at: Timestamp,
}

#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) epoch: Epoch,
    /// Whoever acquired it in the life of this process and has not given it up.
    pub(crate) owned: bool,
    pub(crate) node: String,
    pub(crate) sequence: u64,
    pub(crate) next_number: JobNumber,
    /// What was to be kept until here is gone.
    pub(crate) swept_until: Timestamp,
    pub(crate) counts: BTreeMap<QueueName, Counts>,
    /// Every queue that ever had a job.
    pub(crate) queues: BTreeMap<QueueName, Front>,
    pub(crate) leases: NumberMap<Held>,
    pub(crate) holders: NumberMap<Holder>,
    /// Live jobs of which attempts are stored.
    pub(crate) attempted: NumberSet,
    pub(crate) ended: Ended,
}

impl Default for Shard {
    fn default() -> Self {
        Shard {
            epoch: Epoch::default(),
            owned: false,
            node: String::new(),
            sequence: 0,
            next_number: JobNumber::default(),
            swept_until: Timestamp::MIN,
            counts: BTreeMap::new(),
            queues: BTreeMap::new(),
            leases: NumberMap::default(),
            holders: NumberMap::default(),
            attempted: NumberSet::default(),
            ended: Ended::default(),
        }
    }
}

/// The front of a queue: no live job stands before it.
///
/// Jobs end mostly in the order they are due, so behind the front of a queue lie the tombstones
/// of all that ended lately. Whoever reads from the start would walk over them each time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Front {
    place: Place,
    /// While somebody looks for the front: the lowest place put meanwhile.
    searching: Option<Place>,
}

impl Default for Front {
    fn default() -> Self {
        Front { place: Place::FIRST, searching: None }
    }
}

impl Front {
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// A job was put here.
    pub(crate) fn put(&mut self, place: Place) {
        self.place = self.place.min(place);
        if let Some(lowest) = &mut self.searching {
            *lowest = (*lowest).min(place);
        }
    }

    /// Begins a search from the front; `false` if another is under way.
    pub(crate) fn begin(&mut self) -> bool {
        let free = self.searching.is_none();
        if free {
            self.searching = Some(Place::LAST);
        }
        free
    }

    /// Ends the search: the first job found, if the search got that far.
    pub(crate) fn end(&mut self, found: Option<Place>) {
        let lowest = self.searching.take().expect("a search ends after it began");
        if let Some(found) = found {
            self.place = found.min(lowest);
        }
    }
}

/// The numbers of jobs whose leases ended, in order.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    count: u64,
    recent: VecDeque<JobNumber>,
}

impl Ended {
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn push(&mut self, number: JobNumber) {
        self.count += 1;
        if self.recent.len() == ENDED_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(number);
    }

    /// Whether the job's lease ended since the count was `since`, or may have, if that is too
    /// long ago to say.
    pub(crate) fn may_contain(&self, number: JobNumber, since: u64) -> bool {
        let first = usize::try_from(self.count - since)
            .ok()
            .and_then(|missed| self.recent.len().checked_sub(missed));
        first.is_none_or(|first| self.recent.range(first..).any(|ended| *ended == number))
    }
}

/// Job numbers are dense and nobody chooses them: one multiplication spreads them well enough.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only job numbers are hashed");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: u64) -> Place {
        Place { due_at: Timestamp::EPOCH, number: JobNumber(number) }
    }

    #[test]
    fn a_front_moves_up_to_what_was_found() {
        let mut front = Front::default();
        assert!(front.begin() && !front.begin());
        front.end(Some(place(5)));
        assert_eq!(front.place(), place(5));
        front.put(place(9));
        assert_eq!(front.place(), place(5));
        front.put(place(2));
        assert_eq!(front.place(), place(2));
    }

    #[test]
    fn a_front_does_not_pass_what_was_put_during_the_search() {
        let mut front = Front::default();
        assert!(front.begin());
        front.put(place(3));
        front.end(Some(place(5)));
        assert_eq!(front.place(), place(3));
    }

    #[test]
    fn ended_leases_are_told_since_a_count() {
        let mut ended = Ended::default();
        ended.push(JobNumber(1));
        let since = ended.count();
        ended.push(JobNumber(2));
        assert!(ended.may_contain(JobNumber(2), since));
        assert!(!ended.may_contain(JobNumber(1), since));
        for _ in 0..ENDED_MAX {
            ended.push(JobNumber(3));
        }
        assert!(ended.may_contain(JobNumber(1), since), "it cannot be known any more");
    }
}
