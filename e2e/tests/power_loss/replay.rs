//! Puts the disk together as a power cut might have left it, and looks what the store has.

use std::collections::HashMap;
use std::fmt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use hence_e2e::{Seed, server};
use serde_json::Value;

use crate::nbd::{DISK_BYTES, Event};
use crate::text;
use crate::volume::mount_image;

/// A disk writes a sector whole or not at all.
const SECTOR_BYTES: usize = 512;

/// Something a client was told, and how long the journal was then.
#[derive(Debug, Clone)]
pub(crate) struct Acknowledged {
    pub(crate) id: String,
    /// Its success, or else the job itself.
    pub(crate) done: bool,
    pub(crate) events: usize,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    pub(crate) states: usize,
    pub(crate) dropped: usize,
    pub(crate) torn: usize,
    /// What was acknowledged and is not there, with the state it is missing from.
    pub(crate) lost: Vec<String>,
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sum { states, dropped, torn, lost } = self;
        let lost = lost.len();
        write!(
            f,
            "{states} states, {dropped} writes dropped, {torn} torn, {lost} states with losses"
        )
    }
}

/// Looks at so many states, from the first acknowledgement on.
pub(crate) fn replay(
    journal: &[Event],
    acknowledged: &[Acknowledged],
    states: usize,
    seed: &Seed,
) -> Result<Sum> {
    let first = acknowledged.first().context("nothing was acknowledged")?.events;
    let mut cuts: Vec<usize> = (0..states).map(|_| cut(journal, first, seed)).collect();
    cuts.sort_unstable();
    let home = tempfile::Builder::new().prefix("hence-replay-").tempdir_in(memory())?;
    let (image, at) = (home.path().join("image"), home.path().join("mounted"));
    let mut sum = Sum::default();
    // What is durable for certain; cuts come in order, so it only grows.
    let mut durable = vec![0; DISK_BYTES];
    let mut applied = 0;
    for cut in cuts {
        let flushed = journal[..cut].iter().rposition(|event| matches!(event, Event::Flush));
        let flushed = flushed.unwrap_or(0).max(applied);
        journal[applied..flushed].iter().for_each(|event| apply(event, &mut durable));
        applied = flushed;
        let mut disk = durable.clone();
        scatter(&journal[flushed..cut], &mut disk, seed, &mut sum);
        write_image(&image, &disk)?;
        sum.states += 1;
        let found = look(&image, &at);
        let lost = match found {
            Ok(found) => missing(acknowledged, cut, &found),
            Err(error) => Some(format!("it cannot be opened: {error:#}")),
        };
        sum.lost.extend(lost.map(|lost| format!("cut at {cut} of {}: {lost}", journal.len())));
    }
    Ok(sum)
}

/// A moment at which something is not flushed, if there is one near: right after a flush there is
/// nothing to lose.
fn cut(journal: &[Event], first: usize, seed: &Seed) -> usize {
    let is_flush = |event: &Event| matches!(event, Event::Flush);
    let near = seed.between(first as u64, journal.len() as u64) as usize;
    let next = journal[near..].iter().position(is_flush).map_or(journal.len(), |next| near + next);
    let before = journal[..next].iter().rposition(is_flush).map_or(0, |before| before + 1);
    seed.between(before.max(first) as u64, next.max(first) as u64) as usize
}

fn apply(event: &Event, disk: &mut [u8]) {
    if let Event::Write { at, bytes, .. } = event {
        disk[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
}

/// Of the writes after the last flush some are there, some half, some not at all.
fn scatter(events: &[Event], disk: &mut [u8], seed: &Seed, sum: &mut Sum) {
    for event in events {
        let Event::Write { at, bytes, durable } = event else { continue };
        if *durable || seed.percent(40) {
            apply(event, disk);
        } else if seed.percent(33) {
            sum.torn += 1;
            for (index, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                if seed.percent(50) {
                    let start = at + index * SECTOR_BYTES;
                    disk[start..start + sector.len()].copy_from_slice(sector);
                }
            }
        } else {
            sum.dropped += 1;
        }
    }
}

/// Mounts the image, opens the store with the real binary, and lists the jobs with their states.
fn look(image: &Path, at: &Path) -> Result<HashMap<String, bool>> {
    let mounted = mount_image(image, at)?;
    let data = text(&mounted.path().join("data"));
    let exported = server::hence(&["store", "export", &data])?;
    let said = String::from_utf8_lossy(&exported.stderr).into_owned();
    ensure!(exported.status.success(), "{}: {}", exported.status, said.trim());
    let mut jobs = HashMap::new();
    for line in String::from_utf8_lossy(&exported.stdout).lines() {
        let line: Value = serde_json::from_str(line).context("a line of the export")?;
        if let Some(id) = line["job"]["id"].as_str() {
            jobs.insert(id.to_owned(), !line["job"]["finish"].is_null());
        }
    }
    Ok(jobs)
}

/// The first that was acknowledged before the cut and is not there.
fn missing(
    acknowledged: &[Acknowledged],
    cut: usize,
    found: &HashMap<String, bool>,
) -> Option<String> {
    let told = acknowledged.iter().filter(|told| told.events <= cut);
    let mut lost = told.filter(|told| match found.get(&told.id) {
        Some(finished) => told.done && !finished,
        None => true,
    });
    let first = lost.next()?;
    Some(format!("{first:?} and {} more are missing", lost.count()))
}

/// Only what is not zero is written: the file is new, and most of the disk is empty.
fn write_image(image: &Path, disk: &[u8]) -> Result<()> {
    let file = std::fs::File::create(image)?;
    file.set_len(disk.len() as u64)?;
    for (index, chunk) in disk.chunks(64 * 1024).enumerate() {
        if chunk.iter().any(|byte| *byte != 0) {
            file.write_all_at(chunk, (index * 64 * 1024) as u64)?;
        }
    }
    Ok(())
}

/// Memory, if there is a file system for it: images are written over and over.
fn memory() -> std::path::PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() }
}
