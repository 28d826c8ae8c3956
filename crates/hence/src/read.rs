//! Reads from the store what the shard asked for, beside the commits: jobs by name, pages of the
//! window and of ledgers; and sweeps what is out of date.

use std::collections::VecDeque;
use std::sync::{Arc, mpsc};

use futures::FutureExt;
use hence_core::change::Place;
use hence_core::id::{JobName, QueueName, ShardId};
use hence_core::input::Found;
use hence_core::time::Timestamp;
use hence_fail::Point;
use hence_store::{ErrorKind, LedgerRequest, Store, StoreError, StoredJob};

use crate::builder::OnFatal;
use crate::chance::Chance;
use crate::clock::{Clock, Wait, pause};
use crate::commit::{Over, Patience, TRY_AGAIN_AFTER, passing_trouble};
use crate::mailbox::{Mailbox, Message};
use crate::stepped::Step;

/// Something to read from the store.
#[derive(Clone)]
pub(crate) enum Read {
    Find(JobName),
    Load { queue: QueueName, after: Place, limit: usize },
    Recall(LedgerRequest),
    Sweep(Timestamp),
}

/// How many dead jobs of each queue were removed.
type Swept = Vec<(QueueName, u64)>;

/// The thread that reads: pages of the window, names, and the sweeping of what is out of date.
pub(crate) struct Reader {
    pub(crate) shard: ShardId,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) wait: Wait,
    pub(crate) mailbox: Mailbox,
    pub(crate) chance: Chance,
    pub(crate) over: Over,
    pub(crate) on_fatal: OnFatal,
    pub(crate) patience: Patience,
}

/// Finished jobs removed in one sweep.
const SWEEP_MAX: usize = 10_000;

impl Reader {
    /// Reads until the committer hangs up.
    pub(crate) fn run(self, reads: &mpsc::Receiver<Read>) {
        if let Err(error) = self.work_off(reads) {
            self.end(&error);
        }
    }

    fn end(&self, error: &StoreError) {
        if self.over.set() {
            drop(self.mailbox.send(Message::Stop));
            (self.on_fatal)(error);
        }
    }

    fn work_off(&self, reads: &mpsc::Receiver<Read>) -> Result<(), StoreError> {
        while let Ok(first) = reads.recv() {
            let mut names = Vec::new();
            let mut others = Vec::new();
            for read in std::iter::once(first).chain(reads.try_iter()) {
                match read {
                    Read::Find(name) => names.push(name),
                    Read::Load { .. } | Read::Recall(_) | Read::Sweep(_) => others.push(read),
                }
            }
            if !names.is_empty() {
                self.find(names)?;
            }
            others.into_iter().try_for_each(|read| self.read(read))?;
        }
        Ok(())
    }

    fn find(&self, names: Vec<JobName>) -> Result<(), StoreError> {
        let now = self.clock.now();
        let stored =
            self.patiently(Point::ReadFind, || self.store.get(self.shard, names.clone(), now))?;
        assert!(stored.len() == names.len(), "one answer for each name");
        let found = names.into_iter().zip(stored.into_iter().map(|job| job.map(as_found)));
        drop(self.mailbox.send(Message::Found(found.collect())));
        Ok(())
    }

    fn read(&self, read: Read) -> Result<(), StoreError> {
        match read {
            Read::Find(name) => self.find(vec![name]),
            Read::Load { queue, after, limit } => {
                let page = self.patiently(Point::ReadLoad, || {
                    self.store.due(self.shard, queue.clone(), after, limit)
                })?;
                let more = page.len() >= limit;
                let jobs = page.into_iter().map(|live| (live.job, live.progress)).collect();
                drop(self.mailbox.send(Message::Loaded { queue, jobs, more }));
                Ok(())
            }
            Read::Recall(request) => {
                let records = self.patiently(Point::ReadLoad, || {
                    self.store.occurrences(self.shard, request.clone())
                })?;
                let more = records.len() >= request.limit;
                let schedule = request.schedule;
                drop(self.mailbox.send(Message::Recalled { schedule, records, more }));
                Ok(())
            }
            Read::Sweep(now) => {
                let swept = self.patiently(Point::ReadSweep, || {
                    let swept = self.store.sweep(self.shard, now, SWEEP_MAX);
                    swept.map(nothing_without_room).boxed()
                })?;
                drop(self.mailbox.send(Message::Swept(swept)));
                Ok(())
            }
        }
    }

    /// Reads, again and again while the trouble is a passing one.
    fn patiently<'a, T>(
        &'a self,
        point: Point,
        read: impl Fn() -> hence_store::Answer<'a, T>,
    ) -> Result<T, StoreError> {
        loop {
            match passing_trouble(point).and_then(|()| self.wait.for_answer(read())) {
                Err(error) if error.is_retryable() && self.is_patient() => {
                    tracing::warn!(%error, "read failed, trying again");
                    pause(self.chance.about(TRY_AGAIN_AFTER));
                }
                other => return other,
            }
        }
    }

    fn is_patient(&self) -> bool {
        self.patience == Patience::TryAgain && !self.over.is_set()
    }
}

/// The thread that reads, taken one step at a time by whoever has no thread for it.
pub(crate) struct SteppedReads {
    pub(crate) reader: Reader,
    pub(crate) reads: mpsc::Receiver<Read>,
    /// What could not be read yet, oldest first.
    pub(crate) stuck: VecDeque<Read>,
}

impl SteppedReads {
    /// One read, if there is one.
    pub(crate) fn step(&mut self) -> Step {
        self.stuck.extend(self.reads.try_iter());
        let Some(read) = self.stuck.front() else { return Step::Idle };
        match self.reader.read(read.clone()) {
            Ok(()) => {
                self.stuck.pop_front();
                Step::Done
            }
            Err(error) if error.is_retryable() => Step::Stuck,
            Err(error) => {
                self.reader.end(&error);
                Step::Over
            }
        }
    }
}

/// Removing takes room as well. It can wait until there is some; those who ask for jobs cannot.
fn nothing_without_room(swept: Result<Swept, StoreError>) -> Result<Swept, StoreError> {
    match swept {
        Err(error) if error.kind() == ErrorKind::Full => {
            tracing::warn!(%error, "nothing was swept");
            Ok(Swept::new())
        }
        other => other,
    }
}

fn as_found(stored: StoredJob) -> Found {
    match stored {
        StoredJob::Live(live) => Found::Live(live.job, live.progress),
        StoredJob::Finished(done) => {
            Found::Finished(done.job, done.progress, Box::new(done.finish))
        }
    }
}
