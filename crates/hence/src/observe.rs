//! What can be seen of the work: every durable fact, every delivery, every commit. Metrics and logs
//! are made from these, never by asking the store.

use std::sync::Arc;
use std::time::Duration;

use hence_core::change::{Change, FinishedPlace};
use hence_core::effect::{Delivery, Notice};
use hence_core::id::JobNumber;
use hence_core::job::{AttemptEnd, AttemptRecord, Outcome};
use hence_core::ledger::{Fate, OccurrenceRecord};
use hence_core::time::Timestamp;
use hence_delivery::status::without_excerpt;

/// Something worth a metric or a log line.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A fact is durable.
    Changed(&'a Change),
    /// A job is being handed to its target, so late: [`Delivery::late`].
    Delivering {
        /// Which.
        delivery: &'a Delivery,
        /// When.
        now: Timestamp,
    },
    /// A commit succeeded.
    Committed {
        /// How many facts it held.
        changes: usize,
        /// How long it took.
        took: Duration,
    },
    /// A commit failed and will be tried again.
    CommitFailed {
        /// Why.
        error: &'a hence_store::StoreError,
    },
    /// The store ran out of room, or has room again.
    StoreFull(bool),
    /// Another node works on the store, and this one waits for it to go: why. Nothing: it waits no
    /// more.
    StandingBy(Option<&'a hence_store::StoreError>),
    /// Something that people should know of, and nobody asked for.
    Noticed(&'a Notice),
}

/// Sees everything; must be quick, since the work waits for it.
pub trait Observer: Send + Sync + 'static {
    /// Sees one event.
    fn observe(&self, event: Event<'_>);
}

/// All observers, the log first.
#[derive(Clone, Default)]
pub(crate) struct Observers(pub(crate) Vec<Arc<dyn Observer>>);

impl Observers {
    pub(crate) fn see(&self, event: Event<'_>) {
        log(event);
        for observer in &self.0 {
            observer.observe(event);
        }
    }
}

/// One log event at each step of a job's life, with ids, never with payloads.
fn log(event: Event<'_>) {
    match event {
        Event::Changed(change) => log_change(change),
        Event::Delivering { delivery, now } => {
            let (job, lease) = (&delivery.job, &delivery.lease);
            tracing::info!(
                target: "hence::job", job = %job.name, number = job.number.0,
                attempt = lease.attempt, token = %lease.token, holder = %lease.holder,
                late_ms = delivery.late(now).get(), "delivering"
            );
        }
        Event::Committed { changes, took } => {
            tracing::trace!(changes, took_us = took.as_micros() as u64, "committed");
        }
        Event::CommitFailed { error } => {
            tracing::warn!(%error, "commit failed, trying again");
        }
        Event::StoreFull(true) => tracing::warn!("the store is full: new jobs are refused"),
        Event::Noticed(Notice::TickMoved { schedule, zones, before, after }) => tracing::warn!(
            target: "hence::schedule", %schedule, %zones, before = ?before, after = ?after,
            "a new zone database moved the next tick"
        ),
        Event::Noticed(Notice::Unregistered { job, handler }) => tracing::warn!(
            target: "hence::job", %job, %handler, "no handler of this name is registered: waiting"
        ),
        Event::StoreFull(false) => tracing::info!("the store has room again"),
        Event::StandingBy(Some(error)) => tracing::info!(%error, "standing by"),
        Event::StandingBy(None) => tracing::info!("taking over"),
    }
}

fn log_change(change: &Change) {
    match change {
        Change::JobPut { job, progress, replaces, revives } => {
            let replayed = is_replay(job.number, *revives);
            tracing::info!(
                target: "hence::job", job = %job.name, number = job.number.0,
                due_at = %progress.due_at, replaced = replaces.is_some(), replayed, "scheduled"
            );
        }
        Change::JobMoved { job, progress, ended, .. } => {
            log_attempt(job, ended.as_deref());
            tracing::info!(
                target: "hence::job", job = %job.name, number = job.number.0,
                due_at = %progress.due_at, attempts = progress.attempts, "waiting again"
            );
        }
        Change::LeasesGranted { first_token, holder, leases, .. } => tracing::debug!(
            target: "hence::job", %holder, first_token = %first_token, jobs = leases.len(), "leased"
        ),
        Change::LeaseExtended { place, token, until, .. } => tracing::info!(
            target: "hence::job", number = place.number.0, %token, %until, "lease extended"
        ),
        Change::JobFinished { job, progress, finish, ended, .. } => {
            log_attempt(job, ended.as_deref());
            let outcome = finish.outcome.as_str();
            let reason = finish.reason.as_deref().map(without_excerpt);
            if finish.outcome == Outcome::Dead {
                tracing::error!(
                    target: "hence::job", job = %job.name, number = job.number.0,
                    attempts = progress.attempts, outcome, reason, "finished"
                );
            } else {
                tracing::info!(
                    target: "hence::job", job = %job.name, number = job.number.0,
                    attempts = progress.attempts, outcome, reason, "finished"
                );
            }
        }
        Change::JobForgotten { job, .. } => tracing::info!(
            target: "hence::job", job = %job.name, number = job.number.0, "forgotten"
        ),
        Change::SchedulePut { state } => tracing::debug!(
            target: "hence::schedule", schedule = %state.schedule.id,
            next_at = ?state.progress.next_at, paused = state.schedule.paused.is_some(), "put"
        ),
        Change::ScheduleAdvanced { id, progress } => tracing::trace!(
            target: "hence::schedule", schedule = %id, next_at = ?progress.next_at, "advanced"
        ),
        Change::LedgerForgotten { schedule, before } => tracing::debug!(
            target: "hence::schedule", %schedule, %before, "ledger cut"
        ),
        Change::ScheduleRemoved { id } => {
            tracing::info!(target: "hence::schedule", schedule = %id, "removed");
        }
        Change::OccurrenceRecorded { record } => log_record(record),
        Change::LetterTaken { id, refused: None } => {
            tracing::debug!(target: "hence::letter", letter = id.0, "taken");
        }
        Change::LetterTaken { id, refused: Some(why) } => {
            tracing::warn!(target: "hence::letter", letter = id.0, why = &**why, "refused");
        }
        Change::QueuePut { name, settings } => {
            tracing::info!(target: "hence::queue", queue = %name, ?settings, "settings changed");
        }
    }
}

/// A new job may take the name of a finished one; only a replayed one has its number.
fn is_replay(number: JobNumber, revives: Option<FinishedPlace>) -> bool {
    revives.is_some_and(|old| old.number == number)
}

fn log_record(record: &OccurrenceRecord) {
    let (schedule, fate) = (&record.schedule, record.fate.as_str());
    match record.fate {
        Fate::Ran(job) | Fate::Late(job, _) | Fate::Triggered(job) | Fate::Backfilled(job) => {
            tracing::info!(
                target: "hence::schedule", %schedule, at = %record.last, number = job.0, fate,
                "ticked"
            );
        }
        Fate::Skipped(reason) => tracing::warn!(
            target: "hence::schedule", %schedule, first = %record.first, last = %record.last,
            ticks = record.count, fate, reason = reason.as_str(), "ticks made no job"
        ),
        Fate::Coalesced => tracing::warn!(
            target: "hence::schedule", %schedule, first = %record.first, last = %record.last,
            ticks = record.count, fate, "ticks made no job"
        ),
    }
}

fn log_attempt(job: &hence_core::job::Job, ended: Option<&AttemptRecord>) {
    let Some(attempt) = ended else { return };
    let took_ms = attempt.ended_at.since(attempt.started_at).get();
    // A success is told once, by the end of its job.
    if attempt.end != AttemptEnd::Succeeded {
        tracing::warn!(
            target: "hence::job", job = %job.name, attempt = attempt.attempt,
            token = %attempt.token, took_ms, end = attempt.end.as_str(),
            reason = attempt.reason.as_deref().map(without_excerpt), "attempt ended"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new job under the name of one that had ended was logged as replayed.
    #[test]
    fn only_a_job_that_has_its_number_again_is_replayed() {
        let ended = |number| FinishedPlace {
            outcome: Outcome::Dead,
            at: Timestamp::EPOCH,
            number: JobNumber(number),
        };
        for (revives, expected) in [(None, false), (Some(ended(6)), false), (Some(ended(7)), true)]
        {
            assert_eq!(is_replay(JobNumber(7), revives), expected, "{revives:?}");
        }
    }
}
