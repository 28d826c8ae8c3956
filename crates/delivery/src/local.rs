//! Calls handlers registered by name in this process.

use std::any::Any;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError, RwLock};

use futures::FutureExt;
use futures::future::BoxFuture;
use hence_core::id::HandlerName;
use hence_core::job::cut_reason;
use tokio::time::Instant;

use crate::{Delivery, Report, Target};

/// A handler: gets the delivery and the instant until which its report counts.
///
/// It runs on the task of the delivery, so it must not block its thread: the deadline, and being
/// dropped, can stop it only where it awaits.
pub type HandlerFn = Arc<dyn Fn(Delivery, Instant) -> BoxFuture<'static, Report> + Send + Sync>;

/// The handlers of this process. A clone is the same registry.
///
/// ```
/// use std::sync::Arc;
/// use futures::FutureExt;
/// use hence_core::id::HandlerName;
/// use hence_delivery::{Report, local::Handlers};
///
/// let handlers = Handlers::new();
/// let greet = HandlerName::new("greet").unwrap();
/// handlers.register(
///     greet.clone(),
///     Arc::new(|delivery, _deadline| {
///         async move { Report::Succeeded { result: Some(delivery.job.payload.clone()) } }.boxed()
///     }),
/// );
/// assert_eq!(handlers.names(), [greet]);
/// ```
#[derive(Clone, Default)]
pub struct Handlers {
    by_name: Arc<RwLock<HashMap<HandlerName, HandlerFn>>>,
}

impl Handlers {
    /// No handlers yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a handler; one of the same name is replaced and returned.
    pub fn register(&self, name: HandlerName, handler: HandlerFn) -> Option<HandlerFn> {
        // A map is whole after every step, so a panic elsewhere cannot have left it broken.
        self.by_name.write().unwrap_or_else(PoisonError::into_inner).insert(name, handler)
    }

    /// Takes a handler away; deliveries that it has already begun go on.
    pub fn remove(&self, name: &HandlerName) -> Option<HandlerFn> {
        self.by_name.write().unwrap_or_else(PoisonError::into_inner).remove(name)
    }

    /// The names registered, in order.
    pub fn names(&self) -> Vec<HandlerName> {
        let by_name = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<_> = by_name.keys().cloned().collect();
        names.sort_unstable();
        names
    }

    fn find(&self, name: &HandlerName) -> Option<HandlerFn> {
        self.by_name.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    async fn call(&self, delivery: Delivery, deadline: Instant) -> Report {
        let hence_core::job::Target::Handler(name) = &delivery.job.target else {
            return Report::Failed {
                reason: "this job names no handler".into(),
                retry_after: None,
                permanent: true,
            };
        };
        let Some(handler) = self.find(name) else { return Report::Unregistered };
        // The handler is called inside the future, so that a panic before its first await is
        // caught too. Nothing of ours is behind the unwind boundary that could be left half done.
        let running = AssertUnwindSafe(async move { handler(delivery, deadline).await });
        match tokio::time::timeout_at(deadline, running.catch_unwind()).await {
            Ok(Ok(report)) => report,
            Ok(Err(panic)) => panicked(&*panic),
            Err(_) => Report::TimedOut,
        }
    }
}

impl Target for Handlers {
    fn deliver(&self, delivery: Delivery, deadline: Instant) -> BoxFuture<'_, Report> {
        self.call(delivery, deadline).boxed()
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Report {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    Report::Failed {
        reason: cut_reason(&format!("handler panicked: {message}")),
        retry_after: None,
        permanent: false,
    }
}
