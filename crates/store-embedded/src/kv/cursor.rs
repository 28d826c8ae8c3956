//! Walking several sorted places as one: the newest place that knows a key decides.

use bytes::Bytes;

use super::error::Result;
use super::memtable::Item;

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

/// A cursor over entries that are in memory.
#[derive(Debug)]
pub(super) struct ItemCursor<I> {
    items: I,
    current: Option<Item>,
}

impl<I: Iterator<Item = Item>> ItemCursor<I> {
    pub(super) fn new(mut items: I) -> Self {
        let current = items.next();
        ItemCursor { items, current }
    }
}

impl<I: Iterator<Item = Item>> Cursor for ItemCursor<I> {
    fn key(&self) -> Option<&[u8]> {
        self.current.as_ref().map(|item| item.key.as_ref())
    }

    fn value(&self) -> Option<&[u8]> {
        self.current.as_ref()?.value.as_deref()
    }

    fn value_bytes(&self) -> Option<Bytes> {
        self.current.as_ref()?.value.clone()
    }

    fn step(&mut self) -> Result<()> {
        self.current = self.items.next();
        Ok(())
    }
}

/// Several cursors as one; those given first are the newest.
pub(super) struct Merge<'a> {
    cursors: Vec<Box<dyn Cursor + 'a>>,
    direction: Direction,
    best: Option<usize>,
    scratch: Vec<u8>,
}

impl<'a> Merge<'a> {
    pub(super) fn new(cursors: Vec<Box<dyn Cursor + 'a>>, direction: Direction) -> Self {
        let mut merge = Merge { cursors, direction, best: None, scratch: Vec::new() };
        merge.best = merge.find_best();
        merge
    }

    /// The cursor that decides about the current key; `None` at the end.
    pub(super) fn current(&self) -> Option<&(dyn Cursor + 'a)> {
        self.best.map(|best| &*self.cursors[best])
    }

    /// Passes the current key in every place that has it.
    pub(super) fn step(&mut self) -> Result<()> {
        let Some(best) = self.best else { return Ok(()) };
        let Some(key) = self.cursors[best].key() else { return Ok(()) };
        self.scratch.clear();
        self.scratch.extend_from_slice(key);
        for cursor in &mut self.cursors {
            if cursor.key() == Some(self.scratch.as_slice()) {
                cursor.step()?;
            }
        }
        self.best = self.find_best();
        Ok(())
    }

    // A linear search: there are a dozen places at most, and a heap of cursors that share keys
    // is longer than it is faster.
    fn find_best(&self) -> Option<usize> {
        let mut best: Option<(usize, &[u8])> = None;
        for (number, cursor) in self.cursors.iter().enumerate() {
            let Some(key) = cursor.key() else { continue };
            let better = best.is_none_or(|(_, least)| match self.direction {
                Direction::Forward => key < least,
                Direction::Backward => key > least,
            });
            if better {
                best = Some((number, key));
            }
        }
        best.map(|(number, _)| number)
    }
}
