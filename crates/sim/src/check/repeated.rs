//! A submission that is repeated, because its answer was lost, makes one job.

use std::collections::{BTreeMap, BTreeSet};

use super::{Findings, Ledger, Property};
use crate::history::{Answer, Verb};

pub(super) const PROPERTY: Property = Property {
    name: "repeated",
    promise: "a submission that is repeated word by word has one job number, in all answers and \
              deliveries",
    judge,
};

fn judge(ledger: &Ledger<'_>, findings: &mut Findings) {
    let mut numbers: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for call in &ledger.calls {
        let Verb::Submit(submit) = call.verb else { continue };
        if !submit.idempotent {
            continue;
        }
        let of_this = numbers.entry(&submit.payload).or_default();
        if let Some((_, Answer::Accepted(number) | Answer::Kept(number))) = call.told {
            of_this.insert(*number);
        }
    }
    for delivery in &ledger.deliveries {
        if let Some(of_this) = numbers.get_mut(delivery.received.payload.as_str()) {
            of_this.insert(delivery.received.number);
        }
    }
    for (payload, numbers) in numbers {
        if numbers.len() > 1 {
            findings.add(format!("{payload} became several jobs: {numbers:?}"));
        }
    }
}
