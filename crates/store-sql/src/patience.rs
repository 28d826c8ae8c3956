//! How long is waited for a server that may hang: one that takes connections and says nothing, as a
//! process does that was stopped.

use std::time::Duration;

use hence_core::time::Millis;

use crate::limits::{CALL_SECS_MAX, CONNECT_SECS_MAX, LOOK_AROUND_MILLIS};

/// How long is waited for what. A call is long enough to try several servers, and to look around
/// once one of them has answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Patience {
    pub(crate) call: Duration,
    pub(crate) connect: Duration,
    pub(crate) look_around: Duration,
}

impl Patience {
    /// With this much for a call, and the same part of it for the others as by default.
    pub(crate) fn of(call: Millis) -> Self {
        let call = Duration::from_millis(call.get());
        let part = |of: Duration| call.mul_f64(of.as_secs_f64() / CALL_SECS_MAX as f64);
        Patience {
            call,
            connect: part(Duration::from_secs(CONNECT_SECS_MAX)),
            look_around: part(Duration::from_millis(LOOK_AROUND_MILLIS)),
        }
    }
}

impl Default for Patience {
    fn default() -> Self {
        Patience::of(Millis::from_secs(CALL_SECS_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_shortened_by_the_same_factor() {
        let rows = [(30_000, 30_000, 5_000, 1_000), (3_000, 3_000, 500, 100)];
        for (call, expected, connect, look_around) in rows {
            let expected = [expected, connect, look_around].map(Duration::from_millis);
            let Patience { call, connect, look_around } = Patience::of(Millis::new(call));
            assert_eq!([call, connect, look_around], expected);
        }
    }
}
