//! `hence-sim`: simulates, and judges recorded histories.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use hence_sim::{check, history};

#[derive(Parser)]
#[command(name = "hence-sim", about = "Shows that Hence keeps its promises, or where it does not.")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Judge a recorded history
    Check {
        /// One event a line, as JSON
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            tell(&format!("hence-sim: {error:#}"));
            ExitCode::from(2)
        }
    }
}

fn run(args: Args) -> Result<bool> {
    match args.command {
        Command::Check { file } => check_file(&file),
    }
}

fn check_file(path: &Path) -> Result<bool> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let events = history::read(BufReader::new(file))?;
    let findings = check::judge(&events);
    for finding in &findings {
        tell(&finding.to_string());
    }
    let (events, found) = (events.len(), findings.len());
    tell(&format!("{events} events, {} properties, {found} findings", check::PROPERTIES.len()));
    Ok(findings.is_empty())
}

#[expect(clippy::print_stdout, reason = "the one place that talks to the person at the terminal")]
fn tell(line: &str) {
    println!("{line}");
}
