//! Reads everything and says what is damaged, without changing a byte.

use std::path::Path;

use super::disk::Disk;
use super::error::{Error, Result};
use super::frame::operations_parse;
use super::manifest::{Manifest, manifest_path};
use super::recover::{segment_numbers, take_lock};
use super::segment::{read_segment, segment_path};
use super::survey::{Finding, Judge, Survey, TornTail, survey};
use super::table::Table;
use super::table_format::table_path;

/// What is in a store, and what is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Damage; the store does not open, or does not serve these bytes, if there is any.
    pub findings: Vec<Finding>,
    /// The unfinished end of the log; open drops it. No damage.
    pub torn: Option<TornTail>,
    /// Segments of the log.
    pub segments: u64,
    /// Valid frames in the log.
    pub frames: u64,
    /// Changes in those frames.
    pub operations: u64,
    /// Tables that are in use.
    pub tables: u64,
    /// Valid entries in the tables.
    pub entries: u64,
}

/// Verifies every checksum in the directory. The store must not be open. A copy on a file system
/// that cannot be written can be checked as well.
pub fn check(dir: &Path, disk: &dyn Disk) -> Result<Report> {
    let _lock = match take_lock(disk, dir) {
        // Where nobody can write, nobody has to be kept out.
        Err(error) if error.is_read_only() => None,
        locked => Some(locked?),
    };
    let mut report = Report::default();
    let manifest = match Manifest::read(disk, dir) {
        Ok(manifest) => manifest,
        Err(error @ (Error::Version { .. } | Error::Locked { .. })) => return Err(error),
        Err(error) => {
            report.findings.push(Finding::of(&manifest_path(dir), &error));
            return Ok(report);
        }
    };
    for meta in &manifest.tables {
        report.tables += 1;
        match Table::open(disk, dir, meta.id, manifest.store_id) {
            Ok(table) => {
                if let Err(error) = table.check_named(meta) {
                    report.findings.push(Finding::of(table.path(), &error));
                }
                check_table(&table, &mut report);
            }
            Err(error) => {
                report.findings.push(Finding::of(&table_path(dir, meta.id), &error));
            }
        }
    }
    check_log(disk, dir, &manifest, &mut report)?;
    Ok(report)
}

fn check_log(disk: &dyn Disk, dir: &Path, manifest: &Manifest, report: &mut Report) -> Result<()> {
    let mut judge = Judge::new(manifest);
    let numbers = segment_numbers(disk, dir, manifest.first_segment)?;
    for number in &numbers {
        report.segments += 1;
        match read_segment(disk, dir, *number, manifest.store_id) {
            Ok(image) => {
                let survey = survey(image);
                judge.take(&survey);
                check_operations(&survey, report);
                report.frames += survey.frames.len() as u64;
                let operations = survey.frames.iter().map(|(_, frame)| u64::from(frame.count));
                report.operations += operations.sum::<u64>();
            }
            Err(error) => judge.take_unreadable(&segment_path(dir, *number), *number, &error),
        }
    }
    if numbers.is_empty() {
        let file = segment_path(dir, manifest.first_segment);
        report.findings.push(Finding { file, offset: 0, what: "the segment is missing".into() });
    }
    let verdict = judge.finish(dir);
    report.findings.extend(verdict.findings);
    report.torn = verdict.torn;
    Ok(())
}

fn check_operations(survey: &Survey, report: &mut Report) {
    for (offset, frame) in &survey.frames {
        if !operations_parse(&survey.image.content[frame.operations.clone()]) {
            let what = "a record with a right checksum does not parse".to_owned();
            let file = survey.image.path.clone();
            report.findings.push(Finding { file, offset: *offset as u64, what });
        }
    }
}

fn check_table(table: &Table, report: &mut Report) {
    let mut last_key: Vec<u8> = Vec::new();
    for place in table.blocks() {
        let place = match place {
            Ok(place) => place,
            Err(error) => {
                report.findings.push(Finding::of(table.path(), &error));
                return;
            }
        };
        let rows = match table.block(&place).map(|block| block.rows()) {
            Ok(Some(rows)) => rows,
            Ok(None) => {
                let what = "a block does not parse".to_owned();
                let file = table.path().to_owned();
                report.findings.push(Finding { file, offset: place.offset, what });
                continue;
            }
            Err(error) => {
                report.findings.push(Finding::of(table.path(), &error));
                continue;
            }
        };
        for row in 0..rows.len() {
            if !last_key.is_empty() && rows.key(row) <= last_key.as_slice() {
                let what = "keys are not in order".to_owned();
                let file = table.path().to_owned();
                report.findings.push(Finding { file, offset: place.offset, what });
            }
            last_key.clear();
            last_key.extend_from_slice(rows.key(row));
        }
        report.entries += rows.len() as u64;
    }
}
