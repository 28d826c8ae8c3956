//! Merges tables, so that reads look into few of them and removed entries give their space back.
//!
//! Tables are runs in order of age; only neighbours are merged, so order of age stays order of
//! truth. Runs of similar size are merged together: an entry is rewritten a few times in its
//! life, and a burst of writes is not slowed by the size of what is already there.

use std::ops::{Bound, Range};
use std::sync::Arc;

use hence_fail::{Point, reach};

use super::cursor::{Cursor, Direction, Merge};
use super::error::{Error, Result};
use super::flush::Beneath;
use super::limits::{RUNS_MAX, RUNS_MERGE_MAX, RUNS_MERGE_MIN};
use super::state::{State, View, lock};
use super::table::{Table, TableCursor};
use super::table_format::TableMeta;
use super::table_writer::Expected;

impl State {
    /// Merges one group of neighbouring tables; `false` if none is worth it.
    pub(super) fn merge_one(&self) -> Result<bool> {
        let _merging = lock(&self.merging);
        if self.damage.get().is_some() {
            return Ok(false);
        }
        let view = self.snapshot();
        let metas: Vec<TableMeta> = view.tables.iter().map(|table| table.meta).collect();
        let reached = self.options.expiry.as_ref().map_or(0, |expiry| expiry.reached());
        match pick(&metas, reached).map(|runs| self.merge(&view, runs)) {
            None => Ok(false),
            Some(Err(error @ (Error::Corrupt { .. } | Error::Io { .. }))) => {
                tracing::error!(%error, "tables are no longer merged");
                let _ = self.damage.set(error);
                self.bell.ring();
                Ok(false)
            }
            Some(merged) => merged,
        }
    }

    /// Merges all tables into one.
    pub(super) fn merge_all(&self) -> Result<()> {
        let _merging = lock(&self.merging);
        let view = self.snapshot();
        if !view.tables.is_empty() {
            self.merge(&view, 0..view.tables.len())?;
        }
        Ok(())
    }

    /// Merges these tables of the view into one; `merging` is held.
    fn merge(&self, view: &View, runs: Range<usize>) -> Result<bool> {
        reach(Point::MergeStart);
        let inputs = &view.tables[runs.clone()];
        let beneath =
            if runs.end == view.tables.len() { Beneath::Nothing } else { Beneath::Tables };
        let expected = Expected {
            entries_max: inputs.iter().map(|table| table.meta.entries).sum(),
            bytes: inputs.iter().map(|table| table.meta.bytes).sum(),
        };
        // Before space is reserved: an input that cannot be read would leave it reserved.
        let mut cursors: Vec<Box<dyn Cursor + '_>> = Vec::new();
        for table in inputs {
            let cursor = TableCursor::seek(table, None, Direction::Forward, Bound::Unbounded)?;
            cursors.push(Box::new(cursor));
        }
        let writer = self.tables.start(self.next_table(), expected)?;
        let merge = Merge::new(cursors, Direction::Forward);
        let writer = self.write_merged(merge, writer, beneath)?;
        if self.is_stopping() {
            return Ok(false);
        }
        // The newest input is the first, the oldest the last.
        let first_sequence = inputs.last().map_or(0, |table| table.meta.first_sequence);
        let last_sequence = inputs.first().map_or(0, |table| table.meta.last_sequence);
        let meta = writer.map(|writer| writer.finish(first_sequence, last_sequence)).transpose()?;
        reach(Point::MergeInstall);
        let output = meta.map(|meta| self.open_table(meta)).transpose()?;
        let installed = self.install_merge(inputs, output.as_ref());
        installed.inspect_err(|error| self.discard_if_full(error, output.as_deref()))?;
        Ok(true)
    }

    /// Puts the output in the place of the inputs, and removes those.
    fn install_merge(&self, inputs: &[Arc<Table>], output: Option<&Arc<Table>>) -> Result<()> {
        let first = inputs[0].meta.id;
        let count = inputs.len();
        self.install(
            |manifest| {
                // Newer tables may have come in front meanwhile.
                let at = manifest.tables.iter().position(|table| table.id == first);
                let at = at.expect("only this function removes tables");
                manifest.tables.splice(at..at + count, output.iter().map(|table| table.meta));
            },
            |view| {
                let at = view.tables.iter().position(|table| table.meta.id == first);
                let at = at.expect("view and manifest hold the same tables");
                view.tables.splice(at..at + count, output.cloned());
            },
        )?;
        reach(Point::MergeDone);
        for table in inputs {
            let failed = |cause| Error::fatal("remove", table.path(), cause);
            self.disk.remove(table.path()).map_err(failed)?;
        }
        self.bell.ring();
        Ok(())
    }
}

/// The neighbouring tables to merge next, newest first.
fn pick(tables: &[TableMeta], reached: u64) -> Option<Range<usize>> {
    mostly_removed(tables)
        .or_else(|| similar(tables))
        .or_else(|| too_many(tables))
        .or_else(|| mostly_over(tables, reached))
}

/// A table that is worth writing anew for what has gone from it by itself.
fn mostly_over(tables: &[TableMeta], reached: u64) -> Option<Range<usize>> {
    let is_over =
        |table: &TableMeta| table.over_at <= reached && table.expiring * 2 > table.entries;
    // The oldest first: what goes from it goes without a trace.
    let at = tables.iter().rposition(is_over)?;
    Some(at..at + 1)
}

/// Removals outweigh what they can still remove: merge everything down.
fn mostly_removed(tables: &[TableMeta]) -> Option<Range<usize>> {
    let removed: u64 = tables.iter().map(|table| table.removed).sum();
    let entries: u64 = tables.iter().map(|table| table.entries).sum();
    let worth_it = tables.len() > 1 && removed * 3 > entries;
    worth_it.then(|| tables.len().saturating_sub(RUNS_MERGE_MAX)..tables.len())
}

/// Enough neighbours, none much larger than those before it together.
fn similar(tables: &[TableMeta]) -> Option<Range<usize>> {
    for start in 0..tables.len() {
        let mut sum = tables[start].bytes;
        let mut end = start + 1;
        while end < tables.len()
            && end - start < RUNS_MERGE_MAX
            && tables[end].bytes <= sum + sum / 2
        {
            sum += tables[end].bytes;
            end += 1;
        }
        if end - start >= RUNS_MERGE_MIN {
            return Some(start..end);
        }
    }
    None
}

/// The cheapest group, once there are more runs than reads should look into.
fn too_many(tables: &[TableMeta]) -> Option<Range<usize>> {
    if tables.len() <= RUNS_MAX {
        return None;
    }
    let cost = |start: &usize| -> u64 {
        tables[*start..*start + RUNS_MERGE_MIN].iter().map(|table| table.bytes).sum()
    };
    let start = (0..=tables.len() - RUNS_MERGE_MIN).min_by_key(cost)?;
    Some(start..start + RUNS_MERGE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(sizes: &[u64]) -> Vec<TableMeta> {
        let table = |bytes: &u64| TableMeta {
            id: 0,
            bytes: *bytes,
            entries: *bytes,
            removed: 0,
            first_sequence: 0,
            last_sequence: 0,
            expiring: 0,
            over_at: u64::MAX,
        };
        sizes.iter().map(table).collect()
    }

    #[test]
    fn what_is_merged() {
        let check = |sizes: &[u64], expected: Option<Range<usize>>| {
            assert_eq!(pick(&tables(sizes), 0), expected, "{sizes:?}");
        };
        check(&[], None);
        check(&[32; RUNS_MERGE_MIN - 1], None);
        check(&[32; RUNS_MERGE_MIN], Some(0..8));
        check(&[32, 32, 32, 32, 32, 32, 32, 32, 1000], Some(0..8));
        check(&[1, 32, 32, 32, 32, 32, 32, 32, 32, 1000], Some(1..9));
        check(&[32, 128, 1000], None);
        let steps: Vec<u64> = (0..=RUNS_MAX).map(|power| 1 << power).collect();
        check(&steps[1..], None);
        check(&steps, Some(0..8));
    }

    #[test]
    fn removals_are_merged_down() {
        let mut metas = tables(&[40, 100]);
        metas[0].removed = 30;
        assert_eq!(pick(&metas, 0), None);
        metas[0].removed = 40;
        metas[1].removed = 10;
        assert_eq!(pick(&metas, 0), Some(0..2));
    }

    #[test]
    fn what_is_mostly_over_is_written_anew() {
        let mut metas = tables(&[40, 100]);
        (metas[1].expiring, metas[1].over_at) = (60, 7);
        assert_eq!(pick(&metas, 6), None);
        assert_eq!(pick(&metas, 7), Some(1..2));
        metas[1].expiring = 40;
        assert_eq!(pick(&metas, 7), None);
    }
}
