//! The real binary as a child process: started, killed, stopped, started again on its directory.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use hence_testkit::free_port;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::api::Api;
use crate::clock;

/// How long a start may take. A debug build on a busy machine is slow; a hang is longer.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// How long a command that is not a server may take.
const ENDS_WITHIN: Duration = Duration::from_mins(1);

/// How a server is to be started.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// Where the data is; a fresh directory when not given.
    pub data: Option<PathBuf>,
    /// More arguments of `hence serve`.
    pub args: Vec<String>,
    /// Variables of its environment.
    pub env: Vec<(String, String)>,
    /// A program, with arguments, that starts it: `strace …`.
    pub wrapper: Vec<String>,
    /// Which build is started.
    pub build: Build,
}

/// A build of the binary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Build {
    /// As it is released.
    #[default]
    Normal,
    /// With fail points.
    Failing,
}

/// A server that runs, or ran.
#[derive(Debug)]
pub struct Server {
    setup: Setup,
    data: PathBuf,
    address: SocketAddr,
    child: Option<Child>,
    /// Holds the log, and the data unless it is somewhere else. Removed at the end.
    home: TempDir,
}

impl Server {
    /// Starts one on a fresh directory.
    pub fn start() -> Result<Self> {
        Server::start_with(Setup::default())
    }

    /// Starts one, and waits until it is ready.
    pub fn start_with(setup: Setup) -> Result<Self> {
        let mut server = Server::prepare(setup)?;
        server.restart()?;
        Ok(server)
    }

    /// Prepares one without starting it.
    pub fn prepare(setup: Setup) -> Result<Self> {
        let home = tempfile::Builder::new().prefix("hence-e2e-").tempdir()?;
        let data = setup.data.clone().unwrap_or_else(|| home.path().join("data"));
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        Ok(Server { setup, data, address, child: None, home })
    }

    /// Gives it another environment; counts from the next start on.
    pub fn set_env(&mut self, env: Vec<(String, String)>) {
        self.setup.env = env;
    }

    /// Starts the process, without waiting for anything.
    pub fn spawn(&mut self) -> Result<()> {
        ensure!(self.child.is_none(), "it runs already");
        let log = OpenOptions::new().create(true).append(true).open(self.log_path())?;
        let mut command = command(self.setup.build, &self.setup.wrapper);
        command
            .args(["serve", "--listen", &self.address.to_string(), "--data"])
            .arg(&self.data)
            .args(&self.setup.args)
            .envs(self.setup.env.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        self.child = Some(command.spawn().context("starting hence")?);
        Ok(())
    }

    /// Waits until it takes work.
    pub fn wait_ready(&mut self) -> Result<()> {
        let mut api = self.api().timeout(Duration::from_secs(2));
        let ready = clock::until(READY_WITHIN, || {
            if let Some(Ok(Some(status))) = self.child.as_mut().map(Child::try_wait) {
                return Some(Err(status));
            }
            let answer = api.get("/ready").ok()?;
            (answer.status == 200).then_some(Ok(()))
        });
        match ready {
            Some(Ok(())) => Ok(()),
            Some(Err(status)) => bail!("hence ended with {status}:\n{}", self.log_tail()),
            None => bail!("not ready after {READY_WITHIN:?}:\n{}", self.log_tail()),
        }
    }

    /// Starts it again on the same directory and port.
    pub fn restart(&mut self) -> Result<()> {
        self.spawn()?;
        self.wait_ready()
    }

    /// Kills it with -9, and waits until it is gone.
    pub fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().context("it does not run")?;
        child.kill()?;
        let status = child.wait()?;
        let by = status.signal();
        ensure!(by == Some(9), "it had ended by itself with {status}:\n{}", self.log_tail());
        Ok(())
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let child = self.child.as_ref().context("it does not run")?;
        let pid = Pid::from_raw(i32::try_from(child.id())?).context("no pid")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Asks it to end, and waits for that.
    pub fn stop(&mut self, within: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.wait_end(within)
    }

    /// Waits until it ends by itself.
    pub fn wait_end(&mut self, within: Duration) -> Result<ExitStatus> {
        let mut child = self.child.take().context("it does not run")?;
        let ended = clock::until(within, || child.try_wait().ok().flatten());
        if ended.is_none() {
            // Otherwise it would outlive the test.
            child.kill()?;
            child.wait()?;
        }
        ended.with_context(|| format!("still running after {within:?}:\n{}", self.log_tail()))
    }

    /// Whether the process has ended, or was never started.
    pub fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// A new client.
    pub fn api(&self) -> Api {
        Api::new(self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// What it printed, all starts together.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The end of what it printed.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// When something failed, adds the end of the log to the error, and keeps all of it.
    pub fn explain<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            let kept = std::env::temp_dir().join(format!("hence-e2e-{}.log", self.address.port()));
            let whole = match std::fs::copy(self.log_path(), &kept) {
                Ok(_) => format!("the whole log is {}", kept.display()),
                Err(error) => format!("the log could not be kept: {error}"),
            };
            anyhow!("{error:#}\n{whole}, and ends:\n{}", self.log_tail())
        })
    }

    fn log_path(&self) -> PathBuf {
        self.home.path().join("log")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // A process that has ended meanwhile cannot be killed: nothing is left to do.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// A command of the binary under test, run to its end or, if it does not end, for a minute.
pub fn hence(args: &[&str]) -> Result<Output> {
    let (mut out, mut err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut command = command(Build::Normal, &[]);
    command.args(args).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?);
    let mut child = command.spawn().with_context(|| format!("running hence {}", args.join(" ")))?;
    if clock::until(ENDS_WITHIN, || child.try_wait().ok().flatten()).is_none() {
        child.kill()?;
    }
    let status = child.wait()?;
    Ok(Output { status, stdout: read_all(&mut out)?, stderr: read_all(&mut err)? })
}

fn read_all(file: &mut File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The binary under test, to be started by `wrapper` when there is one.
pub fn command(build: Build, wrapper: &[String]) -> Command {
    match wrapper.split_first() {
        None => Command::new(binary(build)),
        Some((program, args)) => {
            let mut command = Command::new(program);
            command.args(args).arg(binary(build));
            command
        }
    }
}

/// The binary that `HENCE_BIN` (`HENCE_FAIL_BIN`) names, else the one of this source, built when it
/// is out of date.
pub fn binary(which: Build) -> PathBuf {
    static NORMAL: OnceLock<PathBuf> = OnceLock::new();
    static FAILING: OnceLock<PathBuf> = OnceLock::new();
    let (variable, built) = match which {
        Build::Normal => ("HENCE_BIN", &NORMAL),
        Build::Failing => ("HENCE_FAIL_BIN", &FAILING),
    };
    match std::env::var_os(variable) {
        Some(given) => given.into(),
        None => built.get_or_init(|| build(which)).clone(),
    }
}

/// An old binary would be tested in place of the present source without anybody noticing.
fn build(which: Build) -> PathBuf {
    // target/<profile>/deps/<this test>
    let test = std::env::current_exe().unwrap_or_default();
    let profile = test.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["build", "--quiet", "--package", "hence-cli", "--target-dir"]);
    cargo.arg(profile.parent().unwrap_or(Path::new("target")));
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    if which == Build::Failing {
        cargo.args(["--features", "fail-points"]);
    }
    let built = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status();
    assert!(built.is_ok_and(|status| status.success()), "hence cannot be built; or set HENCE_BIN");
    let binary = profile.join("hence");
    if which == Build::Normal {
        return binary;
    }
    // Elsewhere, because the normal build has the same name.
    let failing = profile.join("hence-with-fail-points");
    let copied = std::fs::copy(&binary, &failing);
    assert!(copied.is_ok(), "{} cannot be written: {copied:?}", failing.display());
    failing
}
