//! `hence store`: a store, with no server on it: check, repair, export, import, migrate, move.

mod export;
mod import;
mod job_record;
mod migrate;
mod moving;
mod open;
mod record;
#[cfg(test)]
mod tests;

pub(crate) use self::open::{any as open_any, database_failure};

use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use hence_core::time::Timestamp;
use hence_server::config::StoreChoice;
use hence_store::{ErrorKind, StoreError};
use serde_json::json;

use crate::clock;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::words;

pub(crate) const EXAMPLES: &str = "\
Examples:
  hence store check ./data                         reads everything, changes nothing
  hence store repair ./data                        keeps what can be read, says what it gave up
  hence store export ./data --to backup.jsonl      everything, as lines of JSON
  hence store import ./new --from backup.jsonl
  hence store migrate postgres://hence@db/hence --dry-run
  hence store move --from ./hence-data --to postgres://hence@db/hence

STORE is a directory, postgres://ROLE@HOST/DATABASE or mysql://USER@HOST/DATABASE. No server must
run on it meanwhile; to move without a pause, start the server with --move-to. An export holds
payloads and headers as they are: keep it as you keep the store.";

#[derive(Debug, Args)]
pub(crate) struct StoreCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Verify every checksum; change nothing
    Check {
        /// The data directory
        dir: PathBuf,
    },
    /// Keep what can be read, set damaged files aside, and say what was given up
    Repair {
        /// The data directory
        dir: PathBuf,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Write jobs, schedules with their ledgers, and queues as lines of JSON
    Export {
        /// The store: a directory, or the address of a database
        #[arg(value_parser = StoreChoice::parse_or_directory)]
        store: StoreChoice,
        /// The file to write; it must not exist [default: stdout]
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Read what export wrote into a new store
    Import {
        /// The store: a directory, or the address of a database
        #[arg(value_parser = StoreChoice::parse_or_directory)]
        store: StoreChoice,
        /// The file to read [default: stdin]
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
        /// Add to a store that is not empty; what exists under a name stays, and so do the totals
        /// of a queue that has some
        #[arg(long)]
        merge: bool,
    },
    /// Bring the tables of a database to the version of this program, or to another
    Migrate(migrate::Migrate),
    /// Copy everything from one store into another, compare, and let the old one go
    Move(moving::Move),
}

pub(crate) async fn run(command: StoreCommand, output: &Output) -> Result<(), Failure> {
    match command.verb {
        Verb::Check { dir } => open::check(&dir, output),
        Verb::Repair { dir, yes } => open::repair(&dir, yes, output),
        Verb::Export { store, to } => run_export(&store, to.as_deref(), output).await,
        Verb::Import { store, from, merge } => {
            let into = if merge { import::Into::Existing } else { import::Into::Empty };
            run_import(&store, from.as_deref(), into, output).await
        }
        Verb::Migrate(migrate) => migrate::run(migrate, output).await,
        Verb::Move(moving) => moving::run(moving, output).await,
    }
}

async fn run_export(
    store: &StoreChoice,
    to: Option<&Path>,
    output: &Output,
) -> Result<(), Failure> {
    let store = open::any_existing(store, output).await?;
    let bar = output.progress(None, "exporting");
    let now = Timestamp::from_millis(clock::now_ms());
    let count = |jobs| bar.set_position(jobs);
    let tally = match to {
        None => {
            let mut out = BufWriter::new(output.data_writer());
            export::export(&*store, now, &mut out, &count).await?
        }
        Some(file) => {
            let problem = |error| Failure::io(format_args!("writing {}", file.display()), &error);
            // Never over something, and readable by nobody else: payloads are in it.
            let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
            let opened = opened.map_err(problem)?;
            let mut out = BufWriter::new(&opened);
            let tally = export::export(&*store, now, &mut out, &count).await?;
            drop(out);
            opened.sync_all().map_err(problem)?;
            tally
        }
    };
    bar.finish_and_clear();
    output.say(format_args!("exported {}", tally_words(&tally)));
    Ok(())
}

async fn run_import(
    store: &StoreChoice,
    from: Option<&Path>,
    into: import::Into,
    output: &Output,
) -> Result<(), Failure> {
    let (mut lines, bytes) = read_from(from)?;
    let store = open::any(store, output).await?;
    let bar = output.progress(bytes, "importing");
    let now = Timestamp::from_millis(clock::now_ms());
    let advance = |bytes| bar.inc(bytes);
    let imported = import::import(&*store, into, now, &mut *lines, &advance).await?;
    bar.finish_and_clear();
    let import::Imported { added, kept } = imported;
    if output.is_json() {
        let record::Tally { jobs, schedules, occurrences, queues } = added;
        let report = json!({
            "jobs": jobs, "schedules": schedules, "occurrences": occurrences, "queues": queues,
            "kept": kept,
        });
        return output.json(&report);
    }
    output.say(format_args!("imported {}", tally_words(&added)));
    if kept > 0 {
        output.say(format_args!("{kept} existed already and stayed as they were"));
    }
    Ok(())
}

fn read_from(from: Option<&Path>) -> Result<(Box<dyn std::io::BufRead>, Option<u64>), Failure> {
    let Some(file) = from else { return Ok((Box::new(BufReader::new(std::io::stdin())), None)) };
    let problem = |error| Failure::io(format_args!("opening {}", file.display()), &error);
    let opened = File::open(file).map_err(problem)?;
    let bytes = opened.metadata().map_err(problem)?.len();
    Ok((Box::new(BufReader::new(opened)), Some(bytes)))
}

fn tally_words(tally: &record::Tally) -> String {
    let jobs = words::count(tally.jobs, "job");
    let schedules = words::count(tally.schedules, "schedule");
    format!("{jobs}, {schedules}, {}", words::count(tally.queues, "queue"))
}

/// A store's error with the exit code and the advice that go with its kind.
pub(crate) fn store_failure(error: &StoreError, directory: Option<&Path>) -> Failure {
    let message = error.to_string();
    let directory = directory.map_or_else(|| "DIR".to_owned(), |path| path.display().to_string());
    match error.kind() {
        ErrorKind::Locked => Failure::new(Exit::Unavailable, message)
            .fix("stop the process that uses the directory, or use another directory"),
        ErrorKind::Unavailable | ErrorKind::Fenced => Failure::new(Exit::Unavailable, message),
        ErrorKind::Corrupt => Failure::new(Exit::Io, message)
            .fix(format!("copy the directory, then run hence store check {directory}")),
        ErrorKind::Version => Failure::new(Exit::Unavailable, message).fix(
            "use the version that made the store, or export with that one and import with this one",
        ),
        ErrorKind::Full => Failure::new(Exit::Io, message).fix("free some space on the disk"),
        ErrorKind::Fatal => Failure::new(Exit::Io, message)
            .fix("look at the disk (dmesg, smartctl) before starting again"),
        ErrorKind::Unsupported => Failure::new(Exit::Internal, message),
    }
}
