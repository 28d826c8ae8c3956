//! Damaged bytes are named, never served and never passed over.

use super::*;
use crate::kv::disk::Disk;
use crate::kv::fake_disk::Faulty;
use crate::kv::segment::SEGMENT_HEAD;
use crate::kv::table_format::FOOTER_BYTES;
use crate::kv::{Report, check, repair};

fn log_path(number: u64) -> std::path::PathBuf {
    dir().join(format!("{number:010}.log"))
}

fn files(disk: &FakeDisk, ending: &str) -> Vec<std::path::PathBuf> {
    let names = disk.list(dir()).expect("lists");
    names.iter().filter(|name| name.ends_with(ending)).map(|name| dir().join(name)).collect()
}

fn report(disk: &FakeDisk) -> Report {
    check(dir(), disk).expect("reads")
}

/// One bit of each of so many bytes. That every bit of a record counts is shown beside the records.
fn one_in_each(bytes: usize) -> impl Iterator<Item = usize> {
    (0..bytes).map(|byte| byte * 8 + byte % 8)
}

/// Where the frames end in a segment.
fn used(content: &[u8]) -> usize {
    content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1).next_multiple_of(8)
}

/// Twelve commits in one table: what they come to, where it lies, and its bytes.
fn one_table(disk: &FakeDisk) -> (Model, std::path::PathBuf, Vec<u8>) {
    let kv = open_new(disk);
    run_commits(&kv, 12);
    kv.compact().expect("merges");
    let expected = contents(&kv).expect("reads");
    drop(kv);
    let [path] = files(disk, ".table").try_into().expect("one table");
    let whole = disk.content(&path).expect("a table");
    (expected, path, whole)
}

/// Makes the checksum right again: it covers everything but itself.
fn put_right(bytes: &mut [u8]) {
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..]);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn a_last_record_torn_at_any_byte_is_dropped_and_reported() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    run_commits(&kv, 3);
    let before = used(&disk.content(&log_path(1)).expect("a segment"));
    kv.commit(&batch_of(3)).expect("commits");
    drop(kv);
    let whole = disk.content(&log_path(1)).expect("a segment");
    let states = states(4);
    for cut in before..used(&whole) {
        let torn = disk.fork();
        let mut content = whole.clone();
        content[cut..].fill(0);
        torn.set_content(&log_path(1), &content);
        assert_eq!(report(&torn).findings, [], "cut at {cut}");
        let (kv, opened) = open(&torn).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        // Bytes that were zero anyway are not torn.
        let lost = content != whole;
        assert_eq!(contents(&kv).expect("reads"), states[if lost { 3 } else { 4 }], "cut at {cut}");
        let bytes_left = content[before..].iter().any(|byte| *byte != 0);
        assert_eq!(opened.torn.is_some(), lost && bytes_left, "cut at {cut}");
        if let Some(tail) = opened.torn {
            assert_eq!((tail.file, tail.offset), (log_path(1), before as u64));
        }
        kv.commit(&put("next", "1")).expect("commits");
        drop(kv);
        let (kv, opened) = open(&torn).expect("opens");
        assert_eq!(opened.torn, None, "the tail was cleaned");
        assert!(kv.get(b"next").expect("reads").is_some());
    }
}

#[test]
fn any_flipped_bit_in_the_log_is_noticed() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    run_commits(&kv, 3);
    let last_frame = used(&disk.content(&log_path(1)).expect("a segment"));
    kv.commit(&batch_of(3)).expect("commits");
    drop(kv);
    let whole = disk.content(&log_path(1)).expect("a segment");
    let states = states(4);
    for bit in one_in_each(used(&whole) + 64) {
        let flipped = disk.fork();
        let mut content = whole.clone();
        content[bit / 8] ^= 1 << (bit % 8);
        flipped.set_content(&log_path(1), &content);
        match open(&flipped) {
            Err(Error::Corrupt { file, .. }) => {
                assert_eq!(file, log_path(1), "bit {bit}");
                assert!(!report(&flipped).findings.is_empty(), "bit {bit}");
            }
            Err(other) => panic!("bit {bit}: {other}"),
            Ok((kv, opened)) => {
                // In the last record it cannot be told from a torn write; it is reported as one.
                assert!(bit / 8 >= last_frame && opened.torn.is_some(), "bit {bit}");
                let kept = if bit / 8 < used(&whole) { 3 } else { 4 };
                assert_eq!(contents(&kv).expect("reads"), states[kept], "bit {bit}");
            }
        }
    }
}

#[test]
fn a_copy_that_cannot_be_written_is_checked_and_not_opened() {
    let disk = FakeDisk::new();
    let (_, path, whole) = one_table(&disk);
    disk.fail(Faulty::Lock, "LOCK");
    assert_eq!(report(&disk).findings, []);
    disk.set_content(&path, &whole[1..]);
    assert_eq!(report(&disk).findings.len(), 1);
    let error = open(&disk).expect_err("it cannot be written");
    assert!(error.to_string().contains("LOCK"), "{error}");
}

#[test]
fn any_flipped_bit_in_a_table_is_noticed() {
    let disk = FakeDisk::new();
    let (expected, path, whole) = one_table(&disk);
    for bit in one_in_each(whole.len()) {
        let flipped = disk.fork();
        let mut content = whole.clone();
        content[bit / 8] ^= 1 << (bit % 8);
        flipped.set_content(&path, &content);
        assert!(!report(&flipped).findings.is_empty(), "bit {bit}");
        let read = open(&flipped).and_then(|(kv, _)| {
            for (key, value) in &expected {
                let found = kv.get(key)?;
                assert_eq!(found.as_deref(), Some(value.as_slice()), "bit {bit}");
            }
            contents(&kv)
        });
        assert!(matches!(read, Err(Error::Corrupt { file, .. }) if file == path), "bit {bit}");
    }
}

#[test]
fn any_flipped_bit_in_the_manifest_is_noticed() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    run_commits(&kv, 12);
    kv.flush().expect("flushes");
    drop(kv);
    let path = dir().join("MANIFEST");
    let whole = disk.content(&path).expect("a manifest");
    for bit in one_in_each(whole.len()) {
        let flipped = disk.fork();
        let mut content = whole.clone();
        content[bit / 8] ^= 1 << (bit % 8);
        flipped.set_content(&path, &content);
        let refused = open(&flipped).expect_err("damaged");
        assert!(matches!(refused, Error::Corrupt { file, .. } if file == path), "bit {bit}");
        assert_eq!(report(&flipped).findings.len(), 1);
    }
}

#[test]
fn a_cut_file_is_noticed_at_every_length() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    run_commits(&kv, 12);
    kv.compact().expect("merges");
    kv.commit(&batch_of(12)).expect("commits");
    drop(kv);
    let mut paths = files(&disk, ".table");
    paths.push(dir().join("MANIFEST"));
    paths.extend(files(&disk, ".log"));
    for path in paths {
        let whole = disk.content(&path).expect("a file");
        for len in (0..whole.len()).step_by(if whole.len() > 1000 { 61 } else { 1 }) {
            let cut = disk.fork();
            cut.set_content(&path, &whole[..len]);
            let refused = open(&cut).map(|_| ()).expect_err("cut");
            assert!(matches!(&refused, Error::Corrupt { file, .. } if *file == path), "{refused}");
        }
    }
}

#[test]
fn a_missing_file_is_named() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    for number in 0..60 {
        kv.commit(&batch_of(number)).expect("commits");
    }
    drop(kv);
    let mut paths = files(&disk, ".table");
    paths.extend(files(&disk, ".log").into_iter().next());
    assert!(paths.len() > 1);
    paths.push(dir().join("MANIFEST"));
    for path in paths {
        let lacking = disk.fork();
        lacking.remove(&path).expect("removes");
        let refused = open(&lacking).map(|_| ()).expect_err("a file is missing");
        assert!(matches!(refused, Error::Corrupt { .. }), "{refused}");
        assert!(!report(&lacking).findings.is_empty(), "{}", path.display());
    }
}

#[test]
fn a_record_damaged_in_an_earlier_segment_is_no_torn_tail() {
    let disk = FakeDisk::new();
    let options = Options { memtable_bytes: 1 << 20, ..small() };
    let (kv, _) = Kv::open(dir(), options, Arc::new(disk.clone())).expect("opens");
    run_commits(&kv, 50);
    drop(kv);
    let content = disk.content(&log_path(1)).expect("a segment");
    let mut damaged = content.clone();
    let last = used(&content);
    damaged[last - 20] ^= 1;
    disk.set_content(&log_path(1), &damaged);
    let refused = open(&disk).map(|_| ()).expect_err("damaged");
    assert!(matches!(refused, Error::Corrupt { file, .. } if file == log_path(1)));
}

/// A server named the record behind the damaged one, and the damaged one only second.
#[test]
fn damage_is_named_where_it_begins_and_once() {
    for before in [0, 2] {
        let disk = FakeDisk::new();
        let kv = open_new(&disk);
        run_commits(&kv, before);
        let start = used(&disk.content(&log_path(1)).expect("a segment")).max(SEGMENT_HEAD);
        kv.commit(&batch_of(before)).expect("commits");
        let end = used(&disk.content(&log_path(1)).expect("a segment"));
        kv.commit(&batch_of(before + 1)).expect("commits");
        drop(kv);
        for at in start..end {
            let damaged = disk.fork();
            let mut content = disk.content(&log_path(1)).expect("a segment");
            content[at] ^= 1;
            damaged.set_content(&log_path(1), &content);
            let found = report(&damaged).findings;
            let places: Vec<u64> = found.iter().map(|found| found.offset).collect();
            assert_eq!(places, [start as u64], "byte {at} after {before}");
            let refused = open(&damaged).map(|_| ()).expect_err("damaged");
            let Error::Corrupt { offset, .. } = refused else { panic!("byte {at}: {refused}") };
            assert_eq!(offset, start as u64, "byte {at} after {before}");
        }
    }
}

/// The same bytes at the end of a log: a torn write after a crash, damage when it is known that
/// they were durable.
#[test]
fn an_end_that_was_vouched_for_is_no_torn_tail() {
    for (vouched, written_after, is_damage) in
        [(false, false, false), (true, false, true), (true, true, false)]
    {
        let what = format!("vouched {vouched}, written to after {written_after}");
        let disk = FakeDisk::new();
        let kv = open_new(&disk);
        run_commits(&kv, 3);
        if vouched {
            kv.vouch().expect("writes the manifest");
        }
        if written_after {
            kv.commit(&batch_of(3)).expect("commits");
        }
        drop(kv);
        let whole = disk.content(&log_path(1)).expect("a segment");
        let last = used(&whole);
        let (mut flipped, mut cut) = (whole.clone(), whole);
        flipped[last - 20] ^= 1;
        cut[last - 40..].fill(0);
        for (how, content) in [("flipped", flipped), ("cut", cut)] {
            let disk = disk.fork();
            disk.set_content(&log_path(1), &content);
            assert_eq!(report(&disk).findings.len(), usize::from(is_damage), "{what}, {how}");
            assert_eq!(open(&disk.fork()).is_err(), is_damage, "{what}, {how}");
            if is_damage {
                let shared: Arc<dyn Disk> = Arc::new(disk.clone());
                let mended = repair(dir(), &shared).expect("repairs");
                let lost = mended.given_up.iter().find_map(|given_up| given_up.sequences.clone());
                assert_eq!(lost, Some(3..=3), "{what}, {how}");
                open(&disk).expect("opens when the loss is accepted");
            }
        }
    }
}

/// Open removed what an older manifest does not name, the only copy of merged tables with it, and
/// refused only then.
#[test]
fn a_store_that_is_refused_is_left_as_it_is() {
    let disk = FakeDisk::new();
    let kv = open_new(&disk);
    run_commits(&kv, 30);
    kv.flush().expect("flushes");
    let path = dir().join("MANIFEST");
    let older = disk.content(&path).expect("a manifest");
    for number in 30..60 {
        kv.commit(&batch_of(number)).expect("commits");
    }
    kv.compact().expect("merges");
    drop(kv);
    let newer = disk.content(&path).expect("a manifest");
    disk.set_content(&dir().join("table-0000000099.tmp"), b"half a table");
    disk.set_content(&path, &older);
    let before = files(&disk, "");
    let refused = open(&disk).map(|_| ()).expect_err("the tables of then are gone");
    assert!(matches!(refused, Error::Corrupt { .. }), "{refused}");
    assert_eq!(files(&disk, ""), before);
    disk.set_content(&path, &newer);
    let (kv, _) = open(&disk).expect("opens with its own manifest");
    assert_eq!(contents(&kv).expect("reads"), states(60)[60]);
    assert_eq!(files(&disk, ".tmp"), [] as [std::path::PathBuf; 0], "leftovers are removed");
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let disk = FakeDisk::new();
    drop(open_new(&disk));
    let path = dir().join("MANIFEST");
    let mut content = disk.content(&path).expect("a manifest");
    content[8] = 9;
    put_right(&mut content);
    disk.set_content(&path, &content);
    let refused = open(&disk).map(|_| ()).expect_err("too new");
    assert!(matches!(refused, Error::Version { found: 9, supported: 2, .. }));
}

/// Fuzzing found a table with more removals than entries: three times as many was more than a
/// number holds.
#[test]
fn counts_that_do_not_add_up_are_refused_and_mended() {
    let disk = FakeDisk::new();
    let (expected, path, whole) = one_table(&disk);
    let fields = [("entries", 40), ("removed", 48), ("first", 56), ("last", 64), ("expiring", 72)];
    for (field, at) in fields {
        let damaged = disk.fork();
        let mut content = whole.clone();
        let (_, footer) = content.split_at_mut(whole.len() - FOOTER_BYTES);
        footer[at..at + 8].copy_from_slice(&(u64::MAX / 2).to_le_bytes());
        put_right(footer);
        damaged.set_content(&path, &content);
        let refused = open(&damaged).map(|_| ()).expect_err(field);
        assert!(matches!(&refused, Error::Corrupt { file, .. } if *file == path), "{refused}");
        assert!(!report(&damaged).findings.is_empty(), "{field}");
        let shared: Arc<dyn Disk> = Arc::new(damaged.clone());
        repair(dir(), &shared).expect(field);
        let (kv, _) = open(&damaged).expect(field);
        assert_eq!(contents(&kv).expect("reads"), expected, "{field}");
    }
}

/// Seed 623734 of the simulator: the mirror brought back what had been written in the meantime.
#[test]
fn what_went_astray_twice_is_put_right_as_it_was_written_last() {
    let disk = FakeDisk::new();
    let path = dir().join("a.log");
    let file = disk.create(&path).expect("creates");
    file.write_at(b"aaaa", 0).expect("writes");
    for (seed, bytes) in [b"bbbb", b"aaaa"].into_iter().enumerate() {
        disk.misdirect("a.log", seed as u64);
        file.write_at(bytes, 0).expect("is said to be written");
    }
    assert_eq!(disk.misdirected(), 2);
    disk.put_right();
    assert_eq!(disk.content(&path).as_deref(), Some(&b"aaaa"[..]));
}

#[test]
fn a_write_that_went_astray_is_named_or_harmless() {
    const MORE: usize = 12;
    let (mut refused, mut harmless, mut unseen) = (0, 0, 0);
    for before in 0..16 {
        for seed in 0..60 {
            let disk = FakeDisk::new();
            let kv = open_new(&disk);
            run_commits(&kv, before);
            disk.misdirect(["", ".log", "table", "MANIFEST"][seed as usize % 4], seed);
            let failed = (before..before + MORE).find(|number| {
                let halfway = *number == before + MORE / 2;
                let flushed = if halfway { kv.flush() } else { Ok(()) };
                let done = flushed.and_then(|()| kv.commit(&batch_of(*number)));
                // Damage that it meets itself is named as well.
                let named = done.as_ref().err().map(|error| matches!(error, Error::Corrupt { .. }));
                assert_ne!(named, Some(false), "{done:?}");
                done.is_err()
            });
            drop(kv);
            // A log whose last record never arrived is one that ends before it.
            if disk.misdirected() == 0 || disk.end_is_wrong(".log") {
                unseen += 1;
                continue;
            }
            let last = failed.unwrap_or(before + MORE);
            let states = states(last + 1);
            match open(&disk).and_then(|(kv, _)| contents(&kv)) {
                Ok(found) => {
                    let right =
                        found == states[last] || failed.is_some_and(|_| found == states[last + 1]);
                    assert!(right, "{before} {seed}: it opens with something else");
                    harmless += 1;
                }
                Err(error) => {
                    assert!(matches!(error, Error::Corrupt { .. }), "{before} {seed}: {error}");
                    refused += 1;
                }
            }
            disk.put_right();
            let (kv, _) = open(&disk).expect("opens when everything is as it should be");
            let found = contents(&kv).expect("reads");
            assert!(found == states[last] || found == states[last + 1], "{before} {seed}");
        }
    }
    let counted = (refused, harmless, unseen);
    assert!(refused > 700 && unseen < 100, "{counted:?}");
}
