//! Repair keeps everything valid and says what it could not keep.

use bytes::BytesMut;

use super::*;
use crate::kv::block::BlockBuilder;
use crate::kv::disk::Disk;
use crate::kv::frame::Unwritten;
use crate::kv::manifest::Manifest;
use crate::kv::table_format::{table_number, table_path};
use crate::kv::{RepairReport, check, repair};

fn shared(disk: &FakeDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn run_repair(disk: &FakeDisk) -> RepairReport {
    let report = repair(dir(), &shared(disk)).expect("repairs");
    assert_eq!(check(dir(), disk).expect("reads").findings, [], "the store is sound again");
    report
}

fn is_table(name: &str) -> bool {
    table_number(name).is_some()
}

fn flip(disk: &FakeDisk, name: &str, offset: usize) {
    let path = dir().join(name);
    let mut content = disk.content(&path).expect("a file");
    content[offset] ^= 0x10;
    disk.set_content(&path, &content);
}

#[test]
fn a_sound_store_is_left_alone() {
    let disk = FakeDisk::new();
    run_commits(&open_new(&disk), 5);
    let before = disk.changes();
    assert_eq!(run_repair(&disk), RepairReport::default());
    assert_eq!(disk.changes(), before);
}

#[test]
fn a_bad_record_costs_itself_and_nothing_else() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    for number in 0..9 {
        kv.commit(&put(&format!("key-{number}"), "value")).expect("commits");
    }
    drop(kv);
    // The fourth record: each takes 56 bytes behind the header of 64.
    flip(&disk, "0000000001.log", 64 + 3 * 56 + 40);
    let report = run_repair(&disk);
    assert_eq!(report.frames_kept, 8);
    let [lost] = report.given_up.as_slice() else { panic!("{report:?}") };
    assert_eq!((lost.from, lost.to), (64 + 3 * 56, 64 + 4 * 56));
    assert_eq!(lost.sequences, Some(4..=4));
    assert_eq!(report.set_aside, [dir().join("0000000001.log.damaged")]);
    let (kv, opened) = open(&disk).expect("opens");
    assert_eq!(opened.last_sequence, 9);
    assert_eq!(contents(&kv).expect("reads").len(), 8);
    assert_eq!(kv.get(b"key-3").expect("reads"), None);
    kv.commit(&put("more", "1")).expect("commits");
}

#[test]
fn a_bad_block_costs_its_entries_and_nothing_else() {
    let disk = FakeDisk::new();
    let options = Options { memtable_bytes: 1 << 20, segment_bytes: 1 << 20, ..small() };
    let (kv, _) = Kv::open(dir(), options, Arc::new(disk.clone())).expect("opens");
    for number in 0..300 {
        kv.commit(&put(&format!("key-{number:03}"), &"v".repeat(200))).expect("commits");
    }
    kv.flush().expect("flushes");
    drop(kv);
    flip(&disk, "0000000001.table", 100);
    let report = run_repair(&disk);
    let [lost] = report.given_up.as_slice() else { panic!("{report:?}") };
    assert_eq!(lost.from, 0);
    let entries = lost.entries.expect("the index knows");
    assert!(entries > 50 && entries < 100, "{entries}");
    assert_eq!(report.entries_kept, 300 - entries);
    let (kv, _) = open(&disk).expect("opens");
    assert_eq!(contents(&kv).expect("reads").len() as u64, 300 - entries);
}

#[test]
fn a_table_without_its_footer_is_read_block_by_block() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    run_commits(&kv, 20);
    kv.compact().expect("merges");
    drop(kv);
    let name = disk.list(dir()).expect("lists").into_iter().find(|name| is_table(name));
    let name = name.expect("a table");
    let len = disk.content(&dir().join(&name)).expect("a table").len();
    flip(&disk, &name, len - 5);
    let report = run_repair(&disk);
    assert_eq!(report.given_up.len(), 1);
    let (kv, _) = open(&disk).expect("opens");
    assert_eq!(contents(&kv).expect("reads"), states(20)[20]);
}

#[test]
fn a_lost_manifest_is_made_from_the_files() {
    for what in ["damaged", "missing"] {
        let disk = FakeDisk::new();
        let kv = open_new(&disk);
        run_commits(&kv, 50);
        drop(kv);
        match what {
            "damaged" => flip(&disk, "MANIFEST", 30),
            _ => disk.remove(&dir().join("MANIFEST")).expect("removes"),
        }
        let report = run_repair(&disk);
        assert_eq!(report.given_up.len(), 1, "{report:?}");
        let (kv, opened) = open(&disk).expect("opens");
        assert_eq!(opened.store_id, *b"0123456789abcdef");
        assert_eq!(contents(&kv).expect("reads"), states(50)[50], "{what}");
    }
}

/// It was passed over without a word, and the next open removed it.
#[test]
fn a_table_that_says_nothing_of_itself_is_set_aside_with_a_lost_manifest() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    run_commits(&kv, 12);
    kv.flush().expect("flushes");
    drop(kv);
    let names = disk.list(dir()).expect("lists");
    let table = names.iter().find(|name| is_table(name)).expect("a table");
    let path = dir().join(table);
    let content = disk.content(&path).expect("a file");
    flip(&disk, table, content.len() - 10);
    let damaged = disk.content(&path).expect("a file");
    disk.remove(&dir().join("MANIFEST")).expect("removes");
    let report = run_repair(&disk);
    let lost = report.given_up.iter().find(|lost| lost.file == path).expect("it is named");
    assert_eq!((lost.from, lost.to), (0, content.len() as u64));
    open(&disk).expect("opens");
    let aside = dir().join(format!("{table}.damaged"));
    assert!(report.set_aside.contains(&aside), "{report:?}");
    assert_eq!(disk.content(&aside), Some(damaged), "all of it is still there");
}

#[test]
fn a_segment_without_its_header_keeps_its_records() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    run_commits(&kv, 5);
    drop(kv);
    flip(&disk, "0000000001.log", 3);
    let report = run_repair(&disk);
    assert_eq!(report.frames_kept, 5);
    let (kv, _) = open(&disk).expect("opens");
    assert_eq!(contents(&kv).expect("reads"), states(5)[5]);
}

/// Repair took the records in the value for those of the log, and gave up the log.
#[test]
fn a_value_that_holds_records_does_not_pass_for_the_log() {
    let frame = |sequence, epoch| {
        let mut frame = Unwritten::of(&[put("false", "value")], &mut BytesMut::new());
        frame.seal(sequence, epoch);
        frame.bytes().to_vec()
    };
    // More records than real ones follow, in less space.
    let value: Vec<u8> = (1..=9).flat_map(|sequence| frame(sequence, 77)).collect();
    // Whether the first record is damaged too, which holds the value.
    for first_is_damaged in [false, true] {
        let disk = FakeDisk::new();
        let kv = open_new(&disk);
        let mut batch = WriteBatch::new();
        // With a key of one letter the value begins where a record may.
        batch.put(b"a", &value);
        kv.commit(&batch).expect("commits");
        for number in 0..5 {
            kv.commit(&put(&format!("key-{number}"), &"v".repeat(300))).expect("commits");
        }
        drop(kv);
        let log = disk.content(&dir().join("0000000001.log")).expect("a segment");
        let at = log.windows(value.len()).position(|bytes| bytes == value).expect("the value");
        assert_eq!(at % 8, 0, "a record could begin there");
        flip(&disk, "0000000001.log", 3);
        if first_is_damaged {
            flip(&disk, "0000000001.log", 70);
        }
        let report = run_repair(&disk);
        assert_eq!(report.frames_kept, if first_is_damaged { 5 } else { 6 });
        let (kv, _) = open(&disk).expect("opens");
        assert_eq!(kv.get(b"false").expect("reads"), None);
        assert!(kv.get(b"key-4").expect("reads").is_some());
    }
}

#[test]
fn missing_files_are_given_up_by_name() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    run_commits(&kv, 50);
    drop(kv);
    let name = disk.list(dir()).expect("lists").into_iter().find(|name| is_table(name));
    let path = dir().join(name.expect("a table"));
    disk.remove(&path).expect("removes");
    let report = run_repair(&disk);
    assert!(report.given_up.iter().any(|lost| lost.file == path && lost.entries.is_some()));
    open(&disk).expect("opens");
}

#[test]
fn a_crash_during_repair_loses_nothing() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    run_commits(&kv, 50);
    drop(kv);
    flip(&disk, "MANIFEST", 30);
    let probe = disk.fork();
    run_repair(&probe);
    for call in 0..probe.changes() {
        let broken = disk.fork();
        broken.power_off_after(call);
        let _ = repair(dir(), &shared(&broken));
        let again = broken.after_crash(call);
        run_repair(&again);
        let (kv, _) = open(&again).expect("opens");
        assert_eq!(contents(&kv).expect("reads"), states(50)[50], "call {call}");
    }
}

/// The new manifest was in place, the damaged files had their old names still, and the next open
/// took them for leftovers and removed them.
#[test]
fn a_crash_during_repair_removes_no_damaged_file() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    run_commits(&kv, 12);
    kv.flush().expect("flushes");
    for number in 12..15 {
        kv.commit(&batch_of(number)).expect("commits");
    }
    drop(kv);
    let damaged = ["0000000001.table", "0000000001.log"].map(|name| dir().join(name));
    flip(&disk, "0000000001.table", 20);
    let log = disk.content(&damaged[1]).expect("a segment");
    let last = log.iter().rposition(|byte| *byte != 0).expect("records");
    flip(&disk, "0000000001.log", last - 300);
    let kept = damaged.clone().map(|path| disk.content(&path).expect("a file"));
    let probe = disk.fork();
    let aside = damaged.map(|path| path.with_added_extension("damaged"));
    assert_eq!(run_repair(&probe).set_aside, aside);
    for (call, seed) in (0..=probe.changes()).flat_map(|call| (0..4).map(move |seed| (call, seed)))
    {
        let broken = disk.fork();
        broken.power_off_after(call);
        let _ = repair(dir(), &shared(&broken));
        let again = broken.after_crash(seed);
        run_repair(&again);
        open(&again).expect("opens");
        for (path, content) in aside.iter().zip(&kept) {
            let is_there = again.content(path).as_ref() == Some(content);
            assert!(is_there, "{} call {call} seed {seed}", path.display());
        }
    }
}

/// Found by fuzzing: check called such a store sound, open refused it, and repair panicked.
#[test]
fn a_record_with_a_right_checksum_that_does_not_parse() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    for number in 0..3 {
        kv.commit(&put(&format!("key-{number}"), "value")).expect("commits");
    }
    drop(kv);
    let path = dir().join("0000000001.log");
    let mut content = disk.content(&path).expect("a file");
    let second = 64 + 56..64 + 2 * 56;
    // The tag of its only operation.
    content[second.start + 32] = 0xff;
    let checksum = crc32c::crc32c(&content[second.start + 4..second.end]);
    content[second.start..second.start + 4].copy_from_slice(&checksum.to_le_bytes());
    disk.set_content(&path, &content);
    let findings = check(dir(), &disk).expect("reads").findings;
    assert_eq!(findings.first().map(|found| found.offset), Some(second.start as u64));
    assert!(open(&disk).is_err(), "a record is not skipped because it cannot be read");
    let report = run_repair(&disk);
    let [lost] = report.given_up.as_slice() else { panic!("{report:?}") };
    assert_eq!((lost.from, lost.to), (second.start as u64, second.end as u64));
    let (kv, _) = open(&disk).expect("opens");
    assert_eq!(contents(&kv).expect("reads").len(), 2);
}

/// Found by fuzzing: repair wrote such rows, as they stood, into a table that claims to be sorted.
/// The first row is in order: a table that was cut behind its last block was left as it was.
#[test]
fn keys_out_of_order() {
    // The keys of each block as they are found, and those that repair keeps.
    let rows: [(&[&[&str]], &[&str]); 3] = [
        (&[&["a", "b"], &["c", "d"]], &["a", "b", "c", "d"]),
        (&[&["c", "d"], &["a", "b"]], &["c", "d"]),
        (&[&["b", "a"], &["c", "d"]], &["c", "d"]),
    ];
    for (blocks, kept) in rows {
        let disk = FakeDisk::new();
        let kv = open_new(&disk);
        kv.commit(&put("k", "")).expect("commits");
        kv.compact().expect("merges");
        drop(kv);
        let table = Manifest::read(&disk, dir()).expect("reads").tables[0].id;
        let path = table_path(dir(), table);
        let mut content = Vec::new();
        for keys in blocks {
            content.extend(block_of(keys, table, content.len() as u64));
        }
        disk.set_content(&path, &content);
        assert!(open(&disk).is_err(), "{blocks:?}");
        run_repair(&disk);
        let (kv, _) = open(&disk).unwrap_or_else(|error| panic!("{blocks:?}: {error}"));
        let found = everything(&kv, Direction::Forward).expect("reads");
        let found: Vec<_> = found.iter().map(|(key, _)| String::from_utf8_lossy(key)).collect();
        assert_eq!(found, kept, "{blocks:?}");
    }
}

/// A block with these keys of one letter, in this order, and a right checksum.
fn block_of(keys: &[&str], table: u64, offset: u64) -> Vec<u8> {
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    let mut builder = BlockBuilder::default();
    for key in &sorted {
        builder.add(key.as_bytes(), Some(b""));
    }
    let mut bytes = Vec::new();
    builder.finish(&mut bytes, table, offset);
    let letters: Vec<usize> =
        (12..bytes.len()).filter(|at| bytes[*at].is_ascii_lowercase()).collect();
    assert_eq!(letters.len(), keys.len(), "nothing else looks like a key");
    for (at, key) in letters.into_iter().zip(keys) {
        bytes[at] = key.as_bytes()[0];
    }
    let checksum = crc32c::crc32c(&bytes[4..]);
    let checksum = crc32c::crc32c_append(checksum, &table.to_le_bytes());
    let checksum = crc32c::crc32c_append(checksum, &offset.to_le_bytes());
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Found by fuzzing: repair reserved the space that a damaged manifest claimed for a table.
#[test]
fn a_manifest_that_claims_a_table_of_128_gib() {
    let disk = FakeDisk::new();
    let options = Options { memtable_bytes: 1 << 20, segment_bytes: 1 << 20, ..small() };
    let (kv, _) = Kv::open(dir(), options, Arc::new(disk.clone())).expect("opens");
    for number in 0..300 {
        kv.commit(&put(&format!("key-{number:03}"), &"v".repeat(200))).expect("commits");
    }
    kv.flush().expect("flushes");
    drop(kv);
    claim(&disk, 128 << 30);
    flip(&disk, "0000000001.table", 100);
    // What repair asks for beyond what it needs is refused.
    disk.set_capacity(Some(disk.used() + (64 << 20)));
    let report = run_repair(&disk);
    assert!(report.entries_kept > 200, "{report:?}");
    let (kv, _) = open(&disk).expect("opens");
    assert_eq!(contents(&kv).expect("reads").len() as u64, report.entries_kept);
}

/// Check called such a store sound, open refused it, and repair left it as it was.
#[test]
fn a_table_that_is_not_the_one_the_manifest_names() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    run_commits(&kv, 50);
    kv.compact().expect("merges");
    drop(kv);
    claim(&disk, 1);
    assert!(matches!(open(&disk), Err(Error::Corrupt { .. })));
    assert_eq!(check(dir(), &disk).expect("reads").findings.len(), 1);
    assert_eq!(run_repair(&disk).given_up, [], "the table itself is whole");
    let (kv, _) = open(&disk).expect("opens");
    assert_eq!(contents(&kv).expect("reads"), states(50)[50]);
}

/// Lets the manifest claim that its newest table has so many bytes.
fn claim(disk: &FakeDisk, bytes: u64) {
    let mut manifest = Manifest::read(disk, dir()).expect("reads");
    manifest.tables[0].bytes = bytes;
    manifest.write(disk, dir()).expect("writes");
}
