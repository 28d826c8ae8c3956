//! The ledger of a schedule and the forecast, on the wire.

use hence_core::schedule::{Fate, OccurrenceRecord};
use hence_core::time::Timestamp;
use hence_core::when::Forecast;
use serde::Serialize;
use utoipa::ToSchema;

use super::Stamp;
use super::names::{FateOut, SkipReasonOut};
use crate::limits;

/// What became of a tick, or of several consecutive ones.
#[derive(Serialize, ToSchema)]
#[schema(as = Occurrence)]
pub(crate) struct OccurrenceOut {
    /// The nominal instant; of several ticks, the last one's.
    at: Stamp,
    /// The same in Unix milliseconds.
    at_ms: i64,
    /// The first of several ticks.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<Stamp>,
    /// How many ticks these are, when there is more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    ticks: Option<u64>,
    /// When it was decided.
    decided_at: Stamp,
    /// What became of it.
    fate: FateOut,
    /// Why it was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<SkipReasonOut>,
    /// How late it was, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    late_ms: Option<u64>,
    /// The id of the job it made.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    /// The number of that job.
    #[serde(skip_serializing_if = "Option::is_none")]
    job_number: Option<u64>,
}

impl From<&OccurrenceRecord> for OccurrenceOut {
    fn from(record: &OccurrenceRecord) -> Self {
        let several = record.count > 1;
        OccurrenceOut {
            at: record.last.into(),
            at_ms: record.last.as_millis(),
            first: several.then(|| record.first.into()),
            ticks: several.then_some(record.count),
            decided_at: record.decided_at.into(),
            fate: record.fate.into(),
            reason: match record.fate {
                Fate::Skipped(reason) => Some(reason.into()),
                _ => None,
            },
            late_ms: match record.fate {
                Fate::Late(_, late) => Some(late.get()),
                _ => None,
            },
            job: record.job_id().map(|id| id.as_str().to_owned()),
            job_number: record.fate.job().map(|number| number.0),
        }
    }
}

/// A page of a ledger.
#[derive(Serialize, ToSchema)]
#[schema(as = Occurrences)]
pub(crate) struct OccurrencesOut {
    /// In the order that was asked for.
    pub(crate) occurrences: Vec<OccurrenceOut>,
    /// Say it as `cursor` to get the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// How many jobs of schedules fall due in each of the coming minutes.
#[derive(Serialize, ToSchema)]
#[schema(as = Forecast)]
pub(crate) struct ForecastOut {
    /// The full minute it starts with.
    from: Stamp,
    /// How many minutes it covers.
    minutes: usize,
    /// Jobs in all of them.
    total: u64,
    /// The fullest minutes, the fullest first.
    busiest: Vec<MinuteOut>,
    /// Jobs of each minute, from the first.
    per_minute: Vec<u32>,
    /// Whether there were more ticks than one forecast counts: the true numbers are larger.
    cut: bool,
}

/// A minute and its jobs.
#[derive(Serialize, ToSchema)]
#[schema(as = BusyMinute)]
pub(crate) struct MinuteOut {
    /// Its beginning.
    at: Stamp,
    /// Jobs that fall due in it.
    jobs: u32,
}

impl From<Forecast> for ForecastOut {
    fn from(forecast: Forecast) -> Self {
        let minute = |(at, jobs): (Timestamp, u32)| MinuteOut { at: Stamp(at), jobs };
        let busiest = forecast.busiest(limits::BUSIEST_MINUTES);
        ForecastOut {
            from: Stamp(forecast.from),
            minutes: forecast.counts.len(),
            total: forecast.total(),
            busiest: busiest.into_iter().map(minute).collect(),
            cut: forecast.cut,
            per_minute: forecast.counts,
        }
    }
}
