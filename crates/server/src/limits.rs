//! Every bound of the front end, with its reason. Bounds on jobs themselves are in
//! `hence_core::limits`.

use std::time::Duration;

use hence_core::limits::PAYLOAD_BYTES_MAX;

/// The body of a request about one thing: the largest payload in base64 (4/3), and room for the
/// rest.
pub const BODY_BYTES_MAX: usize = 1_572_864;
/// The body of a batch: a thousand ordinary jobs, or a handful of the largest.
pub const BATCH_BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Objects and lists within each other. No field of ours is deeper than five; payloads deeper than
/// this can be sent as text.
pub const JSON_DEPTH_MAX: usize = 32;
/// Digits and signs of a number: without an exponent, so many are within the range of a 64-bit
/// float, and some readers refuse longer ones.
pub const JSON_NUMBER_BYTES_MAX: usize = 300;
/// Headers of one request.
pub const HEADERS_MAX: usize = 100;
/// The head of a request: request line and headers.
pub const HEAD_BYTES_MAX: usize = 32 * 1024;
/// The path and query of a request.
pub const URI_BYTES_MAX: usize = 8 * 1024;
/// An `Idempotency-Key`.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;
/// A client that has not sent its request's head in this time is dropped. Also how long an idle
/// connection is kept.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// A client that takes nothing of its answer for this long is dropped: it would keep its place and
/// the answer for ever. Long enough for a slow line to make room in the socket's buffer: until a
/// third of it is free, we do not hear that anything was taken.
pub const WRITE_STALL_MAX: Duration = Duration::from_secs(30);
/// Default time for a request that does not wait for anything: far above a commit, far below a
/// client's patience.
pub const REQUEST_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// The longest a request may wait for a job to come or to end. Proxies cut connections after a
/// few minutes of silence.
pub const LONG_POLL_MAX: Duration = Duration::from_mins(5);
/// When to ask a server again that does not take work yet: about as long as a tenure lasts.
pub const STANDBY_RETRY_AFTER_SECS: u32 = 3;
/// How long `wait` waits when it is not told.
pub const WAIT_DEFAULT: Duration = Duration::from_secs(30);
/// Threads that can be asked for: more than any machine has cores, and few enough to be started.
pub const THREADS_MAX: usize = 1_024;
/// Default number of connections at once.
pub const CONNECTIONS_DEFAULT: usize = 4_096;
/// Requests at once on one HTTP/2 connection.
pub const HTTP2_STREAMS_MAX: u32 = 256;
/// Streams of one HTTP/2 connection reset before they were served: more is an attack.
pub const HTTP2_RESETS_MAX: usize = 64;
/// Payloads and results up to this size are shown within the job; larger ones have their own URL.
pub const INLINE_BYTES_MAX: usize = 16 * 1024;
/// Rows of a page when the request does not say.
pub const PAGE_DEFAULT: usize = 100;
/// Ticks of a preview when the request does not say: enough to see the rhythm.
pub const PREVIEW_TICKS_DEFAULT: usize = 5;
/// Minutes that a forecast names as its fullest: as many as one reads.
pub const BUSIEST_MINUTES: usize = 10;
/// Minutes of a forecast when the request does not say: a day.
pub const FORECAST_MINUTES_DEFAULT: u32 = 24 * 60;
/// Pages of a ledger read for one request that asks for some fates only; then the caller comes
/// again with the cursor.
pub const LEDGER_PAGES_MAX: usize = 10;
/// Schedules named when the self-check fails: enough to start with.
pub const UNSOUND_SHOWN: usize = 10;
/// Jobs handed out when a worker does not say how many: the safe number for one that works alone.
pub const LEASE_JOBS_DEFAULT: u32 = 1;
/// Queues with metrics of their own; the rest share the label `other`. Each costs about forty
/// time series for ever.
pub const METRIC_QUEUES_MAX: usize = 200;
/// The shortest token: below it guessing becomes a plan.
pub const TOKEN_BYTES_MIN: usize = 16;

const _: () = {
    assert!(BODY_BYTES_MAX > PAYLOAD_BYTES_MAX / 3 * 4 + 64 * 1024, "a full payload must fit");
    assert!(BATCH_BODY_BYTES_MAX > BODY_BYTES_MAX);
};
