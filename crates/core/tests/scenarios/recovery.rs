//! A new life from what is on disk, and nothing else.

use hence_core::error::Rejection;
use hence_core::input::{Input, Nack, Report, Request};
use hence_core::job::AttemptEnd;
use hence_core::limits;

use crate::support::draft::{every, handled, pull, push};
use crate::support::verbs::failed;
use crate::{tiny, world};

#[test]
fn a_pulled_lease_survives_with_its_end() {
    let mut world = world();
    world.put(pull("a"));
    let token = world.take_one().lease.token;
    world.at(500).crash();
    assert_eq!(world.state("a"), "running");
    assert_eq!(world.take_ids(), [""; 0]);
    assert_eq!(world.ack(token), Ok(()), "its worker never knew");
}

#[test]
fn a_pulled_lease_that_ran_out_meanwhile_is_a_failed_attempt() {
    let mut world = world();
    world.put(pull("a"));
    let token = world.take_one().lease.token;
    world.now = crate::support::at(5_000);
    world.crash();
    assert_eq!(world.ack(token), Err(Rejection::StaleToken));
    world.at(5_100);
    assert_eq!(world.take_one().lease.attempt, 2);
}

#[test]
fn a_push_nobody_saw_the_end_of_is_the_same_attempt_again() {
    let mut world = world();
    world.put(push("a"));
    let first = world.delivery();
    world.crash();
    let second = world.delivery();
    assert_eq!(second.lease.attempt, first.lease.attempt);
    assert!(second.lease.token > first.lease.token);
    let (_, ended) = world.disk.attempts.last().expect("an attempt");
    assert_eq!(ended.end, AttemptEnd::Unknown);
    assert!(ended.reason.as_deref().is_some_and(|why| why.contains("nobody saw")), "{ended:?}");
    world.succeed(first.lease.token);
    assert_eq!(world.state("a"), "running", "the old answer does not count");
}

#[test]
fn a_job_that_asked_for_it_is_parked_when_its_end_is_unknown() {
    let mut world = world();
    world.put(push("a").park().payload("once"));
    assert_eq!(world.delivered(), ["a"]);
    world.crash();
    assert_eq!(world.delivered(), [""; 0]);
    assert_eq!(world.state("a"), "dead");
    world.replay("a").expect("a human decides");
    assert_eq!(&world.delivery().job.payload.bytes[..], b"once");
}

/// Only a crash was thought of: after a timeout, a cut connection, a lease that ran out or a
/// shutdown the job was delivered again, though it must never run twice.
#[test]
fn a_job_that_asked_for_it_is_parked_whenever_its_end_is_unknown() {
    let unanswered = Report::Unanswered { reason: "no answer: the connection was reset".into() };
    let rows = [
        (Report::TimedOut, "dead"),
        (unanswered, "dead"),
        (Report::CutShort, "dead"),
        // These are no riddles: it never left, or somebody said no.
        (Report::Released, "running"),
        (failed(None, false), "scheduled"),
    ];
    for (report, expected) in rows {
        let mut world = world();
        world.put(push("a").park());
        world.put(push("b"));
        for delivery in std::mem::take(&mut world.deliveries) {
            world.report(delivery.lease.token, report.clone());
        }
        assert_eq!(world.state("a"), expected, "{report:?}");
        assert_ne!(world.state("b"), "dead", "{report:?}: it may run twice");
    }
    let mut world = world();
    world.put(pull("a").park().timeout(1_000));
    world.take_one();
    world.at(1_000);
    assert_eq!(world.state("a"), "dead", "the worker may have done it");
}

#[test]
fn a_push_may_see_any_number_of_crashes() {
    let mut world = world();
    world.put(push("a"));
    for _ in 0..10 {
        assert_eq!(world.delivery().lease.attempt, 1);
        world.crash();
    }
    assert_eq!(world.show("a").expect("live").progress.crashes, 10);
}

#[test]
fn a_failed_attempt_between_crashes_starts_their_count_anew() {
    let mut world = world();
    world.put(handled("a").retry(every(100, 9)));
    world.handlers(&["h"]);
    for _ in 0..2 {
        world.crash();
        world.handlers(&["h"]);
    }
    let token = world.deliveries.last().expect("delivered").lease.token;
    world.fail(token);
    world.at(100);
    for _ in 0..2 {
        world.crash();
        world.handlers(&["h"]);
    }
    assert_eq!(world.state("a"), "running");
}

#[test]
fn what_was_not_durable_never_was() {
    let mut world = world();
    let ticket = world.ticket();
    let request = Request::Submit(Box::new(push("a").fresh().0));
    world.feed_and_lose(Input::Request { ticket, request });
    world.crash();
    assert_eq!(world.state("a"), "absent");
    assert_eq!(world.delivered(), [""; 0]);
}

#[test]
fn an_acknowledgement_that_was_lost_did_not_happen() {
    let mut world = world();
    world.put(pull("a"));
    let token = world.take_one().lease.token;
    let ticket = world.ticket();
    let request = Request::Ack { token, result: None };
    world.feed_and_lose(Input::Request { ticket, request });
    world.crash();
    assert_eq!(world.state("a"), "running");
    assert_eq!(world.ack(token), Ok(()));
}

#[test]
fn tokens_grow_over_crashes() {
    let mut world = world();
    world.put(pull("a").retry(every(0, 100)));
    let mut last = None;
    for _ in 0..5 {
        let token = world.take_one().lease.token;
        assert!(Some(token) > last);
        last = Some(token);
        world.nack(token, Nack::Retry { delay: None }).expect("it runs");
        world.crash();
    }
}

#[test]
fn all_is_there_after_a_crash_however_small_the_window() {
    for jobs in [1, 2, 3, 100] {
        let mut world = tiny(jobs);
        for number in 0..10 {
            world.put(pull(&format!("j{number}")).due(number * 10));
        }
        world.at(25);
        let taken = world.lease(&["default"], 1, None);
        world.crash();
        world.ack(taken[0].lease.token).expect("it runs");
        world.at(1_000);
        let mut seen = Vec::new();
        while let Some(delivery) = world.lease(&["default"], 1, None).pop() {
            seen.push(delivery.job.name.id.to_string());
            world.ack(delivery.lease.token).expect("it runs");
        }
        let expected: Vec<String> = (1..10).map(|number| format!("j{number}")).collect();
        assert_eq!(seen, expected, "a window of {jobs}");
        assert_eq!(world.queue("default").counts.succeeded, 10);
    }
}

#[test]
fn a_retry_that_holds_its_key_holds_it_after_a_crash() {
    let mut world = world();
    world.put(pull("k/a"));
    world.put(pull("k/b"));
    let token = world.take_one().lease.token;
    world.nack(token, Nack::Retry { delay: None }).expect("it runs");
    world.crash();
    assert_eq!(world.take_ids(), [""; 0]);
    world.at(100);
    assert_eq!(world.take_ids(), ["a"]);
}

#[test]
fn a_running_job_holds_its_key_after_a_crash() {
    let mut world = world();
    world.put(pull("k/a"));
    world.put(pull("k/b"));
    world.take_one();
    world.crash();
    assert_eq!(world.take_ids(), [""; 0]);
}

/// Thousands of large leases that had run out together were one commit, which no store could take:
/// the process ended, and ended again at every start.
#[test]
fn what_time_does_to_many_large_jobs_is_done_in_portions() {
    let large = "x".repeat(limits::PAYLOAD_BYTES_MAX);
    let mut world = world();
    for number in 0..20 {
        world.put(pull(&format!("pull{number}")).payload(&large));
        world.put(push(&format!("push{number}")).payload(&large));
    }
    assert_eq!((world.take().len(), world.delivered().len()), (20, 20));
    world.crash();
    assert_eq!(world.delivered().len(), 20, "those that nobody saw the end of");
    world.at(100_000_000);
    world.at(200_000_000);
    assert_eq!(world.take().len(), 20, "those whose workers are silent");
}
