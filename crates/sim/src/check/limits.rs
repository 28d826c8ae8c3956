//! A queue's pause and its limit hold.

use super::ledger::{Call, Delivery};
use super::{Findings, Ledger, Property};
use crate::history::Verb;

pub(super) const PROPERTY: Property = Property {
    name: "limits",
    promise: "a paused queue hands out nothing, and no queue more at once than it may",
    judge,
};

/// A change of a queue's settings.
struct Setting<'l, 'a> {
    call: &'l Call<'a>,
    paused: bool,
    concurrency: Option<u32>,
}

fn judge(ledger: &Ledger<'_>, findings: &mut Findings) {
    let mut queues: Vec<&str> = Vec::new();
    for call in &ledger.calls {
        if let Verb::PutQueue { queue, .. } = call.verb
            && !queues.contains(&queue.as_str())
        {
            queues.push(queue);
        }
    }
    for queue in queues {
        let settings: Vec<Setting<'_, '_>> = ledger
            .calls
            .iter()
            .filter(|call| call.may_have_happened())
            .filter_map(|call| match call.verb {
                Verb::PutQueue { queue: of, paused, concurrency } if of == queue => {
                    Some(Setting { call, paused: *paused, concurrency: *concurrency })
                }
                _ => None,
            })
            .collect();
        let of_queue = |delivery: &&Delivery<'_>| {
            let submit = ledger.submit_of(&ledger.jobs[&delivery.received.number]);
            submit.is_some_and(|submit| submit.queue == queue)
        };
        let deliveries: Vec<_> = ledger.deliveries.iter().filter(of_queue).collect();
        judge_pauses(ledger, queue, &settings, &deliveries, findings);
        judge_concurrency(ledger, queue, &settings, &deliveries, findings);
    }
}

fn judge_pauses(
    ledger: &Ledger<'_>,
    queue: &str,
    settings: &[Setting<'_, '_>],
    deliveries: &[&Delivery<'_>],
    findings: &mut Findings,
) {
    for (at, pause) in settings.iter().enumerate().filter(|(_, setting)| setting.paused) {
        // A pause that another setting may have overtaken says nothing.
        let Some(told) = pause.call.succeeded_at() else { continue };
        let unsure = |other: &Setting<'_, '_>| {
            other.call.asked < told && other.call.told.is_none_or(|(t, _)| t > pause.call.asked)
        };
        if settings.iter().enumerate().any(|(other, setting)| other != at && unsure(setting)) {
            continue;
        }
        let until = settings[at + 1..].iter().map(|next| next.call.asked).min();
        let until = until.unwrap_or(u64::MAX);
        for delivery in deliveries {
            if delivery.t > told + ledger.flight_ms && delivery.t < until {
                let name = &delivery.received.job;
                findings.add(format!("{name} was handed out while {queue} was paused"));
            }
        }
    }
}

fn judge_concurrency(
    ledger: &Ledger<'_>,
    queue: &str,
    settings: &[Setting<'_, '_>],
    deliveries: &[&Delivery<'_>],
    findings: &mut Findings,
) {
    for (at, later) in deliveries.iter().enumerate() {
        let held: Vec<_> =
            deliveries[..at].iter().filter(|held| ledger.still_holds(held, later)).collect();
        let Some(first) = held.iter().map(|held| held.t).min() else { continue };
        let Some(allowed) = most_allowed(settings, first.saturating_sub(ledger.flight_ms), later.t)
        else {
            continue;
        };
        let now = held.len() + 1;
        if now > allowed as usize {
            let name = &later.received.job;
            findings.add(format!("{name} made {now} at once in {queue}, which may have {allowed}"));
        }
    }
}

/// The highest limit that may have been in force in this time; none: no limit.
fn most_allowed(settings: &[Setting<'_, '_>], from: u64, until: u64) -> Option<u32> {
    // The last setting that was surely in force when it began, and everything asked since.
    let sure = settings
        .iter()
        .rposition(|setting| setting.call.succeeded_at().is_some_and(|told| told <= from))?;
    let sure_told = settings[sure].call.asked;
    let relevant = settings.iter().filter(|setting| {
        let after = setting.call.told.is_none_or(|(told, _)| told >= sure_told);
        after && setting.call.asked <= until
    });
    let limits: Option<Vec<u32>> = relevant.map(|setting| setting.concurrency).collect();
    limits?.into_iter().max()
}
