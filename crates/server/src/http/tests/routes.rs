//! Every route is in the document, and nothing else is a route.

use super::Api;
use crate::http::openapi;

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

#[tokio::test]
async fn the_document_and_the_router_agree() {
    let api = Api::new().await;
    let document = serde_json::to_value(openapi::document()).unwrap();
    for (path, item) in document["paths"].as_object().unwrap() {
        let concrete = path.replace("{id}", "x").replace("{name}", "x").replace("{token}", "0.0.0");
        for method in METHODS {
            // A job may be called `bulk`, and a schedule `preview`.
            let is_name_too = ["/v1/jobs/bulk", "/v1/schedules/preview"].contains(&path.as_str());
            if is_name_too && method != "POST" {
                continue;
            }
            let answer = api.call(method, &concrete, "").await;
            let problem = answer.problem();
            assert_ne!(problem.as_deref(), Some("no-such-route"), "{method} {path}");
            let documented = item.get(method.to_lowercase()).is_some();
            let allowed = problem.as_deref() != Some("method-not-allowed");
            assert_eq!(allowed, documented, "{method} {path}");
            assert!(allowed || answer.headers.contains_key("allow"), "{method} {path}");
        }
    }
    api.end().await;
}

#[tokio::test]
async fn other_paths_are_refused_as_documents() {
    let api = Api::new().await;
    for path in ["/nope", "/v1", "/v1/jobs/", "/v1/jobs/a/b/c", "/v2/jobs", "/docs/x", "//"] {
        let answer = api.get(path).await;
        assert_eq!(
            (answer.status, answer.problem().as_deref()),
            (404, Some("no-such-route")),
            "{path}"
        );
    }
    let answer = api.call("PUT", "/v1/jobs", "").await;
    assert_eq!(answer.status, 405);
    let allow = answer.headers["allow"].to_str().unwrap();
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
    api.end().await;
}

#[tokio::test]
async fn pages_are_served_with_a_strict_policy() {
    let api = Api::new().await;
    let rows = [
        ("/", "text/plain"),
        ("/docs", "text/html"),
        ("/docs/docs.js", "text/javascript"),
        ("/docs/docs.css", "text/css"),
        ("/docs/errors", "text/html"),
        ("/openapi.json", "application/json"),
    ];
    for (path, media) in rows {
        let answer = api.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.headers["content-type"].to_str().unwrap().starts_with(media), "{path}");
        if path != "/openapi.json" {
            let policy = answer.headers["content-security-policy"].to_str().unwrap();
            assert!(policy.starts_with("default-src 'self'"), "{path}");
        }
    }
    let served = String::from_utf8(api.get("/openapi.json").await.bytes).unwrap();
    assert_eq!(served, openapi::text());
    api.end().await;
}

#[tokio::test]
async fn an_unknown_parameter_is_refused_everywhere() {
    let api = Api::new().await;
    let document = serde_json::to_value(openapi::document()).unwrap();
    for (path, item) in document["paths"].as_object().unwrap() {
        if !path.starts_with("/v1/") {
            continue;
        }
        let concrete = path.replace("{id}", "x").replace("{name}", "x").replace("{token}", "0.0.0");
        for method in item.as_object().unwrap().keys() {
            let path = format!("{concrete}?zebra=1");
            let answer = api.call(&method.to_uppercase(), &path, "").await;
            assert_eq!(answer.json()["field"], "zebra", "{method} {path}");
        }
    }
    api.end().await;
}
