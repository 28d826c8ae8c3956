//! How many deliveries a second the bare sender makes, to a sink in the same process: the ceiling
//! for everything that is built on it.
//!
//! ```text
//! cargo run --release -p hence-delivery --example send_rate -- [deliveries] [in flight] [url]
//! ```
//!
//! With a URL, that receiver is used in place of the sink.

#![expect(clippy::print_stdout, reason = "its output is its purpose")]
#![expect(clippy::disallowed_methods, reason = "it measures real time")]

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use hence_core::id::{Epoch, JobId, JobName, JobNumber, QueueName, ShardId, Token, WorkerName};
use hence_core::job::{HttpTarget, Job, JobSpec, Lease, Payload, Target as JobTarget};
use hence_core::time::Timestamp;
use hence_delivery::http::HttpSender;
use hence_delivery::{Delivery, Report, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

const PAYLOAD: &[u8] = &[b'x'; 100];
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let count: usize = args.next().map_or(Ok(200_000), |text| text.parse())?;
    let in_flight: usize = args.next().map_or(Ok(256), |text| text.parse())?;
    let url = match args.next() {
        Some(url) => url,
        None => format!("http://{}/", start_sink().await?),
    };
    let sender = HttpSender::new();
    let job = Arc::new(job(&url)?);
    // Connections are opened and code is warm before the clock starts.
    send_all(&sender, &job, in_flight * 4, in_flight).await?;
    let started = Instant::now();
    send_all(&sender, &job, count, in_flight).await?;
    let elapsed = started.elapsed();
    let rate = count as f64 / elapsed.as_secs_f64();
    println!("{count} deliveries, {in_flight} in flight: {rate:.0} req/s in {elapsed:.2?}");
    Ok(())
}

/// Sends `count` deliveries from `in_flight` tasks; the first failure ends it.
async fn send_all(
    sender: &HttpSender,
    job: &Arc<Job>,
    count: usize,
    in_flight: usize,
) -> Result<(), Box<dyn Error>> {
    let next = Arc::new(AtomicUsize::new(0));
    let tasks = (0..in_flight).map(|_| {
        let (sender, job, next) = (sender.clone(), job.clone(), next.clone());
        tokio::spawn(async move {
            while next.fetch_add(1, Ordering::Relaxed) < count {
                let deadline = Instant::now() + Duration::from_secs(30);
                let report = sender.deliver(delivery(&job), deadline).await;
                if !matches!(report, Report::Succeeded { .. }) {
                    return Err(format!("{report:?}"));
                }
            }
            Ok(())
        })
    });
    for ended in join_all(tasks).await {
        ended??;
    }
    Ok(())
}

fn job(url: &str) -> Result<Job, Box<dyn Error>> {
    let spec = JobSpec::new(JobTarget::Http(Arc::new(HttpTarget::post(url))));
    let id = JobId::new("01K5ZZZZZZZZZZZZZZZZZZZZZZ").map_err(|no| format!("{no:?}"))?;
    Ok(Job {
        number: JobNumber(1),
        name: JobName { queue: QueueName::default_queue(), key: None, id },
        submitted_at: Timestamp::EPOCH,
        scheduled_for: Timestamp::from_millis(1_789_000_000_123),
        payload: Payload { bytes: Bytes::from_static(PAYLOAD), content_type: None },
        target: spec.target,
        retry: spec.retry,
        timeout: spec.timeout,
        expires_at: None,
        retention: spec.retention,
        keep_result: false,
        key_on_failure: spec.key_on_failure,
        on_unknown: spec.on_unknown,
        occurrence: None,
        fingerprint: None,
    })
}

fn delivery(job: &Arc<Job>) -> Delivery {
    let lease = Lease {
        token: Token { shard: ShardId(0), epoch: Epoch(1), counter: 1 },
        attempt: 1,
        holder: holder(),
        granted_at: job.scheduled_for,
        until: Timestamp::MAX,
    };
    Delivery { job: job.clone(), lease, due_at: job.scheduled_for }
}

/// One name for all: a name is an allocation, and making them is not what is measured.
fn holder() -> WorkerName {
    static HOLDER: std::sync::LazyLock<WorkerName> =
        std::sync::LazyLock::new(|| WorkerName::new("send-rate").expect("a plain name"));
    HOLDER.clone()
}

/// The cheapest receiver there is: it looks for the end of each request and answers from memory.
async fn start_sink() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(sink(stream));
        }
    });
    Ok(address)
}

async fn sink(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(4096);
    while stream.read_buf(&mut buffer).await? > 0 {
        // Requests end with the payload, which has no line breaks; the client never pipelines.
        let head = buffer.windows(4).position(|window| window == b"\r\n\r\n");
        if head.is_some_and(|at| buffer.len() >= at + 4 + PAYLOAD.len()) {
            buffer.clear();
            stream.write_all(OK).await?;
        }
    }
    Ok(())
}
