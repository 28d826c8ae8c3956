//! A server that reads requests and then follows a script, whatever HTTP says about it.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;

use super::BUFFER_BYTES;

/// One thing a server does after it read a request.
#[derive(Clone)]
pub(crate) enum Step {
    /// Writes this.
    Say(Vec<u8>),
    /// Writes this again and again, for ever.
    Repeat(Vec<u8>),
    /// Writes this one byte at a time, slowly.
    Drip(Vec<u8>),
    /// Does nothing until the client hangs up.
    Stall,
    /// Closes the connection.
    Close,
    /// Resets the connection.
    Reset,
}

/// Shorthand for [`Step::Say`].
pub(crate) fn say(text: &str) -> Step {
    Step::Say(text.as_bytes().to_vec())
}

/// What a server saw.
#[derive(Default)]
pub(crate) struct Seen {
    heads: Mutex<Vec<String>>,
    written: AtomicUsize,
    opened: AtomicUsize,
    open: watch::Sender<usize>,
    requests: watch::Sender<usize>,
}

/// A server on a port of its own, for as long as the runtime lives.
pub(crate) struct Server {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
}

impl Server {
    /// Starts a server that answers every request by this script.
    pub(crate) fn start(script: Vec<Step>) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        // Small, like the client's: see `SmallBuffer`.
        socket.set_send_buffer_size(BUFFER_BYTES).unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let listener = socket.listen(1024).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let server = Server { address, seen: seen.clone() };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, script.clone(), seen.clone()));
            }
        });
        server
    }

    /// A URL on it.
    pub(crate) fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}/hook?secret=1", self.address)
    }

    /// The heads of the requests it saw.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.seen.heads.lock().unwrap().clone()
    }

    /// How many bytes the kernel took from it.
    pub(crate) fn written(&self) -> usize {
        self.seen.written.load(Ordering::SeqCst)
    }

    /// How many connections it accepted.
    pub(crate) fn opened(&self) -> usize {
        self.seen.opened.load(Ordering::SeqCst)
    }

    /// Waits until it has seen this many requests.
    pub(crate) async fn saw_requests(&self, count: usize) {
        self.seen.requests.subscribe().wait_for(|seen| *seen >= count).await.unwrap();
    }

    /// Waits until every connection is over.
    pub(crate) async fn all_closed(&self) {
        self.open_at_most(0).await;
    }

    /// Waits until so many connections are open, or fewer.
    pub(crate) async fn open_at_most(&self, count: usize) {
        self.seen.open.subscribe().wait_for(|open| *open <= count).await.unwrap();
    }
}

async fn serve(mut stream: TcpStream, script: Vec<Step>, seen: Arc<Seen>) {
    seen.opened.fetch_add(1, Ordering::SeqCst);
    seen.open.send_modify(|open| *open += 1);
    // However it ends, it is over.
    let _ = converse(&mut stream, &script, &seen).await;
    drop(stream);
    seen.open.send_modify(|open| *open -= 1);
}

async fn converse(stream: &mut TcpStream, script: &[Step], seen: &Seen) -> io::Result<()> {
    loop {
        let head = read_request(stream).await?;
        seen.heads.lock().unwrap().push(head);
        seen.requests.send_modify(|requests| *requests += 1);
        for step in script {
            act(stream, step, seen).await?;
        }
    }
}

async fn act(stream: &mut TcpStream, step: &Step, seen: &Seen) -> io::Result<()> {
    match step {
        Step::Say(bytes) => write(stream, bytes, seen).await,
        Step::Repeat(bytes) => loop {
            write(stream, bytes, seen).await?;
        },
        Step::Drip(bytes) => {
            for byte in bytes {
                write(stream, &[*byte], seen).await?;
                be_slow().await;
            }
            Ok(())
        }
        Step::Stall => loop {
            if stream.read(&mut [0; 1024]).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        },
        Step::Close => {
            stream.shutdown().await?;
            Err(io::ErrorKind::ConnectionAborted.into())
        }
        Step::Reset => {
            stream.set_zero_linger()?;
            Err(io::ErrorKind::ConnectionAborted.into())
        }
    }
}

/// Slowness is what this behaviour consists of; no test waits for it to end.
#[expect(clippy::disallowed_methods, reason = "a slow server is slow in real time")]
async fn be_slow() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

async fn write(stream: &mut TcpStream, mut bytes: &[u8], seen: &Seen) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = stream.write(bytes).await?;
        seen.written.fetch_add(count, Ordering::SeqCst);
        bytes = &bytes[count..];
    }
    Ok(())
}

/// Reads one request to its end and returns its head. What is not HTTP never ends.
async fn read_request(stream: &mut TcpStream) -> io::Result<String> {
    let mut read = Vec::new();
    let end = loop {
        if let Some(at) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
    while read.len() < end + length {
        if stream.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(String::from_utf8_lossy(&read[..end]).into_owned())
}
