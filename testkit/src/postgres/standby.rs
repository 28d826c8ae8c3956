//! A second server that has every commit of the first before it is acknowledged.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Postgres, programs, start};
use crate::place::{Own, Place};
use crate::{template, until};

/// How long the standby may take to follow, and to become a server of its own.
const FOLLOWS_WITHIN: Duration = Duration::from_mins(1);

impl Postgres {
    /// Starts a synchronous standby: from now on a commit here waits until it is there as well.
    pub fn standby(&self) -> Result<Postgres> {
        let primary = self.place.own("given a standby")?;
        let programs = programs()?;
        let own = Own::new("postgres", "postgres")?;
        let source = format!("host=127.0.0.1 port={} user=postgres", primary.port);
        let mut backup = own.user.command(programs.join("pg_basebackup"));
        backup.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync", "--dbname"]);
        template::run(backup.arg(&source).arg("--pgdata").arg(own.home().join("data")))?;
        start(&own, &programs)?;
        self.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")?;
        self.sql("SELECT pg_reload_conf()")?;
        let follows = until(FOLLOWS_WITHIN, || {
            let state = self.sql("SELECT sync_state FROM pg_stat_replication").ok()?;
            (state == "sync").then_some(())
        });
        follows.with_context(|| format!("it does not follow:\n{}", own.process().log_tail()))?;
        Ok(Postgres { place: Place::Own(own) })
    }

    /// Makes a standby a server that can be written to.
    pub fn promote(&self) -> Result<()> {
        let seconds = FOLLOWS_WITHIN.as_secs();
        let promoted = self.sql(&format!("SELECT pg_promote(true, {seconds})"))?;
        ensure!(promoted == "t", "it is still a standby:\n{}", self.log_tail());
        Ok(())
    }
}
