//! The store as a whole, mostly on a disk in memory: same inputs, same calls, no waiting.

mod crash;
mod damage;
mod full;
mod golden;
mod model;
mod repair;
mod threads;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::fake_disk::FakeDisk;
use super::limits::REPLAYED_PART;
use super::{
    Background, Direction, Error, Expiry, Kv, OpenReport, Options, Read, Result, Span, WriteBatch,
    check,
};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const DIR: &str = "/store";
const SEGMENT_BYTES: u64 = 4096;

fn dir() -> &'static Path {
    Path::new(DIR)
}

/// Everything small, so that a short test meets every part.
fn small() -> Options {
    Options {
        segment_bytes: SEGMENT_BYTES,
        spares_ready: 2,
        memtable_bytes: 6000,
        cache_bytes: 64 * 1024,
        background: Background::Inline,
        ..Options::new(*b"0123456789abcdef")
    }
}

fn open(disk: &FakeDisk) -> Result<(Kv, OpenReport)> {
    Kv::open(dir(), small(), Arc::new(disk.clone()))
}

fn open_new(disk: &FakeDisk) -> Kv {
    open(disk).expect("a new store opens").0
}

fn put(key: &str, value: &str) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(key.as_bytes(), value.as_bytes());
    batch
}

fn everything(kv: &Kv, direction: Direction) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    within(kv, Span::all(), direction)
}

fn within(kv: &Kv, span: Span<'_>, direction: Direction) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut found = Vec::new();
    kv.scan(span, direction, &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

fn contents(kv: &Kv) -> Result<Model> {
    Ok(everything(kv, Direction::Forward)?.into_iter().collect())
}

/// The state after each commit of [`commits`], the empty one first.
fn states(count: usize) -> Vec<Model> {
    let mut model = Model::new();
    let mut states = vec![model.clone()];
    for number in 0..count {
        for change in changes(number) {
            match change {
                (key, Some(value)) => drop(model.insert(key, value)),
                (key, None) => drop(model.remove(&key)),
            }
        }
        states.push(model.clone());
    }
    states
}

type Change = (Vec<u8>, Option<Vec<u8>>);

/// What the commit with this number changes: two puts, and a removal of an earlier key.
fn changes(number: usize) -> Vec<Change> {
    let key = |number: usize| format!("key-{:03}", number * 37 % 101).into_bytes();
    let value = format!("value-{number}-{}", "x".repeat(number * 13 % 90)).into_bytes();
    let mut changes =
        vec![(key(number), Some(value)), (b"last".to_vec(), Some(vec![number as u8]))];
    if number % 3 == 2 {
        changes.push((key(number - 2), None));
    }
    changes
}

fn batch_of(number: usize) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for (key, value) in changes(number) {
        match value {
            Some(value) => batch.put(&key, &value),
            None => batch.delete(&key),
        }
    }
    batch
}

/// Makes the first `count` commits.
fn run_commits(kv: &Kv, count: usize) {
    for number in 0..count {
        kv.commit(&batch_of(number)).expect("the disk is sound");
    }
}

/// Filters and indexes are read by the page: memory must not grow with what is only on the disk.
#[test]
fn a_table_takes_a_tenth_of_a_byte_for_each_entry_at_most() {
    let options = Options { memtable_bytes: 64 << 20, segment_bytes: 8 << 20, ..small() };
    let (kv, _) = Kv::open(dir(), options, Arc::new(FakeDisk::new())).expect("opens");
    let key = |number: usize| format!("job-{number:09}");
    for some in (0..50_000).collect::<Vec<_>>().chunks(10_000) {
        let mut batch = WriteBatch::new();
        for number in some {
            batch.put(key(*number).as_bytes(), &[7; 100]);
        }
        kv.commit(&batch).expect("the disk is sound");
    }
    kv.compact().expect("merges");
    let stats = kv.stats();
    assert_eq!((stats.tables, stats.table_entries), (1, 50_000));
    assert!(stats.table_resident_bytes < 5_000, "{} bytes", stats.table_resident_bytes);
    for number in (0..50_000).step_by(7) {
        assert!(kv.get(key(number).as_bytes()).expect("reads").is_some(), "{number}");
        assert_eq!(kv.get(key(50_000 + number).as_bytes()).expect("reads"), None, "{number}");
    }
}

/// It would hold on to whole segments of the log until the next so many commits.
#[test]
fn what_open_reads_back_is_written_out_unless_it_is_little() {
    let options = || Options { memtable_bytes: 1 << 20, segment_bytes: 1 << 20, ..small() };
    let part = options().memtable_bytes / REPLAYED_PART;
    for (bytes, tables, replayed) in [(part / 2, 0, 1), (part, 1, 0)] {
        let disk = FakeDisk::new();
        let reopen = || Kv::open(dir(), options(), Arc::new(disk.clone())).expect("opens");
        let (kv, _) = reopen();
        kv.commit(&put("a", &"1".repeat(bytes))).expect("commits");
        drop(kv);
        let (kv, report) = reopen();
        assert_eq!((report.frames_replayed, kv.state.snapshot().tables.len()), (1, tables));
        assert_eq!(kv.get(b"a").expect("reads").map(|value| value.len()), Some(bytes));
        assert_eq!(kv.commit(&put("b", "2")).expect("commits"), 2);
        drop(kv);
        assert_eq!(reopen().1.frames_replayed, replayed + 1, "the next open");
    }
}

#[test]
fn what_is_put_is_found_and_survives_a_reopen() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    let mut batch = put("a", "1");
    batch.put(b"b", b"2");
    assert_eq!(kv.commit(&batch).expect("commits"), 1);
    assert_eq!(kv.commit_group(&[put("c", "3"), put("a", "4")]).expect("commits"), 2);
    let check = |kv: &Kv| {
        assert_eq!(kv.get(b"a").expect("reads"), Some(Bytes::from_static(b"4")));
        assert_eq!(kv.get(b"c").expect("reads"), Some(Bytes::from_static(b"3")));
        assert_eq!(kv.get(b"d").expect("reads"), None);
    };
    check(&kv);
    drop(kv);
    let (kv, report) = open(&disk).expect("opens");
    check(&kv);
    assert!(!report.created);
    assert_eq!((report.last_sequence, report.frames_replayed, report.torn), (2, 2, None));
    assert_eq!(report.store_id, *b"0123456789abcdef");
}

#[test]
fn a_second_open_is_refused_and_says_by_whom() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    let refused = open(&disk).expect_err("the directory is in use");
    assert!(matches!(&refused, Error::Locked { holder, .. } if holder.starts_with("process ")));
    drop(kv);
    open(&disk).expect("the lock is gone");
}

#[test]
fn a_second_open_is_refused_on_the_real_disk() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = Arc::new(super::disk::RealDisk);
    let (kv, _) = Kv::open(directory.path(), small(), disk.clone()).expect("opens");
    let refused = Kv::open(directory.path(), small(), disk.clone()).expect_err("in use");
    let expected = format!("process {}", std::process::id());
    assert!(matches!(&refused, Error::Locked { holder, .. } if *holder == expected));
    drop(kv);
    Kv::open(directory.path(), small(), disk).expect("the lock is gone");
}

#[test]
fn fresh_keys_that_come_and_go_leave_nothing() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    for number in 0..500u32 {
        let mut batch = WriteBatch::new();
        batch.put_fresh(format!("job-{number}").as_bytes(), b"payload");
        kv.commit(&batch).expect("commits");
        batch.clear();
        batch.delete(format!("job-{number}").as_bytes());
        kv.commit(&batch).expect("commits");
    }
    kv.flush().expect("flushes");
    let stats = kv.stats();
    assert!(stats.table_entries <= 2 * stats.tables as u64, "{stats:?}");
    assert_eq!(contents(&kv).expect("reads"), Model::new());
}

/// Keys that begin with "old" go when the clock is past the number in their value.
struct OldGoes(AtomicU64);

impl Expiry for OldGoes {
    fn deadline(&self, key: &[u8], value: &[u8]) -> Option<u64> {
        let number = || std::str::from_utf8(value).ok()?.parse().ok();
        key.starts_with(b"old").then(number)?
    }

    fn is_over(&self, _key: &[u8], deadline: u64) -> bool {
        deadline <= self.reached()
    }

    fn reached(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn entries_go_when_they_are_over() {
    let disk = FakeDisk::new();
    let clock = Arc::new(OldGoes(AtomicU64::new(0)));
    let options = Options { expiry: Some(clock.clone()), ..small() };
    let (kv, _) = Kv::open(dir(), options, Arc::new(disk)).expect("opens");
    let batches: Vec<_> =
        (1..=9).map(|number| put(&format!("old-{number}"), &number.to_string())).collect();
    kv.commit_group(&batches).expect("commits");
    kv.commit(&put("new-1", "5")).expect("commits");
    kv.compact().expect("merges");
    assert_eq!(kv.stats().table_entries, 10);
    clock.0.store(3, Ordering::Relaxed);
    kv.expire().expect("works");
    assert_eq!(kv.stats().table_entries, 10, "a few are not worth the work");
    clock.0.store(8, Ordering::Relaxed);
    kv.expire().expect("works");
    let left: Vec<_> = contents(&kv).expect("reads").into_keys().collect();
    assert_eq!(left, [b"new-1", b"old-9"]);
}

#[test]
fn a_batch_beyond_the_limit_is_refused_and_changes_nothing() {
    let options = Options { commit_bytes_max: 1000, ..small() };
    let (kv, _) = Kv::open(dir(), options, Arc::new(FakeDisk::new())).expect("opens");
    let refused = kv.commit(&put("a", &"x".repeat(1000)));
    assert!(matches!(refused, Err(Error::TooLarge { bytes_max: 1000, .. })));
    assert_eq!(kv.stats().last_sequence, 0);
    kv.commit(&put("a", &"x".repeat(900))).expect("fits");
}

#[test]
fn a_batch_larger_than_a_segment_is_atomic_too() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    kv.commit(&put("small", "1")).expect("commits");
    for number in 0..3 {
        let large = "x".repeat(SEGMENT_BYTES as usize * 3);
        kv.commit(&put(&format!("large-{number}"), &large)).expect("commits");
        kv.commit(&put(&format!("small-{number}"), "1")).expect("commits");
    }
    drop(kv);
    assert_eq!(check(dir(), &disk).expect("reads").findings, []);
    let (kv, _) = open(&disk).expect("opens");
    assert_eq!(contents(&kv).expect("reads").len(), 7);
    run_commits(&kv, 60);
}

#[test]
fn a_group_larger_than_a_segment_is_committed_in_parts() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    let batches: Vec<_> =
        (0..40).map(|number| put(&format!("key-{number:02}"), &"x".repeat(500))).collect();
    kv.commit_group(&batches).expect("commits");
    drop(kv);
    let (kv, _) = open(&disk).expect("opens");
    assert_eq!(contents(&kv).expect("reads").len(), 40);
}

#[test]
fn large_values_survive_flush_and_merge() {
    let disk = FakeDisk::new();
    let options = Options { segment_bytes: 1 << 20, ..small() };
    let (kv, _) = Kv::open(dir(), options, Arc::new(disk)).expect("opens");
    let large = "y".repeat(300_000);
    for number in 0..6 {
        kv.commit(&put(&format!("key-{number}"), &large)).expect("commits");
    }
    kv.compact().expect("merges");
    assert_eq!(kv.get(b"key-3").expect("reads").map(|value| value.len()), Some(300_000));
    assert_eq!(contents(&kv).expect("reads").len(), 6);
}

#[test]
fn a_store_is_known_by_the_names_of_its_files() {
    let rows = [
        ("MANIFEST", true),
        ("0000000001.log", true),
        ("0000000012.table", true),
        ("LOCK", false),
        ("MANIFEST.tmp", false),
        ("app.log", false),
        ("2026.log", false),
        ("a.table", false),
    ];
    for (name, expected) in rows {
        assert_eq!(crate::kv::is_store_file(name), expected, "{name}");
    }
}
