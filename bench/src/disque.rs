//! Disque as a peer: durable (`appendfsync always`: a sync before every answer), with the same
//! number of clients and the same payload. It is in no package registry: built from its source and
//! put into the path, it takes part.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::jobs::PAYLOAD;
use crate::scenarios::pull::Finish;
use crate::server::quiet;

/// Jobs put in one write, apart from what is measured.
const PUT_BATCH: usize = 1_000;

/// One letter, as the length of an answer is counted.
const QUEUE: &str = "q";

/// Every id begins with `D-` and has this length.
const ID_BYTES: usize = 40;

/// One job in the answer to `GETJOB`: queue, id and payload.
const ENTRY_BYTES: usize =
    "*3\r\n$1\r\nq\r\n$40\r\n".len() + ID_BYTES + "\r\n$100\r\n".len() + PAYLOAD.len() + 2;

/// A running Disque; ends with its value.
pub(crate) struct Disque {
    child: Child,
    address: SocketAddr,
}

impl Disque {
    /// Starts one on this directory, if it is installed.
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let port = address.port().to_string();
        let mut command = Command::new("disque-server");
        command.args(["--port", &port, "--bind", "127.0.0.1", "--appendonly", "yes"]);
        command.args(["--appendfsync", "always", "--dir"]).arg(dir);
        let child = quiet(&mut command).spawn().context("disque-server is not installed")?;
        let disque = Disque { child, address };
        let started = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            ensure!(started.elapsed() < Duration::from_secs(5), "disque-server does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(disque)
    }

    /// Jobs taken and acknowledged a second: so many, put before the clock starts.
    pub(crate) async fn take_rate(
        &self,
        clients: usize,
        max: usize,
        finish: Finish,
        count: usize,
    ) -> Result<f64> {
        self.put(count).await?;
        let done = AtomicUsize::new(0);
        let take = command(&["GETJOB", "NOHANG", "COUNT", &max.to_string(), "FROM", QUEUE]);
        let started = Instant::now();
        let client = || async {
            let mut peer = Peer::open(self.address).await?;
            peer.send(&take).await?;
            let mut taken = peer.taken().await?;
            while taken > 0 {
                let mut request = peer.acknowledgement(taken);
                if finish == Finish::Apart {
                    peer.send(&request).await?;
                    peer.acknowledged(taken).await?;
                    peer.send(&take).await?;
                } else {
                    request.extend_from_slice(&take);
                    peer.send(&request).await?;
                    peer.acknowledged(taken).await?;
                }
                done.fetch_add(taken, Ordering::Relaxed);
                taken = peer.taken().await?;
            }
            anyhow::Ok(())
        };
        try_join_all((0..clients).map(|_| client())).await?;
        Ok(done.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64())
    }

    async fn put(&self, count: usize) -> Result<()> {
        let put = command(&["ADDJOB", QUEUE, text(PAYLOAD), "0", "REPLICATE", "1"]);
        let mut peer = Peer::open(self.address).await?;
        for _ in 0..count / PUT_BATCH {
            peer.send(&put.repeat(PUT_BATCH)).await?;
            // `+D-…` and a line end for each.
            let answers = peer.read(PUT_BATCH * (1 + ID_BYTES + 2)).await?;
            ensure!(answers.starts_with(b"+D-"), "ADDJOB was answered {}", text(answers));
        }
        Ok(())
    }
}

impl Drop for Disque {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A command in the protocol of Redis.
fn command(words: &[&str]) -> Vec<u8> {
    let words_each = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), words_each.collect::<String>()).into_bytes()
}

struct Peer {
    stream: TcpStream,
    /// What came and was not looked at yet begins at `start`.
    received: Vec<u8>,
    start: usize,
}

impl Peer {
    async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Peer { stream, received: Vec::with_capacity(64 * 1024), start: 0 })
    }

    /// Sends a request; everything that was answered before has been looked at.
    async fn send(&mut self, request: &[u8]) -> Result<()> {
        self.received.clear();
        self.start = 0;
        Ok(self.stream.write_all(request).await?)
    }

    /// Looks at so many bytes of the answer, or at the error that came instead.
    async fn read(&mut self, length: usize) -> Result<&[u8]> {
        self.wait_for(length).await?;
        self.start += length;
        Ok(&self.received[self.start - length..self.start])
    }

    async fn wait_for(&mut self, length: usize) -> Result<()> {
        while self.received.len() < self.start + length {
            ensure!(self.stream.read_buf(&mut self.received).await? > 0, "Disque hung up");
            let answer = &self.received[self.start..];
            ensure!(!answer.starts_with(b"-"), "{}", text(answer));
        }
        Ok(())
    }

    /// Jobs that were taken; says how many there were. All are alike, so the number tells the
    /// length.
    async fn taken(&mut self) -> Result<usize> {
        self.wait_for(4).await?;
        let answer = &self.received[self.start..];
        let end = memchr::memchr(b'\n', answer).context("no line")?;
        let count: i64 = text(&answer[1..end]).trim_end().parse()?;
        let count = usize::try_from(count).unwrap_or(0);
        self.read(end + 1 + count * ENTRY_BYTES).await?;
        Ok(count)
    }

    /// The request that acknowledges what was taken last.
    fn acknowledgement(&self, count: usize) -> Vec<u8> {
        const LENGTH: &[u8] = b"$40\r\n";
        let mut request = format!("*{}\r\n$6\r\nACKJOB\r\n", count + 1).into_bytes();
        let taken = &self.received[self.start - count * ENTRY_BYTES..self.start];
        for at in memchr::memmem::find_iter(taken, LENGTH) {
            // Length and id go back as they came.
            request.extend_from_slice(&taken[at..at + LENGTH.len() + ID_BYTES + 2]);
        }
        request
    }

    async fn acknowledged(&mut self, count: usize) -> Result<()> {
        let expected = format!(":{count}\r\n");
        let answer = self.read(expected.len()).await?;
        ensure!(answer == expected.as_bytes(), "ACKJOB: {}", text(answer));
        Ok(())
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or("bytes that are no text")
}
