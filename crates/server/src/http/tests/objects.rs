//! Where the document says that a body holds an object, a list is refused: every such place of
//! every body is found in the document itself, so that a new one cannot be forgotten.

use serde_json::{Value, json};

use super::Api;
use crate::http::openapi;

/// A body, and the name of the place in it that is a list.
type Case = (String, Value);

#[tokio::test]
async fn a_list_is_not_taken_for_an_object() {
    let api = Api::new().await;
    let document = serde_json::to_value(openapi::document()).unwrap();
    let mut seen = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let concrete = path.replace("{id}", "x").replace("{name}", "x").replace("{token}", "0.1.1");
        for (method, operation) in item.as_object().unwrap() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let mut cases = Vec::new();
            places(&document, schema, &mut cases);
            for (place, body) in cases {
                check(&api, method, &concrete, &place, &body).await;
                seen.push(format!("{path} {place}"));
            }
        }
    }
    for place in [
        "/v1/jobs ",
        "/v1/jobs retry",
        "/v1/jobs target.worker",
        "/v1/jobs jobs[0].target.http.headers",
        "/v1/jobs/{id} target.handler",
        "/v1/jobs/bulk filter",
        "/v1/leases acks[0]",
        "/v1/leases/{token}/nack ",
        "/v1/queues/{name} rate",
        "/v1/schedules/{id} job.retry",
    ] {
        assert!(seen.iter().any(|other| other == place), "{place} in {seen:?}");
    }
    assert_eq!(api.get("/v1/jobs").await.json()["jobs"], json!([]), "nothing was changed");
    api.end().await;
}

async fn check(api: &Api, method: &str, path: &str, place: &str, body: &Value) {
    let answer = api.call(&method.to_uppercase(), path, body.to_string()).await;
    let of_batch = answer.status == 207;
    let json = answer.json();
    let problem = if of_batch { &json["jobs"][0]["error"] } else { &json };
    let field = match place {
        "" => "body",
        place if of_batch => place.strip_prefix("jobs[0].").unwrap_or(place),
        place => place,
    };
    assert_eq!(
        (&problem["status"], &problem["field"]),
        (&json!(422), &json!(field)),
        "{method} {path} {body}: {json}"
    );
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("object"), "{method} {path} {body}: {detail}");
}

/// The places of objects in what this schema describes, each with a list in its stead.
fn places(document: &Value, schema: &Value, found: &mut Vec<Case>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.trim_start_matches("#/components/schemas/");
        return places(document, &document["components"]["schemas"][name], found);
    }
    let choices = ["oneOf", "anyOf", "allOf"].iter().filter_map(|key| schema[key].as_array());
    for choice in choices.flatten() {
        places(document, choice, found);
    }
    let is = |kind: &str| match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(|other| other == kind),
        other => other == kind,
    };
    if is("object") {
        let fields = schema["properties"].as_object();
        // As many values as there are fields: read by position, they would make an empty object.
        let list = vec![Value::Null; fields.map_or(0, serde_json::Map::len)];
        found.push((String::new(), list.into()));
        for (name, inner) in fields.into_iter().flatten() {
            let within = |rest: &str| format!("{name}{}{rest}", separator(rest));
            found.extend(inside(document, inner, within, |body| json!({ name: body })));
        }
    }
    if is("array") {
        let within = |rest: &str| format!("[0]{}{rest}", separator(rest));
        found.extend(inside(document, &schema["items"], within, |body| json!([body])));
    }
}

fn separator(rest: &str) -> &'static str {
    if rest.is_empty() || rest.starts_with('[') { "" } else { "." }
}

fn inside(
    document: &Value,
    schema: &Value,
    name: impl Fn(&str) -> String,
    wrap: impl Fn(Value) -> Value,
) -> Vec<Case> {
    let mut found = Vec::new();
    places(document, schema, &mut found);
    found.into_iter().map(|(place, body)| (name(&place), wrap(body))).collect()
}
