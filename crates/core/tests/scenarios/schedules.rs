//! Every tick is accounted for, once.

use hence_core::effect::Answer;
use hence_core::error::Rejection;
use hence_core::input::{Input, Nack, Request};
use hence_core::job::{JobSpec, Target};
use hence_core::ledger::{Fate, SkipReason};
use hence_core::schedule::{
    Idle, Misfire, Overlap, Pause, Schedule, ScheduleCounts, ScheduleState,
};

use crate::support::draft::{payload, pull, queue_name};
use crate::support::verbs::{ids, schedule, schedule_id, view};
use crate::support::{World, at};
use crate::{tiny, world};

/// What became of ticks, in short.
fn fates(world: &World) -> Vec<(i64, &'static str)> {
    let records = world.disk.occurrences.iter();
    records.map(|record| (record.last.as_millis(), record.fate.as_str())).collect()
}

fn trigger(world: &mut World) -> Result<hence_core::job::JobView, Rejection> {
    view(world.call(Request::TriggerSchedule(schedule_id("s"))))
}

/// Any number of them could wait, of a megabyte each, and none was counted.
#[test]
fn a_schedule_carries_the_payload_of_its_template() {
    let mut daily = schedule("s", 0, 1_000);
    daily.template.payload = payload("five!");
    let put = Request::PutSchedule { schedule: Box::new(daily), wake: false };
    assert_eq!(put.carried_bytes(), 5);
}

#[test]
fn a_schedule_makes_a_job_at_each_tick() {
    let mut world = world();
    world.put_schedule(schedule("s", 1_000, 500));
    world.run_to(2_000);
    assert_eq!(fates(&world), [(1_000, "ran"), (1_500, "ran"), (2_000, "ran")]);
    assert_eq!(ids(&world.take()).len(), 3);
    let state = world.schedule("s");
    assert_eq!((state.fired, state.last_at, state.next_at), (3, Some(at(2_000)), Some(at(2_500))));
}

#[test]
fn the_job_of_a_tick_is_due_at_the_tick_and_carries_it() {
    let mut world = world();
    world.put_schedule(schedule("s", 1_000, 500));
    world.at(1_200);
    let delivery = world.take_one();
    assert_eq!(delivery.due_at, at(1_000));
    let occurrence = delivery.job.occurrence.clone().expect("a tick made it");
    assert_eq!((occurrence.schedule.as_str(), occurrence.at), ("s", at(1_000)));
    assert_eq!(&delivery.job.payload.bytes[..], b"tick");
}

#[test]
fn missed_ticks_are_stood_for_by_the_last() {
    let mut world = world();
    world.put_schedule(schedule("s", 1_000, 1_000));
    world.at(5_500);
    assert_eq!(fates(&world), [(4_000, "coalesced"), (5_000, "ran")]);
    let record = &world.disk.occurrences[0];
    assert_eq!((record.first, record.last, record.count), (at(1_000), at(4_000), 4));
    assert_eq!(world.schedule("s").next_at, Some(at(6_000)));
}

#[test]
fn exactly_one_job_a_tick_across_crashes() {
    let mut world = world();
    world.put_schedule(schedule("s", 1_000, 1_000));
    world.now = at(1_000);
    world.feed_and_lose(Input::Tick);
    world.crash();
    world.crash();
    world.at(1_999);
    world.crash();
    assert_eq!(fates(&world), [(1_000, "ran")]);
    world.at(2_000);
    world.crash();
    assert_eq!(fates(&world), [(1_000, "ran"), (2_000, "ran")]);
    assert_eq!(world.disk.live.len(), 2);
}

#[test]
fn a_paused_schedule_rests_and_its_ticks_are_accounted_for_when_it_resumes() {
    let mut world = world();
    world.put_schedule(schedule("s", 1_000, 1_000));
    let paused = world.pause("s");
    assert_eq!((paused.progress.next_at, paused.progress.idle), (None, Some(Idle::Paused)));
    let pause = paused.schedule.paused.clone().expect("it is paused");
    assert_eq!((&*pause.note, pause.since), ("enough", at(0)));
    world.at(5_500);
    assert_eq!(fates(&world), []);
    world.resume("s");
    assert_eq!(fates(&world), [(5_000, "skipped")]);
    assert_eq!(world.disk.occurrences[0].fate, Fate::Skipped(SkipReason::Paused));
    assert_eq!(world.disk.occurrences[0].count, 5);
    assert_eq!(world.schedule("s").next_at, Some(at(6_000)));
    world.resume("s");
    world.at(6_000);
    assert_eq!(fates(&world), [(5_000, "skipped"), (6_000, "ran")]);
    assert_eq!(world.disk.live.len(), 1);
}

#[test]
fn a_schedule_put_again_does_not_repeat_its_tick() {
    let mut world = world();
    world.put_schedule(schedule("s", 1_000, 1_000));
    world.at(1_000);
    let state = world.put_schedule(schedule("s", 1_000, 1_000));
    assert_eq!((state.progress.next_at, state.progress.fired), (Some(at(2_000)), 1));
    let state = world.put_schedule(schedule("s", 1_000, 250));
    assert_eq!(state.progress.next_at, Some(at(1_250)));
    world.at(1_250);
    assert_eq!(fates(&world), [(1_000, "ran"), (1_250, "ran")]);
}

#[test]
fn a_schedule_removed_and_put_again_at_its_tick_makes_one_job() {
    let mut world = world();
    world.put_schedule(schedule("s", 1_000, 1_000));
    world.at(1_000);
    world.call(Request::RemoveSchedule(schedule_id("s"))).expect("it is there");
    world.put_schedule(schedule("s", 1_000, 1_000));
    assert_eq!(world.disk.live.len(), 1);
}

#[test]
fn a_removed_schedule_is_gone_and_its_jobs_stay() {
    let mut world = world();
    world.put_schedule(schedule("s", 1_000, 1_000));
    world.at(1_000);
    world.call(Request::RemoveSchedule(schedule_id("s"))).expect("it is there");
    world.run_to(9_000);
    assert_eq!(world.take().len(), 1);
    for request in [
        Request::RemoveSchedule(schedule_id("s")),
        Request::ShowSchedule(schedule_id("s")),
        Request::TriggerSchedule(schedule_id("s")),
        Request::PauseSchedule { id: schedule_id("s"), note: "".into() },
        Request::ResumeSchedule(schedule_id("s")),
    ] {
        assert_eq!(world.call(request), Err(Rejection::NoSuchSchedule));
    }
}

#[test]
fn a_trigger_makes_a_job_outside_the_rhythm() {
    let mut world = world();
    world.put_schedule(schedule("s", 1_000, 1_000));
    world.at(300);
    let first = trigger(&mut world).expect("it is there");
    assert_eq!(first.job.name.id.as_str(), "s!1");
    trigger(&mut world).expect("it is there");
    assert_eq!(world.take().len(), 2, "who asks twice gets two");
    world.now = at(1_000);
    trigger(&mut world).expect("it is there");
    let expected = [(300, "triggered"), (300, "triggered"), (1_000, "ran"), (1_000, "triggered")];
    assert_eq!(fates(&world), expected, "the tick of that instant comes besides");
}

#[test]
fn a_paused_schedule_can_be_triggered() {
    let mut world = world();
    let pause = Pause { note: "".into(), since: at(0) };
    world.put_schedule(Schedule { paused: Some(pause), ..schedule("s", 1_000, 1_000) });
    world.at(1_500);
    trigger(&mut world).expect("it is there");
    assert_eq!(fates(&world), [(1_500, "triggered")]);
}

#[test]
fn a_full_store_holds_ticks_back_and_loses_none() {
    let mut world = world();
    world.put_schedule(schedule("s", 1_000, 1_000));
    world.feed(Input::StoreFull(true));
    assert_eq!(trigger(&mut world), Err(Rejection::StoreFull));
    world.run_to(3_500);
    assert_eq!(fates(&world), []);
    world.feed(Input::StoreFull(false));
    world.run_to(4_999);
    assert_eq!(world.disk.ticks(), 4);
}

#[test]
fn a_clock_set_back_after_a_full_store_does_not_stop_the_ticks() {
    let mut world = world();
    world.put_schedule(schedule("s", 1_000, 1_000));
    world.feed(Input::StoreFull(true));
    world.at(600_500);
    world.feed(Input::StoreFull(false));
    world.at(500);
    world.put_schedule(schedule("t", 1_000, 1_000));
    world.run_to(3_500);
    assert_eq!(world.schedule("t").ticked, 3);
}

#[test]
fn ticks_come_through_a_tiny_window() {
    let mut world = tiny(1);
    world.put_schedule(schedule("s", 100, 100));
    world.put_schedule(schedule("t", 150, 100));
    world.run_to(1_000);
    let mut seen = Vec::new();
    while let Some(delivery) = world.lease(&["default"], 1, None).pop() {
        seen.push(delivery.due_at.as_millis());
        world.ack(delivery.lease.token).expect("it runs");
    }
    let expected: Vec<i64> = (2..=20).map(|half| half * 50).collect();
    assert_eq!(seen, expected);
}

#[test]
fn schedules_are_listed_in_order() {
    let mut world = world();
    for id in ["b", "a", "c"] {
        world.put_schedule(schedule(id, 1_000, 1_000));
    }
    for (after, limit, expected) in
        [(None, 2, vec!["a", "b"]), (Some("b"), 9, vec!["c"]), (Some("c"), 9, vec![])]
    {
        let after = after.map(schedule_id);
        let reply = world.call(Request::ListSchedules { after, limit });
        let Ok(Answer::Schedules(states)) = reply else { panic!("{reply:?}") };
        let found: Vec<&str> = states.iter().map(|state| state.schedule.id.as_str()).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn a_schedule_too_fast_is_refused() {
    let mut world = world();
    let schedule = Box::new(schedule("s", 0, 99));
    let reply = world.call(Request::PutSchedule { schedule, wake: false });
    assert!(matches!(reply, Err(Rejection::Invalid { .. })));
    assert!(world.disk.schedules.is_empty());
}

#[test]
fn a_schedule_makes_jobs_in_its_own_queue() {
    let mut world = world();
    world.put_schedule(Schedule { queue: queue_name("q"), ..schedule("s", 1_000, 1_000) });
    world.at(1_000);
    assert_eq!(world.queue("q").counts.pending, 1);
}

fn said(text: &str, world: &World) -> Schedule {
    let draft = Schedule::when(text);
    draft.build(schedule_id("s"), JobSpec::new(Target::Worker), world.now).expect("good words")
}

#[test]
fn what_is_put_again_goes_on_in_its_rhythm() {
    let mut world = world();
    world.at(1_000);
    // Counted from when they were said; the last one is not.
    let rows = [
        ("@every 90s", "@every 90s", true),
        ("every 7 minutes", "every 7 minutes", true),
        ("@every 90s", "@every 80s", false),
        ("@every 90s", "@every 90s from 1970-01-01T00:00:20Z", false),
    ];
    for (first, second, goes_on) in rows {
        let made = said(first, &world);
        world.put_schedule(made);
        let next = world.schedule("s").next_at;
        world.now = at(world.now.as_millis() + 7_000);
        let again = said(second, &world);
        world.put_schedule(again);
        assert_eq!(world.schedule("s").next_at == next, goes_on, "{first}, then {second}");
        world.call(Request::RemoveSchedule(schedule_id("s"))).expect("it is there");
    }
}

#[test]
fn a_pause_stays_when_the_schedule_is_put_again() {
    let mut world = world();
    world.put_schedule(schedule("s", 1_000, 1_000));
    world.pause("s");
    world.at(5_000);
    let put = |world: &mut World, note: Option<&str>| -> (String, i64) {
        let since = world.now;
        let paused = note.map(|note| Pause { note: note.into(), since });
        world.put_schedule(Schedule { paused, ..schedule("s", 1_000, 1_000) });
        let shown = world.call(Request::ShowSchedule(schedule_id("s")));
        let Ok(Answer::Schedule(state)) = shown else { panic!("a schedule") };
        let pause = state.schedule.paused.clone().expect("it rests");
        (pause.note.to_string(), pause.since.as_millis())
    };
    assert_eq!(put(&mut world, None), ("enough".to_owned(), 0));
    assert_eq!(put(&mut world, Some("")), ("enough".to_owned(), 0));
    assert_eq!(put(&mut world, Some("quiet week")), ("quiet week".to_owned(), 0));
}

#[test]
fn a_backfill_can_be_cancelled_and_another_one_started() {
    // While the ledger is being read, and after it was.
    for by_hand in [true, false] {
        let mut world = world();
        let made = Schedule { misfire: Misfire::Last(1), ..schedule("s", 1_000, 1_000) };
        world.put_schedule(made);
        world.now = at(6_200);
        world.crash();
        let cancel = || Request::CancelBackfill(schedule_id("s"));
        let refused = world.call(cancel()).expect_err("there is none");
        assert!(refused.to_string().starts_with("backfill is not under way"), "{refused}");
        if by_hand {
            world.answering = crate::support::Answering::ByHand;
        }
        let fill = |until: i64| Request::Backfill {
            id: schedule_id("s"),
            from: at(1_000),
            until: at(until),
            pace: hence_core::time::Millis::new(60_000),
        };
        world.call(fill(1_000)).expect("a good range");
        world.call(fill(6_000)).expect_err("one at a time");
        world.call(cancel()).expect("it is under way");
        let ended = world.schedule("s").backfill.expect("there was one");
        assert!(!ended.is_under_way(), "{ended:?}");
        assert_eq!((ended.is_cancelled(), ended.made), (by_hand, u64::from(!by_hand)), "{ended:?}");
        // The page of the first range, if it is still on its way, knows nothing of the jobs that
        // the ticks of the second one made.
        world.call(fill(6_000)).expect("the other one ended");
        world.answer_all();
        world.answering = crate::support::Answering::AtOnce;
        world.run_to(400_000);
        let filled = world.disk.occurrences.iter().filter(|r| r.fate.as_str() == "backfilled");
        let ticks: Vec<i64> = filled.map(|record| record.last.as_millis()).collect();
        assert_eq!(ticks, [1_000, 2_000, 3_000, 4_000], "the last two had run");
    }
}

/// The job of a tick stands far behind others, and its ledger went with its schedule.
#[test]
fn a_backfill_leaves_a_job_beyond_the_window_alone() {
    for taken in [true, false] {
        let mut world = tiny(1);
        world.put(pull("early"));
        let mut made = schedule("s", 1_000, 1_000);
        made.template.retention = hence_core::time::Millis::ZERO;
        world.put_schedule(made.clone());
        world.at(1_000);
        let request = Request::RemoveSchedule(schedule_id("s"));
        world.call(request).expect("it is there");
        world.now = at(2_500);
        world.put_schedule(made);
        world.answering = crate::support::Answering::ByHand;
        let (id, pace) = (schedule_id("s"), hence_core::time::Millis::ZERO);
        let (from, until) = (at(1_000), at(2_000));
        world.call(Request::Backfill { id, from, until, pace }).expect("a good range");
        let of_tick = world.disk.live.values().find(|live| live.job.occurrence.is_some());
        let name = of_tick.expect("it waits").job.name.clone();
        if !taken {
            // It is taken back while its name is being looked for.
            world.ask(Request::Cancel(name));
        }
        world.answer_all();
        let done = world.schedule("s").backfill.expect("there was one");
        let expected = if taken { (1, 1, false) } else { (2, 0, false) };
        assert_eq!((done.made, done.kept, done.is_under_way()), expected, "taken: {taken}");
    }
}

/// The job of a tick that was replayed ran beside those of the next ticks.
#[test]
fn a_replayed_job_of_a_tick_is_in_the_way_of_the_next() {
    let mut world = world();
    world.put_schedule(Schedule { overlap: Overlap::Skip, ..schedule("s", 1_000, 1_000) });
    world.at(1_000);
    let delivery = world.take_one();
    world.nack(delivery.lease.token, Nack::Dead).expect("it runs");
    world.replay(delivery.job.name.id.as_str()).expect("it is dead");
    world.at(2_000);
    assert_eq!(fates(&world), [(1_000, "ran"), (2_000, "skipped")]);
    let token = world.take_one().lease.token;
    world.ack(token).expect("it runs");
    world.at(3_000);
    assert_eq!(fates(&world)[2..], [(3_000, "ran")], "it is in the way no more");

    // One that was triggered never was.
    let name = trigger(&mut world).expect("it is there").job.name.clone();
    for delivery in world.take() {
        world.nack(delivery.lease.token, Nack::Dead).expect("it runs");
    }
    world.replay(name.id.as_str()).expect("it is dead");
    world.at(4_000);
    assert_eq!(fates(&world).last(), Some(&(4_000, "ran")));
}

#[test]
fn schedules_are_counted_by_what_they_do() {
    let mut world = world();
    let counts = |world: &mut World| -> (ScheduleCounts, Vec<ScheduleState>) {
        match world.call(Request::CheckSchedules { limit: 10 }) {
            Ok(Answer::ScheduleCheck(check)) => (check.counts, check.unsound),
            other => panic!("{other:?}"),
        }
    };
    for (id, count) in [("a", None), ("b", None), ("c", Some(1))] {
        let mut made = schedule(id, 1_000, 1_000);
        made.plan.count = count;
        world.put_schedule(made);
    }
    let expect = |ticking, paused, ended| ScheduleCounts { ticking, paused, ended, silent: 0 };
    assert_eq!(counts(&mut world), (expect(3, 0, 0), vec![]));
    world.pause("b");
    world.run_to(3_000);
    assert_eq!(counts(&mut world).0, expect(1, 1, 1));
    world.crash();
    assert_eq!(counts(&mut world).0, expect(1, 1, 1), "also after a start");
    world.resume("b");
    world.call(Request::RemoveSchedule(schedule_id("a"))).expect("it is there");
    assert_eq!(counts(&mut world).0, expect(1, 0, 1));
}
