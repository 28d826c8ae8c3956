//! Every bound of a delivery as a named constant, with its reason. Reaching one has a tested
//! behaviour.

use std::time::Duration;

/// Body of an answer that is kept: enough for a result or an error page, little enough for a
/// thousand hostile receivers at once. Reached: the rest is dropped, the connection closed.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// Head of an answer. Reached: the delivery failed.
pub const HEAD_BYTES_MAX: usize = 32 * 1024;
/// Headers of an answer. Reached: the delivery failed.
pub const HEADERS_MAX: usize = 100;
/// Bytes taken from an HTTP/1 connection for one answer, everything counted. A body of
/// [`BODY_BYTES_MAX`] in chunks of one byte is six times as long on the wire and still passes;
/// an endless run of interim answers does not. Reached: the delivery failed.
pub const WIRE_BYTES_MAX: usize = 512 * 1024;
/// Time for name lookup, TCP and TLS together. The delivery's own deadline is mostly nearer; this
/// one also ends connections that the pool opened and no delivery waits for any more.
pub const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// Names looked up at once: as many as pushes are under way by default. Reached: others wait,
/// within their own time. A lookup whose delivery gave up keeps its place until the resolver
/// answers.
pub const LOOKUPS_MAX: usize = hence_core::limits::PUSHES_DEFAULT as usize;
/// How long an idle connection is kept: most servers keep theirs for a minute, and the longer
/// ours is kept, the likelier we write into one that the server is just closing.
pub const IDLE_TIME_MAX: Duration = Duration::from_secs(30);
/// Idle connections kept, all hosts together. Each host keeps as many as may be under way at once,
/// and deliveries to ever new hosts would leave thousands of open files behind within
/// [`IDLE_TIME_MAX`]. Reached: a further connection is closed after its one delivery.
pub const IDLE_CONNECTIONS_MAX: usize = 1_024;
/// HTTP/2: what all streams of a connection may send before we made room; one stream may send
/// [`BODY_BYTES_MAX`].
pub const H2_CONNECTION_WINDOW: u32 = 1024 * 1024;
/// HTTP/2: a receiver that owes an answer and has sent nothing for this long is asked for a sign of
/// life. All deliveries to a host share one connection: when its packets are lost, say because a
/// router forgot it, each of them would fail until TCP gives up, after a quarter of an hour. No
/// shorter: an answer may well take seconds.
pub const H2_SILENCE_MAX: Duration = Duration::from_secs(10);
/// HTTP/2: how long the sign of life may take, which needs no more than a round trip. Reached: the
/// connection is closed, what was under way on it failed, and the next delivery opens another.
pub const H2_PONG_TIME_MAX: Duration = Duration::from_secs(10);
/// Characters of an answer's body that go into the reason of a failure.
pub const EXCERPT_CHARS_MAX: usize = 200;

const _: () = {
    assert!(BODY_BYTES_MAX <= hence_core::limits::RESULT_BYTES_MAX, "a result must fit");
    assert!(HEAD_BYTES_MAX >= 8192, "hyper refuses a smaller buffer");
    assert!(WIRE_BYTES_MAX > HEAD_BYTES_MAX + 6 * BODY_BYTES_MAX);
};
