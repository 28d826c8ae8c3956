//! What happened, as it is judged and as it is told.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::clock::SimClock;
use super::faults::Fault;
use crate::check::subject;
use crate::history::{Event, How, Read, Stamp, Verb, What};

/// The recording. A clone is the same one.
#[derive(Clone)]
pub(super) struct Story {
    clock: Arc<SimClock>,
    pages: Arc<Mutex<Pages>>,
}

#[derive(Default)]
struct Pages {
    events: Vec<Event>,
    calls: u64,
    fired: BTreeMap<Fault, usize>,
}

impl Story {
    pub(super) fn new(clock: Arc<SimClock>) -> Self {
        Story { clock, pages: Arc::default() }
    }

    /// This happened now.
    pub(super) fn tell(&self, by: &str, what: What) {
        let (t, wall) = (self.clock.true_ms(), self.clock.wall());
        self.lock().events.push(Event { t, wall, by: by.to_owned(), what });
    }

    /// A question is asked now; the answer carries this mark.
    pub(super) fn ask(&self, by: &str, verb: Verb) -> u64 {
        let mut pages = self.lock();
        pages.calls += 1;
        let call = pages.calls;
        drop(pages);
        self.tell(by, What::Ask { call, verb });
        call
    }

    /// A fault fired.
    pub(super) fn fault(&self, fault: Fault, about: Option<Stamp>) {
        *self.lock().fired.entry(fault).or_default() += 1;
        self.tell("fate", What::Fault { kind: fault.as_str().to_owned(), about });
    }

    /// For people only.
    pub(super) fn note(&self, by: &str, text: impl Into<String>) {
        self.tell(by, What::Note { text: text.into() });
    }

    /// How often a fault fired.
    pub(super) fn fired(&self, fault: Fault) -> usize {
        self.lock().fired.get(&fault).copied().unwrap_or_default()
    }

    /// Everything, and the recording is empty again.
    pub(super) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.lock().events)
    }

    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What has to do with the job of this name, and what befell the node meanwhile: a large world's
/// story is too long to be read whole.
pub fn about<'a>(events: &'a [Event], name: &str) -> Vec<&'a Event> {
    let (mut tokens, mut calls) = (BTreeSet::new(), BTreeSet::new());
    let mut told = Vec::new();
    for event in events {
        let is_about = match &event.what {
            What::Received(received) => received.job == name,
            What::Ask { verb: Verb::Ack { token } | Verb::Nack { token }, .. }
            | What::Ask { verb: Verb::Extend { token, .. }, .. }
            | What::Ended { token, .. }
            | What::Fault { about: Some(token), .. } => tokens.contains(token),
            What::Ask { verb, .. } => subject(verb) == Some(name),
            What::Told { call, .. } => calls.contains(call),
            What::Read(Read::Names { names }) => names.iter().any(|other| other == name),
            What::Read(Read::Page { .. }) => false,
            What::Fault { about: None, kind } => {
                let of_others = ["net-", "store-", "target-", "worker-"];
                !of_others.iter().any(|others| kind.starts_with(others))
            }
            What::Begin { .. }
            | What::Died
            | What::Stopped
            | What::Note { .. }
            | What::Final(_) => true,
        };
        if !is_about {
            continue;
        }
        match &event.what {
            What::Received(received) => drop(tokens.insert(&received.token)),
            What::Ask { call, .. } => drop(calls.insert(call)),
            _ => {}
        }
        told.push(event);
    }
    told
}

/// One line for a person.
pub struct Line<'a>(pub &'a Event);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event { t, wall, by, what } = self.0;
        write!(f, "{:>9.3} s  {wall}  {by:<10} ", *t as f64 / 1_000.0)?;
        match what {
            What::Begin { flight_ms, .. } => {
                write!(f, "begins; messages take up to {flight_ms} ms")
            }
            What::Ask { call, verb } => write!(f, "asks #{call}: {}", Said(verb)),
            What::Told { call, answer } => write!(f, "is told #{call}: {answer:?}"),
            What::Received(got) => {
                let (job, number, attempt, token) = (&got.job, got.number, got.attempt, got.token);
                write!(f, "gets {job} ({number}), attempt {attempt}, as {token}")
            }
            What::Ended { token, how } => match how {
                How::Done => write!(f, "has done {token}"),
                How::Failed { retry_after_ms } => {
                    write!(f, "has not done {token}; again after {retry_after_ms} ms")
                }
                How::Hopeless => write!(f, "will never do {token}"),
                How::Released => write!(f, "gives {token} back"),
                How::Crashed => write!(f, "dies with {token}"),
                How::CrashedDone => write!(f, "has done {token}, and dies"),
            },
            What::Died => write!(f, "dies"),
            What::Stopped => write!(f, "stops"),
            What::Fault { kind, about: None } => write!(f, "{kind}"),
            What::Fault { kind, about: Some(token) } => write!(f, "{kind}: {token}"),
            What::Read(Read::Names { names }) => write!(f, "is asked for {}", names.join(", ")),
            What::Read(Read::Page { queue }) => write!(f, "is asked for a page of {queue}"),
            What::Note { text } => write!(f, "{text}"),
            What::Final(last) => {
                let (jobs, queues) = (last.jobs.len(), last.queues.len());
                write!(f, "ends with {jobs} jobs in {queues} queues")
            }
        }
    }
}

struct Said<'a>(&'a Verb);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Verb::Submit(new) => write!(f, "submit {} for {}", new.job, new.due_at),
            Verb::Move { job, due_at } => write!(f, "move {job} to {due_at}"),
            Verb::Cancel { job } => write!(f, "cancel {job}"),
            Verb::RunNow { job } => write!(f, "run {job} now"),
            Verb::Replay { job } => write!(f, "replay {job}"),
            Verb::Forget { job } => write!(f, "forget {job}"),
            Verb::Ack { token } => write!(f, "ack {token}"),
            Verb::Nack { token } => write!(f, "nack {token}"),
            Verb::Extend { token, lease_ms } => write!(f, "extend {token} by {lease_ms} ms"),
            Verb::PutSchedule { id, every_ms, .. } => write!(f, "tick {id} every {every_ms} ms"),
            Verb::TouchSchedule { id } => write!(f, "touch {id}"),
            Verb::PutQueue { queue, paused, concurrency } => {
                let state = if *paused { "paused" } else { "open" };
                write!(f, "make {queue} {state}, at once {concurrency:?}")
            }
        }
    }
}
