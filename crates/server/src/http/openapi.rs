//! The OpenAPI document: the parts that belong to no single route.

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use utoipa::OpenApi;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{Schema, SchemaType, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    Content, ContentBuilder, Ref, RefOr, Response, ResponseBuilder, SecurityRequirement,
};

use super::errors::ProblemOut;
use super::kinds::{self, Kind};
use super::refusals;
use crate::guard;

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
    components.responses.insert(REFUSAL.to_owned(), RefOr::T(refusal()));
    components.schemas.values_mut().for_each(lift_descriptions);
    for (path, item) in &mut document.paths.paths {
        if !path.starts_with("/v1/") {
            if let Some(operation) = item.get.as_mut().filter(|_| !guard::is_open(path)) {
                let kind = kinds::UNAUTHORIZED;
                insert_refusal(operation, kind.status, &[kind]);
            }
            continue;
        }
        let operations = [
            (Method::GET, &mut item.get),
            (Method::PUT, &mut item.put),
            (Method::POST, &mut item.post),
            (Method::DELETE, &mut item.delete),
            (Method::PATCH, &mut item.patch),
        ];
        for (method, operation) in operations {
            if let Some(operation) = operation {
                drop_null_body(operation);
                add_refusals(&method, operation);
            }
        }
    }
    document
}

/// The name of the one form that every refusal has.
const REFUSAL: &str = "Problem";

fn refusal() -> Response {
    let schema = Ref::from_schema_name(REFUSAL);
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new()
        .description("A refusal: what is wrong, where, and what to do about it")
        .content("application/problem+json", content)
        .build()
}

/// What is said of a field that may be left out stands by the field, not within one of its forms,
/// where nobody looks for it.
fn lift_descriptions(schema: &mut RefOr<Schema>) {
    let RefOr::T(Schema::Object(object)) = schema else { return };
    for field in object.properties.values_mut() {
        let RefOr::T(Schema::OneOf(forms)) = field else { continue };
        let within = forms.items.iter_mut().find_map(|form| match form {
            RefOr::Ref(form) if !form.description.is_empty() => Some(&mut form.description),
            _ => None,
        });
        if let (Some(within), None) = (within, &forms.description) {
            forms.description = Some(std::mem::take(within));
        }
    }
}

/// A body that may be left out is described as one that may be `null`, which none may be.
fn drop_null_body(operation: &mut Operation) {
    let null = SchemaType::Type(Type::Null);
    let is_null = |schema: &RefOr<Schema>| match schema {
        RefOr::T(Schema::Object(object)) => object.schema_type == null,
        _ => false,
    };
    let Some(RefOr::T(body)) = &mut operation.request_body else { return };
    for content in body.content.values_mut() {
        let RefOr::T(Content { schema: Some(schema), .. }) = content else { continue };
        let RefOr::T(Schema::OneOf(choices)) = schema else { continue };
        choices.items.retain(|choice| !is_null(choice));
        if let [only] = choices.items.as_slice() {
            *schema = only.clone();
        }
    }
}

/// Lists what an operation can be refused with, under the status of each.
fn add_refusals(method: &Method, operation: &mut Operation) {
    let name = operation.operation_id.clone().unwrap_or_default();
    let asked = refusals::Asked {
        operation: &name,
        is_safe: method.is_safe(),
        // A body is read wherever one may be expected, if only to say that none is.
        has_body: method == Method::POST || operation.request_body.is_some(),
    };
    let mut by_status: BTreeMap<StatusCode, Vec<Kind>> = BTreeMap::new();
    for kind in refusals::of(&asked) {
        by_status.entry(kind.status).or_default().push(kind);
    }
    for (status, kinds) in by_status {
        insert_refusal(operation, status, &kinds);
    }
    let responses = &mut operation.responses.responses;
    responses.insert("default".to_owned(), RefOr::Ref(Ref::from_response_name(REFUSAL)));
}

fn insert_refusal(operation: &mut Operation, status: StatusCode, kinds: &[Kind]) {
    let words = kinds.iter().map(|kind| format!("`{}`: {}", kind.name, kind.title));
    let mut refusal = Ref::from_response_name(REFUSAL);
    refusal.description = words.collect::<Vec<_>>().join("; ");
    operation.responses.responses.insert(status.as_str().to_owned(), RefOr::Ref(refusal));
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
    use hence_core::limits as core;
    use hence_core::when::limits::PREVIEW_LINES_MAX;

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
    fn closed_lists_are_listed_and_bytes_are_bytes() {
        let document = serde_json::to_value(document()).unwrap();
        let schemas = &document["components"]["schemas"];
        let rows = [
            ("Job", "state", "JobState"),
            ("Accepted", "state", "JobState"),
            ("Accepted", "how", "Submitted"),
            ("Finish", "outcome", "Outcome"),
            ("Attempt", "end", "AttemptEnd"),
            ("Job", "key_on_failure", "KeyOnFailure"),
            ("Job", "on_unknown", "OnUnknown"),
            ("JobTemplate", "key_on_failure", "KeyOnFailure"),
            ("JobTemplate", "on_unknown", "OnUnknown"),
            ("Backfill", "state", "BackfillState"),
        ];
        for (schema, field, name) in rows {
            let reference = format!("#/components/schemas/{name}");
            assert_eq!(schemas[schema]["properties"][field]["$ref"], reference, "{schema}.{field}");
            assert!(schemas[name]["enum"].is_array(), "{name}");
        }
        for path in ["/v1/jobs/{id}/payload", "/v1/jobs/{id}/result"] {
            let content = &document["paths"][path]["get"]["responses"]["200"]["content"];
            assert_eq!(content["*/*"]["schema"]["$ref"], "#/components/schemas/Bytes", "{path}");
        }
        assert_eq!(schemas["Bytes"]["format"], "binary");
        assert!(schemas["NewJob"]["properties"]["time"].is_object());
    }

    #[test]
    fn no_body_is_described_as_null() {
        let document = serde_json::to_value(document()).unwrap();
        let rows = [
            ("/v1/leases/{token}/ack", "Ack"),
            ("/v1/leases/{token}/nack", "Nack"),
            ("/v1/queues/{name}/pause", "Doors"),
            ("/v1/queues/{name}/resume", "Doors"),
            ("/v1/schedules/{id}/pause", "NewPause"),
        ];
        for (path, name) in rows {
            let body = &document["paths"][path]["post"]["requestBody"];
            let schema = &body["content"]["application/json"]["schema"];
            assert_eq!(schema["$ref"], format!("#/components/schemas/{name}"), "{path}");
            assert_ne!(body["required"], true, "{path} can be asked without a body");
        }
        let submit = &document["paths"]["/v1/jobs"]["post"]["requestBody"];
        assert_eq!(submit["required"], true);
    }

    #[test]
    fn every_field_says_what_it_is() {
        let document = serde_json::to_value(document()).unwrap();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for (name, schema) in schemas {
            for (field, described) in schema["properties"].as_object().into_iter().flatten() {
                assert!(described["description"].is_string(), "{name}.{field}: {described}");
            }
        }
    }

    #[test]
    fn numbers_have_the_limits_that_they_are_refused_by() {
        let document = serde_json::to_value(document()).unwrap();
        let schemas = &document["components"]["schemas"];
        let rows = [
            ("NewRetry", "max_attempts", 1, Some(u64::from(core::ATTEMPTS_MAX))),
            ("NewRetry", "jitter_percent", 0, Some(100)),
            ("NewRetry", "factor", 1, Some(100)),
            ("QueueSettings", "concurrency", 1, None),
            ("QueueChange", "concurrency", 1, None),
            ("NewRate", "count", 1, None),
            ("LeaseRequest", "max", 1, Some(u64::from(core::LEASE_BATCH_MAX))),
            ("NewSchedule", "count", 1, None),
            ("NewPreview", "ticks", 1, Some(PREVIEW_LINES_MAX as u64)),
        ];
        for (schema, field, low, high) in rows {
            let field = &schemas[schema]["properties"][field];
            assert_eq!(field["minimum"].as_f64(), Some(f64::from(low)), "{schema}: {field}");
            assert_eq!(field["maximum"].as_f64(), high.map(|n| n as f64), "{schema}: {field}");
        }
        let rows = [
            ("NewJobs", "jobs", Some(1), Some(core::SUBMIT_BATCH_MAX)),
            ("Acks", "acks", Some(1), Some(core::LEASE_BATCH_MAX as usize)),
            ("LeaseRequest", "acks", None, Some(core::LEASE_BATCH_MAX as usize)),
            ("LeaseRequest", "queues", Some(1), Some(core::LEASE_QUEUES_MAX)),
            ("Filter", "states", Some(1), None),
        ];
        for (schema, field, low, high) in rows {
            let field = &schemas[schema]["properties"][field];
            let said = |name: &str| field[name].as_u64().map(|count| count as usize);
            assert_eq!((said("minItems"), said("maxItems")), (low, high), "{schema}: {field}");
        }
        let paths = document["paths"].as_object().unwrap().values();
        let limits = paths
            .filter_map(|item| item["get"]["parameters"].as_array())
            .flatten()
            .filter(|parameter| parameter["name"] == "limit");
        for parameter in limits {
            let schema = &parameter["schema"];
            assert_eq!(
                (&schema["minimum"], &schema["maximum"]),
                (&1.into(), &core::PAGE_MAX.into())
            );
        }
    }

    #[test]
    fn what_needs_a_token_says_so() {
        let document = serde_json::to_value(document()).unwrap();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let said = operation["responses"].get("401").is_some();
                assert_eq!(said, !guard::is_open(path), "{method} {path}");
            }
        }
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
