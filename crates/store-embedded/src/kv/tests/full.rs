//! A full disk is a state that passes; a failed sync is the end.

use std::sync::Mutex;

use super::*;
use crate::kv::Pressure;
use crate::kv::disk::Disk;
use crate::kv::fake_disk::Faulty;

#[test]
fn the_reserve_carries_commits_and_room_brings_normal_back() {
    let disk = FakeDisk::new();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&heard);
    let on_pressure = Arc::new(move |pressure| listener.lock().expect("no panic").push(pressure));
    // The memtable is large enough that only the log asks for space.
    let options = Options { on_pressure: Some(on_pressure), memtable_bytes: 1 << 20, ..small() };
    let (kv, _) = Kv::open(dir(), options, Arc::new(disk.clone())).expect("opens");
    disk.set_capacity(Some(disk.used()));
    let mut committed = 0;
    let refused = loop {
        match kv.commit(&put(&format!("key-{committed:03}"), &"x".repeat(200))) {
            Ok(_) => committed += 1,
            Err(error) => break error,
        }
    };
    // Three segments of sixteen records each; without threads nobody could wait for more.
    assert!(refused.is_full(), "{refused}");
    assert!(committed >= 40, "{committed}");
    assert_eq!(kv.pressure(), Pressure::Full);
    disk.set_capacity(None);
    kv.commit(&put("again", &"x".repeat(200))).expect("there is room");
    assert_eq!(kv.pressure(), Pressure::Normal);
    assert_eq!(*heard.lock().expect("no panic"), [Pressure::Full, Pressure::Normal]);
    drop(kv);
    let (kv, _) = open(&disk).expect("opens");
    assert_eq!(contents(&kv).expect("reads").len(), committed + 1);
}

#[test]
fn a_flush_without_space_is_tried_again() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    run_commits(&kv, 10);
    disk.set_capacity(Some(disk.used()));
    assert!(kv.flush().expect_err("no space").is_full());
    assert_eq!(kv.pressure(), Pressure::Full);
    run_more(&kv, 10..13);
    disk.set_capacity(None);
    kv.flush().expect("there is space");
    kv.commit(&batch_of(13)).expect("commits");
    assert_eq!(contents(&kv).expect("reads"), states(14)[14]);
}

fn run_more(kv: &Kv, numbers: std::ops::Range<usize>) {
    for number in numbers {
        kv.commit(&batch_of(number)).expect("commits");
    }
}

/// All that its inputs hold was reserved, so that a nearly full disk stayed full though everything
/// in it had been removed.
#[test]
fn a_merge_that_leaves_little_needs_little_room() {
    const MIB: usize = 1 << 20;
    let disk = FakeDisk::new();
    let options = Options { memtable_bytes: 8 * MIB, segment_bytes: 4 * MIB as u64, ..small() };
    let (kv, _) = Kv::open(dir(), options, Arc::new(disk.clone())).expect("opens");
    let mut removals = WriteBatch::new();
    for n in 0..30 {
        let key = format!("key-{n}");
        kv.commit(&put(&key, &"x".repeat(MIB))).expect("commits");
        removals.delete(key.as_bytes());
    }
    kv.flush().expect("flushes");
    disk.set_capacity(Some(disk.used() + 12 * MIB as u64));
    kv.commit(&removals).expect("commits");
    kv.flush().expect("flushes");
    kv.compact().expect("the output is small");
    assert_eq!(contents(&kv).expect("reads").len(), 0);
}

#[test]
fn a_merge_without_space_leaves_everything_as_it_was() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    run_commits(&kv, 30);
    kv.flush().expect("flushes");
    disk.set_capacity(Some(disk.used()));
    assert!(kv.compact().expect_err("no space").is_full());
    assert_eq!(contents(&kv).expect("reads"), states(30)[30]);
    disk.set_capacity(None);
    kv.compact().expect("there is space");
    assert_eq!(contents(&kv).expect("reads"), states(30)[30]);
    drop(kv);
    let (kv, _) = open(&disk).expect("opens");
    assert_eq!(contents(&kv).expect("reads"), states(30)[30]);
}

fn files(disk: &FakeDisk) -> Vec<String> {
    disk.list(dir()).expect("lists")
}

/// Each try left a whole table behind that nothing named: the disk only became fuller.
#[test]
fn a_table_that_cannot_be_named_for_lack_of_space_is_removed() {
    type Work = fn(&Kv) -> Result<()>;
    let rows: [(&str, Work); 2] = [("flush", Kv::flush), ("merge", Kv::compact)];
    for (what, work) in rows {
        let disk = FakeDisk::new();
        let kv = open_new(&disk);
        run_commits(&kv, 30);
        if what == "merge" {
            kv.flush().expect("flushes");
        }
        disk.fail(Faulty::Space, "MANIFEST.tmp");
        let tables = |names: Vec<String>| -> Vec<String> {
            names.into_iter().filter(|name| name.contains("table")).collect()
        };
        let before = tables(files(&disk));
        for _ in 0..3 {
            assert!(work(&kv).expect_err("no space").is_full(), "{what}");
        }
        assert_eq!(tables(files(&disk)), before, "{what}");
        disk.heal(Faulty::Space);
        work(&kv).expect("there is space");
        drop(kv);
        let (kv, _) = open(&disk).expect("opens");
        assert_eq!(contents(&kv).expect("reads"), states(30)[30], "{what}");
    }
}

/// The new table, with room reserved for all of the old ones, was left behind.
#[test]
fn a_merge_that_cannot_read_leaves_no_file_behind() {
    let disk = FakeDisk::new();
    let options = Options { cache_bytes: 0, ..small() };
    let (kv, _) = Kv::open(dir(), options, Arc::new(disk.clone())).expect("opens");
    run_commits(&kv, 30);
    kv.flush().expect("flushes");
    let before = files(&disk);
    disk.fail(Faulty::Read, ".table");
    assert!(matches!(kv.compact(), Err(Error::Io { .. })));
    assert_eq!(files(&disk), before);
    disk.heal(Faulty::Read);
    kv.compact().expect("merges");
    assert_eq!(contents(&kv).expect("reads"), states(30)[30]);
}

#[test]
fn a_failed_write_or_sync_of_the_log_ends_the_store() {
    for faulty in [Faulty::Write, Faulty::Sync] {
        let disk = FakeDisk::new();
        let kv = open_new(&disk);
        run_commits(&kv, 3);
        disk.fail(faulty, ".log");
        let first = kv.commit(&batch_of(3)).expect_err("the disk failed");
        assert!(matches!(first, Error::Fatal { .. }), "{first}");
        assert!(kv.health().is_err(), "{faulty:?}");
        disk.heal(faulty);
        let later = kv.commit(&batch_of(3)).expect_err("never again");
        assert!(matches!(later, Error::Fatal { .. }), "{later}");
        assert_eq!(contents(&kv).expect("reads still work"), states(3)[3]);
        drop(kv);
        let (kv, _) = open(&disk).expect("opens");
        let found = contents(&kv).expect("reads");
        assert!(found == states(4)[3] || found == states(4)[4], "all of it or nothing");
    }
}

/// What is put into it next would go together with what failed.
#[test]
fn a_batch_is_empty_after_its_commit_however_it_ended() {
    let disk = FakeDisk::new();
    let options = Options { commit_bytes_max: 1000, ..small() };
    let (kv, _) = Kv::open(dir(), options, Arc::new(disk.clone())).expect("opens");
    let check = |what: &str, bytes: usize, ends_well: bool| {
        let mut batch = put("a", &"x".repeat(bytes));
        let committed = kv.commit_then(&mut batch, || {});
        assert_eq!((committed.is_ok(), batch.is_empty()), (ends_well, true), "{what}");
    };
    check("committed", 1, true);
    check("too large", 2000, false);
    disk.fail(Faulty::Write, ".log");
    check("the write fails", 1, false);
    check("the store has ended", 1, false);
}

#[test]
fn a_failed_sync_of_a_table_or_the_manifest_ends_the_store() {
    for name in ["table-", "MANIFEST.tmp", "segment-"] {
        let disk = FakeDisk::new();
        let kv = open_new(&disk);
        disk.fail(Faulty::Sync, name);
        let failed = (0..200).find_map(|number| kv.commit(&batch_of(number)).err());
        assert!(matches!(failed, Some(Error::Fatal { .. })), "{name}: {failed:?}");
        disk.heal(Faulty::Sync);
        assert!(matches!(kv.health(), Err(Error::Fatal { .. })), "{name}");
        assert!(matches!(kv.commit(&put("a", "1")), Err(Error::Fatal { .. })), "{name}");
    }
}

#[test]
fn a_failed_read_is_an_answer_and_changes_nothing() {
    let disk = FakeDisk::new();
    let options = Options { cache_bytes: 0, ..small() };
    let (kv, _) = Kv::open(dir(), options, Arc::new(disk.clone())).expect("opens");
    run_commits(&kv, 12);
    kv.flush().expect("flushes");
    disk.fail(Faulty::Read, ".table");
    assert!(matches!(kv.get(b"last"), Err(Error::Io { .. })));
    disk.heal(Faulty::Read);
    assert_eq!(contents(&kv).expect("reads"), states(12)[12]);
}
