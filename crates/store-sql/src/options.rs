//! How a store is made and opened, whatever the database.

use hence_core::time::Timestamp;
use hence_store::{ErrorKind, StoreError};

use crate::limits::{SHARDS_MAX, SLOT_WIDTH_MAX, SLOT_WIDTH_MIN, SLOTS_AHEAD_MAX};
use crate::slots::Slots;

/// How a store is made and opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// When it is opened: a new store has its slots around this.
    pub now: Timestamp,
    /// How many shards a new store gets; one that is there keeps what it has.
    pub shards: u16,
    /// How time is cut.
    pub slots: Slots,
}

impl Options {
    /// What is right for most, opened at `now`.
    pub fn new(now: Timestamp) -> Self {
        Options { now, shards: 1, slots: Slots::default() }
    }

    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let refused = |message: String| Err(StoreError::new(ErrorKind::Unsupported, message));
        if !(1..=SHARDS_MAX).contains(&self.shards) {
            return refused(format!("shards: must be from 1 to {SHARDS_MAX}"));
        }
        let Slots { width, ahead, behind, era } = self.slots;
        for (field, span) in [("width", width), ("era", era), ("behind", behind)] {
            if !(SLOT_WIDTH_MIN..=SLOT_WIDTH_MAX).contains(&span) {
                return refused(format!(
                    "slots.{field}: must be from {SLOT_WIDTH_MIN} to {SLOT_WIDTH_MAX}"
                ));
            }
        }
        if !(1..=SLOTS_AHEAD_MAX).contains(&ahead) {
            return refused(format!("slots.ahead: must be from 1 to {SLOTS_AHEAD_MAX}"));
        }
        if self.now < Timestamp::EPOCH {
            return refused("now: must not lie before 1970".to_string());
        }
        Ok(())
    }
}

/// Whether statements are run or only shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Run {
    /// They are shown.
    Dry,
    /// They are run.
    Really,
}
