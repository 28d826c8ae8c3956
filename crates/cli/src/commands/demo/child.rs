//! The demo's own server: a child process of the same binary, on a free port, in a directory that
//! is removed at the end.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::api::Api;
use crate::clock;
use crate::commands::serve::LISTENING;
use crate::failure::Failure;

/// A server with an empty store starts in milliseconds; on a busy machine it may take longer.
const STARTS_WITHIN: Duration = Duration::from_secs(20);
/// A graceful stop with nothing under way.
const STOPS_WITHIN: Duration = Duration::from_secs(20);

pub(super) struct Server<'a> {
    directory: &'a Path,
    log: PathBuf,
    /// Here from the moment it is started, not only when it takes work: a start that is given up
    /// must not leave it behind.
    child: Option<Child>,
    api: Option<Api>,
}

impl<'a> Server<'a> {
    /// One that is not started yet, on the store in `directory`.
    pub(super) fn new(directory: &'a Path) -> Self {
        Server { directory, log: directory.join("log"), child: None, api: None }
    }

    /// Starts it, and waits until it takes work.
    pub(super) async fn start(&mut self) -> Result<(), Failure> {
        let child = self.child.insert(spawn(self.directory, &self.log)?);
        let stdout = child.stdout.take();
        let address = clock::within(STARTS_WITHIN, first_address(stdout)).await.flatten();
        let Some(address) = address else {
            return Err(with_log(Failure::refused("the demo's server did not start"), &self.log));
        };
        self.api = Some(Api::at(&address, None)?);
        Ok(())
    }

    pub(super) fn api(&self) -> Result<&Api, Failure> {
        self.api.as_ref().ok_or_else(|| Failure::refused("the demo's server was not started"))
    }

    /// No farewell: SIGKILL. It is gone when this returns, and writes nothing any more.
    pub(super) async fn kill(&mut self) -> Result<(), Failure> {
        let Some(child) = &mut self.child else { return Ok(()) };
        child.kill().await.map_err(|error| Failure::io("killing the demo's server", &error))
    }

    /// A graceful stop; the exit code must be 0.
    pub(super) async fn stop(&mut self) -> Result<(), Failure> {
        let Some(child) = &mut self.child else { return Ok(()) };
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let Some(id) = id else { return Ok(()) };
        kill_process(id, Signal::TERM)
            .map_err(|error| Failure::io("stopping the demo's server", &error.into()))?;
        let problem = match clock::within(STOPS_WITHIN, child.wait()).await {
            Some(Ok(status)) if status.success() => return Ok(()),
            Some(Ok(status)) => format!("the demo's server ended with {status}"),
            Some(Err(error)) => return Err(Failure::io("waiting for the demo's server", &error)),
            None => "the demo's server did not stop in time".to_owned(),
        };
        Err(with_log(Failure::refused(problem), &self.log))
    }
}

fn spawn(directory: &Path, log: &Path) -> Result<Child, Failure> {
    let problem = |error| Failure::io("starting the demo's server", &error);
    let program = std::env::current_exe().map_err(problem)?;
    let log = std::fs::OpenOptions::new().create(true).append(true).open(log).map_err(problem)?;
    let spawned = Command::new(program)
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(directory.join("data"))
        // The demo's server is nobody else's: settings of the caller's environment stay out of it.
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .kill_on_drop(true)
        .spawn();
    spawned.map_err(problem)
}

/// The server says its address when it takes work; nothing when it ended before.
async fn first_address(stdout: Option<ChildStdout>) -> Option<String> {
    let mut lines = BufReader::new(stdout?).lines();
    let line = lines.next_line().await.ok()??;
    line.strip_prefix(LISTENING).map(str::to_owned)
}

/// The last words of the server say more than we can.
fn with_log(failure: Failure, log: &Path) -> Failure {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    match text.lines().last() {
        Some(last) => failure.fix(format!("its last words were: {last}")),
        None => failure,
    }
}
