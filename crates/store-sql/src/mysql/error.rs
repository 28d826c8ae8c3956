//! What MySQL and MariaDB say, in the contract's words.

use hence_store::{ErrorKind, StoreError};
use mysql_async::Error;

/// An error of the client, with what was tried.
pub(super) fn failed(what: &'static str) -> impl FnOnce(Error) -> StoreError {
    move |error| match error {
        Error::Server(server) => {
            let kind = kind_of(server.code, &server.message);
            let help = help_for(server.code);
            let message = format!("{what}: {} ({}){help}", server.message, server.code);
            StoreError::new(kind, message)
        }
        // Without an answer the outcome is unknown, and the call may be repeated.
        Error::Io(_) => StoreError::caused_by(ErrorKind::Unavailable, what, error),
        Error::Driver(ref driver) => {
            let kind = kind_of_driver(driver);
            StoreError::caused_by(kind, what, error)
        }
        Error::Url(_) | Error::Other(_) => {
            StoreError::caused_by(ErrorKind::Unsupported, what, error)
        }
    }
}

/// A row that cannot be read.
pub(super) fn unreadable(what: &'static str) -> StoreError {
    StoreError::new(ErrorKind::Corrupt, format!("{what}: a column is not what it should be"))
}

fn kind_of_driver(error: &mysql_async::DriverError) -> ErrorKind {
    use mysql_async::DriverError::{
        ConnectionClosed, PacketOutOfOrder, PoolDisconnected, UnexpectedPacket,
    };
    match error {
        // The last two are what a connection looks like that was cut in the middle of a packet.
        ConnectionClosed | PoolDisconnected | PacketOutOfOrder | UnexpectedPacket { .. } => {
            ErrorKind::Unavailable
        }
        _ => ErrorKind::Unsupported,
    }
}

/// No room: the disk, a quota, a tablespace.
const FULL: [u16; 4] = [1021, 1114, 1041, 1857];

/// Codes of trouble that passes.
const PASSES: [u16; 33] = [
    1020, // a row has changed since it was read
    1037, // out of memory
    1038, // out of sort memory
    1040, // too many connections
    1047, // the node is not part of its cluster at present
    1053, // the server is shutting down
    1062, // two did the same at once
    1077, // it shuts down normally
    1129, // too many errors from this host
    1152, // a connection was aborted
    1158, 1159, 1160, 1161, // the network
    1180, // the commit failed
    1184, // a connection was aborted
    1203, // too many connections of this user
    1205, // a lock was not to be had in time
    1206, // too many locks
    1213, // deadlock
    1226, // a limit of this user
    1290, // it is read only: its primary will be back
    1317, // interrupted
    1412, // the table was changed since the snapshot
    1507, // a partition is gone: another node has dropped it
    1517, // a partition is there: another node has made it
    1526, // a partition is missing: another node may make it
    1615, // prepare it again
    1836, // it is read only
    1927, // the connection was killed
    1969, // a statement took too long (MariaDB)
    3024, // a statement took too long (MySQL)
    3572, // a lock was not to be had at once
];

/// Codes of damage.
const DAMAGE: [u16; 6] = [1034, 1194, 1195, 1459, 1712, 1877];

/// Whether the work can be done, but by another server.
pub(super) fn is_elsewhere(code: u16) -> bool {
    matches!(code, 1047 | 1053 | 1290 | 1836)
}

fn kind_of(code: u16, message: &str) -> ErrorKind {
    // What the storage engine or the file system said comes in the message only.
    let no_space = message.contains("No space left on device") || message.contains("error 28");
    match code {
        _ if FULL.contains(&code) || no_space => ErrorKind::Full,
        _ if PASSES.contains(&code) => ErrorKind::Unavailable,
        _ if DAMAGE.contains(&code) => ErrorKind::Corrupt,
        1054 | 1146 => ErrorKind::Version,
        _ => ErrorKind::Unsupported,
    }
}

/// What would help, where that is known.
fn help_for(code: u16) -> &'static str {
    match code {
        1044 | 1045 | 1142 | 1143 | 1227 | 1370 | 1698 => {
            "; run as an administrator: GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, \
             INDEX, CREATE VIEW, CREATE ROUTINE, ALTER ROUTINE ON <database>.* TO <user>"
        }
        1049 => "; make it first: CREATE DATABASE <name>",
        1054 | 1146 => "; the tables are not those of this version: run its migrations",
        1665 => "; set binlog_format to ROW or MIXED",
        1153 => "; set max_allowed_packet to 16M or more",
        1047 => "; the address should name all nodes of the cluster",
        1290 | 1836 => "; the address must lead to the primary",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_kind() {
        let rows = [
            (1205, "Lock wait timeout exceeded", ErrorKind::Unavailable),
            (1213, "Deadlock found", ErrorKind::Unavailable),
            (1047, "WSREP has not yet prepared node", ErrorKind::Unavailable),
            (1517, "Duplicate partition name s7", ErrorKind::Unavailable),
            (1040, "Too many connections", ErrorKind::Unavailable),
            (1290, "running with the --read-only option", ErrorKind::Unavailable),
            (1114, "The table 'jobs' is full", ErrorKind::Full),
            (1021, "Disk full", ErrorKind::Full),
            (1030, "Got error 28 \"No space left on device\" from storage engine", ErrorKind::Full),
            (1030, "Got error 168 from storage engine", ErrorKind::Unsupported),
            (1045, "Access denied", ErrorKind::Unsupported),
            (1146, "Table 'x.jobs' doesn't exist", ErrorKind::Version),
            (1712, "Index jobs is corrupted", ErrorKind::Corrupt),
            (1153, "Got a packet bigger than 'max_allowed_packet'", ErrorKind::Unsupported),
        ];
        for (code, message, kind) in rows {
            assert_eq!(kind_of(code, message), kind, "{code}");
        }
        assert!(help_for(1142).contains("GRANT"));
    }
}
