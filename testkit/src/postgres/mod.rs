//! A PostgreSQL server: a private one, or the one that `HENCE_TEST_POSTGRES_URL` names.

mod standby;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::Signal;

use crate::install::{POSTGRES, PSQL};
use crate::place::{Own, Place, database_name};
use crate::{sql, template};

/// Names a server that is there already: tests use databases of their own in it.
const GIVEN: &str = "HENCE_TEST_POSTGRES_URL";

/// Closes connections and writes a checkpoint: what an operator does.
const FAST_SHUTDOWN: Signal = Signal::INT;

/// A server that runs, or ran.
#[derive(Debug)]
pub struct Postgres {
    place: Place,
}

impl Postgres {
    /// The server that `HENCE_TEST_POSTGRES_URL` names, or else a private one.
    pub fn start() -> Result<Self> {
        match Place::given(GIVEN) {
            Some(place) => Ok(Postgres { place }),
            None => Postgres::start_with(&[]),
        }
    }

    /// A private one, with these lines at the end of its `postgresql.conf`.
    pub fn start_with(settings: &[&str]) -> Result<Self> {
        Postgres::start_with_files(settings, &[])
    }

    /// The same, with these files in its directory, which only the server can read.
    pub fn start_with_files(settings: &[&str], files: &[(&str, &[u8])]) -> Result<Self> {
        let programs = programs()?;
        let own = Own::new("postgres", "postgres")?;
        make(&own, &programs, settings)?;
        for (name, bytes) in files {
            let path = own.home().join("data").join(name);
            std::fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
            own.user.own(&path)?;
        }
        start(&own, &programs)?;
        Ok(Postgres { place: Place::Own(own) })
    }

    /// Where it is, for its superuser: `postgres://…`. The same after a restart.
    pub fn url(&self) -> String {
        match &self.place {
            Place::Given { url, .. } => url.clone(),
            Place::Own(own) => format!("postgres://postgres@127.0.0.1:{}/postgres", own.port),
        }
    }

    /// The same URL, at this server.
    pub fn url_of(&self, url: &str) -> Result<String> {
        let own = self.place.own("asked for its address")?;
        Ok(sql::with_address(url, &format!("127.0.0.1:{}", own.port)))
    }

    /// The same URL, naming this server and another one.
    pub fn url_with(&self, other: &Postgres, url: &str) -> Result<String> {
        let (own, other) = (self.place.own("paired")?, other.place.own("paired")?);
        Ok(sql::with_address(url, &format!("127.0.0.1:{},127.0.0.1:{}", own.port, other.port)))
    }

    /// The directory of its Unix socket, and the port that is part of the socket's name.
    pub fn socket(&self) -> Result<(PathBuf, u16)> {
        let own = self.place.own("asked for its socket")?;
        Ok((own.home(), own.port))
    }

    /// Makes an empty database with a name of its own, and gives its URL.
    pub fn database(&self) -> Result<String> {
        let name = database_name();
        self.sql(&format!("CREATE DATABASE {name}"))?;
        Ok(sql::with_database(&self.url(), &name))
    }

    /// Runs SQL in the database of [`Postgres::url`]. See [`Postgres::sql_in`].
    pub fn sql(&self, text: &str) -> Result<String> {
        self.sql_in(&self.url(), text)
    }

    /// Runs SQL in a database, and gives the rows: fields parted by `|`, one row a line.
    pub fn sql_in(&self, url: &str, text: &str) -> Result<String> {
        let mut client = Command::new(PSQL.need()?);
        client.args(["--no-psqlrc", "--no-align", "--tuples-only", "--quiet", "--no-password"]);
        client.args(["--set=ON_ERROR_STOP=1", "--dbname", url, "--command", text]);
        sql::ask(&mut client, text)
    }

    /// The number of its first process; the others are its children.
    pub fn pid(&self) -> Result<u32> {
        self.place.own("measured")?.process().pid()
    }

    /// Asks it to end as an operator does: connections are closed, a checkpoint is written.
    pub fn stop(&self) -> Result<()> {
        self.place.stop(FAST_SHUTDOWN)
    }

    /// Kills it and its backends with -9.
    pub fn kill(&self) -> Result<()> {
        self.place.kill()
    }

    /// Starts it again, on the same port and directory; ends it first if it runs.
    pub fn restart(&self) -> Result<()> {
        start(self.place.down(FAST_SHUTDOWN)?, &programs()?)
    }

    /// Stops it in its tracks: connections stay open, nothing is answered.
    pub fn pause(&self) -> Result<()> {
        self.place.pause()
    }

    /// Lets it go on after [`Postgres::pause`].
    pub fn resume(&self) -> Result<()> {
        self.place.resume()
    }

    /// The end of its log; of somebody else's nothing.
    pub fn log_tail(&self) -> String {
        self.place.log_tail()
    }
}

/// Where the programs of the server are.
fn programs() -> Result<PathBuf> {
    // What is on the path may be a link to one of them only.
    let initdb = POSTGRES.need()?.canonicalize()?;
    Ok(initdb.parent().context("a program is in a directory")?.to_path_buf())
}

/// An empty data directory, with these settings.
fn make(own: &Own, programs: &Path, settings: &[&str]) -> Result<()> {
    let version = Command::new(programs.join("postgres")).arg("--version").output()?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let version = version.split(' ').nth(2).unwrap_or("unknown").trim();
    template::fill(&own.home(), &own.user, &format!("postgres-{version}"), |data| {
        let mut initdb = own.user.command(programs.join("initdb"));
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        // A cut of the power loses a template that can be made again, nothing more.
        template::run(initdb.arg("--no-sync").arg("--pgdata").arg(data))
    })?;
    let file = own.home().join("data/postgresql.conf");
    let mut text = std::fs::read_to_string(&file)?;
    for line in settings {
        text.push_str(line);
        text.push('\n');
    }
    std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))
}

fn start(own: &Own, programs: &Path) -> Result<()> {
    let home = own.home();
    let mut command = own.user.command(programs.join("postgres"));
    command.arg("-D").arg(home.join("data"));
    command.args(["-c", "listen_addresses=127.0.0.1", "-p", &own.port.to_string()]);
    command.arg("-c").arg(format!("unix_socket_directories={}", home.display()));
    let status = home.join("data/postmaster.pid");
    own.process().start(command, |pid| {
        // The file of a killed server may still be there, hence the number.
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let mut lines = text.lines();
        let ours = lines.next() == Some(pid.to_string().as_str());
        ours && lines.nth(6).is_some_and(|line| matches!(line.trim(), "ready" | "standby"))
    })
}
