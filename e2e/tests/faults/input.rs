//! Faults of clients: what they send, and how slowly.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Result, ensure};
use hence_e2e::suite::Ended;
use hence_e2e::{Receiver, Server};
use serde_json::json;

/// What is sent to `POST /v1/jobs`, and what may be answered.
fn bad_bodies() -> Vec<(&'static str, Vec<u8>, &'static [u16])> {
    let text = |text: &str| text.as_bytes().to_vec();
    let deep = format!("{{\"payload\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let many = format!("{{\"jobs\":[{}]}}", vec!["{}"; 1_001].join(","));
    vec![
        ("empty", text(""), &[400, 422]),
        ("not json", text("hello"), &[400]),
        ("cut off", text("{\"id\":\"a\""), &[400]),
        ("two values", text("{} {}"), &[400]),
        ("not utf-8", vec![b'{', b'"', 0xff, 0xfe, b'"', b':', b'1', b'}'], &[400]),
        ("a list", text("[]"), &[400, 422]),
        ("null", text("null"), &[400, 422]),
        ("a number for an id", text("{\"id\":7}"), &[422]),
        ("an unknown field", text("{\"qeue\":\"mail\"}"), &[422]),
        ("a field twice", text("{\"id\":\"a\",\"id\":\"b\"}"), &[422]),
        ("a time that is none", text("{\"at\":\"tomorrow-ish\"}"), &[422]),
        ("a negative delay", text("{\"in\":\"-5s\"}"), &[422]),
        ("both at and in", text("{\"at\":1,\"in\":\"5s\"}"), &[422]),
        ("a time beyond all", text("{\"at\":9223372036854775807}"), &[422]),
        ("a number beyond all", text("{\"at\":1e400}"), &[400, 422]),
        ("a url that is none", text("{\"url\":\"not a url\"}"), &[422]),
        ("a scheme that is none", text("{\"url\":\"gopher://a/\"}"), &[422]),
        ("an empty queue", text("{\"queue\":\"\"}"), &[422]),
        ("a huge id", format!("{{\"id\":\"{}\"}}", "x".repeat(10_000)).into_bytes(), &[413, 422]),
        ("no attempts", text("{\"retry\":{\"max_attempts\":0}}"), &[422]),
        ("no jobs", text("{\"jobs\":[]}"), &[422]),
        ("too many jobs", many.into_bytes(), &[413, 422]),
        ("jobs that are none", text("{\"jobs\":7}"), &[422]),
        ("bad base64", text("{\"payload_base64\":\"***\"}"), &[422]),
        ("nested too deeply", deep.into_bytes(), &[400, 413, 422]),
        ("too large", vec![b' '; 16 * 1024 * 1024], &[413]),
    ]
}

/// Every row is refused with a document that says why; nothing is accepted by it, and the server
/// goes on.
pub(crate) fn bad_input_is_refused_and_the_server_lives() -> Result<Ended> {
    let server = Server::start()?;
    let receiver = Receiver::start()?;
    for (what, body, allowed) in bad_bodies() {
        let headers = [("content-type", "application/json")];
        let answer = server.api().send("POST", "/v1/jobs", &headers, &body)?;
        ensure!(allowed.contains(&answer.status), "{what}: {answer:?}");
        let problem = answer.value()?;
        ensure!(
            problem["title"].is_string() && problem["status"] == answer.status,
            "{what}: {problem}"
        );
        ensure!(answer.header("content-type") == Some("application/problem+json"), "{what}");
    }
    for raw in [
        "GARBAGE\r\n\r\n",
        "GET /v1/jobs\r\n\r\n",
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999999999999\r\n\r\n",
        "\0\0\0\0\0\0\0\0\r\n\r\n",
    ] {
        // Refused or hung up on: both are fine.
        if let Ok(answer) = server.api().send_raw(raw.as_bytes()) {
            ensure!((400..500).contains(&answer.status), "{raw:?}: {answer:?}");
        }
    }
    for (method, path, status) in [
        ("GET", "/nowhere", 404),
        ("PUT", "/v1/jobs", 405),
        ("GET", "/v1/jobs/none", 404),
        ("GET", "/v1/jobs?limit=many", 422),
        ("GET", "/v1/jobs?cursor=nonsense", 422),
    ] {
        let answer = server.api().send(method, path, &[], b"")?;
        ensure!(answer.status == status, "{method} {path}: {answer:?}");
    }
    let listed = server.api().get("/v1/jobs")?.expect(200)?;
    ensure!(listed["jobs"].as_array().is_some_and(Vec::is_empty), "nothing was let in: {listed}");
    server.api().submit(&json!({"id": "fine", "url": receiver.url("/")}))?;
    receiver.wait_for("fine", 1, Duration::from_secs(20))?;
    Ok(Ended::Passed)
}

/// Clients that send one byte and wait are dropped after a while, and cost nobody else anything.
pub(crate) fn a_slow_client_is_dropped_and_others_are_served() -> Result<Ended> {
    let server = Server::start()?;
    let mut slow = Vec::new();
    // A "P" may begin a POST as well as HTTP/2's greeting; nothing at all may begin anything.
    for (sent, count) in [(&b"P"[..], 50), (b"", 50), (b"GET / HTTP/1.1\r\nho", 50)] {
        for _ in 0..count {
            let mut stream = TcpStream::connect(server.address())?;
            stream.write_all(sent)?;
            slow.push(stream);
        }
    }
    let mut api = server.api().timeout(Duration::from_secs(5));
    for _ in 0..20 {
        api.submit(&json!({"queue": "q"}))?;
    }
    for (index, stream) in slow.iter_mut().enumerate() {
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        // Closed with an answer (408) or without.
        let closed = stream.read_to_end(&mut Vec::new());
        let timed_out = closed.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        ensure!(!timed_out, "connection {index} is still open after 20 s");
    }
    Ok(Ended::Passed)
}
