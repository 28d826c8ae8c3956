//! Schedules and queues as bytes.

use hence_core::job::JobSpec;
use hence_core::queue::{Counts, QueueSettings, Rate};
use hence_core::schedule::{Every, Fate, OccurrenceRecord, Schedule, ScheduleState};

use super::wire::{Fault, Reader, Wire, fields};

fields!(ScheduleState { schedule, next_at, last_at, fired });
fields!(Schedule { id, every, queue, key, template, paused });
fields!(Every { start, interval });
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
fields!(OccurrenceRecord { schedule, at, decided_at, fate });
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

const FATE_RAN: u8 = 0;
const FATE_COALESCED: u8 = 1;
const FATE_TRIGGERED: u8 = 2;

impl Wire for Fate {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Fate::Ran(number) => {
                out.push(FATE_RAN);
                number.put(out);
            }
            Fate::Coalesced(ticks) => {
                out.push(FATE_COALESCED);
                ticks.put(out);
            }
            Fate::Triggered(number) => {
                out.push(FATE_TRIGGERED);
                number.put(out);
            }
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Self, Fault> {
        match input.byte()? {
            FATE_RAN => Ok(Fate::Ran(Wire::take(input)?)),
            FATE_COALESCED => Ok(Fate::Coalesced(Wire::take(input)?)),
            FATE_TRIGGERED => Ok(Fate::Triggered(Wire::take(input)?)),
            _ => Err(Fault::Tag),
        }
    }
}
