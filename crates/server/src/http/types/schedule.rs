//! Schedules on the wire: what is put, and what is shown.

use hence_core::id::{Key, ScheduleId};
use hence_core::schedule::{
    Backfill, Misfire, Overlap, Pause, Said, Schedule, ScheduleDraft, ScheduleState,
};
use hence_core::time::Timestamp;
use hence_core::when::{Dialect, Draft, Reading, Recurrence};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::Stamp;
use super::job_in::{JobIn, KeyOnFailureIn, OnUnknownIn};
use super::names::{IdleOut, OverlapOut};
use super::object::Object;
use super::payload::Inline;
use super::plan::{DialectIn, FoldIn, GapIn, TextsIn, with_plan};
use super::retry::RetryOut;
use super::target::TargetOut;
use crate::http::errors::Problem;
use crate::http::when::{self, Moment};
use crate::limits;

with_plan! {
    /// A schedule, whole: what is not given is the default, also when it exists already. Only a
    /// pause stays as it is.
    #[schema(as = NewSchedule)]
    pub(crate) struct ScheduleIn<'a> {
        /// What becomes of missed ticks: `skip`, `once` (the default), `last 3`, `all`, or
        /// `all 10s apart`. With an interval as `when`, and neither `end` nor `count`, that must be
        /// shorter than the interval: missed ticks would never be caught up with.
        #[schema(example = "last 3")]
        misfire: Option<String>,
        /// How late a tick may be and still not count as missed. When not given: until the next
        /// tick is due, and a minute at most.
        #[schema(value_type = Option<when::SpanIn>)]
        grace: Option<Moment>,
        /// What becomes of a tick while the job of an earlier one lives: `allow` (the default),
        /// `skip`, `queue_one`, `queue_all` or `replace`.
        #[schema(example = "queue_one")]
        overlap: Option<String>,
        /// Jobs are due within this time after their tick, each schedule at its own moment.
        #[schema(value_type = Option<when::SpanIn>)]
        spread: Option<Moment>,
        /// How long the ledger remembers what became of its ticks; 90 days when not given.
        #[schema(value_type = Option<when::SpanIn>)]
        ledger_retention: Option<Moment>,
        /// Whether it rests; stays as it is when not given.
        paused: Option<bool>,
        /// Why it rests.
        note: Option<String>,
        /// What its jobs are: a job without id, time and `on_conflict`.
        #[serde(borrow, default)]
        #[schema(value_type = JobIn<'a>)]
        job: Object<JobIn<'a>>,
    }
}

/// A schedule that was understood, and whether it is to be woken.
pub(crate) struct ScheduleAsked {
    pub(crate) schedule: Schedule,
    pub(crate) wake: bool,
}

impl ScheduleIn<'_> {
    /// The core's schedule, checked.
    pub(crate) fn into_schedule(
        mut self,
        id: ScheduleId,
        reading: &Reading<'_>,
    ) -> Result<ScheduleAsked, Problem> {
        let mut draft = ScheduleDraft::new(self.draft()?);
        if let Some(text) = &self.misfire {
            draft = draft.misfire(when::understand("misfire", text, Misfire::parse)?);
        }
        if let Some(text) = &self.overlap {
            draft = draft.overlap(when::understand("overlap", text, Overlap::parse)?);
        }
        if let Some(grace) = &self.grace {
            draft = draft.grace(grace.span("grace")?);
        }
        if let Some(spread) = &self.spread {
            draft = draft.spread(spread.span("spread")?);
        }
        if let Some(kept) = &self.ledger_retention {
            draft = draft.ledger_retention(kept.span("ledger_retention")?);
        }
        // A note without a word about the pause is a reason for one.
        let pause = self.paused.unwrap_or(self.note.is_some());
        if pause {
            draft = draft.paused(self.note.as_deref().unwrap_or_default());
        }
        let (queue, key, template) = self
            .job
            .0
            .into_template()
            .map_err(|rejection| rejection.renamed(|field| format!("job.{field}")))?;
        draft = draft.queue(queue);
        if let Some(key) = key {
            draft = draft.key(key);
        }
        let schedule = draft.read(id, template, reading)?;
        Ok(ScheduleAsked { schedule, wake: self.paused == Some(false) })
    }
}

/// A schedule as it is now.
#[derive(Serialize, ToSchema)]
#[schema(as = Schedule)]
pub(crate) struct ScheduleOut<'a> {
    /// Its name.
    id: &'a str,
    /// When it ticks, as it was said; as canonical text when it was not said in words.
    #[schema(example = json!(["every weekday at 9am"]))]
    when: Vec<String>,
    /// The same in words.
    #[schema(example = "at 09:00, Monday to Friday")]
    words: String,
    /// Texts that read back as the same: cron where there is cron for it.
    #[schema(example = json!(["0 9 * * MON-FRI"]))]
    canonical: Vec<String>,
    /// The dialect of cron that was recognised, when it was cron.
    #[serde(skip_serializing_if = "Option::is_none")]
    dialect: Option<&'static str>,
    /// The zone of its wall times.
    #[schema(example = "Europe/Paris")]
    zone: String,
    /// What happens at a wall time that a clock change leaves out.
    gap: GapIn,
    /// What happens at a wall time that comes twice.
    fold: FoldIn,
    /// Dates on which it does not tick.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    excluded: Vec<String>,
    /// How many holidays its calendar has.
    #[serde(skip_serializing_if = "is_zero")]
    holidays: usize,
    /// No tick before this.
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Stamp>,
    /// No tick after this.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<Stamp>,
    /// No more ticks than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    /// What becomes of missed ticks.
    #[schema(example = "once")]
    misfire: String,
    /// How late a tick may be and still not count as missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    grace: Option<String>,
    /// What becomes of a tick while the job of an earlier one lives.
    overlap: OverlapOut,
    /// Jobs are due within this time after their tick.
    #[serde(skip_serializing_if = "Option::is_none")]
    spread: Option<String>,
    /// How long the ledger remembers what became of its ticks.
    ledger_retention: String,
    /// Whether it rests.
    paused: bool,
    /// Why it rests, and since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pause: Option<PauseOut<'a>>,
    /// What its jobs are.
    job: TemplateOut<'a>,
    /// Its next tick.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_at: Option<Stamp>,
    /// The same in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_at_ms: Option<i64>,
    /// When the job of the next tick is due: later than the tick, when they are spread.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_due_at: Option<Stamp>,
    /// Its next ticks; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Vec<Stamp>>,
    /// Why it has no next tick.
    #[serde(skip_serializing_if = "Option::is_none")]
    idle: Option<IdleOut>,
    /// The last tick that was accounted for.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_at: Option<Stamp>,
    /// Ticks of this `when` that were accounted for: what `count` is compared with.
    ticked: u64,
    /// Jobs made since it was first put.
    fired: u64,
    /// Ticks that wait for the end of a job.
    waiting: usize,
    /// The last backfill, under way or done.
    #[serde(skip_serializing_if = "Option::is_none")]
    backfill: Option<BackfillOut>,
}

/// Why a schedule rests.
#[derive(Serialize, ToSchema)]
#[schema(as = Pause)]
pub(crate) struct PauseOut<'a> {
    /// In the words of whoever paused it.
    #[serde(skip_serializing_if = "str::is_empty")]
    note: &'a str,
    /// Since when.
    since: Stamp,
}

/// Jobs for ticks of the past, and how far they have come.
#[derive(Serialize, ToSchema)]
#[schema(as = Backfill)]
pub(crate) struct BackfillOut {
    /// How it stands.
    state: BackfillState,
    /// Ticks from this instant on …
    from: Stamp,
    /// … up to and with this one.
    to: Stamp,
    /// Jobs are made at least this far apart.
    pace: String,
    /// How many ticks there are.
    ticks: u64,
    /// How many of them were made a job of.
    made: u64,
    /// How many of them had made one already.
    kept: u64,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Stamp>,
}

/// How a backfill stands.
#[derive(Serialize, ToSchema, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BackfillState {
    /// Jobs are being made.
    Running,
    /// All of them were made.
    Done,
    /// It was ended before it was through.
    Cancelled,
}

/// What a schedule's jobs are.
#[derive(Serialize, ToSchema)]
#[schema(as = JobTemplate)]
pub(crate) struct TemplateOut<'a> {
    /// The queue they go to.
    queue: &'a str,
    /// The key they run under.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    /// Where they go.
    target: TargetOut<'a>,
    /// What they carry, when it is JSON and not large.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<&'a RawValue>,
    /// What they carry, when it is other text and not large.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<&'a str>,
    /// What they carry, when it is not text and not large.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    /// The media type of the payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    /// The length of the payload in bytes.
    payload_size: usize,
    /// When and how often they are tried again.
    retry: RetryOut,
    /// How long one attempt may take.
    timeout: String,
    /// How long after its due time one may still be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_in: Option<String>,
    /// How long they can be looked at after they ended.
    retention: String,
    /// Whether their results are kept.
    keep_result: bool,
    /// What the failure of one means for the later jobs of its key.
    key_on_failure: KeyOnFailureIn,
    /// What happens when nobody can say how an attempt ended.
    on_unknown: OnUnknownIn,
}

impl<'a> ScheduleOut<'a> {
    /// As in a list.
    pub(crate) fn brief(state: &'a ScheduleState) -> Self {
        let (schedule, progress) = (&*state.schedule, &state.progress);
        let plan = &schedule.plan;
        let canonical: Vec<String> = plan.whens.iter().map(Recurrence::canonical).collect();
        let when = match schedule.said.as_slice() {
            [] => canonical.clone(),
            said => said.iter().map(|said| said.text.clone()).collect(),
        };
        let words: Vec<String> = plan.whens.iter().map(Recurrence::words).collect();
        let spread = Some(schedule.spread).filter(|spread| spread.get() > 0);
        ScheduleOut {
            id: schedule.id.as_str(),
            when,
            words: words.join("; and "),
            canonical,
            dialect: schedule
                .said
                .iter()
                .find_map(|Said { dialect, .. }| *dialect)
                .map(Dialect::as_str),
            zone: plan.zone.name().into_owned(),
            gap: plan.gap.into(),
            fold: plan.fold.into(),
            excluded: plan.excluded.iter().map(ToString::to_string).collect(),
            holidays: plan.holidays.len(),
            start: plan.start.map(Stamp),
            end: plan.end.map(Stamp),
            count: plan.count,
            misfire: schedule.misfire.to_string(),
            grace: schedule.grace.map(when::span_text),
            overlap: schedule.overlap.into(),
            spread: spread.map(when::span_text),
            ledger_retention: when::span_text(schedule.ledger_retention),
            paused: schedule.paused.is_some(),
            pause: schedule.paused.as_ref().map(PauseOut::from),
            job: schedule.into(),
            next_at: progress.next_at.map(Stamp),
            next_at_ms: progress.next_at.map(Timestamp::as_millis),
            next_due_at: state.next_due().map(Stamp),
            next: None,
            idle: progress.idle.map(Into::into),
            last_at: progress.last_at.map(Stamp),
            ticked: progress.ticked,
            fired: progress.fired,
            waiting: progress.waiting.len(),
            backfill: progress.backfill.as_ref().map(BackfillOut::from),
        }
    }

    /// With the next ticks.
    pub(crate) fn whole(state: &'a ScheduleState) -> Self {
        let ticks = state.coming().take(limits::PREVIEW_TICKS_DEFAULT);
        let next = ticks.map(|(tick, _)| Stamp(tick)).collect();
        ScheduleOut { next: Some(next), ..ScheduleOut::brief(state) }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl<'a> From<&'a Pause> for PauseOut<'a> {
    fn from(pause: &'a Pause) -> Self {
        PauseOut { note: &pause.note, since: Stamp(pause.since) }
    }
}

impl From<&Backfill> for BackfillOut {
    fn from(fill: &Backfill) -> Self {
        let state = match (fill.is_under_way(), fill.is_cancelled()) {
            (true, _) => BackfillState::Running,
            (false, true) => BackfillState::Cancelled,
            (false, false) => BackfillState::Done,
        };
        BackfillOut {
            state,
            from: Stamp(fill.after.plus(hence_core::time::Millis::new(1))),
            to: Stamp(fill.until),
            pace: when::span_text(fill.pace),
            ticks: fill.ticks,
            made: fill.made,
            kept: fill.kept,
            ended_at: fill.ended_at.map(Stamp),
        }
    }
}

impl<'a> From<&'a Schedule> for TemplateOut<'a> {
    fn from(schedule: &'a Schedule) -> Self {
        let template = &schedule.template;
        let Inline { json, text, base64 } = Inline::of_small(&template.payload);
        TemplateOut {
            queue: schedule.queue.as_str(),
            key: schedule.key.as_ref().map(Key::as_str),
            target: (&template.target).into(),
            payload: json,
            payload_text: text,
            payload_base64: base64,
            content_type: template.payload.content_type.as_deref(),
            payload_size: template.payload.bytes.len(),
            retry: (&template.retry).into(),
            timeout: when::span_text(template.timeout),
            expires_in: template.expires_after.map(when::span_text),
            retention: when::span_text(template.retention),
            keep_result: template.keep_result,
            key_on_failure: template.key_on_failure.into(),
            on_unknown: template.on_unknown.into(),
        }
    }
}

/// A page of schedules.
#[derive(Serialize, ToSchema)]
#[schema(as = Schedules)]
pub(crate) struct SchedulesOut<'a> {
    /// In order of id.
    pub(crate) schedules: Vec<ScheduleOut<'a>>,
    /// Say it as `cursor` to get the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// Why a schedule is paused.
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
#[schema(as = NewPause)]
pub(crate) struct PauseIn {
    /// In your words; shown to whoever looks.
    #[schema(example = "the mail provider is down")]
    pub(crate) note: Option<String>,
}

/// A backfill to be. Of a schedule with a `count`, only ticks that were counted can be made up
/// for: none from before it was put.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewBackfill)]
pub(crate) struct BackfillIn {
    /// Ticks from this instant on …
    #[schema(value_type = when::InstantIn)]
    pub(crate) from: Moment,
    /// … up to and with this one; now when not given.
    #[schema(value_type = Option<when::InstantIn>)]
    pub(crate) to: Option<Moment>,
    /// Jobs are made at least this far apart; at once when not given.
    #[schema(value_type = Option<when::SpanIn>)]
    pub(crate) pace: Option<Moment>,
}
