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
}

impl Forecast {
    /// The fullest minute, and how many ticks it has.
    pub fn peak(&self) -> Option<(Timestamp, u32)> {
        let fuller = |best: Option<(usize, u32)>, (index, count): (usize, &u32)| match best {
            Some((_, most)) if most >= *count => best,
            _ => Some((index, *count)),
        };
        let (index, count) = self.counts.iter().enumerate().fold(None, fuller)?;
        let at = self.from.as_millis().saturating_add(index as i64 * MINUTE);
        Some((Timestamp::from_millis(at), count))
    }
}

const MINUTE: i64 = 60_000;

/// Counts the ticks of all plans in each of the coming minutes, this one included.
pub fn forecast(plans: &[Plan], from: Timestamp, minutes: u32) -> Forecast {
    let minutes = minutes.min(FORECAST_MINUTES_MAX);
    let start = from.as_millis().div_euclid(MINUTE).saturating_mul(MINUTE);
    let end = start.saturating_add(i64::from(minutes) * MINUTE);
    let mut counts = alloc::vec![0u32; minutes as usize];
    let mut left = FORECAST_TICKS_MAX;
    for plan in plans {
        let before = Timestamp::from_millis(start.saturating_sub(1));
        for tick in plan.ticks(before, 0) {
            let at = tick.at.as_millis();
            if at >= end || left == 0 {
                break;
            }
            left -= 1;
            if let Some(count) = counts.get_mut(((at - start) / MINUTE) as usize) {
                *count = count.saturating_add(1);
            }
        }
    }
    Forecast { from: Timestamp::from_millis(start), counts, cut: left == 0 }
}
