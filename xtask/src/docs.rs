//! `cargo xtask docs`: the documents that are made from the code, by the binary itself.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result};

use crate::{record, run};

/// What `hence docs TOPIC` prints, and where it is kept.
const DOCUMENTS: [(&str, &str); 4] = [
    ("openapi", "docs/reference/openapi.json"),
    ("cli", "docs/reference/cli.md"),
    ("config", "docs/reference/config.md"),
    ("metrics", "docs/reference/metrics.md"),
];

/// How the command line says that it does not know a command.
const EXIT_USAGE: i32 = 2;

/// Whether to write or to compare.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Mode {
    /// Write what the code says.
    Write,
    /// Compare what is kept with what the code says.
    Check,
}

/// A document and what was found.
pub(crate) struct Document {
    /// Where it is kept.
    pub(crate) path: &'static str,
    /// What was found.
    pub(crate) state: State,
}

/// What was found about a document.
#[derive(Debug, PartialEq)]
pub(crate) enum State {
    /// It is what the code says.
    Same,
    /// It was written.
    Written,
    /// Neither the command nor the document exists yet.
    Missing(String),
    /// It is not what the code says.
    Stale(String),
}

/// Writes or compares, and says what came of each; false when one is stale.
pub(crate) fn command(root: &Path, mode: Mode) -> Result<bool> {
    let documents = run(root, mode)?;
    for Document { path, state } in &documents {
        match state {
            State::Same => println!("{path}: up to date"),
            State::Written => println!("{path}: written"),
            State::Missing(why) => println!("{path}: skipped: {why}"),
            State::Stale(why) => println!("{path}: stale: {why}"),
        }
    }
    Ok(documents.iter().all(|document| !matches!(document.state, State::Stale(_))))
}

/// Writes or compares every document.
pub(crate) fn run(root: &Path, mode: Mode) -> Result<Vec<Document>> {
    let binary = run::hence_binary(root)?;
    let mut documents = Vec::new();
    for (topic, path) in DOCUMENTS {
        let output = Command::new(&binary)
            .args(["docs", topic])
            .current_dir(root)
            .output()
            .with_context(|| format!("running hence docs {topic}"))?;
        let kept = fs::read_to_string(root.join(path)).ok();
        let state = judge(topic, &output, kept.as_deref(), mode);
        if state == State::Written {
            fs::write(root.join(path), &output.stdout)
                .with_context(|| format!("writing {path}"))?;
        }
        documents.push(Document { path, state });
    }
    documents.push(track_record(root, mode)?);
    Ok(documents)
}

/// The one document that is made from data, not by the binary.
fn track_record(root: &Path, mode: Mode) -> Result<Document> {
    let (path, page) = (record::PAGE, record::page(root)?);
    let kept = fs::read_to_string(root.join(path)).ok();
    let state = compare(kept.as_deref(), &page, mode);
    if state == State::Written {
        fs::write(root.join(path), page).with_context(|| format!("writing {path}"))?;
    }
    Ok(Document { path, state })
}

fn judge(topic: &str, output: &Output, kept: Option<&str>, mode: Mode) -> State {
    let said = String::from_utf8_lossy(&output.stdout);
    let unknown = output.status.code() == Some(EXIT_USAGE) || said.is_empty();
    match kept {
        // Once a document is kept, a command that no longer makes it is a mistake.
        None if unknown => State::Missing(format!("`hence docs {topic}` does not exist yet")),
        _ if unknown || !output.status.success() => {
            let complaint = String::from_utf8_lossy(&output.stderr);
            let first = complaint.lines().next().unwrap_or("it printed nothing");
            State::Stale(format!("`hence docs {topic}` failed: {first}"))
        }
        kept => compare(kept, &said, mode),
    }
}

fn compare(kept: Option<&str>, said: &str, mode: Mode) -> State {
    match kept {
        Some(kept) if kept == said => State::Same,
        _ if mode == Mode::Write => State::Written,
        None => State::Stale("it was never written".to_string()),
        Some(kept) => {
            let same = kept.lines().zip(said.lines()).take_while(|(a, b)| a == b).count();
            State::Stale(format!("differs from line {}", same + 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn output(code: i32, text: &str) -> Output {
        let status = ExitStatus::from_raw(code << 8);
        Output { status, stdout: text.into(), stderr: b"oh no\n".to_vec() }
    }

    #[test]
    fn a_document_is_what_the_code_says() {
        let check = |code, text, kept| judge("cli", &output(code, text), kept, Mode::Check);
        let stale = |why: &str| State::Stale(why.to_string());
        assert_eq!(check(0, "a\n", Some("a\n")), State::Same);
        assert_eq!(check(0, "a\nb\n", Some("a\nc\n")), stale("differs from line 2"));
        assert_eq!(check(0, "a\n", None), stale("it was never written"));
        assert!(matches!(check(2, "", None), State::Missing(_)));
        assert_eq!(check(2, "", Some("a\n")), stale("`hence docs cli` failed: oh no"));
        assert_eq!(check(70, "a\n", Some("a\n")), stale("`hence docs cli` failed: oh no"));
        assert_eq!(judge("cli", &output(0, "a\n"), None, Mode::Write), State::Written);
    }
}
