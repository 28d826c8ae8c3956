//! Counts are what is there.

use super::{Findings, Ledger, Property};
use crate::history::{FinalJob, FinalQueue, Verb};

pub(super) const PROPERTY: Property = Property {
    name: "counters",
    promise: "the counts of a queue are those of the jobs in it, and no job leaves the sums",
    judge,
};

fn judge(ledger: &Ledger<'_>, findings: &mut Findings) {
    let Some(end) = ledger.last else { return };
    for queue in &end.state.queues {
        let jobs: Vec<&FinalJob> =
            end.state.jobs.iter().filter(|job| job.queue == queue.queue).collect();
        judge_present(queue, &jobs, findings);
        judge_sums(ledger, queue, &jobs, findings);
    }
}

fn judge_present(queue: &FinalQueue, jobs: &[&FinalJob], findings: &mut Findings) {
    let name = &queue.queue;
    let count = |states: &[&str]| {
        jobs.iter().filter(|job| states.contains(&job.state.as_str())).count() as u64
    };
    let rows = [
        ("pending", queue.pending, count(&["scheduled", "ready"])),
        ("running", queue.running, count(&["running"])),
        ("dead", queue.dead, count(&["dead"])),
    ];
    for (what, says, there) in rows {
        if says != there {
            findings.add(format!("{name} says {says} {what}, and {there} are there"));
        }
    }
    if queue.succeeded < count(&["succeeded"]) {
        let (says, there) = (queue.succeeded, count(&["succeeded"]));
        findings.add(format!("{name} says {says} succeeded, and {there} are there"));
    }
}

/// Every job that came in is live, or went out in one of the ways there are. A replay brings one
/// back that had gone out.
fn judge_sums(
    ledger: &Ledger<'_>,
    queue: &FinalQueue,
    jobs: &[&FinalJob],
    findings: &mut Findings,
) {
    let FinalQueue {
        queue: name, submitted, succeeded, died, cancelled, expired, replaced, ..
    } = queue;
    let gone = succeeded + died + cancelled + expired + replaced;
    let inside = queue.pending + queue.running;
    let of_queue = |job: &str| job.starts_with(&format!("{name}/"));
    let replays = ledger.calls.iter().filter(|call| {
        matches!(call.verb, Verb::Replay { job } if of_queue(job)) && call.may_have_happened()
    });
    let replays = replays.count() as u64;
    let balance = gone + inside;
    if balance < *submitted || balance > submitted + replays {
        findings.add(format!("{name} took in {submitted}, let {gone} go and has {inside}"));
    }
    let received = ledger.deliveries.iter().filter(|delivery| of_queue(&delivery.received.job));
    let received = received.count() as u64;
    if queue.delivered < received {
        let says = queue.delivered;
        findings.add(format!("{name} says {says} delivered, and {received} arrived"));
    }
    let attempts = jobs.iter().flat_map(|job| &job.attempts).count() as u64;
    if queue.delivered < attempts {
        let says = queue.delivered;
        findings.add(format!("{name} says {says} delivered, and has {attempts} attempts"));
    }
}
