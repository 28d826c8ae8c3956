//! The leases of a shard, kept up by reading what was added since.
//!
//! Leases are written with the commit that granted them and never removed: one counts while the row
//! of its job is live and not younger than the lease. So the log of leases can be read on from
//! where it was left, and asked about any moment since it began: a reader whose view of the rows is
//! a little older than the log still gets the answer of its own moment.

use std::collections::{HashMap, HashSet};

use hence_core::change::Place;
use hence_core::id::{JobNumber, QueueName, ShardId, Token, WorkerName};
use hence_core::job::Lease;
use hence_core::time::Timestamp;
use hence_store::{ErrorKind, StoreError};

use crate::draft::{Grant, LeaseRow};
use crate::rows::{Stamp, number_of};

/// What was granted and extended, by job.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseLog {
    high: Stamp,
    events: HashMap<JobNumber, Vec<Event>>,
}

#[derive(Clone, Debug)]
struct Event {
    stamp: Stamp,
    row: LeaseRow,
}

impl LeaseLog {
    /// How far it was read.
    pub(crate) fn high(&self) -> Stamp {
        self.high
    }

    /// Everything up to here was read.
    pub(crate) fn reach(&mut self, stamp: Stamp) {
        self.high = self.high.max(stamp);
    }

    /// The leases of a commit; nothing, when it was read before.
    pub(crate) fn add(&mut self, stamp: Stamp, rows: Vec<LeaseRow>) {
        if stamp <= self.high {
            return;
        }
        self.high = stamp;
        for row in rows {
            self.events.entry(row.place.number).or_default().push(Event { stamp, row });
        }
    }

    /// Leaves out all leases that are over.
    pub(crate) fn leave_out(&mut self, is_over: impl Fn(Place, Stamp) -> bool) {
        self.events.retain(|_, events| {
            events.retain(|event| !is_over(event.row.place, event.stamp));
            !events.is_empty()
        });
    }

    /// Leaves out all leases but those at these places.
    pub(crate) fn keep(&mut self, places: impl IntoIterator<Item = Place>) {
        let kept: HashSet<Place> = places.into_iter().collect();
        self.events.retain(|_, events| {
            events.retain(|event| kept.contains(&event.row.place));
            !events.is_empty()
        });
    }

    /// The lease of the job whose row has this stamp and stands there, as of a moment.
    pub(crate) fn lease_of(&self, place: Place, row: Stamp, moment: Stamp) -> Option<Lease> {
        let events = self.events.get(&place.number)?.iter();
        let counts = |event: &&Event| {
            event.row.place == place && row <= event.stamp && event.stamp <= moment
        };
        events.filter(counts).fold(None, |held: Option<Lease>, event| {
            let LeaseRow { token, until, grant, .. } = &event.row;
            match grant {
                Some(Grant { attempt, holder, granted_at }) => Some(Lease {
                    token: *token,
                    attempt: *attempt,
                    holder: holder.clone(),
                    granted_at: *granted_at,
                    until: *until,
                }),
                None => held.map(|held| {
                    if held.token == *token { Lease { until: *until, ..held } } else { held }
                }),
            }
        })
    }

    /// The same as a row of its own, to be carried on.
    pub(crate) fn carried(
        &self,
        queue: &QueueName,
        place: Place,
        row: Stamp,
        moment: Stamp,
    ) -> Option<LeaseRow> {
        let Lease { token, attempt, holder, granted_at, until } =
            self.lease_of(place, row, moment)?;
        let grant = Some(Grant { attempt, holder, granted_at });
        Some(LeaseRow { queue: queue.clone(), place, token, until, grant })
    }

    /// Where jobs stood that were ever handed out, as of a moment.
    pub(crate) fn places(&self, moment: Stamp) -> Vec<(&QueueName, Place)> {
        let mut places: Vec<(&QueueName, Place)> = self
            .events
            .values()
            .flatten()
            .filter(|event| event.stamp <= moment && event.row.grant.is_some())
            .map(|event| (&event.row.queue, event.row.place))
            .collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// The columns of a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseColumns<'a> {
    pub(crate) queue: &'a str,
    pub(crate) due_at: i64,
    pub(crate) number: i64,
    pub(crate) token: &'a str,
    pub(crate) until: i64,
    pub(crate) attempt: Option<i32>,
    pub(crate) holder: Option<&'a str>,
    pub(crate) granted_at: Option<i64>,
}

impl LeaseColumns<'_> {
    /// Reads a lease of the commit with this stamp.
    pub(crate) fn read(self, shard: ShardId, stamp: Stamp) -> Result<LeaseRow, StoreError> {
        self.checked().ok_or_else(|| {
            let row = format!("(shard {}, stamp {})", shard.0, stamp.0);
            let message = format!("read commits, row {row}: one of its leases makes no sense");
            StoreError::new(ErrorKind::Corrupt, message)
        })
    }

    fn checked(self) -> Option<LeaseRow> {
        let grant = match (self.attempt, self.holder, self.granted_at) {
            (Some(attempt), Some(holder), Some(granted_at)) => Some(Grant {
                attempt: attempt as u32,
                holder: WorkerName::new(holder).ok()?,
                granted_at: Timestamp::from_millis(granted_at),
            }),
            (None, None, None) => None,
            _ => return None,
        };
        let place =
            Place { due_at: Timestamp::from_millis(self.due_at), number: number_of(self.number) };
        Some(LeaseRow {
            queue: QueueName::new(self.queue).ok()?,
            place,
            token: self.token.parse::<Token>().ok()?,
            until: Timestamp::from_millis(self.until),
            grant,
        })
    }
}

#[cfg(test)]
mod tests {
    use hence_core::id::Epoch;

    use super::*;

    fn place(due: i64) -> Place {
        Place { due_at: Timestamp::from_millis(due), number: JobNumber(1) }
    }

    fn row(due: i64, counter: u64, until: i64, granted: bool) -> LeaseRow {
        let grant = granted.then(|| Grant {
            attempt: 1,
            holder: WorkerName::new("w").unwrap(),
            granted_at: Timestamp::EPOCH,
        });
        LeaseRow {
            queue: QueueName::default_queue(),
            place: place(due),
            token: Token { shard: ShardId(0), epoch: Epoch(1), counter },
            until: Timestamp::from_millis(until),
            grant,
        }
    }

    #[test]
    fn a_lease_counts_for_the_row_it_was_granted_to_and_no_younger_one() {
        let mut log = LeaseLog::default();
        log.add(Stamp(5), vec![row(10, 1, 100, true)]);
        log.add(Stamp(6), vec![row(10, 1, 200, false)]);
        log.add(Stamp(8), vec![row(10, 2, 300, true), row(20, 9, 1, false)]);
        log.add(Stamp(8), vec![row(10, 3, 999, true)]);
        let until = |due, row, moment| {
            log.lease_of(place(due), Stamp(row), Stamp(moment)).map(|it| it.until.as_millis())
        };
        let rows = [
            ("before the grant", (10, 1, 4), None),
            ("granted", (10, 1, 5), Some(100)),
            ("put and granted in one commit", (10, 5, 5), Some(100)),
            ("extended", (10, 1, 6), Some(200)),
            ("moved since", (10, 7, 7), None),
            ("granted again", (10, 7, 8), Some(300)),
            ("another place", (11, 1, 8), None),
            ("an extension alone", (20, 1, 8), None),
        ];
        for (what, (due, row, moment), expected) in rows {
            assert_eq!(until(due, row, moment), expected, "{what}");
        }
        assert_eq!(log.high(), Stamp(8), "a commit that was read before is left out");
        let queue = QueueName::default_queue();
        let carried = log.carried(&queue, place(10), Stamp(1), Stamp(6));
        assert_eq!(carried, Some(row(10, 1, 200, true)), "as extended, and with its grant");
        assert_eq!(log.places(Stamp(8)).len(), 1);
        assert_eq!(log.places(Stamp(4)).len(), 0);
        let mut kept = log.clone();
        kept.keep([place(10)]);
        assert_eq!(kept.places(Stamp(8)).len(), 1);
        kept.keep([place(20)]);
        assert_eq!((kept.places(Stamp(8)).len(), kept.high()), (0, Stamp(8)));
    }

    #[test]
    fn columns_that_make_no_sense_are_named() {
        let good = LeaseColumns {
            queue: "q",
            due_at: 1,
            number: 1,
            token: "0.1.2",
            until: 3,
            attempt: Some(1),
            holder: Some("w"),
            granted_at: Some(0),
        };
        assert!(good.read(ShardId(2), Stamp(9)).is_ok());
        let bad = [
            LeaseColumns { queue: "", ..good },
            LeaseColumns { token: "0.1", ..good },
            LeaseColumns { holder: Some(" "), ..good },
            LeaseColumns { attempt: None, ..good },
        ];
        for columns in bad {
            let error = columns.read(ShardId(2), Stamp(9)).expect_err("bad columns");
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.to_string().contains("commits, row (shard 2, stamp 9)"), "{error}");
        }
    }
}
