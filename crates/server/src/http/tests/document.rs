//! What the document says of every answer that the tests get: its status is listed, and the kind of
//! a refusal with it.

use std::sync::OnceLock;

use serde_json::Value;

use super::Answer;
use crate::http::openapi;

/// Compares an answer with the document.
pub(super) fn check(method: &str, path: &str, answer: &Answer) {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    let document = DOCUMENT.get_or_init(|| serde_json::to_value(openapi::document()).unwrap());
    let Some(operation) = operation(document, method, path) else { return };
    let listed = &operation["responses"][answer.status.to_string()];
    let kind = answer.problem();
    assert!(listed.is_object(), "{method} {path}: {} {kind:?} is not listed", answer.status);
    if let Some(kind) = kind {
        let kinds = listed["description"].as_str().unwrap();
        assert!(kinds.contains(&format!("`{kind}`")), "{method} {path}: {kind} is not listed");
    }
}

/// The operation that answers, found as the router finds it: a name before a parameter.
fn operation<'a>(document: &'a Value, method: &str, path: &str) -> Option<&'a Value> {
    let paths = document["paths"].as_object().unwrap();
    let fits = |template: &str| {
        let same = |(part, given): (&str, &str)| {
            part == given || part.starts_with('{') && !given.is_empty()
        };
        template.split('/').count() == path.split('/').count()
            && template.split('/').zip(path.split('/')).all(same)
    };
    let item = |path: &str| paths.get(path)?.get(method.to_lowercase());
    let is_v1 = path.starts_with("/v1/");
    item(path)
        .or_else(|| paths.keys().filter(|template| fits(template)).find_map(|found| item(found)))
        .filter(|_| is_v1)
}
