//! Work that was done is repeated only with a cause.

use super::ledger::Delivery;
use super::{Findings, Ledger, Property};
use crate::history::How;

pub(super) const PROPERTY: Property = Property {
    name: "excused",
    promise: "what a receiver has done is delivered again only if its answer was lost, came too \
              late, or met a dead node",
    judge,
};

fn judge(ledger: &Ledger<'_>, findings: &mut Findings) {
    for job in ledger.jobs.values() {
        let deliveries: Vec<_> = ledger.deliveries_of(job).collect();
        for pair in deliveries.windows(2) {
            // One with a smaller token was handed out before, and was late on its way.
            let again = pair[1].received.token > pair[0].received.token;
            if again && did_before(pair[0], pair[1].t) && !has_cause(ledger, pair[0], pair[1]) {
                let (done, again) = (pair[0].received, pair[1].received);
                let name = &done.job;
                findings.add(format!(
                    "{name}: {} was done, and came again as {}",
                    done.token, again.token
                ));
            }
        }
    }
}

fn did_before(delivery: &Delivery<'_>, t: u64) -> bool {
    matches!(delivery.ended, Some((ended, _, How::Done)) if ended <= t)
}

fn has_cause<'a>(ledger: &Ledger<'a>, done: &Delivery<'a>, again: &Delivery<'a>) -> bool {
    ledger.mishaps.contains(&done.received.token)
        || ledger.died_between(done.t.saturating_sub(ledger.flight_ms), again.t)
        || ledger.lost_its_right(done, again)
        || ledger.was_replayed(&done.received.job)
}
