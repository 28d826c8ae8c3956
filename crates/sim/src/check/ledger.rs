//! A history put in order: calls with their answers, jobs with their deliveries. It draws no
//! conclusions beyond those that several properties share.

use std::collections::BTreeMap;
use std::ptr;

use crate::history::{
    Answer, Event, Final, FinalJob, How, Read, Received, Stamp, Submit, Terms, Verb, What,
};

/// A history put in order.
pub struct Ledger<'a> {
    /// The longest that a message travels.
    pub flight_ms: u64,
    /// How many jobs of a queue the node keeps in memory, if its reads were recorded.
    pub window_jobs: Option<u64>,
    /// What the node read from its store, in order.
    pub reads: Vec<Fetched<'a>>,
    /// All questions, in the order they were asked.
    pub calls: Vec<Call<'a>>,
    /// All deliveries, in the order they arrived.
    pub deliveries: Vec<Delivery<'a>>,
    /// All jobs that anybody saw, by number.
    pub jobs: BTreeMap<u64, Job<'a>>,
    /// When the node died, or stopped.
    pub deaths: Vec<u64>,
    /// Faults that were about one delivery.
    pub mishaps: Vec<Stamp>,
    /// What the node had at the end.
    pub last: Option<End<'a>>,
    by_job: BTreeMap<&'a str, Vec<usize>>,
    by_token: BTreeMap<Stamp, Vec<usize>>,
}

/// The final state, and when it was taken.
#[derive(Clone, Copy)]
pub struct End<'a> {
    /// When.
    pub t: u64,
    /// The same by the wall clock.
    pub wall: i64,
    /// The highest it ever showed.
    pub wall_max: i64,
    /// What there was.
    pub state: &'a Final,
}

/// A question and its answer.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// When it was asked.
    pub asked: u64,
    /// The same by the wall clock.
    pub asked_wall: i64,
    /// What was asked.
    pub verb: &'a Verb,
    /// When the answer came, and what it said; none: the outcome is unknown.
    pub told: Option<(u64, &'a Answer)>,
    /// What the wall clock showed when the answer came.
    pub told_wall: Option<i64>,
    /// The highest that it had shown by then.
    pub told_wall_max: Option<i64>,
}

/// Something that was read from the store.
#[derive(Clone, Copy)]
pub struct Fetched<'a> {
    /// When.
    pub t: u64,
    /// The highest that the wall clock had shown by then.
    pub wall_max: i64,
    /// In which life of the node, counted from the first.
    pub life: usize,
    /// What.
    pub read: &'a Read,
}

/// A delivery and how it ended.
#[derive(Clone, Copy)]
pub struct Delivery<'a> {
    /// When it arrived.
    pub t: u64,
    /// The highest that the wall clock had shown by then.
    pub wall_max: i64,
    /// What arrived.
    pub received: &'a Received,
    /// When its receiver let go of it (also by the wall clock), and how.
    pub ended: Option<(u64, i64, How)>,
}

/// A job and what is known of it.
#[derive(Default)]
pub struct Job<'a> {
    /// The submission that made it, when one did.
    pub submit: Option<usize>,
    /// Its deliveries, in order.
    pub deliveries: Vec<usize>,
    /// What became of it.
    pub last: Option<&'a FinalJob>,
}

impl Call<'_> {
    /// Not refused: it was carried out, or may have been.
    pub fn may_have_happened(&self) -> bool {
        !matches!(self.told, Some((_, Answer::Refused)))
    }

    /// Answered, and not with a refusal.
    pub fn succeeded_at(&self) -> Option<u64> {
        self.told.filter(|(_, answer)| **answer != Answer::Refused).map(|(t, _)| t)
    }
}

impl<'a> Ledger<'a> {
    /// Puts a history in order.
    pub fn new(events: &'a [Event]) -> Self {
        let mut ledger = Ledger {
            flight_ms: 0,
            window_jobs: None,
            reads: Vec::new(),
            calls: Vec::new(),
            deliveries: Vec::new(),
            jobs: BTreeMap::new(),
            deaths: Vec::new(),
            mishaps: Vec::new(),
            last: None,
            by_job: BTreeMap::new(),
            by_token: BTreeMap::new(),
        };
        let mut marks = BTreeMap::new();
        let mut tokens = BTreeMap::new();
        let mut wall_max = i64::MIN;
        for event in events {
            wall_max = wall_max.max(event.wall);
            match &event.what {
                What::Begin { flight_ms, window_jobs } => {
                    (ledger.flight_ms, ledger.window_jobs) = (*flight_ms, *window_jobs);
                }
                What::Ask { call, verb } => {
                    marks.insert(*call, ledger.calls.len());
                    let (asked, asked_wall) = (event.t, event.wall);
                    let (told, told_wall, told_wall_max) = (None, None, None);
                    let call = Call { asked, asked_wall, verb, told, told_wall, told_wall_max };
                    ledger.calls.push(call);
                }
                What::Told { call, answer } => {
                    if let Some(at) = marks.get(call) {
                        // A repeated message brings a second answer; the first is what counted.
                        let call = &mut ledger.calls[*at];
                        call.told.get_or_insert((event.t, answer));
                        call.told_wall.get_or_insert(event.wall);
                        call.told_wall_max.get_or_insert(wall_max);
                    }
                }
                What::Received(received) => {
                    tokens.insert(received.token, ledger.deliveries.len());
                    let (t, ended) = (event.t, None);
                    ledger.deliveries.push(Delivery { t, wall_max, received, ended });
                }
                What::Ended { token, how } => {
                    if let Some(at) = tokens.get(token) {
                        ledger.deliveries[*at].ended = Some((event.t, event.wall, *how));
                    }
                }
                What::Died | What::Stopped => ledger.deaths.push(event.t),
                What::Read(read) => {
                    let (t, life) = (event.t, ledger.deaths.len());
                    ledger.reads.push(Fetched { t, wall_max, life, read });
                }
                What::Note { .. } => {}
                What::Fault { about, .. } => ledger.mishaps.extend(*about),
                What::Final(state) => {
                    let (t, wall) = (event.t, event.wall);
                    ledger.last = Some(End { t, wall, wall_max, state });
                }
            }
        }
        ledger.sort_jobs();
        ledger
    }

    /// Which job each delivery and each submission belongs to.
    fn sort_jobs(&mut self) {
        let mut by_payload: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, call) in self.calls.iter().enumerate() {
            if let Some(name) = subject(call.verb) {
                self.by_job.entry(name).or_default().push(at);
            }
            if let Some(token) = lease(call.verb) {
                self.by_token.entry(token).or_default().push(at);
            }
            let Verb::Submit(submit) = call.verb else { continue };
            by_payload.entry(&submit.payload).or_default().push(at);
            match call.told {
                Some((_, Answer::Accepted(number))) => {
                    self.jobs.entry(*number).or_default().submit = Some(at);
                }
                // An earlier one, whose answer was lost, made it; it is acknowledged by this one.
                Some((_, Answer::Kept(number))) => {
                    let made = by_payload[submit.payload.as_str()][0];
                    self.jobs.entry(*number).or_default().submit.get_or_insert(made);
                }
                Some((_, Answer::Done | Answer::Refused)) | None => {}
            }
        }
        let maker = |payload: &str| by_payload.get(payload).and_then(|calls| calls.first());
        for (at, delivery) in self.deliveries.iter().enumerate() {
            let job = self.jobs.entry(delivery.received.number).or_default();
            job.deliveries.push(at);
            job.submit = job.submit.or_else(|| maker(&delivery.received.payload).copied());
        }
        for end in self.last.iter().flat_map(|last| &last.state.jobs) {
            let job = self.jobs.entry(end.number).or_default();
            job.last = Some(end);
            let payload = end.payload.as_deref();
            job.submit = job.submit.or_else(|| payload.and_then(maker).copied());
        }
    }

    /// What its producer asked for.
    pub fn submit_of(&self, job: &Job<'a>) -> Option<&'a Submit> {
        match self.calls[job.submit?].verb {
            Verb::Submit(submit) => Some(submit),
            _ => None,
        }
    }

    /// The terms of the job that was delivered: its producer's, or its schedule's.
    pub fn terms_of(&self, received: &Received) -> Option<&'a Terms> {
        let Some((schedule, _)) = &received.occurrence else {
            return Some(&self.submit_of(self.jobs.get(&received.number)?)?.terms);
        };
        self.calls.iter().find_map(|call| match call.verb {
            Verb::PutSchedule { id, terms, .. } if id == schedule => Some(terms),
            _ => None,
        })
    }

    /// Everything that was asked about a job of this name, in order.
    pub fn calls_about(&self, name: &str) -> impl Iterator<Item = &Call<'a>> {
        let about = self.by_job.get(name).map_or(&[][..], Vec::as_slice);
        about.iter().map(|at| &self.calls[*at])
    }

    /// Everything that was asked under this lease, in order.
    pub fn calls_under(&self, token: Stamp) -> impl Iterator<Item = &Call<'a>> {
        let under = self.by_token.get(&token).map_or(&[][..], Vec::as_slice);
        under.iter().map(|at| &self.calls[*at])
    }

    /// Whether a success under this lease was confirmed, and when.
    pub fn confirmed_at(&self, token: Stamp) -> Option<u64> {
        let acks = self.calls_under(token).filter(|call| matches!(call.verb, Verb::Ack { .. }));
        acks.filter_map(Call::succeeded_at).min()
    }

    /// Whether something was, or may have been, done to a job beyond submitting it.
    pub fn was_touched(&self, name: &str) -> bool {
        let mut others =
            self.calls_about(name).filter(|call| !matches!(call.verb, Verb::Submit(_)));
        others.any(Call::may_have_happened)
    }

    /// Whether a job of this name was, or may have been, given another due time.
    pub fn was_moved(&self, name: &str) -> bool {
        let mut calls = self.calls_about(name);
        calls.any(|call| {
            let moves = matches!(call.verb, Verb::Move { .. } | Verb::RunNow { .. });
            moves && call.may_have_happened()
        })
    }

    /// Whether a job of this name was, or may have been, replayed.
    pub fn was_replayed(&self, name: &str) -> bool {
        let mut calls = self.calls_about(name);
        calls.any(|call| matches!(call.verb, Verb::Replay { .. }) && call.may_have_happened())
    }

    /// The deliveries of a job, in order.
    pub fn deliveries_of(&self, job: &Job<'a>) -> impl Iterator<Item = &Delivery<'a>> {
        job.deliveries.iter().map(|at| &self.deliveries[*at])
    }

    /// Whether the node died in `(from, until]`.
    pub fn died_between(&self, from: u64, until: u64) -> bool {
        self.deaths.iter().any(|death| *death > from && *death <= until)
    }

    /// Whether the receiver of `held` may still count on being the only one when `later` arrives.
    pub fn still_holds(&self, held: &Delivery<'a>, later: &Delivery<'a>) -> bool {
        if held.ended.is_some_and(|(t, ..)| t <= later.t) {
            return false;
        }
        // Its grant took so long to become durable that the lease was over before it left. Whoever
        // gets it can see that it is void.
        if later.wall_max >= later.received.until {
            return false;
        }
        // Handed out before the other, and late on its way: its own right may be over by now.
        let overtaken = later.received.token < held.received.token;
        if overtaken && self.lost_its_right(later, later) {
            return false;
        }
        !self.lost_its_right(held, later)
    }

    /// When a lease ends by the wall clock, as its holder must see it at `t`: an extension counts
    /// from before it was asked for, and, when nobody knows whether it was heard, the earlier of
    /// the two ends.
    pub fn lease_end(&self, held: &Delivery<'a>, t: u64) -> i64 {
        let Received { token, until, .. } = held.received;
        self.calls_under(*token).fold(*until, |until, call| match call.verb {
            Verb::Extend { lease_ms, .. } if call.asked <= t && call.may_have_happened() => {
                let asked = call.asked_wall + *lease_ms as i64;
                if call.succeeded_at().is_some() { asked } else { asked.min(until) }
            }
            _ => until,
        })
    }

    /// Whether the lease of `held` was over by the time `later` arrived, its receiver's own doing
    /// apart: it ran out, or the node that was to hear of its end had died.
    pub fn lost_its_right(&self, held: &Delivery<'a>, later: &Delivery<'a>) -> bool {
        let Received { job, number, .. } = held.received;
        let terms = self.terms_of(held.received);
        let pulled = terms.is_some_and(|terms| terms.pulled);
        // A push is given up by the node after its timeout; it left at most a flight earlier.
        let timed_out = terms
            .is_some_and(|terms| !pulled && later.t + self.flight_ms >= held.t + terms.timeout_ms);
        let until = self.lease_end(held, later.t);
        let taken_back = self.calls_about(job).any(|call| {
            let ends = match call.verb {
                Verb::Cancel { .. } => true,
                Verb::Submit(other) => replaces(other, &held.received.payload),
                _ => false,
            };
            let made =
                self.jobs[number].submit.is_some_and(|at| ptr::eq(&raw const self.calls[at], call));
            ends && !made && call.may_have_happened() && call.asked <= later.t
        });
        timed_out
            || later.wall_max >= until
            || (!pulled && self.died_between(held.t.saturating_sub(self.flight_ms), later.t))
            || taken_back
    }
}

/// The job that a question is about.
pub(crate) fn subject(verb: &Verb) -> Option<&str> {
    match verb {
        Verb::Submit(submit) => Some(&submit.job),
        Verb::Move { job, .. }
        | Verb::Cancel { job }
        | Verb::RunNow { job }
        | Verb::Replay { job }
        | Verb::Forget { job } => Some(job),
        Verb::Ack { .. }
        | Verb::Nack { .. }
        | Verb::Extend { .. }
        | Verb::PutSchedule { .. }
        | Verb::TouchSchedule { .. }
        | Verb::PutQueue { .. } => None,
    }
}

/// Whether this submission takes the place of the job with this payload: it is another one, or a
/// copy that was not marked as such.
pub(super) fn replaces(other: &Submit, payload: &str) -> bool {
    other.payload != payload || !other.idempotent
}

/// The lease that a question is asked under.
fn lease(verb: &Verb) -> Option<Stamp> {
    match verb {
        Verb::Ack { token } | Verb::Nack { token } | Verb::Extend { token, .. } => Some(*token),
        _ => None,
    }
}
