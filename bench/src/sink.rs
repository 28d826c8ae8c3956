//! The cheapest receiver of pushes there is: it looks for the end of each request and answers from
//! memory. When a job is due stands in the path of its URL, so that lateness costs no parsing.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::machine::{Lateness, now_us};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// A running sink.
pub(crate) struct Sink {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    received: AtomicUsize,
    awaited: AtomicUsize,
    reached: Notify,
    lateness: Mutex<Lateness>,
    last_us: std::sync::atomic::AtomicI64,
}

impl Sink {
    /// Starts one on the present runtime, for bodies of this length.
    pub(crate) async fn start(body: usize) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            received: AtomicUsize::new(0),
            awaited: AtomicUsize::new(usize::MAX),
            reached: Notify::new(),
            lateness: Mutex::new(Lateness::new()),
            last_us: std::sync::atomic::AtomicI64::new(0),
        });
        let sink = Sink { address, shared: Arc::clone(&shared) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, body, Arc::clone(&shared)));
            }
        });
        Ok(sink)
    }

    /// How many have arrived in all.
    pub(crate) fn received(&self) -> usize {
        self.shared.received.load(Ordering::SeqCst)
    }

    /// Waits until so many have arrived in all.
    pub(crate) async fn reach(&self, count: usize) {
        self.shared.awaited.store(count, Ordering::SeqCst);
        loop {
            let reached = self.shared.reached.notified();
            if self.shared.received.load(Ordering::SeqCst) >= count {
                return;
            }
            reached.await;
        }
    }

    /// How late they were, by the times in their paths.
    pub(crate) fn take_lateness(&self) -> Lateness {
        let mut lateness = self.shared.lateness.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *lateness, Lateness::new())
    }

    /// When the last one arrived.
    pub(crate) fn last_us(&self) -> i64 {
        self.shared.last_us.load(Ordering::SeqCst)
    }
}

async fn serve(mut stream: TcpStream, body: usize, shared: Arc<Shared>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(4096);
    while stream.read_buf(&mut buffer).await? > 0 {
        let head = buffer.windows(4).position(|window| window == b"\r\n\r\n");
        // Requests end with the payload, which has no line breaks; the client never pipelines.
        if head.is_some_and(|at| buffer.len() >= at + 4 + body) {
            shared.note(&buffer);
            buffer.clear();
            stream.write_all(OK).await?;
        }
    }
    Ok(())
}

impl Shared {
    fn note(&self, request: &[u8]) {
        let now = now_us();
        self.last_us.fetch_max(now, Ordering::Relaxed);
        if let Some(due_ms) = due_in_path(request) {
            let mut lateness = self.lateness.lock().unwrap_or_else(PoisonError::into_inner);
            lateness.add(now - due_ms * 1_000);
        }
        let count = self.received.fetch_add(1, Ordering::SeqCst) + 1;
        if count >= self.awaited.load(Ordering::SeqCst) {
            self.reached.notify_waiters();
        }
    }
}

/// `POST /1789000000123 HTTP/1.1`
fn due_in_path(request: &[u8]) -> Option<i64> {
    let path = request.split(|byte| *byte == b' ').nth(1)?;
    std::str::from_utf8(path.get(1..)?).ok()?.parse().ok()
}
