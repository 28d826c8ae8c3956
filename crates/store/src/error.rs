//! One error, with a kind. Whether trying again can help is a property of the kind.

use std::fmt;

/// What went wrong in an engine, and whether it can be tried again.
#[derive(Debug)]
pub struct StoreError {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What sort of trouble it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// Somebody else owns the shard now. Stop acting on it.
    Fenced,
    /// The store cannot be reached or is busy; the outcome of the call is unknown. Try again.
    Unavailable,
    /// Another process uses the same store.
    Locked,
    /// Stored bytes are not what was written. Named with file and offset, never skipped.
    Corrupt,
    /// The store was made by a version this one does not understand.
    Version,
    /// There is no room.
    Full,
    /// What was written may be lost, and it cannot be known: the process must end.
    Fatal,
    /// The engine cannot do this, or the request makes no sense to it.
    Unsupported,
}

impl StoreError {
    /// An error of this kind; `message` is lowercase and says what was tried, on what.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        StoreError { kind, message: message.into(), source: None }
    }

    /// The same, with what caused it.
    pub fn caused_by(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        StoreError { kind, message: message.into(), source: Some(Box::new(source)) }
    }

    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable | ErrorKind::Full)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{}: {source}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as _)
    }
}
