//! Limits, pauses, handlers that are not there, a full store, a shutdown.

use std::collections::VecDeque;

use hence_core::change::Change;
use hence_core::effect::{Answer, Effect, Notice};
use hence_core::error::Rejection;
use hence_core::id::{HandlerName, Token};
use hence_core::input::{Edit, Input, Nack, Report, Request, Ticket};
use hence_core::job::{IdOrigin, Submission, Target};
use hence_core::limits::{self, AHEAD_SPAN};
use hence_core::queue::{QueueSettings, Rate};
use hence_core::shard::Config;

use crate::support::draft::{every, handled, ms, name, payload, pull, push, queue_name};
use crate::support::verbs::{failed, ids, schedule};
use crate::support::{World, at, config};
use crate::world;

fn settings() -> QueueSettings {
    QueueSettings::default()
}

#[test]
fn a_queue_paused_for_new_jobs_goes_on_with_the_old() {
    let mut world = world();
    world.put(push("a").due(10));
    world.settings("default", QueueSettings { paused_in: true, ..settings() });
    assert!(matches!(world.submit(push("b")), Err(Rejection::QueuePaused { .. })));
    world.at(10);
    assert_eq!(world.delivered(), ["a"]);
    world.settings("default", settings());
    world.put(push("b"));
}

#[test]
fn a_paused_queue_hands_nothing_out() {
    let mut world = world();
    world.settings("default", QueueSettings { paused_out: true, ..settings() });
    world.put(push("a"));
    world.put(pull("b"));
    assert_eq!((world.delivered().len(), world.take().len()), (0, 0));
    world.settings("default", settings());
    assert_eq!((world.delivered(), world.take_ids()), (vec!["a".into()], vec!["b".into()]));
}

/// A few results of a megabyte used up what is kept for recording how accepted work ends, and
/// everything stood still.
#[test]
fn a_full_store_takes_the_end_of_work_and_little_else() {
    let mut world = world();
    world.put(pull("a").keep_result());
    world.put(pull("waits").due(1_000));
    let token = world.take_one().lease.token;
    world.feed(Input::StoreFull(true));
    let max = limits::RESULT_WHEN_FULL_BYTES_MAX;
    let ack = |size: usize| {
        let result = Some(payload(&"x".repeat(size)));
        Request::Ack { token, result }
    };
    assert_eq!(world.call(ack(max + 1)), Err(Rejection::StoreFull));
    let edit = Edit { payload: Some(payload("more")), ..Edit::default() };
    assert_eq!(world.edit("waits", edit), Err(Rejection::StoreFull));
    world.move_to("waits", 2_000).expect("that needs no room");
    assert_eq!(world.call(ack(max)), Ok(Answer::Done));
}

/// A server on which every customer has a queue came to the limit, and could not go on.
#[test]
fn an_empty_queue_is_removed_and_makes_room() {
    let mut world = world();
    let remove = |name: &str| Request::RemoveQueue(queue_name(name));
    for n in 0..limits::QUEUES_MAX {
        world.settings(&format!("q{n}"), QueueSettings { paused_out: true, ..settings() });
    }
    let full = Rejection::TooMany { what: "queues", max: limits::QUEUES_MAX };
    assert_eq!(world.submit(pull("new//a")).err(), Some(full.clone()));
    let put = Request::PutQueue { name: queue_name("new"), settings: settings() };
    assert_eq!(world.call(put), Err(full));
    world.call(remove("q7")).expect("it is empty");
    world.put(pull("new//a"));
    assert_eq!(world.queue("q7").settings, settings(), "it is as if it had never been");
    world.call(remove("q8")).expect("it is empty");
    world.recover();
    world.put(pull("other//a"));
    assert!(world.submit(pull("third//a")).is_err(), "what is removed stays so");
}

#[test]
fn a_queue_that_holds_jobs_stays() {
    let mut world = world();
    let remove = || Request::RemoveQueue(queue_name("default"));
    assert_eq!(world.call(remove()), Err(Rejection::NoSuchQueue));
    let in_use = |pending, running, dead| {
        let queue = "default".to_owned();
        Err(Rejection::QueueInUse { queue, pending, running, dead })
    };
    world.put(pull("a").retry(every(100, 1)));
    assert_eq!(world.call(remove()), in_use(1, 0, 0));
    let token = world.take_one().lease.token;
    assert_eq!(world.call(remove()), in_use(0, 1, 0));
    world.nack(token, Nack::Dead).expect("it is held");
    assert_eq!(world.call(remove()), in_use(0, 0, 1));
    world.forget("a").expect("it is dead");
    assert_eq!(world.call(remove()), Ok(Answer::Done));
    assert_eq!(world.call(remove()), Err(Rejection::NoSuchQueue));
    assert_eq!(world.call(Request::ListQueues), Ok(Answer::Queues(Vec::new())));
}

/// The next queue in its place inherits nothing: no rate that was used up, no alarm, no page.
#[test]
fn a_queue_in_the_place_of_a_removed_one_is_new() {
    let mut world = world();
    let rate = Some(Rate { count: 1, per: ms(3_600_000) });
    world.settings("default", QueueSettings { rate, ..settings() });
    world.put(push("a"));
    world.put(push("b"));
    let first = world.delivery();
    world.succeed(first.lease.token);
    world.put(push("later").due(9_000));
    world.put(handled("unheard"));
    for id in ["b", "later", "unheard"] {
        world.cancel(id).expect("it waits");
    }
    world.call(Request::RemoveQueue(queue_name("default"))).expect("it is empty");
    assert_eq!(world.shard.deadline(), None);
    world.settings("default", QueueSettings { rate, ..settings() });
    world.put(push("c"));
    assert_eq!(world.delivered(), ["c"]);
}

#[test]
fn a_queue_runs_so_many_at_once() {
    let mut world = world();
    world.settings("default", QueueSettings { concurrency: Some(2), ..settings() });
    for id in ["a", "b", "c"] {
        world.put(push(id));
    }
    world.put(pull("d"));
    let first = world.deliveries[0].lease.token;
    assert_eq!(world.delivered(), ["a", "b"]);
    assert_eq!(world.take_ids(), [""; 0], "pulled and pushed jobs share the limit");
    world.succeed(first);
    assert_eq!(world.delivered(), ["c"]);
}

#[test]
fn what_was_taken_in_together_is_handed_out_together() {
    let mut world = world();
    for (id, ticket) in [("a", 1), ("b", 2), ("c", 3)] {
        let submission = Submission { id_origin: IdOrigin::Drawn, ..push(id).0 };
        let request = Request::Submit(Box::new(submission));
        world.shard.take_in(world.now, Input::Request { ticket: Ticket(ticket), request });
    }
    let puts: Vec<Effect> = std::iter::from_fn(|| world.shard.poll_effect()).collect();
    let follows = |effect: &Effect| !matches!(effect, Effect::Persist(_) | Effect::Reply { .. });
    assert!(!puts.iter().any(follows) && puts.len() == 6, "{puts:?}");
    world.shard.advance(world.now);
    let effects: Vec<Effect> = std::iter::from_fn(|| world.shard.poll_effect()).collect();
    let [Effect::Persist(Change::LeasesGranted { leases, .. }), sent @ ..] = &effects[..] else {
        panic!("one fact for all of them: {effects:?}");
    };
    assert_eq!((leases.len(), sent.len()), (3, 3));
    assert!(sent.iter().all(|effect| matches!(effect, Effect::Deliver(_))), "{sent:?}");
}

#[test]
fn a_queue_starts_so_many_in_a_time() {
    let mut world = world();
    let rate = Some(Rate { count: 2, per: ms(1_000) });
    world.settings("default", QueueSettings { rate, ..settings() });
    world.at(10_000);
    for id in ["a", "b", "c", "d", "e"] {
        world.put(push(id));
    }
    assert_eq!(world.delivered(), ["a", "b"]);
    world.run_to(10_499);
    assert_eq!(world.delivered(), [""; 0]);
    world.run_to(10_501);
    assert_eq!(world.delivered(), ["c"]);
    world.run_to(11_502);
    assert_eq!(world.delivered(), ["d", "e"]);
}

/// Each restart gave the whole burst again: in a loop of crashes there was no limit at all.
#[test]
fn a_rate_holds_over_a_restart() {
    let mut world = world();
    let rate = Some(Rate { count: 2, per: ms(1_000) });
    world.settings("default", QueueSettings { rate, ..settings() });
    world.at(10_000);
    for id in ["a", "b", "c"] {
        world.put(pull(id));
    }
    assert_eq!(world.take_ids(), ["a", "b"]);
    world.recover();
    assert_eq!(world.take_ids(), [""; 0]);
    world.run_to(10_501);
    assert_eq!(world.take_ids(), ["c"]);
}

/// What the old rate had still to wait for was waited for under the new one.
#[test]
fn a_new_rate_holds_from_now_on() {
    let mut world = world();
    let rate =
        |count, per| QueueSettings { rate: Some(Rate { count, per: ms(per) }), ..settings() };
    world.settings("default", rate(1, 3_600_000));
    for id in ["a", "b", "c"] {
        world.put(push(id));
    }
    assert_eq!(world.delivered(), ["a"]);
    world.settings("default", rate(100, 1_000));
    world.run_to(100);
    assert_eq!(world.delivered(), ["b", "c"]);
}

/// A queue with a rate stood still until the clock was again where it had been.
#[test]
fn a_clock_set_back_does_not_stop_a_queue_with_a_rate() {
    let mut world = world();
    let rate = Some(Rate { count: 1, per: ms(1_000) });
    world.settings("default", QueueSettings { rate, ..settings() });
    world.at(3_600_000);
    for draft in [push("a"), push("b"), pull("c"), pull("d")] {
        world.put(draft);
    }
    assert_eq!((world.delivered(), world.take_ids()), (vec!["a".into()], vec![]));
    world.at(10_000);
    world.run_to(12_500);
    assert_eq!(world.delivered(), ["b"]);
    assert_eq!(world.take_ids(), ["c"]);
}

/// Who pulls was not told before the clock was again where it had been.
#[test]
fn a_clock_set_back_does_not_keep_workers_waiting_for_a_rate() {
    let mut world = world();
    let rate = Some(Rate { count: 1, per: ms(60_000) });
    world.settings("default", QueueSettings { rate, ..settings() });
    world.at(3_600_000);
    for draft in [pull("a"), pull("b")] {
        world.put(draft);
    }
    assert_eq!((world.take_ids(), world.take_ids()), (vec!["a".into()], vec![]));
    world.woken.clear();
    world.at(10_000);
    assert_eq!(world.woken.len(), 1, "they ask again, and hear of the new time");
    assert_eq!(world.take_ids(), [""; 0]);
    world.woken.clear();
    world.run_to(71_000);
    assert_eq!(world.woken.len(), 1);
    assert_eq!(world.take_ids(), ["b"]);
}

#[test]
fn a_full_queue_refuses_and_says_so() {
    let mut world = world();
    world.settings("default", QueueSettings { pending_max: Some(2), ..settings() });
    world.put(pull("a"));
    world.put(pull("b"));
    assert!(matches!(world.submit(pull("c")), Err(Rejection::QueueFull { max: 2, .. })));
    world.take_one();
    world.put(pull("c"));
}

#[test]
fn settings_without_sense_are_refused() {
    let mut world = world();
    let none = Some(Rate { count: 0, per: ms(1) });
    for bad in [
        QueueSettings { concurrency: Some(0), ..settings() },
        QueueSettings { rate: none, ..settings() },
    ] {
        let name = crate::support::draft::queue_name("q");
        let reply = world.call(Request::PutQueue { name, settings: bad });
        assert!(matches!(reply, Err(Rejection::Invalid { .. })));
    }
    assert!(world.disk.queues.is_empty());
}

#[test]
fn settings_survive_a_crash() {
    let mut world = world();
    world.settings("default", QueueSettings { paused_out: true, ..settings() });
    world.put(push("a"));
    world.crash();
    assert_eq!(world.delivered(), [""; 0]);
}

#[test]
fn a_node_pushes_so_many_at_once_earliest_first() {
    let mut world = World::new(Config { pushes_max: 1, ..config() });
    world.put(push("q//a").due(20));
    world.put(push("r//b").due(10));
    world.at(30);
    let first = world.delivery();
    assert_eq!(first.job.name.id.as_str(), "b");
    world.succeed(first.lease.token);
    assert_eq!(world.delivered(), ["a"]);
}

/// Nobody waits for the disk between one delivery and the next: as many are handed out ahead as end
/// while a lease is written, by the last two spans of time.
#[test]
fn a_node_hands_out_ahead_what_ends_meanwhile() {
    let mut world = World::new(Config { pushes_max: 3, ..config() });
    for nth in 0..60 {
        world.put(push(&format!("j{nth:02}")));
    }
    let mut out: VecDeque<Token> = VecDeque::new();
    let done = || Report::Succeeded { result: None };
    // In which span, how many end so, and how many are handed out afterwards.
    let rows = [
        (10, 0, done(), 3),
        (11, 3, done(), 3),
        (12, 3, done(), 3),
        (13, 2, failed(None, false), 6),
        // As many as in the one of the two that saw fewer.
        (14, 1, done(), 5),
        // What is given back is no pace, and is not handed out again.
        (15, 3, Report::Released, 4),
        // Nothing has ended in one of the two.
        (16, 1, done(), 3),
        (17, 9, done(), 3),
        (18, 9, done(), 4),
        // No more ahead than may be under way.
        (19, 9, done(), 6),
        (20, 0, done(), 6),
        // Many that end at once are no pace.
        (30, 6, done(), 3),
        (31, 0, done(), 3),
        (32, 1, done(), 3),
        (33, 1, done(), 3),
        (34, 1, done(), 4),
        // A clock that is set back begins anew.
        (33, 1, done(), 3),
    ];
    for (span, ends, report, running) in rows {
        world.at(span * AHEAD_SPAN.get() as i64);
        for _ in 0..ends {
            let deliveries = std::mem::take(&mut world.deliveries);
            out.extend(deliveries.iter().map(|delivery| delivery.lease.token));
            world.report(out.pop_front().expect("it is under way"), report.clone());
        }
        assert_eq!(world.shard.deliveries_running(), running, "in span {span}");
    }
}

/// One fact has so many leases at most; what was left stayed behind until something happened.
#[test]
fn a_node_starts_as_many_as_it_may_however_many_those_are() {
    let mut world = World::new(Config { pushes_max: 10_000, ..config() });
    world.settings("default", QueueSettings { paused_out: true, ..settings() });
    for nth in 0..9_000 {
        let submission = Submission { id_origin: IdOrigin::Drawn, ..push(&format!("j{nth}")).0 };
        let (ticket, request) = (Ticket(nth + 1), Request::Submit(Box::new(submission)));
        world.shard.take_in(world.now, Input::Request { ticket, request });
    }
    let name = crate::support::draft::queue_name("default");
    let request = Request::PutQueue { name, settings: settings() };
    world.shard.handle(world.now, Input::Request { ticket: Ticket(0), request });
    assert_eq!(world.shard.deliveries_running(), 9_000);
}

#[test]
fn handlers_have_a_limit_of_their_own() {
    let mut world = World::new(Config { handlers_max: 1, pushes_max: 1, ..config() });
    world.handlers(&["h"]);
    for draft in [handled("a"), handled("b"), push("c"), push("d")] {
        world.put(draft);
    }
    assert_eq!(world.delivered(), ["a", "c"]);
    assert_eq!(world.shard.deliveries_running(), 2);
}

#[test]
fn a_job_without_its_handler_waits_and_runs_at_once_when_it_comes() {
    let mut world = world();
    world.put(handled("a"));
    assert_eq!(world.delivered(), [""; 0]);
    assert_eq!(world.state("a"), "ready");
    world.at(3_000).handlers(&["h"]);
    assert_eq!(world.delivered(), ["a"]);
}

#[test]
fn a_job_without_its_handler_is_tried_again_every_five_seconds() {
    let mut world = world();
    world.put(handled("a"));
    for seconds in [5, 10, 15] {
        assert_eq!(world.shard.deadline(), Some(at(seconds * 1_000)));
        world.at(seconds * 1_000);
    }
}

/// Each registration of another handler used to start a rhythm of its own.
#[test]
fn registering_others_does_not_multiply_the_tries() {
    let mut world = world();
    world.put(handled("a"));
    for second in 1..5 {
        world.at(second * 1_000).handlers(&["other"]);
    }
    world.at(5_000);
    let next = world.shard.deadline().expect("a next try");
    world.at(next.as_millis());
    let after = world.shard.deadline().expect("and one after it");
    assert_eq!(after.since(next), ms(5_000));
}

/// Such a job was ready for ever, and nothing said why.
#[test]
fn a_job_without_its_handler_is_told_once_until_it_runs() {
    let mut world = world();
    world.put(handled("a").retry(every(100, 2)));
    let handler = HandlerName::new("h").expect("a good name");
    let told = Notice::Unregistered { job: name("a"), handler: handler.clone() };
    for seconds in [5, 10, 15] {
        world.at(seconds * 1_000).handlers(&["other"]);
        assert_eq!(world.notices, std::slice::from_ref(&told), "after {seconds} s");
    }
    let view = world.queue("default");
    assert_eq!((view.unregistered, view.missing_handlers), (1, vec![handler]));
    world.handlers(&["h"]);
    let view = world.queue("default");
    assert_eq!((view.unregistered, view.missing_handlers), (0, vec![]));
    let token = world.delivery().lease.token;
    world.handlers(&[]);
    world.fail(token);
    world.at(16_000);
    assert_eq!(world.notices, [told.clone(), told], "it was there, and is gone again");
}

#[test]
fn so_many_missing_handlers_are_named() {
    let mut world = world();
    let max = limits::MISSING_HANDLERS_MAX;
    for nth in 0..=max {
        let mut draft = handled(&format!("j{nth}"));
        let handler = HandlerName::new(&format!("h{nth:02}")).expect("a good name");
        draft.0.spec.target = Target::Handler(handler);
        world.put(draft);
        let view = world.queue("default");
        assert_eq!(view.unregistered, nth as u64 + 1);
        assert_eq!(view.missing_handlers.len(), (nth + 1).min(max));
    }
}

#[test]
fn an_unregistered_handler_does_not_hold_up_others() {
    let mut world = world();
    world.put(handled("a"));
    world.put(push("b"));
    assert_eq!(world.delivered(), ["b"]);
}

#[test]
fn a_handler_that_is_gone_when_called_costs_no_attempt() {
    let mut world = world();
    world.handlers(&["h"]);
    world.put(handled("a"));
    let token = world.delivery().lease.token;
    world.report(token, Report::Unregistered);
    world.at(4_999);
    assert_eq!(world.delivered(), [""; 0]);
    world.at(5_000);
    assert_eq!(world.delivery().lease.attempt, 1);
}

#[test]
fn a_full_store_refuses_new_work_and_finishes_the_old() {
    let mut world = world();
    world.put(push("a"));
    let token = world.delivery().lease.token;
    world.feed(Input::StoreFull(true));
    assert_eq!(world.submit(push("b")), Err(Rejection::StoreFull));
    world.succeed(token);
    assert_eq!(world.state("a"), "succeeded");
    world.feed(Input::StoreFull(false));
    world.put(push("b"));
}

#[test]
fn a_draining_node_starts_nothing_and_ends_what_it_has() {
    let mut world = world();
    world.put_schedule(schedule("s", 1_000, 1_000));
    world.put(push("a"));
    world.put(pull("b"));
    let token = world.delivery().lease.token;
    world.feed(Input::Drain);
    assert_eq!(world.submit(push("c")), Err(Rejection::Draining));
    assert_eq!(ids(&world.take()), [""; 0]);
    world.at(5_000);
    assert_eq!(world.schedule("s").fired, 0);
    assert_eq!(world.shard.deliveries_running(), 1);
    world.succeed(token);
    assert_eq!(world.state("a"), "succeeded");
    world.crash();
    assert_eq!(world.schedule("s").fired, 1, "the next life goes on");
    assert!(world.take_ids().contains(&"b".to_string()));
}

#[test]
fn queues_are_shown_with_what_they_hold() {
    let mut world = world();
    world.put(pull("q//a"));
    world.put(pull("q//b").due(500));
    world.put(pull("r//c"));
    let view = world.queue("q");
    assert_eq!((view.ready, view.in_memory, view.counts.pending), (1, 2, 2));
    assert_eq!(view.oldest_ready, Some(at(0)));
    assert_eq!(queues(&mut world), ["q", "r"]);
}

/// A queue that was misspelt once stood in the list for good.
#[test]
fn a_queue_without_settings_that_never_had_a_job_is_not_listed() {
    let mut world = world();
    world.settings("typo", QueueSettings { concurrency: Some(2), ..settings() });
    assert_eq!(queues(&mut world), ["typo"]);
    world.settings("typo", settings());
    assert_eq!(queues(&mut world), [""; 0]);
    world.put(pull("typo//a"));
    world.cancel("typo//a").expect("cancels");
    assert_eq!(queues(&mut world), ["typo"], "its counts are worth a look");
}

fn queues(world: &mut World) -> Vec<String> {
    let reply = world.call(Request::ListQueues);
    let Ok(hence_core::effect::Answer::Queues(views)) = reply else { panic!("{reply:?}") };
    views.iter().map(|view| view.name.as_str().to_owned()).collect()
}

/// A job that was submitted after its due time is not late for the time before that.
#[test]
fn a_wait_begins_at_the_submission_when_the_due_time_had_passed() {
    for (due, submitted, now, since) in
        [(0, 0, 500, 0), (300, 0, 500, 300), (0, 400, 500, 400), (300, 400, 400, 400)]
    {
        let row = format!("due {due}, submitted {submitted}, looked at {now}");
        let mut world = world();
        world.at(submitted).put(pull("a").due(due));
        world.at(now);
        assert_eq!(world.queue("default").oldest_ready, Some(at(since)), "{row}");
        assert_eq!(world.take_one().late(at(now)), ms((now - since) as u64), "{row}");
    }
}

#[test]
fn the_longest_wait_is_looked_for_among_so_many_jobs() {
    let max = limits::BACKLOG_LOOK_MAX;
    for (before, since) in [(0, 5_000), (max - 1, 5_000), (max, 10_000)] {
        let mut world = world();
        world.put(pull("a").due(5_000));
        world.at(10_000);
        for nth in 0..before {
            world.put(pull(&format!("b{nth}")).due(1));
        }
        let found = world.queue("default").oldest_ready;
        assert_eq!(found, Some(at(since)), "behind {before} jobs that were due long ago");
    }
}

/// Those who waited to hear what the store has under their names were admitted while there was
/// room, all of them.
#[test]
fn a_queue_is_full_also_for_those_who_waited() {
    let mut world = world();
    world.settings("default", QueueSettings { pending_max: Some(2), ..settings() });
    world.answering = crate::support::Answering::ByHand;
    let submit = |id: &str| Request::Submit(Box::new(pull(id).0));
    let asked = ["a", "b", "c", "d"].map(|id| world.ask(submit(id)));
    world.answer_all();
    let replies = asked.map(|ticket| world.reply(ticket));
    assert!(replies[..2].iter().all(Result::is_ok), "{replies:?}");
    for reply in &replies[2..] {
        assert!(matches!(reply, Err(Rejection::QueueFull { max: 2, .. })), "{reply:?}");
    }
}
