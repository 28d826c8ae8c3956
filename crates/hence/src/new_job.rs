//! What a producer fills in to schedule a job.

use std::sync::Arc;

use bytes::Bytes;
use hence_core::error::Rejection;
use hence_core::id::{HandlerName, JobId, JobName, Key, QueueName};
use hence_core::job::{
    HttpTarget, IdOrigin, JobSpec, KeyOnFailure, OnConflict, OnUnknown, Payload, Submission, Target,
};
use hence_core::retry::RetryPolicy;
use hence_core::time::{Millis, Timestamp};
use hence_core::when::{Problem, Zone, parse_instant};
use serde::Serialize;
use sha1::{Digest, Sha1};

use crate::error::Error;

/// A job to be. Make one with [`NewJob::http`], [`NewJob::worker`] or [`NewJob::handler`], say what
/// differs from the defaults, and hand it to [`Client::add`](crate::Client::add).
///
/// ```
/// use hence::core::retry::RetryPolicy;
/// use hence::core::time::{Millis, Timestamp};
/// use hence::{Due, NewJob};
///
/// # fn main() -> Result<(), hence::Error> {
/// let job = NewJob::http("https://example.com/renew")
///     .queue("billing")?
///     .key("user:1234")?
///     .id("renew-subscription")?
///     .json(&["monthly"])?
///     .at(Timestamp::from_millis(1_789_000_000_000))
///     .retry(RetryPolicy { max_attempts: 3, ..RetryPolicy::default() })
///     .timeout(Millis::from_secs(10));
/// assert_eq!(job.due, Due::At(Timestamp::from_millis(1_789_000_000_000)));
/// assert!(NewJob::worker().queue("no spaces").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct NewJob {
    /// The queue it goes to.
    pub queue: QueueName,
    /// The key it runs under.
    pub key: Option<Key>,
    /// Its id, or how to find one.
    pub id: NewId,
    /// When it is due.
    pub due: Due,
    /// What if a job of the same name exists. By default `replace`, or `keep` for an id that is a
    /// digest of the content and for requests with an idempotency key.
    pub on_conflict: Option<OnConflict>,
    /// Everything else.
    pub spec: JobSpec,
    /// The caller's idempotency key and a digest of the request it came with.
    pub idempotency: Option<Idempotency>,
}

/// A job's id, or how to find one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NewId {
    /// Hence draws one that nobody else has.
    Drawn,
    /// The producer chose it.
    Given(JobId),
    /// A digest of target and payload: identical jobs of a (queue, key) collapse into one.
    ContentHash,
}

/// When a job is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// At once.
    Now,
    /// At this instant.
    At(Timestamp),
    /// So long from now.
    In(Millis),
}

/// A request that may be repeated without being carried out twice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Idempotency {
    /// What the caller repeats.
    pub key: String,
    /// A digest of what it asked for: the same key with another request is refused.
    pub fingerprint: u64,
}

impl NewJob {
    /// A POST to a URL.
    pub fn http(url: &str) -> Self {
        Self::new(Target::Http(Arc::new(HttpTarget::post(url))))
    }

    /// Work for whoever pulls from the queue.
    pub fn worker() -> Self {
        Self::new(Target::Worker)
    }

    /// Work for the handler registered under this name in this process.
    pub fn handler(name: &str) -> Result<Self, Rejection> {
        Ok(Self::new(Target::Handler(HandlerName::new(name)?)))
    }

    /// Work for this target, due now, everything else by default.
    pub fn new(target: Target) -> Self {
        NewJob {
            queue: QueueName::default_queue(),
            key: None,
            id: NewId::Drawn,
            due: Due::Now,
            on_conflict: None,
            spec: JobSpec::new(target),
            idempotency: None,
        }
    }

    /// In this queue.
    pub fn queue(mut self, name: &str) -> Result<Self, Rejection> {
        self.queue = QueueName::new(name)?;
        Ok(self)
    }

    /// Under this key: one at a time, in order of due time.
    pub fn key(mut self, key: &str) -> Result<Self, Rejection> {
        self.key = Some(Key::new(key)?);
        Ok(self)
    }

    /// With this id.
    pub fn id(mut self, id: &str) -> Result<Self, Rejection> {
        self.id = NewId::Given(JobId::new(id)?);
        Ok(self)
    }

    /// Due at this instant.
    #[must_use]
    pub fn at(mut self, due_at: Timestamp) -> Self {
        self.due = Due::At(due_at);
        self
    }

    /// Due when these words say: `7pm tomorrow`, `next friday at 9am`, `2026-12-24 18:00`. The
    /// time is that of the [client](crate::Client::now); the zone is for what names none itself.
    ///
    /// ```
    /// use hence::core::time::Timestamp;
    /// use hence::core::when::Zone;
    /// use hence::{Due, NewJob};
    ///
    /// # fn main() -> Result<(), hence::core::when::Problem> {
    /// let now = Timestamp::from_millis(1_772_638_200_000); // Wednesday 2026-03-04 15:30 UTC
    /// let paris = Zone::named("Europe/Paris")?;
    /// let job = NewJob::worker().at_words("7pm tomorrow", now, &paris)?;
    /// assert_eq!(job.due, Due::At(Timestamp::from_millis(1_772_733_600_000)));
    /// assert!(NewJob::worker().at_words("friday at 3", now, &paris).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn at_words(self, text: &str, now: Timestamp, zone: &Zone) -> Result<Self, Problem> {
        Ok(self.at(parse_instant(text, now, zone)?.instant))
    }

    /// Due so long from now.
    #[must_use]
    pub fn after(mut self, delay: Millis) -> Self {
        self.due = Due::In(delay);
        self
    }

    /// Carrying these bytes.
    #[must_use]
    pub fn payload(mut self, bytes: impl Into<Bytes>) -> Self {
        self.spec.payload = Payload { bytes: bytes.into(), content_type: None };
        self
    }

    /// Carrying this value as JSON.
    pub fn json(mut self, value: &impl Serialize) -> Result<Self, Error> {
        let bytes = Bytes::from(serde_json::to_vec(value)?);
        self.spec.payload = Payload { bytes, content_type: Some(Arc::from("application/json")) };
        Ok(self)
    }

    /// With this retry policy; the default one tries ten times, after a second and then twice as
    /// long each time, at most an hour, with 10 % jitter. [`RetryPolicy::new`] takes other delays.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.spec.retry = policy;
        self
    }

    /// With so much time for each attempt.
    #[must_use]
    pub fn timeout(mut self, timeout: Millis) -> Self {
        self.spec.timeout = timeout;
        self
    }

    /// Not started later than this after it was due.
    #[must_use]
    pub fn expires_after(mut self, span: Millis) -> Self {
        self.spec.expires_after = Some(span);
        self
    }

    /// Can be looked at for so long after it ended.
    #[must_use]
    pub fn retention(mut self, span: Millis) -> Self {
        self.spec.retention = span;
        self
    }

    /// The result is kept as long as the job can be looked at.
    #[must_use]
    pub fn keep_result(mut self) -> Self {
        self.spec.keep_result = true;
        self
    }

    /// What if a job of the same name exists.
    #[must_use]
    pub fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.on_conflict = Some(on_conflict);
        self
    }

    /// What its failure means for the later jobs of its key.
    #[must_use]
    pub fn key_on_failure(mut self, choice: KeyOnFailure) -> Self {
        self.spec.key_on_failure = choice;
        self
    }

    /// What to do when nobody can say how an attempt ended.
    #[must_use]
    pub fn on_unknown(mut self, choice: OnUnknown) -> Self {
        self.spec.on_unknown = choice;
        self
    }

    /// The submission for the core; `draw` makes a fresh id, unlike any other.
    pub(crate) fn into_submission(
        self,
        now: Timestamp,
        draw: impl FnOnce(Timestamp) -> JobId,
    ) -> Result<Submission, Rejection> {
        let due_at = match self.due {
            Due::Now => now,
            Due::At(instant) => instant,
            Due::In(delay) => now.plus(delay),
        };
        let by_digest = self.id == NewId::ContentHash || self.idempotency.is_some();
        let (id, id_origin) = match (self.id, &self.idempotency) {
            (NewId::Given(id), _) => (id, IdOrigin::Given),
            (NewId::ContentHash, _) => (content_id(&self.spec)?, IdOrigin::Given),
            (NewId::Drawn, Some(repeat)) => {
                (digest_id("idem-", &[repeat.key.as_bytes()])?, IdOrigin::Key)
            }
            (NewId::Drawn, None) => (draw(now), IdOrigin::Drawn),
        };
        let default = if by_digest { OnConflict::Keep } else { OnConflict::Replace };
        Ok(Submission {
            name: JobName { queue: self.queue, key: self.key, id },
            id_origin,
            due_at,
            on_conflict: self.on_conflict.unwrap_or(default),
            spec: self.spec,
            fingerprint: self.idempotency.map(|repeat| repeat.of(id_origin)),
        })
    }
}

impl Idempotency {
    /// What tells this request from others for a job of the same name. Where the name does not
    /// stand for the key, the key is a part of it.
    fn of(&self, id_origin: IdOrigin) -> u64 {
        match id_origin {
            IdOrigin::Key | IdOrigin::Drawn => self.fingerprint,
            IdOrigin::Given => {
                let digest = Sha1::new()
                    .chain_update(self.key.as_bytes())
                    .chain_update(self.fingerprint.to_be_bytes())
                    .finalize();
                digest.iter().take(8).fold(0, |word, byte| word << 8 | u64::from(*byte))
            }
        }
    }
}

fn content_id(spec: &JobSpec) -> Result<JobId, Rejection> {
    let target = match &spec.target {
        Target::Http(http) => http_text(http),
        Target::Worker => "worker".to_owned(),
        Target::Handler(name) => format!("handler {name}"),
    };
    digest_id("sha1-", &[target.as_bytes(), b"\0", &spec.payload.bytes])
}

/// A request less its body. Without headers it is what it was before they counted: ids stay.
fn http_text(http: &HttpTarget) -> String {
    let mut text = format!("{} {}", http.method, http.url);
    for (name, value) in &http.headers {
        text.extend(["\n", &name.to_ascii_lowercase(), ": ", value]);
    }
    text
}

fn digest_id(prefix: &str, parts: &[&[u8]]) -> Result<JobId, Rejection> {
    let mut digest = Sha1::new();
    for part in parts {
        digest.update(part);
    }
    let digest = digest.finalize();
    let hex = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let hex = hex.filter_map(|digit| char::from_digit(u32::from(digit), 16));
    JobId::new(&prefix.chars().chain(hex).collect::<String>())
}
