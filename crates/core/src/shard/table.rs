//! The jobs in memory, found by number and by name. Neither table has keys of its own, since there
//! may be very many: both ask the job. But each remembers half of what it looks for, so that it
//! asks the right one only, and none at all when it grows: to look at a hundred thousand jobs in
//! no order takes long, and everybody waits meanwhile.

use core::hash::{BuildHasher, BuildHasherDefault, Hasher};
use core::ops::Index;

use foldhash::fast::FixedState;
use hashbrown::hash_table::Entry as Found;
use hashbrown::{HashMap, HashTable};

use crate::id::JobNumber;

use super::index::Entry;
use super::slab::{Slab, Slot};

/// A map by what is counted up.
pub(super) type CountedMap<K, V> = HashMap<K, V, BuildHasherDefault<Counted>>;

/// The jobs in memory.
#[derive(Debug)]
pub(super) struct Jobs {
    entries: Slab<Entry>,
    /// Where each is.
    numbers: HashTable<Numbered>,
    /// Of names, which others choose.
    hasher: FixedState,
    /// Who has a name now.
    names: HashTable<Named>,
}

/// A job by the lower half of its number.
#[derive(Clone, Copy, Debug)]
struct Numbered {
    low: u32,
    slot: Slot,
}

/// A job by half of the hash of its name.
#[derive(Clone, Copy, Debug)]
struct Named {
    half: u32,
    slot: Slot,
}

impl Jobs {
    pub(super) fn new(seed: u64) -> Self {
        Jobs {
            entries: Slab::default(),
            numbers: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            names: HashTable::new(),
        }
    }

    pub(super) fn get(&self, number: JobNumber) -> Option<&Entry> {
        self.slot(number).map(|slot| &self.entries[slot])
    }

    pub(super) fn get_mut(&mut self, number: JobNumber) -> Option<&mut Entry> {
        self.slot(number).map(|slot| &mut self.entries[slot])
    }

    pub(super) fn contains(&self, number: JobNumber) -> bool {
        self.slot(number).is_some()
    }

    /// The number of the job of this queue that has this key and id.
    pub(super) fn named(&self, queue: u32, name: (Option<&str>, &str)) -> Option<JobNumber> {
        let name = (queue, name);
        let half = self.half_of(name);
        let is = |other: &Named| other.half == half && name_of(&self.entries[other.slot]) == name;
        self.names.find(whole(half), is).map(|found| self.entries[found.slot].number)
    }

    /// All of them, in no order that means anything.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Takes a job in. From now on its name means this one, whichever it meant before.
    pub(super) fn insert(&mut self, entry: Entry) {
        assert!(!self.contains(entry.number), "a job is in memory once");
        let (low, half) = (entry.number.0 as u32, self.half_of(name_of(&entry)));
        let slot = self.entries.insert(entry);
        let Jobs { entries, numbers, names, .. } = self;
        numbers.insert_unique(hash_of(low), Numbered { low, slot }, |other| hash_of(other.low));
        let name = name_of(&entries[slot]);
        let is = |other: &Named| other.half == half && name_of(&entries[other.slot]) == name;
        match names.entry(whole(half), is, |other| whole(other.half)) {
            Found::Occupied(mut place) => place.get_mut().slot = slot,
            Found::Vacant(place) => drop(place.insert(Named { half, slot })),
        }
    }

    /// Lets a job go, and its name unless another has it meanwhile.
    pub(super) fn remove(&mut self, number: JobNumber) {
        let Some(slot) = self.slot(number) else { return };
        let half = self.half_of(name_of(&self.entries[slot]));
        if let Ok(place) = self.names.find_entry(whole(half), |other| other.slot == slot) {
            place.remove();
        }
        if let Ok(place) =
            self.numbers.find_entry(hash_of(number.0 as u32), |other| other.slot == slot)
        {
            place.remove();
        }
        self.entries.remove(slot);
    }

    fn slot(&self, number: JobNumber) -> Option<Slot> {
        let low = number.0 as u32;
        let is = |other: &Numbered| other.low == low && self.entries[other.slot].number == number;
        self.numbers.find(hash_of(low), is).map(|found| found.slot)
    }

    fn half_of(&self, name: (u32, (Option<&str>, &str))) -> u32 {
        self.hasher.hash_one(name) as u32
    }
}

impl Index<JobNumber> for Jobs {
    type Output = Entry;

    fn index(&self, number: JobNumber) -> &Entry {
        match self.get(number) {
            Some(entry) => entry,
            None => unreachable!("whoever has a number of a job in memory has one that is there"),
        }
    }
}

/// The queue, the key and the id: one name, one job.
fn name_of(entry: &Entry) -> (u32, (Option<&str>, &str)) {
    (entry.queue, entry.name())
}

/// A table takes the place from the lowest bits of a hash and tells those in one place apart by the
/// highest: both are in each half.
fn whole(half: u32) -> u64 {
    u64::from(half) << 32 | u64::from(half)
}

fn hash_of(low: u32) -> u64 {
    BuildHasherDefault::<Counted>::default().hash_one(low)
}

/// Hashes what is counted up: job numbers, and tokens by their counter. Nobody else chooses them.
///
/// Eight in a row stay beside each other, in one cache line of a table of pointers: jobs are
/// mostly put, handed out and finished in the order of their numbers.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counted(u64);

impl Hasher for Counted {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u16(&mut self, part: u16) {
        self.write_u64(u64::from(part));
    }

    fn write_u32(&mut self, part: u32) {
        self.write_u64(u64::from(part));
    }

    fn write_u64(&mut self, part: u64) {
        let product = (self.0.rotate_left(32) ^ (part >> 3)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let block = (product ^ (product >> 32)) & !7;
        // A table tells those in one place apart by the highest bits.
        self.0 = (block | (part & 7)) ^ (part << 61);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::string::{String, ToString};
    use alloc::sync::Arc;

    use super::*;
    use crate::id::{JobId, JobName, QueueName};
    use crate::job::{JobSpec, JobState, Progress, Target};
    use crate::shard::index::{Held, Lacks, Lane, Seat};
    use crate::time::Timestamp;

    fn entry(number: JobNumber, id: &str) -> Entry {
        let id = JobId::new(id).unwrap();
        let name = JobName { queue: QueueName::default_queue(), key: None, id };
        let spec = JobSpec::new(Target::Worker);
        let job = spec.job(number, name, Timestamp::EPOCH, Timestamp::EPOCH);
        Entry {
            number,
            held: Held::Whole(Arc::new(job)),
            progress: Progress::fresh(Timestamp::EPOCH),
            lease: None,
            queue: 0,
            state: JobState::Scheduled,
            seat: Seat::Waiting,
            lane: Lane::Pull,
            lacks: Lacks::Nothing,
        }
    }

    #[test]
    fn jobs_that_are_equal_by_half_are_told_apart() {
        // Every second has the lower half of its number from the one before it; and of so many
        // names, some have equal halves of their hashes.
        const JOBS: u64 = 300_000;
        let number = |nth: u64| JobNumber(nth / 2 + ((nth % 2) << 32));
        let id = |nth: u64| -> String { nth.to_string() };
        let mut jobs = Jobs::new(7);
        for nth in 0..JOBS {
            jobs.insert(entry(number(nth), &id(nth)));
        }
        let halves: BTreeSet<u32> =
            (0..JOBS).map(|nth| jobs.half_of((0, (None, &id(nth))))).collect();
        assert!((halves.len() as u64) < JOBS, "no two names share a half: the test shows nothing");
        let check = |jobs: &Jobs, nth: u64, is_there: bool| {
            let found = is_there.then_some(number(nth));
            assert_eq!(jobs.get(number(nth)).map(|entry| entry.number), found, "{nth}");
            assert_eq!(jobs.named(0, (None, &id(nth))), found, "{nth}");
        };
        (0..JOBS).for_each(|nth| check(&jobs, nth, true));
        for nth in (0..JOBS).filter(|nth| nth % 3 == 0) {
            jobs.remove(number(nth));
        }
        (0..JOBS).for_each(|nth| check(&jobs, nth, nth % 3 != 0));
    }

    #[test]
    fn a_name_means_the_job_that_took_it_last() {
        let mut jobs = Jobs::new(7);
        let [old, new] = [JobNumber(1), JobNumber(2)];
        jobs.insert(entry(old, "a"));
        jobs.insert(entry(new, "a"));
        assert_eq!(jobs.named(0, (None, "a")), Some(new));
        jobs.remove(old);
        assert_eq!(jobs.named(0, (None, "a")), Some(new), "the name is no longer the old one's");
        jobs.remove(new);
        assert_eq!(jobs.named(0, (None, "a")), None);
    }

    #[test]
    fn what_is_counted_stays_together_by_eights_and_is_spread_otherwise() {
        let places: u32 = 1 << 16;
        let place = |number: u32| hash_of(number) % u64::from(places);
        for first in (0..1_000_000).step_by(8) {
            let all: BTreeSet<u64> = (first..first + 8).map(place).collect();
            assert_eq!(all.len(), 8, "each has its own");
            assert_eq!(all.last().map(|last| last / 8), Some(place(first) / 8), "side by side");
        }
        // Numbers as they come: without gaps, and with those between that have ended.
        for step in [1, 2, 8, 64, 1_000, places] {
            let taken: BTreeSet<u64> = (0..places / 2).map(|nth| place(nth * step)).collect();
            let least = if step < 8 { places / 5 } else { places / 22 };
            assert!(taken.len() as u32 > least, "{} places for step {step}", taken.len());
        }
        let tags: BTreeSet<u64> = (0..8).map(|nth| hash_of(nth) >> 57).collect();
        assert_eq!(tags.len(), 8, "told apart by their highest bits");
    }
}
