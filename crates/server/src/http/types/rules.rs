//! The rules of names as the document tells them, so that what is made of it can refuse what the
//! server would. The rules themselves are the core's.

use std::borrow::Cow;

use hence_core::limits;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// What is safe in URLs, labels and keys of every engine.
const PLAIN: (&str, &str) = ("^[A-Za-z0-9._:/-]+$", "ASCII letters, digits and `. _ : / -`");

/// What people write.
const PRINTABLE: (&str, &str) = (
    r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$",
    "any text without control characters, and without white space at its ends",
);

/// What a lease is known by.
const TOKEN: (&str, &str) = (r"^[0-9]+\.[0-9]+\.[0-9]+$", "three numbers");

/// Of numbers of 16, 32 and 64 bits.
const TOKEN_MAX: &str = "65535.4294967295.18446744073709551615";

/// Declares what stands for a name in the document, and nowhere else.
macro_rules! described {
    ($($type:ident: $what:literal, $rule:expr, $max:expr, $example:literal;)*) => {$(
        pub(crate) struct $type;

        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                text($what, $rule, $max, $example)
            }
        }

        impl ToSchema for $type {
            fn name() -> Cow<'static, str> {
                stringify!($type).into()
            }
        }
    )*};
}

described! {
    QueueName: "Names a queue", PLAIN, limits::QUEUE_NAME_BYTES_MAX, "mail";
    Key: "Names what runs one at a time", PRINTABLE, limits::KEY_BYTES_MAX, "user:1234";
    JobId: "Names a job within its (queue, key)", PRINTABLE, limits::JOB_ID_BYTES_MAX,
        "renew-subscription";
    ScheduleId: "Names a schedule", PLAIN, limits::SCHEDULE_ID_BYTES_MAX, "nightly";
    HandlerName: "Names a handler", PLAIN, limits::HANDLER_NAME_BYTES_MAX, "report";
    WorkerName: "Names a worker", PRINTABLE, limits::WORKER_NAME_BYTES_MAX, "mailer-1";
    LeaseToken: "Names a lease", TOKEN, TOKEN_MAX.len(), "0.1.42";
}

/// The length is counted in characters there, and in bytes here: what is longer in characters is
/// longer in bytes, too.
fn text(what: &str, rule: (&str, &str), max: usize, example: &str) -> RefOr<Schema> {
    let (pattern, words) = rule;
    let object = ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(format!("{what}: {words}, at most {max} bytes.")))
        .min_length(Some(1))
        .max_length(Some(max))
        .pattern(Some(pattern))
        .examples([example]);
    Schema::Object(object.build()).into()
}

#[cfg(test)]
mod tests {
    use hence_core::id;
    use regex::Regex;

    use super::*;

    /// How the document describes a name.
    type Describes = fn() -> RefOr<Schema>;

    /// Whether the core takes a text for such a name.
    type Takes = fn(&str) -> bool;

    const ROWS: [(Describes, Takes); 7] = [
        (QueueName::schema, |text| id::QueueName::new(text).is_ok()),
        (Key::schema, |text| id::Key::new(text).is_ok()),
        (JobId::schema, |text| id::JobId::new(text).is_ok()),
        (ScheduleId::schema, |text| id::ScheduleId::new(text).is_ok()),
        (HandlerName::schema, |text| id::HandlerName::new(text).is_ok()),
        (WorkerName::schema, |text| id::WorkerName::new(text).is_ok()),
        (LeaseToken::schema, |text| text.parse::<id::Token>().is_ok()),
    ];

    #[test]
    fn the_document_tells_the_rules_that_the_core_has() {
        let texts = [
            "",
            "a",
            "mail",
            "a b",
            " a",
            "a ",
            "a\t",
            "\n",
            "a\u{7f}b",
            "é",
            "user:1234",
            "a/b",
            "a.b_c-d",
            "a,b",
            "\u{a0}a",
            "a\u{85}",
            "\u{9f}",
            "0.1.42",
            "1.2",
            "1.2.3.4",
            "a.1.2",
            "1.-2.3",
            "+1.2.3",
            ".1.2",
        ];
        for (schema, takes) in ROWS {
            let schema = serde_json::to_value(schema()).unwrap();
            let pattern = Regex::new(schema["pattern"].as_str().unwrap()).unwrap();
            let max = schema["maxLength"].as_u64().unwrap() as usize;
            for text in texts {
                assert_eq!(pattern.is_match(text), takes(text), "{text:?}: {schema}");
            }
            assert!(takes(schema["examples"][0].as_str().unwrap()), "{schema}");
            let is_token = max == TOKEN_MAX.len();
            let longest = if is_token { TOKEN_MAX.to_owned() } else { "a".repeat(max) };
            assert_eq!(longest.len(), max, "{schema}");
            assert!(takes(&longest) && !takes(&format!("{longest}1")), "{schema}");
        }
    }
}
