//! Bodies in: bounded before they are read, checked before they are parsed, parsed once.

use std::fmt::Display;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, header};
use http_body_util::BodyExt;
use serde::Deserialize;
use serde::de::IgnoredAny;
use sha2::{Digest, Sha256};

use super::errors::{self, Problem};
use super::types::target::Nothing;
use super::{kinds, mismatch};
use crate::limits;

/// Reads the whole body, at most `max` bytes of it. Nothing else of the request is kept meanwhile.
pub(crate) fn read(
    request: Request,
    max: usize,
) -> impl Future<Output = Result<Bytes, Problem>> + Send {
    let acceptable = check_head(request.headers(), max);
    let body = request.into_body();
    async move {
        acceptable?;
        collect(body, max).await
    }
}

fn check_head(headers: &HeaderMap, max: usize) -> Result<(), Problem> {
    check_media_type(headers)?;
    check_encoding(headers)?;
    match claimed_length(headers) {
        Some(length) if length > max => Err(too_large(max)),
        _ => Ok(()),
    }
}

async fn collect(mut body: Body, max: usize) -> Result<Bytes, Problem> {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let broken = |_| Problem::new(kinds::BAD_REQUEST, "the body ended before it was complete");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        if read.len() + data.len() > max {
            return Err(too_large(max));
        }
        // Most bodies come in one piece; that is kept as it is.
        if read.is_empty() && body.is_end_stream() {
            return Ok(data);
        }
        read.extend_from_slice(&data);
    }
    Ok(read.freeze())
}

/// The body of a request about one thing, parsed.
pub(crate) async fn json<T: for<'a> Deserialize<'a>>(request: Request) -> Result<T, Problem> {
    let bytes = read(request, limits::BODY_BYTES_MAX).await?;
    parse(text(&bytes)?)
}

/// The same, for requests that make sense without a body.
pub(crate) async fn json_or_default<T>(request: Request) -> Result<T, Problem>
where
    T: for<'a> Deserialize<'a> + Default,
{
    let bytes = read(request, limits::BODY_BYTES_MAX).await?;
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(T::default());
    }
    parse(text(&bytes)?)
}

/// No body, or an empty object: whoever sends fields means something that would not be done.
pub(crate) async fn nothing(request: Request) -> Result<(), Problem> {
    // Some clients declare a type for a body that they do not send.
    if request.body().is_end_stream() {
        return Ok(());
    }
    let Nothing {} = json_or_default(request).await?;
    Ok(())
}

/// The body as text that is safe to hand to a parser: UTF-8, not too deep, whole characters.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let place = error.valid_up_to();
        Problem::new(kinds::BAD_JSON, format!("the body is not UTF-8 at byte {place}"))
    })?;
    scan(text)?;
    Ok(text)
}

/// Parses the JSON object that a body is.
pub(crate) fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Problem> {
    parse_object("body", text)
}

/// Parses a JSON object, which a refusal calls by this name.
pub(crate) fn parse_object<'a, T: Deserialize<'a>>(
    name: impl Display,
    text: &'a str,
) -> Result<T, Problem> {
    if text.trim_ascii().is_empty() {
        let detail = format!("the {name} is empty");
        return Err(Problem::new(kinds::BAD_JSON, detail).fix("send a JSON object: at least {}"));
    }
    // What serde derives for an object would read a list too, field by position.
    if text.trim_start().starts_with('{') {
        return parse_any(text);
    }
    parse_any::<IgnoredAny>(text)?;
    let found = match text.trim_start().as_bytes().first() {
        Some(b'[') => "a list",
        Some(b'"') => "a text",
        Some(b't' | b'f') => "true or false",
        Some(b'n') => "null",
        _ => "a number",
    };
    Err(errors::must(&name.to_string(), "be a JSON object", Some(found)))
}

/// Parses JSON. The path of an error is found by parsing again: only refusals pay for it.
fn parse_any<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Problem> {
    let error = match serde_json::from_str::<T>(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let path = match serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
        Ok(_) => String::new(),
        Err(error) => error.path().to_string(),
    };
    let (line, column) = (error.line(), error.column());
    let words = error.to_string();
    let words = words.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&words);
    let problem = if is_mismatch(&error, words, text) {
        mismatch::problem(words, &path)
    } else {
        Problem::new(kinds::BAD_JSON, words.to_owned())
    };
    Err(problem.place(line, column))
}

/// Whether the text is JSON, only not what was asked for. Where one of several names was wanted,
/// serde says of every other value that it is no JSON.
fn is_mismatch(error: &serde_json::Error, words: &str, text: &str) -> bool {
    let is_json = || serde_json::from_str::<IgnoredAny>(text).is_ok();
    error.is_data() || words == "expected value" && is_json()
}

/// A digest of a request, to tell a repetition from another request under the same key. Stored with
/// the job, so it may never change.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    let digest = Sha256::digest(bytes);
    digest.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

fn check_media_type(headers: &HeaderMap) -> Result<(), Problem> {
    // Without a type the body is taken for JSON: small clients do not set it. Web pages of other
    // origins, which could leave it out too, are stopped by their Origin header.
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let text = value.to_str().unwrap_or_default();
    let media = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if media == "application/json" || media.ends_with("+json") {
        return Ok(());
    }
    let detail = format!("the content type is `{}`", media.escape_default());
    Err(Problem::new(kinds::UNSUPPORTED_MEDIA_TYPE, detail).field("Content-Type"))
}

/// A body is never unpacked: a small one could become a very large one.
fn check_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    let packed = |value: &&HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"identity");
    let Some(value) = headers.get_all(header::CONTENT_ENCODING).iter().find(packed) else {
        return Ok(());
    };
    let coding = value.to_str().unwrap_or_default().escape_default().to_string();
    let detail = format!("the body is declared as `{coding}`, and is never unpacked");
    Err(Problem::new(kinds::UNSUPPORTED_ENCODING, detail).field("Content-Encoding"))
}

fn claimed_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The refusal of a body larger than this.
pub(crate) fn too_large(max: usize) -> Problem {
    Problem::new(kinds::BODY_TOO_LARGE, format!("at most {max} bytes are allowed")).limit(max)
}

/// Bounds the nesting and refuses halves of surrogate pairs and numbers that no reader can hold,
/// without recursion. What remains wrong the parser finds.
pub(crate) fn scan(text: &str) -> Result<(), Problem> {
    let bytes = text.as_bytes();
    let (mut depth, mut i) = (0_usize, 0);
    while let Some(byte) = bytes.get(i) {
        i += 1;
        match byte {
            b'"' => i = end_of_string(bytes, i)?,
            b'{' | b'[' => {
                depth += 1;
                if depth > limits::JSON_DEPTH_MAX {
                    let detail = format!("at most {} levels are allowed", limits::JSON_DEPTH_MAX);
                    return Err(Problem::new(kinds::TOO_DEEP, detail).limit(limits::JSON_DEPTH_MAX));
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'-' | b'0'..=b'9' => i = end_of_number(text, i - 1)?,
            _ => {}
        }
    }
    Ok(())
}

/// The place after the number that begins at `i`.
fn end_of_number(text: &str, i: usize) -> Result<usize, Problem> {
    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    let length = text.as_bytes()[i..].iter().take_while(|byte| is_part(byte)).count();
    let number = &text[i..i + length];
    // Short and without an exponent, as most are, it is within range.
    let is_large = number.contains(['e', 'E']) && number.parse().is_ok_and(f64::is_infinite);
    if length > limits::JSON_NUMBER_BYTES_MAX || is_large {
        let detail = format!("a number that is out of range at byte {i}");
        let fix = "send numbers that a 64-bit float can hold; larger ones as texts";
        return Err(Problem::new(kinds::BAD_JSON, detail).fix(fix));
    }
    Ok(i + length)
}

/// The place after the closing quote of the string whose content begins at `i`.
fn end_of_string(bytes: &[u8], mut i: usize) -> Result<usize, Problem> {
    while let Some(byte) = bytes.get(i) {
        match byte {
            b'"' => return Ok(i + 1),
            b'\\' if bytes.get(i + 1) == Some(&b'u') => i = end_of_escape(bytes, i)?,
            b'\\' => i += 2,
            _ => i += 1,
        }
    }
    Ok(i)
}

/// The place after the `\uXXXX` at `i`, or after the pair of them.
fn end_of_escape(bytes: &[u8], i: usize) -> Result<usize, Problem> {
    let lone = || {
        Problem::new(kinds::BAD_JSON, format!("half of a surrogate pair at byte {i}"))
            .fix("send the character itself, or both halves of the pair")
    };
    match code_unit(bytes, i) {
        Some(0xD800..=0xDBFF) => match code_unit(bytes, i + 6) {
            Some(0xDC00..=0xDFFF) => Ok(i + 12),
            _ => Err(lone()),
        },
        Some(0xDC00..=0xDFFF) => Err(lone()),
        _ => Ok(i + 2),
    }
}

fn code_unit(bytes: &[u8], i: usize) -> Option<u16> {
    let digits = bytes.get(i..i + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(bytes: &[u8]) -> Option<String> {
        let checked = text(bytes).and_then(parse_any::<serde_json::Value>);
        let document = serde_json::to_value(checked.err()?.into_document()).unwrap();
        document["type"].as_str().and_then(|t| t.split('#').nth(1)).map(str::to_owned)
    }

    #[test]
    fn hostile_bodies_are_refused_with_the_right_name() {
        let nested = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat().into_bytes();
        let max = limits::JSON_DEPTH_MAX;
        let rows: Vec<(Vec<u8>, Option<&str>)> = vec![
            (b"{}".to_vec(), None),
            (nested(max - 1), None),
            (nested(max), None),
            (nested(max + 1), Some("too-deep")),
            (nested(1_000_000), Some("too-deep")),
            ("[".repeat(1_000_000).into_bytes(), Some("too-deep")),
            (br#""[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[""#.to_vec(), None),
            (b"NaN".to_vec(), Some("bad-json")),
            (b"[1e999]".to_vec(), Some("bad-json")),
            (b"[-1.5E-9, 1e300]".to_vec(), None),
            ("9".repeat(limits::JSON_NUMBER_BYTES_MAX).into_bytes(), None),
            ("9".repeat(limits::JSON_NUMBER_BYTES_MAX + 1).into_bytes(), Some("bad-json")),
            (br#""\ud83d\ude00""#.to_vec(), None),
            (br#""\ud83d""#.to_vec(), Some("bad-json")),
            (br#""\ude00""#.to_vec(), Some("bad-json")),
            (br#""\ud83d\u0041""#.to_vec(), Some("bad-json")),
            (br#""\\ud83d""#.to_vec(), None),
            (br#""\u""#.to_vec(), Some("bad-json")),
            (b"\"\xff\"".to_vec(), Some("bad-json")),
            (b"".to_vec(), Some("bad-json")),
            (b"{".to_vec(), Some("bad-json")),
            (b"{\"a\":1,}".to_vec(), Some("bad-json")),
            (b"\"abc".to_vec(), Some("bad-json")),
        ];
        for (body, expected) in rows {
            let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
            assert_eq!(kind_of(&body).as_deref(), expected, "{shown}");
        }
    }

    #[test]
    fn fingerprints_never_change() {
        assert_eq!(fingerprint(b""), 0xe3b0_c442_98fc_1c14);
    }
}
