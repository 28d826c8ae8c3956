//! The state machine. Everything that can happen to the jobs of a shard happens in here, by
//! [`Shard::handle`]; everything it wants done comes out of [`Shard::poll_effect`].
//!
//! State changes only through [`Shard::apply`]: deciding makes a [`Change`], applies it, and asks
//! for it to be persisted. Recovery applies stored changes in a loop and decides nothing.
//!
//! What is *not* here: time (an argument), randomness (an input), IO, and any job beyond the
//! window (see `window.rs`).

mod apply;
mod backfill;
mod catch_up;
mod dispatch;
mod finish;
mod index;
mod manage;
mod pace;
mod packed;
mod schedules;
mod set_back;
mod slab;
mod sorted;
mod stretch;
mod submit;
mod table;
mod ticks;
mod views;
mod window;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::ToString as _;
use alloc::vec::Vec;

use crate::change::Change;
use crate::effect::{Answer, Effect};
use crate::error::Rejection;
use crate::id::{
    Epoch, HandlerName, JobName, JobNumber, LetterId, QueueName, ScheduleId, ShardId, Token,
    WorkerName,
};
use crate::input::{Input, Request, Ticket};
use crate::job::{JobState, Lease, Outcome};
use crate::limits;
use crate::queue::Counts;
use crate::schedule::{ScheduleCounts, earlier};
use crate::time::{Millis, Timestamp};

use backfill::Recall;
use index::{Alarm, KeyState, Map, Queue, new_map};
use pace::Pace;
use sorted::Sorted;
use table::{CountedMap, Jobs};
use ticks::Scheduled;

/// What an operator may set about a shard.
#[derive(Clone, Debug)]
pub struct Config {
    /// Jobs kept in memory, shared by the queues; the rest waits in the store.
    pub window_jobs: usize,
    /// Payload bytes kept in memory, shared by the queues.
    pub window_bytes: usize,
    /// Pushes under way at once. A few more are handed out and wait for their places (`pace.rs`).
    pub pushes_max: u32,
    /// In-process handlers under way at once, likewise.
    pub handlers_max: u32,
    /// How long a job whose handler is not registered waits before it is tried again.
    pub unregistered_delay: Millis,
    /// How long a dead job is kept.
    pub dead_retention: Millis,
    /// The name under which this node holds the leases of its own pushes.
    pub node: WorkerName,
    /// Seeds the maps, so that nobody outside can make names that collide.
    pub hash_seed: u64,
}

impl Config {
    /// The defaults, for a node of this name.
    pub fn new(node: WorkerName) -> Self {
        Config {
            window_jobs: limits::WINDOW_JOBS_DEFAULT,
            window_bytes: limits::WINDOW_BYTES_DEFAULT,
            pushes_max: limits::PUSHES_DEFAULT,
            handlers_max: limits::HANDLERS_DEFAULT,
            unregistered_delay: limits::UNREGISTERED_DELAY_DEFAULT,
            dead_retention: limits::DEAD_RETENTION_DEFAULT,
            node,
            hash_seed: 0,
        }
    }
}

/// What a new owner of a shard starts from, as its store gave it.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The number that the next job will get.
    pub next_number: JobNumber,
    /// Facts that rebuild queues, schedules, running jobs and jobs that hold a key.
    pub changes: Vec<Change>,
    /// The counts of every queue.
    pub counts: Vec<(QueueName, Counts)>,
}

/// The jobs of one slice of the key space, and every rule about them.
pub struct Shard {
    id: ShardId,
    epoch: Epoch,
    config: Config,
    next_number: JobNumber,
    next_counter: u64,

    jobs: Jobs,
    /// Jobs due later than this are packed while they wait. No rule depends on it.
    packs_from: Timestamp,
    tokens: CountedMap<Token, JobNumber>,
    queues: Vec<Queue>,
    /// Places among them that were given up.
    spare_queues: Vec<usize>,
    queue_ids: BTreeMap<QueueName, usize>,
    /// The queues that have jobs in the store only.
    far: BTreeSet<usize>,
    keys: Map<(usize, crate::id::Key), KeyState>,
    schedules: BTreeMap<ScheduleId, Scheduled>,
    /// How many of them tick, rest, or have ended.
    schedule_counts: ScheduleCounts,
    /// When something is to be done about schedules: a tick, a backfill, a cut of the ledger.
    wakes: BTreeSet<(Timestamp, ScheduleId)>,
    /// No tick before this: there was no room for its job.
    ticks_from: Timestamp,
    /// Schedules whose next tick was computed with another zone database.
    stale: BTreeSet<ScheduleId>,
    /// What is known of the ledgers of schedules that are being backfilled.
    recalls: BTreeMap<ScheduleId, Recall>,
    /// Jobs of schedules that ended in this call.
    ended_runs: Vec<(ScheduleId, JobNumber)>,
    handlers: BTreeSet<HandlerName>,
    alarms: Sorted<(Timestamp, Alarm)>,
    /// The time that it was told last.
    last_now: Timestamp,

    /// How many jobs are ready, by lane.
    ready_jobs: [usize; index::LANES],
    pushes_running: u32,
    handlers_running: u32,
    /// How fast deliveries end, by lane.
    paces: [Pace; index::LANES],
    /// Ended leases and how their jobs ended, oldest first: a repeated acknowledgement is
    /// answered as the first was.
    finished: CountedMap<Token, Outcome>,
    finished_order: VecDeque<Token>,
    /// Requests that wait until the store has said what it has under a name.
    finds: BTreeMap<JobName, window::Find>,
    /// Letters whose requests were not answered yet.
    letters: BTreeMap<Ticket, LetterId>,
    /// Running pushes of an earlier life of this node, the oldest last: nobody saw how they ended.
    unresolved: Vec<JobNumber>,
    /// Leases of this ownership with higher counters are not known to be durable: nobody has them.
    durable_counter: u64,
    store_full: bool,
    draining: bool,

    effects: VecDeque<Effect>,
    /// What the facts among them weigh, and from which weight on this call leaves the rest to the
    /// next one.
    fact_bytes: usize,
    fact_bytes_max: usize,
    touched: BTreeSet<usize>,
    stirred: BTreeSet<usize>,
}

impl Shard {
    /// A shard under a new ownership, from what its store has.
    pub fn recover(id: ShardId, epoch: Epoch, config: Config, snapshot: Snapshot) -> Self {
        assert!(config.window_jobs > 0, "a window of no jobs would be read again and again");
        let seed = config.hash_seed;
        let mut shard = Shard {
            id,
            epoch,
            config,
            next_number: JobNumber(snapshot.next_number.0.max(1)),
            next_counter: 1,
            jobs: Jobs::new(seed),
            packs_from: Timestamp::MAX,
            tokens: CountedMap::default(),
            queues: Vec::new(),
            spare_queues: Vec::new(),
            queue_ids: BTreeMap::new(),
            far: BTreeSet::new(),
            keys: new_map(seed),
            schedules: BTreeMap::new(),
            schedule_counts: ScheduleCounts::default(),
            wakes: BTreeSet::new(),
            ticks_from: Timestamp::MIN,
            stale: BTreeSet::new(),
            recalls: BTreeMap::new(),
            ended_runs: Vec::new(),
            handlers: BTreeSet::new(),
            alarms: Sorted::default(),
            last_now: Timestamp::MAX,
            ready_jobs: [0; index::LANES],
            pushes_running: 0,
            handlers_running: 0,
            paces: [Pace::default(); index::LANES],
            finished: CountedMap::default(),
            finished_order: VecDeque::new(),
            finds: BTreeMap::new(),
            letters: BTreeMap::new(),
            unresolved: Vec::new(),
            durable_counter: u64::MAX,
            store_full: false,
            draining: false,
            effects: VecDeque::new(),
            fact_bytes: 0,
            fact_bytes_max: usize::MAX,
            touched: BTreeSet::new(),
            stirred: BTreeSet::new(),
        };
        for change in &snapshot.changes {
            shard.apply(change);
        }
        shard.adopt_counts(&snapshot.counts);
        shard.note_unresolved();
        shard.note_stale();
        shard
    }

    /// Takes in what happened, and does what follows from it and from the time. Effects come out
    /// of [`Shard::poll_effect`] afterwards.
    pub fn handle(&mut self, now: Timestamp, input: Input) {
        self.take_in(now, input);
        self.advance(now);
    }

    /// Takes in what happened and nothing more, for a caller who has more to tell at this moment:
    /// what follows, such as handing out, is then done once for all of it. [`Shard::advance`]
    /// must come after the last.
    pub fn take_in(&mut self, now: Timestamp, input: Input) {
        self.begin_call(now);
        self.resolve_unknown(now);
        match input {
            Input::Tick => {}
            Input::Request { ticket, request } => self.request(now, ticket, request),
            Input::Letter { ticket, id, request } => self.letter(now, ticket, id, request),
            Input::Delivered { token, report, random } => {
                self.delivered(now, token, report, random);
            }
            Input::Handlers(names) => self.set_handlers(names),
            Input::Found { name, found } => self.found(now, &name, found),
            Input::Loaded { queue, jobs, more } => self.loaded(&queue, jobs, more),
            Input::Recalled { schedule, records, more } => {
                self.recalled(&schedule, &records, more);
            }
            Input::Swept { queue, dead } => self.swept(&queue, dead),
            Input::StoreFull(full) => self.store_full = full,
            Input::Drain => self.draining = true,
        }
    }

    /// Does everything that follows from the time and from what was taken in.
    pub fn advance(&mut self, now: Timestamp) {
        self.begin_call(now);
        self.resolve_unknown(now);
        let mut budget = ticks::BUDGET;
        loop {
            self.tick_schedules(now, &mut budget);
            while let Some((at, alarm)) = self.alarms.first().copied() {
                if at > now || self.is_laden() {
                    break;
                }
                self.alarms.pop_first();
                self.ring(now, alarm);
            }
            self.dispatch(now);
            // A job that ended just now may be what a tick waits for.
            if self.ended_runs.is_empty() {
                break;
            }
        }
        self.load_windows(now);
        self.wake_workers();
    }

    fn begin_call(&mut self, now: Timestamp) {
        self.packs_from = now.plus(index::PACK_AHEAD);
        self.fact_bytes_max = self.fact_bytes + limits::FACT_BYTES_PER_CALL_MAX;
    }

    /// Whether ticks are acted on that nobody waits for.
    fn may_go_on(&self, budget: usize) -> bool {
        budget > 0 && !self.is_laden()
    }

    /// Whether what is not asked for should wait for the next call.
    fn is_laden(&self) -> bool {
        self.fact_bytes >= self.fact_bytes_max
    }

    /// The next thing to be done, until there is none.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        let effect = self.effects.pop_front();
        if let Some(Effect::Persist(change)) = &effect {
            self.fact_bytes -= change.weight();
        }
        effect
    }

    /// About how many bytes the facts weigh that wait to be polled.
    pub fn fact_bytes(&self) -> usize {
        self.fact_bytes
    }

    /// Says how far leases are durable, for a caller that goes on deciding while facts are being
    /// written: a lease that nobody was given cannot have been missed by anybody.
    pub fn leases_durable_to(&mut self, counter: u64) {
        self.durable_counter = counter;
    }

    /// How many effects wait to be polled.
    pub fn effects_waiting(&self) -> usize {
        self.effects.len()
    }

    /// When [`Input::Tick`] is wanted next, if nothing else happens. At once, if it is past: one
    /// call does only so much.
    pub fn deadline(&self) -> Option<Timestamp> {
        if !self.unresolved.is_empty() {
            return Some(Timestamp::MIN);
        }
        let alarm = self.alarms.first().map(|(at, _)| *at);
        earlier(alarm, self.schedules_deadline())
    }

    /// The counts of the queues that changed since this was last asked. A queue about which there
    /// is nothing to know any more gives up its place.
    pub fn take_counts(&mut self) -> Vec<(QueueName, Counts)> {
        let touched = core::mem::take(&mut self.touched);
        let counts = |at: &usize| (self.queues[*at].name.clone(), self.queues[*at].counts);
        let taken = touched.iter().map(counts).collect();
        for at in touched {
            self.give_up_blank(at);
        }
        taken
    }

    /// The number that the next job will get.
    pub fn next_number(&self) -> JobNumber {
        self.next_number
    }

    /// Which shard this is.
    pub fn id(&self) -> ShardId {
        self.id
    }

    /// Under which ownership it acts.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// How many deliveries of this node itself (not of pulling workers) are under way.
    pub fn deliveries_running(&self) -> u32 {
        self.pushes_running + self.handlers_running
    }

    fn ring(&mut self, now: Timestamp, alarm: Alarm) {
        match alarm {
            Alarm::Due(queue) => self.promote(now, queue),
            // Pages are asked for after everything that is due.
            Alarm::Load(queue) => self.queues[queue].load_alarm = None,
            Alarm::Lease(number) => self.lease_ended(now, number),
            Alarm::Expiry(number) => self.expire_waiting(now, number),
            Alarm::Rate(queue) => {
                self.queues[queue].rate_alarm = None;
                self.stirred.insert(queue);
            }
            Alarm::Unpark(queue) => self.unpark(queue),
        }
    }

    fn request(&mut self, now: Timestamp, ticket: Ticket, request: Request) {
        if let Some(name) = subject_of(&request).cloned() {
            if let Err(rejection) = self.admit(now, &request) {
                return self.reply(ticket, Err(rejection));
            }
            return self.with_subject(now, ticket, &name, request);
        }
        let answer = match request {
            Request::Lease { worker, queues, max, lease } => {
                self.lease(now, &worker, &queues, max, lease)
            }
            Request::Extend { token, lease } => self.extend(now, token, lease),
            Request::Ack { token, result } => self.ack(now, token, result),
            Request::Nack { token, reason, how, random } => {
                self.nack(now, token, reason, how, random)
            }
            Request::PutSchedule { schedule, wake } => self.put_schedule(now, *schedule, wake),
            Request::RemoveSchedule(id) => self.remove_schedule(id),
            Request::PauseSchedule { id, note } => self.pause_schedule(now, &id, &note),
            Request::ResumeSchedule(id) => self.resume_schedule(now, &id),
            Request::Backfill { id, from, until, pace } => {
                self.backfill(now, &id, (from, until), pace)
            }
            Request::CancelBackfill(id) => self.cancel_backfill(now, &id),
            Request::TriggerSchedule(id) => self.trigger_schedule(now, &id),
            Request::ShowSchedule(id) => self.show_schedule(&id),
            Request::ListSchedules { after, limit } => Ok(self.list_schedules(after, limit)),
            Request::CheckSchedules { limit } => Ok(self.check_schedules(now, limit)),
            Request::PutQueue { name, settings } => self.put_queue(&name, settings),
            Request::RemoveQueue(name) => self.remove_queue(&name),
            Request::ShowQueue(name) => Ok(self.show_queue(&name)),
            Request::ListQueues => Ok(self.list_queues()),
            Request::ListLeases { limit } => Ok(self.list_leases(limit)),
            Request::Submit(_)
            | Request::Show(_)
            | Request::Explain(_)
            | Request::Edit { .. }
            | Request::Cancel(_)
            | Request::Complete { .. }
            | Request::RunNow(_)
            | Request::Replay(_)
            | Request::Forget(_) => unreachable!("requests about a job have a subject"),
        };
        self.reply(ticket, answer);
    }

    /// Decides: applies the change and asks for it to be made durable.
    fn change(&mut self, change: Change) {
        self.apply(&change);
        if let Change::JobFinished { job, .. } = &change {
            self.note_ended(job);
        }
        self.persist(change);
    }

    fn persist(&mut self, fact: Change) {
        self.fact_bytes += fact.weight();
        self.effects.push_back(Effect::Persist(fact));
    }

    /// A request that was written into the store: whatever is answered, [`Shard::reply`] sees to
    /// the letter.
    fn letter(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        id: LetterId,
        request: Result<Request, Rejection>,
    ) {
        self.letters.insert(ticket, id);
        match request {
            Ok(request) => self.request(now, ticket, request),
            Err(rejection) => self.reply(ticket, Err(rejection)),
        }
    }

    fn reply(&mut self, ticket: Ticket, answer: Result<Answer, Rejection>) {
        if let Some(id) = self.letters.remove(&ticket) {
            let refusal = answer.as_ref().err();
            if !refusal.is_some_and(Rejection::is_passing) {
                let refused = refusal.map(|why| why.to_string().into());
                self.change(Change::LetterTaken { id, refused });
            }
        }
        if ticket != Ticket::NOBODY {
            self.effects.push_back(Effect::Reply { ticket, answer });
        }
    }

    fn note_unresolved(&mut self) {
        let mut unresolved: Vec<JobNumber> = Vec::new();
        for entry in self.jobs.iter() {
            if entry.state == JobState::Running && entry.lane != index::Lane::Pull {
                unresolved.push(entry.number);
            }
        }
        // The map's own order must not be seen outside. The oldest is the last, and settled first.
        unresolved.sort_unstable_by(|one, other| other.cmp(one));
        self.unresolved = unresolved;
    }

    fn lease_of(&self, token: Token) -> Option<(JobNumber, &Lease)> {
        let number = *self.tokens.get(&token)?;
        let lease = self.jobs.get(number)?.lease.as_ref()?;
        Some((number, lease))
    }
}

/// The job a request is about, for those that are about one.
fn subject_of(request: &Request) -> Option<&JobName> {
    match request {
        Request::Submit(submission) => Some(&submission.name),
        Request::Show(name)
        | Request::Explain(name)
        | Request::Edit { name, .. }
        | Request::Complete { name, .. }
        | Request::Cancel(name)
        | Request::RunNow(name)
        | Request::Replay(name)
        | Request::Forget(name) => Some(name),
        Request::Lease { .. }
        | Request::Extend { .. }
        | Request::Ack { .. }
        | Request::Nack { .. }
        | Request::PutSchedule { .. }
        | Request::RemoveSchedule(_)
        | Request::PauseSchedule { .. }
        | Request::ResumeSchedule(_)
        | Request::Backfill { .. }
        | Request::CancelBackfill(_)
        | Request::CheckSchedules { .. }
        | Request::TriggerSchedule(_)
        | Request::ShowSchedule(_)
        | Request::ListSchedules { .. }
        | Request::PutQueue { .. }
        | Request::RemoveQueue(_)
        | Request::ShowQueue(_)
        | Request::ListQueues
        | Request::ListLeases { .. } => None,
    }
}
