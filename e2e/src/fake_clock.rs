//! A wall clock for the process under test that can be set, by libfaketime.

use std::path::{Path, PathBuf};

use anyhow::Result;
use tempfile::TempDir;

/// How far the clock of a process is from the machine's. Set while the process runs, or before.
#[derive(Debug)]
pub struct FakeClock {
    library: PathBuf,
    home: TempDir,
}

impl FakeClock {
    /// One that shows the machine's time; none where libfaketime is not installed.
    pub fn new() -> Result<Option<Self>> {
        let places =
            ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib", "/usr/lib64"];
        let paths = places.iter().map(|place| Path::new(place).join("faketime/libfaketimeMT.so.1"));
        let Some(library) = paths.into_iter().find(|path| path.is_file()) else { return Ok(None) };
        let clock = FakeClock { library, home: tempfile::tempdir()? };
        clock.set(0)?;
        Ok(Some(clock))
    }

    /// Shows a time so many seconds from the machine's, from now on.
    pub fn set(&self, seconds: i64) -> Result<()> {
        // Replaced as a whole: the library must not read half of it.
        let next = self.home.path().join("next");
        std::fs::write(&next, format!("{seconds:+}\n"))?;
        Ok(std::fs::rename(next, self.file())?)
    }

    /// What the process needs in its environment.
    pub fn env(&self) -> Vec<(String, String)> {
        let pairs = [
            ("LD_PRELOAD", self.library.to_string_lossy().into_owned()),
            ("FAKETIME_TIMESTAMP_FILE", self.file().to_string_lossy().into_owned()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).into()
    }

    fn file(&self) -> PathBuf {
        self.home.path().join("clock")
    }
}
