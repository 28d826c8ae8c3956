//! The scripts behind every number we publish.
//!
//! ```text
//! cargo build --release
//! cargo run --release -p hence-bench -- SCENARIO… | all [--json] [--quick]
//! ```
//!
//! Machines differ and are noisy, so an absolute figure says little: each scenario measures a
//! peer or a raw limit in the same run and prints the ratio; lateness stands beside a control run
//! of the machine's own scheduling noise. The server is the real binary (`HENCE_BIN`, or the one
//! built beside this program), durable, on the disk of the working directory, and the load comes
//! from the same machine.

mod bare_client;
mod beanstalk;
mod disque;
mod echo;
mod http_load;
mod jobs;
mod machine;
mod peers;
mod raw_log;
mod raw_mysql;
mod raw_postgres;
mod report;
mod scenarios;
mod server;
mod sink;

use std::process::ExitCode;

use anyhow::{Result, bail};
// The allocator of the binary: a program that embeds the library and wants its speed takes one
// that is made for threads, too.
use hence_alloc as _;

use report::Report;
use scenarios::SCENARIOS;

const HELP: &str = "\
Measures, beside a peer or a raw limit of the same machine.

Usage: hence-bench SCENARIO… | all [--json] [--quick]

Options:
  --json      one JSON object a line, for programs
  --quick     a tenth of everything, to see that it works
  -h, --help  this text

Scenarios, which are listed without arguments too:";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // On one line, with its causes: where it came from is for whoever debugs this program.
            report::complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    match args.first().map(String::as_str) {
        Some(echo::COMMAND) => return echo::serve(),
        Some(bare_client::COMMAND) => return bare_client::send(),
        _ => {}
    }
    if args.iter().any(|arg| matches!(arg.as_str(), "--help" | "-h")) {
        Report::help(HELP, scenarios());
        return Ok(());
    }
    let (flags, names): (Vec<&str>, Vec<&str>) =
        args.iter().map(String::as_str).partition(|arg| arg.starts_with('-'));
    if let Some(unknown) = flags.iter().find(|flag| !matches!(**flag, "--json" | "--quick")) {
        bail!("there is no {unknown}; there are --json, --quick and --help");
    }
    let quick = flags.contains(&"--quick");
    let mut report = Report::new(flags.contains(&"--json"));
    if names.is_empty() {
        Report::list(scenarios());
        return Ok(());
    }
    for name in &names {
        if *name != "all" && !SCENARIOS.iter().any(|scenario| scenario.name == *name) {
            bail!("there is no scenario {name}; without arguments they are listed");
        }
    }
    for scenario in SCENARIOS {
        if names.contains(&"all") || names.contains(&scenario.name) {
            report.begin(scenario.name, scenario.what);
            (scenario.run)(&mut report, if quick { Scale::Quick } else { Scale::Full })?;
        }
    }
    Ok(())
}

/// The names of all, and what each measures.
fn scenarios() -> impl Iterator<Item = (&'static str, &'static str)> {
    SCENARIOS.iter().map(|scenario| (scenario.name, scenario.what))
}

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scale {
    /// A tenth: to see that it works.
    Quick,
    /// What is published.
    Full,
}

impl Scale {
    /// This many, or a tenth.
    pub(crate) fn of(self, count: usize) -> usize {
        match self {
            Scale::Quick => count / 10,
            Scale::Full => count,
        }
    }

    /// How long a rate is measured.
    pub(crate) fn span(self) -> std::time::Duration {
        match self {
            Scale::Quick => std::time::Duration::from_millis(700),
            Scale::Full => std::time::Duration::from_secs(4),
        }
    }
}
