//! `hence cancel`, `run`, `replay` and `forget`: one shape, four verbs. One job by id, or all that
//! match.

use std::time::Duration;

use clap::{ArgGroup, Args};
use serde_json::{Value, json};

use crate::api::{Api, Path};
use crate::clock;
use crate::failure::Failure;
use crate::output::Output;
use crate::select::{Filter, job_path};
use crate::wire::{self, BulkReport, Job};
use crate::words;

pub(crate) const CANCEL_EXAMPLES: &str = "\
Examples:
  hence cancel 01JB2Q…
  hence cancel welcome --queue mail --key user:7
  hence cancel --queue mail --state scheduled       asks first
  hence cancel --schedule nightly --yes             does not ask";

pub(crate) const RUN_EXAMPLES: &str = "\
Examples:
  hence run 01JB2Q…
  hence run --queue mail --until 2030-01-01T00:00:00Z --yes";

pub(crate) const REPLAY_EXAMPLES: &str = "\
Examples:
  hence replay 01JB2Q…
  hence replay --queue mail              every dead job of `mail`; asks first
  hence replay --from 2030-01-01T00:00:00Z --yes";

pub(crate) const FORGET_EXAMPLES: &str = "\
Examples:
  hence forget 01JB2Q…
  hence forget --state dead              every dead job; asks first
  hence forget --queue mail --state succeeded --yes";

/// A million jobs take a while; the server works through them page by page.
const PATIENCE: Duration = Duration::from_mins(5);

#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new("which").required(true).multiple(true)
        .args(["id", "queue", "key", "states", "schedule", "from", "until"])
))]
pub(crate) struct Act {
    /// The job's id; without it, all jobs that match are meant
    #[arg(value_name = "ID", conflicts_with_all = ["states", "schedule", "from", "until"])]
    id: Option<String>,
    #[command(flatten)]
    filter: Filter,
    /// Do not ask before acting on all jobs that match
    #[arg(long, short)]
    yes: bool,
}

/// What is done to the jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Cancel,
    Run,
    Replay,
    Forget,
}

impl Verb {
    const fn as_str(self) -> &'static str {
        match self {
            Verb::Cancel => "cancel",
            Verb::Run => "run",
            Verb::Replay => "replay",
            Verb::Forget => "forget",
        }
    }

    /// Which jobs it is for.
    const fn wants(self) -> &'static str {
        match self {
            Verb::Cancel => "cancel what has not ended; `hence forget` removes what has",
            Verb::Run => "make due what waits; `hence replay` brings dead jobs back",
            Verb::Replay => "replay what is dead",
            Verb::Forget => "forget what has ended; `hence cancel` ends what waits",
        }
    }

    const fn past(self) -> &'static str {
        match self {
            Verb::Cancel => "cancelled",
            Verb::Run => "due now",
            Verb::Replay => "brought back",
            Verb::Forget => "forgotten",
        }
    }
}

pub(crate) async fn run(act: Act, verb: Verb, api: &Api, output: &Output) -> Result<(), Failure> {
    match &act.id {
        Some(id) => one(id, &act.filter, verb, api, output).await,
        None => all(act, verb, api, output).await,
    }
}

async fn one(
    id: &str,
    place: &Filter,
    verb: Verb,
    api: &Api,
    output: &Output,
) -> Result<(), Failure> {
    let path = |below| job_path(id, place.queue.as_deref(), place.key.as_deref(), below);
    let answer = match verb {
        Verb::Cancel => api.delete(&path(None)).await?,
        Verb::Run => api.post(&path(Some("run")), &json!({})).await?,
        Verb::Replay => api.post(&path(Some("replay")), &json!({})).await?,
        Verb::Forget => api.delete(&path(None).query("forget", true)).await?,
    };
    if output.is_json() {
        return output.json(&answer);
    }
    output.line(id)?;
    if answer.is_object() {
        let job: Job = wire::read(answer)?;
        let due = words::relative(job.due_at, clock::now_ms());
        let when = if job.is_final() { String::new() } else { format!(", due {due}") };
        output.say(format_args!("{}: {}{when}", job.name_words(), verb.past()));
    }
    Ok(())
}

async fn all(act: Act, verb: Verb, api: &Api, output: &Output) -> Result<(), Failure> {
    let question = format!("{} all jobs with {}?", verb.as_str(), act.filter.words());
    if !act.yes && !output.confirm(&question)? {
        return Err(Failure::refused("nothing was done"));
    }
    let path = Path::new("/v1/jobs/bulk");
    let answer = api.post_waiting(&path, &bulk(verb, &act.filter), PATIENCE).await?;
    let answer: Value = serde_json::from_slice(&answer.body).map_err(Failure::unexpected)?;
    let report: BulkReport = wire::read(answer.clone())?;
    if output.is_json() {
        output.json(&answer)?;
    } else {
        output.line(format_args!("{} {}", words::count(report.done, "job"), verb.past()))?;
    }
    if report.refused == 0 {
        return Ok(());
    }
    let refused = words::count(report.refused, "job");
    let refused = format!("{refused} could not be {}: not in the state they are in", verb.past());
    if report.done == 0 {
        return Err(Failure::refused(refused).fix(verb.wants()));
    }
    output.say(refused);
    Ok(())
}

fn bulk(verb: Verb, filter: &Filter) -> Value {
    json!({"action": verb.as_str(), "filter": filter.json()})
}
