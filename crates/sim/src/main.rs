//! `hence-sim`: lives through simulated worlds, and judges recorded histories.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::{Parser, Subcommand};
use hence::clock::Stopwatch;
use hence_sim::history::Event;
use hence_sim::seeds::{self, Summary, Until};
use hence_sim::world::{Fault, Options, Size, StoryLine};
use hence_sim::{check, crashes, damage, history, world};
use indicatif::{ProgressBar, ProgressStyle};

/// Crash states that a full run looks at, at least.
const STATES_MIN: u64 = 200_000;

#[derive(Parser)]
#[command(name = "hence-sim", about = "Shows that Hence keeps its promises, or where it does not.")]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Live through this world and tell its story
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Live through so many worlds, from --seed on, and tell which fail
    #[arg(long, conflicts_with_all = ["only", "steps"])]
    seeds: Option<u64>,
    /// Worlds of an hour and some five thousand jobs
    #[arg(long)]
    large: bool,
    /// Tell only what has to do with the job of this name, and what befell the node
    #[arg(long, value_name = "QUEUE/KEY/ID", conflicts_with = "seeds")]
    about: Option<String>,
    /// Stop at the first of --seeds that fails
    #[arg(long, requires = "seeds")]
    until_failure: bool,
    /// Of the faults that the seed draws, let only these happen
    #[arg(long, value_delimiter = ',', value_parser = fault, value_name = "FAULTS")]
    only: Option<Vec<Fault>>,
    /// Heal everything after so many steps of the node
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Write the history to this file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Tell only how it ended
    #[arg(long)]
    quiet: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Judge a recorded history
    Check {
        /// One event a line, as JSON
        file: PathBuf,
    },
    /// Name the faults that --only knows
    Faults,
    /// Crash the embedded engine at every point, and damage every bit of it
    Crashes {
        /// Operations in the longest workload
        #[arg(long, default_value_t = 4)]
        operations: usize,
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
    match (&args.command, args.seeds) {
        (Some(Command::Check { file }), _) => check_file(file),
        (Some(Command::Faults), _) => {
            for fault in Fault::ALL {
                tell(fault.as_str());
            }
            Ok(true)
        }
        (Some(Command::Crashes { operations }), _) => crash_and_damage(*operations),
        (None, Some(count)) => {
            let until = if args.until_failure { Until::Failure } else { Until::TheEnd };
            Ok(run_seeds(args.seed, count, args.size(), until))
        }
        (None, None) => tell_story(&args),
    }
}

impl Args {
    fn size(&self) -> Size {
        if self.large { Size::Large } else { Size::Usual }
    }
}

fn fault(name: &str) -> Result<Fault> {
    let found = Fault::ALL.into_iter().find(|fault| fault.as_str() == name);
    found.ok_or_else(|| anyhow!("no fault is called {name}; `hence-sim faults` names them"))
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

fn crash_and_damage(operations: usize) -> Result<bool> {
    let bar = bar(1_000, "{bar:40} {pos} workloads and files, {elapsed}");
    let crashed = crashes::run(operations, &|| bar.inc(1))?;
    let damaged = damage::run(1, &|| bar.inc(1))?;
    bar.finish_and_clear();
    let crashes::Counted { workloads, states } = crashed;
    tell(&format!("{workloads} workloads, {states} states after a crash, none wrong"));
    let damage::Counted { flips, cuts, refused } = damaged;
    tell(&format!("{flips} flipped bits, {cuts} cut files: {refused} refused, none wrong"));
    // Fewer would mean that the workloads have become too easy.
    if operations >= 4 && states < STATES_MIN {
        return Err(anyhow!("only {states} states; at least {STATES_MIN} are wanted"));
    }
    Ok(true)
}

fn tell_story(args: &Args) -> Result<bool> {
    let (seed, only, steps) = (args.seed, args.only.clone(), args.steps);
    let options = Options { seed, size: args.size(), only, steps };
    let watch = Stopwatch::start();
    let (run, reasons) = seeds::run_one(&options);
    let took = watch.elapsed();
    if let Some(run) = &run {
        if !args.quiet {
            let told: Vec<&Event> = match &args.about {
                Some(name) => world::about(&run.events, name),
                None => run.events.iter().collect(),
            };
            for event in told {
                tell(&StoryLine(event).to_string());
            }
        }
        if let Some(path) = &args.record {
            let file = File::create(path).with_context(|| format!("making {}", path.display()))?;
            history::write(&run.events, file)?;
        }
        let fired = run.faults.iter().map(|(fault, fired)| format!("{} {fired}", fault.as_str()));
        tell(&format!("faults: {}", fired.collect::<Vec<_>>().join(", ")));
        let (events, steps, done) = (run.events.len(), run.steps, run.done());
        tell(&format!("{events} events, {steps} steps, {done} deliveries done"));
        tell(&speed(run.simulated_ms, took));
    }
    for reason in &reasons {
        tell(&format!("WRONG: {reason}"));
    }
    Ok(reasons.is_empty())
}

fn run_seeds(first: u64, count: u64, size: Size, until: Until) -> bool {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let bar = bar(count, "{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left");
    let watch = Stopwatch::start();
    let summary = seeds::run_many(first..first + count, size, threads, until, &|| bar.inc(1));
    bar.finish_and_clear();
    tell_summary(&summary, size, watch.elapsed());
    summary.failed.is_empty()
}

fn tell_summary(summary: &Summary, size: Size, took: Duration) {
    for (seed, reasons) in &summary.failed {
        let large = if size == Size::Large { " --large" } else { "" };
        tell(&format!("seed {seed} FAILED: cargo run -p hence-sim -- --seed {seed}{large}"));
        reasons.iter().take(5).for_each(|reason| tell(&format!("  {reason}")));
    }
    let fired = summary.faults.iter().map(|(fault, fired)| format!("{} {fired}", fault.as_str()));
    tell(&format!("faults: {}", fired.collect::<Vec<_>>().join(", ")));
    let Summary { seeds, events, steps, done, .. } = summary;
    tell(&format!("{events} events, {steps} steps, {done} deliveries done"));
    tell(&speed(summary.simulated_ms, took));
    tell(&format!("{seeds} seeds, {} failed", summary.failed.len()));
}

fn speed(simulated_ms: u64, took: Duration) -> String {
    let simulated = simulated_ms as f64 / 1_000.0;
    let took = took.as_secs_f64();
    format!("{simulated:.0} s simulated in {took:.2} s: {:.0} times real time", simulated / took)
}

fn bar(length: u64, style: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(style);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style)
}

#[expect(clippy::print_stdout, reason = "the one place that talks to the person at the terminal")]
fn tell(line: &str) {
    println!("{line}");
}
