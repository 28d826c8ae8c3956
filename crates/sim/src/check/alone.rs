//! One consumer at a time.

use super::{Findings, Ledger, Property};

pub(super) const PROPERTY: Property = Property {
    name: "alone",
    promise: "a job is with one receiver at a time, until that lets go or its lease is over",
    judge,
};

fn judge(ledger: &Ledger<'_>, findings: &mut Findings) {
    for job in ledger.jobs.values() {
        let deliveries: Vec<_> = ledger.deliveries_of(job).collect();
        for pair in deliveries.windows(2) {
            if ledger.still_holds(pair[0], pair[1]) {
                let (held, later) = (pair[0].received, pair[1].received);
                let name = &held.job;
                findings.add(format!("{name} arrived as {} beside {}", later.token, held.token));
            }
        }
    }
}
