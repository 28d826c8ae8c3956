//! The jobs of a key: one at a time, in order of due time.

use std::collections::BTreeMap;

use super::ledger::{Delivery, Job};
use super::{Findings, Ledger, Property};
use crate::history::Submit;

pub(super) const PROPERTY: Property = Property {
    name: "keys",
    promise: "jobs of a key are with one receiver at a time, and none overtakes one that was due \
              before it",
    judge,
};

type Member<'l, 'a> = (&'l Job<'a>, &'a Submit);

fn judge(ledger: &Ledger<'_>, findings: &mut Findings) {
    let mut keys: BTreeMap<(&str, &str), Vec<Member<'_, '_>>> = BTreeMap::new();
    for job in ledger.jobs.values() {
        let Some(submit) = ledger.submit_of(job) else { continue };
        if let Some(key) = &submit.key {
            keys.entry((&submit.queue, key)).or_default().push((job, submit));
        }
    }
    for members in keys.values() {
        judge_serial(ledger, members, findings);
        judge_order(ledger, members, findings);
    }
}

fn judge_serial(ledger: &Ledger<'_>, members: &[Member<'_, '_>], findings: &mut Findings) {
    let all = members.iter().flat_map(|(job, _)| ledger.deliveries_of(job));
    let mut all: Vec<&Delivery<'_>> = all.collect();
    all.sort_by_key(|delivery| (delivery.t, delivery.received.token));
    for (at, later) in all.iter().enumerate() {
        let other = |held: &&&Delivery<'_>| held.received.number != later.received.number;
        for held in all[..at].iter().filter(other) {
            if ledger.still_holds(held, later) {
                let (name, beside) = (&later.received.job, &held.received.job);
                findings.add(format!("{name} arrived while {beside} of its key was under way"));
            }
        }
    }
}

fn judge_order(ledger: &Ledger<'_>, members: &[Member<'_, '_>], findings: &mut Findings) {
    let plain: Vec<_> =
        members.iter().filter(|(_, submit)| !ledger.was_touched(&submit.job)).collect();
    for (early_job, early) in &plain {
        let made = early_job.submit.and_then(|at| ledger.calls[at].succeeded_at());
        let Some(made) = made else { continue };
        for (late_job, late) in &plain {
            let Some(first) = first_delivery(ledger, late_job) else { continue };
            let known = made + ledger.flight_ms < first.t;
            if early.due_at >= late.due_at || !known {
                continue;
            }
            if was_overtaken(ledger, early_job, early, first) {
                findings.add(format!("{} went ahead of {}", late.job, early.job));
            }
        }
    }
}

/// Whether a job that was due was handed out after this one, and had no reason to be. Tokens are in
/// the order of handing out, which arrivals need not be.
fn was_overtaken(ledger: &Ledger<'_>, job: &Job<'_>, submit: &Submit, by: &Delivery<'_>) -> bool {
    let after = |delivery: &Delivery<'_>| delivery.received.token > by.received.token;
    if submit.terms.step_aside {
        return first_delivery(ledger, job).is_some_and(after);
    }
    ledger.deliveries_of(job).any(after)
}

/// The first delivery of a job, unless an earlier one got lost on the way to its receiver.
fn first_delivery<'l, 'a>(ledger: &'l Ledger<'a>, job: &Job<'a>) -> Option<&'l Delivery<'a>> {
    let first = job.deliveries.first().map(|at| &ledger.deliveries[*at])?;
    // The record of its attempts tells, while it is kept.
    let surely = match (ledger.last, job.last.and_then(|last| last.attempts.first())) {
        (_, Some(ended)) => ended.token == first.received.token,
        (None, None) => first.received.attempt == 1,
        (Some(_), None) => false,
    };
    surely.then_some(first)
}
