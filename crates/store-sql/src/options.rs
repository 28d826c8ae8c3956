//! How a store is made and opened, whatever the database.

use hence_core::time::{Millis, Timestamp};
use hence_store::{ErrorKind, StoreError};

use crate::limits::{
    SHARDS_MAX, SLOT_WIDTH_DEFAULT, SLOT_WIDTH_MAX, SLOT_WIDTH_MIN, SLOTS_AHEAD_DEFAULT,
    SLOTS_AHEAD_MAX,
};

/// How a store is made and opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// When it is opened: a new store has its slots around this.
    pub now: Timestamp,
    /// How many shards a new store gets; one that is there keeps what it has.
    pub shards: u16,
    /// The time that a slot of a new store covers.
    pub slot_width: Millis,
    /// Slots that are open ahead.
    pub slots_ahead: u32,
}

/// Whether statements are run or only shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Run {
    /// They are shown.
    Dry,
    /// They are run.
    Really,
}

impl Options {
    /// What is right for most, opened at `now`.
    pub fn new(now: Timestamp) -> Self {
        let (slot_width, slots_ahead) = (SLOT_WIDTH_DEFAULT, SLOTS_AHEAD_DEFAULT);
        Options { now, shards: 1, slot_width, slots_ahead }
    }

    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let refused = |message: String| Err(StoreError::new(ErrorKind::Unsupported, message));
        if !(1..=SHARDS_MAX).contains(&self.shards) {
            return refused(format!("shards: must be from 1 to {SHARDS_MAX}"));
        }
        if !(SLOT_WIDTH_MIN..=SLOT_WIDTH_MAX).contains(&self.slot_width) {
            return refused(format!(
                "slot_width: must be {} to {} milliseconds",
                SLOT_WIDTH_MIN.get(),
                SLOT_WIDTH_MAX.get()
            ));
        }
        if !(1..=SLOTS_AHEAD_MAX).contains(&self.slots_ahead) {
            return refused(format!("slots_ahead: must be from 1 to {SLOTS_AHEAD_MAX}"));
        }
        if self.now < Timestamp::EPOCH {
            return refused("now: must not lie before 1970".to_string());
        }
        Ok(())
    }
}
