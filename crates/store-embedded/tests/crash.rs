//! The power fails at every call to the disk in turn: what was acknowledged is there, what was not
//! is there whole or not at all, and everything reads as in the reference engine.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use hence_core::change::{Change, FinishedPlace, LeaseGrant, Place};
use hence_core::id::{
    Epoch, JobId, JobName, JobNumber, Key, QueueName, ScheduleId, ShardId, Token, WorkerName,
};
use hence_core::job::{
    AttemptEnd, AttemptRecord, Finish, Job, JobSpec, JobState, Outcome, Payload, Progress, Target,
};
use hence_core::queue::{Counts, QueueSettings};
use hence_core::schedule::{Fate, OccurrenceRecord};
use hence_core::time::Timestamp;
use hence_store::{
    Answer, ErrorKind, Filter, LedgerRequest, ListRequest, MemoryStore, Pressure, Recovered,
    ShardBatch, Store, StoreError, StoredJob,
};
use hence_store_embedded::kv::fake_disk::{FakeDisk, Faulty};
use hence_store_embedded::kv::{Background, Options};
use hence_store_embedded::{EmbeddedStore, Settings};

const SHARD: ShardId = ShardId(0);
const COMMITS: u64 = 36;

/// Nothing here waits, so every answer is there at once.
fn now<T>(answer: Answer<'_, T>) -> Result<T, StoreError> {
    answer.now_or_never().expect("the engine answers at once")
}

fn options() -> Options {
    Options {
        segment_bytes: 8 * 1024,
        spares_ready: 2,
        memtable_bytes: 9_000,
        background: Background::Inline,
        ..Options::new(*b"0123456789abcdef")
    }
}

fn open(disk: &FakeDisk) -> Result<EmbeddedStore, StoreError> {
    let settings = Settings { store_id: *b"0123456789abcdef", ..Settings::default() };
    EmbeddedStore::open_with(Path::new("/data"), &settings, options(), Arc::new(disk.clone()))
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_789_000_000_000 + millis)
}

fn queue() -> QueueName {
    QueueName::new("mail").expect("a good name")
}

fn job(number: u64) -> Job {
    let key = number.is_multiple_of(2).then(|| Key::new("user:7").expect("a good key"));
    let id = JobId::new(&format!("job-{number}")).expect("a good id");
    let name = JobName { queue: queue(), key, id };
    let payload = Payload { bytes: Bytes::from(vec![number as u8; 90]), content_type: None };
    let spec = JobSpec { payload, ..JobSpec::new(Target::Worker) };
    spec.job(JobNumber(number), name, at(0), at(number as i64))
}

fn put(number: u64) -> Change {
    let job = Arc::new(job(number));
    let progress = Progress::fresh(job.scheduled_for);
    Change::JobPut { job, progress, replaces: None, revives: None }
}

fn token(counter: u64) -> Token {
    Token { shard: SHARD, epoch: Epoch(1), counter }
}

fn worker() -> WorkerName {
    WorkerName::new("worker").expect("a good name")
}

fn leased(number: u64) -> Change {
    let place = Place { due_at: at(number as i64), number: JobNumber(number) };
    let lease = LeaseGrant { queue: queue(), place, attempt: 1, until: at(9_000) };
    let (first_token, leases) = (token(number), vec![lease]);
    Change::LeasesGranted { first_token, holder: worker(), at: at(50), leases }
}

fn attempt(number: u64, end: AttemptEnd) -> AttemptRecord {
    AttemptRecord {
        attempt: 1,
        token: token(number),
        holder: worker(),
        started_at: at(50),
        ended_at: at(60),
        end,
        reason: None,
    }
}

fn retried(number: u64) -> Change {
    let due_at = at(number as i64 + 5_000);
    let progress = Progress { due_at, attempts: 1, crashes: 0, holds_key: true };
    let (job, from) = (Arc::new(job(number)), at(number as i64));
    let ended = Some(Box::new(attempt(number, AttemptEnd::Failed)));
    Change::JobMoved { job, from, progress, ended }
}

fn finished(number: u64, outcome: Outcome, due_at: Timestamp) -> Change {
    let finish =
        Finish { outcome, at: at(70), reason: None, result: None, keep_until: at(1_000_000) };
    let progress = Progress { due_at, attempts: 1, crashes: 0, holds_key: false };
    let ended = Some(attempt(number, AttemptEnd::Succeeded));
    let (finish, ended) = (Box::new(finish), ended.map(Box::new));
    Change::JobFinished { job: Arc::new(job(number)), progress, finish, ended, keep_payload: true }
}

fn dead_place(number: u64) -> FinishedPlace {
    FinishedPlace { outcome: Outcome::Dead, at: at(70), number: JobNumber(number) }
}

/// Each commit puts three jobs and takes those of earlier commits one step on.
fn changes(commit: u64) -> Vec<Change> {
    let first = commit * 3 + 1;
    let mut changes: Vec<Change> = (first..first + 3).map(put).collect();
    if commit >= 1 {
        changes.extend([leased(first - 3), leased(first - 2)]);
    }
    if commit >= 2 {
        changes.push(retried(first - 6));
        changes.push(finished(first - 5, Outcome::Succeeded, at(first as i64 - 5)));
    }
    if commit >= 3 {
        changes.push(finished(first - 9, Outcome::Dead, at(first as i64 - 9 + 5_000)));
    }
    match commit % 4 {
        // The oldest dead jobs are forgotten or live again, in turn.
        0 if commit >= 4 => changes.push(Change::JobForgotten {
            job: Arc::new(job(first - 12)),
            place: dead_place(first - 12),
        }),
        1 if commit >= 4 => {
            let job = Arc::new(job(first - 12));
            let progress = Progress::fresh(at(80));
            let revives = Some(dead_place(first - 12));
            changes.push(Change::JobPut { job, progress, replaces: None, revives });
        }
        2 => {
            let settings = QueueSettings { concurrency: Some(7), ..QueueSettings::default() };
            changes.push(Change::QueuePut { name: queue(), settings });
        }
        _ => changes.push(Change::OccurrenceRecorded {
            record: OccurrenceRecord {
                schedule: schedule(),
                first: at(commit as i64),
                last: at(commit as i64),
                count: 1,
                decided_at: at(commit as i64),
                fate: Fate::Ran(JobNumber(first)),
            },
        }),
    }
    changes
}

fn schedule() -> ScheduleId {
    ScheduleId::new("nightly").expect("a good id")
}

fn batch(commit: u64, epoch: Epoch) -> ShardBatch {
    let counts = Counts { pending: commit, ..Counts::default() };
    ShardBatch {
        shard: SHARD,
        epoch,
        sequence: commit + 1,
        changes: Arc::new(changes(commit)),
        counts: vec![(queue(), counts)],
        next_number: JobNumber(commit * 3 + 4),
    }
}

/// Everything that can be read.
#[derive(Debug, PartialEq)]
struct Snapshot {
    recovered: Recovered,
    jobs: Vec<StoredJob>,
    found: Vec<Option<StoredJob>>,
    due: Vec<u64>,
    attempts: Vec<usize>,
    occurrences: usize,
}

fn snapshot(store: &dyn Store) -> Snapshot {
    let filter = Filter { states: JobState::ALL.to_vec(), ..Filter::default() };
    let request = ListRequest { filter, after: None, limit: 10_000, now: at(100) };
    let numbers = 1..=COMMITS * 3;
    let names = numbers.clone().map(|number| job(number).name).collect();
    let due = now(store.due(SHARD, queue(), Place::FIRST, 10_000)).expect("due");
    let attempts = numbers.map(|number| {
        let found = store.attempts(SHARD, job(number).name, JobNumber(number));
        now(found).expect("attempts").len()
    });
    let occurrences = store.occurrences(SHARD, LedgerRequest::newest(schedule(), 1_000));
    Snapshot {
        recovered: now(store.recover(SHARD)).expect("recovered"),
        jobs: now(store.list(SHARD, request)).expect("listed").jobs,
        found: now(store.get(SHARD, names, at(100))).expect("got"),
        due: due.iter().map(|live| live.job.number.0).collect(),
        attempts: attempts.collect(),
        occurrences: now(occurrences).expect("occurrences").len(),
    }
}

/// What the reference engine shows before the first commit and after each.
fn expected() -> Vec<Snapshot> {
    let store = MemoryStore::new(1);
    let epoch = now(store.acquire(SHARD, "node".to_owned())).expect("acquired");
    let mut snapshots = vec![snapshot(&store)];
    for commit in 0..COMMITS {
        now(store.commit(vec![batch(commit, epoch)])).expect("committed");
        snapshots.push(snapshot(&store));
    }
    snapshots
}

/// Runs until the power fails; how many commits were acknowledged and how many were tried.
fn run(disk: &FakeDisk) -> (u64, u64) {
    let Ok(store) = open(disk) else { return (0, 0) };
    let Ok(epoch) = now(store.acquire(SHARD, "node".to_owned())) else { return (0, 0) };
    for commit in 0..COMMITS {
        if now(store.commit(vec![batch(commit, epoch)])).is_err() {
            return (commit, commit + 1);
        }
    }
    (COMMITS, COMMITS)
}

#[test]
fn what_was_acknowledged_survives_a_crash_at_any_call() {
    let expected = expected();
    let whole = FakeDisk::new();
    assert_eq!(run(&whole), (COMMITS, COMMITS));
    let calls = whole.changes();
    for call in (0..=calls).step_by(2) {
        let disk = FakeDisk::new();
        disk.power_off_after(call);
        let (acknowledged, tried) = run(&disk);
        let disk = disk.after_crash(call);
        let store = open(&disk).unwrap_or_else(|error| panic!("call {call}: {error}"));
        let found = snapshot(&store);
        let fits = (acknowledged..=tried).any(|commit| expected[commit as usize] == found);
        assert!(fits, "call {call}: neither the state after {acknowledged} nor after {tried}");
        // A new owner goes on.
        let epoch = now(store.acquire(SHARD, "next".to_owned())).expect("acquired");
        let next =
            ShardBatch { sequence: 1, changes: Arc::new(vec![put(9_999)]), ..batch(0, epoch) };
        now(store.commit(vec![next])).expect("committed");
    }
}

#[test]
fn a_whole_run_reads_like_the_reference_after_merging_everything() {
    let disk = FakeDisk::new();
    run(&disk);
    let store = open(&disk).expect("opens");
    store.kv().compact().expect("merges");
    assert_eq!(snapshot(&store), expected().pop().expect("the last"));
}

#[test]
fn a_failed_sync_is_fatal_and_stays_so() {
    let disk = FakeDisk::new();
    let store = open(&disk).expect("opens");
    let epoch = now(store.acquire(SHARD, "node".to_owned())).expect("acquired");
    disk.fail(Faulty::Sync, ".log");
    let first = now(store.commit(vec![batch(0, epoch)])).expect_err("the disk failed");
    assert_eq!(first.kind(), ErrorKind::Fatal);
    disk.heal(Faulty::Sync);
    let later = now(store.commit(vec![batch(0, epoch)])).expect_err("never again");
    assert_eq!(later.kind(), ErrorKind::Fatal);
    assert_eq!(snapshot(&store), expected().swap_remove(0), "nothing of it is shown");
}

#[test]
fn a_full_disk_is_said_before_a_commit_fails_and_passes() {
    let disk = FakeDisk::new();
    let store = open(&disk).expect("opens");
    let epoch = now(store.acquire(SHARD, "node".to_owned())).expect("acquired");
    disk.set_capacity(Some(disk.used()));
    let mut committed = 0;
    let refused = loop {
        match now(store.commit(vec![batch(committed, epoch)])) {
            Ok(()) => committed += 1,
            Err(error) => break error,
        }
        assert!(committed < COMMITS, "the disk is full");
    };
    assert_eq!((refused.kind(), store.pressure()), (ErrorKind::Full, Pressure::Full));
    assert!(committed >= 3, "the reserve carried {committed} commits");
    disk.set_capacity(None);
    for commit in committed..COMMITS {
        now(store.commit(vec![batch(commit, epoch)])).expect("there is room");
    }
    assert_eq!(store.pressure(), Pressure::Normal);
    assert_eq!(snapshot(&store), expected().pop().expect("the last"));
}
