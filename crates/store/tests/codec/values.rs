//! Any value of every type, for random tests. The larger strategies are boxed: nested tuples of
//! them would not fit on a test's stack.

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
    Backfill, Fate, Idle, LedgerSpan, Misfire, OccurrenceRecord, Overlap, Pause, Run, Said,
    Schedule, ScheduleProgress, ScheduleState, SkipReason,
};
use hence_core::time::{Millis, Timestamp};
use hence_core::when::{Dialect, Fold, Gap, Holidays, Plan, Reading, Zone, parse_recurrence};
use hence_store::ShardBatch;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample;

macro_rules! name {
    ($function:ident, $type:ident, $pattern:literal) => {
        fn $function() -> impl Strategy<Value = $type> {
            $pattern.prop_map(|text: String| $type::new(&text).expect("the pattern fits"))
        }
    };
}
name!(queue, QueueName, "[a-zA-Z0-9._:/-]{1,64}");
name!(key, Key, "[^\\pC\\s]{1,20}");
name!(job_id, JobId, "[^\\pC\\s]{1,20}");
name!(schedule_id, ScheduleId, "[a-zA-Z0-9._:/-]{1,96}");
name!(handler, HandlerName, "[a-z.]{1,20}");
name!(worker, WorkerName, "w[a-zA-Z0-9 é🙂]{0,20}x");

/// Near now as a rule, anywhere at all sometimes.
fn time() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        4 => 1_600_000_000_000..2_000_000_000_000_i64,
        1 => any::<i64>(),
        1 => Just(i64::MIN),
        1 => Just(i64::MAX),
    ]
    .prop_map(Timestamp::from_millis)
}

fn millis() -> impl Strategy<Value = Millis> {
    prop_oneof![0..100_000_u64, any::<u64>()].prop_map(Millis::new)
}

fn text() -> impl Strategy<Value = Arc<str>> {
    ".{0,30}".prop_map(|text: String| Arc::from(text))
}

fn number() -> impl Strategy<Value = JobNumber> {
    prop_oneof![0..1_000_u64, any::<u64>()].prop_map(JobNumber)
}

fn payload() -> impl Strategy<Value = Payload> {
    (vec(any::<u8>(), 0..300), option::of(text()))
        .prop_map(|(bytes, content_type)| Payload { bytes: Bytes::from(bytes), content_type })
}

fn target() -> BoxedStrategy<Target> {
    let http = ("[A-Z]{1,6}", ".{0,60}", vec((".{0,9}", ".{0,9}"), 0..4));
    prop_oneof![
        http.prop_map(|(method, url, headers)| {
            Target::Http(Arc::new(HttpTarget { method, url, headers }))
        }),
        Just(Target::Worker),
        handler().prop_map(Target::Handler),
    ]
    .boxed()
}

fn retry() -> BoxedStrategy<RetryPolicy> {
    let backoff = prop_oneof![
        millis().prop_map(Backoff::Fixed),
        (millis(), any::<u32>())
            .prop_map(|(first, factor_percent)| Backoff::Exponential { first, factor_percent }),
        vec(millis(), 0..5).prop_map(Backoff::List),
    ];
    (any::<u32>(), backoff, any::<u8>(), millis(), option::of(millis()))
        .prop_map(|(max_attempts, backoff, jitter_percent, cap, max_age)| RetryPolicy {
            max_attempts,
            backoff,
            jitter_percent,
            cap,
            max_age,
        })
        .boxed()
}

fn key_on_failure() -> impl Strategy<Value = KeyOnFailure> {
    prop_oneof![Just(KeyOnFailure::Block), Just(KeyOnFailure::StepAside)]
}

fn on_unknown() -> impl Strategy<Value = OnUnknown> {
    prop_oneof![Just(OnUnknown::Retry), Just(OnUnknown::Park)]
}

pub(crate) fn spec() -> BoxedStrategy<JobSpec> {
    let options = (option::of(millis()), millis(), any::<bool>(), key_on_failure(), on_unknown());
    (payload(), target(), retry(), millis(), options)
        .prop_map(|(payload, target, retry, timeout, options)| {
            let (expires_after, retention, keep_result, key_on_failure, on_unknown) = options;
            JobSpec {
                payload,
                target,
                retry,
                timeout,
                expires_after,
                retention,
                keep_result,
                key_on_failure,
                on_unknown,
            }
        })
        .boxed()
}

pub(crate) fn job() -> BoxedStrategy<Job> {
    let name = (queue(), option::of(key()), job_id());
    let occurrence = (schedule_id(), time());
    let options = (option::of(time()), option::of(occurrence), option::of(any::<u64>()));
    (number(), name, time(), time(), spec(), options)
        .prop_map(|(number, (queue, key, id), submitted_at, scheduled_for, spec, options)| Job {
            number,
            name: JobName { queue, key, id },
            submitted_at,
            scheduled_for,
            payload: spec.payload,
            target: spec.target,
            retry: spec.retry,
            timeout: spec.timeout,
            expires_at: options.0,
            retention: spec.retention,
            keep_result: spec.keep_result,
            key_on_failure: spec.key_on_failure,
            on_unknown: spec.on_unknown,
            occurrence: options.1.map(|(schedule, at)| Occurrence { schedule, at }),
            fingerprint: options.2,
        })
        .boxed()
}

pub(crate) fn progress() -> impl Strategy<Value = Progress> {
    let tries = prop_oneof![Just((0, 0)), any::<(u32, u32)>()];
    (time(), tries, any::<bool>()).prop_map(|(due_at, (attempts, crashes), holds_key)| Progress {
        due_at,
        attempts,
        crashes,
        holds_key,
    })
}

fn token() -> impl Strategy<Value = Token> {
    any::<(u16, u32, u64)>().prop_map(|(shard, epoch, counter)| Token {
        shard: ShardId(shard),
        epoch: Epoch(epoch),
        counter,
    })
}

pub(crate) fn lease() -> impl Strategy<Value = Lease> {
    (token(), any::<u32>(), worker(), time(), time()).prop_map(
        |(token, attempt, holder, granted_at, until)| Lease {
            token,
            attempt,
            holder,
            granted_at,
            until,
        },
    )
}

fn outcome() -> impl Strategy<Value = Outcome> {
    sample::select(Outcome::ALL.to_vec())
}

pub(crate) fn finish() -> BoxedStrategy<Finish> {
    (outcome(), time(), option::of(text()), option::of(payload()), time())
        .prop_map(|(outcome, at, reason, result, keep_until)| Finish {
            outcome,
            at,
            reason,
            result,
            keep_until,
        })
        .boxed()
}

pub(crate) fn attempt() -> BoxedStrategy<AttemptRecord> {
    let end = sample::select(AttemptEnd::ALL.to_vec());
    (any::<u32>(), token(), worker(), time(), time(), end, option::of(text()))
        .prop_map(|(attempt, token, holder, started_at, ended_at, end, reason)| AttemptRecord {
            attempt,
            token,
            holder,
            started_at,
            ended_at,
            end,
            reason,
        })
        .boxed()
}

/// Texts of every kind of rhythm, and every dialect.
const RHYTHMS: [(&str, Option<Dialect>); 14] = [
    ("*/15 9-17 * * MON-FRI", None),
    ("0 0 12 ? * 2#1 2030-2040/2", Some(Dialect::Quartz)),
    ("2014 3 * 0/2,3 9-17 * */5", Some(Dialect::Workkit)),
    ("H H(0-7) L-3 * *", None),
    ("30 4 15W,LW JAN,DEC *", None),
    ("0~30 5 * * FRIL", None),
    ("@hourly", None),
    ("@every 90s", None),
    ("@every 2h aligned", None),
    ("every weekday at 9am", None),
    ("every 15 minutes between 9:30 and 17:00", None),
    ("every other day at 6", None),
    ("every 2 weeks on friday and monday at 9 and 17:30", None),
    ("the last day of every month", None),
];

const ZONES: [&str; 4] = ["UTC", "Europe/Paris", "America/Argentina/Buenos_Aires", "-00:30"];

const HOLIDAYS: [&str; 3] = [
    "",
    "2026-12-25 Christmas\n2027-01-01 New Year",
    "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY\n\
     SUMMARY:Christmas\nEND:VEVENT\nEND:VCALENDAR\n",
];

fn plan() -> BoxedStrategy<(Plan, Said)> {
    let rhythm = (sample::select(&RHYTHMS[..]), sample::select(&ZONES[..]));
    let rules = (
        sample::select(std::vec![Gap::Skip, Gap::AfterGap]),
        sample::select(std::vec![Fold::First, Fold::Second, Fold::Both]),
        sample::select(&HOLIDAYS[..]),
        proptest::collection::btree_set(1_i16..=9_999, 0..3),
    );
    let bounds = (option::of(time()), option::of(time()), option::of(any::<u64>()));
    (rhythm, rules, bounds)
        .prop_map(|(((text, dialect), zone), (gap, fold, holidays, years), (start, end, count))| {
            let zone = Zone::named(zone).expect("a zone");
            let now = Timestamp::from_millis(1_772_638_200_000);
            let schedule = Some("some/schedule");
            let reading = Reading { dialect, schedule, ..Reading::new(now, &zone) };
            let rhythm = parse_recurrence(text, &reading).expect("a rhythm");
            let said = Said { text: text.to_string(), dialect: rhythm.dialect };
            let excluded =
                years.iter().map(|year| format!("{year:04}-02-28").parse().expect("a date"));
            let excluded = excluded.collect();
            let holidays = Holidays::parse(holidays).expect("a calendar");
            let plan = Plan::new(rhythm);
            (Plan { gap, fold, excluded, holidays, start, end, count, ..plan }, said)
        })
        .boxed()
}

fn misfire() -> impl Strategy<Value = Misfire> {
    prop_oneof![
        Just(Misfire::Skip),
        Just(Misfire::Once),
        any::<u32>().prop_map(Misfire::Last),
        millis().prop_map(|pace| Misfire::All { pace }),
    ]
}

pub(crate) fn schedule() -> BoxedStrategy<Schedule> {
    let pause = (".{0,20}", time()).prop_map(|(note, since)| Pause { note: note.into(), since });
    let body = (schedule_id(), plan(), queue(), option::of(key()), spec(), option::of(pause));
    let overlap = sample::select(Overlap::ALL.to_vec());
    let policies = (misfire(), option::of(millis()), overlap, millis(), millis());
    (body, policies)
        .prop_map(|((id, (plan, said), queue, key, template, paused), policies)| {
            let (misfire, grace, overlap, spread, ledger_retention) = policies;
            Schedule {
                id,
                plan,
                said: vec![said],
                queue,
                key,
                template,
                paused,
                misfire,
                grace,
                overlap,
                spread,
                ledger_retention,
            }
        })
        .boxed()
}

fn backfill() -> BoxedStrategy<Backfill> {
    let times = (time(), time(), time(), time(), option::of(time()));
    (times, millis(), any::<[u64; 3]>())
        .prop_map(|((after, until, done, hold_until, ended_at), pace, [ticks, made, kept])| {
            Backfill { after, until, pace, done, ticks, made, kept, hold_until, ended_at }
        })
        .boxed()
}

pub(crate) fn schedule_progress() -> BoxedStrategy<ScheduleProgress> {
    let idle = sample::select(Idle::ALL.to_vec());
    let times = (time(), option::of(time()), option::of(time()));
    let holds = (option::of(time()), option::of(time()));
    let run = (number(), time()).prop_map(|(number, at)| Run { number, at });
    let span = (time(), time()).prop_map(|(first, last)| LedgerSpan { first, last });
    let waiting = vec(time(), 0..4);
    let rest = (option::of(run), waiting, option::of(backfill()), "[0-9a-z]{0,6}");
    (times, option::of(idle), any::<[u64; 2]>(), holds, rest, option::of(span))
        .prop_map(|(times, idle, [ticked, fired], holds, rest, ledger)| {
            let (accounted, next_at, last_at) = times;
            let (hold_until, paused_until) = holds;
            let (running, waiting, backfill, zones) = rest;
            ScheduleProgress {
                accounted,
                next_at,
                idle,
                last_at,
                ticked,
                fired,
                hold_until,
                paused_until,
                running,
                waiting,
                backfill,
                zones: zones.into(),
                ledger,
            }
        })
        .boxed()
}

pub(crate) fn occurrence() -> impl Strategy<Value = OccurrenceRecord> {
    let fate = prop_oneof![
        number().prop_map(Fate::Ran),
        (number(), millis()).prop_map(|(number, by)| Fate::Late(number, by)),
        sample::select(SkipReason::ALL.to_vec()).prop_map(Fate::Skipped),
        Just(Fate::Coalesced),
        number().prop_map(Fate::Triggered),
        number().prop_map(Fate::Backfilled),
    ];
    (schedule_id(), time(), time(), any::<u64>(), time(), fate).prop_map(
        |(schedule, first, last, count, decided_at, fate)| OccurrenceRecord {
            schedule,
            first,
            last,
            count,
            decided_at,
            fate,
        },
    )
}

pub(crate) fn settings() -> impl Strategy<Value = QueueSettings> {
    let rate = (any::<u32>(), millis()).prop_map(|(count, per)| Rate { count, per });
    let limits = (option::of(any::<u32>()), option::of(rate), option::of(any::<u64>()));
    (any::<bool>(), any::<bool>(), limits).prop_map(
        |(paused_in, paused_out, (concurrency, rate, pending_max))| QueueSettings {
            paused_in,
            paused_out,
            concurrency,
            rate,
            pending_max,
        },
    )
}

pub(crate) fn counts() -> impl Strategy<Value = Counts> {
    any::<[u64; 12]>().prop_map(|n| Counts {
        pending: n[0],
        running: n[1],
        dead: n[2],
        submitted: n[3],
        delivered: n[4],
        succeeded: n[5],
        failed: n[6],
        died: n[7],
        cancelled: n[8],
        expired: n[9],
        replaced: n[10],
        rate_used_until_us: n[11],
    })
}

fn place() -> impl Strategy<Value = Place> {
    (time(), number()).prop_map(|(due_at, number)| Place { due_at, number })
}

fn finished_place() -> impl Strategy<Value = FinishedPlace> {
    (outcome(), time(), number()).prop_map(|(outcome, at, number)| FinishedPlace {
        outcome,
        at,
        number,
    })
}

fn grant() -> impl Strategy<Value = LeaseGrant> {
    let queue = prop_oneof![Just(QueueName::default_queue()), queue()];
    (queue, place(), any::<u32>(), time()).prop_map(|(queue, place, attempt, until)| LeaseGrant {
        queue,
        place,
        attempt,
        until,
    })
}

pub(crate) fn change() -> BoxedStrategy<Change> {
    let job = || job().prop_map(Arc::new);
    prop_oneof![
        (job(), progress(), option::of(place()), option::of(finished_place())).prop_map(
            |(job, progress, replaces, revives)| Change::JobPut {
                job,
                progress,
                replaces,
                revives
            }
        ),
        (job(), time(), progress(), option::of(attempt().prop_map(Box::new))).prop_map(
            |(job, from, progress, ended)| Change::JobMoved { job, from, progress, ended }
        ),
        (token(), worker(), time(), vec(grant(), 0..20)).prop_map(
            |(first_token, holder, at, leases)| Change::LeasesGranted {
                first_token,
                holder,
                at,
                leases
            }
        ),
        (queue(), place(), token(), time()).prop_map(|(queue, place, token, until)| {
            Change::LeaseExtended { queue, place, token, until }
        }),
        (job(), progress(), finish(), option::of(attempt()), any::<bool>()).prop_map(
            |(job, progress, finish, ended, keep_payload)| Change::JobFinished {
                job,
                progress,
                finish: Box::new(finish),
                ended: ended.map(Box::new),
                keep_payload
            }
        ),
        (job(), finished_place()).prop_map(|(job, place)| Change::JobForgotten { job, place }),
        (schedule(), schedule_progress()).prop_map(|(schedule, progress)| {
            let schedule = Arc::new(schedule);
            Change::SchedulePut { state: ScheduleState { schedule, progress }.into() }
        }),
        (schedule_id(), schedule_progress())
            .prop_map(|(id, progress)| Change::ScheduleAdvanced { id, progress: progress.into() }),
        (schedule_id(), time())
            .prop_map(|(schedule, before)| Change::LedgerForgotten { schedule, before }),
        schedule_id().prop_map(|id| Change::ScheduleRemoved { id }),
        occurrence().prop_map(|record| Change::OccurrenceRecorded { record }),
        (queue(), settings()).prop_map(|(name, settings)| Change::QueuePut { name, settings }),
        (any::<u64>(), option::of(".{0,40}")).prop_map(|(id, refused)| Change::LetterTaken {
            id: LetterId(id),
            refused: refused.map(Into::into),
        }),
    ]
    .boxed()
}

pub(crate) fn batch() -> BoxedStrategy<ShardBatch> {
    let head = any::<(u16, u32, u64)>();
    (head, vec(change(), 0..4), vec((queue(), counts()), 0..3), number())
        .prop_map(|((shard, epoch, sequence), changes, counts, next_number)| ShardBatch {
            shard: ShardId(shard),
            epoch: Epoch(epoch),
            sequence,
            changes: Arc::new(changes),
            counts,
            next_number,
        })
        .boxed()
}
