//! Where a job goes, on the wire.

use std::fmt;
use std::sync::Arc;

use hence_core::error::Rejection;
use hence_core::id::HandlerName;
use hence_core::job::{HttpTarget, Target};
use serde::de::IntoDeserializer;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::ToSchema;

use super::object::Object;
use super::rules;

/// Where a job goes when it is due: exactly one of these.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
#[schema(as = NewTarget)]
pub(crate) enum TargetIn {
    /// An HTTP request to a URL; its body is the payload.
    Http(HttpIn),
    /// A worker that pulls from the queue.
    Worker(Nothing),
    /// A handler registered by name in the server's process.
    Handler(HandlerIn),
}

/// An object without fields.
#[derive(Deserialize, Serialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
#[schema(as = Empty)]
pub(crate) struct Nothing {}

/// An HTTP request, less its body.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewHttpTarget)]
pub(crate) struct HttpIn {
    /// The URL, `http` or `https`.
    #[schema(example = "https://example.com/hook")]
    url: String,
    /// The method; POST when not given.
    method: Option<String>,
    /// Headers to send.
    #[schema(value_type = Option<std::collections::HashMap<String, String>>)]
    headers: Option<Headers>,
}

/// A handler of the server's process.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewHandlerTarget)]
pub(crate) struct HandlerIn {
    /// The name it is registered under.
    #[schema(value_type = rules::HandlerName)]
    name: String,
}

/// Headers in the order they were given, each name once.
#[derive(Default)]
pub(crate) struct Headers(Vec<(String, String)>);

impl TargetIn {
    /// The core's target. Its rules are checked with the rest of the job.
    pub(crate) fn into_target(self) -> Result<Target, Rejection> {
        Ok(match self {
            TargetIn::Http(HttpIn { url, method, headers }) => Target::Http(Arc::new(HttpTarget {
                method: method.map_or_else(|| "POST".to_owned(), |m| m.to_ascii_uppercase()),
                url,
                headers: headers.unwrap_or_default().0,
            })),
            TargetIn::Worker(Nothing {}) => Target::Worker,
            TargetIn::Handler(HandlerIn { name }) => Target::Handler(
                HandlerName::new(&name)
                    .map_err(|rejection| rejection.renamed(|_| "target.handler.name".to_owned()))?,
            ),
        })
    }
}

impl<'de> Deserialize<'de> for TargetIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Any: a bare name is answered with how it is written.
        deserializer.deserialize_any(TargetVisitor)
    }
}

/// The kinds of target, by name.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Kind {
    Http,
    Worker,
    Handler,
}

struct TargetVisitor;

impl<'de> de::Visitor<'de> for TargetVisitor {
    type Value = TargetIn;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object with one of http, worker and handler in it")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<TargetIn, E> {
        Kind::deserialize(name.into_deserializer())?;
        Err(de::Error::custom(format_args!("`{name}` is the name of an object")))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<TargetIn, A::Error> {
        let one = "target must hold one of http, worker and handler, and one only";
        let Some(kind) = map.next_key()? else { return Err(de::Error::custom(one)) };
        let target = match kind {
            Kind::Http => TargetIn::Http(map.next_value::<Object<_>>()?.0),
            Kind::Worker => TargetIn::Worker(map.next_value::<Object<_>>()?.0),
            Kind::Handler => TargetIn::Handler(map.next_value::<Object<_>>()?.0),
        };
        match map.next_key::<de::IgnoredAny>()? {
            None => Ok(target),
            Some(_) => Err(de::Error::custom(one)),
        }
    }
}

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeadersVisitor)
    }
}

struct HeadersVisitor;

impl<'de> de::Visitor<'de> for HeadersVisitor {
    type Value = Headers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of header names and values")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Headers, A::Error> {
        let mut headers: Vec<(String, String)> = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, String>()? {
            if headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(&name)) {
                return Err(de::Error::custom(format_args!("duplicate field `{name}`")));
            }
            if headers.len() == hence_core::limits::HEADERS_MAX {
                let max = hence_core::limits::HEADERS_MAX;
                return Err(de::Error::custom(format_args!("at most {max} headers are allowed")));
            }
            headers.push((name, value));
        }
        Ok(Headers(headers))
    }
}

/// A target in an answer.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Target)]
pub(crate) enum TargetOut<'a> {
    /// An HTTP request to a URL.
    Http(HttpOut<'a>),
    /// A worker that pulls from the queue.
    Worker(Nothing),
    /// A handler registered by name in the server's process.
    Handler(HandlerOut<'a>),
}

/// An HTTP request in an answer.
#[derive(Serialize, ToSchema)]
#[schema(as = HttpTarget)]
pub(crate) struct HttpOut<'a> {
    /// The URL.
    url: &'a str,
    /// The method.
    method: &'a str,
    /// The headers; values of those that carry credentials are shown as `***`.
    #[serde(skip_serializing_if = "HeadersOut::is_empty")]
    #[schema(value_type = std::collections::HashMap<String, String>)]
    headers: HeadersOut<'a>,
}

/// A handler in an answer.
#[derive(Serialize, ToSchema)]
#[schema(as = HandlerTarget)]
pub(crate) struct HandlerOut<'a> {
    /// The name it is registered under.
    name: &'a str,
}

pub(crate) struct HeadersOut<'a>(&'a [(String, String)]);

impl HeadersOut<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for HeadersOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            map.serialize_entry(name, if is_secret(name) { "***" } else { value })?;
        }
        map.end()
    }
}

impl<'a> From<&'a Target> for TargetOut<'a> {
    fn from(target: &'a Target) -> Self {
        match target {
            Target::Http(http) => TargetOut::Http(HttpOut {
                url: &http.url,
                method: &http.method,
                headers: HeadersOut(&http.headers),
            }),
            Target::Worker => TargetOut::Worker(Nothing {}),
            Target::Handler(name) => TargetOut::Handler(HandlerOut { name: name.as_str() }),
        }
    }
}

/// Whether a header of this name usually carries a credential: whoever may look at jobs need not
/// be whoever may call the target.
fn is_secret(name: &str) -> bool {
    const WORDS: [&str; 7] = ["auth", "cookie", "token", "secret", "key", "password", "signature"];
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_not_shown() {
        let json = r#"{"http":{"url":"http://a","method":"put",
            "headers":{"Authorization":"Bearer x","X-Api-Key":"y","X-Trace":"z"}}}"#;
        let target = serde_json::from_str::<TargetIn>(json).unwrap().into_target().unwrap();
        let shown = serde_json::to_value(TargetOut::from(&target)).unwrap();
        assert_eq!(shown["http"]["method"], "PUT");
        let headers = serde_json::json!({"Authorization":"***","X-Api-Key":"***","X-Trace":"z"});
        assert_eq!(shown["http"]["headers"], headers);
    }

    #[test]
    fn malformed_targets_are_refused() {
        let rows = [
            r#"{"http":{"url":"http://a"},"worker":{}}"#,
            r#"{"http":{"url":"http://a","headers":{"A":"1","a":"2"}}}"#,
            r#"{"http":{}}"#,
            r#"{"sns":{}}"#,
            r#"{"worker":{"x":1}}"#,
            r#""worker""#,
            "{}",
        ];
        for json in rows {
            assert!(serde_json::from_str::<TargetIn>(json).is_err(), "{json}");
        }
    }
}
