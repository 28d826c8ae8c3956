//! Looking at queues, at leases, and at what a job waits for.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::change::{Change, Place};
use crate::effect::{Answer, Delivery};
use crate::error::Rejection;
use crate::id::{HandlerName, JobNumber, QueueName};
use crate::job::Target;
use crate::limits;
use crate::queue::{Counts, QueueSettings, QueueView};
use crate::schedule::earlier;
use crate::time::Timestamp;
use crate::waiting::WaitingFor;

use super::Shard;
use super::index::{Entry, Lane, Queue, Seat};
use super::sorted::Sorted;
use super::stretch::Stretch;
use super::window::Subject;

impl Shard {
    pub(super) fn put_queue(
        &mut self,
        name: &QueueName,
        settings: QueueSettings,
    ) -> Result<Answer, Rejection> {
        settings.check()?;
        if !self.queue_ids.contains_key(name) && self.queue_ids.len() >= limits::QUEUES_MAX {
            return Err(Rejection::TooMany { what: "queues", max: limits::QUEUES_MAX });
        }
        self.change(Change::QueuePut { name: name.clone(), settings });
        Ok(self.show_queue(name))
    }

    /// With nothing to be known about it, the queue has no place any more: see
    /// [`Shard::take_counts`].
    pub(super) fn remove_queue(&mut self, name: &QueueName) -> Result<Answer, Rejection> {
        let known = self.queue_ids.get(name).copied();
        let Some(at) = known.filter(|at| !self.queues[*at].is_blank()) else {
            return Err(Rejection::NoSuchQueue);
        };
        let Counts { pending, running, dead, .. } = self.queues[at].counts;
        if pending + running + dead > 0 {
            return Err(Rejection::QueueInUse { queue: name.to_string(), pending, running, dead });
        }
        self.change(Change::QueuePut { name: name.clone(), settings: QueueSettings::default() });
        *self.counts(at) = Counts::default();
        Ok(Answer::Done)
    }

    /// A queue exists as soon as somebody speaks of it: an unknown one is empty and unlimited.
    pub(super) fn show_queue(&self, name: &QueueName) -> Answer {
        let view = match self.queue_ids.get(name) {
            Some(at) => self.queue_view(&self.queues[*at]),
            None => self.queue_view(&Queue::new(name.clone())),
        };
        Answer::Queue(Box::new(view))
    }

    pub(super) fn list_queues(&self) -> Answer {
        let queues = self.queue_ids.values().map(|at| &self.queues[*at]);
        let known = queues.filter(|queue| !queue.is_blank());
        Answer::Queues(known.map(|queue| self.queue_view(queue)).collect())
    }

    /// Why a job is not handed out.
    pub(super) fn explain(&self, now: Timestamp, subject: &Subject) -> Result<Answer, Rejection> {
        let why = match subject {
            Subject::Here(number) => {
                self.jobs.get(*number).and_then(|entry| self.waiting_for(now, entry))
            }
            Subject::Far(_, progress) => (progress.due_at <= now).then_some(WaitingFor::Turn),
            Subject::Finished(..) => None,
            Subject::Absent => return Err(Rejection::NoSuchJob),
        };
        Ok(Answer::WaitingFor(why))
    }

    fn waiting_for(&self, now: Timestamp, entry: &Entry) -> Option<WaitingFor> {
        match entry.seat {
            Seat::Waiting | Seat::Holding | Seat::Running => None,
            Seat::BehindKey => {
                let key = entry.job().name.key.clone()?;
                let holder = self.keys.get(&(entry.at(), key))?.holder?;
                let holder = self.job_of(self.jobs.get(holder)?);
                Some(WaitingFor::Key(holder.name.id.clone()))
            }
            Seat::Parked => match &entry.job().target {
                Target::Handler(name) => Some(WaitingFor::Handler(name.clone())),
                Target::Http(_) | Target::Worker => None,
            },
            Seat::Ready => self.limit_on(now, entry),
        }
    }

    /// What keeps a job whose turn it is from being started.
    fn limit_on(&self, now: Timestamp, entry: &Entry) -> Option<WaitingFor> {
        let queue = &self.queues[entry.at()];
        if self.draining {
            return Some(WaitingFor::Restart);
        }
        if queue.settings.paused_out {
            return Some(WaitingFor::Resume);
        }
        if let Some(max) = queue.settings.concurrency.filter(|max| queue.running >= *max) {
            return Some(WaitingFor::Concurrency(max));
        }
        if let Some(at) = queue.rate_alarm.filter(|at| *at > now) {
            return Some(WaitingFor::Rate(at));
        }
        let full = match entry.lane {
            Lane::Pull => return Some(WaitingFor::Worker),
            Lane::Push => self.pushes_running >= self.config.pushes_max,
            Lane::Handler => self.handlers_running >= self.config.handlers_max,
        };
        full.then_some(WaitingFor::Room)
    }

    pub(super) fn list_leases(&self, limit: usize) -> Answer {
        let end = |number: &JobNumber| {
            let lease = self.jobs.get(*number)?.lease.as_deref()?;
            Some((lease.until, *number))
        };
        let mut ends: Vec<_> = self.tokens.values().filter_map(end).collect();
        ends.sort_unstable();
        let leases = ends.into_iter().filter_map(|(_, number)| {
            let entry = self.jobs.get(number)?;
            let lease = entry.lease.as_deref()?.clone();
            let due_at = entry.progress.due_at;
            Some(Delivery { job: Arc::clone(entry.job()), lease, due_at })
        });
        Answer::Leases(leases.take(limit).collect())
    }

    fn queue_view<'a>(&self, queue: &'a Queue) -> QueueView {
        let due = |stretch: &'a Stretch| stretch.ready.iter().chain([&stretch.parked]);
        let lists = queue.stretches.iter().flat_map(due).chain([&queue.behind]);
        let oldest_ready = lists.clone().filter_map(|list| self.waits_since(list)).min();
        let ready: u64 = lists.map(|list| list.len() as u64).sum();
        let waiting: usize = queue.stretches.iter().map(|stretch| stretch.waiting.len()).sum();
        let parked = queue.parked();
        QueueView {
            name: queue.name.clone(),
            settings: queue.settings.clone(),
            counts: queue.counts,
            ready,
            in_memory: ready + (waiting + queue.holding.len()) as u64 + u64::from(queue.running),
            oldest_ready,
            unregistered: parked.iter().map(|list| list.len() as u64).sum(),
            missing_handlers: self.missing_handlers(parked),
        }
    }

    /// Whom these parked jobs wait for.
    fn missing_handlers(&self, parked: [&Sorted<Place>; 2]) -> Vec<HandlerName> {
        let mut names: BTreeSet<&HandlerName> = BTreeSet::new();
        for place in parked.iter().flat_map(|list| list.iter().take(limits::BACKLOG_LOOK_MAX)) {
            if let Target::Handler(name) = &self.jobs[place.number].job().target {
                names.insert(name);
            }
        }
        names.into_iter().take(limits::MISSING_HANDLERS_MAX).cloned().collect()
    }

    /// Since when the one of these due jobs waits that has waited longest. They are in the order of
    /// their due times; where those lay in the past at the submission, the first need not be it.
    fn waits_since(&self, list: &Sorted<Place>) -> Option<Timestamp> {
        let mut oldest: Option<Timestamp> = None;
        for place in list.iter().take(limits::BACKLOG_LOOK_MAX) {
            if oldest.is_some_and(|oldest| oldest <= place.due_at) {
                break;
            }
            let since = self.jobs[place.number].job().waits_since(place.due_at);
            oldest = earlier(oldest, Some(since));
        }
        oldest
    }
}
