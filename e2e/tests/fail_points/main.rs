//! Every fail point of the real binary, fired: the process dies there, or the step fails there.
//!
//! Each case starts the build with fail points on a directory that has something of everything,
//! works until the point fires, starts the normal way again, and judges ([`judge`]) by what
//! producers and workers were told and what the receiver saw. At the end every point of the list
//! must have been reached and fired; the sums are printed.
//!
//! Beside it: the same for a store that is just being made, and EIO at every write and every sync
//! of a short run, one after the other.

#![expect(clippy::print_stdout, reason = "the coverage belongs to the result")]

mod case;
mod judge;
mod load;
mod short;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Mutex;

use hence_e2e::suite::{Ended, run_trials, trial};
use hence_e2e::{Build, server};
use hence_fail::{OnError, Point};
use libtest_mimic::Trial;

use case::{Action, Armed, Begin, Case};

/// What was reached and fired, over all cases.
static REACHED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static FIRED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// What is reached while a store is being made.
const MAKING: [Point; 18] = [
    Point::DirCreate,
    Point::DirLock,
    Point::DirList,
    Point::DirSync,
    Point::LogCreate,
    Point::LogReserve,
    Point::LogTruncate,
    Point::LogFill,
    Point::LogFillSync,
    Point::LogRename,
    Point::ManifestCreate,
    Point::ManifestWrite,
    Point::ManifestSync,
    Point::ManifestRename,
    Point::CommitStart,
    Point::CommitApply,
    Point::StartAcquired,
    Point::ServeReady,
];

/// Where the first time is at the start: under work is another matter.
const AGAIN_UNDER_WORK: [(Point, u64); 8] = [
    (Point::LogWrite, 8),
    (Point::LogSync, 8),
    (Point::LogRename, 4),
    (Point::DirSync, 12),
    (Point::CommitStart, 9),
    (Point::CommitApply, 9),
    (Point::LineCommitted, 7),
    (Point::DriverPassOn, 11),
];

/// Cases mostly wait: for leases to run out, for processes to start and end.
const AT_ONCE: usize = 5;

fn main() -> ExitCode {
    // Before anything runs: builds of both kinds pass through one name.
    server::binary(Build::Failing);
    let mut trials = Vec::new();
    for point in Point::ALL {
        trials.extend(both(point, 1, Begin::Seeded));
    }
    for (point, at) in AGAIN_UNDER_WORK {
        trials.extend(both(point, at, Begin::Seeded));
    }
    for point in MAKING {
        trials.extend(both(point, 1, Begin::Nothing));
    }
    for (point, times) in [(Point::DiskWrite, "write"), (Point::DiskSync, "sync")] {
        let name = format!("eio_at_every_{times}_of_a_short_run");
        trials.push(trial(name, move || short::every_one_fails(point)));
    }
    trials.push(trial("a_normal_build_has_no_fail_points".to_owned(), short::normal_build));
    let conclusion = run_trials(trials, AT_ONCE);
    // With a filter it says nothing about the whole.
    if conclusion.num_filtered_out > 0 || conclusion.has_failed() || conclusion.num_passed == 0 {
        return conclusion.exit_code();
    }
    coverage()
}

/// The process dies there; and, where that can be, the step fails there.
fn both(point: Point, at: u64, begin: Begin) -> Vec<Trial> {
    let error = (point.on_error() != OnError::Never).then_some(Action::Error);
    let actions = std::iter::once(Action::Abort).chain(error);
    let one = |action| {
        let case = Case { armed: Armed { point, action, at }, begin };
        trial(case.name(), move || {
            let report = case.run()?;
            note(&REACHED, report.reached);
            note(&FIRED, [format!("{} {action:?}", point.name())]);
            Ok(Ended::Passed)
        })
    };
    actions.map(one).collect()
}

fn note(list: &Mutex<BTreeSet<String>>, names: impl IntoIterator<Item = String>) {
    list.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(names);
}

/// Every point was reached, died at, and, where that can be, failed at.
fn coverage() -> ExitCode {
    let count = |list: &Mutex<BTreeSet<String>>| list.lock().map_or(0, |list| list.len());
    let errors = Point::ALL.iter().filter(|point| point.on_error() != OnError::Never).count();
    let expected = Point::ALL.len() + errors;
    let (reached, fired) = (count(&REACHED), count(&FIRED));
    println!(
        "fail points: {} listed, {reached} reached; {fired} of {expected} fired ({} by abort, \
         {errors} by error)",
        Point::ALL.len(),
        Point::ALL.len(),
    );
    let whole = reached == Point::ALL.len() && fired == expected;
    if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
