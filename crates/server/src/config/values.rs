//! Reads the values of a configuration and checks each where it was said.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use hence_core::time::Millis;
use hence_core::when::Zone;
use hence_store::Tier;

use super::address::{StoreChoice, without_password};
use super::print::Effective;
use super::{Config, ConfigError, KEYS, Key, Layer, Source};
use crate::http::when;
use crate::limits;
use crate::nearest::nearest;

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text, for whoever must compare it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// How log events are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// For people on a terminal, for programs otherwise.
    Auto,
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// What was said about each key, by whom.
struct Said<'a>(&'a [(Source, Layer)]);

impl Said<'_> {
    fn text(&self, key: &Key) -> (&str, Source) {
        let said = self.0.iter().find_map(|(source, layer)| Some((layer.get(key.name)?, *source)));
        said.unwrap_or((key.default, Source::Default))
    }

    /// Where something was said about a key, if it was. An empty text was said too: whoever set
    /// it meant something, and what it hides must not vanish in silence.
    fn source(&self, name: &str) -> Option<Source> {
        let key = KEYS.iter().find(|key| key.name == name)?;
        let (_, source) = self.text(key);
        (source != Source::Default).then_some(source)
    }

    /// Reads the value of a key; `read` says what is wrong with it.
    fn value<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        let Some(key) = KEYS.iter().find(|key| key.name == name) else {
            unreachable!("{name} is not in the list of keys")
        };
        let (text, source) = self.text(key);
        read(text).map_err(|problem| ConfigError::Invalid { place: place(key, source), problem })
    }
}

fn place(key: &Key, source: Source) -> String {
    match source {
        Source::Flag => format!("--{}", key.name.replace('_', "-")),
        Source::Environment => key.env.to_owned(),
        Source::File => format!("`{}` in the configuration file", key.name),
        Source::Default => format!("the default of {}", key.name),
    }
}

/// The configuration that the layers make, the first of them winning.
pub(super) fn assemble(layers: &[(Source, Layer)]) -> Result<Config, ConfigError> {
    let said = Said(layers);
    let effective = KEYS.iter().map(|key| {
        let (text, source) = said.text(key);
        let shown = if key.secret && !text.is_empty() { "***" } else { text };
        let shown = without_password(shown);
        Effective { key, hides: shown != text, shown, source }
    });
    Ok(Config {
        listen: said.value("listen", listen)?,
        store: store(&said)?,
        move_to: said.value("move_to", |text| match text {
            "" => Ok(None),
            text => StoreChoice::parse(text).map(Some),
        })?,
        move_resume: said.value("move_resume", flag)?,
        require_tier: said.value("require_tier", tier)?,
        token: token(&said)?,
        log: said.value("log", filter)?,
        log_format: said.value("log_format", log_format)?,
        node: said.value("node", node)?,
        zone: said.value("zone", zone)?,
        shutdown_grace: said.value("shutdown_grace", duration)?,
        max_body_bytes: said
            .value("max_body_bytes", |text| between(bytes(text)?, 1_024, 1 << 30))?,
        max_connections: said
            .value("max_connections", |text| between(number(text)?, 1, 1 << 20))?,
        request_timeout: said.value("request_timeout", duration_above_zero)?,
        threads: said.value("threads", threads)?,
        pushes: said.value("pushes", |text| between(number(text)?, 1, 1 << 20))?,
        handlers: said.value("handlers", |text| between(number(text)?, 1, 1 << 20))?,
        window_jobs: said.value("window_jobs", |text| between(number(text)?, 1, 1 << 30))?,
        window_bytes: said.value("window_bytes", |text| between(bytes(text)?, 1 << 20, 1 << 40))?,
        unregistered_delay: said.value("unregistered_delay", span_above_zero)?,
        dead_retention: said.value("dead_retention", span)?,
        effective: effective.collect(),
        warnings: Vec::new(),
    })
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    let named = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    named.as_deref().unwrap_or(text).parse().map_err(|_| {
        format!("must be an address and a port, such as 127.0.0.1:7070 or [::1]:7070, not `{text}`")
    })
}

/// The store, or else the directory. A directory that was typed wins over a store that was not: who
/// types `--data ./try` does not think of a variable that names a database.
fn store(said: &Said<'_>) -> Result<StoreChoice, ConfigError> {
    let typed = |name: &str| said.source(name) == Some(Source::Flag);
    if said.source("store").is_none() || typed("data") && !typed("store") {
        return said.value("data", |text| match text {
            "" => Err("must name a directory".to_owned()),
            path => Ok(StoreChoice::Embedded(PathBuf::from(path))),
        });
    }
    said.value("store", |text| match text {
        // Never read as none: jobs would go to a directory that nobody thought of.
        "" => Err("is empty; name a store, or leave it out".to_owned()),
        text => StoreChoice::parse(text),
    })
}

fn threads(text: &str) -> Result<Option<usize>, String> {
    match text {
        "auto" => Ok(None),
        text => match text.parse() {
            Ok(count) => between(count, 1, limits::THREADS_MAX).map(Some),
            Err(_) => Err(format!("must be `auto` or a whole number, not `{text}`")),
        },
    }
}

fn flag(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("must be true or false, not `{text}`"))
}

fn tier(text: &str) -> Result<Tier, String> {
    let tiers = [Tier::BestEffort, Tier::Replicated, Tier::Durable];
    let found = tiers.into_iter().find(|tier| tier.as_str() == text);
    let names = tiers.map(Tier::as_str).join(", ");
    found.ok_or_else(|| format!("must be one of {names}, not `{text}`"))
}

/// The token, or that of the file: whichever was said nearer to the command line. Where both were
/// said in one place the token wins, except that two flags are a mistake.
fn token(said: &Said<'_>) -> Result<Option<Secret>, ConfigError> {
    let direct = said.source("token");
    match said.source("token_file") {
        Some(Source::Flag) if direct == Some(Source::Flag) => said.value("token_file", |_| {
            Err("cannot be used with --token: give one of them".to_owned())
        }),
        Some(file) if direct.is_none_or(|direct| file < direct) => {
            said.value("token_file", |path| token_in(path).map(Some))
        }
        _ if direct.is_none() => Ok(None),
        _ => said.value("token", |text| checked_token(text).map(Some)),
    }
}

fn token_in(path: &str) -> Result<Secret, String> {
    if path.is_empty() {
        return Err("is empty; name a file, or leave it out".to_owned());
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("names `{path}`, which cannot be read: {error}"))?;
    let token = checked_token(text.trim());
    token.map_err(|problem| format!("names `{path}`, whose token {problem}"))
}

fn checked_token(text: &str) -> Result<Secret, String> {
    // Never read as none: an empty variable would open a server whose file has a token.
    if text.is_empty() {
        return Err("is empty; give a token, or leave it out".to_owned());
    }
    if text.len() < limits::TOKEN_BYTES_MIN {
        let min = limits::TOKEN_BYTES_MIN;
        return Err(format!("must have at least {min} characters; try `openssl rand -hex 32`"));
    }
    if !text.bytes().all(|b| b.is_ascii_graphic()) {
        return Err("must be printable ASCII without spaces".to_owned());
    }
    Ok(Secret(text.to_owned()))
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

fn filter(text: &str) -> Result<String, String> {
    text.split(',').map(str::trim).try_for_each(check_level)?;
    match tracing_subscriber::EnvFilter::builder().parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("is not a log filter: {error}")),
    }
}

/// Refuses a bare word that is no level: a filter takes it for the name of a module, and nothing
/// would be logged but what that says.
fn check_level(word: &str) -> Result<(), String> {
    let is_bare = !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-');
    if !is_bare || LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word)) {
        return Ok(());
    }
    let meant = nearest(word, LEVELS).map(|level| format!("; did you mean `{level}`?"));
    let (levels, meant) = (LEVELS.join(", "), meant.unwrap_or_default());
    Err(format!("holds `{word}`, which is no level: one of {levels}, or MODULE=LEVEL{meant}"))
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "auto" => Ok(LogFormat::Auto),
        "human" => Ok(LogFormat::Human),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("must be auto, human or json, not `{text}`")),
    }
}

fn node(text: &str) -> Result<String, String> {
    let name = hence_core::id::WorkerName::new(text);
    name.map(|name| name.to_string()).map_err(|_| "must be a short printable name".to_owned())
}

fn zone(text: &str) -> Result<Zone, String> {
    Zone::named(text.trim()).map_err(|problem| format!("must name a zone: {problem}"))
}

fn span(text: &str) -> Result<Millis, String> {
    when::span("", text).map_err(|rejection| rejection.to_string().trim_start().to_owned())
}

fn span_above_zero(text: &str) -> Result<Millis, String> {
    match span(text)? {
        Millis::ZERO => Err("must be above zero".to_owned()),
        span => Ok(span),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    span(text).map(when::duration)
}

fn duration_above_zero(text: &str) -> Result<Duration, String> {
    span_above_zero(text).map(when::duration)
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("must be a whole number, not `{text}`"))
}

fn bytes(text: &str) -> Result<usize, String> {
    const UNITS: [(&str, usize); 3] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let found = UNITS.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, *size)));
    let (digits, size) = found.unwrap_or((text, 1));
    let count: Option<usize> = digits.trim().parse().ok();
    count.and_then(|count| count.checked_mul(size)).ok_or_else(|| {
        format!("must be a number of bytes, such as 1048576, 512KiB or 8MiB, not `{text}`")
    })
}

fn between<T: PartialOrd + fmt::Display>(value: T, low: T, high: T) -> Result<T, String> {
    if value < low || value > high {
        return Err(format!("must be between {low} and {high}, not {value}"));
    }
    Ok(value)
}
