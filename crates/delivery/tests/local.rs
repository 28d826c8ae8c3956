//! Handlers in this process, the badly behaved ones too.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails with a line number")]

mod support;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::{pending, ready};
use hence_core::id::HandlerName;
use hence_core::job::Target as JobTarget;
use hence_delivery::local::{HandlerFn, Handlers};
use hence_delivery::{Report, Target};
use support::{PATIENCE, SHORT, attempt, job, post, within};

const DONE: Report = Report::Succeeded { result: None };

fn handler(work: impl Fn() -> Report + Send + Sync + 'static) -> HandlerFn {
    Arc::new(move |_, _| ready(work()).boxed())
}

fn failed(reason: &str) -> Report {
    Report::Failed { reason: reason.into(), retry_after: None, permanent: false }
}

#[tokio::test]
async fn every_behaviour_is_a_report() {
    let late: HandlerFn = Arc::new(|_, _| async { panic!("code {}", 7) }.boxed());
    let rows: [(&str, Option<HandlerFn>, Report); 6] = [
        ("well", Some(handler(|| DONE)), DONE),
        ("absent", None, Report::Unregistered),
        ("panics_at_once", Some(handler(|| panic!("oh"))), failed("handler panicked: oh")),
        ("panics_later", Some(late), failed("handler panicked: code 7")),
        (
            "panics_without_words",
            Some(handler(|| std::panic::panic_any(7))),
            failed("handler panicked: no message"),
        ),
        ("hangs", Some(Arc::new(|_, _| pending().boxed())), Report::TimedOut),
    ];
    let handlers = Handlers::new();
    for (name, handler, expected) in rows {
        let name = HandlerName::new(name).unwrap();
        if let Some(handler) = handler {
            assert!(handlers.register(name.clone(), handler).is_none());
        }
        let span = if expected == Report::TimedOut { SHORT } else { PATIENCE };
        let delivery = attempt(job(JobTarget::Handler(name.clone())), 1);
        assert_eq!(handlers.deliver(delivery, within(span)).await, expected, "{name}");
    }
    let names = handlers.names();
    assert_eq!(names.len(), 5);
    assert!(names.is_sorted());
}

#[tokio::test]
async fn a_handler_can_be_replaced_and_removed() {
    let handlers = Handlers::new();
    let name = HandlerName::new("mail").unwrap();
    let delivery = || attempt(job(JobTarget::Handler(HandlerName::new("mail").unwrap())), 1);
    handlers.register(name.clone(), handler(|| failed("old")));
    assert!(handlers.register(name.clone(), handler(|| DONE)).is_some());
    assert_eq!(handlers.clone().deliver(delivery(), within(PATIENCE)).await, DONE);
    assert!(handlers.remove(&name).is_some());
    assert_eq!(handlers.deliver(delivery(), within(PATIENCE)).await, Report::Unregistered);
}

#[tokio::test]
async fn dropping_a_delivery_drops_its_handler() {
    let held = Arc::new(());
    let handlers = Handlers::new();
    let inner = held.clone();
    let hangs: HandlerFn = Arc::new(move |_, _| {
        let kept = inner.clone();
        async move {
            let report = pending().await;
            drop(kept);
            report
        }
        .boxed()
    });
    let name = HandlerName::new("hangs").unwrap();
    handlers.register(name.clone(), hangs);
    let mut delivery =
        handlers.deliver(attempt(job(JobTarget::Handler(name)), 1), within(PATIENCE));
    assert!(futures::poll!(&mut delivery).is_pending());
    assert_eq!(Arc::strong_count(&held), 3);
    drop(delivery);
    assert_eq!(Arc::strong_count(&held), 2);
}

#[tokio::test]
async fn a_job_for_another_target_is_refused() {
    let report = Handlers::new().deliver(post("http://localhost/"), within(PATIENCE)).await;
    assert!(matches!(report, Report::Failed { permanent: true, .. }), "{report:?}");
}
