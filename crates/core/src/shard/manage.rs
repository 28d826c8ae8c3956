//! What people do to jobs after they were submitted: look, change, take back, run now, replay,
//! forget.

use alloc::boxed::Box;
use alloc::sync::Arc;

use crate::change::Change;
use crate::effect::{Answer, Effect};
use crate::error::Rejection;
use crate::id::JobNumber;
use crate::input::{Edit, Request, Ticket};
use crate::job::{
    AttemptEnd, AttemptRecord, Finish, Job, JobState, JobView, Outcome, Payload, Progress,
    check_due,
};
use crate::limits;
use crate::time::Timestamp;

use super::Shard;
use super::submit::finished_place;
use super::window::Subject;

impl Shard {
    /// Carries out a request about a job, now that it is known what there is under its name.
    pub(super) fn decide(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        request: Request,
        subject: Subject,
    ) {
        let answer = match request {
            Request::Submit(submission) => self.submit(now, submission, &subject),
            Request::Show(_) => self.existing(now, &subject).map(Answer::Job),
            Request::Explain(_) => self.explain(now, &subject),
            Request::Edit { edit, .. } => self.edit(now, &subject, *edit),
            Request::Cancel(_) => self.cancel(now, &subject),
            Request::Complete { number, result, .. } => {
                self.complete(now, &subject, number, result)
            }
            Request::RunNow(_) => self.run_now(now, &subject),
            Request::Replay(_) => self.replay(now, &subject),
            Request::Forget(_) => self.forget(now, &subject),
            other => unreachable!("{other:?} is not about one job"),
        };
        self.reply(ticket, answer);
    }

    /// What stands under the name, as people see it at `now`.
    pub(super) fn standing(&self, now: Timestamp, subject: &Subject) -> Option<JobView> {
        match subject {
            Subject::Here(number) => self.jobs.get(*number).map(|entry| JobView {
                job: self.job_of(entry),
                state: entry.state,
                progress: entry.progress,
                lease: entry.lease.clone(),
                finish: None,
            }),
            Subject::Far(job, progress) => Some(JobView {
                job: Arc::clone(job),
                state: progress.state(now),
                progress: *progress,
                lease: None,
                finish: None,
            }),
            Subject::Finished(job, progress, finish) => Some(JobView {
                job: Arc::clone(job),
                state: finish.outcome.state(),
                progress: *progress,
                lease: None,
                finish: Some(finish.clone()),
            }),
            Subject::Absent => None,
        }
    }

    fn existing(&self, now: Timestamp, subject: &Subject) -> Result<JobView, Rejection> {
        self.standing(now, subject).ok_or(Rejection::NoSuchJob)
    }

    /// A job that waits: neither running nor finished.
    fn pending(&self, now: Timestamp, subject: &Subject) -> Result<JobView, Rejection> {
        let view = self.existing(now, subject)?;
        match view.state {
            JobState::Scheduled | JobState::Ready => Ok(view),
            JobState::Running => Err(Rejection::WrongState {
                state: view.state.as_str(),
                hint: "wait for its end, or cancel it and submit it again",
            }),
            JobState::Dead => {
                Err(Rejection::WrongState { state: view.state.as_str(), hint: "replay it" })
            }
            JobState::Succeeded | JobState::Cancelled | JobState::Expired => {
                Err(Rejection::WrongState {
                    state: view.state.as_str(),
                    hint: "submit it again to run it again",
                })
            }
        }
    }

    fn edit(&mut self, now: Timestamp, subject: &Subject, edit: Edit) -> Result<Answer, Rejection> {
        let view = self.pending(now, subject)?;
        if self.store_full && edit.payload.is_some() {
            return Err(Rejection::StoreFull);
        }
        let due_at = edit.due_at.unwrap_or(view.progress.due_at);
        check_due(due_at, now)?;
        let job = edited(now, &view.job, edit)?;
        if let Some(expires_at) = job.expires_at
            && expires_at < due_at
        {
            return Err(Rejection::ExpiresBeforeDue { expires_at });
        }
        let progress = Progress { due_at, ..view.progress };
        let from = view.progress.due_at;
        self.change(Change::JobMoved { job: Arc::clone(&job), from, progress, ended: None });
        Ok(Answer::Job(JobView { job, state: progress.state(now), progress, ..view }))
    }

    fn run_now(&mut self, now: Timestamp, subject: &Subject) -> Result<Answer, Rejection> {
        let view = self.pending(now, subject)?;
        if view.progress.due_at <= now {
            return Ok(Answer::Job(view));
        }
        // One that was not due yet gets a new time, from which its expiry and its age are counted;
        // one that waits for a retry was due once, and only need not wait.
        let job = if view.job.scheduled_for > now {
            edited(now, &view.job, Edit { due_at: Some(now), ..Edit::default() })?
        } else {
            Arc::clone(&view.job)
        };
        let progress = Progress { due_at: now, ..view.progress };
        let from = view.progress.due_at;
        self.change(Change::JobMoved { job: Arc::clone(&job), from, progress, ended: None });
        Ok(Answer::Job(JobView { job, state: JobState::Ready, progress, ..view }))
    }

    fn cancel(&mut self, now: Timestamp, subject: &Subject) -> Result<Answer, Rejection> {
        let view = self.existing(now, subject)?;
        match view.state {
            JobState::Cancelled => return Ok(Answer::Job(view)),
            JobState::Succeeded | JobState::Dead | JobState::Expired => {
                return Err(Rejection::WrongState {
                    state: view.state.as_str(),
                    hint: "only jobs that have not ended can be cancelled",
                });
            }
            JobState::Scheduled | JobState::Ready | JobState::Running => {}
        }
        let ended = self.cut_short(now, &view, AttemptEnd::Cancelled);
        let finish = Box::new(Finish {
            outcome: Outcome::Cancelled,
            at: now,
            reason: None,
            result: None,
            keep_until: view.job.keep_until(now, view.job.retention),
        });
        self.change(Change::JobFinished {
            job: Arc::clone(&view.job),
            progress: view.progress,
            finish: finish.clone(),
            ended,
            keep_payload: false,
        });
        let state = JobState::Cancelled;
        Ok(Answer::Job(JobView { state, lease: None, finish: Some(finish), ..view }))
    }

    /// Whoever runs the job hears that it need not, and the attempt ends like this.
    fn cut_short(
        &mut self,
        now: Timestamp,
        view: &JobView,
        end: AttemptEnd,
    ) -> Option<Box<AttemptRecord>> {
        let lease = view.lease.as_ref()?;
        self.effects.push_back(Effect::Abandon(lease.token));
        Some(Box::new(super::finish::record(lease, now, end, None)))
    }

    /// The work was committed elsewhere, once and for all: whoever runs the job now is in vain, and
    /// one that waits for another try needs none.
    fn complete(
        &mut self,
        now: Timestamp,
        subject: &Subject,
        number: JobNumber,
        result: Option<Payload>,
    ) -> Result<Answer, Rejection> {
        if let Some(result) = &result {
            result.check("result", limits::RESULT_BYTES_MAX)?;
        }
        let view = self.existing(now, subject)?;
        if view.job.number != number {
            return Err(Rejection::NoSuchJob);
        }
        match view.state {
            JobState::Succeeded => return Ok(Answer::Done),
            state if state.is_final() => {
                let hint = "its work was done all the same";
                return Err(Rejection::WrongState { state: state.as_str(), hint });
            }
            _ => {}
        }
        let ended = self.cut_short(now, &view, AttemptEnd::Succeeded);
        let running = view.lease.as_ref().map(|lease| lease.attempt);
        let attempts = running.unwrap_or(view.progress.attempts);
        let finish = Box::new(super::finish::success(&view.job, now, result));
        let progress = Progress { attempts, ..view.progress };
        self.change(Change::JobFinished {
            job: view.job,
            progress,
            finish,
            ended,
            keep_payload: false,
        });
        Ok(Answer::Done)
    }

    fn replay(&mut self, now: Timestamp, subject: &Subject) -> Result<Answer, Rejection> {
        let view = self.existing(now, subject)?;
        let Some(finish) = view.finish.as_ref().filter(|_| view.state == JobState::Dead) else {
            return Err(Rejection::WrongState {
                state: view.state.as_str(),
                hint: "only dead jobs can be replayed",
            });
        };
        let mut state = view.state;
        state.transition(JobState::Scheduled);
        let progress = Progress::fresh(now);
        // It starts a new life: what its age and expiry forbade belongs to the old one.
        let job = Arc::new(Job { scheduled_for: now, expires_at: None, ..Job::clone(&view.job) });
        self.change(Change::JobPut {
            job: Arc::clone(&job),
            progress,
            replaces: None,
            revives: Some(finished_place(&view.job, finish)),
        });
        self.note_replayed(&view.job);
        Ok(Answer::Job(JobView {
            job,
            state: JobState::Ready,
            progress,
            lease: None,
            finish: None,
        }))
    }

    fn forget(&mut self, now: Timestamp, subject: &Subject) -> Result<Answer, Rejection> {
        let view = self.existing(now, subject)?;
        let Some(finish) = &view.finish else {
            return Err(Rejection::WrongState {
                state: view.state.as_str(),
                hint: "cancel it first",
            });
        };
        let place = finished_place(&view.job, finish);
        self.change(Change::JobForgotten { job: view.job, place });
        Ok(Answer::Done)
    }
}

/// The job with the edit made, checked as if it were new.
fn edited(now: Timestamp, job: &Arc<Job>, edit: Edit) -> Result<Arc<Job>, Rejection> {
    edit.check()?;
    let mut new = Job::clone(job);
    if let Some(due_at) = edit.due_at {
        // A new time moves the expiry along, as if the job were submitted with it now: a time that
        // has passed takes nothing from what it has, nor had it at its submission.
        let began = job.waits_since(job.scheduled_for);
        new.expires_at = job.expires_at.map(|at| due_at.max(now).plus(at.since(began)));
        new.scheduled_for = due_at;
    }
    new.payload = edit.payload.unwrap_or(new.payload);
    new.target = edit.target.unwrap_or(new.target);
    new.retry = edit.retry.unwrap_or(new.retry);
    new.timeout = edit.timeout.unwrap_or(new.timeout);
    Ok(Arc::new(new))
}
