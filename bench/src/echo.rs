//! The bare server library: the same HTTP stack with nothing behind it, in a process of its own.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use axum::Router;
use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::routing::post;

use crate::server::quiet;

/// The hidden command that runs it.
pub(crate) const COMMAND: &str = "serve-echo";
const ADDRESS: &str = "HENCE_BENCH_ECHO";

/// A running echo; ends with its value.
pub(crate) struct Echo {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Echo {
    pub(crate) fn start() -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = Command::new(std::env::current_exe()?);
        let child = quiet(command.arg(COMMAND).env(ADDRESS, address.to_string())).spawn()?;
        let echo = Echo { child, address };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            if started.elapsed() > Duration::from_secs(10) {
                bail!("the echo does not answer");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(echo)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Runs it until killed.
#[tokio::main]
pub(crate) async fn serve() -> Result<()> {
    let address: SocketAddr = std::env::var(ADDRESS)?.parse()?;
    let answer = |body: Bytes| async move {
        (StatusCode::CREATED, [(header::CONTENT_TYPE, "application/json")], body)
    };
    let router = Router::new().route("/v1/jobs", post(answer));
    let listener = tokio::net::TcpListener::bind(address).await?;
    axum::serve(
        axum::serve::ListenerExt::tap_io(listener, |stream| drop(stream.set_nodelay(true))),
        router,
    )
    .await?;
    Ok(())
}
