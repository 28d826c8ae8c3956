//! Schedules on the wire.

use hence_core::id::{Key, ScheduleId};
use hence_core::schedule::{OccurrenceRecord, Pause, Schedule, ScheduleState};
use hence_core::time::Timestamp;
use hence_core::when::{Plan, Reading};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::Stamp;
use super::job_in::JobIn;
use super::job_out;
use super::payload::Inline;
use super::retry::RetryOut;
use super::target::TargetOut;
use crate::http::errors::Problem;
use crate::http::when::{self, Moment};

/// A schedule to be, or changed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewSchedule)]
pub(crate) struct ScheduleIn<'a> {
    /// The interval between ticks.
    #[schema(value_type = when::SpanIn)]
    every: Moment,
    /// The first tick; all others are whole intervals after it. Kept when the schedule exists
    /// with the same interval, else one interval from now, when not given.
    #[schema(value_type = Option<when::InstantIn>)]
    start: Option<Moment>,
    /// Whether it rests; kept when the schedule exists, else false, when not given.
    paused: Option<bool>,
    /// What its jobs are: a job without id, time and `on_conflict`.
    #[serde(borrow, default)]
    job: JobIn<'a>,
}

impl ScheduleIn<'_> {
    /// The core's schedule, checked. `existing` is the one of this id.
    pub(crate) fn into_schedule(
        self,
        id: ScheduleId,
        existing: Option<&Schedule>,
        reading: &Reading<'_>,
    ) -> Result<Schedule, Problem> {
        let interval = self.every.span("every")?;
        let rhythm = existing.and_then(|schedule| schedule.plan.interval());
        let start = match (&self.start, rhythm) {
            (Some(start), _) => start.instant("start", reading)?,
            // Putting the same schedule again, as deployments do, must not shift its rhythm.
            (None, Some((start, same))) if same == interval => start,
            (None, _) => reading.now.plus(interval),
        };
        let standing = existing.and_then(|schedule| schedule.paused.clone());
        let fresh = || Pause { note: "".into(), since: reading.now };
        let paused = match self.paused {
            Some(true) => Some(standing.unwrap_or_else(fresh)),
            Some(false) => None,
            None => standing,
        };
        let (queue, key, template) = self.job.into_template()?;
        let plan = Plan::every(start, interval);
        let schedule = Schedule { queue, key, paused, ..Schedule::new(id, plan, template) };
        schedule.check()?;
        Ok(schedule)
    }
}

/// A schedule as it is now.
#[derive(Serialize, ToSchema)]
#[schema(as = Schedule)]
pub(crate) struct ScheduleOut<'a> {
    /// Its name.
    id: &'a str,
    /// The interval between ticks, or the rhythm in words.
    every: String,
    /// The first tick of an interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Stamp>,
    /// Whether it rests.
    paused: bool,
    /// What its jobs are.
    job: TemplateOut<'a>,
    /// Its next tick; none while it is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_at: Option<Stamp>,
    /// The same in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_at_ms: Option<i64>,
    /// The last tick that was accounted for.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_at: Option<Stamp>,
    /// Jobs made since it was first put.
    fired: u64,
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
    key_on_failure: &'static str,
    /// What happens when nobody can say how an attempt ended.
    on_unknown: &'static str,
}

impl<'a> From<&'a ScheduleState> for ScheduleOut<'a> {
    fn from(state: &'a ScheduleState) -> Self {
        let (schedule, progress) = (&*state.schedule, &state.progress);
        let interval = schedule.plan.interval();
        let words = || {
            let parts = schedule.plan.whens.iter().map(hence_core::when::Recurrence::words);
            parts.collect::<Vec<_>>().join("; and ")
        };
        ScheduleOut {
            id: schedule.id.as_str(),
            every: interval.map_or_else(words, |(_, every)| when::span_text(every)),
            start: interval.map(|(start, _)| start.into()),
            paused: schedule.paused.is_some(),
            job: schedule.into(),
            next_at: progress.next_at.map(Stamp),
            next_at_ms: progress.next_at.map(Timestamp::as_millis),
            last_at: progress.last_at.map(Stamp),
            fired: progress.fired,
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
            key_on_failure: job_out::key_on_failure(template.key_on_failure),
            on_unknown: job_out::on_unknown(template.on_unknown),
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

/// What became of a tick.
#[derive(Serialize, ToSchema)]
#[schema(as = Occurrence)]
pub(crate) struct OccurrenceOut {
    /// The nominal instant; of several ticks, the last one's.
    at: Stamp,
    /// The same in Unix milliseconds.
    at_ms: i64,
    /// When it was decided.
    decided_at: Stamp,
    /// `ran`, `late`, `skipped`, `coalesced`, `triggered` or `backfilled`.
    fate: &'static str,
    /// The number of the job it made.
    #[serde(skip_serializing_if = "Option::is_none")]
    job_number: Option<u64>,
    /// How many ticks these are, when there is more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    ticks: Option<u64>,
}

impl From<&OccurrenceRecord> for OccurrenceOut {
    fn from(record: &OccurrenceRecord) -> Self {
        OccurrenceOut {
            at: record.last.into(),
            at_ms: record.last.as_millis(),
            decided_at: record.decided_at.into(),
            fate: record.fate.as_str(),
            job_number: record.fate.job().map(|number| number.0),
            ticks: Some(record.count).filter(|count| *count > 1),
        }
    }
}

/// Occurrences of a schedule.
#[derive(Serialize, ToSchema)]
#[schema(as = Occurrences)]
pub(crate) struct OccurrencesOut {
    /// Newest first.
    pub(crate) occurrences: Vec<OccurrenceOut>,
    /// Say it as `before` to get older ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_before: Option<Stamp>,
}
