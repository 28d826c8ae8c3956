//! `hence work`: run a command for each job of some queues. The command's exit code decides: 0 is
//! done, 75 gives the job back, anything else is a failed attempt.

mod command;
mod lease;
mod process;
mod tally;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::lease::Leases;
use self::tally::{Tally, Verdict};
use crate::api::Api;
use crate::clock;
use crate::failure::Failure;
use crate::output::Output;
use crate::signals::Signals;
use crate::words::parse_span;

pub(crate) const EXAMPLES: &str = "\
Examples:
  hence work mail -- ./send-mail                      one at a time, until stopped
  hence work urgent mail --concurrency 8 -- ./send    `urgent` first, eight at once
  hence work mail --once -- cat                       one job, then end
  hence work mail --drain -- ./send                   until nothing is ready, then end
  hence work thumbs --keep-output -- ./thumbnail      stdout is kept as the job's result

The command gets the payload on stdin, and HENCE_JOB_ID, HENCE_QUEUE, HENCE_KEY, HENCE_ATTEMPT,
HENCE_MAX_ATTEMPTS, HENCE_DUE_AT and HENCE_LEASE_TOKEN in its environment. It ends with
  0    the job is done
  75   not now: given back, the attempt does not count (EX_TEMPFAIL)
  else a failed attempt; the last line on stderr is kept as the reason
What it leaves running in the background is not waited for, and what that writes is not kept.
A command that cannot be started is nobody's failed attempt: its job is given back, and the worker
ends. With --once the exit code is 1 unless the job is done; with --drain, if any attempt failed.
The lease is extended while the command runs; if it is lost all the same, the command is killed.
SIGTERM, SIGINT, SIGHUP or SIGQUIT: take no more jobs, let commands finish for as long as --grace
says, then kill them and give their jobs back. A second one, at least a second later: give back at
once. Under nohup, SIGHUP is ignored.";

/// How long one request waits for a job: below what proxies cut.
const POLL: Duration = Duration::from_secs(20);
/// How long to wait before asking a server again that did not answer.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct Work {
    /// The queues to take jobs from, the most important first
    #[arg(value_name = "QUEUE", required = true)]
    queues: Vec<String>,
    /// The command to run for each job, after --
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<OsString>,
    /// Run so many at once
    #[arg(
        long,
        short,
        value_name = "COUNT",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    concurrency: u32,
    /// How long a lease is; it is extended while the command runs
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = parse_span)]
    lease: Duration,
    /// Keep what the command writes to stdout as the result of jobs that were added with
    /// --keep-result; of others it is dropped
    #[arg(long)]
    keep_output: bool,
    /// The media type of the result
    #[arg(long, value_name = "TYPE", requires = "keep_output")]
    output_type: Option<String>,
    /// How long a job that was given back (exit code 75) waits
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = parse_span)]
    retry_delay: Duration,
    /// End after one job
    #[arg(long, conflicts_with = "drain")]
    once: bool,
    /// End when no job is ready
    #[arg(long)]
    drain: bool,
    /// How long to let commands finish when asked to stop
    #[arg(long, value_name = "SPAN", default_value = "25s", value_parser = parse_span)]
    grace: Duration,
    /// How this worker is called in the list of leases [default: host and process]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

pub(crate) async fn run(work: Work, api: &Api, output: &Output) -> Result<(), Failure> {
    work.command.first().map_or(Ok(()), |program| command::check(program))?;
    let name = work.name.clone().unwrap_or_else(default_name);
    let (stop, stopping) = watch::channel(Stop::Running);
    let worker = Worker {
        leases: Leases::new(api.clone(), name.clone(), work.queues.clone(), work.lease),
        work: Arc::new(work),
        output: output.clone(),
        stopping,
    };
    output.say(format_args!("{name} works on {}", worker.work.queues.join(", ")));
    let signals = tokio::spawn(watch_signals(stop, worker.work.grace, output.clone())?);
    let ended = worker.run().await;
    signals.abort();
    ended
}

/// How soon to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stop {
    /// Not at all.
    Running,
    /// Take no more jobs, finish those at hand.
    Finish,
    /// Kill the commands and give their jobs back.
    Now,
}

/// The first signal asks to finish; a second one, or the end of the grace, asks to stop at once.
fn watch_signals(
    stop: watch::Sender<Stop>,
    grace: Duration,
    output: Output,
) -> Result<impl Future<Output = ()>, Failure> {
    let signals = Signals::listen()?;
    Ok(async move {
        let signals = signals.first().await;
        output.say("finishing what runs; a second signal gives it back at once");
        let _ = stop.send(Stop::Finish);
        clock::within(grace, signals.second()).await;
        let _ = stop.send(Stop::Now);
    })
}

/// What the loop needs.
struct Worker {
    leases: Leases,
    work: Arc<Work>,
    output: Output,
    stopping: watch::Receiver<Stop>,
}

impl Worker {
    async fn run(self) -> Result<(), Failure> {
        let mut under_way = JoinSet::new();
        let mut tally = Tally::default();
        loop {
            let free = self.work.concurrency as usize - under_way.len();
            if free == 0 {
                tally.count(under_way.join_next().await);
                continue;
            }
            let Some(jobs) = self.next(free, &mut under_way, &mut tally).await? else { break };
            let none = jobs.is_empty();
            for job in jobs {
                let (leases, work) = (self.leases.clone(), Arc::clone(&self.work));
                let (output, stopping) = (self.output.clone(), self.stopping.clone());
                under_way.spawn(async move {
                    process::handle(job, &leases, &work, &output, stopping).await
                });
            }
            if self.work.once && !none {
                break;
            }
            if self.work.drain && none && under_way.is_empty() {
                break;
            }
            if self.work.drain && none {
                // Something runs that may fail and be ready again: look once more when it ended.
                tally.count(under_way.join_next().await);
            }
        }
        while let Some(ended) = under_way.join_next().await {
            tally.count(Some(ended));
        }
        tally.conclude(&self.work, &self.output)
    }

    /// The next jobs, or none at all when it is time to stop. Commands that end meanwhile are
    /// counted, but the request for jobs is not given up for them: a job handed out to a request
    /// that nobody reads any more would be lost to everybody until its lease ends.
    async fn next(
        &self,
        free: usize,
        under_way: &mut JoinSet<Verdict>,
        tally: &mut Tally,
    ) -> Result<Option<Vec<lease::Leased>>, Failure> {
        let max = if self.work.once { 1 } else { free };
        let wait = if self.work.drain { Duration::ZERO } else { POLL };
        let mut stopping = self.stopping.clone();
        let mut request = std::pin::pin!(self.leases.take(max, wait));
        loop {
            if tally.is_hopeless() {
                return Ok(None);
            }
            tokio::select! {
                answer = &mut request => return self.answered(answer).await.map(Some),
                Some(ended) = under_way.join_next() => tally.count(Some(ended)),
                _ = stopping.wait_for(|stop| *stop >= Stop::Finish) => return Ok(None),
            }
        }
    }

    /// A worker outlives its server: it waits for it to come back. A refusal is another matter.
    async fn answered(
        &self,
        answer: Result<Vec<lease::Leased>, Failure>,
    ) -> Result<Vec<lease::Leased>, Failure> {
        match answer {
            Err(failure) if failure.is_passing() && !self.work.once && !self.work.drain => {
                self.output.warn(&failure.message);
                clock::sleep(PAUSE).await;
                Ok(Vec::new())
            }
            other => other,
        }
    }
}

fn default_name() -> String {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    format!("{host}-{}", std::process::id())
}
