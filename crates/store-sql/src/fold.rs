//! What the commits of a shard come to: its counts, its next number, how far its schedules are, and
//! its leases. A commit adds one row and changes none; now and then all rows are folded into one,
//! and the others are dropped with their partition.

use std::collections::{BTreeMap, HashMap};

use hence_core::id::{JobNumber, QueueName, ScheduleId};
use hence_core::time::Timestamp;

use crate::draft::LeaseRow;
use crate::leases::LeaseLog;
use crate::rows::Stamp;

/// One row of commits.
#[derive(Clone, Debug)]
pub(crate) struct CommitRow {
    pub(crate) stamp: Stamp,
    pub(crate) next_number: JobNumber,
    /// What was to be kept until here is gone, whatever the clock of a reader says.
    pub(crate) swept_until: Timestamp,
    /// Counts of queues, encoded.
    pub(crate) counts: Vec<(QueueName, Vec<u8>)>,
    /// How far schedules came, encoded.
    pub(crate) advanced: Vec<(ScheduleId, Vec<u8>)>,
    pub(crate) leases: Vec<LeaseRow>,
}

/// What rows come to.
#[derive(Clone, Debug)]
pub(crate) struct Folded {
    /// The first row, which may be what an earlier era was folded into; absent when there is none.
    pub(crate) first: Option<Stamp>,
    /// The last row.
    pub(crate) last: Option<Stamp>,
    pub(crate) next_number: JobNumber,
    pub(crate) swept_until: Timestamp,
    pub(crate) counts: BTreeMap<QueueName, Vec<u8>>,
    /// How far schedules came, and when that was.
    pub(crate) advanced: BTreeMap<ScheduleId, (Stamp, Vec<u8>)>,
    pub(crate) leases: LeaseLog,
}

impl Default for Folded {
    fn default() -> Self {
        Folded {
            first: None,
            last: None,
            next_number: JobNumber::default(),
            swept_until: Timestamp::MIN,
            counts: BTreeMap::new(),
            advanced: BTreeMap::new(),
            leases: LeaseLog::default(),
        }
    }
}

impl Folded {
    /// Takes the next row in, by stamp.
    pub(crate) fn add(&mut self, row: CommitRow) {
        let CommitRow { stamp, next_number, swept_until, counts, advanced, leases } = row;
        debug_assert!(self.last < Some(stamp), "rows come in order");
        self.first = self.first.or(Some(stamp));
        self.last = Some(stamp);
        self.next_number = next_number;
        self.swept_until = self.swept_until.max(swept_until);
        self.counts.extend(counts);
        let stamped = |(id, progress)| (id, (stamp, progress));
        self.advanced.extend(advanced.into_iter().map(stamped));
        self.leases.add(stamp, leases);
    }

    /// What a schedule came to before it was put again, by the stamps of what was put, is over:
    /// folded, it would look newer.
    pub(crate) fn drop_stale_progress(&mut self, put: &HashMap<String, Stamp>) {
        self.advanced
            .retain(|id, (stamp, _)| put.get(id.as_str()).is_some_and(|put| *put < *stamp));
    }

    /// How far a schedule is, that was put with this stamp: a later put begins anew.
    pub(crate) fn progress_of(&self, id: &ScheduleId, put: Stamp) -> Option<&[u8]> {
        let (stamp, progress) = self.advanced.get(id)?;
        (*stamp > put).then_some(progress.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_of_everything_counts() {
        let queue = QueueName::default_queue;
        let id = ScheduleId::new("s").unwrap();
        let row = |stamp, next, swept, byte: u8| CommitRow {
            stamp: Stamp(stamp),
            next_number: JobNumber(next),
            swept_until: Timestamp::from_millis(swept),
            counts: vec![(queue(), vec![byte])],
            advanced: vec![(id.clone(), vec![byte])],
            leases: Vec::new(),
        };
        let mut folded = Folded::default();
        assert_eq!(folded.last, None);
        folded.add(row(4, 10, 500, 1));
        folded.add(row(6, 12, 400, 2));
        folded.add(CommitRow { counts: Vec::new(), advanced: Vec::new(), ..row(7, 12, 0, 3) });
        assert_eq!((folded.first, folded.last), (Some(Stamp(4)), Some(Stamp(7))));
        assert_eq!(folded.next_number, JobNumber(12));
        assert_eq!(folded.swept_until, Timestamp::from_millis(500));
        assert_eq!(folded.counts, BTreeMap::from([(queue(), vec![2])]));
        assert_eq!(folded.progress_of(&id, Stamp(5)), Some(&[2][..]));
        assert_eq!(folded.progress_of(&id, Stamp(6)), None, "put with it or later: anew");
        assert_eq!(folded.leases.high(), Stamp(7));
        for (what, put, left) in [("before", 5, 1), ("with it", 6, 0), ("removed", 5, 0)] {
            let mut folded = folded.clone();
            let id = if what == "removed" { "another" } else { "s" };
            folded.drop_stale_progress(&HashMap::from([(id.to_owned(), Stamp(put))]));
            assert_eq!(folded.advanced.len(), left, "put {what}");
        }
    }
}
