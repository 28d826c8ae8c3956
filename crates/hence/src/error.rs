//! What a caller of the library can be told instead of an answer.

use hence_core::error::Rejection;
use hence_store::{ErrorKind, StoreError};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request cannot be granted; nothing was changed.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// More requests are waiting than can be held; nothing was changed. Try again soon.
    #[error("too many requests are waiting; try again in a moment")]
    Busy,
    /// Hence has stopped, or is stopping; the outcome of the request is unknown.
    #[error("hence has stopped")]
    Stopped,
    /// The store could not be read.
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
    /// A value could not be turned into or out of JSON.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
}

impl Error {
    /// The refusal, when it is one.
    pub fn rejection(&self) -> Option<&Rejection> {
        match self {
            Error::Rejected(rejection) => Some(rejection),
            Error::Busy | Error::Stopped | Error::Store(_) | Error::Json(_) => None,
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Busy | Error::Stopped => true,
            Error::Store(error) => error.kind() == ErrorKind::Unavailable,
            Error::Rejected(rejection) => rejection.is_passing(),
            Error::Json(_) => false,
        }
    }
}
