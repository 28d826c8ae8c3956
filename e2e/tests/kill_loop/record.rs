//! The history of a run, in the form that the checker judges: what was asked and told, what
//! arrived and how it ended, each stamped by whoever saw it, by the one clock of this machine.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hence_e2e::{Arrival, clock};
use hence_sim::history::{Answer, Event, How, Received, Stamp, Verb, What};

/// The longest that a message is on its way. What was sent before a kill may be read by its
/// receiver after it, on a machine that is busy.
const FLIGHT_MS: u64 = 500;

/// How long a push may take, as its job says.
pub(crate) const TIMEOUT_MS: u64 = 30_000;

/// What was seen so far.
pub(crate) struct Record {
    begun_us: i64,
    pages: Mutex<Pages>,
}

#[derive(Default)]
struct Pages {
    /// With the microsecond, by which they are put in order.
    seen: Vec<(i64, &'static str, What)>,
    calls: u64,
}

impl Record {
    pub(crate) fn new() -> Self {
        // A whole millisecond, so that what is the same instant by one clock is so by the other.
        let begun_us = clock::now_ms() * 1_000;
        let record = Record { begun_us, pages: Mutex::default() };
        record.tell("harness", What::Begin { flight_ms: FLIGHT_MS, window_jobs: None });
        record
    }

    /// This happens now.
    pub(crate) fn tell(&self, by: &'static str, what: What) {
        self.tell_at(clock::now_us(), by, what);
    }

    /// This happened then.
    pub(crate) fn tell_at(&self, at_us: i64, by: &'static str, what: What) {
        self.lock().seen.push((at_us, by, what));
    }

    /// This is asked now; the answer carries the mark.
    pub(crate) fn ask(&self, by: &'static str, verb: Verb) -> u64 {
        let mut pages = self.lock();
        pages.calls += 1;
        let call = pages.calls;
        pages.seen.push((clock::now_us(), by, What::Ask { call, verb }));
        call
    }

    /// This is the answer. None: there is none, and nobody knows.
    pub(crate) fn told(&self, by: &'static str, call: u64, answer: Option<Answer>) {
        if let Some(answer) = answer {
            self.tell(by, What::Told { call, answer });
        }
    }

    /// Everything in order, with what arrived at the receiver.
    pub(crate) fn history(&self, arrivals: &[Arrival]) -> Vec<Event> {
        let mut seen = self.lock().seen.clone();
        for arrival in arrivals {
            let received = received(arrival);
            let token = received.token;
            seen.push((arrival.at_us, "receiver", What::Received(received)));
            if let Some(ended_us) = arrival.ended_us {
                seen.push((ended_us, "receiver", What::Ended { token, how: how(arrival) }));
            }
        }
        seen.sort_by_key(|(at_us, ..)| *at_us);
        let event = |(at_us, by, what): (i64, &str, What)| Event {
            t: u64::try_from((at_us - self.begun_us) / 1_000).unwrap_or_default(),
            wall: at_us / 1_000,
            by: by.to_owned(),
            what,
        };
        seen.into_iter().map(event).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job's full name, as histories write it.
pub(crate) fn name(queue: &str, key: Option<&str>, id: &str) -> String {
    format!("{queue}/{}/{id}", key.unwrap_or("-"))
}

/// A token from its text.
pub(crate) fn stamp(text: &str) -> Stamp {
    Stamp(text.parse().unwrap_or_else(|_| panic!("{text:?} is no token")))
}

fn received(arrival: &Arrival) -> Received {
    let hence_e2e::Token { shard, epoch, counter } = arrival.token;
    let (_, number) = arrival.delivery_id.rsplit_once('#').unwrap_or_default();
    Received {
        job: name("pushed", arrival.key.as_deref(), &arrival.job),
        number: number.parse().unwrap_or_else(|_| panic!("{:?}", arrival.delivery_id)),
        attempt: arrival.attempt,
        token: stamp(&format!("{shard}.{epoch}.{counter}")),
        payload: String::from_utf8_lossy(&arrival.body).into_owned(),
        until: arrival.at_us / 1_000 + TIMEOUT_MS as i64,
        occurrence: None,
    }
}

fn how(arrival: &Arrival) -> How {
    match arrival.status {
        Some(200..300) => How::Done,
        Some(_) => How::Failed { retry_after_ms: 0 },
        // The connection was lost before it could say anything.
        None => How::Crashed,
    }
}
