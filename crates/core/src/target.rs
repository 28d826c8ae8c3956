//! Where a job goes when it is due, and what of it can be refused beforehand.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::error::Rejection;
use crate::id::HandlerName;
use crate::limits;

/// Where a job goes when it is due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// An HTTP request to a URL.
    Http(Arc<HttpTarget>),
    /// A worker that pulls from the queue.
    Worker,
    /// A handler registered by name in this process.
    Handler(HandlerName),
}

/// An HTTP request, less its body, which is the payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpTarget {
    /// The method, in capitals.
    pub method: String,
    /// The URL, `http` or `https`.
    pub url: String,
    /// Headers the producer wants sent, in order.
    pub headers: Vec<(String, String)>,
}

impl HttpTarget {
    /// A POST without extra headers.
    pub fn post(url: &str) -> Self {
        HttpTarget { method: "POST".to_string(), url: url.to_string(), headers: Vec::new() }
    }

    /// Every part of it can be sent, and nothing in it is ours to say.
    pub(crate) fn check(&self) -> Result<(), Rejection> {
        const METHODS: [&str; 6] = ["POST", "GET", "PUT", "PATCH", "DELETE", "HEAD"];
        if !METHODS.contains(&self.method.as_str()) {
            let problem = "must be one of POST, GET, PUT, PATCH, DELETE, HEAD";
            return Err(Rejection::invalid("target.method", problem));
        }
        if self.url.len() > limits::URL_BYTES_MAX {
            return Err(Rejection::too_long("target.url", self.url.len(), limits::URL_BYTES_MAX));
        }
        check_url(&self.url)?;
        if self.headers.len() > limits::HEADERS_MAX {
            let (size, max) = (self.headers.len(), limits::HEADERS_MAX);
            return Err(Rejection::too_long("target.headers", size, max));
        }
        let bytes: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > limits::HEADER_BYTES_MAX {
            return Err(Rejection::too_long("target.headers", bytes, limits::HEADER_BYTES_MAX));
        }
        self.headers.iter().try_for_each(|(name, value)| check_header(name, value))
    }
}

fn check_url(url: &str) -> Result<(), Rejection> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let Some(rest) = rest else {
        return Err(Rejection::invalid("target.url", "must start with http:// or https://"));
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.is_empty() || host.starts_with(':') {
        return Err(Rejection::invalid(
            "target.url",
            "names no host; write it like https://example.com/hook",
        ));
    }
    if host.contains('@') {
        let problem = "must not carry credentials; send them in a header";
        return Err(Rejection::invalid("target.url", problem));
    }
    if !url.bytes().all(|b| (0x21..0x7f).contains(&b)) {
        let problem = "must be ASCII without spaces; percent-encode everything else";
        return Err(Rejection::invalid("target.url", problem));
    }
    Ok(())
}

fn check_header(name: &str, value: &str) -> Result<(), Rejection> {
    // Framing belongs to the client, and the hence-* names to us: a producer who could set them
    // could forge a token.
    const OURS: [&str; 6] =
        ["content-length", "transfer-encoding", "connection", "host", "upgrade", "te"];
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(token) {
        return Err(Rejection::invalid(
            "target.headers",
            "holds a name that is not a header name; use letters, digits and -",
        ));
    }
    let lower = name.to_ascii_lowercase();
    if OURS.contains(&lower.as_str()) || lower.starts_with("hence-") {
        return Err(Rejection::invalid(
            "target.headers",
            alloc::format!("must not set {lower}: Hence sets it"),
        ));
    }
    if !value.bytes().all(|b| b == b'\t' || (0x20..0x7f).contains(&b)) {
        return Err(Rejection::invalid(
            "target.headers",
            "holds a value that is not printable ASCII; encode it",
        ));
    }
    Ok(())
}
