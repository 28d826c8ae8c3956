//! Commits to a store that is far away: the next one is on its way while the last one is being
//! written, so that the store need not wait for us.
//!
//! Only a large group is sent ahead. A small one gathers more until the way is free: each commit
//! has its price, however few facts are in it.

use std::collections::VecDeque;
use std::future::{poll_fn, ready};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, mpsc};
use std::task::Poll;

use futures::FutureExt;
use hence_fail::Point;
use hence_store::{Answer, ShardBatch, Store, StoreError};
use tokio::sync::Notify;

use crate::clock::Stopwatch;
use crate::commit::{After, Committer, Line, Work, passing_trouble};

/// Commits under way at once.
const AHEAD_MAX: usize = 2;

/// Facts from which on a group does not wait until the way is free.
const AHEAD_CHANGES_MIN: usize = 512;

/// How many facts wait to be sent. Whoever sends is woken when there are enough of them to go
/// ahead, and not for each.
#[derive(Default)]
pub(crate) struct Crowd {
    facts: AtomicUsize,
    enough: Notify,
}

impl Crowd {
    /// So many more are passed on.
    pub(crate) fn grow(&self, facts: usize) -> Growth {
        let before = self.facts.fetch_add(facts, Ordering::AcqRel);
        let enough = before < AHEAD_CHANGES_MIN && before + facts >= AHEAD_CHANGES_MIN;
        if enough { Growth::Enough } else { Growth::Nothing }
    }

    /// Wakes whoever sends, if that changes anything.
    pub(crate) fn tell(&self, growth: Growth) {
        match growth {
            Growth::Enough => self.enough.notify_one(),
            Growth::Nothing => {}
        }
    }

    /// So many were sent.
    fn shrink(&self, facts: usize) {
        self.facts.fetch_sub(facts, Ordering::AcqRel);
    }
}

/// What more facts change.
#[must_use]
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Growth {
    Nothing,
    /// There are enough now.
    Enough,
}

/// The thread that commits, until the driver hangs up or this life is over.
pub(crate) fn run(line: Line, works: &mpsc::Receiver<Work>) {
    let Line { committer, works: sender, crowd, .. } = line;
    // The driver has its own: when that is gone, there is no more work.
    drop(sender);
    // Nobody else wants it: the driver writes nothing by itself here.
    let mut committer = committer.lock().unwrap_or_else(PoisonError::into_inner);
    let store = Arc::clone(&committer.store);
    let (gathered, sent) = (None, VecDeque::new());
    let mut way = Way { store: &*store, crowd: &crowd, works, gathered, sent };
    loop {
        if let Some(work) = way.next_to_send() {
            way.send(&mut committer, work);
            continue;
        }
        match way.wait(&committer) {
            Event::Gathered => {}
            Event::Answered(outcome) => {
                if let Err(error) = way.settle(&committer, outcome) {
                    committer.end(&error);
                    break;
                }
            }
            Event::HungUp => break,
        }
    }
    committer.close();
}

/// What is gathered and what is under way.
struct Way<'a> {
    store: &'a dyn Store,
    crowd: &'a Crowd,
    works: &'a mpsc::Receiver<Work>,
    /// What is to be sent next.
    gathered: Option<Work>,
    /// Oldest first.
    sent: VecDeque<Sent<'a>>,
}

/// A commit under way.
struct Sent<'a> {
    /// None: there was nothing to write.
    batch: Option<ShardBatch>,
    after: Vec<After>,
    watch: Stopwatch,
    answer: Answer<'a, ()>,
}

enum Event {
    Gathered,
    Answered(Result<(), StoreError>),
    HungUp,
}

impl<'a> Way<'a> {
    /// What is sent now, if anything is.
    fn next_to_send(&mut self) -> Option<Work> {
        while self.has_room()
            && let Ok(work) = self.works.try_recv()
        {
            self.gather(work);
        }
        let enough = |work: &Work| work.changes.len() >= AHEAD_CHANGES_MIN;
        let (free, ahead) = (self.sent.is_empty(), self.sent.len() < AHEAD_MAX);
        self.gathered.take_if(|work| free || ahead && enough(work))
    }

    fn has_room(&self) -> bool {
        self.gathered.as_ref().is_none_or(|work| !work.is_full())
    }

    fn gather(&mut self, work: Work) {
        match &mut self.gathered {
            Some(gathered) => gathered.join(work),
            None => self.gathered = Some(work),
        }
    }

    /// Sends a group behind those that are under way.
    fn send(&mut self, committer: &mut Committer, mut work: Work) {
        self.crowd.shrink(work.changes.len());
        if committer.over.is_set() {
            // Nothing is acknowledged any more, so nothing needs to be written.
            return;
        }
        let watch = Stopwatch::start();
        let batch = committer.next_batch(&mut work);
        let answer = match &batch {
            Some(batch) => self.commit(batch),
            // Nothing to write: it waits for what is ahead of it all the same.
            None => ready(Ok(())).boxed(),
        };
        self.sent.push_back(Sent { batch, after: work.after, watch, answer });
    }

    fn commit(&self, batch: &ShardBatch) -> Answer<'a, ()> {
        match passing_trouble(Point::LineCommit) {
            Ok(()) => self.store.commit(vec![batch.clone()]),
            Err(error) => ready(Err(error)).boxed(),
        }
    }

    /// Waits for work when nothing is under way; else for the oldest answer, or for enough facts
    /// to send another group ahead.
    fn wait(&mut self, committer: &Committer) -> Event {
        let ahead = self.sent.len() < AHEAD_MAX;
        let Some(first) = self.sent.front_mut() else {
            let Ok(work) = self.works.recv() else { return Event::HungUp };
            self.gather(work);
            return Event::Gathered;
        };
        let mut enough = pin!(self.crowd.enough.notified());
        committer.wait.block_on(poll_fn(|context| {
            if let Poll::Ready(outcome) = first.answer.as_mut().poll(context) {
                return Poll::Ready(Event::Answered(outcome));
            }
            if !ahead {
                return Poll::Pending;
            }
            enough.as_mut().poll(context).map(|()| Event::Gathered)
        }))
    }

    /// Lets go of what waited for the oldest. When that failed, all that are under way are made
    /// again, one after the other: the store knows those that it has.
    fn settle(
        &mut self,
        committer: &Committer,
        outcome: Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let outcome = outcome.and_then(|()| passing_trouble(Point::LineCommitted));
        let Err(error) = outcome else {
            let Some(first) = self.sent.pop_front() else { return Ok(()) };
            if let Some(batch) = &first.batch {
                committer.tell(&batch.changes, first.watch.elapsed());
            }
            committer.release(first.after);
            return Ok(());
        };
        if !error.is_retryable() {
            return Err(error);
        }
        committer.see_failure(&error);
        // What the others are answered does not count: they were made on top of something that may
        // not be there.
        for Sent { batch, after, .. } in self.sent.drain(..) {
            if let Some(batch) = batch {
                committer.write_patiently(&batch)?;
            }
            committer.release(after);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_sends_is_woken_once_there_are_enough_facts_and_not_for_each() {
        let (crowd, min) = (Crowd::default(), AHEAD_CHANGES_MIN);
        let rows = [
            ("one", 0, 1, Growth::Nothing),
            ("one less than enough", 0, min - 2, Growth::Nothing),
            ("enough", 0, 1, Growth::Enough),
            ("more than enough", 0, min, Growth::Nothing),
            ("enough were left behind", min, 1, Growth::Nothing),
            ("all were sent", min + 1, min - 1, Growth::Nothing),
            ("enough again", 0, 1, Growth::Enough),
            ("many at once", min, min, Growth::Enough),
        ];
        for (row, sent, more, expected) in rows {
            crowd.shrink(sent);
            assert_eq!(crowd.grow(more), expected, "{row}");
        }
    }
}
