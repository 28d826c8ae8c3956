//! The kinds of a queue's jobs, and what is in memory of each.

use crate::change::Place;
use crate::job::Job;

use super::index::{LANES, Lane};
use super::sorted::Sorted;

/// Which jobs of a queue wait for the same: where one kind stands still, say because no worker
/// comes, the others go on. Jobs with keys are one kind, however they leave: the next of a key must
/// not be handed out while an earlier one is not even in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Pull,
    Push,
    Handler,
    Keyed,
}

pub(super) const KINDS: usize = 4;

impl Kind {
    pub(super) const ALL: [Kind; KINDS] = [Kind::Pull, Kind::Push, Kind::Handler, Kind::Keyed];

    pub(super) fn of(job: &Job) -> Kind {
        Kind::new(job.name.key.is_some(), Lane::of(&job.target))
    }

    pub(super) fn new(keyed: bool, lane: Lane) -> Kind {
        match lane {
            _ if keyed => Kind::Keyed,
            Lane::Pull => Kind::Pull,
            Lane::Push => Kind::Push,
            Lane::Handler => Kind::Handler,
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
