//! A success that is recorded is one that happened.

use std::collections::BTreeSet;

use super::{Findings, Ledger, Property};
use crate::history::{How, Stamp};

pub(super) const PROPERTY: Property = Property {
    name: "witnessed",
    promise: "a success that is recorded was reported by the receiver of that very delivery",
    judge,
};

fn judge(ledger: &Ledger<'_>, findings: &mut Findings) {
    let done = |how: How| matches!(how, How::Done);
    let reported: BTreeSet<Stamp> = ledger
        .deliveries
        .iter()
        .filter(|delivery| delivery.ended.is_some_and(|(.., how)| done(how)))
        .map(|delivery| delivery.received.token)
        .collect();
    let Some(end) = ledger.last else { return };
    for job in &end.state.jobs {
        for ended in job.attempts.iter().filter(|ended| ended.end == "succeeded") {
            if !reported.contains(&ended.token) {
                let (name, number, token) = (&job.job, job.number, ended.token);
                findings.add(format!("{name} ({number}): nobody reported {token} as done"));
            }
        }
    }
}
