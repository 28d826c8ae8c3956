//! Looking ahead: the next ticks with what is unusual about them, and how many fall due when.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::cron::show_time;
use super::limits::{
    FORECAST_MINUTES_MAX, FORECAST_TICKS_MAX, PREVIEW_LINES_MAX, PREVIEW_SKIPS_RUN_MAX,
};
use super::plan::{Plan, Skip, Tick};
use super::walk::Note;
use crate::time::Timestamp;

/// One line of a preview.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// It ticks.
    Tick(Tick),
    /// It would have ticked.
    Skipped(Timestamp, Skip),
}

impl Line {
    /// The line in words; nothing for a tick like any other.
    pub fn note(&self) -> Option<String> {
        match self {
            Line::Tick(tick) => tick.note.map(|note| match note {
                Note::AfterGap(missing) | Note::GapSkipped(missing) => {
                    format!("after the gap: {} does not exist", show_time(missing.time()))
                }
                Note::FoldFirst => String::from("fold: first of two"),
                Note::FoldSecond => String::from("fold: second of two"),
            }),
            Line::Skipped(_, Skip::Gap(missing)) => {
                let (date, time) = (missing.date(), show_time(missing.time()));
                Some(format!("skipped: {time} does not exist on {date}"))
            }
            Line::Skipped(_, Skip::Excluded(date, name)) => {
                Some(format!("skipped: {date} is excluded ({name})"))
            }
        }
    }
}

/// The next `count` ticks, and what is skipped between them.
pub fn preview(plan: &Plan, from: Timestamp, count: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut after = plan.from(from);
    let wanted = count.min(plan.count.map_or(usize::MAX, |count| count as usize));
    let (mut ticked, mut skips) = (0, 0);
    while ticked < wanted && lines.len() < PREVIEW_LINES_MAX && skips < PREVIEW_SKIPS_RUN_MAX {
        let Some(step) = plan.step(after) else { break };
        if let Some(skip) = step.skip {
            lines.push(Line::Skipped(step.at, skip));
            skips += 1;
        }
        if let Some(tick) = step.tick {
            lines.push(Line::Tick(tick));
            ticked += 1;
            skips = 0;
        }
        after = step.after;
    }
    lines
}

/// How many ticks fall due in each minute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forecast {
    /// The full minute it starts with.
    pub from: Timestamp,
    /// Ticks in each minute from there.
    pub counts: Vec<u32>,
    /// Whether there were more ticks than are counted in one forecast.
    pub cut: bool,
    /// Ticks that may still be looked at.
    left: u64,
}

impl Forecast {
    /// Nothing is counted yet; it starts with the minute of this instant.
    pub fn new(from: Timestamp, minutes: u32) -> Self {
        let minutes = minutes.min(FORECAST_MINUTES_MAX);
        let start = from.as_millis().div_euclid(MINUTE).saturating_mul(MINUTE);
        Forecast {
            from: Timestamp::from_millis(start),
            counts: alloc::vec![0; minutes as usize],
            cut: false,
            left: FORECAST_TICKS_MAX,
        }
    }

    /// Counts ticks, each with when its job is due: in the minute of that.
    pub fn add(&mut self, ticks: impl Iterator<Item = (Timestamp, Timestamp)>) {
        let start = self.from.as_millis();
        let end = start.saturating_add(self.counts.len() as i64 * MINUTE);
        for (_, due) in ticks.take_while(|(tick, _)| tick.as_millis() < end) {
            if self.left == 0 {
                self.cut = true;
                return;
            }
            self.left -= 1;
            // What is overdue comes at once.
            let minute = (due.max(self.from).as_millis() - start) / MINUTE;
            if let Some(count) = self.counts.get_mut(minute as usize) {
                *count = count.saturating_add(1);
            }
        }
    }

    /// The fullest minutes that have ticks, the fullest first, of equal ones the first.
    pub fn busiest(&self, count: usize) -> Vec<(Timestamp, u32)> {
        let mut minutes: Vec<(usize, u32)> = self.counts.iter().copied().enumerate().collect();
        minutes.retain(|(_, ticks)| *ticks > 0);
        minutes.sort_by_key(|(index, ticks)| (core::cmp::Reverse(*ticks), *index));
        minutes.truncate(count);
        minutes.into_iter().map(|(index, ticks)| (self.minute(index), ticks)).collect()
    }

    /// Ticks of all minutes.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// The beginning of the minute at this place.
    pub fn minute(&self, index: usize) -> Timestamp {
        Timestamp::from_millis(self.from.as_millis().saturating_add(index as i64 * MINUTE))
    }

    /// The fullest minute, and how many ticks it has.
    pub fn peak(&self) -> Option<(Timestamp, u32)> {
        self.busiest(1).first().copied()
    }
}

const MINUTE: i64 = 60_000;

/// Counts the ticks of all plans in each of the coming minutes, this one included.
pub fn forecast(plans: &[Plan], from: Timestamp, minutes: u32) -> Forecast {
    let mut forecast = Forecast::new(from, minutes);
    let before = Timestamp::from_millis(forecast.from.as_millis().saturating_sub(1));
    for plan in plans {
        forecast.add(plan.ticks(before, 0).map(|tick| (tick.at, tick.at)));
    }
    forecast
}
