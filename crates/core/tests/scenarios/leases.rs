//! The right to run a job until a moment, fenced by its token.

use hence_core::effect::Answer;
use hence_core::error::Rejection;
use hence_core::input::{Nack, Report, Request};
use hence_core::job::AttemptEnd;
use hence_core::limits;
use hence_core::retry::RetryPolicy;

use crate::support::at;
use crate::support::draft::{every, ms, pull, push};
use crate::support::verbs::{failed, ids};
use crate::world;

#[test]
fn a_repeated_acknowledgement_is_answered_as_the_first() {
    let mut world = world();
    world.put(pull("a"));
    let token = world.take_one().lease.token;
    assert_eq!(world.ack(token), Ok(()));
    assert_eq!(world.ack(token), Ok(()));
    assert_eq!(world.queue("default").counts.succeeded, 1);
    assert_eq!(world.nack(token, Nack::Dead), Err(Rejection::StaleToken));
}

#[test]
fn a_lease_that_runs_out_is_a_failed_attempt() {
    let mut world = world();
    world.put(pull("a"));
    let first = world.take_one();
    assert_eq!(first.lease.until, at(1_000));
    world.at(999);
    assert_eq!(world.state("a"), "running");
    world.at(1_000);
    assert_eq!(world.abandoned, [first.lease.token]);
    let (_, ended) = world.disk.attempts.last().expect("an attempt");
    assert_eq!(ended.end, AttemptEnd::TimedOut);
    world.run_to(1_200);
    let second = world.take_one();
    assert_eq!(second.lease.attempt, 2);
    assert!(second.lease.token > first.lease.token);
}

#[test]
fn every_late_word_of_an_old_holder_is_refused() {
    let mut world = world();
    world.put(pull("a"));
    let old = world.take_one().lease.token;
    world.at(2_000);
    world.run_to(3_000);
    let new = world.take_one().lease.token;
    assert_eq!(world.ack(old), Err(Rejection::StaleToken));
    assert_eq!(world.nack(old, Nack::Dead), Err(Rejection::StaleToken));
    assert_eq!(world.extend(old, 1_000), Err(Rejection::StaleToken));
    for report in [Report::Succeeded { result: None }, Report::TimedOut, Report::Released] {
        world.report(old, report);
    }
    assert_eq!(world.state("a"), "running");
    assert_eq!(world.ack(new), Ok(()));
}

#[test]
fn a_lease_can_be_extended_in_time() {
    let mut world = world();
    world.put(pull("a"));
    let token = world.take_one().lease.token;
    world.at(900);
    assert_eq!(world.extend(token, 1_000), Ok(Answer::Extended(at(1_900))));
    world.at(1_899);
    assert_eq!(world.state("a"), "running");
    world.at(1_900);
    assert_eq!(world.extend(token, 1_000), Err(Rejection::StaleToken));
}

#[test]
fn to_extend_a_lease_is_never_to_shorten_it() {
    let mut world = world();
    world.put(pull("a"));
    let token = world.take_one().lease.token;
    assert_eq!(world.extend(token, 5_000), Ok(Answer::Extended(at(5_000))));
    assert_eq!(world.extend(token, 1_000), Ok(Answer::Extended(at(5_000))));
    world.at(4_999);
    assert_eq!(world.state("a"), "running");
}

#[test]
fn a_lease_has_a_least_and_a_greatest_length() {
    let mut world = world();
    world.put(pull("a"));
    let token = world.take_one().lease.token;
    for lease in [0, 99, limits::LEASE_MAX.get() + 1] {
        assert!(matches!(world.extend(token, lease), Err(Rejection::Invalid { .. })), "{lease}");
    }
}

/// It could not run any more, and blocked its key all the same.
#[test]
fn a_job_that_is_put_off_beyond_its_expiry_has_expired() {
    let mut world = world();
    world.put(pull("k/a").expires(2_000));
    world.put(pull("k/b"));
    let token = world.take_one().lease.token;
    world.nack(token, Nack::Release { delay: ms(3_600_000) }).expect("it is held");
    assert_eq!(world.state("k/a"), "expired");
    assert_eq!(world.take_ids(), ["b"]);
}

#[test]
fn without_a_wish_a_lease_lasts_as_long_as_the_job_may() {
    let mut world = world();
    world.put(pull("a").timeout(7_000));
    let taken = world.lease(&["default"], 1, None);
    assert_eq!(taken[0].lease.until, at(7_000));
}

#[test]
fn a_released_job_comes_back_after_its_delay_uncounted() {
    let mut world = world();
    world.put(pull("a"));
    let first = world.take_one().lease.token;
    world.nack(first, Nack::Release { delay: ms(500) }).expect("it runs");
    world.at(499);
    assert_eq!(world.take_ids(), [""; 0]);
    world.at(500);
    let second = world.take_one();
    assert_eq!(second.lease.attempt, 1);
    assert!(second.lease.token > first);
    let (_, ended) = world.disk.attempts.last().expect("an attempt");
    assert_eq!(ended.end, AttemptEnd::Released);
}

#[test]
fn a_push_that_is_given_up_by_its_node_is_sent_again() {
    let mut world = world();
    world.put(push("a"));
    let first = world.delivery().lease.token;
    world.report(first, Report::Released);
    let second = world.delivery();
    assert_eq!(second.lease.attempt, 1);
    assert!(second.lease.token > first);
}

/// It went to the end of its queue: a stop in good order did worse to it than a crash.
#[test]
fn a_job_that_is_given_back_at_once_keeps_its_place() {
    let mut world = world();
    for (number, id) in ["a", "b", "c"].into_iter().enumerate() {
        world.put(pull(id).due(number as i64));
    }
    world.at(10);
    let first = world.take_one();
    world.at(20);
    world.nack(first.lease.token, Nack::Release { delay: ms(0) }).expect("it runs");
    assert_eq!(world.take_ids(), ["a", "b", "c"]);

    let mut world = self::world();
    world.put(push("a").due(5));
    world.at(10);
    let token = world.delivery().lease.token;
    world.at(20);
    world.report(token, Report::Released);
    assert_eq!(world.delivery().due_at, at(5));
}

/// The cap is for the wishes of receivers. A worker says what it wants.
#[test]
fn the_delay_of_a_worker_is_not_cut() {
    let mut world = world();
    let retry = RetryPolicy { cap: ms(200), ..every(100, 3) };
    world.put(pull("a").retry(retry.clone()));
    let token = world.take_one().lease.token;
    world.nack(token, Nack::Retry { delay: Some(ms(5_000)) }).expect("it runs");
    world.at(4_999);
    assert_eq!(world.take_ids(), [""; 0]);
    world.at(5_000);
    assert_eq!(world.take_ids(), ["a"]);

    world.put(push("b").retry(retry));
    let token = world.delivery().lease.token;
    world.report(token, failed(Some(5_000), false));
    assert_eq!(world.show("b").expect("it waits").progress.due_at, at(5_200));
}

#[test]
fn leases_are_listed_by_their_end() {
    let mut world = world();
    for (id, lease) in [("a", 60_000), ("b", 5_000), ("c", 30_000)] {
        world.put(pull(id));
        world.lease(&["default"], 1, Some(lease));
    }
    let reply = world.call(Request::ListLeases { limit: 2 });
    let Ok(Answer::Leases(leases)) = reply else { panic!("{reply:?}") };
    assert_eq!(ids(&leases), ["b", "c"], "those that end next");
}

#[test]
fn a_worker_gets_so_many_and_the_rest_stays() {
    let mut world = world();
    for id in ["a", "b", "c"] {
        world.put(pull(id));
    }
    assert_eq!(ids(&world.lease(&["default"], 2, None)), ["a", "b"]);
    assert_eq!(ids(&world.lease(&["default"], 2, None)), ["c"]);
    assert_eq!(ids(&world.lease(&["nowhere"], 2, None)), [""; 0]);
}

#[test]
fn the_first_named_queue_goes_first() {
    let mut world = world();
    world.put(pull("low//a"));
    world.put(pull("high//b").due(5));
    world.at(10);
    assert_eq!(ids(&world.lease(&["high", "low"], 2, None)), ["b", "a"]);
    world.put(pull("low//c"));
    world.put(pull("high//d").due(10));
    assert_eq!(ids(&world.lease(&["high", "low"], 1, None)), ["d"]);
}

#[test]
fn a_waiting_worker_is_woken_when_there_is_something() {
    let mut world = world();
    world.put(pull("a").due(100));
    assert!(world.woken.is_empty());
    world.at(100);
    assert_eq!(world.woken.len(), 1);
}

#[test]
fn the_leases_can_be_listed() {
    let mut world = world();
    for id in ["a", "b", "c"] {
        world.put(pull(id));
    }
    world.lease(&["default"], 2, None);
    let reply = world.call(Request::ListLeases { limit: 10 });
    let Ok(Answer::Leases(leases)) = reply else { panic!("{reply:?}") };
    assert_eq!(ids(&leases), ["a", "b"]);
}
