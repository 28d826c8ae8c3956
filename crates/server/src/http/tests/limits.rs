//! Each limit at one less, exactly, and one more.

use axum::body::Body;
use axum::extract::Request;
use hence_core::limits as core;
use serde_json::{Value, json};

use super::Api;
use crate::limits;

/// A limit of a field of a job: its value, and the job that is this large in it.
type Row = (&'static str, usize, fn(usize) -> Value);

#[tokio::test]
async fn fields_of_a_job() {
    let api = Api::new().await;
    let rows: [Row; 9] = [
        ("queue", core::QUEUE_NAME_BYTES_MAX, |n| json!({"queue": "x".repeat(n)})),
        ("key", core::KEY_BYTES_MAX, |n| json!({"key": "x".repeat(n)})),
        ("id", core::JOB_ID_BYTES_MAX, |n| json!({"id": "x".repeat(n)})),
        ("payload_text", core::PAYLOAD_BYTES_MAX, |n| json!({"payload_text": "x".repeat(n)})),
        (
            "content_type",
            core::CONTENT_TYPE_BYTES_MAX,
            |n| json!({"payload": 1, "content_type": "x".repeat(n)}),
        ),
        ("url", core::URL_BYTES_MAX, |n| json!({"url": format!("http://{}", "x".repeat(n - 7))})),
        (
            "target.handler.name",
            core::HANDLER_NAME_BYTES_MAX,
            |n| json!({"target": {"handler": {"name": "x".repeat(n)}}}),
        ),
        (
            "target.http.headers",
            core::HEADER_BYTES_MAX,
            |n| json!({"target": {"http": {"url": "http://x", "headers": {"a": "x".repeat(n - 1)}}}}),
        ),
        ("retry.delays", core::RETRY_DELAYS_MAX, |n| json!({"retry": {"delays": vec![1; n]}})),
    ];
    for (field, max, job) in rows {
        for (size, status) in [(max - 1, 201), (max, 201), (max + 1, 413)] {
            let mut body = job(size);
            body["in"] = json!("1h");
            let answer = api.post("/v1/jobs", body.to_string()).await;
            assert_eq!(answer.status, status, "{field} of {size}: {}", answer.json());
            if status == 413 {
                assert_eq!(answer.json()["field"], field);
                assert_eq!(answer.json()["limit"], max);
                let unit = if field == "retry.delays" { "entries" } else { "bytes" };
                let detail = format!("{field} has {size} {unit}, at most {max} are allowed");
                assert_eq!(answer.json()["detail"], detail);
            }
        }
    }
    api.end().await;
}

/// A range of a number: the path, the ends, and the body with this number in it.
type Range = (&'static str, u64, u64, fn(u64) -> Value);

#[tokio::test]
async fn ranges() {
    let api = Api::new().await;
    let rows: [Range; 7] = [
        ("/v1/jobs", 1, core::ATTEMPTS_MAX.into(), |n| json!({"retry": {"max_attempts": n}})),
        ("/v1/jobs", 0, 100, |n| json!({"retry": {"jitter_percent": n}})),
        ("/v1/jobs", 1, 100, |n| json!({"retry": {"factor": n}})),
        (
            "/v1/jobs",
            core::TIMEOUT_MIN.get(),
            core::TIMEOUT_MAX.get(),
            |n| json!({"timeout": format!("{n}ms")}),
        ),
        (
            "/v1/jobs",
            0,
            core::RETRY_DELAY_MAX.get(),
            |n| json!({"retry": {"delay": format!("{n}ms")}}),
        ),
        (
            "/v1/leases",
            core::LEASE_MIN.get(),
            core::LEASE_MAX.get(),
            |n| json!({"queue": "none", "lease": format!("{n}ms")}),
        ),
        ("/v1/leases", 1, core::LEASE_BATCH_MAX.into(), |n| json!({"queue": "none", "max": n})),
    ];
    for (path, low, high, body) in rows {
        let inside = [low, low + 1, high - 1, high].map(|n| (n, true));
        let outside =
            [low.checked_sub(1), Some(high + 1)].into_iter().flatten().map(|n| (n, false));
        for (number, fits) in inside.into_iter().chain(outside) {
            let body = body(number).to_string();
            let answer = api.post(path, body.clone()).await;
            assert_eq!(answer.status < 300, fits, "{body}: {}", answer.json());
            assert!(fits || answer.status == 422, "{body}: {}", answer.json());
        }
    }
    api.end().await;
}

#[tokio::test]
async fn the_number_of_headers_of_a_target() {
    let api = Api::new().await;
    let max = core::HEADERS_MAX;
    for (count, status) in [(max - 1, 201), (max, 201), (max + 1, 422)] {
        let headers: Value = (0..count)
            .map(|n| (format!("h{n}"), json!("v")))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let body = json!({"in": "1h", "target": {"http": {"url": "http://x", "headers": headers}}});
        assert_eq!(api.post("/v1/jobs", body.to_string()).await.status, status, "{count}");
    }
    api.end().await;
}

#[tokio::test]
async fn jobs_of_a_batch_and_acks() {
    let api = Api::new().await;
    let max = core::SUBMIT_BATCH_MAX;
    for (count, status) in [(max - 1, 207), (max, 207), (max + 1, 413)] {
        let body = json!({"jobs": vec![json!({"in": "1h"}); count]});
        assert_eq!(api.post("/v1/jobs", body.to_string()).await.status, status, "{count}");
    }
    let max = core::LEASE_BATCH_MAX as usize;
    for (count, status) in [(max - 1, 207), (max, 207), (max + 1, 422)] {
        let body = json!({"acks": vec![json!({"token": "0.1.1"}); count]});
        assert_eq!(api.post("/v1/leases/ack", body.to_string()).await.status, status, "{count}");
        let status = if status == 207 { 200 } else { status };
        assert_eq!(api.post("/v1/leases", body.to_string()).await.status, status, "{count}");
    }
    let max = core::LEASE_QUEUES_MAX;
    for (count, status) in [(max - 1, 200), (max, 200), (max + 1, 413)] {
        let body = json!({"queues": vec!["q"; count]});
        assert_eq!(api.post("/v1/leases", body.to_string()).await.status, status, "{count}");
    }
    api.end().await;
}

/// A job whose body has exactly this many bytes.
fn padded(size: usize) -> String {
    let job = r#"{"in":"1h"}"#;
    format!("{job}{}", " ".repeat(size - job.len()))
}

#[tokio::test]
async fn bodies() {
    let api = Api::new().await;
    let single = limits::BODY_BYTES_MAX;
    let batch = limits::BATCH_BODY_BYTES_MAX;
    let many = |size: usize| padded(size).replace(r#"{"in":"1h"}"#, r#"{"jobs":[]}"#);
    let rows: [(String, u16); 7] = [
        (padded(single - 1), 201),
        (padded(single), 201),
        (padded(single + 1), 413),
        (many(single + 1), 422),
        (many(batch - 1), 422),
        (many(batch), 422),
        (many(batch + 1), 413),
    ];
    for (body, status) in rows {
        let size = body.len();
        let pieces = in_pieces(&body, size.div_ceil(3));
        assert_eq!(api.post("/v1/jobs", body).await.status, status, "{size}");
        assert_eq!(api.post("/v1/jobs", pieces).await.status, status, "{size} in pieces");
    }
    let whole = r#"{"id":"in-pieces","in":"1h"}"#;
    for size in [1, 7, whole.len()] {
        let answer = api.post("/v1/jobs", in_pieces(whole, size)).await;
        assert_eq!(answer.json()["id"], "in-pieces", "by {size}: {}", answer.json());
    }
    api.end().await;
}

/// A body that arrives by so many bytes, without a word about its length.
fn in_pieces(body: &str, size: usize) -> Body {
    let pieces: Vec<_> = body.as_bytes().chunks(size).map(bytes::Bytes::copy_from_slice).collect();
    let pieces = pieces.into_iter().map(Ok::<_, std::io::Error>);
    Body::from_stream(futures::stream::iter(pieces))
}

#[tokio::test]
async fn a_body_that_claims_to_be_too_large_is_not_read() {
    let api = Api::new().await;
    let never = futures::stream::pending::<Result<bytes::Bytes, std::io::Error>>();
    let request = Request::builder()
        .method("POST")
        .uri("/v1/jobs")
        .header("content-length", limits::BATCH_BODY_BYTES_MAX + 1)
        .body(Body::from_stream(never))
        .unwrap();
    let answer = api.send(request).await;
    assert_eq!((answer.status, answer.problem().as_deref()), (413, Some("body-too-large")));
    api.end().await;
}

#[tokio::test]
async fn the_length_of_a_url_and_of_an_idempotency_key() {
    let api = Api::new().await;
    let max = limits::URI_BYTES_MAX;
    for (size, status) in [(max - 1, 413), (max, 413), (max + 1, 414)] {
        let path = format!("/v1/jobs?key={}", "x".repeat(size - "/v1/jobs?key=".len()));
        assert_eq!(api.get(&path).await.status, status, "{size}");
    }
    let max = limits::IDEMPOTENCY_KEY_BYTES_MAX;
    for (size, status) in [(1, 201), (max - 1, 201), (max, 201), (max + 1, 413), (0, 422)] {
        let request = Request::builder()
            .method("POST")
            .uri("/v1/jobs")
            .header("idempotency-key", "k".repeat(size))
            .body(Body::from(r#"{"in":"1h"}"#))
            .unwrap();
        assert_eq!(api.send(request).await.status, status, "{size}");
    }
    api.end().await;
}

#[tokio::test]
async fn depth() {
    let api = Api::new().await;
    // The job itself is one level.
    let max = limits::JSON_DEPTH_MAX - 1;
    for (depth, status) in [(max - 1, 201), (max, 201), (max + 1, 422), (1_000_000, 422)] {
        let nested = ["[".repeat(depth), "]".repeat(depth)].concat();
        let body = format!(r#"{{"in":"1h","payload":{nested}}}"#);
        assert_eq!(api.post("/v1/jobs", body).await.status, status, "{depth}");
    }
    api.end().await;
}
