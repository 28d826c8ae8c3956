//! The real binary, as a child process.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::machine::{cpu_time, settle};

/// How long a start may take; five million jobs are opened within it.
const READY_WITHIN: Duration = Duration::from_mins(2);

/// A running server; ends with its value.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// From the start of the process to the first answer that it is ready.
    pub(crate) ready_after: Duration,
}

/// What jobs cost a server.
pub(crate) struct Cost {
    pub(crate) jobs: f64,
    /// Processor time of each.
    pub(crate) cpu_us: f64,
    pub(crate) jobs_per_commit: f64,
}

impl Server {
    /// Starts the binary on this directory, logging warnings only.
    pub(crate) fn start(data: &Path) -> Result<Self> {
        Server::start_with(data, &[("HENCE_LOG", "warn")])
    }

    /// Starts the binary on this directory, with these variables.
    pub(crate) fn start_with(data: &Path, env: &[(&str, &str)]) -> Result<Self> {
        let mut command = Command::new(binary()?);
        command.arg("serve").arg("--data").arg(data).envs(env.iter().copied());
        let server = Server::run(&mut command)?;
        settle(data);
        Ok(server)
    }

    /// Starts the binary on a database, logging warnings only.
    pub(crate) fn start_in(url: &str) -> Result<Self> {
        let mut command = Command::new(binary()?);
        command.args(["serve", "--store", url, "--require-tier", "durable"]);
        Server::run(command.env("HENCE_LOG", "warn"))
    }

    fn run(command: &mut Command) -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let started = Instant::now();
        command.args(["--listen", &address.to_string()]);
        let mut child = quiet(command).spawn()?;
        while started.elapsed() < READY_WITHIN {
            if let Some(status) = child.try_wait()? {
                bail!("hence ended with {status}");
            }
            if call(address, "GET", "/ready", None).is_ok_and(|(status, _)| status == 200) {
                let ready_after = started.elapsed();
                return Ok(Server { child, address, ready_after });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        drop(child.kill());
        bail!("hence is not ready after {READY_WITHIN:?}")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What so many jobs cost it; the act says how many they were.
    pub(crate) fn cost_of(&self, act: impl FnOnce() -> Result<f64>) -> Result<Cost> {
        let commits_before = self.metric("hence_commit_seconds_count")?;
        let before = cpu_time(self.pid())?;
        let jobs = act()?;
        let spent = cpu_time(self.pid())?.saturating_sub(before);
        let commits = self.metric("hence_commit_seconds_count")? - commits_before;
        let cpu_us = spent.as_secs_f64() * 1e6 / jobs.max(1.0);
        Ok(Cost { jobs, cpu_us, jobs_per_commit: jobs / commits.max(1.0) })
    }

    /// One request, apart from all measurements.
    pub(crate) fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let (status, body) = call(self.address, method, path, body)?;
        let text = String::from_utf8_lossy(&body);
        ensure!((200..300).contains(&status), "{method} {path} was answered {status}: {text}");
        Ok(serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// A figure of the server's own metrics: the sum of all lines that start like this.
    pub(crate) fn metric(&self, start: &str) -> Result<f64> {
        let (_, body) = call(self.address, "GET", "/metrics", None)?;
        let text = String::from_utf8_lossy(&body);
        let lines = text.lines().filter(|line| line.starts_with(start));
        Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Without a terminal and without a log.
pub(crate) fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

fn binary() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("HENCE_BIN") {
        return Ok(given.into());
    }
    let beside = std::env::current_exe()?.with_file_name("hence");
    ensure!(beside.is_file(), "{} is missing: run `cargo build --release` first", beside.display());
    Ok(beside)
}

fn call(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<(u16, Vec<u8>)> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
    stream.set_read_timeout(Some(Duration::from_mins(1)))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").context("no head")?;
    let text = String::from_utf8_lossy(&answer[..head]);
    let status = text.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, answer.split_off(head + 4)))
}
