//! `cargo xtask mutants`: deliberate faults, to see that the suites notice.
//!
//! The product knows nothing of them. A copy of the repository is made in which every line of the
//! list is changed at once, each change behind a number that the environment chooses; so there is
//! one build for all of them.

mod list;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::run::{self, cargo};
use list::MUTANTS;

/// A deliberate fault.
pub(crate) struct Mutant {
    name: &'static str,
    /// What is wrong with it, in words.
    what: &'static str,
    file: &'static str,
    /// A text that is in the file once.
    from: &'static str,
    /// What takes its place.
    to: &'static str,
    suite: Suite,
}

impl Mutant {
    /// The same, to be noticed by another suite.
    const fn by(mut self, suite: Suite) -> Self {
        self.suite = suite;
        self
    }
}

/// Who is to notice.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Suite {
    /// Simulated worlds.
    Sim,
    /// The model and the scenarios of the core.
    Core,
    /// The tests of the library.
    Library,
}

impl Suite {
    const ALL: [Suite; 3] = [Suite::Sim, Suite::Core, Suite::Library];

    /// What it is called, and its tests as Cargo names them, if they are Cargo's.
    fn describe(self) -> (&'static str, Option<&'static [&'static str]>) {
        match self {
            Suite::Sim => ("simulator", None),
            Suite::Core => {
                ("core", Some(&["hence-core", "--test", "scenarios", "--test", "model"]))
            }
            Suite::Library => ("library", Some(&["hence", "--lib", "--test", "library"])),
        }
    }
}

/// Worlds that a fault may go unnoticed in.
const SEEDS_MAX: &str = "1000";

/// A fault that makes the suite hang is noticed by that.
const DEADLINE: Duration = Duration::from_mins(2);

/// Chooses the fault, in the copy.
const VARIABLE: &str = "HENCE_MUTANT";

/// Where what was noticed by whom is kept.
const TABLE: &str = "docs/internals/seeded-bugs.md";

/// What the copy has besides: the choice, in the crate that all others know. The core itself has no
/// environment; its copy has.
const CHOICE: &str = "\
//! Which deliberate fault was asked for.
extern crate std;
static CHOSEN: std::sync::OnceLock<Option<u32>> = std::sync::OnceLock::new();
/// Whether it is this one.
pub fn is(number: u32) -> bool {
    let asked = || std::env::var(\"VARIABLE\").ok().and_then(|number| number.parse().ok());
    *CHOSEN.get_or_init(asked) == Some(number)
}
";

/// Where that is.
const CHOICE_IN: &str = "crates/core/src/mutant.rs";

/// Makes the faults, runs the suites, and says what went unnoticed.
pub(crate) fn command(root: &Path, args: &[&str]) -> Result<bool> {
    if args == ["--list"] {
        for mutant in &MUTANTS {
            println!("{:34} {}", mutant.name, mutant.what);
        }
        return Ok(true);
    }
    for name in args {
        let known = MUTANTS.iter().any(|mutant| mutant.name == *name);
        ensure!(known, "no fault is called {name}; `cargo xtask mutants --list` names them");
    }
    let copy = Copied::make(root)?;
    for suite in Suite::ALL {
        let unchanged = copy.run(0, suite)?;
        ensure!(unchanged.is_none(), "the unchanged product fails: {unchanged:?}");
    }
    let mut rows = Vec::new();
    for (at, mutant) in MUTANTS.iter().enumerate() {
        if !args.is_empty() && !args.contains(&mutant.name) {
            continue;
        }
        let noticed = copy.run(number(at), mutant.suite)?;
        println!("{:34} {}", mutant.name, noticed.as_deref().unwrap_or("NOT NOTICED"));
        rows.push((mutant, noticed));
    }
    let missed = rows.iter().filter(|(_, noticed)| noticed.is_none()).count();
    println!("{} faults, {missed} not noticed", rows.len());
    if args.is_empty() {
        fs::write(root.join(TABLE), table(&rows)).with_context(|| format!("writing {TABLE}"))?;
    }
    Ok(missed == 0)
}

fn number(at: usize) -> u32 {
    at as u32 + 1
}

/// The copy of the repository.
struct Copied {
    tree: PathBuf,
    target: PathBuf,
}

impl Copied {
    fn make(root: &Path) -> Result<Self> {
        let base = run::target_dir(root)?.join("mutants");
        let copy = Copied { tree: base.join("tree"), target: base.join("target") };
        let listed = ["ls-files", "--cached", "--others", "--exclude-standard"];
        let listed = Command::new("git").args(listed).current_dir(root).output()?;
        let listed = String::from_utf8_lossy(&listed.stdout);
        copy.remove_all_but(&listed)?;
        for path in listed.lines() {
            let Ok(bytes) = fs::read(root.join(path)) else { continue };
            let bytes = match String::from_utf8(bytes) {
                Ok(text) => changed(path, text)?.into_bytes(),
                Err(binary) => binary.into_bytes(),
            };
            copy.write(path, &bytes)?;
        }
        copy.write(CHOICE_IN, CHOICE.replace("VARIABLE", VARIABLE).as_bytes())?;
        let target = copy.target.display().to_string();
        let sim = ["build", "--profile", "sim", "--package", "hence-sim", "--target-dir", &target];
        run::stream(&mut cargo(&copy.tree, &sim))?;
        // Built before, so that the deadline is the suite's own.
        for tests in Suite::ALL.into_iter().filter_map(|suite| suite.describe().1) {
            run::stream(copy.tests(tests).arg("--no-run"))?;
        }
        Ok(copy)
    }

    /// What is no longer in the repository goes from the copy too.
    fn remove_all_but(&self, listed: &str) -> Result<()> {
        let kept: BTreeSet<PathBuf> = listed.lines().map(|path| self.tree.join(path)).collect();
        let mut dirs = vec![self.tree.clone()];
        while let Some(dir) = dirs.pop() {
            let Ok(entries) = fs::read_dir(&dir) else { continue };
            for entry in entries {
                let path = entry?.path();
                if path.is_dir() {
                    dirs.push(path);
                } else if !kept.contains(&path) && !path.ends_with(CHOICE_IN) {
                    fs::remove_file(&path)?;
                }
            }
        }
        Ok(())
    }

    /// Writes only what is new, so that only that is built again.
    fn write(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let to = self.tree.join(path);
        if fs::read(&to).is_ok_and(|old| old == bytes) {
            return Ok(());
        }
        fs::create_dir_all(to.parent().context("a file is in a directory")?)?;
        fs::write(&to, bytes).with_context(|| format!("writing {}", to.display()))
    }

    fn sim(&self) -> Command {
        let mut command = Command::new(self.target.join("sim").join("hence-sim"));
        command.args(["--until-failure", "--seeds", SEEDS_MAX]);
        command
    }

    fn tests(&self, which: &[&str]) -> Command {
        let mut command = cargo(&self.tree, &["test", "--target-dir"]);
        command.arg(&self.target).arg("--package").args(which);
        command
    }

    /// Who noticed the fault of this number, if anybody.
    fn run(&self, number: u32, suite: Suite) -> Result<Option<String>> {
        let mut command = match suite.describe().1 {
            Some(tests) => self.tests(tests),
            None => self.sim(),
        };
        command.env(VARIABLE, number.to_string()).env("RUST_BACKTRACE", "0");
        let log = self.target.join(format!("mutant-{number}.log"));
        let ended = run::status_within(&mut command, DEADLINE, &log)?;
        let said = fs::read_to_string(&log).unwrap_or_default();
        let well = ended.is_some_and(|status| status.success());
        Ok((!well).then(|| noticed_by(suite, &said)))
    }
}

/// The text of a file in the copy.
fn changed(path: &str, mut text: String) -> Result<String> {
    for (at, mutant) in MUTANTS.iter().enumerate().filter(|(_, mutant)| mutant.file == path) {
        let found = text.matches(mutant.from).count();
        ensure!(found == 1, "{}: {path} has {found} times: {}", mutant.name, mutant.from);
        let krate = if path.starts_with("crates/core/") { "crate" } else { "hence_core" };
        let chosen = format!("{krate}::mutant::is({})", number(at));
        text = text.replace(mutant.from, &mutant.to.replace("MUTANT", &chosen));
    }
    if path == "crates/core/src/lib.rs" {
        text.push_str("\npub mod mutant;\n");
    }
    Ok(text)
}

/// What of the suite noticed, from what it said.
fn noticed_by(suite: Suite, said: &str) -> String {
    let mut lines = said.lines();
    let what = if suite == Suite::Sim {
        let reason = lines.skip_while(|line| !line.contains("FAILED: cargo run")).nth(1);
        reason.and_then(|reason| reason.trim().split(':').next())
    } else {
        let failed = lines.find(|line| line.starts_with("test ") && line.ends_with("FAILED"));
        failed.and_then(|line| line.split_whitespace().nth(1))
    };
    let what = what.filter(|what| !what.is_empty()).unwrap_or("it did not come to its end");
    format!("{}: {what}", suite.describe().0)
}

/// What the page says above its table.
const ABOVE: &str = "\
# Seeded bugs

A suite that cannot go red shows nothing. Each line below is a deliberate fault: one line of the
product, changed so that it breaks a promise. `cargo xtask mutants` makes them all in a copy of the
repository, runs the suite that is to notice, and writes this page. The list is in
`xtask/src/mutants/list.rs`; the product knows nothing of it.

| fault | what is wrong | noticed by |
|---|---|---|
";

fn table(rows: &[(&Mutant, Option<String>)]) -> String {
    let mut text = ABOVE.to_owned();
    for (mutant, noticed) in rows {
        let by = noticed.as_deref().unwrap_or("**nobody**");
        let _ = writeln!(text, "| `{}` | {} | {by} |", mutant.name, mutant.what);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    #[test]
    fn every_fault_can_still_be_made() {
        for mutant in &MUTANTS {
            let text = fs::read_to_string(root().join(mutant.file)).unwrap();
            assert_eq!(text.matches(mutant.from).count(), 1, "{}: {}", mutant.name, mutant.file);
            assert!(mutant.to.contains("MUTANT"), "{} is not behind its number", mutant.name);
        }
    }

    #[test]
    fn every_fault_has_its_own_name_and_stands_in_the_table() {
        assert!(MUTANTS.len() >= 30, "{} faults", MUTANTS.len());
        let table = fs::read_to_string(root().join(TABLE)).unwrap();
        for mutant in &MUTANTS {
            let same = MUTANTS.iter().filter(|other| other.name == mutant.name).count();
            assert_eq!(same, 1, "{}", mutant.name);
            let row = table.lines().find(|line| line.starts_with(&format!("| `{}`", mutant.name)));
            let row = row.unwrap_or_else(|| panic!("{} is not in {TABLE}", mutant.name));
            assert!(!row.contains("**nobody**"), "{} goes unnoticed", mutant.name);
        }
    }

    #[test]
    fn who_noticed_is_read_from_what_was_said() {
        let said = "seed 3 FAILED: cargo run -p hence-sim -- --seed 3\n  lost: a job is gone\n";
        assert_eq!(noticed_by(Suite::Sim, said), "simulator: lost");
        assert_eq!(noticed_by(Suite::Sim, ""), "simulator: it did not come to its end");
        let said = "test a::b ... ok\ntest a::c ... FAILED\n";
        assert_eq!(noticed_by(Suite::Library, said), "library: a::c");
    }
}
