//! The server over real sockets: who may connect, what a connection may do, and how it ends.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails with a line number")]

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hence_server::config::Layer;
use hence_server::limits::HEADERS_MAX;
use hence_server::{Config, ServeError, Server};
use hence_store::memory::MemoryStore;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const TOKEN: &str = "a-token-that-is-long-enough";

fn config(settings: &[(&str, &str)]) -> Config {
    let mut layer = Layer::default();
    layer.set("listen", "127.0.0.1:0".to_owned());
    for (name, value) in settings {
        layer.set(name, (*value).to_owned());
    }
    Config::load(layer, [], None).unwrap()
}

struct Running {
    address: std::net::SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

async fn start(settings: &[(&str, &str)]) -> Running {
    run(bind(settings).await)
}

async fn bind(settings: &[(&str, &str)]) -> Server {
    let store = Arc::new(MemoryStore::new(1));
    Server::start(&config(settings), store, |_| ()).await.unwrap()
}

fn run(server: Server) -> Running {
    let address = server.local_addr();
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(server.run(async {
        let _ = stopped.await;
    }));
    Running { address, stop, task }
}

impl Running {
    /// Sends these bytes and reads until the server closes the connection.
    async fn exchange(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes.as_ref()).await.unwrap();
        read_all(&mut stream).await
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn end(self) {
        self.stop.send(()).unwrap();
        tokio::time::timeout(Duration::from_secs(20), self.task).await.unwrap().unwrap();
    }
}

async fn read_all(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    // A reset after the answer is an end too.
    let _ = tokio::time::timeout(Duration::from_secs(20), reading).await.expect("no end");
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nconnection: close\r\n{headers}\r\n")
}

#[tokio::test]
async fn beyond_loopback_a_token_is_needed() {
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let store = || Arc::new(MemoryStore::new(1));
        let refused = Server::start(&config(&[("listen", listen)]), store(), |_| ()).await;
        let Err(error @ ServeError::Exposed { .. }) = refused else { panic!("it listens") };
        assert!(error.to_string().contains("--token-file"), "{error}");
        let with_token = config(&[("listen", listen), ("token", TOKEN)]);
        match Server::start(&with_token, store(), |_| ()).await {
            Ok(_) => {}
            // A machine without IPv6 cannot show the second row.
            Err(ServeError::Bind { .. }) if listen.starts_with('[') => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_foreign_host_or_a_wrong_token_is_refused() {
    let open = start(&[]).await;
    let guarded = start(&[("token", TOKEN)]).await;
    let bearer = format!("host: x\r\nauthorization: Bearer {TOKEN}\r\n");
    let rows = [
        (&open, "/v1/stats", "host: localhost:1\r\n", "200"),
        (&open, "/v1/stats", "host: evil.example\r\n", "421"),
        (&open, "/live", "host: evil.example\r\n", "421"),
        (&guarded, "/v1/stats", "host: x\r\n", "401"),
        (&guarded, "/v1/stats", "host: x\r\nauthorization: Bearer nonsense\r\n", "401"),
        (&guarded, "/v1/stats", bearer.as_str(), "200"),
        (&guarded, "/live", "host: x\r\n", "200"),
        (&guarded, "/ready", "host: x\r\n", "200"),
    ];
    for (server, path, headers, status) in rows {
        let answer = server.exchange(get(path, headers)).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path} {headers}: {answer}");
        let challenged = answer.to_lowercase().contains("www-authenticate: bearer");
        assert_eq!(challenged, status == "401", "{answer}");
    }
    open.end().await;
    guarded.end().await;
}

#[tokio::test]
async fn heads_are_bounded() {
    let server = start(&[]).await;
    let host = "host: localhost\r\n";
    // Two more are the host and the end of the connection.
    let many = |count: usize| "h: v\r\n".repeat(count - 2);
    let rows = [
        (get("/live", &format!("{host}{}", many(HEADERS_MAX))), "200"),
        (get("/live", &format!("{host}{}", many(HEADERS_MAX + 1))), "431"),
        (get("/live", &format!("{host}big: {}\r\n", "x".repeat(64 * 1024))), "431"),
        (get(&format!("/live?{}", "x".repeat(70 * 1024)), host), "4"),
    ];
    for (request, status) in rows {
        let answer = server.exchange(request).await;
        let first = answer.lines().next().unwrap_or_default().to_owned();
        assert!(first.starts_with(&format!("HTTP/1.1 {status}")), "{first}");
    }
    server.end().await;
}

/// Two readers of one request must not see two requests: whatever is ambiguous is refused, or read
/// in the one way the standard allows.
#[tokio::test]
async fn ambiguous_framing_is_refused() {
    let server = start(&[]).await;
    let rows = [
        "content-length: 2\r\ncontent-length: 3\r\n",
        "content-length: -1\r\n",
        "content-length: 2, 3\r\n",
        "content-length: +2\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "transfer-encoding: xchunked\r\n",
        "transfer-encoding : chunked\r\n",
        " folded: yes\r\n",
    ];
    for header in rows {
        let request = format!("POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\n{header}\r\n{{}}");
        let answer = server.exchange(request).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{header:?}: {answer}");
    }
    let bad_chunk = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                     transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n";
    let answer = server.exchange(bad_chunk).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn beyond_the_last_place_a_connection_is_turned_away() {
    let server = start(&[("max_connections", "2")]).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = server.connect().await;
        let ask = "GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n";
        stream.write_all(ask.as_bytes()).await.unwrap();
        // The answer shows that the place is taken.
        stream.readable().await.unwrap();
        held.push(stream);
    }
    let mut refused = server.connect().await;
    let answer = read_all(&mut refused).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 503") && head.contains("retry-after: 1"), "{head}");
    assert!(head.contains(&format!("content-length: {}", body.len())), "{head} {}", body.len());
    assert_eq!(serde_json::from_str::<serde_json::Value>(body).unwrap()["status"], 503);
    drop(held);
    server.end().await;
}

/// Places were lost one by one to clients that asked and did not read, token or no token.
#[tokio::test]
async fn whoever_does_not_read_the_answers_loses_the_place() {
    let stall_max = Duration::from_millis(200);
    let server = run(bind(&[("max_connections", "1")]).await.write_stall_max(stall_max));
    let mut deaf = server.connect().await;
    let ask = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n";
    // The server reads no further than it can answer, so what was asked last is unread when it
    // hangs up: that is a reset, which ends the writing.
    let asking = async { while deaf.write_all(ask.as_bytes()).await.is_ok() {} };
    within(asking).await;
    let answer = server.exchange(get("/live", "host: localhost\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn at_the_end_long_polls_are_answered_and_no_connection_is_taken() {
    let server = start(&[]).await;
    let mut waiting = server.connect().await;
    let body = r#"{"wait":"5m"}"#;
    let request = format!(
        "POST /v1/leases HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    waiting.write_all(request.as_bytes()).await.unwrap();
    // Another request on the way in shows that the first was read: it was sent before.
    assert!(server.exchange(get("/live", "host: localhost\r\n")).await.starts_with("HTTP/1.1 200"));
    let address = server.address;
    server.end().await;
    let answer = read_all(&mut waiting).await;
    assert!(answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(TcpStream::connect(address).await.is_err(), "it still listens");
}

/// A receiver of pushes that answers when it is told to.
struct Receiver(TcpListener);

impl Receiver {
    async fn bind() -> Self {
        Receiver(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    fn url(&self) -> String {
        format!("http://{}/", self.0.local_addr().unwrap())
    }

    /// The push, once its first bytes are here.
    async fn push(&self) -> TcpStream {
        let (push, _) = within(self.0.accept()).await.unwrap();
        within(push.readable()).await.unwrap();
        push
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("too late")
}

fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Asks on a connection that stays open; the status, and the body.
async fn ask(stream: &mut TcpStream, request: &str) -> (u16, Value) {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.split_once("content-length: ").map_or(0, |(_, rest)| {
                rest.lines().next().unwrap_or_default().parse::<usize>().unwrap()
            });
            if body.len() >= length {
                let status = head.split(' ').nth(1).unwrap().parse().unwrap();
                return (status, serde_json::from_str(body).unwrap_or_default());
            }
        }
        assert_ne!(within(stream.read_buf(&mut bytes)).await.unwrap(), 0, "cut: {text}");
    }
}

#[tokio::test]
async fn while_a_push_is_under_way_workers_can_still_say_what_they_did() {
    let server = start(&[("shutdown_grace", "10m")]).await;
    let receiver = Receiver::bind().await;
    let (mut old, mut polling) = (server.connect().await, server.connect().await);
    for id in ["done", "undone", "longer"] {
        let job = format!(r#"{{"id":"{id}","queue":"pulled"}}"#);
        assert_eq!(ask(&mut old, &post("/v1/jobs", &job)).await.0, 201);
    }
    let lease = r#"{"queue":"pulled","max":3,"worker":"w","lease":"1m"}"#;
    let (_, leased) = ask(&mut old, &post("/v1/leases", lease)).await;
    let leases = |n: usize, verb: &str| {
        format!("/v1/leases/{}/{verb}", leased["jobs"][n]["token"].as_str().unwrap())
    };
    let push_job = format!(r#"{{"url":"{}"}}"#, receiver.url());
    assert_eq!(ask(&mut old, &post("/v1/jobs", &push_job)).await.0, 201);
    let mut push = receiver.push().await;
    polling
        .write_all(post("/v1/leases", r#"{"queue":"none","wait":"5m"}"#).as_bytes())
        .await
        .unwrap();
    server.stop.send(()).unwrap();
    // Its answer is the signal: from here on the server drains.
    within(polling.readable()).await.unwrap();

    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let rows = [
        (get("/ready"), 503, "draining"),
        (post("/v1/jobs", "{}"), 503, "/docs/errors#draining"),
        (post("/v1/leases", r#"{"queue":"none"}"#), 503, "/docs/errors#draining"),
        (post(&leases(0, "extend"), r#"{"lease":"2m"}"#), 200, ""),
        (get("/v1/jobs/done?queue=pulled"), 200, ""),
    ];
    let mut new = TcpStream::connect(server.address).await.unwrap();
    for stream in [&mut old, &mut new] {
        for (request, status, said) in &rows {
            let (got, body) = ask(stream, request).await;
            assert_eq!(got, *status, "{request}: {body}");
            let says = ["type", "status"].iter().any(|field| body[field] == *said);
            assert!(said.is_empty() || says, "{request}: {body}");
        }
    }
    assert_eq!(ask(&mut old, &post(&leases(0, "ack"), "")).await.0, 204);
    assert_eq!(ask(&mut new, &post(&leases(1, "nack"), "")).await.0, 204);
    assert!(!server.task.is_finished(), "it did not wait for the push");

    // The third lease is still held, and not waited for.
    push.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    within(server.task).await.unwrap();
    for stream in [&mut old, &mut new] {
        assert_eq!(read_all(stream).await, "", "the connection is ended in order");
    }
    assert!(TcpStream::connect(server.address).await.is_err(), "it still listens");
}

#[tokio::test]
async fn a_server_without_work_ends_at_once_and_one_with_work_within_the_grace() {
    let receiver = Receiver::bind().await;
    for (grace, pushes) in [("10m", 0), ("50ms", 1)] {
        let server = start(&[("shutdown_grace", grace)]).await;
        let mut idle = server.connect().await;
        assert_eq!(ask(&mut idle, &post("/v1/jobs", "{}")).await.0, 201, "{grace}");
        let mut held = Vec::new();
        for _ in 0..pushes {
            let job = format!(r#"{{"url":"{}"}}"#, receiver.url());
            assert_eq!(ask(&mut idle, &post("/v1/jobs", &job)).await.0, 201, "{grace}");
            held.push(receiver.push().await);
        }
        // Waits for less than the longer grace.
        server.end().await;
        assert_eq!(read_all(&mut idle).await, "", "{grace}");
    }
}
