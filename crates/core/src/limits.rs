//! Every bound of the system as a named constant, with its reason. Reaching one has a tested
//! behaviour: a refusal that names the field and the limit.

use crate::time::Millis;

/// A queue's name: it becomes a metric label and a part of every stored key.
pub const QUEUE_NAME_BYTES_MAX: usize = 64;
/// A job's id: long enough for a URL-safe digest with a prefix.
pub const JOB_ID_BYTES_MAX: usize = 128;
/// A key, such as `user:1234`.
pub const KEY_BYTES_MAX: usize = 256;
/// A schedule's id: leaves room in a job id for `@` and the instant of the occurrence.
pub const SCHEDULE_ID_BYTES_MAX: usize = 96;
/// A handler's name.
pub const HANDLER_NAME_BYTES_MAX: usize = 128;
/// A worker's name, shown in the list of leases.
pub const WORKER_NAME_BYTES_MAX: usize = 128;
/// A payload: what one job may carry; larger things belong in an object store, with a link here.
pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;
/// A kept result: as large as a payload, since one job's result is often the next job's payload.
pub const RESULT_BYTES_MAX: usize = 1024 * 1024;
/// A result that is taken while the store is full: what it keeps free is for recording how accepted
/// work ends, of all of it. A larger one is refused, and the worker can try again.
pub const RESULT_WHEN_FULL_BYTES_MAX: usize = 4 * 1024;
/// A content type.
pub const CONTENT_TYPE_BYTES_MAX: usize = 128;
/// The reason of a failure, as kept with the attempt; longer ones are cut, never refused.
pub const REASON_BYTES_MAX: usize = 1_000;
/// A target's URL.
pub const URL_BYTES_MAX: usize = 2_048;
/// Headers of one HTTP target.
pub const HEADERS_MAX: usize = 50;
/// All header names and values of one HTTP target together.
pub const HEADER_BYTES_MAX: usize = 8_192;
/// Attempts a retry policy may ask for: a hundred years of daily attempts is a mistake.
pub const ATTEMPTS_MAX: u32 = 10_000;
/// Delays in a retry list.
pub const RETRY_DELAYS_MAX: usize = 100;
/// One delay between attempts.
pub const RETRY_DELAY_MAX: Millis = Millis::from_secs(30 * 24 * 3600);
/// How long one attempt may take.
pub const TIMEOUT_MAX: Millis = Millis::from_secs(24 * 3600);
/// The shortest attempt: less than a loopback round trip under load is a mistake.
pub const TIMEOUT_MIN: Millis = Millis::new(10);
/// How long a worker may hold a lease before it must extend it: as long as an attempt may take,
/// which is the lease of a worker that asks for none.
pub const LEASE_MAX: Millis = TIMEOUT_MAX;
/// The shortest lease: below it a healthy worker loses jobs to scheduling noise.
pub const LEASE_MIN: Millis = Millis::new(100);
/// How long a finished job is kept at most.
pub const RETENTION_MAX: Millis = Millis::from_secs(10 * 366 * 24 * 3600);
/// How long an idempotency key is remembered at least, from the submission on: a producer that
/// was cut off repeats its request within the day, or not at all.
pub const IDEMPOTENCY_KEPT: Millis = Millis::from_secs(24 * 3600);
/// How far ahead a job may be due: beyond it a unit was mistaken.
pub const DUE_AHEAD_MAX: Millis = Millis::from_secs(200 * 366 * 24 * 3600);
/// Jobs handed out in one lease request.
pub const LEASE_BATCH_MAX: u32 = 1_000;
/// Queues named in one lease request.
pub const LEASE_QUEUES_MAX: usize = 100;
/// Jobs in one submission.
pub const SUBMIT_BATCH_MAX: usize = 1_000;
/// Rows of one page of a list.
pub const PAGE_MAX: usize = 1_000;
/// Due jobs looked at one by one for the view of a queue: it must not walk over a backlog, and the
/// first ones usually say it.
pub const BACKLOG_LOOK_MAX: usize = 1_000;
/// Missing handlers named in the view of a queue: enough to find the mistake.
pub const MISSING_HANDLERS_MAX: usize = 10;
/// Queues of one shard: each costs a little memory for ever.
pub const QUEUES_MAX: usize = 10_000;
/// Schedules of one shard.
pub const SCHEDULES_MAX: usize = 1_000_000;
/// The shortest interval of a schedule.
pub const EVERY_MIN: Millis = Millis::new(100);
/// How late a tick may be and still count as in time: beyond a day it is another day's tick.
pub const GRACE_MAX: Millis = Millis::from_secs(24 * 3600);
/// The window into which a schedule's jobs are spread.
pub const SPREAD_MAX: Millis = Millis::from_secs(24 * 3600);
/// Missed ticks that a schedule may ask to be run after all: each becomes a job at once.
pub const MISFIRE_LAST_MAX: u32 = 1_000;
/// The pace of catching up and of a backfill: slower than a job a day is never done.
pub const PACE_MAX: Millis = Millis::from_secs(24 * 3600);
/// Ticks that wait for the end of a job: they are written with every tick of their schedule.
pub const WAITING_TICKS_MAX: usize = 100;
/// Ticks of one backfill: each becomes a job, and a mistaken year must not become a million.
pub const BACKFILL_TICKS_MAX: u64 = 10_000;
/// The note of a pause: a sentence or two.
pub const PAUSE_NOTE_BYTES_MAX: usize = 500;
/// How long the ledger remembers, at least: less could not be looked at.
pub const LEDGER_RETENTION_MIN: Millis = Millis::from_secs(60);
/// How long the ledger remembers, at most.
pub const LEDGER_RETENTION_MAX: Millis = RETENTION_MAX;
/// Ticks acted on in one call: bounds how long everything else waits for them.
pub const TICKS_PER_CALL_MAX: usize = 1_000;
/// Bytes of facts that time alone makes in one call: bounds a commit. A call that gets there leaves
/// the rest to the next one, for which its deadline asks at once.
pub const FACT_BYTES_PER_CALL_MAX: usize = 2 * 1024 * 1024;
/// Ticks looked at one by one in a single step, where they cannot be counted at once.
pub const TICKS_WALKED_MAX: usize = 10_000;
/// Records of the ledger read in one page.
pub const RECALL_MAX: usize = 1_000;
/// How long after the epoch a schedule may start: the year 2300, within every calendar's reach.
pub const START_MAX: Millis = Millis::from_secs(330 * 365 * 24 * 3600);
/// Times a job may take its process down with it before it is set aside as dead.
pub const CRASHES_MAX: u32 = 3;
/// Finished leases remembered so that a repeated acknowledgement is answered as the first was.
pub const FINISHED_TOKENS_MAX: usize = 65_536;
/// Added to a push's own timeout before the core gives the delivery up: the target reports its
/// timeout itself, this is the net below it.
pub const PUSH_LEASE_GRACE: Millis = Millis::from_secs(5);

/// Default number of attempts.
pub const ATTEMPTS_DEFAULT: u32 = 10;
/// Default first delay of the exponential back-off.
pub const BACKOFF_FIRST_DEFAULT: Millis = Millis::from_secs(1);
/// Default growth of its delays, in per cent: each is twice the one before.
pub const BACKOFF_FACTOR_PERCENT_DEFAULT: u32 = 200;
/// Default largest delay between attempts, unless a longer one is spelled out.
pub const BACKOFF_CAP_DEFAULT: Millis = Millis::from_secs(3600);
/// Default jitter of the exponential back-off: enough to part a herd, little enough to stay
/// predictable. Delays that are spelled out have none.
pub const JITTER_PERCENT_DEFAULT: u8 = 10;
/// Default grace of a tick, when its next one is not due before: long enough for a restart.
pub const GRACE_DEFAULT: Millis = Millis::from_secs(60);
/// Default time that the ledger remembers: a quarter's worth of "did it run?".
pub const LEDGER_RETENTION_DEFAULT: Millis = Millis::from_secs(90 * 24 * 3600);
/// Default time for one attempt.
pub const TIMEOUT_DEFAULT: Millis = Millis::from_secs(30);
/// Default time a finished job can still be looked at.
pub const RETENTION_DEFAULT: Millis = Millis::from_secs(3600);
/// Default time a dead job waits for a human.
pub const DEAD_RETENTION_DEFAULT: Millis = Millis::from_secs(30 * 24 * 3600);
/// Default wait before a job whose handler is not registered is tried again.
pub const UNREGISTERED_DELAY_DEFAULT: Millis = Millis::from_secs(5);
/// Default number of jobs kept in memory: 20 MB beside their payloads. A backlog that fits is
/// handed out without being read back from the disk.
pub const WINDOW_JOBS_DEFAULT: usize = 200_000;
/// Default payload bytes kept in memory.
pub const WINDOW_BYTES_DEFAULT: usize = 64 * 1024 * 1024;
/// Default number of pushes (HTTP and the like) under way at once.
pub const PUSHES_DEFAULT: u32 = 256;
/// Default number of in-process handlers under way at once.
pub const HANDLERS_DEFAULT: u32 = 1_024;
/// A node hands out as many deliveries ahead as end in so long, but no more than may be under way:
/// about what a lease takes to become durable and to be acted on, several times over. Where fewer
/// end, none is ahead.
pub const AHEAD_SPAN: Millis = Millis::new(8);

const _: () = {
    assert!(SCHEDULE_ID_BYTES_MAX + 1 + 24 <= JOB_ID_BYTES_MAX, "an occurrence's id must fit");
    assert!(
        (MISFIRE_LAST_MAX as usize) < TICKS_WALKED_MAX,
        "the last ticks of many are found in one step"
    );
    assert!(
        TIMEOUT_MIN.get() < TIMEOUT_DEFAULT.get() && TIMEOUT_DEFAULT.get() <= TIMEOUT_MAX.get()
    );
};
