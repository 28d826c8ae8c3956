//! The engine on a real PostgreSQL server: what goes when time moves on.

mod support;
mod turn;

use std::process::ExitCode;

use hence_testkit::suite::{run_trials, trial};

fn main() -> ExitCode {
    let cases = turn::CASES.into_iter();
    let trials = cases.map(|(name, case)| trial(name.to_string(), case));
    run_trials(trials.collect(), 2).exit_code()
}
