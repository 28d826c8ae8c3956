//! Judges a recorded history: one file for each property, each with the sentence it holds us to.
//!
//! The properties are those of a single node. They are judged by what the outside saw; where the
//! outside cannot know (a call without an answer, a message on its way), it is in our favour, and
//! nowhere else.

mod alone;
mod counters;
mod early;
mod ended;
mod excused;
mod invented;
mod keys;
mod ledger;
mod limits;
mod linear;
mod lost;
mod occurrences;
mod once;
mod parked;
mod reads;
mod repeated;
mod resurrected;
mod retries;
mod stale;
mod tokens;
mod witnessed;

use std::fmt;

use crate::history::Event;

pub(crate) use ledger::subject;
pub use ledger::{Job, Ledger};

/// Something that must hold in every history.
pub struct Property {
    /// Its name, as in findings and in the names of golden histories.
    pub name: &'static str,
    /// The sentence.
    pub promise: &'static str,
    judge: fn(&Ledger<'_>, &mut Findings),
}

/// Something that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which property.
    pub property: &'static str,
    /// What is wrong, with the job and the times.
    pub what: String,
}

/// Gathers what is wrong with one property.
pub(crate) struct Findings {
    property: &'static str,
    found: Vec<Finding>,
}

/// Every property, in the order of a job's life; at the end, what is not about one.
pub const PROPERTIES: [Property; 20] = [
    invented::PROPERTY,
    repeated::PROPERTY,
    lost::PROPERTY,
    early::PROPERTY,
    alone::PROPERTY,
    tokens::PROPERTY,
    stale::PROPERTY,
    once::PROPERTY,
    witnessed::PROPERTY,
    excused::PROPERTY,
    parked::PROPERTY,
    resurrected::PROPERTY,
    retries::PROPERTY,
    keys::PROPERTY,
    limits::PROPERTY,
    occurrences::PROPERTY,
    counters::PROPERTY,
    ended::PROPERTY,
    linear::PROPERTY,
    reads::PROPERTY,
];

/// Everything that is wrong with a history.
pub fn judge(events: &[Event]) -> Vec<Finding> {
    let ledger = Ledger::new(events);
    let mut all = Vec::new();
    for property in &PROPERTIES {
        let mut findings = Findings { property: property.name, found: Vec::new() };
        (property.judge)(&ledger, &mut findings);
        all.append(&mut findings.found);
    }
    all
}

impl Findings {
    fn add(&mut self, what: String) {
        self.found.push(Finding { property: self.property, what });
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.property, self.what)
    }
}
