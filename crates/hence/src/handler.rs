//! Typed handlers: a function from a value to a result, registered by name. The value is the
//! job's payload, read as JSON; what the function returns is the job's result.

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use hence_core::effect::Delivery;
use hence_core::input::Report;
use hence_core::job::{Payload, cut_reason};
use hence_core::time::Millis;
use hence_delivery::local::HandlerFn;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why a handler did not do its job, and what it wants next. Every error turns into one that
/// means "try again", so `?` does what is mostly wanted.
///
/// ```
/// use hence::core::time::Millis;
/// use hence::handler::Failure;
///
/// async fn withdraw(amount: String) -> Result<u32, Failure> {
///     let amount: u32 = amount.parse()?; // tried again by the job's retry policy
///     match amount {
///         0 => Err(Failure::permanent("nothing to withdraw")), // dead at once
///         1..100 => Err(Failure::retry_after("come back later", Millis::from_secs(60))),
///         1_000.. => Err(Failure::put_off("not in business hours", Millis::from_secs(3600))),
///         _ => Ok(amount),
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Failure {
    reason: String,
    next: Next,
}

/// What is to become of the job.
#[derive(Debug)]
enum Next {
    Retry { after: Option<Millis> },
    PutOff(Millis),
    Death,
}

impl Failure {
    /// Try again, as the job's retry policy says.
    pub fn retry(reason: impl Display) -> Self {
        Failure { reason: reason.to_string(), next: Next::Retry { after: None } }
    }

    /// Try again, but not before this time has passed.
    pub fn retry_after(reason: impl Display, wait: Millis) -> Self {
        Failure { reason: reason.to_string(), next: Next::Retry { after: Some(wait) } }
    }

    /// Not now: the job comes back after this time, and the attempt does not count.
    pub fn put_off(reason: impl Display, wait: Millis) -> Self {
        Failure { reason: reason.to_string(), next: Next::PutOff(wait) }
    }

    /// Do not try again: the job is dead.
    pub fn permanent(reason: impl Display) -> Self {
        Failure { reason: reason.to_string(), next: Next::Death }
    }

    fn into_report(self) -> Report {
        let reason = cut_reason(&self.reason);
        let (retry_after, permanent) = match self.next {
            Next::PutOff(delay) => return Report::PutOff { reason, delay },
            Next::Retry { after } => (after, false),
            Next::Death => (None, true),
        };
        Report::Failed { reason, retry_after, permanent }
    }
}

/// Every error means: try again.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::retry(error)
    }
}

/// Makes a handler out of a typed function.
pub(crate) fn typed<T, R, F, Fut>(function: F) -> HandlerFn
where
    T: DeserializeOwned + Send + 'static,
    R: Serialize,
    F: Fn(T, Delivery) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, Failure>> + Send + 'static,
{
    let function = Arc::new(function);
    Arc::new(move |delivery, _deadline| {
        let function = Arc::clone(&function);
        async move {
            let value = match read(&delivery.job.payload.bytes) {
                Ok(value) => value,
                Err(error) => return unreadable(&error),
            };
            match function(value, delivery).await {
                Ok(result) => succeeded(&result),
                Err(failure) => failure.into_report(),
            }
        }
        .boxed()
    })
}

/// No payload reads as JSON `null`, so that a handler of `()` needs none.
fn read<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, serde_json::Error> {
    let bytes: &[u8] = if bytes.is_empty() { b"null" } else { bytes };
    serde_json::from_slice(bytes)
}

/// The payload will be the same at every attempt.
fn unreadable(error: &serde_json::Error) -> Report {
    Report::Failed {
        reason: cut_reason(&format!("the payload is not what the handler expects: {error}")),
        retry_after: None,
        permanent: true,
    }
}

fn succeeded(result: &impl Serialize) -> Report {
    match serde_json::to_vec(result) {
        Ok(bytes) if bytes == b"null" => Report::Succeeded { result: None },
        Ok(bytes) => Report::Succeeded {
            result: Some(Payload {
                bytes: Bytes::from(bytes),
                content_type: Some(Arc::from("application/json")),
            }),
        },
        // The work is done: a result that cannot be written must not repeat it.
        Err(error) => {
            tracing::warn!(%error, "a handler's result could not be written as JSON");
            Report::Succeeded { result: None }
        }
    }
}
