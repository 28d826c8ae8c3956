//! A small HTTP/1.1 client on a plain socket: it never repeats a request by itself, so that a test
//! knows what was sent and what was answered.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// A connection is not used again after this: the server closes idle ones.
const IDLE_MAX: Duration = Duration::from_secs(3);

/// One client: one request at a time, over a connection that is kept.
#[derive(Debug)]
pub struct Api {
    address: SocketAddr,
    timeout: Duration,
    stream: Option<(BufReader<TcpStream>, Instant)>,
}

/// What was answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Api {
    /// Speaks to this address.
    pub fn new(address: SocketAddr) -> Self {
        Api { address, timeout: Duration::from_secs(20), stream: None }
    }

    /// Gives up waiting for an answer after this.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// GET.
    pub fn get(&mut self, path: &str) -> Result<Answer> {
        self.send("GET", path, &[], b"")
    }

    /// DELETE.
    pub fn delete(&mut self, path: &str) -> Result<Answer> {
        self.send("DELETE", path, &[], b"")
    }

    /// POST of a JSON value.
    pub fn post(&mut self, path: &str, body: &Value) -> Result<Answer> {
        self.json("POST", path, body)
    }

    /// A request with a JSON value as its body.
    pub fn json(&mut self, method: &str, path: &str, body: &Value) -> Result<Answer> {
        self.send(
            method,
            path,
            &[("content-type", "application/json")],
            body.to_string().as_bytes(),
        )
    }

    /// Schedules a job; anything but an acceptance is an error. Returns what was answered.
    pub fn submit(&mut self, job: &Value) -> Result<Value> {
        let answer = self.post("/v1/jobs", job)?;
        ensure!(matches!(answer.status, 200 | 201), "{job} was answered {answer:?}");
        answer.value()
    }

    /// Takes jobs; `request` as in the API.
    pub fn lease(&mut self, request: &Value) -> Result<Vec<Value>> {
        let answer = self.post("/v1/leases", request)?.expect(200)?;
        Ok(answer["jobs"].as_array().cloned().unwrap_or_default())
    }

    /// The state of a job, from `?queue=…&key=…` or without.
    pub fn state(&mut self, id_and_query: &str) -> Result<String> {
        let job = self.get(&format!("/v1/jobs/{id_and_query}"))?.expect(200)?;
        Ok(job["state"].as_str().unwrap_or_default().to_owned())
    }

    /// Waits until the job has ended, and returns it.
    pub fn ended(&mut self, id_and_query: &str, within: Duration) -> Result<Value> {
        let mut last = Value::Null;
        let ended = crate::clock::until(within, || {
            last = self.get(&format!("/v1/jobs/{id_and_query}")).ok()?.value().ok()?;
            let state = last["state"].as_str()?;
            (!matches!(state, "scheduled" | "ready" | "running")).then(|| last.clone())
        });
        ended.with_context(|| format!("{id_and_query} has not ended within {within:?}: {last}"))
    }

    /// Sends a request and reads the answer. A connection that broke is not used again, and the
    /// request is not repeated: its outcome is unknown.
    pub fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Answer> {
        let mut bytes = Vec::new();
        write!(bytes, "{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.address)?;
        for (name, value) in headers {
            write!(bytes, "{name}: {value}\r\n")?;
        }
        write!(bytes, "content-length: {}\r\n\r\n", body.len())?;
        bytes.extend_from_slice(body);
        self.send_raw(&bytes).with_context(|| format!("{method} {path}"))
    }

    /// Sends these bytes and reads one answer.
    pub fn send_raw(&mut self, bytes: &[u8]) -> Result<Answer> {
        let kept = self.stream.take().filter(|(_, used)| used.elapsed() < IDLE_MAX);
        let mut stream = match kept {
            Some((stream, _)) => stream,
            None => connect(self.address, self.timeout)?,
        };
        // A server that answers before it has read everything (413) may close meanwhile: what
        // counts is the answer.
        let written = stream.get_mut().write_all(bytes);
        let answer = match read_answer(&mut stream) {
            Ok(answer) => answer,
            Err(error) => return Err(written.err().unwrap_or(error).into()),
        };
        if answer.header("connection") != Some("close") && written.is_ok() {
            self.stream = Some((stream, Instant::now()));
        }
        Ok(answer)
    }

    /// Sends a request and goes away without waiting for the answer.
    pub fn send_and_leave(&mut self, method: &str, path: &str, body: &Value) -> Result<()> {
        let body = body.to_string();
        let mut stream = TcpStream::connect(self.address)?;
        let (host, length) = (self.address, body.len());
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        )?;
        Ok(())
    }
}

impl Answer {
    /// The body as JSON.
    pub fn value(&self) -> Result<Value> {
        serde_json::from_slice(&self.body)
            .with_context(|| format!("not JSON: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The body as JSON, of an answer with this status.
    pub fn expect(&self, status: u16) -> Result<Value> {
        let text = String::from_utf8_lossy(&self.body);
        ensure!(self.status == status, "expected {status}, was answered {}: {text}", self.status);
        if self.body.is_empty() { Ok(Value::Null) } else { self.value() }
    }

    /// A header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

fn connect(address: SocketAddr, timeout: Duration) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}

fn read_answer(stream: &mut BufReader<TcpStream>) -> io::Result<Answer> {
    let status_line = read_line(stream)?;
    let status = status_line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| broken("no status line"))?;
    let mut headers = Vec::new();
    loop {
        let line = read_line(stream)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| broken("a header without colon"))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut answer = Answer { status, headers, body: Vec::new() };
    if answer.header("transfer-encoding") == Some("chunked") {
        read_chunks(stream, &mut answer.body)?;
    } else if let Some(length) = answer.header("content-length") {
        let length = length.parse().map_err(|_| broken("a bad content-length"))?;
        answer.body.resize(length, 0);
        stream.read_exact(&mut answer.body)?;
    }
    Ok(answer)
}

fn read_chunks(stream: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let size = read_line(stream)?;
        let size = usize::from_str_radix(size.trim(), 16).map_err(|_| broken("a bad chunk"))?;
        let start = body.len();
        body.resize(start + size, 0);
        stream.read_exact(&mut body[start..])?;
        read_line(stream)?;
        if size == 0 {
            return Ok(());
        }
    }
}

fn read_line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed without an answer"));
    }
    Ok(line.trim_end().to_owned())
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
