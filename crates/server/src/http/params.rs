//! What stands in the URL: segments of the path and parameters of the query. Unknown parameters are
//! refused: a filter that is silently ignored cancels the wrong jobs.

use std::borrow::Cow;

use hence_core::error::Rejection;
use hence_core::id::{JobId, JobName, Key, QueueName};
use hence_core::time::{Millis, Timestamp};
use hence_core::when::Reading;
use http::Uri;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{Ref, Required};
use utoipa::{IntoParams, ToSchema};

use super::errors::Problem;
use super::types::rules;
use super::{kinds, when};
use crate::limits;
use crate::nearest::nearest;

/// The parameters of a query.
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// Reads the query; only these parameters are known.
    pub(crate) fn read(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        let mut pairs = Vec::new();
        for pair in uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(&name.replace('+', " "))?;
            if !known.contains(&name.as_str()) {
                return Err(unknown(&name, known));
            }
            pairs.push((name, decode(&value.replace('+', " "))?));
        }
        Ok(Params(pairs))
    }

    /// The value of a parameter that may be given once.
    pub(crate) fn one(&self, name: &'static str) -> Result<Option<&str>, Problem> {
        let mut values = self.0.iter().filter(|(other, _)| other == name);
        let first = values.next().map(|(_, value)| value.as_str());
        match values.next() {
            Some(_) => {
                let detail = format!("{name} is given more than once");
                Err(Problem::new(kinds::DUPLICATE_FIELD, detail).field(name))
            }
            None => Ok(first),
        }
    }

    /// The values of a parameter that may be repeated, or hold several between commas.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let values = self.0.iter().filter(move |(other, _)| other == name);
        values.flat_map(|(_, value)| value.split(',')).map(str::trim).filter(|v| !v.is_empty())
    }

    /// Whether a parameter is there, with a value or without.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(other, _)| other == name)
    }

    /// A switch: `true`, `false`, or just its name.
    pub(crate) fn flag(&self, name: &'static str) -> Result<bool, Problem> {
        match self.one(name)? {
            None | Some("false" | "0") => Ok(false),
            Some("" | "true" | "1") => Ok(true),
            Some(_) => Err(Rejection::invalid(name, "must be true or false").into()),
        }
    }

    /// One end of a range to be looked through.
    pub(crate) fn bound(
        &self,
        name: &'static str,
        reading: &Reading<'_>,
    ) -> Result<Option<Timestamp>, Problem> {
        let text = self.one(name)?.map(with_plus);
        text.map(|text| when::bound(name, &text, reading)).transpose()
    }

    /// A span.
    pub(crate) fn span(&self, name: &'static str) -> Result<Option<Millis>, Problem> {
        Ok(self.one(name)?.map(|text| when::span(name, text)).transpose()?)
    }

    /// How many rows a page may have.
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        let max = hence_core::limits::PAGE_MAX;
        let Some(text) = self.one("limit")? else { return Ok(limits::PAGE_DEFAULT) };
        match text.parse() {
            Ok(limit) if (1..=max).contains(&limit) => Ok(limit),
            _ => Err(Rejection::out_of_range("limit", 1, max).into()),
        }
    }

    /// The full name of the job whose id is in the path.
    pub(crate) fn job_name(&self, uri: &Uri) -> Result<JobName, Problem> {
        let queue = self.one("queue")?.map(QueueName::new).transpose()?;
        Ok(JobName {
            queue: queue.unwrap_or_else(QueueName::default_queue),
            key: self.one("key")?.map(Key::new).transpose()?,
            id: JobId::new(&segment(uri, 3)?)?,
        })
    }
}

/// How the document describes what names a job in a URL: its id in the path, the rest in the query.
pub(crate) struct JobParams;

impl IntoParams for JobParams {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let rows = [
            ("id", rules::JobId::name(), "The job's id"),
            ("queue", rules::QueueName::name(), "Its queue; `default` when not given"),
            ("key", rules::Key::name(), "Its key, when it has one"),
        ];
        let parameter = |(name, schema, description): (&str, Cow<'_, str>, &str)| {
            let (place, required) = match name {
                "id" => (ParameterIn::Path, Required::True),
                _ => (ParameterIn::Query, Required::False),
            };
            ParameterBuilder::new()
                .name(name)
                .parameter_in(place)
                .required(required)
                .description(Some(description))
                .schema(Some(Ref::from_schema_name(schema)))
                .build()
        };
        rows.map(parameter).into()
    }
}

/// The full name of the job in the path, for requests without other parameters.
pub(crate) fn job_name(uri: &Uri) -> Result<JobName, Problem> {
    Params::read(uri, &["queue", "key"])?.job_name(uri)
}

/// No parameters at all.
pub(crate) fn none(uri: &Uri) -> Result<(), Problem> {
    Params::read(uri, &[]).map(|_| ())
}

/// The decoded segment of the path: `/1/2/3`. Taken from the raw path, so that names may hold `/`
/// as `%2F`.
pub(crate) fn segment(uri: &Uri, index: usize) -> Result<String, Problem> {
    decode(uri.path().split('/').nth(index).unwrap_or_default())
}

/// In a query a `+` means a space, and few who paste an instant think of that. One of RFC 3339 has
/// no space in it: the one before digits was the sign of its offset.
fn with_plus(text: &str) -> Cow<'_, str> {
    let is_standard = matches!(text.as_bytes(), [_, _, _, _, b'-', _, _, _, _, _, b'T' | b't', ..]);
    match text.split_once(' ') {
        Some((time, offset)) if is_standard && offset.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{time}+{offset}").into()
        }
        _ => text.into(),
    }
}

fn unknown(name: &str, known: &[&str]) -> Problem {
    let detail = format!("there is no parameter `{}` here", name.escape_default());
    let problem = Problem::new(kinds::UNKNOWN_FIELD, detail).field(name.to_owned());
    match nearest(name, known.iter().copied()) {
        Some(meant) => problem.fix(format!("did you mean `{meant}`?")),
        None if known.is_empty() => problem.fix("remove the query"),
        None => problem.fix(format!("use one of: {}", known.join(", "))),
    }
}

/// Undoes percent-encoding, strictly: broken escapes and bytes that are not UTF-8 are refused.
fn decode(text: &str) -> Result<String, Problem> {
    let broken = || {
        let shown: String = text.chars().take(80).collect();
        Problem::new(kinds::BAD_REQUEST, format!("`{shown}` is not percent-encoded UTF-8"))
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        if *byte == b'%' {
            let [high, low, after @ ..] = after else { return Err(broken()) };
            // Digit by digit: the parser of numbers would take a sign too.
            let value = hex_digit(*high).zip(hex_digit(*low)).ok_or_else(broken)?;
            bytes.push(value.0 << 4 | value.1);
            rest = after;
        } else {
            bytes.push(*byte);
            rest = after;
        }
    }
    String::from_utf8(bytes).map_err(|_| broken())
}

fn hex_digit(byte: u8) -> Option<u8> {
    let value = char::from(byte).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hence_core::when::Zone;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[test]
    fn names_are_taken_from_the_raw_path() {
        let name = job_name(&uri("/v1/jobs/a%2Fb%20c?queue=x%2Fy&key=Zo%C3%AB+K")).unwrap();
        assert_eq!(name.to_string(), "x/y/Zoë K/a/b c");
        let signed = ["/v1/jobs/%+1", "/v1/jobs/%-1"];
        let broken = ["/v1/jobs/%ff", "/v1/jobs/%2", "/v1/jobs/%zz", "/v1/jobs/a?queue=%ff"];
        for bad in broken.into_iter().chain(signed) {
            assert_eq!(job_name(&uri(bad)).unwrap_err().status().as_u16(), 400, "{bad}");
        }
    }

    #[test]
    fn unknown_and_repeated_parameters_are_refused() {
        let rows = [
            ("/v1/jobs/a?que=x", "did you mean `queue`?"),
            ("/v1/jobs/a?zebra=x", "use one of: queue, key"),
            ("/v1/jobs/a?queue=a&queue=b", "give each field once"),
        ];
        for (text, fix) in rows {
            let document = job_name(&uri(text)).unwrap_err().into_document();
            assert_eq!(serde_json::to_value(document).unwrap()["fix"], fix, "{text}");
        }
    }

    #[test]
    fn the_plus_of_an_offset_that_became_a_space_is_read_as_one() {
        let zone = Zone::UTC;
        let reading = Reading::new(Timestamp::from_millis(1_789_000_000_000), &zone);
        let rows = [
            ("2020-01-01T00:00:00+01:00", Some(1_577_833_200_000)),
            ("2020-01-01T00:00:00%2B01:00", Some(1_577_833_200_000)),
            ("2020-01-01T00:00:00.5+0100", Some(1_577_833_200_500)),
            ("2020-01-01T00:00:00+01:00[Europe/Paris]", Some(1_577_833_200_000)),
            ("2020-01-01T00:00:00-01:00", Some(1_577_840_400_000)),
            ("2020-01-01+00:00", Some(1_577_836_800_000)),
            ("2020-01-01T00:00:00+EST", None),
            // "Never", to most who ask for everything.
            ("9999-12-31T23:59:59Z", Some(253_402_300_799_000)),
        ];
        for (text, millis) in rows {
            let params = Params::read(&uri(&format!("/?from={text}")), &["from"]).unwrap();
            let found = params.bound("from", &reading).ok().flatten();
            assert_eq!(found.map(Timestamp::as_millis), millis, "{text}");
        }
    }

    #[test]
    fn lists_flags_and_limits() {
        let params = |query: &str| {
            Params::read(&uri(&format!("/?{query}")), &["state", "payload", "limit"]).unwrap()
        };
        let repeated = params("state=dead,ready&state=running");
        assert_eq!(repeated.all("state").collect::<Vec<_>>(), ["dead", "ready", "running"]);
        for (query, expected) in [("", false), ("payload", true), ("payload=false", false)] {
            assert_eq!(params(query).flag("payload").ok(), Some(expected), "{query}");
        }
        let max = hence_core::limits::PAGE_MAX;
        for (limit, fits) in [(0, false), (1, true), (max - 1, true), (max, true), (max + 1, false)]
        {
            assert_eq!(params(&format!("limit={limit}")).limit().is_ok(), fits, "{limit}");
        }
    }
}
