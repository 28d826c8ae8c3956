//! What holds for every plan, not only for those in the tables: searches end, ticks grow, what is
//! said back reads back, and no text makes a reader panic.

use hence_core::time::{Millis, Timestamp};
use hence_core::when::{
    Anchor, Dialect, Fold, Gap, Holidays, Interval, Line, Plan, Reading, Recurrence, Zone,
    forecast, limits, parse_instant, parse_recurrence, preview,
};
use jiff::civil::date;
use proptest::prelude::*;

const ZONES: [&str; 9] = [
    "UTC",
    "America/New_York",
    "Europe/Paris",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Pacific/Apia",
    "Antarctica/Troll",
    "Asia/Kolkata",
    "Africa/Casablanca",
];

static UTC: Zone = Zone::UTC;

fn at(text: &str) -> Timestamp {
    let instant: jiff::Timestamp = text.parse().expect("an instant");
    Timestamp::from_millis(instant.as_millisecond())
}

fn plan(text: &str, zone: &str) -> Plan {
    let zone = Zone::named(zone).expect("a zone");
    let now = at("2026-03-04T10:30:00Z");
    let reading = Reading { schedule: Some("a"), ..Reading::new(now, &zone) };
    let rhythm =
        parse_recurrence(text, &reading).unwrap_or_else(|problem| panic!("{text}: {problem}"));
    Plan::new(rhythm)
}

/// One field of cron in the unix dialect.
fn field(low: u32, high: u32) -> impl Strategy<Value = String> {
    let value = move || low..=high;
    let term = prop_oneof![
        4 => value().prop_map(|a| a.to_string()),
        2 => (value(), value()).prop_map(|(a, b)| format!("{a}-{b}")),
        2 => (1..=high - low).prop_map(|n| format!("*/{n}")),
    ];
    prop_oneof![
        3 => Just("*".to_string()),
        4 => term.clone(),
        1 => prop::collection::vec(value().prop_map(|a| a.to_string()), 1..4)
            .prop_map(|values| values.join(",")),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    let days = prop_oneof![
        4 => field(1, 28),
        1 => prop::sample::select(vec!["L", "LW", "15W", "L-3", "31", "?"]).prop_map(String::from),
    ];
    let weekdays = prop_oneof![
        4 => field(0, 6),
        1 => prop::sample::select(vec!["MON-FRI", "FRI-MON", "5L", "2#2", "FRI#5", "?"])
            .prop_map(String::from),
    ];
    let seconds = prop_oneof![3 => Just(String::new()), 1 => field(0, 59).prop_map(|s| s + " ")];
    (seconds, field(0, 59), field(0, 23), days, field(1, 12), weekdays)
        .prop_map(|(s, m, h, d, mo, w)| format!("{s}{m} {h} {d} {mo} {w}"))
}

fn rules() -> impl Strategy<Value = (Gap, Fold)> {
    (
        prop::sample::select(vec![Gap::Skip, Gap::AfterGap]),
        prop::sample::select(vec![Fold::First, Fold::Second, Fold::Both]),
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn ticks_grow_and_each_is_the_next_of_every_instant_before_it(
        text in expression(),
        zone in prop::sample::select(ZONES.to_vec()),
        (gap, fold) in rules(),
        second in 0i64..4_000_000_000,
        back in 1i64..100_000,
    ) {
        let reading_zone = Zone::named(zone).unwrap();
        let reading = Reading::new(Timestamp::EPOCH, &reading_zone);
        let reading = Reading { dialect: Some(Dialect::Unix), ..reading };
        let Ok(rhythm) = parse_recurrence(&text, &reading) else {
            return Ok(());
        };
        let plan = Plan { gap, fold, ..Plan::new(rhythm) };
        let from = Timestamp::from_millis(second * 1_000);
        let ticks: Vec<_> = plan.ticks(from, 0).take(6).collect();
        let mut last = from;
        for tick in &ticks {
            prop_assert!(tick.at > last, "{text} in {zone}");
            // Whoever asks in between gets the same answer: the search has no memory.
            let since = tick.at.as_millis() - last.as_millis();
            let between = tick.at.as_millis() - (back * 1_000).min(since);
            let again = plan.next_after(Timestamp::from_millis(between), 0);
            prop_assert_eq!(again.as_ref(), Some(tick), "{} in {} after {}", text, zone, between);
            last = tick.at;
        }
    }

    #[test]
    fn what_is_shown_reads_back(text in expression()) {
        let reading = Reading::new(Timestamp::EPOCH, &UTC);
        let unix = Reading { dialect: Some(Dialect::Unix), ..reading };
        if let Ok(rhythm) = parse_recurrence(&text, &unix) {
            for canonical in rhythm.canonical() {
                let again = parse_recurrence(&canonical, &unix).map(|again| again.whens);
                prop_assert_eq!(again.as_ref(), Ok(&rhythm.whens), "{} as {}", text, canonical);
            }
            prop_assert!(!rhythm.words().is_empty());
        }
    }

    #[test]
    fn every_instant_said_in_words_is_that_instant(
        millis in 0i64..5_000_000_000_000,
        zone in prop::sample::select(ZONES.to_vec()),
    ) {
        let zone = Zone::named(zone).unwrap();
        let unix = millis.max(1_000_000_000_000).to_string();
        let found = parse_instant(&unix, Timestamp::EPOCH, &zone);
        if let Ok(found) = found {
            let now = Timestamp::from_millis(0);
            for text in [&found.words, &found.canonical] {
                let again = parse_instant(text, now, &UTC).map(|again| again.instant);
                prop_assert_eq!(again, Ok(found.instant), "{}", text);
            }
        }
    }

    #[test]
    fn no_text_makes_a_reader_panic(text in "[ -~éß\n]{0,40}", words in phrase()) {
        let zone = Zone::named("America/Santiago").unwrap();
        let now = at("2026-03-04T10:30:00Z");
        for text in [text, words] {
            if let Err(problem) = parse_instant(&text, now, &zone) {
                prop_assert!(!problem.render(&text).is_empty());
            }
            for dialect in [None].into_iter().chain(Dialect::ALL.map(Some)) {
                let reading = Reading { now, zone: &zone, dialect, schedule: Some("a") };
                match parse_recurrence(&text, &reading) {
                    Ok(rhythm) => drop(Plan::new(rhythm).next_after(now, 0)),
                    Err(problem) => prop_assert!(!problem.render(&text).is_empty()),
                }
            }
            let _ = Holidays::parse(&text);
        }
    }
}

/// Words that the grammars know, in any order.
fn phrase() -> impl Strategy<Value = String> {
    let words = vec![
        "every",
        "other",
        "2nd",
        "second",
        "last",
        "first",
        "tuesday",
        "mondays",
        "weekday",
        "day",
        "of",
        "the",
        "month",
        "at",
        "9am",
        "9",
        "21:30",
        "noon",
        "midnight",
        "tomorrow",
        "next",
        "in",
        "two",
        "weeks",
        "and",
        ",",
        "a",
        "from",
        "now",
        "to",
        "between",
        "17",
        "half",
        "an",
        "hour",
        "end",
        "year",
        "quarter",
        "twice",
        "dec",
        "25",
        "2026-12-24",
        "Europe/Paris",
        "(",
        "+02:00",
        ":15",
        "tonight",
        "morning",
        "*",
        "*/5",
        "L",
        "MON#2",
        "?",
        "@every",
        "5m",
        "P1D",
        "1.5",
    ];
    prop::collection::vec(prop::sample::select(words), 1..9).prop_map(|words| words.join(" "))
}

/// Enough to measure, few enough for a slow machine.
const ROUNDS: u32 = 50;

/// The search is bounded by years, not by luck: what never comes is found out at once.
#[test]
#[expect(clippy::disallowed_methods, reason = "it is about time that passes")]
fn a_search_that_finds_nothing_ends_well_under_a_millisecond() {
    let reading = Reading::new(Timestamp::EPOCH, &UTC);
    let impossible = [
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        "0 0 0 29 2 * 2100,2200,2300",
        "0 0 0 31 11 * 1970-2399",
    ];
    let skipped = Plan { gap: Gap::Skip, ..plan("30 2 * 3 SUN#2", "America/New_York") };
    let rare = plan("0 0 * 2 MON#5", "Europe/Paris");
    let ended = plan("0 0 0 1 1 * 2014", "Europe/Paris");
    let from = at("2072-03-01T00:00:00Z");
    let start = std::time::Instant::now();
    for _ in 0..ROUNDS {
        for text in impossible {
            assert!(parse_recurrence(text, &reading).is_err(), "{text}");
        }
        assert_eq!(ended.next_after(from, 0), None);
        assert!(rare.next_after(from, 0).is_some());
    }
    let each = start.elapsed() / (ROUNDS * 6);
    // Ten times slower than measured, and without optimisation.
    assert!(each.as_micros() < 2_000, "{each:?} for one search");
    // Three centuries of gaps in a row, which is as bad as it gets.
    assert_eq!(skipped.next_after(from, 0), None);
}

#[test]
fn a_plan_starts_ends_and_counts() {
    let text = "0 9 * * *";
    let whole = plan(text, "UTC");
    let (start, end) = (at("2026-03-10T09:00:00Z"), at("2026-03-12T09:00:00Z"));
    let bounded = Plan { start: Some(start), end: Some(end), ..whole.clone() };
    let days: Vec<i8> = bounded.ticks(Timestamp::EPOCH, 0).map(|tick| tick.wall.day()).collect();
    assert_eq!(days, [10, 11, 12], "both ends count");
    assert_eq!(bounded.next_after(end, 0), None);
    let counted = Plan { count: Some(2), start: Some(start), ..whole };
    assert_eq!(counted.ticks(Timestamp::EPOCH, 0).count(), 2);
    assert_eq!(counted.ticks(Timestamp::EPOCH, 1).count(), 1, "one was before");
    assert_eq!(counted.next_after(Timestamp::EPOCH, 2), None);
    assert_eq!(preview(&counted, Timestamp::EPOCH, 10).len(), 2);
}

#[test]
fn a_plan_that_cannot_be_kept_is_refused() {
    let good = plan("0 9 * * *", "UTC");
    let many = |count| vec![good.whens[0].clone(); count];
    let (early, late) = (Some(at("2026-01-01T00:00:00Z")), Some(at("2026-01-02T00:00:00Z")));
    let rows = [
        (good.clone(), true),
        (Plan { whens: many(0), ..good.clone() }, false),
        (Plan { whens: many(limits::WHENS_MAX), ..good.clone() }, true),
        (Plan { whens: many(limits::WHENS_MAX + 1), ..good.clone() }, false),
        (Plan { start: early, end: late, ..good.clone() }, true),
        (Plan { start: late, end: early, ..good.clone() }, false),
    ];
    for (plan, is_good) in rows {
        assert_eq!(plan.check().is_ok(), is_good, "{plan:?}");
    }
}

#[test]
fn rhythms_that_meet_tick_once() {
    let mut both = plan("0 9 * * *", "UTC");
    both.whens.extend(plan("0 */3 * * *", "UTC").whens);
    let hours: Vec<i8> =
        both.ticks(at("2026-03-04T05:00:00Z"), 0).take(4).map(|tick| tick.wall.hour()).collect();
    assert_eq!(hours, [6, 9, 12, 15]);
}

#[test]
fn excluded_days_are_passed_over_and_named() {
    let mut plan = plan("*/5 * * * * *", "America/Santiago");
    plan.excluded.insert(date(2026, 9, 5));
    plan.holidays = Holidays::parse("2026-09-06 Day without midnight\n").unwrap();
    let from = at("2026-09-04T23:59:55-04:00");
    let tick = plan.next_after(from, 0).unwrap();
    assert_eq!(tick.wall.to_string(), "2026-09-07T00:00:00");
    let notes: Vec<_> = preview(&plan, from, 1).iter().filter_map(Line::note).collect();
    assert_eq!(
        notes,
        [
            "skipped: 2026-09-05 is excluded (excluded date)",
            "skipped: 2026-09-06 is excluded (Day without midnight)"
        ]
    );
}

#[test]
fn a_plan_whose_every_day_is_excluded_ends() {
    let mut plan = plan("0 9 25 12 *", "UTC");
    let calendar = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20200101\nDTEND:20201231\n\
                    RRULE:FREQ=YEARLY\nEND:VEVENT\nEND:VCALENDAR\n";
    plan.holidays = Holidays::parse(calendar).unwrap();
    assert_eq!(plan.next_after(at("2026-01-01T00:00:00Z"), 0), None);
}

#[test]
fn intervals_are_elapsed_time() {
    let every = |millis, anchor| Interval { every: Millis::new(millis), anchor };
    let at = Timestamp::from_millis;
    let rows = [
        (every(1_000, Anchor::Aligned), 0, Some(1_000)),
        (every(1_000, Anchor::Aligned), -1, Some(0)),
        (every(700, Anchor::Start(at(100))), 0, Some(100)),
        (every(700, Anchor::Start(at(100))), 100, Some(800)),
        (every(700, Anchor::Start(at(100))), 799, Some(800)),
        (every(700, Anchor::Start(at(100))), i64::MAX, None),
        (every(0, Anchor::Aligned), 0, None),
    ];
    for (interval, after, expected) in rows {
        assert_eq!(interval.next_after(at(after)), expected.map(at), "{interval:?} after {after}");
    }
    assert!(matches!(plan("@every 5m", "UTC").whens[..], [Recurrence::Interval(_)]));
}

#[test]
fn a_forecast_counts_each_minute() {
    let plans =
        [plan("0 * * * *", "UTC"), plan("*/30 * * * *", "UTC"), plan("*/20 0 * * * *", "UTC")];
    let found = forecast(&plans, at("2026-03-04T10:00:30Z"), 120);
    assert_eq!(found.from, at("2026-03-04T10:00:00Z"));
    assert_eq!(found.counts.len(), 120);
    assert_eq!((found.counts[0], found.counts[30], found.counts[60]), (5, 1, 5));
    assert_eq!(found.counts.iter().sum::<u32>(), 12);
    assert_eq!(found.peak(), Some((at("2026-03-04T10:00:00Z"), 5)));
    assert!(!found.cut);
    let week = forecast(&plans, at("2026-03-04T10:00:00Z"), u32::MAX);
    assert_eq!(week.counts.len(), limits::FORECAST_MINUTES_MAX as usize);
}

#[test]
fn a_herd_is_seen_and_spread() {
    let at_once = |text: &str| -> Vec<Plan> {
        let reading = Reading::new(Timestamp::EPOCH, &UTC);
        let of = |id: u32| {
            let id = format!("tenant-{id}");
            let reading = Reading { schedule: Some(&id), ..reading };
            Plan::new(parse_recurrence(text, &reading).unwrap())
        };
        (0..600).map(of).collect()
    };
    let peak = |text| forecast(&at_once(text), at("2026-03-04T00:00:00Z"), 60).peak().unwrap().1;
    assert_eq!(peak("0 * * * *"), 600);
    assert!(peak("H * * * *") < 30);
}

#[test]
fn a_text_beyond_the_limit_is_refused() {
    let long = "every day and ".repeat(40);
    assert!(parse_instant(&long, Timestamp::EPOCH, &UTC).is_err());
    assert!(parse_recurrence(&long, &Reading::new(Timestamp::EPOCH, &UTC)).is_err());
    assert!(parse_instant("", Timestamp::EPOCH, &UTC).is_err());
    let times = (0..30).map(|n| format!("{n}:00")).collect::<Vec<_>>().join(",");
    let text = format!("every day at {times}");
    assert!(parse_recurrence(&text, &Reading::new(Timestamp::EPOCH, &UTC)).is_err());
}
