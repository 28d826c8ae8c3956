//! Carries out deliveries: one task each, which can be stopped by its token.

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
use tokio::task::AbortHandle;

use crate::clock::deadline_in;
use crate::mailbox::{Mailbox, Message};

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
    by_token: BTreeMap<Token, AbortHandle>,
    /// Nothing is started any more: what comes is given back.
    closed: bool,
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
        // Held over the spawning: a task that ends at once waits to be entered before it leaves.
        let mut running = self.lock();
        for delivery in deliveries {
            let token = delivery.lease.token;
            if running.closed {
                drop(self.mailbox.send(Message::Delivered(token, Report::Released)));
                continue;
            }
            let this = Arc::clone(self);
            let task = self.runtime.spawn(async move {
                reach(Point::DispatchSend);
                let report = this.hand_to_target(delivery).await;
                reach(Point::DispatchSent);
                this.forget(token);
                // A driver that has stopped counts the attempt as unknown.
                drop(this.mailbox.send(Message::Delivered(token, report)));
            });
            running.by_token.insert(token, task.abort_handle());
        }
    }

    /// Stops a delivery; its outcome does not count any more.
    pub(crate) fn abandon(&self, token: Token) {
        if let Some(task) = self.forget(token) {
            task.abort();
        }
    }

    /// Stops all deliveries and gives their jobs back, also of those that are still to come.
    pub(crate) fn give_all_back(&self) {
        let mut running = self.lock();
        running.closed = true;
        for (token, task) in std::mem::take(&mut running.by_token) {
            task.abort();
            drop(self.mailbox.send(Message::Delivered(token, Report::Released)));
        }
    }

    async fn hand_to_target(&self, delivery: Delivery) -> Report {
        let deadline = deadline_in(delivery.job.timeout);
        match &delivery.job.target {
            Where::Http(_) => self.http.deliver(delivery, deadline).await,
            Where::Handler(_) => self.handlers.deliver(delivery, deadline).await,
            Where::Worker => unreachable!("workers pull; nothing is pushed to them"),
        }
    }

    fn forget(&self, token: Token) -> Option<AbortHandle> {
        self.lock().by_token.remove(&token)
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
