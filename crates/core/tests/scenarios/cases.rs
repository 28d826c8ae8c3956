//! The failures that earlier systems of this kind are known for, by number: see the table in
//! `scenarios.rs`.

use hence_core::effect::Submitted;
use hence_core::error::Rejection;
use hence_core::id::{Epoch, ShardId, Token};
use hence_core::input::{Input, Nack, Report, Request};

use crate::support::draft::{every, handled, name, pull, push};
use crate::support::verbs::{failed, schedule};
use crate::support::{Answering, at};
use crate::{tiny, world};

#[test]
fn case_01_crash_between_taking_a_job_and_arming_it_again() {
    let mut world = world();
    world.put(pull("a"));
    world.take_one();
    world.crash();
    world.run_to(1_100);
    assert_eq!(world.take_ids(), ["a"], "its lease ran out and it came back");
}

#[test]
fn case_02_crash_between_storing_and_queueing() {
    let mut world = world();
    world.put(push("stored").due(100));
    let ticket = world.ticket();
    let request = Request::Submit(Box::new(push("lost").fresh().due(100).0));
    world.feed_and_lose(Input::Request { ticket, request });
    world.crash();
    world.at(100);
    assert_eq!(world.delivered(), ["stored"]);
}

#[test]
fn case_03_overwrite_while_old_timer_is_armed() {
    let mut world = world();
    world.put(push("a").due(100).payload("old"));
    world.put(push("a").due(200).payload("new"));
    world.at(100);
    assert_eq!(world.delivered(), [""; 0]);
    world.at(200);
    assert_eq!(&world.delivery().job.payload.bytes[..], b"new");
    world.put(push("a").due(900));
    world.put(push("a").due(300));
    world.run_to(1_000);
    assert_eq!(world.delivered(), ["a"]);
}

#[test]
fn case_04_restart_with_overdue_jobs() {
    let mut world = tiny(2);
    for (id, due) in [("c", 300), ("a", 100), ("b", 200), ("later", 99_000)] {
        world.put(push(id).due(due));
    }
    world.now = at(50_000);
    world.crash();
    assert_eq!(world.delivered(), ["a", "b", "c"]);
}

#[test]
fn case_05_second_job_of_a_key_after_the_first() {
    let mut world = world();
    world.put(push("k/a").due(100));
    world.put(push("k/b").due(200));
    world.at(100);
    let token = world.delivery().lease.token;
    world.succeed(token);
    world.at(200);
    let token = world.delivery().lease.token;
    world.succeed(token);
    world.put(push("k/c").due(300));
    world.at(300);
    assert_eq!(world.delivered(), ["c"]);
}

#[test]
fn case_06_first_job_of_a_new_key_during_a_load() {
    let mut world = tiny(2);
    for number in 1..=4 {
        world.put(push(&format!("j{number}")).due(number * 100));
    }
    world.answering = Answering::ByHand;
    world.recover();
    world.feed(Input::Tick);
    assert!(world.is_loading());
    world.read_all();
    for (id, due) in [("new/a", 50), ("new/b", 250), ("new/c", 950)] {
        world.ask(Request::Submit(Box::new(push(id).due(due).fresh().0)));
    }
    world.answering = Answering::AtOnce;
    world.answer_all();
    world.at(50);
    let token = world.delivery().lease.token;
    world.succeed(token);
    world.run_to(250);
    let token = world.deliveries.last().expect("b").lease.token;
    assert_eq!(world.delivered(), ["j1", "j2", "b"]);
    world.succeed(token);
    world.run_to(1_000);
    assert_eq!(world.delivered(), ["j3", "j4", "c"]);
}

#[test]
fn case_07_first_worker_completes_after_the_second_took_over() {
    let mut world = world();
    world.put(pull("a"));
    let first = world.take_one().lease.token;
    world.run_to(1_100);
    let second = world.take_one().lease.token;
    assert_eq!(world.ack(first), Err(Rejection::StaleToken));
    assert_eq!(world.ack(second), Ok(()));
    assert_eq!(world.ack(first), Err(Rejection::StaleToken));
    assert_eq!(world.queue("default").counts.succeeded, 1);
}

#[test]
fn case_08_second_claim_after_an_expired_one() {
    let mut world = world();
    world.put(pull("a").retry(every(0, 10)));
    for attempt in 1..=5 {
        assert_eq!(world.take_one().lease.attempt, attempt);
        let now = world.now.as_millis();
        world.at(now + 1_000);
    }
}

#[test]
fn case_09_holder_paused_for_longer_than_its_lease() {
    let mut world = world();
    world.put(pull("a"));
    let token = world.take_one().lease.token;
    world.now = at(60_000);
    // It wakes and speaks before anybody noticed the time.
    let extended = world.extend(token, 1_000);
    let late = world.ack(token);
    assert_eq!(extended.is_ok(), late.is_ok(), "both or neither");
    assert!(world.queue("default").counts.succeeded <= 1);
}

#[test]
fn case_10_delay_survives_a_restart() {
    let mut world = world();
    world.put(push("a").due(10_000));
    world.put(push("b").retry(every(10_000, 2)));
    let token = world.delivery().lease.token;
    world.fail(token);
    for now in [1, 5_000, 9_998] {
        world.at(now).crash();
    }
    world.at(9_999);
    assert_eq!(world.delivered(), [""; 0]);
    world.at(10_000);
    assert_eq!(world.delivered(), ["a", "b"]);
}

#[test]
fn case_11_delay_below_a_second_is_exact() {
    let mut world = world();
    for due in [1, 499, 500, 999, 1_001] {
        world.put(push("a").due(due));
        world.at(due - 1);
        assert_eq!(world.delivered(), [""; 0], "{due}");
        world.at(due);
        let token = world.delivery().lease.token;
        world.succeed(token);
    }
}

#[test]
fn case_12_jobs_far_ahead() {
    const DAY: i64 = 24 * 3_600_000;
    let mut world = tiny(1);
    let after_2038 = 2_200_000_000_000;
    for due in [DAY + 1, 45 * DAY, after_2038, 150 * 366 * DAY] {
        world.put(push("a").due(due));
        world.run_to(due - 1);
        world.crash();
        assert_eq!(world.delivered(), [""; 0], "{due}");
        world.at(due);
        let token = world.delivery().lease.token;
        world.succeed(token);
    }
}

#[test]
fn case_13_backlog_goes_by_due_time() {
    let mut world = tiny(3);
    for (id, due) in [("d", 40), ("b", 20), ("e", 50), ("a", 10), ("c", 30)] {
        world.put(pull(id).due(due));
    }
    world.at(1_000);
    let mut seen = Vec::new();
    while let Some(delivery) = world.lease(&["default"], 1, None).pop() {
        seen.push(delivery.job.name.id.to_string());
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
}

#[test]
fn case_14_long_outage_is_caught_up_by_one_job() {
    let mut world = world();
    world.put_schedule(schedule("s", 0, 60_000));
    world.now = at(30 * 24 * 3_600_000);
    world.crash();
    let jobs = world.take();
    assert!(jobs.len() <= 2, "the first tick and the last, not {}", jobs.len());
    assert_eq!(world.disk.ticks(), 30 * 24 * 60 + 1, "every tick is accounted for");
}

#[test]
fn case_15_first_occurrence_of_a_schedule() {
    for (start, put_at, first) in [(5_000, 0, 5_000), (5_000, 5_000, 5_000), (0, 5_001, 6_000)] {
        let mut world = world();
        world.at(put_at).put_schedule(schedule("s", start, 1_000));
        if put_at < first {
            world.run_to(first - 1);
            assert_eq!(world.disk.occurrences.len(), 0, "put at {put_at}");
        }
        world.run_to(first);
        assert_eq!(world.disk.occurrences[0].last, at(first), "put at {put_at}");
    }
}

#[test]
fn case_16_failure_is_not_acknowledged() {
    let mut world = world();
    world.put(push("a"));
    for report in [failed(None, false), Report::TimedOut] {
        let token = world.delivery().lease.token;
        world.report(token, report);
        assert_eq!(world.ack(token), Err(Rejection::StaleToken));
        let now = world.now.as_millis();
        world.at(now + 100);
    }
    assert_eq!(world.queue("default").counts.succeeded, 0);
    assert_eq!(world.delivery().lease.attempt, 3);
}

#[test]
fn case_17_long_job_outlives_its_first_lease() {
    let mut world = world();
    world.put(pull("a"));
    let token = world.take_one().lease.token;
    for now in (500..10_000).step_by(500) {
        world.at(now);
        world.extend(token, 1_000).expect("it is held");
        assert_eq!(world.take_ids(), [""; 0]);
    }
    assert_eq!(world.ack(token), Ok(()));
}

#[test]
fn case_20_emptied_key_leaves_nothing_in_memory() {
    let mut world = world();
    for id in ["k/a", "k/b", "k/c"] {
        world.put(pull(id).retention(0));
    }
    for _ in 0..3 {
        let token = world.take_one().lease.token;
        world.ack(token).expect("it runs");
    }
    assert_eq!(world.queue("default").in_memory, 0);
    assert_eq!(world.shard.deadline(), None);
    assert!(world.disk.live.is_empty() && world.disk.finished.is_empty());
}

#[test]
fn case_21_poisonous_job_is_set_aside_and_its_key_goes_on() {
    let mut world = world();
    world.put(handled("k/poison"));
    world.put(push("k/next").due(1));
    for _ in 0..3 {
        world.handlers(&["h"]);
        assert_eq!(world.delivered(), ["poison"]);
        world.crash();
    }
    world.handlers(&["h"]);
    assert_eq!(world.state("k/poison"), "dead");
    world.at(1);
    assert_eq!(world.delivered(), ["next"]);
}

#[test]
fn case_22_target_hangs() {
    let mut world = world();
    world.put(push("a").timeout(1_000));
    let token = world.delivery().lease.token;
    world.at(5_999);
    assert!(world.abandoned.is_empty());
    world.at(6_000);
    assert_eq!(world.abandoned, [token]);
    world.at(6_100);
    assert_eq!(world.delivery().lease.attempt, 2);
}

#[test]
fn case_23_clock_set_back() {
    let mut world = world();
    world.put_schedule(schedule("s", 1_000, 1_000));
    world.put(push("fired").due(900));
    world.put(pull("ready").due(950));
    world.at(2_500);
    assert_eq!(world.delivered(), ["fired"]);
    let ticks = world.disk.occurrences.len();
    world.at(100);
    world.put(push("new").due(200));
    assert_eq!(world.take_ids(), [""; 0], "nothing is due any more");
    world.at(500);
    assert_eq!(world.delivered(), ["new"], "and nothing fires twice");
    assert_eq!(world.disk.occurrences.len(), ticks);
    world.crash();
    world.at(2_400);
    assert_eq!(world.disk.occurrences.len(), ticks);
    assert!(world.take_ids().contains(&"ready".to_string()));
}

#[test]
fn case_23_clock_set_ahead() {
    let mut world = world();
    for due in 1..=3 {
        world.put(push(&format!("j{due}")).due(due * 1_000_000));
    }
    world.at(i64::from(u32::MAX) * 1_000);
    assert_eq!(world.delivered(), ["j1", "j2", "j3"]);
}

#[test]
fn case_24_acknowledgement_of_something_unknown() {
    let mut world = world();
    world.put(pull("a"));
    let counter = world.take_one().lease.token.counter;
    for (shard, epoch, counter) in
        [(0, 1, counter + 1), (0, 0, counter), (0, 2, counter), (9, 1, counter)]
    {
        let token = Token { shard: ShardId(shard), epoch: Epoch(epoch), counter };
        assert_eq!(world.ack(token), Err(Rejection::StaleToken));
        assert_eq!(world.nack(token, Nack::Dead), Err(Rejection::StaleToken));
        world.succeed(token);
    }
    assert_eq!(world.state("a"), "running");
}

#[test]
fn case_25_client_gives_up_waiting_and_submits_again() {
    let mut world = world();
    world.answering = Answering::ByHand;
    world.ask(Request::Submit(Box::new(pull("a").fingerprint(7).0)));
    world.ask(Request::Submit(Box::new(pull("a").fingerprint(7).0)));
    world.answering = Answering::AtOnce;
    world.answer_all();
    assert_eq!(world.submit(pull("a").fingerprint(7)), Ok(Submitted::Kept));
    let token = world.take_one().lease.token;
    world.ack(token).expect("it runs");
    assert_eq!(world.submit(pull("a").fingerprint(7)), Ok(Submitted::Kept), "even when it ran");
    assert_eq!(world.submit(pull("a").fingerprint(8)), Err(Rejection::IdempotencyMismatch));
    assert_eq!(world.disk.finished_by_name(&name("a")).map(|done| done.job.number.0), Some(1));
    assert!(world.disk.live.is_empty());
}
