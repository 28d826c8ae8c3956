//! Retries as they were asked for.

use super::ledger::Job;
use super::{Findings, Ledger, Property};
use crate::history::{FinalJob, How, Submit};

pub(super) const PROPERTY: Property = Property {
    name: "retries",
    promise: "attempts are numbered without gaps, come no sooner than asked, are no more than \
              asked, and a job is dead after the last and not before",
    judge,
};

fn judge(ledger: &Ledger<'_>, findings: &mut Findings) {
    for job in ledger.jobs.values() {
        let (Some(submit), Some(last)) = (ledger.submit_of(job), job.last) else { continue };
        // A replay begins to count anew, at an instant that only the node knows.
        if ledger.was_replayed(&submit.job) {
            continue;
        }
        let counted = judge_numbers(submit, last, findings);
        if !ledger.was_moved(&submit.job) {
            judge_delays(ledger, job, submit, last, findings);
        }
        judge_end(ledger, job, submit, last, counted, findings);
    }
}

fn counts(end: &str) -> bool {
    matches!(end, "failed" | "timed_out" | "succeeded")
}

/// How many attempts counted.
fn judge_numbers(submit: &Submit, last: &FinalJob, findings: &mut Findings) -> u32 {
    let mut counted = 0;
    for ended in &last.attempts {
        if ended.attempt != counted + 1 {
            let (name, number) = (&submit.job, ended.attempt);
            findings.add(format!("{name}: attempt {number} came after {counted} that counted"));
        }
        counted += u32::from(counts(&ended.end));
    }
    if counted > submit.terms.max_attempts {
        let (name, max) = (&submit.job, submit.terms.max_attempts);
        findings.add(format!("{name}: {counted} attempts, and {max} were asked for"));
    }
    counted
}

fn judge_delays(
    ledger: &Ledger<'_>,
    job: &Job<'_>,
    submit: &Submit,
    last: &FinalJob,
    findings: &mut Findings,
) {
    for pair in last.attempts.windows(2) {
        let (failed, next) = (&pair[0], &pair[1]);
        if !matches!(failed.end.as_str(), "failed" | "timed_out") {
            continue;
        }
        let of_it = |token| ledger.deliveries_of(job).find(move |d| d.received.token == token);
        let wish = match of_it(failed.token).and_then(|delivery| delivery.ended) {
            Some((.., How::Failed { retry_after_ms })) => retry_after_ms,
            _ => 0,
        };
        let delays = &submit.terms.delays_ms;
        let at = (failed.attempt as usize - 1).min(delays.len().saturating_sub(1));
        let asked = delays.get(at).copied().unwrap_or_default().min(submit.terms.cap_ms);
        // A wish that reached us too late, after the timeout, was no wish.
        let wish = if failed.end == "failed" { wish.min(submit.terms.cap_ms) } else { 0 };
        let earliest = failed.ended_at + asked.max(wish) as i64;
        if next.started_at < earliest {
            let (name, attempt, early) = (&submit.job, next.attempt, earliest - next.started_at);
            findings.add(format!("{name}: attempt {attempt} was {early} ms too soon"));
        }
        if of_it(next.token).is_some_and(|delivery| delivery.wall_max < earliest) {
            findings.add(format!("{}: {} arrived before its delay", submit.job, next.token));
        }
    }
}

fn judge_end(
    ledger: &Ledger<'_>,
    job: &Job<'_>,
    submit: &Submit,
    last: &FinalJob,
    counted: u32,
    findings: &mut Findings,
) {
    let name = &submit.job;
    let hopeless = ledger.deliveries_of(job).any(|d| matches!(d.ended, Some((.., How::Hopeless))));
    let last_end = last.attempts.last().map(|ended| ended.end.as_str());
    let parked = submit.terms.park && last_end == Some("timed_out");
    let unknown = parked || last_end == Some("unknown");
    let used_up = counted >= submit.terms.max_attempts;
    if last.state == "dead" && !(used_up || hopeless || unknown) {
        findings.add(format!("{name} is dead after {counted} attempts that counted"));
    }
    let waits = matches!(last.state.as_str(), "scheduled" | "ready" | "running");
    if waits && used_up {
        findings.add(format!("{name} is {} after its last attempt", last.state));
    }
}
