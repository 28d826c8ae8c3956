//! Which refusals each operation can give, for the document. The tests of the API compare: what is
//! answered and not listed here fails them.

use super::kinds::{self, Kind};

/// What any request may be answered with.
const ALWAYS: [Kind; 14] = [
    kinds::BAD_REQUEST,
    kinds::UNAUTHORIZED,
    kinds::TOO_LARGE,
    kinds::URI_TOO_LONG,
    kinds::MISDIRECTED,
    kinds::INVALID,
    kinds::UNKNOWN_FIELD,
    kinds::DUPLICATE_FIELD,
    kinds::INTERNAL,
    kinds::STORE_FAILED,
    kinds::STANDING_BY,
    kinds::BUSY,
    kinds::UNAVAILABLE,
    kinds::TIMED_OUT,
];

/// What a request that changes something may be answered with beside that.
const CHANGES: [Kind; 2] = [kinds::CROSS_ORIGIN, kinds::STORE_FULL];

/// What a request with a body may be answered with beside that.
const WITH_BODY: [Kind; 6] = [
    kinds::BAD_JSON,
    kinds::BODY_TOO_LARGE,
    kinds::UNSUPPORTED_MEDIA_TYPE,
    kinds::UNSUPPORTED_ENCODING,
    kinds::MISSING_FIELD,
    kinds::TOO_DEEP,
];

/// An operation, as far as its refusals depend on it.
pub(crate) struct Asked<'a> {
    /// Its name in the document.
    pub(crate) operation: &'a str,
    pub(crate) is_safe: bool,
    pub(crate) has_body: bool,
}

/// All that it can be refused with.
pub(crate) fn of(asked: &Asked<'_>) -> impl Iterator<Item = Kind> {
    let changes = CHANGES.into_iter().filter(|_| !asked.is_safe);
    let body = WITH_BODY.into_iter().filter(|_| asked.has_body);
    ALWAYS.into_iter().chain(changes).chain(body).chain(own(asked.operation).iter().copied())
}

/// What it alone, or few like it, can be refused with.
fn own(operation: &str) -> &'static [Kind] {
    match operation {
        "submit" => &[
            kinds::JOB_EXISTS,
            kinds::IDEMPOTENCY_MISMATCH,
            kinds::QUEUE_FULL,
            kinds::QUEUE_PAUSED,
            kinds::TOO_MANY,
            kinds::DRAINING,
        ],
        "show" | "attempts" | "payload" => &[kinds::NO_SUCH_JOB],
        "wait" => &[kinds::NO_SUCH_JOB, kinds::DRAINING],
        "result" => &[kinds::NO_SUCH_JOB, kinds::NO_RESULT],
        "change" | "cancel" | "run" | "replay" => &[kinds::NO_SUCH_JOB, kinds::WRONG_STATE],
        "lease" => &[kinds::DRAINING],
        "ack" | "nack" | "extend" => &[kinds::STALE_TOKEN],
        "put_queue" | "change_queue" | "pause_queue" | "resume_queue" | "put_schedule" => {
            &[kinds::TOO_MANY]
        }
        "remove_queue" => &[kinds::NO_SUCH_QUEUE, kinds::QUEUE_IN_USE],
        "schedule" | "remove_schedule" | "pause_schedule" | "resume_schedule" | "occurrences"
        | "forecast" | "cancel_backfill" => &[kinds::NO_SUCH_SCHEDULE],
        "backfill" => &[kinds::NO_SUCH_SCHEDULE, kinds::DRAINING],
        "trigger_schedule" => &[
            kinds::NO_SUCH_SCHEDULE,
            kinds::QUEUE_FULL,
            kinds::QUEUE_PAUSED,
            kinds::TOO_MANY,
            kinds::DRAINING,
        ],
        _ => &[],
    }
}
