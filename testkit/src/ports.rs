//! Ports on loopback that nobody listens on.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Result, bail};

/// A port that is free, outside the range from which the kernel draws ports for outgoing
/// connections: a client that tries to reach a dead server must not be given its port and so
/// connect to itself.
pub fn free_port() -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 10_000 + (std::process::id() % 200) as u16 * 100;
    for _ in 0..2_000 {
        let port = start + NEXT.fetch_add(1, Ordering::Relaxed) % 2_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port from {start} on")
}
