//! The tables under `testdata/time/`: one check a table, and a line is a case.

use std::fmt::Write as _;
use std::path::PathBuf;

use hence_core::time::Timestamp;
use hence_core::when::{
    Fold, Gap, Line, Plan, Problem, Reading, Rhythm, Understood, Zone, parse_bound, parse_instant,
    parse_recurrence, preview,
};

/// Cases that a table has at least: none is lost unnoticed.
const INSTANTS_MIN: usize = 520;
const BOUNDS_MIN: usize = 59;
const RECURRENCES_MIN: usize = 338;
const CRON_MIN: usize = 458;
const CLOCK_CHANGES_MIN: usize = 131;

#[test]
fn instants() {
    check_moments("instants.txt", INSTANTS_MIN, parse_instant);
}

#[test]
fn bounds() {
    check_moments("bounds.txt", BOUNDS_MIN, parse_bound);
}

type Reader = fn(&str, Timestamp, &Zone) -> Result<Understood, Problem>;

fn check_moments(name: &str, cases_min: usize, reader: Reader) {
    let (mut now, mut zone) = (Timestamp::EPOCH, Zone::UTC);
    check(name, cases_min, |line| {
        if let Some(rest) = line.strip_prefix("@now ") {
            let (instant, name) = rest.split_once(' ').expect("an instant and a zone");
            (now, zone) = (at(instant), Zone::named(name).expect("a zone"));
            return None;
        }
        let text = column(line, 0);
        let read = |text: &str| reader(text, now, &zone);
        Some(match read(text) {
            Ok(found) => {
                assert_eq!(read(&found.canonical), Ok(found.clone()), "canonical of {text}");
                let by_words = read(&found.words).map(|again| again.instant);
                assert_eq!(by_words, Ok(found.instant), "words of {text}: {}", found.words);
                format!("{text} | {}", found.canonical)
            }
            Err(problem) => {
                check_problem(text, &problem, |other| read(other).is_ok());
                format!("{text} | {}", show_problem(&problem))
            }
        })
    });
}

#[test]
fn recurrences() {
    let (now, zone) = (at("2026-03-04T10:30:00-05:00"), Zone::named("America/New_York").unwrap());
    let reading = Reading { schedule: Some("a"), ..Reading::new(now, &zone) };
    check("recurrences.txt", RECURRENCES_MIN, |line| {
        let text = column(line, 0);
        Some(match parse_recurrence(text, &reading) {
            Ok(found) => {
                check_canonical(text, &found, now);
                format!("{text} | {} | {}", found.canonical().join(" ; "), found.words())
            }
            Err(problem) => {
                check_problem(text, &problem, |other| parse_recurrence(other, &reading).is_ok());
                format!("{text} | {}", show_problem(&problem))
            }
        })
    });
}

#[test]
fn cron() {
    check("cron.txt", CRON_MIN, |line| {
        let [dialect, text, zone, after, expected] =
            [0, 1, 2, 3, 4].map(|index| column(line, index));
        let head = format!("{dialect} | {text} | {zone} | {after}");
        let found = match plan(dialect, text, zone) {
            Ok(plan) => {
                let wanted = expected.split(", ").count() + usize::from(expected.ends_with("end"));
                let ticks: Vec<String> = plan
                    .ticks(at(after), 0)
                    .take(wanted)
                    .map(|tick| format!("{}{}", tick.wall, tick.offset()))
                    .collect();
                let end = if ticks.len() < wanted { " end" } else { "" };
                format!("{}{end}", ticks.join(", "))
            }
            Err(problem) => format!("! {}", problem.message),
        };
        Some(format!("{head} | {found}"))
    });
}

#[test]
fn clock_changes() {
    check("clock_changes.txt", CLOCK_CHANGES_MIN, |line| {
        let [rules, text, zone, after, expected] = [0, 1, 2, 3, 4].map(|index| column(line, index));
        let plan = plan(rules, text, zone).unwrap_or_else(|problem| panic!("{line}: {problem}"));
        let wanted = expected.split(", ").filter(|part| !part.starts_with('(')).count();
        let shown: Vec<String> = preview(&plan, at(after), wanted).iter().map(show_line).collect();
        Some(format!("{rules} | {text} | {zone} | {after} | {}", shown.join(", ")))
    });
}

/// The page that explains all this shows what the code says.
#[test]
fn the_examples_of_the_page_on_time_are_true() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/concepts/time.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (_, table) = page.split_once("| said | shown as |\n|---|---|\n").expect("the table");
    let (now, zone) = (at("2026-03-04T10:30:00-05:00"), Zone::named("America/New_York").unwrap());
    let mut rows = 0;
    for row in table.lines().take_while(|line| line.starts_with('|')) {
        let quoted: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        let (said, shown) = quoted.split_first().expect("a text");
        let found = parse_recurrence(said, &Reading::new(now, &zone));
        assert_eq!(
            found.map(|found| found.canonical()).as_deref(),
            Ok(&strings(shown)[..]),
            "{said}"
        );
        rows += 1;
    }
    assert!(rows >= 10);
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

/// The example of the WorkKit document: every five seconds from nine to five, every Wednesday and
/// every second Sunday of March 2014.
#[test]
fn the_example_of_workkit_beeps_as_its_document_says() {
    let plan = plan("any", "2014 3 * 0/2,3 9-17 * */5", "America/New_York").unwrap();
    let ticks: Vec<_> = plan.ticks(Timestamp::EPOCH, 0).collect();
    for day in [5, 9, 12, 19, 26] {
        let on_day = ticks.iter().filter(|tick| tick.wall.day() == day).count();
        assert_eq!(on_day, 6_480, "nine hours, every five seconds, on {day} March");
    }
    assert_eq!(ticks.len(), 5 * 6_480, "and on no other day");
    assert!(ticks.iter().all(|tick| tick.offset() == "+00:00" && tick.wall.second() % 5 == 0));
}

/// Compares each case of a table with what the function makes of it.
fn check(name: &str, cases_min: usize, mut case: impl FnMut(&str) -> Option<String>) {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../testdata/time", name].iter().collect();
    let table = std::fs::read_to_string(&path).expect("the table is there");
    let (mut cases, mut failures) = (0, String::new());
    for (number, line) in (1..).zip(table.lines()) {
        let is_case = !line.is_empty() && !line.starts_with('#');
        let found = if is_case { case(line) } else { None };
        let found = found.as_deref().map_or(line, str::trim_end);
        cases += usize::from(is_case && !line.starts_with("@now"));
        if found != line {
            let _ = write!(failures, "\n{name}:{number}\n  table {line}\n  found {found}\n");
        }
    }
    assert!(failures.is_empty(), "{failures}");
    assert!(cases >= cases_min, "{name} has {cases} cases, it had {cases_min}");
}

fn column(line: &str, index: usize) -> &str {
    line.split(" | ").nth(index).unwrap_or_default().trim()
}

fn at(text: &str) -> Timestamp {
    let instant: jiff::Timestamp = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    Timestamp::from_millis(instant.as_millisecond())
}

/// `unix gap=skip fold=both` and the like.
fn plan(rules: &str, text: &str, zone: &str) -> Result<Plan, Problem> {
    let zone = Zone::named(zone)?;
    let mut words = rules.split(' ');
    let dialect = words
        .next()
        .filter(|name| *name != "any")
        .map(|name| name.parse().unwrap_or_else(|problem| panic!("{rules}: {problem}")));
    let now = at("2026-03-04T10:30:00-05:00");
    let reading = Reading { now, zone: &zone, dialect, schedule: Some("a") };
    let rhythm = parse_recurrence(text, &reading)?;
    check_canonical(text, &rhythm, now);
    let mut plan = Plan::new(rhythm);
    for rule in words {
        match rule {
            "gap=skip" => plan.gap = Gap::Skip,
            "fold=second" => plan.fold = Fold::Second,
            "fold=both" => plan.fold = Fold::Both,
            other => panic!("{other} is not a rule"),
        }
    }
    Ok(plan)
}

/// The canonical form of each rhythm reads back as that rhythm.
fn check_canonical(text: &str, found: &Rhythm, now: Timestamp) {
    for (when, canonical) in found.whens.iter().zip(found.canonical()) {
        let again = parse_recurrence(&canonical, &Reading::new(now, &found.zone));
        let again = again.unwrap_or_else(|problem| panic!("{text}: {canonical}: {problem}"));
        assert_eq!(again.whens, std::slice::from_ref(when), "{text}: {canonical}");
    }
}

/// A problem lies in its text, can be shown, and offers only what would be understood.
fn check_problem(text: &str, problem: &Problem, reads: impl Fn(&str) -> bool) {
    assert!(text.get(problem.span.clone()).is_some(), "{text}: {:?}", problem.span);
    assert!(problem.render(text).contains('^'), "{text}");
    for candidate in &problem.candidates {
        assert!(reads(candidate), "{text}: the candidate {candidate} is refused");
    }
}

fn show_problem(problem: &Problem) -> String {
    if problem.candidates.is_empty() {
        return format!("! {}", problem.message);
    }
    format!("! {} | {}", problem.message, problem.candidates.join(" / "))
}

fn show_line(line: &Line) -> String {
    let note = line.note().map(|note| format!("({note})"));
    match (line, note) {
        (Line::Tick(tick), None) => format!("{}{}", tick.wall, tick.offset()),
        (Line::Tick(tick), Some(note)) => format!("{}{} {note}", tick.wall, tick.offset()),
        (Line::Skipped(..), note) => note.unwrap_or_default(),
    }
}
