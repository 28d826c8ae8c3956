//! Requests that somebody wrote into the store, in a transaction of their own.

use hence_core::error::Rejection;
use hence_core::id::{JobNumber, LetterId};
use hence_core::input::{Input, Request};
use hence_core::job::AttemptEnd;
use hence_core::queue::QueueSettings;

use crate::support::draft::{Draft, name, pull};
use crate::support::{Reply, World};
use crate::world;

/// Letters that are gone from the inbox, and whether they were refused.
fn taken(world: &World) -> Vec<(u64, bool)> {
    world.disk.letters.iter().map(|(id, refused)| (id.0, refused.is_some())).collect()
}

fn write(world: &mut World, id: u64, request: Request) -> Reply {
    write_any(world, id, Ok(request))
}

fn write_any(world: &mut World, id: u64, request: Result<Request, Rejection>) -> Reply {
    let ticket = world.ticket();
    world.feed(Input::Letter { ticket, id: LetterId(id), request });
    world.reply(ticket)
}

fn submission(draft: Draft) -> Request {
    Request::Submit(Box::new(draft.0))
}

fn completion(id: &str, number: JobNumber) -> Request {
    Request::Complete { name: name(id), number, result: None }
}

#[test]
fn a_letter_leaves_the_inbox_with_what_came_of_it() {
    let mut world = world();
    write(&mut world, 7, submission(pull("a"))).expect("accepted");
    assert_eq!(taken(&world), [(7, false)]);
    assert_eq!(world.state("a"), "ready");
}

#[test]
fn a_letter_that_nobody_can_understand_is_taken_and_says_why() {
    let mut world = world();
    let refusal = Rejection::invalid("due_at", "must be a time");
    assert_eq!(write_any(&mut world, 1, Err(refusal.clone())), Err(refusal));
    assert_eq!(world.disk.letters[0].1.as_deref(), Some("due_at must be a time"));
}

#[test]
fn a_letter_stays_while_the_reason_is_passing() {
    let mut world = world();
    world.settings("default", QueueSettings { paused_in: true, ..QueueSettings::default() });
    write(&mut world, 1, submission(pull("a"))).expect_err("the queue is paused");
    assert_eq!(taken(&world), []);
    world.settings("default", QueueSettings::default());
    write(&mut world, 1, submission(pull("a"))).expect("accepted");
    assert_eq!(taken(&world), [(1, false)]);
}

#[test]
fn work_that_was_committed_elsewhere_is_done_whoever_holds_the_job() {
    // The job is with a worker, waits for its next try, or is with another worker.
    for (at, state) in [(0, "running"), (1_000, "scheduled"), (1_300, "running")] {
        let mut world = world();
        world.put(pull("a"));
        let first = world.take_one();
        if at > 0 {
            world.at(1_000).run_to(at);
        }
        let second = (at > 1_000).then(|| world.take_one().lease.token);
        assert_eq!(world.state("a"), state);
        write(&mut world, 1, completion("a", first.job.number)).expect("done");
        assert_eq!(world.state("a"), "succeeded", "{at}");
        assert_eq!(world.queue("default").counts.succeeded, 1);
        assert_eq!(world.queue("default").counts.pending, 0);
        assert_eq!(world.queue("default").counts.running, 0);
        let held = second.unwrap_or(first.lease.token);
        assert_eq!(world.ack(held).is_ok(), state == "running", "its answer says the same");
        if state == "running" {
            let (_, ended) = world.disk.attempts.last().expect("an attempt");
            assert_eq!((ended.end, ended.token), (AttemptEnd::Succeeded, held));
        }
    }
}

#[test]
fn committed_work_is_recorded_once_and_only_for_the_job_that_was_meant() {
    let mut world = world();
    world.put(pull("a"));
    let number = world.take_one().job.number;
    write(&mut world, 1, completion("a", number)).expect("done");
    write(&mut world, 2, completion("a", number)).expect("it stands");
    assert_eq!(world.queue("default").counts.succeeded, 1);
    world.put(pull("a"));
    let later = write(&mut world, 3, completion("a", number));
    assert_eq!(later, Err(Rejection::NoSuchJob));
    assert_eq!(world.state("a"), "ready");
    assert_eq!(taken(&world), [(1, false), (2, false), (3, true)]);
}

#[test]
fn a_cancelled_job_stays_cancelled_though_its_work_was_done() {
    let mut world = world();
    world.put(pull("a"));
    let number = world.take_one().job.number;
    world.cancel("a").expect("cancelled");
    let late = write(&mut world, 1, completion("a", number));
    assert!(matches!(late, Err(Rejection::WrongState { state: "cancelled", .. })), "{late:?}");
    assert_eq!(taken(&world), [(1, true)]);
}
