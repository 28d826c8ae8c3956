//! The address of a MySQL or MariaDB database, and the options that are ours.

use std::path::PathBuf;

use hence_store::{ErrorKind, StoreError};
use mysql_async::{Opts, OptsBuilder, SslOpts};

use crate::limits::{HOSTS_MAX, READERS_DEFAULT, READERS_MAX};
use crate::names::SqlName;

/// `mysql://user:password@host:3306,other:3306/database?prefix=hence_&readers=4`
#[derive(Clone, Debug)]
pub(super) struct MySqlUrl {
    /// How to connect to each host, in the order in which they are tried.
    pub(super) hosts: Vec<OptsBuilder>,
    pub(super) prefix: SqlName,
    pub(super) readers: usize,
}

#[derive(Default)]
struct Parts {
    prefix: Option<SqlName>,
    readers: Option<usize>,
    tls: Option<Tls>,
    root_certificates: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tls {
    Never,
    Always,
}

impl MySqlUrl {
    /// Takes an address apart. Errors never show it: it may hold a password.
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let mut parts = Parts::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            parts.take(pair)?;
        }
        let hosts = each_host(address)?;
        let tls = parts.tls.unwrap_or_else(|| default_tls(&hosts));
        let ssl = (tls == Tls::Always).then(|| ssl_opts(parts.root_certificates));
        // By the way that was asked for: the library would look for a socket of its own accord.
        let set_up = |opts| OptsBuilder::from_opts(opts).prefer_socket(false).tcp_nodelay(true);
        Ok(MySqlUrl {
            hosts: hosts.into_iter().map(|opts| set_up(opts).ssl_opts(ssl.clone())).collect(),
            prefix: parts.prefix.map_or_else(|| SqlName::new("prefix", "hence_"), Ok)?,
            readers: parts.readers.unwrap_or(READERS_DEFAULT),
        })
    }
}

/// The address of each host, without a query.
fn each_host(address: &str) -> Result<Vec<Opts>, StoreError> {
    const FORM: &str = "write mysql://user@host:3306/database, or several hosts with commas \
                        between";
    let (_, rest) = address.split_once("://").unwrap_or_default();
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    if database.is_empty() {
        return Err(refused(&format!("store URL: names no database; {FORM}")));
    }
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (format!("{login}@"), hosts),
        None => (String::new(), authority),
    };
    if hosts.split(',').count() > HOSTS_MAX {
        return Err(refused(&format!("store URL: names more than {HOSTS_MAX} hosts")));
    }
    // MariaDB speaks the same protocol, and people call it by its name.
    let read = |host: &str| Opts::from_url(&format!("mysql://{login}{host}/{database}"));
    let unreadable = || refused(&format!("store URL: cannot be read; {FORM}"));
    let read = |host: &str| match host {
        "" => Err(unreadable()),
        host => read(host).map_err(|_| unreadable()),
    };
    hosts.split(',').map(read).collect()
}

impl Parts {
    fn take(&mut self, pair: &str) -> Result<(), StoreError> {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "prefix" => self.prefix = Some(SqlName::new("prefix", value)?),
            "readers" => {
                let readers = value.parse().ok().filter(|n| (1..=READERS_MAX).contains(n));
                let problem = || refused(&format!("readers: must be from 1 to {READERS_MAX}"));
                self.readers = Some(readers.ok_or_else(problem)?);
            }
            "sslmode" => {
                self.tls = Some(match value {
                    "disable" => Tls::Never,
                    "require" | "verify-ca" | "verify-full" => Tls::Always,
                    _ => {
                        let problem = "sslmode: must be disable, require or verify-full; the \
                                       certificate is checked with each of the latter";
                        return Err(refused(problem));
                    }
                });
            }
            "sslrootcert" => self.root_certificates = Some(PathBuf::from(value)),
            _ => {
                let known = "prefix, readers, sslmode, sslrootcert";
                return Err(refused(&format!("store URL: no option {name:?}; there are {known}")));
            }
        }
        Ok(())
    }
}

/// Without a word about it: in the clear on this machine, by TLS to any other.
fn default_tls(hosts: &[Opts]) -> Tls {
    let near = |opts: &Opts| ["localhost", "127.0.0.1", "[::1]"].contains(&opts.ip_or_hostname());
    if hosts.iter().all(near) { Tls::Never } else { Tls::Always }
}

fn ssl_opts(root_certificates: Option<PathBuf>) -> SslOpts {
    match root_certificates {
        Some(path) => {
            SslOpts::default().with_root_certs(vec![path.into()]).with_disable_built_in_roots(true)
        }
        None => SslOpts::default(),
    }
}

fn refused(message: &str) -> StoreError {
    StoreError::new(ErrorKind::Unsupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> (MySqlUrl, Opts) {
        let url = MySqlUrl::parse(url).unwrap();
        let opts = Opts::from(url.hosts[0].clone());
        (url, opts)
    }

    #[test]
    fn our_options_are_taken_and_the_address_is_left() {
        let address = "mysql://me:s%40cret@localhost:3307/jobs?prefix=work_&readers=9";
        let (url, opts) = parsed(address);
        assert_eq!((url.prefix.as_str(), url.readers), ("work_", 9));
        assert_eq!((opts.tcp_port(), opts.db_name()), (3307, Some("jobs")));
        assert_eq!((opts.user(), opts.pass()), (Some("me"), Some("s@cret")));
        assert!(opts.ssl_opts().is_none(), "in the clear on this machine");
        let (url, opts) = parsed("mariadb://me@db.example.org/jobs");
        assert_eq!((url.prefix.as_str(), url.readers), ("hence_", READERS_DEFAULT));
        assert!(opts.ssl_opts().is_some(), "by TLS to any other");
        let (_, opts) = parsed("mysql://me@db.example.org/jobs?sslmode=disable");
        assert!(opts.ssl_opts().is_none());
    }

    #[test]
    fn several_hosts_share_all_but_their_address() {
        let (url, _) = parsed("mysql://me:s%2Ccret@localhost:3307,127.0.0.1,[::1]:3309/jobs");
        let hosts: Vec<Opts> = url.hosts.into_iter().map(Opts::from).collect();
        let shown: Vec<_> = hosts.iter().map(|it| (it.ip_or_hostname(), it.tcp_port())).collect();
        assert_eq!(shown, [("localhost", 3307), ("127.0.0.1", 3306), ("[::1]", 3309)]);
        for opts in &hosts {
            assert_eq!((opts.pass(), opts.db_name()), (Some("s,cret"), Some("jobs")));
            assert!(opts.ssl_opts().is_none(), "all are on this machine");
        }
        let (url, opts) = parsed("mysql://me@localhost,db.example.org/jobs");
        assert!(url.hosts.len() == 2 && opts.ssl_opts().is_some(), "one of them is not");
        let many = |count| format!("mysql://me@{}/jobs", vec!["localhost"; count].join(","));
        assert_eq!(parsed(&many(HOSTS_MAX)).0.hosts.len(), HOSTS_MAX);
        let error = MySqlUrl::parse(&many(HOSTS_MAX + 1)).expect_err("too many").to_string();
        assert!(error.contains(&format!("more than {HOSTS_MAX} hosts")), "{error}");
    }

    #[test]
    fn bad_options_are_named_and_no_password_is_shown() {
        let rows = [
            ("mysql://me:secret@localhost/jobs?prefix=A", "prefix: "),
            ("mysql://me:secret@localhost/jobs?readers=0", "readers: "),
            ("mysql://me:secret@localhost/jobs?readers=65", "readers: "),
            ("mysql://me:secret@localhost/jobs?sslmode=prefer", "sslmode: "),
            ("mysql://me:secret@localhost/jobs?nonsense=1", "store URL: "),
            ("mysql://me:secret@localhost", "store URL: names no database"),
            ("mysql://me:secret@localhost:port/jobs", "store URL: "),
            ("mysql://me:secret@localhost,/jobs", "store URL: cannot be read"),
            ("mysql://me:secret@/jobs", "store URL: cannot be read"),
            ("me:secret", "store URL: "),
        ];
        for (url, start) in rows {
            let error = MySqlUrl::parse(url).expect_err(url).to_string();
            assert!(error.starts_with(start), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
