//! The API over the library, in one process: memory store, a clock moved by hand, no sockets.

mod bodies;
mod document;
mod jobs;
mod leases;
mod limits;
mod objects;
mod queues;
mod routes;
mod schedules;
mod times;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use hence::Hence;
use hence::testing::ManualClock;
use hence_core::time::{Millis, Timestamp};
use hence_core::when::Zone;
use hence_store::memory::MemoryStore;
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use super::app::{AppState, Bounds};
use super::entrance::Entrance;
use super::openapi;
use crate::drain::{DrainSwitch, drain};
use crate::guard::Guard;
use crate::metrics::Metrics;

/// 2026-09-10T00:26:40Z.
const NOW: i64 = 1_789_000_000_000;

/// A server without sockets.
struct Api {
    entrance: Entrance,
    clock: ManualClock,
    hence: Hence,
    switch: DrainSwitch,
}

/// An answer, read.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: HeaderMap,
    bytes: Vec<u8>,
}

impl Answer {
    /// The body as JSON; null when there is none.
    fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }

    /// The name of the problem, when it is one.
    fn problem(&self) -> Option<String> {
        let media = self.headers.get("content-type")?.to_str().ok()?;
        let json = self.json();
        let kind = json["type"].as_str()?.strip_prefix("/docs/errors#")?.to_owned();
        assert_eq!(media, "application/problem+json");
        assert_eq!(json["status"], self.status);
        assert!(json["detail"].is_string() && json["fix"].is_string() && json["title"].is_string());
        Some(kind)
    }
}

impl Api {
    async fn new() -> Self {
        let clock = ManualClock::new(Timestamp::from_millis(NOW));
        let metrics = Arc::new(Metrics::default());
        let hence = Hence::builder(Arc::new(MemoryStore::new(1)))
            .clock(Arc::new(clock.clone()))
            .observer(metrics.clone())
            .start()
            .await
            .unwrap();
        let (switch, drain) = drain();
        let app = Arc::new(AppState {
            client: hence.client(),
            metrics,
            guard: Guard::new(None),
            drain,
            bounds: Bounds::default(),
            zone: Zone::UTC,
            started_at: Timestamp::from_millis(NOW),
            openapi: openapi::text().into(),
            queue_edits: tokio::sync::Mutex::new(()),
        });
        Api { entrance: Entrance::new(app), clock, hence, switch }
    }

    async fn send(&self, request: Request) -> Answer {
        let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
        let answer = self.answer(request).await;
        document::check(&method, &path, &answer);
        answer
    }

    async fn answer(&self, request: Request) -> Answer {
        let (parts, body) = self.entrance.call(request, None, None).await.unwrap().into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap().to_vec();
        Answer { status: parts.status.as_u16(), headers: parts.headers, bytes }
    }

    async fn call(&self, method: &str, path: &str, body: impl Into<Body>) -> Answer {
        let request = Request::builder().method(method).uri(path);
        self.send(request.body(body.into()).unwrap()).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, "").await
    }

    async fn post(&self, path: &str, body: impl Into<Body>) -> Answer {
        self.call("POST", path, body).await
    }

    /// Submits a job that must be accepted, or several.
    async fn submit(&self, body: &str) -> Value {
        let answer = self.post("/v1/jobs", body.to_owned()).await;
        assert!(matches!(answer.status, 200 | 201 | 207), "{body}: {}", answer.json());
        answer.json()
    }

    /// Leases one job of a queue; it must be there.
    async fn lease(&self, queue: &str) -> Value {
        let body = format!(r#"{{"queue":"{queue}","worker":"w","lease":"1m"}}"#);
        let answer = self.post("/v1/leases", body).await;
        assert_eq!(answer.status, 200, "{}", answer.json());
        answer.json()["jobs"][0].clone()
    }

    fn advance(&self, millis: u64) {
        self.clock.advance(Millis::new(millis));
    }

    async fn end(self) {
        self.hence.shutdown(Duration::ZERO).await;
    }
}

fn token(lease: &Value) -> String {
    lease["token"].as_str().unwrap_or_else(|| panic!("no job was leased: {lease}")).to_owned()
}

#[tokio::test]
async fn health_and_the_end() {
    let api = Api::new().await;
    assert_eq!(api.get("/live").await.status, StatusCode::OK.as_u16());
    assert_eq!(api.get("/ready").await.status, 200);
    api.switch.begin();
    assert_eq!(api.get("/live").await.status, 200);
    let ready = api.get("/ready").await;
    assert_eq!((ready.status, &ready.json()["status"]), (503, &Value::from("draining")));
    let lease = api.post("/v1/leases", r#"{"wait":"5m"}"#).await;
    assert_eq!(lease.problem().as_deref(), Some("draining"), "no new long poll is begun");
    api.end().await;
}

#[tokio::test]
async fn stats_and_metrics_show_what_happened() {
    let api = Api::new().await;
    api.submit(r#"{"queue":"mail"}"#).await;
    api.submit(r#"{"queue":"mail","in":"1h"}"#).await;
    // A job for a time that has passed is not late for what was before its submission.
    api.submit(r#"{"queue":"old","time":1700000000}"#).await;
    api.lease("old").await;
    let token = token(&api.lease("mail").await);
    assert_eq!(api.post(&format!("/v1/leases/{token}/ack"), "").await.status, 204);
    api.advance(5_000);
    let stats = api.get("/v1/stats").await.json();
    assert_eq!(stats["counts"]["submitted"], 3);
    assert_eq!(stats["counts"]["succeeded"], 1);
    assert_eq!(stats["scheduled"], 1);
    assert_eq!(stats["store"]["engine"], "memory");
    assert_eq!(stats["uptime"], "5s");
    let metrics = String::from_utf8(api.get("/metrics").await.bytes).unwrap();
    for line in [
        "hence_jobs_submitted_total{queue=\"mail\"} 2",
        "hence_jobs_pending{queue=\"mail\"} 1",
        "hence_deliveries_total{queue=\"mail\"} 1",
        "hence_attempts_total{queue=\"mail\",end=\"succeeded\"} 1",
        "hence_jobs_finished_total{queue=\"mail\",outcome=\"succeeded\"} 1",
        "hence_lateness_seconds_count{queue=\"mail\"} 1",
        "hence_lateness_seconds_sum{queue=\"old\"} 0.0",
        "hence_http_requests_total{route=\"/v1/jobs\",status=\"201\"} 3",
        "hence_store_full 0",
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
    let request = Request::builder().uri("/metrics").header("accept", "text/plain;version=0.0.4");
    let older = api.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(older.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let older = String::from_utf8(older.bytes).unwrap();
    assert!(older.contains("# TYPE hence_jobs_submitted_total counter\n"), "{older}");
    assert!(
        older.contains("hence_jobs_submitted_total{queue=\"mail\"} 2\n")
            && !older.contains("# EOF")
    );
    api.end().await;
}
