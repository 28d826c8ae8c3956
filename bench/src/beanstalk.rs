//! beanstalkd as a peer: durable (`-f0`: a sync for every write), with the same number of clients
//! and the same payload.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::jobs::PAYLOAD;
use crate::server::quiet;

/// A running beanstalkd; ends with its value.
pub(crate) struct Beanstalk {
    child: Child,
    address: SocketAddr,
}

impl Beanstalk {
    /// Starts one on this directory, if it is installed.
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let port = address.port().to_string();
        let mut command = Command::new("beanstalkd");
        command.args(["-l", "127.0.0.1", "-p", &port, "-f0", "-b"]).arg(dir);
        let child = quiet(&mut command).spawn().context("beanstalkd is not installed")?;
        let beanstalk = Beanstalk { child, address };
        let started = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            ensure!(started.elapsed() < Duration::from_secs(5), "beanstalkd does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(beanstalk)
    }

    /// Jobs put a second.
    pub(crate) async fn put_rate(&self, clients: usize, span: Duration) -> Result<f64> {
        let command = put_command();
        self.rate(clients, span, move |mut peer| {
            let command = command.clone();
            async move {
                let line = peer.call(&command).await?;
                ensure!(line.starts_with("INSERTED"), "put was answered {line}");
                Ok(Some(peer))
            }
        })
        .await
    }

    /// Jobs taken and deleted a second, until the time is up or there are no more.
    pub(crate) async fn take_rate(&self, clients: usize, span: Duration) -> Result<f64> {
        self.rate(clients, span, |mut peer| async move {
            let line = peer.call(b"reserve-with-timeout 0\r\n").await?;
            if line.starts_with("TIMED_OUT") {
                return Ok(None);
            }
            let mut words = line.split_whitespace().skip(1);
            let id = words.next().context("no id")?.to_owned();
            let length: usize = words.next().context("no length")?.parse()?;
            let mut body = vec![0; length + 2];
            peer.stream.read_exact(&mut body).await?;
            let line = peer.call(format!("delete {id}\r\n").as_bytes()).await?;
            ensure!(line.starts_with("DELETED"), "delete was answered {line}");
            Ok(Some(peer))
        })
        .await
    }

    async fn rate<F, Fut>(&self, clients: usize, span: Duration, step: F) -> Result<f64>
    where
        F: Fn(Peer) -> Fut,
        Fut: Future<Output = Result<Option<Peer>>>,
    {
        let done = Arc::new(AtomicUsize::new(0));
        let started = Instant::now();
        let client = || async {
            let mut peer = Peer::open(self.address).await?;
            while started.elapsed() < span {
                match step(peer).await? {
                    Some(same) => peer = same,
                    None => break,
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        };
        try_join_all((0..clients).map(|_| client())).await?;
        Ok(done.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64())
    }
}

impl Drop for Beanstalk {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn put_command() -> Vec<u8> {
    let mut command = format!("put 0 0 60 {}\r\n", PAYLOAD.len()).into_bytes();
    command.extend_from_slice(PAYLOAD);
    command.extend_from_slice(b"\r\n");
    command
}

struct Peer {
    stream: BufReader<TcpStream>,
}

impl Peer {
    async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Peer { stream: BufReader::new(stream) })
    }

    async fn call(&mut self, command: &[u8]) -> Result<String> {
        self.stream.write_all(command).await?;
        let mut line = String::new();
        ensure!(self.stream.read_line(&mut line).await? > 0, "beanstalkd hung up");
        Ok(line)
    }
}
