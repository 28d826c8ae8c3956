//! `hence version`: which program this is, and which server answers.

use clap::Args;
use serde_json::{Value, json};

use crate::api::{Api, Path};
use crate::failure::{Exit, Failure};
use crate::output::Output;

pub(crate) const EXAMPLES: &str = "\
Examples:
  hence version           this program, and the server if one answers
  hence version --json";

/// This program's version.
pub(crate) const OURS: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug, Args)]
pub(crate) struct Version {}

pub(crate) async fn run(_: Version, api: &Api, output: &Output) -> Result<(), Failure> {
    let server = match api.get(&Path::new("/v1/stats")).await {
        Ok(stats) => of(&stats),
        // A version without a server is an answer too.
        Err(failure) if failure.exit == Exit::Unreachable => None,
        Err(failure) => {
            let fix = failure.fix.map(|fix| format!("; {fix}")).unwrap_or_default();
            let why = failure.message;
            output.warn(format_args!("the server at {} does not say: {why}{fix}", api.base()));
            None
        }
    };
    if output.is_json() {
        return output.json(&json!({"client": OURS, "server": server}));
    }
    output.line(format_args!("hence {OURS}"))?;
    match server {
        Some(version) => output.line(format_args!("server {version} at {}", api.base())),
        None => Ok(()),
    }
}

/// The version of the server that gave these statistics.
pub(crate) fn of(stats: &Value) -> Option<String> {
    stats.get("version").and_then(Value::as_str).map(str::to_owned)
}
