//! What came of the configuration, for people and for programs. Secrets are not in it.

use std::fmt;

use serde_json::{Map, Value, json};

use super::{Config, Key, Source};

/// What came of one key.
#[derive(Clone, Debug)]
pub(super) struct Effective {
    pub(super) key: &'static Key,
    /// The value as it may be shown; empty when there is none.
    pub(super) shown: String,
    /// Whether something of it may not be shown.
    pub(super) hides: bool,
    pub(super) source: Source,
}

impl Effective {
    fn flag(&self) -> Option<bool> {
        self.key.is_flag().then(|| self.shown.parse().ok()).flatten()
    }
}

impl Config {
    /// The effective configuration as TOML that can be read again, each line with where it came
    /// from. What may not be shown is a comment, so that nobody reads `***` back.
    pub fn print(&self) -> String {
        self.effective.iter().map(line).collect()
    }

    /// The same as one object: for each key its value, null when it has none, and its source.
    pub fn print_json(&self) -> Value {
        let entry = |one: &Effective| {
            let value = match one.flag() {
                Some(flag) => Value::from(flag),
                None if one.shown.is_empty() => Value::Null,
                None => Value::from(one.shown.as_str()),
            };
            (one.key.name.to_owned(), json!({"value": value, "source": one.source.name()}))
        };
        self.effective.iter().map(entry).collect::<Map<_, _>>().into()
    }
}

fn line(one: &Effective) -> String {
    let name = one.key.name;
    let value = match one.flag() {
        Some(flag) => toml::Value::Boolean(flag),
        None => toml::Value::String(one.shown.clone()),
    };
    match one.source {
        _ if one.shown.is_empty() => format!("# {name} is not set\n"),
        source if one.hides => commented(&format!("{name} = {value} # {source}, not shown")),
        Source::Default => format!("{name} = {value}\n"),
        source => format!("{name} = {value} # {source}\n"),
    }
}

/// A value may have several lines; none of them may be read back.
fn commented(text: &str) -> String {
    format!("# {}\n", text.replace('\n', "\n# "))
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Source::Flag => "flag",
            Source::Environment => "environment",
            Source::File => "file",
            Source::Default => "default",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Flag => "from a flag",
            Source::Environment => "from the environment",
            Source::File => "from the file",
            Source::Default => "by default",
        })
    }
}
