//! `hence schedules`: list schedules, put, pause, trigger and remove them.

use clap::{ArgGroup, Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::api::{Api, Path};
use crate::clock;
use crate::failure::Failure;
use crate::job_flags::{JobFlags, TargetFlags, put};
use crate::output::{Column, Output};
use crate::wire::{self, Job, Occurrence, Schedule};
use crate::words;

pub(crate) const EXAMPLES: &str = "\
Examples:
  hence schedules                                          every schedule and its next tick
  hence schedules put report --every 15m https://example.com/report
  hence schedules put sweep --every 1h --worker --queue jobs --payload sweep
  hence schedules occurrences report                       what became of its last ticks
  hence schedules trigger report                           one job now, outside its rhythm
  hence schedules pause report
  hence schedules remove report";

/// Rows of one page: as many as the server gives.
const PAGE: usize = 1_000;

#[derive(Debug, Args)]
pub(crate) struct Schedules {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List all schedules
    List,
    /// Put a schedule, new or changed
    Put(Box<Put>),
    /// Show a schedule
    Show {
        /// The schedule
        id: String,
    },
    /// Make no jobs until it is resumed
    Pause {
        /// The schedule
        id: String,
    },
    /// Make jobs again
    Resume {
        /// The schedule
        id: String,
    },
    /// Make one job now, outside the rhythm
    Trigger {
        /// The schedule
        id: String,
    },
    /// Remove a schedule; the jobs it made stay
    Remove {
        /// The schedule
        id: String,
    },
    /// Show what became of its last ticks
    Occurrences {
        /// The schedule
        id: String,
        /// Show at most so many
        #[arg(long, value_name = "COUNT", default_value_t = 20)]
        limit: usize,
    },
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).args(["url", "worker", "handler"])))]
struct Put {
    /// Names the schedule
    id: String,
    /// The interval: 30s, 15m, 1 day
    #[arg(long, value_name = "SPAN")]
    every: String,
    /// The first tick; all others are whole intervals after it [default: one interval from now]
    #[arg(long, value_name = "TIME")]
    start: Option<String>,
    /// Put it paused
    #[arg(long)]
    paused: bool,
    /// The queue its jobs go to [default: default]
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// The key its jobs run under
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    #[command(flatten)]
    target: TargetFlags,
    #[command(flatten)]
    job: JobFlags,
}

pub(crate) async fn run(schedules: Schedules, api: &Api, output: &Output) -> Result<(), Failure> {
    let path = |id: &str| Path::new("/v1/schedules").push(id);
    let nothing = json!({});
    let answer = match schedules.verb.unwrap_or(Verb::List) {
        Verb::List => return list(api, output).await,
        Verb::Put(put) => api.put(&path(&put.id), &request(&put)?).await?,
        Verb::Show { id } => api.get(&path(&id)).await?,
        Verb::Pause { id } => api.post(&path(&id).push("pause"), &nothing).await?,
        Verb::Resume { id } => api.post(&path(&id).push("resume"), &nothing).await?,
        Verb::Trigger { id } => {
            return triggered(api.post(&path(&id).push("trigger"), &nothing).await?, output);
        }
        Verb::Remove { id } => {
            api.delete(&path(&id)).await?;
            output.say(format_args!("schedule {id} is removed; the jobs it made stay"));
            return Ok(());
        }
        Verb::Occurrences { id, limit } => {
            let path = path(&id).push("occurrences").query("limit", limit);
            return occurrences(api.get(&path).await?, output);
        }
    };
    print(vec![answer], output)
}

fn request(schedule: &Put) -> Result<Value, Failure> {
    let mut job = schedule.job.json(&schedule.target)?;
    put(&mut job, "queue", schedule.queue.as_ref());
    put(&mut job, "key", schedule.key.as_ref());
    let mut request = Map::new();
    put(&mut request, "every", Some(&schedule.every));
    put(&mut request, "start", schedule.start.as_ref());
    put(&mut request, "paused", schedule.paused.then_some(true));
    put(&mut request, "job", Some(job));
    Ok(Value::Object(request))
}

async fn list(api: &Api, output: &Output) -> Result<(), Failure> {
    let all = all(api).await?;
    if all.is_empty() {
        output.say("no schedules; put one with: hence schedules put ID --every 15m URL");
    }
    print(all, output)
}

/// Every schedule, page by page.
pub(crate) async fn all(api: &Api) -> Result<Vec<Value>, Failure> {
    let mut all = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let path = Path::new("/v1/schedules").query("limit", PAGE);
        let page = api.get(&path.query_some("cursor", cursor.as_deref())).await?;
        cursor = wire::next_cursor(&page);
        all.extend(wire::items(page, "schedules")?);
        if cursor.is_none() {
            return Ok(all);
        }
    }
}

fn print(schedules: Vec<Value>, output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        return schedules.iter().try_for_each(|schedule| output.json(schedule));
    }
    if schedules.is_empty() {
        return Ok(());
    }
    let schedules = schedules.into_iter().map(wire::read).collect::<Result<Vec<Schedule>, _>>()?;
    let now = clock::now_ms();
    let columns = [
        Column::text("SCHEDULE"),
        Column::text("EVERY"),
        Column::text("NEXT"),
        Column::text("QUEUE"),
        Column::text("TARGET"),
        Column::text(""),
    ];
    output.table(&columns, schedules.iter().map(|schedule| row(schedule, now)).collect())
}

fn row(schedule: &Schedule, now: i64) -> Vec<String> {
    let next = schedule.next_at.map_or_else(|| "-".to_owned(), |at| words::relative(at, now));
    vec![
        schedule.id.clone(),
        schedule.every.clone().unwrap_or_else(|| "-".to_owned()),
        next,
        schedule.job.queue.clone(),
        words::cut(&schedule.job.target.words(), 60),
        if schedule.paused { "paused".to_owned() } else { String::new() },
    ]
}

fn triggered(answer: Value, output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        return output.json(&answer);
    }
    let job: Job = wire::read(answer)?;
    output.line(&job.id)?;
    output.say(format_args!(
        "{}: due {}",
        job.name_words(),
        words::due(job.due_at, clock::now_ms())
    ));
    Ok(())
}

fn occurrences(answer: Value, output: &Output) -> Result<(), Failure> {
    let rows = wire::items(answer, "occurrences")?;
    if output.is_json() {
        return rows.iter().try_for_each(|row| output.json(row));
    }
    if rows.is_empty() {
        output.say("it has not ticked yet");
        return Ok(());
    }
    let rows = rows.into_iter().map(wire::read).collect::<Result<Vec<Occurrence>, _>>()?;
    let columns =
        [Column::text("TICK"), Column::text("FATE"), Column::text("DECIDED"), Column::text("JOB")];
    let cells = |row: &Occurrence| {
        vec![
            words::rfc3339(row.at),
            fate_words(row),
            row.decided_at
                .map_or_else(|| "-".to_owned(), |decided| words::lateness(decided, row.at)),
            row.job_number.map_or_else(|| "-".to_owned(), |number| format!("number {number}")),
        ]
    };
    output.table(&columns, rows.iter().map(cells).collect())
}

fn fate_words(row: &Occurrence) -> String {
    match row.ticks {
        Some(ticks) => format!("{} ({} missed)", row.fate, words::count(ticks, "tick")),
        None => row.fate.clone(),
    }
}
