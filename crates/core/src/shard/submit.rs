//! Accepting jobs.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;

use crate::change::{Change, FinishedPlace, Place};
use crate::effect::{Answer, Submitted};
use crate::error::Rejection;
use crate::id::{JobName, QueueName};
use crate::input::Request;
use crate::job::{
    Finish, IdOrigin, Job, JobSpec, JobView, Occurrence, OnConflict, Progress, Submission,
};
use crate::limits;
use crate::time::Timestamp;

use super::Shard;
use super::window::Subject;

impl Shard {
    /// What can be refused before anything is looked up.
    pub(super) fn admit(&self, now: Timestamp, request: &Request) -> Result<(), Rejection> {
        let Request::Submit(submission) = request else { return Ok(()) };
        if self.draining {
            return Err(Rejection::Draining);
        }
        submission.check(now)
    }

    /// Whether the queue takes one more job.
    pub(super) fn check_queue(&self, name: &QueueName) -> Result<(), Rejection> {
        self.check_open(name)?;
        let queue = self.queue_ids.get(name).map(|at| &self.queues[*at]);
        match queue.and_then(|queue| Some((queue, queue.settings.pending_max?))) {
            Some((queue, max)) if queue.counts.pending >= max => {
                Err(Rejection::QueueFull { queue: name.to_string(), max })
            }
            _ => Ok(()),
        }
    }

    /// Whether the queue takes jobs at all.
    pub(super) fn check_open(&self, name: &QueueName) -> Result<(), Rejection> {
        match self.queue_ids.get(name) {
            Some(at) if self.queues[*at].settings.paused_in => {
                Err(Rejection::QueuePaused { queue: name.to_string() })
            }
            None if self.queue_ids.len() >= limits::QUEUES_MAX => {
                Err(Rejection::TooMany { what: "queues", max: limits::QUEUES_MAX })
            }
            _ => Ok(()),
        }
    }

    /// Whether a job can be put in the place of what stands under its name. Asked when it is known
    /// that one is to be put: whoever only repeats himself is answered in any case.
    fn check_room(&self, name: &QueueName, standing: Option<&JobView>) -> Result<(), Rejection> {
        if self.store_full {
            return Err(Rejection::StoreFull);
        }
        match standing {
            // One goes, one comes.
            Some(old) if !old.state.is_final() && old.lease.is_none() => self.check_open(name),
            _ => self.check_queue(name),
        }
    }

    pub(super) fn submit(
        &mut self,
        now: Timestamp,
        submission: Box<Submission>,
        subject: &Subject,
    ) -> Result<Answer, Rejection> {
        let Some(standing) = self.standing(now, subject) else {
            self.check_room(&submission.name.queue, None)?;
            return Ok(self.create(now, submission, Submitted::Created, None, None));
        };
        if submission.fingerprint.is_some() {
            if standing.job.fingerprint == submission.fingerprint {
                return Ok(Answer::Submitted { view: standing, how: Submitted::Kept });
            }
            if submission.id_origin == IdOrigin::Key {
                return Err(Rejection::IdempotencyMismatch);
            }
        }
        match submission.on_conflict {
            OnConflict::Reject => Err(Rejection::JobExists),
            OnConflict::Keep => Ok(Answer::Submitted { view: standing, how: Submitted::Kept }),
            OnConflict::Replace => {
                self.check_room(&submission.name.queue, Some(&standing))?;
                Ok(self.replace(now, submission, &standing))
            }
        }
    }

    fn replace(&mut self, now: Timestamp, submission: Box<Submission>, old: &JobView) -> Answer {
        match &old.finish {
            Some(finish) => {
                let place = finished_place(&old.job, finish);
                self.create(now, submission, Submitted::Created, None, Some(place))
            }
            None => {
                if let Some(lease) = &old.lease {
                    // Its consumer finds out by its token: an answer will be refused.
                    let token = lease.token;
                    self.effects.push_back(crate::effect::Effect::Abandon(token));
                }
                let place = Place { due_at: old.progress.due_at, number: old.job.number };
                self.create(now, submission, Submitted::Replaced, Some(place), None)
            }
        }
    }

    fn create(
        &mut self,
        now: Timestamp,
        submission: Box<Submission>,
        how: Submitted,
        replaces: Option<Place>,
        revives: Option<FinishedPlace>,
    ) -> Answer {
        let Submission { name, due_at, spec, fingerprint, .. } = *submission;
        let job = self.new_job(now, name, due_at, spec, None, fingerprint);
        let progress = Progress::fresh(due_at);
        self.change(Change::JobPut { job: Arc::clone(&job), progress, replaces, revives });
        Answer::Submitted { view: fresh_view(job, now), how }
    }

    /// A job with the next number. It is not put yet.
    pub(super) fn new_job(
        &self,
        now: Timestamp,
        name: JobName,
        due_at: Timestamp,
        spec: JobSpec,
        occurrence: Option<Occurrence>,
        fingerprint: Option<u64>,
    ) -> Arc<Job> {
        let name = JobName { queue: self.known(name.queue), ..name };
        let job = spec.job(self.next_number, name, now, due_at);
        Arc::new(Job { occurrence, fingerprint, ..job })
    }

    /// The same name, shared with all jobs of the queue.
    fn known(&self, queue: QueueName) -> QueueName {
        self.queue_ids.get_key_value(&queue).map_or(queue, |(known, _)| known.clone())
    }
}

/// A job that was just put, as its producer sees it.
pub(super) fn fresh_view(job: Arc<Job>, now: Timestamp) -> JobView {
    let progress = Progress::fresh(job.scheduled_for);
    JobView { job, state: progress.state(now), progress, lease: None, finish: None }
}

pub(super) fn finished_place(job: &Job, finish: &Finish) -> FinishedPlace {
    FinishedPlace { outcome: finish.outcome, at: finish.at, number: job.number }
}
