//! A small HTTP client for Hence's own API: one address, one token, JSON in and out, and problem
//! documents turned into [`Failure`]s that name the field and the fix.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use hence_core::when::Problem;
use hence_server::limits::BODY_BYTES_MAX;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body as _, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde_json::Value;

use crate::args::Global;
use crate::clock;
use crate::failure::{Exit, Failure, Unread};

/// An answer larger than this is not ours: a page of a thousand payloads would not fit a terminal
/// either.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// A request that does not wait for anything is answered within this, or the server is stuck.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// A token is a line, not a file of something else.
const TOKEN_BYTES_MAX: usize = 4_096;

/// The server, as the command line sees it.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    authorization: Option<HeaderValue>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The body.
    pub(crate) body: Bytes,
    /// What the body is.
    pub(crate) content_type: Option<String>,
    /// What the server's clock said, in milliseconds since the epoch.
    pub(crate) date_ms: Option<i64>,
}

impl Api {
    /// The server named by flags or environment. Nothing is sent yet.
    pub(crate) fn new(global: &Global) -> Result<Self, Failure> {
        let authorization = token(global)?.map(|token| bearer(&token)).transpose()?;
        Self::at(&global.server, authorization)
    }

    /// The server at this address.
    pub(crate) fn at(server: &str, authorization: Option<HeaderValue>) -> Result<Self, Failure> {
        let base = base_of(server)?;
        let client = Client::builder(TokioExecutor::new()).build(connector(&base)?);
        Ok(Api { client, base, authorization })
    }

    /// The address, for messages.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) async fn get(&self, path: &Path) -> Result<Value, Failure> {
        self.json(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &Path, body: &impl Serialize) -> Result<Value, Failure> {
        self.json(Method::POST, path, Some(encoded(body)?)).await
    }

    pub(crate) async fn put(&self, path: &Path, body: &impl Serialize) -> Result<Value, Failure> {
        self.json(Method::PUT, path, Some(encoded(body)?)).await
    }

    pub(crate) async fn patch(&self, path: &Path, body: &impl Serialize) -> Result<Value, Failure> {
        self.json(Method::PATCH, path, Some(encoded(body)?)).await
    }

    pub(crate) async fn delete(&self, path: &Path) -> Result<Value, Failure> {
        self.json(Method::DELETE, path, None).await
    }

    /// A POST that the server may answer only after `wait`; its answer is taken as it is.
    pub(crate) async fn post_waiting(
        &self,
        path: &Path,
        body: &impl Serialize,
        wait: Duration,
    ) -> Result<Answer, Failure> {
        let request = self.request(Method::POST, path, Some(encoded(body)?))?;
        self.send(request, ANSWER_WITHIN + wait).await
    }

    /// A GET that the server may answer only after `wait`.
    pub(crate) async fn get_waiting(&self, path: &Path, wait: Duration) -> Result<Value, Failure> {
        let request = self.request(Method::GET, path, None)?;
        value_of(&self.send(request, ANSWER_WITHIN + wait).await?)
    }

    /// A GET whose answer is taken as it is.
    pub(crate) async fn fetch(&self, path: &Path) -> Result<Answer, Failure> {
        let request = self.request(Method::GET, path, None)?;
        self.send(request, ANSWER_WITHIN).await
    }

    async fn json(
        &self,
        method: Method,
        path: &Path,
        body: Option<Bytes>,
    ) -> Result<Value, Failure> {
        let request = self.request(method, path, body)?;
        value_of(&self.send(request, ANSWER_WITHIN).await?)
    }

    fn request(
        &self,
        method: Method,
        path: &Path,
        body: Option<Bytes>,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{}", self.base, path.0))
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("hence-cli/", env!("CARGO_PKG_VERSION")));
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let bytes = match body {
            Some(body) => {
                request = request.header(CONTENT_TYPE, "application/json");
                body
            }
            None => Bytes::new(),
        };
        request.body(Full::new(bytes)).map_err(|error| {
            Failure::refused(format!("the request to {} cannot be made: {error}", self.base))
        })
    }

    async fn send(
        &self,
        request: Request<Full<Bytes>>,
        within: Duration,
    ) -> Result<Answer, Failure> {
        match clock::within(within, self.exchange(request)).await {
            Some(answer) => answer,
            None => Err(self.unreachable(&format!("no answer within {} s", within.as_secs()))),
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Answer, Failure> {
        let bytes = request.body().size_hint().exact().unwrap_or_default();
        match self.client.request(request).await {
            Ok(response) => self.read(response).await,
            Err(error) if bytes > BODY_BYTES_MAX as u64 && !error.is_connect() => {
                Err(self.cut_off(bytes).await)
            }
            Err(error) => Err(self.unreachable(&root_cause(&error))),
        }
    }

    /// Why the connection broke under a large body. A server refuses such a one before it has read
    /// it, and closes; its answer is lost if that is noticed first by whoever still writes. A small
    /// question tells whether it is there, and would have said something else.
    async fn cut_off(&self, bytes: u64) -> Failure {
        let asked = match self.request(Method::GET, &Path::new("/v1/stats"), None) {
            Ok(asked) => asked,
            Err(failure) => return failure,
        };
        let answer = match self.client.request(asked).await {
            Ok(response) => self.read(response).await,
            Err(error) => Err(self.unreachable(&root_cause(&error))),
        };
        match answer {
            Ok(_) => Failure::refused(format!(
                "the server at {} closed the connection under a body of {bytes} bytes: it is \
                 probably too large",
                self.base
            ))
            .fix(
                "send less at once: a job carries 1 MiB at most, and all that is sent together \
                 what --max-body-bytes of the server allows",
            ),
            Err(failure) => failure,
        }
    }

    async fn read(&self, response: Response<Incoming>) -> Result<Answer, Failure> {
        let status = response.status();
        let header = |name| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let (content_type, date) = (header(CONTENT_TYPE), header(DATE));
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| self.unreachable(&error.to_string()))?.to_bytes();
        if !status.is_success() {
            return Err(problem(&self.base, status, &body));
        }
        Ok(Answer { body, content_type, date_ms: date.as_deref().and_then(parse_http_date) })
    }

    fn unreachable(&self, cause: &str) -> Failure {
        Failure::new(
            Exit::Unreachable,
            format!("the server at {} does not answer: {cause}", self.base),
        )
        .fix("start one with `hence serve`, or name another with --server URL or HENCE_SERVER")
    }
}

/// A path and query under the server's address, escaped as it is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path(String);

impl Path {
    /// A literal path, such as `/v1/jobs`.
    pub(crate) fn new(literal: &'static str) -> Self {
        Path(literal.to_owned())
    }

    /// With one more segment; everything unusual in it is escaped.
    pub(crate) fn push(mut self, segment: &str) -> Self {
        self.0.push('/');
        self.0.push_str(&escape(segment));
        self
    }

    /// With one more query parameter.
    pub(crate) fn query(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        let mark = if self.0.contains('?') { '&' } else { '?' };
        self.0.push(mark);
        self.0.push_str(name);
        self.0.push('=');
        self.0.push_str(&escape(&value.to_string()));
        self
    }

    /// The same, when there is a value.
    pub(crate) fn query_some(self, name: &str, value: Option<impl std::fmt::Display>) -> Self {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

fn base_of(server: &str) -> Result<String, Failure> {
    let wrong = |problem: &str| {
        Failure::new(Exit::Usage, format!("the server address `{server}` {problem}"))
            .fix("write it like http://127.0.0.1:7070")
    };
    let with_scheme =
        if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
    let uri: Uri = with_scheme.parse().map_err(|_| wrong("is not a URL"))?;
    let Some(authority) = uri.authority() else { return Err(wrong("names no host")) };
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(wrong("is neither http nor https"));
    }
    // A port that is none would be left out, and the usual one asked instead.
    let host_and_port = authority.as_str().rsplit('@').next().unwrap_or_default();
    if host_and_port != authority.host() && authority.port_u16().is_none() {
        return Err(wrong("names a port that is none"));
    }
    Ok(with_scheme.trim_end_matches('/').to_owned())
}

fn connector(base: &str) -> Result<HttpsConnector<HttpConnector>, Failure> {
    let provider = rustls::crypto::ring::default_provider();
    // Reading the system's certificates takes longer than a whole plain request: only when needed.
    let builder = if base.starts_with("https:") {
        HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(provider)
            .map_err(|error| Failure::io("reading the system's certificates", &error))?
    } else {
        let config = rustls::ClientConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .map_err(|error| Failure::new(Exit::Internal, format!("setting up TLS: {error}")))?
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        HttpsConnectorBuilder::new().with_tls_config(config)
    };
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(Duration::from_secs(5)));
    Ok(builder.https_or_http().enable_http1().wrap_connector(tcp))
}

fn token(global: &Global) -> Result<Option<String>, Failure> {
    if let Some(token) = &global.token {
        return Ok(Some(token.trim().to_owned()));
    }
    let Some(file) = &global.token_file else { return Ok(None) };
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::io(format_args!("reading the token file {}", file.display()), &error)
    })?;
    let token = text.trim();
    if token.is_empty() || token.len() > TOKEN_BYTES_MAX {
        return Err(Failure::refused(format!("the token file {} holds no token", file.display())));
    }
    Ok(Some(token.to_owned()))
}

fn bearer(token: &str) -> Result<HeaderValue, Failure> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| Failure::refused("the token holds characters that a header cannot carry"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn encoded(body: &impl Serialize) -> Result<Bytes, Failure> {
    let bytes = serde_json::to_vec(body);
    let problem = |error| Failure::new(Exit::Internal, format!("writing a request: {error}"));
    bytes.map(Bytes::from).map_err(problem)
}

fn value_of(answer: &Answer) -> Result<Value, Failure> {
    if answer.body.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&answer.body).map_err(Failure::unexpected)
}

/// Problems of a server that does not take work yet, or no more.
const NOT_NOW: [&str; 2] = ["#standing-by", "#draining"];

/// What a server says to programs, and what somebody who types can do instead.
const IN_COMMANDS: [(&str, &str); 4] = [
    ("?queue=", "--queue"),
    ("?key=", "--key"),
    ("GET /v1/schedules lists", "`hence schedules` lists"),
    ("GET /v1/queues lists", "`hence queues` lists"),
];

/// A refusal as the server worded it, or as well as it can be worded when it came from a proxy.
fn problem(base: &str, status: StatusCode, body: &[u8]) -> Failure {
    let document: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |name: &str| document.get(name).and_then(Value::as_str).map(str::to_owned);
    // Ours always says what is not there.
    if status == StatusCode::NOT_FOUND && text("title").is_none() {
        return not_hence(base, status);
    }
    let kind = text("type").unwrap_or_default();
    let exit = match status {
        StatusCode::NOT_FOUND => Exit::NotFound,
        _ if NOT_NOW.iter().any(|name| kind.ends_with(name)) => Exit::Unavailable,
        _ => Exit::Refused,
    };
    // `/ready` says `draining` in a field of its own.
    let message = text("detail").or_else(|| text("title")).or_else(|| text("status"));
    let mut failure =
        Failure::new(exit, message.unwrap_or_else(|| format!("the server answered {status}")));
    failure.field = text("field");
    failure.unread = unread(&document);
    let typed = |fix: String, (said, typed): &(&str, &str)| fix.replace(said, typed);
    failure.fix = text("fix").map(|fix| IN_COMMANDS.iter().fold(fix, typed));
    if status == StatusCode::UNAUTHORIZED {
        failure.fix =
            Some("give the server's token with --token, --token-file or HENCE_TOKEN".to_owned());
    }
    failure
}

/// Somebody else is at this address: as if nobody were.
fn not_hence(base: &str, status: StatusCode) -> Failure {
    let message = format!("what answers at {base} does not look like a Hence server: {status}");
    Failure::new(Exit::Unreachable, message).fix("correct the address in --server or HENCE_SERVER")
}

/// The text that the server did not understand, when that is what it says.
fn unread(document: &Value) -> Option<Box<Unread>> {
    let text = |name: &str| document.get(name)?.as_str();
    let number = |name: &str| usize::try_from(document.get(name)?.as_u64()?).ok();
    let (what, given) = (text("field")?, text("text")?);
    let message = text("detail")?;
    let message = message.split_once(" is not understood: ").map_or(message, |(_, why)| why);
    // The server counts characters, the core bytes.
    let bytes = |place: usize| given.char_indices().nth(place).map_or(given.len(), |(at, _)| at);
    let candidates = document.get("candidates").and_then(Value::as_array);
    let candidates = candidates.into_iter().flatten().filter_map(Value::as_str);
    let problem = Problem::new(bytes(number("start")?)..bytes(number("end")?), message);
    let (what, text) = (what.to_owned(), given.to_owned());
    Some(Box::new(Unread { what, text, problem: problem.or(candidates) }))
}

/// The innermost cause: `connection refused` says more than `client error (Connect)`.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

fn parse_http_date(text: &str) -> Option<i64> {
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(date.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_escaped() {
        let path = Path::new("/v1/jobs")
            .push("a/b c?")
            .query("queue", "x&y")
            .query_some("key", Some("Zoë"));
        assert_eq!(path.0, "/v1/jobs/a%2Fb%20c%3F?queue=x%26y&key=Zo%C3%AB");
        assert_eq!(Path::new("/v1").query_some("key", None::<&str>).0, "/v1");
    }

    #[test]
    fn server_addresses() {
        for (given, base) in [
            ("http://127.0.0.1:7070", "http://127.0.0.1:7070"),
            ("http://host/", "http://host"),
            ("host:7070", "http://host:7070"),
            ("https://host/hence/", "https://host/hence"),
            ("http://[::1]:7070", "http://[::1]:7070"),
            ("http://[::1]", "http://[::1]"),
            ("http://user:secret@host:80", "http://user:secret@host:80"),
            ("http://user@host", "http://user@host"),
        ] {
            assert_eq!(base_of(given), Ok(base.to_owned()), "{given}");
        }
        for bad in
            ["", "ftp://host", "http://", "not a url", "host:99999", "http://[::1]:x", "host:"]
        {
            assert!(base_of(bad).is_err(), "{bad}");
        }
    }

    const BASE: &str = "http://host";

    #[test]
    fn advice_is_about_commands() {
        let rows = [
            ("say ?queue= and ?key= when", "say --queue and --key when"),
            (
                "check the id; GET /v1/schedules lists them",
                "check the id; `hence schedules` lists them",
            ),
            ("GET /v1/queues lists those", "`hence queues` lists those"),
        ];
        for (said, expected) in rows {
            let body = serde_json::json!({"title": "t", "fix": said}).to_string();
            let failure = problem(BASE, StatusCode::NOT_FOUND, body.as_bytes());
            assert_eq!(failure.fix.as_deref(), Some(expected));
        }
    }

    #[test]
    fn refusals_are_worded_by_the_server() {
        let rows = [
            (
                422,
                r#"{"title":"t","detail":"in is wrong","field":"in","fix":"write 5s"}"#,
                Exit::Refused,
                "in is wrong",
            ),
            (404, r#"{"title":"there is no such job"}"#, Exit::NotFound, "there is no such job"),
            (
                404,
                "<html>not found</html>",
                Exit::Unreachable,
                "what answers at http://host does not look like a Hence server: 404 Not Found",
            ),
            (
                404,
                r#"{"detail":"Not Found"}"#,
                Exit::Unreachable,
                "what answers at http://host does not look like a Hence server: 404 Not Found",
            ),
            (502, "<html>bad gateway</html>", Exit::Refused, "the server answered 502 Bad Gateway"),
            (
                503,
                r#"{"type":"/docs/errors#standing-by","detail":"starting"}"#,
                Exit::Unavailable,
                "starting",
            ),
            (
                503,
                r#"{"type":"/docs/errors#queue-paused","detail":"paused"}"#,
                Exit::Refused,
                "paused",
            ),
        ];
        for (status, body, exit, message) in rows {
            let status = StatusCode::from_u16(status).expect("a status");
            let failure = problem(BASE, status, body.as_bytes());
            assert_eq!((failure.exit, failure.message.as_str()), (exit, message));
        }
        let failure = problem(BASE, StatusCode::UNPROCESSABLE_ENTITY, rows[0].1.as_bytes());
        assert_eq!(
            (failure.field.as_deref(), failure.fix.as_deref()),
            (Some("in"), Some("write 5s"))
        );
        let body = r#"{"detail":"at is not understood: of what?","field":"at","text":"é 7",
            "start":2,"end":3,"candidates":["in 7 minutes"]}"#;
        let failure = problem(BASE, StatusCode::UNPROCESSABLE_ENTITY, body.as_bytes());
        let unread = failure.unread.expect("the text is shown");
        assert_eq!(
            unread.problem.render(&unread.text),
            "  é 7\n    ^ of what?\n  try: in 7 minutes\n"
        );
        let failure = problem(BASE, StatusCode::UNAUTHORIZED, b"");
        assert!(failure.fix.is_some_and(|fix| fix.contains("HENCE_TOKEN")));
    }

    #[test]
    fn the_date_header_is_read() {
        assert_eq!(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777_000));
    }
}
