//! Load over HTTP, as cheap as it can be made: requests are bytes made beforehand, answers are
//! looked at just enough to know where they end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::machine::{Lateness, Spread};

/// One connection, one request at a time.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::with_capacity(64 * 1024) })
    }

    /// Sends a request and returns the status and body of the answer.
    pub(crate) async fn call(&mut self, request: &[u8]) -> Result<(u16, &[u8])> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let (head, length) = loop {
            let read = self.stream.read_buf(&mut self.buffer).await?;
            ensure!(read > 0, "the server hung up");
            let found = memchr::memmem::find(&self.buffer, b"\r\n\r\n");
            if let Some(head) = found {
                break (head + 4, content_length(&self.buffer[..head]));
            }
        };
        while self.buffer.len() < head + length {
            ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the server hung up");
        }
        let status = self.buffer.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
        let status = status.and_then(|digits| digits.parse().ok()).context("no status")?;
        Ok((status, &self.buffer[head..head + length]))
    }
}

/// As the servers here write it: in small letters.
fn content_length(head: &[u8]) -> usize {
    const NAME: &[u8] = b"content-length: ";
    let value = memchr::memmem::find(head, NAME).map_or(&[][..], |at| &head[at + NAME.len()..]);
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'))
}

/// A POST of JSON.
pub(crate) fn post(address: SocketAddr, path: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// What came of a load.
pub(crate) struct Load {
    /// Requests answered.
    pub(crate) count: f64,
    /// Requests a second.
    pub(crate) rate: f64,
    /// How long each took.
    pub(crate) latency: Spread,
}

/// So many clients send the same request again and again.
pub(crate) async fn hammer(
    address: SocketAddr,
    clients: usize,
    span: Duration,
    request: &[u8],
    status: u16,
) -> Result<Load> {
    let sent = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let client = || {
        let sent = Arc::clone(&sent);
        async move {
            let mut connection = Connection::open(address).await?;
            let mut latency = Lateness::new();
            while started.elapsed() < span {
                let asked = Instant::now();
                let (answered, body) = connection.call(request).await?;
                if answered != status {
                    anyhow::bail!("answered {answered}: {}", String::from_utf8_lossy(body));
                }
                latency.add(asked.elapsed().as_micros() as i64);
                sent.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(latency)
        }
    };
    let each = try_join_all((0..clients).map(|_| client())).await?;
    let elapsed = started.elapsed();
    let mut latency = Lateness::new();
    for one in &each {
        latency.merge(one);
    }
    let count = sent.load(Ordering::Relaxed) as f64;
    Ok(Load { count, rate: count / elapsed.as_secs_f64(), latency: latency.spread() })
}
