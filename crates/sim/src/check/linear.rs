//! What is told about one name fits one order of things.
//!
//! A search after Wing and Gong, a name at a time: is there an order of its calls, each taking
//! effect at one instant between question and answer, in which every answer is the one that a
//! simple model gives? A call without an answer takes effect at any time, or never. What happens to
//! a job by itself (it runs, ends, is swept) may happen between any two calls, as soon as it can.

use std::collections::{BTreeMap, BTreeSet};

use super::ledger::{Call, subject};
use super::{Findings, Ledger, Property};
use crate::history::{Answer, Stamp, Submit, Verb};

pub(super) const PROPERTY: Property = Property {
    name: "linear",
    promise: "the answers about a name are those of one job at a time, in an order that agrees \
              with when they were asked and told",
    judge,
};

/// States that are looked at for one name. Beyond it the answer is "perhaps", in our favour; a
/// name has a handful of calls, and few come near.
const LOOKED_AT_MAX: usize = 200_000;

/// Calls about one name that can be put in order.
const CALLS_MAX: usize = 128;

/// What is under a name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Slot {
    is: Is,
    /// The job's number, once it is known.
    number: Option<u64>,
    /// The greatest number that is known of the name.
    number_max: u64,
    /// When it may begin to run by itself.
    due_at: i64,
    retention_ms: u64,
    /// When the call that made it was asked.
    made: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Is {
    Absent,
    Live,
    /// It succeeded and somebody was told so, or may have been.
    Succeeded,
    Cancelled,
    /// It succeeded, died or expired, by itself.
    Over,
}

/// A call that says something about its name.
struct Op<'l, 'a> {
    call: &'l Call<'a>,
    /// The job whose lease it is about.
    number: Option<u64>,
}

fn judge(ledger: &Ledger<'_>, findings: &mut Findings) {
    let wall_min = ledger.calls.iter().map(|call| call.asked_wall).min().unwrap_or_default();
    for (name, ops) in by_name(ledger) {
        let search = Search { ops: &ops, wall_min, looked_at: BTreeSet::new() };
        if !search.finds_an_order() {
            let told: Vec<String> = ops.iter().filter_map(Op::text).collect();
            findings.add(format!("{name}: no order explains {}", told.join(", ")));
        }
    }
}

/// The calls about each name that somebody submitted, in the order they were asked.
fn by_name<'l, 'a>(ledger: &'l Ledger<'a>) -> BTreeMap<&'l str, Vec<Op<'l, 'a>>> {
    let leases: BTreeMap<Stamp, (&str, u64)> = ledger
        .deliveries
        .iter()
        .map(|d| (d.received.token, (d.received.job.as_str(), d.received.number)))
        .collect();
    let mut names: BTreeMap<&str, Vec<Op<'_, '_>>> = BTreeMap::new();
    for call in &ledger.calls {
        let (name, number) = match call.verb {
            Verb::Ack { token } | Verb::Nack { token } | Verb::Extend { token, .. } => {
                let Some((name, number)) = leases.get(token) else { continue };
                (*name, Some(*number))
            }
            other => {
                let Some(name) = subject(other) else { continue };
                (name, None)
            }
        };
        let op = Op { call, number };
        if op.says_something(ledger) {
            names.entry(name).or_default().push(op);
        }
    }
    let submitted =
        |ops: &[Op<'_, '_>]| ops.iter().any(|op| matches!(op.call.verb, Verb::Submit(_)));
    names.retain(|_, ops| submitted(ops) && ops.len() <= CALLS_MAX);
    names
}

impl Op<'_, '_> {
    /// A refusal that may have many reasons says nothing, and neither does what changes nothing
    /// and has no answer. Of the repeats of an ack, the first that was heard is the one.
    fn says_something(&self, ledger: &Ledger<'_>) -> bool {
        let refused = matches!(self.call.told, Some((_, Answer::Refused)));
        match self.call.verb {
            Verb::Submit(_) | Verb::Replay { .. } => !refused,
            Verb::Ack { token } => {
                let earlier = ledger.calls_under(*token).any(|other| {
                    matches!(other.verb, Verb::Ack { .. })
                        && other.may_have_happened()
                        && other.asked < self.call.asked
                });
                !refused && !earlier
            }
            Verb::Nack { .. } | Verb::Extend { .. } => self.call.succeeded_at().is_some(),
            _ => true,
        }
    }

    fn text(&self) -> Option<String> {
        let (told, answer) = self.call.told?;
        let verb = match self.call.verb {
            Verb::Submit(_) => "submit",
            Verb::Move { .. } => "move",
            Verb::Cancel { .. } => "cancel",
            Verb::RunNow { .. } => "run now",
            Verb::Replay { .. } => "replay",
            Verb::Forget { .. } => "forget",
            Verb::Ack { .. } => "ack",
            Verb::Nack { .. } => "nack",
            Verb::Extend { .. } => "extend",
            Verb::PutSchedule { .. } | Verb::TouchSchedule { .. } | Verb::PutQueue { .. } => {
                return None;
            }
        };
        Some(format!("{verb} (asked at {}) told {answer:?} at {told}", self.call.asked))
    }

    /// By when it took effect, by both clocks.
    fn latest(&self) -> (u64, i64) {
        let told = self.call.told.map_or(u64::MAX, |(t, _)| t);
        (told, self.call.told_wall_max.unwrap_or(i64::MAX))
    }
}

struct Search<'s, 'l, 'a> {
    ops: &'s [Op<'l, 'a>],
    wall_min: i64,
    looked_at: BTreeSet<(u128, Slot)>,
}

impl Search<'_, '_, '_> {
    fn finds_an_order(mut self) -> bool {
        let nothing = Slot {
            is: Is::Absent,
            number: None,
            number_max: 0,
            due_at: i64::MAX,
            retention_ms: 0,
            made: 0,
        };
        let answered = |op: &Op<'_, '_>| op.call.told.is_some();
        let all = self.ops.iter().enumerate().filter(|(_, op)| answered(op));
        let all = all.fold(0u128, |set, (at, _)| set | 1 << at);
        let mut open = vec![(0u128, nothing)];
        while let Some((done, slot)) = open.pop() {
            if done & all == all || self.looked_at.len() > LOOKED_AT_MAX {
                return true;
            }
            if !self.looked_at.insert((done, slot)) {
                continue;
            }
            let rest = |at: &usize| done & (1 << *at) == 0;
            // Nothing comes before what had been answered when it was asked.
            let first_told =
                (0..self.ops.len()).filter(rest).map(|at| self.ops[at].latest().0).min();
            for at in (0..self.ops.len()).filter(rest) {
                let op = &self.ops[at];
                if first_told.is_some_and(|told| told < op.call.asked) {
                    continue;
                }
                let before = slot.by_itself(op.latest(), self.wall_min);
                let mut after: Vec<Slot> =
                    before.iter().filter_map(|slot| slot.after(op)).collect();
                if self.may_hide(&before, op) {
                    after.extend(before.into_iter().filter(|slot| slot.is_over()));
                }
                open.extend(after.into_iter().map(|slot| (done | 1 << at, slot)));
            }
        }
        false
    }

    /// Whether the call may have missed a job whose time was over and which was not swept yet: it
    /// is there again once the clock is set back.
    fn may_hide(&self, before: &[Slot], op: &Op<'_, '_>) -> bool {
        let missed = |slot: &Slot| slot.is == Is::Absent && slot.after(op) == Some(*slot);
        let earlier = |other: &Op<'_, '_>| {
            other.call.asked > op.call.asked && other.call.asked_wall < op.call.asked_wall
        };
        before.iter().any(missed) && self.ops.iter().any(earlier)
    }
}

impl Slot {
    /// What it may have become by itself, by then.
    fn by_itself(self, (t, wall): (u64, i64), wall_min: i64) -> Vec<Slot> {
        let mut all = vec![self];
        if self.is == Is::Live && self.may_have_begun(wall) {
            all.push(Slot { is: Is::Over, ..self });
        }
        let kept = self.retention_ms;
        let swept = t >= self.made.saturating_add(kept)
            || wall.saturating_sub(wall_min) >= i64::try_from(kept).unwrap_or(i64::MAX);
        if swept && all.last().is_some_and(|slot| slot.is_over()) {
            all.push(Slot { is: Is::Absent, number: None, ..self });
        }
        all
    }

    fn is_over(self) -> bool {
        !matches!(self.is, Is::Absent | Is::Live)
    }

    fn may_have_begun(self, wall: i64) -> bool {
        wall >= self.due_at
    }

    /// What it is after this call, if that could be answered as it was.
    fn after(self, op: &Op<'_, '_>) -> Option<Slot> {
        let refused = matches!(op.call.told, Some((_, Answer::Refused)));
        let begun = self.may_have_begun(op.latest().1);
        match op.call.verb {
            Verb::Submit(submit) => self.submitted(submit, op),
            Verb::Move { .. } | Verb::RunNow { .. } if refused => {
                (self.is != Is::Live || begun).then_some(self)
            }
            Verb::Move { due_at, .. } => {
                (self.is == Is::Live).then_some(Slot { due_at: *due_at, ..self })
            }
            Verb::RunNow { .. } => {
                (self.is == Is::Live).then_some(Slot { due_at: i64::MIN, ..self })
            }
            Verb::Cancel { .. } => match (self.is, refused) {
                (Is::Live | Is::Cancelled, false) => Some(Slot { is: Is::Cancelled, ..self }),
                (Is::Absent | Is::Succeeded | Is::Over, true) => Some(self),
                _ => None,
            },
            Verb::Replay { .. } => {
                (self.is == Is::Over).then_some(Slot { is: Is::Live, due_at: i64::MIN, ..self })
            }
            Verb::Forget { .. } => match (self.is, refused) {
                (Is::Succeeded | Is::Cancelled | Is::Over, false) => {
                    Some(Slot { is: Is::Absent, number: None, ..self })
                }
                (Is::Absent | Is::Live, true) => Some(self),
                _ => None,
            },
            Verb::Ack { .. } => self.leased(op).map(|slot| Slot { is: Is::Succeeded, ..slot }),
            Verb::Nack { .. } | Verb::Extend { .. } => self.leased(op),
            Verb::PutSchedule { .. } | Verb::TouchSchedule { .. } | Verb::PutQueue { .. } => None,
        }
    }

    fn submitted(self, submit: &Submit, op: &Op<'_, '_>) -> Option<Slot> {
        if let Some((_, Answer::Kept(number))) = op.call.told {
            return self.known_as(*number);
        }
        let number = match op.call.told {
            Some((_, Answer::Accepted(number))) => Some(*number),
            _ => None,
        };
        let free = self.is == Is::Absent || !submit.idempotent;
        let grows = number.is_none_or(|number| number > self.number_max);
        (free && grows).then_some(Slot {
            is: Is::Live,
            number,
            number_max: number.unwrap_or(self.number_max),
            due_at: submit.due_at,
            retention_ms: submit.terms.retention_ms,
            made: op.call.asked,
        })
    }

    /// The job has this number, as far as anybody knows.
    fn known_as(self, number: u64) -> Option<Slot> {
        let fits = self.number.map_or(number > self.number_max, |known| known == number);
        let number_max = self.number_max.max(number);
        let known = Slot { number: Some(number), number_max, ..self };
        (self.is != Is::Absent && fits).then_some(known)
    }

    /// The job has a lease, and is the one it was given for.
    fn leased(self, op: &Op<'_, '_>) -> Option<Slot> {
        let slot = self.known_as(op.number?)?;
        (slot.is == Is::Live).then_some(slot)
    }
}
