//! Replays the corpus of every target: what was found once stays found.

use std::path::Path;
use std::process::ExitCode;

use hence_fuzz::TARGETS;
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let trial =
        |(name, target): (&'static str, fn(&[u8]))| Trial::test(name, move || replay(name, target));
    let trials = TARGETS.into_iter().map(trial).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn replay(name: &str, target: fn(&[u8])) -> Result<(), Failed> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut count = 0;
    for entry in std::fs::read_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))? {
        let path = entry?.path();
        let bytes = std::fs::read(&path)?;
        let replayed = std::panic::catch_unwind(|| target(&bytes));
        replayed.map_err(|_| format!("{} brings it down", path.display()))?;
        count += 1;
    }
    if count == 0 { Err(format!("{} is empty", dir.display()).into()) } else { Ok(()) }
}
