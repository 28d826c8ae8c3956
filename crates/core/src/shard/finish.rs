//! How attempts end, and what follows: success, a retry, death, or another try that does not
//! count.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;

use crate::change::Change;
use crate::effect::{Answer, Effect};
use crate::error::Rejection;
use crate::id::{JobNumber, QueueName, Token};
use crate::input::{Nack, Report};
use crate::job::{
    AttemptEnd, AttemptRecord, Finish, Job, JobState, KeyOnFailure, Lease, OnUnknown, Outcome,
    Payload, Progress, Target, cut_reason,
};
use crate::limits;
use crate::retry::{GiveUp, Verdict};
use crate::time::{Millis, Timestamp};

use super::Shard;
use super::index::Lane;

/// Why nothing is known of an attempt that a process took along when it ended.
const UNSEEN_END: &str = "the process ended during the attempt: nobody saw how it went";

/// The same of one that the server cut short as it shut down.
const SHUT_DOWN: &str = "the server shut down during the attempt";

/// Why an attempt was given back that this node had handed out to itself.
const NOT_BEGUN: &str = "it had not begun";

/// An attempt that failed, and what is known about it.
struct Failure {
    end: AttemptEnd,
    reason: Option<Arc<str>>,
    retry_after: Option<Millis>,
    permanent: bool,
    /// Whether it may have had its effect all the same.
    unseen: bool,
    random: u64,
}

impl Shard {
    /// A target reports. Reports about leases that have ended are too late and change nothing.
    pub(super) fn delivered(&mut self, now: Timestamp, token: Token, report: Report, random: u64) {
        let Some((number, _)) = self.lease_of(token) else { return };
        // What was cut off or given back says nothing of how fast receivers are.
        if matches!(report, Report::Succeeded { .. } | Report::Failed { .. }) {
            let lane = self.jobs[number].lane;
            self.paces[lane as usize].note(now);
        }
        match report {
            Report::Succeeded { result } => self.succeed(now, number, result),
            Report::Failed { reason, retry_after, permanent } => {
                let reason = Some(cut_reason(&reason));
                let end = AttemptEnd::Failed;
                // The wish of a stranger, within what the producer allows.
                let cap = self.jobs[number].job().retry.cap;
                let retry_after = retry_after.map(|wish| wish.min(cap));
                let unseen = false;
                let failure = Failure { end, reason, retry_after, permanent, unseen, random };
                self.fail(now, number, &failure);
            }
            Report::Unanswered { reason } => {
                self.fail_unseen(now, number, AttemptEnd::Failed, &reason, random);
            }
            Report::TimedOut => self.time_out(now, number, random),
            Report::PutOff { reason, delay } => {
                let due_at = now.plus(delay.min(limits::RETRY_DELAY_MAX));
                let undone = Some((AttemptEnd::Released, Some(cut_reason(&reason))));
                self.give_back(now, number, due_at, undone);
            }
            Report::Unregistered => {
                let delay = self.config.unregistered_delay;
                self.give_back(now, number, now.plus(delay), None);
            }
            Report::CutShort if self.jobs[number].job().on_unknown == OnUnknown::Park => {
                self.fail_unseen(now, number, AttemptEnd::Unknown, SHUT_DOWN, random);
            }
            Report::Released => {
                let undone = Some((AttemptEnd::Released, Some(Arc::from(NOT_BEGUN))));
                self.give_back(now, number, self.place_of(number), undone);
            }
            Report::CutShort => {
                let undone = Some((AttemptEnd::Released, None));
                self.give_back(now, number, self.place_of(number), undone);
            }
        }
    }

    /// When it is due, if it goes back to where it was: as if it had not been handed out.
    fn place_of(&self, number: JobNumber) -> Timestamp {
        self.jobs[number].progress.due_at
    }

    pub(super) fn ack(
        &mut self,
        now: Timestamp,
        token: Token,
        result: Option<Payload>,
    ) -> Result<Answer, Rejection> {
        if let Some(result) = &result {
            result.check("result", limits::RESULT_BYTES_MAX)?;
            if self.store_full && result.bytes.len() > limits::RESULT_WHEN_FULL_BYTES_MAX {
                return Err(Rejection::StoreFull);
            }
        }
        let Some((number, _)) = self.lease_of(token) else {
            return match self.finished.get(&token) {
                // The first acknowledgement's answer was lost on the way: say it again.
                Some(Outcome::Succeeded) => Ok(Answer::Done),
                _ => Err(Rejection::StaleToken),
            };
        };
        self.succeed(now, number, result);
        Ok(Answer::Done)
    }

    pub(super) fn nack(
        &mut self,
        now: Timestamp,
        token: Token,
        reason: Option<Arc<str>>,
        how: Nack,
        random: u64,
    ) -> Result<Answer, Rejection> {
        let (number, _) = self.lease_of(token).ok_or(Rejection::StaleToken)?;
        let reason = reason.map(|text| cut_reason(&text));
        let (retry_after, permanent) = match how {
            Nack::Retry { delay } => {
                check_delay(delay.unwrap_or_default())?;
                (delay, false)
            }
            Nack::Release { delay } => {
                check_delay(delay)?;
                let at_once = delay == Millis::ZERO;
                let due_at = if at_once { self.place_of(number) } else { now.plus(delay) };
                self.give_back(now, number, due_at, Some((AttemptEnd::Released, reason)));
                return Ok(Answer::Done);
            }
            Nack::Dead => (None, true),
        };
        let (end, unseen) = (AttemptEnd::Failed, false);
        let failure = Failure { end, reason, retry_after, permanent, unseen, random };
        self.fail(now, number, &failure);
        Ok(Answer::Done)
    }

    pub(super) fn extend(
        &mut self,
        now: Timestamp,
        token: Token,
        lease: Millis,
    ) -> Result<Answer, Rejection> {
        Lease::check_span(lease)?;
        let (number, held) = self.lease_of(token).ok_or(Rejection::StaleToken)?;
        let (before, until) = (held.until, now.plus(lease));
        if until <= before {
            // To extend is never to shorten: another part of the worker may count on the rest.
            return Ok(Answer::Extended(before));
        }
        let entry = &self.jobs[number];
        let (queue, place) = (entry.job().name.queue.clone(), entry.place());
        self.change(Change::LeaseExtended { queue, place, token, until });
        Ok(Answer::Extended(until))
    }

    /// A lease ran out: the worker is gone, or too slow, or the target did not keep its own
    /// deadline.
    pub(super) fn lease_ended(&mut self, now: Timestamp, number: JobNumber) {
        let Some(lease) = self.jobs.get(number).and_then(|entry| entry.lease.as_ref()) else {
            return;
        };
        let token = lease.token;
        self.effects.push_back(Effect::Abandon(token));
        if token.epoch == self.epoch && token.counter > self.durable_counter {
            // The store was away for longer than it lasted: it was no attempt.
            let undone = Some((AttemptEnd::Released, None));
            return self.give_back(now, number, self.place_of(number), undone);
        }
        self.time_out(now, number, spread(token));
    }

    /// A job waiting to start has become too old to.
    pub(super) fn expire_waiting(&mut self, now: Timestamp, number: JobNumber) {
        let Some(entry) = self.jobs.get(number) else { return };
        if entry.lease.is_some() || entry.job().expires_at.is_none_or(|at| at > now) {
            return;
        }
        let (job, progress) = (Arc::clone(entry.job()), entry.progress);
        self.expire(now, &job, progress, None);
    }

    /// Settles what an earlier life of this node left under way: nobody saw how it ended.
    pub(super) fn resolve_unknown(&mut self, now: Timestamp) {
        while !self.is_laden()
            && let Some(number) = self.unresolved.pop()
        {
            let Some(entry) = self.jobs.get(number) else { continue };
            let Some(lease) = entry.lease.clone() else { continue };
            let (job, crashes) = (Arc::clone(entry.job()), entry.progress.crashes + 1);
            let in_process = matches!(job.target, Target::Handler(_));
            let reason = if job.on_unknown == OnUnknown::Park {
                Some("the process ended during the attempt and the job asked to be parked")
            } else if in_process && crashes >= limits::CRASHES_MAX {
                Some("the process ended three times while this job ran in it")
            } else {
                None
            };
            let nobody_saw = Some(Arc::from(UNSEEN_END));
            let ended = Box::new(record(&lease, now, AttemptEnd::Unknown, nobody_saw));
            match reason {
                Some(reason) => self.bury(now, &job, entry_progress(self, number), reason, ended),
                None => {
                    let progress = Progress { crashes, ..entry_progress(self, number) };
                    self.wait_again(&job, progress, Some(ended));
                }
            }
        }
    }

    fn succeed(&mut self, now: Timestamp, number: JobNumber, result: Option<Payload>) {
        let entry = &self.jobs[number];
        let job = Arc::clone(entry.job());
        let Some(lease) = &entry.lease else { return };
        let attempts = lease.attempt;
        let ended = Box::new(record(lease, now, AttemptEnd::Succeeded, None));
        let progress = Progress { attempts, ..entry.progress };
        let finish = Box::new(success(&job, now, result));
        let ended = Some(ended);
        self.change(Change::JobFinished { job, progress, finish, ended, keep_payload: false });
    }

    fn time_out(&mut self, now: Timestamp, number: JobNumber, random: u64) {
        let entry = &self.jobs[number];
        let Some(lease) = &entry.lease else { return };
        let reason = match entry.lane {
            Lane::Pull => format!("the lease of worker {} ran out", lease.holder),
            Lane::Push | Lane::Handler => format!("no answer within {}", entry.job().timeout),
        };
        self.fail_unseen(now, number, AttemptEnd::TimedOut, &reason, random);
    }

    /// An attempt failed as far as we know, which is not far.
    fn fail_unseen(
        &mut self,
        now: Timestamp,
        number: JobNumber,
        end: AttemptEnd,
        reason: &str,
        random: u64,
    ) {
        let reason = Some(cut_reason(reason));
        let (retry_after, permanent, unseen) = (None, false, true);
        let failure = Failure { end, reason, retry_after, permanent, unseen, random };
        self.fail(now, number, &failure);
    }

    fn fail(&mut self, now: Timestamp, number: JobNumber, failure: &Failure) {
        let entry = &self.jobs[number];
        let (job, progress) = (Arc::clone(entry.job()), entry.progress);
        let Some(lease) = &entry.lease else { return };
        let attempts = lease.attempt;
        let parks = failure.unseen && job.on_unknown == OnUnknown::Park;
        let ended = Box::new(record(lease, now, failure.end, failure.reason.clone()));
        let progress = Progress { attempts, crashes: 0, ..progress };
        if parks {
            let reason = "nobody can say how the attempt ended, and the job asked to be parked";
            return self.bury(now, &job, progress, reason, ended);
        }
        if failure.permanent {
            let reason = "the target said that trying again is pointless";
            return self.bury(
                now,
                &job,
                progress,
                failure.reason.as_deref().unwrap_or(reason),
                ended,
            );
        }
        let (wish, random) = (failure.retry_after, failure.random);
        let first_due = job.waits_since(job.scheduled_for);
        match job.retry.after_failure(attempts, first_due, now, wish, random) {
            Verdict::Again(due_at) if job.expires_at.is_some_and(|at| at < due_at) => {
                self.expire(now, &job, progress, Some(ended));
            }
            Verdict::Again(due_at) => {
                self.wait_again(&job, Progress { due_at, ..progress }, Some(ended));
            }
            Verdict::GiveUp(GiveUp::Attempts) => {
                let reason = failure.reason.as_deref().unwrap_or("the last attempt failed");
                self.bury(now, &job, progress, reason, ended);
            }
            Verdict::GiveUp(GiveUp::Age) => {
                let old = "it became too old to be tried again";
                let reason = failure.reason.as_ref().map(|why| format!("{old}: {why}"));
                self.bury(now, &job, progress, reason.as_deref().unwrap_or(old), ended);
            }
        }
    }

    /// The attempt ended without counting. A job that is put off until it may not be started any
    /// more has ended, too: it would only be in the way of its key.
    fn give_back(
        &mut self,
        now: Timestamp,
        number: JobNumber,
        due_at: Timestamp,
        end: Option<(AttemptEnd, Option<Arc<str>>)>,
    ) {
        let entry = &self.jobs[number];
        let job = Arc::clone(entry.job());
        let progress = entry.progress;
        let ended = match (&entry.lease, end) {
            (Some(lease), Some((end, reason))) => Some(Box::new(record(lease, now, end, reason))),
            _ => None,
        };
        let put_off = ended.is_some() && due_at > now;
        if put_off && job.expires_at.is_some_and(|at| at < due_at) {
            return self.expire(now, &job, progress, ended);
        }
        self.wait_again(&job, Progress { due_at, ..progress }, ended);
    }

    fn wait_again(
        &mut self,
        job: &Arc<Job>,
        progress: Progress,
        ended: Option<Box<AttemptRecord>>,
    ) {
        let from = entry_progress(self, job.number).due_at;
        let holds_key = job.name.key.is_some() && job.key_on_failure == KeyOnFailure::Block;
        let progress = Progress { holds_key, ..progress };
        self.change(Change::JobMoved { job: Arc::clone(job), from, progress, ended });
    }

    /// The job is dead: kept whole, for a human.
    fn bury(
        &mut self,
        now: Timestamp,
        job: &Arc<Job>,
        progress: Progress,
        reason: &str,
        ended: Box<AttemptRecord>,
    ) {
        let finish = Box::new(Finish {
            outcome: Outcome::Dead,
            at: now,
            reason: Some(cut_reason(reason)),
            result: None,
            keep_until: job.keep_until(now, self.config.dead_retention),
        });
        let (job, ended) = (Arc::clone(job), Some(ended));
        self.change(Change::JobFinished { job, progress, finish, ended, keep_payload: true });
    }

    pub(super) fn expire(
        &mut self,
        now: Timestamp,
        job: &Arc<Job>,
        progress: Progress,
        ended: Option<Box<AttemptRecord>>,
    ) {
        let finish = Box::new(Finish {
            outcome: Outcome::Expired,
            at: now,
            reason: Some(Arc::from("it could not be started in time")),
            result: None,
            keep_until: job.keep_until(now, job.retention),
        });
        let job = Arc::clone(job);
        self.change(Change::JobFinished { job, progress, finish, ended, keep_payload: false });
    }

    pub(super) fn swept(&mut self, queue: &QueueName, dead: u64) {
        let Some(at) = self.queue_ids.get(queue).copied() else { return };
        let counts = self.counts(at);
        counts.dead = counts.dead.saturating_sub(dead);
    }
}

/// The end of a job that is done.
pub(super) fn success(job: &Job, now: Timestamp, result: Option<Payload>) -> Finish {
    Finish {
        outcome: Outcome::Succeeded,
        at: now,
        reason: None,
        result: result.filter(|_| job.keep_result),
        keep_until: job.keep_until(now, job.retention),
    }
}

/// The attempt of a lease, ended.
pub(super) fn record(
    lease: &Lease,
    now: Timestamp,
    end: AttemptEnd,
    reason: Option<Arc<str>>,
) -> AttemptRecord {
    AttemptRecord {
        attempt: lease.attempt,
        token: lease.token,
        holder: lease.holder.clone(),
        started_at: lease.granted_at,
        ended_at: now,
        end,
        reason,
    }
}

/// The progress under which the store has the job: its due time is where it stands.
fn entry_progress(shard: &Shard, number: JobNumber) -> Progress {
    let entry = &shard.jobs[number];
    assert!(entry.state == JobState::Running, "only running jobs end an attempt");
    entry.progress
}

fn check_delay(delay: Millis) -> Result<(), Rejection> {
    if delay > limits::RETRY_DELAY_MAX {
        return Err(Rejection::out_of_range("delay", "0ms", limits::RETRY_DELAY_MAX));
    }
    Ok(())
}

/// A number for the jitter of a retry that no outside event brought one for: as good as random
/// between jobs, the same for the same lease.
fn spread(token: Token) -> u64 {
    let mut mixed = token.counter ^ (u64::from(token.epoch.0) << 40);
    mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0x7fb5_d329_728e_a185);
    mixed ^ (mixed >> 27)
}
