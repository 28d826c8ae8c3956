//! Carries out deliveries. Each is in the hands of a courier, a task that can be stopped by the
//! delivery's token. A courier that is back takes the next one: to make a task for each delivery,
//! and to take it apart again, costs more than the rest of what is done here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hence_core::effect::Delivery;
use hence_core::id::Token;
use hence_core::input::Report;
use hence_core::job::Target as Where;
use hence_delivery::Target;
use hence_delivery::local::Handlers;
use hence_fail::{Point, reach};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::clock::deadline_in;
use crate::mailbox::{Mailbox, Message};

/// Couriers that wait for work: as many as handlers may run at once by default, more than a steady
/// load needs, in less than a megabyte. Reached: whoever comes back goes home.
const IDLE_MAX: usize = hence_core::limits::HANDLERS_DEFAULT as usize;

/// The deliveries under way.
pub(crate) struct Dispatch {
    runtime: Handle,
    mailbox: Mailbox,
    http: Arc<dyn Target>,
    handlers: Handlers,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    by_token: BTreeMap<Token, Stage>,
    /// The last one back goes first: what it works with is still at hand.
    idle: Vec<Courier>,
    /// Nothing is started any more: what comes is given back.
    closed: bool,
}

/// How far a delivery has come.
enum Stage {
    /// It will begin, unless it is taken out before.
    ToBegin,
    /// It is in these hands.
    Begun(Courier),
}

/// A task that carries out one delivery after the other.
struct Courier {
    tray: Arc<Tray>,
    task: AbortHandle,
}

/// Where a courier finds its next delivery.
#[derive(Default)]
struct Tray {
    next: Mutex<Option<Delivery>>,
    filled: Notify,
}

impl Tray {
    fn fill(&self, delivery: Delivery) {
        let before = lock(&self.next).replace(delivery);
        assert!(before.is_none(), "a courier has one delivery at a time");
        self.filled.notify_one();
    }

    async fn take(&self) -> Delivery {
        loop {
            self.filled.notified().await;
            if let Some(delivery) = lock(&self.next).take() {
                return delivery;
            }
        }
    }
}

impl Dispatch {
    pub(crate) fn new(
        runtime: Handle,
        mailbox: Mailbox,
        http: Arc<dyn Target>,
        handlers: Handlers,
    ) -> Self {
        Dispatch { runtime, mailbox, http, handlers, running: Mutex::default() }
    }

    /// Starts these deliveries. Each ends with one report to the driver, unless it is abandoned.
    pub(crate) fn deliver(self: &Arc<Self>, deliveries: Vec<Delivery>) {
        if deliveries.is_empty() {
            return;
        }
        let mut running = lock(&self.running);
        if running.closed {
            for delivery in deliveries {
                self.tell(delivery.lease.token, Report::Released);
            }
            return;
        }
        let tokens = deliveries.iter().map(|delivery| delivery.lease.token);
        running.by_token.extend(tokens.map(|token| (token, Stage::ToBegin)));
        drop(running);
        // Begun from within: to wake a task of the runtime from outside takes a lock and may
        // wake a thread. So that happens once for all of them.
        let this = Arc::clone(self);
        self.runtime.spawn(async move { this.begin(deliveries) });
    }

    fn begin(self: &Arc<Self>, deliveries: Vec<Delivery>) {
        let mut running = lock(&self.running);
        let Running { by_token, idle, .. } = &mut *running;
        for delivery in deliveries {
            // It may have been abandoned or given back meanwhile.
            let Some(stage) = by_token.get_mut(&delivery.lease.token) else { continue };
            let courier = idle.pop().unwrap_or_else(|| self.engage());
            courier.tray.fill(delivery);
            *stage = Stage::Begun(courier);
        }
    }

    fn engage(self: &Arc<Self>) -> Courier {
        let tray = Arc::<Tray>::default();
        let task = self.runtime.spawn(Arc::clone(self).work(Arc::clone(&tray))).abort_handle();
        Courier { tray, task }
    }

    /// A courier's day.
    async fn work(self: Arc<Self>, tray: Arc<Tray>) {
        loop {
            let delivery = tray.take().await;
            let token = delivery.lease.token;
            reach(Point::DispatchSend);
            let report = self.hand_to_target(delivery).await;
            reach(Point::DispatchSent);
            // A driver that has stopped counts the attempt as unknown. Told first: between the two
            // it may be given back, and only the first of two reports counts.
            self.tell(token, report);
            if !self.is_back(token) {
                return;
            }
        }
    }

    /// Whether whoever carried this delivery out may wait for another: not if it was stopped
    /// meanwhile, which would stop the other one.
    fn is_back(&self, token: Token) -> bool {
        let mut running = lock(&self.running);
        let Some(Stage::Begun(courier)) = running.by_token.remove(&token) else { return false };
        let stays = running.idle.len() < IDLE_MAX;
        if stays {
            running.idle.push(courier);
        }
        stays
    }

    /// Stops a delivery; its outcome does not count any more.
    pub(crate) fn abandon(&self, token: Token) {
        if let Some(Stage::Begun(courier)) = lock(&self.running).by_token.remove(&token) {
            courier.task.abort();
        }
    }

    /// Stops all deliveries and gives their jobs back, also of those that are still to come.
    pub(crate) fn give_all_back(&self) {
        let mut running = lock(&self.running);
        running.closed = true;
        for courier in running.idle.drain(..) {
            courier.task.abort();
        }
        for (token, stage) in std::mem::take(&mut running.by_token) {
            let report = match stage {
                Stage::ToBegin => Report::Released,
                Stage::Begun(courier) => {
                    courier.task.abort();
                    Report::CutShort
                }
            };
            self.tell(token, report);
        }
    }

    fn tell(&self, token: Token, report: Report) {
        drop(self.mailbox.send(Message::Delivered(token, report)));
    }

    async fn hand_to_target(&self, delivery: Delivery) -> Report {
        let deadline = deadline_in(delivery.job.timeout);
        match &delivery.job.target {
            Where::Http(_) => self.http.deliver(delivery, deadline).await,
            Where::Handler(_) => self.handlers.deliver(delivery, deadline).await,
            Where::Worker => unreachable!("workers pull; nothing is pushed to them"),
        }
    }
}

/// What is behind these locks is whole after every step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;

    use futures::FutureExt;
    use futures::future::BoxFuture;
    use hence_core::id::{Epoch, JobId, JobName, JobNumber, QueueName, ShardId, WorkerName};
    use hence_core::job::{HttpTarget, Job, JobSpec, Lease, Payload};
    use hence_core::time::Timestamp;
    use tokio::time::Instant;

    use super::*;

    /// Notes whatever arrives.
    #[derive(Default)]
    struct Notes(Mutex<Vec<u64>>);

    impl Target for Notes {
        fn deliver(&self, delivery: Delivery, _deadline: Instant) -> BoxFuture<'_, Report> {
            self.0.lock().unwrap().push(delivery.lease.token.counter);
            async { Report::Succeeded { result: None } }.boxed()
        }
    }

    fn token(counter: u64) -> Token {
        Token { shard: ShardId(0), epoch: Epoch(1), counter }
    }

    fn delivery(counter: u64) -> Delivery {
        let spec = JobSpec::new(Where::Http(Arc::new(HttpTarget::post("http://localhost/"))));
        let id = JobId::new("job").unwrap();
        let job = Job {
            number: JobNumber(counter),
            name: JobName { queue: QueueName::default_queue(), key: None, id },
            submitted_at: Timestamp::EPOCH,
            scheduled_for: Timestamp::EPOCH,
            payload: Payload::default(),
            target: spec.target,
            retry: spec.retry,
            timeout: spec.timeout,
            expires_at: None,
            retention: spec.retention,
            keep_result: false,
            key_on_failure: spec.key_on_failure,
            on_unknown: spec.on_unknown,
            occurrence: None,
            fingerprint: None,
        };
        let lease = Lease {
            token: token(counter),
            attempt: 1,
            holder: WorkerName::new("node").unwrap(),
            granted_at: Timestamp::EPOCH,
            until: Timestamp::MAX,
        };
        Delivery { job: Arc::new(job), lease, due_at: Timestamp::EPOCH }
    }

    /// The next so many reports; each says whether the job was given back.
    async fn reports(inbox: &Receiver<Message>, count: usize) -> Vec<(u64, bool)> {
        let mut seen = Vec::new();
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
            seen.extend(inbox.try_iter().filter_map(|message| match message {
                Message::Delivered(token, report) => {
                    Some((token.counter, report == Report::Released))
                }
                _ => None,
            }));
        }
        assert_eq!(seen.len(), count, "{seen:?}");
        seen.sort_unstable();
        seen
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_is_taken_out_before_it_begins_does_not_leave() {
        let (mailbox, inbox) = Mailbox::new(None);
        let notes = Arc::new(Notes::default());
        let http: Arc<dyn Target> = notes.clone();
        let dispatch = Dispatch::new(Handle::current(), mailbox, http, Handlers::new());
        let dispatch = Arc::new(dispatch);
        dispatch.deliver(vec![delivery(1), delivery(2), delivery(3)]);
        dispatch.abandon(token(2));
        assert_eq!(reports(&inbox, 2).await, [(1, false), (3, false)]);
        dispatch.deliver(vec![delivery(4)]);
        dispatch.give_all_back();
        dispatch.deliver(vec![delivery(5)]);
        assert_eq!(reports(&inbox, 2).await, [(4, true), (5, true)]);
        assert_eq!(*notes.0.lock().unwrap(), [1, 3]);
        assert!(lock(&dispatch.running).by_token.is_empty(), "nothing is left behind");
    }

    /// Succeeds when it is told to.
    struct Waits(Arc<tokio::sync::Notify>);

    impl Target for Waits {
        fn deliver(&self, _delivery: Delivery, _deadline: Instant) -> BoxFuture<'_, Report> {
            let told = Arc::clone(&self.0);
            async move {
                told.notified().await;
                Report::Succeeded { result: None }
            }
            .boxed()
        }
    }

    /// A job that must not run twice was sent again after a shutdown, as if it had not left.
    #[tokio::test(flavor = "current_thread")]
    async fn what_has_begun_is_cut_short_and_not_released() {
        let (mailbox, inbox) = Mailbox::new(None);
        let http: Arc<dyn Target> = Arc::new(Waits(Arc::default()));
        let dispatch = Dispatch::new(Handle::current(), mailbox, http, Handlers::new());
        let dispatch = Arc::new(dispatch);
        dispatch.deliver(vec![delivery(1)]);
        tokio::task::yield_now().await;
        dispatch.deliver(vec![delivery(2)]);
        dispatch.give_all_back();
        let told: Vec<_> = inbox.try_iter().collect();
        let [Message::Delivered(_, begun), Message::Delivered(_, to_begin)] = &told[..] else {
            panic!("{} messages", told.len());
        };
        assert_eq!((begun, to_begin), (&Report::CutShort, &Report::Released));
    }

    /// A success that was about to be told was given back at a shutdown, and came again.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_success_is_told_before_it_can_be_given_back() {
        let (mailbox, inbox) = Mailbox::new(None);
        let told = Arc::new(tokio::sync::Notify::new());
        let http: Arc<dyn Target> = Arc::new(Waits(Arc::clone(&told)));
        let dispatch = Dispatch::new(Handle::current(), mailbox, http, Handlers::new());
        let dispatch = Arc::new(dispatch);
        lock(&dispatch.running).by_token.insert(token(1), Stage::ToBegin);
        dispatch.begin(vec![delivery(1)]);
        // Whoever gives back holds the lock, and so does this test.
        let running = lock(&dispatch.running);
        told.notify_one();
        let told = inbox.recv_timeout(std::time::Duration::from_secs(10));
        drop(running);
        let Ok(Message::Delivered(token, report)) = told else { panic!("nothing was told") };
        assert_eq!((token.counter, report), (1, Report::Succeeded { result: None }));
    }

    /// Tasks of this test's runtime, itself not counted.
    fn tasks() -> usize {
        Handle::current().metrics().num_alive_tasks()
    }

    #[tokio::test(flavor = "current_thread")]
    async fn whoever_is_back_takes_the_next_delivery_until_all_are_sent_home() {
        let (mailbox, inbox) = Mailbox::new(None);
        let http: Arc<dyn Target> = Arc::new(Notes::default());
        let dispatch = Dispatch::new(Handle::current(), mailbox, http, Handlers::new());
        let dispatch = Arc::new(dispatch);
        for counter in 1..=3 {
            dispatch.deliver(vec![delivery(counter)]);
            assert_eq!(reports(&inbox, 1).await, [(counter, false)]);
            assert_eq!((tasks(), lock(&dispatch.running).idle.len()), (1, 1));
        }
        dispatch.give_all_back();
        assert_eq!(reports(&inbox, 0).await, []);
        assert_eq!(tasks(), 0);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn no_more_wait_for_work_than_are_worth_it() {
        let (mailbox, inbox) = Mailbox::new(None);
        let http: Arc<dyn Target> = Arc::new(Notes::default());
        let dispatch = Dispatch::new(Handle::current(), mailbox, http, Handlers::new());
        let dispatch = Arc::new(dispatch);
        let crowd = IDLE_MAX + 10;
        dispatch.deliver((1..=crowd as u64).map(delivery).collect());
        assert_eq!(reports(&inbox, crowd).await.len(), crowd);
        assert_eq!((tasks(), lock(&dispatch.running).idle.len()), (IDLE_MAX, IDLE_MAX));
    }

    /// Its task is being stopped, and the next delivery would be stopped with it.
    #[tokio::test(flavor = "current_thread")]
    async fn whoever_was_stopped_takes_no_other_delivery() {
        let (mailbox, inbox) = Mailbox::new(None);
        let told = Arc::new(tokio::sync::Notify::new());
        let http: Arc<dyn Target> = Arc::new(Waits(Arc::clone(&told)));
        let dispatch = Dispatch::new(Handle::current(), mailbox, http, Handlers::new());
        let dispatch = Arc::new(dispatch);
        dispatch.deliver(vec![delivery(1)]);
        assert_eq!(reports(&inbox, 0).await, []);
        dispatch.abandon(token(1));
        dispatch.deliver(vec![delivery(2)]);
        told.notify_one();
        assert_eq!(reports(&inbox, 1).await, [(2, false)]);
        assert_eq!((tasks(), lock(&dispatch.running).idle.len()), (1, 1));
    }
}
