//! What was made durable, kept in the plainest way and looked at by scanning. A fact about a job
//! that is not there, or is there in another way, is a defect of the core and fails the test.

use std::collections::BTreeMap;
use std::sync::Arc;

use hence_core::change::{Change, LeaseGrant, Place};
use hence_core::id::{JobName, JobNumber, LetterId, QueueName, ScheduleId, Token, WorkerName};
use hence_core::input::Found;
use hence_core::job::{AttemptEnd, AttemptRecord, Finish, Job, Lease, Outcome, Payload, Progress};
use hence_core::ledger::OccurrenceRecord;
use hence_core::queue::{Counts, QueueSettings};
use hence_core::schedule::ScheduleState;
use hence_core::shard::Snapshot;
use hence_core::time::Timestamp;

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct LiveJob {
    pub(crate) job: Arc<Job>,
    pub(crate) progress: Progress,
    pub(crate) lease: Option<Lease>,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct FinishedJob {
    pub(crate) job: Arc<Job>,
    pub(crate) progress: Progress,
    pub(crate) finish: Finish,
}

#[derive(Clone, Default, Debug)]
pub(crate) struct Disk {
    pub(crate) live: BTreeMap<JobNumber, LiveJob>,
    pub(crate) finished: BTreeMap<JobNumber, FinishedJob>,
    pub(crate) attempts: Vec<(JobNumber, AttemptRecord)>,
    pub(crate) queues: BTreeMap<QueueName, QueueSettings>,
    pub(crate) schedules: BTreeMap<ScheduleId, ScheduleState>,
    pub(crate) occurrences: Vec<OccurrenceRecord>,
    /// Records that were forgotten, or went with their schedule.
    pub(crate) gone: Vec<OccurrenceRecord>,
    /// Letters that were dealt with, and why nothing came of them.
    pub(crate) letters: Vec<(LetterId, Option<Arc<str>>)>,
    /// As the shard said.
    pub(crate) counts: BTreeMap<QueueName, Counts>,
    pub(crate) next_number: JobNumber,
    /// What the facts themselves add up to.
    tally: BTreeMap<QueueName, Counts>,
    last_number: JobNumber,
}

impl Disk {
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::JobPut { job, progress, replaces, revives } => {
                if let Some(old) = replaces {
                    self.take(old.number, old.due_at, &job.name);
                    self.tally(&job.name.queue).replaced += 1;
                }
                if let Some(old) = revives {
                    let removed = self.finished.remove(&old.number).expect("what was kept");
                    assert_eq!(removed.job.name, job.name, "revived under another name");
                }
                self.check_name_is_free(job);
                self.tally(&job.name.queue).submitted += u64::from(job.number > self.last_number);
                self.last_number = self.last_number.max(job.number);
                self.put(job, *progress);
            }
            Change::JobMoved { job, from, progress, ended } => {
                self.take(job.number, *from, &job.name);
                self.end(job, ended.as_deref());
                self.put(job, *progress);
            }
            Change::LeasesGranted { first_token, holder, at, leases } => {
                for (nth, grant) in (0..).zip(leases) {
                    let token = Token { counter: first_token.counter + nth, ..*first_token };
                    self.grant(token, holder, *at, grant);
                }
            }
            Change::LeaseExtended { place, token, until, .. } => {
                let live = self.live.get_mut(&place.number).expect("a live job");
                let lease = live.lease.as_mut().filter(|lease| lease.token == *token);
                lease.expect("the lease of this token").until = *until;
            }
            Change::JobFinished { job, progress, finish, ended, keep_payload } => {
                self.take(job.number, progress.due_at, &job.name);
                self.end(job, ended.as_deref());
                self.finish(job, *progress, finish, *keep_payload);
            }
            Change::JobForgotten { place, .. } => {
                self.finished.remove(&place.number).expect("only what is kept is forgotten");
            }
            Change::SchedulePut { state } => {
                self.schedules.insert(state.schedule.id.clone(), (**state).clone());
            }
            Change::ScheduleAdvanced { id, progress } => {
                let state = self.schedules.get_mut(id).expect("only a schedule comes further");
                state.progress = (**progress).clone();
            }
            Change::ScheduleRemoved { id } => {
                self.schedules.remove(id).expect("only what is there is removed");
                self.forget_records(|record| record.schedule == *id);
            }
            Change::OccurrenceRecorded { record } => {
                let twin = |other: &&OccurrenceRecord| {
                    (&other.schedule, other.place()) == (&record.schedule, record.place())
                };
                assert_eq!(self.occurrences.iter().rev().take(2_000).find(twin), None, "twice");
                self.occurrences.push(record.clone());
            }
            Change::LedgerForgotten { schedule, before } => {
                self.forget_records(|record| record.schedule == *schedule && record.last < *before);
            }
            Change::QueuePut { name, settings } => {
                self.queues.insert(name.clone(), settings.clone());
            }
            Change::LetterTaken { id, refused } => self.letters.push((*id, refused.clone())),
        }
    }

    /// Under a second one of its name, a job that is kept could be neither replayed nor forgotten.
    fn check_name_is_free(&self, job: &Job) {
        let kept = self.find(&job.name, job.submitted_at);
        let is_hidden = job.number > self.last_number && matches!(kept, Some(Found::Finished(..)));
        assert!(!is_hidden, "a job called {} is kept", job.name);
    }

    fn forget_records(&mut self, which: impl Fn(&OccurrenceRecord) -> bool) {
        let removed = self.occurrences.extract_if(.., |record| which(record));
        self.gone.extend(removed);
    }

    fn put(&mut self, job: &Arc<Job>, progress: Progress) {
        let twin = self.live.values().any(|live| live.job.name == job.name);
        assert!(!twin, "two live jobs are called {}", job.name);
        let live = LiveJob { job: Arc::clone(job), progress, lease: None };
        let before = self.live.insert(job.number, live);
        assert!(before.is_none(), "a number belongs to one job");
    }

    fn take(&mut self, number: JobNumber, due_at: Timestamp, name: &JobName) -> LiveJob {
        let live = self.live.remove(&number).unwrap_or_else(|| panic!("{name} is not live"));
        assert_eq!(live.job.name, *name, "a number belongs to one name");
        assert_eq!(live.progress.due_at, due_at, "{name} does not stand there");
        live
    }

    fn grant(
        &mut self,
        token: Token,
        holder: &WorkerName,
        granted_at: Timestamp,
        grant: &LeaseGrant,
    ) {
        let live = &self.live[&grant.place.number];
        assert_eq!(live.progress.due_at, grant.place.due_at, "it stands where it is taken from");
        assert_eq!(live.job.name.queue, grant.queue, "the queue of the job");
        assert!(live.lease.is_none(), "{}: one consumer at a time", live.job.name);
        let JobName { queue, key, .. } = &live.job.name;
        if key.is_some() {
            let busy = |other: &&LiveJob| {
                let name = &other.job.name;
                other.lease.is_some() && (&name.queue, &name.key) == (queue, key)
            };
            let other = self.live.values().find(busy);
            assert!(other.is_none(), "{} runs already", other.expect("one").job.name);
        }
        let (attempt, until, holder) = (grant.attempt, grant.until, holder.clone());
        let lease = Lease { token, attempt, holder, granted_at, until };
        let queue = grant.queue.clone();
        self.live.get_mut(&grant.place.number).expect("live").lease = Some(lease);
        self.tally(&queue).delivered += 1;
    }

    fn end(&mut self, job: &Job, ended: Option<&AttemptRecord>) {
        let Some(ended) = ended else { return };
        self.tally(&job.name.queue).failed += match ended.end {
            AttemptEnd::Failed | AttemptEnd::TimedOut | AttemptEnd::Unknown => 1,
            AttemptEnd::Succeeded
            | AttemptEnd::Released
            | AttemptEnd::Unregistered
            | AttemptEnd::Cancelled => 0,
        };
        self.attempts.push((job.number, ended.clone()));
    }

    fn finish(&mut self, job: &Arc<Job>, progress: Progress, finish: &Finish, keep_payload: bool) {
        let tally = self.tally(&job.name.queue);
        match finish.outcome {
            Outcome::Succeeded => tally.succeeded += 1,
            Outcome::Dead => tally.died += 1,
            Outcome::Cancelled => tally.cancelled += 1,
            Outcome::Expired => tally.expired += 1,
        }
        if finish.keep_until <= finish.at {
            return;
        }
        let mut kept = Job::clone(job);
        if !keep_payload {
            kept.payload = Payload::default();
        }
        let done = FinishedJob { job: Arc::new(kept), progress, finish: finish.clone() };
        self.finished.insert(job.number, done);
    }

    fn tally(&mut self, queue: &QueueName) -> &mut Counts {
        self.tally.entry(queue.clone()).or_default()
    }

    /// Takes in what the shard says about a queue. Counts of nothing mean that it was removed.
    pub(crate) fn count(&mut self, queue: QueueName, counts: Counts) {
        if counts == Counts::default() {
            let Counts { pending, running, dead, .. } = self.recount(&queue);
            assert_eq!((pending, running, dead), (0, 0, 0), "{queue} was removed with jobs");
            self.tally.remove(&queue);
        }
        self.counts.insert(queue, counts);
    }

    /// The counts of a queue, by counting.
    pub(crate) fn recount(&self, queue: &QueueName) -> Counts {
        let mut counts = self.tally.get(queue).copied().unwrap_or_default();
        for live in self.live.values().filter(|live| live.job.name.queue == *queue) {
            counts.running += u64::from(live.lease.is_some());
            counts.pending += u64::from(live.lease.is_none());
        }
        let dead = |done: &&FinishedJob| {
            done.job.name.queue == *queue && done.finish.outcome == Outcome::Dead
        };
        counts.dead = self.finished.values().filter(dead).count() as u64;
        counts
    }

    pub(crate) fn check_counts(&self) {
        for (queue, counts) in &self.counts {
            // How far a rate is used up is no count.
            let plain = Counts { rate_used_until_us: 0, ..*counts };
            assert_eq!(plain, self.recount(queue), "the counts of {queue}");
        }
        for live in self.live.values() {
            let counted = self.counts.contains_key(&live.job.name.queue);
            assert!(counted, "{} is in a queue without counts", live.job.name);
        }
    }

    /// How many ticks were accounted for, by whatever fate.
    pub(crate) fn ticks(&self) -> u64 {
        self.occurrences.iter().chain(&self.gone).map(|record| record.count).sum()
    }

    /// A page of a schedule's ledger, oldest first, and whether there is more.
    pub(crate) fn recall(
        &self,
        schedule: &ScheduleId,
        (after, until): (Timestamp, Timestamp),
        limit: usize,
    ) -> (Vec<OccurrenceRecord>, bool) {
        let fits = |record: &&OccurrenceRecord| {
            record.schedule == *schedule && record.last > after && record.last <= until
        };
        let mut rows: Vec<_> = self.occurrences.iter().filter(fits).cloned().collect();
        rows.sort_by_key(OccurrenceRecord::place);
        let more = rows.len() > limit;
        rows.truncate(limit);
        (rows, more)
    }

    pub(crate) fn knows(&self, number: JobNumber) -> bool {
        self.live.contains_key(&number) || self.finished.contains_key(&number)
    }

    pub(crate) fn live_by_name(&self, name: &JobName) -> Option<&LiveJob> {
        self.live.values().find(|live| live.job.name == *name)
    }

    /// The finished job of a name: the newest, should there be several.
    pub(crate) fn finished_by_name(&self, name: &JobName) -> Option<&FinishedJob> {
        self.finished.values().rev().find(|done| done.job.name == *name)
    }

    pub(crate) fn find(&self, name: &JobName, now: Timestamp) -> Option<Found> {
        if let Some(live) = self.live_by_name(name) {
            return Some(Found::Live(Arc::clone(&live.job), live.progress));
        }
        let done = self.finished_by_name(name).filter(|done| done.finish.keep_until > now)?;
        Some(Found::Finished(Arc::clone(&done.job), done.progress, done.finish.clone().into()))
    }

    pub(crate) fn page(
        &self,
        queue: &QueueName,
        after: Place,
        limit: usize,
    ) -> (Vec<(Arc<Job>, Progress)>, bool) {
        let place =
            |live: &LiveJob| Place { due_at: live.progress.due_at, number: live.job.number };
        let fits = |live: &&LiveJob| {
            live.job.name.queue == *queue && live.lease.is_none() && place(live) > after
        };
        let mut rows: Vec<&LiveJob> = self.live.values().filter(fits).collect();
        rows.sort_by_key(|live| place(live));
        let more = rows.len() > limit;
        rows.truncate(limit);
        (rows.into_iter().map(|live| (Arc::clone(&live.job), live.progress)).collect(), more)
    }

    /// Removes finished jobs whose time is up; says how many of a queue were dead.
    pub(crate) fn sweep(&mut self, queue: &QueueName, now: Timestamp) -> u64 {
        let over =
            |done: &FinishedJob| done.job.name.queue == *queue && done.finish.keep_until <= now;
        let dead = |done: &&FinishedJob| done.finish.outcome == Outcome::Dead;
        let gone = self.finished.values().filter(|done| over(done)).filter(dead).count();
        self.finished.retain(|_, done| !over(done));
        gone as u64
    }

    /// What a new owner starts from: settings, schedules, and the jobs that run or hold a key,
    /// each followed by its lease.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut changes = Vec::new();
        for (name, settings) in &self.queues {
            changes.push(Change::QueuePut { name: name.clone(), settings: settings.clone() });
        }
        for state in self.schedules.values() {
            changes.push(Change::SchedulePut { state: state.clone().into() });
        }
        for live in self.live.values() {
            if live.lease.is_none() && !live.progress.holds_key {
                continue;
            }
            let (job, progress) = (Arc::clone(&live.job), live.progress);
            let place = Place { due_at: progress.due_at, number: job.number };
            let queue = job.name.queue.clone();
            changes.push(Change::JobPut { job, progress, replaces: None, revives: None });
            if let Some(lease) = &live.lease {
                let (attempt, until) = (lease.attempt, lease.until);
                changes.push(Change::LeasesGranted {
                    first_token: lease.token,
                    holder: lease.holder.clone(),
                    at: lease.granted_at,
                    leases: vec![LeaseGrant { queue, place, attempt, until }],
                });
            }
        }
        let counts = self.counts.clone().into_iter().collect();
        Snapshot { next_number: self.next_number, changes, counts }
    }
}
