//! A queue that keeps only its next jobs in memory. What crosses on the way from the store must
//! neither be lost nor come back.

use hence_core::effect::Effect;
use hence_core::error::Rejection;
use hence_core::input::{Edit, Nack, Request};
use hence_core::shard::Config;

use crate::support::draft::{Draft, every, handled, name, pull, push};
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

/// Nine jobs that nobody takes, and four pushes that are due after them.
fn behind_jobs_that_nobody_takes(jobs: usize, nobody_takes: fn(&str) -> Draft) -> World {
    let mut world = tiny(jobs);
    for number in 1..=9 {
        world.put(nobody_takes(&format!("n{number}")).due(number));
    }
    for number in 1..=4 {
        world.put(push(&format!("j{number}")).due(number * 100));
    }
    world
}

const PUSHES: [&str; 4] = ["j1", "j2", "j3", "j4"];

#[test]
fn jobs_that_nobody_takes_hold_up_no_others() {
    type Row = (&'static str, fn(&str) -> Draft);
    let no_worker: Row = ("no worker", pull);
    let no_key: Row = ("no worker for keys", |id| pull(&format!("{id}/k")));
    let no_handler: Row = ("no handler", handled);
    for (row, nobody_takes) in [no_worker, no_key, no_handler] {
        for (jobs, crashes) in [(1, false), (3, false), (1, true), (3, true), (12, true)] {
            let mut world = behind_jobs_that_nobody_takes(jobs, nobody_takes);
            if crashes {
                world.crash();
            }
            world.run_to(1_000);
            assert_eq!(world.delivered(), PUSHES, "{row}, a window of {jobs}, {crashes}");
            assert!(world.queue("default").in_memory <= jobs as u64 + 3 + 4, "{row}, {jobs}");
        }
    }
}

/// Nine jobs for the handler `h`, and four for `i` that are due after them.
fn behind_jobs_of_another_handler(jobs: usize) -> World {
    let mut world = tiny(jobs);
    for number in 1..=9 {
        world.put(handled(&format!("h{number}")).due(number));
    }
    for number in 1..=4 {
        world.put(handled(&format!("i{number}")).by("i").due(number * 100));
    }
    world
}

#[test]
fn jobs_of_a_missing_handler_hold_up_none_of_one_that_is_there() {
    for (jobs, crashes) in [(1, false), (3, false), (1, true), (3, true), (12, true)] {
        let mut world = behind_jobs_of_another_handler(jobs);
        if crashes {
            world.crash();
        }
        world.handlers(&["i"]);
        world.run_to(1_000);
        assert_eq!(world.delivered(), ["i1", "i2", "i3", "i4"], "{jobs}, {crashes}");
        assert!(world.queue("default").in_memory <= jobs as u64 + 3 + 4, "{jobs}, {crashes}");
        world.handlers(&["h", "i"]);
        world.run_to(2_000);
        let expected: Vec<String> = (1..=9).map(|number| format!("h{number}")).collect();
        assert_eq!(world.delivered(), expected, "{jobs}, {crashes}: all of them, in their order");
    }
}

/// The page on its way goes on where the jobs of one handler end, those of the other end before it.
#[test]
fn a_handler_that_comes_during_a_load_is_not_overtaken() {
    let mut world = behind_jobs_of_another_handler(1);
    world.handlers(&["i"]);
    world.run_to(150);
    assert_eq!(world.delivered(), ["i1"]);
    world.answering = Answering::ByHand;
    world.at(200);
    assert_eq!(world.delivered(), ["i2"]);
    assert!(world.is_loading(), "for the rest of i");
    world.read_all();
    world.at(350);
    world.handlers(&["h", "i"]);
    let expected = ["h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9", "i3", "i4"];
    assert_eq!(the_rest(world), expected);
}

/// What gained its handler must not be overtaken by what had one, nor the other way round.
#[test]
fn jobs_of_handlers_that_come_and_go_stay_in_their_order() {
    for (jobs, crashes) in [(1, false), (2, false), (5, false), (2, true), (5, true)] {
        let mut world = tiny(jobs);
        world.handlers(&["i"]);
        let mut expected = Vec::new();
        for number in 1..=12 {
            let id = format!("j{number}");
            let by = if number % 3 == 0 { "i" } else { "h" };
            world.put(handled(&id).by(by).due(500 + number));
            expected.push(id);
        }
        if crashes {
            world.crash();
        }
        world.run_to(100);
        for handlers in [&["h"][..], &["i"], &[], &["h", "i"]] {
            world.handlers(handlers);
            world.at(world.now.as_millis() + 1);
        }
        world.run_to(2_000);
        assert_eq!(world.delivered(), expected, "{jobs}, {crashes}");
    }
}

#[test]
fn jobs_that_were_let_go_for_others_come_in_their_order() {
    for crashes in [false, true] {
        let mut world = behind_jobs_that_nobody_takes(3, pull);
        if crashes {
            world.crash();
        }
        world.run_to(1_000);
        let mut taken = Vec::new();
        while taken.len() < 9 {
            let delivery = world.take_one();
            taken.push(delivery.job.name.id.to_string());
            world.ack(delivery.lease.token).expect("in time");
        }
        let expected: Vec<String> = (1..=9).map(|number| format!("n{number}")).collect();
        assert_eq!(taken, expected);
    }
}

#[test]
fn what_may_be_behind_jobs_that_nobody_takes_is_read_when_it_may_be_due() {
    let mut world = behind_jobs_that_nobody_takes(4, pull);
    world.crash();
    world.at(50);
    world.at(60);
    let reads = world.effects.iter().any(|effect| matches!(effect, Effect::Load { .. }));
    assert!(!reads, "nothing is read for the sake of jobs that are not due");
    for (nth, id) in PUSHES.iter().enumerate() {
        let due = (nth as i64 + 1) * 100;
        world.run_to(due - 1);
        assert_eq!(world.delivered(), [""; 0], "not early");
        world.run_to(due);
        assert_eq!(world.delivered(), [*id]);
    }
}

/// Of a key, a push must not overtake a job for a worker that was let go.
#[test]
fn the_jobs_of_a_key_are_in_order_however_they_leave() {
    for crashes in [false, true] {
        let mut world = tiny(2);
        for (id, due) in [("k/a", 1), ("k/c", 3), ("l/x", 1), ("m/y", 1)] {
            world.put(pull(id).due(due));
        }
        world.put(push("k/b").due(2));
        if crashes {
            world.crash();
        }
        world.run_to(10);
        let mut seen = Vec::new();
        for _ in 0..20 {
            for delivery in core::mem::take(&mut world.deliveries).into_iter().chain(world.take()) {
                seen.push(delivery.job.name.id.to_string());
                world.succeed(delivery.lease.token);
            }
        }
        seen.retain(|id| ["a", "b", "c"].contains(&id.as_str()));
        assert_eq!(seen, ["a", "b", "c"]);
    }
}
