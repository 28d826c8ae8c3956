//! Reads log segments and judges what is in them, for open, check and repair alike.
//!
//! [`survey`] says what one segment holds: valid frames, and stretches that are neither frames
//! nor zeros. [`Judge`] looks at the segments in order and tells a torn tail, which is the normal
//! trace of a crash, from damage, which is never passed over.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::bytes_io::last_written;
use super::error::Error;
use super::frame::{self, FRAME_ALIGN, Frame, Parsed};
use super::manifest::Manifest;
use super::segment::{SEGMENT_HEAD, SegmentImage, segment_path};

/// What one segment holds.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) image: SegmentImage,
    /// Offset and content of every valid frame.
    pub(super) frames: Vec<(usize, Frame)>,
    /// Neither valid frames nor zeros.
    pub(super) bad: Vec<Range<usize>>,
}

/// The unfinished end of a log: the trace of a write that was never acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The segment it is in.
    pub file: PathBuf,
    /// Where it begins.
    pub offset: u64,
    /// How many bytes are not zero from there on.
    pub bytes: u64,
}

/// Damage that was found: where, and what was expected there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The damaged file.
    pub file: PathBuf,
    /// Where in the file.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
}

/// Finds every frame and every bad stretch of a segment.
pub(super) fn survey(image: SegmentImage) -> Survey {
    let content = &image.content;
    let mut frames = Vec::new();
    let mut bad = Vec::new();
    let mut at = SEGMENT_HEAD;
    loop {
        if let Parsed::Frame(frame) = frame::parse(content, at)
            && frame.epoch == image.epoch
        {
            let next = frame.next;
            frames.push((at, frame));
            at = next;
            continue;
        }
        match frame::find(content, at + FRAME_ALIGN, Some(image.epoch)) {
            Some((found, _)) => {
                bad.push(at..found);
                at = found;
            }
            None => break,
        }
    }
    let rest = content.get(at..).unwrap_or_default();
    if let Some(last) = last_written(rest) {
        bad.push(at..at + last + 1);
    }
    Survey { image, frames, bad }
}

impl Survey {
    /// Where the next frame would begin.
    pub(super) fn end(&self) -> usize {
        self.frames.last().map_or(SEGMENT_HEAD, |(_, frame)| frame.next)
    }
}

/// Why an end that cannot be read is not the end of the log.
const FOLLOWED: &str = "later segments were written to";

/// Follows the sequence through the segments.
#[derive(Debug)]
pub(super) struct Judge {
    flushed_sequence: u64,
    durable_sequence: u64,
    next_segment: u64,
    next_sequence: Option<u64>,
    torn: Option<TornTail>,
    findings: Vec<Finding>,
}

/// What the segments amount to.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) next_sequence: u64,
    pub(super) torn: Option<TornTail>,
    pub(super) findings: Vec<Finding>,
}

impl Judge {
    pub(super) fn new(manifest: &Manifest) -> Self {
        Judge {
            flushed_sequence: manifest.flushed_sequence,
            durable_sequence: manifest.durable_sequence,
            next_segment: manifest.first_segment,
            next_sequence: None,
            torn: None,
            findings: Vec::new(),
        }
    }

    /// The next segment in order of numbers.
    pub(super) fn take(&mut self, survey: &Survey) {
        self.expect_number(&survey.image.path, survey.image.number);
        let path = &survey.image.path;
        let mut bad = survey.bad.iter().peekable();
        for (offset, frame) in &survey.frames {
            let mut gap = self.torn_was_damage(FOLLOWED);
            while let Some(bad) = bad.next_if(|bad| bad.start < *offset) {
                let what = "a record is not valid and valid ones follow".to_owned();
                self.findings.push(Finding { file: path.clone(), offset: bad.start as u64, what });
                gap = true;
            }
            self.expect_sequence(path, *offset, frame.sequence, gap);
        }
        for bad in bad {
            self.torn_was_damage(FOLLOWED);
            let (offset, bytes) = (bad.start as u64, bad.len() as u64);
            self.torn = Some(TornTail { file: path.clone(), offset, bytes });
        }
    }

    /// A segment that could not even be surveyed.
    pub(super) fn take_unreadable(&mut self, path: &Path, number: u64, error: &Error) {
        self.expect_number(path, number);
        self.findings.push(Finding::of(path, error));
    }

    pub(super) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    pub(super) fn finish(mut self, dir: &Path) -> Verdict {
        self.expect_durable(dir);
        let flushed_next = self.flushed_sequence + 1;
        Verdict {
            next_sequence: self.next_sequence.unwrap_or(flushed_next).max(flushed_next),
            torn: self.torn,
            findings: self.findings,
        }
    }

    fn expect_number(&mut self, path: &Path, number: u64) {
        if number != self.next_segment {
            let what = format!("segment {} is missing before this one", self.next_segment);
            self.findings.push(Finding { file: path.to_owned(), offset: 0, what });
        }
        self.next_segment = number + 1;
    }

    /// A record that was durable once is no torn tail.
    fn expect_durable(&mut self, dir: &Path) {
        let last = self.next_sequence.map_or(self.flushed_sequence, |next| next - 1);
        let durable = self.durable_sequence;
        if last >= durable {
            return;
        }
        let known = format!("records up to {durable} were durable");
        if !self.torn_was_damage(&known) && self.findings.is_empty() {
            let file = segment_path(dir, self.next_segment - 1);
            let what = format!("the log ends with record {last}, but {known}");
            self.findings.push(Finding { file, offset: SEGMENT_HEAD as u64, what });
        }
    }

    /// After a gap, which is named already, records are missing.
    fn expect_sequence(&mut self, path: &Path, offset: usize, sequence: u64, gap: bool) {
        let right = match self.next_sequence {
            Some(expected) if gap => sequence >= expected,
            Some(expected) => sequence == expected,
            // The first segment may begin with frames that are in tables already.
            None => gap || sequence <= self.flushed_sequence + 1,
        };
        if !right {
            let expected = self.next_sequence.unwrap_or(self.flushed_sequence + 1);
            let what = format!("record {sequence} follows where record {expected} should be");
            self.findings.push(Finding { file: path.to_owned(), offset: offset as u64, what });
        }
        self.next_sequence = Some(sequence + 1);
    }

    /// What looked like a torn tail was none, for this reason. Says whether there was one.
    fn torn_was_damage(&mut self, why: &str) -> bool {
        let Some(torn) = self.torn.take() else { return false };
        let what = format!("a record is not valid and {why}");
        self.findings.push(Finding { file: torn.file, offset: torn.offset, what });
        true
    }
}

impl Finding {
    pub(super) fn of(path: &Path, error: &Error) -> Self {
        match error {
            Error::Corrupt { file, offset, what } => {
                Finding { file: file.clone(), offset: *offset, what: what.clone() }
            }
            other => Finding { file: path.to_owned(), offset: 0, what: other.to_string() },
        }
    }

    pub(super) fn into_error(self) -> Error {
        Error::Corrupt { file: self.file, offset: self.offset, what: self.what }
    }
}
