//! The verbs of workers that pull: take, extend, acknowledge, give back.

use std::sync::Arc;
use std::time::Duration;

use hence_core::effect::{Answer, Delivery};
use hence_core::error::Rejection;
use hence_core::id::{QueueName, Token, WorkerName};
use hence_core::input::{Nack, Request};
use hence_core::job::{Lease, Payload};
use hence_core::limits;
use hence_core::time::{Millis, Timestamp};

use super::{Client, done, unexpected};
use crate::error::Error;
use crate::mailbox::LeaseCall;

/// A worker asking for jobs.
#[derive(Clone, Debug)]
pub struct LeaseRequest {
    /// Who asks; shown in the list of leases.
    pub worker: WorkerName,
    /// From which queues, most important first.
    pub queues: Vec<QueueName>,
    /// How many jobs at most.
    pub max: u32,
    /// For how long; each job's own timeout when not given.
    pub lease: Option<Millis>,
    /// How long to wait when there is nothing to do.
    pub wait: Duration,
}

impl LeaseRequest {
    /// Whether it can be asked at all: queues, their number, jobs at once, the length of a lease.
    pub fn check(&self) -> Result<(), Rejection> {
        let queues = self.queues.len();
        if queues == 0 {
            return Err(Rejection::invalid("queues", "must name at least one queue"));
        }
        if queues > limits::LEASE_QUEUES_MAX {
            return Err(Rejection::too_many_in("queues", queues, limits::LEASE_QUEUES_MAX));
        }
        if self.max == 0 || self.max > limits::LEASE_BATCH_MAX {
            return Err(Rejection::out_of_range("max", 1, limits::LEASE_BATCH_MAX));
        }
        self.lease.map_or(Ok(()), Lease::check_span)
    }
}

/// What came of [`ack_and_lease`](Client::ack_and_lease).
#[derive(Debug)]
pub struct Exchange {
    /// One answer for each job that was said to be done, in order.
    pub acks: Vec<Result<(), Error>>,
    /// The jobs that were taken; none when none were ready.
    pub jobs: Vec<Delivery>,
}

impl Client {
    /// Takes ready jobs, waiting for some when there are none. An empty answer means that there
    /// were none in time. Each job is answered by [`ack`](Client::ack) or [`nack`](Client::nack)
    /// with its token before its lease ends, or is handed out again.
    ///
    /// ```
    /// # use hence::testing::{TestHence, in_memory};
    /// use hence::NewJob;
    /// use hence::client::LeaseRequest;
    /// use hence::core::id::{QueueName, WorkerName};
    /// use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let hence = TestHence::start(in_memory()).await?;
    /// # let client = hence.client();
    /// client.add(NewJob::worker().queue("mail")?.payload("hello")).await?;
    /// let request = LeaseRequest {
    ///     worker: WorkerName::new("postman-1")?,
    ///     queues: vec![QueueName::new("urgent")?, QueueName::new("mail")?],
    ///     max: 10,
    ///     lease: None,
    ///     wait: Duration::from_secs(20),
    /// };
    /// for delivery in client.lease(request).await? {
    ///     assert_eq!(&delivery.job.payload.bytes[..], b"hello");
    ///     client.ack(delivery.lease.token, None).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lease(&self, request: LeaseRequest) -> Result<Vec<Delivery>, Error> {
        let wait = request.wait;
        self.inner.mailbox.lease(lease_call(request)?, wait).await
    }

    /// These jobs are done, and the next ones are taken, in one step: a worker that is busy asks
    /// once where [`ack_many`](Client::ack_many) and [`lease`](Client::lease) are two questions
    /// and two commits. Nothing is waited for, whatever the request says: the acks are answered
    /// at once, and whoever gets no job asks again with `lease`.
    ///
    /// Each ack has an answer of its own. A call that is refused as a whole did nothing.
    pub async fn ack_and_lease(
        &self,
        acks: Vec<(Token, Option<Payload>)>,
        request: LeaseRequest,
    ) -> Result<Exchange, Error> {
        let call = lease_call(LeaseRequest { wait: Duration::ZERO, ..request })?;
        let (answers, jobs) = self.inner.mailbox.ask_and_lease(ack_requests(acks), call).await?;
        Ok(Exchange {
            acks: answers.into_iter().map(|answer| answer.and_then(done)).collect(),
            jobs,
        })
    }

    /// Holds a lease longer: until so long from now, never shorter than it was. Says when it ends.
    pub async fn extend(&self, token: Token, lease: Millis) -> Result<Timestamp, Error> {
        match self.inner.mailbox.ask(Request::Extend { token, lease }).await? {
            Answer::Extended(until) => Ok(until),
            other => unexpected(&other),
        }
    }

    /// The job is done.
    pub async fn ack(&self, token: Token, result: Option<Payload>) -> Result<(), Error> {
        done(self.inner.mailbox.ask(Request::Ack { token, result }).await?)
    }

    /// Many jobs are done; each is answered for itself, in order.
    pub async fn ack_many(
        &self,
        acks: Vec<(Token, Option<Payload>)>,
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let answers = self.inner.mailbox.ask_many(ack_requests(acks)).await?;
        Ok(answers.into_iter().map(|answer| answer.and_then(done)).collect())
    }

    /// The job is not done.
    pub async fn nack(&self, token: Token, how: Nack, reason: Option<&str>) -> Result<(), Error> {
        let reason = reason.map(Arc::from);
        let random = self.inner.chance.word();
        done(self.inner.mailbox.ask(Request::Nack { token, reason, how, random }).await?)
    }

    /// Shows the jobs under way: who holds what, since when, until when.
    pub async fn leases(&self, limit: usize) -> Result<Vec<Delivery>, Error> {
        let limit = limit.clamp(1, limits::PAGE_MAX);
        match self.inner.mailbox.ask(Request::ListLeases { limit }).await? {
            Answer::Leases(leases) => Ok(leases),
            other => unexpected(&other),
        }
    }
}

fn ack_requests(acks: Vec<(Token, Option<Payload>)>) -> Vec<Request> {
    acks.into_iter().map(|(token, result)| Request::Ack { token, result }).collect()
}

fn lease_call(request: LeaseRequest) -> Result<LeaseCall, Error> {
    request.check()?;
    let LeaseRequest { worker, queues, max, lease, wait } = request;
    Ok(LeaseCall { worker, queues, max, lease, waits: wait > Duration::ZERO })
}
