//! Runs the cases of one file. A case that cannot run here is shown as ignored with its reason,
//! never as passed.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};

use crate::Missing;

/// How a case ended, when it did not fail.
pub enum Ended {
    /// Everything held.
    Passed,
    /// It could not run on this machine.
    Skipped(String),
}

/// A case: returns an error or panics when something does not hold.
pub type Case = fn() -> anyhow::Result<Ended>;

/// More cases would only make each other wait on a small machine.
const AT_ONCE: usize = 2;

/// Runs these, two at a time unless the caller says otherwise.
pub fn run(cases: &[(&'static str, Case)]) -> ExitCode {
    let trials = cases.iter().map(|(name, case)| trial((*name).to_owned(), *case));
    run_trials(trials.collect(), AT_ONCE).exit_code()
}

/// The same for cases that are made from a table, so many at a time.
pub fn run_trials(trials: Vec<Trial>, at_once: usize) -> Conclusion {
    let mut args = Arguments::from_args();
    args.test_threads = args.test_threads.or(Some(at_once));
    libtest_mimic::run(&args, trials)
}

/// One case under this name. One that ends because something is [`Missing`] is skipped.
pub fn trial(name: String, case: impl FnOnce() -> anyhow::Result<Ended> + Send + 'static) -> Trial {
    Trial::ignorable_test(name.clone(), move || match case() {
        Ok(Ended::Passed) => Ok(Completion::Completed),
        Ok(Ended::Skipped(reason)) => Ok(skipped(&name, &reason)),
        Err(error) => match error.downcast_ref::<Missing>() {
            Some(missing) => Ok(skipped(&name, &missing.to_string())),
            None => Err(Failed::from(format!("{error:#}"))),
        },
    })
}

#[expect(clippy::print_stdout, reason = "the name and the reason are what a reader looks for")]
fn skipped(name: &str, reason: &str) -> Completion {
    println!("SKIPPED {name}: {reason}");
    Completion::ignored_with(reason)
}

/// Whether a program can be started.
pub fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

/// The list of cases of a file, each under the name of its function.
#[macro_export]
macro_rules! cases {
    ($($module:ident :: $case:ident),* $(,)?) => {
        fn main() -> std::process::ExitCode {
            $crate::suite::run(&[$((stringify!($case), $module::$case)),*])
        }
    };
    ($($case:ident),* $(,)?) => {
        fn main() -> std::process::ExitCode {
            $crate::suite::run(&[$((stringify!($case), $case)),*])
        }
    };
}
