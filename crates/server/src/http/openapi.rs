//! The OpenAPI document: the parts that belong to no single route.

use utoipa::OpenApi;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder, SecurityRequirement};

use super::errors::ProblemOut;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Hence",
        description = "A durable scheduler for future work. Times in answers are RFC 3339 in UTC; \
            refusals are RFC 9457 problem documents.",
        license(name = "MIT OR Apache-2.0"),
    ),
    tags(
        (name = "jobs", description = "Work due at a time"),
        (name = "leases", description = "Pulling work, and saying how it went"),
        (name = "queues", description = "Named streams of jobs, their limits and counts"),
        (name = "schedules", description = "What makes jobs again and again"),
        (name = "server", description = "The server itself"),
    ),
    components(schemas(ProblemOut)),
)]
struct Head;

/// The document before its routes.
pub(crate) fn head() -> utoipa::openapi::OpenApi {
    Head::openapi()
}

/// The whole document.
pub(crate) fn document() -> utoipa::openapi::OpenApi {
    let (_, mut document) = super::routes().split_for_parts();
    let components = document.components.get_or_insert_default();
    let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.add_security_scheme("token", scheme);
    // None or the token: a server on its own machine may run without.
    let anybody = SecurityRequirement::default();
    let holder = SecurityRequirement::new("token", Vec::<String>::new());
    document.security = Some(vec![anybody, holder]);
    for (path, item) in &mut document.paths.paths {
        if !path.starts_with("/v1/") {
            continue;
        }
        let operations =
            [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
        operations.into_iter().flatten().for_each(add_refusal);
    }
    document
}

/// Every operation may be refused, always in the same form.
fn add_refusal(operation: &mut Operation) {
    let schema = Ref::from_schema_name("Problem");
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let refusal = ResponseBuilder::new()
        .description("A refusal: what is wrong, where, and what to do about it")
        .content("application/problem+json", content)
        .build();
    operation.responses.responses.insert("default".to_owned(), RefOr::T(refusal));
}

/// The document as text, as it is kept in `docs/reference/openapi.json`.
pub(crate) fn text() -> String {
    let mut text = document().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_document_is_what_the_code_says() {
        crate::golden::check("docs/reference/openapi.json", &text());
    }

    #[test]
    fn operations_have_names_summaries_and_refusals() {
        let document = serde_json::to_value(document()).unwrap();
        let mut names = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                assert!(operation["summary"].is_string(), "{method} {path}");
                assert!(operation["tags"].is_array(), "{method} {path}");
                let refusal = operation["responses"].get("default").is_some();
                assert_eq!(refusal, path.starts_with("/v1/"), "{method} {path}");
                names.push(operation["operationId"].as_str().unwrap().to_owned());
            }
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "each operation has a name of its own");
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let text = text();
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for rest in text.split("#/components/schemas/").skip(1) {
            let name = rest.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name}");
        }
    }
}
