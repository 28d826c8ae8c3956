//! Deliveries of one sort: how many are under way, who waits for their places, and what is to be
//! told of those that have ended.
//!
//! The shard hands out a few more than may be under way at once, as many as end while leases are
//! written. These wait here, so that nobody waits for the disk between one delivery and the next.
//! And as long as there are such, nobody is in a hurry to hear of an end: reports are passed on
//! many at a time, which is one message and one commit for all of them.
//!
//! No task and no clock: time is an argument.

use std::collections::VecDeque;
use std::time::Duration;

use hence_core::effect::Delivery;
use hence_core::id::Token;
use hence_core::input::Report;
use tokio::time::Instant;

/// A report is held back for so long, until the tick after that.
const HOLD_MAX: Duration = Duration::from_millis(1);

/// What has waited for longer is given back: the receivers were quick when it was handed out, and
/// are not any more. Several times what the core hands out ahead for, and short enough that what
/// became of the job or its queue meanwhile need not be asked: the core decides again.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// What is to be told.
pub(crate) type Reports = Vec<(Token, Report)>;

/// The deliveries of a sort.
pub(crate) struct Lane {
    /// How many more may be under way.
    free: u32,
    /// Those for whom there was no room yet, the first one first. Some may have been taken out.
    waiting: VecDeque<Waiting>,
    /// Held back.
    reports: Reports,
    /// When a tick saw the first of them.
    held_since: Option<Instant>,
}

struct Waiting {
    delivery: Delivery,
    since: Instant,
}

/// What a tick brought about.
pub(crate) struct Ticked {
    pub(crate) reports: Reports,
    /// Deliveries that have waited for too long.
    pub(crate) old: Vec<Delivery>,
}

impl Lane {
    /// How often it wants to know what time it is, while it [does](Lane::wants_ticks).
    pub(crate) const TICK: Duration = HOLD_MAX;

    /// With room for so many at once.
    pub(crate) fn new(room: u32) -> Self {
        Lane { free: room, waiting: VecDeque::new(), reports: Vec::new(), held_since: None }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.free > 0
    }

    /// Gives the delivery back if it may begin; the place is taken then.
    pub(crate) fn enter(&mut self, delivery: Delivery, now: Instant) -> Option<Delivery> {
        if self.has_room() {
            self.free -= 1;
            return Some(delivery);
        }
        self.waiting.push_back(Waiting { delivery, since: now });
        None
    }

    /// A delivery has ended: the one that takes its place, if there is one that is still wanted.
    pub(crate) fn leave(&mut self, is_wanted: impl Fn(Token) -> bool) -> Option<Delivery> {
        while let Some(Waiting { delivery, .. }) = self.waiting.pop_front() {
            if is_wanted(delivery.lease.token) {
                return Some(delivery);
            }
        }
        self.free += 1;
        None
    }

    /// Takes a report in; returns what is to be passed on now. As long as fewer have ended than
    /// wait, there is time to hear of more.
    pub(crate) fn report(&mut self, token: Token, report: Report) -> Reports {
        self.reports.push((token, report));
        if self.reports.len() < self.waiting.len() { Vec::new() } else { self.take_reports() }
    }

    pub(crate) fn take_reports(&mut self) -> Reports {
        self.held_since = None;
        std::mem::take(&mut self.reports)
    }

    /// Whether there is anything that time does something to.
    pub(crate) fn wants_ticks(&self) -> bool {
        !self.waiting.is_empty() || !self.reports.is_empty()
    }

    /// It is so late. Who reports does not say when: reports are as old as the tick that saw them
    /// first.
    pub(crate) fn tick(&mut self, now: Instant) -> Ticked {
        let reports = match self.held_since {
            Some(since) if since + HOLD_MAX <= now => self.take_reports(),
            Some(_) => Vec::new(),
            None => {
                self.held_since = (!self.reports.is_empty()).then_some(now);
                Vec::new()
            }
        };
        let mut old = Vec::new();
        while let Some(first) = self.waiting.pop_front_if(|first| first.since + WAIT_MAX <= now) {
            old.push(first.delivery);
        }
        Ticked { reports, old }
    }

    /// Nobody begins any more.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Arc, LazyLock};

    use hence_core::id::{Epoch, JobId, JobName, JobNumber, QueueName, ShardId, WorkerName};
    use hence_core::job::{HttpTarget, JobSpec, Lease, Target as Where};
    use hence_core::time::Timestamp;

    use super::*;
    use crate::clock::monotonic;

    pub(crate) fn token(counter: u64) -> Token {
        Token { shard: ShardId(0), epoch: Epoch(1), counter }
    }

    pub(crate) fn delivery(counter: u64) -> Delivery {
        let spec = JobSpec::new(Where::Http(Arc::new(HttpTarget::post("http://localhost/"))));
        let id = JobId::new("job").unwrap();
        let name = JobName { queue: QueueName::default_queue(), key: None, id };
        let job = spec.job(JobNumber(counter), name, Timestamp::EPOCH, Timestamp::EPOCH);
        let lease = Lease {
            token: token(counter),
            attempt: 1,
            holder: WorkerName::new("node").unwrap(),
            granted_at: Timestamp::EPOCH,
            until: Timestamp::MAX,
        };
        Delivery { job: Arc::new(job), lease, due_at: Timestamp::EPOCH }
    }

    const DONE: Report = Report::Succeeded { result: None };

    /// The same for all of a test.
    fn now() -> Instant {
        static BEGUN: LazyLock<Instant> = LazyLock::new(monotonic);
        *BEGUN
    }

    /// Of so many places, with these deliveries handed to it.
    fn lane(room: u32, counters: std::ops::RangeInclusive<u64>) -> Lane {
        let mut lane = Lane::new(room);
        for counter in counters {
            let begins = lane.enter(delivery(counter), now()).is_some();
            assert_eq!(begins, counter <= u64::from(room));
        }
        lane
    }

    fn counters<'a>(tokens: impl IntoIterator<Item = &'a Token>) -> Vec<u64> {
        tokens.into_iter().map(|token| token.counter).collect()
    }

    fn counters_of(reports: &Reports) -> Vec<u64> {
        counters(reports.iter().map(|(token, _)| token))
    }

    #[test]
    fn a_place_goes_to_the_first_who_is_still_wanted() {
        let mut lane = lane(2, 1..=5);
        assert!(!lane.has_room());
        let next = lane.leave(|token| token.counter != 3).map(|next| next.lease.token.counter);
        assert_eq!(next, Some(4));
        assert!(lane.leave(|_| false).is_none());
        assert!(lane.has_room());
        assert!(lane.leave(|_| true).is_none());
        let mut begins = |counter| lane.enter(delivery(counter), now()).is_some();
        assert!(begins(6) && begins(7));
        assert!(!begins(8), "no more places than there were");
    }

    #[test]
    fn reports_are_held_back_while_more_wait_than_have_ended() {
        let mut lane = lane(1, 1..=5);
        assert_eq!(lane.report(token(1), DONE), []);
        assert_eq!(lane.report(token(2), DONE), []);
        assert_eq!(lane.report(token(3), DONE), []);
        assert_eq!(counters_of(&lane.report(token(4), DONE)), [1, 2, 3, 4]);
        assert_eq!(lane.report(token(5), DONE), []);
        while lane.leave(|_| true).is_some() {}
        assert_eq!(counters_of(&lane.report(token(6), DONE)), [5, 6]);
        assert_eq!(counters_of(&lane.report(token(7), DONE)), [7], "nobody waits");
        assert!(!lane.wants_ticks());
    }

    #[test]
    fn a_report_is_held_back_for_two_ticks_at_most() {
        let begun = now();
        let mut lane = lane(1, 1..=5);
        assert_eq!(lane.tick(begun).reports, []);
        assert_eq!(lane.report(token(1), DONE), []);
        assert_eq!(lane.tick(begun + HOLD_MAX).reports, []);
        assert_eq!(lane.report(token(2), DONE), []);
        assert_eq!(counters_of(&lane.tick(begun + HOLD_MAX * 2).reports), [1, 2]);
        assert_eq!(lane.report(token(3), DONE), []);
        assert_eq!(lane.tick(begun + HOLD_MAX * 3).reports, [], "no tick has seen it");
        assert_eq!(counters_of(&lane.tick(begun + HOLD_MAX * 4).reports), [3]);
    }

    #[test]
    fn who_waits_too_long_is_given_back() {
        let begun = now();
        let mut lane = lane(1, 1..=3);
        let later = begun + WAIT_MAX / 2;
        assert!(lane.enter(delivery(4), later).is_none());
        let old = |lane: &mut Lane, now| {
            counters(&lane.tick(now).old.iter().map(|old| old.lease.token).collect::<Vec<_>>())
        };
        assert_eq!(old(&mut lane, later), [0_u64; 0]);
        assert_eq!(old(&mut lane, begun + WAIT_MAX), [2, 3]);
        assert!(lane.wants_ticks());
        assert_eq!(old(&mut lane, later + WAIT_MAX), [4]);
        assert!(!lane.wants_ticks());
    }
}
