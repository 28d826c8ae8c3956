//! The same store with threads: beside each other, and against a full disk.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::kv::Pressure;
use crate::kv::disk::RealDisk;
use crate::kv::state::Duty;

#[test]
fn readers_see_whole_commits_while_everything_moves() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options { background: Background::Threads, memtable_bytes: 40_000, ..small() };
    let open = || Kv::open(directory.path(), options.clone(), Arc::new(RealDisk)).expect("opens");
    let (kv, _) = open();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut last = 0u32;
            while !done.load(Ordering::Acquire) {
                // The counter is in every commit: it never goes back and is never missing.
                let Some(found) = kv.get(b"counter").expect("reads") else { continue };
                let found = u32::from_le_bytes(found.as_ref().try_into().expect("four bytes"));
                assert!(found >= last, "{found} after {last}");
                last = found;
                let mut count = 0;
                kv.scan(Span::between(b"job", b"joc"), Direction::Forward, &mut |_, _| {
                    count += 1;
                    ControlFlow::Continue(())
                })
                .expect("reads");
                assert!(count >= last / 2, "{count} jobs after {last} commits");
            }
        });
        for number in 0..2000u32 {
            let mut batch = WriteBatch::new();
            batch.put(b"counter", &number.to_le_bytes());
            batch.put_fresh(format!("job-{number:06}").as_bytes(), &[7; 100]);
            if number % 2 == 1 {
                batch.delete(format!("job-{:06}", number / 2).as_bytes());
            }
            kv.commit(&batch).expect("commits");
        }
        done.store(true, Ordering::Release);
        reader.join().expect("the reader saw nothing wrong");
    });
    kv.compact().expect("merges");
    let expected = contents(&kv).expect("reads");
    assert_eq!(expected.len(), 1001);
    drop(kv);
    let (kv, _) = open();
    assert_eq!(contents(&kv).expect("reads"), expected);
}

#[test]
fn a_commit_waits_for_room_instead_of_failing() {
    let disk = FakeDisk::new();
    let (sender, heard) = mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let on_pressure = Arc::new(move |pressure| {
        let _ = sender.lock().expect("no panic").send(pressure);
    });
    let options = Options {
        background: Background::Threads,
        memtable_bytes: 1 << 20,
        on_pressure: Some(on_pressure),
        ..small()
    };
    let (kv, _) = Kv::open(dir(), options, Arc::new(disk.clone())).expect("opens");
    disk.set_capacity(Some(0));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..200 {
                kv.commit(&put(&format!("key-{number:03}"), &"x".repeat(200))).expect("waits");
            }
        });
        assert_eq!(heard.recv(), Ok(Pressure::Full));
        assert!(kv.stats().last_sequence < 200);
        disk.set_capacity(None);
        writer.join().expect("the writer got its room");
    });
    assert_eq!(heard.recv(), Ok(Pressure::Normal));
    assert_eq!(contents(&kv).expect("reads").len(), 200);
}

#[test]
fn files_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("new").join("store");
    let (kv, _) = Kv::open(&path, small(), Arc::new(RealDisk)).expect("opens");
    run_commits(&kv, 30);
    kv.flush().expect("flushes");
    let mode = |path: &Path| std::fs::metadata(path).expect("exists").permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for entry in std::fs::read_dir(&path).expect("lists") {
        let file = entry.expect("an entry").path();
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

/// A thread once looked at the state before it looked at the bell, and slept through the end.
#[test]
fn a_store_that_is_closed_at_once_closes() {
    for _ in 0..300 {
        let options = Options { background: Background::Threads, ..small() };
        drop(Kv::open(dir(), options, Arc::new(FakeDisk::new())).expect("opens"));
    }
}

/// An expiry that panics in one of its calls.
enum Panics {
    WhenFlushing,
    WhenMerging,
}

impl Expiry for Panics {
    fn deadline(&self, _key: &[u8], _value: &[u8]) -> Option<u64> {
        assert!(!matches!(self, Panics::WhenFlushing), "on purpose");
        None
    }

    fn is_over(&self, _key: &[u8], _deadline: u64) -> bool {
        false
    }

    fn reached(&self) -> u64 {
        assert!(!matches!(self, Panics::WhenMerging), "on purpose");
        0
    }
}

/// The thread was gone, the store called itself well, and commits came to wait for ever.
#[test]
fn a_panic_in_the_background_ends_the_store() {
    let threads = || Options { background: Background::Threads, ..small() };
    let expiry = |panics| Options { expiry: Some(Arc::new(panics)), ..threads() };
    let on_pressure = Arc::new(|_| panic!("on purpose"));
    let rows = [
        ("store-flush", expiry(Panics::WhenFlushing), None),
        ("store-merge", expiry(Panics::WhenMerging), None),
        // Enough for the first segment, and for no other.
        (
            "store-spares",
            Options { on_pressure: Some(on_pressure), ..threads() },
            Some(SEGMENT_BYTES * 3 / 2),
        ),
    ];
    for (thread, options, capacity) in rows {
        let disk = FakeDisk::new();
        disk.set_capacity(capacity);
        let (kv, _) = Kv::open(dir(), options, Arc::new(disk)).expect("opens");
        let (sender, ended) = mpsc::channel();
        // Not a scope: if the commits wait for ever, the test must not.
        std::thread::spawn(move || {
            let refused = loop {
                if let Err(error) = kv.commit(&put("key", &"x".repeat(200))) {
                    break error;
                }
            };
            let _ = sender.send((refused, kv.health()));
        });
        let ended = ended.recv_timeout(Duration::from_secs(30));
        let (refused, health) = ended.unwrap_or_else(|_| panic!("{thread}: commits wait"));
        assert!(matches!(refused, Error::Fatal { .. }), "{thread}: {refused}");
        let health = health.expect_err(thread).to_string();
        assert!(health.contains(thread), "{health}");
    }
}

/// A commit that waited for a merge was not told that merging stopped, if space lacked elsewhere.
#[test]
fn every_duty_that_lacks_space_is_news() {
    let kv = open_new(&FakeDisk::new());
    let rings = |change: &dyn Fn()| {
        let before = kv.state.bell.count();
        change();
        kv.state.bell.count() - before
    };
    let lacks = |duty| rings(&|| kv.state.lacks_space(duty));
    let has = |duty| rings(&|| kv.state.has_space(duty));
    assert_eq!((lacks(Duty::Spares), lacks(Duty::Spares)), (1, 0));
    assert_eq!((lacks(Duty::Merge), lacks(Duty::Merge)), (1, 0));
    assert_eq!((has(Duty::Merge), has(Duty::Merge)), (1, 0));
    assert_eq!((has(Duty::Spares), has(Duty::Flush)), (1, 0));
}
