//! `cargo xtask fuzz`: the fuzz targets under libFuzzer, on the stable compiler and without a
//! sanitizer: there is no unsafe code here, so panics, hangs and floods of memory are what can be
//! found.

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::run::{self, cargo};

/// What makes the compiler count branches and show comparisons to the fuzzer; the same as
/// `cargo fuzz --sanitizer none`.
const FLAGS: [&str; 6] = [
    "--cfg fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// One input may take this long, and this much memory.
const LIMITS: [&str; 3] = ["-timeout=5", "-rss_limit_mb=1024", "-malloc_limit_mb=256"];

/// Seconds for each target when nothing is said: enough to notice what was broken today.
const SECONDS_DEFAULT: u32 = 60;

/// The chances of the short run: the same for every change, so that a change is judged by what it
/// did and not by its luck. `cargo xtask fuzz` takes new ones each time.
const SHORT_SEED: u32 = 1;

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
struct Asked<'a> {
    target: Option<&'a str>,
    seconds: u32,
    keep: Keep,
}

/// What becomes of the inputs that reached something new.
#[derive(Debug, PartialEq, Eq)]
enum Keep {
    /// They are forgotten.
    Nothing,
    /// They join the corpus, as few of them as reach the same.
    Minimised,
}

/// Runs the targets that were asked for; false when one was brought down.
pub(crate) fn command(root: &Path, args: &[&str]) -> Result<bool> {
    let asked = parse(args)?;
    let runner = build(root)?;
    let names = targets(root)?;
    if let Some(target) = asked.target {
        ensure!(names.iter().any(|name| name == target), "no target {target}; there are {names:?}");
    }
    let is_chosen = |name: &&String| asked.target.is_none_or(|target| target == *name);
    let chosen: Vec<&String> = names.iter().filter(is_chosen).collect();
    let mut fallen = Vec::new();
    for name in &chosen {
        if let Err(error) = fuzz(root, &runner, name, asked.seconds, None) {
            println!("fuzz {name} ... FAILED: {error:#}");
            fallen.push(name);
            continue;
        }
        if asked.keep == Keep::Minimised {
            minimise(root, &runner, name)?;
        }
    }
    println!("fuzz: {} for {} s each, {} fell", chosen.len(), asked.seconds, fallen.len());
    Ok(fallen.is_empty())
}

/// Every target for so many seconds, one on each processor at a time; the names of those that
/// fell, with the reason.
pub(crate) fn short(root: &Path, seconds: u32) -> Result<Vec<String>> {
    let runner = build(root)?;
    let waiting = Mutex::new(targets(root)?);
    let fallen = Mutex::new(Vec::new());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                while let Some(name) = next() {
                    if let Err(error) = fuzz(root, &runner, &name, seconds, Some(SHORT_SEED)) {
                        let mut fallen = fallen.lock().unwrap_or_else(PoisonError::into_inner);
                        fallen.push(format!("{name}: {error:#}"));
                    }
                }
            });
        }
    });
    Ok(fallen.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn parse<'a>(args: &[&'a str]) -> Result<Asked<'a>> {
    let mut asked = Asked { target: None, seconds: SECONDS_DEFAULT, keep: Keep::Nothing };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            "--seconds" => {
                let seconds = args.next().context("--seconds needs a number")?;
                asked.seconds = seconds.parse().context("--seconds needs a number")?;
            }
            "--keep" => asked.keep = Keep::Minimised,
            other if other.starts_with('-') => bail!("fuzz knows --seconds and --keep"),
            target => asked.target = Some(target),
        }
    }
    Ok(asked)
}

/// Builds the runner in a directory of its own: everything under it is compiled with `FLAGS`.
pub(crate) fn build(root: &Path) -> Result<PathBuf> {
    let host = host(root)?;
    let target_dir = run::target_dir(root)?.join("fuzz");
    let mut command =
        cargo(root, &["build", "--quiet", "--manifest-path", "fuzz/runner/Cargo.toml"]);
    // With a target the flags are kept away from build scripts and macros.
    command.args(["--target", &host, "--target-dir"]).arg(&target_dir);
    run::stream(command.env("RUSTFLAGS", FLAGS.join(" ")))?;
    Ok(target_dir.join(host).join("debug").join("hence-fuzz-runner"))
}

fn host(root: &Path) -> Result<String> {
    let output = Command::new("rustc").arg("-vV").current_dir(root).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.context("rustc does not say what machine this is")?.to_owned())
}

/// The names of the targets: each has a corpus, and a test sees to it.
fn targets(root: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join("fuzz/corpus")).context("reading the corpus")? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Runs one target; what it finds new goes to a directory under `target`, so does what fells it.
fn fuzz(root: &Path, runner: &Path, name: &str, seconds: u32, seed: Option<u32>) -> Result<()> {
    let found = found_dir(root, name)?;
    let log = found.with_extension("log");
    let mut command = Command::new(runner);
    command.env("HENCE_FUZZ_TARGET", name).current_dir(root).args(LIMITS);
    command.arg(format!("-max_total_time={seconds}"));
    command.args(seed.map(|seed| format!("-seed={seed}")));
    command.arg("-print_final_stats=1");
    command.arg(format!("-artifact_prefix={}/", found.with_extension("fells").display()));
    fs::create_dir_all(found.with_extension("fells"))?;
    command.arg(&found).arg(corpus_dir(root, name));
    let ended = run::within(&mut command, Duration::from_secs(u64::from(seconds) + 120), &log);
    let text = fs::read_to_string(&log).unwrap_or_default();
    ended.map_err(|error| match last_words(&text) {
        Some(words) => error.context(words),
        None => error,
    })?;
    let executed =
        text.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    println!("fuzz {name:14} ... ok, {} inputs in {seconds} s", executed.unwrap_or("?").trim());
    Ok(())
}

/// What a target said when it fell: its panic if there was one, or else what libFuzzer calls it.
fn last_words(log: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().collect();
    let panic = lines.iter().position(|line| line.contains("panicked at"));
    let summary = || lines.iter().position(|line| line.starts_with("SUMMARY: "));
    let (at, count) = panic.map(|at| (at, 2)).or_else(|| summary().map(|at| (at, 1)))?;
    Some(lines.iter().skip(at).take(count).copied().collect::<Vec<_>>().join(" "))
}

/// Takes into the corpus what reaches more than it does.
fn minimise(root: &Path, runner: &Path, name: &str) -> Result<()> {
    let mut command = Command::new(runner);
    command.env("HENCE_FUZZ_TARGET", name).current_dir(root).args(["-merge=1", "-max_len=4096"]);
    command.arg(corpus_dir(root, name)).arg(found_dir(root, name)?);
    run::within(&mut command, Duration::from_mins(5), &found_dir(root, name)?.with_extension("log"))
}

fn corpus_dir(root: &Path, name: &str) -> PathBuf {
    root.join("fuzz/corpus").join(name)
}

fn found_dir(root: &Path, name: &str) -> Result<PathBuf> {
    let dir = run::target_dir(root)?.join("fuzz").join("found").join(name);
    fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_a_target() {
        let panic = "#1 NEW\nthread 'x' panicked at src/lib.rs:55:5:\nrefused it\n==7== ERROR\n\
                     SUMMARY: libFuzzer: deadly signal\n";
        let rows = [
            (panic, Some("thread 'x' panicked at src/lib.rs:55:5: refused it")),
            ("#1 NEW\nSUMMARY: libFuzzer: timeout\n", Some("SUMMARY: libFuzzer: timeout")),
            ("#1 NEW\n", None),
        ];
        for (log, expected) in rows {
            assert_eq!(last_words(log).as_deref(), expected, "{log}");
        }
    }

    #[test]
    fn what_was_asked_for() {
        let asked = |target, seconds, keep| Asked { target, seconds, keep };
        assert_eq!(parse(&[]).unwrap(), asked(None, SECONDS_DEFAULT, Keep::Nothing));
        let all = ["log", "--seconds", "5", "--keep"];
        assert_eq!(parse(&all).unwrap(), asked(Some("log"), 5, Keep::Minimised));
        for bad in [&["--seconds"][..], &["--seconds", "x"], &["--fast"]] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
