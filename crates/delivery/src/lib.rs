//! Hands a due job to the outside world.
//!
//! A [`Target`] gets one delivery and one deadline, and answers with one [`Report`]. It decides
//! nothing: whether a failure is tried again, and when, is the core's business. There are two of
//! them here, and a job that a worker pulls needs none:
//!
//! | target | what it does |
//! |---|---|
//! | [`http::HttpSender`] | sends the payload to a URL |
//! | [`local::Handlers`] | calls a handler registered by name in this process |

pub mod connect;
mod failure;
pub mod http;
pub mod limits;
pub mod local;
mod lookup;
mod request;
pub mod status;

use futures::future::BoxFuture;
use tokio::time::Instant;

pub use hence_core::effect::Delivery;
pub use hence_core::input::Report;

/// Where a due job goes. Every implementation keeps these promises; `tests/http.rs` has a case
/// for each that a hostile receiver could break.
///
/// - **D1 One deadline over everything.** Looking up the name, connecting, TLS, sending, waiting,
///   and reading the answer to its end share the one deadline given. When it passes, the future
///   resolves to [`Report::TimedOut`], whatever the receiver is doing.
/// - **D2 A bounded answer.** At most [`limits::BODY_BYTES_MAX`] of an answer's body are kept, and
///   at most [`limits::WIRE_BYTES_MAX`] taken from the socket for one answer, however long it
///   claims to be. A longer success is a success; what was kept of it is its result.
/// - **D3 Redirects are failures.** They are never followed: a receiver must not be able to send
///   us to an address that the producer did not name.
/// - **D4 One delivery id.** All attempts of a job carry the same id, by which a receiver can
///   recognise a repetition; the token grows with every attempt, by which it can refuse a stale
///   one.
/// - **D5 Dropping stops.** Dropping the future closes the connection (HTTP/2: resets the stream),
///   and drops a handler at its next point of suspension.
/// - **D6 Nothing implicit.** No proxy from the environment, no cookies, no decompression, no
///   credentials other than the producer's headers.
/// - **D7 Nothing leaks.** Payloads, header values and URLs appear in no log and in no report;
///   of an answer, only the start of a failure's body is reported, with control characters escaped.
/// - **D8 Always one report.** The future never panics and never resolves to an error: whatever
///   went wrong is a report with a reason a human can act on.
pub trait Target: Send + Sync {
    /// Hands over one delivery and waits, until `deadline` and no longer, for its end.
    fn deliver(&self, delivery: Delivery, deadline: Instant) -> BoxFuture<'_, Report>;
}
