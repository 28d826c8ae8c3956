//! The engine on a real PostgreSQL server: what goes when time moves on, what
//! fails, what overlaps, and the tables themselves.

mod faults;
mod overlap;
mod proxy;
mod speed;
mod support;
mod tables;
mod tls;
mod turn;

use std::process::ExitCode;

use hence_testkit::suite::{run_trials, trial};

fn main() -> ExitCode {
    let cases = turn::CASES.into_iter().chain(faults::CASES).chain(overlap::CASES);
    let cases = cases.chain(tables::CASES).chain(tls::CASES);
    let trials = cases.map(|(name, case)| trial(name.to_string(), case));
    let measures = speed::CASES.into_iter();
    let measures =
        measures.map(|(name, case)| trial(name.to_string(), case).with_ignored_flag(true));
    run_trials(trials.chain(measures).collect(), 2).exit_code()
}
