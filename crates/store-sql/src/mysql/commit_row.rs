//! The row of a commit: lists in columns of JSON, which people can read and the server can take
//! apart (`JSON_TABLE`). What is bytes in the codec is hexadecimal here.

use hence_core::id::{QueueName, ScheduleId, ShardId};
use hence_core::time::Timestamp;
use hence_store::{ErrorKind, StoreError};
use mysql_async::Row;

use super::session::column;
use crate::draft::{Grant, LeaseRow};
use crate::fold::CommitRow;
use crate::front::Fronts;
use crate::leases::LeaseColumns;
use crate::rows::{Stamp, number_column, number_of};

const WHAT: &str = "read commits";

/// Queue, due time, number, token, end; and of a grant attempt, holder and beginning.
type LeaseJson<'a> = (&'a str, i64, i64, String, i64, Option<i32>, Option<&'a str>, Option<i64>);

/// The same as it is read: a text with an escape in it cannot be borrowed.
type OwnedLease = (String, i64, i64, String, i64, Option<i32>, Option<String>, Option<i64>);

/// The columns of [`read`], in its order.
pub(super) const COLUMNS: &str = "stamp, next_number, swept_until, counts, advanced, leases";

/// Leases as JSON; none for none.
pub(super) fn leases_json(leases: &[LeaseRow]) -> Option<String> {
    let rows: Vec<LeaseJson<'_>> = leases.iter().map(lease_json).collect();
    json(&rows)
}

/// Names and bytes as JSON; none for none.
pub(super) fn pairs_json<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Option<String> {
    let rows: Vec<(&str, String)> =
        pairs.into_iter().map(|(name, value)| (name, hex(value))).collect();
    json(&rows)
}

/// Where queues begin, as JSON; none for none.
pub(super) fn fronts_json(fronts: &Fronts) -> Option<String> {
    let rows: Vec<(&str, i64)> =
        fronts.iter().map(|(queue, front)| (queue.as_str(), front.as_millis())).collect();
    json(&rows)
}

/// Reads where queues begin.
pub(super) fn fronts(
    shard: ShardId,
    stamp: Stamp,
    text: Option<Vec<u8>>,
) -> Result<Fronts, StoreError> {
    let Some(text) = text else { return Ok(Fronts::default()) };
    let rows: Option<Vec<(String, i64)>> = serde_json::from_slice(&text).ok();
    let read = |(queue, front): (String, i64)| {
        Some((QueueName::new(&queue).ok()?, Timestamp::from_millis(front)))
    };
    let rows = rows.and_then(|rows| rows.into_iter().map(read).collect());
    rows.ok_or_else(|| damaged(shard, stamp, "its fronts"))
}

/// Reads a row.
pub(super) fn read(shard: ShardId, mut row: Row) -> Result<CommitRow, StoreError> {
    let stamp = Stamp(column(WHAT, &mut row, 0)?);
    let counts = pairs(shard, stamp, column(WHAT, &mut row, 3)?, |name| QueueName::new(name).ok())?;
    let advanced =
        pairs(shard, stamp, column(WHAT, &mut row, 4)?, |name| ScheduleId::new(name).ok())?;
    Ok(CommitRow {
        stamp,
        next_number: number_of(column(WHAT, &mut row, 1)?),
        swept_until: Timestamp::from_millis(column(WHAT, &mut row, 2)?),
        counts,
        advanced,
        leases: leases(shard, stamp, column(WHAT, &mut row, 5)?)?,
    })
}

/// Reads the leases of a row.
pub(super) fn leases(
    shard: ShardId,
    stamp: Stamp,
    text: Option<Vec<u8>>,
) -> Result<Vec<LeaseRow>, StoreError> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let rows: Vec<OwnedLease> =
        serde_json::from_slice(&text).map_err(|_| damaged(shard, stamp, "its leases"))?;
    let read = |row: &OwnedLease| {
        let columns = LeaseColumns {
            queue: &row.0,
            due_at: row.1,
            number: row.2,
            token: &row.3,
            until: row.4,
            attempt: row.5,
            holder: row.6.as_deref(),
            granted_at: row.7,
        };
        columns.read(shard, stamp)
    };
    rows.iter().map(read).collect()
}

fn lease_json(lease: &LeaseRow) -> LeaseJson<'_> {
    let LeaseRow { queue, place, token, until, grant } = lease;
    let grant = grant.as_ref();
    let attempt = grant.map(|Grant { attempt, .. }| *attempt as i32);
    let holder = grant.map(|Grant { holder, .. }| holder.as_str());
    let granted_at = grant.map(|Grant { granted_at, .. }| granted_at.as_millis());
    let (due_at, number) = (place.due_at.as_millis(), number_column(place.number));
    (
        queue.as_str(),
        due_at,
        number,
        token.to_string(),
        until.as_millis(),
        attempt,
        holder,
        granted_at,
    )
}

fn json<T: serde::Serialize>(rows: &[T]) -> Option<String> {
    let text = || serde_json::to_string(rows).expect("lists of texts and numbers are JSON");
    (!rows.is_empty()).then(text)
}

fn pairs<T>(
    shard: ShardId,
    stamp: Stamp,
    text: Option<Vec<u8>>,
    name: impl Fn(&str) -> Option<T>,
) -> Result<Vec<(T, Vec<u8>)>, StoreError> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let rows: Option<Vec<(String, String)>> = serde_json::from_slice(&text).ok();
    let read = |(key, value): (String, String)| Some((name(&key)?, unhex(&value)?));
    let rows = rows.and_then(|rows| rows.into_iter().map(read).collect());
    rows.ok_or_else(|| damaged(shard, stamp, "one of its lists"))
}

fn damaged(shard: ShardId, stamp: Stamp, what: &str) -> StoreError {
    let row = format!("(shard {}, stamp {})", shard.0, stamp.0);
    StoreError::new(ErrorKind::Corrupt, format!("{WHAT}, row {row}: {what} cannot be read"))
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let pair = |pair: &[u8]| Some(digit(pair.first()?)? << 4 | digit(pair.get(1)?)?);
    text.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use hence_core::change::Place;
    use hence_core::id::{Epoch, JobNumber, Token, WorkerName};

    use super::*;

    #[test]
    fn lists_come_back_as_they_were() {
        let lease = |grant| LeaseRow {
            queue: QueueName::new("mail.out").unwrap(),
            place: Place { due_at: Timestamp::from_millis(-5), number: JobNumber(7) },
            token: Token { shard: ShardId(3), epoch: Epoch(2), counter: 9 },
            until: Timestamp::from_millis(99),
            grant,
        };
        let grant = Grant {
            attempt: 2,
            holder: WorkerName::new("Zoë's \"worker\"").unwrap(),
            granted_at: Timestamp::from_millis(1),
        };
        let rows = vec![lease(Some(grant)), lease(None)];
        let text = leases_json(&rows).unwrap();
        assert_eq!(leases(ShardId(3), Stamp(1), Some(text.into_bytes())).unwrap(), rows);
        assert_eq!(leases_json(&[]), None);
        assert!(leases(ShardId(3), Stamp(1), None).unwrap().is_empty());
        let queue = |name: &str| QueueName::new(name).unwrap();
        let fronts = [(queue("a"), Timestamp::MAX), (queue("b.c"), Timestamp::from_millis(-7))];
        let fronts = Fronts::from(fronts);
        let text = fronts_json(&fronts).unwrap();
        assert_eq!(super::fronts(ShardId(3), Stamp(1), Some(text.into_bytes())).unwrap(), fronts);
        assert_eq!(fronts_json(&Fronts::default()), None);
        let all: Vec<u8> = (0..=255).collect();
        let text = pairs_json([("a", all.as_slice()), ("b", &[])]).unwrap();
        let back =
            pairs(ShardId(3), Stamp(1), Some(text.into_bytes()), |name| Some(name.to_owned()));
        assert_eq!(back.unwrap(), [("a".to_owned(), all), ("b".to_owned(), Vec::new())]);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for bad in ["", "{}", "[1]", "[[1,2]]", r#"[["q","0"]]"#, r#"[["q","zz"]]"#] {
            let error = pairs(ShardId(2), Stamp(9), Some(bad.into()), |name| Some(name.to_owned()));
            let error = error.expect_err(bad);
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.to_string().contains("row (shard 2, stamp 9)"), "{error}");
            assert!(leases(ShardId(2), Stamp(9), Some(bad.into())).is_err(), "{bad}");
            assert!(fronts(ShardId(2), Stamp(9), Some(bad.into())).is_err(), "{bad}");
        }
    }
}
