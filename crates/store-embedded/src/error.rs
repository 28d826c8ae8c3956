//! The store's errors in the words of the engines' contract.

use hence_store::{ErrorKind, StoreError};

use crate::kv::Error;

/// Turns an error of the store into one of the engine; `what` says what was tried.
pub(crate) fn failed(what: &'static str) -> impl Fn(Error) -> StoreError {
    move |error| StoreError::caused_by(kind_of(&error), what, error)
}

/// The same for open, where a file that cannot be read is a mistake of whoever named it.
pub(crate) fn failed_to_open(error: Error) -> StoreError {
    let kind = match &error {
        Error::Io { .. } => ErrorKind::Unavailable,
        other => kind_of(other),
    };
    StoreError::caused_by(kind, "open the store", error)
}

fn kind_of(error: &Error) -> ErrorKind {
    match error {
        Error::Locked { .. } => ErrorKind::Locked,
        Error::Corrupt { .. } => ErrorKind::Corrupt,
        Error::Version { .. } => ErrorKind::Version,
        Error::Full { .. } => ErrorKind::Full,
        Error::TooLarge { .. } => ErrorKind::Unsupported,
        // A disk that fails to read what it held cannot be trusted with what it is given.
        Error::Fatal { .. } | Error::Io { .. } => ErrorKind::Fatal,
    }
}
