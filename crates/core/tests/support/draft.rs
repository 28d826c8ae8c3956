//! Jobs in few words: `pull("k/a").due(1_000)` is job `a` of key `k` in the default queue, for a
//! worker, due at one second.

use bytes::Bytes;
use hence_core::id::{HandlerName, JobId, JobName, Key, QueueName};
use hence_core::job::{
    HttpTarget, IdOrigin, JobSpec, KeyOnFailure, OnConflict, OnUnknown, Payload, Submission, Target,
};
use hence_core::retry::{Backoff, RetryPolicy};
use hence_core::time::Millis;

use super::at;

/// `a`, `key/a`, `queue/key/a`, or `queue//a` for a job without a key.
pub(crate) fn name(text: &str) -> JobName {
    let parts: Vec<&str> = text.split('/').collect();
    let (queue, key, id) = match parts[..] {
        [id] => ("default", "", id),
        [key, id] => ("default", key, id),
        [queue, key, id] => (queue, key, id),
        _ => panic!("{text} is not a name"),
    };
    let key = (!key.is_empty()).then(|| Key::new(key).expect("a good name"));
    JobName { queue: queue_name(queue), key, id: JobId::new(id).expect("a good name") }
}

pub(crate) fn queue_name(text: &str) -> QueueName {
    QueueName::new(text).expect("a good name")
}

pub(crate) fn ms(millis: u64) -> Millis {
    Millis::new(millis)
}

/// So many attempts, always this far apart, without jitter.
pub(crate) fn every(delay: u64, max_attempts: u32) -> RetryPolicy {
    let backoff = Backoff::Fixed(ms(delay));
    RetryPolicy { max_attempts, backoff, jitter_percent: 0, ..RetryPolicy::default() }
}

/// A submission in the making.
#[derive(Clone, Debug)]
pub(crate) struct Draft(pub(crate) Submission);

/// A job this node sends.
pub(crate) fn push(text: &str) -> Draft {
    draft(text, Target::Http(HttpTarget::post("https://example.com/hook").into()))
}

/// A job that workers pull.
pub(crate) fn pull(text: &str) -> Draft {
    draft(text, Target::Worker)
}

/// A job for the handler `h` of this process.
pub(crate) fn handled(text: &str) -> Draft {
    draft(text, Target::Handler(HandlerName::new("h").expect("a good name")))
}

fn draft(text: &str, target: Target) -> Draft {
    Draft(Submission {
        name: name(text),
        id_origin: IdOrigin::Given,
        due_at: at(0),
        on_conflict: OnConflict::Replace,
        spec: JobSpec { retry: every(100, 3), ..JobSpec::new(target) },
        fingerprint: None,
    })
}

impl Draft {
    /// For the handler of this name.
    pub(crate) fn by(mut self, handler: &str) -> Draft {
        self.0.spec.target = Target::Handler(HandlerName::new(handler).expect("a good name"));
        self
    }

    pub(crate) fn due(mut self, millis: i64) -> Draft {
        self.0.due_at = at(millis);
        self
    }

    pub(crate) fn fresh(mut self) -> Draft {
        self.0.id_origin = IdOrigin::Drawn;
        self
    }

    pub(crate) fn keep(mut self) -> Draft {
        self.0.on_conflict = OnConflict::Keep;
        self
    }

    pub(crate) fn reject(mut self) -> Draft {
        self.0.on_conflict = OnConflict::Reject;
        self
    }

    pub(crate) fn fingerprint(mut self, fingerprint: u64) -> Draft {
        self.0.fingerprint = Some(fingerprint);
        self.0.id_origin = IdOrigin::Key;
        self
    }

    /// The same, though the id is the producer's choice.
    pub(crate) fn fingerprint_beside_id(mut self, fingerprint: u64) -> Draft {
        self.0.fingerprint = Some(fingerprint);
        self
    }

    pub(crate) fn retry(mut self, retry: RetryPolicy) -> Draft {
        self.0.spec.retry = retry;
        self
    }

    pub(crate) fn timeout(mut self, millis: u64) -> Draft {
        self.0.spec.timeout = ms(millis);
        self
    }

    pub(crate) fn expires(mut self, millis: u64) -> Draft {
        self.0.spec.expires_after = Some(ms(millis));
        self
    }

    pub(crate) fn retention(mut self, millis: u64) -> Draft {
        self.0.spec.retention = ms(millis);
        self
    }

    pub(crate) fn step_aside(mut self) -> Draft {
        self.0.spec.key_on_failure = KeyOnFailure::StepAside;
        self
    }

    pub(crate) fn park(mut self) -> Draft {
        self.0.spec.on_unknown = OnUnknown::Park;
        self
    }

    pub(crate) fn keep_result(mut self) -> Draft {
        self.0.spec.keep_result = true;
        self
    }

    pub(crate) fn payload(mut self, text: &str) -> Draft {
        self.0.spec.payload = payload(text);
        self
    }
}

pub(crate) fn payload(text: &str) -> Payload {
    Payload { bytes: Bytes::copy_from_slice(text.as_bytes()), content_type: None }
}
