//! `hence forecast`: how many jobs of schedules fall due when, so that a herd is seen before it
//! runs.

use clap::Args;

use crate::api::{Api, Path};
use crate::clock;
use crate::failure::Failure;
use crate::output::{Column, Output, Tone};
use crate::wire::{self, Forecast};
use crate::words;

pub(crate) const EXAMPLES: &str = "\
Examples:
  hence forecast                       the coming day, hour by hour, and its fullest minutes
  hence forecast --minutes 60          the coming hour, minute by minute
  hence forecast report                of one schedule
  hence forecast --json                every minute, for a program";

/// The longest bar.
const BAR_WIDTH: u64 = 40;
/// Up to so many minutes each has its own bar.
const MINUTES_SHOWN_MAX: usize = 120;
/// Minutes of an hour.
const HOUR: usize = 60;
/// Milliseconds of a minute.
const MINUTE_MS: i64 = 60_000;

#[derive(Debug, Args)]
pub(crate) struct ForecastFlags {
    /// Only this schedule
    id: Option<String>,
    /// How many minutes ahead, up to a week
    #[arg(long, value_name = "COUNT", default_value_t = 1_440)]
    minutes: u32,
}

pub(crate) async fn run(asked: ForecastFlags, api: &Api, output: &Output) -> Result<(), Failure> {
    let path = Path::new("/v1/forecast").query("minutes", asked.minutes);
    let answer = api.get(&path.query_some("schedule", asked.id.as_deref())).await?;
    if output.is_json() {
        return output.json(&answer);
    }
    let forecast: Forecast = wire::read(answer)?;
    if forecast.total == 0 {
        output.say("no schedule ticks in this time");
        return Ok(());
    }
    let bars = bars(&forecast);
    let most = bars.iter().map(|bar| bar.1).max().unwrap_or(1).max(1);
    let row = |(at, count): &(i64, u64)| {
        let width = (count * BAR_WIDTH).div_ceil(most) as usize;
        vec![words::rfc3339(*at), count.to_string(), "█".repeat(width)]
    };
    let columns = [Column::text("FROM"), Column::number("JOBS"), Column::text("")];
    output.table(&columns, bars.iter().map(row).collect())?;
    output.line("")?;
    let now = clock::now_ms();
    let busy =
        |minute: &wire::BusyMinute| vec![words::due(minute.at, now), minute.jobs.to_string()];
    let columns = [Column::text("FULLEST MINUTES"), Column::number("JOBS")];
    output.table(&columns, forecast.busiest.iter().take(5).map(busy).collect())?;
    if forecast.cut {
        let cut = "there are more ticks than one forecast counts: look at fewer minutes";
        output.line(output.paint(Tone::Warning, cut))?;
    }
    Ok(())
}

/// The beginning of each bar and its jobs: minutes, or hours when there are many.
fn bars(forecast: &Forecast) -> Vec<(i64, u64)> {
    let size = if forecast.per_minute.len() <= MINUTES_SHOWN_MAX { 1 } else { HOUR };
    let first = (forecast.from / MINUTE_MS) as usize;
    let mut bars: Vec<(i64, u64)> = Vec::new();
    for (index, count) in forecast.per_minute.iter().enumerate() {
        // Hours begin at the full hour.
        if bars.is_empty() || (first + index).is_multiple_of(size) {
            bars.push((forecast.from + index as i64 * MINUTE_MS, 0));
        }
        if let Some(bar) = bars.last_mut() {
            bar.1 += count;
        }
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bars_are_minutes_or_whole_hours() {
        let forecast = |minutes: usize| -> Forecast {
            let per_minute = vec![1; minutes];
            wire::read(json!({
                "from": "2026-03-04T10:50:00Z", "total": minutes, "busiest": [],
                "per_minute": per_minute, "cut": false,
            }))
            .expect("a forecast")
        };
        let counts = |minutes| -> Vec<u64> {
            bars(&forecast(minutes)).into_iter().map(|(_, count)| count).collect()
        };
        assert_eq!(counts(3), [1, 1, 1]);
        assert_eq!(counts(120).len(), 120);
        assert_eq!(counts(121), [10, 60, 51]);
    }
}
