//! A text of which only the words tell whether it is a moment or a rhythm.

use super::cron::looks_like_cron;
use super::instant::{Understood, parse_instant};
use super::problem::Problem;
use super::recurrence::{Reading, Rhythm, parse_recurrence};

/// What a text was understood as.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Saying {
    /// Once.
    Moment(Understood),
    /// Again and again.
    Rhythm(Rhythm),
}

/// Reads a rhythm or a moment. What could be either is refused with both; what is neither is
/// refused by the reader that came further.
///
/// ```
/// use hence_core::time::Timestamp;
/// use hence_core::when::{Reading, Saying, Zone, parse_any};
/// let zone = Zone::UTC;
/// let reading = Reading::new(Timestamp::EPOCH, &zone);
/// assert!(matches!(parse_any("every day at 9am", &reading), Ok(Saying::Rhythm(_))));
/// assert!(matches!(parse_any("tomorrow at 9am", &reading), Ok(Saying::Moment(_))));
/// ```
pub fn parse_any(text: &str, reading: &Reading<'_>) -> Result<Saying, Problem> {
    read(text, reading).map_err(|mut problem| {
        // A candidate is a promise, and one reader's candidate may be either to both of them.
        let free = Reading { dialect: None, ..*reading };
        problem.candidates.retain(|other| read(other, reading).or(read(other, &free)).is_ok());
        problem
    })
}

fn read(text: &str, reading: &Reading<'_>) -> Result<Saying, Problem> {
    let rhythm = parse_recurrence(text, reading);
    // Who names a dialect says that it is cron.
    if reading.dialect.is_some() {
        return rhythm.map(Saying::Rhythm);
    }
    match (rhythm, parse_instant(text, reading.now, reading.zone)) {
        (Ok(rhythm), Ok(moment)) => {
            let both = rhythm.canonical().into_iter().take(1).chain([moment.canonical]);
            Err(Problem::new(0..text.len(), "once, or again and again?").or(both))
        }
        (Ok(rhythm), Err(_)) => Ok(Saying::Rhythm(rhythm)),
        (Err(_), Ok(moment)) => Ok(Saying::Moment(moment)),
        (Err(rhythm), Err(_)) if is_cron(text) => Err(rhythm),
        (Err(rhythm), Err(moment)) => Err(further(rhythm, moment)),
    }
}

/// Whether nobody who writes this means a moment.
fn is_cron(text: &str) -> bool {
    let text = text.trim();
    text.starts_with(['@', '*']) || text.contains("TZ=") || looks_like_cron(text)
}

/// The problem that lies further on; at the same place, the one that knows what could have been
/// meant.
fn further(one: Problem, other: Problem) -> Problem {
    let rank = |problem: &Problem| (problem.span.start, !problem.candidates.is_empty());
    if rank(&other) > rank(&one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;
    use crate::when::Zone;
    use alloc::string::String;

    #[test]
    fn a_text_is_once_or_again_and_again_or_refused() {
        // Wednesday 2026-03-04 15:30 UTC.
        let now = Timestamp::from_millis(1_772_638_200_000);
        let zone = Zone::UTC;
        let reading = Reading::new(now, &zone);
        let rows = [
            ("every day at 9am", "0 9 * * *"),
            ("mondays at 9am", "0 9 * * MON"),
            ("monday at 9am", "2026-03-09T09:00:00+00:00[UTC]"),
            ("in 5 minutes", "2026-03-04T15:35:00+00:00[UTC]"),
            ("last day of the month", "! once, or again and again?"),
            ("every weekday at 9ma", "! \"ma\" is not understood here"),
            ("tomorrow at 9ma", "! \"ma\" is not understood here"),
            ("0 0 30 2 *", "! this date never comes"),
            ("H * * * *", "! H and ~ are drawn from a schedule's id, and there is none"),
            ("evry day", "! \"evry\" is not understood here"),
        ];
        for (text, expected) in rows {
            let found = match parse_any(text, &reading) {
                Ok(Saying::Rhythm(rhythm)) => rhythm.canonical().join(" ; "),
                Ok(Saying::Moment(moment)) => moment.canonical,
                Err(problem) => alloc::format!("! {}", problem.message),
            };
            assert_eq!(found, expected, "{text}");
        }
        let both = parse_any("last day of the month", &reading).unwrap_err().candidates;
        assert_eq!(both, ["0 0 L * *", "2026-03-31T00:00:00+00:00[UTC]"].map(String::from));
    }
}
