//! The small values that are the engine's own; jobs and the like are `hence_store::codec`'s.
//!
//! ```text
//! spot      0 | due 8 | number 8                        the job is live
//!           1 | keep until 8 | outcome 1 | ended 8 | number 8   it has finished
//! lease     due 8 | queue 0 | lease (codec)
//! holder    due 8 | queue 0
//! dead      ended 8 | queue, then key, then id, each with a zero byte
//! shard     1 | epoch 4 | sequence 8 | next number 8 | swept until 8 | node
//! kept      keep until 8 | finished job or attempt (codec)
//! store     1 | shards 2
//! ```
//! All numbers are big-endian and instants as in keys. The first byte of spot, shard and store
//! tells versions apart.

use bytes::Bytes;
use hence_core::change::{FinishedPlace, Place};
use hence_core::id::{Epoch, JobId, JobName, JobNumber, Key, QueueName};
use hence_core::job::Lease;
use hence_core::time::Timestamp;
use hence_store::{ErrorKind, StoreError, codec};

use crate::keys::{instant_bytes, instant_from, outcome_byte, outcome_from};

const SPOT_LIVE: u8 = 0;
const SPOT_FINISHED: u8 = 1;
const SHARD_VERSION: u8 = 1;
const STORE_VERSION: u8 = 2;

/// Where the job of a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spot {
    Live(Place),
    /// Lies there at least until the job's time is up.
    Finished {
        place: FinishedPlace,
        lies_until: Timestamp,
    },
}

impl Spot {
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        match self {
            Spot::Live(place) => {
                out.push(SPOT_LIVE);
                out.extend_from_slice(&instant_bytes(place.due_at));
                out.extend_from_slice(&place.number.0.to_be_bytes());
            }
            Spot::Finished { place, lies_until } => {
                out.push(SPOT_FINISHED);
                out.extend_from_slice(&instant_bytes(lies_until));
                out.push(outcome_byte(place.outcome));
                out.extend_from_slice(&instant_bytes(place.at));
                out.extend_from_slice(&place.number.0.to_be_bytes());
            }
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        decode("spot", bytes, |fields| match fields.byte()? {
            SPOT_LIVE => {
                let due_at = fields.instant()?;
                Some(Spot::Live(Place { due_at, number: JobNumber(fields.u64()?) }))
            }
            SPOT_FINISHED => {
                let lies_until = fields.instant()?;
                let outcome = outcome_from(fields.byte()?)?;
                let at = fields.instant()?;
                let number = JobNumber(fields.u64()?);
                let place = FinishedPlace { outcome, at, number };
                Some(Spot::Finished { place, lies_until })
            }
            _ => None,
        })
    }

    /// Until when a name leads somewhere, for the name of a finished job.
    pub(crate) fn keep_until(bytes: &[u8]) -> Option<Timestamp> {
        let (tag, rest) = bytes.split_first()?;
        (*tag == SPOT_FINISHED).then(|| kept_until(rest))?
    }
}

/// The instant in front of what is kept for a while.
pub(crate) fn kept_until(bytes: &[u8]) -> Option<Timestamp> {
    Some(instant_from(bytes.get(..8)?.try_into().ok()?))
}

/// What follows that instant.
pub(crate) fn kept(bytes: &Bytes) -> Result<Bytes, StoreError> {
    if bytes.len() < 8 {
        return Err(malformed("kept value"));
    }
    Ok(bytes.slice(8..))
}

pub(crate) fn encode_lease(due_at: Timestamp, queue: &QueueName, lease: &Lease, out: &mut Vec<u8>) {
    encode_holder(due_at, queue, out);
    codec::encode_lease(lease, out);
}

pub(crate) fn decode_lease(bytes: &Bytes) -> Result<(Timestamp, QueueName, Lease), StoreError> {
    let (due_at, queue, length) = decode("lease", bytes, |fields| {
        let (due_at, queue) = (fields.instant()?, fields.queue()?);
        let left = std::mem::take(&mut fields.0).len();
        Some((due_at, queue, left))
    })?;
    let lease = codec::decode_lease(&bytes.slice(bytes.len() - length..))?;
    Ok((due_at, queue, lease))
}

pub(crate) fn encode_holder(due_at: Timestamp, queue: &QueueName, out: &mut Vec<u8>) {
    out.extend_from_slice(&instant_bytes(due_at));
    put_text(queue.as_str(), out);
}

pub(crate) fn decode_holder(bytes: &[u8]) -> Result<(Timestamp, QueueName), StoreError> {
    decode("holder of a key", bytes, |fields| Some((fields.instant()?, fields.queue()?)))
}

pub(crate) fn encode_dead(at: Timestamp, name: &JobName, out: &mut Vec<u8>) {
    out.extend_from_slice(&instant_bytes(at));
    put_text(name.queue.as_str(), out);
    put_text(name.key.as_ref().map_or("", |key| key.as_str()), out);
    put_text(name.id.as_str(), out);
}

pub(crate) fn decode_dead(bytes: &[u8]) -> Result<(Timestamp, JobName), StoreError> {
    decode("dead job", bytes, |fields| {
        let at = fields.instant()?;
        let queue = fields.queue()?;
        let key = match fields.text()? {
            "" => None,
            text => Some(Key::new(text).ok()?),
        };
        let id = JobId::new(fields.text()?).ok()?;
        Some((at, JobName { queue, key, id }))
    })
}

/// What is known of a shard as such.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShardRecord {
    pub(crate) epoch: Epoch,
    pub(crate) sequence: u64,
    pub(crate) next_number: JobNumber,
    pub(crate) swept_until: Timestamp,
    /// Who owned it last, for people who look into the store.
    pub(crate) node: String,
}

impl ShardRecord {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(SHARD_VERSION);
        out.extend_from_slice(&self.epoch.0.to_be_bytes());
        out.extend_from_slice(&self.sequence.to_be_bytes());
        out.extend_from_slice(&self.next_number.0.to_be_bytes());
        out.extend_from_slice(&instant_bytes(self.swept_until));
        out.extend_from_slice(self.node.as_bytes());
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        check_version("shard", bytes, SHARD_VERSION)?;
        decode("shard", &bytes[1..], |fields| {
            Some(ShardRecord {
                epoch: Epoch(u32::from_be_bytes(fields.array()?)),
                sequence: fields.u64()?,
                next_number: JobNumber(fields.u64()?),
                swept_until: fields.instant()?,
                node: String::from_utf8(std::mem::take(&mut fields.0).to_vec()).ok()?,
            })
        })
    }
}

pub(crate) fn encode_store(shards: u16, out: &mut Vec<u8>) {
    out.push(STORE_VERSION);
    out.extend_from_slice(&shards.to_be_bytes());
}

pub(crate) fn decode_store(bytes: &[u8]) -> Result<u16, StoreError> {
    check_version("store", bytes, STORE_VERSION)?;
    decode("store", &bytes[1..], |fields| Some(u16::from_be_bytes(fields.array()?)))
}

fn check_version(what: &str, bytes: &[u8], known: u8) -> Result<(), StoreError> {
    match bytes.first() {
        Some(version) if *version == known => Ok(()),
        Some(version) => {
            let message = format!("read {what}: version {version} is not {known}");
            Err(StoreError::new(ErrorKind::Version, message))
        }
        None => Err(malformed(what)),
    }
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

fn decode<T>(
    what: &str,
    bytes: &[u8],
    read: impl FnOnce(&mut Fields<'_>) -> Option<T>,
) -> Result<T, StoreError> {
    let mut fields = Fields(bytes);
    read(&mut fields).filter(|_| fields.0.is_empty()).ok_or_else(|| malformed(what))
}

/// A value whose checksums were right and whose content makes no sense.
#[cold]
pub(crate) fn malformed(what: &str) -> StoreError {
    StoreError::new(ErrorKind::Corrupt, format!("read {what}: it is not what was written"))
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn instant(&mut self) -> Option<Timestamp> {
        self.array().map(instant_from)
    }

    fn text(&mut self) -> Option<&'a str> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let text = std::str::from_utf8(&self.0[..end]).ok()?;
        self.0 = &self.0[end + 1..];
        Some(text)
    }

    fn queue(&mut self) -> Option<QueueName> {
        QueueName::new(self.text()?).ok()
    }
}
