//! Queues on the wire.

use hence_core::error::Rejection;
use hence_core::id::HandlerName;
use hence_core::queue::{Counts, QueueSettings, QueueView, Rate};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::Stamp;
use super::object::Object;
use crate::http::when::{self, Moment};

/// A queue's settings, whole. What is not given is open and unlimited.
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
#[schema(as = QueueSettings)]
pub(crate) struct SettingsIn {
    /// New jobs are refused.
    paused_in: Option<bool>,
    /// Nothing is handed out.
    paused_out: Option<bool>,
    /// At most so many jobs run at once.
    #[schema(example = 10, minimum = 1)]
    concurrency: Option<u32>,
    /// At most so many jobs are started in a time.
    #[schema(value_type = Option<RateIn>)]
    rate: Option<Object<RateIn>>,
    /// At most so many jobs may be pending.
    pending_max: Option<u64>,
}

/// `count` starts per `per`, with bursts of up to `count`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewRate)]
pub(crate) struct RateIn {
    /// Starts …
    #[schema(example = 100, minimum = 1)]
    count: u32,
    /// … in this time.
    #[schema(value_type = when::SpanIn)]
    per: Moment,
}

impl RateIn {
    fn into_rate(self) -> Result<Rate, Rejection> {
        Ok(Rate { count: self.count, per: self.per.span("rate.per")? })
    }
}

impl SettingsIn {
    /// The core's settings, checked.
    pub(crate) fn into_settings(self) -> Result<QueueSettings, Rejection> {
        let settings = QueueSettings {
            paused_in: self.paused_in.unwrap_or(false),
            paused_out: self.paused_out.unwrap_or(false),
            concurrency: self.concurrency,
            rate: self.rate.map(|Object(rate)| rate.into_rate()).transpose()?,
            pending_max: self.pending_max,
        };
        settings.check()?;
        Ok(settings)
    }
}

/// What to change about a queue. What is not given stays; `null` lifts a limit.
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
#[schema(as = QueueChange)]
pub(crate) struct SettingsEdit {
    /// New jobs are refused.
    paused_in: Option<bool>,
    /// Nothing is handed out.
    paused_out: Option<bool>,
    /// At most so many jobs run at once.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1)]
    concurrency: Limit<u32>,
    /// At most so many jobs are started in a time.
    #[serde(default)]
    #[schema(value_type = Option<RateIn>)]
    rate: Limit<Object<RateIn>>,
    /// At most so many jobs may be pending.
    #[serde(default)]
    #[schema(value_type = Option<u64>)]
    pending_max: Limit<u64>,
}

/// What is said about a limit: `null` is not the same as nothing.
#[derive(Default)]
enum Limit<T> {
    /// It stays as it is.
    #[default]
    Kept,
    /// There is none from now on.
    Lifted,
    /// It is this from now on.
    Set(T),
}

impl<T> Limit<T> {
    fn over(self, before: Option<T>) -> Option<T> {
        match self {
            Limit::Kept => before,
            Limit::Lifted => None,
            Limit::Set(value) => Some(value),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Limit<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Limit::Lifted, Limit::Set))
    }
}

impl SettingsEdit {
    /// The settings with the change made, checked.
    pub(crate) fn apply(self, mut settings: QueueSettings) -> Result<QueueSettings, Rejection> {
        settings.paused_in = self.paused_in.unwrap_or(settings.paused_in);
        settings.paused_out = self.paused_out.unwrap_or(settings.paused_out);
        settings.concurrency = self.concurrency.over(settings.concurrency);
        settings.pending_max = self.pending_max.over(settings.pending_max);
        settings.rate = match self.rate {
            Limit::Kept => settings.rate,
            Limit::Lifted => None,
            Limit::Set(Object(rate)) => Some(rate.into_rate()?),
        };
        settings.check()?;
        Ok(settings)
    }

    /// The change that pauses or resumes the doors named; `paused` is what they become.
    pub(crate) fn doors(doors: &Doors, paused: bool) -> Self {
        // Pausing without saying which holds work back and loses none; resuming opens everything.
        let inward = doors.r#in.unwrap_or(!paused && doors.out.is_none());
        let outward = doors.out.unwrap_or(doors.r#in.is_none());
        SettingsEdit {
            paused_in: inward.then_some(paused),
            paused_out: outward.then_some(paused),
            ..SettingsEdit::default()
        }
    }
}

/// Which door of a queue. Without a body, `pause` closes `out` and `resume` opens both.
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Doors {
    /// The door for new jobs.
    r#in: Option<bool>,
    /// The door for jobs that are due.
    out: Option<bool>,
}

/// A queue as it is now.
#[derive(Serialize, ToSchema)]
#[schema(as = Queue)]
pub(crate) struct QueueOut<'a> {
    /// Its name.
    name: &'a str,
    /// New jobs are refused.
    paused_in: bool,
    /// Nothing is handed out.
    paused_out: bool,
    /// At most so many jobs run at once.
    concurrency: Option<u32>,
    /// At most so many jobs are started in a time.
    rate: Option<RateOut>,
    /// At most so many jobs may be pending.
    pending_max: Option<u64>,
    /// What it holds and what went through it.
    counts: CountsOut,
    /// Due jobs that wait for a worker or a limit, as far as they are in memory.
    ready: u64,
    /// Jobs of the queue held in memory.
    in_memory: u64,
    /// Since when the oldest due job waits: its due time, or its submission if that came later.
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_ready: Option<Stamp>,
    /// Due jobs whose handler is not registered in the server.
    unregistered: u64,
    /// The handlers they wait for, up to 10.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing_handlers: Vec<&'a str>,
}

/// A rate in an answer.
#[derive(Serialize, ToSchema)]
#[schema(as = Rate)]
pub(crate) struct RateOut {
    /// Starts …
    count: u32,
    /// … in this time.
    per: String,
}

/// Counts are kept with every change, never found by counting.
#[derive(Serialize, ToSchema, Default)]
#[schema(as = Counts)]
pub(crate) struct CountsOut {
    /// Live jobs that are not running.
    pub(crate) pending: u64,
    /// Jobs handed out.
    pub(crate) running: u64,
    /// Dead jobs that can be replayed.
    pub(crate) dead: u64,
    /// Jobs accepted since the beginning.
    pub(crate) submitted: u64,
    /// Deliveries since the beginning.
    pub(crate) delivered: u64,
    /// Successes since the beginning.
    pub(crate) succeeded: u64,
    /// Failed attempts since the beginning.
    pub(crate) failed: u64,
    /// Jobs that died since the beginning.
    pub(crate) died: u64,
    /// Jobs cancelled since the beginning.
    pub(crate) cancelled: u64,
    /// Jobs expired since the beginning.
    pub(crate) expired: u64,
    /// Jobs replaced by one of the same name since the beginning.
    pub(crate) replaced: u64,
}

impl CountsOut {
    /// Adds the counts of a queue.
    pub(crate) fn add(&mut self, counts: &Counts) {
        self.pending += counts.pending;
        self.running += counts.running;
        self.dead += counts.dead;
        self.submitted += counts.submitted;
        self.delivered += counts.delivered;
        self.succeeded += counts.succeeded;
        self.failed += counts.failed;
        self.died += counts.died;
        self.cancelled += counts.cancelled;
        self.expired += counts.expired;
        self.replaced += counts.replaced;
    }
}

impl<'a> From<&'a QueueView> for QueueOut<'a> {
    fn from(view: &'a QueueView) -> Self {
        let settings = &view.settings;
        let mut counts = CountsOut::default();
        counts.add(&view.counts);
        QueueOut {
            name: view.name.as_str(),
            paused_in: settings.paused_in,
            paused_out: settings.paused_out,
            concurrency: settings.concurrency,
            rate: settings
                .rate
                .map(|rate| RateOut { count: rate.count, per: when::span_text(rate.per) }),
            pending_max: settings.pending_max,
            counts,
            ready: view.ready,
            in_memory: view.in_memory,
            oldest_ready: view.oldest_ready.map(Stamp),
            unregistered: view.unregistered,
            missing_handlers: view.missing_handlers.iter().map(HandlerName::as_str).collect(),
        }
    }
}

/// All queues.
#[derive(Serialize, ToSchema)]
#[schema(as = Queues)]
pub(crate) struct QueuesOut<'a> {
    /// In order of name.
    pub(crate) queues: Vec<QueueOut<'a>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use hence_core::time::Millis;

    #[test]
    fn a_change_touches_only_what_it_names() {
        let before = QueueSettings {
            paused_in: true,
            concurrency: Some(3),
            rate: Some(Rate { count: 1, per: Millis::new(5) }),
            ..QueueSettings::default()
        };
        let after = |json: &str| {
            let edit: SettingsEdit = serde_json::from_str(json).unwrap();
            edit.apply(before.clone()).unwrap()
        };
        assert_eq!(after("{}"), before);
        assert_eq!(after(r#"{"rate":null}"#), QueueSettings { rate: None, ..before.clone() });
        assert_eq!(
            after(r#"{"concurrency":7,"paused_in":false}"#),
            QueueSettings { concurrency: Some(7), paused_in: false, ..before.clone() }
        );
    }

    #[test]
    fn doors() {
        let rows = [
            ("{}", true, (None, Some(true))),
            ("{}", false, (Some(false), Some(false))),
            (r#"{"in":true,"out":true}"#, true, (Some(true), Some(true))),
            (r#"{"in":true}"#, true, (Some(true), None)),
            (r#"{"out":true}"#, false, (None, Some(false))),
        ];
        for (json, paused, expected) in rows {
            let doors: Doors = serde_json::from_str(json).unwrap();
            let edit = SettingsEdit::doors(&doors, paused);
            assert_eq!((edit.paused_in, edit.paused_out), expected, "{json} {paused}");
        }
    }
}
