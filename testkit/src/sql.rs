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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_changed_in_one_place() {
        let table = [
            ("postgres://a@h:1/x", "postgres://a@h:1/db"),
            ("postgres://a:b%40c@h/x?y=/z", "postgres://a:b%40c@h/db?y=/z"),
            ("mysql://h", "mysql://h/db"),
            ("mysql://h:1?a=b", "mysql://h:1/db?a=b"),
        ];
        for (url, database) in table {
            assert_eq!(with_database(url, "db"), database, "{url}");
        }
    }
}
