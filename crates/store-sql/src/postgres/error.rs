//! What PostgreSQL says, in the contract's words.

use hence_store::{ErrorKind, StoreError};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// What the columns of a row hold, or why they cannot be read.
pub(super) type Columns<T> = Result<T, Error>;

/// A refusal of the fence: somebody else owns the shard.
pub(super) const FENCED: &str = "HE001";
/// A refusal of the fence: a batch before this one is missing.
pub(super) const GAP: &str = "HE002";
/// A refusal of the fence: the batch was applied before.
pub(super) const REPEATED: &str = "HE003";
/// A refusal of the fence: the rows of the shard lie elsewhere now.
pub(super) const MOVED: &str = "HE004";
/// A refusal of the fence: there is no such shard.
pub(super) const NO_SHARD: &str = "HE005";
/// PostgreSQL has no partition for a row.
pub(super) const NO_PARTITION: &str = "23514";

/// An error of the client, with what was tried.
pub(super) fn failed(what: &'static str) -> impl FnOnce(Error) -> StoreError {
    move |error| translate(what, error)
}

/// The code of a refusal, if the server gave one.
pub(super) fn code(error: &Error) -> Option<&str> {
    error.code().map(SqlState::code)
}

fn translate(what: &'static str, error: Error) -> StoreError {
    let Some(server) = error.as_db_error() else {
        use std::error::Error as _;
        // The client's own words leave out what lies beneath them: `Connection refused`.
        let beneath = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        let help = help_for_certificate(&beneath);
        let message = format!("{what}: {error}{beneath}{help}");
        return StoreError::new(kind_without_code(&error), message);
    };
    let code = server.code().code();
    let kind = kind_of(code);
    let help = help_for(code);
    // The message of the server alone: its detail may show values of a row.
    let message = format!("{what}: {} ({code}){help}", server.message());
    StoreError::new(kind, message)
}

/// Without an answer the outcome is unknown, and the call may be repeated. What cannot be read is
/// not what was written.
fn kind_without_code(error: &Error) -> ErrorKind {
    use std::error::Error as _;
    let io = error.source().is_none_or(<dyn std::error::Error>::is::<std::io::Error>);
    if error.is_closed() || io { ErrorKind::Unavailable } else { ErrorKind::Unsupported }
}

/// The kind of a code. Whole classes end in `*`.
const KINDS: [(&str, ErrorKind); 27] = [
    (FENCED, ErrorKind::Fenced),
    (GAP, ErrorKind::Unsupported),
    (NO_SHARD, ErrorKind::Unsupported),
    (REPEATED, ErrorKind::Unavailable),
    (MOVED, ErrorKind::Unavailable),
    ("53100", ErrorKind::Full),             // disk full
    ("42501", ErrorKind::Unsupported),      // a right is missing
    ("42P01", ErrorKind::Version),          // a table is missing
    ("42703", ErrorKind::Version),          // a column is missing
    ("42883", ErrorKind::Version),          // a function is missing
    ("3F000", ErrorKind::Version),          // the schema is missing
    (NO_PARTITION, ErrorKind::Unavailable), // another node may make it
    ("23505", ErrorKind::Unavailable),      // two did the same at once
    ("25006", ErrorKind::Unavailable),      // a standby: its primary will be back
    ("25P02", ErrorKind::Unavailable),      // after the first error of a transaction
    ("25P03", ErrorKind::Unavailable),      // it was idle for too long
    ("55P03", ErrorKind::Unavailable),      // a lock was not to be had in time
    ("08*", ErrorKind::Unavailable),        // connections
    ("40*", ErrorKind::Unavailable),        // serialization, deadlock
    ("53*", ErrorKind::Unavailable),        // memory, connections
    ("57*", ErrorKind::Unavailable),        // shutting down, starting up, cancelled
    ("58*", ErrorKind::Unavailable),        // input and output
    ("26*", ErrorKind::Unsupported),        // prepared statements
    ("28*", ErrorKind::Unsupported),        // who are you
    ("3D*", ErrorKind::Unsupported),        // no such database
    ("XX001", ErrorKind::Corrupt),          // a damaged page
    ("XX002", ErrorKind::Corrupt),          // a damaged index
];

fn kind_of(code: &str) -> ErrorKind {
    let fits = |pattern: &str| match pattern.strip_suffix('*') {
        Some(class) => code.starts_with(class),
        None => code == pattern,
    };
    let known = KINDS.iter().find(|(pattern, _)| fits(pattern));
    known.map_or(ErrorKind::Unsupported, |(_, kind)| *kind)
}

/// What would help, where that is known.
fn help_for(code: &str) -> &'static str {
    match code {
        "42501" => {
            "; run as an administrator: GRANT CREATE ON DATABASE <database> TO <role>, or make the \
             schema yourself: CREATE SCHEMA hence AUTHORIZATION <role>"
        }
        "3D000" => "; make it first: CREATE DATABASE <name> OWNER <role>",
        "26000" | "42P05" => {
            "; a pooler in transaction mode must keep prepared statements: PgBouncer 1.21 or later \
             with max_prepared_statements above 0"
        }
        "42P01" | "42703" | "42883" | "3F000" => {
            "; the tables are not those of this version: run its migrations"
        }
        _ => "",
    }
}

/// The same for a certificate that is refused, by the words of rustls.
fn help_for_certificate(beneath: &str) -> &'static str {
    if beneath.contains("UnknownIssuer") {
        "; name a file with the certificate of its issuer: sslrootcert=FILE"
    } else if beneath.contains("NotValidForName") || beneath.contains("not valid for name") {
        "; connect by a name that the certificate is made for"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_kind() {
        let rows = [
            ("HE001", ErrorKind::Fenced),
            ("40001", ErrorKind::Unavailable),
            ("40P01", ErrorKind::Unavailable),
            ("53100", ErrorKind::Full),
            ("53300", ErrorKind::Unavailable),
            ("57P01", ErrorKind::Unavailable),
            ("57P03", ErrorKind::Unavailable),
            ("57014", ErrorKind::Unavailable),
            ("25006", ErrorKind::Unavailable),
            ("42501", ErrorKind::Unsupported),
            ("42P01", ErrorKind::Version),
            ("28P01", ErrorKind::Unsupported),
            ("XX001", ErrorKind::Corrupt),
            ("22003", ErrorKind::Unsupported),
        ];
        for (code, kind) in rows {
            assert_eq!(kind_of(code), kind, "{code}");
        }
        assert!(help_for("42501").contains("GRANT"));
    }
}
