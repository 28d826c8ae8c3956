//! Templates and queues as bytes.

use hence_core::job::JobSpec;
use hence_core::queue::{Counts, QueueSettings, Rate};

use super::wire::{Fault, Reader, Wire, fields};

fields!(JobSpec {
    payload,
    target,
    retry,
    timeout,
    expires_after,
    retention,
    keep_result,
    key_on_failure,
    on_unknown,
});
fields!(QueueSettings { paused_in, paused_out, concurrency, rate, pending_max });
fields!(Rate { count, per });

/// The last field came with version 3: before, a restart forgot it.
impl Wire for Counts {
    fn put(&self, out: &mut Vec<u8>) {
        let Counts {
            pending,
            running,
            dead,
            submitted,
            delivered,
            succeeded,
            failed,
            died,
            cancelled,
            expired,
            replaced,
            rate_used_until_us,
        } = self;
        let first = [pending, running, dead, submitted, delivered, succeeded];
        let rest = [failed, died, cancelled, expired, replaced, rate_used_until_us];
        for number in first.into_iter().chain(rest) {
            number.put(out);
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Counts {
            pending: Wire::take(input)?,
            running: Wire::take(input)?,
            dead: Wire::take(input)?,
            submitted: Wire::take(input)?,
            delivered: Wire::take(input)?,
            succeeded: Wire::take(input)?,
            failed: Wire::take(input)?,
            died: Wire::take(input)?,
            cancelled: Wire::take(input)?,
            expired: Wire::take(input)?,
            replaced: Wire::take(input)?,
            rate_used_until_us: if input.version() >= 3 { Wire::take(input)? } else { 0 },
        })
    }
}
