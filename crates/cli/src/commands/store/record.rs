//! The lines of an export: what they hold, apart from the core's types, so that neither can change
//! the other by accident.
//!
//! ```text
//! {"header":{"format":3,"hence":"0.1.0","exported_at_ms":…}}
//! {"queue":{"name":"mail","settings":{…},"totals":{…}}}         one per queue
//! {"schedule":{"id":"report","when":[…],…}}                     one per schedule
//! {"occurrence":{"schedule":"report","at_ms":…,"fate":"ran",…}}    what became of its ticks
//! {"job":{"queue":"mail","id":"…",…}}                           one per job, live or finished
//! {"end":{"queues":1,"schedules":1,"occurrences":9,"jobs":3}}   proves that nothing is missing
//! ```
//!
//! To change it: raise [`FORMAT`], keep reading the old one once it was released, and keep an old
//! file in `testdata/`.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use hence_core::id::{HandlerName, QueueName};
use hence_core::job::{HttpTarget, JobSpec, KeyOnFailure, OnUnknown, Payload, Target};
use hence_core::queue::{Counts, QueueSettings, Rate};
use hence_core::retry::{Backoff, RetryPolicy};
use hence_core::schedule::{OccurrenceRecord, ScheduleProgress, ScheduleState};
use hence_core::time::Millis;
use hence_core::when::Recurrence;
use hence_store::codec;
use serde::{Deserialize, Serialize};

use super::job_record::JobRecord;

/// The version of the lines below.
pub(super) const FORMAT: u32 = 3;

/// Why a line cannot be taken.
pub(super) type Problem = String;

/// One line.
#[derive(Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Record {
    Header(Header),
    Queue(QueueRecord),
    Schedule(Box<ScheduleRecord>),
    Occurrence(LedgerRecord),
    Job(Box<JobRecord>),
    End(Tally),
}

/// The first line.
#[derive(Debug, Serialize, Deserialize, PartialEq)]
pub(super) struct Header {
    pub(super) format: u32,
    pub(super) hence: String,
    pub(super) exported_at_ms: i64,
}

/// The last line: how many of each there were.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) queues: u64,
    pub(super) schedules: u64,
    pub(super) occurrences: u64,
    pub(super) jobs: u64,
}

/// A queue: what an operator decided about it, and what went through it so far.
#[derive(Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueRecord {
    pub(super) name: String,
    settings: Option<SettingsRecord>,
    totals: TotalsRecord,
}

#[derive(Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct SettingsRecord {
    paused_in: bool,
    paused_out: bool,
    concurrency: Option<u32>,
    rate_count: Option<u32>,
    rate_per_ms: Option<u64>,
    pending_max: Option<u64>,
}

/// What only ever grows. What a queue holds now is counted from its jobs.
#[derive(Debug, Default, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct TotalsRecord {
    submitted: u64,
    delivered: u64,
    succeeded: u64,
    failed: u64,
    died: u64,
    cancelled: u64,
    expired: u64,
    replaced: u64,
}

impl QueueRecord {
    pub(super) fn new(name: &QueueName, settings: Option<&QueueSettings>, counts: &Counts) -> Self {
        QueueRecord {
            name: name.as_str().to_owned(),
            settings: settings.map(|settings| SettingsRecord {
                paused_in: settings.paused_in,
                paused_out: settings.paused_out,
                concurrency: settings.concurrency,
                rate_count: settings.rate.map(|rate| rate.count),
                rate_per_ms: settings.rate.map(|rate| rate.per.get()),
                pending_max: settings.pending_max,
            }),
            totals: TotalsRecord {
                submitted: counts.submitted,
                delivered: counts.delivered,
                succeeded: counts.succeeded,
                failed: counts.failed,
                died: counts.died,
                cancelled: counts.cancelled,
                expired: counts.expired,
                replaced: counts.replaced,
            },
        }
    }

    pub(super) fn settings(&self) -> Option<QueueSettings> {
        let settings = self.settings.as_ref()?;
        let rate = settings.rate_count.zip(settings.rate_per_ms);
        Some(QueueSettings {
            paused_in: settings.paused_in,
            paused_out: settings.paused_out,
            concurrency: settings.concurrency,
            rate: rate.map(|(count, per)| Rate { count, per: Millis::new(per) }),
            pending_max: settings.pending_max,
        })
    }

    /// Adds the totals to the counts of the queue.
    pub(super) fn add_totals(&self, counts: &mut Counts) {
        let totals = &self.totals;
        counts.submitted += totals.submitted;
        counts.delivered += totals.delivered;
        counts.succeeded += totals.succeeded;
        counts.failed += totals.failed;
        counts.died += totals.died;
        counts.cancelled += totals.cancelled;
        counts.expired += totals.expired;
        counts.replaced += totals.replaced;
    }
}

/// A schedule and how far it has come. A plan has too many parts to be written out here: what is
/// read back is the store's own form, and the words beside it are for people.
#[derive(Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct ScheduleRecord {
    id: String,
    when: Vec<String>,
    schedule_base64: String,
    progress_base64: String,
}

impl ScheduleRecord {
    pub(super) fn new(state: &ScheduleState) -> Self {
        let (mut schedule, mut progress) = (Vec::new(), Vec::new());
        codec::encode_schedule(&state.schedule, &mut schedule);
        codec::encode_schedule_progress(&state.progress, &mut progress);
        ScheduleRecord {
            id: state.schedule.id.as_str().to_owned(),
            when: state.schedule.plan.whens.iter().map(Recurrence::words).collect(),
            schedule_base64: BASE64.encode(schedule),
            progress_base64: BASE64.encode(progress),
        }
    }

    pub(super) fn into_state(self) -> Result<ScheduleState, Problem> {
        let bytes = |text: &str| {
            let bytes = BASE64.decode(text).map_err(|_| "a schedule is not base64".to_owned())?;
            Ok::<_, Problem>(Bytes::from(bytes))
        };
        let schedule = codec::decode_schedule(&bytes(&self.schedule_base64)?).map_err(words)?;
        let progress = codec::decode_schedule_progress(&bytes(&self.progress_base64)?);
        schedule.check().map_err(words)?;
        // Jobs get new numbers: what points at one is let go.
        let progress = ScheduleProgress { running: None, ..progress.map_err(words)? };
        Ok(ScheduleState { schedule: Arc::new(schedule), progress })
    }
}

/// A record of a ledger: for people, and as the store has it.
#[derive(Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct LedgerRecord {
    schedule: String,
    at_ms: i64,
    ticks: u64,
    fate: String,
    record_base64: String,
}

impl LedgerRecord {
    pub(super) fn new(record: &OccurrenceRecord) -> Self {
        let mut bytes = Vec::new();
        codec::encode_occurrence(record, &mut bytes);
        LedgerRecord {
            schedule: record.schedule.as_str().to_owned(),
            at_ms: record.last.as_millis(),
            ticks: record.count,
            fate: record.fate.as_str().to_owned(),
            record_base64: BASE64.encode(bytes),
        }
    }

    pub(super) fn into_record(self) -> Result<OccurrenceRecord, Problem> {
        let bytes = BASE64.decode(&self.record_base64);
        let bytes = bytes.map_err(|_| "an occurrence is not base64".to_owned())?;
        codec::decode_occurrence(&Bytes::from(bytes)).map_err(words)
    }
}

/// What jobs and templates of schedules share.
#[derive(Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct SpecRecord {
    payload: PayloadRecord,
    target: TargetRecord,
    retry: RetryRecord,
    timeout_ms: u64,
    retention_ms: u64,
    keep_result: bool,
    step_aside: bool,
    park: bool,
}

impl SpecRecord {
    pub(super) fn new(spec: &JobSpec) -> Self {
        SpecRecord {
            payload: PayloadRecord::new(&spec.payload),
            target: TargetRecord::new(&spec.target),
            retry: RetryRecord::new(&spec.retry),
            timeout_ms: spec.timeout.get(),
            retention_ms: spec.retention.get(),
            keep_result: spec.keep_result,
            step_aside: spec.key_on_failure == KeyOnFailure::StepAside,
            park: spec.on_unknown == OnUnknown::Park,
        }
    }

    pub(super) fn into_spec(self) -> Result<JobSpec, Problem> {
        let spec = JobSpec {
            payload: self.payload.into_payload()?,
            target: self.target.into_target()?,
            retry: self.retry.into_policy(),
            timeout: Millis::new(self.timeout_ms),
            expires_after: None,
            retention: Millis::new(self.retention_ms),
            keep_result: self.keep_result,
            key_on_failure: if self.step_aside {
                KeyOnFailure::StepAside
            } else {
                KeyOnFailure::Block
            },
            on_unknown: if self.park { OnUnknown::Park } else { OnUnknown::Retry },
        };
        spec.check().map_err(words)?;
        Ok(spec)
    }
}

/// Bytes: as text when they are text, so that an export can be read and searched.
#[derive(Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct PayloadRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
}

impl PayloadRecord {
    pub(super) fn new(payload: &Payload) -> Self {
        let text = std::str::from_utf8(&payload.bytes).ok().map(str::to_owned);
        let base64 = if text.is_none() { Some(BASE64.encode(&payload.bytes)) } else { None };
        PayloadRecord {
            text,
            base64,
            content_type: payload.content_type.as_deref().map(str::to_owned),
        }
    }

    pub(super) fn into_payload(self) -> Result<Payload, Problem> {
        let bytes = match (self.text, self.base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(text)) => {
                BASE64.decode(text).map_err(|_| "a payload is not base64".to_owned())?
            }
            _ => return Err("a payload must be text or base64".to_owned()),
        };
        Ok(Payload {
            bytes: Bytes::from(bytes),
            content_type: self.content_type.as_deref().map(Arc::from),
        })
    }
}

#[derive(Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum TargetRecord {
    Http { method: String, url: String, headers: Vec<(String, String)> },
    Worker,
    Handler { name: String },
}

impl TargetRecord {
    fn new(target: &Target) -> Self {
        match target {
            Target::Http(http) => TargetRecord::Http {
                method: http.method.clone(),
                url: http.url.clone(),
                headers: http.headers.clone(),
            },
            Target::Worker => TargetRecord::Worker,
            Target::Handler(name) => TargetRecord::Handler { name: name.as_str().to_owned() },
        }
    }

    fn into_target(self) -> Result<Target, Problem> {
        Ok(match self {
            TargetRecord::Http { method, url, headers } => {
                Target::Http(Arc::new(HttpTarget { method, url, headers }))
            }
            TargetRecord::Worker => Target::Worker,
            TargetRecord::Handler { name } => {
                Target::Handler(HandlerName::new(&name).map_err(words)?)
            }
        })
    }
}

#[derive(Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct RetryRecord {
    max_attempts: u32,
    backoff: BackoffRecord,
    jitter_percent: u8,
    cap_ms: u64,
    max_age_ms: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum BackoffRecord {
    FixedMs(u64),
    Exponential { first_ms: u64, factor_percent: u32 },
    ListMs(Vec<u64>),
}

impl RetryRecord {
    fn new(policy: &RetryPolicy) -> Self {
        RetryRecord {
            max_attempts: policy.max_attempts,
            backoff: match &policy.backoff {
                Backoff::Fixed(delay) => BackoffRecord::FixedMs(delay.get()),
                Backoff::Exponential { first, factor_percent } => BackoffRecord::Exponential {
                    first_ms: first.get(),
                    factor_percent: *factor_percent,
                },
                Backoff::List(delays) => {
                    BackoffRecord::ListMs(delays.iter().map(|d| d.get()).collect())
                }
            },
            jitter_percent: policy.jitter_percent,
            cap_ms: policy.cap.get(),
            max_age_ms: policy.max_age.map(Millis::get),
        }
    }

    fn into_policy(self) -> RetryPolicy {
        RetryPolicy {
            max_attempts: self.max_attempts,
            backoff: match self.backoff {
                BackoffRecord::FixedMs(delay) => Backoff::Fixed(Millis::new(delay)),
                BackoffRecord::Exponential { first_ms, factor_percent } => {
                    Backoff::Exponential { first: Millis::new(first_ms), factor_percent }
                }
                BackoffRecord::ListMs(delays) => {
                    Backoff::List(delays.into_iter().map(Millis::new).collect())
                }
            },
            jitter_percent: self.jitter_percent,
            cap: Millis::new(self.cap_ms),
            max_age: self.max_age_ms.map(Millis::new),
        }
    }
}

/// A refusal of the core, in words.
pub(super) fn words(rejection: impl std::fmt::Display) -> Problem {
    rejection.to_string()
}
