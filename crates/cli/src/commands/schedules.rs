//! `hence schedules`: list schedules, put, pause, trigger, backfill and remove them, and see what
//! became of their ticks.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::schedule_flags::Put;
use crate::api::{Api, Path};
use crate::clock;
use crate::failure::Failure;
use crate::job_flags::put;
use crate::output::{Column, Output};
use crate::wire::{self, Job, Occurrence, Schedule};
use crate::words;

pub(crate) const EXAMPLES: &str = "\
Examples:
  hence schedules                                          every schedule and its next tick
  hence schedules put report --when 'every weekday at 9am' --tz Europe/Paris https://example.com/
  hence schedules put sweep --when '*/15 * * * *' --worker --queue jobs --payload sweep
  hence schedules put sync --every 10m --misfire 'last 3' --overlap queue-one --worker
  hence schedules show report                              its plan, policies and next ticks
  hence schedules history report --fate late,skipped       what became of its ticks
  hence schedules trigger report                           one job now, outside its rhythm
  hence schedules pause report --note 'the printer is broken'
  hence schedules backfill report --from 2026-09-01 --pace 1s
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
    /// Put a schedule, new or changed; what is not said is the default again
    Put(Box<Put>),
    /// Show a schedule: its plan, policies, next ticks and progress
    Show {
        /// The schedule
        id: String,
    },
    /// Make no jobs until it is resumed
    Pause {
        /// The schedule
        id: String,
        /// Why, for whoever looks
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
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
    /// Make the jobs of past ticks that made none
    Backfill(Backfill),
    /// Remove a schedule and its history; the jobs it made stay
    Remove {
        /// The schedule
        id: String,
    },
    /// Show what became of its ticks
    #[command(alias = "occurrences")]
    History(History),
}

#[derive(Debug, Args)]
struct Backfill {
    /// The schedule
    id: String,
    /// Ticks from this moment on
    #[arg(long, value_name = "TIME", required_unless_present = "cancel")]
    from: Option<String>,
    /// … up to and with this one [default: now]
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Make jobs at least this far apart [default: all at once]
    #[arg(long, value_name = "SPAN")]
    pace: Option<String>,
    /// End the one that is under way; the jobs it made stay
    #[arg(long, conflicts_with_all = ["from", "to", "pace"])]
    cancel: bool,
}

#[derive(Debug, Args)]
struct History {
    /// The schedule
    id: String,
    /// Only ticks at or after this moment
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only ticks up to and with this moment
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Only these: ran, late, skipped, coalesced, triggered, backfilled
    #[arg(long, value_name = "FATES")]
    fate: Option<String>,
    /// The oldest first
    #[arg(long)]
    oldest: bool,
    /// Show at most so many
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = limit)]
    limit: u16,
}

fn limit(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(limit) if (1..=PAGE as u16).contains(&limit) => Ok(limit),
        _ => Err(format!("write a number from 1 to {PAGE}")),
    }
}

pub(crate) async fn run(schedules: Schedules, api: &Api, output: &Output) -> Result<(), Failure> {
    let path = |id: &str| Path::new("/v1/schedules").push(id);
    let nothing = json!({});
    let answer = match schedules.verb.unwrap_or(Verb::List) {
        Verb::List => return list(api, output).await,
        Verb::Put(put) => api.put(&path(&put.id), &put.request()?).await?,
        Verb::Show { id } => api.get(&path(&id)).await?,
        Verb::Pause { id, note } => {
            let mut request = Map::new();
            put(&mut request, "note", note);
            api.post(&path(&id).push("pause"), &request).await?
        }
        Verb::Resume { id } => api.post(&path(&id).push("resume"), &nothing).await?,
        Verb::Trigger { id } => {
            return triggered(api.post(&path(&id).push("trigger"), &nothing).await?, output);
        }
        Verb::Backfill(fill) => backfill(&fill, api).await?,
        Verb::Remove { id } => {
            api.delete(&path(&id)).await?;
            output.say(format_args!("schedule {id} is removed; the jobs it made stay"));
            return Ok(());
        }
        Verb::History(history) => return show_history(&history, api, output).await,
    };
    show(answer, output)
}

async fn backfill(fill: &Backfill, api: &Api) -> Result<Value, Failure> {
    let path = Path::new("/v1/schedules").push(&fill.id).push("backfill");
    if fill.cancel {
        return api.delete(&path).await;
    }
    let mut request = Map::new();
    put(&mut request, "from", fill.from.as_ref());
    put(&mut request, "to", fill.to.as_ref());
    put(&mut request, "pace", fill.pace.as_ref());
    api.post(&path, &request).await
}

/// One schedule, with all that is to be said about it.
fn show(answer: Value, output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        return output.json(&answer);
    }
    let schedule: Schedule = wire::read(answer)?;
    let now = clock::now_ms();
    let mut fields = vec![
        ("schedule", schedule.id.clone()),
        ("when", schedule.when.join("; and ")),
        ("words", format!("{} ({})", schedule.words, schedule.zone)),
        ("exact", schedule.canonical.join("; and ")),
        ("jobs", format!("queue {}, {}", schedule.job.queue, schedule.job.target.words())),
        ("misfire", schedule.misfire.clone()),
        ("overlap", schedule.overlap.clone()),
    ];
    fields.extend(schedule.spread.clone().map(|spread| ("spread", spread)));
    fields.extend(schedule.pause.as_ref().map(|pause| ("paused", pause.words(now))));
    let idle = schedule.idle.clone().filter(|idle| idle != "paused");
    fields.extend(idle.map(|idle| ("no tick", words::idle(&idle).to_owned())));
    fields.extend(schedule.next.iter().map(|at| ("next", words::due(*at, now))));
    let last = |at: i64| ("last", format!("{}, {}", words::rfc3339(at), words::relative(at, now)));
    fields.extend(schedule.last_at.map(last));
    fields.push(("made", words::count(schedule.fired, "job")));
    fields.extend((schedule.waiting > 0).then(|| {
        ("waiting", format!("{} for the end of a job", words::count(schedule.waiting, "tick")))
    }));
    fields.extend(schedule.backfill.as_ref().map(|fill| ("backfill", fill.words())));
    output.fields(&fields)
}

async fn list(api: &Api, output: &Output) -> Result<(), Failure> {
    let all = all(api).await?;
    if all.is_empty() {
        output.say(
            "no schedules; put one with: hence schedules put ID --when 'every day at 9am' URL",
        );
    }
    print(all, output)
}

/// Every schedule, page by page.
async fn all(api: &Api) -> Result<Vec<Value>, Failure> {
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
        Column::text("WHEN"),
        Column::text("ZONE"),
        Column::text("NEXT"),
        Column::text("QUEUE"),
        Column::text("TARGET"),
        Column::text(""),
    ];
    output.table(&columns, schedules.iter().map(|schedule| row(schedule, now)).collect())
}

fn row(schedule: &Schedule, now: i64) -> Vec<String> {
    let next = schedule.next_at.map_or_else(|| "-".to_owned(), |at| words::relative(at, now));
    let remark = match (&schedule.pause, &schedule.idle) {
        (Some(pause), _) if !pause.note.is_empty() => format!("paused: {}", pause.note),
        (_, idle) => idle.clone().unwrap_or_default(),
    };
    vec![
        schedule.id.clone(),
        words::cut(&schedule.when.join("; and "), 40),
        schedule.zone.clone(),
        next,
        schedule.job.queue.clone(),
        words::cut(&schedule.job.target.words(), 60),
        words::cut(&remark, 40),
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

/// Page by page: of few fates a page may be nearly empty.
async fn show_history(history: &History, api: &Api, output: &Output) -> Result<(), Failure> {
    let limit = usize::from(history.limit);
    let (mut rows, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let path = Path::new("/v1/schedules").push(&history.id).push("occurrences");
        let path = path
            .query("limit", limit - rows.len())
            .query_some("from", history.from.as_ref())
            .query_some("to", history.to.as_ref())
            .query_some("fate", history.fate.as_ref())
            .query_some("order", history.oldest.then_some("oldest"))
            .query_some("cursor", cursor.as_deref());
        let page = api.get(&path).await?;
        cursor = wire::next_cursor(&page);
        rows.extend(wire::items(page, "occurrences")?);
        if cursor.is_none() || rows.len() >= limit {
            return occurrences(rows, history, output);
        }
    }
}

fn occurrences(rows: Vec<Value>, history: &History, output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        return rows.iter().try_for_each(|row| output.json(row));
    }
    if rows.is_empty() {
        let narrowed = history.from.is_some() || history.to.is_some() || history.fate.is_some();
        output.say(if narrowed { "no such tick" } else { "it has not ticked yet" });
        return Ok(());
    }
    let rows = rows.into_iter().map(wire::read).collect::<Result<Vec<Occurrence>, _>>()?;
    let columns =
        [Column::text("TICK"), Column::text("FATE"), Column::text("DECIDED"), Column::text("JOB")];
    let cells = |row: &Occurrence| {
        let decided =
            row.decided_at.map_or_else(|| "-".to_owned(), |at| words::lateness(at, row.at));
        let job = row.job.clone().unwrap_or_else(|| "-".to_owned());
        vec![tick_words(row), fate_words(row), decided, job]
    };
    output.table(&columns, rows.iter().map(cells).collect())
}

fn tick_words(row: &Occurrence) -> String {
    match row.first {
        Some(first) => format!("{} … {}", words::rfc3339(first), words::rfc3339(row.at)),
        None => words::rfc3339(row.at),
    }
}

fn fate_words(row: &Occurrence) -> String {
    let mut fate = row.fate.clone();
    if let Some(reason) = &row.reason {
        fate = format!("{fate}: {reason}");
    }
    match row.ticks {
        Some(ticks) => format!("{fate} ({})", words::count(ticks, "tick")),
        None => fate,
    }
}
