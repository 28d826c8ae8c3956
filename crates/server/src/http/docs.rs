//! `/docs`: the API's own documentation, drawn by a page of ours from `/openapi.json`. Nothing is
//! loaded from anywhere else.

use axum::extract::State;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};

use super::app::{self, App};
use super::kinds;

const PAGE: &str = include_str!("docs/index.html");
const SCRIPT: &str = include_str!("docs/docs.js");
const STYLE: &str = include_str!("docs/docs.css");

/// Where to go from here.
#[utoipa::path(
    get, path = "/", tag = "server", operation_id = "root",
    responses((
        status = 200, description = "Where to go from here",
        body = String, content_type = "text/plain",
    ))
)]
pub(crate) async fn root() -> Response {
    const TEXT: &str = concat!(
        "Hence ",
        env!("CARGO_PKG_VERSION"),
        "\n\n/docs          the API, for people\n/openapi.json  the API, for programs\n\
         /v1/jobs       the jobs\n/v1/stats      the whole at a glance\n\
         /metrics       for Prometheus\n"
    );
    text("text/plain; charset=utf-8", TEXT.to_owned())
}

/// The API, for programs.
#[utoipa::path(
    get, path = "/openapi.json", tag = "server", operation_id = "openapi",
    responses((status = 200, description = "This document", body = serde_json::Value))
)]
pub(crate) async fn openapi(State(app): State<App>) -> Response {
    app::bytes(StatusCode::OK, HeaderValue::from_static("application/json"), app.openapi.clone())
}

/// The API, for people.
#[utoipa::path(
    get, path = "/docs", tag = "server", operation_id = "docs",
    responses((status = 200, description = "A page", body = String, content_type = "text/html"))
)]
pub(crate) async fn page() -> Response {
    text("text/html; charset=utf-8", PAGE.to_owned())
}

/// The script of the page.
#[utoipa::path(
    get, path = "/docs/docs.js", tag = "server", operation_id = "docs_script",
    responses((
        status = 200, description = "A script",
        body = String, content_type = "text/javascript",
    ))
)]
pub(crate) async fn script() -> Response {
    text("text/javascript; charset=utf-8", SCRIPT.to_owned())
}

/// The style of the page.
#[utoipa::path(
    get, path = "/docs/docs.css", tag = "server", operation_id = "docs_style",
    responses((
        status = 200, description = "A style sheet",
        body = String, content_type = "text/css",
    ))
)]
pub(crate) async fn style() -> Response {
    text("text/css; charset=utf-8", STYLE.to_owned())
}

/// Every kind of problem, where the `type` of a problem document points.
#[utoipa::path(
    get, path = "/docs/errors", tag = "server", operation_id = "docs_errors",
    responses((status = 200, description = "A page", body = String, content_type = "text/html"))
)]
pub(crate) async fn errors() -> Response {
    text("text/html; charset=utf-8", errors_page())
}

/// The list is ours and holds no markup characters but backquotes, which are left as they are.
fn errors_page() -> String {
    let mut page = String::from(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Hence: errors</title>\
         <link rel=\"stylesheet\" href=\"/docs/docs.css\"><main><h1>Errors</h1>\
         <p>Refusals are RFC 9457 problem documents. Nothing was changed by a request that was \
         refused, unless its text says that the outcome is unknown.</p><dl>",
    );
    for kind in kinds::ALL {
        page.extend([format!(
            "<dt id=\"{name}\"><code>{name}</code> {status}: {title}</dt><dd>{fix}</dd>",
            name = kind.name,
            status = kind.status.as_u16(),
            title = kind.title,
            fix = kind.fix,
        )]);
    }
    page.push_str("</dl></main></html>");
    page
}

fn text(media: &'static str, body: String) -> Response {
    const POLICY: &str = "default-src 'self'; object-src 'none'; frame-ancestors 'none'; \
                          base-uri 'none'; form-action 'none'";
    let mut response = app::bytes(StatusCode::OK, HeaderValue::from_static(media), body.into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_loads_nothing_from_elsewhere_and_runs_nothing_inline() {
        for text in [PAGE, SCRIPT, STYLE] {
            assert!(!text.contains("http://") && !text.contains("https://"));
            assert!(!text.contains("innerHTML"), "text goes into the page as text");
        }
        assert!(!PAGE.contains("<style") && !PAGE.contains("onload") && !PAGE.contains(" style="));
        assert_eq!(PAGE.matches("<script").count(), PAGE.matches("<script src=").count());
    }

    #[test]
    fn every_problem_is_explained() {
        let page = errors_page();
        for kind in kinds::ALL {
            assert!(page.contains(&format!("id=\"{}\"", kind.name)));
            assert!(![kind.title, kind.fix].concat().contains(['<', '>', '&']), "{}", kind.name);
        }
    }
}
