//! A world for the pure core: a clock moved by hand, a disk that holds what was persisted and
//! nothing else, and targets that are lists. What every history must keep is checked here, in
//! every test: see [`World::feed`].
#![expect(dead_code, reason = "each test binary uses its own part of the world")]

pub(crate) mod disk;
pub(crate) mod draft;
pub(crate) mod rng;
pub(crate) mod verbs;

use std::collections::BTreeMap;

use hence_core::change::{Change, Place};
use hence_core::effect::{Answer, Delivery, Effect, Notice};
use hence_core::error::Rejection;
use hence_core::id::{Epoch, JobName, QueueName, ScheduleId, ShardId, Token, WorkerName};
use hence_core::input::{Input, Request, Ticket};
use hence_core::limits;
use hence_core::shard::{Config, Shard};
use hence_core::time::Timestamp;

use disk::Disk;
use rng::Rng;

/// What a request is answered with.
pub(crate) type Reply = Result<Answer, Rejection>;

/// What time may make in one call: a portion before and one after what was taken in, and each may
/// end with a payload and a result.
const TICK_BYTES_MAX: usize = 2 * limits::FACT_BYTES_PER_CALL_MAX + 5 * limits::PAYLOAD_BYTES_MAX;

/// An instant, in milliseconds.
pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// The settings most scenarios run under.
pub(crate) fn config() -> Config {
    Config::new(WorkerName::new("node").expect("a good name"))
}

/// Settings under which a queue keeps so many jobs in memory.
pub(crate) fn window(jobs: usize) -> Config {
    Config { window_jobs: jobs, ..config() }
}

/// When the store's answers come.
pub(crate) enum Answering {
    /// Before anything else happens.
    AtOnce,
    /// When the test says so.
    ByHand,
    /// After some steps, by this seed: the store reads on the way, and its answer is late.
    Late(u64),
}

/// Something the store was asked for.
pub(crate) struct Question {
    about: About,
    /// Steps until the store reads, and until its answer is there.
    read_in: u64,
    answer_in: u64,
    /// What was read.
    answer: Option<Input>,
}

enum About {
    Name(JobName),
    Page { queue: QueueName, after: Place, limit: usize },
    Ledger { schedule: ScheduleId, range: (Timestamp, Timestamp), limit: usize },
}

/// One node with one shard, and everything around it.
pub(crate) struct World {
    /// The hand-moved clock.
    pub(crate) now: Timestamp,
    pub(crate) shard: Shard,
    pub(crate) disk: Disk,
    pub(crate) config: Config,
    pub(crate) answering: Answering,
    pub(crate) questions: Vec<Question>,
    pub(crate) replies: BTreeMap<Ticket, Reply>,
    /// Every delivery of this node's own that left, in order.
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) abandoned: Vec<Token>,
    pub(crate) woken: Vec<QueueName>,
    pub(crate) notices: Vec<Notice>,
    /// What came out of the last step, in order.
    pub(crate) effects: Vec<Effect>,
    epoch: u32,
    tickets: u64,
    last_token: Option<Token>,
}

impl World {
    pub(crate) fn new(config: Config) -> World {
        let disk = Disk::default();
        let shard = Shard::recover(ShardId(0), Epoch(1), config.clone(), disk.snapshot());
        World {
            now: at(0),
            shard,
            disk,
            config,
            answering: Answering::AtOnce,
            questions: Vec::new(),
            replies: BTreeMap::new(),
            deliveries: Vec::new(),
            abandoned: Vec::new(),
            woken: Vec::new(),
            notices: Vec::new(),
            effects: Vec::new(),
            epoch: 1,
            tickets: 0,
            last_token: None,
        }
    }

    /// Feeds one input and carries out what comes of it. Checks on the way that nothing leaves
    /// before it is durable, nothing before its time, tokens grow, a key is held once, counts
    /// are right, and the shard asks to be called again at once only while it gets on.
    pub(crate) fn feed(&mut self, input: Input) {
        self.effects.clear();
        self.step(input);
        while self.shard.deadline().is_some_and(|at| at <= self.now) {
            let before = self.effects.len();
            self.step(Input::Tick);
            let deadline = self.shard.deadline();
            assert!(self.effects.len() > before, "called again at once: {deadline:?}");
        }
        if let Answering::AtOnce = self.answering {
            self.answer_all();
        }
    }

    /// One call of the shard, and what comes of it.
    fn step(&mut self, input: Input) {
        let asked = !matches!(input, Input::Tick);
        self.shard.handle(self.now, input);
        let bytes = self.shard.fact_bytes();
        assert!(asked || bytes < TICK_BYTES_MAX, "time alone made {bytes} bytes of facts");
        let before = self.effects.len();
        while let Some(effect) = self.shard.poll_effect() {
            self.carry_out(&effect);
            self.effects.push(effect);
        }
        assert_eq!(self.shard.fact_bytes(), 0, "all were polled");
        let of_ticks =
            |effect: &&Effect| matches!(effect, Effect::Persist(Change::OccurrenceRecorded { .. }));
        let ticks = self.effects[before..].iter().filter(of_ticks).count();
        assert!(ticks <= 2 * limits::TICKS_PER_CALL_MAX + 1, "{ticks} ticks in one call");
        for (queue, counts) in self.shard.take_counts() {
            self.disk.count(queue, counts);
        }
        self.disk.next_number = self.shard.next_number();
        self.disk.check_counts();
    }

    /// Feeds an input whose effects are lost: the process dies before they are durable.
    pub(crate) fn feed_and_lose(&mut self, input: Input) {
        self.shard.handle(self.now, input);
    }

    fn carry_out(&mut self, effect: &Effect) {
        match effect {
            Effect::Persist(change) => {
                self.check_tokens(change);
                self.disk.apply(change);
            }
            Effect::Reply { ticket, answer } => {
                self.check_answer(answer);
                let before = self.replies.insert(*ticket, answer.clone());
                assert!(before.is_none(), "one answer to a request");
            }
            Effect::Deliver(delivery) => {
                self.check_delivery(delivery);
                self.deliveries.push(delivery.clone());
            }
            Effect::Abandon(token) => self.abandoned.push(*token),
            Effect::Wake(queue) => self.woken.push(queue.clone()),
            Effect::Find(name) => self.question(About::Name(name.clone())),
            Effect::Load { queue, after, limit } => {
                let (queue, after, limit) = (queue.clone(), *after, *limit);
                self.question(About::Page { queue, after, limit });
            }
            Effect::Recall { schedule, after, until, limit } => {
                let (schedule, range, limit) = (schedule.clone(), (*after, *until), *limit);
                self.question(About::Ledger { schedule, range, limit });
            }
            Effect::Notice(notice) => self.notices.push(notice.clone()),
        }
    }

    fn check_tokens(&mut self, change: &Change) {
        let Change::LeasesGranted { first_token, leases, .. } = change else { return };
        assert!(!leases.is_empty(), "a fact says something");
        assert!(Some(*first_token) > self.last_token, "tokens grow");
        let counter = first_token.counter + leases.len() as u64 - 1;
        self.last_token = Some(Token { counter, ..*first_token });
    }

    /// What is said to a caller is durable by then.
    fn check_answer(&self, answer: &Reply) {
        match answer {
            Ok(Answer::Submitted { view, .. } | Answer::Job(view)) => {
                // A job that keeps nothing after its end is gone when its end is told.
                let kept = view.finish.as_ref().is_none_or(|end| end.keep_until > end.at);
                let known = self.disk.knows(view.job.number);
                assert!(known || !kept, "{} was told before it was durable", view.job.name);
            }
            Ok(Answer::Leased(deliveries)) => {
                for delivery in deliveries {
                    self.check_delivery(delivery);
                }
            }
            _ => {}
        }
    }

    fn check_delivery(&self, delivery: &Delivery) {
        let name = &delivery.job.name;
        let live = self.disk.live.get(&delivery.job.number);
        let live = live.unwrap_or_else(|| panic!("{name} left and is not live"));
        assert_eq!(live.lease.as_ref(), Some(&delivery.lease), "{name} left without a lease");
        assert_eq!(live.job, delivery.job, "{name} left as another job");
        assert_eq!(live.progress.due_at, delivery.due_at, "{name}");
        assert!(delivery.due_at <= self.now, "{name} left early");
    }

    fn question(&mut self, about: About) {
        let (read_in, answer_in) = match self.answering {
            Answering::AtOnce | Answering::ByHand => (0, 0),
            Answering::Late(seed) => {
                // By what is asked and when, not by what was asked before: a history that is
                // shortened keeps most of its delays.
                let text = match &about {
                    About::Name(name) => name.to_string(),
                    About::Page { queue, .. } => queue.to_string(),
                    About::Ledger { schedule, .. } => schedule.to_string(),
                };
                let moment = self.now.as_millis() as u64;
                let mix =
                    text.bytes().fold(moment, |mix, byte| mix.wrapping_mul(31) ^ u64::from(byte));
                let mut rng = Rng::new(seed ^ mix);
                let read_in = rng.below(4);
                (read_in, read_in + rng.below(6))
            }
        };
        self.questions.push(Question { about, read_in, answer_in, answer: None });
    }

    /// Whether a page is on its way.
    pub(crate) fn is_loading(&self) -> bool {
        self.questions.iter().any(|question| matches!(question.about, About::Page { .. }))
    }

    /// Lets the store read what it was asked for and has not read yet, as it is now.
    pub(crate) fn read_all(&mut self) {
        for question in &mut self.questions {
            read(&self.disk, self.now, question);
        }
    }

    /// Feeds the answers of the store, and those to what they lead to.
    pub(crate) fn answer_all(&mut self) {
        // A shard that asks for ever is caught here.
        for _ in 0..10_000 {
            if self.questions.is_empty() {
                return;
            }
            let mut question = self.questions.remove(0);
            read(&self.disk, self.now, &mut question);
            let before = std::mem::replace(&mut self.answering, Answering::ByHand);
            self.feed(question.answer.expect("it was just read"));
            self.answering = before;
        }
        panic!("the shard does not stop asking");
    }

    /// A step of time for the store: it reads what it is to read by now.
    pub(crate) fn store_step(&mut self) {
        for question in &mut self.questions {
            if question.read_in == 0 {
                read(&self.disk, self.now, question);
            }
            question.read_in = question.read_in.saturating_sub(1);
            question.answer_in = question.answer_in.saturating_sub(1);
        }
    }

    /// The next answer that has arrived.
    pub(crate) fn next_answer(&mut self) -> Option<Input> {
        let arrived = |question: &Question| question.answer_in == 0 && question.answer.is_some();
        let at = self.questions.iter().position(arrived)?;
        self.questions.remove(at).answer
    }

    /// The process dies and another takes over from what is on disk.
    pub(crate) fn crash(&mut self) {
        self.recover();
        self.feed(Input::Tick);
    }

    /// A new life of the shard, which has not been called yet.
    pub(crate) fn recover(&mut self) {
        self.epoch += 1;
        self.questions.clear();
        let (epoch, snapshot) = (Epoch(self.epoch), self.disk.snapshot());
        self.shard = Shard::recover(ShardId(0), epoch, self.config.clone(), snapshot);
    }

    /// Makes a request. The answer, when it comes, is among the replies.
    pub(crate) fn ask(&mut self, request: Request) -> Ticket {
        let ticket = self.ticket();
        self.feed(Input::Request { ticket, request });
        ticket
    }

    pub(crate) fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }
}

fn read(disk: &Disk, now: Timestamp, question: &mut Question) {
    if question.answer.is_some() {
        return;
    }
    question.answer = Some(match &question.about {
        About::Name(name) => Input::Found { name: name.clone(), found: disk.find(name, now) },
        About::Page { queue, after, limit } => {
            let (jobs, more) = disk.page(queue, *after, *limit);
            Input::Loaded { queue: queue.clone(), jobs, more }
        }
        About::Ledger { schedule, range, limit } => {
            let (records, more) = disk.recall(schedule, *range, *limit);
            Input::Recalled { schedule: schedule.clone(), records, more }
        }
    });
}
