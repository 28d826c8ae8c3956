//! Nothing is delivered that nobody asked for.

use super::{Findings, Ledger, Property};

pub(super) const PROPERTY: Property = Property {
    name: "invented",
    promise: "every delivery belongs to a submission that was not refused, and carries its payload",
    judge,
};

fn judge(ledger: &Ledger<'_>, findings: &mut Findings) {
    for delivery in &ledger.deliveries {
        let received = delivery.received;
        if received.occurrence.is_some() {
            continue;
        }
        let job = &ledger.jobs[&received.number];
        let Some(submit) = ledger.submit_of(job) else {
            findings.add(format!("{} ({}) was never submitted", received.job, received.number));
            continue;
        };
        let (asked, got) = (&submit.payload, &received.payload);
        if submit.job != received.job || asked != got {
            let name = &received.job;
            findings.add(format!("{name} carried {got}; {} was to carry {asked}", submit.job));
        }
        let mut tries = ledger.calls_about(&submit.job);
        if !tries.any(|call| call.may_have_happened() && call.asked <= delivery.t) {
            findings.add(format!("{} was delivered, and had been refused", received.job));
        }
    }
}
