//! Writes frozen memtables out as tables, and lets go of the log they came from.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hence_fail::{Point, reach};

use super::cursor::{Cursor, Direction, EntryCursor, Merge};
use super::error::{Error, Result};
use super::manifest::Manifest;
use super::memtable::Memtable;
use super::state::{State, View, lock, write};
use super::table::Table;
use super::table_format::TableMeta;
use super::table_writer::{Expected, TableWriter};

/// What a merge does with removals and expired entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beneath {
    /// Older tables may know the keys: removals must stay.
    Tables,
    /// Nothing is older: removals have done their work.
    Nothing,
}

impl State {
    /// Writes the oldest frozen memtable out; `false` if there is none.
    pub(super) fn flush_one(&self) -> Result<bool> {
        let view = self.snapshot();
        let Some(memtable) = view.frozen.last() else {
            return Ok(false);
        };
        reach(Point::FlushStart);
        let beneath = if view.tables.is_empty() { Beneath::Nothing } else { Beneath::Tables };
        let table = match self.write_memtable(memtable, beneath)? {
            Some(meta) => Some(self.open_table(meta)?),
            None => None,
        };
        reach(Point::FlushInstall);
        let installed = self.install_flush(memtable, table.clone());
        installed.inspect_err(|error| self.discard_if_full(error, table.as_deref()))?;
        self.bell.ring();
        Ok(true)
    }

    /// Copies what the merge yields into the writer. `None` if the store closes meanwhile or
    /// nothing was left; the writer is then gone.
    pub(super) fn write_merged(
        &self,
        mut merge: Merge<'_>,
        mut writer: TableWriter,
        beneath: Beneath,
    ) -> Result<Option<TableWriter>> {
        let copied = loop {
            let Some(cursor) = merge.current() else { break Ok(true) };
            if let Err(error) = self.write_entry(cursor, &mut writer, beneath) {
                break Err(error);
            }
            if let Err(error) = merge.step() {
                break Err(error);
            }
            if self.is_stopping() {
                break Ok(false);
            }
        };
        if matches!(copied, Ok(true)) && writer.entries() > 0 {
            return Ok(Some(writer));
        }
        writer.abandon();
        copied.map(|_| None)
    }

    pub(super) fn open_table(&self, meta: TableMeta) -> Result<Arc<Table>> {
        let table = Table::open(&*self.disk, &self.dir, meta.id, self.segments.store_id)?;
        assert_eq!(table.meta, meta, "a table reads back as it was written");
        Ok(Arc::new(table))
    }

    /// Removes a new table if the manifest could not name it for lack of space: the next try makes
    /// another. After any other error it may be named, and stays.
    pub(super) fn discard_if_full(&self, error: &Error, table: Option<&Table>) {
        if error.is_full()
            && let Some(table) = table
        {
            // Best effort: open removes what the manifest does not name as well.
            let _ = self.disk.remove(table.path());
        }
    }

    pub(super) fn next_table(&self) -> u64 {
        let mut manifest = lock(&self.manifest);
        manifest.next_table += 1;
        manifest.next_table - 1
    }

    fn write_memtable(&self, memtable: &Memtable, beneath: Beneath) -> Result<Option<TableMeta>> {
        if memtable.len() == 0 {
            return Ok(None);
        }
        let expected =
            Expected { entries_max: memtable.len() as u64, bytes: memtable.bytes() as u64 };
        let writer = self.tables.start(self.next_table(), expected)?;
        let entries = memtable.range(Bound::Unbounded, Bound::Unbounded);
        let merge = Merge::new(vec![Box::new(EntryCursor::new(entries))], Direction::Forward);
        let writer = self.write_merged(merge, writer, beneath)?;
        let sequences = (memtable.first_sequence(), memtable.last_sequence());
        writer.map(|writer| writer.finish(sequences.0, sequences.1)).transpose()
    }

    fn write_entry(
        &self,
        cursor: &dyn Cursor,
        writer: &mut TableWriter,
        beneath: Beneath,
    ) -> Result<()> {
        let Some(key) = cursor.key() else { return Ok(()) };
        let expiry = self.options.expiry.as_ref();
        let value = cursor.value();
        let deadline = value.and_then(|value| expiry?.deadline(key, value));
        let is_over = |deadline| expiry.is_some_and(|expiry| expiry.is_over(key, deadline));
        match (value.filter(|_| !deadline.is_some_and(is_over)), beneath) {
            (None, Beneath::Nothing) => Ok(()),
            (None, Beneath::Tables) => writer.add(key, None),
            (value, _) => {
                writer.add(key, value)?;
                if let Some(deadline) = deadline {
                    writer.note_deadline(deadline);
                }
                Ok(())
            }
        }
    }

    /// Puts the table in the memtable's place, in the manifest and in memory.
    fn install_flush(&self, memtable: &Arc<Memtable>, table: Option<Arc<Table>>) -> Result<()> {
        if table.is_none() && self.is_stopping() {
            return Ok(());
        }
        let flushed = memtable.last_sequence();
        let first_segment = self.first_segment_after(flushed);
        self.install(
            |manifest| {
                manifest.flushed_sequence = flushed;
                manifest.first_segment = first_segment;
                manifest.tables.splice(..0, table.iter().map(|table| table.meta));
            },
            |view| {
                view.frozen.retain(|frozen| !Arc::ptr_eq(frozen, memtable));
                view.tables.splice(..0, table.clone());
            },
        )?;
        reach(Point::FlushDone);
        self.let_go_before(first_segment);
        Ok(())
    }

    /// Changes the manifest on disk and then the view, in one step for everybody else.
    pub(super) fn install(
        &self,
        change: impl FnOnce(&mut Manifest),
        show: impl FnOnce(&mut View),
    ) -> Result<()> {
        let mut manifest = lock(&self.manifest);
        let mut next = manifest.clone();
        next.durable_sequence = self.last_sequence.load(Ordering::Acquire);
        change(&mut next);
        next.write(&*self.disk, &self.dir)?;
        *manifest = next;
        let mut view = write(&self.view);
        let mut next = (**view).clone();
        show(&mut next);
        *view = Arc::new(next);
        Ok(())
    }

    /// The first segment that may hold frames after this sequence.
    fn first_segment_after(&self, sequence: u64) -> u64 {
        let shelf = lock(&self.shelf);
        let needed = shelf.closed.iter().find(|(_, last)| *last > sequence);
        needed.map_or(shelf.current, |(number, _)| *number)
    }

    /// The segments before this one may be used again.
    fn let_go_before(&self, first_segment: u64) {
        let mut shelf = lock(&self.shelf);
        while let Some((number, _)) = shelf.closed.front()
            && *number < first_segment
        {
            let number = *number;
            shelf.obsolete.push(number);
            shelf.closed.pop_front();
        }
    }
}
