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
            return Err(Rejection::too_many_in("target.headers", size, max));
        }
        let bytes: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > limits::HEADER_BYTES_MAX {
            return Err(Rejection::too_long("target.headers", bytes, limits::HEADER_BYTES_MAX));
        }
        self.headers.iter().try_for_each(|(name, value)| check_header(name, value))
    }
}

fn check_url(url: &str) -> Result<(), Rejection> {
    let rest = match url.split_once("://") {
        // Schemes have no case.
        Some((scheme, rest))
            if ["http", "https"].iter().any(|s| scheme.eq_ignore_ascii_case(s)) =>
        {
            rest
        }
        _ => return Err(Rejection::invalid("target.url", "must start with http:// or https://")),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    check_authority(authority).map_err(|problem| Rejection::invalid("target.url", problem))?;
    if !url.bytes().all(|b| (0x21..0x7f).contains(&b)) {
        let problem = "must be ASCII without spaces; percent-encode everything else";
        return Err(Rejection::invalid("target.url", problem));
    }
    Ok(())
}

/// A host, and a port if there is a colon. The client does not look at the port: one that is no
/// number is taken for none, and the payload would go to whoever listens on the port of the scheme.
fn check_authority(authority: &str) -> Result<(), &'static str> {
    const NO_HOST: &str = "names no host; write it like https://example.com/hook";
    const BRACKETS: &str = "has brackets that do not enclose its host; write an IPv6 address like \
                            http://[::1]:8080/hook, and any other host without brackets";
    const PORT: &str = "has a port that is not a number from 1 to 65535; write it like \
                        https://example.com:8443/hook, or leave it out together with its colon";
    if authority.is_empty() || authority.starts_with(':') {
        return Err(NO_HOST);
    }
    if authority.contains('@') {
        return Err("must not carry credentials; send them in a header");
    }
    let (host, after) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or(BRACKETS)?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    if host.is_empty() {
        return Err(NO_HOST);
    }
    if host.contains(['[', ']']) || !(after.is_empty() || after.starts_with(':')) {
        return Err(BRACKETS);
    }
    // Only digits: the parser of numbers takes a sign too.
    let is_port = |text: &str| {
        text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0)
    };
    if after.strip_prefix(':').is_some_and(|text| !is_port(text)) {
        return Err(PORT);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_host_and_a_port_that_there_can_be() {
        let (host, port) = ("names no host", "has a port that is not a number from 1 to 65535");
        let brackets = "has brackets that do not enclose its host";
        let credentials = "must not carry credentials";
        let rows = [
            ("http://billing/hook", None),
            ("HTTP://billing/hook", None),
            ("Https://billing:8443/hook", None),
            ("http://billing:1/hook", None),
            ("https://billing:65535?a=b", None),
            ("http://billing:8080", None),
            ("http://billing:08080", None),
            ("http://127.0.0.1:80#a", None),
            ("http://[::1]/hook", None),
            ("https://[2001:db8::1]:8443/hook", None),
            // What is beyond the host may hold anything.
            ("http://billing/a:b[c]@d", None),
            ("http://billing?at=10:30", None),
            // Each of these went to the port of its scheme.
            ("http://billing:80800/hook", Some(port)),
            ("http://billing:8o80/", Some(port)),
            ("http://billing:/", Some(port)),
            ("http://billing:65536/", Some(port)),
            ("http://billing:99999999999999999999/", Some(port)),
            ("http://billing:-1/", Some(port)),
            ("https://billing:", Some(port)),
            ("https://[::1]:80800/", Some(port)),
            ("https://[::1]:", Some(port)),
            // Parsers of numbers take a sign; a URL has none.
            ("http://billing:+80/", Some(port)),
            // And these to nobody.
            ("http://billing:0/", Some(port)),
            ("http://billing:80:80/", Some(port)),
            ("http://2001:db8::1/", Some(port)),
            ("http://[::1]:80]/", Some(port)),
            ("http://[::1", Some(brackets)),
            ("http://[::1:80/", Some(brackets)),
            ("http://::1]/", Some(host)),
            ("http://billing]/", Some(brackets)),
            ("http://bill[ing]:80/", Some(brackets)),
            ("http://[[::1]]/", Some(brackets)),
            ("http://[::1]80/", Some(brackets)),
            ("http://[]/", Some(host)),
            ("http://[]:80/", Some(host)),
            ("http://", Some(host)),
            ("http:///hook", Some(host)),
            ("http://:80/", Some(host)),
            ("http://user:pass@billing:80/", Some(credentials)),
            ("http://user:80800@billing/", Some(credentials)),
        ];
        for (url, problem) in rows {
            let said = check_url(url).err().map(|refusal| refusal.to_string());
            let expected = problem.map(|problem| alloc::format!("target.url {problem}; "));
            let agree = match (&said, &expected) {
                (Some(said), Some(expected)) => said.starts_with(expected.as_str()),
                (said, expected) => said == expected,
            };
            assert!(agree, "{url}: {said:?}");
        }
    }
}
