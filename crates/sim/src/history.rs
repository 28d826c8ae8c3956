//! A history: what producers, receivers and the harness saw, one event a line of JSON.
//!
//! Nothing in it is taken from the node under test, except the last line, the final state, which
//! is asked for through its public interface. Deliveries are stamped by whoever received them.
//! A call without an answer has an unknown outcome: it may or may not have been carried out.

use std::fmt;
use std::io::{BufRead, Write};

use anyhow::{Context, Result};
use hence_core::id::Token;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When, in milliseconds of the harness's own clock, which never jumps.
    pub t: u64,
    /// What the wall clock of the node's host showed, in milliseconds since 1970. Due times are
    /// judged by it.
    pub wall: i64,
    /// Who saw it.
    pub by: String,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "f", rename_all = "snake_case")]
pub enum What {
    /// The recording begins; no message travels longer than this.
    Begin {
        /// In milliseconds.
        flight_ms: u64,
        /// How many jobs of a queue the node keeps in memory, if its reads are recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window_jobs: Option<u64>,
    },
    /// Somebody asks the node for something.
    Ask {
        /// Marks the answer.
        call: u64,
        /// For what.
        verb: Verb,
    },
    /// The answer arrived.
    Told {
        /// To which question.
        call: u64,
        /// What it said.
        answer: Answer,
    },
    /// A delivery arrived at a receiver: a target, a handler or a worker.
    Received(Received),
    /// The receiver is done with it, or died with it.
    Ended {
        /// Which delivery.
        token: Stamp,
        /// In which way.
        how: How,
    },
    /// The node died; what it held in memory is gone.
    Died,
    /// The node stopped in good order: what it pushed and was not answered in time, it gave up.
    Stopped,
    /// Something was made to go wrong.
    Fault {
        /// What, in one word.
        kind: String,
        /// Which delivery it was about, if it was about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        about: Option<Stamp>,
    },
    /// The store answered a read of the node's own. What people ask to see is not recorded.
    Read(Read),
    /// For people; nobody is judged by it.
    Note {
        /// In words.
        text: String,
    },
    /// Everything the node has, at the end, after all faults were healed.
    Final(Final),
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum Verb {
    /// Accept a job.
    Submit(Submit),
    /// Make a waiting job due at another time.
    Move {
        /// Its name.
        job: String,
        /// When it is due.
        due_at: i64,
    },
    /// Take a job back.
    Cancel {
        /// Its name.
        job: String,
    },
    /// Make a waiting job due at once.
    RunNow {
        /// Its name.
        job: String,
    },
    /// Give a dead job all its attempts again.
    Replay {
        /// Its name.
        job: String,
    },
    /// Forget a finished job.
    Forget {
        /// Its name.
        job: String,
    },
    /// The job is done.
    Ack {
        /// Under which lease.
        token: Stamp,
    },
    /// The job is not done.
    Nack {
        /// Under which lease.
        token: Stamp,
    },
    /// Hold a lease longer.
    Extend {
        /// Which.
        token: Stamp,
        /// Until so long from now.
        lease_ms: u64,
    },
    /// Put a schedule.
    PutSchedule {
        /// Its name.
        id: String,
        /// Its first tick.
        start: i64,
        /// Between two ticks.
        every_ms: u64,
        /// What its jobs ask for.
        #[serde(default)]
        terms: Terms,
    },
    /// Pause, resume, trigger or remove a schedule.
    TouchSchedule {
        /// Its name.
        id: String,
    },
    /// Change a queue's settings.
    PutQueue {
        /// Which queue.
        queue: String,
        /// Nothing is handed out.
        paused: bool,
        /// At most so many at once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        concurrency: Option<u32>,
    },
}

/// A job as its producer asked for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Submit {
    /// Its full name.
    pub job: String,
    /// Its queue.
    pub queue: String,
    /// Its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// When it is due.
    pub due_at: i64,
    /// What it carries. Every intent has its own, and repeats of a submission have the same: it
    /// tells which submission a delivery belongs to.
    pub payload: String,
    /// Whether a repeat finds the job that stands, instead of replacing it.
    #[serde(default)]
    pub idempotent: bool,
    /// What it asked for besides.
    #[serde(default)]
    pub terms: Terms,
}

/// What a job asked for, as far as it can be judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Terms {
    /// Attempts in all.
    pub max_attempts: u32,
    /// The shortest delay after each failed attempt, the last one again and again.
    pub delays_ms: Vec<u64>,
    /// No delay is longer than this; a receiver's wish is cut to it.
    pub cap_ms: u64,
    /// How long one attempt may take.
    pub timeout_ms: u64,
    /// How long it can be looked at after its end.
    pub retention_ms: u64,
    /// It is not started later than this after it was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// It is never delivered again by itself when the end of an attempt is unknown.
    pub park: bool,
    /// Later jobs of its key go ahead while it waits for a retry.
    pub step_aside: bool,
    /// It is pulled by a worker.
    pub pulled: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Terms {
            max_attempts: 10,
            delays_ms: vec![1_000],
            cap_ms: 3_600_000,
            timeout_ms: 30_000,
            retention_ms: 3_600_000,
            expires_ms: None,
            park: false,
            step_aside: false,
            pulled: false,
        }
    }
}

/// What a question is answered with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It was done.
    Done,
    /// The job was accepted under this number.
    Accepted(u64),
    /// A job of this name stands already; it has this number.
    Kept(u64),
    /// It was not done, and will not be.
    Refused,
}

/// A delivery, as its receiver saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Received {
    /// The job's full name.
    pub job: String,
    /// The job's number.
    pub number: u64,
    /// Which attempt it says it is.
    pub attempt: u32,
    /// The token of its lease.
    pub token: Stamp,
    /// What it carried.
    pub payload: String,
    /// When its lease ends, by the wall clock.
    pub until: i64,
    /// The schedule and tick that made the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurrence: Option<(String, i64)>,
}

/// What is read from the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "snake_case")]
pub enum Read {
    /// What there is under these names.
    Names {
        /// Full names.
        names: Vec<String>,
    },
    /// The next jobs of a queue.
    Page {
        /// Which queue.
        queue: String,
    },
}

/// How a receiver let go of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// The work is done, and it said so.
    Done,
    /// The work is not done, and it said so.
    Failed {
        /// It wants to be left alone so long.
        #[serde(default)]
        retry_after_ms: u64,
    },
    /// It said that trying again is pointless.
    Hopeless,
    /// It gave the job back: the attempt does not count.
    Released,
    /// It died with it, the work undone.
    Crashed,
    /// It died with it, the work done.
    CrashedDone,
}

/// Everything the node has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Final {
    /// All jobs it knows.
    pub jobs: Vec<FinalJob>,
    /// All queues it knows.
    pub queues: Vec<FinalQueue>,
    /// All schedules it knows.
    pub schedules: Vec<FinalSchedule>,
}

/// A job, at the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FinalJob {
    /// Its full name.
    pub job: String,
    /// Its number.
    pub number: u64,
    /// Its queue.
    pub queue: String,
    /// Its state, as the API says it.
    pub state: String,
    /// When it was to run at first.
    pub scheduled_for: i64,
    /// When it is due next.
    pub due_at: i64,
    /// What it carries; none when that is not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// Its attempts that ended.
    #[serde(default)]
    pub attempts: Vec<FinalAttempt>,
}

/// An attempt that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FinalAttempt {
    /// Its number.
    pub attempt: u32,
    /// Its token.
    pub token: Stamp,
    /// When it was handed out.
    pub started_at: i64,
    /// When its end was recorded.
    pub ended_at: i64,
    /// How, as the API says it.
    pub end: String,
}

/// A queue's counts, at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FinalQueue {
    /// Its name.
    pub queue: String,
    /// Live and not running.
    pub pending: u64,
    /// Running.
    pub running: u64,
    /// Dead now.
    pub dead: u64,
    /// Accepted since the beginning.
    pub submitted: u64,
    /// Deliveries since the beginning.
    pub delivered: u64,
    /// Successes since the beginning.
    pub succeeded: u64,
    /// Deaths since the beginning.
    pub died: u64,
    /// Cancelled since the beginning.
    pub cancelled: u64,
    /// Expired since the beginning.
    pub expired: u64,
    /// Replaced since the beginning.
    pub replaced: u64,
}

/// A schedule, at the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FinalSchedule {
    /// Its name.
    pub id: String,
    /// Its ticks that were accounted for, in order.
    pub occurrences: Vec<Tick>,
}

/// A tick that was accounted for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tick {
    /// Its instant.
    pub at: i64,
    /// When that was decided.
    pub decided_at: i64,
    /// What was decided.
    pub fate: TickFate,
}

/// What became of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TickFate {
    /// It made the job of this number.
    Ran(u64),
    /// It and the ticks before it, so many in all, made no job: skipped, or stood for by a later
    /// one.
    Coalesced(u64),
    /// Somebody asked for it, outside the rhythm.
    Triggered(u64),
}

/// A token that reads and writes itself as text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub Token);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Stamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Stamp).map_err(de::Error::custom)
    }
}

/// Reads a history; empty lines and lines that begin with `#` are for people.
pub fn read(from: impl BufRead) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    for (at, line) in from.lines().enumerate() {
        let line = line.with_context(|| format!("line {}", at + 1))?;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let event = serde_json::from_str(&line);
        events.push(event.with_context(|| format!("line {} is no event: {line}", at + 1))?);
    }
    Ok(events)
}

/// Writes a history.
pub fn write(events: &[Event], mut to: impl Write) -> Result<()> {
    for event in events {
        serde_json::to_writer(&mut to, event)?;
        to.write_all(b"\n")?;
    }
    Ok(())
}
