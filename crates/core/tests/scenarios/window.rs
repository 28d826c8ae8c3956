//! A queue that keeps only its next jobs in memory. What crosses on the way from the store must
//! neither be lost nor come back.

use hence_core::effect::Effect;
use hence_core::error::Rejection;
use hence_core::input::{Edit, Nack, Request};
use hence_core::shard::Config;

use crate::support::draft::{Draft, every, name, pull, push};
use crate::support::{Answering, World, at, config};
use crate::tiny;

/// Five jobs, three of them in memory, and a page that was asked for and is not there yet.
fn during_a_load() -> World {
    let mut world = tiny(3);
    for number in 1..=6 {
        world.put(push(&format!("j{number}")).due(number * 100));
    }
    world.answering = Answering::ByHand;
    world.at(200);
    assert_eq!(world.delivered(), ["j1", "j2"]);
    assert!(world.is_loading());
    world.read_all();
    world
}

/// Lets the page arrive, and everything after it happen.
fn the_rest(mut world: World) -> Vec<String> {
    world.answering = Answering::AtOnce;
    world.answer_all();
    world.run_to(3_000);
    world.delivered()
}

fn ask(world: &mut World, request: Request) {
    world.ask(request);
    // The find is answered, the page is not.
    let page = world.questions.remove(0);
    world.answer_all();
    world.questions.insert(0, page);
}

#[test]
fn jobs_beyond_the_window_cost_no_memory_and_come_in_order() {
    let mut world = tiny(3);
    for number in (1..=9).rev() {
        world.put(push(&format!("j{number}")).due(number * 100));
        assert!(world.queue("default").in_memory <= 3);
    }
    world.run_to(1_000);
    let expected: Vec<String> = (1..=9).map(|number| format!("j{number}")).collect();
    assert_eq!(world.delivered(), expected);
}

#[test]
fn a_load_without_incident() {
    assert_eq!(the_rest(during_a_load()), ["j3", "j4", "j5", "j6"]);
}

#[test]
fn a_job_cancelled_during_a_load_stays_cancelled() {
    let mut world = during_a_load();
    ask(&mut world, Request::Cancel(name("j5")));
    assert_eq!(the_rest(world), ["j3", "j4", "j6"]);
}

#[test]
fn a_job_moved_during_a_load_is_where_it_was_moved_to() {
    for (due, expected) in [
        (250, ["j5", "j3", "j4", "j6"]),
        (450, ["j3", "j4", "j5", "j6"]),
        (2_000, ["j3", "j4", "j6", "j5"]),
    ] {
        let mut world = during_a_load();
        let edit = Edit { due_at: Some(at(due)), ..Edit::default() };
        ask(&mut world, Request::Edit { name: name("j5"), edit: Box::new(edit) });
        assert_eq!(the_rest(world), expected, "to {due}");
    }
}

#[test]
fn jobs_submitted_during_a_load_find_their_place() {
    for (due, expected) in [
        (250, ["new", "j3", "j4", "j5", "j6"]),
        (350, ["j3", "new", "j4", "j5", "j6"]),
        (550, ["j3", "j4", "j5", "new", "j6"]),
        (900, ["j3", "j4", "j5", "j6", "new"]),
    ] {
        let mut world = during_a_load();
        ask(&mut world, Request::Submit(Box::new(push("new").due(due).0)));
        assert_eq!(the_rest(world), expected, "due at {due}");
    }
}

#[test]
fn a_job_replaced_during_a_load_is_the_new_one() {
    let mut world = during_a_load();
    ask(&mut world, Request::Submit(Box::new(push("j4").due(1_500).payload("new").0)));
    assert_eq!(the_rest(world), ["j3", "j5", "j6", "j4"]);
}

#[test]
fn a_window_that_shrinks_during_a_load_loses_nothing() {
    let mut world = during_a_load();
    for number in 1..=4 {
        let draft = push(&format!("n{number}")).due(210 + number);
        ask(&mut world, Request::Submit(Box::new(draft.0)));
    }
    assert_eq!(the_rest(world), ["n1", "n2", "n3", "n4", "j3", "j4", "j5", "j6"]);
}

#[test]
fn a_crash_during_a_load_loses_nothing() {
    let mut world = during_a_load();
    world.answering = Answering::AtOnce;
    world.crash();
    assert_eq!(world.delivered(), ["j1", "j2"], "nobody saw how they ended");
    world.run_to(3_000);
    assert_eq!(world.delivered(), ["j3", "j4", "j5", "j6"]);
}

#[test]
fn a_key_is_in_order_across_the_window() {
    let mut world = tiny(1);
    let order = [("k/c", 30), ("k/a", 10), ("l/x", 15), ("k/d", 40), ("k/b", 20)];
    for (id, due) in order {
        world.put(push(id).due(due));
    }
    world.at(100);
    let mut seen = Vec::new();
    while !world.deliveries.is_empty() {
        let delivery = world.deliveries.remove(0);
        seen.push(delivery.job.name.id.to_string());
        world.succeed(delivery.lease.token);
    }
    seen.retain(|id| id != "x");
    assert_eq!(seen, ["a", "b", "c", "d"]);
}

#[test]
fn a_blocked_key_does_not_fill_the_window() {
    let mut world = tiny(2);
    world.put(push("k/first"));
    assert_eq!(world.delivered(), ["first"]);
    for number in 1..=6 {
        world.put(push(&format!("k/{number}")));
    }
    world.put(push("free").due(5));
    world.at(10);
    assert_eq!(world.delivered(), ["free"]);
}

/// It was let go, and the next of its key took its turn.
#[test]
fn a_job_that_holds_its_key_is_not_let_go() {
    let mut world = tiny(1);
    world.put(pull("k/a"));
    world.put(pull("k/b").due(1));
    let token = world.take_one().lease.token;
    world.nack(token, Nack::Retry { delay: None }).expect("it runs");
    world.at(100);
    for number in 1..=3 {
        world.put(pull(&format!("{number}")).due(50));
    }
    let taken = world.take_ids();
    assert!(taken.contains(&"a".to_string()) && !taken.contains(&"b".to_string()), "{taken:?}");
}

/// A page that was read before its end brought it back to life.
#[test]
fn a_job_that_holds_its_key_and_ends_during_a_load_stays_ended() {
    let mut world = tiny(3);
    world.put(pull("k/a").retry(every(450, 3)));
    let token = world.take_one().lease.token;
    world.nack(token, Nack::Retry { delay: None }).expect("it runs");
    for number in 1..=6 {
        world.put(push(&format!("j{number}")).due(number * 100));
    }
    world.answering = Answering::ByHand;
    world.at(200);
    assert!(world.is_loading());
    world.read_all();
    world.cancel("k/a").expect("it waits");
    world.answering = Answering::AtOnce;
    world.answer_all();
    world.run_to(20_000);
    assert_eq!(world.take_ids(), [""; 0]);
    assert_eq!(world.state("k/a"), "cancelled");
}

fn large(id: &str, due: i64) -> Draft {
    push(id).due(due).payload("0123456789")
}

#[test]
fn large_payloads_fill_the_window_too() {
    let mut world = World::new(Config { window_bytes: 35, ..config() });
    for number in 1..=8 {
        world.put(large(&format!("j{number}"), number * 100));
    }
    assert_eq!(world.queue("default").in_memory, 4, "and the one that makes it overflow");
    world.run_to(1_000);
    assert_eq!(world.delivered().len(), 8);
}

/// It was let go, missed, and read again, for ever.
#[test]
fn a_payload_that_does_not_fit_is_not_read_again_and_again() {
    let mut world = World::new(Config { window_bytes: 12, ..config() });
    world.put(push("a").due(1_000).payload("123456"));
    world.put(push("b").due(2_000).payload("1234567"));
    world.at(1);
    assert!(!world.effects.iter().any(|effect| matches!(effect, Effect::Load { .. })));
    let mut alone = World::new(Config { window_bytes: 3, ..config() });
    alone.put(large("a", 1_000));
    alone.put(large("b", 2_000));
    alone.run_to(3_000);
    assert_eq!(alone.delivered(), ["a", "b"]);
}

#[test]
fn a_due_job_is_ready_though_it_is_far() {
    let mut world = tiny(1);
    world.put(pull("near").due(100));
    world.put(pull("far").due(200));
    world.at(199);
    assert_eq!((world.state("near"), world.state("far")), ("ready", "scheduled"));
    world.at(200);
    assert_eq!((world.state("near"), world.state("far")), ("ready", "ready"));
}

#[test]
fn a_far_job_expires_when_it_is_seen() {
    let mut world = tiny(1);
    world.put(pull("near").due(100));
    world.put(pull("far").due(200).expires(50));
    world.at(1_000);
    let token = world.take_one().lease.token;
    world.ack(token).expect("it runs");
    assert_eq!(world.state("far"), "expired");
}

#[test]
fn a_retry_beyond_the_window_comes_back() {
    let mut world = tiny(2);
    world.put(push("a").retry(every(10_000, 2)));
    for number in 1..=4 {
        world.put(push(&format!("j{number}")).due(number * 100));
    }
    let token = world.delivery().lease.token;
    world.fail(token);
    world.run_to(9_999);
    assert_eq!(world.delivered().len(), 4);
    world.at(10_000);
    assert_eq!(world.delivered(), ["a"]);
}

#[test]
fn a_find_that_crosses_a_change_is_asked_again() {
    let mut world = tiny(1);
    world.put(pull("a").due(100));
    world.put(pull("b").due(200));
    world.answering = Answering::ByHand;
    let first = world.ask(Request::Cancel(name("b")));
    let second = world.ask(Request::Cancel(name("b")));
    let third = world.ask(Request::Forget(name("b")));
    let fourth = world.ask(Request::Show(name("b")));
    world.answer_all();
    assert!(world.reply(first).is_ok() && world.reply(second).is_ok());
    assert!(world.reply(third).is_ok());
    assert!(world.reply(fourth).is_err());
}

#[test]
fn a_find_that_crosses_the_end_of_its_job_finds_nothing() {
    let mut world = tiny(1);
    world.put(push("a").due(100));
    world.put(push("b").due(200).retention(0));
    world.answering = Answering::ByHand;
    let cancel = world.ask(Request::Cancel(name("b")));
    world.read_all();
    let found = world.questions.remove(0);
    world.at(100);
    world.answer_all();
    world.at(200);
    let token = world.deliveries.last().expect("b was read in").lease.token;
    world.succeed(token);
    world.questions.insert(0, found);
    world.answer_all();
    assert_eq!(world.reply(cancel), Err(Rejection::NoSuchJob));
}

#[test]
fn a_queue_of_its_own_has_a_window_of_its_own() {
    let mut world = tiny(2);
    world.settings(
        "paused",
        hence_core::queue::QueueSettings { paused_out: true, ..Default::default() },
    );
    for number in 1..=9 {
        world.put(push(&format!("paused//p{number}")));
        world.put(push(&format!("open//o{number}")).due(number * 10));
    }
    world.run_to(1_000);
    assert_eq!(world.delivered().len(), 9, "one queue does not starve the other");
}
