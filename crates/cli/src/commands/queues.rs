//! `hence queues`: list queues, pause, resume, limit and remove them.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};

use crate::api::{Api, Path};
use crate::clock;
use crate::failure::Failure;
use crate::job_flags::put;
use crate::output::{Column, Output};
use crate::wire::{self, Queue};
use crate::words;

pub(crate) const EXAMPLES: &str = "\
Examples:
  hence queues                                  every queue, what it holds and its limits
  hence queues pause mail                       nothing is handed out; new jobs are still taken
  hence queues pause mail --direction both      nothing goes out, nothing comes in
  hence queues resume mail
  hence queues set mail --concurrency 10 --rate 100/min
  hence queues set mail --concurrency none      no limit again
  hence queues remove mail                      an empty queue is forgotten, with its counts";

#[derive(Debug, Args)]
pub(crate) struct Queues {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List all queues
    List,
    /// Show one queue
    Show {
        /// The queue
        name: String,
    },
    /// Stop handing out jobs, taking new ones, or both
    Pause {
        /// The queue
        name: String,
        /// Which way
        #[arg(long, value_enum, default_value_t = Direction::Out)]
        direction: Direction,
    },
    /// Hand out jobs and take new ones again
    Resume {
        /// The queue
        name: String,
        /// Which way
        #[arg(long, value_enum, default_value_t = Direction::Both)]
        direction: Direction,
    },
    /// Set limits
    Set(Set),
    /// Forget a queue that holds no job: its settings and its counts
    Remove {
        /// The queue
        name: String,
    },
}

#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new("limits").required(true).multiple(true)
        .args(["concurrency", "rate", "pending_max"])
))]
struct Set {
    /// The queue
    name: String,
    /// At most so many jobs run at once; `none` lifts the limit
    #[arg(long, value_name = "COUNT", value_parser = limit)]
    concurrency: Option<Limit>,
    /// At most so many jobs are started in a time: 10/s, 100/min; `none` lifts the limit
    #[arg(long, value_name = "COUNT/SPAN", value_parser = rate)]
    rate: Option<Rate>,
    /// At most so many jobs may be pending; `none` lifts the limit
    #[arg(long, value_name = "COUNT", value_parser = limit)]
    pending_max: Option<Limit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Direction {
    /// Nothing is handed out
    Out,
    /// New jobs are refused
    In,
    /// Both
    Both,
}

impl Direction {
    fn doors(self) -> Value {
        match self {
            Direction::Out => json!({"out": true}),
            Direction::In => json!({"in": true}),
            Direction::Both => json!({"in": true, "out": true}),
        }
    }
}

/// A limit to set, or none to lift it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit(Option<u64>);

/// A rate to set, or none to lift it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rate(Option<(u32, String)>);

fn limit(text: &str) -> Result<Limit, String> {
    if text == "none" {
        return Ok(Limit(None));
    }
    text.parse().map(|count| Limit(Some(count))).map_err(|_| "write a number, or `none`".to_owned())
}

fn rate(text: &str) -> Result<Rate, String> {
    if text == "none" {
        return Ok(Rate(None));
    }
    let problem = || "write a rate like 10/s, 100/min or 5/30s, or `none`".to_owned();
    let (count, span) = text.split_once('/').ok_or_else(problem)?;
    let count = count.parse().map_err(|_| problem())?;
    let span = if span.starts_with(|c: char| c.is_ascii_digit()) {
        span.to_owned()
    } else {
        format!("1{span}")
    };
    words::parse_span(&span).map_err(|_| problem())?;
    Ok(Rate(Some((count, span))))
}

pub(crate) async fn run(queues: Queues, api: &Api, output: &Output) -> Result<(), Failure> {
    let path = |name: &str| Path::new("/v1/queues").push(name);
    let answer = match queues.verb.unwrap_or(Verb::List) {
        Verb::List => return list(api, output).await,
        Verb::Show { name } => api.get(&path(&name)).await?,
        Verb::Pause { name, direction } => {
            api.post(&path(&name).push("pause"), &direction.doors()).await?
        }
        Verb::Resume { name, direction } => {
            api.post(&path(&name).push("resume"), &direction.doors()).await?
        }
        Verb::Set(set) => api.patch(&path(&set.name), &settings(&set)).await?,
        Verb::Remove { name } => {
            api.delete(&path(&name)).await?;
            output.say(format_args!("queue {name} is removed"));
            return Ok(());
        }
    };
    print(vec![answer], output)
}

fn settings(set: &Set) -> Value {
    let mut settings = Map::new();
    put(&mut settings, "concurrency", set.concurrency.map(|limit| limit.0));
    put(&mut settings, "pending_max", set.pending_max.map(|limit| limit.0));
    let rate = set.rate.as_ref().map(|rate| rate.0.as_ref());
    let rate = rate.map(|rate| rate.map(|(count, per)| json!({"count": count, "per": per})));
    put(&mut settings, "rate", rate);
    Value::Object(settings)
}

async fn list(api: &Api, output: &Output) -> Result<(), Failure> {
    let queues = wire::items(api.get(&Path::new("/v1/queues")).await?, "queues")?;
    if queues.is_empty() {
        output.say("no queues yet; the first job of a queue makes it");
    }
    print(queues, output)
}

fn print(queues: Vec<Value>, output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        return queues.iter().try_for_each(|queue| output.json(queue));
    }
    if queues.is_empty() {
        return Ok(());
    }
    let queues = queues.into_iter().map(wire::read).collect::<Result<Vec<Queue>, _>>()?;
    let now = clock::now_ms();
    output.table(&COLUMNS, queues.iter().map(|queue| row(queue, now)).collect())
}

pub(crate) const COLUMNS: [Column; 9] = [
    Column::text("QUEUE"),
    Column::number("PENDING"),
    Column::number("READY"),
    Column::number("RUNNING"),
    Column::number("DEAD"),
    Column::number("SUCCEEDED"),
    Column::number("FAILED"),
    Column::text("OLDEST"),
    Column::text("LIMITS"),
];

/// One queue in a table.
pub(crate) fn row(queue: &Queue, now: i64) -> Vec<String> {
    let counts = &queue.counts;
    vec![
        queue.name.clone(),
        counts.pending.to_string(),
        queue.ready.to_string(),
        counts.running.to_string(),
        counts.dead.to_string(),
        counts.succeeded.to_string(),
        counts.failed.to_string(),
        queue.oldest_ready.map_or_else(|| "-".to_owned(), |at| words::relative(at, now)),
        queue.limits_words(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_rates_as_typed() {
        assert_eq!(limit("5"), Ok(Limit(Some(5))));
        assert_eq!(limit("none"), Ok(Limit(None)));
        assert!(limit("many").is_err());
        assert_eq!(rate("10/s"), Ok(Rate(Some((10, "1s".to_owned())))));
        assert_eq!(rate("5/30s"), Ok(Rate(Some((5, "30s".to_owned())))));
        assert_eq!(rate("none"), Ok(Rate(None)));
        for bad in ["10", "s/10", "10/blink", "/s"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_lifted_limit_is_null_and_an_unnamed_one_is_absent() {
        let set = Set {
            name: "mail".to_owned(),
            concurrency: Some(Limit(None)),
            rate: Some(Rate(Some((10, "1s".to_owned())))),
            pending_max: None,
        };
        let expected = json!({"concurrency": null, "rate": {"count": 10, "per": "1s"}});
        assert_eq!(settings(&set), expected);
    }
}
