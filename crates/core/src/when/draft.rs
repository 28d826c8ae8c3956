//! A plan as somebody writes it: texts and choices, not yet understood. Every front end fills one
//! in, and [`Draft::read`] is the only way from there to a [`Plan`].

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::cron::Dialect;
use super::holidays::{Holidays, parse_date};
use super::instant::parse_instant;
use super::limits::{EXCLUDED_DATES_MAX, WHENS_MAX};
use super::plan::Plan;
use super::problem::Problem;
use super::recurrence::{Reading, Rhythm, parse_recurrence};
use super::walk::{Fold, Gap};
use super::zone::Zone;
use crate::error::Rejection;

/// The texts of a plan.
///
/// ```
/// use hence_core::time::Timestamp;
/// use hence_core::when::{Draft, Reading, Zone};
/// let draft = Draft {
///     whens: vec!["every weekday at 9am".to_owned()],
///     zone: Some("Europe/Paris".to_owned()),
///     excluded: vec!["2026-12-25".to_owned()],
///     ..Draft::default()
/// };
/// let zone = Zone::UTC;
/// let now = Timestamp::from_millis(1_772_638_200_000);
/// let read = draft.read(&Reading::new(now, &zone)).unwrap();
/// assert_eq!(read.rhythms[0].canonical(), ["0 9 * * MON-FRI"]);
/// assert_eq!(read.plan.zone.name(), "Europe/Paris");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Draft {
    /// Cron, intervals or words; it ticks when any of them does.
    pub whens: Vec<String>,
    /// The dialect of cron; none to recognise it.
    pub dialect: Option<Dialect>,
    /// The zone, when a text names none; that of the reading when not given.
    pub zone: Option<String>,
    /// What happens in a gap of the wall clock.
    pub gap: Gap,
    /// What happens in a fold of the wall clock.
    pub fold: Fold,
    /// Dates on which it does not tick.
    pub excluded: Vec<String>,
    /// More such days: a list of dates with names, or an iCalendar text.
    pub holidays: Option<String>,
    /// No tick before this. Intervals are counted from it.
    pub start: Option<String>,
    /// No tick after this.
    pub end: Option<String>,
    /// No more ticks than this.
    pub count: Option<u64>,
}

/// A draft that was understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drafted {
    /// What each text was understood as, in order.
    pub rhythms: Vec<Rhythm>,
    /// All of it together.
    pub plan: Plan,
}

/// Why a draft makes no plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DraftError {
    /// A text was not understood.
    Text {
        /// The field it is in, such as `when` or `excluded[2]`.
        field: Cow<'static, str>,
        /// The text; of a calendar, the line.
        text: String,
        /// What is wrong with it.
        problem: Problem,
    },
    /// All is understood, but makes no plan.
    Rejected(Rejection),
}

impl Draft {
    /// Understands all of it; `reading` has the time, the zone where none is said, and the id.
    pub fn read(&self, reading: &Reading<'_>) -> Result<Drafted, DraftError> {
        self.check_counts()?;
        let named = match &self.zone {
            Some(name) => Some(text("zone", name, Zone::named)?),
            None => None,
        };
        let zone = named.as_ref().unwrap_or(reading.zone);
        let moment = |field: &'static str, given: &Option<String>| match given {
            None => Ok(None),
            Some(given) => text(field, given, |given| parse_instant(given, reading.now, zone))
                .map(|found| Some(found.instant)),
        };
        let (start, end) = (moment("start", &self.start)?, moment("end", &self.end)?);
        // What has a start is counted from there.
        let now = start.unwrap_or(reading.now);
        let reading = Reading { now, zone, dialect: self.dialect, schedule: reading.schedule };
        let rhythms = self.rhythms(&reading)?;
        let mut plan = Plan::of(rhythms.clone())?;
        (plan.gap, plan.fold) = (self.gap, self.fold);
        (plan.start, plan.end, plan.count) = (start, end, self.count);
        let dates = self
            .excluded
            .iter()
            .enumerate()
            .map(|(index, date)| text(format!("excluded[{index}]"), date, parse_date));
        plan.excluded = dates.collect::<Result<BTreeSet<_>, _>>()?;
        if let Some(calendar) = &self.holidays {
            plan.holidays = Holidays::parse(calendar).map_err(|found| in_line(calendar, &found))?;
        }
        plan.check()?;
        Ok(Drafted { rhythms, plan })
    }

    /// What must not be read before it is counted.
    fn check_counts(&self) -> Result<(), Rejection> {
        if self.whens.len() > WHENS_MAX {
            return Err(Rejection::TooMany { what: "times in one schedule", max: WHENS_MAX });
        }
        if self.excluded.len() > EXCLUDED_DATES_MAX {
            return Err(Rejection::TooMany { what: "excluded dates", max: EXCLUDED_DATES_MAX });
        }
        if self.count == Some(0) {
            return Err(Rejection::invalid("count", "must be above zero"));
        }
        Ok(())
    }

    fn rhythms(&self, reading: &Reading<'_>) -> Result<Vec<Rhythm>, DraftError> {
        let field = |index: usize| match self.whens.len() {
            1 => Cow::Borrowed("when"),
            _ => Cow::Owned(format!("when[{index}]")),
        };
        let whens = self.whens.iter().enumerate();
        let read = |given: &str| parse_recurrence(given, reading);
        whens.map(|(index, given)| text(field(index), given, read)).collect()
    }
}

fn text<T>(
    field: impl Into<Cow<'static, str>>,
    given: &str,
    read: impl FnOnce(&str) -> Result<T, Problem>,
) -> Result<T, DraftError> {
    read(given).map_err(|problem| DraftError::Text {
        field: field.into(),
        text: given.to_string(),
        problem,
    })
}

/// A problem with a calendar is shown with its line: the whole may be a megabyte.
fn in_line(calendar: &str, found: &Problem) -> DraftError {
    let at = found.span.start.min(calendar.len());
    let start = calendar.get(..at).and_then(|head| head.rfind('\n')).map_or(0, |end| end + 1);
    let line = calendar[start..].lines().next().unwrap_or_default();
    let within = |place: usize| place.saturating_sub(start).min(line.len());
    let mut problem = found.clone();
    problem.span = within(found.span.start)..within(found.span.end);
    DraftError::Text { field: "holidays".into(), text: line.to_string(), problem }
}

impl From<Rejection> for DraftError {
    fn from(rejection: Rejection) -> Self {
        DraftError::Rejected(rejection)
    }
}

impl From<DraftError> for Rejection {
    fn from(error: DraftError) -> Self {
        match error {
            DraftError::Text { field, problem, .. } => {
                Rejection::invalid(field, problem.to_string())
            }
            DraftError::Rejected(rejection) => rejection,
        }
    }
}

impl fmt::Display for DraftError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DraftError::Text { field, problem, .. } => write!(f, "{field}: {problem}"),
            DraftError::Rejected(rejection) => rejection.fmt(f),
        }
    }
}

impl core::error::Error for DraftError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    /// Wednesday 2026-03-04 15:30 UTC.
    const NOW: Timestamp = Timestamp::from_millis(1_772_638_200_000);

    fn draft(whens: &[&str]) -> Draft {
        Draft { whens: whens.iter().map(ToString::to_string).collect(), ..Draft::default() }
    }

    fn read(draft: &Draft) -> Result<Drafted, DraftError> {
        draft.read(&Reading::new(NOW, &Zone::named("Europe/Paris").unwrap()))
    }

    #[test]
    fn every_part_of_a_draft_reaches_the_plan() {
        let some = |text: &str| Some(text.to_string());
        let all = Draft {
            dialect: Some(Dialect::Unix),
            zone: some("America/New_York"),
            gap: Gap::Skip,
            fold: Fold::Both,
            excluded: alloc::vec!["2026-03-05".to_string()],
            holidays: some("2026-03-06 a feast"),
            start: some("tomorrow"),
            end: some("2026-12-31"),
            count: Some(3),
            ..draft(&["0 9 * * *", "0 18 * * *"])
        };
        let Drafted { rhythms, plan } = read(&all).unwrap();
        assert_eq!((rhythms.len(), plan.whens.len()), (2, 2));
        assert_eq!((plan.gap, plan.fold, plan.count), (Gap::Skip, Fold::Both, Some(3)));
        assert_eq!(plan.start.unwrap().to_string(), "2026-03-05T05:00:00.000Z");
        assert_eq!(plan.end.unwrap().to_string(), "2026-12-31T05:00:00.000Z");
        let ticks: Vec<_> = plan.ticks(NOW, 0).map(|tick| tick.at.to_string()).collect();
        assert_eq!(ticks[0], "2026-03-07T14:00:00.000Z", "after the two days that are excluded");
        assert_eq!(ticks.len(), 3);
        assert_eq!(read(&draft(&["0 9 * * *"])).unwrap().plan.zone.name(), "Europe/Paris");
    }

    #[test]
    fn an_interval_is_counted_from_the_start() {
        let start = Some("2026-03-05T00:00:00Z".to_string());
        let drafted = read(&Draft { start, ..draft(&["@every 90m"]) }).unwrap();
        let ticks: Vec<_> =
            drafted.plan.ticks(NOW, 0).take(2).map(|tick| tick.at.to_string()).collect();
        assert_eq!(ticks, ["2026-03-05T00:00:00.000Z", "2026-03-05T01:30:00.000Z"]);
    }

    #[test]
    fn what_is_wrong_is_named_where_it_is() {
        let some = |text: &str| Some(text.to_string());
        let good = || draft(&["0 9 * * *"]);
        let days = |count: usize| alloc::vec!["2026-03-05".to_string(); count];
        let feast = "2026-03-05 a\nnonsense here\n";
        let rows = [
            (draft(&[]), "when must say at least one time"),
            (draft(&["evry day"]), "when: \"evry\" is not understood here; try: every day"),
            (draft(&["@daily", "1 2 3"]), "when[1]: "),
            (draft(&["@daily"; 33]), "too many times in one schedule: at most 32 are allowed"),
            (Draft { zone: some("Paris"), ..good() }, "zone: Paris is not a zone"),
            (Draft { start: some("at 9"), ..good() }, "start: "),
            (Draft { end: some("yesterday"), ..good() }, "end: "),
            (Draft { count: Some(0), ..good() }, "count must be above zero"),
            (Draft { excluded: alloc::vec!["soon".into()], ..good() }, "excluded[0]: soon is not"),
            (Draft { excluded: days(10_001), ..good() }, "too many excluded dates"),
            (Draft { holidays: some(feast), ..good() }, "holidays: nonsense is not a date"),
        ];
        for (draft, expected) in rows {
            let error = read(&draft).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error} is not {expected}");
        }
        let late = Draft { start: some("tomorrow"), end: some("2026-03-01"), ..good() };
        let error = read(&late).unwrap_err().to_string();
        assert_eq!(error, "end must not be before the start");
        let wrong = read(&Draft { holidays: some(feast), ..good() }).unwrap_err();
        assert!(matches!(wrong, DraftError::Text { text, .. } if text == "nonsense here"));
    }
}
