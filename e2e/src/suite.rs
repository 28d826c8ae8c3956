//! Runs the cases of one file. A case that cannot run here is shown as ignored with its reason,
//! never as passed.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// How a case ended, when it did not fail.
pub enum Ended {
    /// Everything held.
    Passed,
    /// It could not run on this machine.
    Skipped(String),
}

/// A case: returns an error or panics when something does not hold.
pub type Case = fn() -> anyhow::Result<Ended>;

/// Runs these, two at a time unless the caller says otherwise.
pub fn run(cases: &[(&'static str, Case)]) -> ExitCode {
    let mut args = Arguments::from_args();
    // More would only make them wait for each other on a small machine.
    args.test_threads = args.test_threads.or(Some(2));
    let trials = cases.iter().map(|(name, case)| {
        let (name, case) = (*name, *case);
        Trial::ignorable_test(name, move || match case() {
            Ok(Ended::Passed) => Ok(Completion::Completed),
            Ok(Ended::Skipped(reason)) => Ok(skipped(name, &reason)),
            Err(error) => Err(Failed::from(format!("{error:#}"))),
        })
    });
    libtest_mimic::run(&args, trials.collect()).exit_code()
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
