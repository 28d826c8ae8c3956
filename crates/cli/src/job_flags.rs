//! The flags that describe a job, shared by `add` and `schedules put`, and the JSON they become.
//! Spans and instants are passed on as typed: the server is the one place that understands them.

use std::io::Read;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use crate::failure::Failure;

/// More than the server accepts: what is larger need not be read to the end.
const PAYLOAD_READ_MAX: u64 = 16 * 1024 * 1024;

/// When the job is due.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub(crate) struct DueFlags {
    /// When it is due: "7pm tomorrow", RFC 3339 or Unix time
    #[arg(long, value_name = "TIME", conflicts_with = "in")]
    pub(crate) at: Option<String>,
    /// How long from now it is due: 5s, 1h30m, "2 days"
    // A span before now is refused with the reason, not taken for a flag.
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true)]
    pub(crate) r#in: Option<String>,
    /// The zone in which the time is read: Europe/Paris [default: the server's]
    #[arg(long, alias = "zone", value_name = "ZONE", requires = "when")]
    pub(crate) tz: Option<String>,
}

/// Where the job goes.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub(crate) struct TargetFlags {
    /// Send it to this URL when it is due
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Leave it in the queue for a worker that pulls
    #[arg(long)]
    pub(crate) worker: bool,
    /// Hand it to the handler of this name in the server's process
    #[arg(long, value_name = "NAME")]
    pub(crate) handler: Option<String>,
    /// The HTTP method [default: POST]
    // To require the URL is not enough: whatever excludes it lifts the requirement.
    #[arg(
        long,
        value_name = "METHOD",
        requires = "url",
        conflicts_with_all = ["worker", "handler"]
    )]
    pub(crate) method: Option<String>,
    /// A header to send; may be given several times
    #[arg(
        long = "header",
        short = 'H',
        value_name = "NAME: VALUE",
        requires = "url",
        conflicts_with_all = ["worker", "handler"],
        value_parser = header
    )]
    pub(crate) headers: Vec<(String, String)>,
}

/// What the job carries and how it is treated.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub(crate) struct JobFlags {
    /// What the job carries
    #[arg(long, value_name = "TEXT", conflicts_with = "payload_file")]
    pub(crate) payload: Option<String>,
    /// A file with what the job carries; - is stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) payload_file: Option<PathBuf>,
    /// The media type of the payload
    #[arg(long, value_name = "TYPE")]
    pub(crate) content_type: Option<String>,
    #[command(flatten)]
    pub(crate) retry: RetryFlags,
    /// How long one attempt may take
    #[arg(long, value_name = "SPAN")]
    pub(crate) timeout: Option<String>,
    /// Not started later than this after it was due
    #[arg(long, value_name = "SPAN")]
    pub(crate) expires_in: Option<String>,
    /// How long it can be looked at after it ended
    #[arg(long, value_name = "SPAN")]
    pub(crate) retention: Option<String>,
    /// Keep what the target answers
    #[arg(long)]
    pub(crate) keep_result: bool,
    /// What its failure does to the later jobs of its key
    #[arg(long, value_name = "CHOICE", value_enum)]
    pub(crate) key_on_failure: Option<KeyOnFailure>,
    /// What to do when nobody can say how an attempt ended
    #[arg(long, value_name = "CHOICE", value_enum)]
    pub(crate) on_unknown: Option<OnUnknown>,
}

/// What happens when an attempt fails.
#[derive(Debug, Clone, Args)]
#[group(skip)]
#[command(next_help_heading = "Retries")]
#[expect(clippy::struct_field_names, reason = "the names of the flags are made from these")]
pub(crate) struct RetryFlags {
    /// Attempts in all, the first one included; 10 when not given
    // `max_attempts` is what the API calls it.
    #[arg(long, value_name = "COUNT", aliases = ["max-attempts", "attempts"])]
    pub(crate) retry_attempts: Option<u32>,
    /// Always the same delay between attempts, kept exactly
    #[arg(
        long,
        value_name = "SPAN",
        conflicts_with_all = ["retry_first", "retry_factor", "retry_delays"]
    )]
    pub(crate) retry_fixed: Option<String>,
    /// The delay after the first failure, 1s when not given; each further one is longer
    #[arg(long, value_name = "SPAN", conflicts_with = "retry_delays")]
    pub(crate) retry_first: Option<String>,
    /// How much longer each delay is than the one before; 2 when not given
    #[arg(long, value_name = "FACTOR", conflicts_with = "retry_delays")]
    pub(crate) retry_factor: Option<f64>,
    /// These delays in order, kept exactly, the last one again and again
    #[arg(long, value_name = "SPANS", value_delimiter = ',')]
    pub(crate) retry_delays: Vec<String>,
    /// No delay is longer than this; 1h when not given
    #[arg(long, value_name = "SPAN")]
    pub(crate) retry_cap: Option<String>,
    /// Lengthen each delay at random by up to so many per cent; 10 when not given and delays grow
    #[arg(long, value_name = "PERCENT")]
    pub(crate) retry_jitter: Option<u8>,
    /// No retry is planned for later than this after the job was first due
    #[arg(long, value_name = "SPAN")]
    pub(crate) retry_max_age: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyOnFailure {
    /// They wait until it succeeded or is dead
    Block,
    /// They go ahead while it waits for its retry
    StepAside,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnUnknown {
    /// Deliver it again
    Retry,
    /// Set it aside for a person
    Park,
}

impl DueFlags {
    /// Puts them into a request.
    pub(crate) fn add_to(&self, job: &mut Map<String, Value>) {
        put(job, "at", self.at.as_ref());
        put(job, "in", self.r#in.as_ref());
        put(job, "zone", self.tz.as_ref());
    }
}

impl TargetFlags {
    fn json(&self) -> Value {
        if let Some(name) = &self.handler {
            return json!({"handler": {"name": name}});
        }
        let Some(url) = &self.url else { return json!({"worker": {}}) };
        let mut target = Map::new();
        put(&mut target, "url", Some(url));
        put(&mut target, "method", self.method.as_ref());
        if !self.headers.is_empty() {
            let headers = self.headers.iter().map(|(name, value)| (name.clone(), json!(value)));
            target.insert("headers".to_owned(), Value::Object(headers.collect()));
        }
        json!({"http": target})
    }
}

impl JobFlags {
    /// The job's part of a request.
    pub(crate) fn json(&self, target: &TargetFlags) -> Result<Map<String, Value>, Failure> {
        let mut job = Map::new();
        job.insert("target".to_owned(), target.json());
        self.add_payload(&mut job)?;
        put(&mut job, "content_type", self.content_type.as_ref());
        put(&mut job, "timeout", self.timeout.as_ref());
        put(&mut job, "expires_in", self.expires_in.as_ref());
        put(&mut job, "retention", self.retention.as_ref());
        put(&mut job, "keep_result", self.keep_result.then_some(true));
        let key_on_failure = self.key_on_failure.map(|choice| match choice {
            KeyOnFailure::Block => "block",
            KeyOnFailure::StepAside => "step_aside",
        });
        put(&mut job, "key_on_failure", key_on_failure);
        let on_unknown = self.on_unknown.map(|choice| match choice {
            OnUnknown::Retry => "retry",
            OnUnknown::Park => "park",
        });
        put(&mut job, "on_unknown", on_unknown);
        let retry = self.retry.json();
        put(&mut job, "retry", (!retry.is_empty()).then_some(retry));
        Ok(job)
    }

    fn add_payload(&self, job: &mut Map<String, Value>) -> Result<(), Failure> {
        let bytes = match (&self.payload, &self.payload_file) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, Some(file)) => read_payload(file)?,
            (None, None) => return Ok(()),
        };
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok();
        match String::from_utf8(bytes) {
            Ok(text) => job.insert("payload_text".to_owned(), Value::String(text)),
            Err(error) => {
                let text = BASE64.encode(error.as_bytes());
                job.insert("payload_base64".to_owned(), Value::String(text))
            }
        };
        // Sent as text so that every byte arrives as it was typed, but named for what it is.
        if is_json && self.content_type.is_none() {
            put(job, "content_type", Some("application/json"));
        }
        Ok(())
    }
}

impl RetryFlags {
    fn json(&self) -> Map<String, Value> {
        let mut retry = Map::new();
        put(&mut retry, "max_attempts", self.retry_attempts);
        put(&mut retry, "delay", self.retry_fixed.as_ref());
        put(&mut retry, "first", self.retry_first.as_ref());
        put(&mut retry, "factor", self.retry_factor);
        put(&mut retry, "delays", (!self.retry_delays.is_empty()).then_some(&self.retry_delays));
        put(&mut retry, "cap", self.retry_cap.as_ref());
        put(&mut retry, "jitter_percent", self.retry_jitter);
        put(&mut retry, "max_age", self.retry_max_age.as_ref());
        retry
    }
}

/// Sets a field when there is a value for it.
pub(crate) fn put(
    object: &mut Map<String, Value>,
    name: &str,
    value: Option<impl serde::Serialize>,
) {
    if let Some(value) = value {
        object.insert(name.to_owned(), json!(value));
    }
}

fn read_payload(file: &PathBuf) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().lock().take(PAYLOAD_READ_MAX).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|f| f.take(PAYLOAD_READ_MAX).read_to_end(&mut bytes))
    };
    read.map_err(|error| {
        Failure::io(format_args!("reading the payload from {}", file.display()), &error)
    })?;
    Ok(bytes)
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write a header as `Name: value`")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_split_at_the_first_colon() {
        assert_eq!(header("a: b:c"), Ok(("a".to_owned(), "b:c".to_owned())));
        assert!(header("nothing").is_err());
    }
}
