//! A PostgreSQL server: a private one, or the one that `HENCE_TEST_POSTGRES_URL` names.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use rustix::process::Signal;

use crate::home::User;
use crate::install::{POSTGRES, Program};
use crate::process::Process;
use crate::{Missing, free_port, sql, template};

/// Names a server that is there already: tests use databases of their own in it.
const GIVEN: &str = "HENCE_TEST_POSTGRES_URL";

/// A server that runs, or ran.
#[derive(Debug)]
pub struct Postgres {
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// Somebody else's.
    Given(String),
    Private(Private),
}

#[derive(Debug)]
struct Private {
    process: Mutex<Process>,
    user: User,
    /// Where its programs are.
    programs: PathBuf,
    port: u16,
}

impl Postgres {
    /// The server that `HENCE_TEST_POSTGRES_URL` names, or else a private one.
    pub fn start() -> Result<Self> {
        match std::env::var(GIVEN) {
            Ok(url) => Ok(Postgres { place: Place::Given(url) }),
            Err(_) => Postgres::start_with(&[]),
        }
    }

    /// A private one, with these lines at the end of its `postgresql.conf`.
    pub fn start_with(settings: &[&str]) -> Result<Self> {
        let private = Private::new()?;
        private.make(settings)?;
        private.start()?;
        Ok(Postgres { place: Place::Private(private) })
    }

    /// Where it is, for its superuser: `postgres://…`. The same after a restart.
    pub fn url(&self) -> String {
        match &self.place {
            Place::Given(url) => url.clone(),
            Place::Private(private) => {
                format!("postgres://postgres@127.0.0.1:{}/postgres", private.port)
            }
        }
    }

    /// The directory of its Unix socket, and the port that is part of the socket's name.
    pub fn socket(&self) -> Result<(PathBuf, u16)> {
        let private = self.private("asked for its socket")?;
        Ok((private.home(), private.port))
    }

    /// Makes an empty database with a name of its own, and gives its URL.
    pub fn database(&self) -> Result<String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("hence_{}_{number}", std::process::id());
        self.sql(&format!("CREATE DATABASE {name}"))?;
        Ok(sql::with_database(&self.url(), &name))
    }

    /// Runs SQL in the database of `url`, each statement for itself, and gives the rows: fields
    /// parted by `|`, one row a line.
    pub fn sql(&self, text: &str) -> Result<String> {
        sql_in(&self.url(), text)
    }

    /// Asks it to end as an operator does: connections are closed, a checkpoint is written.
    pub fn stop(&self) -> Result<()> {
        self.private("stopped")?.lock().stop(Signal::INT)
    }

    /// Kills it and its backends with -9.
    pub fn kill(&self) -> Result<()> {
        self.private("killed")?.lock().kill()
    }

    /// Starts it again, on the same port and directory; ends it first if it runs.
    pub fn restart(&self) -> Result<()> {
        let private = self.private("restarted")?;
        if private.lock().pid().is_ok() {
            self.stop()?;
        }
        private.start()
    }

    /// Stops it in its tracks: connections stay open, nothing is answered.
    pub fn pause(&self) -> Result<()> {
        self.private("paused")?.lock().pause()
    }

    /// Lets it go on after [`Postgres::pause`].
    pub fn resume(&self) -> Result<()> {
        self.private("resumed")?.lock().resume()
    }

    /// The end of its log; of somebody else's nothing.
    pub fn log_tail(&self) -> String {
        match &self.place {
            Place::Given(_) => String::new(),
            Place::Private(private) => private.lock().log_tail(),
        }
    }

    fn private(&self, what: &str) -> Result<&Private> {
        match &self.place {
            Place::Given(_) => {
                Err(Missing::new(format!("a server that may be {what}: {GIVEN} is set")).into())
            }
            Place::Private(private) => Ok(private),
        }
    }
}

impl Private {
    /// A home for one; nothing runs yet.
    fn new() -> Result<Self> {
        let initdb = POSTGRES.need()?;
        let programs = initdb.parent().context("a program is in a directory")?.to_path_buf();
        let user = User::for_server("postgres")?;
        let process = Mutex::new(Process::new("postgres", &user)?);
        Ok(Private { process, user, programs, port: free_port()? })
    }

    /// An empty data directory, with these settings.
    fn make(&self, settings: &[&str]) -> Result<()> {
        let version =
            self.user.command(self.programs.join("postgres")).arg("--version").output()?;
        let version = String::from_utf8_lossy(&version.stdout).into_owned();
        let version = version.split(' ').nth(2).unwrap_or("unknown").trim();
        template::fill(&self.lock(), &self.user, &format!("postgres-{version}"), |data| {
            let mut initdb = self.user.command(self.programs.join("initdb"));
            initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
            // The machine may lose power while it makes a template of a test: nothing is at stake.
            template::run(initdb.arg("--no-sync").arg("--pgdata").arg(data))
        })?;
        let file = self.home().join("data/postgresql.conf");
        let mut text = std::fs::read_to_string(&file)?;
        for line in settings {
            text.push_str(line);
            text.push('\n');
        }
        std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))
    }

    fn start(&self) -> Result<()> {
        let home = self.home();
        let mut command = self.user.command(self.programs.join("postgres"));
        command.arg("-D").arg(home.join("data"));
        command.args(["-c", "listen_addresses=127.0.0.1", "-p", &self.port.to_string()]);
        command.arg("-c").arg(format!("unix_socket_directories={}", home.display()));
        let status = home.join("data/postmaster.pid");
        self.lock().start(command, |pid| {
            // The file of a killed server may still be there, hence the number.
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let mut lines = text.lines();
            let ours = lines.next() == Some(pid.to_string().as_str());
            ours && lines.nth(6).is_some_and(|line| matches!(line.trim(), "ready" | "standby"))
        })
    }

    fn home(&self) -> PathBuf {
        self.lock().home().to_path_buf()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs SQL in the database that a URL names.
fn sql_in(url: &str, text: &str) -> Result<String> {
    let psql = Program { name: "psql", packages: &["postgresql-client"] }.need()?;
    let mut client = std::process::Command::new(psql);
    client.args(["--no-psqlrc", "--no-align", "--tuples-only", "--quiet", "--no-password"]);
    client.args(["--set=ON_ERROR_STOP=1", "--dbname", url, "--command", text]);
    sql::ask(&mut client, text)
}
