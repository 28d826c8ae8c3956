//! When: times that people can say, and what they come to. Pure: `now` and the zone are arguments.
//!
//! Two ways in. [`parse_instant`] reads one moment ("next friday at 9am", `2026-12-24 18:00`,
//! `PT5M`); [`parse_recurrence`] reads a rhythm (cron in three dialects, intervals, "every weekday
//! at 9am"). Both read the whole input or refuse it: a [`Problem`] names the place, and where
//! something has two readings it names both instead of picking one. What was understood is said
//! back in words. [`parse_any`] is for whoever does not know which of the two a text is,
//! [`parse_in`] and [`parse_span`] read how long, and what programs write is read cheaply by
//! [`plain_instant`] and [`plain_span`].
//!
//! A [`Draft`] is what somebody writes down of a plan; a [`Plan`] is one or more rhythms in a
//! zone, with its rules for clock changes, its excluded dates, its start and its end.
//! [`Plan::next_after`] is the only way a tick is computed. The rules are in
//! `docs/concepts/time.md`, and pinned by the tables under `testdata/time/`.
//!
//! ```
//! use hence_core::time::Timestamp;
//! use hence_core::when::{Plan, Reading, Zone, parse_instant, parse_recurrence};
//! # fn main() -> Result<(), hence_core::when::Problem> {
//!
//! let now = Timestamp::from_millis(1_772_638_200_000); // Wednesday 2026-03-04 15:30 UTC
//! let zone = Zone::named("America/New_York")?;
//!
//! let moment = parse_instant("friday 9:30am", now, &zone)?;
//! assert_eq!(moment.canonical, "2026-03-06T09:30:00-05:00[America/New_York]");
//! assert_eq!(moment.words, "Friday, 6 March 2026 at 09:30 America/New_York (-05:00)");
//!
//! let rhythm = parse_recurrence("every weekday at 9am", &Reading::new(now, &zone))?;
//! assert_eq!(rhythm.canonical(), ["0 9 * * MON-FRI"]);
//! let first = Plan::new(rhythm).next_after(now, 0).map(|tick| tick.at.to_string());
//! assert_eq!(first.as_deref(), Some("2026-03-05T14:00:00.000Z"));
//!
//! let doubtful = parse_instant("03/04/2026", now, &zone).unwrap_err();
//! assert_eq!(doubtful.candidates, ["2026-04-03", "2026-03-04"]);
//! # Ok(())
//! # }
//! ```

mod any;
mod count;
mod cron;
mod draft;
mod holidays;
mod instant;
pub mod limits;
mod plain;
mod plan;
mod preview;
mod problem;
mod recurrence;
mod say;
mod span;
mod walk;
mod zone;

pub use any::{Saying, parse_any};
pub use count::Tally;
pub use cron::{Cron, Dialect};
pub use draft::{Draft, DraftError, Drafted};
pub use holidays::{Holidays, parse_date};
pub use instant::{Understood, parse_bound, parse_instant};
/// A day of the calendar.
pub use jiff::civil::Date;
pub use plain::{plain_instant, plain_span, unix_instant};
pub use plan::{Plan, Skip, Tick, Ticks};
pub use preview::{Forecast, Line, forecast, preview};
pub use problem::Problem;
pub use recurrence::{Anchor, Days, Interval, Reading, Recurrence, Rhythm, parse_recurrence};
pub use span::{parse_in, parse_span};
pub use walk::{Fold, Gap, Note};
pub use zone::{ZONES_VERSION, Zone};
