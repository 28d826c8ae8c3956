//! The server's answers, as far as the command line reads them. With `--json` answers are passed
//! on as they came, so nothing here limits what a script sees. Unknown fields are ignored: an
//! older client must be able to read a newer server.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::words;

/// Reads one document.
pub(crate) fn read<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(Failure::unexpected)
}

/// The list under `name`.
pub(crate) fn items(mut page: Value, name: &str) -> Result<Vec<Value>, Failure> {
    match page.get_mut(name).map(Value::take) {
        Some(Value::Array(items)) => Ok(items),
        _ => Err(Failure::unexpected(format_args!("it holds no list of {name}"))),
    }
}

/// Where the next page begins, when there is one.
pub(crate) fn next_cursor(page: &Value) -> Option<String> {
    page.get("next").and_then(Value::as_str).map(str::to_owned)
}

/// Why one of many was refused, in words; none when it was accepted.
pub(crate) fn refusal(answer: &Value) -> Option<String> {
    let problem = answer.get("error")?;
    let text = |name: &str| problem.get(name).and_then(Value::as_str);
    let mut words = text("detail").or_else(|| text("title")).unwrap_or("refused").to_owned();
    if let Some(field) = text("field") {
        // Writing to a string cannot fail.
        let _ = write!(words, " (field {field})");
    }
    let candidates = problem.get("candidates").and_then(Value::as_array);
    let candidates: Vec<&str> =
        candidates.into_iter().flatten().filter_map(Value::as_str).collect();
    if !candidates.is_empty() {
        let _ = write!(words, "; try: {}", candidates.join(" | "));
    }
    Some(words)
}

/// A job.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) queue: String,
    #[serde(default)]
    pub(crate) key: Option<String>,
    pub(crate) state: String,
    #[serde(deserialize_with = "instant")]
    pub(crate) due_at: i64,
    #[serde(default, deserialize_with = "some_instant")]
    pub(crate) scheduled_for: Option<i64>,
    #[serde(default, deserialize_with = "some_instant")]
    pub(crate) submitted_at: Option<i64>,
    #[serde(default, deserialize_with = "some_instant")]
    pub(crate) expires_at: Option<i64>,
    #[serde(default)]
    pub(crate) attempts: u32,
    #[serde(default)]
    pub(crate) retry: Retry,
    pub(crate) target: Target,
    #[serde(default)]
    pub(crate) schedule: Option<String>,
    #[serde(default)]
    pub(crate) waiting_for: Option<WaitingFor>,
    #[serde(default)]
    pub(crate) lease: Option<Lease>,
    #[serde(default)]
    pub(crate) finish: Option<Finish>,
    #[serde(default)]
    pub(crate) understood: Option<Understood>,
}

/// What a due job waits for.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct WaitingFor {
    pub(crate) detail: String,
}

/// What was understood by a time in words.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Understood {
    pub(crate) words: String,
}

/// The end of a job.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Finish {
    #[serde(deserialize_with = "instant")]
    pub(crate) at: i64,
    #[serde(default)]
    pub(crate) reason: Option<String>,
}

/// A job as it was accepted.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Accepted {
    pub(crate) id: String,
    pub(crate) queue: String,
    #[serde(default)]
    pub(crate) key: Option<String>,
    #[serde(deserialize_with = "instant")]
    pub(crate) due_at: i64,
    #[serde(default)]
    pub(crate) how: String,
    #[serde(default)]
    pub(crate) understood: Option<Understood>,
}

impl Accepted {
    /// Queue, key and id, as a person speaks of the job.
    pub(crate) fn name_words(&self) -> String {
        name_words(&self.queue, self.key.as_deref(), &self.id)
    }
}

fn name_words(queue: &str, key: Option<&str>, id: &str) -> String {
    match key {
        Some(key) => format!("{queue}/{key}/{id}"),
        None => format!("{queue}/{id}"),
    }
}

impl Job {
    /// Queue, key and id, as a person speaks of the job.
    pub(crate) fn name_words(&self) -> String {
        name_words(&self.queue, self.key.as_deref(), &self.id)
    }

    /// Since when it waits, when it is due then: nobody is late before it was submitted.
    pub(crate) fn waits_since(&self, due_at: i64) -> i64 {
        self.submitted_at.map_or(due_at, |submitted| due_at.max(submitted))
    }

    /// When it ended.
    pub(crate) fn finished_at(&self) -> Option<i64> {
        self.finish.as_ref().map(|finish| finish.at)
    }

    /// Why it ended so, when it did not succeed.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.finish.as_ref()?.reason.as_deref()
    }

    pub(crate) fn max_attempts(&self) -> String {
        self.retry.max_attempts.map_or_else(|| "?".to_owned(), |max| max.to_string())
    }

    /// Whether nothing will happen to it any more by itself.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self.state.as_str(), "scheduled" | "ready" | "running")
    }
}

/// The part of a retry policy that is shown.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Retry {
    #[serde(default)]
    pub(crate) max_attempts: Option<u32>,
}

/// Where a job goes.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Target {
    #[serde(default)]
    http: Option<HttpTarget>,
    #[serde(default)]
    handler: Option<HandlerTarget>,
}

#[derive(Debug, Clone, Deserialize)]
struct HttpTarget {
    url: String,
    #[serde(default)]
    method: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct HandlerTarget {
    name: String,
}

impl Target {
    pub(crate) fn words(&self) -> String {
        match (&self.http, &self.handler) {
            (Some(http), _) => format!("{} {}", http.method.as_deref().unwrap_or("POST"), http.url),
            (None, Some(handler)) => format!("handler {}", handler.name),
            (None, None) => "worker".to_owned(),
        }
    }
}

/// Who runs a job now.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Lease {
    #[serde(default)]
    pub(crate) attempt: Option<u32>,
    #[serde(default)]
    pub(crate) holder: Option<String>,
    #[serde(default, deserialize_with = "some_instant")]
    pub(crate) granted_at: Option<i64>,
}

/// An attempt that ended.
#[expect(clippy::struct_field_names, reason = "named as on the wire")]
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Attempt {
    pub(crate) attempt: u32,
    #[serde(deserialize_with = "instant")]
    pub(crate) started_at: i64,
    #[serde(deserialize_with = "instant")]
    pub(crate) ended_at: i64,
    pub(crate) end: String,
    #[serde(default)]
    pub(crate) reason: Option<String>,
}

/// Jobs handed out. Read straight from the bytes of an answer, never by way of a [`Value`]: that
/// would rewrite a JSON payload.
#[derive(Debug, Deserialize)]
pub(crate) struct Deliveries {
    pub(crate) jobs: Vec<Delivery>,
}

/// A job handed out.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Delivery {
    pub(crate) token: String,
    pub(crate) id: String,
    pub(crate) queue: String,
    #[serde(default)]
    pub(crate) key: Option<String>,
    pub(crate) attempt: u32,
    /// None from a server of before there was one.
    #[serde(default)]
    pub(crate) max_attempts: Option<u32>,
    #[serde(deserialize_with = "instant")]
    pub(crate) due_at: i64,
    #[serde(default)]
    payload: Option<Box<RawValue>>,
    #[serde(default)]
    payload_text: Option<String>,
    #[serde(default)]
    payload_base64: Option<String>,
}

impl Delivery {
    /// What the job carries, byte by byte as it was given.
    pub(crate) fn payload(&self) -> Result<Vec<u8>, Failure> {
        if let Some(text) = &self.payload_base64 {
            return BASE64.decode(text).map_err(Failure::unexpected);
        }
        let json = self.payload.as_ref().map(|raw| raw.get());
        let text = self.payload_text.as_deref().or(json);
        Ok(text.unwrap_or_default().as_bytes().to_vec())
    }
}

/// A queue.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Queue {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) counts: Counts,
    #[serde(default)]
    pub(crate) ready: u64,
    #[serde(default, deserialize_with = "some_instant")]
    pub(crate) oldest_ready: Option<i64>,
    #[serde(default)]
    pub(crate) unregistered: u64,
    #[serde(default)]
    pub(crate) missing_handlers: Vec<String>,
    #[serde(default)]
    paused_in: bool,
    #[serde(default)]
    paused_out: bool,
    #[serde(default)]
    concurrency: Option<u32>,
    #[serde(default)]
    rate: Option<Rate>,
    #[serde(default)]
    pending_max: Option<u64>,
}

#[derive(Debug, Clone, Deserialize)]
struct Rate {
    count: u32,
    per: Value,
}

/// What a queue holds and what went through it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Counts {
    pub(crate) pending: u64,
    pub(crate) running: u64,
    pub(crate) dead: u64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
}

impl Queue {
    /// Its limits in words, `-` when it has none.
    pub(crate) fn limits_words(&self) -> String {
        let mut limits = Vec::new();
        match (self.paused_in, self.paused_out) {
            (true, true) => limits.push("paused".to_owned()),
            (true, false) => limits.push("paused in".to_owned()),
            (false, true) => limits.push("paused out".to_owned()),
            (false, false) => {}
        }
        limits.extend(self.concurrency.map(|limit| format!("{limit} at once")));
        limits.extend(self.rate.as_ref().map(Rate::words));
        limits.extend(self.pending_max.map(|limit| format!("{limit} pending")));
        if limits.is_empty() { "-".to_owned() } else { limits.join(", ") }
    }
}

impl Rate {
    fn words(&self) -> String {
        format!("{} per {}", self.count, self.per.as_str().unwrap_or("?"))
    }
}

/// A schedule.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Schedule {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) when: Vec<String>,
    #[serde(default)]
    pub(crate) words: String,
    #[serde(default)]
    pub(crate) canonical: Vec<String>,
    #[serde(default)]
    pub(crate) zone: String,
    #[serde(default)]
    pub(crate) misfire: String,
    #[serde(default)]
    pub(crate) overlap: String,
    #[serde(default)]
    pub(crate) spread: Option<String>,
    #[serde(default)]
    pub(crate) pause: Option<Pause>,
    #[serde(default)]
    pub(crate) idle: Option<String>,
    #[serde(default, deserialize_with = "some_instant")]
    pub(crate) next_at: Option<i64>,
    #[serde(default, deserialize_with = "instants")]
    pub(crate) next: Vec<i64>,
    #[serde(default, deserialize_with = "some_instant")]
    pub(crate) last_at: Option<i64>,
    #[serde(default)]
    pub(crate) fired: u64,
    #[serde(default)]
    pub(crate) waiting: u64,
    #[serde(default)]
    pub(crate) backfill: Option<Backfill>,
    pub(crate) job: Template,
}

/// Why a schedule rests.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Pause {
    #[serde(default)]
    pub(crate) note: String,
    #[serde(deserialize_with = "instant")]
    since: i64,
}

impl Pause {
    /// Since when and why.
    pub(crate) fn words(&self, now: i64) -> String {
        let since = format!("since {}", words::relative(self.since, now));
        if self.note.is_empty() { since } else { format!("{since}: {}", self.note) }
    }
}

/// Jobs for ticks of the past.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Backfill {
    state: String,
    ticks: u64,
    made: u64,
    kept: u64,
}

impl Backfill {
    /// How far it has come.
    pub(crate) fn words(&self) -> String {
        let Backfill { state, ticks, made, kept } = self;
        let ticks = words::count(*ticks, "tick");
        format!("{state}: of {ticks}, {made} got a job, {kept} had one already")
    }
}

/// How many jobs of schedules fall due when.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Forecast {
    #[serde(deserialize_with = "instant")]
    pub(crate) from: i64,
    pub(crate) total: u64,
    pub(crate) busiest: Vec<BusyMinute>,
    pub(crate) per_minute: Vec<u64>,
    pub(crate) cut: bool,
}

/// A minute and its jobs.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct BusyMinute {
    #[serde(deserialize_with = "instant")]
    pub(crate) at: i64,
    pub(crate) jobs: u64,
}

/// What a schedule's jobs are.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Template {
    pub(crate) queue: String,
    pub(crate) target: Target,
}

/// A tick and what became of it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Occurrence {
    #[serde(deserialize_with = "instant")]
    pub(crate) at: i64,
    #[serde(default, deserialize_with = "some_instant")]
    pub(crate) decided_at: Option<i64>,
    pub(crate) fate: String,
    #[serde(default)]
    pub(crate) reason: Option<String>,
    #[serde(default)]
    pub(crate) job: Option<String>,
    #[serde(default, deserialize_with = "some_instant")]
    pub(crate) first: Option<i64>,
    #[serde(default)]
    pub(crate) ticks: Option<u64>,
}

/// What came of a bulk action.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct BulkReport {
    pub(crate) done: u64,
    #[serde(default)]
    pub(crate) refused: u64,
}

fn instant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let text = String::deserialize(deserializer)?;
    words::parse_rfc3339(&text)
        .ok_or_else(|| D::Error::custom(format_args!("`{text}` is not an instant")))
}

fn some_instant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.as_deref().and_then(words::parse_rfc3339))
}

fn instants<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<i64>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    Ok(texts.iter().filter_map(|text| words::parse_rfc3339(text)).collect())
}
