//! What a job in the window costs in memory. Here because the allocator decides it as well.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that unwraps fails with a line number")]

use std::sync::Arc;

use bytes::Bytes;
use hence_core::effect::Effect;
use hence_core::id::{Epoch, JobId, JobName, JobNumber, QueueName, ShardId, WorkerName};
use hence_core::input::Input;
use hence_core::job::{Job, JobSpec, Payload, Progress, Target};
use hence_core::queue::Counts;
use hence_core::shard::{Config, Shard, Snapshot};
use hence_core::time::Timestamp;

const JOBS: usize = 200_000;
const PAGE: usize = 10_000;
const PAYLOAD_BYTES: usize = 100;

/// The most that a job may cost beside its payload.
const BYTES_MAX: u64 = 175;

/// A job as it comes from a store: nothing of it is shared.
fn stored(number: u64) -> (Arc<Job>, Progress) {
    let due_at = Timestamp::from_millis(10_000_000 + number.cast_signed());
    let id = JobId::new(&format!("01JCQRSTUVWXYZ{number:012}")).unwrap();
    let name = JobName { queue: QueueName::default_queue(), key: None, id };
    let payload = Payload { bytes: Bytes::from(vec![b'x'; PAYLOAD_BYTES]), content_type: None };
    let spec = JobSpec { payload, ..JobSpec::new(Target::Worker) };
    let job = spec.job(JobNumber(number), name, due_at, due_at);
    (Arc::new(job), Progress::fresh(due_at))
}

fn resident() -> u64 {
    hence_alloc::give_back();
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    4_096 * pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
}

/// Takes all effects; whether a page was asked for.
fn asks_for_a_page(shard: &mut Shard) -> bool {
    let mut asks = false;
    while let Some(effect) = shard.poll_effect() {
        asks |= matches!(effect, Effect::Load { .. });
    }
    asks
}

#[test]
fn a_job_in_the_window_costs_little_beside_its_payload() {
    let mut config = Config::new(WorkerName::new("node").unwrap());
    // A page is asked for while the window is not half full.
    config.window_jobs = 3 * JOBS;
    let queue = QueueName::default_queue();
    let counts = vec![(queue.clone(), Counts { pending: 2 * JOBS as u64, ..Counts::default() })];
    let snapshot = Snapshot { next_number: JobNumber(1), changes: Vec::new(), counts };
    let mut shard = Shard::recover(ShardId(0), Epoch(1), config, snapshot);
    let now = Timestamp::from_millis(0);
    shard.handle(now, Input::Tick);
    let before = resident();
    for page in 0..JOBS / PAGE {
        assert!(asks_for_a_page(&mut shard), "page {page} is not wanted");
        let jobs = (0..PAGE).map(|nth| stored((page * PAGE + nth) as u64)).collect();
        shard.handle(now, Input::Loaded { queue: queue.clone(), jobs, more: true });
    }
    let each = (resident() - before) / JOBS as u64 - PAYLOAD_BYTES as u64;
    assert!(each <= BYTES_MAX, "{each} bytes beside the payload");
}
