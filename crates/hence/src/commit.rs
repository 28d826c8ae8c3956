//! Makes facts durable, then lets go of what waited for them. Facts that arrive while a commit is
//! under way form the next one: the slower the disk, the larger the groups.
//!
//! There is a thread for it, so that the next group is decided upon while the last one is being
//! written. A few facts with nothing ahead of them and nothing behind are written by the driver
//! itself: two changes of thread would take longer than the write.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, mpsc};
use std::time::Duration;

use hence_core::change::Change;
use hence_core::effect::{Answer, Delivery};
use hence_core::id::{Epoch, JobNumber, QueueName, ShardId, Token};
use hence_core::limits::{FACT_BYTES_PER_CALL_MAX, PAYLOAD_BYTES_MAX};
use hence_core::queue::Counts;
use hence_core::time::Timestamp;
use hence_fail::{Act, Point, reach};
use hence_store::{ErrorKind, ShardBatch, Store, StoreError};
use tokio::sync::oneshot;

use crate::ahead::{self, Crowd};
use crate::builder::OnFatal;
use crate::chance::Chance;
use crate::clock::{Clock, Stopwatch, Wait, pause};
use crate::dispatch::Dispatch;
use crate::driver::TURN_BYTES_MAX;
use crate::error::Error;
use crate::mailbox::{LeaseReply, Mailbox, Message, Replies, Reply};
use crate::observe::{Event, Observers};
use crate::postman::Round;
use crate::read::Read;
use crate::stepped::Step;
use crate::watch::Watchers;

/// Facts in one commit: bounds the memory of a record, not the speed.
const COMMIT_CHANGES_MAX: usize = 16_384;

/// Bytes of facts in one commit, about, before the last turn that is joined to it.
const COMMIT_BYTES_MAX: usize = 6 * 1024 * 1024;

/// What a segment of the embedded store holds, which is there also when the disk is full.
const SEGMENT_BYTES: usize = 16 * 1024 * 1024;

const _: () = {
    // What was asked for, and what time makes of it; each may end with one large fact more.
    let turn = TURN_BYTES_MAX + FACT_BYTES_PER_CALL_MAX + 2 * PAYLOAD_BYTES_MAX;
    assert!(COMMIT_BYTES_MAX + turn < SEGMENT_BYTES, "the largest commit fits into a segment");
};

/// Facts that the driver writes itself when nothing is ahead of them.
const INLINE_CHANGES_MAX: usize = 256;

/// Between two tries of a commit or a read that failed for a passing reason: about so long.
pub(crate) const TRY_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Facts, and what may happen once they are durable.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) changes: Vec<Change>,
    /// About how many bytes they come to.
    pub(crate) bytes: usize,
    pub(crate) counts: BTreeMap<QueueName, Counts>,
    pub(crate) next_number: JobNumber,
    pub(crate) after: Vec<After>,
    /// A batch that could not be written yet. It stays as it is: the store may have it already.
    stuck: Option<ShardBatch>,
}

/// What may happen once the facts before it are durable.
pub(crate) enum After {
    Reply(Reply, Result<Answer, Error>),
    Replies(Replies, Vec<Result<Answer, Error>>),
    Leased(LeaseReply, Vec<Delivery>),
    Letters(oneshot::Sender<Round>, Round),
    Deliver(Delivery),
    Abandon(Token),
    Read(Read),
    Settled(oneshot::Sender<Option<Timestamp>>, Option<Timestamp>),
    Drained(oneshot::Sender<()>),
}

/// Whether this life is over: nothing is acknowledged or delivered any more, and what the store
/// says from now on concerns nobody. A clone is the same life.
#[derive(Clone, Default)]
pub(crate) struct Over(Arc<AtomicBool>);

impl Over {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Ends it; says whether it was this call that did.
    pub(crate) fn set(&self) -> bool {
        !self.0.swap(true, Ordering::SeqCst)
    }
}

/// What the driver has to decide upon next, as far as it knows.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Behind {
    Nothing,
    /// It should not wait for the disk.
    More,
}

impl Work {
    /// Nothing yet, and room for so many facts.
    pub(crate) fn with_room(facts: usize) -> Self {
        Work { changes: Vec::with_capacity(facts), ..Work::default() }
    }

    /// Nothing to write and nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.has_no_facts() && self.after.is_empty()
    }

    fn has_no_facts(&self) -> bool {
        self.changes.is_empty() && self.counts.is_empty() && self.stuck.is_none()
    }

    /// Whether no other work is to be committed with it.
    pub(crate) fn is_full(&self) -> bool {
        self.changes.len() >= COMMIT_CHANGES_MAX || self.bytes >= COMMIT_BYTES_MAX
    }

    pub(crate) fn join(&mut self, other: Work) {
        assert!(other.stuck.is_none(), "what is stuck is ahead of everything");
        self.changes.extend(other.changes);
        self.bytes += other.bytes;
        self.counts.extend(other.counts);
        self.next_number = self.next_number.max(other.next_number);
        self.after.extend(other.after);
    }
}

/// Whoever commits: the thread for it, or the driver in its place.
pub(crate) struct Committer {
    pub(crate) shard: ShardId,
    pub(crate) epoch: Epoch,
    pub(crate) sequence: u64,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) wait: Wait,
    pub(crate) observers: Observers,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) dispatch: Arc<Dispatch>,
    pub(crate) mailbox: Mailbox,
    pub(crate) reads: mpsc::Sender<Read>,
    pub(crate) chance: Chance,
    pub(crate) over: Over,
    pub(crate) on_fatal: OnFatal,
    /// See [`Line::durable_counter`].
    pub(crate) durable_counter: Arc<AtomicU64>,
}

/// The way from the driver to the committer, and the committer itself.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) committer: Arc<Mutex<Committer>>,
    pub(crate) works: mpsc::Sender<Work>,
    /// What the works that were passed on come to.
    pub(crate) crowd: Arc<Crowd>,
    /// Whether the driver may write a little by itself: not when writing means to wait for
    /// another machine.
    inline: bool,
    /// Works passed on and not carried out yet.
    ahead: Arc<AtomicUsize>,
    /// The counter of the last lease that is durable.
    pub(crate) durable_counter: Arc<AtomicU64>,
    over: Over,
    on_fatal: OnFatal,
}

/// What to do when the store cannot be used at the moment.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Patience {
    GiveBack,
    TryAgain,
}

impl Line {
    pub(crate) fn new(committer: Committer) -> (Self, mpsc::Receiver<Work>) {
        let (works, inbox) = mpsc::channel();
        let inline = !committer.store.capabilities().shared;
        let (over, on_fatal) = (committer.over.clone(), Arc::clone(&committer.on_fatal));
        let durable_counter = Arc::clone(&committer.durable_counter);
        let committer = Arc::new(Mutex::new(committer));
        let (ahead, crowd) = (Arc::default(), Arc::default());
        (Line { committer, works, crowd, inline, ahead, durable_counter, over, on_fatal }, inbox)
    }

    /// It is over, because of this, whatever is being committed. Always false: nothing goes on.
    pub(crate) fn end(&self, error: &StoreError) -> bool {
        end(&self.over, &self.on_fatal, error)
    }

    /// Carries the work out, here or on the thread for it. False: it is over.
    pub(crate) fn pass(&self, work: Work, behind: Behind) -> bool {
        let small = work.changes.len() <= INLINE_CHANGES_MAX;
        if self.inline
            && small
            && behind == Behind::Nothing
            && self.ahead.load(Ordering::Acquire) == 0
            && let Some(mut committer) = self.free_committer()
        {
            return match committer.carry_out(work, Patience::GiveBack) {
                Ok(None) => true,
                Ok(Some(stuck)) => self.pass_on(stuck),
                Err(error) => committer.end(&error),
            };
        }
        self.pass_on(work)
    }

    fn pass_on(&self, work: Work) -> bool {
        self.ahead.fetch_add(1, Ordering::Release);
        if self.inline {
            return self.works.send(work).is_ok();
        }
        // Counted before it can be taken, told of when it can.
        let growth = self.crowd.grow(work.changes.len());
        let passed = self.works.send(work).is_ok();
        self.crowd.tell(growth);
        passed
    }

    fn free_committer(&self) -> Option<MutexGuard<'_, Committer>> {
        match self.committer.try_lock() {
            Ok(committer) => Some(committer),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The thread that commits, until the driver hangs up or this life is over.
pub(crate) fn run(line: Line, works: &mpsc::Receiver<Work>) {
    if !line.inline {
        return ahead::run(line, works);
    }
    let Line { committer, works: sender, ahead, .. } = line;
    // The driver has its own: when that is gone, there is no more work.
    drop(sender);
    while let Ok(first) = works.recv() {
        let (work, taken) = gather(first, works);
        let mut committer = committer.lock().unwrap_or_else(PoisonError::into_inner);
        let done = committer.carry_out(work, Patience::TryAgain);
        ahead.fetch_sub(taken, Ordering::Release);
        if let Err(error) = done {
            committer.end(&error);
            break;
        }
    }
    committer.lock().unwrap_or_else(PoisonError::into_inner).close();
}

/// Works that are to be committed together, and how many they are.
fn gather(mut work: Work, works: &mpsc::Receiver<Work>) -> (Work, usize) {
    let mut taken = 1;
    while !work.is_full()
        && let Ok(next) = works.try_recv()
    {
        work.join(next);
        taken += 1;
    }
    (work, taken)
}

/// The thread that commits, taken one step at a time by whoever has no thread for it.
pub(crate) struct SteppedCommits {
    pub(crate) line: Line,
    pub(crate) works: mpsc::Receiver<Work>,
    /// What could not be written yet, and how many works it is made of.
    pub(crate) stuck: Option<(Work, usize)>,
}

impl SteppedCommits {
    /// One group, if there is one.
    pub(crate) fn step(&mut self) -> Step {
        let next = self.stuck.take();
        let next = next.or_else(|| Some(gather(self.works.try_recv().ok()?, &self.works)));
        let Some((work, taken)) = next else { return Step::Idle };
        let mut committer = self.line.committer.lock().unwrap_or_else(PoisonError::into_inner);
        match committer.carry_out(work, Patience::GiveBack) {
            Ok(None) => {
                self.line.ahead.fetch_sub(taken, Ordering::Release);
                Step::Done
            }
            Ok(Some(work)) => {
                self.stuck = Some((work, taken));
                Step::Stuck
            }
            Err(error) => {
                committer.end(&error);
                Step::Over
            }
        }
    }
}

impl Committer {
    /// Makes the facts durable and lets go of what waited for them. Gives the work back when the
    /// store cannot be written and there is no patience.
    fn carry_out(
        &mut self,
        mut work: Work,
        patience: Patience,
    ) -> Result<Option<Work>, StoreError> {
        while !self.over.is_set() {
            let Some(batch) = self.next_batch(&mut work) else { break };
            if self.write(&batch)? {
                continue;
            }
            work.stuck = Some(batch);
            if patience == Patience::GiveBack {
                return Ok(Some(work));
            }
            pause(self.chance.about(TRY_AGAIN_AFTER));
        }
        self.release(work.after);
        Ok(None)
    }

    /// Writes a batch whose last try failed, again and again while the trouble is a passing one.
    pub(crate) fn write_patiently(&self, batch: &ShardBatch) -> Result<(), StoreError> {
        while !self.over.is_set() {
            pause(self.chance.about(TRY_AGAIN_AFTER));
            if self.write(batch)? {
                break;
            }
        }
        Ok(())
    }

    /// Lets go of what waited for facts that are durable now. Nothing of it may happen any more
    /// when this life ended meanwhile.
    pub(crate) fn release(&self, after: Vec<After>) {
        if !self.over.is_set() {
            self.let_go(after);
            reach(Point::LineReleased);
        }
    }

    pub(crate) fn next_batch(&mut self, work: &mut Work) -> Option<ShardBatch> {
        if work.has_no_facts() || work.stuck.is_some() {
            return work.stuck.take();
        }
        self.sequence += 1;
        Some(ShardBatch {
            shard: self.shard,
            epoch: self.epoch,
            sequence: self.sequence,
            changes: Arc::new(std::mem::take(&mut work.changes)),
            counts: std::mem::take(&mut work.counts).into_iter().collect(),
            next_number: work.next_number,
        })
    }

    /// Whether it is durable now; the store may also have taken it without saying so.
    fn write(&self, batch: &ShardBatch) -> Result<bool, StoreError> {
        let watch = Stopwatch::start();
        match self.commit(batch) {
            Ok(()) => {
                self.tell(&batch.changes, watch.elapsed());
                Ok(true)
            }
            Err(error) if error.is_retryable() => {
                self.see_failure(&error);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn see_failure(&self, error: &StoreError) {
        self.observers.see(Event::CommitFailed { error });
    }

    fn commit(&self, batch: &ShardBatch) -> Result<(), StoreError> {
        passing_trouble(Point::LineCommit)?;
        self.wait.for_answer(self.store.commit(vec![batch.clone()]))?;
        passing_trouble(Point::LineCommitted)
    }

    /// It is over, because of this. Always false: nothing goes on.
    pub(crate) fn end(&self, error: &StoreError) -> bool {
        end(&self.over, &self.on_fatal, error)
    }

    /// Whoever still waits for something waits in vain.
    pub(crate) fn close(&self) {
        drop(self.mailbox.send(Message::Stop));
        self.watchers.close();
    }

    pub(crate) fn tell(&self, changes: &[Change], took: Duration) {
        for change in changes {
            self.observers.see(Event::Changed(change));
            if let Change::LeasesGranted { first_token, leases, .. } = change {
                let last = first_token.counter + leases.len() as u64 - 1;
                self.durable_counter.store(last, Ordering::Release);
            }
        }
        self.observers.see(Event::Committed { changes: changes.len(), took });
        self.watchers.tell(changes);
    }

    fn let_go(&self, after: Vec<After>) {
        let now = self.clock.now();
        let mut deliveries = Vec::new();
        for after in after {
            match after {
                After::Reply(reply, answer) => reply.answer(answer),
                After::Replies(replies, answers) => replies.answer(answers),
                After::Letters(done, round) => drop(done.send(round)),
                After::Leased(reply, leased) => self.hand_over(reply, leased, now),
                After::Deliver(delivery) => deliveries.push(delivery),
                After::Abandon(token) => {
                    // It may have been decided in the same group, and not have left yet.
                    deliveries.retain(|delivery: &Delivery| delivery.lease.token != token);
                    self.dispatch.abandon(token);
                }
                // The reader ends after this thread does.
                After::Read(read) => drop(self.reads.send(read)),
                After::Settled(done, next) => drop(done.send(next)),
                After::Drained(done) => drop(done.send(())),
            }
        }
        self.dispatch.deliver(deliveries);
    }

    /// Gives leased jobs to their worker; or back, if it has gone meanwhile, or their leases were
    /// over before they were durable.
    fn hand_over(&self, reply: LeaseReply, mut leased: Vec<Delivery>, now: Timestamp) {
        let is_late = |delivery: &Delivery| delivery.lease.until <= now;
        if leased.iter().any(is_late) {
            let (late, in_time): (Vec<_>, _) = leased.into_iter().partition(is_late);
            leased = in_time;
            self.hand_back(&late);
        }
        for delivery in &leased {
            self.observers.see(Event::Delivering { delivery, now });
        }
        if let Err(Ok(unwanted)) = reply.send(Ok(leased)) {
            self.hand_back(&unwanted);
        }
    }

    fn hand_back(&self, unwanted: &[Delivery]) {
        if !unwanted.is_empty() {
            let tokens = unwanted.iter().map(|delivery| delivery.lease.token).collect();
            drop(self.mailbox.send(Message::HandBack(tokens)));
        }
    }
}

fn end(over: &Over, on_fatal: &OnFatal, error: &StoreError) -> bool {
    if over.set() {
        on_fatal(error);
    }
    false
}

/// A store that cannot be reached for a moment, where a test of faults asks for it.
pub(crate) fn passing_trouble(point: Point) -> Result<(), StoreError> {
    match reach(point) {
        Act::GoOn | Act::Skip => Ok(()),
        Act::Error => Err(StoreError::new(ErrorKind::Unavailable, point.name())),
    }
}
