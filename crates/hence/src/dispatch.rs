//! Carries out deliveries, so many of a sort at once as may be under way (`lane.rs`). Each is in
//! the hands of a courier, a task that can be stopped by the delivery's token. A courier that is
//! back takes the next one: to make a task for each delivery, and to take it apart again, costs
//! more than the rest of what is done here.

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

use crate::clock::{Clock, deadline_in, monotonic, rest};
use crate::lane::{Lane, Reports, Ticked};
use crate::mailbox::{Mailbox, Message};
use crate::observe::{Event, Observers};

/// Couriers that wait for work: as many as handlers may run at once by default, more than a steady
/// load needs, in less than a megabyte. Reached: whoever comes back goes home.
const IDLE_MAX: usize = hence_core::limits::HANDLERS_DEFAULT as usize;

/// The deliveries under way.
pub(crate) struct Dispatch {
    runtime: Handle,
    mailbox: Mailbox,
    http: Arc<dyn Target>,
    handlers: Handlers,
    clock: Arc<dyn Clock>,
    observers: Observers,
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
        (clock, observers): (Arc<dyn Clock>, Observers),
    ) -> Arc<Self> {
        let running = Running {
            by_token: BTreeMap::new(),
            idle: Vec::new(),
            pushes: Lane::new(room.pushes),
            handlers: Lane::new(room.handlers),
            ticks: false,
            closed: false,
        };
        let running = Mutex::new(running);
        Arc::new(Dispatch { runtime, mailbox, http, handlers, clock, observers, running })
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
        let now = monotonic();
        for delivery in deliveries {
            // It may have been abandoned or given back meanwhile.
            if !running.by_token.contains_key(&delivery.lease.token) {
                continue;
            }
            match running.lane(Sort::of(&delivery)).enter(delivery, now) {
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
            let report = self.carry_out(delivery).await;
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
                rest(Lane::TICK).await;
                if !this.tick() {
                    break;
                }
            }
        });
    }

    /// Whether there will be more.
    fn tick(&self) -> bool {
        let (now, mut running) = (monotonic(), lock(&self.running));
        for sort in [Sort::Push, Sort::Handler] {
            let Ticked { reports, old } = running.lane(sort).tick(now);
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

    async fn carry_out(&self, delivery: Delivery) -> Report {
        let now = self.clock.now();
        let Some(time) = delivery.time_to_run(now) else { return Report::Released };
        self.observers.see(Event::Delivering { delivery: &delivery, now });
        let deadline = deadline_in(time);
        reach(Point::DispatchSend);
        let report = match Sort::of(&delivery) {
            Sort::Push => self.http.deliver(delivery, deadline).await,
            Sort::Handler => self.handlers.deliver(delivery, deadline).await,
        };
        reach(Point::DispatchSent);
        report
    }
}

/// What is behind these locks is whole after every step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
