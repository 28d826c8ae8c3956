//! Carries out deliveries, so many of a sort at once as may be under way (`lane.rs`). Each is in
//! the hands of a courier, a task that can be stopped by the delivery's token. A courier that is
//! back takes the next one: to make a task for each delivery, and to take it apart again, costs
//! more than the rest of what is done here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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

use crate::clock::{deadline_in, rest};
use crate::lane::{Lane, Reports, TICK_MS, Ticked};
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

/// How many deliveries may be under way at once.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub(crate) pushes: u32,
    pub(crate) handlers: u32,
}

struct Running {
    by_token: BTreeMap<Token, Stage>,
    /// The last one back goes first: what it works with is still at hand.
    idle: Vec<Courier>,
    pushes: Lane,
    handlers: Lane,
    /// Whether somebody tells the lanes that time passes.
    ticks: bool,
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

/// Which of the lanes a delivery is of.
#[derive(Clone, Copy)]
enum Sort {
    Push,
    Handler,
}

/// A task that carries out one delivery after the other, of one sort at a time.
struct Courier {
    sort: Sort,
    tray: Arc<Tray>,
    task: AbortHandle,
}

/// Where a courier finds its next delivery.
#[derive(Default)]
struct Tray {
    next: Mutex<Option<Delivery>>,
    filled: Notify,
}

/// What a courier that is back does now.
enum Then {
    GoOn(Delivery),
    Wait,
    GoHome,
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

impl Sort {
    fn of(delivery: &Delivery) -> Self {
        match &delivery.job.target {
            Where::Http(_) => Sort::Push,
            Where::Handler(_) => Sort::Handler,
            Where::Worker => unreachable!("workers pull; nothing is pushed to them"),
        }
    }
}

impl Running {
    fn lane(&mut self, sort: Sort) -> &mut Lane {
        match sort {
            Sort::Push => &mut self.pushes,
            Sort::Handler => &mut self.handlers,
        }
    }

    /// Whoever takes the place of a delivery that has ended.
    fn next_after(&mut self, sort: Sort) -> Option<Delivery> {
        let Running { by_token, pushes, handlers, .. } = self;
        let lane = match sort {
            Sort::Push => pushes,
            Sort::Handler => handlers,
        };
        lane.leave(|token| by_token.contains_key(&token))
    }
}

impl Dispatch {
    pub(crate) fn new(
        runtime: Handle,
        mailbox: Mailbox,
        http: Arc<dyn Target>,
        handlers: Handlers,
        room: Room,
    ) -> Arc<Self> {
        let running = Running {
            by_token: BTreeMap::new(),
            idle: Vec::new(),
            pushes: Lane::new(room.pushes),
            handlers: Lane::new(room.handlers),
            ticks: false,
            closed: false,
        };
        Arc::new(Dispatch { runtime, mailbox, http, handlers, running: Mutex::new(running) })
    }

    /// Starts these deliveries. Each ends with one report to the driver, unless it is abandoned.
    pub(crate) fn deliver(self: &Arc<Self>, deliveries: Vec<Delivery>) {
        if deliveries.is_empty() {
            return;
        }
        let mut running = lock(&self.running);
        if running.closed {
            let released = |delivery: Delivery| (delivery.lease.token, Report::Released);
            return self.tell(deliveries.into_iter().map(released).collect());
        }
        let tokens = deliveries.iter().map(|delivery| delivery.lease.token);
        running.by_token.extend(tokens.map(|token| (token, Stage::ToBegin)));
        if !deliveries.iter().any(|delivery| running.lane(Sort::of(delivery)).has_room()) {
            return self.begin(&mut running, deliveries);
        }
        drop(running);
        // Begun from within: to wake a task of the runtime from outside takes a lock and may
        // wake a thread. So that happens once for all of them.
        let this = Arc::clone(self);
        self.runtime.spawn(async move { this.begin(&mut lock(&this.running), deliveries) });
    }

    fn begin(self: &Arc<Self>, running: &mut Running, deliveries: Vec<Delivery>) {
        for delivery in deliveries {
            // It may have been abandoned or given back meanwhile.
            if !running.by_token.contains_key(&delivery.lease.token) {
                continue;
            }
            match running.lane(Sort::of(&delivery)).enter(delivery) {
                Some(delivery) => self.send_out(running, delivery),
                None => self.see_to_ticks(running),
            }
        }
    }

    fn send_out(self: &Arc<Self>, running: &mut Running, delivery: Delivery) {
        let (token, sort) = (delivery.lease.token, Sort::of(&delivery));
        let mut courier = running.idle.pop().unwrap_or_else(|| self.engage(sort));
        courier.sort = sort;
        courier.tray.fill(delivery);
        running.by_token.insert(token, Stage::Begun(courier));
    }

    fn engage(self: &Arc<Self>, sort: Sort) -> Courier {
        let tray = Arc::<Tray>::default();
        let task = self.runtime.spawn(Arc::clone(self).work(Arc::clone(&tray))).abort_handle();
        Courier { sort, tray, task }
    }

    /// A courier's day.
    async fn work(self: Arc<Self>, tray: Arc<Tray>) {
        let mut delivery = tray.take().await;
        loop {
            let token = delivery.lease.token;
            reach(Point::DispatchSend);
            let report = self.hand_to_target(delivery).await;
            reach(Point::DispatchSent);
            delivery = match self.is_back(token, report) {
                Then::GoOn(next) => next,
                Then::Wait => tray.take().await,
                Then::GoHome => return,
            };
            // Whoever never waits for anything lets others have their turn.
            tokio::task::consume_budget().await;
        }
    }

    /// Takes the report of whoever carried this delivery out, and says what is next. Nothing if it
    /// was stopped meanwhile: its outcome does not count any more, and the next delivery would be
    /// stopped with it. A driver that has stopped counts the attempt as unknown.
    fn is_back(self: &Arc<Self>, token: Token, report: Report) -> Then {
        let mut running = lock(&self.running);
        let Some(Stage::Begun(courier)) = running.by_token.remove(&token) else {
            return Then::GoHome;
        };
        let sort = courier.sort;
        let next = running.next_after(sort);
        let reports = running.lane(sort).report(token, report);
        self.tell(reports);
        if let Some(next) = next {
            running.by_token.insert(next.lease.token, Stage::Begun(courier));
            return Then::GoOn(next);
        }
        if running.idle.len() >= IDLE_MAX {
            return Then::GoHome;
        }
        running.idle.push(courier);
        Then::Wait
    }

    /// Stops a delivery; its outcome does not count any more.
    pub(crate) fn abandon(self: &Arc<Self>, token: Token) {
        let mut running = lock(&self.running);
        if let Some(Stage::Begun(courier)) = running.by_token.remove(&token) {
            courier.task.abort();
            if let Some(next) = running.next_after(courier.sort) {
                self.send_out(&mut running, next);
            }
        }
    }

    /// Begins nothing any more: what has not begun is given back, and so is what comes.
    pub(crate) fn close(&self) {
        let mut running = lock(&self.running);
        running.closed = true;
        for sort in [Sort::Push, Sort::Handler] {
            let lane = running.lane(sort);
            lane.clear();
            let reports = lane.take_reports();
            self.tell(reports);
        }
        let to_begin = running.by_token.extract_if(.., |_, stage| matches!(stage, Stage::ToBegin));
        self.tell(to_begin.map(|(token, _)| (token, Report::Released)).collect());
    }

    /// Stops all deliveries and gives their jobs back, also of those that are still to come.
    pub(crate) fn give_all_back(&self) {
        self.close();
        let mut running = lock(&self.running);
        for courier in running.idle.drain(..) {
            courier.task.abort();
        }
        let begun = std::mem::take(&mut running.by_token).into_iter();
        let cut_short = begun.map(|(token, stage)| {
            let Stage::Begun(courier) = stage else {
                unreachable!("nothing is to begin after it was closed")
            };
            courier.task.abort();
            (token, Report::CutShort)
        });
        self.tell(cut_short.collect());
    }

    /// Somebody waits: the lanes are told from now on that time passes, until nobody does.
    fn see_to_ticks(self: &Arc<Self>, running: &mut Running) {
        if std::mem::replace(&mut running.ticks, true) {
            return;
        }
        let this = Arc::clone(self);
        self.runtime.spawn(async move {
            loop {
                rest(Duration::from_millis(TICK_MS)).await;
                if !this.tick() {
                    break;
                }
            }
        });
    }

    /// Whether there will be more.
    fn tick(&self) -> bool {
        let mut running = lock(&self.running);
        for sort in [Sort::Push, Sort::Handler] {
            let Ticked { reports, old } = running.lane(sort).tick();
            self.tell(reports);
            let tokens = old.iter().map(|delivery| delivery.lease.token);
            let old = tokens.filter(|token| running.by_token.remove(token).is_some());
            self.tell(old.map(|token| (token, Report::Released)).collect());
        }
        running.ticks = running.pushes.wants_ticks() || running.handlers.wants_ticks();
        running.ticks
    }

    fn tell(&self, reports: Reports) {
        if !reports.is_empty() {
            drop(self.mailbox.send(Message::Delivered(reports)));
        }
    }

    async fn hand_to_target(&self, delivery: Delivery) -> Report {
        let deadline = deadline_in(delivery.job.timeout);
        match Sort::of(&delivery) {
            Sort::Push => self.http.deliver(delivery, deadline).await,
            Sort::Handler => self.handlers.deliver(delivery, deadline).await,
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
    use tokio::time::Instant;

    use super::*;
    use crate::lane::tests::{delivery, token};

    /// Room for more than any of these tests delivers.
    const WIDE: Room = Room { pushes: 10_000, handlers: 10_000 };

    fn dispatch(mailbox: Mailbox, http: Arc<dyn Target>, room: Room) -> Arc<Dispatch> {
        Dispatch::new(Handle::current(), mailbox, http, Handlers::new(), room)
    }

    /// Notes whatever arrives.
    #[derive(Default)]
    struct Notes(Mutex<Vec<u64>>);

    impl Target for Notes {
        fn deliver(&self, delivery: Delivery, _deadline: Instant) -> BoxFuture<'_, Report> {
            self.0.lock().unwrap().push(delivery.lease.token.counter);
            async { Report::Succeeded { result: None } }.boxed()
        }
    }

    /// What was told and not heard yet.
    fn told(inbox: &Receiver<Message>) -> Reports {
        let reports = inbox.try_iter().map(|message| match message {
            Message::Delivered(reports) => reports,
            _ => panic!("not a report"),
        });
        reports.flatten().collect()
    }

    /// The next so many reports; each says whether the job was given back.
    async fn reports(inbox: &Receiver<Message>, count: usize) -> Vec<(u64, bool)> {
        let mut seen = Vec::new();
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
            let told = told(inbox).into_iter();
            seen.extend(told.map(|(token, report)| (token.counter, report == Report::Released)));
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
        let dispatch = dispatch(mailbox, http, WIDE);
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
    struct Waits(Arc<Notify>);

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
        let dispatch = dispatch(mailbox, http, WIDE);
        dispatch.deliver(vec![delivery(1)]);
        tokio::task::yield_now().await;
        dispatch.deliver(vec![delivery(2)]);
        dispatch.give_all_back();
        let released_and_cut_short = [(token(2), Report::Released), (token(1), Report::CutShort)];
        assert_eq!(told(&inbox), released_and_cut_short);
    }

    /// A success that was about to be told was given back at a shutdown, and came again.
    #[tokio::test(flavor = "current_thread")]
    async fn a_success_is_told_before_it_can_be_given_back() {
        let (mailbox, inbox) = Mailbox::new(None);
        let waits = Arc::new(Notify::new());
        let http: Arc<dyn Target> = Arc::new(Waits(Arc::clone(&waits)));
        let dispatch = dispatch(mailbox, http, Room { pushes: 1, handlers: 0 });
        dispatch.deliver((1..=4).map(delivery).collect());
        assert_eq!(reports(&inbox, 0).await, []);
        waits.notify_one();
        // Its report is held back, as others wait; it is not a delivery under way any more.
        assert_eq!(reports(&inbox, 0).await, []);
        assert_eq!(lock(&dispatch.running).by_token.len(), 3);
        dispatch.give_all_back();
        let all = [
            (token(1), Report::Succeeded { result: None }),
            (token(3), Report::Released),
            (token(4), Report::Released),
            (token(2), Report::CutShort),
        ];
        assert_eq!(told(&inbox), all);
        waits.notify_one();
        assert_eq!(reports(&inbox, 0).await, []);
    }

    /// Tasks of this test's runtime, itself not counted.
    fn tasks() -> usize {
        Handle::current().metrics().num_alive_tasks()
    }

    #[tokio::test(flavor = "current_thread")]
    async fn whoever_is_back_takes_the_next_delivery_until_all_are_sent_home() {
        let (mailbox, inbox) = Mailbox::new(None);
        let http: Arc<dyn Target> = Arc::new(Notes::default());
        let dispatch = dispatch(mailbox, http, WIDE);
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
        let dispatch = dispatch(mailbox, http, WIDE);
        let crowd = IDLE_MAX + 10;
        dispatch.deliver((1..=crowd as u64).map(delivery).collect());
        assert_eq!(reports(&inbox, crowd).await.len(), crowd);
        assert_eq!((tasks(), lock(&dispatch.running).idle.len()), (IDLE_MAX, IDLE_MAX));
    }

    /// Its task is being stopped, and the next delivery would be stopped with it.
    #[tokio::test(flavor = "current_thread")]
    async fn whoever_was_stopped_takes_no_other_delivery() {
        let (mailbox, inbox) = Mailbox::new(None);
        let told = Arc::new(Notify::new());
        let http: Arc<dyn Target> = Arc::new(Waits(Arc::clone(&told)));
        let dispatch = dispatch(mailbox, http, WIDE);
        dispatch.deliver(vec![delivery(1)]);
        assert_eq!(reports(&inbox, 0).await, []);
        dispatch.abandon(token(1));
        dispatch.deliver(vec![delivery(2)]);
        told.notify_one();
        assert_eq!(reports(&inbox, 1).await, [(2, false)]);
        assert_eq!((tasks(), lock(&dispatch.running).idle.len()), (1, 1));
    }

    /// So many at once, whatever is handed out; the next one needs no other task.
    #[tokio::test(flavor = "current_thread")]
    async fn whoever_finds_no_room_takes_the_place_of_one_that_ends() {
        let (mailbox, inbox) = Mailbox::new(None);
        let waits = Arc::new(Notify::new());
        let http: Arc<dyn Target> = Arc::new(Waits(Arc::clone(&waits)));
        let dispatch = dispatch(mailbox, http, Room { pushes: 2, handlers: 0 });
        dispatch.deliver((1..=6).map(delivery).collect());
        let begun = |dispatch: &Dispatch| {
            let running = lock(&dispatch.running);
            let is_begun = |(token, stage): (&Token, &Stage)| {
                matches!(stage, Stage::Begun(_)).then_some(token.counter)
            };
            running.by_token.iter().filter_map(is_begun).collect::<Vec<u64>>()
        };
        assert_eq!(reports(&inbox, 0).await, []);
        assert_eq!(begun(&dispatch), [1, 2]);
        // One is given up, one is not wanted any more, one ends.
        dispatch.abandon(token(1));
        dispatch.abandon(token(4));
        waits.notify_one();
        tokio::task::yield_now().await;
        assert_eq!(begun(&dispatch), [3, 5]);
        dispatch.deliver(vec![delivery(7)]);
        waits.notify_waiters();
        assert_eq!(reports(&inbox, 3).await, [(2, false), (3, false), (5, false)]);
        assert_eq!(begun(&dispatch), [6, 7]);
        dispatch.give_all_back();
    }

    /// A shutdown lets those finish that have begun, and does not wait for others.
    #[tokio::test(flavor = "current_thread")]
    async fn when_it_is_closed_what_has_begun_goes_on_and_nothing_else_begins() {
        let (mailbox, inbox) = Mailbox::new(None);
        let waits = Arc::new(Notify::new());
        let http: Arc<dyn Target> = Arc::new(Waits(Arc::clone(&waits)));
        let dispatch = dispatch(mailbox, http, Room { pushes: 1, handlers: 0 });
        dispatch.deliver(vec![delivery(1), delivery(2)]);
        assert_eq!(reports(&inbox, 0).await, []);
        dispatch.deliver(vec![delivery(3)]);
        dispatch.close();
        dispatch.deliver(vec![delivery(4)]);
        assert_eq!(reports(&inbox, 3).await, [(2, true), (3, true), (4, true)]);
        waits.notify_one();
        assert_eq!(reports(&inbox, 1).await, [(1, false)]);
        assert!(lock(&dispatch.running).by_token.is_empty());
    }

    /// Fewer ended than waited, and then nothing ended for long: nobody was told.
    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn what_is_held_back_is_told_soon_and_who_waits_too_long_is_given_back() {
        let (mailbox, inbox) = Mailbox::new(None);
        let waits = Arc::new(Notify::new());
        let http: Arc<dyn Target> = Arc::new(Waits(Arc::clone(&waits)));
        let dispatch = dispatch(mailbox, http, Room { pushes: 1, handlers: 0 });
        dispatch.deliver((1..=5).map(delivery).collect());
        assert_eq!(reports(&inbox, 0).await, []);
        waits.notify_one();
        assert_eq!(reports(&inbox, 0).await, []);
        rest(Duration::from_millis(3 * TICK_MS)).await;
        assert_eq!(told(&inbox), [(token(1), Report::Succeeded { result: None })]);
        dispatch.abandon(token(5));
        rest(Duration::from_secs(2)).await;
        assert_eq!(reports(&inbox, 2).await, [(3, true), (4, true)]);
        assert!(!lock(&dispatch.running).ticks, "nobody waits any more");
        assert_eq!(lock(&dispatch.running).by_token.len(), 1, "nothing is left behind");
        waits.notify_one();
        assert_eq!(reports(&inbox, 1).await, [(2, false)]);
        assert_eq!(tasks(), 1);
    }
}
