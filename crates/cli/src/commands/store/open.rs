//! Stores, for people: open any of them; check and repair a directory.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::Arc;

use hence_core::time::Timestamp;
use hence_server::config::StoreChoice;
use hence_store::{ErrorKind, MemoryStore, Store, StoreError};
use hence_store_embedded::kv::disk::{Disk, RealDisk};
use hence_store_embedded::kv::{self, Error, GivenUp, RepairReport, Report};
use hence_store_embedded::{EmbeddedStore, Settings};
use serde_json::json;

use super::store_failure;
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::output::{Output, Tone};
use crate::words;

/// Opens the store that was named, or makes it.
pub(crate) async fn any(choice: &StoreChoice, output: &Output) -> Result<Arc<dyn Store>, Failure> {
    match choice {
        StoreChoice::Embedded(directory) => or_make(directory, output),
        StoreChoice::Memory => Ok(Arc::new(MemoryStore::new(1))),
        StoreChoice::Database(url) => {
            let opened = hence_store_sql::open(url.expose(), now()).await;
            opened.map_err(|error| database_failure(&error))
        }
    }
}

/// Opens a store that must be there: a mistyped name must not make a new one.
pub(super) async fn any_existing(
    choice: &StoreChoice,
    output: &Output,
) -> Result<Arc<dyn Store>, Failure> {
    match choice {
        StoreChoice::Embedded(directory) => existing(directory, output),
        StoreChoice::Memory => {
            Err(Failure::new(Exit::Usage, "memory: is empty whenever it is opened"))
        }
        StoreChoice::Database(url) => {
            let applied = hence_store_sql::status(url.expose()).await;
            if applied.map_err(|error| database_failure(&error))?.is_empty() {
                return Err(Failure::new(Exit::NotFound, format!("there is no store in {url}")));
            }
            any(choice, output).await
        }
    }
}

/// A database's error with the exit code and the advice that go with its kind.
pub(crate) fn database_failure(error: &StoreError) -> Failure {
    let message = error.to_string();
    match error.kind() {
        ErrorKind::Unavailable => Failure::new(Exit::Unavailable, message)
            .fix("look whether the database runs and can be reached from here"),
        ErrorKind::Unsupported => Failure::new(Exit::Usage, message),
        ErrorKind::Full => {
            Failure::new(Exit::Io, message).fix("free some space on the database's disk")
        }
        _ => store_failure(error, None),
    }
}

fn now() -> Timestamp {
    Timestamp::from_millis(clock::now_ms())
}

/// Opens the store in a directory that must hold one: a mistyped name must not make a new one.
pub(super) fn existing(dir: &Path, output: &Output) -> Result<Arc<dyn Store>, Failure> {
    must_exist(dir)?;
    or_make(dir, output)
}

/// Opens the store in the directory, or makes it.
pub(crate) fn or_make(dir: &Path, output: &Output) -> Result<Arc<dyn Store>, Failure> {
    if dir.exists() && !dir.is_dir() {
        let message = format!("{} is not a directory", dir.display());
        return Err(Failure::new(Exit::Io, message).fix("name a directory, or one to be made"));
    }
    let settings = Settings { created_at: now(), ..Settings::default() };
    let opened = EmbeddedStore::open(dir, &settings);
    let store = opened.map_err(|error| store_failure(&error, Some(dir)))?;
    if let Some(torn) = &store.opened().torn {
        let (file, bytes) = (torn.file.display(), words::size(torn.bytes));
        output.warn(format_args!(
            "{file} ended in {bytes} of an unfinished record; they are dropped"
        ));
    }
    Ok(Arc::new(store))
}

/// Reads everything and lists what is damaged.
pub(super) fn check(dir: &Path, output: &Output) -> Result<(), Failure> {
    must_exist(dir)?;
    let report = kv::check(dir, &RealDisk).map_err(|error| kv_failure(&error, dir))?;
    if output.is_json() {
        output.json(&check_json(&report))?;
    } else {
        check_lines(&report, output)?;
    }
    if report.findings.is_empty() {
        return Ok(());
    }
    let found = words::count(report.findings.len() as u64, "damaged place");
    Err(Failure::refused(format!("{found} in {}", dir.display()))
        .fix(format!("copy the directory, then run hence store repair {}", dir.display())))
}

fn check_json(report: &Report) -> serde_json::Value {
    let findings: Vec<_> = report
        .findings
        .iter()
        .map(
            |finding| json!({"file": finding.file, "offset": finding.offset, "what": finding.what}),
        )
        .collect();
    let torn = report.torn.as_ref();
    json!({
        "damaged": findings,
        "torn_tail": torn.map(|t| json!({"file": t.file, "offset": t.offset, "bytes": t.bytes})),
        "segments": report.segments,
        "frames": report.frames,
        "changes": report.operations,
        "tables": report.tables,
        "entries": report.entries,
    })
}

fn check_lines(report: &Report, output: &Output) -> Result<(), Failure> {
    for finding in &report.findings {
        let place = format!("{} at byte {}", finding.file.display(), finding.offset);
        output.line(format_args!(
            "{} {place}: {}",
            output.paint(Tone::Bad, "damaged"),
            finding.what
        ))?;
    }
    if let Some(torn) = &report.torn {
        output.line(format_args!(
            "{} {} at byte {}: {} of an unfinished record, as a crash leaves behind; the next \
             start drops them",
            output.paint(Tone::Warning, "torn"),
            torn.file.display(),
            torn.offset,
            words::size(torn.bytes),
        ))?;
    }
    output.line(format_args!(
        "{} {} in {} of the log, {} in {}",
        output.paint(Tone::Good, "sound"),
        words::count(report.operations, "change"),
        words::count(report.segments, "segment"),
        words::count(report.entries, "record"),
        words::count(report.tables, "table"),
    ))
}

/// Keeps what can be read, and says what it gave up.
pub(super) fn repair(dir: &Path, yes: bool, output: &Output) -> Result<(), Failure> {
    must_exist(dir)?;
    let question = format!(
        "keep what can be read in {}, and give up the rest? (copy the directory first)",
        dir.display()
    );
    if !yes && !output.confirm(&question)? {
        return Err(Failure::refused("nothing was done"));
    }
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let repaired = hence_store_embedded::repair(dir, &disk);
    let report = repaired.map_err(|error| store_failure(&error, Some(dir)))?;
    if output.is_json() {
        return output.json(&repair_json(&report));
    }
    repair_lines(&report, output)
}

fn repair_json(report: &RepairReport) -> serde_json::Value {
    let given_up = report.given_up.iter().map(|lost| {
        json!({
            "file": lost.file,
            "from": lost.from,
            "to": lost.to,
            "entries": lost.entries,
            "why": lost.why,
        })
    });
    json!({
        "given_up": given_up.collect::<Vec<_>>(),
        "set_aside": report.set_aside,
        "frames_kept": report.frames_kept,
        "entries_kept": report.entries_kept,
    })
}

fn repair_lines(report: &RepairReport, output: &Output) -> Result<(), Failure> {
    if report.given_up.is_empty() && report.set_aside.is_empty() {
        output.say("the store is sound; nothing was changed");
        return Ok(());
    }
    for lost in &report.given_up {
        output.line(format_args!(
            "{} {}",
            output.paint(Tone::Bad, "given up"),
            lost_words(lost)
        ))?;
    }
    for file in &report.set_aside {
        output.line(format_args!(
            "{} {}",
            output.paint(Tone::Warning, "set aside"),
            file.display()
        ))?;
    }
    output.line(format_args!(
        "{} {} of the log and {} of damaged tables",
        output.paint(Tone::Good, "kept"),
        words::count(report.frames_kept, "frame"),
        words::count(report.entries_kept, "record"),
    ))
}

fn lost_words(lost: &GivenUp) -> String {
    // Where no bytes are lost, there are none to be named.
    let place = match lost.to {
        to if to > lost.from => format!(" from byte {} to {to}", lost.from),
        _ => String::new(),
    };
    let mut words = format!("{}{place}: {}", lost.file.display(), lost.why);
    if let Some(entries) = lost.entries {
        // Writing to a string cannot fail, here and below.
        let _ = write!(words, " ({entries} records)");
    }
    if let Some(commits) = &lost.sequences {
        let _ = write!(words, " (commits {} to {})", commits.start(), commits.end());
    }
    words
}

/// A mistyped name must not get a store made in it, nor be called a damaged one.
fn must_exist(dir: &Path) -> Result<(), Failure> {
    let problem = |error| Failure::io(format_args!("looking into {}", dir.display()), &error);
    let none = || Failure::new(Exit::NotFound, format!("there is no store in {}", dir.display()));
    let files = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(none()),
        files => files.map_err(problem)?,
    };
    for file in files {
        let name = file.map_err(problem)?.file_name();
        if name.to_str().is_some_and(kv::is_store_file) {
            return Ok(());
        }
    }
    Err(none())
}

fn kv_failure(error: &Error, dir: &Path) -> Failure {
    let message = error.to_string();
    match error {
        Error::Locked { .. } => Failure::new(Exit::Unavailable, message)
            .fix("stop the process that uses the directory first"),
        Error::Corrupt { .. } => Failure::new(Exit::Io, message)
            .fix(format!("copy the directory, then run hence store repair {}", dir.display())),
        Error::Version { .. } => {
            Failure::new(Exit::Unavailable, message).fix("use the version that made the store")
        }
        Error::Full { .. } => Failure::new(Exit::Io, message).fix("free some space on the disk"),
        Error::TooLarge { .. } => Failure::new(Exit::Internal, message),
        Error::Fatal { .. } | Error::Io { .. } => Failure::new(Exit::Io, message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_up_is_said_without_empty_ranges() {
        let lost = |from, to, entries| GivenUp {
            file: "d/MANIFEST".into(),
            from,
            to,
            sequences: None,
            entries,
            why: "it is damaged".to_owned(),
        };
        let rows = [
            (lost(0, 0, None), "d/MANIFEST: it is damaged"),
            (lost(5, 9, None), "d/MANIFEST from byte 5 to 9: it is damaged"),
            (lost(5, 9, Some(2)), "d/MANIFEST from byte 5 to 9: it is damaged (2 records)"),
        ];
        for (lost, expected) in rows {
            assert_eq!(lost_words(&lost), expected);
        }
    }
}
