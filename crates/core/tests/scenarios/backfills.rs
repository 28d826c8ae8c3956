//! Jobs for ticks of the past that made none, and for no others.

use hence_core::error::Rejection;
use hence_core::input::{Input, Request};
use hence_core::ledger::OccurrenceRecord;
use hence_core::limits;
use hence_core::schedule::{Misfire, Overlap, Schedule};

use super::policies::{FIRST, bury_one, every_second, finish_one, ledger};
use crate::support::draft::ms;
use crate::support::verbs::schedule_id;
use crate::support::{World, at};
use crate::{tiny, world};

fn backfill(world: &mut World, from: i64, until: i64, pace: u64) -> Result<(), Rejection> {
    let (from, until) = (at(from), at(until));
    let request = Request::Backfill { id: schedule_id("s"), from, until, pace: ms(pace) };
    world.call(request).map(|_| ())
}

#[test]
fn a_backfill_makes_what_was_not_made_and_only_once() {
    let mut world = world();
    world.put_schedule(every_second(|s| s.misfire = Misfire::Last(1)));
    world.now = at(6_200);
    world.crash();
    assert_eq!(ledger(&world), ["1-4 misfire 4", "5 late", "6 ran"]);
    backfill(&mut world, 2_000, 6_000, 0).expect("a good range");
    let filled = ["2 backfilled", "3 backfilled", "4 backfilled"];
    assert_eq!(ledger(&world)[3..], filled);
    let done = world.schedule("s").backfill.expect("there was one");
    assert_eq!((done.ticks, done.made, done.kept), (5, 3, 2));
    assert_eq!(done.ended_at, Some(at(6_200)));
    backfill(&mut world, 2_000, 6_000, 0).expect("a good range");
    assert_eq!(ledger(&world).len(), 6, "nothing new");
    assert_eq!(world.disk.live.len(), 5);
}

/// The ledger goes with its schedule, the job of its tick does not: two were called the same.
#[test]
fn a_backfill_leaves_a_job_that_is_still_there_alone() {
    let mut world = world();
    world.put_schedule(every_second(|_| {}));
    world.at(1_000);
    world.call(Request::RemoveSchedule(schedule_id("s"))).expect("it is there");
    world.now = at(2_500);
    world.put_schedule(every_second(|_| {}));
    backfill(&mut world, 1_000, 2_000, 0).expect("a good range");
    assert_eq!(ledger(&world), ["2 backfilled"]);
    let done = world.schedule("s").backfill.expect("there was one");
    assert_eq!((done.made, done.kept, world.disk.live.len()), (1, 1, 2));
}

/// A dead job was hidden by a live one of its name, and could not be replayed any more.
#[test]
fn a_backfill_leaves_a_job_that_ended_and_is_kept_alone() {
    type End = fn(&mut World);
    let rows: [(&str, End, (u64, u64)); 4] = [
        ("dead", |world| bury_one(world), (1, 1)),
        ("succeeded", |world| finish_one(world), (1, 1)),
        ("cancelled", |world| drop(world.cancel(FIRST).expect("it waits")), (1, 1)),
        (
            "forgotten",
            |world| {
                bury_one(world);
                world.forget(FIRST).expect("it is dead");
            },
            (2, 0),
        ),
    ];
    for (how, end, expected) in rows {
        let mut world = world();
        let kept = |s: &mut Schedule| s.template.retention = ms(60_000);
        world.put_schedule(every_second(kept));
        world.at(1_000);
        end(&mut world);
        world.call(Request::RemoveSchedule(schedule_id("s"))).expect("it is there");
        world.now = at(2_500);
        world.put_schedule(every_second(kept));
        backfill(&mut world, 1_000, 2_000, 0).expect("a good range");
        let done = world.schedule("s").backfill.expect("there was one");
        assert_eq!((done.made, done.kept), expected, "{how}");
        if how == "dead" {
            world.replay(FIRST).expect("it is dead, and nobody hides it");
        }
    }
}

/// The page of the schedule that was took the place of that of the schedule that is.
#[test]
fn a_backfill_waits_for_its_own_page_of_the_ledger() {
    let mut world = world();
    world.put_schedule(every_second(|s| s.misfire = Misfire::Skip));
    world.now = at(4_500);
    world.crash();
    world.answering = crate::support::Answering::ByHand;
    backfill(&mut world, 4_000, 4_000, 0).expect("a good range");
    world.read_all();
    world.call(Request::RemoveSchedule(schedule_id("s"))).expect("it is there");
    let asked = world.questions.len();
    world.put_schedule(every_second(|_| {}));
    backfill(&mut world, 1_000, 4_000, 0).expect("a good range");
    assert_eq!(world.questions.len(), asked, "one page at a time");
    world.answer_all();
    let done = world.schedule("s").backfill.expect("there was one");
    assert_eq!((done.made, done.kept), (3, 1));
}

fn look(world: &mut World, how: &str) {
    if how == "down" {
        world.recover();
    }
    world.feed(Input::Tick);
}

/// Nothing more was made until the clock was again where it had been.
#[test]
fn a_clock_set_back_does_not_stop_what_has_a_pace() {
    for set_back_while in ["up", "down"] {
        let mut world = world();
        world.put_schedule(every_second(|s| s.misfire = Misfire::All { pace: ms(300) }));
        world.now = at(4_200);
        world.crash();
        world.now = at(3_300);
        look(&mut world, set_back_while);
        world.run_to(3_700);
        assert_eq!(
            ledger(&world),
            ["1 late", "2 late"],
            "catching up, set back while {set_back_while}"
        );

        let mut world = crate::world();
        world.put_schedule(every_second(|s| s.misfire = Misfire::Skip));
        world.now = at(3_600_000);
        world.crash();
        backfill(&mut world, 1_000, 2_000, 1_000).expect("a good range");
        world.now = at(100_000);
        look(&mut world, set_back_while);
        world.run_to(101_000);
        let filled = ["1 backfilled", "2 backfilled"];
        assert_eq!(ledger(&world)[2..], filled, "a backfill, set back while {set_back_while}");
    }
}

#[test]
fn a_backfill_goes_on_after_a_crash_at_its_pace() {
    let mut world = tiny(1);
    world.put_schedule(every_second(|s| s.misfire = Misfire::Skip));
    world.now = at(8_200);
    world.crash();
    backfill(&mut world, 1_000, 8_000, 500).expect("a good range");
    let refused = backfill(&mut world, 1_000, 2_000, 0);
    assert!(refused.is_err_and(|why| why.to_string().contains("under way")));
    for _ in 0..5 {
        world.crash();
        world.run_to(world.now.as_millis() + 400);
    }
    world.run_to(20_000);
    let filled = |record: &&OccurrenceRecord| record.fate.as_str() == "backfilled";
    let at: Vec<i64> = world
        .disk
        .occurrences
        .iter()
        .filter(filled)
        .map(|record| record.decided_at.as_millis())
        .collect();
    assert_eq!(at, [8_200, 8_700, 9_200, 9_700, 10_200, 10_700, 11_200]);
}

#[test]
fn a_tick_that_is_released_during_a_backfill_is_not_made_again() {
    let mut world = world();
    world.put_schedule(every_second(|s| {
        (s.misfire, s.overlap) = (Misfire::Skip, Overlap::QueueAll);
    }));
    world.now = at(4_200);
    world.crash();
    world.run_to(5_500);
    backfill(&mut world, 1_000, 5_000, 200).expect("a good range");
    // The ledger was read while tick 5 waited; now it gets its job.
    finish_one(&mut world);
    assert_eq!(ledger(&world), ["1-3 misfire 3", "4 ran", "1 backfilled", "5 ran"]);
    world.run_to(6_200);
    assert_eq!(ledger(&world)[4..], ["2 backfilled", "3 backfilled"]);
    let done = world.schedule("s").backfill.expect("there was one");
    assert_eq!((done.made, done.kept, done.ended_at), (3, 2, Some(at(6_100))));
}

#[test]
fn a_backfill_out_of_bounds_is_refused_with_the_reason() {
    let mut world = world();
    world.put_schedule(every_second(|_| {}));
    world.at(20_000_000);
    let rows = [
        (5_000, 4_000, 0, "to"),
        (0, 20_000_001, 0, "to"),
        (0, 20_000_000, 0, "20000 ticks"),
        (0, 1_000, limits::PACE_MAX.get() + 1, "pace"),
    ];
    for (from, until, pace, expected) in rows {
        let refused = backfill(&mut world, from, until, pace).expect_err(expected);
        assert!(refused.to_string().contains(expected), "{refused}");
    }
    world.put_schedule(every_second(|s| s.ledger_retention = limits::LEDGER_RETENTION_MIN));
    let refused = backfill(&mut world, 0, 1_000, 0).expect_err("too old");
    assert!(refused.to_string().contains("ledger"), "{refused}");
}

/// Ticks from before the schedule was put, and from after its last one, had their jobs too.
#[test]
fn a_backfill_makes_no_tick_that_the_count_did_not_allow() {
    let counted = |s: &mut Schedule| (s.plan.count, s.misfire) = (Some(3), Misfire::Skip);
    let mut world = world();
    world.at(10_500);
    world.put_schedule(every_second(counted));
    let refused = |world: &mut World, from| {
        let refused = backfill(world, from, world.now.as_millis(), 0).expect_err("too far back");
        assert!(refused.to_string().contains("ticks that were counted"), "{refused}");
    };
    refused(&mut world, 10_000);
    world.now = at(20_200);
    world.crash();
    assert_eq!(ledger(&world), ["11-12 misfire 2", "13 ran"]);
    refused(&mut world, 10_000);
    // In a changed plan, what is accounted for goes on to the change.
    world.put_schedule(every_second(|s| {
        counted(s);
        s.plan.end = Some(at(60_000));
    }));
    refused(&mut world, 10_000);
    for (from, until, expected) in
        [(14_000, 20_000, (0, 0, 0)), (10_500, 20_000, (3, 2, 1)), (10_500, 11_000, (1, 0, 1))]
    {
        backfill(&mut world, from, until, 0).expect("a good range");
        let done = world.schedule("s").backfill.expect("there was one");
        assert_eq!((done.ticks, done.made, done.kept), expected, "from {from} to {until}");
        assert!(!done.is_under_way() && !done.is_cancelled(), "{done:?}");
    }
}

/// The next tick was skipped for its sake, or cancelled it.
#[test]
fn a_replayed_job_of_a_backfill_is_in_nobodys_way() {
    for overlap in [Overlap::Skip, Overlap::QueueOne, Overlap::QueueAll, Overlap::Replace] {
        let mut world = world();
        let made = every_second(|s| (s.overlap, s.misfire) = (overlap, Misfire::Skip));
        world.put_schedule(made);
        world.now = at(2_200);
        world.crash();
        finish_one(&mut world);
        backfill(&mut world, 1_000, 1_000, 0).expect("a good range");
        bury_one(&mut world);
        world.replay(FIRST).expect("it is dead");
        world.run_to(3_100);
        assert_eq!(ledger(&world), ["1 misfire", "2 ran", "1 backfilled", "3 ran"], "{overlap:?}");
        assert_eq!(world.disk.live.len(), 2, "{overlap:?}");
    }
}
