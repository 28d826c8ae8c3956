//! A job that waits, in one piece of memory: a third of what it takes in its parts, and a window
//! may hold very many. It is unpacked when its time comes, or when somebody asks for it.
//!
//! This is not how jobs are stored. The bytes never leave the process, so they may change with
//! every version and are trusted.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use crate::id::{HandlerName, JobId, JobName, JobNumber, Key, QueueName};
use crate::job::{HttpTarget, Job, KeyOnFailure, OnUnknown, Payload, Target};
use crate::retry::{Backoff, RetryPolicy};
use crate::time::{Millis, Timestamp};

/// A job, packed. Its number and its queue are kept beside it.
pub(super) struct Packed(Box<[u8]>);

const HAS_KEY: u8 = 1;
const HAS_CONTENT_TYPE: u8 = 1 << 1;
const HAS_EXPIRY: u8 = 1 << 2;
const KEEPS_RESULT: u8 = 1 << 3;
const STEPS_ASIDE: u8 = 1 << 4;
const PARKS: u8 = 1 << 5;
const HAS_FINGERPRINT: u8 = 1 << 6;
const HAS_RETRY: u8 = 1 << 7;

const WORKER: u8 = 0;
const HTTP: u8 = 1;
const HANDLER: u8 = 2;

const FIXED: u8 = 0;
const EXPONENTIAL: u8 = 1;

/// What the numbers of a job take at most, and the lengths of its texts.
const NUMBERS_BYTES: usize = 128;

impl Packed {
    /// None for a job that has what few have: the tick that made it, or a list of delays.
    pub(super) fn new(job: &Job) -> Option<Packed> {
        if job.occurrence.is_some() || matches!(job.retry.backoff, Backoff::List(_)) {
            return None;
        }
        let texts = job.payload.bytes.len() + job.name.id.as_str().len();
        let mut out = Writer(Vec::with_capacity(NUMBERS_BYTES + texts));
        out.0.push(flags_of(job));
        if let Some(key) = &job.name.key {
            out.text(key.as_str());
        }
        out.text(job.name.id.as_str());
        out.bytes(&job.payload.bytes);
        if let Some(content_type) = &job.payload.content_type {
            out.text(content_type);
        }
        out.instant(Timestamp::EPOCH, job.submitted_at);
        out.instant(job.submitted_at, job.scheduled_for);
        out.target(&job.target);
        if job.retry != RetryPolicy::default() {
            out.retry(&job.retry);
        }
        out.number(job.timeout.get());
        if let Some(at) = job.expires_at {
            out.instant(job.scheduled_for, at);
        }
        out.number(job.retention.get());
        if let Some(fingerprint) = job.fingerprint {
            out.number(fingerprint);
        }
        Some(Packed(Box::from(out.0.as_slice())))
    }

    /// The job as it was.
    pub(super) fn unpack(&self, number: JobNumber, queue: &QueueName) -> Job {
        let mut input = Reader(&self.0);
        let flags = input.byte();
        let has = |bit: u8| flags & bit != 0;
        let key = has(HAS_KEY).then(|| Key::known(input.text()));
        let id = JobId::known(input.text());
        let bytes = Bytes::copy_from_slice(input.bytes());
        let content_type = has(HAS_CONTENT_TYPE).then(|| Arc::from(input.text()));
        let submitted_at = input.instant(Timestamp::EPOCH);
        let scheduled_for = input.instant(submitted_at);
        let key_on_failure =
            if has(STEPS_ASIDE) { KeyOnFailure::StepAside } else { KeyOnFailure::Block };
        Job {
            number,
            name: JobName { queue: queue.clone(), key, id },
            submitted_at,
            scheduled_for,
            payload: Payload { bytes, content_type },
            target: input.target(),
            retry: if has(HAS_RETRY) { input.retry() } else { RetryPolicy::default() },
            timeout: Millis::new(input.number()),
            expires_at: has(HAS_EXPIRY).then(|| input.instant(scheduled_for)),
            retention: Millis::new(input.number()),
            keep_result: has(KEEPS_RESULT),
            key_on_failure,
            on_unknown: if has(PARKS) { OnUnknown::Park } else { OnUnknown::Retry },
            occurrence: None,
            fingerprint: has(HAS_FINGERPRINT).then(|| input.number()),
        }
    }

    /// Its key and its id.
    pub(super) fn name(&self) -> (Option<&str>, &str) {
        let mut input = Reader(&self.0);
        let keyed = input.byte() & HAS_KEY != 0;
        (keyed.then(|| input.text()), input.text())
    }

    /// How long its payload is.
    pub(super) fn payload_bytes(&self) -> usize {
        let mut input = Reader(&self.0);
        if input.byte() & HAS_KEY != 0 {
            input.bytes();
        }
        input.bytes();
        input.bytes().len()
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, id) = self.name();
        f.debug_struct("Packed").field("key", &key).field("id", &id).finish_non_exhaustive()
    }
}

fn flags_of(job: &Job) -> u8 {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let steps_aside = match job.key_on_failure {
        KeyOnFailure::Block => false,
        KeyOnFailure::StepAside => true,
    };
    let parks = match job.on_unknown {
        OnUnknown::Retry => false,
        OnUnknown::Park => true,
    };
    flag(job.name.key.is_some(), HAS_KEY)
        | flag(job.payload.content_type.is_some(), HAS_CONTENT_TYPE)
        | flag(job.expires_at.is_some(), HAS_EXPIRY)
        | flag(job.keep_result, KEEPS_RESULT)
        | flag(steps_aside, STEPS_ASIDE)
        | flag(parks, PARKS)
        | flag(job.fingerprint.is_some(), HAS_FINGERPRINT)
        | flag(job.retry != RetryPolicy::default(), HAS_RETRY)
}

struct Writer(Vec<u8>);

impl Writer {
    /// Seven bits a byte, the lowest first.
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// As the distance from another one; the sign goes last, so that short ones stay short.
    fn instant(&mut self, from: Timestamp, to: Timestamp) {
        let apart = to.as_millis().wrapping_sub(from.as_millis());
        self.number(((apart << 1) ^ (apart >> 63)) as u64);
    }

    fn target(&mut self, target: &Target) {
        match target {
            Target::Worker => self.0.push(WORKER),
            Target::Handler(name) => {
                self.0.push(HANDLER);
                self.text(name.as_str());
            }
            Target::Http(http) => {
                self.0.push(HTTP);
                self.text(&http.method);
                self.text(&http.url);
                self.number(http.headers.len() as u64);
                for (name, value) in &http.headers {
                    self.text(name);
                    self.text(value);
                }
            }
        }
    }

    fn retry(&mut self, retry: &RetryPolicy) {
        self.number(u64::from(retry.max_attempts));
        match &retry.backoff {
            Backoff::Fixed(delay) => {
                self.0.push(FIXED);
                self.number(delay.get());
            }
            Backoff::Exponential { first, factor_percent } => {
                self.0.push(EXPONENTIAL);
                self.number(first.get());
                self.number(u64::from(*factor_percent));
            }
            Backoff::List(_) => unreachable!("a job with a list of delays is not packed"),
        }
        self.0.push(retry.jitter_percent);
        self.number(retry.cap.get());
        self.0.push(u8::from(retry.max_age.is_some()));
        if let Some(age) = retry.max_age {
            self.number(age.get());
        }
    }
}

/// Reads what [`Writer`] wrote.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            unreachable!("what was packed can be unpacked");
        };
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return number;
            }
            shift += 7;
        }
    }

    fn bytes(&mut self) -> &'a [u8] {
        let length = self.number() as usize;
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }

    fn text(&mut self) -> &'a str {
        match core::str::from_utf8(self.bytes()) {
            Ok(text) => text,
            Err(_) => unreachable!("what was packed as text is text"),
        }
    }

    fn string(&mut self) -> String {
        String::from(self.text())
    }

    fn instant(&mut self, from: Timestamp) -> Timestamp {
        let number = self.number();
        let apart = (number >> 1) as i64 ^ -((number & 1) as i64);
        Timestamp::from_millis(from.as_millis().wrapping_add(apart))
    }

    fn target(&mut self) -> Target {
        match self.byte() {
            WORKER => Target::Worker,
            HANDLER => Target::Handler(HandlerName::known(self.text())),
            _ => {
                let (method, url) = (self.string(), self.string());
                let count = self.number();
                let headers = (0..count).map(|_| (self.string(), self.string())).collect();
                Target::Http(Arc::new(HttpTarget { method, url, headers }))
            }
        }
    }

    fn retry(&mut self) -> RetryPolicy {
        let max_attempts = self.number() as u32;
        let backoff = match self.byte() {
            FIXED => Backoff::Fixed(Millis::new(self.number())),
            _ => Backoff::Exponential {
                first: Millis::new(self.number()),
                factor_percent: self.number() as u32,
            },
        };
        RetryPolicy {
            max_attempts,
            backoff,
            jitter_percent: self.byte(),
            cap: Millis::new(self.number()),
            max_age: (self.byte() == 1).then(|| Millis::new(self.number())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ScheduleId;
    use crate::job::{JobSpec, Occurrence};

    fn plain() -> Job {
        let id = JobId::new("a").unwrap();
        let name = JobName { queue: QueueName::default_queue(), key: None, id };
        let [now, due_at] = [1_700_000_000_123, 1_700_000_050_000].map(Timestamp::from_millis);
        JobSpec::new(Target::Worker).job(JobNumber(7), name, now, due_at)
    }

    /// Each with one thing changed, and one with everything.
    fn jobs() -> Vec<(&'static str, Job)> {
        let mut http = HttpTarget::post("https://example.com/a?b=c");
        http.headers.push((String::from("x-tenant"), String::from("Zoë")));
        http.headers.push((String::from("x-empty"), String::new()));
        let exponential = RetryPolicy {
            max_attempts: 10_000,
            backoff: Backoff::Exponential { first: Millis::new(u64::MAX), factor_percent: 10_000 },
            jitter_percent: 100,
            cap: Millis::ZERO,
            max_age: Some(Millis::new(1)),
        };
        let fixed =
            RetryPolicy { backoff: Backoff::Fixed(Millis::new(300)), ..exponential.clone() };
        let name = |key: &str, id: &str| JobName {
            key: Some(Key::new(key).unwrap()),
            id: JobId::new(id).unwrap(),
            ..plain().name
        };
        let payload = Payload {
            bytes: Bytes::from(alloc::vec![0xff; 300]),
            content_type: Some("a/b".into()),
        };
        let everything = Job {
            name: name(&"k".repeat(256), "Zoë's job 🙂"),
            payload: payload.clone(),
            target: Target::Http(Arc::new(http.clone())),
            retry: exponential.clone(),
            expires_at: Some(Timestamp::MAX),
            keep_result: true,
            key_on_failure: KeyOnFailure::StepAside,
            on_unknown: OnUnknown::Park,
            fingerprint: Some(u64::MAX),
            ..plain()
        };
        let handler = Target::Handler(HandlerName::new("mail.send").unwrap());
        alloc::vec![
            ("plain", plain()),
            ("key", Job { name: name("user:1", "x"), ..plain() }),
            ("payload", Job { payload, ..plain() }),
            ("http", Job { target: Target::Http(Arc::new(http)), ..plain() }),
            ("handler", Job { target: handler, ..plain() }),
            ("exponential", Job { retry: exponential, ..plain() }),
            ("fixed", Job { retry: fixed, ..plain() }),
            ("due before it was submitted", Job { scheduled_for: Timestamp::EPOCH, ..plain() }),
            (
                "the ends of time",
                Job { submitted_at: Timestamp::MAX, scheduled_for: Timestamp::MIN, ..plain() }
            ),
            ("expiry", Job { expires_at: Some(Timestamp::EPOCH), ..plain() }),
            ("no retention", Job { retention: Millis::ZERO, ..plain() }),
            ("timeout", Job { timeout: Millis::new(u64::MAX), ..plain() }),
            ("keeps its result", Job { keep_result: true, ..plain() }),
            ("steps aside", Job { key_on_failure: KeyOnFailure::StepAside, ..plain() }),
            ("parks", Job { on_unknown: OnUnknown::Park, ..plain() }),
            ("fingerprint", Job { fingerprint: Some(0), ..plain() }),
            ("everything", everything),
        ]
    }

    #[test]
    fn what_was_packed_is_unpacked_as_it_was() {
        for (what, job) in jobs() {
            let packed = Packed::new(&job).expect(what);
            assert_eq!(packed.unpack(job.number, &job.name.queue), job, "{what}");
            assert_eq!(packed.name(), super::super::index::parts(&job.name), "{what}");
            assert_eq!(packed.payload_bytes(), job.payload.bytes.len(), "{what}");
        }
    }

    #[test]
    fn what_few_have_is_not_packed() {
        let schedule = ScheduleId::new("nightly").unwrap();
        let occurrence = Some(Occurrence { schedule, at: Timestamp::EPOCH });
        assert!(Packed::new(&Job { occurrence, ..plain() }).is_none());
        let backoff = Backoff::List(alloc::vec![Millis::new(1)]);
        let retry = RetryPolicy { backoff, ..RetryPolicy::default() };
        assert!(Packed::new(&Job { retry, ..plain() }).is_none());
    }
}
