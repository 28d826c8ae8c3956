//! Files written by every version so far, which must be readable for ever. `HENCE_BLESS=1` writes
//! those of the newest version that do not exist yet; it never touches one that does.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use hence_core::change::{Change, FinishedPlace, LeaseGrant, Place};
use hence_core::id::{
    Epoch, HandlerName, JobId, JobName, JobNumber, Key, LetterId, QueueName, ScheduleId, ShardId,
    Token, WorkerName,
};
use hence_core::job::{
    AttemptEnd, AttemptRecord, Finish, HttpTarget, Job, JobSpec, KeyOnFailure, Lease, Occurrence,
    OnUnknown, Outcome, Payload, Progress, Target,
};
use hence_core::queue::{Counts, QueueSettings, Rate};
use hence_core::retry::{Backoff, RetryPolicy};
use hence_core::schedule::{
    Backfill, Fate, LedgerSpan, Misfire, OccurrenceRecord, Overlap, Pause, Run, Schedule,
    ScheduleProgress, ScheduleState,
};
use hence_core::time::{Millis, Timestamp};
use hence_core::when::{Anchor, Holidays, Interval, Recurrence};
use hence_store::{ShardBatch, codec};

use super::{KINDS, again, written};

#[test]
fn files_of_every_version_are_read_and_the_newest_written_the_same() {
    for version in codec::VERSION_OLDEST..=codec::VERSION {
        let files = golden_files(version);
        for (kind, _) in KINDS {
            assert!(files.iter().any(|file| file.0 == kind), "no file of {kind}; HENCE_BLESS=1");
        }
        for (kind, path, bytes) in files {
            let read = again(&kind)(&Bytes::from(bytes.clone()));
            let again = read.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(version < codec::VERSION || again == bytes, "{} differs", path.display());
        }
    }
}

#[test]
fn the_samples_are_written_as_they_were() {
    for (name, bytes) in samples() {
        let path = directory(codec::VERSION).join(format!("{name}.bin"));
        if !path.exists() && std::env::var_os("HENCE_BLESS").is_some() {
            std::fs::create_dir_all(directory(codec::VERSION)).expect("a directory");
            std::fs::write(&path, &bytes).expect("a golden file");
        }
        let golden = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(golden == bytes, "{}: the form has changed; raise VERSION", path.display());
    }
}

/// The kind, path and content of each file of a version.
pub(crate) fn golden_files(version: u8) -> Vec<(String, PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(directory(version)).expect("golden files; HENCE_BLESS=1");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let load = |path: PathBuf| {
        let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let kind = stem.split('-').next().unwrap_or_default().to_string();
        let bytes = std::fs::read(&path).expect("a golden file");
        (kind, path, bytes)
    };
    files.into_iter().map(load).collect()
}

fn directory(version: u8) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/formats")
        .join(format!("v{version}"))
}

/// Every kind, with every option given once and left out once.
fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let (bare, full) = (bare_job(), full_job());
    let (fresh, tried) = (Progress::fresh(at(5_000)), tried());
    let mut samples = vec![
        ("job-bare", written(|out| codec::encode_job(&bare, out))),
        ("job-full", written(|out| codec::encode_job(&full, out))),
        ("live-fresh", written(|out| codec::encode_live(&bare, &fresh, out))),
        ("live-tried", written(|out| codec::encode_live(&full, &tried, out))),
        (
            "finished-whole",
            written(|out| codec::encode_finished(&full, &tried, &succeeded(), true, out)),
        ),
        (
            "finished-bare",
            written(|out| codec::encode_finished(&full, &fresh, &dead(), false, out)),
        ),
        ("progress-fresh", written(|out| codec::encode_progress(&fresh, out))),
        ("progress-tried", written(|out| codec::encode_progress(&tried, out))),
        ("lease", written(|out| codec::encode_lease(&lease(), out))),
        ("finish-succeeded", written(|out| codec::encode_finish(&succeeded(), out))),
        ("finish-dead", written(|out| codec::encode_finish(&dead(), out))),
        ("attempt", written(|out| codec::encode_attempt(&attempt(), out))),
        ("schedule", written(|out| codec::encode_schedule(&schedule().schedule, out))),
        (
            "schedule_progress",
            written(|out| codec::encode_schedule_progress(&schedule().progress, out)),
        ),
        ("occurrence", written(|out| codec::encode_occurrence(&occurrence(), out))),
        ("queue-default", written(|out| codec::encode_queue(&QueueSettings::default(), out))),
        ("queue-limited", written(|out| codec::encode_queue(&settings(), out))),
        ("counts", written(|out| codec::encode_counts(&counts(), out))),
        ("batch", written(|out| codec::encode_batch(&batch(), out))),
    ];
    let changes = changes();
    samples.extend(
        changes.iter().map(|(name, it)| (*name, written(|out| codec::encode_change(it, out)))),
    );
    samples
}

fn changes() -> Vec<(&'static str, Change)> {
    let (bare, full) = (Arc::new(bare_job()), Arc::new(full_job()));
    let place = Place { due_at: at(9_000), number: JobNumber(41) };
    let kept = FinishedPlace { outcome: Outcome::Dead, at: at(70), number: JobNumber(40) };
    let put = |job: &Arc<Job>, replaces, revives| Change::JobPut {
        job: Arc::clone(job),
        progress: Progress::fresh(job.scheduled_for),
        replaces,
        revives,
    };
    let finished = |finish, keep_payload| Change::JobFinished {
        job: Arc::clone(&full),
        progress: tried(),
        finish,
        ended: Some(Box::new(attempt())),
        keep_payload,
    };
    let moved = |ended| Change::JobMoved {
        job: Arc::clone(&full),
        from: at(5_000),
        progress: tried(),
        ended,
    };
    let extended = Change::LeaseExtended {
        queue: QueueName::default_queue(),
        place,
        token: token(),
        until: at(99_000),
    };
    vec![
        ("change-job_put", put(&bare, None, None)),
        ("change-job_put-replaces", put(&full, Some(place), None)),
        ("change-job_put-revives", put(&full, None, Some(kept))),
        ("change-job_moved", moved(None)),
        ("change-job_moved-retry", moved(Some(Box::new(attempt())))),
        ("change-leases_granted", granted()),
        ("change-lease_extended", extended),
        ("change-job_finished", finished(Box::new(succeeded()), true)),
        ("change-job_finished-bare", finished(Box::new(dead()), false)),
        ("change-job_forgotten", Change::JobForgotten { job: full, place: kept }),
        ("change-schedule_put", Change::SchedulePut { state: schedule().into() }),
        ("change-schedule_advanced", {
            let progress = schedule().progress;
            Change::ScheduleAdvanced { id: schedule_id(), progress: progress.into() }
        }),
        ("change-ledger_forgotten", {
            Change::LedgerForgotten { schedule: schedule_id(), before: at(9) }
        }),
        ("change-schedule_removed", Change::ScheduleRemoved { id: schedule_id() }),
        ("change-occurrence_recorded", Change::OccurrenceRecorded { record: occurrence() }),
        (
            "change-queue_put",
            Change::QueuePut { name: QueueName::default_queue(), settings: settings() },
        ),
        (
            "change-letter_taken",
            Change::LetterTaken { id: LetterId(4_711), refused: Some("no such queue".into()) },
        ),
    ]
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_789_000_000_000 + millis)
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).expect("a queue's name")
}

fn schedule_id() -> ScheduleId {
    ScheduleId::new("nightly/report").expect("a schedule's id")
}

fn token() -> Token {
    Token { shard: ShardId(63), epoch: Epoch(300), counter: 70_000 }
}

/// Spelled out: the defaults may change, the files may not.
fn policy() -> RetryPolicy {
    RetryPolicy {
        max_attempts: 10,
        backoff: Backoff::Exponential { first: Millis::new(1_000), factor_percent: 200 },
        jitter_percent: 10,
        cap: Millis::new(3_600_000),
        max_age: None,
    }
}

fn bare_job() -> Job {
    Job {
        number: JobNumber(1),
        name: JobName {
            queue: QueueName::default_queue(),
            key: None,
            id: JobId::new("01J8ZQ").expect("an id"),
        },
        submitted_at: at(0),
        scheduled_for: at(5_000),
        payload: Payload::default(),
        target: Target::Worker,
        retry: policy(),
        timeout: Millis::new(30_000),
        expires_at: None,
        retention: Millis::new(3_600_000),
        keep_result: false,
        key_on_failure: KeyOnFailure::Block,
        on_unknown: OnUnknown::Retry,
        occurrence: None,
        fingerprint: None,
    }
}

fn full_job() -> Job {
    let headers = vec![("X-Trace".to_string(), "abc".to_string())];
    let url = "https://example.org/hook".to_string();
    Job {
        number: JobNumber(u64::MAX),
        name: JobName {
            queue: queue("mail.out"),
            key: Some(Key::new("user:Zoë").expect("a key")),
            id: JobId::new("hello/🙂").expect("an id"),
        },
        payload: Payload {
            bytes: Bytes::from_static(b"\x00\xff{\"a\":1}"),
            content_type: Some(Arc::from("application/json")),
        },
        target: Target::Http(Arc::new(HttpTarget { method: "PUT".to_string(), url, headers })),
        retry: RetryPolicy {
            max_attempts: 4,
            backoff: Backoff::List(vec![Millis::new(5), Millis::new(50_000)]),
            jitter_percent: 100,
            cap: Millis::new(60_000),
            max_age: Some(Millis::new(1)),
        },
        expires_at: Some(at(60_000)),
        keep_result: true,
        key_on_failure: KeyOnFailure::StepAside,
        on_unknown: OnUnknown::Park,
        occurrence: Some(Occurrence { schedule: schedule_id(), at: at(4_999) }),
        fingerprint: Some(0x0123_4567_89ab_cdef),
        ..bare_job()
    }
}

fn tried() -> Progress {
    Progress { due_at: at(-1), attempts: 3, crashes: 1, holds_key: true }
}

fn lease() -> Lease {
    let holder = WorkerName::new("worker 1").expect("a worker's name");
    Lease { token: token(), attempt: 2, holder, granted_at: at(10), until: at(30_010) }
}

fn attempt() -> AttemptRecord {
    AttemptRecord {
        attempt: 2,
        token: token(),
        holder: lease().holder,
        started_at: at(10),
        ended_at: at(20),
        end: AttemptEnd::TimedOut,
        reason: Some(Arc::from("no answer")),
    }
}

fn succeeded() -> Finish {
    let result = Payload { bytes: Bytes::from_static(b"42"), content_type: None };
    Finish {
        outcome: Outcome::Succeeded,
        at: at(20),
        reason: None,
        result: Some(result),
        keep_until: at(3_600_020),
    }
}

fn dead() -> Finish {
    Finish {
        outcome: Outcome::Dead,
        at: at(20),
        reason: Some(Arc::from("503: gone fishing")),
        result: None,
        keep_until: at(20),
    }
}

fn schedule() -> ScheduleState {
    let handler = HandlerName::new("report").expect("a handler's name");
    let template = JobSpec {
        payload: Payload::default(),
        target: Target::Handler(handler),
        retry: RetryPolicy { backoff: Backoff::Fixed(Millis::new(7)), ..policy() },
        timeout: Millis::new(30_000),
        expires_after: Some(Millis::new(1_000)),
        retention: Millis::new(3_600_000),
        keep_result: false,
        key_on_failure: KeyOnFailure::Block,
        on_unknown: OnUnknown::Retry,
    };
    let draft = Schedule::cron("*/10 9-17 * * MON-FRI")
        .and("every 2 weeks on friday at 9")
        .and("@every 90m")
        .zone("Europe/Paris")
        .queue(queue("reports"))
        .key(Key::new("nightly").expect("a key"))
        .misfire(Misfire::All { pace: Millis::new(250) })
        .overlap(Overlap::QueueAll)
        .grace(Millis::new(5_000))
        .spread(Millis::new(60_000))
        .end(at(1_000_000_000_000))
        .count(1_000);
    let made = draft.build(schedule_id(), template, at(0)).expect("a schedule");
    let mut plan = made.plan.clone();
    plan.excluded.insert("2026-12-24".parse().expect("a date"));
    plan.holidays = Holidays::parse("2026-12-25 Christmas").expect("a list");
    // The sample's third rhythm is counted from the very beginning.
    let interval = Interval { every: Millis::from_secs(5_400), anchor: Anchor::Start(at(0)) };
    plan.whens[2] = Recurrence::Interval(interval);
    let pause = Pause { note: "until the audit is over".into(), since: at(7) };
    let schedule = Arc::new(Schedule { plan, paused: Some(pause), ..made });
    let progress = ScheduleProgress {
        accounted: at(59_000),
        next_at: Some(at(60_000)),
        idle: None,
        last_at: Some(at(50_000)),
        ticked: 13,
        fired: 12,
        hold_until: Some(at(61_000)),
        paused_until: Some(at(40_000)),
        running: Some(Run { number: JobNumber(77), at: at(50_000) }),
        waiting: vec![at(51_000), at(52_000)],
        backfill: Some(Backfill {
            after: at(-1),
            until: at(30_000),
            pace: Millis::new(10),
            done: at(20_000),
            ticks: 9,
            made: 5,
            kept: 1,
            hold_until: at(58_000),
            ended_at: None,
        }),
        zones: "2026a".into(),
        ledger: Some(LedgerSpan { first: at(0), last: at(50_000) }),
    };
    ScheduleState { schedule, progress }
}

fn occurrence() -> OccurrenceRecord {
    OccurrenceRecord {
        schedule: schedule_id(),
        first: at(0),
        last: at(0),
        count: 1,
        decided_at: at(3),
        fate: Fate::Late(JobNumber(77), Millis::new(3)),
    }
}

fn settings() -> QueueSettings {
    QueueSettings {
        paused_in: true,
        paused_out: false,
        concurrency: Some(8),
        rate: Some(Rate { count: 100, per: Millis::new(1_000) }),
        pending_max: Some(1_000_000),
    }
}

fn counts() -> Counts {
    Counts {
        pending: 1,
        running: 2,
        dead: 3,
        submitted: 400,
        delivered: 500,
        succeeded: 600,
        failed: 7,
        died: 8,
        cancelled: 9,
        expired: 10,
        replaced: u64::MAX,
        rate_used_until_us: 1_789_000_000_000_000,
    }
}

fn granted() -> Change {
    let grant = |name: &str, number: u64, attempt| LeaseGrant {
        queue: queue(name),
        place: Place { due_at: at(number as i64 - 50), number: JobNumber(number) },
        attempt,
        until: at(30_000),
    };
    let leases = vec![grant("a", 7, 1), grant("a", 3, 2), grant("b", 9_000, 1)];
    Change::LeasesGranted { first_token: token(), holder: lease().holder, at: at(0), leases }
}

fn batch() -> ShardBatch {
    ShardBatch {
        shard: ShardId(7),
        epoch: Epoch(3),
        sequence: 1_000,
        changes: Arc::new(vec![granted(), Change::ScheduleRemoved { id: schedule_id() }]),
        counts: vec![(queue("a"), counts()), (queue("b"), Counts::default())],
        next_number: JobNumber(9_001),
    }
}

/// A job as most are: an HTTP hook with a small JSON payload.
pub(crate) fn typical_job() -> Job {
    let body = br#"{"user":123456,"mail":"welcome","lang":"en"}"#;
    let json = Some(Arc::from("application/json"));
    Job {
        payload: Payload { bytes: Bytes::from_static(body), content_type: json },
        target: Target::Http(Arc::new(HttpTarget::post("https://example.org/hooks/mail"))),
        ..bare_job()
    }
}
