//! Names and numbers, each a type of its own. A name is checked once, where it is made; whoever
//! holds one may rely on it.

use alloc::sync::Arc;
use core::fmt;
use core::str::FromStr;

use crate::error::Rejection;
use crate::limits;

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $field:literal, $max:expr, $allowed:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Arc<str>);

        impl $type {
            /// Checks the text and makes the name.
            pub fn new(text: &str) -> Result<Self, Rejection> {
                check_name($field, text, $max, $allowed)?;
                Ok(Self(Arc::from(text)))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl FromStr for $type {
            type Err = Rejection;
            fn from_str(text: &str) -> Result<Self, Rejection> {
                Self::new(text)
            }
        }
    };
}

name!(
    /// A named stream of jobs.
    QueueName, "queue", limits::QUEUE_NAME_BYTES_MAX, Allowed::Plain
);
name!(
    /// Jobs of one (queue, key) run one at a time, in order of due time.
    Key, "key", limits::KEY_BYTES_MAX, Allowed::Printable
);
name!(
    /// Names a job within its (queue, key).
    JobId, "id", limits::JOB_ID_BYTES_MAX, Allowed::Printable
);
name!(
    /// Names a schedule.
    ScheduleId, "schedule", limits::SCHEDULE_ID_BYTES_MAX, Allowed::Plain
);
name!(
    /// Names a handler registered in the process.
    HandlerName, "handler", limits::HANDLER_NAME_BYTES_MAX, Allowed::Plain
);
name!(
    /// Whoever holds a lease: a worker, or this node's own sender.
    WorkerName, "worker", limits::WORKER_NAME_BYTES_MAX, Allowed::Printable
);

macro_rules! known {
    ($($type:ident),*) => {
        $(impl $type {
            /// A name from text that was checked when it became one.
            pub(crate) fn known(text: &str) -> Self {
                Self(Arc::from(text))
            }
        })*
    };
}

known!(Key, JobId, HandlerName);

impl QueueName {
    /// The queue of jobs that name none.
    pub fn default_queue() -> Self {
        Self(Arc::from("default"))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Allowed {
    /// ASCII letters, digits and `. _ : / -`: safe in URLs, labels, keys of every engine.
    Plain,
    /// Any text without white space at the ends and without control characters.
    Printable,
}

fn check_name(
    field: &'static str,
    text: &str,
    max: usize,
    allowed: Allowed,
) -> Result<(), Rejection> {
    if text.is_empty() {
        return Err(Rejection::invalid(field, "must not be empty"));
    }
    if text.len() > max {
        return Err(Rejection::too_long(field, text.len(), max));
    }
    let fits = match allowed {
        Allowed::Plain => text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:/-".contains(&b)),
        Allowed::Printable => !text.chars().any(char::is_control) && text.trim() == text,
    };
    if fits {
        return Ok(());
    }
    Err(Rejection::invalid(
        field,
        match allowed {
            Allowed::Plain => "must hold only ASCII letters, digits and . _ : / -",
            Allowed::Printable => "must not hold control characters or start or end with a space",
        },
    ))
}

/// The full name of a job: what a producer uses to speak of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobName {
    /// The queue it is in.
    pub queue: QueueName,
    /// The key it runs under, if any.
    pub key: Option<Key>,
    /// Its id within the two.
    pub id: JobId,
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{}/{}/{}", self.queue, key, self.id),
            None => write!(f, "{}/{}", self.queue, self.id),
        }
    }
}

/// A job's number within its shard: grows with every job put, never used twice. It breaks ties
/// between equal due times (first come, first served) and is how the store refers to a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct JobNumber(pub u64);

/// A letter's number in the inbox of its store: see [`Input::Letter`](crate::input::Input::Letter).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LetterId(pub u64);

/// A slice of the key space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ShardId(pub u16);

/// Grows with every change of a shard's owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u32);

/// The shard a job belongs to: by its key, or by its id when it has none, so that the jobs of a
/// key are always together.
pub fn shard_of(key: Option<&str>, id: &str, shards: u16) -> ShardId {
    assert!(shards > 0, "a store has at least one shard");
    ShardId((fnv1a(key.unwrap_or(id).as_bytes()) % u64::from(shards)) as u16)
}

/// FNV-1a with a final mix: stable for ever, since stored data is laid out by it.
fn fnv1a(bytes: &[u8]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^= hash >> 33;
    hash.wrapping_mul(0xff51_afd7_ed55_8ccd) ^ (hash >> 29)
}

/// A number for a schedule and a tick, as good as random and the same for ever: moving it moves
/// jobs of schedules that are spread.
pub(crate) fn spread_of(schedule: &str, tick: i64) -> u64 {
    let mut hash = fnv1a(schedule.as_bytes()) ^ (tick as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// A fencing token: epoch and counter in one number, so that it grows with every delivery of a
/// shard, across restarts, without a write of its own. Shown as `shard.epoch.counter`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token {
    /// The shard that granted it.
    pub shard: ShardId,
    /// The ownership it was granted under.
    pub epoch: Epoch,
    /// Grows with every grant of that ownership.
    pub counter: u64,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.shard.0, self.epoch.0, self.counter)
    }
}

impl FromStr for Token {
    type Err = Rejection;

    fn from_str(text: &str) -> Result<Self, Rejection> {
        let mut parts = text.split('.');
        let token = (|| {
            // The parser of numbers would take a sign, too.
            if !text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
                return None;
            }
            let shard = parts.next()?.parse().ok()?;
            let epoch = parts.next()?.parse().ok()?;
            let counter = parts.next()?.parse().ok()?;
            parts.next().is_none().then_some(Token {
                shard: ShardId(shard),
                epoch: Epoch(epoch),
                counter,
            })
        })();
        token.ok_or_else(|| {
            Rejection::invalid("token", "is not a token; use the one that came with the lease")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_are_checked_at_the_door() {
        for good in ["default", "a", "mail.out", "tenant-7:low/prio"] {
            assert!(QueueName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "with space", "tab\t", "emoji🙂", &"x".repeat(65)] {
            assert!(QueueName::new(bad).is_err(), "{bad}");
        }
        assert!(Key::new("Zoë's key").is_ok());
        assert!(Key::new(" lead").is_err());
        assert!(JobId::new("a\nb").is_err());
    }

    #[test]
    fn tokens_survive_their_text_form() {
        let token = Token { shard: ShardId(3), epoch: Epoch(7), counter: 42 };
        assert_eq!(token.to_string(), "3.7.42");
        assert_eq!("3.7.42".parse::<Token>().ok(), Some(token));
        for bad in ["", "1.2", "1.2.3.4", "a.b.c", "-1.2.3", "+1.2.3", "1..3"] {
            assert!(bad.parse::<Token>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_key_decides_the_shard() {
        let with_key = |id| shard_of(Some("user:1"), id, 64);
        assert_eq!(with_key("a"), with_key("b"));
        // Stored data is laid out by this function: its values may never change.
        let rows = [("renew-subscription", 1, 289), ("user:1234", 2, 98), ("Zoë", 10, 106)];
        for (text, of_16, of_1024) in rows {
            assert_eq!(shard_of(None, text, 16), ShardId(of_16), "{text}");
            assert_eq!(shard_of(Some(text), "any", 1_024), ShardId(of_1024), "{text}");
        }
    }
}
