//! `hence demo`: the life of a few jobs in a few seconds, on a server of its own that is killed in
//! between. The receiver is in this process, so the demo shows what arrived, not what was promised.

mod child;
mod receiver;

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use self::child::Server;
use self::receiver::{Arrival, Receiver};
use crate::api::Path;
use crate::clock;
use crate::failure::Failure;
use crate::output::{Output, Tone};
use crate::signals::Signals;
use crate::wire::{self, Accepted, Job};
use crate::words;

pub(crate) const EXAMPLES: &str = "\
Examples:
  hence demo              a private server on a free port, removed at the end
  hence demo --json       one document per event

Exit code 0 only if every job arrived and none was early.";

/// The whole demo, at most: what has not arrived by then is lost.
const AT_MOST: Duration = Duration::from_secs(10);
/// When the server is killed, and how long it stays dead.
const KILLED_AFTER_MS: i64 = 2_300;
const DEAD_FOR: Duration = Duration::from_millis(400);

#[derive(Debug, Args)]
pub(crate) struct Demo {}

/// One job of the demo.
struct Act {
    id: &'static str,
    due_in_ms: u64,
    fails_first: bool,
    /// Why it is in the demo.
    note: &'static str,
}

/// The jobs. `missed` is due while the server is dead; `later` is due after it came back.
const ACTS: [Act; 5] = [
    Act { id: "first", due_in_ms: 1_000, fails_first: false, note: "simply fires" },
    Act {
        id: "flaky",
        due_in_ms: 1_200,
        fails_first: true,
        note: "is refused once and tried again",
    },
    Act { id: "second", due_in_ms: 2_000, fails_first: false, note: "simply fires" },
    Act {
        id: "missed",
        due_in_ms: 2_500,
        fails_first: false,
        note: "is due while the server is dead",
    },
    Act {
        id: "later",
        due_in_ms: 4_500,
        fails_first: false,
        note: "is due after the server came back",
    },
];

pub(crate) async fn run(_: Demo, output: &Output) -> Result<(), Failure> {
    // Before there is anything to clean up: a signal must not leave a server behind.
    let signals = Signals::listen()?;
    let directory = tempfile::Builder::new().prefix("hence-demo-").tempdir();
    let directory =
        directory.map_err(|error| Failure::io("making a directory for the demo", &error))?;
    let receiver =
        Receiver::start(ACTS.iter().filter(|act| act.fails_first).map(|act| act.id)).await?;
    let server = Server::new(directory.path());
    let mut stage = Stage { output, server, receiver, begin: clock::now_ms(), jobs: Vec::new() };
    let judged = tokio::select! {
        judged = stage.perform() => Some(judged),
        _ = signals.first() => None,
    };
    let (judged, stopped) = match judged {
        Some(judged) => (judged, stage.server.stop().await),
        None => (Err(interrupted()), stage.server.kill().await),
    };
    drop(stage);
    // Explicitly, so that a directory that cannot be removed is mentioned.
    let removed = directory.close();
    judged?;
    stopped?;
    removed.map_err(|error| Failure::io("removing the demo's directory", &error))
}

fn interrupted() -> Failure {
    Failure::refused("the demo was ended by a signal before it was over")
}

/// A job as the demo knows it.
struct Played {
    id: &'static str,
    due_at: i64,
    arrived: Option<i64>,
}

struct Stage<'a> {
    output: &'a Output,
    server: Server<'a>,
    receiver: Receiver,
    begin: i64,
    jobs: Vec<Played>,
}

impl Stage<'_> {
    /// From the start of the server to the verdict.
    async fn perform(&mut self) -> Result<(), Failure> {
        self.server.start().await?;
        self.begin = clock::now_ms();
        match clock::within(AT_MOST, self.play()).await {
            Some(Ok(())) => self.judge().await,
            Some(Err(failure)) => Err(failure),
            None => Err(self.lost()),
        }
    }

    async fn play(&mut self) -> Result<(), Failure> {
        self.tell("server started", Tone::Strong, json!({"address": self.server.api()?.base()}))?;
        for act in &ACTS {
            self.schedule(act).await?;
        }
        let kill_at = self.begin + KILLED_AFTER_MS;
        self.receive_until(kill_at).await?;
        self.server.kill().await?;
        self.tell("server killed with -9", Tone::Bad, json!({}))?;
        clock::sleep(DEAD_FOR).await;
        self.tell("server starts again on the same directory", Tone::Strong, json!({}))?;
        self.server.start().await?;
        self.receive_until(i64::MAX).await
    }

    async fn schedule(&mut self, act: &Act) -> Result<(), Failure> {
        let job = json!({
            "id": act.id,
            "in": format!("{}ms", act.due_in_ms),
            "url": self.receiver.url(act.id),
            "payload": {"hello": act.id},
            "retry": {"delay": "500ms", "jitter_percent": 0},
        });
        let accepted: Accepted =
            wire::read(self.server.api()?.post(&Path::new("/v1/jobs"), &job).await?)?;
        self.jobs.push(Played { id: act.id, due_at: accepted.due_at, arrived: None });
        let due = self.offset(accepted.due_at);
        let what = format!("{} scheduled for {due}: {}", act.id, act.note);
        self.tell(
            &what,
            Tone::Faint,
            json!({"job": act.id, "due_at": words::rfc3339(accepted.due_at)}),
        )
    }

    /// Shows what arrives until this instant, or until everything has arrived.
    async fn receive_until(&mut self, until: i64) -> Result<(), Failure> {
        while self.jobs.iter().any(|job| job.arrived.is_none()) {
            let left = until.saturating_sub(clock::now_ms());
            if left <= 0 {
                return Ok(());
            }
            let left = Duration::from_millis(left.unsigned_abs()).min(AT_MOST);
            match clock::within(left, self.receiver.next()).await {
                Some(Some(arrival)) => self.arrived(&arrival)?,
                Some(None) => return Err(Failure::refused("the demo's receiver ended")),
                None => return Ok(()),
            }
        }
        Ok(())
    }

    fn arrived(&mut self, arrival: &Arrival) -> Result<(), Failure> {
        let Some(job) = self.jobs.iter_mut().find(|job| job.id == arrival.job) else {
            return Ok(());
        };
        if arrival.accepted {
            job.arrived.get_or_insert(arrival.at);
        }
        // The header says when this attempt was due; the first one was due when we asked for it.
        let due =
            if arrival.attempt == 1 { job.due_at } else { arrival.due_at.unwrap_or(job.due_at) };
        let late = words::lateness(arrival.at, due);
        let (verb, tone) = if arrival.accepted {
            ("delivered", Tone::Good)
        } else {
            ("refused (503)", Tone::Warning)
        };
        let what = format!("{} {verb}, attempt {} ({late})", arrival.job, arrival.attempt);
        let facts = json!({
            "job": arrival.job,
            "attempt": arrival.attempt,
            "accepted": arrival.accepted,
            "late_ms": arrival.at - due,
        });
        self.tell_at(arrival.at, &what, tone, facts)
    }

    /// Everything arrived, nothing was early, and the server agrees.
    async fn judge(&mut self) -> Result<(), Failure> {
        if self.jobs.iter().any(|job| job.arrived.is_none()) {
            return Err(self.lost());
        }
        let early = self.jobs.iter().filter(|job| job.arrived.is_some_and(|at| at < job.due_at));
        if let Some(job) = early.into_iter().next() {
            return Err(Failure::refused(format!("{} was delivered before it was due", job.id)));
        }
        for job in &self.jobs {
            let wait = Path::new("/v1/jobs").push(job.id).push("wait").query("timeout", "2s");
            self.server.api()?.get_waiting(&wait, Duration::from_secs(2)).await?;
            let shown: Job =
                wire::read(self.server.api()?.get(&Path::new("/v1/jobs").push(job.id)).await?)?;
            if shown.state != "succeeded" {
                return Err(Failure::refused(format!(
                    "{} arrived, but is {}",
                    job.id, shown.state
                )));
            }
        }
        let count = self.jobs.len();
        self.tell(
            &format!("all {count} jobs arrived, none early, one success each"),
            Tone::Good,
            json!({"jobs": count}),
        )
    }

    fn lost(&self) -> Failure {
        let missing = self.jobs.iter().filter(|job| job.arrived.is_none()).map(|job| job.id);
        let missing: Vec<&str> = missing.collect();
        Failure::refused(format!("the demo did not end in time; missing: {}", missing.join(", ")))
    }

    fn tell(&self, what: &str, tone: Tone, facts: Value) -> Result<(), Failure> {
        self.tell_at(clock::now_ms(), what, tone, facts)
    }

    fn tell_at(&self, at: i64, what: &str, tone: Tone, mut facts: Value) -> Result<(), Failure> {
        if self.output.is_json() {
            facts["at"] = json!(words::rfc3339(at));
            facts["event"] = json!(what);
            return self.output.json(&facts);
        }
        let offset = self.offset(at);
        self.output.line(format_args!("{offset:>8}  {}", self.output.paint(tone, what)))
    }

    /// Seconds since the beginning: `+2.305s`.
    fn offset(&self, at: i64) -> String {
        format!("+{:.3}s", (at - self.begin) as f64 / 1_000.0)
    }
}
