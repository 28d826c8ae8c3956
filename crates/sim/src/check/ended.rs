//! Everything acknowledged comes to an end once everything is healed.

use super::{Findings, Ledger, Property};

pub(super) const PROPERTY: Property = Property {
    name: "ended",
    promise: "after everything was healed and given time, no job that is due is left",
    judge,
};

fn judge(ledger: &Ledger<'_>, findings: &mut Findings) {
    let Some(end) = ledger.last else { return };
    for job in &end.state.jobs {
        let live = matches!(job.state.as_str(), "scheduled" | "ready" | "running");
        if live && job.due_at < end.wall {
            let late = end.wall - job.due_at;
            let (name, number, state) = (&job.job, job.number, &job.state);
            findings.add(format!("{name} ({number}) is {state}, {late} ms after its time"));
        }
    }
}
