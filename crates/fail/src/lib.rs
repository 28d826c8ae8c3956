//! Named places where the program can be made to fail, in builds made for it.
//!
//! A point marks a step between two others: before a write, after a commit and before its answer.
//! In a normal build a point is an empty function and nothing is left of it. With the feature `on`
//! the environment says what happens:
//!
//! | variable | meaning |
//! |---|---|
//! | `HENCE_FAIL=POINT=ACTION` | acts when the point is reached for the first time |
//! | `HENCE_FAIL=POINT=ACTION@N` | when it is reached for the N-th time |
//! | `HENCE_FAIL_REPORT=FILE` | appends `reached POINT` and `fired POINT` to the file, once each |
//! | `HENCE_FAIL_SMALL=1` | small files, so that a short run flushes and merges |
//!
//! Actions: `abort` ends the process on the spot; `error` lets the step fail once, as the system
//! might; `skip` leaves the step out from then on, and says that it was done (syncs only).
//!
//! [`Point`] is the list of all of them; it is closed, and the tests fire every entry.

mod point;

#[cfg(feature = "on")]
mod fire;
#[cfg(feature = "on")]
pub use fire::{arm, reach, small};

#[cfg(not(feature = "on"))]
mod off;
#[cfg(not(feature = "on"))]
pub use off::{arm, reach, small};

pub use point::{OnError, Point};

use std::io;

/// Whether points can fire in this build.
pub const ON: bool = cfg!(feature = "on");

/// What happens at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Nothing: the step is done.
    GoOn,
    /// The step fails.
    Error,
    /// The step is left out and said to be done.
    Skip,
}

/// A step of the disk: done, left out, or failed as a broken disk fails.
pub fn reach_io(point: Point, step: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    match reach(point) {
        Act::GoOn => step(),
        Act::Skip => Ok(()),
        Act::Error => Err(broken_disk()),
    }
}

/// What the system says when a disk is broken: EIO.
pub fn broken_disk() -> io::Error {
    const EIO: i32 = 5;
    io::Error::from_raw_os_error(EIO)
}
