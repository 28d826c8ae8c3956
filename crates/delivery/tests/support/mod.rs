//! What the tests of this crate share: jobs, deadlines, and a server that follows a script.

#![allow(dead_code, reason = "every test binary uses a part of it")]

pub(crate) mod server;
pub(crate) mod tls;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use hence_core::id::{Epoch, JobId, JobName, JobNumber, QueueName, ShardId, Token, WorkerName};
use hence_core::job::{HttpTarget, Job, JobSpec, Lease, Payload, Target};
use hence_core::time::Timestamp;
use hence_delivery::Delivery;
use hence_delivery::connect::{Dial, DialError};
use http::Uri;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;

/// Long enough for anything that ends by itself, on a busy machine too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// For what never ends by itself.
pub(crate) const SHORT: Duration = Duration::from_millis(300);

/// The instant this long from now.
#[expect(clippy::disallowed_methods, reason = "a deadline against a real socket is in real time")]
pub(crate) fn within(span: Duration) -> Instant {
    Instant::now() + span
}

/// A job for this target, its result to be kept.
pub(crate) fn job(target: Target) -> Job {
    let id = JobId::new("renew").unwrap();
    let name = JobName { queue: QueueName::default_queue(), key: None, id };
    let due_at = Timestamp::from_millis(1_789_000_000_123);
    let payload = Payload {
        bytes: Bytes::from_static(b"{\"a\":1}"),
        content_type: Some("application/json".into()),
    };
    let spec = JobSpec { payload, keep_result: true, ..JobSpec::new(target) };
    spec.job(JobNumber(17), name, Timestamp::EPOCH, due_at)
}

/// Attempt `attempt` of a job.
pub(crate) fn attempt(job: Job, attempt: u32) -> Delivery {
    let due_at = job.scheduled_for;
    let lease = Lease {
        token: Token { shard: ShardId(3), epoch: Epoch(7), counter: 40 + u64::from(attempt) },
        attempt,
        holder: WorkerName::new("sender").unwrap(),
        granted_at: due_at,
        until: Timestamp::MAX,
    };
    Delivery { job: Arc::new(job), lease, due_at }
}

/// The first attempt of a POST to this URL.
pub(crate) fn post(url: &str) -> Delivery {
    attempt(job(Target::Http(Arc::new(HttpTarget::post(url)))), 1)
}

/// Dials with a small receive buffer, so that what a server could write says how much of it
/// was read.
pub(crate) struct SmallBuffer;

/// What the kernel holds for us beyond what was read: it doubles what it is asked for.
pub(crate) const BUFFER_BYTES: u32 = 16 * 1024;

impl Dial for SmallBuffer {
    fn dial(&self, uri: Uri) -> BoxFuture<'static, Result<TcpStream, DialError>> {
        async move {
            let address = uri.authority().ok_or("no authority")?.as_str().parse()?;
            let socket = TcpSocket::new_v4()?;
            socket.set_recv_buffer_size(BUFFER_BYTES)?;
            Ok(socket.connect(address).await?)
        }
        .boxed()
    }
}
