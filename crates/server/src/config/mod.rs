//! What the server process is told: flags over environment over file over defaults, under the same
//! names everywhere. `listen` is `--listen`, `HENCE_LISTEN` and `listen = …`.

mod address;
mod keys;
mod print;
mod values;
mod variables;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hence_core::time::Millis;
use hence_core::when::Zone;
use hence_store::Tier;

use self::print::Effective;
use crate::nearest::nearest;
pub use address::{DatabaseUrl, StoreChoice};
pub use keys::{KEYS, Key, Layer, reference_markdown};
pub use values::{LogFormat, Secret};

/// The configuration of a server, whole and checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where jobs are kept.
    pub store: StoreChoice,
    /// Where to move everything while work goes on.
    pub move_to: Option<StoreChoice>,
    /// Whether that goes on with a move that broke off.
    pub move_resume: bool,
    /// What an acknowledged job must survive at least.
    pub require_tier: Tier,
    /// What requests must show, if anything.
    pub token: Option<Secret>,
    /// Which log events to write, in the syntax of `tracing` filters.
    pub log: String,
    /// How to write them.
    pub log_format: LogFormat,
    /// What this node is called.
    pub node: String,
    /// The zone of wall times when a request names none.
    pub zone: Zone,
    /// How long work under way may take to end at shutdown.
    pub shutdown_grace: Duration,
    /// The largest body of a batch.
    pub max_body_bytes: usize,
    /// Connections at once.
    pub max_connections: usize,
    /// The time for a request that does not wait for anything.
    pub request_timeout: Duration,
    /// Threads for connections and deliveries; one a core when not said.
    pub threads: Option<usize>,
    /// HTTP pushes under way at once.
    pub pushes: u32,
    /// In-process handlers under way at once.
    pub handlers: u32,
    /// Jobs of a queue kept in memory.
    pub window_jobs: usize,
    /// Payload bytes of a queue kept in memory.
    pub window_bytes: usize,
    /// How long a job whose handler is not registered waits.
    pub unregistered_delay: Millis,
    /// How long a dead job is kept.
    pub dead_retention: Millis,
    effective: Vec<Effective>,
    /// What was said that is probably a slip, though no mistake for certain.
    pub warnings: Vec<String>,
}

/// Where a value came from; the earlier one wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Source {
    /// The command line.
    Flag,
    /// The environment.
    Environment,
    /// The configuration file.
    File,
    /// Nobody said anything else.
    Default,
}

/// Why there is no configuration. Says where the mistake is and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {error}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{} is not TOML: {problem}", path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        problem: String,
    },
    /// The file holds a key that means nothing.
    #[error("{}: there is no key `{key}`; {hint}", path.display())]
    UnknownKey {
        /// Which file.
        path: PathBuf,
        /// The key.
        key: String,
        /// What was probably meant.
        hint: String,
    },
    /// A value cannot be accepted.
    #[error("{place} {problem}")]
    Invalid {
        /// The flag, the variable or the key of the file.
        place: String,
        /// What is wrong and what would be right.
        problem: String,
    },
}

impl Config {
    /// Puts the layers together. `environment` is the process's variables; `file` is read when
    /// given.
    pub fn load(
        flags: Layer,
        environment: impl IntoIterator<Item = (String, String)>,
        file: Option<&Path>,
    ) -> Result<Self, ConfigError> {
        let mut from_environment = Layer::default();
        let mut warnings = Vec::new();
        for (name, value) in environment {
            match KEYS.iter().find(|key| key.env == name) {
                Some(key) => from_environment.set(key.name, value),
                None => warnings.extend(variables::slip(&name)),
            }
        }
        let from_file = file.map(read_file).transpose()?.unwrap_or_default();
        let config = values::assemble(&[
            (Source::Flag, flags),
            (Source::Environment, from_environment),
            (Source::File, from_file),
        ])?;
        Ok(Config { warnings, ..config })
    }

    /// A file with this text and nothing else said: for the fuzz targets.
    #[cfg(feature = "fuzzing")]
    pub fn from_text(text: &str) -> Result<Self, ConfigError> {
        let file = read_text(Path::new("hence.toml"), text)?;
        values::assemble(&[(Source::File, file)])
    }

    /// The library's part of it.
    pub(crate) fn library(&self) -> hence::builder::Config {
        hence::builder::Config {
            pushes_max: Some(self.pushes),
            handlers_max: Some(self.handlers),
            window_jobs: Some(self.window_jobs),
            window_bytes: Some(self.window_bytes),
            unregistered_delay: Some(self.unregistered_delay),
            dead_retention: Some(self.dead_retention),
        }
    }
}

fn read_file(path: &Path) -> Result<Layer, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError::Unreadable { path: path.to_owned(), error })?;
    read_text(path, &text)
}

fn read_text(path: &Path, text: &str) -> Result<Layer, ConfigError> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        ConfigError::Syntax { path: path.to_owned(), problem: error.to_string() }
    })?;
    let mut layer = Layer::default();
    for (key, value) in table {
        let Some(known) = KEYS.iter().find(|known| known.name == key) else {
            let hint = match nearest(&key, KEYS.iter().map(|known| known.name)) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "`hence serve --help` lists all of them".to_owned(),
            };
            return Err(ConfigError::UnknownKey { path: path.to_owned(), key, hint });
        };
        let text = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Boolean(flag) if known.is_flag() => flag.to_string(),
            other => {
                let place = format!("`{key}` in {}", path.display());
                let wanted = if known.is_flag() { "true or false" } else { "a string or a number" };
                let problem = format!("must be {wanted}, not a {}", other.type_str());
                return Err(ConfigError::Invalid { place, problem });
            }
        };
        layer.set(known.name, text);
    }
    Ok(layer)
}

#[cfg(test)]
mod tests;
