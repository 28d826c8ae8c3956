//! `hence add`: schedule a job, or many from a file.

use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path as FilePath;
use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use indicatif::ProgressBar;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::api::{Api, Path};
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::job_flags::{DueFlags, JobFlags, TargetFlags, put};
use crate::output::{Output, Tone};
use crate::wire::{self, Accepted};
use crate::words;

pub(crate) const EXAMPLES: &str = "\
Examples:
  hence add https://example.com/hook --in 5m --payload '{\"user\": 7}'
  hence add https://example.com/hook --at '7pm tomorrow' --tz Europe/Paris
  hence add https://example.com/hook --at 2030-01-01T09:00:00Z -H 'Authorization: Bearer x'
  hence add --worker --queue mail --key user:7 --id welcome --payload-file letter.txt
  hence add --handler thumbnails --retry-attempts 3 --retry-fixed 10s
  hence add --many jobs.jsonl        one JSON job a line, as POST /v1/jobs takes it; - is stdin

Without --at and --in the job is due now. With --many, lines that are refused are named on stderr
(with --json as documents), the others are scheduled, and the exit code is 1.";

/// Jobs in one request of `--many`: half of what the server takes.
const BATCH_JOBS: usize = 500;
/// Bytes in one request of `--many`: well below what the server takes.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// Refusals of `--many` that people are shown one by one; beyond them only the count is said.
const REFUSALS_SHOWN: u64 = 20;

/// What is said of one job; in a file each line says it of its own.
const OF_ONE_JOB: [&str; 27] = [
    "method",
    "headers",
    "at",
    "in",
    "tz",
    "queue",
    "key",
    "id",
    "on_conflict",
    "payload",
    "payload_file",
    "content_type",
    "retry_attempts",
    "retry_fixed",
    "retry_first",
    "retry_factor",
    "retry_delays",
    "retry_cap",
    "retry_jitter",
    "retry_max_age",
    "timeout",
    "expires_at",
    "expires_in",
    "retention",
    "keep_result",
    "key_on_failure",
    "on_unknown",
];

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).args(["url", "worker", "handler", "many"])))]
#[command(group(ArgGroup::new("when").args(["at", "in", "expires_at"]).multiple(true)))]
pub(crate) struct Add {
    #[command(flatten)]
    target: TargetFlags,
    /// Schedule every job of this file: one JSON object a line; - is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_ONE_JOB)]
    many: Option<PathBuf>,
    #[command(flatten)]
    due: DueFlags,
    /// The queue it goes to [default: default]
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Jobs of one key run one at a time, in order of due time
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Names the job within its queue and key [default: drawn by the server]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// What if a job of this name exists [default: replace]
    #[arg(long, value_name = "CHOICE", value_enum)]
    on_conflict: Option<OnConflict>,
    /// Not started later than this: "friday 6pm", RFC 3339 or Unix time
    #[arg(long, value_name = "TIME", conflicts_with = "expires_in")]
    expires_at: Option<String>,
    #[command(flatten)]
    job: JobFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnConflict {
    /// The old one never runs
    Replace,
    /// The old one stays as it is
    Keep,
    /// This one is refused
    Reject,
}

impl OnConflict {
    const fn as_str(self) -> &'static str {
        match self {
            OnConflict::Replace => "replace",
            OnConflict::Keep => "keep",
            OnConflict::Reject => "reject",
        }
    }
}

pub(crate) async fn run(add: Add, api: &Api, output: &Output) -> Result<(), Failure> {
    if let Some(file) = &add.many {
        return many(file, api, output).await;
    }
    let answer = api.post(&Path::new("/v1/jobs"), &request(&add)?).await?;
    if output.is_json() {
        return output.json(&answer);
    }
    let job: Accepted = wire::read(answer)?;
    output.line(&job.id)?;
    let due = words::due(job.due_at, clock::now_ms());
    output.say(format_args!("{} {}: due {due}", job.name_words(), job.how));
    if let Some(understood) = &job.understood {
        output.say(format_args!("understood as {}", understood.words));
    }
    Ok(())
}

fn request(add: &Add) -> Result<Value, Failure> {
    let mut job = add.job.json(&add.target)?;
    add.due.add_to(&mut job);
    put(&mut job, "expires_at", add.expires_at.as_ref());
    put(&mut job, "queue", add.queue.as_ref());
    put(&mut job, "key", add.key.as_ref());
    put(&mut job, "id", add.id.as_ref());
    put(&mut job, "on_conflict", add.on_conflict.map(OnConflict::as_str));
    Ok(Value::Object(job))
}

/// What became of the jobs of a file.
#[derive(Debug, Default)]
struct Tally {
    accepted: u64,
    refused: u64,
    /// Why ids are not printed any more. The jobs are scheduled all the same.
    unprinted: Option<Failure>,
}

impl Tally {
    fn refuse(&mut self, line: u64, why: &str, output: &Output) {
        self.refused += 1;
        if output.is_json() || self.refused <= REFUSALS_SHOWN {
            output.refused_line(line, why);
        }
    }
}

async fn many(file: &FilePath, api: &Api, output: &Output) -> Result<(), Failure> {
    let (reader, bytes) = open(file)?;
    let bar = output.progress(bytes, "scheduling");
    let mut tally = Tally::default();
    let sent = send_all(file, reader, &bar, api, output, &mut tally).await;
    bar.finish_and_clear();
    if let Err(failure) = sent {
        // Whoever adds the rest later must know.
        output.warn(format_args!("{} accepted until then", words::count(tally.accepted, "job")));
        return Err(failure);
    }
    conclude(tally, output)
}

/// Sends the jobs of all lines. A line that is none is refused like one that the server refuses:
/// those around it are scheduled.
async fn send_all(
    file: &FilePath,
    reader: Box<dyn BufRead>,
    bar: &ProgressBar,
    api: &Api,
    output: &Output,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let mut batch = Batch::default();
    for (index, line) in reader.lines().enumerate() {
        let number = index as u64 + 1;
        let line = match line {
            Ok(line) => line,
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                tally.refuse(number, "not JSON: it is not UTF-8", output);
                continue;
            }
            Err(error) => {
                return Err(Failure::io(format_args!("reading {}", file.display()), &error));
            }
        };
        bar.inc(line.len() as u64 + 1);
        if line.trim().is_empty() {
            continue;
        }
        match RawValue::from_string(line) {
            Ok(job) => batch.push(number, job),
            Err(error) => tally.refuse(number, &format!("not JSON: {error}"), output),
        }
        if batch.is_full() {
            submit(&mut batch, api, output, tally).await?;
        }
    }
    submit(&mut batch, api, output, tally).await
}

fn conclude(tally: Tally, output: &Output) -> Result<(), Failure> {
    let accepted = words::count(tally.accepted, "job");
    if tally.refused > 0 {
        let message = format!("{accepted} accepted, {} refused", tally.refused);
        return Err(Failure::new(Exit::Refused, message)
            .fix("correct the lines named above and add them again"));
    }
    output.say(format_args!("{accepted} accepted"));
    match tally.unprinted {
        // Whoever read the ids had enough of them.
        None | Some(Failure { exit: Exit::Quiet, .. }) => Ok(()),
        Some(failure) => Err(failure),
    }
}

/// Jobs that wait to be sent, with the lines they came from.
#[derive(Debug, Default)]
struct Batch {
    lines: Vec<u64>,
    /// As they were typed: a payload must not be rewritten on its way.
    jobs: Vec<Box<RawValue>>,
    bytes: usize,
}

/// The body of a request with many jobs.
#[derive(Serialize)]
struct Jobs {
    jobs: Vec<Box<RawValue>>,
}

impl Batch {
    fn push(&mut self, line: u64, job: Box<RawValue>) {
        self.lines.push(line);
        self.bytes += job.get().len();
        self.jobs.push(job);
    }

    fn is_full(&self) -> bool {
        self.jobs.len() >= BATCH_JOBS || self.bytes >= BATCH_BYTES
    }
}

/// Sends the batch; each job is answered for itself, in order.
async fn submit(
    batch: &mut Batch,
    api: &Api,
    output: &Output,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let Batch { lines, jobs, .. } = std::mem::take(batch);
    if jobs.is_empty() {
        return Ok(());
    }
    let answer = api.post(&Path::new("/v1/jobs"), &Jobs { jobs }).await?;
    let answers = wire::items(answer, "jobs")?;
    for (line, answer) in lines.iter().zip(answers) {
        match wire::refusal(&answer) {
            None => {
                tally.accepted += 1;
                if tally.unprinted.is_none() {
                    tally.unprinted = output.line(accepted_line(answer, output)?).err();
                }
            }
            Some(why) => tally.refuse(*line, &why, output),
        }
    }
    Ok(())
}

fn accepted_line(answer: Value, output: &Output) -> Result<String, Failure> {
    if output.is_json() {
        return Ok(answer.to_string());
    }
    let job: Accepted = wire::read(answer)?;
    Ok(output.paint(Tone::Strong, &job.id))
}

fn open(file: &FilePath) -> Result<(Box<dyn BufRead>, Option<u64>), Failure> {
    if file.as_os_str() == "-" {
        return Ok((Box::new(BufReader::new(std::io::stdin())), None));
    }
    let problem = |error| Failure::io(format_args!("opening {}", file.display()), &error);
    let opened = std::fs::File::open(file).map_err(problem)?;
    let bytes = opened.metadata().map_err(problem)?.len();
    Ok((Box::new(BufReader::new(opened)), Some(bytes)))
}
