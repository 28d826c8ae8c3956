//! Who lost the lease cannot finish.

use super::{Findings, Ledger, Property};
use crate::history::Verb;

pub(super) const PROPERTY: Property = Property {
    name: "stale",
    promise: "after a delivery with a greater token, no answer under an older one is accepted",
    judge,
};

fn judge(ledger: &Ledger<'_>, findings: &mut Findings) {
    for call in &ledger.calls {
        let (Verb::Ack { token } | Verb::Nack { token } | Verb::Extend { token, .. }) = call.verb
        else {
            continue;
        };
        if call.succeeded_at().is_none() {
            continue;
        }
        let Some(own) = ledger.deliveries.iter().find(|d| d.received.token == *token) else {
            continue;
        };
        let job = &ledger.jobs[&own.received.number];
        let newer = ledger.deliveries_of(job).find(|d| d.received.token > *token);
        if let Some(newer) = newer.filter(|newer| newer.t < call.asked) {
            let (name, newer) = (&own.received.job, newer.received.token);
            findings.add(format!("{name}: {token} was heard after {newer} had been handed out"));
        }
    }
}
