//! A queue's settings and its counts. Counts are kept with every change, never found by counting.

use alloc::vec::Vec;

use crate::error::Rejection;
use crate::id::{HandlerName, QueueName};
use crate::time::Millis;

/// What an operator decided about a queue. The default: open, unlimited.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QueueSettings {
    /// New jobs are refused.
    pub paused_in: bool,
    /// Nothing is handed out.
    pub paused_out: bool,
    /// At most so many jobs run at once.
    pub concurrency: Option<u32>,
    /// At most so many jobs are started in a time.
    pub rate: Option<Rate>,
    /// At most so many jobs may be pending.
    pub pending_max: Option<u64>,
}

/// `count` starts per `per`, with bursts of up to `count`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Starts …
    pub count: u32,
    /// … in this time.
    pub per: Millis,
}

impl QueueSettings {
    /// Every number makes sense.
    pub fn check(&self) -> Result<(), Rejection> {
        if self.concurrency == Some(0) {
            return Err(Rejection::invalid(
                "concurrency",
                "must be at least 1; pause the queue instead",
            ));
        }
        if let Some(rate) = self.rate {
            if rate.count == 0 || rate.per == Millis::ZERO {
                return Err(Rejection::invalid(
                    "rate",
                    "must have a count and a time, both above zero",
                ));
            }
            if rate.per > Millis::from_secs(24 * 3600) {
                return Err(Rejection::out_of_range("rate.per", "1ms", "1 day"));
            }
        }
        Ok(())
    }
}

/// What a queue holds and what went through it, and how far that used up its rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Live jobs that are not running: scheduled or ready.
    pub pending: u64,
    /// Jobs handed out.
    pub running: u64,
    /// Dead jobs made and neither replayed nor removed since.
    pub dead: u64,
    /// Jobs accepted since the beginning.
    pub submitted: u64,
    /// Deliveries since the beginning.
    pub delivered: u64,
    /// Successes since the beginning.
    pub succeeded: u64,
    /// Failed attempts since the beginning.
    pub failed: u64,
    /// Jobs that died since the beginning.
    pub died: u64,
    /// Jobs cancelled since the beginning.
    pub cancelled: u64,
    /// Jobs expired since the beginning.
    pub expired: u64,
    /// Jobs replaced by one of the same name since the beginning.
    pub replaced: u64,
    /// Until when the rate is used up, in microseconds since the epoch: all that it has to know.
    pub rate_used_until_us: u64,
}

/// A queue as it can be looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueView {
    /// Its name.
    pub name: QueueName,
    /// Its settings.
    pub settings: QueueSettings,
    /// Its counts.
    pub counts: Counts,
    /// Due jobs in memory that wait for a worker or a limit.
    pub ready: u64,
    /// Jobs of the queue held in memory.
    pub in_memory: u64,
    /// Since when the oldest due job waits: its due time, or its submission if that came later.
    pub oldest_ready: Option<crate::time::Timestamp>,
    /// Due jobs in memory whose handler is not registered.
    pub unregistered: u64,
    /// The handlers they wait for, in order of name: some, if they are very many.
    pub missing_handlers: Vec<HandlerName>,
}
