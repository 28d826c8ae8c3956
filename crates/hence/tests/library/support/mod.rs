//! What the tests share: a recording handler, short names for things, and a deadline for waiting.

pub(crate) mod disk;
pub(crate) mod receiver;
pub(crate) mod scripted;

use std::future::Ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hence::client::{Added, LeaseRequest};
use hence::core::effect::Delivery;
use hence::core::id::{JobId, JobName, QueueName, Token, WorkerName};
use hence::core::job::{AttemptEnd, JobState};
use hence::core::retry::{Backoff, RetryPolicy};
use hence::core::time::Millis;
use hence::handler::Failure;
use hence::testing::{TestHence, in_memory};
use hence::{Builder, Client, Error, NewJob};

pub(crate) const SECOND: Millis = Millis::from_secs(1);
pub(crate) const MINUTE: Millis = Millis::from_secs(60);
pub(crate) const HOUR: Millis = Millis::from_secs(3600);

/// How long a test waits for a signal before it fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// The future's value, within the deadline.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("this takes no time")
}

/// One call of the recording handler.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Call {
    pub(crate) text: String,
    pub(crate) attempt: u32,
    pub(crate) token: Token,
}

/// What the recording handler was called with, in order.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<Call>>>);

impl Seen {
    /// A handler that writes down what it gets, and succeeds.
    pub(crate) fn note(
        &self,
    ) -> impl Fn(String, Delivery) -> Ready<Result<(), Failure>> + Send + Sync + 'static {
        let seen = self.clone();
        move |text, delivery| {
            seen.push(text, &delivery);
            std::future::ready(Ok(()))
        }
    }

    pub(crate) fn push(&self, text: String, delivery: &Delivery) {
        let (attempt, token) = (delivery.lease.attempt, delivery.lease.token);
        self.0.lock().unwrap().push(Call { text, attempt, token });
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.calls().into_iter().map(|call| call.text).collect()
    }
}

/// A Hence in memory whose handler `note` writes to `seen`.
pub(crate) async fn start(seen: &Seen) -> TestHence {
    start_on(in_memory(), seen).await
}

pub(crate) async fn start_on(builder: Builder, seen: &Seen) -> TestHence {
    TestHence::start(builder.handler("note", seen.note()).unwrap()).await.unwrap()
}

/// A job for the recording handler.
pub(crate) fn note(text: &str) -> NewJob {
    NewJob::handler("note").unwrap().json(&text).unwrap()
}

/// The name of a job of the default queue, without a key.
pub(crate) fn name(id: &str) -> JobName {
    let queue = QueueName::default_queue();
    JobName { queue, key: None, id: JobId::new(id).unwrap() }
}

pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

/// The same delay between attempts.
pub(crate) fn every(delay: Millis, max_attempts: u32) -> RetryPolicy {
    retry(Backoff::Fixed(delay), max_attempts)
}

pub(crate) fn retry(backoff: Backoff, max_attempts: u32) -> RetryPolicy {
    RetryPolicy { max_attempts, ..RetryPolicy::new(backoff) }
}

/// A worker's call that does not wait.
pub(crate) fn call(queues: &[&str], max: u32) -> LeaseRequest {
    LeaseRequest {
        worker: WorkerName::new("tester").unwrap(),
        queues: queues.iter().map(|name| queue(name)).collect(),
        max,
        lease: None,
        wait: Duration::ZERO,
    }
}

/// The same, but patient.
pub(crate) fn patient_call(queues: &[&str], max: u32) -> LeaseRequest {
    LeaseRequest { wait: DEADLINE, ..call(queues, max) }
}

/// Takes one job of a queue that has one ready.
pub(crate) async fn lease_one(client: &Client, from: &str) -> Delivery {
    let mut leased = client.lease(call(&[from], 1)).await.unwrap();
    leased.pop().expect("a job is ready")
}

/// What a delivery carries, as text.
pub(crate) fn text_of(delivery: &Delivery) -> String {
    String::from_utf8(delivery.job.payload.bytes.to_vec()).unwrap()
}

pub(crate) async fn state(client: &Client, name: &JobName) -> JobState {
    client.show(name.clone()).await.unwrap().state
}

/// How each attempt of a job ended.
pub(crate) async fn ends(client: &Client, name: &JobName) -> Vec<(u32, AttemptEnd)> {
    let attempts = client.attempts(name.clone()).await.unwrap();
    attempts.iter().map(|attempt| (attempt.attempt, attempt.end)).collect()
}

/// The names of what was added, all of which was accepted.
pub(crate) fn names(added: Vec<Result<Added, Error>>) -> Vec<JobName> {
    added.into_iter().map(|added| added.unwrap().view.job.name.clone()).collect()
}
