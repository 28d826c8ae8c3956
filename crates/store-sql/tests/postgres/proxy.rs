//! A wire between the engine and the server that can be cut or held when a commit goes over it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};

/// What happens to the next commit that goes over the wire.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Mishap {
    /// Nothing.
    None,
    /// It never arrives, and the wire is cut.
    CutBefore,
    /// It arrives, its answer does not, and the wire is cut.
    CutAfter,
    /// Its last bytes are held until somebody lets them go.
    Hold,
}

/// Shared by all connections.
struct State {
    mishap: Mutex<Mishap>,
    changed: Condvar,
}

pub(crate) struct Proxy {
    port: u16,
    state: Arc<State>,
}

impl Proxy {
    /// A wire to this port of this machine.
    pub(crate) fn to(server: u16) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("a port for the proxy")?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(State { mishap: Mutex::new(Mishap::None), changed: Condvar::new() });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                carry(client, server, &shared);
            }
        });
        Ok(Proxy { port, state })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// This happens to the next commit.
    pub(crate) fn prepare(&self, mishap: Mishap) {
        *self.state.lock() = mishap;
        self.state.changed.notify_all();
    }

    /// Waits until the mishap that was prepared has begun.
    pub(crate) fn await_mishap(&self) {
        let mut mishap = self.state.lock();
        while !matches!(*mishap, Mishap::None) {
            mishap = self.state.changed.wait(mishap).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    fn lock(&self) -> std::sync::MutexGuard<'_, Mishap> {
        self.mishap.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries bytes both ways, until one side ends.
fn carry(client: TcpStream, server: TcpStream, state: &Arc<State>) {
    let (Ok(back_in), Ok(back_out)) = (server.try_clone(), client.try_clone()) else { return };
    let muted = Arc::new(Mutex::new(false));
    let (mute, state) = (Arc::clone(&muted), Arc::clone(state));
    thread::spawn(move || outwards(client, server, &state, &mute));
    thread::spawn(move || copy(back_in, back_out, &muted));
}

fn outwards(mut client: TcpStream, mut server: TcpStream, state: &State, mute: &Mutex<bool>) {
    let mut buffer = vec![0; 65_536];
    let cut = |client: &TcpStream, server: &TcpStream| {
        let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
    };
    while let Ok(length @ 1..) = client.read(&mut buffer) {
        let bytes = &buffer[..length];
        let commit = bytes.windows(7).position(|it| it == b"COMMIT\0");
        let mishap = match commit {
            Some(_) => std::mem::replace(&mut *state.lock(), Mishap::None),
            None => Mishap::None,
        };
        let sent = match (mishap, commit) {
            (Mishap::CutBefore, _) => {
                cut(&client, &server);
                state.changed.notify_all();
                return;
            }
            (Mishap::CutAfter, _) => {
                *mute.lock().unwrap_or_else(PoisonError::into_inner) = true;
                let sent = server.write_all(bytes);
                // The server says when it is done by closing its side.
                let _ = server.shutdown(Shutdown::Write);
                state.changed.notify_all();
                sent
            }
            (Mishap::Hold, Some(at)) => {
                // All but the message that commits: it begins five bytes before its text.
                let held = at - 5;
                let sent = server.write_all(&bytes[..held]);
                state.changed.notify_all();
                let mut mishap = state.lock();
                while !matches!(*mishap, Mishap::CutBefore) {
                    mishap = state.changed.wait(mishap).unwrap_or_else(PoisonError::into_inner);
                }
                *mishap = Mishap::None;
                drop(mishap);
                sent.and_then(|()| server.write_all(&bytes[held..]))
            }
            (Mishap::None | Mishap::Hold, _) => server.write_all(bytes),
        };
        if sent.is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Write);
}

fn copy(mut from: TcpStream, mut to: TcpStream, muted: &Mutex<bool>) {
    let mut buffer = vec![0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if *muted.lock().unwrap_or_else(PoisonError::into_inner) {
            continue;
        }
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
