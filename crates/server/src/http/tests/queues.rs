//! Queues, as an operator sees them.

use serde_json::json;

use super::Api;

#[tokio::test]
async fn a_queue_is_limited_and_paused() {
    let api = Api::new().await;
    let settings = r#"{"concurrency":1,"rate":{"count":5,"per":"1s"},"pending_max":2}"#;
    let put = api.call("PUT", "/v1/queues/q", settings).await;
    assert_eq!((put.status, &put.json()["rate"]), (200, &json!({"count": 5, "per": "1s"})));
    let patched = api.call("PATCH", "/v1/queues/q", r#"{"rate":null}"#).await.json();
    assert_eq!((&patched["rate"], &patched["concurrency"]), (&json!(null), &json!(1)));
    let paused = api.post("/v1/queues/q/pause", r#"{"in":true}"#).await.json();
    assert_eq!((&paused["paused_in"], &paused["paused_out"]), (&json!(true), &json!(false)));
    let refused = api.post("/v1/jobs", r#"{"queue":"q"}"#).await;
    assert_eq!((refused.status, refused.problem().as_deref()), (503, Some("queue-paused")));
    assert!(refused.headers.contains_key("retry-after"));
    let resumed = api.post("/v1/queues/q/resume", "").await.json();
    assert_eq!(resumed["paused_in"], false);
    for _ in 0..2 {
        api.submit(r#"{"queue":"q"}"#).await;
    }
    let full = api.post("/v1/jobs", r#"{"queue":"q"}"#).await;
    assert_eq!((full.status, full.problem().as_deref()), (429, Some("queue-full")));
    // The limit may have been lowered beneath what is there: it is not the number of jobs.
    let detail = "queue q is full: at most 2 jobs may be pending; try later";
    assert_eq!((&full.json()["detail"], &full.json()["limit"]), (&json!(detail), &json!(2)));
    assert_eq!(api.get("/v1/queues/q").await.json()["counts"]["pending"], 2);
    let names = api.get("/v1/queues").await.json();
    assert_eq!(names["queues"][0]["name"], "q");
    api.end().await;
}

#[tokio::test]
async fn an_empty_queue_is_removed() {
    let api = Api::new().await;
    let remove = || api.call("DELETE", "/v1/queues/q", "");
    let unknown = remove().await;
    assert_eq!((unknown.status, unknown.problem().as_deref()), (404, Some("no-such-queue")));
    api.submit(r#"{"queue":"q","id":"a"}"#).await;
    let refused = remove().await;
    assert_eq!((refused.status, refused.problem().as_deref()), (409, Some("queue-in-use")));
    let detail = &refused.json()["detail"];
    assert!(detail.as_str().unwrap().contains("1 pending, 0 running, 0 dead"), "{detail}");
    api.call("DELETE", "/v1/jobs/a?queue=q", "").await;
    let removed = remove().await;
    assert_eq!((removed.status, removed.bytes.len()), (204, 0));
    assert_eq!(api.get("/v1/queues").await.json()["queues"], json!([]));
    assert_eq!(api.get("/v1/jobs/a?queue=q").await.json()["state"], "cancelled", "it is kept");
    api.end().await;
}

#[tokio::test]
async fn nonsense_is_refused_by_name() {
    let api = Api::new().await;
    let rows = [
        ("PUT", "/v1/queues/q", r#"{"concurrency":0}"#, "concurrency"),
        ("PUT", "/v1/queues/q", r#"{"rate":{"count":0,"per":"1s"}}"#, "rate"),
        ("PUT", "/v1/queues/q", r#"{"rate":{"count":1}}"#, "rate.per"),
        ("PUT", "/v1/queues/q", r#"{"rate":{"count":1,"per":"2d"}}"#, "rate.per"),
        ("PATCH", "/v1/queues/q", r#"{"conc":1}"#, "conc"),
        ("PUT", "/v1/queues/a%20b", "{}", "queue"),
        ("POST", "/v1/queues/q/pause", r#"{"inn":true}"#, "inn"),
    ];
    for (method, path, body, field) in rows {
        let answer = api.call(method, path, body).await;
        assert_eq!((answer.status, &answer.json()["field"]), (422, &json!(field)), "{path} {body}");
    }
    api.end().await;
}

/// Such a job was ready for ever, and nothing said why.
#[tokio::test]
async fn a_job_without_its_handler_is_seen() {
    let api = Api::new().await;
    api.submit(r#"{"queue":"lost","target":{"handler":{"name":"nope"}}}"#).await;
    for _ in 0..3 {
        api.advance(5_000);
        let queue = api.get("/v1/queues/lost").await.json();
        assert_eq!(
            (&queue["unregistered"], &queue["missing_handlers"]),
            (&json!(1), &json!(["nope"]))
        );
    }
    let metrics = String::from_utf8(api.get("/metrics").await.bytes).unwrap();
    let line = "hence_jobs_unregistered_total{queue=\"lost\"} 1";
    assert!(metrics.contains(line), "{line} in\n{metrics}");
    api.end().await;
}
