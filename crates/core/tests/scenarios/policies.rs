//! What becomes of ticks that were missed, that overlap, that fell into a pause or a clock change;
//! the ledger and how it is cut. One row a policy.

use hence_core::effect::{Answer, Notice};
use hence_core::error::Rejection;
use hence_core::input::{Input, Request};
use hence_core::job::{JobSpec, Target};
use hence_core::ledger::OccurrenceRecord;
use hence_core::limits;
use hence_core::queue::QueueSettings;
use hence_core::schedule::{Idle, Misfire, Overlap, Said, Schedule};
use hence_core::time::Timestamp;
use hence_core::when::{Fold, Gap, Recurrence};

use crate::support::draft::{ms, queue_name};
use crate::support::verbs::{every, schedule, schedule_id};
use crate::support::{World, at};
use crate::{tiny, world};

const SECOND: i64 = 1_000;

/// The job of the first tick.
pub(super) const FIRST: &str = "s@1970-01-01T00:00:01.000Z";

/// A record in short: `3-5 skipped 3` is the ticks 3 to 5.
fn line(record: &OccurrenceRecord) -> String {
    let second = |at: Timestamp| at.as_millis() / SECOND;
    let word = match record.fate {
        hence_core::ledger::Fate::Skipped(reason) => reason.as_str(),
        other => other.as_str(),
    };
    if record.count == 1 && record.first == record.last {
        return format!("{} {word}", second(record.last));
    }
    format!("{}-{} {word} {}", second(record.first), second(record.last), record.count)
}

pub(super) fn ledger(world: &World) -> Vec<String> {
    world.disk.occurrences.iter().map(line).collect()
}

/// Ticks every second from 1 on, and whatever else is said.
pub(super) fn every_second(change: impl FnOnce(&mut Schedule)) -> Schedule {
    let mut made = schedule("s", SECOND, SECOND as u64);
    change(&mut made);
    made
}

/// A worker ends the oldest job there is.
pub(super) fn finish_one(world: &mut World) {
    let delivery = world.lease(&["default"], 1, Some(60_000)).pop().expect("a job to take");
    world.ack(delivery.lease.token).expect("it runs");
}

/// The same, but the job is beyond help.
pub(super) fn bury_one(world: &mut World) {
    let delivery = world.lease(&["default"], 1, Some(60_000)).pop().expect("a job to take");
    world.nack(delivery.lease.token, hence_core::input::Nack::Dead).expect("it runs");
}

#[test]
fn missed_ticks_by_policy() {
    // Out from 1.5 to 6.2 seconds.
    let rows: [(Misfire, Option<u64>, &[&str]); 10] = [
        (Misfire::Skip, None, &["1 ran", "2-5 misfire 4", "6 ran"]),
        (Misfire::Once, None, &["1 ran", "2-5 coalesced 4", "6 ran"]),
        (Misfire::Last(2), None, &["1 ran", "2-3 misfire 2", "4 late", "5 late", "6 ran"]),
        (Misfire::Last(9), None, &["1 ran", "2 late", "3 late", "4 late", "5 late", "6 ran"]),
        (
            Misfire::All { pace: ms(0) },
            None,
            &["1 ran", "2 late", "3 late", "4 late", "5 late", "6 ran"],
        ),
        (Misfire::Skip, Some(0), &["1 ran", "2-6 misfire 5"]),
        (Misfire::Once, Some(0), &["1 ran", "2-5 coalesced 4", "6 late"]),
        (Misfire::Once, Some(1_200), &["1 ran", "2-4 coalesced 3", "5 ran", "6 ran"]),
        (
            Misfire::Last(1),
            Some(2_500),
            &["1 ran", "2 misfire", "3 late", "4 ran", "5 ran", "6 ran"],
        ),
        (Misfire::Skip, Some(60_000), &["1 ran", "2 ran", "3 ran", "4 ran", "5 ran", "6 ran"]),
    ];
    for (misfire, grace, expected) in rows {
        let mut world = world();
        world.put_schedule(every_second(|s| {
            (s.misfire, s.grace) = (misfire, grace.map(ms));
        }));
        world.run_to(1_500);
        world.now = at(6_200);
        world.crash();
        assert_eq!(ledger(&world), expected, "{misfire:?}, grace {grace:?}");
        assert_eq!(world.schedule("s").next_at, Some(at(7_000)));
        assert_eq!(world.schedule("s").ticked, 6);
    }
}

#[test]
fn catching_up_keeps_its_pace() {
    let mut world = world();
    world.put_schedule(every_second(|s| s.misfire = Misfire::All { pace: ms(300) }));
    world.now = at(4_200);
    world.crash();
    assert_eq!(ledger(&world), ["1 late"]);
    assert_eq!(world.shard.deadline(), Some(at(4_500)));
    world.at(4_499);
    assert_eq!(ledger(&world), ["1 late"]);
    world.run_to(5_100);
    let expected = ["1 late", "2 late", "3 late", "4 late"];
    assert_eq!(ledger(&world), expected, "4 became late while it waited");
    world.run_to(6_100);
    let late: Vec<i64> =
        world.disk.occurrences.iter().map(|record| record.decided_at.as_millis()).collect();
    assert_eq!(late, [4_200, 4_500, 4_800, 5_100, 5_400, 6_000]);
    assert_eq!(ledger(&world)[4..], ["5 ran", "6 ran"]);
}

/// The backlog grew with each tick, for ever.
#[test]
fn a_pace_that_never_catches_up_is_refused() {
    type Row = (u64, fn(&mut Schedule), bool);
    let all = |pace| Misfire::All { pace: ms(pace) };
    let rows: [Row; 6] = [
        (999, |_| {}, true),
        (1_000, |_| {}, false),
        (60_000, |_| {}, false),
        (60_000, |s| s.plan.count = Some(9), true),
        (60_000, |s| s.plan.end = Some(at(9_000)), true),
        (60_000, |s| s.plan = cron("* * * * * *", "UTC").plan, true),
    ];
    for (pace, change, is_good) in rows {
        let mut made = every_second(change);
        made.misfire = all(pace);
        let request = Request::PutSchedule { schedule: Box::new(made), wake: false };
        let refused = world().call(request).err().map(|refused| refused.to_string());
        assert_eq!(refused.is_none(), is_good, "{pace}: {refused:?}");
        let names = |text: &str| text.contains("misfire.pace") && text.contains("every 1s");
        assert!(refused.as_deref().is_none_or(names), "{pace}: {refused:?}");
    }
}

#[test]
fn overlapping_ticks_by_policy() {
    // The job of tick 1 ends after tick 4, the next one after tick 5.
    let rows: [(Overlap, &[&str], usize); 5] = [
        (Overlap::Allow, &["1 ran", "2 ran", "3 ran", "4 ran", "5 ran"], 3),
        (Overlap::Skip, &["1 ran", "2 overlap", "3 overlap", "4 overlap", "5 ran"], 0),
        (Overlap::QueueOne, &["1 ran", "3 overlap", "4 overlap", "2 late", "5 ran"], 1),
        (Overlap::QueueAll, &["1 ran", "2 late", "3 late"], 1),
        (Overlap::Replace, &["1 ran", "2 ran", "3 ran", "4 ran", "5 ran"], 0),
    ];
    for (overlap, expected, left) in rows {
        let mut world = world();
        world.put_schedule(every_second(|s| s.overlap = overlap));
        world.run_to(4_500);
        finish_one(&mut world);
        world.crash();
        world.run_to(5_500);
        finish_one(&mut world);
        assert_eq!(ledger(&world)[..expected.len()], *expected, "{overlap:?}");
        assert_eq!(world.disk.live.len(), left, "{overlap:?}");
    }
}

/// While ticks did not mind each other, nobody noted which job lives: two ran at a time.
#[test]
fn a_job_is_in_the_way_also_from_before_the_policy() {
    let rows: [(Overlap, &[&str], usize, usize); 4] = [
        (Overlap::Skip, &["3 overlap"], 0, 1),
        (Overlap::QueueOne, &[], 1, 1),
        (Overlap::QueueAll, &[], 1, 1),
        (Overlap::Replace, &["3 ran"], 0, 1),
    ];
    // The job of the last tick lives, or the one before.
    for ended in [FIRST, "s@1970-01-01T00:00:02.000Z"] {
        for (overlap, expected, waiting, live) in rows {
            let mut world = world();
            world.put_schedule(every_second(|_| {}));
            world.run_to(2_100);
            world.cancel(ended).expect("it waits");
            world.put_schedule(every_second(|s| s.overlap = overlap));
            world.run_to(3_100);
            assert_eq!(ledger(&world)[2..], *expected, "{overlap:?}, {ended} ended");
            let waits = world.schedule("s").waiting.len();
            assert_eq!((waits, world.disk.live.len()), (waiting, live), "{overlap:?}");
        }
    }
}

#[test]
fn a_retried_job_is_still_in_the_way_and_a_triggered_one_is_not() {
    let mut world = world();
    world.put_schedule(every_second(|s| s.overlap = Overlap::Skip));
    world.call(Request::TriggerSchedule(schedule_id("s"))).expect("it is there");
    world.run_to(1_100);
    let jobs = world.take();
    assert_eq!(jobs.len(), 2);
    let how = hence_core::input::Nack::Retry { delay: Some(ms(500)) };
    world.nack(jobs[1].lease.token, how).expect("it runs");
    world.run_to(2_100);
    assert_eq!(ledger(&world), ["0 triggered", "1 ran", "2 overlap"]);
    world.cancel(jobs[1].job.name.id.as_str()).expect("it is there");
    world.run_to(3_100);
    assert_eq!(ledger(&world)[3..], ["3 ran"]);
}

#[test]
fn a_replaced_job_is_cancelled_also_beyond_the_window() {
    for mut world in [world(), tiny(1)] {
        world.put(crate::support::draft::pull("first"));
        world.put_schedule(every_second(|s| {
            (s.overlap, s.spread) = (Overlap::Replace, ms(0));
        }));
        world.run_to(3_100);
        let live: Vec<String> =
            world.disk.live.values().map(|live| live.job.name.id.to_string()).collect();
        assert_eq!(live, ["first", "s@1970-01-01T00:00:03.000Z"]);
        assert_eq!(world.disk.finished.len(), 2);
    }
}

#[test]
fn no_more_ticks_wait_than_may() {
    let mut world = world();
    world.put_schedule(every_second(|s| s.overlap = Overlap::QueueAll));
    let max = limits::WAITING_TICKS_MAX as i64;
    world.run_to((max + 3) * SECOND);
    assert_eq!(world.schedule("s").waiting.len(), limits::WAITING_TICKS_MAX);
    let last = [format!("{} backlog", max + 2), format!("{} backlog", max + 3)];
    assert_eq!(ledger(&world)[1..], last);
    // Another policy leaves no tick unaccounted for.
    world.put_schedule(every_second(|s| s.overlap = Overlap::QueueOne));
    assert_eq!(world.disk.ticks(), max as u64 + 3 - 1, "one still waits");
    assert!(ledger(&world).contains(&"3 changed".to_string()));
}

#[test]
fn ticks_that_wait_survive_a_drain_and_a_pause() {
    let mut world = world();
    world.put_schedule(every_second(|s| s.overlap = Overlap::QueueAll));
    world.run_to(2_500);
    let job = world.take_one();
    world.feed(Input::Drain);
    world.ack(job.lease.token).expect("it runs");
    assert_eq!(ledger(&world), ["1 ran"]);
    world.crash();
    assert_eq!(ledger(&world), ["1 ran", "2 ran"]);
    world.run_to(3_500);
    world.pause("s");
    finish_one(&mut world);
    assert_eq!(world.disk.live.len(), 0, "a paused schedule makes no jobs");
    world.resume("s");
    assert_eq!(ledger(&world)[2..], ["3 ran"]);
}

#[test]
fn a_queue_that_takes_nothing_costs_ticks_their_jobs() {
    let mut world = world();
    world.put_schedule(every_second(|_| {}));
    world.settings("default", QueueSettings { pending_max: Some(1), ..QueueSettings::default() });
    world.run_to(2_100);
    world.settings("default", QueueSettings { paused_in: true, ..QueueSettings::default() });
    world.run_to(3_100);
    assert_eq!(ledger(&world), ["1 ran", "2 queue_full", "3 queue_paused"]);
    let refused = world.call(Request::TriggerSchedule(schedule_id("s")));
    assert!(matches!(refused, Err(Rejection::QueuePaused { .. })), "{refused:?}");
}

/// Every tick was skipped for want of room, and the first job was never replaced.
#[test]
fn a_tick_replaces_a_job_also_when_that_fills_the_queue() {
    type Row = (&'static str, fn(&mut World), QueueSettings, &'static [&'static str]);
    let full = || QueueSettings { pending_max: Some(1), ..QueueSettings::default() };
    let closed = || QueueSettings { paused_in: true, ..full() };
    let rows: [Row; 4] = [
        ("it waits", |_| {}, full(), &["1 ran", "2 ran", "3 ran"]),
        // Its place is taken by another one.
        ("it runs", run_beside_another, full(), &["1 ran", "2 queue_full", "3 queue_full"]),
        ("it runs alone", |world| drop(world.take()), full(), &["1 ran", "2 ran", "3 ran"]),
        ("the queue is closed", |_| {}, closed(), &["1 ran", "2 queue_paused", "3 queue_paused"]),
    ];
    for (row, change, settings, expected) in rows {
        let mut world = world();
        world.put_schedule(every_second(|s| s.overlap = Overlap::Replace));
        world.at(1_000);
        change(&mut world);
        world.settings("default", settings);
        world.run_to(3_100);
        assert_eq!(ledger(&world), expected, "{row}");
        assert!(world.queue("default").counts.pending <= 1, "{row}");
    }
    let mut world = tiny(1);
    world.put(crate::support::draft::pull("first"));
    let settings = QueueSettings { pending_max: Some(2), ..QueueSettings::default() };
    world.settings("default", settings);
    world.put_schedule(every_second(|s| s.overlap = Overlap::Replace));
    world.run_to(3_100);
    assert_eq!(ledger(&world), ["1 ran", "2 ran", "3 ran"], "beyond the window");
    assert_eq!(world.disk.live.len(), 2, "beyond the window");
}

/// The job of the tick runs, and another one waits.
fn run_beside_another(world: &mut World) {
    world.lease(&["default"], 1, Some(60_000)).pop().expect("a job to take");
    world.put(crate::support::draft::pull("other"));
}

#[test]
fn a_schedule_ends_and_says_why() {
    type Row = (fn(&mut Schedule), &'static [&'static str], Idle);
    let rows: [Row; 4] = [
        (|s| s.plan.count = Some(2), &["1 ran", "2 ran"], Idle::Counted),
        (|s| s.plan.end = Some(at(2_000)), &["1 ran", "2 ran"], Idle::Ended),
        (
            |s| (s.plan.count, s.misfire) = (Some(2), Misfire::Skip),
            &["1 ran", "2 ran"],
            Idle::Counted,
        ),
        (
            |s| s.plan = cron("0-3 0 0 1 1 * 1970", "UTC").plan,
            &["0 ran", "1 ran", "2 ran", "3 ran"],
            Idle::Exhausted,
        ),
    ];
    for (change, expected, idle) in rows {
        let mut world = world();
        world.put_schedule(every_second(change));
        world.run_to(9_000);
        assert_eq!(ledger(&world), expected);
        let progress = world.schedule("s");
        assert_eq!((progress.next_at, progress.idle), (None, Some(idle)));
    }
}

/// A count that is reached in an outage is reached, not overrun.
#[test]
fn a_count_holds_in_an_outage() {
    for (misfire, expected) in [
        (Misfire::Once, vec!["1-2 coalesced 2", "3 late"]),
        (Misfire::Skip, vec!["1-3 misfire 3"]),
        (Misfire::Last(2), vec!["1 misfire", "2 late", "3 late"]),
        (Misfire::All { pace: ms(0) }, vec!["1 late", "2 late", "3 late"]),
    ] {
        let mut world = world();
        world.put_schedule(every_second(|s| (s.plan.count, s.misfire) = (Some(3), misfire)));
        world.now = at(100_000);
        world.crash();
        assert_eq!(ledger(&world), expected, "{misfire:?}");
        assert_eq!(world.schedule("s").idle, Some(Idle::Counted));
    }
}

/// Any change of the plan counted from nothing: a date without ticks was worth three more.
#[test]
fn a_count_goes_on_in_a_changed_plan() {
    type Row = (&'static str, fn(&mut Schedule), &'static [&'static str]);
    let rows: [Row; 7] = [
        ("a date", |s| s.plan.excluded = ["1970-01-02".parse().unwrap()].into(), &["3 ran"]),
        ("an end", |s| s.plan.end = Some(at(60_000)), &["3 ran"]),
        ("a larger count", |s| s.plan.count = Some(4), &["3 ran", "4 ran"]),
        ("a smaller count", |s| s.plan.count = Some(1), &[]),
        (
            "another start",
            |s| (s.plan.start, s.plan.whens) = (Some(at(4_000)), from_4()),
            &["4 ran"],
        ),
        ("the rhythm in other words", |s| s.said[0].text = "@every 1s".into(), &["3 ran"]),
        (
            "another rhythm",
            |s| (s.said[0].text, s.plan.whens) = ("every second from 4".into(), from_4()),
            &["4 ran", "5 ran", "6 ran"],
        ),
    ];
    for (row, change, expected) in rows {
        let mut made = every_second(|s| s.plan.count = Some(3));
        made.said = vec![Said { text: "every second".into(), dialect: None }];
        let mut world = world();
        world.put_schedule(made.clone());
        world.run_to(2_100);
        change(&mut made);
        world.put_schedule(made);
        world.run_to(9_000);
        assert_eq!(ledger(&world)[2..], *expected, "{row}");
        assert_eq!(world.schedule("s").idle, Some(Idle::Counted), "{row}");
    }
}

/// Every second, counted from the fourth on.
fn from_4() -> Vec<Recurrence> {
    every(4_000, SECOND as u64).whens
}

fn cron(expression: &str, zone: &str) -> Schedule {
    let spec = JobSpec::new(Target::Worker);
    let draft = Schedule::cron(expression).zone(zone);
    draft.build(schedule_id("s"), spec, at(0)).expect("a good schedule")
}

fn instant(text: &str) -> Timestamp {
    let utc = hence_core::when::Zone::UTC;
    hence_core::when::parse_instant(text, at(0), &utc).expect("a time").instant
}

#[test]
fn clock_changes_come_through() {
    // Paris, 29 March and 25 October 2026, both at 01:00 UTC.
    let rows = [
        (Gap::AfterGap, Fold::First, "2026-03-28T12:00:00Z", vec!["2026-03-29T01:00:00Z"]),
        (Gap::Skip, Fold::First, "2026-03-28T12:00:00Z", vec![]),
        (Gap::Skip, Fold::First, "2026-10-24T12:00:00Z", vec!["2026-10-25T00:30:00Z"]),
        (Gap::Skip, Fold::Second, "2026-10-24T12:00:00Z", vec!["2026-10-25T01:30:00Z"]),
        (
            Gap::Skip,
            Fold::Both,
            "2026-10-24T12:00:00Z",
            vec!["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"],
        ),
    ];
    for (gap, fold, from, expected) in rows {
        for outage in [false, true] {
            let mut made = cron("30 2 * * *", "Europe/Paris");
            (made.plan.gap, made.plan.fold) = (gap, fold);
            made.misfire = Misfire::All { pace: ms(0) };
            let mut world = world();
            world.now = instant(from);
            world.put_schedule(made);
            let end = instant(from).as_millis() + 24 * 3_600_000;
            if outage {
                world.now = at(end);
                world.crash();
            } else {
                world.run_to(end);
            }
            let ticks: Vec<Timestamp> =
                world.disk.occurrences.iter().map(|record| record.last).collect();
            let expected: Vec<Timestamp> = expected.iter().map(|text| instant(text)).collect();
            assert_eq!(ticks, expected, "{gap:?} {fold:?} from {from}, outage {outage}");
        }
    }
}

#[test]
fn a_new_zone_database_moves_the_next_tick_and_says_so() {
    let mut world = world();
    world.put_schedule(cron("0 9 * * *", "Europe/Paris"));
    world.put_schedule(schedule("t", SECOND, 60_000));
    let right = world.schedule("s").next_at;
    for state in world.disk.schedules.values_mut() {
        state.progress.zones = "1999z".into();
    }
    let state = world.disk.schedules.get_mut(&schedule_id("s")).expect("it is there");
    state.progress.next_at = Some(at(7_777));
    world.crash();
    assert_eq!(world.schedule("s").next_at, right);
    let moved = Notice::TickMoved {
        schedule: schedule_id("s"),
        zones: "1999z".into(),
        before: Some(at(7_777)),
        after: right,
    };
    assert_eq!(world.notices, [moved], "and nothing about the one that did not move");
    world.crash();
    assert_eq!(world.notices.len(), 1, "once");
    assert_ne!(&*world.schedule("t").zones, "1999z");
}

#[test]
fn a_spread_job_is_due_within_its_window() {
    let mut world = world();
    world.put_schedule(every_second(|s| s.spread = ms(900)));
    world.run_to(50_000);
    let due: Vec<i64> = world
        .disk
        .live
        .values()
        .map(|live| {
            let tick = live.job.occurrence.as_ref().expect("a tick made it").at;
            live.progress.due_at.as_millis() - tick.as_millis()
        })
        .collect();
    assert_eq!(due.len(), 50);
    assert!(due.iter().all(|late| (0..900).contains(late)), "{due:?}");
    assert!(due.iter().filter(|late| **late > 450).count() > 10, "{due:?}");
}

#[test]
fn a_changed_plan_leaves_no_tick_behind() {
    let mut world = world();
    world.put_schedule(every_second(|s| s.misfire = Misfire::All { pace: ms(900) }));
    world.now = at(4_200);
    world.crash();
    world.put_schedule(schedule("s", 500, 2_000));
    assert_eq!(ledger(&world), ["1 late", "2-4 changed 3"]);
    world.pause("s");
    world.at(9_000);
    world.put_schedule(Schedule { paused: None, ..schedule("s", 0, 7_000) });
    assert_eq!(ledger(&world)[2..], ["4-8 paused 3"]);
    assert_eq!(world.schedule("s").idle, Some(Idle::Paused), "a pause stays");
    world.resume("s");
    assert_eq!(world.schedule("s").next_at, Some(at(14_000)));
}

#[test]
fn the_ledger_forgets_in_time_also_when_nothing_ticks() {
    let mut world = world();
    world.put_schedule(every_second(|s| {
        (s.ledger_retention, s.plan.count) = (limits::LEDGER_RETENTION_MIN, Some(200));
    }));
    let kept = limits::LEDGER_RETENTION_MIN.get() as i64 / SECOND;
    world.run_to(200_000);
    let held = world.disk.occurrences.len() as i64;
    assert!((kept..=kept + kept / 16 + 1).contains(&held), "{held} records");
    world.run_to(400_000);
    assert_eq!(world.disk.occurrences, []);
    assert_eq!((world.schedule("s").ledger, world.disk.ticks()), (None, 200));
    assert_eq!(world.shard.deadline(), None, "and there is nothing more to do");
}

#[test]
fn a_removed_schedule_takes_its_ledger_along() {
    let mut world = world();
    world.put_schedule(every_second(|_| {}));
    world.put_schedule(Schedule { queue: queue_name("q"), ..schedule("t", 1_000, 1_000) });
    world.run_to(3_100);
    world.call(Request::RemoveSchedule(schedule_id("s"))).expect("it is there");
    assert!(world.disk.occurrences.iter().all(|record| record.schedule.as_str() == "t"));
    assert_eq!(world.disk.occurrences.len(), 3);
}

#[test]
fn the_self_check_finds_what_neither_ticks_nor_says_why() {
    let mut world = world();
    world.put_schedule(every_second(|_| {}));
    world.put_schedule(schedule("t", SECOND, 60_000));
    world.put_schedule(schedule("u", SECOND, 60_000));
    world.pause("u");
    let unsound = |world: &mut World| match world.call(Request::CheckSchedules { limit: 9 }) {
        Ok(Answer::ScheduleCheck(check)) => {
            check.unsound.iter().map(|state| state.schedule.id.to_string()).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    assert!(unsound(&mut world).is_empty());
    let state = world.disk.schedules.get_mut(&schedule_id("s")).expect("it is there");
    state.progress.next_at = None;
    world.recover();
    assert_eq!(unsound(&mut world), ["s"], "no next tick, and no reason");
    world.feed(Input::StoreFull(true));
    world.at(120_000);
    assert_eq!(unsound(&mut world), ["s", "t"], "overdue");
}

#[test]
fn a_schedule_can_be_put_and_woken_in_one_step() {
    let mut world = world();
    world.put_schedule(every_second(|_| {}));
    world.at(1_000);
    world.pause("s");
    world.at(4_500);
    let schedule = Box::new(every_second(|s| s.misfire = Misfire::Skip));
    let put = world.call(Request::PutSchedule { schedule, wake: true });
    assert!(put.is_ok(), "{put:?}");
    world.at(5_000);
    let ledger = ledger(&world);
    assert_eq!(ledger[1..], ["2-4 paused 3", "5 ran"], "{ledger:?}");
}
