//! Walking several sorted places as one: the newest place that knows a key decides.

use std::cmp::Ordering;

use bytes::Bytes;

use super::error::Result;

/// What one place knows of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing: ask an older place.
    Unknown,
    /// That it was removed.
    Removed,
    /// Its value.
    Value(Bytes),
}

impl From<Option<Bytes>> for Found {
    fn from(value: Option<Bytes>) -> Self {
        value.map_or(Found::Removed, Found::Value)
    }
}

/// Which way a walk goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From small keys to large ones.
    Forward,
    /// From large keys to small ones.
    Backward,
}

/// A position in one sorted place.
pub(super) trait Cursor {
    /// The key here; `None` at the end.
    fn key(&self) -> Option<&[u8]>;
    /// The value here; `None` if the key was removed.
    fn value(&self) -> Option<&[u8]>;
    /// The same, sharing memory with the place.
    fn value_bytes(&self) -> Option<Bytes>;
    /// Goes to the next entry in the cursor's direction.
    fn step(&mut self) -> Result<()>;
}

/// An entry that is in memory.
pub(super) trait Entry {
    fn key(&self) -> &[u8];
    /// None if the key was removed.
    fn value(&self) -> Option<&[u8]>;
    /// The same, sharing memory with the entry.
    fn value_bytes(&self) -> Option<Bytes>;
}

/// A cursor over entries that are in memory.
#[derive(Debug)]
pub(super) struct EntryCursor<I: Iterator> {
    entries: I,
    current: Option<I::Item>,
}

impl<I: Iterator<Item: Entry>> EntryCursor<I> {
    pub(super) fn new(mut entries: I) -> Self {
        let current = entries.next();
        EntryCursor { entries, current }
    }
}

impl<I: Iterator<Item: Entry>> Cursor for EntryCursor<I> {
    fn key(&self) -> Option<&[u8]> {
        self.current.as_ref().map(Entry::key)
    }

    fn value(&self) -> Option<&[u8]> {
        self.current.as_ref()?.value()
    }

    fn value_bytes(&self) -> Option<Bytes> {
        self.current.as_ref()?.value_bytes()
    }

    fn step(&mut self) -> Result<()> {
        self.current = self.entries.next();
        Ok(())
    }
}

/// Several cursors as one; those given first are the newest.
pub(super) struct Merge<'a> {
    cursors: Vec<Box<dyn Cursor + 'a>>,
    direction: Direction,
    /// The cursors at the current key, the newest first; empty at the end.
    here: Vec<usize>,
}

impl<'a> Merge<'a> {
    pub(super) fn new(cursors: Vec<Box<dyn Cursor + 'a>>, direction: Direction) -> Self {
        let mut merge = Merge { cursors, direction, here: Vec::new() };
        merge.find_here();
        merge
    }

    /// The cursor that decides about the current key; `None` at the end.
    pub(super) fn current(&self) -> Option<&(dyn Cursor + 'a)> {
        self.here.first().map(|newest| &*self.cursors[*newest])
    }

    /// Passes the current key in every place that has it.
    pub(super) fn step(&mut self) -> Result<()> {
        for place in &self.here {
            self.cursors[*place].step()?;
        }
        self.find_here();
        Ok(())
    }

    // A linear search: there are a dozen places at most, and one comparison each both finds the
    // least key and all who have it.
    fn find_here(&mut self) {
        self.here.clear();
        let mut least: &[u8] = &[];
        for (number, cursor) in self.cursors.iter().enumerate() {
            let Some(key) = cursor.key() else { continue };
            if self.here.is_empty() {
                least = key;
                self.here.push(number);
                continue;
            }
            let order = match self.direction {
                Direction::Forward => key.cmp(least),
                Direction::Backward => least.cmp(key),
            };
            match order {
                Ordering::Less => {
                    least = key;
                    self.here.clear();
                    self.here.push(number);
                }
                Ordering::Equal => self.here.push(number),
                Ordering::Greater => {}
            }
        }
    }
}
