//! What follows a failed attempt: exactly what the producer asked for.

use hence_core::input::{Nack, Report};
use hence_core::job::{AttemptEnd, Outcome};
use hence_core::limits;
use hence_core::retry::{Backoff, RetryPolicy};
use hence_core::time::Millis;

use crate::support::draft::{every, handled, ms, name, pull, push};
use crate::support::verbs::failed;
use crate::support::{World, at};
use crate::world;

/// Fails a push whenever it is delivered. Gives the times of the deliveries.
fn times(world: &mut World) -> Vec<i64> {
    let mut times = Vec::new();
    while let Some(delivery) = world.deliveries.pop() {
        times.push(world.now.as_millis());
        world.fail(delivery.lease.token);
        // A retry without a delay is delivered with the report itself.
        if !world.deliveries.is_empty() {
            continue;
        }
        let Some(next) = world.shard.deadline() else { break };
        world.at(next.as_millis() - 1);
        assert!(world.deliveries.is_empty(), "early");
        world.at(next.as_millis());
    }
    times
}

/// After "run now" the age was counted from a time that was still to come, and for a time that had
/// passed from long before the submission.
#[test]
fn the_age_of_a_job_begins_when_it_was_really_due() {
    let policy = || RetryPolicy { max_age: Some(ms(5_000)), ..every(4_000, 10) };
    let mut world = world();
    world.at(100_000);
    world.put(pull("early").due(3_700_000).retry(policy()));
    world.run_now("early").expect("it waits");
    world.put(pull("late").due(1).retry(policy()));
    // The first retry is within its age, the second is not.
    for (instant, expected) in [(100_000, "scheduled"), (104_000, "dead")] {
        world.run_to(instant);
        for delivery in world.lease(&["default"], 2, None) {
            world.nack(delivery.lease.token, Nack::Retry { delay: None }).expect("it is held");
        }
        let states = [world.state("early"), world.state("late")];
        assert_eq!(states, [expected; 2], "at {instant}");
    }
}

#[test]
fn attempts_come_at_the_times_of_the_policy() {
    let exponential = Backoff::Exponential { first: ms(100), factor_percent: 200 };
    let list = Backoff::List(vec![ms(5), ms(50)]);
    let rows: [(RetryPolicy, &[i64]); 5] = [
        (every(100, 3), &[0, 100, 200]),
        (every(0, 3), &[0, 0, 0]),
        (RetryPolicy { backoff: exponential.clone(), ..every(0, 4) }, &[0, 100, 300, 700]),
        (RetryPolicy { backoff: exponential, cap: ms(150), ..every(0, 4) }, &[0, 100, 250, 400]),
        (RetryPolicy { backoff: list, ..every(0, 4) }, &[0, 5, 55, 105]),
    ];
    for (policy, expected) in rows {
        let mut world = world();
        world.put(push("a").retry(policy.clone()));
        assert_eq!(times(&mut world), expected, "{policy:?}");
        assert_eq!(world.state("a"), "dead", "{policy:?}");
        let view = world.show("a").expect("kept");
        assert_eq!(view.progress.attempts as usize, expected.len(), "{policy:?}");
    }
}

#[test]
fn a_target_may_ask_for_more_time_and_not_for_less() {
    for (wish, due) in
        [(None, 100), (Some(10), 100), (Some(400), 400), (Some(9_000_000), 3_600_000)]
    {
        let mut world = world();
        world.put(push("a"));
        let token = world.delivery().lease.token;
        world.report(token, failed(wish, false));
        let view = world.show("a").expect("it waits");
        assert_eq!(view.progress.due_at.as_millis(), due, "{wish:?}");
    }
}

#[test]
fn a_worker_may_ask_for_more_time() {
    let mut world = world();
    world.put(pull("a"));
    let token = world.take_one().lease.token;
    world.nack(token, Nack::Retry { delay: Some(ms(700)) }).expect("it runs");
    assert_eq!(world.show("a").expect("it waits").progress.due_at.as_millis(), 700);
}

#[test]
fn a_job_too_old_to_be_tried_again_is_dead() {
    let mut world = world();
    world.put(push("a").retry(RetryPolicy { max_age: Some(ms(150)), ..every(100, 10) }));
    assert_eq!(times(&mut world), [0, 100]);
    assert_eq!(world.state("a"), "dead");
}

#[test]
fn a_job_not_started_in_time_expires() {
    let mut world = world();
    world.put(pull("a").due(100).expires(50));
    world.at(149);
    assert_eq!(world.state("a"), "ready");
    world.at(150);
    assert_eq!(world.state("a"), "expired");
    assert_eq!(world.take_ids(), [""; 0]);
}

#[test]
fn a_job_started_in_time_may_end_after_its_expiry() {
    let mut world = world();
    world.put(pull("a").expires(50));
    let token = world.take_one().lease.token;
    world.at(900);
    assert_eq!(world.ack(token), Ok(()));
}

/// Handed out ahead, it waited for a place until it had expired, and was sent all the same.
#[test]
fn a_job_that_expires_before_it_begins_expires() {
    let mut world = world();
    world.put(push("a").expires(50));
    let delivery = world.delivery();
    assert!(delivery.time_to_run(at(49)).is_some() && delivery.time_to_run(at(50)).is_none());
    world.now = at(50);
    world.report(delivery.lease.token, Report::Released);
    assert_eq!(world.state("a"), "expired");
    let (_, ended) = world.disk.attempts.last().expect("an attempt");
    assert_eq!(
        (ended.end, ended.reason.as_deref()),
        (AttemptEnd::Released, Some("it had not begun"))
    );
}

/// A lease is five seconds longer than the timeout. With a store that took six for a commit every
/// delivery was given back before it began, and granted again: nothing left.
#[test]
fn a_delivery_that_begins_late_has_what_is_left_of_its_lease() {
    let mut world = world();
    world.put(push("a").timeout(30_000));
    let delivery = world.delivery();
    let rows = [
        (0, Some(30_000)),
        (5_000, Some(30_000)),
        (6_000, Some(29_000)),
        (20_000, Some(15_000)),
        (20_001, None),
        (35_000, None),
        (90_000, None),
    ];
    for (now, time) in rows {
        assert_eq!(delivery.time_to_run(at(now)), time.map(Millis::new), "{now}");
    }
}

#[test]
fn a_retry_after_the_expiry_is_none() {
    let mut world = world();
    world.put(push("a").expires(99));
    let token = world.delivery().lease.token;
    world.fail(token);
    assert_eq!(world.state("a"), "expired");
    assert_eq!(world.disk.attempts.len(), 1);
}

#[test]
fn an_edit_moves_the_expiry_along() {
    let mut world = world();
    world.put(pull("a").due(100).expires(50));
    world.move_to("a", 1_000).expect("it waits");
    world.at(1_049);
    assert_eq!(world.take_ids(), ["a"]);
}

#[test]
fn the_dead_keep_their_payload_and_reason() {
    let mut world = world();
    world.put(push("a").payload("work").retry(every(1, 1)));
    let token = world.delivery().lease.token;
    world.fail(token);
    let dead = world.disk.finished_by_name(&name("a")).expect("kept");
    assert_eq!(dead.finish.outcome, Outcome::Dead);
    assert_eq!(dead.finish.reason.as_deref(), Some("no"));
    assert_eq!(&dead.job.payload.bytes[..], b"work");
}

#[test]
fn a_timeout_counts_as_a_failure() {
    let mut world = world();
    world.put(push("a").retry(every(100, 2)));
    let token = world.delivery().lease.token;
    world.report(token, Report::TimedOut);
    world.at(100);
    let token = world.delivery().lease.token;
    world.report(token, Report::TimedOut);
    assert_eq!(world.state("a"), "dead");
    assert_eq!(world.queue("default").counts.failed, 2);
}

/// A push that timed out was dead because "the last attempt failed", and did not say how.
#[test]
fn a_timeout_says_what_ran_out() {
    let reported: fn(&mut World) = |world| {
        let token = world.delivery().lease.token;
        world.report(token, Report::TimedOut);
    };
    let unreported: fn(&mut World) = |world| {
        world.delivery();
        world.at(500 + limits::PUSH_LEASE_GRACE.get() as i64);
    };
    let pulled: fn(&mut World) = |world| {
        world.take_one();
        world.at(1_000);
    };
    let rows = [
        ("a push", push("a"), reported, "no answer within 500ms"),
        ("a push whose target is silent", push("a"), unreported, "no answer within 500ms"),
        ("a handler", handled("a"), reported, "no answer within 500ms"),
        ("a worker", pull("a"), pulled, "the lease of worker worker ran out"),
    ];
    for (row, draft, time_out, reason) in rows {
        let mut world = world();
        world.handlers(&["h"]);
        world.put(draft.timeout(500).retry(every(1, 1)));
        time_out(&mut world);
        let (_, attempt) = world.disk.attempts.last().expect("an attempt");
        assert_eq!(
            (attempt.end, attempt.reason.as_deref()),
            (AttemptEnd::TimedOut, Some(reason)),
            "{row}"
        );
        let dead = world.disk.finished_by_name(&name("a")).expect("kept");
        assert_eq!(dead.finish.reason.as_deref(), Some(reason), "{row}");
    }
}

#[test]
fn jitter_lengthens_within_its_share() {
    for random in [0, 1, 50, 51, u64::MAX] {
        let mut world = world();
        world.put(push("a").retry(RetryPolicy { jitter_percent: 50, ..every(100, 2) }));
        let token = world.delivery().lease.token;
        let report = failed(None, false);
        world.feed(hence_core::input::Input::Delivered { token, report, random });
        let due = world.show("a").expect("it waits").progress.due_at.as_millis();
        assert!((100..=150).contains(&due), "{random}: {due}");
    }
}
