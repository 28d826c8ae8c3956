//! The ledgers of schedules in a commit: what is recorded, and what is forgotten again.

use std::collections::BTreeSet;

use hence_core::id::{ScheduleId, ShardId};
use hence_core::ledger::OccurrenceRecord;
use hence_core::time::Timestamp;
use hence_store::{StoreError, codec};

use crate::draft::Output;
use crate::keys;
use crate::kv::{Direction, Span};
use crate::read::scan;

/// What a commit recorded so far: the store does not show it yet.
#[derive(Debug, Default)]
pub(crate) struct Ledgers {
    recorded: BTreeSet<Vec<u8>>,
}

impl Ledgers {
    pub(crate) fn record(
        &mut self,
        shard: ShardId,
        record: &OccurrenceRecord,
        out: &mut Output<'_>,
    ) {
        let key = out.key.occurrence(shard, &record.schedule, record.place());
        out.batch.put_with(key, |value| codec::encode_occurrence(record, value));
        self.recorded.insert(key.to_vec());
    }

    /// Forgets the records of a schedule whose last tick is before an instant; all, without one.
    pub(crate) fn forget(
        &mut self,
        shard: ShardId,
        schedule: &ScheduleId,
        before: Option<Timestamp>,
        out: &mut Output<'_>,
    ) -> Result<(), StoreError> {
        let first = keys::text_prefix(keys::OCCURRENCE, shard, schedule.as_str());
        let end = match before {
            Some(before) => {
                let mut end = first.clone();
                end.extend_from_slice(&keys::instant_bytes(before));
                end
            }
            None => keys::after_prefix(&first),
        };
        let span = Span::between(&first, &end);
        let Output { kv, batch, .. } = out;
        scan(*kv, span, Direction::Forward, |key, _| {
            batch.delete(key);
            Ok(std::ops::ControlFlow::Continue(()))
        })?;
        let mine: Vec<Vec<u8>> = self.recorded.range(first..end).cloned().collect();
        for key in mine {
            out.batch.delete(&key);
            self.recorded.remove(&key);
        }
        Ok(())
    }
}
