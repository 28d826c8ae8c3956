//! The jobs in memory, found by number and by name. Neither table has keys of its own: both ask
//! the job, since there may be very many.

use alloc::boxed::Box;
use core::hash::BuildHasher;
use core::ops::Index;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;

use crate::id::JobNumber;

use super::index::Entry;

/// The jobs in memory.
#[derive(Debug)]
pub(super) struct Jobs {
    entries: Entries,
    /// Who has a name now; each of them is among the entries.
    names: HashTable<JobNumber>,
}

impl Jobs {
    pub(super) fn new(seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        Jobs { entries: Entries { table: HashTable::new(), hasher }, names: HashTable::new() }
    }

    pub(super) fn get(&self, number: JobNumber) -> Option<&Entry> {
        self.entries.get(number)
    }

    pub(super) fn get_mut(&mut self, number: JobNumber) -> Option<&mut Entry> {
        let hash = self.entries.hasher.hash_one(number);
        self.entries.table.find_mut(hash, is(number)).map(Box::as_mut)
    }

    pub(super) fn contains(&self, number: JobNumber) -> bool {
        self.get(number).is_some()
    }

    /// The number of the job of this queue that has this key and id.
    pub(super) fn named(&self, queue: u32, name: (Option<&str>, &str)) -> Option<JobNumber> {
        let name = (queue, name);
        let hash = self.entries.hasher.hash_one(name);
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
        let (entries, names) = (&self.entries, &mut self.names);
        let name = entries.name(number);
        let hash = entries.hasher.hash_one(name);
        let same = |other: &JobNumber| entries.name(*other) == name;
        match names.entry(hash, same, |other| entries.hasher.hash_one(entries.name(*other))) {
            Slot::Occupied(mut slot) => *slot.get_mut() = number,
            Slot::Vacant(slot) => drop(slot.insert(number)),
        }
    }

    /// Lets a job go, and its name unless another has it meanwhile.
    pub(super) fn remove(&mut self, number: JobNumber) {
        let Some(entry) = self.entries.get(number) else { return };
        let hash = self.entries.hasher.hash_one(name_of(entry));
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
#[derive(Debug)]
struct Entries {
    table: HashTable<Box<Entry>>,
    hasher: FixedState,
}

impl Entries {
    fn get(&self, number: JobNumber) -> Option<&Entry> {
        self.table.find(self.hasher.hash_one(number), is(number)).map(Box::as_ref)
    }

    fn name(&self, number: JobNumber) -> (u32, (Option<&str>, &str)) {
        name_of(&self[number])
    }

    fn insert(&mut self, entry: Entry) {
        let number = entry.number;
        let hash = |number: JobNumber| self.hasher.hash_one(number);
        match self.table.entry(hash(number), is(number), |other| hash(other.number)) {
            Slot::Occupied(_) => unreachable!("a job is in memory once"),
            Slot::Vacant(slot) => drop(slot.insert(Box::new(entry))),
        }
    }

    fn remove(&mut self, number: JobNumber) {
        if let Ok(slot) = self.table.find_entry(self.hasher.hash_one(number), is(number)) {
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
