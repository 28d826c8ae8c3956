//! Counting ticks without walking over them gives what walking over them gives: over every kind of
//! rhythm, across clock changes, with days left out.

use hence_core::time::Timestamp;
use hence_core::when::{Fold, Gap, Holidays, Plan, Reading, Zone, parse_recurrence};

const RHYTHMS: [&str; 14] = [
    "* * * * *",
    "*/7 * * * *",
    "30 2 * * *",
    "*/30 1-4 * * *",
    "0 */2 * * *",
    "15,45 0,1,2,3,23 * * *",
    "*/20 30 1-3 * * *",
    "0 9 * * MON-FRI",
    "30 1 1,8,L * *",
    "@every 37m from 2026-03-01T00:00:00Z",
    "@every 250ms from 2026-03-29T00:00:00Z",
    "every 2 days at 2:30 and 23:15 from 2026-03-01",
    "every 2 weeks on sunday at 2:30 from 2026-03-01",
    "0 0 29 2 *",
];

/// Zones and an instant near a change of their clocks.
const CHANGES: [(&str, &str); 8] = [
    ("UTC", "2026-03-29T01:00:00Z"),
    ("Europe/Paris", "2026-03-29T01:00:00Z"),
    ("Europe/Paris", "2026-10-25T01:00:00Z"),
    ("America/New_York", "2026-11-01T06:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
    ("America/Santiago", "2026-09-06T04:00:00Z"),
    ("Asia/Beirut", "2026-10-24T21:00:00Z"),
    ("Pacific/Apia", "2011-12-30T10:00:00Z"),
];

fn plan(rhythm: &str, zone: &Zone, now: Timestamp) -> Plan {
    Plan::new(parse_recurrence(rhythm, &Reading::new(now, zone)).expect("a good rhythm"))
}

fn instant(text: &str) -> Timestamp {
    hence_core::when::parse_instant(text, Timestamp::EPOCH, &Zone::UTC).expect("a time").instant
}

/// Ranges around an instant, in minutes and odd milliseconds.
fn ranges(around: Timestamp) -> Vec<(Timestamp, Timestamp)> {
    let spans: [(i64, i64); 7] =
        [(-600, 600), (-60, 0), (-60, 1), (0, 60), (-1, 1), (-45, 20), (-1_500, 1_500)];
    let at = |minutes: i64, odd: i64| {
        Timestamp::from_millis(around.as_millis() + minutes * 60_000 + odd)
    };
    let odds = [(0, 0), (-1, 1), (999, 500)];
    spans
        .iter()
        .flat_map(|(from, to)| odds.map(|(low, high)| (at(*from, low), at(*to, high))))
        .collect()
}

#[test]
fn counting_gives_what_walking_gives() {
    let mut compared = 0;
    for (zone_name, change) in CHANGES {
        let (zone, change) = (Zone::named(zone_name).expect("a zone"), instant(change));
        for rhythm in RHYTHMS {
            for (gap, fold) in [
                (Gap::AfterGap, Fold::First),
                (Gap::Skip, Fold::Second),
                (Gap::AfterGap, Fold::Both),
            ] {
                let plan = Plan { gap, fold, ..plan(rhythm, &zone, change) };
                for (after, until) in ranges(change) {
                    if rhythm.contains("ms") && until.since(after).get() > 4_000_000 {
                        continue;
                    }
                    let label =
                        format!("{rhythm} in {zone_name}, {gap:?} {fold:?}, {after}–{until}");
                    compare(&plan, after, until, &label);
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 6_000, "{compared} ranges were compared");
}

#[test]
fn days_left_out_are_not_counted() {
    let zone = Zone::named("Europe/Paris").expect("a zone");
    let change = instant("2026-03-29T01:00:00Z");
    let holidays = Holidays::parse("2026-03-28 a\n2026-03-29 b").expect("a list");
    for rhythm in RHYTHMS.iter().filter(|rhythm| !rhythm.contains("ms")) {
        let mut plan = plan(rhythm, &zone, change);
        plan.excluded.insert("2026-03-31".parse().expect("a date"));
        plan.holidays = holidays.clone();
        plan.start = Some(instant("2026-03-27T12:00:00Z"));
        plan.end = Some(instant("2026-04-01T12:30:00Z"));
        for (after, until) in ranges(change) {
            compare(&plan, after, until, rhythm);
        }
    }
}

#[test]
fn a_count_ends_a_tally_and_several_rhythms_are_walked() {
    let from = instant("2026-03-29T00:00:00Z");
    let until = instant("2026-03-30T00:00:00Z");
    let mut plan = plan("0 * * * *", &Zone::UTC, from);
    plan.count = Some(5);
    assert_eq!(plan.tally(from, until, 2, 10).count, 3);
    assert_eq!(plan.tally(from, until, 5, 10).count, 0);
    plan.count = None;
    plan.whens.extend(self::plan("*/30 * * * *", &Zone::UTC, from).whens);
    let all = plan.tally(from, until, 0, 100);
    assert_eq!((all.count, all.whole), (48, true), "at the full hour they tick once");
    let some = plan.tally(from, until, 0, 10);
    assert_eq!((some.count, some.whole), (10, false));
    assert_eq!(plan.nth_in(from, until, 10), Some(some.last));
}

fn compare(plan: &Plan, after: Timestamp, until: Timestamp, label: &str) {
    let ticks = plan.ticks(after, 0).map(|tick| tick.at).take_while(|at| *at <= until);
    let ticks: Vec<Timestamp> = ticks.collect();
    let tally = plan.tally(after, until, 0, 0);
    assert_eq!((tally.count, tally.whole), (ticks.len() as u64, true), "{label}");
    assert_eq!(tally.last, ticks.last().copied().unwrap_or(after), "{label}");
    for nth in [1, 2, 3, 70, ticks.len().max(1)] {
        let expected = ticks.len().checked_sub(nth).map(|at| ticks[at]);
        let found = plan.nth_last_in(after, until, nth as u64);
        assert_eq!(found, expected, "{nth} from the end of {label}");
    }
    for nth in [1, 2, ticks.len() / 2, ticks.len()] {
        let expected = nth.checked_sub(1).and_then(|at| ticks.get(at)).copied();
        assert_eq!(plan.nth_in(after, until, nth as u64), expected, "{nth} of {label}");
    }
    assert_eq!(plan.nth_in(after, until, ticks.len() as u64 + 1), None, "{label}");
}
