//! Every tick of a schedule is accounted for, once.

use std::collections::{BTreeMap, BTreeSet};

use super::{Findings, Ledger, Property};
use crate::history::{FinalSchedule, TickFate, Verb};

pub(super) const PROPERTY: Property = Property {
    name: "occurrences",
    promise: "every tick of a schedule is accounted for exactly once, not before its instant, and \
              makes at most one job",
    judge,
};

/// How long after the healing of everything a tick may still be on its way to being decided.
const SETTLING_MS: i64 = 5_000;

/// A schedule as it was put.
struct Rhythm {
    start: i64,
    every: i64,
    told_wall: i64,
    touched: bool,
}

fn judge(ledger: &Ledger<'_>, findings: &mut Findings) {
    let mut jobs: BTreeMap<(&str, i64), BTreeSet<u64>> = BTreeMap::new();
    for delivery in &ledger.deliveries {
        if let Some((schedule, at)) = &delivery.received.occurrence {
            jobs.entry((schedule, *at)).or_default().insert(delivery.received.number);
        }
    }
    for ((schedule, at), numbers) in &jobs {
        // What was triggered by hand may have been so twice in one instant.
        let triggered = ledger.calls.iter().any(|call| {
            matches!(call.verb, Verb::TouchSchedule { id } if id == schedule)
                && call.may_have_happened()
        });
        if numbers.len() > 1 && !triggered {
            findings.add(format!("{schedule} at {at} became several jobs: {numbers:?}"));
        }
    }
    let Some(end) = ledger.last else { return };
    for call in &ledger.calls {
        let Verb::PutSchedule { id, .. } = call.verb else { continue };
        let there = end.state.schedules.iter().any(|schedule| schedule.id == *id);
        let touched = rhythm_of(ledger, id).is_none_or(|rhythm| rhythm.touched);
        if call.succeeded_at().is_some() && !there && !touched {
            findings.add(format!("{id} was acknowledged and is gone"));
        }
    }
    for schedule in &end.state.schedules {
        if let Some(rhythm) = rhythm_of(ledger, &schedule.id) {
            judge_ticks(schedule, &rhythm, end.wall, findings);
        }
    }
}

/// The rhythm of a schedule that was put once; of others only the node knows when which held.
fn rhythm_of(ledger: &Ledger<'_>, id: &str) -> Option<Rhythm> {
    let mut rhythm = None;
    let mut touched = false;
    for call in ledger.calls.iter().filter(|call| call.may_have_happened()) {
        match call.verb {
            Verb::PutSchedule { id: of, start, every_ms, .. } if of == id => {
                let (start, every) = (*start, *every_ms as i64);
                // Repeats of one wish are one wish; its first sure answer counts.
                let known = call.succeeded_at().and(call.told_wall);
                let told_wall = known.map_or(i64::MAX, |wall| wall.max(call.asked_wall));
                match &mut rhythm {
                    None => rhythm = Some(Rhythm { start, every, told_wall, touched: false }),
                    Some(same) if (same.start, same.every) == (start, every) => {
                        same.told_wall = same.told_wall.min(told_wall);
                        touched = true;
                    }
                    Some(_) => return None,
                }
            }
            Verb::TouchSchedule { id: of } if of == id => touched = true,
            _ => {}
        }
    }
    rhythm.map(|rhythm| Rhythm { touched, ..rhythm })
}

fn judge_ticks(schedule: &FinalSchedule, rhythm: &Rhythm, wall: i64, findings: &mut Findings) {
    let id = &schedule.id;
    let mut ticks = BTreeSet::new();
    for tick in &schedule.occurrences {
        let count = match tick.fate {
            TickFate::Ran(_) => 1,
            TickFate::Coalesced(count) => count as i64,
            TickFate::Triggered(_) => continue,
        };
        if tick.decided_at < tick.at {
            findings
                .add(format!("{id}: the tick of {} was decided at {}", tick.at, tick.decided_at));
        }
        for back in 0..count {
            let at = tick.at - back * rhythm.every;
            if (at - rhythm.start) % rhythm.every != 0 || at < rhythm.start {
                findings.add(format!("{id} has no tick at {at}"));
            }
            if !ticks.insert(at) {
                findings.add(format!("{id}: the tick of {at} is accounted for twice"));
            }
        }
    }
    if rhythm.touched {
        return;
    }
    let (Some(first), Some(last)) = (ticks.first(), ticks.last()) else {
        if rhythm.told_wall.max(rhythm.start).saturating_add(rhythm.every + SETTLING_MS) < wall {
            findings.add(format!("{id} never ticked"));
        }
        return;
    };
    let expected = (last - first) / rhythm.every + 1;
    if expected != ticks.len() as i64 {
        let found = ticks.len();
        findings.add(format!("{id}: {found} ticks of {expected} are accounted for"));
    }
    if last + rhythm.every + SETTLING_MS < wall {
        findings.add(format!("{id}: no tick after {last}"));
    }
    if rhythm.told_wall < i64::MAX && first - rhythm.every > rhythm.told_wall.max(rhythm.start) {
        findings.add(format!("{id}: no tick before {first}"));
    }
}
