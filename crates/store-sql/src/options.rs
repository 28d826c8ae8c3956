//! How a store is made and opened, whatever the database.

use hence_core::time::{Millis, Timestamp};
use hence_store::{ErrorKind, StoreError};

use crate::limits::{
    CALL_MILLIS_MIN, CALL_SECS_MAX, SHARDS_MAX, SLOT_WIDTH_MAX, SLOT_WIDTH_MIN, SLOTS_AHEAD_MAX,
};
use crate::patience::Patience;
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
    /// How long one call may take before the server counts as hanging, and another one is tried if
    /// there is one. Connecting gets a sixth of it.
    pub call: Millis,
}

/// What a store was made with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Meta {
    pub(crate) shards: u16,
    pub(crate) width: Millis,
    pub(crate) era: Millis,
}

impl Meta {
    /// From the columns of the only row of its table.
    pub(crate) fn read(shards: i64, width: i64, era: i64) -> Result<Self, StoreError> {
        let span = |millis: i64| u64::try_from(millis).ok().filter(|it| *it > 0).map(Millis::new);
        let shards = u16::try_from(shards).ok().filter(|shards| *shards > 0);
        let meta = shards.zip(span(width).zip(span(era)));
        let nonsense = || {
            let message = "read meta: its only row makes no sense";
            StoreError::new(ErrorKind::Corrupt, message)
        };
        let (shards, (width, era)) = meta.ok_or_else(nonsense)?;
        Ok(Meta { shards, width, era })
    }
}

impl Options {
    /// What is right for most, opened at `now`.
    pub fn new(now: Timestamp) -> Self {
        let call = Millis::from_secs(CALL_SECS_MAX);
        Options { now, shards: 1, slots: Slots::default(), call }
    }

    /// What a new store is made with.
    pub(crate) fn meta(&self) -> Meta {
        let Slots { width, era, .. } = self.slots;
        Meta { shards: self.shards, width, era }
    }

    pub(crate) fn patience(&self) -> Patience {
        Patience::of(self.call)
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
        let (least, most) = (Millis::new(CALL_MILLIS_MIN), Millis::from_secs(CALL_SECS_MAX));
        if !(least..=most).contains(&self.call) {
            return refused(format!("call: must be from {least} to {most}"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_store_was_made_with_is_damage() {
        let meta = Options::new(Timestamp::EPOCH).meta();
        let (width, era) = (meta.width.get() as i64, meta.era.get() as i64);
        assert_eq!(Meta::read(1, width, era).unwrap(), meta);
        for (shards, width, era) in [(0, 1, 1), (70_000, 1, 1), (1, 0, 1), (1, 1, -1)] {
            let refused = Meta::read(shards, width, era).expect_err("nonsense");
            assert_eq!(refused.kind(), ErrorKind::Corrupt, "{shards} {width} {era}");
        }
    }

    #[test]
    fn what_is_out_of_bounds_is_named() {
        let good = || Options::new(Timestamp::EPOCH);
        let long = Millis::new(SLOT_WIDTH_MAX.get() + 1);
        let rows = [
            ("shards", Options { shards: 0, ..good() }),
            ("shards", Options { shards: SHARDS_MAX + 1, ..good() }),
            ("slots.width", Options { slots: Slots { width: long, ..good().slots }, ..good() }),
            ("slots.era", Options { slots: Slots { era: long, ..good().slots }, ..good() }),
            ("slots.behind", Options { slots: Slots { behind: long, ..good().slots }, ..good() }),
            ("slots.ahead", Options { slots: Slots { ahead: 0, ..good().slots }, ..good() }),
            ("call", Options { call: Millis::new(CALL_MILLIS_MIN - 1), ..good() }),
            ("call", Options { call: Millis::from_secs(CALL_SECS_MAX + 1), ..good() }),
            ("now", Options { now: Timestamp::from_millis(-1), ..good() }),
        ];
        assert!(good().check().is_ok());
        for (field, options) in rows {
            let refused = options.check().expect_err(field);
            assert_eq!(refused.kind(), ErrorKind::Unsupported, "{field}");
            assert!(refused.to_string().contains(&format!("{field}: must")), "{refused}");
        }
    }
}
