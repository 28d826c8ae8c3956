//! What people do to jobs: cancel, edit, run now, replay, forget.

use hence_core::error::Rejection;
use hence_core::input::{Edit, Nack};
use hence_core::queue::QueueSettings;

use crate::support::draft::{every, payload, pull, push};
use crate::support::verbs::{failed, ids};
use crate::support::{World, at};
use crate::{tiny, world};

fn refused<T: std::fmt::Debug>(result: Result<T, Rejection>) -> &'static str {
    match result {
        Err(Rejection::WrongState { state, .. }) => state,
        Err(Rejection::NoSuchJob) => "absent",
        other => panic!("{other:?}"),
    }
}

fn settings() -> QueueSettings {
    QueueSettings::default()
}

fn dead(world: &mut World, id: &str) {
    world.put(pull(id).payload("work"));
    let token = world.take_one().lease.token;
    world.nack(token, Nack::Dead).expect("it runs");
    assert_eq!(world.state(id), "dead");
}

#[test]
fn a_cancelled_job_never_runs() {
    let mut world = tiny(1);
    for (id, due) in [("ready", 0), ("soon", 10), ("far", 5_000)] {
        world.put(pull(id).due(due));
    }
    for id in ["far", "soon", "ready"] {
        assert_eq!(world.cancel(id).expect(id).state.as_str(), "cancelled", "{id}");
        assert_eq!(world.cancel(id).expect(id).state.as_str(), "cancelled", "{id}, again");
    }
    world.run_to(10_000);
    assert_eq!(world.take_ids(), [""; 0]);
    assert_eq!(world.queue("default").counts.cancelled, 3);
}

#[test]
fn a_running_job_that_is_cancelled_cannot_succeed() {
    let mut world = world();
    world.put(push("a"));
    let token = world.delivery().lease.token;
    world.cancel("a").expect("it runs");
    assert_eq!(world.abandoned, [token]);
    world.succeed(token);
    assert_eq!(world.ack(token), Err(Rejection::StaleToken));
    assert_eq!(world.state("a"), "cancelled");
}

#[test]
fn what_has_ended_cannot_be_cancelled() {
    let mut world = world();
    dead(&mut world, "d");
    world.put(push("s"));
    let token = world.delivery().lease.token;
    world.succeed(token);
    assert_eq!(refused(world.cancel("d")), "dead");
    assert_eq!(refused(world.cancel("s")), "succeeded");
    assert_eq!(refused(world.cancel("x")), "absent");
}

#[test]
fn a_job_can_be_moved_both_ways() {
    let mut world = tiny(1);
    world.put(push("a").due(1_000));
    world.put(push("b").due(2_000));
    world.move_to("a", 3_000).expect("it waits");
    world.move_to("b", 500).expect("it is far");
    world.at(500);
    assert_eq!(world.delivered(), ["b"]);
    world.at(2_999);
    assert_eq!(world.delivered(), [""; 0]);
    world.at(3_000);
    assert_eq!(world.delivered(), ["a"]);
}

/// Moved to a time that had passed, a job expired instead of running.
#[test]
fn a_job_moved_into_the_past_runs_and_expires_as_if_it_were_new() {
    // Submitted for the first time, moved to the second, as seen at 100 seconds.
    let rows = [
        (500_000, 20_000, 160_000),
        (500_000, 200_000, 260_000),
        // It was late when it was submitted: that is no part of the time it has.
        (10_000, 20_000, 160_000),
        (10_000, 200_000, 260_000),
    ];
    for (due, moved, expires) in rows {
        let row = format!("due {due}, moved to {moved}");
        let mut world = world();
        world.at(100_000).settings("default", QueueSettings { paused_out: true, ..settings() });
        world.put(pull("a").due(due).expires(60_000));
        let view = world.move_to("a", moved).expect("it waits");
        assert_eq!(view.job.expires_at, Some(at(expires)), "{row}");
        world.settings("default", settings());
        world.run_to(moved.max(100_000));
        assert_eq!(world.take_ids(), ["a"], "{row}");
    }
}

#[test]
fn an_edit_changes_what_is_delivered() {
    let mut world = world();
    world.put(pull("a").due(1_000).payload("old"));
    let edit = Edit {
        payload: Some(payload("new")),
        target: Some(push("a").0.spec.target),
        retry: Some(every(7, 2)),
        ..Edit::default()
    };
    world.edit("a", edit).expect("it waits");
    world.at(1_000);
    let delivery = world.delivery();
    assert_eq!(&delivery.job.payload.bytes[..], b"new");
    world.fail(delivery.lease.token);
    assert_eq!(world.show("a").expect("it waits").progress.due_at, at(1_007));
}

#[test]
fn a_bad_edit_changes_nothing() {
    let mut world = world();
    world.put(pull("a").due(1_000));
    let before = world.disk.live.clone();
    let edit = Edit { retry: Some(every(7, 0)), ..Edit::default() };
    assert!(matches!(world.edit("a", edit), Err(Rejection::Invalid { .. })));
    assert!(matches!(world.move_to("a", -5), Err(Rejection::Invalid { .. })));
    assert_eq!(world.disk.live, before);
}

#[test]
fn a_ready_job_can_be_put_off() {
    let mut world = world();
    world.put(pull("k/a"));
    world.put(pull("k/b"));
    world.move_to("k/a", 1_000).expect("it is ready");
    assert_eq!(world.take_ids(), ["b"], "the key is free for the next");
}

#[test]
fn a_job_that_holds_its_key_can_be_moved_and_goes_on_holding_it() {
    let mut world = world();
    world.put(pull("k/a"));
    world.put(pull("k/b"));
    let token = world.take_one().lease.token;
    world.nack(token, Nack::Retry { delay: None }).expect("it runs");
    world.move_to("k/a", 5_000).expect("it waits for its retry");
    world.at(4_999);
    assert_eq!(world.take_ids(), [""; 0]);
    world.at(5_000);
    assert_eq!(world.take_ids(), ["a"]);
}

#[test]
fn a_running_job_cannot_be_changed() {
    let mut world = world();
    world.put(pull("a"));
    world.take_one();
    assert_eq!(refused(world.move_to("a", 5)), "running");
    assert_eq!(refused(world.run_now("a")), "running");
    assert_eq!(refused(world.replay("a")), "running");
    assert_eq!(refused(world.forget("a")), "running");
}

#[test]
fn run_now_makes_it_due_wherever_it_is() {
    let mut world = tiny(1);
    world.put(push("near").due(1_000));
    world.put(push("far").due(2_000));
    world.at(10);
    world.run_now("far").expect("it waits");
    world.run_now("near").expect("it waits");
    assert_eq!(world.delivered(), ["far", "near"]);
    world.run_to(10_000);
    assert!(world.delivered().iter().all(|id| id != "x"), "and not again at its old time");
}

#[test]
fn run_now_of_a_ready_job_changes_nothing() {
    let mut world = world();
    world.put(pull("a").due(5));
    world.at(10);
    assert_eq!(world.run_now("a").expect("it is ready").progress.due_at, at(5));
}

#[test]
fn the_dead_are_kept_whole_and_can_be_replayed() {
    let mut world = world();
    dead(&mut world, "a");
    assert_eq!(world.queue("default").counts.dead, 1);
    world.at(500);
    world.replay("a").expect("it is dead");
    assert_eq!(world.queue("default").counts.dead, 0);
    let delivery = world.take_one();
    assert_eq!(&delivery.job.payload.bytes[..], b"work");
    assert_eq!(delivery.lease.attempt, 1, "all attempts again");
    assert_eq!(refused(world.replay("a")), "running");
}

#[test]
fn only_the_dead_are_replayed() {
    let mut world = world();
    world.put(pull("a").due(9));
    assert_eq!(refused(world.replay("a")), "scheduled");
    assert_eq!(refused(world.replay("b")), "absent");
}

#[test]
fn what_is_forgotten_is_gone() {
    let mut world = world();
    dead(&mut world, "a");
    world.forget("a").expect("it is dead");
    assert_eq!(world.state("a"), "absent");
    assert_eq!(world.queue("default").counts.dead, 0);
    assert_eq!(refused(world.forget("a")), "absent");
    world.put(pull("b").due(9));
    assert_eq!(refused(world.forget("b")), "scheduled");
}

#[test]
fn finished_jobs_show_how_they_ended() {
    let mut world = world();
    world.put(push("a").payload("secret").keep_result());
    let token = world.delivery().lease.token;
    let result = Some(payload("42"));
    world.report(token, hence_core::input::Report::Succeeded { result });
    let view = world.show("a").expect("it is kept");
    let finish = view.finish.expect("it ended");
    assert_eq!(&finish.result.expect("kept").bytes[..], b"42");
    assert!(view.job.payload.bytes.is_empty(), "a payload is not kept after a success");
    world.at(3_600_000);
    assert_eq!(world.state("a"), "absent", "its time is up");
}

#[test]
fn a_sweep_corrects_the_count_of_the_dead() {
    let mut world = world();
    dead(&mut world, "a");
    world.now = world.disk.finished.values().next().expect("the dead one").finish.keep_until;
    let queue = crate::support::draft::queue_name("default");
    let dead = world.disk.sweep(&queue, world.now);
    world.feed(hence_core::input::Input::Swept { queue, dead });
    assert_eq!(world.queue("default").counts.dead, 0);
}

#[test]
fn a_permanent_failure_ends_a_push_at_once() {
    let mut world = world();
    world.put(push("a"));
    let token = world.delivery().lease.token;
    world.report(token, failed(None, true));
    assert_eq!(world.state("a"), "dead");
}

#[test]
fn a_worker_gets_no_push_and_a_push_no_worker() {
    let mut world = world();
    world.put(push("a"));
    world.put(pull("b"));
    assert_eq!(world.delivered(), ["a"]);
    assert_eq!(ids(&world.take()), ["b"]);
}
