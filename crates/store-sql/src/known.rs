//! What one process knows of the shards of a store. All of it can be read again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hence_core::id::{Epoch, ShardId};
use hence_core::time::Timestamp;
use hence_store::{ErrorKind, LiveJob, Pressure, StoreError};

use crate::fold::Folded;
use crate::found;
use crate::front::Tracker;
use crate::leases::LeaseLog;
use crate::outstanding::Outstanding;
use crate::rows::Stamp;
use crate::slots::Layout;

/// What is known of all shards, and whether there is room.
#[derive(Default)]
pub(crate) struct Known {
    shards: Mutex<HashMap<ShardId, Shard>>,
    full: AtomicBool,
}

#[derive(Default)]
struct Shard {
    layout: Option<Layout>,
    swept_until: Option<Timestamp>,
    log: Option<Arc<EraLog>>,
    owned: Option<Epoch>,
    outstanding: Outstanding,
    waiting: Tracker,
}

/// The leases of one era.
pub(crate) struct EraLog {
    pub(crate) era: i64,
    log: Mutex<LeaseLog>,
}

impl EraLog {
    pub(crate) fn new(era: i64) -> Self {
        EraLog { era, log: Mutex::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, LeaseLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Where the rows of a shard lie, for whoever writes without looking first.
    pub(crate) fn noted_layout(&self, shard: ShardId) -> Option<Layout> {
        self.of(shard, |known| known.layout)
    }

    pub(crate) fn note_layout(&self, shard: ShardId, layout: Layout) {
        self.of(shard, |known| known.layout = Some(layout));
    }

    pub(crate) fn forget_layout(&self, shard: ShardId) {
        self.of(shard, |known| known.layout = None);
    }

    /// What was to be kept until here is gone.
    pub(crate) fn swept_until(&self, shard: ShardId) -> Timestamp {
        self.of(shard, |known| known.swept_until).unwrap_or(Timestamp::MIN)
    }

    /// What was to be kept until `now` is gone; written with the next commit.
    pub(crate) fn sweep_to(&self, shard: ShardId, now: Timestamp) {
        self.of(shard, |known| known.swept_until = known.swept_until.max(Some(now)));
    }

    /// The leases that were read last.
    pub(crate) fn log(&self, shard: ShardId) -> Option<Arc<EraLog>> {
        self.of(shard, |known| known.log.clone())
    }

    /// Remembers the leases of an era, unless a later one is known.
    pub(crate) fn keep_log(&self, shard: ShardId, log: &Arc<EraLog>) {
        self.of(shard, |known| {
            if known.log.as_ref().is_none_or(|old| old.era < log.era) {
                known.log = Some(Arc::clone(log));
            }
        });
    }

    /// The shard is this process's, under this epoch.
    pub(crate) fn note_owned(&self, shard: ShardId, epoch: Epoch) {
        self.of(shard, |known| known.owned = Some(epoch));
    }

    /// Under which epoch this process owns the shard, or did.
    pub(crate) fn owned(&self, shard: ShardId) -> Option<Epoch> {
        self.of(shard, |known| known.owned)
    }

    /// What is known of leases that are not over.
    pub(crate) fn outstanding<T>(
        &self,
        shard: ShardId,
        look: impl FnOnce(&mut Outstanding) -> T,
    ) -> T {
        self.of(shard, |known| look(&mut known.outstanding))
    }

    /// Leaves out leases that this process has seen to end. Most of an era have, and the rows of
    /// their jobs need not be looked at again. The first row says nothing of when its leases were
    /// granted, or by whom: they were carried there. They are few.
    pub(crate) fn leave_out_over(&self, shard: ShardId, folded: &mut Folded) {
        let carried = folded.first;
        self.outstanding(shard, |outstanding| {
            folded.leases.leave_out(|place, stamp| {
                Some(stamp) != carried && outstanding.is_over(place, stamp)
            });
        });
    }

    /// A new owner has read all up to this moment, and found these jobs. Nobody else has committed
    /// since, if it owned the shard before it looked.
    pub(crate) fn note_recovered(
        &self,
        shard: ShardId,
        owned: Option<Epoch>,
        moment: Stamp,
        active: &[LiveJob],
    ) -> Result<(), StoreError> {
        let Some(epoch) = owned else { return Ok(()) };
        let until = Stamp::before(epoch)?.max(moment);
        let leased = active.iter().filter(|live| live.lease.is_some()).map(found::place);
        self.outstanding(shard, |outstanding| outstanding.found(until, leased));
        Ok(())
    }

    /// What is known of the waiting jobs of a shard.
    pub(crate) fn waiting<T>(&self, shard: ShardId, look: impl FnOnce(&mut Tracker) -> T) -> T {
        self.of(shard, |known| look(&mut known.waiting))
    }

    /// Whether there is room, as far as the last commit could tell.
    pub(crate) fn pressure(&self) -> Pressure {
        if self.full.load(Ordering::Acquire) { Pressure::Full } else { Pressure::Normal }
    }

    /// Learns from how a commit ended.
    pub(crate) fn note_room(&self, outcome: &Result<(), StoreError>) {
        match outcome {
            Ok(()) => self.full.store(false, Ordering::Release),
            Err(error) if error.kind() == ErrorKind::Full => {
                self.full.store(true, Ordering::Release);
            }
            Err(_) => {}
        }
    }

    fn of<T>(&self, shard: ShardId, look: impl FnOnce(&mut Shard) -> T) -> T {
        let mut shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        look(shards.entry(shard).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARD: ShardId = ShardId(3);

    #[test]
    fn what_is_known_only_grows() {
        let known = Known::default();
        assert_eq!(known.swept_until(SHARD), Timestamp::MIN);
        for (until, expected) in [(5, 5), (3, 5), (9, 9)] {
            known.sweep_to(SHARD, Timestamp::from_millis(until));
            assert_eq!(known.swept_until(SHARD), Timestamp::from_millis(expected), "{until}");
        }
        assert_eq!(known.swept_until(ShardId(4)), Timestamp::MIN, "another shard");
        for (era, expected) in [(7, 7), (6, 7), (8, 8)] {
            known.keep_log(SHARD, &Arc::new(EraLog::new(era)));
            assert_eq!(known.log(SHARD).map(|log| log.era), Some(expected), "{era}");
        }
    }

    #[test]
    fn a_commit_tells_whether_there_is_room() {
        let known = Known::default();
        let failed = |kind| Err(StoreError::new(kind, "no"));
        let rows = [
            ("full", failed(ErrorKind::Full), Pressure::Full),
            ("says nothing", failed(ErrorKind::Unavailable), Pressure::Full),
            ("fits", Ok(()), Pressure::Normal),
            ("says nothing", failed(ErrorKind::Fenced), Pressure::Normal),
        ];
        for (what, outcome, expected) in rows {
            known.note_room(&outcome);
            assert_eq!(known.pressure(), expected, "{what}");
        }
    }
}
