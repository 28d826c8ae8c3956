//! What was written comes back.

use std::sync::Arc;

use bytes::Bytes;
use hence_core::change::{Change, LeaseGrant, Place};
use hence_core::id::{Epoch, JobNumber, QueueName, ShardId, Token, WorkerName};
use hence_core::job::{Job, Payload};
use hence_core::time::Timestamp;
use hence_store::{ShardBatch, codec};
use proptest::prelude::*;

use super::{values, written};

/// What a change is after a trip: payloads that no engine can need are gone.
fn stripped(change: &Change) -> Change {
    let bare = |job: &Arc<Job>| Arc::new(Job { payload: Payload::default(), ..Job::clone(job) });
    let mut change = change.clone();
    match &mut change {
        Change::JobFinished { job, finish, keep_payload, .. }
            if !*keep_payload || finish.keep_until <= finish.at =>
        {
            *job = bare(job);
        }
        Change::JobForgotten { job, .. } => *job = bare(job),
        _ => {}
    }
    change
}

macro_rules! round_trips {
    ($($test:ident: $strategy:ident, $encode:ident, $decode:ident;)+) => {
        proptest! {
            $(#[test]
            fn $test(value in values::$strategy()) {
                let bytes = Bytes::from(written(|out| codec::$encode(&value, out)));
                prop_assert_eq!(codec::$decode(&bytes).expect("decodes"), value);
            })+
        }
    };
}

round_trips! {
    jobs: job, encode_job, decode_job;
    progress: progress, encode_progress, decode_progress;
    leases: lease, encode_lease, decode_lease;
    finishes: finish, encode_finish, decode_finish;
    attempts: attempt, encode_attempt, decode_attempt;
    schedules: schedule, encode_schedule, decode_schedule;
    progress_of_schedules: schedule_progress, encode_schedule_progress, decode_schedule_progress;
    occurrences: occurrence, encode_occurrence, decode_occurrence;
    queues: settings, encode_queue, decode_queue;
    counts: counts, encode_counts, decode_counts;
}

proptest! {
    #[test]
    fn live_jobs(job in values::job(), progress in values::progress()) {
        let bytes = Bytes::from(written(|out| codec::encode_live(&job, &progress, out)));
        prop_assert_eq!(codec::decode_live(&bytes).expect("decodes"), (job, progress));
    }

    #[test]
    fn finished_jobs(
        job in values::job(),
        progress in values::progress(),
        finish in values::finish(),
        keep_payload: bool,
    ) {
        let write = |out: &mut Vec<u8>| {
            codec::encode_finished(&job, &progress, &finish, keep_payload, out);
        };
        let found = codec::decode_finished(&Bytes::from(written(write))).expect("decodes");
        let payload = if keep_payload { job.payload.clone() } else { Payload::default() };
        prop_assert_eq!(&*found.job, &Job { payload, ..job });
        prop_assert_eq!((found.progress, found.finish), (progress, finish));
    }

    #[test]
    fn changes(change in values::change()) {
        let bytes = Bytes::from(written(|out| codec::encode_change(&change, out)));
        prop_assert_eq!(codec::decode_change(&bytes).expect("decodes"), stripped(&change));
    }

    #[test]
    fn batches(batch in values::batch()) {
        let bytes = Bytes::from(written(|out| codec::encode_batch(&batch, out)));
        let changes = Arc::new(batch.changes.iter().map(stripped).collect());
        let expected = ShardBatch { changes, ..batch };
        prop_assert_eq!(codec::decode_batch(&bytes).expect("decodes"), expected);
    }

    #[test]
    fn a_payload_shares_memory_with_its_record(job in values::job()) {
        let bytes = Bytes::from(written(|out| codec::encode_job(&job, out)));
        let found = codec::decode_job(&bytes).expect("decodes").payload.bytes;
        let within = bytes.as_ptr_range();
        prop_assert!(found.is_empty() || within.contains(&found.as_ptr()), "it was copied");
    }
}

/// A lease costs one small record a batch, not an update a job.
#[test]
fn a_batch_of_leases_takes_few_bytes_a_job() {
    let now = 1_789_000_000_000;
    let grant = |n: u64| LeaseGrant {
        queue: QueueName::new("mail.transactional").expect("a name"),
        place: Place {
            due_at: Timestamp::from_millis(now - 137 - n as i64),
            number: JobNumber(8_000_000 + 3 * n),
        },
        attempt: 1,
        until: Timestamp::from_millis(now + 30_000),
    };
    let change = Change::LeasesGranted {
        first_token: Token { shard: ShardId(3), epoch: Epoch(12), counter: 7_000_000 },
        holder: WorkerName::new("worker-17").expect("a name"),
        at: Timestamp::from_millis(now),
        leases: (0..100).map(grant).collect(),
    };
    let bytes = written(|out| codec::encode_change(&change, out));
    assert!(bytes.len() <= 100 * 10 + 60, "{} bytes for 100 leases", bytes.len());
}
