//! Every key shape of the engine, in one place.
//!
//! A key begins with a letter for its kind and the shard. Numbers are big-endian, so that the
//! order of keys is the order of numbers; instants have their sign bit flipped for the same
//! reason. Texts end with a zero byte, which no name may contain.
//!
//! ```text
//! J shard queue 0 due number              a live job               → job and progress
//! N shard queue 0 key 0 id                where a job's name leads → spot
//! H shard queue 0 outcome ended number    a finished job           → keep until, job, last attempt
//! B shard number order                    an attempt of a live job → attempt
//! A shard number order                    one before the last      → keep until, attempt
//! D shard until number                    a dead job to be swept   → its place
//! L shard number                          a lease                  → due, queue, lease
//! K shard number                          a waiting job holds its key → due, queue
//! C shard queue                           counts                   → counts
//! Q shard queue                           settings                 → settings
//! G shard queue                           a queue that had a job   → nothing
//! S shard id                              a schedule               → schedule
//! T shard id                              how far it has come      → its progress
//! O shard id 0 last number                a record of its ledger   → occurrence
//! M shard                                 the shard itself         → see `values`
//! Z                                       the store itself         → number of shards
//! ```

use hence_core::change::{FinishedPlace, Place};
use hence_core::id::{JobName, JobNumber, QueueName, ScheduleId, ShardId};
use hence_core::job::Outcome;
use hence_core::ledger::LedgerPlace;
use hence_core::time::Timestamp;

pub(crate) const LIVE: u8 = b'J';
pub(crate) const NAME: u8 = b'N';
pub(crate) const FINISHED: u8 = b'H';
pub(crate) const LIVE_ATTEMPT: u8 = b'B';
pub(crate) const KEPT_ATTEMPT: u8 = b'A';
pub(crate) const DEAD: u8 = b'D';
pub(crate) const LEASE: u8 = b'L';
pub(crate) const HOLDER: u8 = b'K';
pub(crate) const COUNTS: u8 = b'C';
pub(crate) const SETTINGS: u8 = b'Q';
pub(crate) const QUEUE: u8 = b'G';
pub(crate) const SCHEDULE: u8 = b'S';
pub(crate) const SCHEDULE_PROGRESS: u8 = b'T';
pub(crate) const OCCURRENCE: u8 = b'O';
pub(crate) const SHARD: u8 = b'M';
/// The one key without a shard.
pub(crate) const STORE: &[u8] = b"Z";

/// Bytes of a kind and a shard.
pub(crate) const HEAD: usize = 3;

/// Orders what was recorded under one number or instant: commit, then position in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order {
    pub(crate) commit: u64,
    pub(crate) index: u32,
}

/// A key under construction; its memory is used again for the next one.
#[derive(Debug, Default)]
pub(crate) struct KeyBuffer {
    bytes: Vec<u8>,
}

impl KeyBuffer {
    pub(crate) fn live(&mut self, shard: ShardId, queue: &QueueName, place: Place) -> &[u8] {
        self.start(LIVE, shard).text(queue.as_str()).instant(place.due_at).number(place.number.0)
    }

    pub(crate) fn name(&mut self, shard: ShardId, name: &JobName) -> &[u8] {
        let key = name.key.as_ref().map_or("", |key| key.as_str());
        self.start(NAME, shard).text(name.queue.as_str()).text(key);
        self.bytes.extend_from_slice(name.id.as_str().as_bytes());
        &self.bytes
    }

    pub(crate) fn finished(
        &mut self,
        shard: ShardId,
        queue: &QueueName,
        place: FinishedPlace,
    ) -> &[u8] {
        self.start(FINISHED, shard).text(queue.as_str());
        self.bytes.push(outcome_byte(place.outcome));
        self.instant(place.at).number(place.number.0)
    }

    pub(crate) fn attempt(
        &mut self,
        kind: u8,
        shard: ShardId,
        number: JobNumber,
        order: Order,
    ) -> &[u8] {
        self.start(kind, shard).number(number.0);
        self.order(order)
    }

    pub(crate) fn dead(
        &mut self,
        shard: ShardId,
        keep_until: Timestamp,
        number: JobNumber,
    ) -> &[u8] {
        self.start(DEAD, shard).instant(keep_until).number(number.0)
    }

    /// A lease or the holder of a key.
    pub(crate) fn numbered(&mut self, kind: u8, shard: ShardId, number: JobNumber) -> &[u8] {
        self.start(kind, shard).number(number.0)
    }

    /// Counts, settings, a queue, a schedule or its progress.
    pub(crate) fn named(&mut self, kind: u8, shard: ShardId, name: &str) -> &[u8] {
        self.start(kind, shard);
        self.bytes.extend_from_slice(name.as_bytes());
        &self.bytes
    }

    pub(crate) fn occurrence(
        &mut self,
        shard: ShardId,
        schedule: &ScheduleId,
        place: LedgerPlace,
    ) -> &[u8] {
        self.start(OCCURRENCE, shard).text(schedule.as_str());
        self.instant(place.last).number(place.number.0)
    }

    pub(crate) fn shard(&mut self, shard: ShardId) -> &[u8] {
        &self.start(SHARD, shard).bytes
    }

    fn start(&mut self, kind: u8, shard: ShardId) -> &mut Self {
        self.bytes.clear();
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&shard.0.to_be_bytes());
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
        self
    }

    fn instant(&mut self, instant: Timestamp) -> &mut Self {
        self.bytes.extend_from_slice(&instant_bytes(instant));
        self
    }

    fn number(&mut self, number: u64) -> &[u8] {
        self.bytes.extend_from_slice(&number.to_be_bytes());
        &self.bytes
    }

    fn order(&mut self, order: Order) -> &[u8] {
        self.bytes.extend_from_slice(&order.commit.to_be_bytes());
        self.bytes.extend_from_slice(&order.index.to_be_bytes());
        &self.bytes
    }
}

/// All keys of a kind in a shard begin so.
pub(crate) fn prefix(kind: u8, shard: ShardId) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&shard.0.to_be_bytes());
    bytes
}

/// … that go on with a text.
pub(crate) fn text_prefix(kind: u8, shard: ShardId, text: &str) -> Vec<u8> {
    let mut bytes = prefix(kind, shard);
    bytes.extend_from_slice(text.as_bytes());
    bytes.push(0);
    bytes
}

/// … that go on with a number.
pub(crate) fn number_prefix(kind: u8, shard: ShardId, number: JobNumber) -> Vec<u8> {
    let mut bytes = prefix(kind, shard);
    bytes.extend_from_slice(&number.0.to_be_bytes());
    bytes
}

/// The first key after all that begin with the prefix.
pub(crate) fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    unreachable!("a prefix begins with a letter")
}

/// The last sixteen bytes of a live or finished key: an instant and a number.
pub(crate) fn place_in(key: &[u8]) -> Option<Place> {
    let at = key.len().checked_sub(16)?;
    let (instant, number) = key[at..].split_at(8);
    Some(Place {
        due_at: instant_from(instant.try_into().ok()?),
        number: JobNumber(u64::from_be_bytes(number.try_into().ok()?)),
    })
}

/// The number right after kind and shard.
pub(crate) fn number_in(key: &[u8]) -> Option<JobNumber> {
    let number = key.get(HEAD..HEAD + 8)?;
    Some(JobNumber(u64::from_be_bytes(number.try_into().ok()?)))
}

/// The last twelve bytes of an attempt's key.
pub(crate) fn order_in(key: &[u8]) -> Option<Order> {
    let at = key.len().checked_sub(12)?;
    let (commit, index) = key[at..].split_at(8);
    Some(Order {
        commit: u64::from_be_bytes(commit.try_into().ok()?),
        index: u32::from_be_bytes(index.try_into().ok()?),
    })
}

pub(crate) fn instant_bytes(instant: Timestamp) -> [u8; 8] {
    (instant.as_millis() as u64 ^ SIGN).to_be_bytes()
}

pub(crate) fn instant_from(bytes: [u8; 8]) -> Timestamp {
    Timestamp::from_millis((u64::from_be_bytes(bytes) ^ SIGN) as i64)
}

const SIGN: u64 = 1 << 63;

/// Part of the format: these bytes are in files.
pub(crate) fn outcome_byte(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Succeeded => 0,
        Outcome::Dead => 1,
        Outcome::Cancelled => 2,
        Outcome::Expired => 3,
    }
}

pub(crate) fn outcome_from(byte: u8) -> Option<Outcome> {
    Outcome::ALL.into_iter().find(|outcome| outcome_byte(*outcome) == byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_like_what_they_stand_for() {
        let place =
            |due, number| Place { due_at: Timestamp::from_millis(due), number: JobNumber(number) };
        let places = [place(i64::MIN, 0), place(-5, 9), place(0, 1), place(0, 2), place(7, 0)];
        let queue = QueueName::default_queue();
        let keys: Vec<Vec<u8>> = places
            .iter()
            .map(|place| KeyBuffer::default().live(ShardId(3), &queue, *place).to_vec())
            .collect();
        assert!(keys.is_sorted());
        for (key, place) in keys.iter().zip(places) {
            assert_eq!(place_in(key), Some(place));
        }
    }

    #[test]
    fn a_prefix_ends_before_the_next_queue() {
        let end = after_prefix(&text_prefix(LIVE, ShardId(0xffff), "a"));
        assert!(end.as_slice() > text_prefix(LIVE, ShardId(0xffff), "a").as_slice());
        assert!(end.as_slice() <= text_prefix(LIVE, ShardId(0xffff), "a.b").as_slice());
    }

    #[test]
    fn outcomes_have_their_bytes_for_ever() {
        assert_eq!(Outcome::ALL.map(outcome_byte), [0, 1, 2, 3]);
        assert_eq!(outcome_from(4), None);
    }
}
