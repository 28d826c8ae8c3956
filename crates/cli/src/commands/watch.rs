//! `hence watch`: follow one job to its end, or all queues live.

use std::collections::HashMap;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::queues;
use super::show::{attempt_line, tone};
use crate::api::{Api, Path};
use crate::clock;
use crate::failure::Failure;
use crate::output::{Column, Output, Tone, table_lines};
use crate::select::job_path;
use crate::wire::{self, Attempt, Job, Queue};
use crate::words;

pub(crate) const EXAMPLES: &str = "\
Examples:
  hence watch                                   all queues, once a second
  hence watch 01JB2Q…                           one job to its end; exit code 1 if it fails
  hence watch welcome --queue mail --key user:7
  hence watch --json | jq .                     one document per queue and second

A server that is restarted meanwhile is waited for, up to a minute. Times are UTC.";

/// How long one request waits for the job's end. Attempts that end meanwhile are shown after it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often a server that has answered before is asked in vain, with [`LOOK_EVERY`] between: for a
/// minute. A restart takes less, and a script that waits for a job should not hang for ever.
const ASKED_IN_VAIN_MAX: u32 = 60;

#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// The job to follow; without it, all queues are shown
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// The queue it is in [default: default]
    #[arg(long, value_name = "QUEUE", requires = "id")]
    queue: Option<String>,
    /// The key it runs under, if it has one
    #[arg(long, value_name = "KEY", requires = "id")]
    key: Option<String>,
    /// How often to look at the queues
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = words::parse_span)]
    interval: Duration,
    /// Show the queues so many times, then end
    #[arg(long, value_name = "COUNT", conflicts_with = "id")]
    times: Option<u64>,
}

pub(crate) async fn run(watch: Watch, api: &Api, output: &Output) -> Result<(), Failure> {
    match &watch.id {
        Some(id) => {
            let mut follower = Follower::new(id, &watch, api, output);
            follower.follow().await
        }
        None => overview(&watch, api, output).await,
    }
}

/// Follows one job.
struct Follower<'a> {
    api: &'a Api,
    output: &'a Output,
    id: &'a str,
    watch: &'a Watch,
    /// What was shown last, so that only news are shown.
    state: String,
    due_at: i64,
    attempts_shown: usize,
    /// Since when each attempt was waited for, as far as it was seen: the attempt's own record does
    /// not say.
    dues: HashMap<u32, i64>,
}

impl<'a> Follower<'a> {
    fn new(id: &'a str, watch: &'a Watch, api: &'a Api, output: &'a Output) -> Self {
        Follower {
            api,
            output,
            id,
            watch,
            state: String::new(),
            due_at: 0,
            attempts_shown: 0,
            dues: HashMap::new(),
        }
    }

    fn path(&self, verb: Option<&str>) -> Path {
        job_path(self.id, self.watch.queue.as_deref(), self.watch.key.as_deref(), verb)
    }

    async fn follow(&mut self) -> Result<(), Failure> {
        let mut patience = Patience::default();
        loop {
            let looked = self.look().await;
            let Some(job) = patience.bear(looked, self.output).await? else { continue };
            if job.is_final() {
                return ended(&job);
            }
            patience.bear(self.wait_for_news().await, self.output).await?;
        }
    }

    /// The job as it is; shows what is new of it.
    async fn look(&mut self) -> Result<Job, Failure> {
        let value = self.api.get(&self.path(None)).await?;
        let job: Job = wire::read(value.clone())?;
        if let Some(first) = job.scheduled_for {
            self.dues.entry(1).or_insert(job.waits_since(first));
        }
        self.show_attempts().await?;
        self.show_state(&job, &value)?;
        Ok(job)
    }

    async fn wait_for_news(&self) -> Result<Value, Failure> {
        let wait =
            self.path(Some("wait")).query("timeout", format!("{}ms", LOOK_EVERY.as_millis()));
        self.api.get_waiting(&wait, LOOK_EVERY).await
    }

    async fn show_attempts(&mut self) -> Result<(), Failure> {
        let attempts = wire::items(self.api.get(&self.path(Some("attempts"))).await?, "attempts")?;
        for value in attempts.into_iter().skip(self.attempts_shown) {
            self.attempts_shown += 1;
            if self.output.is_json() {
                self.output.json(&value)?;
                continue;
            }
            let attempt: Attempt = wire::read(value)?;
            let late = self
                .dues
                .get(&attempt.attempt)
                .map(|due| words::lateness(attempt.started_at, *due));
            let line = attempt_line(&attempt, self.output);
            self.output.line(match late {
                Some(late) => format!("{line} ({late})"),
                None => line,
            })?;
        }
        Ok(())
    }

    fn show_state(&mut self, job: &Job, value: &Value) -> Result<(), Failure> {
        if job.state == "scheduled" || job.state == "ready" {
            self.dues.insert(job.attempts + 1, job.waits_since(job.due_at));
        }
        if self.state == job.state && self.due_at == job.due_at {
            return Ok(());
        }
        self.state.clone_from(&job.state);
        self.due_at = job.due_at;
        if self.output.is_json() {
            return self.output.json(value);
        }
        let now = clock::now_ms();
        let state = self.output.paint(tone(&job.state), &job.state);
        let time = words::time_of_day(job.finished_at().unwrap_or(now));
        self.output.line(match job.state.as_str() {
            "scheduled" | "ready" => format!("{time} {state}, due {}", words::due(job.due_at, now)),
            _ => format!("{time} {state}"),
        })
    }
}

/// With a server that goes away: it is asked again for a while. One that has never answered is not
/// there.
#[derive(Default)]
struct Patience {
    answered: bool,
    asked_in_vain: u32,
}

impl Patience {
    /// What came of asking; nothing, after a pause, while the server is away.
    async fn bear<T>(
        &mut self,
        asked: Result<T, Failure>,
        output: &Output,
    ) -> Result<Option<T>, Failure> {
        let away = match self.judge(asked)? {
            Ok(answer) => return Ok(Some(answer)),
            Err(away) => away,
        };
        if self.asked_in_vain == 1 {
            output.warn(format_args!("{}; waiting for it to come back", away.message));
        }
        clock::sleep(LOOK_EVERY).await;
        Ok(None)
    }

    /// What came of asking; the inner failure is one to wait out.
    fn judge<T>(&mut self, asked: Result<T, Failure>) -> Result<Result<T, Failure>, Failure> {
        match asked {
            Ok(answer) => {
                *self = Patience { answered: true, asked_in_vain: 0 };
                Ok(Ok(answer))
            }
            Err(failure)
                if self.answered
                    && failure.is_passing()
                    && self.asked_in_vain < ASKED_IN_VAIN_MAX =>
            {
                self.asked_in_vain += 1;
                Ok(Err(failure))
            }
            Err(failure) => Err(failure),
        }
    }
}

fn ended(job: &Job) -> Result<(), Failure> {
    if job.state == "succeeded" {
        return Ok(());
    }
    let reason = job.finish.as_ref().and_then(|finish| finish.reason.clone());
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    Err(Failure::refused(format!("{} is {}{reason}", job.name_words(), job.state)))
}

async fn overview(watch: &Watch, api: &Api, output: &Output) -> Result<(), Failure> {
    let mut left = watch.times.unwrap_or(u64::MAX);
    let mut before: Option<(i64, u64)> = None;
    let mut patience = Patience::default();
    while left > 0 {
        let asked = api.get(&Path::new("/v1/queues")).await;
        let Some(answer) = patience.bear(asked, output).await? else { continue };
        let values = wire::items(answer, "queues")?;
        if output.is_json() {
            values.iter().try_for_each(|value| output.json(value))?;
        } else {
            let queues = values.into_iter().map(wire::read).collect::<Result<Vec<Queue>, _>>()?;
            let now = clock::now_ms();
            let done = queues.iter().map(|queue| queue.counts.succeeded).sum();
            draw(&queues, now, rate(before, now, done), api, output)?;
            before = Some((now, done));
        }
        left -= 1;
        if left > 0 {
            clock::sleep(watch.interval).await;
        }
    }
    Ok(())
}

/// Successes a second since the last look.
fn rate(before: Option<(i64, u64)>, now: i64, done: u64) -> Option<f64> {
    let (then, was) = before?;
    let seconds = (now - then) as f64 / 1_000.0;
    (seconds > 0.0).then(|| done.saturating_sub(was) as f64 / seconds)
}

fn draw(
    queues: &[Queue],
    now: i64,
    rate: Option<f64>,
    api: &Api,
    output: &Output,
) -> Result<(), Failure> {
    let columns: &[Column] = &queues::COLUMNS;
    let rows = queues.iter().map(|queue| queues::row(queue, now)).collect();
    let rate = rate.map(|rate| format!("  {rate:.0} succeeded/s")).unwrap_or_default();
    let title = format!("{}  {}{rate}", api.base(), words::time_of_day(now));
    let mut lines = vec![output.paint(Tone::Strong, &title)];
    lines.extend(table_lines(columns, rows));
    if queues.is_empty() {
        lines.push("no queues yet".to_owned());
    }
    if output.is_live() {
        return output.redraw(&lines);
    }
    lines.iter().try_for_each(|line| output.line(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;

    #[test]
    fn a_server_that_was_there_is_waited_for_and_not_for_ever() {
        let away = || Err::<(), Failure>(Failure::new(Exit::Unreachable, "no answer"));
        let mut patience = Patience::default();
        assert!(patience.judge(away()).is_err(), "it was never there");
        for _ in 0..2 {
            assert!(matches!(patience.judge(Ok(())), Ok(Ok(()))));
            for _ in 0..ASKED_IN_VAIN_MAX {
                assert!(matches!(patience.judge(away()), Ok(Err(_))));
            }
        }
        assert!(patience.judge(away()).is_err(), "it does not come back");
        assert!(matches!(patience.judge(Ok(())), Ok(Ok(()))));
        assert!(patience.judge::<()>(Err(Failure::refused("no"))).is_err(), "it is there");
    }

    #[test]
    fn a_rate_needs_two_looks() {
        assert_eq!(rate(None, 1_000, 5), None);
        assert_eq!(rate(Some((0, 5)), 2_000, 25), Some(10.0));
        assert_eq!(rate(Some((0, 5)), 0, 25), None);
    }
}
