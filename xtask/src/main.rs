//! The project's own commands: `cargo xtask test`, `tidy`, `docs`, `fuzz`, `replay-blocks`.
#![expect(clippy::print_stdout, reason = "a build tool talks to the person at the terminal")]

mod agree;
mod docs;
mod fuzz;
mod mutants;
mod record;
mod report;
mod run;
mod test;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
The project's own commands.

Usage: cargo xtask <COMMAND>

Commands:
  test [--only STEP]... [--install]   Run everything that must pass; --install gets optional tools
  test --list                         Name the steps and what each does
  tidy                                Check what rustfmt and clippy do not look at
  tidy --ratchet                      Lower the entries of xtask/ratchet.txt to what is there now
  tidy --rules                        Name the rules
  fuzz [TARGET] [--seconds N]         Fuzz whatever reads bytes of strangers; a minute each
  fuzz [TARGET] --keep                The same, and keep in the corpus what reached more
  replay-blocks [STATES]              Cut the power of a recorded disk, 2000 times if not said
  docs                                Write the generated documents under docs/reference
  docs --check                        Compare them with what the code says
  mutants [NAME]...                   Make deliberate faults and see that the suites notice
  mutants --list                      Name the faults
";

fn main() -> ExitCode {
    match dispatch(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs a command; false when what it checked is not as it should be.
fn dispatch(args: &[String]) -> Result<bool> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let root = root()?;
    match args.as_slice() {
        ["test", rest @ ..] => test::command(&root, rest),
        ["fuzz", rest @ ..] => fuzz::command(&root, rest),
        ["replay-blocks"] => test::replay_blocks(&root, "2000"),
        ["replay-blocks", states] => test::replay_blocks(&root, states),
        ["tidy"] => run_tidy(&root),
        ["tidy", "--ratchet"] => tidy::tighten(&root).map(|()| true),
        ["tidy", "--rules"] => {
            for (name, sentence) in tidy::RULES {
                println!("{name:16} {sentence}");
            }
            Ok(true)
        }
        ["docs"] => docs::command(&root, docs::Mode::Write),
        ["docs", "--check"] => docs::command(&root, docs::Mode::Check),
        ["mutants", rest @ ..] => mutants::command(&root, rest),
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(true)
        }
        _ => bail!("no such command: {}\n\n{USAGE}", args.join(" ")),
    }
}

/// The root of the repository: this package's directory is just below it.
fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here.parent().context("xtask has no parent directory")?.to_path_buf())
}

fn run_tidy(root: &Path) -> Result<bool> {
    let findings = tidy::check(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} findings", findings.len());
    Ok(findings.is_empty())
}
