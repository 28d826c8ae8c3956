//! The store is not asked for what is in memory.

use std::collections::BTreeSet;

use super::ledger::{Call, Fetched};
use super::{Findings, Ledger, Property};
use crate::history::{Read, Verb};

pub(super) const PROPERTY: Property = Property {
    name: "reads",
    promise: "the store is read for a name only while somebody asks about it, and not when its job \
              is in memory; and for a page of a queue only at a start, or when it has more jobs \
              than its window",
    judge,
};

fn judge(ledger: &Ledger<'_>, findings: &mut Findings) {
    let Some(window_jobs) = ledger.window_jobs else { return };
    let mut pages: BTreeSet<(usize, &str)> = BTreeSet::new();
    for fetched in &ledger.reads {
        let t = fetched.t;
        match fetched.read {
            Read::Names { names } => {
                for name in names {
                    judge_name(ledger, fetched, name, window_jobs, findings);
                }
            }
            Read::Page { queue } => {
                let again = !pages.insert((fetched.life, queue));
                if again && has_room(ledger, queue, fetched, window_jobs) {
                    findings.add(format!("{queue} was read again at {t}, and is all in memory"));
                }
            }
        }
    }
}

fn judge_name(
    ledger: &Ledger<'_>,
    fetched: &Fetched<'_>,
    name: &str,
    window_jobs: u64,
    findings: &mut Findings,
) {
    let t = fetched.t;
    let under_way =
        |call: &Call<'_>| call.asked <= t && call.told.is_none_or(|(told, _)| told >= t);
    if !ledger.calls_about(name).any(under_way) {
        findings.add(format!("{name} was read at {t}, and nobody had asked about it"));
        return;
    }
    let queue = name.split('/').next().unwrap_or_default();
    if has_room(ledger, queue, fetched, window_jobs) && is_in_memory(ledger, name, fetched) {
        findings.add(format!("{name} was read at {t}, and is in memory"));
    }
}

/// Whether the queue surely never had more jobs than half its window: then all of it is in memory
/// soon after a start.
fn has_room(ledger: &Ledger<'_>, queue: &str, fetched: &Fetched<'_>, window_jobs: u64) -> bool {
    let asked = ledger.calls.iter().filter(|call| call.asked <= fetched.t);
    let jobs = asked.filter(|call| call.may_have_happened()).map(|call| match call.verb {
        Verb::Submit(submit) => u64::from(submit.queue == queue),
        // The queue of a schedule is not known, nor what is done to it.
        Verb::TouchSchedule { .. } => 1,
        Verb::PutSchedule { start, every_ms, .. } => {
            let span = fetched.wall_max.saturating_sub(*start).max(0).unsigned_abs();
            span / (*every_ms).max(1) + 2
        }
        _ => 0,
    });
    jobs.fold(0u64, u64::saturating_add).saturating_mul(2) <= window_jobs
}

/// Whether the job of this name is surely waiting, in the life that accepted it.
fn is_in_memory(ledger: &Ledger<'_>, name: &str, fetched: &Fetched<'_>) -> bool {
    let (mut made, mut sure) = (None, true);
    for call in ledger.calls_about(name).filter(|call| call.asked <= fetched.t) {
        match call.verb {
            Verb::Submit(submit) if made.is_none() => {
                let told = call.succeeded_at().filter(|told| *told < fetched.t);
                sure &= told.is_some() && submit.due_at > fetched.wall_max;
                made = Some(call.asked);
            }
            Verb::Move { due_at, .. } => sure &= *due_at > fetched.wall_max,
            _ => sure &= !call.may_have_happened(),
        }
    }
    // A life that began in the same millisecond is another one.
    sure && made.is_some_and(|made| !ledger.died_between(made.saturating_sub(1), fetched.t))
}
