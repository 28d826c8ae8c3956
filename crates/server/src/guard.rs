//! Who may speak to the server. Without a token it serves its own machine only, and then trusts no
//! web page either: a browser on the machine can be made to send requests by any page it shows.

use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::{HeaderMap, Method, Request, Uri};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::http::errors::Problem;
use crate::http::kinds;

/// What a request must show.
pub(crate) struct Guard {
    /// The digest of the token: the token itself is not kept.
    token: Option<[u8; 32]>,
}

impl Guard {
    /// A guard that wants this token, or none.
    pub(crate) fn new(token: Option<&str>) -> Self {
        Guard { token: token.map(|token| Sha256::digest(token).into()) }
    }

    /// Lets a request pass, or says why not.
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<(), Problem> {
        match &self.token {
            Some(token) if !is_open(request.uri().path()) => {
                check_token(token, request.headers())?;
            }
            Some(_) => {}
            None => check_host(request.uri(), request.headers())?,
        }
        check_origin(request)
    }
}

/// What is answered without a token. Probes have none, and learn nothing. Nor has a browser that
/// follows the `type` of a problem: the documentation is the same for every server, and says
/// nothing about the jobs of this one.
pub(crate) fn is_open(path: &str) -> bool {
    const OPEN: [&str; 7] = [
        "/live",
        "/ready",
        "/docs",
        "/docs/docs.css",
        "/docs/docs.js",
        "/docs/errors",
        "/openapi.json",
    ];
    OPEN.contains(&path)
}

fn check_token(expected: &[u8; 32], headers: &HeaderMap) -> Result<(), Problem> {
    let Some(value) = headers.get(AUTHORIZATION) else {
        return Err(Problem::new(kinds::UNAUTHORIZED, "the request has no Authorization header"));
    };
    let scheme_and_token = value.to_str().ok().and_then(|text| text.split_once(' '));
    let given = match scheme_and_token {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        _ => {
            let detail = "the Authorization header is not of the form `Bearer TOKEN`";
            return Err(Problem::new(kinds::UNAUTHORIZED, detail));
        }
    };
    // Digests of equal length, compared in constant time: nothing can be learned from how long a
    // refusal takes.
    let digest: [u8; 32] = Sha256::digest(given).into();
    if bool::from(digest.ct_eq(expected)) {
        return Ok(());
    }
    Err(Problem::new(kinds::UNAUTHORIZED, "the token is not the one of this server"))
}

/// A page of another site whose name was pointed at this machine (DNS rebinding) says its own name
/// in the Host header.
fn check_host(uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let named = headers.get_all(HOST).iter().map(|value| value.to_str().unwrap_or_default());
    let authority = uri.authority().map(http::uri::Authority::as_str);
    match named.chain(authority).find(|host| !is_local(host)) {
        None => Ok(()),
        Some(host) => {
            let detail = format!("`{}` is not this machine", host.escape_default());
            Err(Problem::new(kinds::MISDIRECTED, detail).field("Host"))
        }
    }
}

fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inner, port)) if port.is_empty() || is_port(port) => inner,
        Some(_) => return false,
        None => match host.find(':') {
            Some(colon) if is_port(&host[colon..]) => &host[..colon],
            Some(_) => return false,
            None => host,
        },
    };
    name.eq_ignore_ascii_case("localhost") || name == "127.0.0.1" || name == "::1"
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|digits| digits.parse::<u16>().is_ok())
}

/// A browser says where a page that changes something comes from; programs say nothing.
fn check_origin<B>(request: &Request<B>) -> Result<(), Problem> {
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    let Some(origin) = request.headers().get(ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or_default();
    let from = origin.split_once("://").map(|(_, authority)| authority);
    let host = request.headers().get(HOST).and_then(|value| value.to_str().ok());
    let host = host.or_else(|| request.uri().authority().map(http::uri::Authority::as_str));
    if from.is_some() && from == host {
        return Ok(());
    }
    let detail = format!("the page is of `{}`", origin.escape_default());
    Err(Problem::new(kinds::CROSS_ORIGIN, detail).field("Origin"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(guard: &Guard, method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).unwrap();
        guard.check(&request).map_or_else(|problem| problem.status().as_u16(), |()| 200)
    }

    #[test]
    fn without_a_token_only_this_machine_is_served() {
        let guard = Guard::new(None);
        let rows = [
            ("localhost", 200),
            ("LOCALHOST:7070", 200),
            ("127.0.0.1:7070", 200),
            ("[::1]:7070", 200),
            ("[::1]", 200),
            ("evil.example", 421),
            ("localhost.evil.example", 421),
            ("127.0.0.1.evil.example:7070", 421),
            ("localhost:evil", 421),
            ("[::1]evil", 421),
            ("192.168.0.1", 421),
            ("", 421),
        ];
        for (host, expected) in rows {
            assert_eq!(status(&guard, "GET", "/v1/jobs", &[("host", host)]), expected, "{host}");
        }
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(status(&guard, "GET", "/v1/jobs", &two), 421);
    }

    #[test]
    fn with_a_token_it_is_wanted_everywhere_but_for_probes_and_documentation() {
        let guard = Guard::new(Some("a-long-enough-token"));
        let rows = [
            ("/v1/jobs", Some("Bearer a-long-enough-token"), 200),
            ("/v1/jobs", Some("bearer a-long-enough-token"), 200),
            ("/v1/jobs", Some("Bearer wrong"), 401),
            ("/v1/jobs", Some("Basic a-long-enough-token"), 401),
            ("/v1/jobs", Some("a-long-enough-token"), 401),
            ("/v1/jobs", None, 401),
            ("/metrics", None, 401),
            ("/", None, 401),
            ("/docs", None, 200),
            ("/docs/docs.css", None, 200),
            ("/docs/docs.js", None, 200),
            ("/docs/errors", None, 200),
            ("/openapi.json", None, 200),
            ("/docs", Some("Bearer wrong"), 200),
            ("/docs/", None, 401),
            ("/docs/../v1/jobs", None, 401),
            ("/docs%2F..%2Fv1/jobs", None, 401),
            ("//docs", None, 401),
            ("/openapi.json/", None, 401),
            ("/live", None, 200),
            ("/ready", None, 200),
            ("/ready/", None, 401),
        ];
        for (path, token, expected) in rows {
            let mut headers = vec![("host", "hence.example")];
            headers.extend(token.map(|token| ("authorization", token)));
            assert_eq!(status(&guard, "GET", path, &headers), expected, "{path} {token:?}");
        }
    }

    #[test]
    fn pages_of_other_origins_change_nothing() {
        let guard = Guard::new(None);
        let rows = [
            ("POST", "http://localhost:7070", 200),
            ("POST", "http://localhost:8080", 403),
            ("POST", "https://evil.example", 403),
            ("POST", "null", 403),
            ("DELETE", "https://evil.example", 403),
            ("GET", "https://evil.example", 200),
        ];
        for (method, origin, expected) in rows {
            let headers = [("host", "localhost:7070"), ("origin", origin)];
            assert_eq!(status(&guard, method, "/v1/jobs", &headers), expected, "{method} {origin}");
        }
    }
}
