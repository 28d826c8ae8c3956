//! `cargo xtask test`: the one command behind which everything that must pass is run.
//!
//! A step that fails does not stop the next one: a change is put right faster when all that is
//! wrong with it is known.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::report::{self, Ended, Step, Tests};
use crate::run::{self, cargo};
use crate::{docs, fuzz, tidy};

/// How long one example may run: each is meant to show its point in a few seconds.
const EXAMPLE_DEADLINE: Duration = Duration::from_mins(1);

/// For each target in the normal run, one on each processor at a time. Short, so that a change is
/// judged by what it broke: what hides longer is for `cargo xtask fuzz`, which takes as long as one
/// likes.
const FUZZ_SECONDS: u32 = 20;

/// Worlds that are lived through: a minute or two.
const SIM_SEEDS: u32 = 2_000;

/// Worlds of an hour that are lived through: a minute.
const SIM_LARGE_SEEDS: u32 = 10;

/// Programs that a step needs, and the Debian package that brings them.
const PROGRAMS: [(&str, &str); 1] = [("git", "git")];

/// What single tests need and are skipped without: a file or program, and its Debian package.
const WANTED: [(&str, &str); 4] = [
    ("strace", "strace"),
    ("faketime", "libfaketime"),
    ("nbdfuse", "libnbd-bin"),
    ("mkfs.ext4", "e2fsprogs"),
];

/// Components of the compiler that a step needs, and how they are asked for their version.
const COMPONENTS: [(&str, &[&str]); 2] =
    [("rustfmt", &["fmt", "--version"]), ("clippy", &["clippy", "--version"])];

/// What a step came to, when nothing went wrong in running it.
struct Done {
    ended: Ended,
    tests: Tests,
}

struct Row {
    name: &'static str,
    what: &'static str,
    run: fn(&Setup) -> Result<Done>,
}

/// What every step may look at.
struct Setup {
    root: PathBuf,
    install: bool,
}

/// Every step, in the order they are run: what fails fast comes first.
const STEPS: [Row; 11] = [
    Row { name: "tools", what: "what the other steps need; installs what is missing", run: tools },
    Row { name: "fmt", what: "cargo fmt --check", run: fmt },
    Row { name: "tidy", what: "the text lint of this repository", run: tidy_step },
    Row { name: "clippy", what: "cargo clippy on everything; warnings are errors", run: clippy },
    Row { name: "test", what: "all tests: unit, doc, conformance, model, end to end", run: tests },
    Row { name: "sim", what: "simulated worlds with faults, and crashes of the engine", run: sim },
    Row { name: "fuzz", what: "every fuzz target, for a short while", run: fuzzing },
    Row { name: "doc", what: "cargo doc; warnings are errors", run: doc },
    Row {
        name: "generated",
        what: "the documents made from the code are up to date",
        run: generated,
    },
    Row { name: "examples", what: "every example runs to its end", run: examples },
    Row {
        name: "deny",
        what: "licences, sources and duplicates, if cargo-deny is there",
        run: deny,
    },
];

/// Runs the steps that were asked for, and says what came of them.
pub(crate) fn command(root: &Path, args: &[&str]) -> Result<bool> {
    if args == ["--list"] {
        for row in STEPS {
            println!("{:10} {}", row.name, row.what);
        }
        return Ok(true);
    }
    let (only, install) = parse(args)?;
    let setup = Setup { root: root.to_path_buf(), install };
    let mut steps = Vec::new();
    for row in STEPS.iter().filter(|row| only.is_empty() || only.contains(&row.name)) {
        println!("\n=== {}: {}", row.name, row.what);
        let started = Instant::now();
        let done = (row.run)(&setup)
            .unwrap_or_else(|error| Done::with(Ended::Failed(format!("{error:#}"))));
        let took = started.elapsed();
        if let Ended::Failed(why) = &done.ended {
            println!("{} failed: {why}", row.name);
        }
        steps.push(Step { name: row.name, ended: done.ended, took, tests: done.tests });
    }
    print!("{}", report::summary(&steps));
    Ok(report::all_well(&steps))
}

/// The steps to run (none named means all), and whether optional tools may be installed.
fn parse<'a>(args: &[&'a str]) -> Result<(Vec<&'a str>, bool)> {
    let (mut only, mut install) = (Vec::new(), false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            "--install" => install = true,
            "--only" => {
                let name = args.next().context("--only needs the name of a step")?;
                let known = STEPS.iter().any(|row| row.name == *name);
                ensure!(known, "no step is called {name}; `cargo xtask test --list` names them");
                only.push(*name);
            }
            other => bail!("test does not know {other}; it knows --only, --list and --install"),
        }
    }
    Ok((only, install))
}

impl Done {
    /// A step that runs no tests of its own ended like this.
    fn with(ended: Ended) -> Self {
        Done { ended, tests: Tests::default() }
    }
}

fn tools(setup: &Setup) -> Result<Done> {
    for (component, probe) in COMPONENTS {
        let there = cargo(&setup.root, probe).output().is_ok_and(|out| out.status.success());
        if !there {
            let add = ["component", "add", component];
            run::stream(Command::new("rustup").args(add).current_dir(&setup.root))?;
        }
    }
    for (program, package) in PROGRAMS {
        if !run::answers(program, &["--version"]) {
            install_package(program, package)?;
        }
    }
    let mut tests = Tests::default();
    for (name, package) in WANTED {
        if !is_there(name)
            && let Err(error) = install_package(name, package)
        {
            tests.skip(format!("what needs {name}: {error:#}"));
        }
    }
    for missing in missing_servers(&setup.root)? {
        tests.skip(format!("what needs {missing}"));
    }
    Ok(Done { ended: Ended::Passed, tests })
}

/// The programs of servers that tests start and that could not be installed, with the reason. The
/// testkit has the list, because it is what starts them.
fn missing_servers(root: &Path) -> Result<Vec<String>> {
    let output = cargo(root, &["run", "--quiet", "--package", "hence-testkit"]).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo run --package hence-testkit: {said}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    print!("{text}");
    Ok(text.lines().filter_map(|line| line.strip_prefix("missing: ")).map(str::to_owned).collect())
}

/// Whether there is a program, or a directory of libraries, with this name.
fn is_there(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let lib = fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    std::env::split_paths(&path).chain(lib).any(|dir| dir.join(name).exists())
}

/// Installs a Debian package, where that can be done without asking.
fn install_package(program: &str, package: &str) -> Result<()> {
    let root = Command::new("id").arg("-u").output().is_ok_and(|out| out.stdout == b"0\n");
    if !root || !run::answers("apt-get", &["--version"]) {
        bail!("{program} is missing: install the package {package}");
    }
    let args = ["install", "--yes", "--no-install-recommends", package];
    run::stream(Command::new("apt-get").args(args))
}

fn fmt(setup: &Setup) -> Result<Done> {
    run::stream(&mut cargo(&setup.root, &["fmt", "--all", "--check"]))
        .context("run `cargo fmt --all`")?;
    Ok(Done::with(Ended::Passed))
}

fn tidy_step(setup: &Setup) -> Result<Done> {
    let findings = tidy::check(&setup.root)?;
    for finding in &findings {
        println!("{finding}");
    }
    ensure!(findings.is_empty(), "{} findings; each names its fix", findings.len());
    Ok(Done::with(Ended::Passed))
}

fn clippy(setup: &Setup) -> Result<Done> {
    let args =
        ["clippy", "--workspace", "--all-targets", "--all-features", "--", "--deny", "warnings"];
    run::stream(&mut cargo(&setup.root, &args))?;
    Ok(Done::with(Ended::Passed))
}

fn tests(setup: &Setup) -> Result<Done> {
    let failing = run::failing_binary(&setup.root)?;
    let binary = run::hence_binary(&setup.root)?;
    // Without features: what is tested is what is released, and fail points are none of it.
    let args = ["test", "--workspace", "--no-fail-fast"];
    let mut command = cargo(&setup.root, &args);
    // The end-to-end tests start these binaries; without the variables they build them.
    command.env("HENCE_BIN", binary).env("HENCE_FAIL_BIN", failing);
    let (well, tests) = run::stream_tests(&mut command)?;
    let ended = if well { Ended::Passed } else { Ended::Failed(tests.why()) };
    Ok(Done { ended, tests })
}

/// The test that cuts the power, with more states than in the normal run.
pub(crate) fn replay_blocks(root: &Path, states: &str) -> Result<bool> {
    ensure!(states.parse::<u32>().is_ok(), "the number of states must be one, not {states}");
    let args = ["test", "--package", "hence-e2e", "--test", "power_loss"];
    let (well, tests) = run::stream_tests(cargo(root, &args).env("HENCE_STATES", states))?;
    ensure!(tests.skipped_count == 0, "it cannot be done on this machine; the reason is above");
    Ok(well)
}

/// The corpus has been replayed by the tests; this looks for more.
fn fuzzing(setup: &Setup) -> Result<Done> {
    if !run::answers("c++", &["--version"]) {
        let why = "libFuzzer needs a C++ compiler; the corpus was replayed by the tests";
        return Ok(Done::with(Ended::Skipped(why.to_owned())));
    }
    let fallen = fuzz::short(&setup.root, FUZZ_SECONDS)?;
    ensure!(fallen.is_empty(), "{}", fallen.join("; "));
    Ok(Done::with(Ended::Passed))
}

/// In a profile of its own: optimised, with every assertion in place.
fn sim(setup: &Setup) -> Result<Done> {
    let (seeds, large) = (SIM_SEEDS.to_string(), SIM_LARGE_SEEDS.to_string());
    let runs: [&[&str]; 3] = [&["--seeds", &seeds], &["--large", "--seeds", &large], &["crashes"]];
    for args in runs {
        let sim = ["run", "--profile", "sim", "--package", "hence-sim", "--"];
        run::stream(cargo(&setup.root, &sim).args(args))?;
    }
    Ok(Done::with(Ended::Passed))
}

fn doc(setup: &Setup) -> Result<Done> {
    let args = ["doc", "--workspace", "--no-deps", "--all-features"];
    run::stream(cargo(&setup.root, &args).env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Done::with(Ended::Passed))
}

fn generated(setup: &Setup) -> Result<Done> {
    let documents = docs::run(&setup.root, docs::Mode::Check)?;
    let mut tests = Tests::default();
    let mut stale = Vec::new();
    for document in &documents {
        match &document.state {
            docs::State::Same | docs::State::Written => {}
            docs::State::Missing(why) => tests.skip(format!("{}: {why}", document.path)),
            docs::State::Stale(why) => stale.push(format!("{}: {why}", document.path)),
        }
    }
    let ended = if stale.is_empty() {
        Ended::Passed
    } else {
        Ended::Failed(format!("run `cargo xtask docs`: {}", stale.join("; ")))
    };
    Ok(Done { ended, tests })
}

fn examples(setup: &Setup) -> Result<Done> {
    let names = example_names(&setup.root)?;
    ensure!(!names.is_empty(), "no example was found: they are looked for in examples/");
    run::stream(&mut cargo(
        &setup.root,
        &["build", "--workspace", "--all-features", "--examples"],
    ))?;
    let target = run::target_dir(&setup.root)?;
    let mut failed = Vec::new();
    for name in names {
        let log = target.join("xtask").join(format!("example-{name}.log"));
        let mut command = Command::new(target.join("debug").join("examples").join(&name));
        let started = Instant::now();
        match run::within(command.current_dir(&setup.root), EXAMPLE_DEADLINE, &log) {
            Ok(()) => println!("example {name} ... ok ({:.1} s)", started.elapsed().as_secs_f64()),
            Err(error) => {
                println!("example {name} ... FAILED: {error:#}");
                println!("to run it by hand: cargo run -p hence-examples --example {name}");
                failed.push(name);
            }
        }
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(Done::with(Ended::Passed))
}

/// The programs of the examples package: its own files, wherever its manifest lets them be.
fn example_names(root: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for dir in ["examples", "examples/examples"] {
        let Ok(entries) = fs::read_dir(root.join(dir)) else { continue };
        for entry in entries {
            let path = entry.with_context(|| format!("reading {dir}"))?.path();
            if path.extension().is_some_and(|e| e == "rs")
                && let Some(stem) = path.file_stem()
            {
                names.push(stem.to_string_lossy().into_owned());
            }
        }
    }
    names.sort();
    Ok(names)
}

/// Without the advisories: they come from the network and change without us; a nightly run, not a
/// change, is the place to learn of them.
fn deny(setup: &Setup) -> Result<Done> {
    let there =
        || cargo(&setup.root, &["deny", "--version"]).output().is_ok_and(|o| o.status.success());
    if !there() && setup.install {
        run::stream(&mut cargo(&setup.root, &["install", "--locked", "cargo-deny"]))?;
    }
    if !there() {
        return Ok(Done::with(Ended::Skipped(
            "cargo-deny is not installed; `cargo xtask test --install` gets it".to_string(),
        )));
    }
    run::stream(&mut cargo(&setup.root, &["deny", "check", "licenses", "bans", "sources"]))?;
    Ok(Done::with(Ended::Passed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_asked_for_by_name() {
        assert_eq!(parse(&[]).unwrap(), (vec![], false));
        let asked = ["--only", "fmt", "--install", "--only", "tidy"];
        assert_eq!(parse(&asked).unwrap(), (vec!["fmt", "tidy"], true));
        for bad in [&["--only"][..], &["--only", "nothing"], &["--fast"]] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
