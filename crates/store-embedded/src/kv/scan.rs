//! Reading: one key, or a range in order.
//!
//! A range is read in pieces. What the live memtable has of a piece is copied out under its lock,
//! so a reader that waits for the disk never keeps a commit waiting. A scan is therefore not a
//! snapshot: a change made while it runs is seen or not seen, key by key. Whoever needs one moment
//! for several reads pins it, and keeps it short.

use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, RwLockReadGuard};

use bytes::Bytes;

use super::cursor::{Cursor, Direction, EntryCursor, Found, Merge};
use super::error::Result;
use super::limits::SCAN_CHUNK;
use super::memtable::Item;
use super::memtable::Memtable;
use super::state::{State, View, read};
use super::table::TableCursor;

/// Called for every entry of a scan; `Break` ends it.
pub type Visit<'a> = dyn FnMut(&[u8], Bytes) -> ControlFlow<()> + 'a;

/// A stretch of keys.
#[derive(Debug, Clone, Copy)]
pub struct Span<'a> {
    /// Where it begins.
    pub from: Bound<&'a [u8]>,
    /// Where it ends.
    pub to: Bound<&'a [u8]>,
}

impl<'a> Span<'a> {
    /// Every key.
    pub fn all() -> Self {
        Span { from: Bound::Unbounded, to: Bound::Unbounded }
    }

    /// From a key, inclusive, to a key, exclusive.
    pub fn between(from: &'a [u8], to: &'a [u8]) -> Self {
        Span { from: Bound::Included(from), to: Bound::Excluded(to) }
    }
}

/// Something that can be read: the store as it changes, or one moment of it.
pub trait Read {
    /// The value under the key.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>>;

    /// Visits the entries of the span in order until the visitor breaks.
    fn scan(&self, span: Span<'_>, direction: Direction, visit: &mut Visit<'_>) -> Result<()>;
}

/// One moment of the store. While it is held, commits become durable but wait to be visible.
#[derive(Debug)]
pub struct Pinned<'a> {
    state: &'a State,
    active: RwLockReadGuard<'a, Memtable>,
    view: Arc<View>,
}

impl Read for Pinned<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.state.find_in(self.active.get(key), &self.view, key).map(value_of)
    }

    fn scan(&self, span: Span<'_>, direction: Direction, visit: &mut Visit<'_>) -> Result<()> {
        let entries = self.active.range(span.from, span.to);
        let newest: Box<dyn Cursor + '_> = match direction {
            Direction::Forward => Box::new(EntryCursor::new(entries)),
            Direction::Backward => Box::new(EntryCursor::new(entries.rev())),
        };
        let mut merge = self.state.merge_of(newest, &self.view, span, direction)?;
        walk(&mut merge, span, direction, None, visit).map(drop)
    }
}

impl State {
    pub(super) fn pin(&self) -> Pinned<'_> {
        let active = read(&self.active);
        let view = self.snapshot();
        Pinned { state: self, active, view }
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        // The live memtable first: what is frozen meanwhile is then found in the view.
        let newest = read(&self.active).get(key);
        self.find_in(newest, &self.snapshot(), key).map(value_of)
    }

    pub(super) fn scan(
        &self,
        span: Span<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let mut resume: Option<Bytes> = None;
        loop {
            let span = match (&resume, direction) {
                (None, _) => span,
                (Some(key), Direction::Forward) => Span { from: Bound::Excluded(key), ..span },
                (Some(key), Direction::Backward) => Span { to: Bound::Excluded(key), ..span },
            };
            match self.scan_piece(span, direction, visit)? {
                Some(last) => resume = Some(last),
                None => return Ok(()),
            }
        }
    }

    /// Asks the places behind the newest, down to the oldest, until one knows the key.
    fn find_in(&self, newest: Found, view: &View, key: &[u8]) -> Result<Found> {
        if newest != Found::Unknown {
            return Ok(newest);
        }
        for memtable in &view.frozen {
            let found = memtable.get(key);
            if found != Found::Unknown {
                return Ok(found);
            }
        }
        for table in &view.tables {
            let found = table.get(key, &self.cache)?;
            if found != Found::Unknown {
                return Ok(found);
            }
        }
        Ok(Found::Unknown)
    }

    /// Visits a piece of the span; the key it ended with, if there may be more behind it.
    fn scan_piece(
        &self,
        span: Span<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<Option<Bytes>> {
        let active = read(&self.active);
        let items = active.range(span.from, span.to).map(Item::from);
        let items: Vec<Item> = match direction {
            Direction::Forward => items.take(SCAN_CHUNK).collect(),
            Direction::Backward => items.rev().take(SCAN_CHUNK).collect(),
        };
        // Under the same lock, so that nothing moves from one to the other in between.
        let view = self.snapshot();
        drop(active);
        let last = (items.len() == SCAN_CHUNK).then(|| items[SCAN_CHUNK - 1].key.clone());
        let newest = Box::new(EntryCursor::new(items.into_iter()));
        let mut merge = self.merge_of(newest, &view, span, direction)?;
        let ended = walk(&mut merge, span, direction, last.as_ref(), visit)?;
        Ok(last.filter(|_| ended == Ended::AtLast))
    }

    fn merge_of<'a>(
        &'a self,
        newest: Box<dyn Cursor + 'a>,
        view: &'a View,
        span: Span<'_>,
        direction: Direction,
    ) -> Result<Merge<'a>> {
        let mut cursors = vec![newest];
        for memtable in &view.frozen {
            let entries = memtable.range(span.from, span.to);
            match direction {
                Direction::Forward => cursors.push(Box::new(EntryCursor::new(entries))),
                Direction::Backward => cursors.push(Box::new(EntryCursor::new(entries.rev()))),
            }
        }
        let start = match direction {
            Direction::Forward => span.from,
            Direction::Backward => span.to,
        };
        for table in &view.tables {
            let cursor = TableCursor::seek(table, Some(&self.cache), direction, start)?;
            cursors.push(Box::new(cursor));
        }
        Ok(Merge::new(cursors, direction))
    }
}

/// Why a walk ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// Everything up to the last key of the piece was visited; more may follow.
    AtLast,
    /// The span or the visitor's interest is over.
    ForGood,
}

/// Visits what the merge yields, up to the end of the span or past the last key of the piece.
fn walk(
    merge: &mut Merge<'_>,
    span: Span<'_>,
    direction: Direction,
    last: Option<&Bytes>,
    visit: &mut Visit<'_>,
) -> Result<Ended> {
    while let Some(cursor) = merge.current() {
        let Some(key) = cursor.key() else { break };
        if is_past_end(key, span, direction) {
            return Ok(Ended::ForGood);
        }
        if last.is_some_and(|last| is_past(key, last, direction)) {
            return Ok(Ended::AtLast);
        }
        if let Some(value) = cursor.value_bytes()
            && visit(key, value).is_break()
        {
            return Ok(Ended::ForGood);
        }
        merge.step()?;
    }
    Ok(Ended::AtLast)
}

fn value_of(found: Found) -> Option<Bytes> {
    match found {
        Found::Value(value) => Some(value),
        Found::Removed | Found::Unknown => None,
    }
}

fn is_past(key: &[u8], limit: &[u8], direction: Direction) -> bool {
    match direction {
        Direction::Forward => key > limit,
        Direction::Backward => key < limit,
    }
}

fn is_past_end(key: &[u8], span: Span<'_>, direction: Direction) -> bool {
    let end = match direction {
        Direction::Forward => span.to,
        Direction::Backward => span.from,
    };
    match end {
        Bound::Unbounded => false,
        Bound::Included(limit) => is_past(key, limit, direction),
        Bound::Excluded(limit) => key == limit || is_past(key, limit, direction),
    }
}
