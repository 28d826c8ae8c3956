//! A MariaDB server: a private one, or the one that `HENCE_TEST_MYSQL_URL` names.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::Signal;

use crate::install::{MARIADB, MARIADB_CLIENT};
use crate::place::{Own, Place, database_name};
use crate::{Missing, sql, template};

/// Names a server that is there already: tests use databases of their own in it.
const GIVEN: &str = "HENCE_TEST_MYSQL_URL";

/// What the server prints when it takes connections.
const READY: &str = "ready for connections";

/// Small, because many of them run on small machines. What makes commits durable is left alone.
const SETTINGS: &str = "\
[mariadbd]
bind_address = 127.0.0.1
skip_name_resolve
innodb_buffer_pool_size = 64M
innodb_log_file_size = 32M
";

/// A server that runs, or ran.
#[derive(Debug)]
pub struct MariaDb {
    place: Place,
}

impl MariaDb {
    /// The server that `HENCE_TEST_MYSQL_URL` names, or else a private one.
    pub fn start() -> Result<Self> {
        match Place::given(GIVEN) {
            Some(place) => Ok(MariaDb { place }),
            None => MariaDb::start_with(&[]),
        }
    }

    /// A private one, with these lines at the end of its settings.
    pub fn start_with(settings: &[&str]) -> Result<Self> {
        let program = MARIADB.need()?;
        let own = Own::new("mariadb", "mysql")?;
        make(&own, &program, settings)?;
        start(&own, &program, &[])?;
        Ok(MariaDb::of(own))
    }

    /// One of ours, which runs.
    pub(crate) fn of(own: Own) -> Self {
        MariaDb { place: Place::Own(own) }
    }

    /// Where it is, for its superuser: `mysql://…`. The same after a restart. The database is
    /// there, and is not empty: see [`MariaDb::database`].
    pub fn url(&self) -> String {
        match &self.place {
            Place::Given { url, .. } => url.clone(),
            Place::Own(own) => format!("mysql://root@127.0.0.1:{}/mysql", own.port),
        }
    }

    /// Makes an empty database with a name of its own, and gives its URL.
    pub fn database(&self) -> Result<String> {
        let name = database_name();
        self.sql(&format!("CREATE DATABASE {name}"))?;
        Ok(sql::with_database(&self.url(), &name))
    }

    /// Runs SQL in the database of [`MariaDb::url`]. See [`MariaDb::sql_in`].
    pub fn sql(&self, text: &str) -> Result<String> {
        self.sql_in(&self.url(), text)
    }

    /// Runs SQL in a database, and gives the rows: fields parted by a tab, one row a line.
    pub fn sql_in(&self, url: &str, text: &str) -> Result<String> {
        let parts = sql::Parts::of(url)?;
        let mut client = Command::new(MARIADB_CLIENT.need()?);
        client.args(["--no-defaults", "--protocol=tcp", "--batch", "--skip-column-names"]);
        client.args(["--host", &parts.host, "--port", &parts.port.unwrap_or(3306).to_string()]);
        client.args(["--user", &parts.user, "--execute", text]);
        client.env("MYSQL_PWD", &parts.password).arg(&parts.database);
        sql::ask(&mut client, text)
    }

    /// The number of its process.
    pub fn pid(&self) -> Result<u32> {
        self.place.own("measured")?.process().pid()
    }

    /// Asks it to end as an operator does.
    pub fn stop(&self) -> Result<()> {
        self.place.stop(Signal::TERM)
    }

    /// Kills it with -9.
    pub fn kill(&self) -> Result<()> {
        self.place.kill()
    }

    /// Starts it again, on the same port and directory; ends it first if it runs.
    pub fn restart(&self) -> Result<()> {
        start(self.place.down(Signal::TERM)?, &MARIADB.need()?, &[])
    }

    /// Gives it other settings in place of those it was started with; they count from the next
    /// start on.
    pub fn configure(&self, settings: &[&str]) -> Result<()> {
        write_settings(self.place.own("configured")?, settings)
    }

    /// Stops it in its tracks: connections stay open, nothing is answered.
    pub fn pause(&self) -> Result<()> {
        self.place.pause()
    }

    /// Lets it go on after [`MariaDb::pause`].
    pub fn resume(&self) -> Result<()> {
        self.place.resume()
    }

    /// The end of its log; of somebody else's nothing.
    pub fn log_tail(&self) -> String {
        self.place.log_tail()
    }
}

/// An empty data directory, with these settings.
pub(crate) fn make(own: &Own, program: &Path, settings: &[&str]) -> Result<()> {
    let home = own.home();
    let temporary = home.join("temporary");
    std::fs::create_dir(&temporary)?;
    own.user.own(&temporary)?;
    let file = home.join("settings");
    // The settings of a test may be wrong: that is for the start to say, in the log.
    write_settings(own, &[])?;
    let version = Command::new(program).args(["--no-defaults", "--version"]).output()?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let version = version.split_whitespace().nth(2).unwrap_or("unknown");
    template::fill(&home, &own.user, &format!("mariadb-{version}"), |data| {
        let script = home.join("bootstrap.sql");
        std::fs::write(&script, bootstrap()?)?;
        std::fs::create_dir(data)?;
        own.user.own(data)?;
        let mut server = own.user.command(program);
        server.arg(format!("--defaults-file={}", file.display()));
        server.arg(format!("--datadir={}", data.display()));
        server.args(["--bootstrap", "--log-warnings=0"]).stdin(File::open(&script)?);
        template::run(&mut server)
    })?;
    write_settings(own, settings)
}

fn write_settings(own: &Own, settings: &[&str]) -> Result<()> {
    let file = own.home().join("settings");
    let mut text = SETTINGS.to_owned();
    for line in settings {
        text.push_str(line);
        text.push('\n');
    }
    std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))
}

/// What `mariadb-install-db` does. It is not used because it needs packages that start services;
/// of its scripts, those for help texts and examples are left out.
fn bootstrap() -> Result<String> {
    let mut text = "CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\n".to_owned();
    text.push_str("SET @auth_root_socket = NULL;\n");
    for name in ["system_tables", "performance_tables", "system_tables_data"] {
        let file = format!("/usr/share/mysql/mysql_{name}.sql");
        text += &std::fs::read_to_string(&file)
            .map_err(|error| Missing::new(format!("{file}, which belongs to mariadbd: {error}")))?;
    }
    Ok(text)
}

/// Starts it, with these arguments beside those that all have.
pub(crate) fn start(own: &Own, program: &Path, args: &[&str]) -> Result<()> {
    let home = own.home();
    let mut command = own.user.command(program);
    command.arg(format!("--defaults-file={}", home.join("settings").display()));
    command.arg(format!("--datadir={}", home.join("data").display()));
    command.arg(format!("--socket={}", home.join("socket").display()));
    command.arg(format!("--pid-file={}", home.join("pid").display()));
    command.arg(format!("--port={}", own.port)).args(args);
    // Its own: a server that starts removes what it finds in there, of whichever server it is.
    command.arg(format!("--tmpdir={}", home.join("temporary").display()));
    let log = home.join("log");
    // Earlier starts have said that they are ready in the same file.
    let said = |path: &Path| std::fs::read(path).unwrap_or_default();
    let before = said(&log).len();
    own.process().start(command, |_| String::from_utf8_lossy(&said(&log)[before..]).contains(READY))
}
