//! Deliveries of one sort: how many are under way, who waits for their places, and what is to be
//! told of those that have ended.
//!
//! The shard hands out a few more than may be under way at once, as many as end while leases are
//! written. These wait here, so that nobody waits for the disk between one delivery and the next.
//! And as long as there are such, nobody is in a hurry to hear of an end: reports are passed on
//! many at a time, which is one message and one commit for all of them.
//!
//! No task, no clock: time comes as [`Lane::tick`].

use std::collections::VecDeque;

use hence_core::effect::Delivery;
use hence_core::id::Token;
use hence_core::input::Report;
use hence_core::limits::PUSH_LEASE_GRACE;

/// How often a lane in which somebody waits is looked after, in milliseconds. A report is held back
/// for up to twice as long.
pub(crate) const TICK_MS: u64 = 1;

/// What has waited for so many ticks is given back: the receivers were quick when it was handed
/// out, and are not any more.
const WAIT_TICKS_MAX: u64 = 1_000;

const _: () = assert!(
    WAIT_TICKS_MAX * TICK_MS * 4 < PUSH_LEASE_GRACE.get(),
    "no lease ends while its delivery waits, even if ticks are late"
);

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
    /// Whether the first of them was here at the last tick.
    reports_seen: bool,
    ticks: u64,
}

struct Waiting {
    delivery: Delivery,
    since: u64,
}

/// What a tick brought about.
pub(crate) struct Ticked {
    pub(crate) reports: Reports,
    /// Deliveries that have waited for too long.
    pub(crate) old: Vec<Delivery>,
}

impl Lane {
    /// With room for so many at once.
    pub(crate) fn new(room: u32) -> Self {
        let (waiting, reports) = (VecDeque::new(), Vec::new());
        Lane { free: room, waiting, reports, reports_seen: false, ticks: 0 }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.free > 0
    }

    /// Gives the delivery back if it may begin; the place is taken then.
    pub(crate) fn enter(&mut self, delivery: Delivery) -> Option<Delivery> {
        if self.has_room() {
            self.free -= 1;
            return Some(delivery);
        }
        self.waiting.push_back(Waiting { delivery, since: self.ticks });
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
        self.reports_seen = false;
        std::mem::take(&mut self.reports)
    }

    /// Whether there is anything that time does something to.
    pub(crate) fn wants_ticks(&self) -> bool {
        !self.waiting.is_empty() || !self.reports.is_empty()
    }

    /// So much time has passed.
    pub(crate) fn tick(&mut self) -> Ticked {
        self.ticks += 1;
        let reports = if self.reports_seen { self.take_reports() } else { Vec::new() };
        self.reports_seen = !self.reports.is_empty();
        let ticks = self.ticks;
        let mut old = Vec::new();
        while let Some(first) =
            self.waiting.pop_front_if(|first| first.since + WAIT_TICKS_MAX <= ticks)
        {
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
    use std::sync::Arc;

    use hence_core::id::{Epoch, JobId, JobName, JobNumber, QueueName, ShardId, WorkerName};
    use hence_core::job::{HttpTarget, Job, JobSpec, Lease, Payload, Target as Where};
    use hence_core::time::Timestamp;

    use super::*;

    pub(crate) fn token(counter: u64) -> Token {
        Token { shard: ShardId(0), epoch: Epoch(1), counter }
    }

    pub(crate) fn delivery(counter: u64) -> Delivery {
        let spec = JobSpec::new(Where::Http(Arc::new(HttpTarget::post("http://localhost/"))));
        let id = JobId::new("job").unwrap();
        let job = Job {
            number: JobNumber(counter),
            name: JobName { queue: QueueName::default_queue(), key: None, id },
            submitted_at: Timestamp::EPOCH,
            scheduled_for: Timestamp::EPOCH,
            payload: Payload::default(),
            target: spec.target,
            retry: spec.retry,
            timeout: spec.timeout,
            expires_at: None,
            retention: spec.retention,
            keep_result: false,
            key_on_failure: spec.key_on_failure,
            on_unknown: spec.on_unknown,
            occurrence: None,
            fingerprint: None,
        };
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

    /// Of so many places, with these deliveries handed to it.
    fn lane(room: u32, counters: std::ops::RangeInclusive<u64>) -> Lane {
        let mut lane = Lane::new(room);
        for counter in counters {
            let begins = lane.enter(delivery(counter)).is_some();
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
        assert!(lane.enter(delivery(6)).is_some() && lane.enter(delivery(7)).is_some());
        assert!(lane.enter(delivery(8)).is_none(), "no more places than there were");
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
        let mut lane = lane(1, 1..=5);
        assert_eq!(lane.tick().reports, []);
        assert_eq!(lane.report(token(1), DONE), []);
        assert_eq!(lane.tick().reports, []);
        assert_eq!(lane.report(token(2), DONE), []);
        assert_eq!(counters_of(&lane.tick().reports), [1, 2]);
        assert_eq!(lane.report(token(3), DONE), []);
        assert_eq!(lane.tick().reports, [], "it was not here at the last tick");
        assert_eq!(counters_of(&lane.tick().reports), [3]);
    }

    #[test]
    fn who_waits_too_long_is_given_back() {
        let mut lane = lane(1, 1..=3);
        let mut old = Vec::new();
        for _ in 0..WAIT_TICKS_MAX {
            assert_eq!(old, []);
            assert!(lane.wants_ticks());
            if lane.ticks == 5 {
                assert!(lane.enter(delivery(4)).is_none());
            }
            old = lane.tick().old.iter().map(|old| old.lease.token).collect::<Vec<Token>>();
        }
        assert_eq!(counters(&old), [2, 3]);
        for _ in 0..5 {
            old = lane.tick().old.iter().map(|old| old.lease.token).collect::<Vec<Token>>();
        }
        assert_eq!(counters(&old), [4]);
        assert!(!lane.wants_ticks());
    }
}
