//! Random histories. A step says what happens without knowing what has happened, so that any
//! steps can be left out and the rest still makes sense: leases are picked by a number, times are
//! relative.

use std::fmt;

use hence_core::id::{HandlerName, JobName, QueueName, ScheduleId};
use hence_core::input::{Nack, Report};
use hence_core::job::{IdOrigin, JobSpec, KeyOnFailure, OnConflict, OnUnknown, Submission, Target};
use hence_core::queue::{QueueSettings, Rate};
use hence_core::retry::{Backoff, RetryPolicy};
use hence_core::time::Millis;

use crate::support::draft::{self, ms, payload, queue_name};
use crate::support::rng::Rng;
use crate::support::verbs::{failed, schedule_id};

const QUEUES: [&str; 2] = ["mail", "work"];
const KEYS: [&str; 3] = ["", "k", "l"];
const IDS: [&str; 4] = ["a", "b", "c", "d"];
pub(crate) const HANDLERS: [&str; 2] = ["h", "i"];
const SCHEDULES: [&str; 2] = ["s", "t"];
/// Whole ticks of every schedule, so that a trigger can be kept off them.
pub(crate) const TICK_MS: i64 = 500;

/// One thing that happens.
#[derive(Clone)]
pub(crate) enum Step {
    /// The due time is counted from now.
    Submit(Submission, i64),
    Ask(Verb, JobName),
    Edit {
        name: JobName,
        due_in: Option<i64>,
        payload: Option<String>,
        target: Option<Target>,
    },
    Lease {
        queues: Vec<QueueName>,
        max: u32,
        lease: Option<Millis>,
    },
    Extend {
        nth: u64,
        lease: Millis,
    },
    Ack {
        nth: u64,
    },
    Nack {
        nth: u64,
        how: Nack,
        random: u64,
    },
    Report {
        nth: u64,
        report: Report,
        random: u64,
    },
    Time(Move),
    PutQueue {
        queue: QueueName,
        settings: QueueSettings,
    },
    RemoveQueue(QueueName),
    Handlers(Vec<HandlerName>),
    PutSchedule {
        id: ScheduleId,
        key: bool,
        paused: bool,
        ticks: u64,
        late_by: i64,
    },
    RemoveSchedule(ScheduleId),
    PauseSchedule(ScheduleId, bool),
    Trigger(ScheduleId),
    StoreFull(bool),
    Drain,
    /// The process dies, perhaps with something under way that never becomes durable.
    Crash(Option<Box<Step>>),
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Submit(submission, due_in) => {
                let Submission { name, on_conflict, spec, fingerprint, .. } = submission;
                write!(f, "submit {name} in {due_in}ms {on_conflict:?} {fingerprint:?}: ")?;
                let target = match &spec.target {
                    Target::Http(_) => "push",
                    Target::Worker => "pull",
                    Target::Handler(name) => name.as_str(),
                };
                let RetryPolicy { max_attempts, backoff, jitter_percent, cap, max_age } =
                    &spec.retry;
                write!(f, "{target} {max_attempts}x {backoff:?} {jitter_percent}% up to {cap} ")?;
                write!(
                    f,
                    "age {max_age:?} timeout {} expires {:?} ",
                    spec.timeout, spec.expires_after
                )?;
                write!(
                    f,
                    "{:?} {:?} {}",
                    spec.key_on_failure,
                    spec.on_unknown,
                    spec.payload.bytes.len()
                )
            }
            Step::Ask(verb, name) => write!(f, "{verb:?} {name}"),
            Step::Edit { name, due_in, payload, target } => {
                write!(f, "edit {name} {due_in:?} {payload:?} {target:?}")
            }
            Step::Lease { queues, max, lease } => write!(f, "lease {max} of {queues:?} {lease:?}"),
            Step::Extend { nth, lease } => write!(f, "extend {nth} {lease}"),
            Step::Ack { nth } => write!(f, "ack {nth}"),
            Step::Nack { nth, how, random } => write!(f, "nack {nth} {how:?} {random}"),
            Step::Report { nth, report, random } => write!(f, "report {nth} {report:?} {random}"),
            Step::Time(moves) => write!(f, "time {moves:?}"),
            Step::RemoveQueue(queue) => write!(f, "remove queue {queue}"),
            Step::PutQueue { queue, settings } => write!(f, "queue {queue} {settings:?}"),
            Step::Handlers(names) => write!(f, "handlers {names:?}"),
            Step::PutSchedule { id, key, paused, ticks, late_by } => {
                write!(f, "schedule {id} key {key} paused {paused} {ticks} {late_by}")
            }
            Step::RemoveSchedule(id) => write!(f, "remove schedule {id}"),
            Step::PauseSchedule(id, paused) => write!(f, "pause schedule {id} {paused}"),
            Step::Trigger(id) => write!(f, "trigger {id}"),
            Step::StoreFull(full) => write!(f, "store full {full}"),
            Step::Drain => write!(f, "drain"),
            Step::Crash(lost) => write!(f, "crash, losing {lost:?}"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb {
    Show,
    Cancel,
    Complete,
    RunNow,
    Replay,
    Forget,
}

/// How the clock moves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Move {
    ToDeadline,
    JustBeforeDeadline,
    By(i64),
}

/// A history: the steps, and what they happen to.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) seed: u64,
    pub(crate) window_jobs: usize,
    pub(crate) window_bytes: usize,
    pub(crate) pushes_max: u32,
    pub(crate) steps: Vec<Step>,
}

impl History {
    pub(crate) fn new(seed: u64, window_jobs: usize) -> History {
        let mut rng = Rng::new(seed);
        let length = 30 + rng.below(if rng.clone().one_in(4) { 170 } else { 50 });
        let window_bytes = if rng.one_in(4) { 12 } else { 1_000_000 };
        let pushes_max = if rng.one_in(3) { 2 } else { 100 };
        // Few keys and names in some histories, so that they meet more often.
        let mut names = Names { keys: 1 + rng.below(3), queues: 1 + rng.below(2) };
        names.keys = names.keys.max(2 - u64::from(rng.one_in(3)));
        let steps = (0..length).map(|_| step(&mut rng, &names)).collect();
        History { seed, window_jobs, window_bytes, pushes_max, steps }
    }
}

struct Names {
    keys: u64,
    queues: u64,
}

fn step(rng: &mut Rng, names: &Names) -> Step {
    match rng.below(100) {
        0..26 => submit(rng, names),
        26..36 => Step::Ask(*rng.pick(&VERBS), name(rng, names)),
        36..41 => edit(rng, names),
        41..51 => lease(rng, names),
        51..53 => Step::Extend { nth: rng.next(), lease: ms(*rng.pick(&[100, 1_000, 60_000])) },
        53..59 => Step::Ack { nth: rng.next() },
        59..63 => Step::Nack { nth: rng.next(), how: nack(rng), random: rng.next() },
        63..74 => Step::Report { nth: rng.next(), report: report(rng), random: rng.next() },
        74..88 => Step::Time(clock(rng)),
        88..90 => Step::PutQueue { queue: queue(rng, names), settings: settings(rng) },
        90 => Step::RemoveQueue(queue(rng, names)),
        91..93 => Step::Handlers(handlers(rng)),
        93..96 => schedule(rng),
        96 => Step::StoreFull(rng.one_in(2)),
        97 if rng.one_in(4) => Step::Drain,
        _ => {
            let lost = rng.one_in(2).then(|| Box::new(step(rng, names)));
            Step::Crash(lost.filter(|lost| !matches!(**lost, Step::Crash(_))))
        }
    }
}

const VERBS: [Verb; 7] = [
    Verb::Show,
    Verb::Cancel,
    Verb::Cancel,
    Verb::Complete,
    Verb::RunNow,
    Verb::Replay,
    Verb::Forget,
];

fn queue(rng: &mut Rng, names: &Names) -> QueueName {
    queue_name(QUEUES[rng.below(names.queues) as usize])
}

fn name(rng: &mut Rng, names: &Names) -> JobName {
    let key = KEYS[rng.below(names.keys) as usize];
    let queue = QUEUES[rng.below(names.queues) as usize];
    draft::name(&format!("{queue}/{key}/{}", rng.pick(&IDS)))
}

fn due_in(rng: &mut Rng) -> i64 {
    *rng.pick(&[-1_000, 0, 0, 1, 10, 100, 100, 500, 1_000, 5_000, 60_000, 86_400_000])
}

fn target(rng: &mut Rng) -> Target {
    match rng.below(5) {
        0 | 1 => draft::pull("x").0.spec.target,
        2 | 3 => draft::push("x").0.spec.target,
        _ => Target::Handler(HandlerName::new(rng.pick::<&str>(&HANDLERS)).expect("a good name")),
    }
}

/// Longer than any history: ledgers make some last for months.
const RETENTION: Millis = Millis::new(300_000_000_000);

fn submit(rng: &mut Rng, names: &Names) -> Step {
    let due_in = due_in(rng);
    let on_conflict = *rng.pick(&[
        OnConflict::Replace,
        OnConflict::Replace,
        OnConflict::Keep,
        OnConflict::Reject,
    ]);
    let retry = retry(rng);
    // With jitter, a retry could come before the expiry or not, as chance has it.
    let expires = retry.jitter_percent == 0 && rng.one_in(5);
    let mut spec = JobSpec {
        payload: payload(&"x".repeat(rng.below(9) as usize)),
        retry,
        timeout: ms(*rng.pick(&[10, 1_000, 30_000])),
        expires_after: expires.then(|| ms(*rng.pick(&[1, 100, 2_000]))),
        retention: if rng.one_in(3) { Millis::ZERO } else { RETENTION },
        key_on_failure: *rng.pick(&[
            KeyOnFailure::Block,
            KeyOnFailure::Block,
            KeyOnFailure::StepAside,
        ]),
        on_unknown: if rng.one_in(5) { OnUnknown::Park } else { OnUnknown::Retry },
        ..JobSpec::new(target(rng))
    };
    let fingerprint = rng.one_in(8).then(|| rng.below(2));
    if fingerprint.is_some() {
        // Or it would be forgotten within the history: its key is remembered for a day.
        spec.retention = RETENTION;
    }
    let name = name(rng, names);
    let due_at = crate::support::at(0);
    let id_origin = if rng.one_in(2) { IdOrigin::Key } else { IdOrigin::Given };
    let submission = Submission { name, id_origin, due_at, on_conflict, spec, fingerprint };
    Step::Submit(submission, due_in)
}

fn retry(rng: &mut Rng) -> RetryPolicy {
    let backoff = match rng.below(3) {
        0 => Backoff::Fixed(ms(*rng.pick(&[0, 100, 1_000]))),
        1 => Backoff::Exponential { first: ms(50), factor_percent: 300 },
        _ => Backoff::List(vec![ms(10), ms(500)]),
    };
    let jitter_percent = if rng.one_in(4) { 50 } else { 0 };
    // With jitter, an age could end a job or not, as chance has it.
    let max_age = (jitter_percent == 0 && rng.one_in(5)).then(|| ms(700));
    let cap = ms(*rng.pick(&[400, 3_600_000]));
    RetryPolicy { max_attempts: 1 + rng.below(4) as u32, backoff, jitter_percent, cap, max_age }
}

fn edit(rng: &mut Rng, names: &Names) -> Step {
    Step::Edit {
        name: name(rng, names),
        due_in: (!rng.one_in(4)).then(|| due_in(rng)),
        payload: rng.one_in(3).then(|| "y".repeat(rng.below(9) as usize)),
        target: rng.one_in(3).then(|| target(rng)),
    }
}

fn lease(rng: &mut Rng, names: &Names) -> Step {
    let mut queues: Vec<QueueName> =
        QUEUES[..names.queues as usize].iter().map(|q| queue_name(q)).collect();
    if rng.one_in(2) {
        queues.reverse();
    }
    queues.truncate(1 + rng.below(2) as usize);
    let lease = rng.one_in(2).then(|| ms(*rng.pick(&[100, 1_000, 60_000])));
    Step::Lease { queues, max: *rng.pick(&[1, 1, 2, 10]), lease }
}

fn nack(rng: &mut Rng) -> Nack {
    match rng.below(4) {
        0 => Nack::Dead,
        1 => Nack::Release { delay: ms(*rng.pick(&[0, 100, 5_000])) },
        _ => Nack::Retry { delay: rng.one_in(2).then(|| ms(*rng.pick(&[1, 700]))) },
    }
}

fn report(rng: &mut Rng) -> Report {
    match rng.below(11) {
        0..3 => Report::Succeeded { result: None },
        3 | 4 => failed(rng.one_in(2).then(|| *rng.pick(&[1, 700])), rng.one_in(5)),
        5 => Report::TimedOut,
        6 => Report::Unregistered,
        7 => Report::Unanswered { reason: "no answer".into() },
        8 => Report::CutShort,
        9 => Report::PutOff { reason: "not now".into(), delay: ms(*rng.pick(&[0, 50, 3_000])) },
        _ => Report::Released,
    }
}

fn clock(rng: &mut Rng) -> Move {
    match rng.below(12) {
        0..6 => Move::ToDeadline,
        6 => Move::JustBeforeDeadline,
        7 => Move::By(-(rng.below(3_000) as i64)),
        8 => Move::By(60_000),
        _ => Move::By(*rng.pick(&[0, 1, 9, 100, 400, 1_000, 6_000])),
    }
}

fn settings(rng: &mut Rng) -> QueueSettings {
    if rng.one_in(3) {
        return QueueSettings::default();
    }
    QueueSettings {
        paused_in: rng.one_in(8),
        paused_out: rng.one_in(4),
        concurrency: rng.one_in(3).then(|| 1 + rng.below(2) as u32),
        rate: rng.one_in(4).then(|| Rate { count: 2, per: ms(1_000) }),
        pending_max: rng.one_in(6).then_some(3),
    }
}

fn handlers(rng: &mut Rng) -> Vec<HandlerName> {
    let mut names: Vec<HandlerName> =
        HANDLERS.iter().map(|name| HandlerName::new(name).expect("a good name")).collect();
    names.truncate(rng.below(3) as usize);
    names
}

fn schedule(rng: &mut Rng) -> Step {
    let id = schedule_id(rng.pick::<&str>(&SCHEDULES));
    match rng.below(7) {
        0..3 => Step::PutSchedule {
            id,
            key: rng.one_in(3),
            paused: rng.one_in(4),
            ticks: 1 + rng.below(4),
            late_by: *rng.pick(&[-5, 0, 3, 10]),
        },
        3 => Step::RemoveSchedule(id),
        4 => Step::PauseSchedule(id, true),
        5 => Step::PauseSchedule(id, false),
        _ => Step::Trigger(id),
    }
}
