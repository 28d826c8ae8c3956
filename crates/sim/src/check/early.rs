//! Never before its time.

use super::ledger::{Call, Delivery};
use super::{Findings, Ledger, Property};
use crate::history::{Submit, Verb};

pub(super) const PROPERTY: Property = Property {
    name: "early",
    promise: "no delivery arrives before the host's clock has shown the due time that was asked \
              for last",
    judge,
};

fn judge(ledger: &Ledger<'_>, findings: &mut Findings) {
    for delivery in &ledger.deliveries {
        let received = delivery.received;
        let due = match (&received.occurrence, ledger.submit_of(&ledger.jobs[&received.number])) {
            (Some((_, at)), _) if !ledger.was_touched(&received.job) => *at,
            (None, Some(submit)) => earliest_due(ledger, submit, delivery),
            _ => continue,
        };
        if delivery.wall_max < due {
            let (name, early) = (&received.job, due - delivery.wall_max);
            findings.add(format!("{name} ({}) came {early} ms early", received.token));
        }
    }
}

/// The earliest due time that may have been in force when this arrived.
fn earliest_due(ledger: &Ledger<'_>, submit: &Submit, delivery: &Delivery<'_>) -> i64 {
    let mut dues = vec![submit.due_at];
    let maker = ledger.jobs[&delivery.received.number].submit.map(|at| ledger.calls[at].asked);
    for call in ledger.calls_about(&submit.job) {
        // What was settled before the job was submitted was about an earlier one of its name.
        let before = call.told.is_some_and(|(told, _)| maker.is_some_and(|made| told < made));
        if before || call.asked > delivery.t || !call.may_have_happened() {
            continue;
        }
        let due = match call.verb {
            Verb::Move { due_at, .. } => *due_at,
            // Due at once: whatever comes after the wish is not early.
            Verb::RunNow { .. } | Verb::Replay { .. } => i64::MIN,
            _ => continue,
        };
        if call.succeeded_at().is_some_and(|told| told <= delivery.t) && alone(ledger, call) {
            dues.clear();
        }
        dues.push(due);
    }
    dues.into_iter().min().unwrap_or(i64::MIN)
}

/// Whether nothing else was asked about the job that could have come after this wish.
fn alone(ledger: &Ledger<'_>, wish: &Call<'_>) -> bool {
    let Verb::Move { job, .. } = wish.verb else { return false };
    let told = wish.succeeded_at().unwrap_or(u64::MAX);
    !ledger.calls_about(job).any(|call| {
        let overlaps = call.told.is_none_or(|(t, _)| t >= wish.asked) && call.asked <= told;
        overlaps && !std::ptr::eq(call, wish) && call.may_have_happened()
    })
}
