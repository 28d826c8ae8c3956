//! Runs a history on a shard and on the model, and compares them after every step. At the end
//! everything is let go: whatever is still alive must then come to an end.

use std::collections::BTreeMap;

use hence_core::change::Change;
use hence_core::effect::Effect;
use hence_core::id::{HandlerName, JobNumber, LetterId, QueueName, ScheduleId, Token, WorkerName};
use hence_core::input::{Edit, Input, Report, Request};
use hence_core::job::{JobSpec, Target};
use hence_core::queue::QueueSettings;
use hence_core::schedule::{Pause, Schedule};
use hence_core::shard::Config;
use hence_core::time::{Millis, Timestamp};

use super::history::{HANDLERS, History, Move, Step, TICK_MS, Verb};
use super::naive::{Job, Life, Model};
use crate::support::draft::{self, ms, payload, queue_name};
use crate::support::verbs::{every, schedule, schedule_id};
use crate::support::{Answering, World, at, config};

pub(crate) fn check(history: &History) {
    let mut run = Run::new(history, 0);
    for step in &history.steps {
        run.step(step);
    }
    run.let_go();
}

/// All that comes out of a shard whose maps are seeded with this.
pub(crate) fn effects_of(history: &History, hash_seed: u64) -> Vec<Effect> {
    let mut run = Run::new(history, hash_seed);
    run.recording = Some(Vec::new());
    for step in &history.steps {
        run.step(step);
    }
    run.recording.unwrap_or_default()
}

/// A step of time in which many things become due.
const HOUR_MS: i64 = 3_600_000;

struct Run {
    world: World,
    model: Model,
    /// Every token there was, for answers on time and for late ones.
    tokens: Vec<Token>,
    unlimited: bool,
    /// How often a schedule was removed. Put again it has another name here: with the clock set
    /// back it would make jobs that were made.
    removals: BTreeMap<ScheduleId, u64>,
    recording: Option<Vec<Effect>>,
}

impl Run {
    fn new(history: &History, hash_seed: u64) -> Run {
        let config = Config {
            window_jobs: history.window_jobs,
            window_bytes: history.window_bytes,
            pushes_max: history.pushes_max,
            dead_retention: Millis::from_secs(3650 * 24 * 3600),
            hash_seed,
            ..config()
        };
        let mut world = World::new(config);
        world.now = at(1_000_000);
        world.answering = Answering::Late(history.seed);
        let unlimited = history.window_jobs > 1_000 && history.window_bytes > 1_000;
        let model = Model::new(history.pushes_max, unlimited);
        let removals = BTreeMap::new();
        Run { world, model, tokens: Vec::new(), unlimited, removals, recording: None }
    }

    fn step(&mut self, step: &Step) {
        self.answer();
        if let Step::Crash(lost) = step {
            if let Some(input) = lost.as_deref().and_then(|step| self.input(step)) {
                self.world.feed_and_lose(input);
            }
            return self.crash();
        }
        if let Some(input) = self.input(step) {
            self.feed(input);
        }
    }

    /// The store's answers that have arrived by now.
    fn answer(&mut self) {
        self.world.store_step();
        while let Some(input) = self.world.next_answer() {
            self.feed(input);
        }
    }

    fn crash(&mut self) {
        self.world.recover();
        self.model.crash();
        self.feed(Input::Tick);
    }

    fn feed(&mut self, input: Input) {
        self.model.all_in_memory = self.unlimited && self.world.questions.is_empty();
        self.model.begin(self.world.now.as_millis(), &input);
        self.world.feed(input);
        self.model.all_in_memory = self.unlimited && !self.world.is_loading();
        for effect in &self.world.effects {
            self.model.see(effect);
            if let Effect::Persist(Change::LeasesGranted { first_token, leases, .. }) = effect {
                let counters = first_token.counter..first_token.counter + leases.len() as u64;
                self.tokens.extend(counters.map(|counter| Token { counter, ..*first_token }));
            }
        }
        self.model.end();
        self.compare();
        if let Some(recording) = &mut self.recording {
            recording.append(&mut self.world.effects);
        }
    }

    /// What the step means now.
    fn input(&mut self, step: &Step) -> Option<Input> {
        let now = self.world.now;
        let request = match step {
            Step::Submit(submission, due_in) => {
                let mut submission = submission.clone();
                submission.due_at = at(now.as_millis() + due_in);
                Request::Submit(Box::new(submission))
            }
            Step::Ask(verb, name) => {
                let name = name.clone();
                match verb {
                    Verb::Show => Request::Show(name),
                    Verb::Cancel => Request::Cancel(name),
                    // Now and then one that was, under this name, is meant.
                    Verb::Complete => {
                        let number = self.model.number_of(&name)?;
                        let request = Ok(Request::Complete { name, number, result: None });
                        let (ticket, id) = (self.world.ticket(), LetterId(number.0));
                        return Some(Input::Letter { ticket, id, request });
                    }
                    Verb::RunNow => Request::RunNow(name),
                    Verb::Replay => Request::Replay(name),
                    Verb::Forget => Request::Forget(name),
                }
            }
            Step::Edit { name, due_in, payload: text, target } => {
                let edit = Edit {
                    due_at: due_in.map(|due_in| at(now.as_millis() + due_in)),
                    payload: text.as_deref().map(payload),
                    target: target.clone(),
                    ..Edit::default()
                };
                Request::Edit { name: name.clone(), edit: Box::new(edit) }
            }
            Step::Lease { queues, max, lease } => lease_request(queues.clone(), *max, *lease),
            Step::Extend { nth, lease } => {
                Request::Extend { token: self.token(*nth)?, lease: *lease }
            }
            Step::Ack { nth } => Request::Ack { token: self.token(*nth)?, result: None },
            Step::Nack { nth, how, random } => {
                let (token, how, random) = (self.token(*nth)?, *how, *random);
                Request::Nack { token, reason: None, how, random }
            }
            Step::PutQueue { queue, settings } => {
                Request::PutQueue { name: queue.clone(), settings: settings.clone() }
            }
            Step::RemoveQueue(queue) => Request::RemoveQueue(queue.clone()),
            Step::PutSchedule { .. }
            | Step::RemoveSchedule(_)
            | Step::PauseSchedule(..)
            | Step::Trigger(_) => self.schedule_request(step),
            Step::Report { .. }
            | Step::Time(_)
            | Step::Handlers(_)
            | Step::StoreFull(_)
            | Step::Drain
            | Step::Crash(_) => return self.other_input(step),
        };
        Some(Input::Request { ticket: self.world.ticket(), request })
    }

    fn other_input(&mut self, step: &Step) -> Option<Input> {
        match step {
            Step::Report { nth, report, random } => {
                let (token, report) = (self.token(*nth)?, report.clone());
                Some(Input::Delivered { token, report, random: *random })
            }
            Step::Time(moves) => {
                self.world.now = self.moved(*moves);
                Some(Input::Tick)
            }
            Step::Handlers(names) => Some(Input::Handlers(names.clone())),
            Step::StoreFull(full) => Some(Input::StoreFull(*full)),
            Step::Drain => Some(Input::Drain),
            other => unreachable!("{other:?} is a request"),
        }
    }

    fn schedule_request(&mut self, step: &Step) -> Request {
        let now = self.world.now.as_millis();
        match step {
            Step::PutSchedule { id, key, paused, ticks, late_by } => {
                let start = (now / TICK_MS - late_by) * TICK_MS;
                let schedule = Box::new(Schedule {
                    id: self.schedule_id(id),
                    plan: every(start, ticks * TICK_MS as u64),
                    queue: queue_name("mail"),
                    key: key.then(|| draft::name("k/x").key).flatten(),
                    template: JobSpec::new(Target::Worker),
                    paused: paused.then(|| Pause { note: "".into(), since: at(now) }),
                    ..schedule("s", 0, 1_000)
                });
                Request::PutSchedule { schedule, wake: false }
            }
            Step::RemoveSchedule(id) => {
                let removed = Request::RemoveSchedule(self.schedule_id(id));
                *self.removals.entry(id.clone()).or_default() += 1;
                removed
            }
            Step::PauseSchedule(id, paused) => {
                let (id, note) = (self.schedule_id(id), "".into());
                if *paused {
                    Request::PauseSchedule { id, note }
                } else {
                    Request::ResumeSchedule(id)
                }
            }
            Step::Trigger(id) => {
                // Never at a tick, nor twice at one instant: those would be one job.
                self.world.now = at(self.model.before.max(self.model.now).max(now) + 1);
                if self.world.now.as_millis() % TICK_MS == 0 {
                    self.world.now = at(self.world.now.as_millis() + 1);
                }
                Request::TriggerSchedule(self.schedule_id(id))
            }
            other => unreachable!("{other:?} is not about a schedule"),
        }
    }

    fn schedule_id(&self, id: &ScheduleId) -> ScheduleId {
        let removals = self.removals.get(id).copied().unwrap_or_default();
        schedule_id(&format!("{id}{removals}"))
    }

    /// A token: most often a recent one.
    fn token(&self, nth: u64) -> Option<Token> {
        let back = if nth.is_multiple_of(4) { nth / 4 } else { (nth / 4) % 3 };
        let count = self.tokens.len() as u64;
        (count > 0).then(|| self.tokens[(count - 1 - back % count) as usize])
    }

    fn moved(&self, moves: Move) -> Timestamp {
        let now = self.world.now;
        let deadline = self.world.shard.deadline().unwrap_or(now).max(now);
        match moves {
            Move::ToDeadline => deadline,
            Move::JustBeforeDeadline => deadline.minus(ms(1)).max(now),
            Move::By(millis) => at((now.as_millis() + millis).max(0)),
        }
    }

    /// The disk and the model hold the same.
    fn compare(&self) {
        let disk = &self.world.disk;
        let (mut live, mut kept) = (0, 0);
        for job in &self.model.jobs {
            match job.life {
                Life::Waiting | Life::Running { .. } => {
                    live += 1;
                    compare_live(job, disk.live.get(&JobNumber(job.number)));
                }
                Life::Ended { outcome, at, kept: true } => {
                    kept += 1;
                    let done = disk.finished.get(&JobNumber(job.number));
                    let done = done.unwrap_or_else(|| panic!("{} is not kept", job.name));
                    assert_eq!(done.finish.outcome, outcome, "{}", job.name);
                    assert_eq!(done.finish.at.as_millis(), at, "{}", job.name);
                    assert_eq!(done.progress.attempts, job.attempts, "{}", job.name);
                }
                Life::Ended { .. } => {}
            }
        }
        assert_eq!((disk.live.len(), disk.finished.len()), (live, kept), "jobs on disk");
        assert_eq!(disk.ticks(), self.model.ticks, "ticks accounted for");
        assert_eq!(disk.schedules.len(), self.model.schedules.len());
        for schedule in &self.model.schedules {
            let state = &disk.schedules[&schedule.id];
            let state = &state.progress;
            let stored = (state.next_at.map(Timestamp::as_millis), state.fired);
            assert_eq!(stored, (schedule.next, schedule.fired), "{}", schedule.id);
            assert_eq!(state.last_at.map(Timestamp::as_millis), schedule.last, "{}", schedule.id);
        }
    }

    /// Lifts every limit and lets all jobs succeed. None may be left behind.
    fn let_go(&mut self) {
        self.crash();
        let ids: Vec<_> = self.model.schedules.iter().map(|schedule| schedule.id.clone()).collect();
        for id in ids {
            self.ask(Request::RemoveSchedule(id));
        }
        let queues: Vec<QueueName> = ["mail", "work"].map(queue_name).into();
        for name in queues.clone() {
            self.ask(Request::PutQueue { name, settings: QueueSettings::default() });
        }
        // However many wait for a worker, or for a handler, what needs none goes on without.
        // While a handler is missing, a deadline is never far: time takes large steps.
        let with_one: fn(&_) -> _ = is_on_its_own_with_one;
        for (count, which, then) in
            [(1, with_one, Move::By(HOUR_MS)), (2, is_on_its_own, Move::ToDeadline)]
        {
            let names = HANDLERS.iter().map(|name| HandlerName::new(name).expect("a good name"));
            self.feed(Input::Handlers(names.take(count).collect()));
            for _ in 0..1_000 {
                if !self.world.disk.live.values().any(|live| which(&live.job)) {
                    break;
                }
                self.go_on(which, then);
            }
            let left = self.world.disk.live.values().find(|live| which(&live.job));
            assert!(left.is_none(), "held up by others: {left:?}");
        }
        for _ in 0..1_000 {
            if self.world.disk.live.is_empty() {
                return self.check_empty(&queues);
            }
            self.ask(lease_request(queues.clone(), 10, None));
            self.go_on(|_| true, Move::ToDeadline);
        }
        panic!("jobs are left behind: {:?}", self.world.disk.live);
    }

    /// Whatever runs of these jobs succeeds, and time passes.
    fn go_on(&mut self, which: fn(&hence_core::job::Job) -> bool, then: Move) {
        self.answer();
        let ours = self.world.disk.live.values().filter(|live| which(&live.job));
        let running = ours.filter_map(|live| live.lease.clone());
        let tokens: Vec<Token> = running.map(|lease| lease.token).collect();
        for token in tokens {
            let report = Report::Succeeded { result: None };
            self.feed(Input::Delivered { token, report, random: 0 });
        }
        if self.world.questions.is_empty() {
            self.world.now = self.moved(then);
            self.feed(Input::Tick);
        }
    }

    /// Nothing of the jobs that were is left in memory.
    fn check_empty(&mut self, queues: &[QueueName]) {
        for queue in queues {
            let view = self.world.queue(queue.as_str());
            assert_eq!((view.ready, view.in_memory), (0, 0), "{queue}");
        }
    }

    fn ask(&mut self, request: Request) {
        let ticket = self.world.ticket();
        self.feed(Input::Request { ticket, request });
    }
}

/// Whether it needs neither a worker nor the jobs before it.
fn is_on_its_own(job: &hence_core::job::Job) -> bool {
    job.target != Target::Worker && job.name.key.is_none()
}

/// The same while only the first handler is registered.
fn is_on_its_own_with_one(job: &hence_core::job::Job) -> bool {
    let is_there = |name: &HandlerName| name.as_str() == HANDLERS[0];
    is_on_its_own(job) && !matches!(&job.target, Target::Handler(name) if !is_there(name))
}

fn lease_request(queues: Vec<QueueName>, max: u32, lease: Option<Millis>) -> Request {
    Request::Lease { worker: WorkerName::new("worker").expect("a good name"), queues, max, lease }
}

fn compare_live(job: &Job, stored: Option<&crate::support::disk::LiveJob>) {
    let stored = stored.unwrap_or_else(|| panic!("{} is not live", job.name));
    assert_eq!(stored.job.name, job.name);
    assert_eq!(stored.job.payload, job.spec.payload, "{}", job.name);
    assert_eq!(stored.job.target, job.spec.target, "{}", job.name);
    assert_eq!(stored.job.scheduled_for.as_millis(), job.scheduled_for, "{}", job.name);
    assert_eq!(stored.job.expires_at.map(Timestamp::as_millis), job.expires_at, "{}", job.name);
    let progress = &stored.progress;
    let stored_progress =
        (progress.due_at.as_millis(), progress.attempts, progress.crashes, progress.holds_key);
    let own = (job.due, job.attempts, job.crashes, job.holds_key);
    assert_eq!(stored_progress, own, "{} (due, attempts, crashes, holds its key)", job.name);
    let lease = stored.lease.as_ref();
    let stored_lease = lease.map(|lease| (lease.token, lease.attempt, lease.until.as_millis()));
    let own = match job.life {
        Life::Running { token, attempt, until } => Some((token, attempt, until)),
        Life::Waiting | Life::Ended { .. } => None,
    };
    assert_eq!(stored_lease, own, "the lease of {}", job.name);
}
