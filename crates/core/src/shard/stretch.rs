//! The kinds of a queue's jobs, and what is in memory of each.

use crate::change::Place;

use super::index::{LANES, Lacks, Lane};
use super::sorted::Sorted;

/// Which jobs of a queue wait for the same: where one kind stands still, say because no worker
/// comes, the others go on. Jobs for handlers that are not registered are a kind of their own, and
/// become the other when theirs is. Jobs with keys are one kind, however they leave: the next of a
/// key must not be handed out while an earlier one is not even in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Pull,
    Push,
    Handler,
    Unregistered,
    Keyed,
}

pub(super) const KINDS: usize = 5;

impl Kind {
    pub(super) const ALL: [Kind; KINDS] =
        [Kind::Pull, Kind::Push, Kind::Handler, Kind::Unregistered, Kind::Keyed];

    /// Between these two, jobs change as handlers come and go.
    pub(super) const HANDLED: [Kind; 2] = [Kind::Handler, Kind::Unregistered];

    /// Those that leave in this way, or would.
    pub(super) fn in_lane(lane: Lane) -> &'static [Kind] {
        match lane {
            Lane::Pull => &[Kind::Pull, Kind::Keyed],
            Lane::Push => &[Kind::Push, Kind::Keyed],
            Lane::Handler => &[Kind::Handler, Kind::Unregistered, Kind::Keyed],
        }
    }

    pub(super) fn new(keyed: bool, lane: Lane, lacks: Lacks) -> Kind {
        match (lane, lacks) {
            _ if keyed => Kind::Keyed,
            (Lane::Pull, _) => Kind::Pull,
            (Lane::Push, _) => Kind::Push,
            (Lane::Handler, Lacks::Nothing) => Kind::Handler,
            (Lane::Handler, Lacks::Handler | Lacks::HandlerAsSaid) => Kind::Unregistered,
        }
    }
}

/// One kind of a queue's jobs in memory.
#[derive(Debug)]
pub(super) struct Stretch {
    pub(super) waiting: Sorted<Place>,
    /// By lane: jobs with keys are in all of them, others in their own.
    pub(super) ready: [Sorted<Place>; LANES],
    pub(super) parked: Sorted<Place>,
    /// Every pending job of the kind at or before this place is in memory.
    pub(super) through: Place,
    /// Jobs that count against the window, and their payload bytes.
    pub(super) in_memory: usize,
    pub(super) bytes: usize,
}

impl Default for Stretch {
    fn default() -> Self {
        Stretch {
            waiting: Sorted::default(),
            ready: Default::default(),
            parked: Sorted::default(),
            through: Place::LAST,
            in_memory: 0,
            bytes: 0,
        }
    }
}
