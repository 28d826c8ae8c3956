//! A random history that makes sense: every change speaks of jobs that are there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hence_core::id::{JobName, QueueName, Token};
use hence_core::job::{AttemptEnd, Finish, Job, Outcome, Progress};
use hence_core::queue::{Counts, QueueSettings};
use hence_core::schedule::ScheduleState;
use hence_core::time::{Millis, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::build::{
    advanced, at, attempt_record, finished_place, name, named, occurrence, payload, queue,
    schedule, schedule_id, token, worker,
};
use crate::{Change, LeaseGrant, Place};

/// What a core would know, reduced to what makes changes valid.
pub(super) struct History {
    dice: StdRng,
    now: Timestamp,
    number: u64,
    token: u64,
    minute: i64,
    jobs: BTreeMap<JobName, State>,
    schedules: BTreeSet<String>,
}

#[derive(Clone)]
enum State {
    Live { job: Job, progress: Progress, lease: Option<Token> },
    Finished { job: Job, finish: Finish },
}

const QUEUES: [&str; 3] = ["a", "a.b", "b"];
const KEYS: [Option<&str>; 3] = [None, Some("k"), Some("k/x")];
const IDS: [&str; 5] = ["1", "2", "k", "x", "x/1"];

impl History {
    pub(super) fn new(seed: u64) -> Self {
        let dice = StdRng::seed_from_u64(seed);
        let (jobs, schedules) = (BTreeMap::new(), BTreeSet::new());
        History { dice, now: at(0), number: 0, token: 0, minute: 0, jobs, schedules }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// Every name there can be.
    pub(super) fn names() -> Vec<JobName> {
        let mut names = Vec::new();
        for queue_name in QUEUES {
            for key_name in KEYS {
                names.extend(IDS.map(|id| name(queue_name, key_name, id)));
            }
        }
        names
    }

    /// Any counts: an engine only keeps them.
    pub(super) fn counts(&self) -> Vec<(QueueName, Counts)> {
        let nth = self.number as usize % QUEUES.len();
        let counts = Counts { pending: self.number, running: self.token, ..Counts::default() };
        vec![(queue(QUEUES[nth]), counts)]
    }

    /// The next changes; some time passes before them.
    pub(super) fn batch(&mut self) -> Vec<Change> {
        let pause = self.dice.random_range(0..50);
        self.now = self.now.plus(Millis::new(pause));
        let changes = self.dice.random_range(0..6);
        (0..changes).filter_map(|_| self.change()).collect()
    }

    fn change(&mut self) -> Option<Change> {
        match self.dice.random_range(0..20) {
            0 => Some(self.schedule_change()),
            1 => Some(self.queue_change()),
            2 | 3 => self.leases(),
            _ => Some(self.job_change()),
        }
    }

    fn job_change(&mut self) -> Change {
        let names = Self::names();
        let name = names[self.dice.random_range(0..names.len())].clone();
        match self.jobs.get(&name).cloned() {
            Some(State::Live { job, progress, lease }) => self.live_change(job, progress, lease),
            Some(State::Finished { job, finish }) if finish.keep_until > self.now => {
                self.finished_change(job, &finish)
            }
            // A namesake whose time is up cannot be seen, and is not spoken of.
            Some(State::Finished { .. }) | None => {
                let job = self.new_job(name);
                self.put(job, None, None)
            }
        }
    }

    fn new_job(&mut self, name: JobName) -> Job {
        self.number += 1;
        let mut bytes = vec![0; self.dice.random_range(0..200)];
        self.dice.fill(bytes.as_mut_slice());
        let (payload, scheduled_for) = (payload(&bytes), self.some_time());
        Job { payload, scheduled_for, ..named(self.number, name) }
    }

    fn some_time(&mut self) -> Timestamp {
        at(self.dice.random_range(-50..20_000))
    }

    fn put(
        &mut self,
        job: Job,
        replaces: Option<Place>,
        revives: Option<crate::FinishedPlace>,
    ) -> Change {
        let progress = Progress::fresh(job.scheduled_for);
        let live = State::Live { job: job.clone(), progress, lease: None };
        self.jobs.insert(job.name.clone(), live);
        Change::JobPut { job: Arc::new(job), progress, replaces, revives }
    }

    fn live_change(&mut self, job: Job, progress: Progress, lease: Option<Token>) -> Change {
        let place = Place { due_at: progress.due_at, number: job.number };
        match (self.dice.random_range(0..6), lease) {
            (0, _) => {
                let new = self.new_job(job.name);
                self.put(new, Some(place), None)
            }
            (1, None) => {
                let scheduled_for = self.some_time();
                self.put(Job { scheduled_for, ..job }, Some(place), None)
            }
            (1 | 2, Some(token)) => {
                let until = self.some_time();
                Change::LeaseExtended { queue: job.name.queue, place, token, until }
            }
            (2 | 3, _) => self.moved(job, progress, lease),
            _ => self.finished(job, progress, lease),
        }
    }

    fn moved(&mut self, job: Job, from: Progress, lease: Option<Token>) -> Change {
        let progress = Progress {
            due_at: self.some_time(),
            attempts: from.attempts + u32::from(lease.is_some()),
            crashes: self.dice.random_range(0..3),
            holds_key: self.dice.random(),
        };
        let live = State::Live { job: job.clone(), progress, lease: None };
        self.jobs.insert(job.name.clone(), live);
        let ended = lease.map(|_| Box::new(attempt_record(progress.attempts, AttemptEnd::Failed)));
        Change::JobMoved { job: Arc::new(job), from: from.due_at, progress, ended }
    }

    fn finished(&mut self, job: Job, progress: Progress, lease: Option<Token>) -> Change {
        let kept = [0, 1, 500, 100_000][self.dice.random_range(0..4)];
        let finish = Finish {
            outcome: Outcome::ALL[self.dice.random_range(0..4)],
            at: self.now,
            reason: self.dice.random_bool(0.5).then(|| Arc::from("a reason")),
            result: self.dice.random_bool(0.5).then(|| payload(b"a result")),
            keep_until: self.now.plus(Millis::new(kept)),
        };
        let state = State::Finished { job: job.clone(), finish: finish.clone() };
        self.jobs.insert(job.name.clone(), state);
        let keep_payload = self.dice.random();
        let ended = lease.map(|_| attempt_record(progress.attempts + 1, AttemptEnd::TimedOut));
        let (finish, ended) = (Box::new(finish), ended.map(Box::new));
        Change::JobFinished { job: Arc::new(job), progress, finish, ended, keep_payload }
    }

    fn finished_change(&mut self, job: Job, finish: &Finish) -> Change {
        let place = finished_place(&job, finish);
        match self.dice.random_range(0..3) {
            0 => {
                self.jobs.remove(&job.name);
                Change::JobForgotten { job: Arc::new(job), place }
            }
            1 => {
                let new = self.new_job(job.name);
                self.put(new, None, Some(place))
            }
            _ => self.put(job, None, Some(place)),
        }
    }

    /// Hands out up to five waiting jobs, whatever their queue.
    fn leases(&mut self) -> Option<Change> {
        let until = self.some_time();
        let first_token = token(self.token);
        let mut leases = Vec::new();
        for state in self.jobs.values_mut() {
            let State::Live { job, progress, lease: lease @ None } = state else { continue };
            if leases.len() == 5 || self.dice.random_bool(0.5) {
                continue;
            }
            *lease = Some(token(self.token));
            self.token += 1;
            let place = Place { due_at: progress.due_at, number: job.number };
            let (queue, attempt) = (job.name.queue.clone(), progress.attempts + 1);
            leases.push(LeaseGrant { queue, place, attempt, until });
        }
        let change = Change::LeasesGranted { first_token, holder: worker(), at: self.now, leases };
        (self.token > first_token.counter).then_some(change)
    }

    fn schedule_change(&mut self) -> Change {
        let id = format!("s{}", self.dice.random_range(0..4));
        self.minute += 1;
        let known = self.schedules.contains(&id);
        match self.dice.random_range(0..6) {
            0 if known => {
                self.schedules.remove(&id);
                Change::ScheduleRemoved { id: schedule_id(&id) }
            }
            choice if choice <= 2 || !known => {
                self.schedules.insert(id.clone());
                let progress = advanced(&id, self.minute as u64);
                let state = ScheduleState { progress, ..schedule(&id) };
                Change::SchedulePut { state: state.into() }
            }
            3 => {
                let before = at((self.minute - 3) * 60_000);
                Change::LedgerForgotten { schedule: schedule_id(&id), before }
            }
            _ => Change::OccurrenceRecorded { record: occurrence(&id, self.minute) },
        }
    }

    fn queue_change(&mut self) -> Change {
        let name = queue(QUEUES[self.dice.random_range(0..QUEUES.len())]);
        let concurrency = Some(self.dice.random_range(1..9));
        Change::QueuePut {
            name,
            settings: QueueSettings { concurrency, ..QueueSettings::default() },
        }
    }
}
