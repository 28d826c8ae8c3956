//! What can go wrong in the store, in the words of the person who has to act on it.
//!
//! `Fatal` ends the store: a failed write or sync leaves the page cache and the disk in unknown
//! disagreement, and a second sync that succeeds proves nothing about the first.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of every fallible call of the store.
pub type Result<T> = std::result::Result<T, Error>;

/// One error for the whole store; the variant is the kind.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Another process has the directory open.
    #[error("data directory {} is in use by {holder}", dir.display())]
    Locked {
        /// The directory that was asked for.
        dir: PathBuf,
        /// What the holder wrote about itself into the lock file.
        holder: String,
    },
    /// Bytes on disk are not what was written; nothing was served from them.
    #[error("{} is damaged at byte {offset}: {what}", file.display())]
    Corrupt {
        /// The damaged file.
        file: PathBuf,
        /// Where in the file the first wrong byte may be.
        offset: u64,
        /// What was expected and not found.
        what: String,
    },
    /// The file was written by a version of the format that this build does not know.
    #[error("{} has format version {found}; this build reads up to {supported}", file.display())]
    Version {
        /// The file in question.
        file: PathBuf,
        /// The version found in it.
        found: u32,
        /// The newest version this build reads.
        supported: u32,
    },
    /// No space is left, and the reserve is used up as well.
    #[error("no space left for {}", file.display())]
    Full {
        /// The file that could not be made.
        file: PathBuf,
    },
    /// The batch does not fit into one record; nothing of it was written.
    #[error("a batch of {bytes} bytes is over the limit of {bytes_max}")]
    TooLarge {
        /// The size of the batch.
        bytes: usize,
        /// The largest batch allowed.
        bytes_max: usize,
    },
    /// A write or sync failed. Every later commit fails as well; end the process.
    #[error("cannot {operation} {}: {cause}; the store takes no more writes", file.display())]
    Fatal {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        file: PathBuf,
        /// What the operating system answered.
        cause: Arc<io::Error>,
    },
    /// A file could not be opened or read; the store itself is as before.
    #[error("cannot {operation} {}: {cause}", file.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        file: PathBuf,
        /// What the operating system answered.
        cause: Arc<io::Error>,
    },
}

impl Error {
    /// Whether the error says that the disk is full.
    pub fn is_full(&self) -> bool {
        match self {
            Error::Full { .. } => true,
            Error::Locked { .. }
            | Error::Corrupt { .. }
            | Error::Version { .. }
            | Error::TooLarge { .. }
            | Error::Fatal { .. }
            | Error::Io { .. } => false,
        }
    }

    /// Whether the error says that the file system cannot be written.
    pub(super) fn is_read_only(&self) -> bool {
        matches!(self, Error::Io { cause, .. } if cause.kind() == io::ErrorKind::ReadOnlyFilesystem)
    }

    pub(super) fn corrupt(file: &Path, offset: u64, what: impl Into<String>) -> Self {
        Error::Corrupt { file: file.to_owned(), offset, what: what.into() }
    }

    pub(super) fn io(operation: &'static str, file: &Path, cause: io::Error) -> Self {
        Error::Io { operation, file: file.to_owned(), cause: Arc::new(cause) }
    }

    pub(super) fn fatal(operation: &'static str, file: &Path, cause: io::Error) -> Self {
        Error::Fatal { operation, file: file.to_owned(), cause: Arc::new(cause) }
    }

    /// For files that are not live yet: lack of space is a state of the disk, all else is fatal.
    pub(super) fn full_or_fatal(operation: &'static str, file: &Path, cause: io::Error) -> Self {
        match cause.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Error::Full { file: file.to_owned() },
            _ => Error::fatal(operation, file, cause),
        }
    }
}
