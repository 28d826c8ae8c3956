//! A worker's half of the lease protocol: take, extend, acknowledge, give back.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::api::{Api, Path};
use crate::clock::{self, Instant};
use crate::failure::Failure;
use crate::wire::{Deliveries, Delivery};

/// How often the end of a job is told to a server that does not answer, before it is left to the
/// end of the lease.
const REPORT_TRIES: u32 = 5;

/// The jobs of some queues, for one worker.
#[derive(Debug, Clone)]
pub(crate) struct Leases {
    api: Api,
    worker: Arc<str>,
    queues: Arc<[String]>,
    lease: Duration,
}

/// A job at hand.
#[derive(Debug)]
pub(crate) struct Leased {
    /// What the server said about it.
    pub(crate) delivery: Delivery,
    /// When the lease ends, on this machine's own clock: late by the way of the answer, which is
    /// far less than the half of a lease after which it is extended.
    pub(crate) until: Instant,
}

impl Leases {
    pub(crate) fn new(api: Api, worker: String, queues: Vec<String>, lease: Duration) -> Self {
        Leases { api, worker: worker.into(), queues: queues.into(), lease }
    }

    /// How long a lease is.
    pub(crate) fn span(&self) -> Duration {
        self.lease
    }

    /// Up to `max` jobs, waiting up to `wait` for the first.
    pub(crate) async fn take(&self, max: usize, wait: Duration) -> Result<Vec<Leased>, Failure> {
        let request = json!({
            "worker": &*self.worker,
            "queues": &*self.queues,
            "max": max,
            "lease": span(self.lease),
            "wait": span(wait),
        });
        let answer = self.api.post_waiting(&Path::new("/v1/leases"), &request, wait).await?;
        let deliveries: Deliveries =
            serde_json::from_slice(&answer.body).map_err(Failure::unexpected)?;
        let until = clock::instant() + self.lease;
        Ok(deliveries.jobs.into_iter().map(|delivery| Leased { delivery, until }).collect())
    }

    /// Holds the lease for its whole span again. None when it is lost for good.
    pub(crate) async fn extend(&self, token: &str) -> Result<Option<Instant>, Failure> {
        let asked = clock::instant();
        match self.api.post(&lease_path(token, "extend"), &json!({"lease": span(self.lease)})).await
        {
            Ok(_) => Ok(Some(asked + self.lease)),
            Err(failure) if failure.is_passing() => Err(failure),
            Err(_) => Ok(None),
        }
    }

    /// The job is done.
    pub(crate) async fn ack(&self, token: &str, result: Option<Value>) -> Result<(), Failure> {
        self.report(token, "ack", &result.unwrap_or_else(|| json!({}))).await
    }

    /// The job is not done; its retry policy decides.
    pub(crate) async fn nack(&self, token: &str, reason: &str) -> Result<(), Failure> {
        self.report(token, "nack", &json!({"reason": reason})).await
    }

    /// The job is given back; the attempt does not count.
    pub(crate) async fn release(
        &self,
        token: &str,
        delay: Duration,
        reason: &str,
    ) -> Result<(), Failure> {
        let body = json!({"how": "release", "delay": span(delay), "reason": reason});
        self.report(token, "nack", &body).await
    }

    /// Reporting twice is harmless, so a silent server is asked again: otherwise a job that is done
    /// would be done once more.
    async fn report(&self, token: &str, verb: &str, body: &Value) -> Result<(), Failure> {
        let mut tries = 1;
        loop {
            match self.api.post(&lease_path(token, verb), body).await {
                Err(failure) if failure.is_passing() && tries < REPORT_TRIES => {
                    clock::sleep(Duration::from_millis(200) * 2u32.pow(tries)).await;
                    tries += 1;
                }
                other => return other.map(drop),
            }
        }
    }
}

/// The body of an acknowledgement that carries a result.
pub(crate) fn result_body(bytes: Vec<u8>, content_type: Option<&str>) -> Value {
    let mut body = match String::from_utf8(bytes) {
        Ok(text) => json!({"result_text": text}),
        Err(error) => json!({"result_base64": BASE64.encode(error.as_bytes())}),
    };
    if let Some(content_type) = content_type {
        body["content_type"] = json!(content_type);
    }
    body
}

fn lease_path(token: &str, verb: &str) -> Path {
    Path::new("/v1/leases").push(token).push(verb)
}

fn span(span: Duration) -> String {
    format!("{}ms", span.as_millis())
}
