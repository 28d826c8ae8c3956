//! Handing jobs out: to this node's own senders and handlers as soon as a limit allows, and to
//! workers when they ask.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::change::{Change, LeaseGrant, Place};
use crate::effect::{Answer, Delivery, Effect, Notice};
use crate::error::Rejection;
use crate::flow;
use crate::id::{HandlerName, JobNumber, QueueName, Token, WorkerName};
use crate::job::{JobState, Lease, Target};
use crate::limits;
use crate::time::{Millis, Timestamp};

use super::Shard;
use super::index::{Alarm, Lacks, Lane, Seat};
use super::sorted::Sorted;

/// Leases in one fact: bounds the size of a record, not the speed.
const GRANTS_MAX: usize = 4_096;

/// Jobs handed out together, to one holder.
struct Grants {
    holder: WorkerName,
    first_token: Token,
    leases: Vec<LeaseGrant>,
    deliveries: Vec<Delivery>,
}

/// What came of trying to start a queue's next job.
enum Start {
    Started,
    /// The job was not for starting: expired or parked. The next one may be.
    PassedOver,
    /// The queue starts nothing at the moment.
    Closed,
}

impl Shard {
    /// Jobs whose time has come take their turn.
    pub(super) fn promote(&mut self, now: Timestamp, at: usize) {
        // The alarm rang: it is no longer set.
        self.queues[at].due_alarm = None;
        while let Some(number) = self.next_due(at, now) {
            self.rise(number);
            self.unpack(number);
            let Some(entry) = self.jobs.get_mut(number) else { return };
            entry.state.transition(JobState::Ready);
            let expires_at = entry.job().expires_at;
            self.take_turn(number);
            match expires_at {
                Some(at) if at <= now => self.expire_waiting(now, number),
                Some(at) => {
                    self.alarms.insert((at, Alarm::Expiry(number)));
                }
                None => {}
            }
        }
    }

    /// The first job of a queue that is due.
    fn next_due(&self, at: usize, now: Timestamp) -> Option<JobNumber> {
        let place = self.queues[at].next_due()?;
        (place.due_at <= now).then_some(place.number)
    }

    /// Starts as many pushes and handlers as the limits allow, earliest due first.
    pub(super) fn dispatch(&mut self, now: Timestamp) {
        if self.draining {
            return;
        }
        // A full fact may have left some behind, and nothing would call for them.
        while self.dispatch_lane(now, Lane::Push) == GRANTS_MAX {}
        while self.dispatch_lane(now, Lane::Handler) == GRANTS_MAX {}
    }

    /// Starts jobs of a lane, as many as one fact may have; says how many.
    fn dispatch_lane(&mut self, now: Timestamp, lane: Lane) -> usize {
        let room = match lane {
            Lane::Push => self.room(now, lane, self.config.pushes_max, self.pushes_running),
            Lane::Handler => self.room(now, lane, self.config.handlers_max, self.handlers_running),
            Lane::Pull => 0,
        };
        if room == 0 || self.ready_jobs[lane as usize] == 0 {
            return 0;
        }
        let mut heads: BTreeSet<(Place, usize)> = BTreeSet::new();
        for at in 0..self.queues.len() {
            heads.extend(self.head(at, lane).map(|place| (place, at)));
        }
        let mut grants = self.new_grants(self.config.node.clone());
        while grants.leases.len() < (room as usize).min(GRANTS_MAX) {
            let Some((_, at)) = heads.pop_first() else { break };
            match self.start_next(now, at, lane, None, &mut grants) {
                Start::Started | Start::PassedOver => {
                    heads.extend(self.head(at, lane).map(|place| (place, at)));
                }
                Start::Closed => {}
            }
        }
        let started = grants.leases.len();
        for delivery in self.persist_grants(now, grants) {
            self.effects.push_back(Effect::Deliver(delivery));
        }
        started
    }

    /// How many more may be handed out: so many may be under way, and a few wait for their places.
    fn room(&mut self, now: Timestamp, lane: Lane, max: u32, running: u32) -> u32 {
        let ahead = self.paces[lane as usize].per_span(now).min(max);
        max.saturating_add(ahead).saturating_sub(running)
    }

    /// A worker asks for jobs.
    pub(super) fn lease(
        &mut self,
        now: Timestamp,
        worker: &WorkerName,
        queues: &[QueueName],
        max: u32,
        lease: Option<Millis>,
    ) -> Result<Answer, Rejection> {
        lease.map_or(Ok(()), Lease::check_span)?;
        let max = max.min(limits::LEASE_BATCH_MAX) as usize;
        let mut grants = self.new_grants(worker.clone());
        if self.draining {
            return Ok(Answer::Leased(Vec::new()));
        }
        for name in queues {
            let Some(at) = self.queue_ids.get(name).copied() else { continue };
            while grants.leases.len() < max && self.head(at, Lane::Pull).is_some() {
                if let Start::Closed = self.start_next(now, at, Lane::Pull, lease, &mut grants) {
                    break;
                }
            }
        }
        Ok(Answer::Leased(self.persist_grants(now, grants)))
    }

    fn head(&self, at: usize, lane: Lane) -> Option<Place> {
        self.queues[at].next_ready(lane)
    }

    fn start_next(
        &mut self,
        now: Timestamp,
        at: usize,
        lane: Lane,
        lease: Option<Millis>,
        grants: &mut Grants,
    ) -> Start {
        let Some(place) = self.head(at, lane) else { return Start::Closed };
        let number = place.number;
        if place.due_at > now {
            // It was due, and then the clock was set back: it is not due any more.
            self.alarms.insert((place.due_at, Alarm::Rate(at)));
            return Start::Closed;
        }
        let entry = &self.jobs[number];
        if entry.job().expires_at.is_some_and(|expiry| expiry <= now) {
            self.expire_waiting(now, number);
            return Start::PassedOver;
        }
        if entry.lacks != Lacks::Nothing {
            self.park(now, at, number);
            return Start::PassedOver;
        }
        if !self.may_start(now, at) {
            return Start::Closed;
        }
        self.grant(now, number, lane, lease, grants);
        Start::Started
    }

    /// Whether the queue lets another job start; takes one from its rate if so.
    fn may_start(&mut self, now: Timestamp, at: usize) -> bool {
        let queue = &mut self.queues[at];
        if queue.settings.paused_out {
            return false;
        }
        if queue.settings.concurrency.is_some_and(|max| queue.running >= max) {
            return false;
        }
        let Some(rate) = queue.settings.rate else { return true };
        match flow::take(&mut queue.counts.rate_used_until_us, rate, now) {
            Ok(()) => true,
            Err(next) => {
                if let Some(old) = queue.rate_alarm.replace(next) {
                    self.alarms.remove(&(old, Alarm::Rate(at)));
                }
                self.alarms.insert((next, Alarm::Rate(at)));
                false
            }
        }
    }

    fn grant(
        &mut self,
        now: Timestamp,
        number: JobNumber,
        lane: Lane,
        lease: Option<Millis>,
        grants: &mut Grants,
    ) {
        let entry = &self.jobs[number];
        let span = match lane {
            Lane::Pull => lease.unwrap_or(entry.job().timeout),
            Lane::Push | Lane::Handler => entry.job().timeout.plus(limits::PUSH_LEASE_GRACE),
        };
        let (place, due_at) = (entry.place(), entry.progress.due_at);
        let grant = LeaseGrant {
            queue: entry.job().name.queue.clone(),
            place,
            attempt: entry.progress.attempts + 1,
            until: now.plus(span),
        };
        let counter = grants.first_token.counter + grants.leases.len() as u64;
        let token = Token { counter, ..grants.first_token };
        // Applied one by one, so that the next choice sees it; persisted as one fact.
        self.apply_grant(token, &grants.holder, now, &grant);
        grants.leases.push(grant);
        let entry = &self.jobs[number];
        if let Some(lease) = entry.lease.as_deref().cloned() {
            grants.deliveries.push(Delivery { job: Arc::clone(entry.job()), lease, due_at });
        }
    }

    fn new_grants(&self, holder: WorkerName) -> Grants {
        let first_token = Token { shard: self.id, epoch: self.epoch, counter: self.next_counter };
        Grants { holder, first_token, leases: Vec::new(), deliveries: Vec::new() }
    }

    fn persist_grants(&mut self, now: Timestamp, grants: Grants) -> Vec<Delivery> {
        let Grants { holder, first_token, leases, deliveries } = grants;
        if leases.is_empty() {
            return deliveries;
        }
        self.next_counter += leases.len() as u64;
        let fact = Change::LeasesGranted { first_token, holder, at: now, leases };
        self.persist(fact);
        deliveries
    }

    /// The job's handler is not registered here: it waits a while, keeping its turn.
    fn park(&mut self, now: Timestamp, at: usize, number: JobNumber) {
        if self.queues[at].unpark_alarm.is_none() {
            let again = now.plus(self.config.unregistered_delay);
            self.queues[at].unpark_alarm = Some(again);
            self.alarms.insert((again, Alarm::Unpark(at)));
        }
        self.rise(number);
        self.sit(number, Seat::Parked);
        self.tell_unregistered(number);
    }

    /// Says that nobody here can run the job. Once, though it is looked at again and again.
    fn tell_unregistered(&mut self, number: JobNumber) {
        let Some(entry) = self.jobs.get_mut(number) else { return };
        if core::mem::replace(&mut entry.lacks, Lacks::HandlerAsSaid) == Lacks::HandlerAsSaid {
            return;
        }
        let job = entry.job();
        if let Target::Handler(handler) = &job.target {
            let (job, handler) = (job.name.clone(), handler.clone());
            self.effects.push_back(Effect::Notice(Notice::Unregistered { job, handler }));
        }
    }

    pub(super) fn unpark(&mut self, at: usize) {
        if let Some(alarm) = self.queues[at].unpark_alarm.take() {
            self.alarms.remove(&(alarm, Alarm::Unpark(at)));
        }
        let lists = self.queues[at].parked();
        let parked = lists.into_iter().flat_map(Sorted::iter).map(|place| place.number);
        for number in parked.collect::<Vec<JobNumber>>() {
            self.rise(number);
            self.sit(number, Seat::Ready);
        }
    }

    pub(super) fn set_handlers(&mut self, names: Vec<HandlerName>) {
        for at in 0..self.queues.len() {
            self.unpark(at);
        }
        let names = names.into_iter().collect();
        if core::mem::replace(&mut self.handlers, names) != self.handlers {
            self.sort_handled();
        }
    }

    /// What a job for this target lacks here.
    pub(super) fn lacks(&self, target: &Target) -> Lacks {
        match target {
            Target::Handler(name) if !self.handlers.contains(name) => Lacks::Handler,
            Target::Handler(_) | Target::Http(_) | Target::Worker => Lacks::Nothing,
        }
    }

    /// Tells which queues have something for a worker that pulls.
    pub(super) fn wake_workers(&mut self) {
        if self.draining {
            return;
        }
        for at in core::mem::take(&mut self.stirred) {
            let queue = &self.queues[at];
            let closed = queue.settings.paused_out
                || queue.settings.concurrency.is_some_and(|max| queue.running >= max);
            if queue.next_ready(Lane::Pull).is_some() && !closed {
                self.effects.push_back(Effect::Wake(queue.name.clone()));
            }
        }
    }
}
