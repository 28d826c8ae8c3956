//! `hence jobs`: list jobs, page by page.

use clap::Args;
use serde_json::Value;

use crate::api::{Api, Path};
use crate::clock;
use crate::failure::Failure;
use crate::output::{Column, Output};
use crate::select::Filter;
use crate::wire::{self, Job};
use crate::words;

pub(crate) const EXAMPLES: &str = "\
Examples:
  hence jobs                                what is pending or running
  hence jobs --queue mail --state dead      what failed for good in `mail`
  hence jobs --key user:7 --state succeeded,dead,cancelled,expired
  hence jobs --all --json | jq .id          all of them, one JSON document a line";

/// Rows of one page: as many as the server gives.
const PAGE: usize = 1_000;

/// Characters of a target or a reason that are shown: a row stays a line on most screens.
const TEXT_CHARS: usize = 60;

/// For an empty list without `--state`: whoever looks for a dead job must not think it lost.
const NONE_OPEN: &str =
    "no such job waits or runs; for ended ones: --state succeeded,dead,cancelled,expired";

#[derive(Debug, Args)]
pub(crate) struct Jobs {
    #[command(flatten)]
    filter: Filter,
    /// Show at most so many
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 50,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    limit: u32,
    /// Show all, however many there are
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

pub(crate) async fn run(jobs: Jobs, api: &Api, output: &Output) -> Result<(), Failure> {
    let mut left = if jobs.all { usize::MAX } else { jobs.limit as usize };
    let mut cursor: Option<String> = None;
    let mut shown = 0;
    while left > 0 {
        let path = jobs.filter.apply(Path::new("/v1/jobs")).query("limit", left.min(PAGE));
        let page = api.get(&path.query_some("cursor", cursor.as_deref())).await?;
        cursor = wire::next_cursor(&page);
        let rows = wire::items(page, "jobs")?;
        left = left.saturating_sub(rows.len());
        shown += rows.len();
        print(rows, output)?;
        if cursor.is_none() {
            break;
        }
    }
    if shown == 0 {
        let open = jobs.filter.states.is_empty();
        output.say(if open { NONE_OPEN } else { "no jobs match" });
    } else if cursor.is_some() {
        output.say(format_args!("the first {shown} are shown; --all shows all"));
    }
    Ok(())
}

fn print(rows: Vec<Value>, output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        return rows.iter().try_for_each(|row| output.json(row));
    }
    if rows.is_empty() {
        return Ok(());
    }
    let now = clock::now_ms();
    let jobs = rows.into_iter().map(wire::read).collect::<Result<Vec<Job>, _>>()?;
    let mut columns = vec![
        Column::text("STATE"),
        Column::text("DUE"),
        Column::text("QUEUE"),
        Column::text("KEY"),
        Column::text("ID"),
        Column::number("ATTEMPTS"),
        Column::text("TARGET"),
    ];
    let mut rows: Vec<Vec<String>> = jobs.iter().map(|job| row(job, now)).collect();
    // Only where there is one: jobs that wait have none, and lines are wide enough.
    if jobs.iter().any(|job| job.reason().is_some()) {
        columns.push(Column::text("REASON"));
        for (row, job) in rows.iter_mut().zip(&jobs) {
            row.push(words::cut(job.reason().unwrap_or("-"), TEXT_CHARS));
        }
    }
    output.table(&columns, rows)
}

fn row(job: &Job, now: i64) -> Vec<String> {
    vec![
        job.state.clone(),
        words::relative(job.finished_at().unwrap_or(job.due_at), now),
        job.queue.clone(),
        job.key.clone().unwrap_or_else(|| "-".to_owned()),
        job.id.clone(),
        job.attempts.to_string(),
        words::cut(&job.target.words(), TEXT_CHARS),
    ]
}
