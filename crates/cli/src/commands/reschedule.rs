//! `hence reschedule`: another time for a job that waits.

use clap::{ArgGroup, Args};
use serde_json::{Map, Value};

use crate::api::Api;
use crate::clock;
use crate::failure::Failure;
use crate::job_flags::DueFlags;
use crate::output::Output;
use crate::select::OneJob;
use crate::wire::{self, Job};
use crate::words;

pub(crate) const EXAMPLES: &str = "\
Examples:
  hence reschedule welcome --queue mail --at 'monday at 9am' --tz Europe/Paris
  hence reschedule 01JB2Q… --in '2 hours'";

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("when").required(true).args(["at", "in"])))]
pub(crate) struct Reschedule {
    #[command(flatten)]
    job: OneJob,
    #[command(flatten)]
    due: DueFlags,
}

pub(crate) async fn run(moved: Reschedule, api: &Api, output: &Output) -> Result<(), Failure> {
    let mut change = Map::new();
    moved.due.add_to(&mut change);
    let answer = api.patch(&moved.job.path(None), &Value::Object(change)).await?;
    if output.is_json() {
        return output.json(&answer);
    }
    let job: Job = wire::read(answer)?;
    output.line(&job.id)?;
    let due = words::due(job.due_at, clock::now_ms());
    output.say(format_args!("{}: due {due}", job.name_words()));
    if let Some(understood) = &job.understood {
        output.say(format_args!("understood as {}", understood.words));
    }
    Ok(())
}
