//! The policies of a schedule, and how people write them.

use alloc::format;
use core::fmt;

use crate::limits;
use crate::listed::listed;
use crate::time::Millis;
use crate::when::{Problem, parse_span};

/// What becomes of missed ticks. They are acted on oldest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Misfire {
    /// They are skipped.
    Skip,
    /// They are stood for by the next tick that runs; if none is due, the last of them runs.
    #[default]
    Once,
    /// The last so many run, the older ones are skipped.
    Last(u32),
    /// All run.
    All {
        /// At least this far apart.
        pace: Millis,
    },
}

listed! {
    /// What becomes of a tick while the job of an earlier tick lives: waiting, running, or between
    /// two attempts.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub enum Overlap {
        /// It makes its job all the same.
        #[default]
        Allow = "allow",
        /// It is skipped.
        Skip = "skip",
        /// It waits for that job's end; one tick waits, later ones are skipped.
        QueueOne = "queue_one",
        /// It waits for that job's end, behind those that wait already.
        QueueAll = "queue_all",
        /// That job is cancelled.
        Replace = "replace",
    }
}

impl Misfire {
    /// Reads `skip`, `once`, `last 3`, `all` or `all 10s apart`.
    ///
    /// ```
    /// use hence_core::schedule::Misfire;
    /// use hence_core::time::Millis;
    /// assert_eq!(Misfire::parse("last 3"), Ok(Misfire::Last(3)));
    /// let paced = Misfire::All { pace: Millis::from_secs(10) };
    /// assert_eq!(Misfire::parse("all 10s apart"), Ok(paced));
    /// assert_eq!(paced.to_string(), "all 10s apart");
    /// assert_eq!(Misfire::parse("sometimes").unwrap_err().span, 0..9);
    /// ```
    pub fn parse(text: &str) -> Result<Misfire, Problem> {
        let word = text.split_whitespace().next().unwrap_or_default();
        let start = text.find(word).unwrap_or_default();
        let tail = start + word.len();
        let rest = text[tail..].trim();
        match word {
            "skip" if rest.is_empty() => Ok(Misfire::Skip),
            "once" if rest.is_empty() => Ok(Misfire::Once),
            "all" if rest.is_empty() => Ok(Misfire::All { pace: Millis::ZERO }),
            "last" => rest.parse().map(Misfire::Last).map_err(|_| {
                let problem = format!("`last` wants a number up to {}", limits::MISFIRE_LAST_MAX);
                Problem::new(tail..text.len(), problem).or(["last 1", "last 3"])
            }),
            "all" => {
                let span = rest.strip_suffix("apart").map(str::trim_end);
                let pace = span.and_then(|span| parse_span(span).ok()).ok_or_else(|| {
                    let problem = "`all` may be followed by how far apart they run";
                    Problem::new(tail..text.len(), problem).or(["all", "all 10s apart"])
                })?;
                Ok(Misfire::All { pace })
            }
            _ => Err(Problem::new(start..text.len(), format!("{text} is no policy")).or([
                "skip",
                "once",
                "last 3",
                "all",
                "all 10s apart",
            ])),
        }
    }
}

impl fmt::Display for Misfire {
    /// Reads back as the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misfire::Skip => f.write_str("skip"),
            Misfire::Once => f.write_str("once"),
            Misfire::Last(count) => write!(f, "last {count}"),
            Misfire::All { pace: Millis::ZERO } => f.write_str("all"),
            Misfire::All { pace } if pace.get().is_multiple_of(1_000) => {
                write!(f, "all {}s apart", pace.get() / 1_000)
            }
            Misfire::All { pace } => write!(f, "all {pace} apart"),
        }
    }
}

impl Overlap {
    /// Reads the name, with a space or a dash for its underscore if one likes.
    pub fn parse(text: &str) -> Result<Overlap, Problem> {
        let name = text.trim().replace([' ', '-'], "_");
        Overlap::ALL.into_iter().find(|overlap| overlap.as_str() == name).ok_or_else(|| {
            Problem::new(0..text.len(), format!("{text} is no policy"))
                .or(Overlap::ALL.map(Overlap::as_str))
        })
    }

    /// How many ticks may wait for the end of a job.
    pub(crate) const fn waiting_max(self) -> usize {
        match self {
            Overlap::Allow | Overlap::Skip | Overlap::Replace => 0,
            Overlap::QueueOne => 1,
            Overlap::QueueAll => limits::WAITING_TICKS_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn policies_are_read_as_they_are_shown() {
        let all = |millis| Misfire::All { pace: Millis::new(millis) };
        let policies =
            [Misfire::Skip, Misfire::Once, Misfire::Last(7), all(0), all(1_500), all(60_000)];
        for policy in policies {
            assert_eq!(Misfire::parse(&policy.to_string()), Ok(policy));
        }
        assert_eq!(Misfire::parse(" all 1 minute  apart "), Ok(all(60_000)));
        for overlap in Overlap::ALL {
            assert_eq!(Overlap::parse(overlap.as_str()), Ok(overlap));
        }
        assert_eq!(Overlap::parse("queue one"), Ok(Overlap::QueueOne));
    }

    #[test]
    fn what_is_no_policy_is_shown_where_and_with_what_there_is() {
        for (text, place) in [
            ("", 0..0),
            ("never", 0..5),
            ("skip it", 0..7),
            ("last", 4..4),
            ("last -1", 4..7),
            ("last many", 4..9),
            ("all 10s", 3..7),
            ("all of them apart", 3..17),
        ] {
            let problem = Misfire::parse(text).expect_err(text);
            assert_eq!((problem.span, problem.candidates.is_empty()), (place, false), "{text}");
        }
        let problem = Overlap::parse("both").unwrap_err();
        assert_eq!(problem.candidates.first().map(alloc::string::String::as_str), Some("allow"));
    }
}
