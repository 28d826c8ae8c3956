//! `hence show`: one job whole: what it is, what happened to it, what it carries.

use clap::Args;
use serde_json::Value;

use crate::api::Api;
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::output::{Output, Tone};
use crate::select::OneJob;
use crate::wire::{self, Attempt, Job};
use crate::words;

pub(crate) const EXAMPLES: &str = "\
Examples:
  hence show 01JB2Q…                          one job, its attempts, a look at payload and result
  hence show welcome --queue mail --key user:7
  hence show 01JB2Q… --payload > letter.txt   the payload alone, byte by byte
  hence show 01JB2Q… --result | jq .          what its target answered, when that was kept";

/// Characters of a payload or result that are shown: a look, not the whole.
const PREVIEW_CHARS: usize = 300;

#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    job: OneJob,
    /// Print the payload and nothing else
    #[arg(long, conflicts_with = "result")]
    payload: bool,
    /// Print the result and nothing else
    #[arg(long)]
    result: bool,
}

pub(crate) async fn run(show: Show, api: &Api, output: &Output) -> Result<(), Failure> {
    if show.payload {
        return output.raw(&api.fetch(&show.job.path(Some("payload"))).await?.body);
    }
    if show.result {
        return output.raw(&api.fetch(&show.job.path(Some("result"))).await?.body);
    }
    let mut value = api.get(&show.job.path(None)).await?;
    let attempts = wire::items(api.get(&show.job.path(Some("attempts"))).await?, "attempts")?;
    if output.is_json() {
        if let Value::Object(job) = &mut value {
            job.insert("attempt_log".to_owned(), Value::Array(attempts));
        }
        return output.json(&value);
    }
    let job: Job = wire::read(value)?;
    print_job(&job, output)?;
    let attempts = attempts.into_iter().map(wire::read).collect::<Result<Vec<Attempt>, _>>()?;
    print_attempts(&job, &attempts, output)?;
    print_part(&show.job, "payload", api, output).await?;
    if job.finish.is_some() {
        print_part(&show.job, "result", api, output).await?;
    }
    Ok(())
}

fn print_job(job: &Job, output: &Output) -> Result<(), Failure> {
    let now = clock::now_ms();
    let mut fields = vec![
        ("id", job.id.clone()),
        ("queue", job.queue.clone()),
        ("state", output.paint(tone(&job.state), &job.state)),
        ("due", words::due(job.due_at, now)),
        ("target", job.target.words()),
        ("attempts", format!("{} of {}", job.attempts, job.max_attempts())),
    ];
    if let Some(why) = &job.waiting_for {
        fields.insert(3, ("waits for", why.detail.clone()));
    }
    if let Some(key) = &job.key {
        fields.insert(2, ("key", key.clone()));
    }
    if let Some(submitted) = job.submitted_at {
        fields.push(("submitted", words::due(submitted, now)));
    }
    if let Some(expires) = job.expires_at {
        fields.push(("expires", words::due(expires, now)));
    }
    if let Some(schedule) = &job.schedule {
        fields.push(("schedule", schedule.clone()));
    }
    if let Some(finished) = job.finished_at() {
        fields.push(("finished", words::due(finished, now)));
    }
    if let Some(reason) = job.reason() {
        fields.push(("reason", words::cut(reason, PREVIEW_CHARS)));
    }
    output.fields(&fields)
}

fn print_attempts(job: &Job, attempts: &[Attempt], output: &Output) -> Result<(), Failure> {
    if attempts.is_empty() && job.lease.is_none() {
        return Ok(());
    }
    output.line("")?;
    for attempt in attempts {
        output.line(attempt_line(attempt, output))?;
    }
    let Some(lease) = &job.lease else { return Ok(()) };
    let since = lease.granted_at.map(words::time_of_day).unwrap_or_default();
    let holder = lease.holder.as_deref().unwrap_or("somebody");
    output.line(format_args!(
        "{since} running attempt {} at {holder}",
        lease.attempt.unwrap_or_default()
    ))
}

/// `12:00:05.002 succeeded attempt 1 after 31 ms`, with the reason when there is one.
pub(crate) fn attempt_line(attempt: &Attempt, output: &Output) -> String {
    let took = attempt.ended_at.saturating_sub(attempt.started_at).max(0).unsigned_abs();
    let end = output.paint(tone(&attempt.end), &attempt.end);
    let time = words::time_of_day(attempt.started_at);
    let line = format!("{time} {end} attempt {} after {}", attempt.attempt, words::span(took));
    match &attempt.reason {
        Some(reason) => format!("{line}: {}", words::cut(reason, PREVIEW_CHARS)),
        None => line,
    }
}

/// What a state or an attempt's end means to a person.
pub(crate) fn tone(word: &str) -> Tone {
    match word {
        "succeeded" => Tone::Good,
        "dead" | "failed" | "timed_out" | "expired" => Tone::Bad,
        "running" | "ready" | "unknown" | "unregistered" | "released" => Tone::Warning,
        _ => Tone::Faint,
    }
}

/// A look at the payload or the result; `part` names it in the path and among the flags.
async fn print_part(job: &OneJob, part: &str, api: &Api, output: &Output) -> Result<(), Failure> {
    let answer = match api.fetch(&job.path(Some(part))).await {
        Ok(answer) => answer,
        // Neither need be kept when a job is finished.
        Err(failure) if failure.exit == Exit::NotFound => return Ok(()),
        Err(failure) => return Err(failure),
    };
    if answer.body.is_empty() {
        return Ok(());
    }
    let kind = answer.content_type.as_deref().unwrap_or("unknown type");
    let size = words::size(answer.body.len() as u64);
    output.line("")?;
    output.line(output.paint(Tone::Faint, &format!("{part}, {size}, {kind}")))?;
    match std::str::from_utf8(&answer.body) {
        Ok(text) => output.line(words::cut(text, PREVIEW_CHARS)),
        Err(_) => output.line(format_args!("(not text; hence show ID --{part} prints the bytes)")),
    }
}
