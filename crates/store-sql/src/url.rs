//! The address of a database, and the options that are ours.

use std::path::PathBuf;

use hence_store::{ErrorKind, StoreError};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use crate::limits::{READERS_DEFAULT, READERS_MAX};
use crate::names::SqlName;

/// `postgres://role:password@host:5432/database?schema=hence&readers=4`
///
/// Several servers are written as `host1:5432,host2:5432`: a primary and its standbys.
#[derive(Clone, Debug)]
pub(crate) struct PostgresUrl {
    /// One for each server, in the order of the address.
    pub(crate) servers: Vec<Config>,
    pub(crate) schema: SqlName,
    pub(crate) readers: usize,
    pub(crate) pooler: Pooler,
    pub(crate) trust: Trust,
}

/// Whose certificates are taken, where TLS is spoken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Trust {
    /// Of those that the machine trusts.
    Machine,
    /// Of those in this file.
    File(PathBuf),
    /// Anybody's: TLS is used where the server has it, and nobody is kept out.
    Anybody,
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
        let mut servers = parts.servers(address)?;
        let trust = parts.trust()?;
        let ssl = parts.ssl.unwrap_or_else(|| match trust {
            // Who names certificates wants them to be looked at.
            Trust::File(_) => SslMode::Require,
            Trust::Machine | Trust::Anybody => default_ssl(&servers),
        });
        for server in &mut servers {
            server.ssl_mode(ssl);
        }
        Ok(PostgresUrl {
            servers,
            schema: parts.schema.map_or_else(|| SqlName::new("schema", "hence"), Ok)?,
            readers: parts.readers.unwrap_or(READERS_DEFAULT),
            pooler: parts.pooler.unwrap_or(Pooler::None),
            trust,
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
                    "prefer" => SslMode::Prefer,
                    "require" | "verify-ca" | "verify-full" => SslMode::Require,
                    _ => {
                        let problem = "sslmode: must be disable, prefer, require or verify-full; \
                                       the certificate is checked with the last two";
                        return Err(refused(problem));
                    }
                });
            }
            "sslrootcert" => self.root_certificates = Some(PathBuf::from(value)),
            "target_session_attrs" if value != "read-write" => {
                let problem = "target_session_attrs: must be read-write: a store is written to";
                return Err(refused(problem));
            }
            _ => self.rest.push(pair),
        }
        Ok(())
    }

    fn trust(&self) -> Result<Trust, StoreError> {
        match (self.ssl, &self.root_certificates) {
            (Some(SslMode::Prefer), None) => Ok(Trust::Anybody),
            (Some(SslMode::Prefer | SslMode::Disable), Some(_)) => Err(refused(
                "sslrootcert: no certificate is checked with this sslmode; say sslmode=verify-full",
            )),
            (_, Some(path)) => Ok(Trust::File(path.clone())),
            (_, None) => Ok(Trust::Machine),
        }
    }

    /// What connects to each of the servers.
    fn servers(&self, address: &str) -> Result<Vec<Config>, StoreError> {
        let whole = parse(address, &self.rest)?;
        let (hosts, addresses, ports) =
            (whole.get_hosts(), whole.get_hostaddrs(), whole.get_ports());
        let count = hosts.len();
        if count == 0 {
            return Err(refused("store URL: names no host; write postgres://role@host/database"));
        }
        if ![0, count].contains(&addresses.len()) || ![0, 1, count].contains(&ports.len()) {
            let (addresses, ports) = (addresses.len(), ports.len());
            let found = format!("{count} hosts, {ports} ports and {addresses} hostaddr");
            return Err(refused(&format!("store URL: {found}; name as many of each")));
        }
        let elsewhere = |pair: &&&str| {
            !["host=", "hostaddr=", "port="].iter().any(|name| pair.starts_with(name))
        };
        let rest: Vec<&str> = self.rest.iter().filter(elsewhere).copied().collect();
        let bare = parse(&without_hosts(address), &rest)?;
        let server = |nth: usize| {
            let mut server = bare.clone();
            match &hosts[nth] {
                Host::Tcp(name) => server.host(name),
                Host::Unix(path) => server.host_path(path),
            };
            addresses.get(nth).map(|address| server.hostaddr(*address));
            ports.get(nth).or(ports.first()).map(|port| server.port(*port));
            if count > 1 {
                server.target_session_attrs(TargetSessionAttrs::ReadWrite);
            }
            server
        };
        Ok((0..count).map(server).collect())
    }
}

fn parse(address: &str, options: &[&str]) -> Result<Config, StoreError> {
    let parsed = if options.is_empty() {
        address.parse()
    } else {
        format!("{address}?{}", options.join("&")).parse()
    };
    parsed.map_err(|error: tokio_postgres::Error| refused(&format!("store URL: {error}")))
}

/// The address with nothing between the login and the database.
fn without_hosts(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or(("postgres", address));
    let hosts = rest.find('@').map_or(0, |at| at + 1);
    let database = rest[hosts..].find('/').map_or(rest.len(), |at| hosts + at);
    format!("{scheme}://{}{}", &rest[..hosts], &rest[database..])
}

/// Without a word about it: in the clear on this machine, by TLS to any other.
fn default_ssl(servers: &[Config]) -> SslMode {
    let near = |host: &Host| match host {
        Host::Tcp(name) => ["localhost", "127.0.0.1", "::1"].contains(&name.as_str()),
        Host::Unix(_) => true,
    };
    let mut hosts = servers.iter().flat_map(Config::get_hosts);
    if hosts.all(near) { SslMode::Disable } else { SslMode::Require }
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
        let [server] = parsed.servers.as_slice() else { panic!("{:?}", parsed.servers) };
        assert_eq!((server.get_dbname(), server.get_user()), (Some("jobs"), Some("me")));
        assert_eq!(server.get_ssl_mode(), SslMode::Disable);
        assert_eq!(server.get_target_session_attrs(), TargetSessionAttrs::Any);
        let far = PostgresUrl::parse("postgres://me@db.example.org/jobs").unwrap();
        assert_eq!(far.servers[0].get_ssl_mode(), SslMode::Require);
        assert_eq!((far.schema.as_str(), far.readers), ("hence", READERS_DEFAULT));
    }

    #[test]
    fn tls_is_as_strict_as_was_said() {
        let rows = [
            ("localhost", "", SslMode::Disable, Trust::Machine),
            ("db.example.org", "", SslMode::Require, Trust::Machine),
            ("db.example.org", "sslmode=disable", SslMode::Disable, Trust::Machine),
            ("db.example.org", "sslmode=prefer", SslMode::Prefer, Trust::Anybody),
            ("localhost", "sslmode=require", SslMode::Require, Trust::Machine),
            ("localhost", "sslmode=verify-full", SslMode::Require, Trust::Machine),
            ("localhost", "sslrootcert=x.pem", SslMode::Require, Trust::File("x.pem".into())),
        ];
        for (host, query, mode, trust) in rows {
            let parsed = PostgresUrl::parse(&format!("postgres://me@{host}/jobs?{query}")).unwrap();
            assert_eq!(parsed.servers[0].get_ssl_mode(), mode, "{host} {query}");
            assert_eq!(parsed.trust, trust, "{host} {query}");
        }
    }

    #[test]
    fn several_servers_are_told_apart() {
        let rows = [
            ("me@a:1,b:2/jobs", vec![("a", 1), ("b", 2)]),
            ("me:p%40ss@a,b:2/jobs?connect_timeout=3", vec![("a", 5432), ("b", 2)]),
            ("a:1,b:1,[::1]:1?dbname=jobs&user=me", vec![("a", 1), ("b", 1), ("::1", 1)]),
        ];
        for (rest, expected) in rows {
            let parsed = PostgresUrl::parse(&format!("postgres://{rest}"))
                .unwrap_or_else(|error| panic!("{rest}: {error}"));
            let found = parsed.servers.iter().map(|server| {
                assert_eq!((server.get_dbname(), server.get_user()), (Some("jobs"), Some("me")));
                assert_eq!(server.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
                assert_eq!(server.get_ssl_mode(), SslMode::Require, "{rest}");
                (server.get_hosts().to_vec(), server.get_ports().to_vec())
            });
            let expected = expected.into_iter();
            let expected = expected.map(|(host, port)| (vec![Host::Tcp(host.into())], vec![port]));
            assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{rest}");
        }
    }

    #[test]
    fn bad_options_are_named_and_no_password_is_shown() {
        let rows = [
            ("schema=A", "schema: "),
            ("readers=0", "readers: "),
            ("readers=65", "readers: "),
            ("pooler=session", "pooler: "),
            ("sslmode=allow", "sslmode: "),
            ("sslmode=prefer&sslrootcert=x.pem", "sslrootcert: "),
            ("sslmode=disable&sslrootcert=x.pem", "sslrootcert: "),
            ("nonsense=1", "store URL: "),
            ("port=1,2,3", "store URL: "),
            ("hostaddr=127.0.0.1,127.0.0.2", "store URL: "),
            ("target_session_attrs=any", "target_session_attrs: "),
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
