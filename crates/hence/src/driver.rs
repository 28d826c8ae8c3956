//! The loop: gather what happened, let the shard decide, pass its facts to the committer together
//! with what waits for them, sleep until the next deadline. One thread owns the shard; nothing
//! here decides anything.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use hence_core::effect::{Answer, Delivery, Effect};
use hence_core::error::Rejection;
use hence_core::id::{LetterId, QueueName};
use hence_core::input::{Input, Nack, Request, Ticket};
use hence_core::shard::Shard;
use hence_core::time::{Millis, Timestamp};
use hence_fail::{Point, reach};
use hence_store::{LedgerOrder, LedgerRequest, Pressure, Store};
use tokio::sync::oneshot;

use crate::chance::Chance;
use crate::clock::Clock;
use crate::commit::{After, Behind, Line, Work};
use crate::error::Error;
use crate::mailbox::{LeaseCall, LeaseReply, Message, PARTS_MAX, Replies, Reply};
use crate::observe::{Event, Observers};
use crate::postman::Round;
use crate::read::Read;

/// Messages taken in before what they caused is passed on. More would wait for each other: while
/// these are being written, the next ones are decided upon.
const TURN_MAX: usize = 256;

/// The same for what they caused, since one message may ask for a thousand things.
const TURN_EFFECTS_MAX: usize = 512;

/// The same for the bytes of it: a commit must not become larger than a store can take.
pub(crate) const TURN_BYTES_MAX: usize = 2 * 1024 * 1024;

/// What was caused by then is a group that is worth its sync: nobody is waited for.
const GROUP_LARGE: usize = 256;

/// How often finished jobs whose time is up are swept.
const SWEEP_EVERY: Millis = Millis::from_secs(10);

/// How often a full store is looked at again.
const LOOK_AGAIN: Millis = Millis::new(200);

/// The thread that owns the shard.
pub(crate) struct Driver {
    shard: Shard,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    chance: Chance,
    observers: Observers,
    inbox: Receiver<Message>,
    line: Line,
    tickets: Tickets,
    waiters: Waiters,
    full: bool,
    /// When to look whether a full store has room again.
    look_again: Option<Timestamp>,
    next_sweep: Timestamp,
    /// Reads that the store has not answered yet.
    reading: usize,
    settling: Vec<oneshot::Sender<Option<Timestamp>>>,
    /// Those who wait for the last delivery to end.
    draining: Vec<oneshot::Sender<()>>,
    closing: bool,
}

/// Whether the loop goes on.
pub(crate) enum Next {
    GoOn,
    Stop,
}

impl Driver {
    pub(crate) fn new(
        shard: Shard,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        chance: Chance,
        observers: Observers,
        inbox: Receiver<Message>,
        line: Line,
    ) -> Self {
        let next_sweep = clock.now().plus(SWEEP_EVERY);
        Driver {
            shard,
            store,
            clock,
            chance,
            observers,
            inbox,
            line,
            tickets: Tickets::default(),
            waiters: Waiters::default(),
            full: false,
            look_again: None,
            next_sweep,
            reading: 0,
            settling: Vec::new(),
            draining: Vec::new(),
            closing: false,
        }
    }

    /// Drives until it is told to stop, or the committer is gone.
    pub(crate) fn run(mut self) {
        let mut next = self.begin();
        while let Next::GoOn = next {
            let first = self.next_message();
            next = self.turn(first);
        }
    }

    /// What an earlier life left behind is settled before anybody asks.
    pub(crate) fn begin(&mut self) -> Next {
        let now = self.clock.now();
        self.shard.handle(now, Input::Tick);
        self.pass_on(now, Behind::Nothing)
    }

    /// One turn if there is something to do at once; none if there is not.
    pub(crate) fn step(&mut self) -> Option<Next> {
        let first = self.inbox.try_recv().ok();
        let due = self.deadline().is_some_and(|at| at <= self.clock.now());
        (first.is_some() || due).then(|| self.turn(first))
    }

    /// When there is something to do though nobody says anything.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        let deadlines = [self.shard.deadline(), self.look_again, Some(self.next_sweep)];
        deadlines.into_iter().flatten().min()
    }

    fn turn(&mut self, first: Option<Message>) -> Next {
        let mut now = self.clock.now();
        if let Err(error) = self.store.health() {
            // What it does between commits went wrong. No commit may follow that would tell.
            self.line.end(&error);
            return Next::Stop;
        }
        self.look_at_pressure(now);
        self.shard.leases_durable_to(self.line.durable_counter.load(Ordering::Acquire));
        let (mut taken, mut behind) = (0, Behind::Nothing);
        let mut message = first;
        while let Some(one) = message {
            // Asked for each: a turn may be long, and a delay that is counted from its beginning
            // would end too early.
            now = self.clock.now();
            if let Next::Stop = self.take(now, one) {
                // What was taken in before is carried out.
                self.shard.advance(now);
                self.pass_on(now, Behind::Nothing);
                return Next::Stop;
            }
            taken += 1;
            if taken == TURN_MAX
                || self.shard.effects_waiting() >= TURN_EFFECTS_MAX
                || self.shard.fact_bytes() >= TURN_BYTES_MAX
            {
                behind = Behind::More;
                break;
            }
            message = self.inbox.try_recv().ok().or_else(|| self.late_comer(taken));
        }
        // Once for all of them: what becomes ready together is handed out together.
        self.shard.advance(now);
        self.pass_on(now, behind)
    }

    /// A message that is about to be sent. In a crowd, whoever has one may only be waiting for a
    /// processor; where nobody is, this takes no time. Without it groups are half as large under
    /// load, and each costs a sync.
    fn late_comer(&self, taken: usize) -> Option<Message> {
        let is_crowd = taken > 1 && self.shard.effects_waiting() < GROUP_LARGE;
        is_crowd.then(std::thread::yield_now).and_then(|()| self.inbox.try_recv().ok())
    }

    /// The next message, or none when it is time for something.
    fn next_message(&mut self) -> Option<Message> {
        match self.deadline().and_then(|at| self.clock.until(at)) {
            Some(wait) => match self.inbox.recv_timeout(wait) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Message::Stop),
            },
            None => Some(self.inbox.recv().unwrap_or(Message::Stop)),
        }
    }

    fn take(&mut self, now: Timestamp, message: Message) -> Next {
        reach(Point::DriverHandle);
        match message {
            Message::Ask(request, reply) => {
                let ticket = self.tickets.issue(Pending::One(reply));
                self.shard.take_in(now, Input::Request { ticket, request });
            }
            Message::AskMany(requests, replies) => self.ask_many(now, requests, replies),
            Message::Letters(letters, done) => self.letters(now, letters, done),
            Message::Lease(call, reply) => self.lease(now, Waiter { call, reply }),
            Message::AskAndLease(requests, replies, call, reply) => {
                self.ask_many(now, requests, replies);
                self.lease(now, Waiter { call, reply });
            }
            Message::HandBack(tokens) => {
                for token in tokens {
                    self.relieve(now);
                    let how = Nack::Release { delay: Millis::ZERO };
                    let request = Request::Nack { token, reason: None, how, random: 0 };
                    let ticket = self.tickets.issue(Pending::Nobody);
                    self.shard.take_in(now, Input::Request { ticket, request });
                }
            }
            Message::Delivered(reports) => {
                for (token, report) in reports {
                    self.relieve(now);
                    let random = self.chance.word();
                    self.shard.take_in(now, Input::Delivered { token, report, random });
                }
            }
            Message::Handlers(names) => self.shard.take_in(now, Input::Handlers(names)),
            Message::Found(all) => {
                self.reading -= all.len();
                for (name, found) in all {
                    self.shard.take_in(now, Input::Found { name, found });
                }
            }
            Message::Loaded { queue, jobs, more } => {
                self.reading -= 1;
                self.shard.take_in(now, Input::Loaded { queue, jobs, more });
            }
            Message::Recalled { schedule, records, more } => {
                self.reading -= 1;
                self.shard.take_in(now, Input::Recalled { schedule, records, more });
            }
            Message::Swept(all) => {
                self.reading -= 1;
                for (queue, dead) in all {
                    self.shard.take_in(now, Input::Swept { queue, dead });
                }
            }
            // Whatever is asked for after it sees what the time has made of things.
            Message::Poke => self.shard.advance(now),
            Message::Settle(done) => self.settling.push(done),
            Message::Drain(done) => {
                self.shard.take_in(now, Input::Drain);
                self.draining.push(done);
                self.closing = true;
                self.waiters.send_home();
            }
            Message::Stop => return Next::Stop,
        }
        Next::GoOn
    }

    fn ask_many(&mut self, now: Timestamp, requests: Vec<Request>, replies: Replies) {
        let count = requests.len();
        let mut answers = Vec::with_capacity(count);
        answers.resize_with(count, || None);
        let first = self.tickets.issue(Pending::Many { answers, missing: count, replies });
        for (part, request) in requests.into_iter().enumerate() {
            self.relieve(now);
            let ticket = Ticket(first.0 + part as u64);
            self.shard.take_in(now, Input::Request { ticket, request });
        }
    }

    fn letters(
        &mut self,
        now: Timestamp,
        letters: Vec<(LetterId, Result<Request, Rejection>)>,
        done: oneshot::Sender<Round>,
    ) {
        let (missing, round) = (letters.len(), Round::Clean);
        let first = self.tickets.issue(Pending::Letters { missing, round, done });
        for (part, (id, request)) in letters.into_iter().enumerate() {
            self.relieve(now);
            let ticket = Ticket(first.0 + part as u64);
            self.shard.take_in(now, Input::Letter { ticket, id, request });
        }
    }

    fn lease(&mut self, now: Timestamp, waiter: Waiter) {
        let LeaseCall { worker, queues, max, lease, .. } = waiter.call.clone();
        let ticket = self.tickets.issue(Pending::Lease(waiter));
        let request = Request::Lease { worker, queues, max, lease };
        // What was put or given back just before is there for it to take.
        self.shard.advance(now);
        self.shard.take_in(now, Input::Request { ticket, request });
    }

    /// Passes on what is enough for a commit, in the middle of a message that asks for more.
    fn relieve(&mut self, now: Timestamp) {
        if self.shard.fact_bytes() >= TURN_BYTES_MAX {
            // Should that be the end, the end of this turn finds out as well.
            let _ = self.pass_on(now, Behind::More);
        }
    }

    /// Passes the shard's wishes on: facts, and behind them what waits for them.
    fn pass_on(&mut self, now: Timestamp, behind: Behind) -> Next {
        let mut work = Work::with_room(self.shard.effects_waiting());
        work.bytes = self.shard.fact_bytes();
        while let Some(effect) = self.shard.poll_effect() {
            match effect {
                Effect::Persist(change) => work.changes.push(change),
                Effect::Reply { ticket, answer } => {
                    let settled = self.tickets.settle(ticket, answer);
                    self.settled(now, settled, &mut work.after);
                }
                Effect::Deliver(delivery) => work.after.push(After::Deliver(delivery)),
                Effect::Abandon(token) => work.after.push(After::Abandon(token)),
                Effect::Wake(queue) => self.wake(now, &queue),
                Effect::Find(name) => work.after.push(After::Read(Read::Find(name))),
                Effect::Load { queue, after, limit } => {
                    work.after.push(After::Read(Read::Load { queue, after, limit }));
                }
                Effect::Recall { schedule, after, until, limit } => {
                    let instant = Millis::new(1);
                    let (from, until) = (after.plus(instant), until.plus(instant));
                    let order = LedgerOrder::Oldest;
                    let request =
                        LedgerRequest { schedule, from, until, after: None, order, limit };
                    work.after.push(After::Read(Read::Recall(request)));
                }
                Effect::Notice(notice) => self.observers.see(Event::Noticed(&notice)),
            }
        }
        self.sweep(now, &mut work);
        let reads = work.after.iter().filter(|after| matches!(after, After::Read(_)));
        self.reading += reads.count();
        self.look_at_settling(&mut work);
        self.look_at_draining(&mut work);
        work.counts.extend(self.shard.take_counts());
        work.next_number = self.shard.next_number();
        reach(Point::DriverPassOn);
        // Without a committer nothing can become durable any more: the end.
        if work.is_empty() || self.line.pass(work, behind) { Next::GoOn } else { Next::Stop }
    }

    fn settled(&mut self, now: Timestamp, settled: Settled, after: &mut Vec<After>) {
        match settled {
            Settled::Nothing => {}
            Settled::One(reply, answer) => after.push(After::Reply(reply, answer)),
            Settled::Letters(done, round) => after.push(After::Letters(done, round)),
            Settled::Many(replies, answers) => after.push(After::Replies(replies, answers)),
            Settled::Refused(waiter, error) => drop(waiter.reply.send(Err(error))),
            Settled::Leased(waiter, jobs)
                if jobs.is_empty() && waiter.call.waits && !self.closing =>
            {
                self.waiters.add(waiter);
            }
            Settled::Leased(waiter, jobs) => {
                let queues = waiter.call.queues;
                after.push(After::Leased(waiter.reply, jobs));
                // There may be more than this worker took.
                for queue in &queues {
                    self.wake(now, queue);
                }
            }
        }
    }

    /// Jobs of a queue are ready: the worker that has waited longest asks again.
    fn wake(&mut self, now: Timestamp, queue: &QueueName) {
        if let Some(waiter) = self.waiters.next(queue) {
            self.lease(now, waiter);
            self.shard.advance(now);
        }
    }

    fn look_at_pressure(&mut self, now: Timestamp) {
        let full = self.store.pressure() == Pressure::Full;
        self.look_again = full.then(|| now.plus(LOOK_AGAIN));
        if full != self.full {
            self.full = full;
            self.observers.see(Event::StoreFull(full));
            self.shard.handle(now, Input::StoreFull(full));
        }
    }

    fn sweep(&mut self, now: Timestamp, work: &mut Work) {
        // A clock that was set back must not put sweeping off until it has caught up.
        if now >= self.next_sweep || now.plus(SWEEP_EVERY) < self.next_sweep {
            self.next_sweep = now.plus(SWEEP_EVERY);
            work.after.push(After::Read(Read::Sweep(now)));
        }
    }

    /// Nothing due, nothing under way, nothing being read: all is quiet until the next deadline.
    fn look_at_settling(&mut self, work: &mut Work) {
        if self.settling.is_empty() {
            return;
        }
        let next = self.shard.deadline();
        // Asked afresh: the clock may have been moved since this turn began.
        let due = next.is_some_and(|at| at <= self.clock.now());
        if !due && self.shard.deliveries_running() == 0 && self.reading == 0 {
            let settling = self.settling.drain(..);
            work.after.extend(settling.map(|done| After::Settled(done, next)));
        }
    }

    fn look_at_draining(&mut self, work: &mut Work) {
        if self.shard.deliveries_running() == 0 {
            work.after.extend(self.draining.drain(..).map(After::Drained));
        }
    }
}

/// A worker waiting for jobs.
pub(crate) struct Waiter {
    call: LeaseCall,
    reply: LeaseReply,
}

/// The workers waiting for jobs, longest waiting first.
#[derive(Default)]
struct Waiters {
    next_id: u64,
    by_id: BTreeMap<u64, Waiter>,
    by_queue: HashMap<QueueName, BTreeSet<u64>>,
    /// Grown to this, those that have gone are cleared away.
    clear_at: usize,
}

impl Waiters {
    fn add(&mut self, waiter: Waiter) {
        if self.by_id.len() >= self.clear_at.max(64) {
            self.by_id.retain(|_, waiter| !waiter.reply.is_closed());
            let by_id = &self.by_id;
            self.by_queue.retain(|_, ids| {
                ids.retain(|id| by_id.contains_key(id));
                !ids.is_empty()
            });
            self.clear_at = 2 * self.by_id.len();
        }
        self.next_id += 1;
        for queue in &waiter.call.queues {
            self.by_queue.entry(queue.clone()).or_default().insert(self.next_id);
        }
        self.by_id.insert(self.next_id, waiter);
    }

    /// Takes out the worker that has waited longest for this queue and is still there.
    fn next(&mut self, queue: &QueueName) -> Option<Waiter> {
        loop {
            let id = *self.by_queue.get(queue)?.first()?;
            let waiter = self.by_id.remove(&id);
            let queues = waiter.as_ref().map_or(std::slice::from_ref(queue), |w| &w.call.queues);
            for queue in queues {
                if let Some(ids) = self.by_queue.get_mut(queue) {
                    ids.remove(&id);
                    if ids.is_empty() {
                        self.by_queue.remove(queue);
                    }
                }
            }
            match waiter {
                Some(waiter) if !waiter.reply.is_closed() => return Some(waiter),
                _ => {}
            }
        }
    }

    /// Nothing will be handed out any more: they need not wait.
    fn send_home(&mut self) {
        self.by_queue.clear();
        for (_, waiter) in std::mem::take(&mut self.by_id) {
            drop(waiter.reply.send(Ok(Vec::new())));
        }
    }
}

/// The requests that the shard has not answered yet. A ticket is a slot and a part of it.
#[derive(Default)]
struct Tickets {
    slots: Vec<Option<Pending>>,
    free: Vec<usize>,
}

enum Pending {
    One(Reply),
    Many { answers: Vec<Option<Result<Answer, Error>>>, missing: usize, replies: Replies },
    Letters { missing: usize, round: Round, done: oneshot::Sender<Round> },
    Lease(Waiter),
    Nobody,
}

/// What an answer leads to.
enum Settled {
    Nothing,
    One(Reply, Result<Answer, Error>),
    Many(Replies, Vec<Result<Answer, Error>>),
    Letters(oneshot::Sender<Round>, Round),
    Leased(Waiter, Vec<Delivery>),
    Refused(Waiter, Error),
}

const PART_BITS: u32 = 16;
const _: () = assert!(PARTS_MAX < 1 << PART_BITS);

impl Tickets {
    /// A ticket for the first part; the others follow it.
    fn issue(&mut self, pending: Pending) -> Ticket {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(pending);
        Ticket((slot as u64) << PART_BITS)
    }

    fn settle(&mut self, ticket: Ticket, answer: Result<Answer, Rejection>) -> Settled {
        let slot = (ticket.0 >> PART_BITS) as usize;
        let part = (ticket.0 & ((1 << PART_BITS) - 1)) as usize;
        if let Some(Pending::Letters { missing, round, .. }) = &mut self.slots[slot] {
            if answer.as_ref().is_err_and(Rejection::is_passing) {
                *round = Round::SomeLeft;
            }
            *missing -= 1;
            if *missing > 0 {
                return Settled::Nothing;
            }
        }
        let answer = answer.map_err(Error::from);
        if let Some(Pending::Many { answers, missing, .. }) = &mut self.slots[slot] {
            assert!(answers[part].is_none(), "a request is answered once");
            answers[part] = Some(answer);
            *missing -= 1;
            if *missing > 0 {
                return Settled::Nothing;
            }
            return self.settle_many(slot);
        }
        self.free.push(slot);
        match self.slots[slot].take() {
            Some(Pending::One(reply)) => Settled::One(reply, answer),
            Some(Pending::Letters { round, done, .. }) => Settled::Letters(done, round),
            Some(Pending::Lease(waiter)) => match answer {
                Ok(Answer::Leased(jobs)) => Settled::Leased(waiter, jobs),
                Ok(other) => unreachable!("a lease is answered with jobs, not {other:?}"),
                Err(error) => Settled::Refused(waiter, error),
            },
            Some(Pending::Nobody) => Settled::Nothing,
            Some(Pending::Many { .. }) | None => unreachable!("a request is answered once"),
        }
    }

    fn settle_many(&mut self, slot: usize) -> Settled {
        self.free.push(slot);
        let Some(Pending::Many { answers, replies, .. }) = self.slots[slot].take() else {
            unreachable!("only batches have parts");
        };
        Settled::Many(replies, answers.into_iter().flatten().collect())
    }
}
