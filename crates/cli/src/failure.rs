//! Why a command did not do what was asked, and the exit code that says so to a script.

use std::process::ExitCode;

use hence_core::when::Problem;

/// A command's end that is not a success: what happened, and what would help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What the shell is told.
    pub(crate) exit: Exit,
    /// What happened: lowercase, says what was tried on what.
    pub(crate) message: String,
    /// The field of the request that was at fault, when one was.
    pub(crate) field: Option<String>,
    /// What to do about it.
    pub(crate) fix: Option<String>,
    /// The text that was not understood, shown with the place.
    pub(crate) unread: Option<Box<Unread>>,
}

/// A text that was not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unread {
    /// What the text is for.
    pub(crate) what: String,
    /// The text.
    pub(crate) text: String,
    /// Where, why, and what could have been meant.
    pub(crate) problem: Problem,
}

/// The exit codes, all of them. `docs/reference/exit-codes.md` is compared with this by a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The reader of our output went away: that is its right, and no failure.
    Quiet,
    /// The server refused, or what was asked for failed.
    Refused,
    /// The command, or a setting, was not understood.
    Usage,
    /// There is no such job or schedule, or no such queue to remove.
    NotFound,
    /// Nobody answers at the server's address, or somebody who is no Hence server.
    Unreachable,
    /// Another process holds the store, or it or the server cannot be used now (`EX_UNAVAILABLE`).
    Unavailable,
    /// Our own mistake (`EX_SOFTWARE`).
    Internal,
    /// A file could not be read or written (`EX_IOERR`).
    Io,
}

impl Exit {
    /// The number the shell sees.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Exit::Quiet => 0,
            Exit::Refused => 1,
            Exit::Usage => 2,
            Exit::NotFound => 3,
            Exit::Unreachable => 4,
            Exit::Unavailable => 69,
            Exit::Internal => 70,
            Exit::Io => 74,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

impl Failure {
    /// A failure with this code.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Failure { exit, message: message.into(), field: None, fix: None, unread: None }
    }

    /// Whether the server was not there, or not to be had, so that nothing was done and it may be
    /// asked again.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self.exit, Exit::Unreachable | Exit::Unavailable)
    }

    /// Refused, or failed.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(Exit::Refused, message)
    }

    /// A file or stream could not be read or written; `what` names it and what was tried.
    pub(crate) fn io(what: impl std::fmt::Display, error: &std::io::Error) -> Self {
        Self::new(Exit::Io, format!("{what}: {error}"))
    }

    /// A text was not understood; `what` names the flag or the field.
    pub(crate) fn not_understood(exit: Exit, what: &str, text: &str, problem: Problem) -> Self {
        let message = format!("{what} is not understood: {}", problem.message);
        let mut failure = Self::new(exit, message);
        let (what, text) = (what.to_owned(), text.to_owned());
        failure.unread = Some(Box::new(Unread { what, text, problem }));
        failure
    }

    /// The answer was not one this version understands.
    pub(crate) fn unexpected(what: impl std::fmt::Display) -> Self {
        Self::new(Exit::Internal, format!("the server's answer was not understood: {what}"))
            .fix("use a client and a server of the same version; hence doctor compares them")
    }

    /// With advice.
    pub(crate) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripts rely on these numbers: a change of one is a change of the interface.
    #[test]
    fn the_documented_exit_codes_are_the_real_ones() {
        let document = include_str!("../../../docs/reference/exit-codes.md");
        let all = [
            Exit::Quiet,
            Exit::Refused,
            Exit::Usage,
            Exit::NotFound,
            Exit::Unreachable,
            Exit::Unavailable,
            Exit::Internal,
            Exit::Io,
        ];
        for exit in all {
            let row = format!("| {} |", exit.code());
            assert!(document.contains(&row), "exit-codes.md has no row {row}");
        }
        let rows = document
            .lines()
            .filter(|line| line.starts_with("| ") && line.contains(char::is_numeric));
        assert_eq!(rows.count(), all.len(), "one row per code");
    }
}
