//! What ran, how it ended, and what was left out: the end of `cargo xtask test`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// Lines of what a failed test said that the summary repeats: the panic or error and its place.
/// Whoever sees only the end of a long output learns from it what went wrong.
const REASON_LINES: usize = 6;
/// Characters of each of them.
const REASON_CHARS: usize = 300;

/// What the tests of a command came to.
#[derive(Default, Debug, PartialEq)]
pub(crate) struct Tests {
    /// Tests that passed.
    pub(crate) passed: u64,
    /// The names of those that failed.
    pub(crate) failed: Vec<String>,
    /// The names of those that were not run, with the reason when the test gives one.
    pub(crate) skipped: Vec<String>,
    /// How what each failed test said begins.
    reasons: BTreeMap<String, Vec<String>>,
    /// Whose words the next lines are.
    speaks: Option<String>,
    failed_count: u64,
    pub(crate) skipped_count: u64,
}

/// How a step ended.
#[derive(Debug, PartialEq)]
pub(crate) enum Ended {
    /// As it should.
    Passed,
    /// Not as it should, and in what way.
    Failed(String),
    /// It was not run, for this reason.
    Skipped(String),
}

/// A step that was to be run.
#[derive(Debug)]
pub(crate) struct Step {
    /// Its name.
    pub(crate) name: &'static str,
    /// How it ended.
    pub(crate) ended: Ended,
    /// How long it took.
    pub(crate) took: Duration,
    /// The tests it ran.
    pub(crate) tests: Tests,
}

impl Tests {
    /// Takes in one line of a test runner's output.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix("----")) {
            self.speaks = Some(name.trim_end().trim_end_matches(" stdout").to_owned());
        } else if line == "failures:" {
            self.speaks = None;
        } else if let Some(result) = line.strip_prefix("test result: ") {
            self.speaks = None;
            self.passed += count(result, " passed");
            self.failed_count += count(result, " failed");
            self.skipped_count += count(result, " ignored");
        } else if let Some((name, ended)) =
            line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... "))
        {
            if ended.starts_with("FAILED") {
                self.failed.push(name.trim_end().to_owned());
            } else if let Some(reason) = ended.strip_prefix("ignored") {
                self.skipped.push(format!("{name}{}", reason.replacen(", ", ": ", 1)));
            }
        } else if let Some(name) = &self.speaks
            && !line.trim().is_empty()
        {
            let said = self.reasons.entry(name.clone()).or_default();
            if said.len() < REASON_LINES {
                said.push(line.chars().take(REASON_CHARS).collect());
            }
        }
    }

    /// The name of a failed test, and below it what it said.
    fn explained(&self, name: &str) -> String {
        let said = self.reasons.get(name).into_iter().flatten();
        said.fold(name.to_owned(), |text, line| format!("{text}\n    {line}"))
    }

    /// Why a run of tests that did not end well did not, in a line.
    pub(crate) fn why(&self) -> String {
        match self.failed.as_slice() {
            [] => "a test could not run".to_owned(),
            names => names.join(", "),
        }
    }

    /// Something beside the tests that was left out.
    pub(crate) fn skip(&mut self, what: String) {
        self.skipped.push(what);
        self.skipped_count += 1;
    }
}

/// The number before a word: 3 in `3 passed; 0 failed`.
fn count(result: &str, word: &str) -> u64 {
    let before = result.split(word).next().unwrap_or_default();
    let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    if result.contains(word) { digits.parse().unwrap_or(0) } else { 0 }
}

/// Whether every step ended as it should, or was left out.
pub(crate) fn all_well(steps: &[Step]) -> bool {
    steps.iter().all(|step| !matches!(step.ended, Ended::Failed(_)))
}

/// The table of steps, what was skipped and what failed by name, and the line of sums.
///
/// The sums count tests. A step that failed without a failed test (a lint, a build) counts as one
/// failure, a step that was left out as one skipped: the last line never says less than the table.
pub(crate) fn summary(steps: &[Step]) -> String {
    let mut text = String::from("\nstep       result   seconds\n");
    for step in steps {
        let (result, why) = match &step.ended {
            Ended::Passed => ("passed", String::new()),
            Ended::Failed(why) => ("failed", format!("  {why}")),
            Ended::Skipped(why) => ("skipped", format!("  {why}")),
        };
        let seconds = step.took.as_secs_f64();
        let _ = writeln!(text, "{:10} {result:8} {seconds:7.1}{why}", step.name);
    }
    list(&mut text, "skipped:", &steps.iter().flat_map(skipped).collect::<Vec<_>>());
    list(&mut text, "failed:", &steps.iter().flat_map(failed).collect::<Vec<_>>());
    let passed: u64 = steps.iter().map(|step| step.tests.passed).sum();
    let failed: u64 = steps.iter().map(failures).sum();
    let skipped: u64 = steps.iter().map(skips).sum();
    let _ = writeln!(text, "\n{passed} passed, {failed} failed, {skipped} skipped");
    text
}

fn skipped(step: &Step) -> Vec<String> {
    let whole = match &step.ended {
        Ended::Skipped(why) => Some(format!("{}: {why}", step.name)),
        Ended::Passed | Ended::Failed(_) => None,
    };
    whole.into_iter().chain(step.tests.skipped.iter().cloned()).collect()
}

fn failed(step: &Step) -> Vec<String> {
    match &step.ended {
        Ended::Failed(why) if step.tests.failed.is_empty() => vec![format!("{}: {why}", step.name)],
        _ => step.tests.failed.iter().map(|name| step.tests.explained(name)).collect(),
    }
}

fn failures(step: &Step) -> u64 {
    let whole = matches!(step.ended, Ended::Failed(_));
    step.tests.failed_count.max(u64::from(whole))
}

fn skips(step: &Step) -> u64 {
    step.tests.skipped_count + u64::from(matches!(step.ended, Ended::Skipped(_)))
}

fn list(text: &mut String, title: &str, names: &[String]) {
    if names.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}");
    for name in names {
        let _ = writeln!(text, "  {name}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Tests {
        let mut tests = Tests::default();
        for line in lines {
            tests.read(line);
        }
        tests
    }

    fn step(name: &'static str, ended: Ended, tests: Tests) -> Step {
        Step { name, ended, took: Duration::from_millis(1_500), tests }
    }

    #[test]
    fn tests_are_counted_over_all_binaries() {
        let tests = read(&[
            "running 3 tests",
            "test a::b ... ok",
            "test a::c ... FAILED",
            "test a::d ... ignored, needs a server",
            "test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured",
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured",
        ]);
        assert_eq!((tests.passed, tests.failed_count, tests.skipped_count), (13, 1, 1));
        assert_eq!(tests.failed, ["a::c"]);
        assert_eq!(tests.skipped, ["a::d: needs a server"]);
        assert_eq!(
            (tests.why().as_str(), read(&[]).why().as_str()),
            ("a::c", "a test could not run")
        );
    }

    #[test]
    fn the_last_line_is_the_sum() {
        let tests = read(&[
            "test x ... ignored",
            "test result: ok. 7 passed; 0 failed; 1 ignored; 0 measured",
        ]);
        let steps = [
            step("test", Ended::Passed, tests),
            step("deny", Ended::Skipped("not installed".into()), Tests::default()),
        ];
        let text = summary(&steps);
        assert_eq!(text.lines().last(), Some("7 passed, 0 failed, 2 skipped"));
        assert!(text.contains("deny       skipped      1.5  not installed"), "{text}");
        assert!(text.contains("\nskipped:\n  x\n  deny: not installed\n"), "{text}");
        assert!(all_well(&steps));
    }

    #[test]
    fn what_a_failed_test_said_is_repeated() {
        let tests = read(&[
            "test a::c ... FAILED",
            "test long_name  ... FAILED",
            "failures:",
            "---- a::c stdout ----",
            "",
            "thread 'a::c' panicked at src/a.rs:1:1:",
            "assertion failed",
            "---- long_name ----",
            "1",
            "2",
            "3",
            "4",
            "5",
            "6",
            "7",
            "failures:",
            "    a::c",
            "test result: FAILED. 0 passed; 2 failed; 0 ignored; 0 measured",
            "a line of another program",
        ]);
        let text = summary(&[step("test", Ended::Failed(tests.why()), tests)]);
        let expected = "\nfailed:\n  a::c\n    thread 'a::c' panicked at src/a.rs:1:1:\n    \
                        assertion failed\n  long_name\n    1\n    2\n    3\n    4\n    5\n    6\n\n\
                        0 passed, 2 failed";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn a_failed_lint_is_a_failure_in_the_sum() {
        let steps = [step("fmt", Ended::Failed("not formatted".into()), Tests::default())];
        let text = summary(&steps);
        assert_eq!(text.lines().last(), Some("0 passed, 1 failed, 0 skipped"));
        assert!(text.contains("\nfailed:\n  fmt: not formatted\n"), "{text}");
        assert!(!all_well(&steps));
    }
}
