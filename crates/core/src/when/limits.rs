//! Every bound of this module, with its reason. Reaching one is a refusal, or an end of the
//! search; never a loop.

/// A text that says a time: longer ones are not times. Keeps the backtracking readers cheap.
pub const TEXT_BYTES_MAX: usize = 256;
/// The first year that a cron expression may name: there is no tick before the Unix epoch.
pub const YEAR_MIN: i16 = 1970;
/// The last year in which anything ticks. A whole Gregorian cycle after the epoch: a date that
/// does not come in 400 years never comes, and looking at all of them takes microseconds.
pub const YEAR_MAX: i16 = 2399;
/// Years after which a pattern without a year field repeats itself as far as dates go: every kind
/// of year has come in 40 years, across a century that has no leap day too.
pub const PATTERN_YEARS_MAX: i16 = 40;
/// Steps of one search for the next tick. Each step passes a change of the clock or a date that
/// does not count, so this is centuries; a pattern that only ever falls into gaps ends here.
pub const WALK_STEPS_MAX: usize = 1_000;
/// Excluded days passed in one search before the plan counts as never ticking again.
pub const EXCLUDED_DAYS_RUN_MAX: usize = 4_000;
/// Times in a row that fall into gaps and are skipped before the plan counts as never ticking
/// again: a time that did so for a century is the very hour of a change.
pub const GAPS_RUN_MAX: usize = 100;
/// Rhythms of one plan.
pub const WHENS_MAX: usize = 32;
/// Dates that one plan excludes one by one; more belong in a calendar.
pub const EXCLUDED_DATES_MAX: usize = 10_000;
/// Times in one phrase ("at 8, 12 and 18").
pub const TIMES_MAX: usize = 24;
/// Terms in one field of a cron expression: all sixty minutes, written out.
pub const TERMS_MAX: usize = 60;
/// Bytes of an iCalendar text: a century of a country's holidays.
pub const CALENDAR_BYTES_MAX: usize = 1024 * 1024;
/// Events taken from an iCalendar text.
pub const CALENDAR_EVENTS_MAX: usize = 10_000;
/// Days that one holiday may last: longer is a mistaken year.
pub const HOLIDAY_DAYS_MAX: i32 = 366;
/// Lines of a preview.
pub const PREVIEW_LINES_MAX: usize = 1_000;
/// Lines of a preview in a row that tell of something skipped: a plan that only ever falls into
/// gaps or on holidays has said so by then.
pub const PREVIEW_SKIPS_RUN_MAX: usize = 20;
/// Minutes of a forecast: a week.
pub const FORECAST_MINUTES_MAX: u32 = 7 * 24 * 60;
/// Ticks counted in one forecast; beyond it the answer says that it was cut.
pub const FORECAST_TICKS_MAX: u64 = 5_000_000;
/// Every n-th day or week: more than this is a yearly rhythm said wrongly.
pub const CALENDAR_STEP_MAX: u32 = 1_000;
/// Suggestions shown with a problem.
pub const CANDIDATES_MAX: usize = 6;
