//! At most one success is recorded.

use super::{Findings, Ledger, Property};

pub(super) const PROPERTY: Property = Property {
    name: "once",
    promise: "at most one success of a job is recorded, and one that was confirmed is",
    judge,
};

fn judge(ledger: &Ledger<'_>, findings: &mut Findings) {
    for (number, job) in &ledger.jobs {
        let tokens = ledger.deliveries_of(job).map(|delivery| delivery.received.token);
        let confirmed = tokens.filter(|token| ledger.confirmed_at(*token).is_some()).count();
        if confirmed > 1 {
            findings.add(format!("{number}: {confirmed} successes were confirmed"));
        }
        let Some(last) = job.last else { continue };
        let recorded = last.attempts.iter().filter(|ended| ended.end == "succeeded").count();
        let succeeded = last.state == "succeeded";
        if recorded != usize::from(succeeded) {
            let (name, state) = (&last.job, &last.state);
            findings.add(format!("{name} ({number}) is {state} with {recorded} successes"));
        }
        if confirmed > 0 && !succeeded {
            let (name, state) = (&last.job, &last.state);
            findings.add(format!("{name} ({number}): a success was confirmed; it is {state}"));
        }
    }
}
