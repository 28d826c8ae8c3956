//! A normal build: no point fires, and the compiler removes them all.

use crate::{Act, Point};

/// Nothing can be armed.
#[inline]
pub fn arm() {}

/// Always goes on.
#[inline]
pub fn reach(_point: Point) -> Act {
    Act::GoOn
}

/// Files have their normal sizes.
#[inline]
pub fn small() -> bool {
    false
}
