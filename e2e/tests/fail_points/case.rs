//! One fault: armed, worked towards, survived.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hence_e2e::{Build, Receiver, Server, Setup, clock, server};
use hence_fail::{OnError, Point};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::judge;
use crate::load::{self, SEEDED, Told};

/// How long a process may live after a fault that must end it: a second, though nobody asks it for
/// anything, and another one on a busy machine.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// How long the work of one case may take. Sweeping happens ten seconds after a start.
const FIRES_WITHIN: Duration = Duration::from_secs(20);

/// Rounds of work until a point is reached: on a busy machine the background lags behind.
const ROUNDS_MAX: usize = 16;

/// A fault and where it is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) armed: Armed,
    pub(crate) begin: Begin,
}

/// What is to happen where, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Armed {
    pub(crate) point: Point,
    pub(crate) action: Action,
    pub(crate) at: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Abort,
    Error,
}

/// What the directory holds at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Nothing: it is not there.
    Nothing,
    /// Tables, a log, waiting jobs, and what a crash leaves behind.
    Seeded,
}

/// What a process wrote about the points it came to.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) reached: BTreeSet<String>,
    pub(crate) fired: BTreeSet<String>,
}

impl Armed {
    pub(crate) fn spec(self) -> String {
        let action = if self.action == Action::Abort { "abort" } else { "error" };
        format!("{}={action}@{}", self.point.name(), self.at)
    }
}

impl Report {
    pub(crate) fn read(path: &Path) -> Self {
        let mut report = Report::default();
        for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
            match line.split_once(' ') {
                Some(("reached", name)) => report.reached.insert(name.to_owned()),
                Some(("fired", name)) => report.fired.insert(name.to_owned()),
                _ => false,
            };
        }
        report
    }
}

impl Case {
    pub(crate) fn name(&self) -> String {
        let making = if self.begin == Begin::Nothing { "_while_made" } else { "" };
        format!("{}{making}", self.armed.spec())
    }

    /// Makes the fault, starts again, and judges.
    pub(crate) fn run(self) -> Result<Report> {
        let home = tempfile::tempdir()?;
        let report = home.path().join("report");
        let data = home.path().join("data");
        if self.begin == Begin::Seeded {
            copy_dir(seed()?.path(), &data)?;
        }
        let setup = Setup {
            data: Some(data),
            build: Build::Failing,
            env: environment(Some(self.armed), &report),
            ..Setup::default()
        };
        let mut server = Server::prepare(setup)?;
        let receiver = Receiver::start()?;
        let result = self.run_on(&mut server, &receiver, &report);
        server.explain(result)?;
        Ok(Report::read(&report))
    }

    fn run_on(self, server: &mut Server, receiver: &Receiver, report: &Path) -> Result<()> {
        let mut told = Told::default();
        server.spawn()?;
        // A fault of the start shows as its end.
        let started = server.wait_ready().is_ok();
        if started {
            self.work_towards(server, receiver, &mut told, report);
        }
        let ended = self.end(server, report)?;
        ensure!(
            Report::read(report).fired.contains(self.armed.point.name()),
            "the point was never reached, or not so often; it ended with {ended}"
        );
        self.judge_end(ended, started)?;
        server.set_env(environment(None, report));
        server.restart().context("starting again")?;
        load::work(server, receiver, &mut told, "b");
        if self.begin == Begin::Seeded {
            load::finish_seeded(server, &mut told)?;
        }
        judge::judge(server, receiver, &told, self.begin)?;
        let status = server.stop(FIRES_WITHIN)?;
        ensure!(status.code() == Some(0), "in the end it stopped with {status}");
        Ok(())
    }

    /// Works until the point has fired. What happens in the background depends on how far its
    /// threads get, so there are more rounds than one; the end of a process is not worked towards.
    fn work_towards(
        self,
        server: &mut Server,
        receiver: &Receiver,
        told: &mut Told,
        report: &Path,
    ) {
        let point = self.armed.point;
        let at_the_end = [Point::StopDrain, Point::StopDrained, Point::StopRelease];
        let waits =
            at_the_end.contains(&point) || matches!(point, Point::ServeDrain | Point::ReadSweep);
        for round in 0..ROUNDS_MAX {
            load::work(server, receiver, told, &format!("a{round}-"));
            let fired = Report::read(report).fired.contains(point.name());
            if waits || fired || server.has_ended() {
                return;
            }
        }
    }

    /// Brings the process to its end: by the fault, or by asking for it.
    fn end(self, server: &mut Server, report: &Path) -> Result<ExitStatus> {
        let name = self.armed.point.name();
        let fired = || Report::read(report).fired.contains(name);
        if self.armed.point == Point::ReadSweep {
            let swept =
                clock::until(FIRES_WITHIN, || (fired() || server.has_ended()).then_some(()));
            swept.context("nothing was swept")?;
        }
        let must_end = match (self.armed.action, self.armed.point.on_error()) {
            (Action::Abort, _) | (_, OnError::Ends(_)) => true,
            (Action::Error, OnError::GoesOn | OnError::Never) => false,
        };
        if must_end && fired() {
            let ended = clock::until(ENDS_WITHIN, || server.has_ended().then_some(()));
            ended.context("it goes on after the fault")?;
        }
        if server.has_ended() { server.wait_end(ENDS_WITHIN) } else { server.stop(FIRES_WITHIN) }
    }

    fn judge_end(self, ended: ExitStatus, started: bool) -> Result<()> {
        const SIGABRT: i32 = 6;
        match (self.armed.action, self.armed.point.on_error()) {
            (Action::Abort, _) => ensure!(ended.signal() == Some(SIGABRT), "ended with {ended}"),
            // Before it has started there is nothing to lose: the store cannot be used, or a
            // file cannot be written.
            (Action::Error, OnError::Ends(_)) if !started => {
                ensure!(matches!(ended.code(), Some(69 | 74)), "did not start: {ended}");
            }
            (Action::Error, OnError::Ends(code)) => {
                ensure!(ended.code() == Some(code), "expected {code}, ended with {ended}");
            }
            (Action::Error, OnError::GoesOn) => {
                ensure!(ended.code() == Some(0), "ended with {ended}");
            }
            (Action::Error, OnError::Never) => bail!("nothing can fail there"),
        }
        Ok(())
    }
}

/// The environment of a process with fail points, armed or not.
pub(crate) fn environment(armed: Option<Armed>, report: &Path) -> Vec<(String, String)> {
    let mut env = vec![
        ("HENCE_FAIL_SMALL".to_owned(), "1".to_owned()),
        ("HENCE_FAIL_REPORT".to_owned(), report.display().to_string()),
    ];
    env.extend(armed.map(|armed| ("HENCE_FAIL".to_owned(), armed.spec())));
    env
}

/// A directory with something of everything, made once.
fn seed() -> Result<&'static TempDir> {
    static SEED: OnceLock<Result<TempDir, String>> = OnceLock::new();
    let made = SEED.get_or_init(|| make_seed().map_err(|error| format!("{error:#}")));
    made.as_ref().map_err(|error| anyhow::anyhow!("no directory to begin with: {error}"))
}

fn make_seed() -> Result<TempDir> {
    let home = tempfile::tempdir()?;
    let data = home.path().join("data");
    let env = vec![("HENCE_FAIL_SMALL".to_owned(), "1".to_owned())];
    let setup = Setup { data: Some(data.clone()), build: Build::Failing, env, ..Setup::default() };
    let mut server = Server::start_with(setup)?;
    let job = |n: &usize| {
        let id = format!("s{n}");
        json!({"id": id, "queue": "seeded", "payload_text": load::payload(&id)})
    };
    let jobs: Vec<_> = (0..SEEDED).collect();
    for jobs in jobs.chunks(20) {
        let jobs: Vec<_> = jobs.iter().map(job).collect();
        server.api().post("/v1/jobs", &json!({ "jobs": jobs }))?.expect(207)?;
    }
    // A table counts once the manifest names it, which is a moment after it has its name.
    let flushed = clock::until(FIRES_WITHIN, || {
        server.kill().ok()?;
        let has_tables = tables_in(&data).ok()? > 0;
        if !has_tables {
            server.restart().ok()?;
        }
        has_tables.then_some(())
    });
    flushed.context("nothing was written out as a table")?;
    for leftover in ["segment-0000000099.tmp", "table-0000000099.tmp"] {
        std::fs::write(data.join(leftover), "unfinished")?;
    }
    let seed = tempfile::tempdir()?;
    copy_dir(&data, seed.path())?;
    Ok(seed)
}

/// The tables that a start will open.
fn tables_in(data: &Path) -> Result<u64> {
    let checked = server::hence(&["store", "check", "--json", &data.display().to_string()])?;
    let found: Value = serde_json::from_slice(&checked.stdout)?;
    found["tables"].as_u64().with_context(|| format!("no count of tables in {found}"))
}

fn copy_dir(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
