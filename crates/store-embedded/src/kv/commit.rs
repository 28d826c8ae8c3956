//! From batches to durable, visible changes.
//!
//! One commit at a time: build a frame, write it, sync it, apply it to the memtable. Nothing is
//! visible before it is durable. The memtable is frozen here and written out elsewhere.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hence_fail::{Point, reach};

use super::batch::WriteBatch;
use super::error::{Error, Result};
use super::frame::{FRAME_HEAD, Unwritten};
use super::limits::{FRAME_BYTES_MAX, FROZEN_MAX, FULL_RETRY_MS, GROUP_BYTES_MAX, RUNS_STALL};
use super::options::Background;
use super::segment::SEGMENT_HEAD;
use super::state::{State, Writer, lock, write};

impl State {
    /// Commits the batches in order; returns the sequence of the last frame.
    pub(super) fn commit(&self, batches: &[WriteBatch]) -> Result<u64> {
        let mut writer = lock(&self.writer);
        self.check_alive()?;
        let mut rest = batches;
        while !rest.is_empty() {
            let (group, later) = rest.split_at(group_len(rest));
            let frame = Unwritten::of(group, &mut writer.buffer);
            self.commit_frame(&mut writer, frame, || {})?;
            rest = later;
        }
        Ok(writer.next_sequence - 1)
    }

    /// Commits one batch and empties it; `then` runs in the instant in which it becomes visible.
    pub(super) fn commit_then(&self, batch: &mut WriteBatch, then: impl FnOnce()) -> Result<u64> {
        let mut writer = lock(&self.writer);
        // First: the batch is empty afterwards even if the store has ended.
        let frame = Unwritten::take(batch, &mut writer.buffer);
        self.check_alive()?;
        self.commit_frame(&mut writer, frame, then)?;
        Ok(writer.next_sequence - 1)
    }

    /// Sets the memtable aside to be written out, if anything is in it.
    pub(super) fn freeze(&self, writer: &mut Writer) -> Result<()> {
        reach(Point::Freeze);
        self.wait_for_frozen_room()?;
        let mut active = write(&self.active);
        if active.is_untouched() {
            return Ok(());
        }
        let frozen = Arc::new(std::mem::take(&mut *active));
        writer.memtable_bytes = 0;
        let mut view = write(&self.view);
        let mut next = (**view).clone();
        next.frozen.insert(0, frozen);
        *view = Arc::new(next);
        drop(view);
        drop(active);
        self.bell.ring();
        Ok(())
    }

    fn commit_frame(
        &self,
        writer: &mut Writer,
        mut frame: Unwritten,
        then: impl FnOnce(),
    ) -> Result<()> {
        reach(Point::CommitStart);
        let bytes = frame.bytes().len();
        let bytes_max = self.options.commit_bytes_max.min(FRAME_BYTES_MAX);
        if bytes > bytes_max {
            return Err(Error::TooLarge { bytes, bytes_max });
        }
        // Before the write, not after: a commit that has to wait or fail here wrote nothing.
        if writer.memtable_bytes > self.options.memtable_bytes {
            self.freeze(writer)?;
            self.work_inline()?;
        }
        if writer.end + bytes as u64 > writer.segment.bytes {
            // A retry after a lack of space must not use up one ready segment after another.
            if writer.end > SEGMENT_HEAD as u64 {
                self.next_segment(writer)?;
            }
            self.make_fit(writer, bytes as u64)?;
        }
        frame.seal(writer.next_sequence, writer.segment.epoch);
        let stored = store_frame(writer, frame.bytes());
        if let Err(error) = &stored {
            self.end_with(error);
        }
        stored?;
        reach(Point::CommitApply);
        let sequence = writer.next_sequence;
        writer.end += bytes as u64;
        writer.next_sequence += 1;
        writer.memtable_bytes = self.apply(sequence, frame, then);
        reach(Point::CommitDone);
        Ok(())
    }

    /// Makes a durable frame visible; returns the memory the memtable now uses.
    fn apply(&self, sequence: u64, frame: Unwritten, then: impl FnOnce()) -> usize {
        let mut active = write(&self.active);
        let applied = active.apply(sequence, frame.into_operations());
        assert!(applied.is_some(), "what was just encoded decodes");
        self.last_sequence.store(sequence, Ordering::Release);
        then();
        active.bytes()
    }

    /// Goes on to the next ready segment, or waits for one.
    fn next_segment(&self, writer: &mut Writer) -> Result<()> {
        reach(Point::SegmentSwitch);
        loop {
            let seen = self.bell.count();
            let mut shelf = lock(&self.shelf);
            if let Some(next) = shelf.ready.pop_front() {
                shelf.closed.push_back((writer.segment.number, writer.next_sequence - 1));
                shelf.current = next.number;
                writer.segment = next;
                writer.end = SEGMENT_HEAD as u64;
                break;
            }
            drop(shelf);
            self.check_alive()?;
            match self.options.background {
                // The reserve is used up. The caller was told of the pressure long ago; to fail
                // now would leave it with work it can neither finish nor forget.
                Background::Threads => self.bell.wait_past(seen, Some(RETRY)),
                Background::Inline => drop(self.prepare_one()?),
            }
        }
        self.bell.ring();
        if self.options.background == Background::Inline {
            self.prepare_all()?;
        }
        Ok(())
    }

    /// Lengthens the still empty segment for a record that is larger than segments usually are.
    fn make_fit(&self, writer: &mut Writer, frame_bytes: u64) -> Result<()> {
        assert_eq!(writer.end, SEGMENT_HEAD as u64, "only an empty segment changes its length");
        let bytes = writer.end + frame_bytes;
        if bytes > writer.segment.bytes {
            let lengthened = self.segments.lengthen(&writer.segment, bytes);
            if let Err(error) = &lengthened
                && !error.is_full()
            {
                self.end_with(error);
            }
            writer.segment.bytes = lengthened?;
        }
        Ok(())
    }

    /// Waits until another memtable may be frozen: there is room for it, and not too many runs.
    fn wait_for_frozen_room(&self) -> Result<()> {
        loop {
            let seen = self.bell.count();
            self.check_alive()?;
            let view = self.snapshot();
            let frozen_room = view.frozen.len() < FROZEN_MAX;
            if frozen_room && (view.tables.len() < RUNS_STALL || !self.merges()) {
                return Ok(());
            }
            match self.options.background {
                Background::Threads => self.bell.wait_past(seen, None),
                Background::Inline if frozen_room => drop(self.merge_one()?),
                Background::Inline => drop(self.flush_one()?),
            }
        }
    }
}

const RETRY: Duration = Duration::from_millis(FULL_RETRY_MS);

fn store_frame(writer: &Writer, frame: &[u8]) -> Result<()> {
    let Writer { segment, end, .. } = writer;
    let failed = |operation| move |cause| Error::fatal(operation, &segment.path, cause);
    segment.file.write_at(frame, *end).map_err(failed("write"))?;
    segment.file.sync_data().map_err(failed("sync"))
}

/// How many of the batches go into one frame: as many as fit, and at least one.
fn group_len(batches: &[WriteBatch]) -> usize {
    let mut bytes = FRAME_HEAD;
    let mut count = 0;
    for batch in batches {
        bytes += batch.bytes();
        if count > 0 && bytes > GROUP_BYTES_MAX {
            break;
        }
        count += 1;
    }
    count
}
