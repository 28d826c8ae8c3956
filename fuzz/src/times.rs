//! Times that people write: one moment, a span, a rhythm, cron, calendars of holidays.

use hence_core::time::Timestamp;
use hence_core::when::{
    Cron, Dialect, Holidays, Plan, Problem, Reading, Recurrence, Rhythm, Zone, parse_any,
    parse_bound, parse_date, parse_in, parse_instant, parse_recurrence, parse_span, plain_instant,
    plain_span,
};

/// 2026-03-04T15:30:00Z, a Wednesday.
const NOW: Timestamp = Timestamp::from_millis(1_772_638_200_000);

/// Ticks that are computed of a rhythm that was understood.
const TICKS: usize = 5;

/// One moment: what was understood is understood as the same when it is said back.
pub(crate) fn instant(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let zone = Zone::UTC;
    let _ = plain_instant(&text);
    if let Err(problem) = parse_bound(&text, NOW, &zone) {
        rendered(&problem, &text);
    }
    match parse_instant(&text, NOW, &zone) {
        Ok(understood) => {
            let again = parse_instant(&understood.canonical, NOW, &zone);
            let again = again.map(|again| again.instant).map_err(|problem| problem.message);
            assert_eq!(again, Ok(understood.instant), "{text:?} -> {}", understood.canonical);
        }
        Err(problem) => rendered(&problem, &text),
    }
}

/// How long.
pub(crate) fn span(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = parse_in(&text, NOW, &Zone::UTC);
    match (plain_span(&text), parse_span(&text)) {
        (Some(plain), Ok(span)) => assert_eq!(plain, span, "{text:?}"),
        (Some(plain), Err(problem)) => {
            panic!("{text:?} is {plain:?} in one reading and refused in the other: {problem:?}")
        }
        (None, Ok(_)) => {}
        (None, Err(problem)) => rendered(&problem, &text),
    }
}

/// A rhythm: it ticks forward, and what it is called is understood again.
pub(crate) fn recurrence(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let zone = Zone::UTC;
    let reading = Reading::new(NOW, &zone);
    let _ = parse_any(&text, &reading);
    match parse_recurrence(&text, &reading) {
        Ok(rhythm) => {
            let _ = rhythm.words();
            reads_back(&rhythm, &text);
            ticks_forward(&Plan::new(rhythm), &text);
        }
        Err(problem) => rendered(&problem, &text),
    }
}

/// Cron in each dialect.
pub(crate) fn cron(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for dialect in [Dialect::Unix, Dialect::Quartz, Dialect::Workkit] {
        match Cron::parse(&text, dialect, Some("fuzzed")) {
            Ok(cron) => {
                let _ = cron.words();
                // The name is in the first dialect, whichever it was read in.
                let again = Cron::parse(cron.canonical(), Dialect::Unix, Some("fuzzed"));
                let again = again.map(|again| again.canonical().to_owned());
                let expected = Ok(cron.canonical().to_owned());
                assert_eq!(again, expected, "{text:?} in {dialect:?}");
            }
            Err(problem) => rendered(&problem, &text),
        }
    }
}

/// A calendar of holidays.
pub(crate) fn holidays(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Err(problem) = Holidays::parse(&text) {
        rendered(&problem, &text);
    }
}

/// A date.
pub(crate) fn date(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match parse_date(&text) {
        Ok(date) => assert_eq!(parse_date(&date.to_string()).ok(), Some(date), "{text:?}"),
        Err(problem) => rendered(&problem, &text),
    }
}

/// A schedule is kept as this text: what does not read back is lost.
fn reads_back(rhythm: &Rhythm, text: &str) {
    for (when, canonical) in rhythm.whens.iter().zip(rhythm.canonical()) {
        let utc = Zone::UTC;
        let dialect = matches!(when, Recurrence::Cron(_)).then_some(Dialect::Unix);
        let reading = Reading { dialect, ..Reading::new(Timestamp::EPOCH, &utc) };
        let again = parse_recurrence(&canonical, &reading).map(|again| again.whens);
        assert_eq!(again.as_deref(), Ok(std::slice::from_ref(when)), "{text:?} as {canonical}");
    }
}

fn ticks_forward(plan: &Plan, text: &str) {
    let mut before = NOW;
    for tick in plan.ticks(NOW, 0).take(TICKS) {
        assert!(tick.at > before, "{text:?} ticks at {} after {before}", tick.at);
        before = tick.at;
    }
}

/// What is wrong can be shown under the text.
fn rendered(problem: &Problem, text: &str) {
    assert!(!problem.render(text).is_empty());
}
