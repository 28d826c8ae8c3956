//! A network between a client and a server that fails on request: it cuts, stalls and refuses,
//! and cuts at a byte or at a message.
//!
//! ```text
//!    client ──► proxy ──► server        before a message: the server never sees it
//!    client ◄── proxy ◄── server        after a message: the client never sees its answer
//! ```

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::free_port;
use crate::sql::{Parts, with_address};

/// After the message that a fault waits for, the client is cut when it has said nothing for this
/// long: what belongs to the message may come in several pieces, and then it waits for the answer.
const SILENCE: Duration = Duration::from_millis(100);

/// What is read at once. A message may be longer.
const CHUNK_BYTES: usize = 16 * 1024;

/// A proxy on loopback. Closed, with all its connections, when dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// Where a connection is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// When so many bytes more have passed from this side.
    AfterBytes(Side, u64),
    /// When the client sends this text: it does not pass.
    BeforeMessage(String),
    /// When the client has sent this text and what follows it: all of it passes, but no answer.
    AfterMessage(String),
}

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Whoever connected to the proxy.
    Client,
    /// Whom the proxy connected to.
    Server,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    passage: Passage,
    fault: Option<Fault>,
    lines: HashMap<u64, Line>,
    next_line: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passage {
    Open,
    Stalled,
    Refused,
    /// The proxy is gone.
    Over,
}

#[derive(Debug)]
struct Line {
    client: TcpStream,
    server: TcpStream,
    /// The client gets no answer any more.
    mute: bool,
}

/// What is to be done with bytes that were read.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    /// So many pass, then both sides are cut.
    CutAfter(usize),
    /// They pass, and what follows them, but there is no answer.
    Mute,
}

impl Proxy {
    /// Stands before the server that a URL names.
    pub fn before(url: &str) -> Result<Self> {
        let parts = Parts::of(url)?;
        let port = parts.port.with_context(|| format!("{url} has no port"))?;
        let mut found = (parts.host.as_str(), port).to_socket_addrs()?;
        Proxy::to(found.next().with_context(|| format!("{url} has no address"))?)
    }

    /// Stands before an address.
    pub fn to(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", free_port()?))?;
        let address = listener.local_addr()?;
        let (lines, next_line) = (HashMap::new(), 0);
        let state = Mutex::new(State { passage: Passage::Open, fault: None, lines, next_line });
        let shared = Arc::new(Shared { target, state, changed: Condvar::new() });
        let theirs = Arc::clone(&shared);
        thread::spawn(move || accept(&theirs, &listener));
        Ok(Proxy { address, shared })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same URL, through the proxy.
    pub fn url_of(&self, url: &str) -> String {
        with_address(url, &self.address.to_string())
    }

    /// Cuts every connection. New ones are taken.
    pub fn cut(&self) {
        let mut state = self.shared.lock();
        for (_, line) in state.lines.drain() {
            line.close();
        }
        self.shared.changed.notify_all();
    }

    /// Cuts every connection, and new ones at once, until [`Proxy::open`].
    pub fn refuse(&self) {
        self.shared.set(Passage::Refused);
        self.cut();
    }

    /// Lets nothing pass until [`Proxy::open`]. Connections stay, and new ones are taken.
    pub fn stall(&self) {
        self.shared.set(Passage::Stalled);
    }

    /// Lets everything pass again, what was held up first.
    pub fn open(&self) {
        self.shared.set(Passage::Open);
    }

    /// Waits for this to come by, once, on any connection, and cuts that one.
    pub fn arm(&self, fault: Fault) {
        self.shared.lock().fault = Some(fault);
    }

    /// Waits until the fault has happened; false when the time is up before.
    pub fn happened(&self, within: Duration) -> bool {
        let state = self.shared.lock();
        let waited = self.shared.changed.wait_timeout_while(state, within, |s| s.fault.is_some());
        waited.unwrap_or_else(PoisonError::into_inner).0.fault.is_none()
    }

    /// How many connections there are now.
    pub fn connections(&self) -> usize {
        self.shared.lock().lines.len()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.set(Passage::Over);
        self.cut();
        // Wakes the thread that accepts, so that the port is free soon.
        drop(TcpStream::connect(self.address));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, passage: Passage) {
        self.lock().passage = passage;
        self.changed.notify_all();
    }

    /// What is to be done with these bytes, when it is their turn. None: the line was cut.
    fn judge(&self, line: u64, side: Side, before: &[u8], bytes: &[u8]) -> Option<Verdict> {
        let state = self.lock();
        let held = |state: &mut State| {
            state.passage == Passage::Stalled && state.lines.contains_key(&line)
        };
        let waited = self.changed.wait_while(state, held);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let verdict = state.fault.as_mut().map_or(Verdict::Pass, |f| f.judge(side, before, bytes));
        let found = state.lines.get_mut(&line)?;
        // Before the bytes go on: the answer may be quick.
        found.mute |= verdict == Verdict::Mute;
        if verdict != Verdict::Pass {
            state.fault = None;
            self.changed.notify_all();
        }
        Some(verdict)
    }

    /// Ends a connection; its other thread notices by itself.
    fn end(&self, line: u64) {
        if let Some(line) = self.lock().lines.remove(&line) {
            line.close();
        }
    }

    fn is_mute(&self, line: u64) -> bool {
        self.lock().lines.get(&line).is_some_and(|line| line.mute)
    }
}

impl Fault {
    fn judge(&mut self, side: Side, before: &[u8], bytes: &[u8]) -> Verdict {
        match self {
            Fault::AfterBytes(from, left) if *from == side => {
                let size = bytes.len() as u64;
                if size < *left {
                    *left -= size;
                    return Verdict::Pass;
                }
                Verdict::CutAfter(usize::try_from(*left).unwrap_or(bytes.len()))
            }
            Fault::BeforeMessage(text) if side == Side::Client => {
                let found = position(before, bytes, text.as_bytes());
                found.map_or(Verdict::Pass, Verdict::CutAfter)
            }
            Fault::AfterMessage(text) if side == Side::Client => {
                let found = position(before, bytes, text.as_bytes());
                found.map_or(Verdict::Pass, |_| Verdict::Mute)
            }
            Fault::AfterBytes(..) | Fault::BeforeMessage(_) | Fault::AfterMessage(_) => {
                Verdict::Pass
            }
        }
    }
}

impl Line {
    fn close(&self) {
        for stream in [&self.client, &self.server] {
            // One that is closed already is as closed as it should be.
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}

/// How many of the bytes come before the text, which may have begun in those before.
fn position(before: &[u8], bytes: &[u8], text: &[u8]) -> Option<usize> {
    let tail = &before[before.len().saturating_sub(text.len().saturating_sub(1))..];
    let all = [tail, bytes].concat();
    let found = all.windows(text.len().max(1)).position(|window| window == text)?;
    Some(found.saturating_sub(tail.len()))
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    for client in listener.incoming() {
        match shared.lock().passage {
            Passage::Over => return,
            Passage::Refused => continue,
            Passage::Open | Passage::Stalled => {}
        }
        // A server that is down is a connection that ends at once, as for a client without proxy.
        if let Ok(client) = client
            && let Ok(server) = TcpStream::connect(shared.target)
        {
            // Only when the machine has run out of descriptors; the client is cut then.
            drop(join(shared, client, server));
        }
    }
}

fn join(shared: &Arc<Shared>, client: TcpStream, server: TcpStream) -> Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let kept = Line { client: client.try_clone()?, server: server.try_clone()?, mute: false };
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    let mut state = shared.lock();
    let line = state.next_line;
    state.next_line += 1;
    state.lines.insert(line, kept);
    drop(state);
    let theirs = Arc::clone(shared);
    thread::spawn(move || {
        if pump_client(&theirs, line, from_client, to_server) == After::End {
            theirs.end(line);
        }
    });
    let theirs = Arc::clone(shared);
    thread::spawn(move || {
        pump_server(&theirs, line, server, client);
        theirs.end(line);
    });
    Ok(())
}

/// What becomes of a connection when its client has nothing more to say.
#[derive(PartialEq, Eq)]
enum After {
    End,
    /// The server still has to see all of it; its end is the end.
    Keep,
}

/// From the client to the server, to the end of either or of the line.
fn pump_client(shared: &Shared, line: u64, mut client: TcpStream, mut server: TcpStream) -> After {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut before = Vec::new();
    while let Ok(size @ 1..) = client.read(&mut buffer) {
        let bytes = &buffer[..size];
        let verdict = shared.judge(line, Side::Client, &before, bytes);
        let Some(verdict) = verdict else { return After::End };
        let pass = if let Verdict::CutAfter(pass) = verdict { pass } else { size };
        if server.write_all(&bytes[..pass]).is_err() || matches!(verdict, Verdict::CutAfter(_)) {
            return After::End;
        }
        if verdict == Verdict::Mute {
            rest_of_message(client, server);
            return After::Keep;
        }
        before = bytes.to_vec();
    }
    After::End
}

/// Everything that the client still has to say goes to the server; then the client is cut, and the
/// server sees the end after all of it. To close at once could make it lose what it has not read.
fn rest_of_message(mut client: TcpStream, mut server: TcpStream) {
    let mut buffer = vec![0; CHUNK_BYTES];
    drop(client.set_read_timeout(Some(SILENCE)));
    while let Ok(size @ 1..) = client.read(&mut buffer) {
        if server.write_all(&buffer[..size]).is_err() {
            break;
        }
    }
    // What is closed already needs no closing.
    drop(client.shutdown(Shutdown::Both));
    drop(server.shutdown(Shutdown::Write));
}

/// From the server to the client, to the end of either or of the line.
fn pump_server(shared: &Shared, line: u64, mut server: TcpStream, mut client: TcpStream) {
    let mut buffer = vec![0; CHUNK_BYTES];
    while let Ok(size @ 1..) = server.read(&mut buffer) {
        if shared.is_mute(line) {
            continue;
        }
        let Some(verdict) = shared.judge(line, Side::Server, &[], &buffer[..size]) else { return };
        let pass = if let Verdict::CutAfter(pass) = verdict { pass } else { size };
        if client.write_all(&buffer[..pass]).is_err() || matches!(verdict, Verdict::CutAfter(_)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_across_pieces() {
        let table: [(&str, &str, Option<usize>); 6] = [
            ("", "xxCOMMITyy", Some(2)),
            ("COM", "MITyy", Some(0)),
            ("aCOMMI", "T", Some(0)),
            ("COMMIT", "yy", None),
            ("", "COMM", None),
            ("x", "COMMIT", Some(0)),
        ];
        for (before, bytes, expected) in table {
            let found = position(before.as_bytes(), bytes.as_bytes(), b"COMMIT");
            assert_eq!(found, expected, "{before} {bytes}");
        }
    }
}
