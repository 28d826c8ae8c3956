//! The way to the driver: one queue of messages, bounded by how many requests may wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use hence_core::effect::{Answer, Delivery};
use hence_core::error::Rejection;
use hence_core::id::{HandlerName, JobName, LetterId, QueueName, ScheduleId, Token, WorkerName};
use hence_core::input::{Found, Report, Request};
use hence_core::job::{Job, Progress};
use hence_core::ledger::OccurrenceRecord;
use hence_core::time::{Millis, Timestamp};
use tokio::sync::oneshot;

use crate::error::Error;
use crate::postman::Round;

/// Requests that may wait for the driver or for their commit. Beyond it callers are told to come
/// back: a queue that only grows helps nobody.
const WAITING_MAX: usize = 200_000;

/// Bytes that they may carry: what a store that does not answer makes us hold.
const WAITING_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Requests in one message: a ticket has room for so many parts.
pub(crate) const PARTS_MAX: usize = 65_535;

pub(crate) type Reply = Waiting<Result<Answer, Error>>;
pub(crate) type Replies = Waiting<Vec<Result<Answer, Error>>>;
pub(crate) type LeaseReply = oneshot::Sender<Result<Vec<Delivery>, Error>>;

/// Everything the driver can be told.
pub(crate) enum Message {
    Ask(Request, Reply),
    AskMany(Vec<Request>, Replies),
    Lease(LeaseCall, LeaseReply),
    /// The two, in this order and in one turn.
    AskAndLease(Vec<Request>, Replies, LeaseCall, LeaseReply),
    /// Letters, each with what is asked in it, or why that cannot be understood.
    Letters(Vec<(LetterId, Result<Request, Rejection>)>, oneshot::Sender<Round>),
    /// Jobs were leased for somebody who has gone: give them back.
    HandBack(Vec<Token>),
    /// How deliveries ended.
    Delivered(Vec<(Token, Report)>),
    Handlers(Vec<HandlerName>),
    Found(Vec<(JobName, Option<Found>)>),
    Loaded {
        queue: QueueName,
        jobs: Vec<(Arc<Job>, Progress)>,
        more: bool,
    },
    Recalled {
        schedule: ScheduleId,
        records: Vec<OccurrenceRecord>,
        more: bool,
    },
    Swept(Vec<(QueueName, u64)>),
    /// The time was moved by hand, or something else changed that needs a look.
    Poke,
    /// Tell when nothing is due, under way or being read, and when something is due next.
    Settle(oneshot::Sender<Option<Timestamp>>),
    /// Accept and hand out nothing any more; tell when nothing of ours is under way.
    Drain(oneshot::Sender<()>),
    /// End the threads.
    Stop,
}

/// A worker's call for jobs.
#[derive(Clone, Debug)]
pub(crate) struct LeaseCall {
    pub(crate) worker: WorkerName,
    pub(crate) queues: Vec<QueueName>,
    pub(crate) max: u32,
    pub(crate) lease: Option<Millis>,
    /// Whether it waits when there is nothing.
    pub(crate) waits: bool,
}

/// The sending end. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Mailbox {
    messages: mpsc::Sender<Message>,
    taken: Arc<Taken>,
    /// Rung after every message, for a driver that does not wait for them by itself.
    bell: Option<Bell>,
}

/// Says that there is a message.
pub(crate) type Bell = Arc<dyn Fn() + Send + Sync>;

/// Whoever waits for an answer, and the places that this takes. They are free when the request is
/// dealt with, not when its caller gives up: until then it is in memory.
pub(crate) struct Waiting<T> {
    reply: oneshot::Sender<T>,
    _places: Places,
}

impl<T> Waiting<T> {
    /// Answers; a caller that has gone does not need it.
    pub(crate) fn answer(self, answer: T) {
        drop(self.reply.send(answer));
    }
}

/// How many requests wait, and how many bytes they carry.
#[derive(Default)]
struct Taken {
    requests: AtomicUsize,
    bytes: AtomicUsize,
}

struct Places {
    taken: Arc<Taken>,
    requests: usize,
    bytes: usize,
}

impl Drop for Places {
    fn drop(&mut self) {
        self.taken.requests.fetch_sub(self.requests, Ordering::Relaxed);
        self.taken.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Mailbox {
    pub(crate) fn new(bell: Option<Bell>) -> (Self, mpsc::Receiver<Message>) {
        let (messages, inbox) = mpsc::channel();
        (Mailbox { messages, taken: Arc::default(), bell }, inbox)
    }

    /// Asks and waits for the answer.
    pub(crate) async fn ask(&self, request: Request) -> Result<Answer, Error> {
        let (reply, answer) = self.wait_for(std::slice::from_ref(&request))?;
        self.send(Message::Ask(request, reply))?;
        answer.await.map_err(|_| Error::Stopped)?
    }

    /// Asks many things at once and waits for all answers, in order.
    pub(crate) async fn ask_many(
        &self,
        requests: Vec<Request>,
    ) -> Result<Vec<Result<Answer, Error>>, Error> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let (reply, answers) = self.wait_for(&requests)?;
        self.send(Message::AskMany(requests, reply))?;
        answers.await.map_err(|_| Error::Stopped)
    }

    /// Asks many things and then for jobs: what is decided upon together is committed together.
    pub(crate) async fn ask_and_lease(
        &self,
        requests: Vec<Request>,
        call: LeaseCall,
    ) -> Result<(Vec<Result<Answer, Error>>, Vec<Delivery>), Error> {
        if requests.is_empty() {
            return Ok((Vec::new(), self.lease(call, Duration::ZERO).await?));
        }
        let (replies, answers) = self.wait_for(&requests)?;
        let claim = self.claim(|reply| Message::AskAndLease(requests, replies, call, reply))?;
        let answers = answers.await.map_err(|_| Error::Stopped)?;
        Ok((answers, claim.jobs().await?))
    }

    /// Asks for jobs, and waits for some if the call says so. When the wait ends first, whatever
    /// was on its way is given back.
    pub(crate) async fn lease(
        &self,
        call: LeaseCall,
        wait: Duration,
    ) -> Result<Vec<Delivery>, Error> {
        let waits = call.waits;
        let claim = self.claim(|reply| Message::Lease(call, reply))?;
        if !waits {
            return claim.jobs().await;
        }
        tokio::time::timeout(wait, claim.jobs()).await.unwrap_or(Ok(Vec::new()))
    }

    /// Sends a message that asks for jobs, among other things or not.
    fn claim(&self, message: impl FnOnce(LeaseReply) -> Message) -> Result<Claim<'_>, Error> {
        let (reply, answer) = oneshot::channel();
        self.send(message(reply))?;
        Ok(Claim { mailbox: self, answer })
    }

    /// Tells the driver something. Fails only when it has stopped.
    pub(crate) fn send(&self, message: Message) -> Result<(), Error> {
        self.messages.send(message).map_err(|_| Error::Stopped)?;
        if let Some(ring) = &self.bell {
            ring();
        }
        Ok(())
    }

    /// Places for these requests, if there are any left, and the two ends of the wait.
    fn wait_for<T>(
        &self,
        requests: &[Request],
    ) -> Result<(Waiting<T>, oneshot::Receiver<T>), Error> {
        if requests.len() > PARTS_MAX {
            return Err(Rejection::too_many_in("batch", requests.len(), PARTS_MAX).into());
        }
        let bytes = requests.iter().map(Request::carried_bytes).sum();
        let (taken, requests) = (Arc::clone(&self.taken), requests.len());
        let requests_before = taken.requests.fetch_add(requests, Ordering::Relaxed);
        let bytes_before = taken.bytes.fetch_add(bytes, Ordering::Relaxed);
        let places = Places { taken, requests, bytes };
        // One that is too large by itself is taken when nothing else waits: it would never be.
        let is_heavy = bytes_before > 0 && bytes_before + bytes > WAITING_BYTES_MAX;
        if requests_before + requests > WAITING_MAX || is_heavy {
            return Err(Error::Busy);
        }
        let (reply, answer) = oneshot::channel();
        Ok((Waiting { reply, _places: places }, answer))
    }
}

/// Jobs on their way to a worker. If it goes away between their being sent and its looking, they
/// are given back here: the sender could not know.
struct Claim<'a> {
    mailbox: &'a Mailbox,
    answer: oneshot::Receiver<Result<Vec<Delivery>, Error>>,
}

impl Claim<'_> {
    async fn jobs(mut self) -> Result<Vec<Delivery>, Error> {
        (&mut self.answer).await.map_err(|_| Error::Stopped)?
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.answer.close();
        if let Ok(Ok(unseen)) = self.answer.try_recv() {
            let tokens = unseen.iter().map(|delivery| delivery.lease.token).collect();
            drop(self.mailbox.send(Message::HandBack(tokens)));
        }
    }
}
