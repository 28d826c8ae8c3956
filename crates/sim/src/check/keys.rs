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
            let Some(first) = ledger.deliveries_of(late_job).next() else { continue };
            let known = made + ledger.flight_ms < first.t;
            if early.due_at >= late.due_at || !known {
                continue;
            }
            let mut seen = ledger.deliveries_of(early_job);
            let overtaken = if early.terms.step_aside {
                seen.next().is_some_and(|delivery| delivery.t > first.t)
            } else {
                seen.any(|delivery| delivery.t > first.t)
            };
            if overtaken {
                findings.add(format!("{} went ahead of {}", late.job, early.job));
            }
        }
    }
}
