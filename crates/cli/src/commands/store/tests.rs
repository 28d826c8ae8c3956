//! What goes out comes in again, and the other ways round.

use std::cell::Cell;
use std::sync::Arc;

use hence_core::id::{
    Epoch, JobId, JobName, JobNumber, Key, QueueName, ScheduleId, ShardId, Token, WorkerName,
};
use hence_core::job::{
    AttemptEnd, AttemptRecord, Finish, HttpTarget, Job, JobSpec, KeyOnFailure, OnUnknown, Outcome,
    Payload, Progress, Target,
};
use hence_core::queue::{Counts, QueueSettings, Rate};
use hence_core::retry::{Backoff, RetryPolicy};
use hence_core::schedule::{Fate, OccurrenceRecord, Schedule, ScheduleState};
use hence_core::time::{Millis, Timestamp};
use hence_store::memory::MemoryStore;
use hence_store::{Change, LeaseGrant, Place, ShardBatch, Store};

use super::export::export;
use super::import::{Imported, Into, import};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn job(number: u64, id: &str) -> Job {
    Job {
        number: JobNumber(number),
        name: JobName {
            queue: QueueName::new("mail").unwrap(),
            key: Some(Key::new("user:7").unwrap()),
            id: JobId::new(id).unwrap(),
        },
        submitted_at: at(10),
        scheduled_for: at(20),
        payload: Payload {
            bytes: vec![0xff, 0, b'x'].into(),
            content_type: Some(Arc::from("image/png")),
        },
        target: Target::Http(Arc::new(HttpTarget {
            method: "PUT".to_owned(),
            url: "http://example.com/x".to_owned(),
            headers: vec![("a".to_owned(), "b".to_owned())],
        })),
        retry: RetryPolicy {
            backoff: Backoff::List(vec![Millis::new(5)]),
            ..RetryPolicy::default()
        },
        timeout: Millis::new(1_000),
        expires_at: Some(at(9_000_000)),
        retention: Millis::new(3_600_000),
        keep_result: true,
        key_on_failure: KeyOnFailure::StepAside,
        on_unknown: OnUnknown::Park,
        occurrence: None,
        fingerprint: Some(u64::MAX),
    }
}

fn attempt(number: u32, end: AttemptEnd) -> AttemptRecord {
    AttemptRecord {
        attempt: number,
        token: Token { shard: ShardId(0), epoch: Epoch(1), counter: u64::from(number) },
        holder: WorkerName::new("w").unwrap(),
        started_at: at(100),
        ended_at: at(200),
        end,
        reason: Some(Arc::from("because")),
    }
}

/// A waiting job with a failed attempt, a running one, a dead one, a schedule, and settings.
fn changes() -> Vec<Change> {
    let progress = Progress { due_at: at(2_000_000), attempts: 1, crashes: 0, holds_key: true };
    let [waiting, running, dead] =
        [(1, "waiting"), (2, "running"), (3, "dead")].map(|(n, id)| Arc::new(job(n, id)));
    let put = |job: &Arc<Job>, progress| Change::JobPut {
        job: Arc::clone(job),
        progress,
        replaces: None,
        revives: None,
    };
    let fresh = Progress::fresh(at(20));
    vec![
        Change::QueuePut { name: QueueName::new("mail").unwrap(), settings: settings() },
        Change::SchedulePut { state: schedule().into() },
        Change::OccurrenceRecorded { record: occurrence(50, Fate::Triggered(JobNumber(40))) },
        Change::OccurrenceRecorded { record: occurrence(60, Fate::Coalesced) },
        put(&waiting, fresh),
        Change::JobMoved {
            job: waiting,
            from: at(20),
            progress,
            ended: Some(Box::new(attempt(1, AttemptEnd::Failed))),
        },
        put(&running, fresh),
        Change::LeasesGranted {
            first_token: Token { shard: ShardId(0), epoch: Epoch(1), counter: 7 },
            holder: WorkerName::new("w").unwrap(),
            at: at(300),
            leases: vec![LeaseGrant {
                queue: QueueName::new("mail").unwrap(),
                place: Place { due_at: at(20), number: JobNumber(2) },
                attempt: 1,
                until: at(900),
            }],
        },
        put(&dead, fresh),
        Change::JobFinished {
            job: dead,
            progress: fresh,
            finish: Box::new(Finish {
                outcome: Outcome::Dead,
                at: at(400),
                reason: Some(Arc::from("gone")),
                result: None,
                keep_until: at(9_000_000),
            }),
            ended: Some(Box::new(attempt(1, AttemptEnd::TimedOut))),
            keep_payload: true,
        },
    ]
}

fn settings() -> QueueSettings {
    QueueSettings {
        paused_out: true,
        concurrency: Some(3),
        rate: Some(Rate { count: 5, per: Millis::new(1_000) }),
        ..QueueSettings::default()
    }
}

fn occurrence(millis: i64, fate: Fate) -> OccurrenceRecord {
    let schedule = ScheduleId::new("nightly").unwrap();
    let (first, last) = (at(millis), at(millis));
    OccurrenceRecord { schedule, first, last, count: 1, decided_at: at(70), fate }
}

fn schedule() -> ScheduleState {
    let template = JobSpec { expires_after: Some(Millis::new(77)), ..JobSpec::new(Target::Worker) };
    let draft = Schedule::cron("0 3 * * *").zone("Europe/Paris");
    let draft = draft.queue(QueueName::new("mail").unwrap());
    let schedule = draft.build(ScheduleId::new("nightly").unwrap(), template, at(5)).unwrap();
    ScheduleState::new(Arc::new(schedule), at(5))
}

async fn filled() -> MemoryStore {
    let store = MemoryStore::new(1);
    let epoch = store.acquire(ShardId(0), "test".to_owned()).await.unwrap();
    let counts = Counts { pending: 1, running: 1, dead: 1, submitted: 9, ..Counts::default() };
    let batch = ShardBatch {
        shard: ShardId(0),
        epoch,
        sequence: 1,
        changes: Arc::new(changes()),
        counts: vec![(QueueName::new("mail").unwrap(), counts)],
        next_number: JobNumber(4),
    };
    store.commit(vec![batch]).await.unwrap();
    store
}

async fn exported(store: &dyn Store) -> String {
    let mut out = Vec::new();
    export(store, NOW, &mut out, &|_| ()).await.unwrap();
    String::from_utf8(out).unwrap()
}

async fn imported(store: &dyn Store, into: Into, text: &str) -> Result<Imported, String> {
    let bytes = Cell::new(0);
    let done =
        import(store, into, NOW, &mut text.as_bytes(), &|more| bytes.set(bytes.get() + more)).await;
    done.map_err(|failure| failure.message)
}

#[tokio::test]
async fn what_goes_out_comes_in_again() {
    let text = exported(&filled().await).await;
    let copy = MemoryStore::new(1);
    let report = imported(&copy, Into::Empty, &text).await.unwrap();
    assert_eq!(
        (report.added.jobs, report.added.schedules, report.added.queues, report.kept),
        (3, 1, 1, 0)
    );
    assert_eq!(report.added.occurrences, 2);
    assert_eq!(exported(&copy).await, text, "an export of an import is the export");
    let recovered = copy.recover(ShardId(0)).await.unwrap();
    assert!(recovered.next_number > JobNumber(40), "numbers of the ledger are not used again");
    let counts = recovered.counts[0].1;
    assert_eq!((counts.pending, counts.running, counts.dead, counts.submitted), (1, 1, 1, 9));
    let lease = recovered.active.iter().find_map(|live| live.lease.clone()).unwrap();
    assert_eq!(
        (lease.attempt, lease.until),
        (1, at(900)),
        "the attempt under way is not forgotten"
    );
}

#[tokio::test]
async fn queues_are_counted_alike_on_the_way_out_and_in() {
    let store = filled().await;
    let epoch = store.acquire(ShardId(0), "test".to_owned()).await.unwrap();
    let bulk = (QueueName::new("bulk").unwrap(), Counts { submitted: 1, ..Counts::default() });
    let batch = ShardBatch {
        shard: ShardId(0),
        epoch,
        sequence: 1,
        changes: Arc::default(),
        counts: vec![bulk],
        next_number: JobNumber(4),
    };
    store.commit(vec![batch]).await.unwrap();
    let mut out = Vec::new();
    let tally = export(&store, NOW, &mut out, &|_| ()).await.unwrap();
    let text = String::from_utf8(out).unwrap();
    let copy = MemoryStore::new(1);
    let report = imported(&copy, Into::Empty, &text).await.unwrap();
    assert_eq!((report.added, report.kept, tally.queues), (tally, 0, 2));
    let again = imported(&copy, Into::Existing, &text).await.unwrap();
    assert_eq!((again.added.queues, again.kept), (0, 8), "each line is counted once");
}

#[tokio::test]
async fn a_store_that_holds_something_is_added_to_only_when_told() {
    let store = filled().await;
    let text = exported(&store).await;
    assert_eq!(
        imported(&store, Into::Empty, &text).await,
        Err("the store is not empty".to_owned())
    );
    let report = imported(&store, Into::Existing, &text).await.unwrap();
    assert_eq!((report.added.jobs, report.kept), (0, 7), "what exists stays");
    assert_eq!(exported(&store).await, text, "the totals too, however often it is repeated");
}

#[tokio::test]
async fn more_shards_take_the_same_jobs() {
    let text = exported(&filled().await).await;
    let wide = MemoryStore::new(8);
    assert_eq!(imported(&wide, Into::Empty, &text).await.unwrap().added.jobs, 3);
    let back = MemoryStore::new(1);
    imported(&back, Into::Empty, &exported(&wide).await).await.unwrap();
    assert_eq!(exported(&back).await, text);
}

#[tokio::test]
async fn damaged_exports_are_refused_by_line() {
    let text = exported(&filled().await).await;
    let lines: Vec<&str> = text.lines().collect();
    let without = |index: usize| {
        let mut lines = lines.clone();
        lines.remove(index);
        lines.join("\n")
    };
    let other_format = text.replace("\"format\":3", "\"format\":99");
    let rows = [
        (without(0), "the first line"),
        (without(lines.len() - 1), "cut short"),
        (without(3), "lines are missing"),
        (other_format, "format 99"),
        (text.replace("\"http\"", "\"carrier_pigeon\""), "line 6 cannot be imported"),
        (text.replace("\"mail\"", "\"white space\""), "line 2 cannot be imported"),
    ];
    for (text, expected) in rows {
        let refused = imported(&MemoryStore::new(1), Into::Empty, &text).await.unwrap_err();
        assert!(refused.contains(expected), "{refused} does not say {expected}");
    }
}
