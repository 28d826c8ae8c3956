//! The engine on a real PostgreSQL server: what goes when time moves on, what
//! fails, and the tables themselves.

mod faults;
mod proxy;
mod support;
mod tables;
mod turn;

use std::process::ExitCode;

use hence_testkit::suite::{run_trials, trial};

fn main() -> ExitCode {
    let cases = turn::CASES.into_iter().chain(faults::CASES).chain(tables::CASES);
    let trials = cases.map(|(name, case)| trial(name.to_string(), case));
    run_trials(trials.collect(), 2).exit_code()
}
