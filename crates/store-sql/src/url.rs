//! The address of a database, and the options that are ours.

use std::path::PathBuf;

use hence_store::{ErrorKind, StoreError};
use tokio_postgres::config::{Host, SslMode};

use crate::limits::{READERS_DEFAULT, READERS_MAX};
use crate::names::SqlName;

/// `postgres://role:password@host:5432/database?schema=hence&readers=4`
#[derive(Clone, Debug)]
pub(crate) struct PostgresUrl {
    pub(crate) config: tokio_postgres::Config,
    pub(crate) schema: SqlName,
    pub(crate) readers: usize,
    pub(crate) pooler: Pooler,
    pub(crate) root_certificates: Option<PathBuf>,
}

/// What stands between us and the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pooler {
    /// Nothing: a connection is ours, with its settings.
    None,
    /// A pooler that gives every transaction another connection: settings would be somebody
    /// else's.
    Transaction,
}

impl PostgresUrl {
    /// Takes an address apart. Errors never show it: it may hold a password.
    pub(crate) fn parse(url: &str) -> Result<Self, StoreError> {
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let mut parts = Parts::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            parts.take(pair)?;
        }
        let rest = parts.rest.join("&");
        let address =
            if rest.is_empty() { address.to_string() } else { format!("{address}?{rest}") };
        let config = address.parse::<tokio_postgres::Config>();
        let mut config = config.map_err(|error| refused(&format!("store URL: {error}")))?;
        if config.get_hosts().is_empty() {
            return Err(refused("store URL: names no host; write postgres://role@host/database"));
        }
        config.ssl_mode(parts.ssl.unwrap_or_else(|| default_ssl(&config)));
        Ok(PostgresUrl {
            config,
            schema: parts.schema.map_or_else(|| SqlName::new("schema", "hence"), Ok)?,
            readers: parts.readers.unwrap_or(READERS_DEFAULT),
            pooler: parts.pooler.unwrap_or(Pooler::None),
            root_certificates: parts.root_certificates,
        })
    }
}

#[derive(Default)]
struct Parts<'a> {
    schema: Option<SqlName>,
    readers: Option<usize>,
    pooler: Option<Pooler>,
    ssl: Option<SslMode>,
    root_certificates: Option<PathBuf>,
    rest: Vec<&'a str>,
}

impl<'a> Parts<'a> {
    fn take(&mut self, pair: &'a str) -> Result<(), StoreError> {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "schema" => self.schema = Some(SqlName::new("schema", value)?),
            "readers" => {
                let readers = value.parse().ok().filter(|n| (1..=READERS_MAX).contains(n));
                let problem = || refused(&format!("readers: must be from 1 to {READERS_MAX}"));
                self.readers = Some(readers.ok_or_else(problem)?);
            }
            "pooler" => {
                self.pooler = Some(match value {
                    "none" => Pooler::None,
                    "transaction" => Pooler::Transaction,
                    _ => return Err(refused("pooler: must be none or transaction")),
                });
            }
            "sslmode" => {
                self.ssl = Some(match value {
                    "disable" => SslMode::Disable,
                    "require" | "verify-ca" | "verify-full" => SslMode::Require,
                    _ => {
                        let problem = "sslmode: must be disable, require or verify-full; the \
                                       certificate is checked with each of the latter";
                        return Err(refused(problem));
                    }
                });
            }
            "sslrootcert" => self.root_certificates = Some(PathBuf::from(value)),
            _ => self.rest.push(pair),
        }
        Ok(())
    }
}

/// Without a word about it: in the clear on this machine, by TLS to any other.
fn default_ssl(config: &tokio_postgres::Config) -> SslMode {
    let near = |host: &Host| match host {
        Host::Tcp(name) => ["localhost", "127.0.0.1", "::1"].contains(&name.as_str()),
        Host::Unix(_) => true,
    };
    if config.get_hosts().iter().all(near) { SslMode::Disable } else { SslMode::Require }
}

fn refused(message: &str) -> StoreError {
    StoreError::new(ErrorKind::Unsupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_options_are_taken_and_the_rest_is_left() {
        let url = "postgres://me:secret@localhost:5433/jobs?schema=work&readers=9&\
                   connect_timeout=3&pooler=transaction";
        let parsed = PostgresUrl::parse(url).unwrap();
        assert_eq!((parsed.schema.as_str(), parsed.readers), ("work", 9));
        assert_eq!(parsed.pooler, Pooler::Transaction);
        assert_eq!(parsed.config.get_dbname(), Some("jobs"));
        assert_eq!(parsed.config.get_ssl_mode(), SslMode::Disable);
        let far = PostgresUrl::parse("postgres://me@db.example.org/jobs").unwrap();
        assert_eq!(far.config.get_ssl_mode(), SslMode::Require);
        assert_eq!((far.schema.as_str(), far.readers), ("hence", READERS_DEFAULT));
    }

    #[test]
    fn bad_options_are_named_and_no_password_is_shown() {
        let rows = [
            ("schema=A", "schema: "),
            ("readers=0", "readers: "),
            ("readers=65", "readers: "),
            ("pooler=session", "pooler: "),
            ("sslmode=prefer", "sslmode: "),
            ("nonsense=1", "store URL: "),
        ];
        for (query, start) in rows {
            let url = format!("postgres://me:secret@localhost/jobs?{query}");
            let error = PostgresUrl::parse(&url).expect_err(query).to_string();
            assert!(error.starts_with(start), "{query}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(PostgresUrl::parse("postgres:///jobs").is_err());
    }
}
