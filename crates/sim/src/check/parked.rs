//! A job that must never happen twice is not repeated when its end is unknown.

use super::{Findings, Ledger, Property};
use crate::history::How;

pub(super) const PROPERTY: Property = Property {
    name: "parked",
    promise: "a job that asked to be parked is not delivered again by itself after an attempt \
              whose end is unknown",
    judge,
};

fn judge(ledger: &Ledger<'_>, findings: &mut Findings) {
    for (number, job) in &ledger.jobs {
        let Some(submit) = ledger.submit_of(job) else { continue };
        if !submit.terms.park || ledger.was_replayed(&submit.job) {
            continue;
        }
        if let Some(last) = job.last {
            let ends: Vec<_> = last.attempts.iter().map(|ended| ended.end.as_str()).collect();
            let unknown = ends.iter().position(|end| matches!(*end, "unknown" | "timed_out"));
            let final_word = unknown.is_none_or(|at| at + 1 == ends.len());
            if !final_word || (unknown.is_some() && last.state != "dead") {
                findings.add(format!("{} ({number}) went on after {ends:?}", submit.job));
            }
        }
        let deliveries: Vec<_> = ledger.deliveries_of(job).collect();
        for pair in deliveries.windows(2) {
            let (done, again) = (pair[0], pair[1]);
            // One with a smaller token was handed out before, and was late on its way.
            if again.received.token < done.received.token {
                continue;
            }
            let Some((.., How::Done)) = done.ended else { continue };
            if !ledger.mishaps.contains(&done.received.token) {
                let token = again.received.token;
                findings.add(format!("{} was done and came again as {token}", submit.job));
            }
        }
    }
}
