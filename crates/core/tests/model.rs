//! The shard against a naive model, over random histories: see `model/naive.rs` for the rules in
//! their plainest form and `model/run.rs` for what is compared.
//!
//! `HENCE_SEED=n cargo test -p hence-core --test model` replays one history. A seed that failed
//! once stays in [`FAILED_ONCE`].

mod support;
mod model {
    pub(crate) mod history;
    pub(crate) mod naive;
    pub(crate) mod pushes;
    pub(crate) mod rules;
    pub(crate) mod run;
    pub(crate) mod shrink;
}

use model::history::History;
use model::run;
use model::shrink;

/// Histories for each size of the window.
const HISTORIES: u64 = 2_500;
const UNLIMITED: usize = 1_000_000;

/// Seeds that found a defect, with the window they found it under. They mean what they meant as
/// long as histories are made in the same way; each defect has a scenario besides.
const FAILED_ONCE: [(u64, usize); 7] = [
    (1_000_006, 1),         // a job that was tried and blocked its key was overtaken
    (4_000_042, UNLIMITED), // the same
    (3_000_036, 5),         // a job that held its key was let go from memory
    (3_000_034, 5),         // a page was read and let go without end
    (1_000_097, 1),         // a page brought back a job that had ended
    (4_000_088, UNLIMITED), // the same
    (1_000_216, 1),         // a trigger and a tick made two jobs of one name
];

fn check(first_seed: u64, window_jobs: usize) {
    let seeds = match replayed_seed() {
        Some(seed) => seed..seed + 1,
        None => first_seed..first_seed + HISTORIES,
    };
    for seed in seeds {
        shrink::check(&History::new(seed, window_jobs));
    }
}

#[expect(clippy::disallowed_methods, reason = "the seed is the one setting a test run has")]
fn replayed_seed() -> Option<u64> {
    let text = std::env::var("HENCE_SEED").ok()?;
    Some(text.parse().expect("HENCE_SEED is a number"))
}

#[test]
fn a_window_of_one_job() {
    check(1_000_000, 1);
}

#[test]
fn a_window_of_two_jobs() {
    check(2_000_000, 2);
}

#[test]
fn a_window_of_five_jobs() {
    check(3_000_000, 5);
}

#[test]
fn no_limit_on_the_window() {
    check(4_000_000, UNLIMITED);
}

#[test]
fn seeds_that_failed_once() {
    for (seed, window_jobs) in FAILED_ONCE {
        shrink::check(&History::new(seed, window_jobs));
    }
}

/// The same inputs lead to the same effects, whatever the maps are seeded with.
#[test]
fn the_same_inputs_have_the_same_effects() {
    for seed in 0..200 {
        for window_jobs in [1, 5, UNLIMITED] {
            let history = History::new(seed, window_jobs);
            let [one, other] =
                [1, 0x5eed_0000_0000_0002].map(|hash_seed| run::effects_of(&history, hash_seed));
            assert!(one == other, "seed {seed} with a window of {window_jobs}");
        }
    }
}
