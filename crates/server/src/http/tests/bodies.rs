//! Bodies and values that are wrong, each with the field it is wrong in.

use axum::body::Body;
use axum::extract::Request;
use serde_json::json;

use super::Api;

#[tokio::test]
async fn what_is_wrong_with_a_job_is_named() {
    let api = Api::new().await;
    let rows = [
        (r#"{"qeue":"x"}"#, 422, "unknown-field", "qeue"),
        (r#"{"queue":7}"#, 422, "invalid-value", "queue"),
        (r#"{"queue":"a b"}"#, 422, "invalid-value", "queue"),
        (r#"{"id":""}"#, 422, "invalid-value", "id"),
        (r#"{"id":"a","id":"b"}"#, 422, "duplicate-field", "id"),
        (r#"{"at":1,"time":2}"#, 422, "duplicate-field", "at"),
        (r#"{"at":1,"in":"1s"}"#, 422, "invalid-value", "at"),
        (r#"{"at":-1}"#, 422, "invalid-value", "at"),
        (r#"{"at":1.5}"#, 422, "invalid-value", "at"),
        (r#"{"at":"tomorow"}"#, 422, "invalid-value", "at"),
        (r#"{"at":99999999999}"#, 422, "invalid-value", "at"),
        (r#"{"in":"1 month","timeout":"1 month"}"#, 422, "invalid-value", "timeout"),
        (r#"{"at":{}}"#, 422, "invalid-value", "at"),
        (r#"{"payload":1,"payload_text":"x"}"#, 422, "invalid-value", "payload"),
        (r#"{"payload_base64":"%"}"#, 422, "invalid-value", "payload"),
        (r#"{"content_type":"text/plain"}"#, 422, "invalid-value", "content_type"),
        (r#"{"url":"ftp://x"}"#, 422, "invalid-value", "url"),
        (r#"{"url":"http://u:p@x"}"#, 422, "invalid-value", "url"),
        (r#"{"url":"http://x","target":{"worker":{}}}"#, 422, "invalid-value", "target"),
        (r#"{"target":{"http":{"url":"x"}}}"#, 422, "invalid-value", "target.http.url"),
        (r#"{"target":{"http":{}}}"#, 422, "missing-field", "target.http.url"),
        (
            r#"{"target":{"http":{"url":"http://x","metod":"GET"}}}"#,
            422,
            "unknown-field",
            "target.http.metod",
        ),
        (
            r#"{"target":{"http":{"url":"http://x","headers":{"Host":"y"}}}}"#,
            422,
            "invalid-value",
            "target.http.headers",
        ),
        (r#"{"target":{"handler":{"name":"a b"}}}"#, 422, "invalid-value", "handler"),
        (r#"{"retry":{"max_attempts":0}}"#, 422, "invalid-value", "retry.max_attempts"),
        (r#"{"retry":{"max_attempts":-1}}"#, 422, "invalid-value", "retry.max_attempts"),
        (r#"{"timeout":"1ms"}"#, 422, "invalid-value", "timeout"),
        (r#"{"expires_in":"1h","expires_at":1}"#, 422, "invalid-value", "expires_at"),
        (r#"{"at":1789000000,"expires_at":1789000000}"#, 422, "invalid-value", "expires_at"),
        (r#"{"retention":"20000 days"}"#, 422, "invalid-value", "retention"),
        (r#"{"id":"a","id_from":"content"}"#, 422, "invalid-value", "id"),
        (r#"{"on_conflict":"merge"}"#, 422, "invalid-value", "on_conflict"),
        (r#"{"keep_result":"yes"}"#, 422, "invalid-value", "keep_result"),
        (r#"{"jobs":[]}"#, 422, "invalid-value", "jobs"),
        (r#"{"jobs":[{}],"queue":"x"}"#, 422, "unknown-field", "queue"),
    ];
    for (body, status, kind, field) in rows {
        let answer = api.post("/v1/jobs", body).await;
        let named = answer.json()["field"].clone();
        assert_eq!(
            (answer.status, answer.problem().as_deref(), &named),
            (status, Some(kind), &json!(field)),
            "{body}: {}",
            answer.json()
        );
    }
    assert_eq!(api.get("/v1/jobs").await.json()["jobs"], json!([]), "nothing was changed");
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
