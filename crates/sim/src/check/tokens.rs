//! Tokens grow.

use super::{Findings, Ledger, Property};

pub(super) const PROPERTY: Property =
    Property { name: "tokens", promise: "each later delivery of a job has a greater token", judge };

fn judge(ledger: &Ledger<'_>, findings: &mut Findings) {
    for job in ledger.jobs.values() {
        let deliveries: Vec<_> = ledger.deliveries_of(job).collect();
        for pair in deliveries.windows(2) {
            let (before, after) = (pair[0].received, pair[1].received);
            // What was void when it arrived may have been overtaken on its way.
            let void = pair[1].wall_max >= after.until;
            if after.token <= before.token && !void {
                let name = &before.job;
                findings.add(format!("{name}: {} came after {}", after.token, before.token));
            }
        }
    }
}
