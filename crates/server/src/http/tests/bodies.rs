//! Bodies and values that are wrong, each with the field it is wrong in.

use axum::body::Body;
use axum::extract::Request;
use serde_json::json;

use super::Api;

#[tokio::test]
async fn what_is_wrong_with_a_job_is_named() {
    let rows = [
        (r#"{"qeue":"x"}"#, "unknown-field", "qeue"),
        (r#"{"queue":7}"#, "invalid-value", "queue"),
        (r#"{"queue":"a b"}"#, "invalid-value", "queue"),
        (r#"{"id":""}"#, "invalid-value", "id"),
        (r#"{"id":"a","id":"b"}"#, "duplicate-field", "id"),
        (r#"{"at":1,"time":2}"#, "duplicate-field", "at"),
        (r#"{"at":1,"in":"1s"}"#, "invalid-value", "at"),
        (r#"{"at":-1}"#, "invalid-value", "at"),
        (r#"{"time":-1}"#, "invalid-value", "time"),
        (r#"{"time":"tomorow"}"#, "invalid-value", "time"),
        (r#"{"time":9999999999999}"#, "invalid-value", "time"),
        (r#"{"time":1,"in":"1s"}"#, "invalid-value", "time"),
        (r#"{"in":"9999999999s"}"#, "invalid-value", "in"),
        (r#"{"in":"300y"}"#, "invalid-value", "in"),
        (r#"{"at":1.5}"#, "invalid-value", "at"),
        (r#"{"at":"tomorow"}"#, "invalid-value", "at"),
        (r#"{"at":99999999999}"#, "invalid-value", "at"),
        (r#"{"in":"1 month","timeout":"1 month"}"#, "invalid-value", "timeout"),
        (r#"{"at":{}}"#, "invalid-value", "at"),
        (r#"{"payload":1,"payload_text":"x"}"#, "invalid-value", "payload"),
        (r#"{"payload_base64":"%"}"#, "invalid-value", "payload_base64"),
        (r#"{"content_type":"text/plain"}"#, "invalid-value", "content_type"),
        (r#"{"payload":1,"content_type":""}"#, "invalid-value", "content_type"),
        (r#"{"url":"ftp://x"}"#, "invalid-value", "url"),
        (r#"{"url":"http://u:p@x"}"#, "invalid-value", "url"),
        (r#"{"url":"http://x:80800/"}"#, "invalid-value", "url"),
        (r#"{"timeout":"1ms"}"#, "invalid-value", "timeout"),
        (r#"{"expires_in":"1h","expires_at":1}"#, "invalid-value", "expires_at"),
        (r#"{"at":1789000000,"expires_at":1789000000}"#, "invalid-value", "expires_at"),
        (r#"{"retention":"20000 days"}"#, "invalid-value", "retention"),
        (r#"{"id":"a","id_from":"content"}"#, "invalid-value", "id"),
        (r#"{"expires_in":0}"#, "invalid-value", "expires_in"),
        (r#"{"on_conflict":"merge"}"#, "invalid-value", "on_conflict"),
        (r#"{"on_conflict":7}"#, "invalid-value", "on_conflict"),
        (r#"{"keep_result":"yes"}"#, "invalid-value", "keep_result"),
        (r#"{"jobs":[]}"#, "invalid-value", "jobs"),
        (r#"{"jobs":[{}],"queue":"x"}"#, "unknown-field", "queue"),
    ];
    check_fields(&rows).await;
}

#[tokio::test]
async fn what_is_wrong_with_a_target_or_a_retry_is_named() {
    let rows = [
        (r#"{"url":"http://x","target":{"worker":{}}}"#, "invalid-value", "target"),
        (r#"{"target":{"http":{"url":"x"}}}"#, "invalid-value", "target.http.url"),
        (r#"{"target":{"http":{}}}"#, "missing-field", "target.http.url"),
        (
            r#"{"target":{"http":{"url":"http://x","metod":"GET"}}}"#,
            "unknown-field",
            "target.http.metod",
        ),
        (
            r#"{"target":{"http":{"url":"http://x","headers":{"Host":"y"}}}}"#,
            "invalid-value",
            "target.http.headers",
        ),
        (r#"{"target":{"handler":{"name":"a b"}}}"#, "invalid-value", "target.handler.name"),
        (r#"{"target":{}}"#, "invalid-value", "target"),
        (r#"{"target":7}"#, "invalid-value", "target"),
        (r#"{"target":"worker"}"#, "invalid-value", "target"),
        (r#"{"target":{"sns":{}}}"#, "unknown-field", "target.sns"),
        (r#"{"target":{"worker":{},"http":{"url":"http://x"}}}"#, "invalid-value", "target"),
        (r#"{"retry":{"delay":"31d"}}"#, "invalid-value", "retry.delay"),
        (r#"{"retry":{"first":"31d"}}"#, "invalid-value", "retry.first"),
        (r#"{"retry":{"delays":["31d"]}}"#, "invalid-value", "retry.delays"),
        (r#"{"retry":{"cap":"31d"}}"#, "invalid-value", "retry.cap"),
        (r#"{"retry":{"max_attempts":0}}"#, "invalid-value", "retry.max_attempts"),
        (r#"{"retry":{"max_attempts":-1}}"#, "invalid-value", "retry.max_attempts"),
        (r#"{"url":"ftp://x"}"#, "invalid-value", "url"),
        (r#"{"timeout":"1ms"}"#, "invalid-value", "timeout"),
    ];
    check_fields(&rows).await;
    let api = Api::new().await;
    api.submit(r#"{"id":"x","in":"1h"}"#).await;
    for row in rows {
        check_row(&api, "PATCH", "/v1/jobs/x", row).await;
    }
    api.end().await;
}

/// The name of a field is the caller's, and may be as long as a body.
#[tokio::test]
async fn a_long_name_of_a_field_is_not_sent_back_whole() {
    let api = Api::new().await;
    let answer = api.post("/v1/jobs", format!("{{\"{}\":1}}", "x".repeat(10_000))).await;
    assert_eq!(answer.problem().as_deref(), Some("unknown-field"));
    assert_eq!(answer.json()["field"], "x".repeat(100));
    assert!(answer.bytes.len() < 2_000, "{} bytes", answer.bytes.len());
    api.end().await;
}

/// A job, the kind of its refusal, and the field that is wrong.
type Row = (&'static str, &'static str, &'static str);

async fn check_fields(rows: &[Row]) {
    let api = Api::new().await;
    for row in rows {
        check_row(&api, "POST", "/v1/jobs", *row).await;
    }
    assert_eq!(api.get("/v1/jobs").await.json()["jobs"], json!([]), "nothing was changed");
    api.end().await;
}

async fn check_row(api: &Api, method: &str, path: &str, (body, kind, field): Row) {
    let answer = api.call(method, path, body).await;
    let named = answer.json()["field"].clone();
    assert_eq!(
        (answer.status, answer.problem().as_deref(), &named),
        (422, Some(kind), &json!(field)),
        "{method} {body}: {}",
        answer.json()
    );
}

#[tokio::test]
async fn one_of_a_few_words_is_a_text() {
    let api = Api::new().await;
    let rows = [
        ("/v1/jobs", r#"{"on_conflict":{"keep":null}}"#, "on_conflict"),
        ("/v1/jobs", r#"{"id_from":{"content":null}}"#, "id_from"),
        ("/v1/jobs", r#"{"key_on_failure":{"block":null}}"#, "key_on_failure"),
        ("/v1/jobs", r#"{"on_unknown":["park"]}"#, "on_unknown"),
        ("/v1/jobs/bulk", r#"{"filter":{},"action":{"run":null}}"#, "action"),
        ("/v1/schedules/preview", r#"{"when":"* * * * *","gap":{"skip":null}}"#, "gap"),
        ("/v1/schedules/preview", r#"{"when":"* * * * *","fold":{"both":null}}"#, "fold"),
        ("/v1/schedules/preview", r#"{"when":"* * * * *","dialect":{"unix":null}}"#, "dialect"),
    ];
    for (path, body, field) in rows {
        check_row(&api, "POST", path, (body, "invalid-value", field)).await;
    }
    api.end().await;
}

#[tokio::test]
async fn a_refusal_says_what_to_do_in_words_of_the_api() {
    let api = Api::new().await;
    let rows = [
        ("/v1/jobs", "null", "body", "correct `body`: it must be a JSON object"),
        ("/v1/jobs", "5", "body", "correct `body`: it must be a JSON object"),
        ("/v1/jobs", r#"{"queue":7}"#, "queue", "correct `queue`: it must be a text"),
        (
            "/v1/jobs",
            r#"{"retry":{"max_attempts":-1}}"#,
            "retry.max_attempts",
            "correct `retry.max_attempts`: it must be a whole number from 1 to 10000",
        ),
        (
            "/v1/jobs",
            r#"{"timeout":"1ms"}"#,
            "timeout",
            "correct `timeout`: it must be between 10ms and 1d",
        ),
        ("/v1/jobs", r#"{"in":"300y"}"#, "in", "choose a time between 1970 and 200 years from now"),
        ("/v1/jobs", r#"{"on_conflict":"kep"}"#, "on_conflict", "did you mean `keep`?"),
        ("/v1/jobs", r#"{"at":1,"in":2}"#, "at", "give one"),
        (
            "/v1/jobs/bulk",
            r#"{"filter":{"states":["ded"]},"action":"run"}"#,
            "filter.states",
            "correct `filter.states`: it must be one of scheduled, ready, running, succeeded, \
             dead, cancelled, expired",
        ),
        (
            "/v1/jobs/bulk",
            r#"{"filter":{"queue":"a b"},"action":"run"}"#,
            "filter.queue",
            "correct `filter.queue`: it must hold only ASCII letters, digits and . _ : / -",
        ),
        (
            "/v1/jobs/bulk",
            r#"{"filter":{"schedule":""},"action":"run"}"#,
            "filter.schedule",
            "correct `filter.schedule`: it must not be empty",
        ),
        (
            "/v1/leases",
            r#"{"queues":["a",""]}"#,
            "queues[1]",
            "correct `queues[1]`: it must not be empty",
        ),
        (
            "/v1/schedules/preview",
            r#"{"when":7}"#,
            "when",
            "correct `when`: it must be a text or a list of texts",
        ),
        ("/v1/leases/0.1.1/extend", "{}", "lease", "add `lease`"),
    ];
    check_fixes(&api, &rows).await;
    api.end().await;
}

#[tokio::test]
async fn a_refusal_without_a_must_says_what_helps() {
    let api = Api::new().await;
    let rows = [
        (
            "/v1/jobs",
            r#"{"at":1789000000,"expires_at":1789000000}"#,
            "expires_at",
            "let it expire after it is due, or be due earlier",
        ),
        (
            "/v1/jobs",
            r#"{"in":1e300}"#,
            "in",
            "correct `in`: it must be at most 1000000000000 seconds",
        ),
        (
            "/v1/jobs",
            r#"{"content_type":"text/plain"}"#,
            "content_type",
            "add `payload`, or leave `content_type` out",
        ),
        ("/v1/jobs", r#"{"retry":{"backoff":"list"}}"#, "retry.delays", "add them"),
        (
            "/v1/jobs",
            r#"{"retry":{"backoff":"fixed","delay":1,"delays":[1]}}"#,
            "retry.delays",
            "leave out what does not go with it",
        ),
        ("/v1/jobs", r#"{"at":"0000000001"}"#, "at", "say one of `in 1 minutes`, `at 1:00`"),
        ("/v1/leases", r#"{"queue":"a","queues":["b"]}"#, "queue", "give one"),
        ("/v1/leases/0.1.1/nack", r#"{"how":"dead","delay":1}"#, "delay", "leave it out"),
    ];
    check_fixes(&api, &rows).await;
    api.end().await;
}

/// A path, a body for it, the field that is wrong, and what to do about it.
type Fix = (&'static str, &'static str, &'static str, &'static str);

async fn check_fixes(api: &Api, rows: &[Fix]) {
    for (path, body, field, fix) in rows {
        let json = api.post(path, *body).await.json();
        assert_eq!((&json["field"], &json["fix"]), (&json!(field), &json!(fix)), "{body}: {json}");
        let detail = json["detail"].as_str().unwrap();
        for word in ["struct", "u32", "variant", "sequence"] {
            assert!(!detail.contains(word), "{body}: {detail}");
        }
    }
}

#[tokio::test]
async fn a_refusal_is_about_what_is_wrong_and_not_about_what_is_near() {
    let api = Api::new().await;
    api.submit(r#"{"id":"a","in":"1h"}"#).await;
    for (field, body) in
        [("id", r#"{"id":"b"}"#), ("queue", r#"{"queue":"b"}"#), ("key", r#"{"key":"b"}"#)]
    {
        let json = api.call("PATCH", "/v1/jobs/a", body).await.json();
        let fix = json["fix"].as_str().unwrap_or_default();
        assert!(fix.starts_with("a job's name cannot be changed"), "{field}: {fix}");
    }
    let json = api.post("/v1/jobs", r#"{"expires_in":"300 years"}"#).await.json();
    let detail = json["detail"].as_str().unwrap_or_default();
    assert!(detail.ends_with("longer than anything lasts"), "{detail}");
    for body in ["", " \n"] {
        let json = api.post("/v1/jobs", body).await.json();
        assert_eq!((&json["detail"], &json["line"]), (&json!("the body is empty"), &json!(null)));
        assert_eq!(json["fix"], "send a JSON object: at least {}");
    }
    api.end().await;
}

#[tokio::test]
async fn a_number_out_of_range_names_the_limits_there_are() {
    let api = Api::new().await;
    let rows = [
        ("POST", "/v1/jobs", r#"{"retry":{"jitter_percent":-1}}"#, "from 0 to 100"),
        ("POST", "/v1/jobs", r#"{"retry":{"jitter_percent":256}}"#, "from 0 to 100"),
        ("POST", "/v1/jobs", r#"{"retry":{"max_attempts":-1}}"#, "from 1 to 10000"),
        (
            "POST",
            "/v1/jobs",
            r#"{"retry":{"max_attempts":1.5}}"#,
            "from 1 to 10000, not a number with a fraction",
        ),
        (
            "PUT",
            "/v1/schedules/s",
            r#"{"when":"@daily","job":{"retry":{"max_attempts":-1}}}"#,
            "from 1 to 10000",
        ),
        (
            "PUT",
            "/v1/schedules/s",
            r#"{"when":"@daily","count":-1}"#,
            "from 1 to 18446744073709551615",
        ),
        ("POST", "/v1/leases", r#"{"max":-1}"#, "from 1 to 1000"),
        ("POST", "/v1/leases", r#"{"max":"2"}"#, "from 1 to 1000, not a text"),
        ("POST", "/v1/schedules/preview", r#"{"when":"@daily","ticks":-1}"#, "from 1 to 1000"),
        ("PUT", "/v1/queues/q", r#"{"concurrency":-1}"#, "from 1 to 4294967295"),
        ("PATCH", "/v1/queues/q", r#"{"concurrency":4294967296}"#, "from 1 to 4294967295"),
        ("PUT", "/v1/queues/q", r#"{"rate":{"count":-1,"per":1}}"#, "from 1 to 4294967295"),
        (
            "PUT",
            "/v1/queues/q",
            r#"{"pending_max":18446744073709551616}"#,
            "from 0 to 18446744073709551615",
        ),
    ];
    for (method, path, body, range) in rows {
        let json = api.call(method, path, body).await.json();
        let detail = json["detail"].as_str().unwrap_or_default();
        let field = json["field"].as_str().unwrap_or_default();
        assert_eq!(detail, format!("{field} must be a whole number {range}"), "{body}");
    }
    api.end().await;
}

#[tokio::test]
async fn what_is_not_json_is_shown_where() {
    let api = Api::new().await;
    let answer = api.post("/v1/jobs", "{\n  \"queue\": nope\n}").await;
    let json = answer.json();
    assert_eq!((answer.status, answer.problem().as_deref()), (400, Some("bad-json")));
    assert_eq!((&json["line"], &json["column"]), (&json!(2), &json!(13)));
    let rows: [(&[u8], u16); 9] = [
        (b"", 400),
        (b"nonsense", 400),
        (b"{} {}", 400),
        (b"[]", 422),
        (b"null", 422),
        (b"{\"id\":\"\xff\"}", 400),
        (b"{\"at\":NaN}", 400),
        (b"{\"id\":\"\\ud800\"}", 400),
        (b"{\"payload\":\"\\ud800\"}", 400),
    ];
    for (body, status) in rows {
        let answer = api.post("/v1/jobs", body.to_vec()).await;
        assert_eq!(answer.status, status, "{}", String::from_utf8_lossy(body));
    }
    api.end().await;
}

#[tokio::test]
async fn a_compressed_body_is_refused_for_what_it_is() {
    let api = Api::new().await;
    for (coding, status) in [("gzip", 415), ("br", 415), ("gzip, identity", 415), ("identity", 201)]
    {
        let request = Request::builder().method("POST").uri("/v1/jobs");
        let request = request.header("content-encoding", coding);
        let answer = api.send(request.body(Body::from("{\"in\":\"1h\"}")).unwrap()).await;
        assert_eq!(answer.status, status, "{coding}");
        if status == 415 {
            assert_eq!(answer.problem().as_deref(), Some("unsupported-encoding"));
            assert_eq!(answer.json()["field"], "Content-Encoding");
        }
    }
    api.end().await;
}

#[tokio::test]
async fn where_no_body_belongs_its_fields_are_refused() {
    let api = Api::new().await;
    api.submit(r#"{"id":"a","in":"1h"}"#).await;
    let put = api.call("PUT", "/v1/schedules/s", r#"{"when":"every day at 9am"}"#).await;
    assert_eq!(put.status, 200);
    for path in
        ["/v1/jobs/a/run", "/v1/jobs/a/replay", "/v1/schedules/s/resume", "/v1/schedules/s/trigger"]
    {
        let refused = api.post(path, r#"{"at":"tomorrow"}"#).await;
        assert_eq!((refused.status, &refused.json()["field"]), (422, &json!("at")), "{path}");
        assert_eq!(api.post(path, "[]").await.json()["field"], "body", "{path}");
    }
    assert_eq!(api.get("/v1/jobs/a").await.json()["state"], "scheduled", "nothing was changed");
    let request = Request::builder().method("POST").uri("/v1/jobs/a/run");
    let form = request.header("content-type", "application/x-www-form-urlencoded");
    let answer = api.send(form.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, 200, "a type without a body is what curl sends");
    assert_eq!(api.post("/v1/schedules/s/trigger", " {} ").await.status, 201);
    api.end().await;
}

#[tokio::test]
async fn only_json_is_taken_for_json() {
    let api = Api::new().await;
    let rows = [
        (None, 201),
        (Some("application/json"), 201),
        (Some("Application/JSON; charset=utf-8"), 201),
        (Some("application/vnd.hence+json"), 201),
        (Some("text/plain"), 415),
        (Some("application/x-www-form-urlencoded"), 415),
        (Some(""), 415),
    ];
    for (media, status) in rows {
        let mut request = Request::builder().method("POST").uri("/v1/jobs");
        if let Some(media) = media {
            request = request.header("content-type", media);
        }
        let answer = api.send(request.body(Body::from("{\"in\":\"1h\"}")).unwrap()).await;
        assert_eq!(answer.status, status, "{media:?}");
    }
    api.end().await;
}
