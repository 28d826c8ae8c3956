//! What a test needs and this machine does not have.

use std::fmt;

/// An error that is no failure: the case cannot run here. [`crate::suite`] shows it as skipped.
#[derive(Debug)]
pub struct Missing(String);

impl Missing {
    /// With the reason, for people: what is not there, and what would help.
    pub fn new(why: impl Into<String>) -> Self {
        Missing(why.into())
    }

    /// The reason.
    pub fn why(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "missing: {}", self.0)
    }
}

impl std::error::Error for Missing {}
