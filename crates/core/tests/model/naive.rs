//! The model: every job in one list, every question answered by looking at all of them. No
//! window, no index, no memory apart from a store. It decides what requests do (`rules.rs`),
//! and judges what a shard is free to choose: what it hands out when, and when it notices that
//! a job far away has expired.

use std::collections::{BTreeMap, BTreeSet};

use hence_core::change::Change;
use hence_core::effect::{Answer, Delivery, Effect};
use hence_core::error::Rejection;
use hence_core::id::{HandlerName, JobName, QueueName, ScheduleId, Token, WorkerName};
use hence_core::input::{Input, Report, Request, Ticket};
use hence_core::job::{AttemptEnd, JobSpec, JobState, JobView, OnUnknown, Outcome, Target};
use hence_core::queue::QueueSettings;
use hence_core::time::Millis;

use super::pushes::Pushes;
use super::rules::Failure;

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Job {
    pub(crate) number: u64,
    pub(crate) name: JobName,
    pub(crate) spec: JobSpec,
    pub(crate) fingerprint: Option<u64>,
    pub(crate) submitted_at: i64,
    pub(crate) scheduled_for: i64,
    pub(crate) expires_at: Option<i64>,
    pub(crate) due: i64,
    pub(crate) attempts: u32,
    pub(crate) crashes: u32,
    pub(crate) holds_key: bool,
    pub(crate) life: Life,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Life {
    Waiting,
    Running { token: Token, attempt: u32, until: i64 },
    Ended { outcome: Outcome, at: i64, kept: bool },
}

#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) id: ScheduleId,
    /// The first tick and the interval.
    pub(crate) every: (i64, i64),
    pub(crate) name: JobName,
    pub(crate) spec: JobSpec,
    pub(crate) paused: bool,
    pub(crate) next: Option<i64>,
    pub(crate) last: Option<i64>,
    /// Ticks up to here are accounted for.
    pub(crate) accounted: i64,
    /// Ticks up to here fell into a pause.
    pub(crate) paused_until: Option<i64>,
    pub(crate) fired: u64,
}

/// What an answer is to be, as far as it is compared.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Expected {
    Refused(Rejection),
    Job(Seen),
    Done,
    /// These jobs, by number, when that can be said at all.
    Leased(Option<Vec<u64>>),
    Until(i64),
    /// Not compared here: seen on disk.
    Anything,
}

/// A job as an answer shows it. Ready and scheduled are one here: which of the two is shown
/// depends on whether the job is in memory.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Seen {
    number: u64,
    state: JobState,
    due: i64,
    attempts: u32,
    token: Option<Token>,
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) now: i64,
    /// The latest time this life of the shard was told before: what was due then has taken its
    /// turn.
    pub(crate) before: i64,
    pub(crate) jobs: Vec<Job>,
    pub(crate) next_number: u64,
    pub(crate) queues: BTreeMap<QueueName, QueueSettings>,
    /// Queues that had a job since they were made.
    pub(crate) used: BTreeSet<QueueName>,
    pub(crate) schedules: Vec<Schedule>,
    pub(crate) handlers: BTreeSet<HandlerName>,
    pub(crate) draining: bool,
    pub(crate) full: bool,
    pub(crate) ticks_from: i64,
    /// Ticks that were accounted for, each of them.
    pub(crate) ticks: u64,
    pub(crate) pushes: Pushes,
    /// Tokens of successes this life of the shard has recorded.
    pub(crate) succeeded: BTreeSet<Token>,
    /// Whether every job is in memory at the moment: then nothing may be late.
    pub(crate) all_in_memory: bool,
    /// Whether the memory may hold any number of jobs.
    unlimited: bool,
    waiting: BTreeMap<Ticket, Request>,
    expected: BTreeMap<Ticket, Expected>,
    just_recovered: bool,
    /// To whom and for how long, while a worker's request is carried out.
    puller: Option<(WorkerName, Option<Millis>)>,
    granted: Vec<u64>,
    left: Vec<u64>,
    starts: Vec<(QueueName, i64)>,
}

impl Model {
    pub(crate) fn new(pushes_max: u32, unlimited: bool) -> Model {
        Model {
            now: i64::MIN,
            before: i64::MIN,
            jobs: Vec::new(),
            next_number: 1,
            queues: BTreeMap::new(),
            used: BTreeSet::new(),
            schedules: Vec::new(),
            handlers: BTreeSet::new(),
            draining: false,
            full: false,
            ticks_from: i64::MIN,
            ticks: 0,
            pushes: Pushes::new(pushes_max),
            succeeded: BTreeSet::new(),
            all_in_memory: true,
            unlimited,
            waiting: BTreeMap::new(),
            expected: BTreeMap::new(),
            just_recovered: false,
            puller: None,
            granted: Vec::new(),
            left: Vec::new(),
            starts: Vec::new(),
        }
    }

    /// The process died: what was only in its memory is gone.
    pub(crate) fn crash(&mut self) {
        let (jobs, schedules) = (std::mem::take(&mut self.jobs), self.schedules.clone());
        let (queues, used) = (self.queues.clone(), self.used.clone());
        let (next_number, starts) = (self.next_number, std::mem::take(&mut self.starts));
        let (ticks, just_recovered) = (self.ticks, true);
        let new = Model::new(self.pushes.max, self.unlimited);
        *self = Model {
            jobs,
            next_number,
            queues,
            used,
            schedules,
            ticks,
            just_recovered,
            starts,
            ..new
        };
    }

    /// Before the shard is called.
    pub(crate) fn begin(&mut self, now: i64, input: &Input) {
        self.before = self.before.max(self.now);
        if now < self.now {
            // The clock was set back; starts are as long ago as they were.
            let by = self.now - now;
            self.starts.iter_mut().for_each(|(_, at)| *at -= by);
        }
        self.now = now;
        self.pushes.time_is(now);
        if std::mem::take(&mut self.just_recovered) {
            self.settle_unknown();
        }
        match input {
            Input::Delivered { token, report, random } => self.report(*token, report, *random),
            Input::Handlers(names) => self.handlers = names.iter().cloned().collect(),
            Input::StoreFull(full) => self.full = *full,
            Input::Drain => self.draining = true,
            Input::Request { ticket, request } => self.request(*ticket, request),
            Input::Letter { ticket, request, .. } => {
                let request = request.as_ref().expect("the model writes what can be understood");
                self.request(*ticket, request);
            }
            Input::Tick
            | Input::Found { .. }
            | Input::Loaded { .. }
            | Input::Recalled { .. }
            | Input::Swept { .. } => {}
        }
    }

    fn request(&mut self, ticket: Ticket, request: &Request) {
        match request {
            Request::Submit(_) => match self.admit() {
                Ok(()) => drop(self.waiting.insert(ticket, request.clone())),
                Err(refusal) => drop(self.expected.insert(ticket, Expected::Refused(refusal))),
            },
            Request::Lease { worker, queues, max, lease } => {
                let jobs = self.all_in_memory.then(|| self.would_lease(queues, *max as usize));
                self.puller = Some((worker.clone(), *lease));
                self.expected.insert(ticket, Expected::Leased(jobs.flatten()));
            }
            Request::Show(_)
            | Request::Edit { .. }
            | Request::Cancel(_)
            | Request::Complete { .. }
            | Request::RunNow(_)
            | Request::Replay(_)
            | Request::Forget(_) => drop(self.waiting.insert(ticket, request.clone())),
            _ => {
                let expected = self.decide(request);
                self.expected.insert(ticket, expected);
            }
        }
    }

    /// What the shard did, in its order.
    pub(crate) fn see(&mut self, effect: &Effect) {
        match effect {
            Effect::Persist(change) => self.see_change(change),
            Effect::Reply { ticket, answer } => self.see_reply(*ticket, answer),
            Effect::Deliver(delivery) => {
                assert!(self.puller.is_none() || delivery.job.target != Target::Worker);
                self.left.push(delivery.job.number.0);
            }
            Effect::Abandon(_)
            | Effect::Wake(_)
            | Effect::Find(_)
            | Effect::Load { .. }
            | Effect::Recall { .. }
            | Effect::Notice(_) => {}
        }
    }

    fn see_change(&mut self, change: &Change) {
        match change {
            Change::LeasesGranted { first_token, holder, leases, .. } => {
                for (nth, lease) in (0..).zip(leases) {
                    let token = Token { counter: first_token.counter + nth, ..*first_token };
                    let until = lease.until.as_millis();
                    self.grant(lease.place.number.0, token, lease.attempt, until, holder);
                }
            }
            Change::JobFinished { job, finish, ended: None, .. }
                if finish.outcome == Outcome::Expired =>
            {
                self.see_expiry(job.number.0);
            }
            Change::JobMoved { ended: Some(ended), progress, .. }
                if ended.end == AttemptEnd::TimedOut =>
            {
                self.see_lease_end(ended.token, Some(progress.due_at.as_millis()));
            }
            Change::JobFinished { ended: Some(ended), .. } if ended.end == AttemptEnd::TimedOut => {
                self.see_lease_end(ended.token, None);
            }
            Change::JobPut { job, .. } if job.occurrence.is_some() => {
                let is_new = !self.jobs.iter().any(|known| known.number == job.number.0);
                is_new.then(|| self.tick());
            }
            // A tick that made no job. What a queue takes is judged when it comes.
            Change::OccurrenceRecorded { .. } => self.tick(),
            // Everything else follows from a request or a report, and is compared on disk.
            _ => {}
        }
    }

    fn see_reply(&mut self, ticket: Ticket, answer: &Result<Answer, Rejection>) {
        if let Some(request) = self.waiting.remove(&ticket) {
            let expected = self.decide(&request);
            self.expected.insert(ticket, expected);
        }
        let expected = self.expected.remove(&ticket).expect("an answer to a question");
        match (&expected, answer) {
            (Expected::Refused(expected), Err(rejection)) => {
                assert_eq!(plain(rejection.clone()), *expected);
            }
            (Expected::Job(expected), Ok(Answer::Submitted { view, .. } | Answer::Job(view))) => {
                assert_eq!(seen(view), *expected, "{}", view.job.name);
            }
            (Expected::Done, Ok(Answer::Done)) | (Expected::Anything, Ok(_)) => {}
            (Expected::Until(expected), Ok(Answer::Extended(until))) => {
                assert_eq!(until.as_millis(), *expected);
            }
            (Expected::Leased(expected), Ok(Answer::Leased(deliveries))) => {
                self.see_leased(expected.as_deref(), deliveries);
            }
            _ => panic!("expected {expected:?}, not {answer:?}"),
        }
    }

    fn see_leased(&mut self, expected: Option<&[u64]>, deliveries: &[Delivery]) {
        let numbers: Vec<u64> = deliveries.iter().map(|delivery| delivery.job.number.0).collect();
        if let Some(expected) = expected {
            assert_eq!(numbers, expected, "the jobs a worker got");
        }
        self.left.extend(numbers);
        self.puller = None;
    }

    /// After the shard was called: nothing that had to happen is missing.
    pub(crate) fn end(&mut self) {
        assert_eq!(std::mem::take(&mut self.granted), std::mem::take(&mut self.left));
        for job in &self.jobs {
            if let Life::Running { until, .. } = job.life {
                assert!(until > self.now, "the lease of {} is over", job.name);
            }
        }
        self.check_ticks();
        if !self.all_in_memory {
            return;
        }
        for job in self.jobs.iter().filter(|job| job.life == Life::Waiting) {
            let over = job.due <= self.now && job.expires_at.is_some_and(|at| at <= self.now);
            assert!(!over, "{} should have expired", job.name);
            let late = self.is_startable(job, self.now)
                && job.spec.target != Target::Worker
                && self.is_open_to(job)
                && self.setting(&job.name.queue).rate.is_none();
            assert!(!late, "{} should have been started", job.name);
        }
    }

    fn check_ticks(&mut self) {
        // Ticks that made no job were not seen.
        self.tick();
        self.ticks_from = self.ticks_from.min(self.now + 1_000);
        let due =
            self.schedules.iter().any(|schedule| schedule.next.is_some_and(|at| at <= self.now));
        if !due || self.draining || self.ticks_from > self.now {
            return;
        }
        assert!(self.full, "a tick was missed");
        self.ticks_from = self.now + 1_000;
    }

    fn grant(&mut self, number: u64, token: Token, attempt: u32, until: i64, holder: &WorkerName) {
        let job = self.live(number).clone();
        assert!(self.is_startable(&job, self.now), "{} is not for starting", job.name);
        assert!(self.is_open_to(&job), "a limit forbids {}", job.name);
        assert!(job.expires_at.is_none_or(|at| at > self.now), "{} is expired", job.name);
        assert_eq!(attempt, job.attempts + 1, "the attempt of {}", job.name);
        let span = match (&self.puller, &job.spec.target) {
            (Some((worker, lease)), Target::Worker) => {
                assert_eq!(holder, worker);
                lease.unwrap_or(job.spec.timeout).get()
            }
            (None, Target::Http(_) | Target::Handler(_)) => job.spec.timeout.get() + 5_000,
            other => panic!("{} goes the wrong way: {other:?}", job.name),
        };
        assert_eq!(until, self.now + span as i64, "the lease of {}", job.name);
        self.check_turn(&job);
        self.check_rate(&job.name.queue);
        self.live(number).life = Life::Running { token, attempt, until };
        self.granted.push(number);
    }

    /// First due, first out; with a small memory among those with a key, and among those without.
    /// A job that holds its key may be in memory where others are not yet.
    fn check_turn(&self, job: &Job) {
        if job.holds_key {
            return;
        }
        let promoted = if self.puller.is_some() { self.before.min(self.now) } else { self.now };
        let earlier = self.jobs.iter().find(|other| {
            other.place() < job.place()
                && other.name.queue == job.name.queue
                && lane(&other.spec.target) == lane(&job.spec.target)
                && (self.unlimited || other.name.key.is_some() == job.name.key.is_some())
                && self.is_startable(other, promoted)
                && self.is_registered(other)
                && other.expires_at.is_none_or(|at| at > self.now)
        });
        assert!(earlier.is_none(), "{} goes before {}", job.name, earlier.expect("one").name);
    }

    /// A full burst and a full refill are the most that fit into the time of a rate.
    fn check_rate(&mut self, queue: &QueueName) {
        self.starts.push((queue.clone(), self.now));
        let Some(rate) = self.setting(queue).rate else { return };
        let since = self.now - rate.per.get() as i64;
        let starts = self.starts.iter().filter(|(name, at)| name == queue && *at > since).count();
        assert!(starts <= 2 * rate.count as usize, "{queue} starts too fast");
    }

    pub(crate) fn forget_starts(&mut self, queue: &QueueName) {
        self.starts.retain(|(name, _)| name != queue);
    }

    /// What a worker would get, in order; not said for queues with a rate.
    fn would_lease(&self, queues: &[QueueName], max: usize) -> Option<Vec<u64>> {
        let mut copy = self.clone();
        let mut numbers = Vec::new();
        for queue in queues {
            copy.setting(queue).rate.is_none().then_some(())?;
            while numbers.len() < max && !copy.draining {
                let ready = copy.jobs.iter().filter(|job| {
                    job.name.queue == *queue
                        && job.spec.target == Target::Worker
                        && copy.is_startable(job, copy.before.min(copy.now))
                });
                let Some(job) = ready.min_by_key(|job| job.place()).cloned() else { break };
                let expired = job.expires_at.is_some_and(|at| at <= self.now);
                if !expired && !copy.is_open_to(&job) {
                    break;
                }
                let (token, attempt, until) = (ANY_TOKEN, 1, i64::MAX);
                copy.live(job.number).life = Life::Running { token, attempt, until };
                if expired {
                    copy.jobs.retain(|other| other.number != job.number);
                } else {
                    numbers.push(job.number);
                }
            }
        }
        Some(numbers)
    }

    /// Whether nothing but a worker or a limit of its queue keeps the job from starting.
    fn is_startable(&self, job: &Job, promoted: i64) -> bool {
        if job.life != Life::Waiting || job.due > promoted {
            return false;
        }
        if job.name.key.is_none() || job.holds_key {
            return true;
        }
        let same_key = |other: &&Job| {
            other.number != job.number
                && other.name.queue == job.name.queue
                && other.name.key == job.name.key
        };
        !self.jobs.iter().filter(same_key).any(|other| match other.life {
            Life::Running { .. } => true,
            Life::Waiting => other.holds_key || other.place() < job.place(),
            Life::Ended { .. } => false,
        })
    }

    /// Whether the limits let a job of this kind start.
    fn is_open_to(&self, job: &Job) -> bool {
        let running = |test: &dyn Fn(&Job) -> bool| {
            let is_running = |job: &&Job| matches!(job.life, Life::Running { .. });
            self.jobs.iter().filter(is_running).filter(|job| test(job)).count()
        };
        let settings = self.setting(&job.name.queue);
        let here = running(&|other| other.name.queue == job.name.queue);
        let pushes = running(&|other| matches!(other.spec.target, Target::Http(_)));
        !self.draining
            && !settings.paused_out
            && settings.concurrency.is_none_or(|max| here < max as usize)
            && self.is_registered(job)
            && (lane(&job.spec.target) != 1 || pushes < self.pushes.room())
    }

    fn is_registered(&self, job: &Job) -> bool {
        match &job.spec.target {
            Target::Handler(name) => self.handlers.contains(name),
            Target::Worker | Target::Http(_) => true,
        }
    }

    fn see_expiry(&mut self, number: u64) {
        let now = self.now;
        let job = self.live(number);
        assert!(job.life == Life::Waiting && job.due <= now, "{} has not had its time", job.name);
        assert!(job.expires_at.is_some_and(|at| at <= now), "{} is not expired", job.name);
        self.finish(number, Outcome::Expired);
    }

    fn see_lease_end(&mut self, token: Token, due: Option<i64>) {
        let Some(job) = self.running(token) else { return };
        let Life::Running { until, .. } = job.life else { unreachable!("it runs") };
        assert!(until <= self.now, "the lease of {} is not over", job.name);
        // Nobody brought a number for the jitter: what was chosen must lie within it.
        let number = job.number;
        let (retry_after, permanent, jitter) = (None, false, None);
        let failure = Failure { retry_after, permanent, unseen: true, jitter };
        self.fail(number, &failure, due);
    }

    /// Pushes under way when the process died are handed out again, or parked, or buried.
    fn settle_unknown(&mut self) {
        let numbers: Vec<u64> = self.jobs.iter().map(|job| job.number).collect();
        for number in numbers {
            let Some(job) = self.jobs.iter_mut().find(|job| job.number == number) else { continue };
            if !matches!(job.life, Life::Running { .. }) || job.spec.target == Target::Worker {
                continue;
            }
            let crashes = job.crashes + 1;
            let deadly = crashes >= 3 && matches!(job.spec.target, Target::Handler(_));
            if deadly || job.spec.on_unknown == OnUnknown::Park {
                self.finish(number, Outcome::Dead);
            } else {
                job.crashes = crashes;
                self.wait_again(number);
            }
        }
    }

    fn report(&mut self, token: Token, report: &Report, random: u64) {
        let Some(job) = self.running(token).cloned() else { return };
        let (number, now) = (job.number, self.now);
        self.pushes.note(&job.spec.target, report);
        match report {
            Report::Succeeded { .. } => self.succeed(number),
            Report::Failed { retry_after, permanent, .. } => {
                let cap = self.live(number).spec.retry.cap;
                let retry_after = retry_after.map(|span| span.min(cap).get() as i64);
                let (permanent, jitter) = (*permanent, Some(random));
                let unseen = false;
                self.fail(number, &Failure { retry_after, permanent, unseen, jitter }, None);
            }
            Report::TimedOut | Report::Unanswered { .. } => self.lose_sight(number, random),
            Report::CutShort if self.live(number).spec.on_unknown == OnUnknown::Park => {
                self.lose_sight(number, random);
            }
            Report::Unregistered => {
                self.live(number).due = now + 5_000;
                self.wait_again(number);
            }
            Report::PutOff { delay, .. } => self.put_off(number, now + delay.get() as i64),
            Report::Released | Report::CutShort => self.wait_again(number),
        }
    }

    fn lose_sight(&mut self, number: u64, random: u64) {
        let (retry_after, permanent, jitter) = (None, false, Some(random));
        self.fail(number, &Failure { retry_after, permanent, unseen: true, jitter }, None);
    }

    pub(crate) fn running(&self, token: Token) -> Option<&Job> {
        let is_it =
            |job: &&Job| matches!(job.life, Life::Running { token: own, .. } if own == token);
        self.jobs.iter().find(is_it)
    }

    pub(crate) fn live(&mut self, number: u64) -> &mut Job {
        let is_it =
            |job: &&mut Job| job.number == number && !matches!(job.life, Life::Ended { .. });
        self.jobs.iter_mut().find(is_it).expect("a live job")
    }

    pub(crate) fn setting(&self, queue: &QueueName) -> QueueSettings {
        self.queues.get(queue).cloned().unwrap_or_default()
    }
}

const ANY_TOKEN: Token =
    Token { shard: hence_core::id::ShardId(0), epoch: hence_core::id::Epoch(0), counter: 0 };

impl Job {
    pub(crate) fn place(&self) -> (i64, u64) {
        (self.due, self.number)
    }

    pub(crate) fn seen(&self) -> Seen {
        let (state, token) = match self.life {
            Life::Waiting => (JobState::Scheduled, None),
            Life::Running { token, .. } => (JobState::Running, Some(token)),
            Life::Ended { outcome, .. } => (outcome.state(), None),
        };
        let (number, due, attempts) = (self.number, self.due, self.attempts);
        Seen { number, state, due, attempts, token }
    }
}

fn seen(view: &JobView) -> Seen {
    Seen {
        number: view.job.number.0,
        state: if view.state == JobState::Ready { JobState::Scheduled } else { view.state },
        due: view.progress.due_at.as_millis(),
        attempts: view.progress.attempts,
        token: view.lease.as_ref().map(|lease| lease.token),
    }
}

/// Ready and scheduled are one here too.
fn plain(rejection: Rejection) -> Rejection {
    match rejection {
        Rejection::WrongState { state: "ready", hint } => {
            Rejection::WrongState { state: "scheduled", hint }
        }
        other => other,
    }
}

fn lane(target: &Target) -> u8 {
    match target {
        Target::Worker => 0,
        Target::Http(_) => 1,
        Target::Handler(_) => 2,
    }
}
