//! A server whose wall clock is moved by the test.

use std::path::PathBuf;

use anyhow::Result;
use hence_e2e::suite::Ended;
use hence_e2e::{Server, Setup};
use tempfile::TempDir;

/// A server, and the file that says how far its clock is from the true one.
pub(crate) struct Faked {
    pub(crate) server: Server,
    dir: TempDir,
}

/// Runs the case with such a server, or says why it cannot.
pub(crate) fn with_clock(case: impl FnOnce(&Faked) -> Result<()>) -> Result<Ended> {
    let Some(library) = library() else {
        return Ok(Ended::Skipped("libfaketime is not installed".to_owned()));
    };
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("offset"), "+0s\n")?;
    let file = dir.path().join("offset").display().to_string();
    let env = [
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME_TIMESTAMP_FILE", file),
        ("FAKETIME_NO_CACHE", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ];
    let env = env.map(|(name, value)| (name.to_owned(), value)).to_vec();
    let faked = Faked { server: Server::start_with(Setup { env, ..Setup::default() })?, dir };
    let result = case(&faked);
    faked.server.explain(result)?;
    Ok(Ended::Passed)
}

impl Faked {
    /// Sets the server's clock so far from the true one. Whole or not at all: the server reads the
    /// file whenever it asks for the time.
    pub(crate) fn set(&self, seconds: i64) -> Result<()> {
        let unfinished = self.dir.path().join("offset.tmp");
        std::fs::write(&unfinished, format!("{seconds:+}s\n"))?;
        Ok(std::fs::rename(unfinished, self.dir.path().join("offset"))?)
    }
}

/// Where Debian and others put it.
fn library() -> Option<PathBuf> {
    let mut dirs = vec![PathBuf::from("/usr/lib/faketime"), PathBuf::from("/usr/lib64/faketime")];
    let entries = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    dirs.extend(entries.map(|entry| entry.path().join("faketime")));
    dirs.into_iter().map(|dir| dir.join("libfaketimeMT.so.1")).find(|path| path.is_file())
}
