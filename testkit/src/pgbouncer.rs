//! PgBouncer in transaction mode before a PostgreSQL server: the mode that breaks clients which
//! believe that a connection is theirs.

use std::net::TcpStream;

use anyhow::{Context, Result};
use rustix::process::Signal;

use crate::Postgres;
use crate::install::PGBOUNCER;
use crate::place::{Own, Place};
use crate::sql::{Parts, with_address};

/// A PgBouncer that runs, or ran.
#[derive(Debug)]
pub struct PgBouncer {
    place: Place,
}

impl PgBouncer {
    /// Starts one before this server. Few connections to it, so that clients share them.
    pub fn start(server: &Postgres) -> Result<Self> {
        PGBOUNCER.need()?;
        let parts = Parts::of(&server.url())?;
        let own = Own::new("pgbouncer", "postgres")?;
        let (host, port) = (parts.host, parts.port.unwrap_or(5432));
        let mut target = format!("host={host} port={port} user={}", parts.user);
        if !parts.password.is_empty() {
            target.push_str(" password=");
            target.push_str(&parts.password);
        }
        let text = format!(
            "[databases]\n* = {target}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\n\
             unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 4\n\
             ignore_startup_parameters = extra_float_digits\n",
            own.port,
        );
        let file = own.home().join("pgbouncer.ini");
        std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        // The user it runs as must be able to read it.
        own.user.own(&file)?;
        start(&own)?;
        Ok(PgBouncer { place: Place::Own(own) })
    }

    /// The same URL, through PgBouncer.
    pub fn url_of(&self, url: &str) -> Result<String> {
        let own = self.place.own("asked for its address")?;
        Ok(with_address(url, &format!("127.0.0.1:{}", own.port)))
    }

    /// Kills it with -9.
    pub fn kill(&self) -> Result<()> {
        self.place.kill()
    }

    /// Starts it again, on the same port; ends it first if it runs.
    pub fn restart(&self) -> Result<()> {
        start(self.place.down(Signal::TERM)?)
    }
}

fn start(own: &Own) -> Result<()> {
    let mut command = own.user.command(PGBOUNCER.need()?);
    command.arg(own.home().join("pgbouncer.ini"));
    own.process().start(command, |_| TcpStream::connect(("127.0.0.1", own.port)).is_ok())
}
