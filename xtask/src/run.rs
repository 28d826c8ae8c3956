//! Child processes: streamed, counted, or ended when they take too long.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::report::Tests;

/// How often a process with a deadline is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Lines of a failed program's log that are shown: a panic with its trace, and some before it.
const LOG_LINES_SHOWN: usize = 100;

/// `cargo` with these arguments, in the root. The cargo that runs us is the one that is used.
pub(crate) fn cargo(root: &Path, args: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).current_dir(root);
    command
}

/// Whether this program answers at all.
pub(crate) fn answers(program: &str, args: &[&str]) -> bool {
    let quiet =
        Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

/// Runs a command and shows what it says; fails when it does.
pub(crate) fn stream(command: &mut Command) -> Result<()> {
    let shown = show(command);
    println!("$ {shown}");
    let status = command.status().with_context(|| format!("starting {shown}"))?;
    ensure!(status.success(), "{shown}: {status}");
    Ok(())
}

/// Runs a command that runs tests, shows what it says, and counts the tests. A failed command is
/// not an error here: what it said before that is needed all the same.
pub(crate) fn stream_tests(command: &mut Command) -> Result<(bool, Tests)> {
    let shown = show(command);
    println!("$ {shown}");
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("starting {shown}"))?;
    let stdout = child.stdout.take().context("the child's output was not piped")?;
    let mut tests = Tests::default();
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.with_context(|| format!("reading from {shown}"))?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        tests.read(&line);
    }
    let status = child.wait().with_context(|| format!("waiting for {shown}"))?;
    Ok((status.success(), tests))
}

/// Runs a program to its end or to the deadline; the end of its output is shown on failure.
pub(crate) fn within(command: &mut Command, deadline: Duration, log: &Path) -> Result<()> {
    match status_within(command, deadline, log)? {
        Some(status) if status.success() => Ok(()),
        ended => {
            println!("{}", tail(&fs::read_to_string(log).unwrap_or_default()));
            println!("the whole of it is in {}", log.display());
            match ended {
                Some(status) => bail!("{status}"),
                None => bail!("still running after {} s", deadline.as_secs()),
            }
        }
    }
}

/// The last lines of a log: a fuzzer has said thousands before the one that matters.
fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
}

/// The same, without a word about how it ended; none: it did not in time.
pub(crate) fn status_within(
    command: &mut Command,
    deadline: Duration,
    log: &Path,
) -> Result<Option<ExitStatus>> {
    if let Some(dir) = log.parent() {
        fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    }
    let out = File::create(log).with_context(|| format!("creating {}", log.display()))?;
    let err = out.try_clone().context("sharing the log file")?;
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .with_context(|| format!("starting {}", show(command)))?;
    loop {
        if let Some(status) = child.try_wait().context("waiting")? {
            return Ok(Some(status));
        }
        if started.elapsed() > deadline {
            child.kill().context("ending it")?;
            child.wait().context("waiting for its end")?;
            return Ok(None);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Builds the `hence` binary as the tests build it (dev profile, the whole workspace, so that
/// nothing is compiled twice) and says where it is.
pub(crate) fn hence_binary(root: &Path) -> Result<PathBuf> {
    stream(&mut cargo(root, &["build", "--workspace", "--bin", "hence"]))?;
    let binary = target_dir(root)?.join("debug").join("hence");
    ensure!(binary.exists(), "{} was not built", binary.display());
    Ok(binary)
}

/// Builds the binary whose fail points fire. It is built under the same name as the normal one,
/// so it comes first and is set aside.
pub(crate) fn failing_binary(root: &Path) -> Result<PathBuf> {
    let features = ["--features", "hence-cli/fail-points"];
    stream(cargo(root, &["build", "--workspace", "--bin", "hence"]).args(features))?;
    let debug = target_dir(root)?.join("debug");
    let (built, failing) = (debug.join("hence"), debug.join("hence-with-fail-points"));
    fs::copy(&built, &failing).with_context(|| format!("copying {}", built.display()))?;
    Ok(failing)
}

/// Where cargo puts what it builds.
pub(crate) fn target_dir(root: &Path) -> Result<PathBuf> {
    let output = cargo(root, &["metadata", "--no-deps", "--format-version", "1"])
        .stderr(Stdio::inherit())
        .output()
        .context("running cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, rest) = text
        .split_once("\"target_directory\":\"")
        .context("cargo metadata names no target directory")?;
    let dir = rest.split('"').next().unwrap_or_default();
    Ok(PathBuf::from(dir))
}

/// The command as one would type it.
fn show(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or_default();
    let mut words = vec![name.to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}
