//! The real binary, as a user runs it: a server on a free port, and commands against it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Far above what anything here takes; a test that waits so long has failed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A server in a directory of its own.
pub(crate) struct Server {
    child: Child,
    pub(crate) base: String,
    pub(crate) directory: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap())
    }

    /// On the store in this directory, which may hold one already.
    pub(crate) fn start_in(directory: tempfile::TempDir) -> Self {
        Self::start_with(directory, &[])
    }

    /// The same, with more flags.
    pub(crate) fn start_with(directory: tempfile::TempDir, flags: &[&str]) -> Self {
        let mut command = serve(directory.path());
        command.args(flags);
        Self::from(command, directory)
    }

    /// The server that this command runs in the directory.
    pub(crate) fn from(mut command: Command, directory: tempfile::TempDir) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let line = first_line(stdout).expect("the server says where it listens");
        let base = line.strip_prefix("listening on ").expect("an address").to_owned();
        Server { child, base, directory }
    }

    /// `hence …` against this server.
    pub(crate) fn hence(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = hence();
        command.env("HENCE_SERVER", &self.base).args(arguments).stdin(Stdio::null());
        command
    }

    /// The same, which must succeed; its stdout.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.hence(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The same with `--json`, which must print one document.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let arguments = [&["--json"], arguments].concat();
        serde_json::from_str(&self.ok(&arguments)).unwrap()
    }

    /// SIGKILL; the directory stays.
    pub(crate) fn kill(mut self) -> tempfile::TempDir {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::mem::replace(&mut self.directory, tempfile::tempdir().unwrap())
    }

    /// SIGTERM and SIGINT, with nothing between them: two of a kind could become one.
    pub(crate) fn signal_twice(&self) {
        let id = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        for signal in [Signal::TERM, Signal::INT] {
            kill_process(id, signal).unwrap();
        }
    }

    /// Its exit code, once it has ended.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// SIGTERM; the exit code, and the directory.
    pub(crate) fn stop(self) -> (Option<i32>, tempfile::TempDir) {
        self.stop_by("TERM")
    }

    /// The same, by another signal.
    pub(crate) fn stop_by(mut self, name: &str) -> (Option<i32>, tempfile::TempDir) {
        signal(&self.child, name);
        let code = self.child.wait().unwrap().code();
        (code, std::mem::replace(&mut self.directory, tempfile::tempdir().unwrap()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The binary, without any setting of whoever runs the tests.
pub(crate) fn hence() -> Command {
    let mut command = listening();
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HENCE_")) {
        command.env_remove(name);
    }
    command
}

/// The program, hearing the signals that a terminal sends: whoever runs these tests under `nohup`
/// has them ignored, and so would it.
fn listening() -> Command {
    const HANGUP_AND_QUIT: u64 = 0b101;
    let program = env!("CARGO_BIN_EXE_hence");
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    if ignored.unwrap_or_default() & HANGUP_AND_QUIT == 0 {
        return Command::new(program);
    }
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,QUIT", program]);
    command
}

/// `hence serve` on a store in this directory.
pub(crate) fn serve(directory: &Path) -> Command {
    let mut command = hence();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(directory.join("data"));
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command
}

pub(crate) fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The first line of a stream, or none when it ends or says nothing in time.
pub(crate) fn first_line(stream: impl Read + Send + 'static) -> Option<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(stream).lines();
        let _ = sender.send(lines.next());
        // Keeps reading: whoever writes to a closed pipe fails.
        lines.for_each(drop);
    });
    receiver.recv_timeout(DEADLINE).ok()?.and_then(Result::ok)
}

/// Answers each request with the next of these statuses (the last one again and again), and says
/// what arrived: head and body as one text.
pub(crate) fn receiver(statuses: &'static [u16]) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        let mut statuses = statuses.iter().copied();
        let mut status = 200;
        for stream in listener.incoming().map_while(Result::ok) {
            status = statuses.next().unwrap_or(status);
            let mut stream = stream;
            let Some(request) = read_request(&mut stream) else { continue };
            let answer = format!(
                "HTTP/1.1 {status} Whatever\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"
            );
            let _ = stream.write_all(answer.as_bytes());
            if sender.send(request).is_err() {
                return;
            }
        }
    });
    (url, requests)
}

fn read_request(stream: &mut impl Read) -> Option<String> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let start = head.len();
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
        let line = head[start..].trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(head + &String::from_utf8_lossy(&body))
}
