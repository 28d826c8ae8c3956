//! Bytes on the wire: as JSON, as text, or as base64. Hence never looks inside, and gives back
//! byte by byte what it was given.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hence_core::error::Rejection;
use hence_core::job::Payload;
use serde_json::value::RawValue;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::http::body;

/// The fields in which a body can carry bytes: at most one of the first three.
pub(crate) struct PayloadIn<'a> {
    pub(crate) json: Option<&'a RawValue>,
    pub(crate) text: Option<String>,
    pub(crate) base64: Option<String>,
    pub(crate) content_type: Option<String>,
    /// What the plain field is called here: `payload` or `result`.
    pub(crate) field: &'static str,
}

impl PayloadIn<'_> {
    /// The payload, when there is one.
    pub(crate) fn into_payload(self) -> Result<Option<Payload>, Rejection> {
        let given = [self.json.is_some(), self.text.is_some(), self.base64.is_some()];
        if given.iter().filter(|given| **given).count() > 1 {
            let problem = "is given in more than one form; use one of plain, _text and _base64";
            return Err(Rejection::invalid(self.field, problem));
        }
        // Copied, not sliced: a slice would keep the connection's whole buffer alive with it.
        let (bytes, default_type) = match (self.json, self.text, self.base64) {
            (Some(json), _, _) => {
                (Bytes::copy_from_slice(json.get().as_bytes()), Some("application/json"))
            }
            (_, Some(text), _) => (Bytes::from(text), Some("text/plain; charset=utf-8")),
            (_, _, Some(base64)) => (decode(self.field, &base64)?, None),
            _ if self.content_type.is_some() => {
                let problem = format!("says what {0} is, but there is no {0}", self.field);
                return Err(Rejection::invalid("content_type", problem));
            }
            _ => return Ok(None),
        };
        let content_type = self.content_type.as_deref().or(default_type).map(Arc::from);
        Ok(Some(Payload { bytes, content_type }))
    }
}

fn decode(field: &'static str, base64: &str) -> Result<Bytes, Rejection> {
    let bytes = STANDARD.decode(base64);
    bytes.map(Bytes::from).map_err(|_| {
        let problem = "is not standard base64; use the alphabet with + and /, and = at the end";
        Rejection::invalid(format!("{field}_base64"), problem)
    })
}

/// Bytes as an answer shows them: one of the three.
#[derive(Default)]
pub(crate) struct Inline<'a> {
    pub(crate) json: Option<&'a RawValue>,
    pub(crate) text: Option<&'a str>,
    pub(crate) base64: Option<String>,
}

impl<'a> Inline<'a> {
    /// The bytes in the form that is easiest to read for what they are.
    pub(crate) fn of(payload: &'a Payload) -> Self {
        let mut inline = Inline::default();
        if payload.bytes.is_empty() {
            return inline;
        }
        let Ok(text) = std::str::from_utf8(&payload.bytes) else {
            inline.base64 = Some(STANDARD.encode(&payload.bytes));
            return inline;
        };
        if payload.content_type.as_deref().is_some_and(is_json) {
            inline.json = plain_json(text);
        }
        inline.text = inline.json.is_none().then_some(text);
        inline
    }

    /// The same, but nothing when it is large: large ones have a URL of their own.
    pub(crate) fn of_small(payload: &'a Payload) -> Self {
        if payload.bytes.len() > crate::limits::INLINE_BYTES_MAX {
            return Inline::default();
        }
        Inline::of(payload)
    }
}

/// How the document describes bytes that are an answer of their own.
pub(crate) struct RawBytes;

impl PartialSchema for RawBytes {
    fn schema() -> RefOr<Schema> {
        let binary = Some(SchemaFormat::KnownFormat(KnownFormat::Binary));
        let object = ObjectBuilder::new().schema_type(Type::String).format(binary);
        Schema::Object(object.build()).into()
    }
}

impl ToSchema for RawBytes {
    fn name() -> std::borrow::Cow<'static, str> {
        "Bytes".into()
    }
}

/// JSON as every reader of JSON takes it: what we would refuse in a body must not stand in an
/// answer, where it would make all of it unreadable for whoever asked for ten jobs.
fn plain_json(text: &str) -> Option<&RawValue> {
    body::scan(text).ok()?;
    serde_json::from_str(text).ok()
}

fn is_json(content_type: &str) -> bool {
    let media = content_type.split(';').next().unwrap_or_default().trim();
    media.eq_ignore_ascii_case("application/json")
        || media.len() > 5 && media.as_bytes()[media.len() - 5..].eq_ignore_ascii_case(b"+json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(bytes: &'static [u8], content_type: Option<&str>) -> Payload {
        Payload { bytes: Bytes::from_static(bytes), content_type: content_type.map(Arc::from) }
    }

    #[test]
    fn bytes_are_shown_in_their_easiest_form() {
        let json = Some("application/json; charset=utf-8");
        let rows: [(&'static [u8], Option<&str>, &str); 11] = [
            (b"[1e400]", json, "text"),
            (b"[1.5e3, -2E-7, true]", json, "json"),
            (br#""\ud83d""#, json, "text"),
            (&[b'['; 5_000], json, "text"),
            (b"{\"a\": 1}", json, "json"),
            (b"{\"a\": 1}", Some("application/x+JSON"), "json"),
            (b"{\"a\": 1}", None, "text"),
            (b"{broken", json, "text"),
            (b"\xff\x00", json, "base64"),
            (b"\xff\x00", None, "base64"),
            (b"", json, "none"),
        ];
        for (bytes, content_type, form) in rows {
            let payload = payload(bytes, content_type);
            let inline = Inline::of(&payload);
            let found = match (inline.json, inline.text, &inline.base64) {
                (Some(_), None, None) => "json",
                (None, Some(_), None) => "text",
                (None, None, Some(_)) => "base64",
                (None, None, None) => "none",
                _ => "several",
            };
            assert_eq!(found, form, "{bytes:?} {content_type:?}");
        }
    }

    #[test]
    fn large_ones_are_left_out() {
        let max = crate::limits::INLINE_BYTES_MAX;
        for (size, shown) in [(max - 1, true), (max, true), (max + 1, false)] {
            let payload = Payload { bytes: Bytes::from(vec![b'x'; size]), content_type: None };
            assert_eq!(Inline::of_small(&payload).text.is_some(), shown, "{size}");
        }
    }
}
