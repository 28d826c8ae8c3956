//! What requests do to the model, and what follows the end of an attempt.

use hence_core::error::Rejection;
use hence_core::id::{JobId, JobName, JobNumber, QueueName};
use hence_core::input::{Edit, Nack, Request};
use hence_core::job::{
    IdOrigin, JobSpec, KeyOnFailure, OnConflict, OnUnknown, Outcome, Submission,
};
use hence_core::queue::QueueSettings;
use hence_core::retry::Backoff;
use hence_core::time::{Millis, Timestamp};

use super::naive::{Expected, Job, Life, Model, Schedule};

pub(crate) struct Failure {
    pub(crate) retry_after: Option<i64>,
    pub(crate) permanent: bool,
    /// Whether it may have had its effect all the same.
    pub(crate) unseen: bool,
    /// The number that came with the report.
    pub(crate) jitter: Option<u64>,
}

impl Model {
    /// What can be refused without looking at other jobs of the name.
    pub(crate) fn admit(&self) -> Result<(), Rejection> {
        if self.draining {
            return Err(Rejection::Draining);
        }
        Ok(())
    }

    /// Whether a job may be put under a name.
    fn check_room(&self, name: &JobName, old: Option<&Job>) -> Result<(), Rejection> {
        if self.full {
            return Err(Rejection::StoreFull);
        }
        match old {
            Some(old) if old.life == Life::Waiting => self.check_open(name),
            _ => self.check_queue(name),
        }
    }

    fn check_open(&self, name: &JobName) -> Result<(), Rejection> {
        let queue = &name.queue;
        if self.setting(queue).paused_in {
            return Err(Rejection::QueuePaused { queue: queue.to_string() });
        }
        Ok(())
    }

    /// Whether a queue takes a job.
    fn check_queue(&self, name: &JobName) -> Result<(), Rejection> {
        self.check_open(name)?;
        let queue = &name.queue;
        let settings = self.setting(queue);
        let pending = |job: &&Job| job.name.queue == *queue && job.life == Life::Waiting;
        let pending = self.jobs.iter().filter(pending).count() as u64;
        match settings.pending_max {
            Some(max) if pending >= max => {
                Err(Rejection::QueueFull { queue: queue.to_string(), max })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn decide(&mut self, request: &Request) -> Expected {
        let result = match request {
            // Admitted again: it may have waited for the store's answer.
            Request::Submit(submission) => self.admit().and_then(|()| self.submit(submission)),
            Request::Show(name) => self.existing(name).map(|job| Expected::Job(job.seen())),
            Request::Edit { name, edit } => self.edit(name, edit),
            Request::Cancel(name) => self.cancel(name),
            Request::Complete { name, number, .. } => self.complete(name, *number),
            Request::RunNow(name) => self.run_now(name),
            Request::Replay(name) => self.replay(name),
            Request::Forget(name) => self.forget(name),
            Request::Extend { token, lease } => self.leased(*token).map(|number| {
                let until = self.now + lease.get() as i64;
                let Life::Running { until: end, .. } = &mut self.live(number).life else {
                    unreachable!("it runs")
                };
                *end = until.max(*end);
                Expected::Until(*end)
            }),
            Request::Ack { token, .. } => self.ack(*token),
            Request::Nack { token, how, random, .. } => self.nack(*token, *how, *random),
            Request::PutSchedule { schedule, .. } => self.put_schedule(schedule),
            Request::RemoveSchedule(id) => self.schedule_at(id).map(|at| {
                self.schedules.remove(at);
                Expected::Done
            }),
            Request::PauseSchedule { id, .. } => {
                self.tick();
                self.schedule_at(id).map(|at| {
                    let schedule = &mut self.schedules[at];
                    (schedule.paused, schedule.next) = (true, None);
                    Expected::Anything
                })
            }
            Request::ResumeSchedule(id) => {
                let now = self.now;
                self.schedule_at(id).map(|at| {
                    let schedule = &mut self.schedules[at];
                    if schedule.paused {
                        schedule.paused = false;
                        schedule.paused_until = Some(now);
                        schedule.next = Some(schedule.first_tick_after(schedule.accounted));
                    }
                    Expected::Anything
                })
            }
            Request::TriggerSchedule(id) => self.trigger(id),
            Request::PutQueue { name, settings } => {
                self.queues.insert(name.clone(), settings.clone());
                self.forget_starts(name);
                Ok(Expected::Anything)
            }
            Request::RemoveQueue(name) => self.remove_queue(name),
            other => panic!("no rule for {other:?}"),
        };
        result.unwrap_or_else(Expected::Refused)
    }

    fn remove_queue(&mut self, name: &QueueName) -> Result<Expected, Rejection> {
        if !self.used.contains(name) && self.setting(name) == QueueSettings::default() {
            return Err(Rejection::NoSuchQueue);
        }
        let (mut pending, mut running, mut dead) = (0, 0, 0);
        for job in self.jobs.iter().filter(|job| job.name.queue == *name) {
            match job.life {
                Life::Waiting => pending += 1,
                Life::Running { .. } => running += 1,
                Life::Ended { outcome: Outcome::Dead, .. } => dead += 1,
                Life::Ended { .. } => {}
            }
        }
        if pending + running + dead > 0 {
            return Err(Rejection::QueueInUse { queue: name.to_string(), pending, running, dead });
        }
        self.queues.remove(name);
        self.used.remove(name);
        self.forget_starts(name);
        Ok(Expected::Done)
    }

    fn existing(&self, name: &JobName) -> Result<Job, Rejection> {
        let visible = |job: &&Job| job.name == *name && job.is_visible();
        self.jobs.iter().rev().find(visible).cloned().ok_or(Rejection::NoSuchJob)
    }

    fn submit(&mut self, submission: &Submission) -> Result<Expected, Rejection> {
        let old = self.existing(&submission.name).ok();
        if let Some(old) = &old {
            if submission.fingerprint.is_some() {
                if submission.fingerprint == old.fingerprint {
                    return Ok(Expected::Job(old.seen()));
                }
                if submission.id_origin == IdOrigin::Key {
                    return Err(Rejection::IdempotencyMismatch);
                }
            }
            match submission.on_conflict {
                OnConflict::Reject => return Err(Rejection::JobExists),
                OnConflict::Keep => return Ok(Expected::Job(old.seen())),
                OnConflict::Replace => {}
            }
        }
        self.check_room(&submission.name, old.as_ref())?;
        if let Some(old) = old {
            self.jobs.retain(|job| job.number != old.number);
        }
        let due = submission.due_at.as_millis();
        let job = self.create(submission.name.clone(), due, submission.spec.clone());
        job.fingerprint = submission.fingerprint;
        Ok(Expected::Job(job.seen()))
    }

    fn create(&mut self, name: JobName, due: i64, spec: JobSpec) -> &mut Job {
        let from = due.max(self.now);
        self.used.insert(name.queue.clone());
        self.jobs.push(Job {
            number: self.next_number,
            name,
            fingerprint: None,
            submitted_at: self.now,
            scheduled_for: due,
            expires_at: spec.expires_after.map(|span| from + span.get() as i64),
            spec,
            due,
            attempts: 0,
            crashes: 0,
            holds_key: false,
            life: Life::Waiting,
        });
        self.next_number += 1;
        self.jobs.last_mut().expect("just pushed")
    }

    fn pending(&self, name: &JobName) -> Result<Job, Rejection> {
        let job = self.existing(name)?;
        let hint = match job.life {
            Life::Waiting => return Ok(job),
            Life::Running { .. } => "wait for its end, or cancel it and submit it again",
            Life::Ended { outcome: Outcome::Dead, .. } => "replay it",
            Life::Ended { .. } => "submit it again to run it again",
        };
        Err(wrong_state(&job, hint))
    }

    fn edit(&mut self, name: &JobName, edit: &Edit) -> Result<Expected, Rejection> {
        let mut job = self.pending(name)?;
        if self.full && edit.payload.is_some() {
            return Err(Rejection::StoreFull);
        }
        if let Some(due_at) = edit.due_at {
            let moved = due_at.as_millis();
            let began = job.scheduled_for.max(job.submitted_at);
            let span = job.expires_at.map(|at| (at - began).max(0));
            job.expires_at = span.map(|span| moved.max(self.now) + span);
            job.scheduled_for = moved;
            job.due = moved;
        }
        if let Some(expires_at) = job.expires_at.filter(|at| *at < job.due) {
            let expires_at = Timestamp::from_millis(expires_at);
            return Err(Rejection::ExpiresBeforeDue { expires_at });
        }
        if let Some(payload) = &edit.payload {
            job.spec.payload = payload.clone();
        }
        if let Some(target) = &edit.target {
            job.spec.target = target.clone();
        }
        *self.live(job.number) = job.clone();
        Ok(Expected::Job(job.seen()))
    }

    fn cancel(&mut self, name: &JobName) -> Result<Expected, Rejection> {
        let job = self.existing(name)?;
        match job.life {
            Life::Ended { outcome: Outcome::Cancelled, .. } => Ok(Expected::Job(job.seen())),
            Life::Ended { .. } => {
                Err(wrong_state(&job, "only jobs that have not ended can be cancelled"))
            }
            Life::Waiting | Life::Running { .. } => {
                Ok(Expected::Job(self.finish(job.number, Outcome::Cancelled).seen()))
            }
        }
    }

    fn complete(&mut self, name: &JobName, number: JobNumber) -> Result<Expected, Rejection> {
        let job = self.existing(name)?;
        match job.life {
            _ if job.number != number.0 => Err(Rejection::NoSuchJob),
            Life::Ended { outcome: Outcome::Succeeded, .. } => Ok(Expected::Done),
            Life::Ended { .. } => Err(wrong_state(&job, "its work was done all the same")),
            Life::Waiting => {
                self.finish(job.number, Outcome::Succeeded);
                Ok(Expected::Done)
            }
            Life::Running { .. } => {
                self.succeed(job.number);
                Ok(Expected::Done)
            }
        }
    }

    /// The number of a job that has or had this name.
    pub(crate) fn number_of(&self, name: &JobName) -> Option<JobNumber> {
        let job = self.jobs.iter().find(|job| job.name == *name)?;
        Some(JobNumber(job.number))
    }

    fn run_now(&mut self, name: &JobName) -> Result<Expected, Rejection> {
        let number = self.pending(name)?.number;
        let now = self.now;
        if self.live(number).due > now && self.live(number).scheduled_for > now {
            let edit = Edit { due_at: Some(Timestamp::from_millis(now)), ..Edit::default() };
            return self.edit(name, &edit);
        }
        let job = self.live(number);
        job.due = job.due.min(now);
        Ok(Expected::Job(job.seen()))
    }

    fn replay(&mut self, name: &JobName) -> Result<Expected, Rejection> {
        let job = self.existing(name)?;
        let Life::Ended { outcome: Outcome::Dead, .. } = job.life else {
            return Err(wrong_state(&job, "only dead jobs can be replayed"));
        };
        let now = self.now;
        let new = Job {
            due: now,
            scheduled_for: now,
            expires_at: None,
            attempts: 0,
            crashes: 0,
            holds_key: false,
            life: Life::Waiting,
            ..job
        };
        self.jobs.retain(|job| job.number != new.number);
        self.jobs.push(new.clone());
        Ok(Expected::Job(new.seen()))
    }

    fn forget(&mut self, name: &JobName) -> Result<Expected, Rejection> {
        let job = self.existing(name)?;
        if !matches!(job.life, Life::Ended { .. }) {
            return Err(wrong_state(&job, "cancel it first"));
        }
        self.jobs.retain(|other| other.number != job.number);
        Ok(Expected::Done)
    }

    fn leased(&self, token: hence_core::id::Token) -> Result<u64, Rejection> {
        self.running(token).map(|job| job.number).ok_or(Rejection::StaleToken)
    }

    fn ack(&mut self, token: hence_core::id::Token) -> Result<Expected, Rejection> {
        if self.succeeded.contains(&token) {
            return Ok(Expected::Done);
        }
        let number = self.leased(token)?;
        self.succeed(number);
        Ok(Expected::Done)
    }

    fn nack(
        &mut self,
        token: hence_core::id::Token,
        how: Nack,
        random: u64,
    ) -> Result<Expected, Rejection> {
        let number = self.leased(token)?;
        let jitter = Some(random);
        match how {
            Nack::Retry { delay } => {
                let retry_after = delay.map(|span| span.get() as i64);
                let (permanent, unseen) = (false, false);
                self.fail(number, &Failure { retry_after, permanent, unseen, jitter }, None);
            }
            Nack::Release { delay } => {
                let now = self.now;
                let standing = self.live(number).due;
                let at_once = delay == Millis::ZERO;
                self.put_off(number, if at_once { standing } else { now + delay.get() as i64 });
            }
            Nack::Dead => {
                let (retry_after, permanent, unseen) = (None, true, false);
                self.fail(number, &Failure { retry_after, permanent, unseen, jitter }, None);
            }
        }
        Ok(Expected::Done)
    }

    pub(crate) fn succeed(&mut self, number: u64) {
        let job = self.live(number);
        if let Life::Running { token, attempt, .. } = job.life {
            job.attempts = attempt;
            self.succeeded.insert(token);
        }
        self.finish(number, Outcome::Succeeded);
    }

    /// An attempt failed. `due` is when the shard will try again, if it says so itself.
    pub(crate) fn fail(&mut self, number: u64, failure: &Failure, due: Option<i64>) {
        let now = self.now;
        let job = self.live(number);
        job.attempts += 1;
        job.crashes = 0;
        let retry = &job.spec.retry;
        let parks = failure.unseen && job.spec.on_unknown == OnUnknown::Park;
        if parks || failure.permanent || job.attempts >= retry.max_attempts {
            self.finish(number, Outcome::Dead);
            return;
        }
        let cap = retry.cap.get() as i64;
        let delay = delay_after(&retry.backoff, job.attempts).min(cap);
        let spread = delay * i64::from(retry.jitter_percent) / 100;
        let extra = match (failure.jitter, due) {
            (Some(random), _) => (random % (spread as u64 + 1)) as i64,
            (None, Some(due)) => {
                let extra = due - now - delay;
                assert!((0..=spread).contains(&extra), "{} waits too long or short", job.name);
                extra
            }
            (None, None) => 0,
        };
        let floor = failure.retry_after.unwrap_or(0);
        let next = now + (delay + extra).max(floor);
        let first_due = job.scheduled_for.max(job.submitted_at);
        if retry.max_age.is_some_and(|age| next > first_due + age.get() as i64) {
            self.finish(number, Outcome::Dead);
        } else if job.expires_at.is_some_and(|at| at < next) {
            self.finish(number, Outcome::Expired);
        } else {
            job.due = next;
            self.wait_again(number);
        }
    }

    pub(crate) fn put_off(&mut self, number: u64, due: i64) {
        let now = self.now;
        let job = self.live(number);
        if due > now && job.expires_at.is_some_and(|at| at < due) {
            self.finish(number, Outcome::Expired);
        } else {
            job.due = due;
            self.wait_again(number);
        }
    }

    pub(crate) fn wait_again(&mut self, number: u64) {
        let job = self.live(number);
        job.life = Life::Waiting;
        job.holds_key = job.name.key.is_some() && job.spec.key_on_failure == KeyOnFailure::Block;
    }

    pub(crate) fn finish(&mut self, number: u64, outcome: Outcome) -> Job {
        let at = self.now;
        let job = self.live(number);
        let kept = outcome == Outcome::Dead || job.spec.retention.get() > 0;
        job.life = Life::Ended { outcome, at, kept };
        job.clone()
    }

    fn schedule_at(&self, id: &hence_core::id::ScheduleId) -> Result<usize, Rejection> {
        let at = self.schedules.iter().position(|schedule| schedule.id == *id);
        at.ok_or(Rejection::NoSuchSchedule)
    }

    fn put_schedule(
        &mut self,
        new: &hence_core::schedule::Schedule,
    ) -> Result<Expected, Rejection> {
        if self.full {
            return Err(Rejection::StoreFull);
        }
        self.tick();
        let at = self.schedule_at(&new.id).ok();
        let old = at.map(|at| self.schedules.remove(at));
        let id = JobId::new("to-be-named").expect("a good name");
        let every = every_of(new);
        let mut schedule = Schedule {
            id: new.id.clone(),
            every,
            name: JobName { queue: new.queue.clone(), key: new.key.clone(), id },
            spec: new.template.clone(),
            // A pause stays, also when none is said.
            paused: new.paused.is_some() || old.as_ref().is_some_and(|old| old.paused),
            next: None,
            last: old.as_ref().and_then(|old| old.last),
            accounted: self.now - 1,
            paused_until: None,
            fired: old.as_ref().map_or(0, |old| old.fired),
        };
        if let Some(mut old) = old {
            schedule.paused_until = old.paused_until;
            if old.every == every {
                schedule.accounted = old.accounted;
            } else {
                // What the old plan left undone is accounted for.
                self.ticks += old.pass_until(self.now - 1);
                schedule.last = old.last;
                schedule.accounted = old.accounted.max(self.now - 1);
                schedule.paused_until = None;
            }
        }
        let next = schedule.first_tick_after(schedule.accounted);
        schedule.next = (!schedule.paused).then_some(next);
        self.schedules.push(schedule);
        Ok(Expected::Anything)
    }

    fn trigger(&mut self, id: &hence_core::id::ScheduleId) -> Result<Expected, Rejection> {
        self.tick();
        let at = self.schedule_at(id)?;
        if self.draining {
            return Err(Rejection::Draining);
        }
        if self.full {
            return Err(Rejection::StoreFull);
        }
        let now = self.now;
        let (mut name, spec) = self.schedules[at].job_at(now);
        self.check_queue(&name)?;
        self.schedules[at].fired += 1;
        self.ticks += 1;
        let id = format!("{}!{}", self.schedules[at].id, self.next_number);
        name.id = JobId::new(&id).expect("a good name");
        let job = self.create(name, now, spec);
        Ok(Expected::Job(job.seen()))
    }

    /// Every schedule whose time has come makes one job, for the last tick that has passed.
    pub(crate) fn tick(&mut self) {
        let now = self.now;
        // The clock may have been set back.
        self.ticks_from = self.ticks_from.min(now + 1_000);
        if self.draining || self.full || self.ticks_from > now {
            return;
        }
        loop {
            let due = (0..self.schedules.len())
                .filter(|at| self.schedules[*at].next.is_some_and(|next| next <= now))
                .min_by_key(|at| (self.schedules[*at].next, self.schedules[*at].id.clone()));
            let Some(at) = due else { return };
            let schedule = &mut self.schedules[at];
            let paused_until = schedule.paused_until.take().unwrap_or(i64::MIN);
            self.ticks += schedule.pass_until(paused_until);
            let first = schedule.first_tick_after(schedule.accounted);
            schedule.next = Some(first);
            if first > now {
                continue;
            }
            self.ticks += schedule.pass_until(now);
            let tick = schedule.last.expect("it has just ticked");
            schedule.next = Some(schedule.first_tick_after(tick));
            let (name, spec) = schedule.job_at(tick);
            if self.check_queue(&name).is_ok() {
                self.schedules[at].fired += 1;
                self.create(name, tick, spec);
            }
        }
    }
}

/// The first tick and the interval of a schedule.
fn every_of(schedule: &hence_core::schedule::Schedule) -> (i64, i64) {
    let (start, every) = schedule.plan.interval().expect("an interval");
    (start.as_millis(), every.get() as i64)
}

impl Schedule {
    fn first_tick_after(&self, instant: i64) -> i64 {
        let (start, interval) = self.every;
        let ticks = (instant - start).div_euclid(interval) + 1;
        start + ticks.max(0) * interval
    }

    /// Accounts for ticks up to an instant; says how many there were.
    fn pass_until(&mut self, until: i64) -> u64 {
        let first = self.first_tick_after(self.accounted);
        if first > until {
            return 0;
        }
        let ticks = (until - first) / self.every.1;
        let last = first + ticks * self.every.1;
        (self.accounted, self.last) = (last, Some(last));
        ticks as u64 + 1
    }

    fn job_at(&self, instant: i64) -> (JobName, JobSpec) {
        let id = format!("{}@{}", self.id, Timestamp::from_millis(instant));
        (
            JobName { id: JobId::new(&id).expect("a good name"), ..self.name.clone() },
            self.spec.clone(),
        )
    }
}

impl Job {
    fn is_visible(&self) -> bool {
        !matches!(self.life, Life::Ended { kept: false, .. })
    }
}

fn wrong_state(job: &Job, hint: &'static str) -> Rejection {
    let state = match job.life {
        Life::Waiting => "scheduled",
        Life::Running { .. } => "running",
        Life::Ended { outcome, .. } => outcome.as_str(),
    };
    Rejection::WrongState { state, hint }
}

/// The delay after so many attempts.
fn delay_after(backoff: &Backoff, attempts: u32) -> i64 {
    let delay = match backoff {
        Backoff::Fixed(delay) => delay.get(),
        Backoff::Exponential { first, factor_percent } => {
            (1..attempts).fold(first.get(), |delay, _| delay * u64::from(*factor_percent) / 100)
        }
        Backoff::List(delays) => delays[(attempts as usize).min(delays.len()) - 1].get(),
    };
    delay as i64
}
