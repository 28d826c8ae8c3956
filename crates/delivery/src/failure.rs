//! Says in one line why an exchange broke down, from the chain of causes the client gives.

use std::error::Error;
use std::io;

use crate::connect::ConnectError;

/// The most telling cause in the chain, in lower case and without the URL, which may hold secrets.
pub(crate) fn explain(error: &(dyn Error + 'static)) -> String {
    causes(error).find_map(known).unwrap_or_else(|| spell_out(error))
}

/// An error and its causes, outermost first. `io::Error` hides the error it wraps from `source`,
/// and that is often the one that matters.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        match wrapped {
            Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

fn known(cause: &(dyn Error + 'static)) -> Option<String> {
    if let Some(ours) = cause.downcast_ref::<ConnectError>() {
        return Some(ours.to_string());
    }
    if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
        return Some(format!("tls failed: {tls}"));
    }
    if let Some(io) = cause.downcast_ref::<io::Error>() {
        return known_io(io).map(str::to_string);
    }
    let exchange = cause.downcast_ref::<hyper::Error>()?;
    if exchange.is_incomplete_message() {
        return Some("the connection was closed before the answer was complete".to_string());
    }
    if exchange.is_parse_too_large() {
        return Some("the answer's head is too long".to_string());
    }
    exchange.is_parse().then(|| format!("the answer is not http: {exchange}"))
}

fn known_io(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Some("connection refused"),
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => {
            Some("the connection was reset")
        }
        io::ErrorKind::BrokenPipe => Some("the connection was closed while sending"),
        io::ErrorKind::HostUnreachable => Some("host unreachable"),
        io::ErrorKind::NetworkUnreachable => Some("network unreachable"),
        io::ErrorKind::TimedOut => Some("the connection timed out"),
        io::ErrorKind::UnexpectedEof => {
            Some("the connection was closed before the answer was complete")
        }
        _ => None,
    }
}

/// Everything the chain says, less what merely repeats its cause: the client's own error says only
/// in which phase it happened, which our caller says better.
fn spell_out(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for cause in causes(error) {
        let next = cause.to_string();
        let phase = cause.is::<hyper_util::client::legacy::Error>() && cause.source().is_some();
        if phase || text.contains(&next) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&next);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_telling_cause_is_found_however_deep() {
        let deep = io::Error::other(io::Error::other(ConnectError::TooSlow));
        assert_eq!(explain(&deep), "no connection within 10 s");
        let refused = io::Error::other(io::Error::from(io::ErrorKind::ConnectionRefused));
        assert_eq!(explain(&refused), "connection refused");
        let tls = io::Error::other(rustls::Error::DecryptError);
        assert_eq!(explain(&tls), "tls failed: cannot decrypt peer's message");
    }

    #[test]
    fn an_unknown_cause_is_spelled_out_once() {
        let error = io::Error::other(io::Error::other("dns error"));
        assert_eq!(explain(&error), "dns error");
    }
}
