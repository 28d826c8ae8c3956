//! Reads what can still be read from damaged files.
//!
//! Every byte given back has passed its checksum; nothing is guessed. What cannot be read is
//! listed with its place.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use bytes::Bytes;

use super::block::{BLOCK_HEAD, Block, Rows};
use super::bytes_io::Reader;
use super::disk::Disk;
use super::error::Result;
use super::frame::{self, Frame, Parsed};
use super::segment::{SEGMENT_HEAD, SegmentImage, read_file, read_segment, segment_path};
use super::survey::{Survey, survey};
use super::table::Table;
use super::table_format::table_path;

/// What was read of a table.
pub(super) struct TableSalvage {
    /// The sound blocks in order.
    pub(super) rows: Vec<Rows>,
    /// Stretches that are lost, and how many entries each held if that is known.
    pub(super) lost: Vec<(Range<u64>, Option<u64>)>,
}

impl TableSalvage {
    /// Whether these rows are in order, and behind all that was kept so far: a table is sorted.
    fn is_followed_by(&self, rows: &Rows) -> bool {
        let last = self.rows.iter().rev().find_map(Rows::last_key);
        let behind = last.is_none_or(|last| rows.len() == 0 || last < rows.key(0));
        behind && (1..rows.len()).all(|row| rows.key(row - 1) < rows.key(row))
    }
}

/// Reads the sound blocks of a table, with the help of its index if that is sound.
pub(super) fn salvage_table(
    disk: &dyn Disk,
    dir: &Path,
    id: u64,
    store_id: [u8; 16],
) -> Result<TableSalvage> {
    match Table::open(disk, dir, id, store_id).and_then(|table| with_index(&table)) {
        Ok(salvage) => Ok(salvage),
        Err(_) => Ok(without_index(&read_file(disk, &table_path(dir, id))?, id)),
    }
}

/// Reads the valid frames of a segment, whatever is left of it.
pub(super) fn salvage_segment(
    disk: &dyn Disk,
    dir: &Path,
    number: u64,
    store_id: [u8; 16],
) -> Result<Survey> {
    if let Ok(image) = read_segment(disk, dir, number, store_id) {
        return Ok(survey(image));
    }
    let path = segment_path(dir, number);
    let content = read_file(disk, &path)?;
    let epoch = epoch_of_frames(&content);
    let mut found = survey(SegmentImage { path, number, epoch, content });
    found.bad.insert(0, 0..SEGMENT_HEAD);
    Ok(found)
}

/// The epoch of a segment whose header does not tell it.
///
/// A frame right behind the header is in nobody's value. Elsewhere, the value of a damaged record
/// may hold what passes for frames, and any number of them: so the epoch is that whose frames
/// take most of the segment.
fn epoch_of_frames(content: &[u8]) -> u64 {
    if let Parsed::Frame(frame) = frame::parse(content, SEGMENT_HEAD) {
        return frame.epoch;
    }
    let mut taken: BTreeMap<u64, usize> = BTreeMap::new();
    let mut at = SEGMENT_HEAD;
    while let Some((start, frame)) = frame::find(content, at, None) {
        *taken.entry(frame.epoch).or_default() += frame.next - start;
        at = frame.next;
    }
    taken.into_iter().max_by_key(|(_, bytes)| *bytes).map_or(0, |(epoch, _)| epoch)
}

/// The frames and bad stretches of a segment in the order of their offsets.
pub(super) enum Piece<'a> {
    Frame(usize, &'a Frame),
    Bad(&'a Range<usize>),
}

pub(super) fn pieces(survey: &Survey) -> Vec<Piece<'_>> {
    let frames =
        survey.frames.iter().map(|(offset, frame)| (*offset, Piece::Frame(*offset, frame)));
    let bad = survey.bad.iter().map(|range| (range.start, Piece::Bad(range)));
    let mut pieces: Vec<_> = frames.chain(bad).collect();
    pieces.sort_by_key(|(offset, _)| *offset);
    pieces.into_iter().map(|(_, piece)| piece).collect()
}

fn with_index(table: &Table) -> Result<TableSalvage> {
    let mut salvage = TableSalvage { rows: Vec::new(), lost: Vec::new() };
    for place in table.blocks() {
        let place = place?;
        let rows = table.block(&place).ok().and_then(|block| block.rows());
        match rows.filter(|rows| salvage.is_followed_by(rows)) {
            Some(rows) => salvage.rows.push(rows),
            None => {
                let range = place.offset..place.offset + u64::from(place.bytes);
                salvage.lost.push((range, Some(u64::from(place.entries))));
            }
        }
    }
    Ok(salvage)
}

/// Walks from block to block by their own lengths, and looks for the next sound one after a bad.
fn without_index(content: &Bytes, table: u64) -> TableSalvage {
    let mut salvage = TableSalvage { rows: Vec::new(), lost: Vec::new() };
    let mut at = 0;
    let mut lost_from = None;
    while at < content.len() {
        let found = block_at(content, at, table);
        match found.filter(|(rows, _)| salvage.is_followed_by(rows)) {
            Some((rows, end)) => {
                if let Some(start) = lost_from.take() {
                    salvage.lost.push((start..at as u64, None));
                }
                salvage.rows.push(rows);
                at = end;
            }
            None => {
                lost_from.get_or_insert(at as u64);
                at += 1;
            }
        }
    }
    // The end of the file holds filter, index and footer: they hold no entries of their own, but
    // a lost block before them cannot be told from them.
    if let Some(start) = lost_from {
        salvage.lost.push((start..content.len() as u64, None));
    }
    salvage
}

fn block_at(content: &Bytes, at: usize, table: u64) -> Option<(Rows, usize)> {
    let mut head = Reader::new(content.get(at + 4..at + BLOCK_HEAD)?);
    let end = at.checked_add(BLOCK_HEAD)?.checked_add(head.u32()? as usize)?;
    if end > content.len() {
        return None;
    }
    let rows = Block::open(content.slice(at..end), table, at as u64)?.rows()?;
    Some((rows, end))
}
