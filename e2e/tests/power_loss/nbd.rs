//! A disk that writes everything down: an NBD server in memory, on a Unix socket.
//!
//! It speaks as much of the protocol as `nbdfuse` needs: one export, reads, writes, flushes. Every
//! write and every flush goes into a journal, in their order; that journal is what a disk that
//! loses power may have kept a part of.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The length of the disk.
pub(crate) const DISK_BYTES: usize = 32 << 20;

/// What happened to the disk, in order.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// These bytes were written here, durable by themselves or not.
    Write { at: usize, bytes: Vec<u8>, durable: bool },
    /// Everything before is durable.
    Flush,
}

/// The disk as it is, and how it came to be.
#[derive(Debug)]
pub(crate) struct Disk {
    content: Vec<u8>,
    journal: Vec<Event>,
}

/// A disk that others can use over its socket.
#[derive(Debug, Clone)]
pub(crate) struct Recorder(Arc<Mutex<Disk>>);

impl Recorder {
    /// Starts serving on the socket.
    pub(crate) fn start(socket: &Path) -> io::Result<Self> {
        let disk = Disk { content: vec![0; DISK_BYTES], journal: Vec::new() };
        let recorder = Recorder(Arc::new(Mutex::new(disk)));
        let listener = UnixListener::bind(socket)?;
        let shared = recorder.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                // A client that goes away ends its thread.
                std::thread::spawn(move || drop(shared.serve(stream)));
            }
        });
        Ok(recorder)
    }

    /// How many events there are.
    pub(crate) fn events(&self) -> usize {
        self.lock().journal.len()
    }

    /// All events so far.
    pub(crate) fn journal(&self) -> Vec<Event> {
        self.lock().journal.clone()
    }

    fn serve(&self, mut stream: UnixStream) -> io::Result<()> {
        greet(&mut stream)?;
        loop {
            let mut head = [0; 28];
            stream.read_exact(&mut head)?;
            let flags = u16::from_be_bytes([head[4], head[5]]);
            let command = u16::from_be_bytes([head[6], head[7]]);
            let cookie: [u8; 8] = head[8..16].try_into().unwrap_or_default();
            let at = u64::from_be_bytes(head[16..24].try_into().unwrap_or_default()) as usize;
            let len = u32::from_be_bytes(head[24..28].try_into().unwrap_or_default()) as usize;
            let answer = match command {
                READ => self.lock().content[at..at + len].to_vec(),
                WRITE => {
                    let mut bytes = vec![0; len];
                    stream.read_exact(&mut bytes)?;
                    self.lock().write(at, bytes, flags & FORCE_UNIT_ACCESS != 0);
                    Vec::new()
                }
                FLUSH => {
                    self.lock().journal.push(Event::Flush);
                    Vec::new()
                }
                DISCONNECT => return Ok(()),
                other => return Err(io::Error::other(format!("command {other}"))),
            };
            let mut reply = Vec::with_capacity(16 + answer.len());
            reply.extend_from_slice(&REPLY_MAGIC.to_be_bytes());
            reply.extend_from_slice(&[0; 4]);
            reply.extend_from_slice(&cookie);
            reply.extend_from_slice(&answer);
            stream.write_all(&reply)?;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    fn write(&mut self, at: usize, bytes: Vec<u8>, durable: bool) {
        self.content[at..at + bytes.len()].copy_from_slice(&bytes);
        self.journal.push(Event::Write { at, bytes, durable });
    }
}

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const FORCE_UNIT_ACCESS: u16 = 1;
const REPLY_MAGIC: u32 = 0x6744_6698;

const OPTION_EXPORT_NAME: u32 = 1;
const OPTION_ABORT: u32 = 2;
const OPTION_GO: u32 = 7;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const ANSWER_ACK: u32 = 1;
const ANSWER_INFO: u32 = 3;
const ANSWER_UNSUPPORTED: u32 = 0x8000_0001;

/// Has flags; can flush; writes can be forced.
const EXPORT_FLAGS: u16 = 1 | 4 | 8;

/// The handshake: agrees on the one export there is.
fn greet(stream: &mut UnixStream) -> io::Result<()> {
    stream.write_all(b"NBDMAGICIHAVEOPT")?;
    // Fixed newstyle, no zeroes.
    stream.write_all(&3_u16.to_be_bytes())?;
    let mut client_flags = [0; 4];
    stream.read_exact(&mut client_flags)?;
    let no_zeroes = client_flags[3] & 2 != 0;
    loop {
        let mut head = [0; 16];
        stream.read_exact(&mut head)?;
        let option = u32::from_be_bytes(head[8..12].try_into().unwrap_or_default());
        let len = u32::from_be_bytes(head[12..16].try_into().unwrap_or_default()) as usize;
        stream.read_exact(&mut vec![0; len])?;
        match option {
            OPTION_EXPORT_NAME => {
                stream.write_all(&export())?;
                return if no_zeroes { Ok(()) } else { stream.write_all(&[0; 124]) };
            }
            OPTION_GO => {
                let info = [&0_u16.to_be_bytes()[..], &export()].concat();
                reply(stream, option, ANSWER_INFO, &info)?;
                return reply(stream, option, ANSWER_ACK, &[]);
            }
            OPTION_ABORT => return Err(io::Error::other("the client went away")),
            _ => reply(stream, option, ANSWER_UNSUPPORTED, &[])?,
        }
    }
}

/// Length and flags of the export.
fn export() -> Vec<u8> {
    [&(DISK_BYTES as u64).to_be_bytes()[..], &EXPORT_FLAGS.to_be_bytes()].concat()
}

fn reply(stream: &mut UnixStream, option: u32, answer: u32, data: &[u8]) -> io::Result<()> {
    let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    bytes.extend_from_slice(&option.to_be_bytes());
    bytes.extend_from_slice(&answer.to_be_bytes());
    bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data);
    stream.write_all(&bytes)
}
