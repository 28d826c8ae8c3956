//! SQL through the clients that come with the servers, so that nothing here needs a driver.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Runs a client to its end, and gives what it printed.
pub(crate) fn ask(client: &mut Command, text: &str) -> Result<String> {
    let out = client.stdin(Stdio::null()).output().context("starting the client")?;
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{text}: {}", said.trim());
    Ok(String::from_utf8_lossy(&out.stdout).trim_end().to_owned())
}

/// The same URL with another database.
pub(crate) fn with_database(url: &str, name: &str) -> String {
    let (start, query) = url.split_once('?').map_or((url, None), |(start, q)| (start, Some(q)));
    let authority = start.find("://").map_or(0, |at| at + 3);
    let end = start[authority..].find('/').map_or(start.len(), |at| authority + at);
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{}/{name}{query}", &start[..end])
}

/// The same URL with another `host:port`.
pub(crate) fn with_address(url: &str, address: &str) -> String {
    let authority = url.find("://").map_or(0, |at| at + 3);
    let end = url[authority..].find(['/', '?']).map_or(url.len(), |at| authority + at);
    let host = url[authority..end].rfind('@').map_or(authority, |at| authority + at + 1);
    format!("{}{address}{}", &url[..host], &url[end..])
}

/// The `host:port` of a URL.
pub(crate) fn address(url: &str) -> Result<String> {
    let Parts { host, port, .. } = Parts::of(url)?;
    Ok(port.map_or_else(|| host.clone(), |port| format!("{host}:{port}")))
}

/// A URL taken apart, for clients that do not read one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    pub(crate) database: String,
}

impl Parts {
    /// Of `scheme://user:password@host:port/database`.
    pub(crate) fn of(url: &str) -> Result<Self> {
        let (start, _) = url.split_once('?').unwrap_or((url, ""));
        let (_, rest) = start.split_once("://").with_context(|| format!("no URL: {url}"))?;
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, address) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = who.split_once(':').unwrap_or((who, ""));
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().with_context(|| url.to_owned())?)),
            None => (address, None),
        };
        let [user, password] = [user, password].map(decoded);
        Ok(Parts { user, password, host: host.into(), port, database: database.into() })
    }
}

/// Without percent signs; what is none of ours stays as it is.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match hex.and_then(|two| u8::from_str_radix(two, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_changed_in_one_place() {
        let table = [
            ("postgres://a@h:1/x", "postgres://a@h:1/db", "postgres://a@p:2/x"),
            ("postgres://a:b@h/x?y=/z", "postgres://a:b@h/db?y=/z", "postgres://a:b@p:2/x?y=/z"),
            ("mysql://h", "mysql://h/db", "mysql://p:2"),
            ("mysql://h:1?a=b", "mysql://h:1/db?a=b", "mysql://p:2?a=b"),
            ("mysql://a@h:1,g:2/x", "mysql://a@h:1,g:2/db", "mysql://a@p:2/x"),
        ];
        for (url, database, address) in table {
            assert_eq!(with_database(url, "db"), database, "{url}");
            assert_eq!(with_address(url, "p:2"), address, "{url}");
        }
    }

    #[test]
    fn urls_are_taken_apart() {
        let parts = Parts::of("mysql://a:b%40:c@h:7/db?x=y").unwrap();
        let text = |text: &str| text.to_owned();
        let expected = Parts {
            user: text("a"),
            password: text("b@:c"),
            host: text("h"),
            port: Some(7),
            database: text("db"),
        };
        assert_eq!(parts, expected);
        let parts = Parts::of("mysql://h").unwrap();
        assert_eq!((parts.host.as_str(), parts.port, parts.database.as_str()), ("h", None, ""));
        for (url, expected) in [("mysql://a@h:7/db", "h:7"), ("mysql://h", "h")] {
            assert_eq!(address(url).unwrap(), expected);
        }
        assert!(Parts::of("h").is_err() && Parts::of("mysql://h:x/db").is_err());
    }
}
