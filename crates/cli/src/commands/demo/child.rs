//! The demo's own server: a child process of the same binary, on a free port, in a directory that is
//! removed at the end.

use std::path::{Path as FilePath, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::api::{Api, Path};
use crate::clock;
use crate::failure::{Exit, Failure};

/// A server with an empty store starts in milliseconds; on a busy machine it may take longer.
const STARTS_WITHIN: Duration = Duration::from_secs(5);
/// A graceful stop with nothing under way.
const STOPS_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks at whether it has started.
const LOOK_EVERY: Duration = Duration::from_millis(5);

pub(super) struct Server {
    child: Child,
    api: Api,
    log: PathBuf,
}

impl Server {
    /// Starts it on the store in `directory`, and waits until it takes work.
    pub(super) async fn start(directory: &FilePath) -> Result<Self, Failure> {
        let (port_file, log) = (directory.join("address"), directory.join("log"));
        // The file of the server that was killed must not be taken for the new one's.
        let _ = std::fs::remove_file(&port_file);
        let mut child = spawn(directory, &port_file, &log)?;
        let started = clock::within(STARTS_WITHIN, ready(&mut child, &port_file)).await;
        match started {
            Some(Ok(api)) => Ok(Server { child, api, log }),
            Some(Err(failure)) => Err(with_log(failure, &log)),
            None => {
                Err(with_log(Failure::refused("the demo's server did not start in time"), &log))
            }
        }
    }

    pub(super) fn api(&self) -> &Api {
        &self.api
    }

    /// No farewell: SIGKILL.
    pub(super) async fn kill(&mut self) -> Result<(), Failure> {
        self.child.kill().await.map_err(|error| Failure::io("killing the demo's server", &error))
    }

    /// A graceful stop; the exit code must be 0.
    pub(super) async fn stop(mut self) -> Result<(), Failure> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let Some(id) = id else { return Ok(()) };
        kill_process(id, Signal::TERM)
            .map_err(|error| Failure::io("stopping the demo's server", &error.into()))?;
        match clock::within(STOPS_WITHIN, self.child.wait()).await {
            Some(Ok(status)) if status.success() => Ok(()),
            Some(Ok(status)) => Err(with_log(
                Failure::refused(format!("the demo's server ended with {status}")),
                &self.log,
            )),
            Some(Err(error)) => Err(Failure::io("waiting for the demo's server", &error)),
            None => {
                Err(with_log(Failure::refused("the demo's server did not stop in time"), &self.log))
            }
        }
    }
}

fn spawn(directory: &FilePath, port_file: &FilePath, log: &FilePath) -> Result<Child, Failure> {
    let program =
        std::env::current_exe().map_err(|error| Failure::io("finding this program", &error))?;
    let log_file = std::fs::OpenOptions::new().create(true).append(true).open(log);
    let log_file = log_file.map_err(|error| Failure::io("making the demo's log", &error))?;
    let spawned = Command::new(program)
        .arg("serve")
        .args(["--listen", "127.0.0.1:0", "--data-dir"])
        .arg(directory.join("data"))
        .arg("--port-file")
        .arg(port_file)
        // The demo's server is nobody else's: settings of the caller's environment stay out of it.
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log_file)
        .kill_on_drop(true)
        .spawn();
    spawned.map_err(|error| Failure::io("starting the demo's server", &error))
}

async fn ready(child: &mut Child, port_file: &FilePath) -> Result<Api, Failure> {
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(Failure::new(
                Exit::Refused,
                format!("the demo's server ended with {status}"),
            ));
        }
        let address = std::fs::read_to_string(port_file).unwrap_or_default();
        if let Some(address) = address.strip_suffix('\n') {
            let api = Api::at(address, None)?;
            if api.fetch(&Path::new("/ready")).await.is_ok() {
                return Ok(api);
            }
        }
        clock::sleep(LOOK_EVERY).await;
    }
}

/// The last words of the server say more than we can.
fn with_log(failure: Failure, log: &FilePath) -> Failure {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    match text.lines().last() {
        Some(last) => failure.fix(format!("its last words were: {last}")),
        None => failure,
    }
}
