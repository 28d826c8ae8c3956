//! What the server process is told: flags over environment over file over defaults, under the same
//! names everywhere. `listen` is `--listen`, `HENCE_LISTEN` and `listen = …`.

mod address;
mod keys;
mod values;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hence_core::time::Millis;
use hence_core::when::Zone;
use hence_store::Tier;

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
    /// Each key, its value as it may be shown, and where that came from.
    effective: Vec<(&'static Key, String, Source)>,
}

/// Where a value came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
        for (name, value) in environment {
            if let Some(key) = KEYS.iter().find(|key| key.env == name) {
                from_environment.set(key.name, value);
            }
        }
        let from_file = file.map(read_file).transpose()?.unwrap_or_default();
        values::assemble(&[
            (Source::Flag, flags),
            (Source::Environment, from_environment),
            (Source::File, from_file),
        ])
    }

    /// A file with this text and nothing else said: for the fuzz targets.
    #[cfg(feature = "fuzzing")]
    pub fn from_text(text: &str) -> Result<Self, ConfigError> {
        let file = read_text(Path::new("hence.toml"), text)?;
        values::assemble(&[(Source::File, file)])
    }

    /// The effective configuration as TOML, secrets as `***`, each line with where it came from.
    pub fn print(&self) -> String {
        let mut text = String::new();
        for (key, value, source) in &self.effective {
            let quoted = toml::Value::String(value.clone());
            let line = match source {
                _ if value.is_empty() => format!("# {} is not set\n", key.name),
                Source::Default => format!("{} = {quoted}\n", key.name),
                source => format!("{} = {quoted} # {source}\n", key.name),
            };
            text.push_str(&line);
        }
        text
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
            other => {
                let place = format!("`{key}` in {}", path.display());
                let problem = format!("must be a string or a number, not a {}", other.type_str());
                return Err(ConfigError::Invalid { place, problem });
            }
        };
        layer.set(known.name, text);
    }
    Ok(layer)
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

#[cfg(test)]
mod tests;
