//! The conformance table itself: nothing is missing from it, and nothing leaves it unnoticed.

use std::collections::BTreeSet;

use hence_store::conformance::{PROMISES, cases};

/// Raise it with every case added. It never shrinks: a case is replaced by a better one or kept.
const CASES: usize = 183;

#[test]
fn no_case_is_lost() {
    assert_eq!(cases().count(), CASES);
}

#[test]
fn every_promise_has_a_case() {
    let covered: BTreeSet<&str> = cases().map(|case| case.promise).collect();
    assert_eq!(covered, BTreeSet::from(PROMISES));
}

#[test]
fn names_are_unique() {
    let names: BTreeSet<&str> = cases().map(|case| case.name).collect();
    assert_eq!(names.len(), cases().count());
}
