//! A body that is JSON but not what was asked for. Serde says so in words only, and some of them
//! are those of Rust: here they become a field and words of the API. The words are pinned by the
//! tests.

use hence_core::limits::{ATTEMPTS_MAX, LEASE_BATCH_MAX};
use hence_core::when::limits::PREVIEW_LINES_MAX;

use super::errors::{self, Problem};
use super::kinds;
use crate::nearest::nearest;

/// Letters of a name that a refusal repeats: whoever sends a long one knows it.
const NAME_CHARS_MAX: usize = 100;

/// Whole numbers with narrower bounds than their types have: the last part of the path, the least
/// and the greatest. What is within the type is refused by the core, which knows them too.
const RANGES: [(&str, u64, u64); 7] = [
    ("max_attempts", 1, ATTEMPTS_MAX as u64),
    ("jitter_percent", 0, 100),
    ("concurrency", 1, u32::MAX as u64),
    ("rate.count", 1, u32::MAX as u64),
    ("count", 1, u64::MAX),
    ("max", 1, LEASE_BATCH_MAX as u64),
    ("ticks", 1, PREVIEW_LINES_MAX as u64),
];

/// What is wrong at this path of a body, from what serde said.
pub(crate) fn problem(message: &str, path: &str) -> Problem {
    let field = if path.is_empty() || path == "." { "body" } else { path };
    if let Some(found) = named(message, "unknown field `") {
        return unknown_field(path, &found);
    }
    if let Some(Named { name, .. }) = named(message, "missing field `") {
        let field = within(path, name);
        let fix = format!("add `{field}`");
        return Problem::new(kinds::MISSING_FIELD, message.to_owned()).field(field).fix(fix);
    }
    if let Some(Named { name, .. }) = named(message, "duplicate field `") {
        let detail = format!("`{}` is given twice", clipped(name));
        return Problem::new(kinds::DUPLICATE_FIELD, detail).field(within(path, name));
    }
    if let Some(found) = named(message, "unknown variant `") {
        return unknown_choice(field, &found);
    }
    if let Some(name) = message.strip_suffix(" is the name of an object") {
        let name = name.trim_matches('`');
        let detail = format!("{field} is a text, and `{name}` is the name of an object");
        let fix = format!("write {{\"{name}\": {{}}}}, with what belongs to it inside");
        return Problem::new(kinds::INVALID, detail).field(field.to_owned()).fix(fix);
    }
    if message.starts_with("expected value") {
        let detail = format!("{field} is none of the choices there are for it");
        let fix = format!("see /docs for the choices of `{field}`");
        return Problem::new(kinds::INVALID, detail).field(field.to_owned()).fix(fix);
    }
    match wrong_type(message, path) {
        Some((found, wanted)) => errors::must(field, &format!("be {wanted}"), found),
        None => {
            let problem = Problem::new(kinds::INVALID, message.to_owned()).field(field.to_owned());
            let said = message.strip_prefix(field).map_or(message, str::trim_start);
            match errors::advice(field, said) {
                Some(fix) => problem.fix(fix),
                None => problem,
            }
        }
    }
}

/// A name that was given, and those that could have been.
struct Named<'a> {
    name: &'a str,
    known: Vec<&'a str>,
}

/// Reads "unknown field `name`, expected one of `a`, `b`" and its like. The name is the caller's
/// and may hold anything, so it is looked at from both ends.
fn named<'a>(message: &'a str, start: &str) -> Option<Named<'a>> {
    let rest = message.strip_prefix(start)?;
    let (name, known) = rest
        .rsplit_once("`, expected ")
        .or_else(|| rest.rsplit_once("`, there are no "))
        .or_else(|| rest.rsplit_once('`'))?;
    Some(Named { name, known: known.split('`').skip(1).step_by(2).collect() })
}

fn unknown_field(path: &str, found: &Named<'_>) -> Problem {
    let detail = format!("there is no field `{}` here", clipped(found.name));
    let field = clipped(&within(path, found.name));
    let problem = Problem::new(kinds::UNKNOWN_FIELD, detail).field(field);
    match nearest(found.name, found.known.iter().copied()) {
        Some(meant) => problem.fix(format!("did you mean `{meant}`?")),
        None if found.known.is_empty() => problem.fix("remove it: nothing belongs here"),
        None => problem.fix(format!("use one of: {}", found.known.join(", "))),
    }
}

fn unknown_choice(field: &str, found: &Named<'_>) -> Problem {
    let known = found.known.join(", ");
    let detail = format!("{field} must be one of {known}, not `{}`", clipped(found.name));
    let problem = Problem::new(kinds::INVALID, detail).field(field.to_owned());
    match nearest(found.name, found.known.iter().copied()) {
        Some(meant) => problem.fix(format!("did you mean `{meant}`?")),
        None => problem.fix(format!("use one of: {known}")),
    }
}

/// The full name of a field of the object at this path.
fn within(path: &str, name: &str) -> String {
    match path {
        "" | "." => name.to_owned(),
        path if path == name || path.ends_with(&format!(".{name}")) => path.to_owned(),
        path => format!("{path}.{name}"),
    }
}

fn clipped(name: &str) -> String {
    name.chars().take(NAME_CHARS_MAX).collect()
}

/// What was found, and what was wanted.
fn wrong_type(message: &str, path: &str) -> Option<(Option<&'static str>, String)> {
    if let Some(wanted) = message.strip_prefix("expected ") {
        return Some((None, in_words(wanted, path)));
    }
    let (found, wanted) = message.rsplit_once(", expected ")?;
    let found = found.strip_prefix("invalid ")?;
    let kinds = [
        ("type: null", "null"),
        ("type: boolean", "true or false"),
        ("type: integer", "a whole number"),
        ("type: floating point", "a number with a fraction"),
        ("type: string", "a text"),
        ("type: sequence", "a list"),
        ("type: map", "an object"),
    ];
    let kind = kinds.iter().find(|(start, _)| found.starts_with(start)).map(|(_, words)| *words);
    Some((kind.filter(|_| !is_large(found)), in_words(wanted, path)))
}

/// Whether it is a number that has no fraction, and is too large for a whole one: serde calls both
/// floating point.
fn is_large(found: &str) -> bool {
    let number = found.split('`').nth(1).and_then(|number| number.parse::<f64>().ok());
    found.starts_with("type: floating point") && number.is_some_and(|n| n.abs() >= 2e15)
}

/// What serde wants at this path, as the API says it.
fn in_words(wanted: &str, path: &str) -> String {
    let is_named = |name: &str| path == name || path.ends_with(&format!(".{name}"));
    let range = RANGES.iter().find(|(name, _, _)| is_named(name));
    let whole = |max: u64| {
        let (low, high) = range.map_or((0, max), |(_, low, high)| (*low, *high));
        format!("a whole number from {low} to {high}")
    };
    match wanted {
        "u8" => whole(u8::MAX.into()),
        "u32" => whole(u32::MAX.into()),
        "u64" | "usize" => whole(u64::MAX),
        "f64" => "a number".to_owned(),
        "a string" => "a text".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a JSON object".to_owned(),
        wanted if wanted.starts_with("struct ") => "a JSON object".to_owned(),
        wanted => wanted.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_serde_become_fields() {
        let rows = [
            ("unknown field `qeue`, expected one of `queue`, `key`", "", "unknown-field", "qeue"),
            (
                "unknown field `a`, there are no fields",
                "target.worker",
                "unknown-field",
                "target.worker.a",
            ),
            ("missing field `token`", "acks[3]", "missing-field", "acks[3].token"),
            ("duplicate field `id`", "id", "duplicate-field", "id"),
            (
                "invalid type: map, expected a string",
                "target.http.url",
                "invalid-value",
                "target.http.url",
            ),
            ("`worker` is the name of an object", "target", "invalid-value", "target"),
            ("invalid type: null, expected a string", "", "invalid-value", "body"),
        ];
        for (message, path, kind, field) in rows {
            let document = serde_json::to_value(problem(message, path).into_document()).unwrap();
            assert!(document["type"].as_str().unwrap().ends_with(kind), "{message}");
            assert_eq!(document["field"], field, "{message}");
        }
    }

    #[test]
    fn words_of_rust_are_not_shown_and_the_fix_is_named() {
        let rows = [
            (
                "unknown field `qeue`, expected one of `queue`, `key`",
                "there is no field `qeue` here",
                "did you mean `queue`?",
            ),
            (
                "unknown field `a`b`, expected `queue`",
                "there is no field `a`b` here",
                "use one of: queue",
            ),
            (
                "unknown field `x`, there are no fields",
                "there is no field `x` here",
                "remove it: nothing belongs here",
            ),
            ("missing field `at`", "missing field `at`", "add `f.at`"),
            (
                "unknown variant `merg`, expected one of `replace`, `merge`",
                "f must be one of replace, merge, not `merg`",
                "did you mean `merge`?",
            ),
            (
                "invalid type: sequence, expected struct JobIn",
                "f must be a JSON object, not a list",
                "correct `f`: it must be a JSON object",
            ),
            (
                "invalid value: integer `-1`, expected u8",
                "f must be a whole number from 0 to 255",
                "correct `f`: it must be a whole number from 0 to 255",
            ),
            (
                "invalid type: string \", expected u32\", expected u32",
                "f must be a whole number from 0 to 4294967295, not a text",
                "correct `f`: it must be a whole number from 0 to 4294967295",
            ),
            (
                "expected a text or a list of texts",
                "f must be a text or a list of texts",
                "correct `f`: it must be a text or a list of texts",
            ),
            (
                "`worker` is the name of an object",
                "f is a text, and `worker` is the name of an object",
                "write {\"worker\": {}}, with what belongs to it inside",
            ),
            (
                "expected value",
                "f is none of the choices there are for it",
                "see /docs for the choices of `f`",
            ),
        ];
        for (message, detail, fix) in rows {
            let document = serde_json::to_value(problem(message, "f").into_document()).unwrap();
            assert_eq!((&document["detail"], &document["fix"]), (&detail.into(), &fix.into()));
        }
    }
}
