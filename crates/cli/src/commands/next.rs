//! `hence next`: what a time is understood as, and what comes, before anything depends on it. Needs
//! no server.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use hence_core::time::Timestamp;
use hence_core::when::limits::PREVIEW_LINES_MAX;
use hence_core::when::{
    self, Draft, DraftError, Drafted, Line, Reading, Saying, Tick, Understood, Zone, parse_any,
    parse_bound, preview,
};

use crate::clock;
use crate::failure::{Exit, Failure};
use crate::output::{Column, Output, Tone};
use crate::words;

pub(crate) const EXAMPLES: &str = "\
Examples:
  hence next 'every weekday at 9am' --tz Europe/Paris --count 10
  hence next '7pm tomorrow' --tz America/New_York
  hence next '0 2 * * *' --tz Europe/Paris --from 2027-03-27     what a clock change does to it
  hence next '0 0 12 ? * 2' --dialect quartz
  hence next 'every day at 8' --holidays holidays.ics --exclude 2026-12-24
  hence next 'H * * * *' --id nightly                            where this id falls";

/// For whoever was not understood at all.
const EXAMPLES_IN_SHORT: &str = "say it like `every weekday at 9am`, `7pm tomorrow` or \
    `0 9 * * MON-FRI`; --id names the schedule that H and ~ are drawn from";
/// More than the largest calendar: what is larger is refused, not read.
const CALENDAR_READ_MAX: u64 = 2 * when::limits::CALENDAR_BYTES_MAX as u64;

#[derive(Debug, Args)]
pub(crate) struct Next {
    /// What to look at: words, cron or an interval; several are one plan
    #[arg(value_name = "WHEN", required = true)]
    whens: Vec<String>,
    /// The zone of wall times: Europe/Paris, UTC, +02:00
    #[arg(
        long,
        alias = "zone",
        value_name = "ZONE",
        env = "HENCE_ZONE",
        hide_env_values = true,
        default_value = "UTC"
    )]
    tz: String,
    /// How many ticks to show
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 5, value_parser = count)]
    count: usize,
    /// The dialect of cron [default: recognised]
    #[arg(long, value_name = "DIALECT", value_enum)]
    dialect: Option<Dialect>,
    /// From when on [default: now]
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// No tick before this; intervals are counted from it
    #[arg(long, value_name = "TIME")]
    start: Option<String>,
    /// No tick after this
    #[arg(long, value_name = "TIME")]
    end: Option<String>,
    /// A date without ticks; may be given several times
    #[arg(long, value_name = "DATE")]
    exclude: Vec<String>,
    /// A file with days without ticks: dates with names, one a line, or iCalendar
    #[arg(long, value_name = "FILE")]
    holidays: Option<PathBuf>,
    /// What happens at a wall time that a clock change leaves out
    #[arg(long, value_name = "RULE", value_enum, default_value_t = Gap::AfterGap)]
    gap: Gap,
    /// What happens at a wall time that comes twice
    #[arg(long, value_name = "RULE", value_enum, default_value_t = Fold::First)]
    fold: Fold,
    /// The schedule's id, from which H and ~ are drawn
    #[arg(long, value_name = "ID")]
    id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dialect {
    Unix,
    Quartz,
    Workkit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Gap {
    /// Nothing
    Skip,
    /// One run, right after the gap
    AfterGap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fold {
    /// A run at the first
    First,
    /// A run at the second
    Second,
    /// A run at each
    Both,
}

impl Dialect {
    /// As the API names it.
    pub(crate) fn name(self) -> &'static str {
        when::Dialect::from(self).as_str()
    }
}

impl Gap {
    /// As the API names it.
    pub(crate) fn name(self) -> &'static str {
        when::Gap::from(self).name()
    }
}

impl Fold {
    /// As the API names it.
    pub(crate) fn name(self) -> &'static str {
        when::Fold::from(self).name()
    }
}

impl From<Dialect> for when::Dialect {
    fn from(choice: Dialect) -> Self {
        match choice {
            Dialect::Unix => when::Dialect::Unix,
            Dialect::Quartz => when::Dialect::Quartz,
            Dialect::Workkit => when::Dialect::Workkit,
        }
    }
}

impl From<Gap> for when::Gap {
    fn from(choice: Gap) -> Self {
        match choice {
            Gap::Skip => when::Gap::Skip,
            Gap::AfterGap => when::Gap::AfterGap,
        }
    }
}

impl From<Fold> for when::Fold {
    fn from(choice: Fold) -> Self {
        match choice {
            Fold::First => when::Fold::First,
            Fold::Second => when::Fold::Second,
            Fold::Both => when::Fold::Both,
        }
    }
}

fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=PREVIEW_LINES_MAX).contains(&count) => Ok(count),
        _ => Err(format!("write a number from 1 to {PREVIEW_LINES_MAX}")),
    }
}

pub(crate) fn run(next: &Next, output: &Output) -> Result<(), Failure> {
    let now = Timestamp::from_millis(clock::now_ms());
    let zone = Zone::named(&next.tz)
        .map_err(|problem| Failure::not_understood(Exit::Usage, "--tz", &next.tz, problem))?;
    let draft = next.draft()?;
    let reading =
        Reading { now, zone: &zone, dialect: draft.dialect, schedule: next.id.as_deref() };
    if let [text] = next.whens.as_slice() {
        let said = parse_any(text, &reading)
            .map_err(|problem| Failure::not_understood(Exit::Usage, "the time", text, problem))
            .map_err(|failure| failure.fix(EXAMPLES_IN_SHORT))?;
        if let Saying::Moment(moment) = said {
            return show_moment(&moment, now, output);
        }
    }
    let from = match &next.from {
        None => now,
        Some(text) => {
            parse_bound(text, now, &zone)
                .map_err(|problem| Failure::not_understood(Exit::Usage, "--from", text, problem))?
                .instant
        }
    };
    let drafted = draft.read(&reading).map_err(|error| unquoted(next, &reading, error))?;
    if output.is_json() {
        return output.json(&hence_server::preview_json(&drafted, from, next.count));
    }
    show_plan(&drafted, from, next.count, now, output)
}

impl Next {
    fn draft(&self) -> Result<Draft, Failure> {
        Ok(Draft {
            whens: self.whens.clone(),
            dialect: self.dialect.map(Into::into),
            zone: None,
            gap: self.gap.into(),
            fold: self.fold.into(),
            excluded: self.exclude.clone(),
            holidays: self.holidays.as_deref().map(read_calendar).transpose()?,
            start: self.start.clone(),
            end: self.end.clone(),
            count: None,
        })
    }
}

pub(crate) fn read_calendar(file: &Path) -> Result<String, Failure> {
    use std::io::Read as _;
    let mut text = String::new();
    let read = std::fs::File::open(file)
        .and_then(|opened| opened.take(CALENDAR_READ_MAX).read_to_string(&mut text));
    read.map_err(|error| Failure::io(format_args!("reading {}", file.display()), &error))?;
    Ok(text)
}

/// Words that were typed without quotes are several arguments, each a time of its own.
fn unquoted(next: &Next, reading: &Reading<'_>, error: DraftError) -> Failure {
    let joined = next.whens.join(" ");
    if next.whens.len() > 1 && parse_any(&joined, reading).is_ok() {
        let message = format!("each of these {} words is read as a time", next.whens.len());
        return Failure::new(Exit::Usage, message).fix(format!("quote them: '{joined}'"));
    }
    refused(error)
}

/// The fields of a plan under the names that they have here.
fn refused(error: DraftError) -> Failure {
    match error {
        DraftError::Text { field, text, problem } => {
            let flag = match field.split('[').next() {
                Some("excluded") => "--exclude",
                Some("holidays") => "--holidays",
                Some("start") => "--start",
                Some("end") => "--end",
                _ => "the time",
            };
            Failure::not_understood(Exit::Usage, flag, &text, problem)
        }
        DraftError::Rejected(rejection) => Failure::new(Exit::Usage, rejection.to_string()),
    }
}

fn show_moment(moment: &Understood, now: Timestamp, output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        return output.json(&hence_server::understood_json(moment));
    }
    let relative = words::relative(moment.instant.as_millis(), now.as_millis());
    output.fields(&[
        ("once", moment.words.clone()),
        ("UTC", format!("{}, {relative}", moment.instant)),
        ("exact", moment.canonical.clone()),
    ])
}

fn show_plan(
    drafted: &Drafted,
    from: Timestamp,
    count: usize,
    now: Timestamp,
    output: &Output,
) -> Result<(), Failure> {
    let mut fields = Vec::new();
    for rhythm in &drafted.rhythms {
        fields.push(("again", rhythm.words()));
        fields.extend(rhythm.canonical().into_iter().map(|canonical| ("exact", canonical)));
        fields.extend(rhythm.dialect.map(|dialect| ("cron", dialect.as_str().to_owned())));
    }
    output.fields(&fields)?;
    output.line("")?;
    let lines = preview(&drafted.plan, from, count);
    let ticks = lines.iter().filter(|line| matches!(line, Line::Tick(_))).count();
    if !lines.is_empty() {
        let columns = [
            Column::text("LOCAL"),
            Column::text("UTC"),
            Column::text("WHEN"),
            Column::text("NOTE"),
        ];
        output.table(&columns, lines.iter().map(|line| row(line, now)).collect())?;
    }
    if ticks < count {
        let end = match ticks {
            0 => "no tick comes",
            _ => "no tick comes after these",
        };
        output.line(output.paint(Tone::Warning, end))?;
    }
    Ok(())
}

fn row(line: &Line, now: Timestamp) -> Vec<String> {
    let note = line.note().unwrap_or_default();
    match line {
        Line::Tick(tick) => vec![
            wall(tick),
            tick.at.to_string(),
            words::relative(tick.at.as_millis(), now.as_millis()),
            note,
        ],
        Line::Skipped(at, _) => vec!["-".to_owned(), at.to_string(), "-".to_owned(), note],
    }
}

/// `Fri 2026-03-06 09:30:00 +01:00`.
fn wall(tick: &Tick) -> String {
    let day = tick.wall.strftime("%a %Y-%m-%d %H:%M:%S");
    format!("{day} {}", tick.offset())
}
