//! What has ended stays ended.

use super::ledger::Call;
use super::{Findings, Ledger, Property};
use crate::history::{Answer, Verb};

pub(super) const PROPERTY: Property = Property {
    name: "resurrected",
    promise: "after a success, a cancellation or a replacement was confirmed, the job is not \
              delivered any more, and is not live at the end",
    judge,
};

fn judge(ledger: &Ledger<'_>, findings: &mut Findings) {
    for (number, job) in &ledger.jobs {
        let Some(ended) = ended_at(ledger, *number) else { continue };
        for delivery in ledger.deliveries_of(job) {
            if delivery.t > ended + ledger.flight_ms {
                let (name, after) = (&delivery.received.job, delivery.t - ended);
                findings.add(format!("{name} ({number}) came {after} ms after its end"));
            }
        }
        if let Some(last) = job.last
            && matches!(last.state.as_str(), "scheduled" | "ready" | "running")
        {
            findings.add(format!("{} ({number}) had ended and is {}", last.job, last.state));
        }
    }
}

/// When somebody was told that the job had ended.
fn ended_at(ledger: &Ledger<'_>, number: u64) -> Option<u64> {
    let job = &ledger.jobs[&number];
    let tokens = ledger.deliveries_of(job).map(|delivery| delivery.received.token);
    let acked = tokens.filter_map(|token| ledger.confirmed_at(token)).min();
    let submit = ledger.submit_of(job)?;
    let made = job.submit.map(|at| &ledger.calls[at])?;
    let made_by = made.succeeded_at()?;
    let replaced = |other: &Verb| match other {
        Verb::Submit(other) => other.payload != submit.payload,
        _ => false,
    };
    // Only what was surely about this job of the name: asked after it was acknowledged, and with
    // no other job of the name about.
    let mut rivals = ledger.calls_about(&submit.job).filter(|call| replaced(call.verb));
    let taken = match rivals.next() {
        None => ledger.calls_about(&submit.job).find(|call| {
            let sure = call.asked > made_by && call.succeeded_at().is_some();
            matches!(call.verb, Verb::Cancel { .. }) && sure
        }),
        Some(rival) => Some(rival).filter(|call| {
            let new = matches!(call.told, Some((_, Answer::Accepted(_))));
            call.asked > made_by && new
        }),
    };
    [acked, taken.and_then(Call::succeeded_at)].into_iter().flatten().min()
}
