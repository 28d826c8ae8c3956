//! The closed list of what can be wrong with a request: one row each, shown at `/docs/errors`,
//! where the `type` of every problem document points.

use http::StatusCode;

/// One thing that can be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kind {
    /// The fragment of its `type`, stable for ever: programs may rely on it.
    pub(crate) name: &'static str,
    /// The status it is answered with.
    pub(crate) status: StatusCode,
    /// In short, for people.
    pub(crate) title: &'static str,
    /// What to do about it.
    pub(crate) fix: &'static str,
}

macro_rules! kinds {
    ($($id:ident $status:ident $name:literal $title:literal, $fix:literal;)*) => {
        $(pub(crate) const $id: Kind =
            Kind { name: $name, status: StatusCode::$status, title: $title, fix: $fix };)*

        /// All of them, in the order of the page.
        pub(crate) const ALL: &[Kind] = &[$($id),*];
    };
}

kinds! {
    BAD_JSON BAD_REQUEST "bad-json" "the body is not JSON",
        "correct the body at the line and column given";
    BAD_REQUEST BAD_REQUEST "bad-request" "the request cannot be read",
        "send the path, query and headers as UTF-8, percent-encoded where needed";
    UNAUTHORIZED UNAUTHORIZED "unauthorized" "a token is needed",
        "send the header `Authorization: Bearer TOKEN` with the token the server was started with";
    CROSS_ORIGIN FORBIDDEN "cross-origin" "a web page of another origin may not change anything",
        "send the request from a program, or from a page served by this server";
    NO_SUCH_ROUTE NOT_FOUND "no-such-route" "there is nothing at this path",
        "see /docs for every path";
    NO_SUCH_JOB NOT_FOUND "no-such-job" "there is no such job",
        "check the id, and say ?queue= and ?key= when the job has them; finished jobs are kept \
            for their retention only";
    NO_SUCH_SCHEDULE NOT_FOUND "no-such-schedule" "there is no such schedule",
        "check the id; GET /v1/schedules lists them";
    NO_SUCH_QUEUE NOT_FOUND "no-such-queue" "there is no such queue",
        "check the name; GET /v1/queues lists those that have settings or ever had a job";
    NO_RESULT NOT_FOUND "no-result" "the job has no result",
        "submit it with keep_result, and look after it succeeded and before its retention ends";
    METHOD_NOT_ALLOWED METHOD_NOT_ALLOWED "method-not-allowed" "the path does not take this method",
        "use one of the methods of the Allow header";
    JOB_EXISTS CONFLICT "job-exists" "a job of this name exists already",
        "use on_conflict replace or keep, or another id";
    IDEMPOTENCY_MISMATCH CONFLICT "idempotency-mismatch"
        "the idempotency key was used for another request",
        "use a new Idempotency-Key for a new request, and repeat a request byte by byte";
    WRONG_STATE CONFLICT "wrong-state" "the job's state does not allow this",
        "look at the job and choose what its state allows";
    QUEUE_IN_USE CONFLICT "queue-in-use" "the queue holds jobs",
        "cancel, finish or forget its jobs first: `hence cancel` and `hence forget` do so, or POST \
            /v1/jobs/bulk";
    STALE_TOKEN CONFLICT "stale-token" "the lease of this token has ended",
        "drop the work: the job was finished, cancelled, or handed out again; extend leases in \
            time";
    BODY_TOO_LARGE PAYLOAD_TOO_LARGE "body-too-large" "the body is larger than allowed",
        "send less in one request; large payloads belong in an object store, with a link in the \
            job";
    TOO_LARGE PAYLOAD_TOO_LARGE "too-large" "a field is larger than allowed",
        "shorten the field to its limit";
    URI_TOO_LONG URI_TOO_LONG "uri-too-long" "the path and query are longer than allowed",
        "shorten the query";
    UNSUPPORTED_MEDIA_TYPE UNSUPPORTED_MEDIA_TYPE "unsupported-media-type"
        "the body is not declared as JSON",
        "send the header `Content-Type: application/json` (curl: use --json instead of -d)";
    UNSUPPORTED_ENCODING UNSUPPORTED_MEDIA_TYPE "unsupported-encoding"
        "the body is compressed",
        "send the body as it is, without the header `Content-Encoding`";
    MISDIRECTED MISDIRECTED_REQUEST "misdirected" "the Host header names another host",
        "use localhost, 127.0.0.1 or [::1], or start the server with a token to allow any host";
    INVALID UNPROCESSABLE_ENTITY "invalid-value" "a value cannot be accepted",
        "correct the field named";
    UNKNOWN_FIELD UNPROCESSABLE_ENTITY "unknown-field" "there is no such field",
        "remove the field, or spell it as in /docs";
    MISSING_FIELD UNPROCESSABLE_ENTITY "missing-field" "a field is missing",
        "add the field named";
    DUPLICATE_FIELD UNPROCESSABLE_ENTITY "duplicate-field" "a field is given twice",
        "give each field once";
    TOO_DEEP UNPROCESSABLE_ENTITY "too-deep" "the body is nested too deeply",
        "send deeply nested payloads as payload_text";
    QUEUE_FULL TOO_MANY_REQUESTS "queue-full" "the queue holds as many jobs as it may",
        "try again later, or raise the queue's pending_max";
    TOO_MANY TOO_MANY_REQUESTS "too-many" "a bound of the server is reached",
        "remove what is not needed any more";
    INTERNAL INTERNAL_SERVER_ERROR "internal" "the server made a mistake",
        "report it with the server's log; the outcome of the request is unknown";
    STORE_FAILED INTERNAL_SERVER_ERROR "store-failed" "the store could not be read",
        "look at the server's log, and run `hence store check`";
    QUEUE_PAUSED SERVICE_UNAVAILABLE "queue-paused" "the queue takes no new jobs",
        "resume the queue, or try again later";
    DRAINING SERVICE_UNAVAILABLE "draining" "the server is shutting down",
        "try again when it is back";
    STANDING_BY SERVICE_UNAVAILABLE "standing-by" "the server does not take work yet",
        "ask the server that works on the store, or try again";
    BUSY SERVICE_UNAVAILABLE "busy" "too many requests are waiting",
        "try again in a moment";
    UNAVAILABLE SERVICE_UNAVAILABLE "unavailable" "the server cannot answer now",
        "try again; the outcome of the request is unknown, so use ids or an Idempotency-Key";
    TIMED_OUT GATEWAY_TIMEOUT "timed-out" "the request took too long",
        "try again; the outcome is unknown, so use ids or an Idempotency-Key";
    STORE_FULL INSUFFICIENT_STORAGE "store-full" "the store is out of space",
        "free disk space; accepted jobs go on meanwhile, and no restart is needed";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_fit_in_a_fragment() {
        let mut names: Vec<_> = ALL.iter().map(|kind| kind.name).collect();
        assert!(names.iter().all(|n| n.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
