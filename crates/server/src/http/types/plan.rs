//! When something happens again and again, on the wire: the fields that every body about it has,
//! and the next ticks as an answer shows them.

use hence_core::time::Timestamp;
use hence_core::when::{
    Dialect, Draft, DraftError, Drafted, Fold, Gap, Line, Rhythm, ZONES_VERSION, preview,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Stamp, rules};
use crate::http::errors::Problem;
use crate::http::when::{self, Moment};

/// Declares a body that has the fields of a plan beside its own. Written out by a macro, since
/// serde cannot both flatten one struct into another and refuse unknown fields.
macro_rules! with_plan {
    ($(#[$meta:meta])* pub(crate) struct $name:ident $(<$life:lifetime>)? { $($own:tt)* }) => {
        #[derive(Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        $(#[$meta])*
        pub(crate) struct $name $(<$life>)? {
            /// When it ticks: cron, an interval or words; one text, or several.
            #[schema(value_type = TextsIn)]
            pub(crate) when: TextsIn,
            /// The dialect of cron; recognised when not given and not in doubt.
            #[serde(default, deserialize_with = "crate::http::types::word::word_or_none")]
            pub(crate) dialect: Option<DialectIn>,
            /// The zone of its wall times; the server's when not given.
            #[schema(example = "Europe/Paris")]
            pub(crate) zone: Option<String>,
            /// What happens at a wall time that a clock change leaves out.
            #[serde(default, deserialize_with = "crate::http::types::word::word_or_none")]
            pub(crate) gap: Option<GapIn>,
            /// What happens at a wall time that comes twice.
            #[serde(default, deserialize_with = "crate::http::types::word::word_or_none")]
            pub(crate) fold: Option<FoldIn>,
            /// Dates on which it does not tick.
            #[schema(example = json!(["2026-12-25"]))]
            pub(crate) excluded: Option<Vec<String>>,
            /// More such days: dates with names, in a list or one a line, or an iCalendar text.
            #[schema(value_type = Option<TextsIn>, example = json!(["2026-12-25 Christmas"]))]
            pub(crate) holidays: Option<TextsIn>,
            /// No tick before this; intervals are counted from it.
            #[schema(value_type = Option<when::InstantIn>)]
            pub(crate) start: Option<Moment>,
            /// No tick after this.
            #[schema(value_type = Option<when::InstantIn>)]
            pub(crate) end: Option<Moment>,
            /// No more ticks than this. A schedule that is put again goes on counting while it says
            /// the same `when`; another `when` is counted from nothing.
            #[schema(minimum = 1)]
            pub(crate) count: Option<u64>,
            $($own)*
        }

        impl $(<$life>)? $name $(<$life>)? {
            /// The core's draft of a plan, taken out of the body.
            pub(crate) fn draft(&mut self) -> Result<Draft, Problem> {
                Ok(Draft {
                    whens: std::mem::take(&mut self.when).into_list(),
                    dialect: self.dialect.map(Into::into),
                    zone: self.zone.take(),
                    gap: self.gap.map(Into::into).unwrap_or_default(),
                    fold: self.fold.map(Into::into).unwrap_or_default(),
                    excluded: self.excluded.take().unwrap_or_default(),
                    holidays: self.holidays.take().map(|days| days.into_list().join("\n")),
                    start: self.start.take().map(|start| start.into_text("start")).transpose()?,
                    end: self.end.take().map(|end| end.into_text("end")).transpose()?,
                    count: self.count,
                })
            }
        }
    };
}
pub(crate) use with_plan;

with_plan! {
    /// A plan to look at before it is used.
    #[schema(as = NewPreview)]
    pub(crate) struct PreviewIn {
        /// The id of the schedule, from which `H` and `~` are drawn.
        #[schema(value_type = Option<rules::ScheduleId>)]
        pub(crate) id: Option<String>,
        /// How many ticks to show, 1 to 1000; 5 when not given.
        #[schema(minimum = 1, maximum = 1000)]
        pub(crate) ticks: Option<usize>,
        /// From when on; now when not given.
        #[schema(value_type = Option<when::InstantIn>)]
        pub(crate) from: Option<Moment>,
    }
}

/// One text, or several.
#[derive(Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
#[schema(as = Texts)]
pub(crate) enum TextsIn {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl Default for TextsIn {
    fn default() -> Self {
        TextsIn::Several(Vec::new())
    }
}

impl TextsIn {
    pub(crate) fn into_list(self) -> Vec<String> {
        match self {
            TextsIn::One(text) => vec![text],
            TextsIn::Several(texts) => texts,
        }
    }
}

/// A dialect of cron.
#[derive(Deserialize, Serialize, ToSchema, Clone, Copy)]
#[serde(rename_all = "snake_case")]
#[schema(as = Dialect)]
pub(crate) enum DialectIn {
    /// Minute to day of the week, seconds before and a year behind if wanted.
    Unix,
    /// Second to day of the week, a year behind if wanted; Sunday is 1.
    Quartz,
    /// Year to second, in UTC.
    Workkit,
}

/// What happens at a wall time that a clock change leaves out.
#[derive(Deserialize, Serialize, ToSchema, Clone, Copy)]
#[serde(rename_all = "snake_case")]
#[schema(as = Gap)]
pub(crate) enum GapIn {
    /// Nothing.
    Skip,
    /// One run, right after the gap: the default.
    AfterGap,
}

/// What happens at a wall time that comes twice.
#[derive(Deserialize, Serialize, ToSchema, Clone, Copy)]
#[serde(rename_all = "snake_case")]
#[schema(as = Fold)]
pub(crate) enum FoldIn {
    /// A run at the first: the default.
    First,
    /// A run at the second.
    Second,
    /// A run at each.
    Both,
}

/// What was understood, and when it ticks.
#[derive(Serialize, ToSchema)]
#[schema(as = Preview)]
pub(crate) struct PreviewOut {
    /// What each text of `when` was understood as, in order.
    whens: Vec<WhenOut>,
    /// The zone of its wall times.
    #[schema(example = "Europe/Paris")]
    zone: String,
    /// The release of the zone database that this was computed with.
    zones_version: &'static str,
    /// What happens at a wall time that a clock change leaves out.
    gap: GapIn,
    /// What happens at a wall time that comes twice.
    fold: FoldIn,
    /// The next ticks.
    ticks: Vec<TickOut>,
    /// What would have been a tick before the last of these, and is none.
    skipped: Vec<SkippedOut>,
    /// Whether there is no tick after these.
    ends: bool,
}

/// What a text was understood as.
#[derive(Serialize, ToSchema)]
#[schema(as = When)]
pub(crate) struct WhenOut {
    /// Texts that read back as the same: cron where there is cron for it.
    #[schema(example = json!(["0 9 * * MON-FRI"]))]
    canonical: Vec<String>,
    /// In words.
    #[schema(example = "at 09:00, Monday to Friday (Europe/Paris)")]
    words: String,
    /// The dialect that was recognised, when the text was cron.
    #[serde(skip_serializing_if = "Option::is_none")]
    dialect: Option<&'static str>,
}

/// One tick.
#[derive(Serialize, ToSchema)]
#[schema(as = Tick)]
pub(crate) struct TickOut {
    /// The instant.
    at: Stamp,
    /// The same in Unix milliseconds.
    at_ms: i64,
    /// What the wall clock of the zone shows then.
    #[schema(example = "2026-09-10T09:00:00")]
    wall: String,
    /// What that clock is ahead of UTC.
    #[schema(example = "+02:00")]
    offset: String,
    /// What is unusual about it, such as a clock change.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// Something that would have been a tick.
#[derive(Serialize, ToSchema)]
#[schema(as = SkippedTick)]
pub(crate) struct SkippedOut {
    /// The instant; of a time that does not exist, that of the clock change.
    at: Stamp,
    /// Why it is none.
    #[schema(example = "skipped: 2026-12-25 is excluded (Christmas)")]
    reason: String,
}

impl PreviewOut {
    /// The next `count` ticks of a plan after this instant.
    pub(crate) fn new(drafted: &Drafted, from: Timestamp, count: usize) -> Self {
        let Drafted { rhythms, plan } = drafted;
        let (mut ticks, mut skipped) = (Vec::new(), Vec::new());
        let mut last = from;
        for line in preview(plan, from, count) {
            let note = line.note();
            match line {
                Line::Tick(tick) => {
                    last = tick.at;
                    ticks.push(TickOut {
                        at: tick.at.into(),
                        at_ms: tick.at.as_millis(),
                        wall: tick.wall.to_string(),
                        offset: tick.offset(),
                        note,
                    });
                }
                Line::Skipped(at, _) => {
                    skipped.push(SkippedOut { at: at.into(), reason: note.unwrap_or_default() });
                }
            }
        }
        let ends = plan.next_after(last, ticks.len() as u64).is_none();
        PreviewOut {
            whens: rhythms.iter().map(WhenOut::from).collect(),
            zone: plan.zone.name().into_owned(),
            zones_version: ZONES_VERSION,
            gap: plan.gap.into(),
            fold: plan.fold.into(),
            ticks,
            skipped,
            ends,
        }
    }
}

impl From<&Rhythm> for WhenOut {
    fn from(rhythm: &Rhythm) -> Self {
        WhenOut {
            canonical: rhythm.canonical(),
            words: rhythm.words(),
            dialect: rhythm.dialect.map(Dialect::as_str),
        }
    }
}

impl From<DraftError> for Problem {
    fn from(error: DraftError) -> Self {
        match error {
            DraftError::Text { field, text, problem } => {
                Problem::not_understood(field, &text, problem)
            }
            DraftError::Rejected(rejection) => rejection.into(),
        }
    }
}

impl From<DialectIn> for Dialect {
    fn from(choice: DialectIn) -> Self {
        match choice {
            DialectIn::Unix => Dialect::Unix,
            DialectIn::Quartz => Dialect::Quartz,
            DialectIn::Workkit => Dialect::Workkit,
        }
    }
}

impl From<GapIn> for Gap {
    fn from(choice: GapIn) -> Self {
        match choice {
            GapIn::Skip => Gap::Skip,
            GapIn::AfterGap => Gap::AfterGap,
        }
    }
}

impl From<Gap> for GapIn {
    fn from(gap: Gap) -> Self {
        match gap {
            Gap::Skip => GapIn::Skip,
            Gap::AfterGap => GapIn::AfterGap,
        }
    }
}

impl From<FoldIn> for Fold {
    fn from(choice: FoldIn) -> Self {
        match choice {
            FoldIn::First => Fold::First,
            FoldIn::Second => Fold::Second,
            FoldIn::Both => Fold::Both,
        }
    }
}

impl From<Fold> for FoldIn {
    fn from(fold: Fold) -> Self {
        match fold {
            Fold::First => FoldIn::First,
            Fold::Second => FoldIn::Second,
            Fold::Both => FoldIn::Both,
        }
    }
}
