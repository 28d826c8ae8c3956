//! Jobs of one key run one at a time, in order of due time.

use hence_core::input::Nack;

use crate::support::draft::{handled, pull, push};
use crate::{tiny, world};

const RETRY: Nack = Nack::Retry { delay: None };

#[test]
fn one_at_a_time_in_order_of_due_time() {
    let mut world = world();
    for (id, due) in [("k/c", 30), ("k/a", 10), ("k/b", 20), ("other", 40)] {
        world.put(pull(id).due(due));
    }
    world.at(100);
    let taken = world.take();
    assert_eq!(crate::support::verbs::ids(&taken), ["a", "other"]);
    assert_eq!(world.take_ids(), [""; 0]);
    world.ack(taken[0].lease.token).expect("it runs");
    let next = world.take_one();
    assert_eq!(next.job.name.id.as_str(), "b");
    world.ack(next.lease.token).expect("it runs");
    assert_eq!(world.take_ids(), ["c"]);
}

#[test]
fn equals_go_in_order_of_submission() {
    let mut world = world();
    for id in ["k/b", "k/a", "k/c"] {
        world.put(pull(id).due(10));
    }
    world.at(10);
    for expected in ["b", "a", "c"] {
        let taken = world.take_one();
        assert_eq!(taken.job.name.id.as_str(), expected);
        world.ack(taken.lease.token).expect("it runs");
    }
}

#[test]
fn a_failing_job_blocks_its_key_and_no_other() {
    let mut world = world();
    for id in ["k/a", "k/b", "l/c"] {
        world.put(push(id));
    }
    let first = world.deliveries[0].lease.token;
    assert_eq!(world.delivered(), ["a", "c"]);
    world.fail(first);
    world.at(99);
    assert_eq!(world.delivered(), [""; 0]);
    world.at(100);
    let again = world.delivery();
    assert_eq!(again.job.name.id.as_str(), "a");
    world.succeed(again.lease.token);
    assert_eq!(world.delivered(), ["b"]);
}

#[test]
fn a_job_may_step_aside_while_it_waits() {
    let mut world = world();
    world.put(push("k/a").step_aside());
    world.put(push("k/b"));
    let first = world.delivery().lease.token;
    world.fail(first);
    let second = world.delivery();
    assert_eq!(second.job.name.id.as_str(), "b");
    world.at(100);
    assert_eq!(world.delivered(), [""; 0], "one at a time all the same");
    world.succeed(second.lease.token);
    assert_eq!(world.delivered(), ["a"]);
}

#[test]
fn a_dead_job_frees_its_key() {
    let mut world = world();
    world.put(push("k/a").retry(crate::support::draft::every(100, 1)));
    world.put(push("k/b"));
    let token = world.delivery().lease.token;
    world.fail(token);
    assert_eq!(world.delivered(), ["b"]);
}

#[test]
fn an_earlier_job_overtakes_until_the_first_has_started() {
    let mut world = world();
    world.at(100).put(pull("k/late").due(90));
    world.put(pull("k/early").due(10));
    let taken = world.take();
    assert_eq!(crate::support::verbs::ids(&taken), ["early"]);
    world.put(pull("k/earliest").due(1));
    assert_eq!(world.take_ids(), [""; 0]);
    world.ack(taken[0].lease.token).expect("it runs");
    assert_eq!(world.take_ids(), ["earliest"]);
}

/// Two holders of one key broke recovery.
#[test]
fn a_job_that_was_tried_is_not_overtaken_when_its_retry_is_due() {
    let mut world = world();
    world.put(pull("k/a").due(50));
    world.at(50);
    let token = world.take_one().lease.token;
    world.nack(token, RETRY).expect("it runs");
    world.at(150).put(pull("k/b").due(10));
    let again = world.take();
    assert_eq!(crate::support::verbs::ids(&again), ["a"]);
    world.nack(again[0].lease.token, RETRY).expect("it runs");
    world.crash();
    world.at(250);
    assert_eq!(world.take_ids(), ["a"]);
}

#[test]
fn cancelling_the_first_frees_the_key() {
    let mut world = world();
    for id in ["k/a", "k/b", "k/c"] {
        world.put(pull(id));
    }
    world.take_one();
    world.cancel("k/b").expect("it waits in line");
    world.cancel("k/a").expect("it runs");
    assert_eq!(world.take_ids(), ["c"]);
}

#[test]
fn replacing_the_first_frees_the_key() {
    let mut world = world();
    world.put(pull("k/a"));
    world.put(pull("k/b"));
    world.take_one();
    world.put(pull("k/a").due(1_000));
    assert_eq!(world.take_ids(), ["b"]);
}

#[test]
fn an_expired_first_frees_the_key() {
    let mut world = world();
    world.put(pull("k/a").expires(100));
    world.put(pull("k/b"));
    world.at(100);
    assert_eq!(world.take_ids(), ["b"]);
    assert_eq!(world.state("k/a"), "expired");
}

#[test]
fn a_parked_first_keeps_its_turn() {
    let mut world = world();
    world.put(handled("k/a"));
    world.put(push("k/b"));
    assert_eq!(world.delivered(), [""; 0]);
    world.handlers(&["h"]);
    assert_eq!(world.delivered(), ["a"]);
}

#[test]
fn keys_of_different_queues_are_different() {
    let mut world = world();
    world.put(push("q/k/a"));
    world.put(push("r/k/b"));
    assert_eq!(world.delivered(), ["a", "b"]);
}

#[test]
fn a_key_goes_on_in_order_after_a_crash() {
    let mut world = tiny(2);
    for (id, due) in [("k/a", 10), ("k/b", 20), ("k/c", 30), ("k/d", 40)] {
        world.put(push(id).due(due));
    }
    world.at(50);
    let token = world.delivery().lease.token;
    world.fail(token);
    world.crash();
    assert_eq!(world.delivered(), [""; 0], "a waits for its retry and holds the key");
    for expected in ["a", "b", "c", "d"] {
        world.run_to(150);
        let delivery = world.delivery();
        assert_eq!(delivery.job.name.id.as_str(), expected);
        world.crash();
        let again = world.delivery();
        assert_eq!(again.job.name.id.as_str(), expected, "nobody saw how it ended");
        world.succeed(again.lease.token);
    }
}

#[test]
fn a_released_job_keeps_its_turn() {
    let mut world = world();
    world.put(pull("k/a"));
    world.put(pull("k/b"));
    let token = world.take_one().lease.token;
    world.nack(token, Nack::Release { delay: crate::support::draft::ms(50) }).expect("it runs");
    assert_eq!(world.take_ids(), [""; 0]);
    world.at(50);
    assert_eq!(world.take_ids(), ["a"]);
}
