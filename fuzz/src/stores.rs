//! Files of the embedded engine: a segment of the log, a table, the manifest.
//!
//! The rest of the store is the golden directory. Checksums are put right before the file is
//! read, because nothing behind them would ever be reached otherwise; without that it would be a
//! test of CRC32C.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crc32c::{crc32c, crc32c_append};
use hence_store_embedded::kv::fake_disk::FakeDisk;
use hence_store_embedded::kv::{Background, Direction, Kv, Options, Read, Span, check, repair};

const DIR: &str = "data";

macro_rules! golden {
    ($($name:literal),*) => {
        [$(($name, include_bytes!(
            concat!("../../crates/store-embedded/testdata/v1/", $name)).as_slice())),*]
    };
}

const GOLDEN: [(&str, &[u8]); 6] = golden!(
    "MANIFEST",
    "0000000001.log",
    "0000000002.log",
    "0000000003.log",
    "0000000004.log",
    "0000000001.table"
);

/// A segment, in the place of the one that is written to.
pub(crate) fn log(bytes: &[u8]) {
    open_with("0000000002.log", &right_segment(bytes));
}

/// A table.
pub(crate) fn table(bytes: &[u8]) {
    open_with("0000000001.table", &right_table(bytes));
}

/// The manifest.
pub(crate) fn manifest(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    put_right(&mut bytes, 0, usize::MAX);
    open_with("MANIFEST", &bytes);
}

/// Checks, repairs and opens a store with this file in it; a store that opens is read whole.
fn open_with(name: &str, content: &[u8]) {
    let disk = golden().fork();
    let dir = Path::new(DIR);
    disk.set_content(&dir.join(name), content);
    drop(check(dir, &disk));
    open(&disk.fork());
    let mended = disk.fork();
    let shared: Arc<dyn hence_store_embedded::kv::disk::Disk> = Arc::new(mended.clone());
    if repair(dir, &shared).is_ok() {
        open(&mended);
    }
}

fn open(disk: &FakeDisk) {
    let options = Options {
        segment_bytes: 4096,
        spares_ready: 1,
        background: Background::Inline,
        ..Options::new([7; 16])
    };
    let Ok((kv, _)) = Kv::open(Path::new(DIR), options, Arc::new(disk.clone())) else { return };
    // What is damaged deeper is an error here.
    drop(kv.scan(Span::all(), Direction::Forward, &mut |_, _| ControlFlow::Continue(())));
}

fn golden() -> &'static FakeDisk {
    static GOLDEN_DISK: OnceLock<FakeDisk> = OnceLock::new();
    GOLDEN_DISK.get_or_init(|| {
        let disk = FakeDisk::new();
        for (name, content) in GOLDEN {
            disk.set_content(&Path::new(DIR).join(name), content);
        }
        disk
    })
}

/// Puts right the checksum at 12 of what begins at `start` and is at most `len` long; it covers
/// everything but itself.
fn put_right(bytes: &mut [u8], start: usize, len: usize) {
    let end = start.saturating_add(len).min(bytes.len());
    let Some(part) = bytes.get_mut(start..end).filter(|part| part.len() >= 16) else { return };
    let checksum = crc32c_append(crc32c(&part[..12]), &part[16..]);
    part[12..16].copy_from_slice(&checksum.to_le_bytes());
}

/// The header of a segment is 64 bytes; frames follow at multiples of eight.
fn right_segment(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    put_right(&mut bytes, 0, 64);
    let mut at = 64;
    while let Some(body) = u32_at(&bytes, at + 4) {
        let total = (32 + body as usize).next_multiple_of(8);
        let Some(frame) = bytes.get_mut(at..at + total) else { break };
        if frame.iter().all(|byte| *byte == 0) {
            break;
        }
        let checksum = crc32c(&frame[4..]);
        frame[..4].copy_from_slice(&checksum.to_le_bytes());
        at += total;
    }
    bytes
}

/// The footer is the last 120 bytes and says how long the parts before it are.
fn right_table(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let Some(footer) = bytes.len().checked_sub(120) else { return bytes };
    let number = |bytes: &[u8], at: usize| {
        let part = bytes.get(at..at + 8).and_then(|part| part.try_into().ok());
        u64::from_le_bytes(part.unwrap_or_default())
    };
    let table = number(&bytes, footer + 32);
    let blocks = usize::try_from(number(&bytes, footer + 88)).unwrap_or(usize::MAX);
    let filter = usize::try_from(number(&bytes, footer + 96)).unwrap_or(usize::MAX);
    let mut at = 0;
    while at < blocks.min(footer) {
        let Some(payload) = u32_at(&bytes, at + 4) else { break };
        let Some(block) = bytes.get_mut(at..at + 12 + payload as usize) else { break };
        let covered = crc32c_append(crc32c(&block[4..]), &table.to_le_bytes());
        let checksum = crc32c_append(covered, &(at as u64).to_le_bytes());
        block[..4].copy_from_slice(&checksum.to_le_bytes());
        at += 12 + payload as usize;
    }
    let middle = blocks.saturating_add(filter).min(footer);
    let parts = [(112, blocks.min(footer)..middle), (116, middle..footer)];
    for (place, range) in parts {
        let checksum = crc32c(&bytes[range]);
        bytes[footer + place..footer + place + 4].copy_from_slice(&checksum.to_le_bytes());
    }
    put_right(&mut bytes, footer, 120);
    bytes
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
