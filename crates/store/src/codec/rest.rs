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
fields!(Counts {
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
});
