//! Jobs from submission to the end, as a producer sees them.

use hence_core::time::Timestamp;
use serde_json::{Value, json};

use super::{Api, NOW, token};

/// An absolute expiry was counted from a due time that had passed, and so moved into the future.
#[tokio::test]
async fn an_expiry_is_kept_as_it_was_said() {
    let api = Api::new().await;
    let (past, soon) = (NOW - 600_000, NOW + 1_000);
    let late = json!({"id": "late", "at": past, "expires_at": soon}).to_string();
    api.submit(&late).await;
    let kept = api.get("/v1/jobs/late").await.json()["expires_at"].clone();
    assert_eq!(kept, Timestamp::from_millis(soon).to_string());
    let over = json!({"id": "over", "at": past, "expires_at": past + 300_000}).to_string();
    let refused = api.post("/v1/jobs", over).await;
    assert_eq!((refused.status, &refused.json()["field"]), (422, &json!("expires_at")));
    api.end().await;
}

/// What was meant for none was done to all.
#[tokio::test]
async fn a_bulk_action_on_no_state_is_refused() {
    let api = Api::new().await;
    api.submit(r#"{"id":"a","in":"1h"}"#).await;
    let none = r#"{"filter":{"queue":"default","states":[]},"action":"cancel"}"#;
    let refused = api.post("/v1/jobs/bulk", none).await;
    assert_eq!((refused.status, &refused.json()["field"]), (422, &json!("filter.states")));
    assert_eq!(api.get("/v1/jobs/a").await.json()["state"], "scheduled");
    api.end().await;
}

#[tokio::test]
async fn the_short_form_is_understood_and_echoed() {
    let api = Api::new().await;
    let body = r#"{"key":"user:1234","id":"renew-subscription","time":1789000005,"url":"https://example.com/x"}"#;
    let answer = api.post("/v1/jobs", body).await;
    let expected = json!({
        "queue": "default", "key": "user:1234", "id": "renew-subscription", "number": 1,
        "state": "scheduled", "due_at": "2026-09-10T00:26:45.000Z", "due_at_ms": NOW + 5_000,
        "how": "created",
    });
    let mut shown = answer.json();
    shown["number"] = json!(1);
    assert_eq!((answer.status, shown), (201, expected));
    let job = api.get("/v1/jobs/renew-subscription?key=user:1234").await.json();
    assert_eq!(job["target"], json!({"http": {"url": "https://example.com/x", "method": "POST"}}));
    assert_eq!(job["scheduled_for"], "2026-09-10T00:26:45.000Z");
    let without_key = api.get("/v1/jobs/renew-subscription").await;
    assert_eq!(without_key.problem().as_deref(), Some("no-such-job"));
    api.end().await;
}

#[tokio::test]
async fn payloads_come_back_as_they_were_given() {
    let api = Api::new().await;
    let rows = [
        (r#""payload":{"a": [1,  2.50]}"#, r#"{"a": [1,  2.50]}"#, "application/json"),
        (r#""payload_text":"Zoë""#, "Zoë", "text/plain; charset=utf-8"),
        (r#""payload_base64":"AP8=""#, "\u{0}ÿ", "application/octet-stream"),
        (r#""payload_text":"<a/>","content_type":"text/xml""#, "<a/>", "text/xml"),
        (r#""payload":"s""#, "\"s\"", "application/json"),
    ];
    for (index, (field, bytes, media)) in rows.into_iter().enumerate() {
        api.submit(&format!(r#"{{"id":"p{index}","in":"1h",{field}}}"#)).await;
        let raw = api.get(&format!("/v1/jobs/p{index}/payload")).await;
        // Latin-1 in the table, bytes on the wire.
        let latin: Vec<u8> = bytes.chars().map(|c| c as u8).collect();
        let expected = if index == 2 { latin } else { bytes.as_bytes().to_vec() };
        assert_eq!(raw.bytes, expected, "{field}");
        assert_eq!(raw.headers["content-type"], media, "{field}");
        assert_eq!(raw.headers["x-content-type-options"], "nosniff");
    }
    let shown = api.get("/v1/jobs/p0").await.json();
    assert_eq!(shown["payload"], json!({"a": [1, 2.5]}));
    assert_eq!(api.get("/v1/jobs/p1").await.json()["payload_text"], "Zoë");
    assert_eq!(api.get("/v1/jobs/p2").await.json()["payload_base64"], "AP8=");
    let brief = api.get("/v1/jobs").await.json();
    assert!(brief["jobs"][0].get("payload").is_none(), "lists leave payloads out");
    let whole = api.get("/v1/jobs?payload=true").await.json();
    assert!(whole["jobs"][0].get("payload").is_some());
    api.end().await;
}

#[tokio::test]
async fn a_name_is_replaced_kept_or_refused() {
    let api = Api::new().await;
    let rows = [
        ("{}", 201, "created"),
        (r#"{"on_conflict":"replace"}"#, 200, "replaced"),
        (r#"{"on_conflict":"keep"}"#, 200, "kept"),
        ("{}", 200, "replaced"),
        (r#"{"on_conflict":"reject"}"#, 409, "job-exists"),
    ];
    for (extra, status, word) in rows {
        let mut body: Value = serde_json::from_str(extra).unwrap();
        body["id"] = json!("same");
        body["in"] = json!("1h");
        let answer = api.post("/v1/jobs", body.to_string()).await;
        let said = answer.problem().map_or_else(|| answer.json()["how"].clone(), Value::from);
        assert_eq!((answer.status, said), (status, json!(word)), "{extra}");
    }
    api.end().await;
}

#[tokio::test]
async fn a_batch_answers_each_for_itself() {
    let api = Api::new().await;
    let body = r#"{"jobs":[
        {"id":"a","in":"1h"},{"qeue":"x"},{"in":"-1s"},{"id":"a","in":"1h","on_conflict":"keep"},7,
        {"in":"1h","target":"worker"}
    ]}"#;
    let answer = api.post("/v1/jobs", body).await;
    let json = answer.json();
    assert_eq!((answer.status, &json["accepted"], &json["refused"]), (207, &json!(2), &json!(4)));
    let statuses: Vec<_> = json["jobs"].as_array().unwrap().iter().map(|j| &j["status"]).collect();
    assert_eq!(statuses, [201, 422, 422, 200, 422, 422]);
    assert_eq!(json["jobs"][0]["id"], "a");
    assert_eq!(json["jobs"][1]["error"]["fix"], "did you mean `queue`?");
    assert_eq!(json["jobs"][2]["error"]["field"], "in");
    assert_eq!(json["jobs"][3]["how"], "kept");
    let fix = json["jobs"][5]["error"]["fix"].as_str().unwrap();
    assert!(fix.starts_with(r#"write {"worker": {}}"#), "{fix}");
    api.end().await;
}

#[tokio::test]
async fn an_idempotency_key_makes_a_request_repeatable() {
    let api = Api::new().await;
    let send = async |key: &str, body: &str| {
        let request = axum::extract::Request::builder()
            .method("POST")
            .uri("/v1/jobs")
            .header("idempotency-key", key)
            .body(axum::body::Body::from(body.to_owned()))
            .unwrap();
        api.send(request).await
    };
    let body = r#"{"in":"1h","payload":1}"#;
    let first = send("k1", body).await;
    let second = send("k1", body).await;
    assert_eq!((first.status, second.status), (201, 200));
    assert_eq!(first.json()["id"], second.json()["id"]);
    let other = send("k1", r#"{"in":"1h","payload":2}"#).await;
    assert_eq!(other.problem().as_deref(), Some("idempotency-mismatch"));
    assert_ne!(send("k2", body).await.json()["id"], first.json()["id"]);
    for key in ["", "k\t5", "k5 \u{e9}"] {
        let refused = send(key, body).await;
        assert_eq!((refused.status, &refused.json()["field"]), (422, &json!("Idempotency-Key")));
    }
    let request = axum::extract::Request::builder().method("POST").uri("/v1/jobs");
    let request = request.header("idempotency-key", "k1").header("idempotency-key", "k4");
    let two = api.send(request.body(axum::body::Body::from(body)).unwrap()).await;
    assert_eq!((two.status, &two.json()["field"]), (422, &json!("Idempotency-Key")));
    let batch = r#"{"jobs":[{"in":"1h"},{"in":"1h"}]}"#;
    let (once, again) = (send("k3", batch).await.json(), send("k3", batch).await.json());
    assert_eq!(once["jobs"][0]["id"], again["jobs"][0]["id"]);
    assert_ne!(once["jobs"][0]["id"], once["jobs"][1]["id"], "each job of a batch is its own");
    assert_eq!(again["jobs"][1]["how"], "kept");
    api.end().await;
}

#[tokio::test]
async fn a_job_that_keeps_nothing_is_not_made_again_by_a_repeated_request() {
    let api = Api::new().await;
    let send = async || {
        let request = axum::extract::Request::builder()
            .method("POST")
            .uri("/v1/jobs")
            .header("idempotency-key", "r0")
            .body(axum::body::Body::from(r#"{"retention":"0s"}"#))
            .unwrap();
        api.send(request).await
    };
    let first = send().await;
    let token = token(&api.lease("default").await);
    assert_eq!(api.post(&format!("/v1/leases/{token}/ack"), "").await.status, 204);
    let day = hence_core::limits::IDEMPOTENCY_KEPT.get();
    for (wait, status, how) in [(300, 200, "kept"), (day - 301, 200, "kept"), (1, 201, "created")] {
        api.advance(wait);
        let again = send().await;
        assert_eq!((again.status, &again.json()["how"]), (status, &json!(how)), "after {wait} ms");
        assert_eq!(again.json()["id"], first.json()["id"]);
    }
    api.end().await;
}

/// `ready` alone says that a job is due, not what is in its way.
#[tokio::test]
async fn a_due_job_is_shown_with_what_it_waits_for() {
    let api = Api::new().await;
    let what = async || api.get("/v1/jobs/a").await.json()["waiting_for"]["what"].clone();
    api.submit(r#"{"id":"a","in":"1s"}"#).await;
    assert_eq!(what().await, json!(null), "its time has not come");
    api.advance(1_000);
    assert_eq!(what().await, "worker");
    api.post("/v1/queues/default/pause", r#"{"out":true}"#).await;
    assert_eq!(what().await, "resume");
    let shown = api.get("/v1/jobs/a").await.json();
    assert_eq!(shown["waiting_for"]["detail"], "its queue to be resumed");
    api.post("/v1/queues/default/resume", "").await;
    api.lease("default").await;
    assert_eq!(what().await, json!(null), "it runs");
    api.end().await;
}

#[tokio::test]
async fn pages_show_every_job_once() {
    let api = Api::new().await;
    for n in 0..5 {
        api.submit(&format!(r#"{{"id":"j{n}","in":"{n}h"}}"#)).await;
    }
    api.submit(r#"{"id":"elsewhere","queue":"other","in":"1h"}"#).await;
    let mut seen = Vec::new();
    let mut path = "/v1/jobs?queue=default&limit=2".to_owned();
    loop {
        let page = api.get(&path).await.json();
        let ids = page["jobs"].as_array().unwrap().iter();
        seen.extend(ids.map(|job| job["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/jobs?queue=default&limit=2&cursor={next}");
    }
    assert_eq!(seen, ["j0", "j1", "j2", "j3", "j4"]);
    let count = async |query: &str| {
        api.get(&format!("/v1/jobs?{query}")).await.json()["jobs"].as_array().unwrap().len()
    };
    assert_eq!(count("state=scheduled").await, 5);
    assert_eq!(count("state=scheduled,ready").await, 6);
    assert_eq!(count("state=scheduled&state=ready").await, 6);
    for nothing in ["state=", "state=,", "state"] {
        let refused = api.get(&format!("/v1/jobs?{nothing}")).await;
        assert_eq!((refused.status, &refused.json()["field"]), (422, &json!("state")), "{nothing}");
    }
    assert_eq!(count(&format!("queue=default&from={}", NOW + 7_200_000)).await, 3);
    assert_eq!(count(&format!("queue=default&until={}", NOW + 7_200_000)).await, 2);
    api.end().await;
}

#[tokio::test]
async fn a_job_is_changed_hurried_cancelled_and_forgotten() {
    let api = Api::new().await;
    api.submit(r#"{"id":"j","in":"1h"}"#).await;
    let changed =
        api.call("PATCH", "/v1/jobs/j", r#"{"in":"2h","payload":7,"timeout":"5s"}"#).await;
    assert_eq!(changed.json()["due_at_ms"], NOW + 7_200_000);
    assert_eq!((&changed.json()["payload"], &changed.json()["timeout"]), (&json!(7), &json!("5s")));
    assert_eq!(api.call("PATCH", "/v1/jobs/j", "{}").await.status, 422);
    assert_eq!(api.post("/v1/jobs/j/run", "").await.json()["due_at_ms"], NOW);
    let unfinished = api.call("DELETE", "/v1/jobs/j?forget=true", "").await;
    assert_eq!(unfinished.problem().as_deref(), Some("wrong-state"));
    let cancelled = api.call("DELETE", "/v1/jobs/j", "").await.json();
    assert_eq!(
        (&cancelled["state"], &cancelled["finish"]["outcome"]),
        (&json!("cancelled"), &json!("cancelled"))
    );
    assert_eq!(api.call("DELETE", "/v1/jobs/j?forget=true", "").await.status, 204);
    assert_eq!(api.get("/v1/jobs/j").await.problem().as_deref(), Some("no-such-job"));
    api.end().await;
}

#[tokio::test]
async fn a_dead_job_is_replayed_alone_and_in_bulk() {
    let api = Api::new().await;
    for id in ["a", "b"] {
        api.submit(&format!(r#"{{"id":"{id}","queue":"q","retry":{{"max_attempts":1}}}}"#)).await;
        let token = token(&api.lease("q").await);
        let body = r#"{"reason":"boom"}"#;
        assert_eq!(api.post(&format!("/v1/leases/{token}/nack"), body).await.status, 204);
    }
    let dead = api.get("/v1/jobs/a?queue=q").await.json();
    assert_eq!(dead["state"], "dead");
    let attempts = api.get("/v1/jobs/a/attempts?queue=q").await.json();
    let attempt = &attempts["attempts"][0];
    assert_eq!((&attempt["end"], &attempt["reason"]), (&json!("failed"), &json!("boom")));
    assert_eq!(api.post("/v1/jobs/a/replay?queue=q", "").await.json()["state"], "ready");
    let bulk = api.post("/v1/jobs/bulk", r#"{"filter":{"queue":"q"},"action":"replay"}"#).await;
    assert_eq!(bulk.json(), json!({"matched": 1, "done": 1, "refused": 0}));
    let bulk = api.post("/v1/jobs/bulk", r#"{"filter":{"queue":"q"},"action":"cancel"}"#).await;
    assert_eq!(bulk.json()["done"], 2);
    let bulk = api.post("/v1/jobs/bulk", r#"{"filter":{"queue":"q"},"action":"forget"}"#).await;
    assert_eq!(bulk.json()["done"], 2);
    api.end().await;
}

#[tokio::test]
async fn waiting_ends_with_the_job_the_time_or_the_server() {
    let api = Api::new().await;
    api.submit(r#"{"id":"w","queue":"q","keep_result":true}"#).await;
    let early = api.get("/v1/jobs/w/wait?queue=q&timeout=0").await;
    assert_eq!((early.status, &early.json()["state"]), (202, &json!("ready")));
    let lease = api.lease("q").await;
    let waiting = api.get("/v1/jobs/w/wait?queue=q&timeout=1m");
    let acking = async {
        tokio::task::yield_now().await;
        api.post(&format!("/v1/leases/{}/ack", token(&lease)), r#"{"result":{"n":1}}"#).await
    };
    let (waited, acked) = tokio::join!(waiting, acking);
    assert_eq!((waited.status, acked.status), (200, 204));
    assert_eq!(waited.json()["finish"]["result"], json!({"n": 1}));
    assert_eq!(api.get("/v1/jobs/w/result?queue=q").await.bytes, br#"{"n":1}"#);
    api.submit(r#"{"id":"x","in":"1h"}"#).await;
    assert_eq!(api.get("/v1/jobs/x/result").await.problem().as_deref(), Some("no-result"));
    let waiting = api.get("/v1/jobs/x/wait?timeout=5m");
    let draining = async {
        tokio::task::yield_now().await;
        api.switch.begin();
    };
    let (waited, ()) = tokio::join!(waiting, draining);
    assert_eq!(waited.status, 202, "a long poll ends with the server");
    let again = api.get("/v1/jobs/x/wait?timeout=5m").await;
    assert_eq!(again.problem().as_deref(), Some("draining"), "and none is begun");
    let ended = api.get("/v1/jobs/w/wait?queue=q&timeout=5m").await;
    assert_eq!(ended.status, 200, "what has ended is shown");
    api.end().await;
}

#[tokio::test]
async fn names_may_hold_anything_a_url_can_carry() {
    let api = Api::new().await;
    for id in ["bulk", "a/b", "ümlaut id", "100%"] {
        api.submit(&json!({"id": id, "queue": "x/y:z", "in": "1h"}).to_string()).await;
        let encoded = id.bytes().map(|b| format!("%{b:02X}")).collect::<Vec<_>>().concat();
        for path in
            [encoded.as_str(), id].into_iter().filter(|p| *p == "bulk" || p.starts_with('%'))
        {
            let shown = api.get(&format!("/v1/jobs/{path}?queue=x%2Fy:z")).await;
            assert_eq!(shown.json()["id"], id, "{path}");
        }
    }
    api.end().await;
}
