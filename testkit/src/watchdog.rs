//! A small shell that outlives us, kills what we leave behind and removes its directory.
//!
//! A destructor does not run when a test is killed, and not for what is kept for the whole life of
//! a process. A signal at the death of the parent (`prctl`) would come when the *thread* ends that
//! started the server, and would leave the directory. The shell waits at a pipe that closes with
//! us.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result};

/// Each line is the process to kill at the end, 0 for none; the last one counts. What a killed
/// server has as children may write for a while longer on a busy machine, hence the repetitions.
const SCRIPT: &str = r#"
pid=0
while read -r line; do pid=$line; done
[ "$pid" -gt 1 ] && kill -9 "$pid" 2>/dev/null
tries=0
while [ "$tries" -lt 150 ]; do
    rm -rf "$1" 2>/dev/null && exit 0
    tries=$((tries + 1))
    sleep 0.2
done
"#;

/// Watches over one server and its directory, which goes with this value.
#[derive(Debug)]
pub(crate) struct Watchdog {
    home: PathBuf,
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Watchdog {
    /// Over this directory.
    pub(crate) fn over(home: PathBuf) -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "hence-testkit"]).arg(&home);
        // A group of its own: what ends the test from a terminal must not end its watchdog.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut shell = command.spawn().context("starting sh")?;
        let pipe = shell.stdin.take();
        Ok(Watchdog { home, shell, pipe })
    }

    /// The directory.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// From now on this process is killed at the end.
    pub(crate) fn watch(&mut self, pid: u32) -> Result<()> {
        let pipe = self.pipe.as_mut().context("the watchdog has no pipe")?;
        writeln!(pipe, "{pid}").context("speaking to the watchdog")
    }

    /// The process is gone, and its number may soon be another's.
    pub(crate) fn forget(&mut self) -> Result<()> {
        self.watch(0)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // It ends within seconds; without waiting for it, the directory could outlive the test.
        drop(self.shell.wait());
    }
}
