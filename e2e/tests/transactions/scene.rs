//! A private PostgreSQL and a server on it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hence_e2e::{Server, Setup, clock};
use hence_testkit::Postgres;

/// A debug build on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A server whose store is a database of its own.
pub(crate) struct Scene {
    // Before the database: it is to end first.
    pub(crate) server: Server,
    pub(crate) database: Database,
}

/// A database of its own, in a PostgreSQL of its own.
pub(crate) struct Database {
    pub(crate) url: String,
    postgres: Postgres,
}

impl Scene {
    pub(crate) fn start() -> Result<Self> {
        let database = Database::start()?;
        let server = Server::start_with(on(&database.url))?;
        Ok(Scene { server, database })
    }

    pub(crate) fn sql(&self, text: &str) -> Result<String> {
        self.database.sql(text)
    }

    /// Waits until every letter was taken or refused.
    pub(crate) fn inbox_is_empty(&self) -> Result<()> {
        self.database.until("SELECT count(*) FROM hence.inbox", "0")
    }
}

impl Database {
    pub(crate) fn start() -> Result<Self> {
        let postgres = Postgres::start_with(&[])?;
        Ok(Database { url: postgres.database()?, postgres })
    }

    /// Runs SQL, all of it in one transaction.
    pub(crate) fn sql(&self, text: &str) -> Result<String> {
        self.postgres.sql_in(&self.url, text)
    }

    /// The same as another role.
    pub(crate) fn sql_as(&self, role: &str, text: &str) -> Result<String> {
        self.postgres.sql_in(&self.url.replacen("//postgres@", &format!("//{role}@"), 1), text)
    }

    /// Asks until this is the answer.
    pub(crate) fn until(&self, text: &str, expected: &str) -> Result<()> {
        let mut last = String::new();
        let met = clock::until(SOON, || {
            last = self.sql(text).unwrap_or_else(|error| format!("{error:#}"));
            (last == expected).then_some(())
        });
        met.with_context(|| format!("{text}: {last} after {SOON:?}, not {expected}"))
    }

    /// Runs SQL that must be refused with these words.
    pub(crate) fn refused(&self, text: &str, words: &str) -> Result<()> {
        let Err(error) = self.sql(text) else { anyhow::bail!("{text} went through") };
        let said = format!("{error:#}");
        ensure!(said.contains(words), "{text}: {said}");
        Ok(())
    }
}

/// A server on this database.
pub(crate) fn on(url: &str) -> Setup {
    Setup { args: vec!["--store".to_owned(), url.to_owned()], ..Setup::default() }
}
