//! The jobs in memory, found by number and by name. Neither table has keys of its own: both ask
//! the job, since there may be very many.

use alloc::boxed::Box;
use core::hash::{BuildHasher, BuildHasherDefault, Hasher};
use core::ops::Index;

use foldhash::fast::FixedState;
use hashbrown::hash_table::Entry as Slot;
use hashbrown::{HashMap, HashTable};

use crate::id::JobNumber;

use super::index::Entry;

/// A map by what is counted up.
pub(super) type CountedMap<K, V> = HashMap<K, V, BuildHasherDefault<Counted>>;

/// The jobs in memory.
#[derive(Debug)]
pub(super) struct Jobs {
    entries: Entries,
    /// Of names, which others choose.
    hasher: FixedState,
    /// Who has a name now; each of them is among the entries.
    names: HashTable<JobNumber>,
}

impl Jobs {
    pub(super) fn new(seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        Jobs { entries: Entries::default(), hasher, names: HashTable::new() }
    }

    pub(super) fn get(&self, number: JobNumber) -> Option<&Entry> {
        self.entries.get(number)
    }

    pub(super) fn get_mut(&mut self, number: JobNumber) -> Option<&mut Entry> {
        self.entries.table.find_mut(hash_of(number), is(number)).map(Box::as_mut)
    }

    pub(super) fn contains(&self, number: JobNumber) -> bool {
        self.get(number).is_some()
    }

    /// The number of the job of this queue that has this key and id.
    pub(super) fn named(&self, queue: u32, name: (Option<&str>, &str)) -> Option<JobNumber> {
        let name = (queue, name);
        let hash = self.hasher.hash_one(name);
        self.names.find(hash, |number| self.entries.name(*number) == name).copied()
    }

    /// All of them, in no order that means anything.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.table.iter().map(Box::as_ref)
    }

    /// Takes a job in. From now on its name means this one, whichever it meant before.
    pub(super) fn insert(&mut self, entry: Entry) {
        let number = entry.number;
        self.entries.insert(entry);
        let Jobs { entries, hasher, names } = self;
        let name = entries.name(number);
        let same = |other: &JobNumber| entries.name(*other) == name;
        let hash = |number: &JobNumber| hasher.hash_one(entries.name(*number));
        match names.entry(hash(&number), same, hash) {
            Slot::Occupied(mut slot) => *slot.get_mut() = number,
            Slot::Vacant(slot) => drop(slot.insert(number)),
        }
    }

    /// Lets a job go, and its name unless another has it meanwhile.
    pub(super) fn remove(&mut self, number: JobNumber) {
        let Some(entry) = self.entries.get(number) else { return };
        let hash = self.hasher.hash_one(name_of(entry));
        if let Ok(slot) = self.names.find_entry(hash, |other| *other == number) {
            slot.remove();
        }
        self.entries.remove(number);
    }
}

impl Index<JobNumber> for Jobs {
    type Output = Entry;

    fn index(&self, number: JobNumber) -> &Entry {
        &self.entries[number]
    }
}

/// The jobs by number.
#[derive(Debug, Default)]
struct Entries {
    table: HashTable<Box<Entry>>,
}

impl Entries {
    fn get(&self, number: JobNumber) -> Option<&Entry> {
        self.table.find(hash_of(number), is(number)).map(Box::as_ref)
    }

    fn name(&self, number: JobNumber) -> (u32, (Option<&str>, &str)) {
        name_of(&self[number])
    }

    fn insert(&mut self, entry: Entry) {
        let number = entry.number;
        match self.table.entry(hash_of(number), is(number), |other| hash_of(other.number)) {
            Slot::Occupied(_) => unreachable!("a job is in memory once"),
            Slot::Vacant(slot) => drop(slot.insert(Box::new(entry))),
        }
    }

    fn remove(&mut self, number: JobNumber) {
        if let Ok(slot) = self.table.find_entry(hash_of(number), is(number)) {
            slot.remove();
        }
    }
}

impl Index<JobNumber> for Entries {
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

fn is(number: JobNumber) -> impl Fn(&Box<Entry>) -> bool {
    move |entry| entry.number == number
}

fn hash_of(number: JobNumber) -> u64 {
    BuildHasherDefault::<Counted>::default().hash_one(number)
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

    use super::*;

    #[test]
    fn what_is_counted_stays_together_by_eights_and_is_spread_otherwise() {
        let places: u64 = 1 << 16;
        let place = |number: u64| hash_of(JobNumber(number)) % places;
        for first in (0..1_000_000).step_by(8) {
            let all: BTreeSet<u64> = (first..first + 8).map(place).collect();
            assert_eq!(all.len(), 8, "each has its own");
            assert_eq!(all.last().map(|last| last / 8), Some(place(first) / 8), "side by side");
        }
        // Numbers as they come: without gaps, and with those between that have ended.
        for step in [1, 2, 8, 64, 1_000, places] {
            let taken: BTreeSet<u64> = (0..places / 2).map(|nth| place(nth * step)).collect();
            let least = if step < 8 { places / 5 } else { places / 22 };
            assert!(taken.len() as u64 > least, "{} places for step {step}", taken.len());
        }
        let tags: BTreeSet<u64> = (0..8).map(|nth| hash_of(JobNumber(nth)) >> 57).collect();
        assert_eq!(tags.len(), 8, "told apart by their highest bits");
    }
}
