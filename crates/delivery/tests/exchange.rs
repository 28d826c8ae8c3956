//! What a well-behaved receiver sees of a delivery, and how connections are used.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails with a line number")]

mod support;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use hence_core::id::{JobId, Key, QueueName, ScheduleId};
use hence_core::job::{HttpTarget, Job, Occurrence, Payload, Target as JobTarget};
use hence_delivery::connect::{Dial, DialError};
use hence_delivery::http::{HttpSender, HttpSenderBuilder};
use hence_delivery::{Report, Target, limits};
use http::Uri;
use support::server::{Server, Step, say};
use support::{PATIENCE, SHORT, attempt, job, post, tls, within};
use tokio::net::TcpStream;
use tokio::time::timeout;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi";

fn http_job(url: &str, headers: &[(&str, &str)]) -> Job {
    let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let target = HttpTarget { method: "PUT".into(), url: url.into(), headers };
    job(JobTarget::Http(Arc::new(target)))
}

/// Sends one delivery and returns its request line and headers, as they came over the wire.
async fn seen(server: &Server, job: Job, number: u32) -> (String, HashMap<String, String>) {
    let report = HttpSender::new().deliver(attempt(job, number), within(PATIENCE)).await;
    assert!(matches!(report, Report::Succeeded { .. }), "{report:?}");
    let head = server.heads().pop().unwrap();
    let (line, headers) = head.split_once("\r\n").unwrap();
    let pairs = headers.lines().filter_map(|line| line.split_once(": "));
    let pairs: Vec<_> = pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let count = pairs.len();
    let headers: HashMap<_, _> = pairs.into_iter().collect();
    assert_eq!(headers.len(), count, "no header is sent twice");
    (line.to_string(), headers)
}

#[tokio::test]
async fn a_receiver_learns_what_it_needs() {
    let server = Server::start(vec![say(OK)]);
    let mut job = http_job(&server.url("http"), &[("authorization", "Bearer x")]);
    job.name.queue = QueueName::new("mail/out").unwrap();
    job.name.key = Some(Key::new("Zoë 100%").unwrap());
    job.name.id = JobId::new("a/b#1").unwrap();
    let schedule = ScheduleId::new("nightly").unwrap();
    job.occurrence = Some(Occurrence { schedule, at: job.scheduled_for });
    let (line, headers) = seen(&server, job, 2).await;
    assert_eq!(line, "PUT /hook?secret=1 HTTP/1.1");
    let id = "mail%2Fout/Zo%C3%AB%20100%25/a%2Fb%231#17";
    let expected = [
        ("authorization", "Bearer x"),
        ("content-type", "application/json"),
        ("content-length", "7"),
        ("hence-job-id", "a/b#1"),
        ("hence-queue", "mail/out"),
        ("hence-key", "Zo%C3%AB%20100%25"),
        ("hence-delivery-id", id),
        ("idempotency-key", id),
        ("hence-token", "3.7.42"),
        ("hence-attempt", "2"),
        ("hence-due-at", "2026-09-10T00:26:40.123Z"),
        ("hence-scheduled-for", "2026-09-10T00:26:40.123Z"),
        ("hence-schedule", "nightly"),
        ("user-agent", concat!("hence/", env!("CARGO_PKG_VERSION"))),
        ("host", &server.address.to_string()),
    ];
    for (name, value) in expected {
        assert_eq!(headers.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert_eq!(headers.len(), expected.len(), "nothing else is sent: {headers:?}");
}

/// Without the header a receiver that insists answered 411, and the producer may not set it.
#[tokio::test]
async fn an_empty_body_says_its_length_where_one_is_usual() {
    for (method, expected) in
        [("POST", Some("0")), ("PUT", Some("0")), ("PATCH", Some("0")), ("GET", None)]
    {
        let server = Server::start(vec![say(OK)]);
        let mut job = http_job(&server.url("http"), &[]);
        job.payload = Payload::default();
        let JobTarget::Http(target) = &mut job.target else { unreachable!("it has a url") };
        Arc::make_mut(target).method = method.into();
        let (_, headers) = seen(&server, job, 1).await;
        assert_eq!(headers.get("content-length").map(String::as_str), expected, "{method}");
    }
}

#[tokio::test]
async fn a_producer_knows_three_headers_better_and_no_others() {
    let server = Server::start(vec![say(OK)]);
    let mine = [
        ("Content-Type", "text/csv"),
        ("Idempotency-Key", "mine"),
        ("User-Agent", "mine"),
        ("Hence-Token", "9.9.9"),
    ];
    let (_, headers) = seen(&server, http_job(&server.url("http"), &mine), 1).await;
    assert_eq!(headers["content-type"], "text/csv");
    assert_eq!(headers["idempotency-key"], "mine");
    assert_eq!(headers["user-agent"], "mine");
    assert_eq!(headers["hence-token"], "3.7.41", "a token cannot be forged");
}

#[tokio::test]
async fn retries_share_the_delivery_id_and_not_the_token() {
    let server = Server::start(vec![say(OK)]);
    let (_, first) = seen(&server, http_job(&server.url("http"), &[]), 1).await;
    let (_, second) = seen(&server, http_job(&server.url("http"), &[]), 2).await;
    assert_eq!(first["hence-delivery-id"], second["hence-delivery-id"]);
    assert_ne!(first["hence-token"], second["hence-token"]);
}

#[tokio::test]
async fn a_result_is_kept_only_when_asked_for() {
    let server = Server::start(vec![say(OK)]);
    let mut job = http_job(&server.url("http"), &[]);
    let sender = HttpSender::new();
    let kept = sender.deliver(attempt(job.clone(), 1), within(PATIENCE)).await;
    let Report::Succeeded { result: Some(result) } = kept else { panic!("{kept:?}") };
    assert_eq!((&*result.bytes, result.content_type.as_deref()), (&b"hi"[..], Some("text/plain")));
    job.keep_result = false;
    let dropped = sender.deliver(attempt(job, 1), within(PATIENCE)).await;
    assert_eq!(dropped, Report::Succeeded { result: None });
}

#[tokio::test]
async fn connections_are_used_again() {
    let length = limits::BODY_BYTES_MAX;
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
    let server = Server::start(vec![say(&head), Step::Say(vec![b'x'; length])]);
    let sender = HttpSender::new();
    // Together longer than one answer may be.
    let count = 2 * limits::WIRE_BYTES_MAX / length;
    for _ in 0..count {
        let report = sender.deliver(post(&server.url("http")), within(PATIENCE)).await;
        assert!(matches!(report, Report::Succeeded { .. }), "{report:?}");
    }
    assert_eq!((server.heads().len(), server.opened()), (count, 1));
}

#[tokio::test]
async fn a_connection_closed_while_idle_costs_no_delivery() {
    let server = Server::start(vec![say(OK), Step::Close]);
    let sender = HttpSender::new();
    for _ in 0..20 {
        let report = sender.deliver(post(&server.url("http")), within(PATIENCE)).await;
        assert!(matches!(report, Report::Succeeded { .. }), "{report:?}");
        // The server has hung up; the pool must notice or try again unasked.
        timeout(PATIENCE, server.all_closed()).await.unwrap();
    }
}

#[tokio::test]
async fn dropping_a_delivery_closes_its_connection() {
    let server = Server::start(vec![Step::Stall]);
    let sender = HttpSender::new();
    let delivery = sender.deliver(post(&server.url("http")), within(PATIENCE));
    tokio::select! {
        report = delivery => panic!("{report:?}"),
        () = server.saw_requests(1) => {}
    }
    timeout(PATIENCE, server.all_closed()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_deliveries_at_once() {
    let server = Server::start(vec![say(OK)]);
    let sender = HttpSender::new();
    let all = (0..200).map(|_| sender.deliver(post(&server.url("http")), within(PATIENCE)));
    for report in join_all(all).await {
        assert!(matches!(report, Report::Succeeded { .. }), "{report:?}");
    }
    assert_eq!(server.heads().len(), 200);
    assert!(server.opened() <= 200);
}

/// Each wave would open again what the one before had to close.
#[tokio::test]
async fn more_at_once_than_by_default_open_no_new_connections() {
    let (at_once, waves) = (hence_core::limits::PUSHES_DEFAULT + 50, 8);
    let server = Server::start(vec![say(OK)]);
    let sender = HttpSender::builder().at_once(at_once).build();
    for _ in 0..waves {
        let wave =
            (0..at_once).map(|_| sender.deliver(post(&server.url("http")), within(PATIENCE)));
        for report in join_all(wave).await {
            assert!(matches!(report, Report::Succeeded { .. }), "{report:?}");
        }
    }
    // One that is just coming back may be missed, and another be opened in its place.
    let enough = at_once as usize * 3 / 2;
    assert!(server.opened() < enough, "{} were opened", server.opened());
}

/// Each host had connections of its own, and they stayed open for half a minute.
#[tokio::test]
async fn ever_new_hosts_do_not_pile_up_open_connections() {
    let server = Server::start(vec![say(OK)]);
    let sender = few_kept().dial(Arc::new(OneServer(server.address))).build();
    for port in 1..=40 {
        let url = format!("http://localhost:{port}/");
        let report = sender.deliver(post(&url), within(PATIENCE)).await;
        assert!(matches!(report, Report::Succeeded { .. }), "{report:?}");
        timeout(PATIENCE, server.open_at_most(KEPT)).await.unwrap();
    }
    assert_eq!(server.opened(), 40);
    // Those that were kept are used again.
    sender.deliver(post("http://localhost:1/"), within(PATIENCE)).await;
    assert_eq!(server.opened(), 40);
}

#[tokio::test]
async fn what_is_not_kept_is_no_http_2() {
    let server = tls::start(&["h2", "http/1.1"], Bytes::new()).await;
    let dial = Arc::new(OneServer(server.address));
    let sender = few_kept().dial(dial).tls(tls::trusting()).build();
    for port in 1..=2 * KEPT {
        let url = format!("https://localhost:{port}/");
        let report = sender.deliver(post(&url), within(PATIENCE)).await;
        let Report::Succeeded { result: Some(result) } = report else { panic!("{report:?}") };
        let version = if port <= KEPT { "HTTP/2.0" } else { "HTTP/1.1" };
        assert_eq!(
            result.content_type.as_deref(),
            Some(&*format!("text/plain; version={version}"))
        );
    }
}

const KEPT: usize = 5;

fn few_kept() -> HttpSenderBuilder {
    HttpSender::builder().at_once(2).idle_max(KEPT - 2)
}

/// Whatever the host, it is this one.
struct OneServer(SocketAddr);

impl Dial for OneServer {
    fn dial(&self, _: Uri) -> BoxFuture<'static, Result<TcpStream, DialError>> {
        let address = self.0;
        async move { Ok(TcpStream::connect(address).await?) }.boxed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_stalled_deliveries_do_not_hold_up_another() {
    let (stuck, well) = (Server::start(vec![Step::Stall]), Server::start(vec![say(OK)]));
    let sender = HttpSender::new();
    let all =
        join_all((0..200).map(|_| sender.deliver(post(&stuck.url("http")), within(SHORT * 4))));
    let one = sender.deliver(post(&well.url("http")), within(SHORT * 4));
    let (stalled, report) = futures::join!(all, one);
    assert!(stalled.iter().all(|report| *report == Report::TimedOut));
    assert!(matches!(report, Report::Succeeded { .. }), "{report:?}");
    timeout(PATIENCE, stuck.all_closed()).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_reached_says_why() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let rows = [
        (format!("http://{free}/"), "cannot connect: connection refused", false),
        ("http://no-such-host.invalid/".into(), "cannot connect: dns error", false),
        ("http://a b/".into(), "the url is not valid", true),
    ];
    for (url, part, hopeless) in rows {
        let report = HttpSender::new().deliver(post(&url), within(PATIENCE)).await;
        let Report::Failed { reason, permanent, .. } = report else { panic!("{report:?}") };
        assert!(reason.contains(part), "{url}: {reason}");
        assert_eq!(permanent, hopeless, "{url}");
    }
}

#[tokio::test]
async fn a_deadline_that_has_passed_sends_nothing() {
    let server = Server::start(vec![say(OK)]);
    let passed = within(SHORT);
    tokio::time::timeout_at(passed, std::future::pending::<()>()).await.unwrap_err();
    let report = HttpSender::new().deliver(post(&server.url("http")), passed).await;
    assert_eq!(report, Report::TimedOut);
    assert!(server.heads().is_empty());
}

#[tokio::test]
async fn https_negotiates_the_version() {
    let rows =
        [(&["http/1.1"][..], "HTTP/1.1"), (&["h2", "http/1.1"], "HTTP/2.0"), (&[], "HTTP/1.1")];
    for (protocols, version) in rows {
        let server = tls::start(protocols, Bytes::from_static(b"hi")).await;
        let sender = HttpSender::builder().tls(tls::trusting()).build();
        let report = sender.deliver(post(&server.url("")), within(PATIENCE)).await;
        let Report::Succeeded { result: Some(result) } = report else { panic!("{report:?}") };
        let content_type = result.content_type.unwrap();
        assert_eq!(&*content_type, format!("text/plain; version={version}"));
        assert_eq!(&*result.bytes, b"hi");
    }
}

#[tokio::test]
async fn over_http_2_dropping_a_delivery_stops_it() {
    let server = tls::start(&["h2"], Bytes::new()).await;
    let sender = HttpSender::builder().tls(tls::trusting()).build();
    let mut hanging = server.hanging.subscribe();
    let delivery = sender.deliver(post(&server.url("hang")), within(PATIENCE));
    tokio::select! {
        report = delivery => panic!("{report:?}"),
        _ = hanging.wait_for(|hanging| *hanging == 1) => {}
    }
    let stopped = timeout(PATIENCE, hanging.wait_for(|hanging| *hanging == 0)).await;
    assert!(matches!(stopped, Ok(Ok(_))));
}

#[tokio::test]
async fn over_http_2_too_an_answer_is_cut_and_many_go_at_once() {
    let server = tls::start(&["h2"], Bytes::from(vec![b'x'; 1_000_000])).await;
    let sender = HttpSender::builder().tls(tls::trusting()).build();
    let url = server.url("");
    for report in join_all((0..50).map(|_| sender.deliver(post(&url), within(PATIENCE)))).await {
        let Report::Succeeded { result: Some(result) } = report else { panic!("{report:?}") };
        assert_eq!(result.bytes.len(), limits::BODY_BYTES_MAX);
    }
}

#[tokio::test]
async fn an_http_2_connection_that_fell_silent_is_given_up_and_replaced() {
    let server = tls::start(&["h2"], Bytes::new()).await;
    let sender = HttpSender::builder().tls(tls::trusting()).build();
    let url = server.url("");
    let report = sender.deliver(post(&url), within(PATIENCE)).await;
    assert!(matches!(report, Report::Succeeded { .. }), "{report:?}");
    server.fall_silent();
    // Nothing happens but timers now: they need not be waited for.
    tokio::time::pause();
    let patient = 2 * (limits::H2_SILENCE_MAX + limits::H2_PONG_TIME_MAX);
    let report = sender.deliver(post(&url), within(patient)).await;
    tokio::time::resume();
    let Report::Unanswered { reason } = report else { panic!("{report:?}") };
    assert!(reason.starts_with("no answer: "), "{reason}");
    let report = sender.deliver(post(&url), within(PATIENCE)).await;
    assert!(matches!(report, Report::Succeeded { .. }), "{report:?}");
}

#[tokio::test]
async fn a_receiver_that_cannot_prove_its_name_gets_nothing() {
    let server = tls::start(&["http/1.1"], Bytes::new()).await;
    let rows = [
        (tls::distrusting(), "localhost", "UnknownIssuer"),
        (tls::trusting(), "127.0.0.2", "not valid for"),
    ];
    for (config, host, part) in rows {
        let sender = HttpSender::builder().tls(config).build();
        let url = format!("https://{host}:{}/", server.address.port());
        let report = sender.deliver(post(&url), within(PATIENCE)).await;
        let Report::Failed { reason, permanent: false, .. } = report else { panic!("{report:?}") };
        assert!(reason.starts_with("cannot connect: tls failed: "), "{reason}");
        assert!(reason.contains(part), "{reason}");
    }
}
