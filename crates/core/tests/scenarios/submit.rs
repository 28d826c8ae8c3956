//! Accepting jobs: durable first, never early, and what a name that is taken means.

use hence_core::change::Change;
use hence_core::effect::{Effect, Submitted};
use hence_core::error::Rejection;
use hence_core::input::{Input, Nack, Request};
use hence_core::limits;
use hence_core::queue::QueueSettings;
use hence_core::shard::Config;
use hence_core::time::Timestamp;

use crate::support::draft::{Draft, ms, pull, push};
use crate::support::{World, at, config};
use crate::{tiny, world};

#[test]
fn nothing_leaves_before_it_is_durable() {
    let mut world = world();
    world.put(push("a"));
    world.effects.clear();
    let ticket = world.ticket();
    let submission = push("b").fresh().0;
    world.feed(Input::Request { ticket, request: Request::Submit(Box::new(submission)) });
    let kinds: Vec<&str> = world.effects.iter().map(kind).collect();
    assert_eq!(kinds, ["job put", "reply", "leases granted", "deliver"]);
}

fn kind(effect: &Effect) -> &'static str {
    match effect {
        Effect::Persist(Change::JobPut { .. }) => "job put",
        Effect::Persist(Change::LeasesGranted { .. }) => "leases granted",
        Effect::Persist(_) => "another fact",
        Effect::Reply { .. } => "reply",
        Effect::Deliver(_) => "deliver",
        Effect::Abandon(_) => "abandon",
        Effect::Wake(_) => "wake",
        Effect::Find(_) => "find",
        Effect::Load { .. } => "load",
        Effect::Recall { .. } => "recall",
        Effect::Notice(_) => "notice",
    }
}

#[test]
fn a_job_leaves_at_its_time_and_not_before() {
    let mut world = world();
    world.put(push("a").due(1_000));
    assert_eq!(world.shard.deadline(), Some(at(1_000)));
    world.at(999);
    assert_eq!(world.delivered(), [""; 0]);
    world.at(1_000);
    assert_eq!(world.delivered(), ["a"]);
}

#[test]
fn a_time_in_the_past_means_at_once() {
    let mut world = world();
    world.at(5_000).put(push("a").due(1));
    assert_eq!(world.delivered(), ["a"]);
}

type Prepare = fn(&mut World);

/// What stands under a name when a job of that name is submitted.
const STANDINGS: [(&str, Prepare); 8] = [
    ("nothing", |_| {}),
    ("scheduled", |world| world.put(pull("a").due(10_000).payload("old"))),
    ("far", |world| {
        world.put(pull("x").due(1_000));
        world.put(pull("y").due(2_000));
        world.put(pull("a").due(10_000).payload("old"));
    }),
    ("ready", |world| world.put(pull("a").payload("old"))),
    ("running", |world| {
        world.put(pull("a").payload("old"));
        world.take_one();
    }),
    ("succeeded", |world| {
        world.put(pull("a").payload("old"));
        let token = world.take_one().lease.token;
        world.ack(token).expect("it runs");
    }),
    ("dead", |world| {
        world.put(pull("a").payload("old"));
        let token = world.take_one().lease.token;
        world.nack(token, Nack::Dead).expect("it runs");
    }),
    ("cancelled", |world| {
        world.put(pull("a").due(10_000).payload("old"));
        world.cancel("a").expect("it waits");
    }),
];

fn new() -> Draft {
    pull("a").due(50).payload("new")
}

#[test]
fn replace_takes_the_place_of_whatever_stands() {
    for (standing, prepare) in STANDINGS {
        let mut world = tiny(2);
        prepare(&mut world);
        let live = ["scheduled", "far", "ready", "running"].contains(&standing);
        let expected = if live { Submitted::Replaced } else { Submitted::Created };
        assert_eq!(world.submit(new()), Ok(expected), "{standing}");
        world.at(50);
        let taken = world.take();
        let taken = taken.iter().find(|delivery| delivery.job.name.id.as_str() == "a");
        assert_eq!(&taken.expect(standing).job.payload.bytes[..], b"new", "{standing}");
        // The old one never runs, however long one waits.
        let token = taken.expect("just seen").lease.token;
        world.ack(token).expect("it runs");
        world.run_to(100_000);
        assert!(!world.take_ids().contains(&"a".to_string()), "{standing}");
    }
}

#[test]
fn keep_leaves_what_stands() {
    for (standing, prepare) in STANDINGS {
        let mut world = tiny(2);
        prepare(&mut world);
        let expected = if standing == "nothing" { Submitted::Created } else { Submitted::Kept };
        let before = world.disk.live.clone();
        assert_eq!(world.submit(new().keep()), Ok(expected), "{standing}");
        assert_eq!(world.disk.live == before, standing != "nothing", "{standing}");
    }
}

#[test]
fn reject_refuses_what_is_taken() {
    for (standing, prepare) in STANDINGS {
        let mut world = tiny(2);
        prepare(&mut world);
        let expected =
            if standing == "nothing" { Ok(Submitted::Created) } else { Err(Rejection::JobExists) };
        assert_eq!(world.submit(new().reject()), expected, "{standing}");
    }
}

#[test]
fn an_idempotency_key_means_the_same_request() {
    for (standing, prepare) in STANDINGS {
        let mut world = tiny(2);
        prepare(&mut world);
        if standing == "nothing" {
            assert_eq!(world.submit(new().fingerprint(1)), Ok(Submitted::Created));
            assert_eq!(world.submit(new().fingerprint(1)), Ok(Submitted::Kept));
        }
        let other = world.submit(new().fingerprint(2));
        assert_eq!(other, Err(Rejection::IdempotencyMismatch), "{standing}");
    }
}

/// With a key, `on_conflict` was ignored, and every other request for the id was refused for the
/// use of a key that nobody had used.
#[test]
fn an_idempotency_key_beside_an_id_is_about_repetition_only() {
    let mut world = tiny(2);
    world.put(pull("a").due(1_000));
    let keyed = |fingerprint| pull("a").due(1_000).fingerprint_beside_id(fingerprint);
    assert_eq!(world.submit(keyed(1)), Ok(Submitted::Replaced));
    assert_eq!(world.submit(keyed(1)), Ok(Submitted::Kept), "the same request");
    assert_eq!(world.submit(keyed(2).reject()), Err(Rejection::JobExists));
    assert_eq!(world.submit(keyed(2).keep()), Ok(Submitted::Kept));
    assert_eq!(world.submit(keyed(2)), Ok(Submitted::Replaced), "another one");
}

/// The job that was accepted may itself be what fills the queue: its producer, who did not hear of
/// it and repeats himself, was told that it was not.
#[test]
fn whoever_repeats_himself_is_answered_though_there_is_no_room() {
    let prepare: [(&str, Prepare); 3] = [
        ("full", |world| {
            let full = QueueSettings { pending_max: Some(1), ..QueueSettings::default() };
            world.settings("default", full);
        }),
        ("paused", |world| {
            let paused = QueueSettings { paused_in: true, ..QueueSettings::default() };
            world.settings("default", paused);
        }),
        ("no space", |world| world.feed(Input::StoreFull(true))),
    ];
    for (why, prepare) in prepare {
        let mut world = tiny(2);
        world.put(pull("a").due(1_000).fingerprint(7));
        prepare(&mut world);
        let again = |draft: Draft| draft.due(1_000);
        assert!(world.submit(again(pull("b"))).is_err(), "{why}");
        assert_eq!(world.submit(again(pull("a").fingerprint(7))), Ok(Submitted::Kept), "{why}");
        assert_eq!(world.submit(again(pull("a").keep())), Ok(Submitted::Kept), "{why}");
        let rejected = world.submit(again(pull("a").reject()));
        assert_eq!(rejected, Err(Rejection::JobExists), "{why}");
        let replaced = world.submit(again(pull("a")));
        assert_eq!(replaced.is_ok(), why == "full", "{why}: one goes, one comes: {replaced:?}");
    }
}

const DAY: i64 = limits::IDEMPOTENCY_KEPT.get() as i64;

/// How the job `a`, which is due and expires after 50 ms, comes to its end.
const ENDS: [(&str, Prepare); 4] = [
    ("succeeded", |world| {
        let token = world.take_one().lease.token;
        world.ack(token).expect("it runs");
    }),
    ("dead", |world| {
        let token = world.take_one().lease.token;
        world.nack(token, Nack::Dead).expect("it runs");
    }),
    ("cancelled", |world| drop(world.cancel("a").expect("it waits"))),
    ("expired", |world| {
        world.at(world.now.as_millis() + 50);
    }),
];

#[test]
fn an_idempotency_key_is_remembered_for_a_day_whatever_the_retention() {
    // The retention, and when the job is due. The last one ends when its day is over.
    let rows = [(0, 0), (1_000, 0), (2 * DAY, 0), (0, DAY)];
    for (end, finish) in ENDS {
        for (retention, due) in rows {
            let row = format!("{end}, kept {retention}, due {due}");
            let kept = ms(retention as u64);
            let mut world = World::new(Config { dead_retention: kept, ..config() });
            let draft = || pull("a").due(due).expires(50).retention(kept.get()).fingerprint(1);
            world.put(draft());
            world.at(due);
            finish(&mut world);
            let ended = world.now.as_millis();
            let until = DAY.max(ended + retention);
            if until > ended {
                world.at(until - 1);
                assert_eq!(world.submit(draft()), Ok(Submitted::Kept), "{row}");
                assert_eq!(world.state("a"), end, "{row}");
            }
            world.at(until);
            assert_eq!(world.submit(draft()), Ok(Submitted::Created), "{row}");
        }
    }
}

#[test]
fn a_job_that_keeps_nothing_frees_its_name() {
    let mut world = world();
    world.put(pull("a").retention(0));
    let token = world.take_one().lease.token;
    world.ack(token).expect("it runs");
    assert_eq!(world.state("a"), "absent");
    assert_eq!(world.submit(pull("a").reject()), Ok(Submitted::Created));
}

#[test]
fn a_fresh_id_is_not_looked_for() {
    let mut world = world();
    world.ask(Request::Submit(Box::new(pull("a").fresh().0)));
    assert!(!world.effects.iter().any(|effect| matches!(effect, Effect::Find(_))));
}

#[test]
fn a_mistaken_time_is_refused_and_changes_nothing() {
    let mut world = world();
    for due in [Timestamp::MIN, at(-1), at(7_000_000_000_000), Timestamp::MAX] {
        let mut draft = pull("a");
        draft.0.due_at = due;
        assert!(matches!(world.submit(draft), Err(Rejection::Invalid { .. })), "{due}");
    }
    assert!(world.disk.live.is_empty());
}

#[test]
fn requests_for_one_name_are_answered_in_order() {
    let mut world = world();
    world.answering = crate::support::Answering::ByHand;
    let first = world.ask(Request::Submit(Box::new(pull("a").reject().0)));
    let second = world.ask(Request::Submit(Box::new(pull("a").reject().0)));
    let third = world.ask(Request::Cancel(pull("a").0.name));
    let fourth = world.ask(Request::Submit(Box::new(pull("a").reject().0)));
    world.answer_all();
    assert!(world.reply(first).is_ok());
    assert_eq!(world.reply(second), Err(Rejection::JobExists));
    assert!(world.reply(third).is_ok());
    assert_eq!(world.reply(fourth), Err(Rejection::JobExists), "a cancelled one is kept");
}
