//! Stopping in good order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use hence::core::effect::Delivery;
use hence::core::error::Rejection;
use hence::core::job::{AttemptEnd, JobState};
use hence::handler::Failure;
use hence::store::{ErrorKind, MemoryStore, Store};
use hence::testing::TestHence;
use hence::{Builder, Error, NewJob};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

use crate::support::disk::Disk;
use crate::support::scripted::{Scripted, Step};
use crate::support::{
    DEADLINE, HOUR, Seen, call, ends, lease_one, name, note, patient_call, start, start_on, state,
    within,
};

/// A handler that says when it has begun and ends when it is let.
#[derive(Clone)]
struct Slow {
    begun: mpsc::UnboundedSender<u32>,
    may_end: Arc<Semaphore>,
    ended: Arc<AtomicBool>,
}

impl Slow {
    fn new() -> (Self, mpsc::UnboundedReceiver<u32>) {
        let (begun, begins) = mpsc::unbounded_channel();
        let may_end = Arc::new(Semaphore::new(0));
        (Slow { begun, may_end, ended: Arc::default() }, begins)
    }

    fn handler(&self) -> impl Fn((), Delivery) -> BoxFuture<'static, Result<(), Failure>> + use<> {
        let slow = self.clone();
        move |(), delivery| {
            let slow = slow.clone();
            async move {
                slow.begun.send(delivery.lease.attempt)?;
                slow.may_end.acquire().await?.forget();
                slow.ended.store(true, Ordering::SeqCst);
                Ok(())
            }
            .boxed()
        }
    }
}

fn slow_job() -> NewJob {
    NewJob::handler("slow").unwrap().id("slow").unwrap()
}

#[tokio::test]
async fn a_shutdown_lets_what_is_under_way_finish() {
    let store = Arc::new(MemoryStore::new(1));
    let (slow, mut begins) = Slow::new();
    let builder = Builder::new(store.clone()).handler("slow", slow.handler()).unwrap();
    let hence = TestHence::start(builder).await.unwrap();
    let client = hence.client();
    client.add(slow_job()).await.unwrap();
    within(begins.recv()).await.unwrap();
    let stopping = tokio::spawn(hence.shutdown(DEADLINE));
    // It accepts nothing from the moment it begins to stop.
    let refused = within(async {
        loop {
            match client.add(NewJob::worker()).await {
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => return error,
            }
        }
    });
    assert_eq!(refused.await.rejection(), Some(&Rejection::Draining));
    assert!(client.lease(patient_call(&["default"], 1)).await.unwrap().is_empty(), "nor waits");
    slow.may_end.add_permits(1);
    within(stopping).await.unwrap();
    assert!(slow.ended.load(Ordering::SeqCst));
    assert!(matches!(client.show(name("slow")).await, Err(Error::Stopped)));

    let hence = TestHence::start(Builder::new(store)).await.unwrap();
    assert_eq!(state(&hence.client(), &name("slow")).await, JobState::Succeeded);
}

#[tokio::test]
async fn while_it_drains_whoever_holds_a_job_can_say_what_became_of_it() {
    let (slow, mut begins) = Slow::new();
    let builder = Builder::new(Arc::new(MemoryStore::new(1)));
    let hence = TestHence::start(builder.handler("slow", slow.handler()).unwrap()).await.unwrap();
    let client = hence.client();
    client.add(slow_job()).await.unwrap();
    within(begins.recv()).await.unwrap();
    for id in ["acked", "held"] {
        client.add(NewJob::worker().id(id).unwrap()).await.unwrap();
    }
    let (acked, held) = (lease_one(&client, "default").await, lease_one(&client, "default").await);
    let draining = tokio::spawn(hence.drain());
    let refused = client.add(NewJob::worker()).await.unwrap_err();
    assert_eq!(refused.rejection(), Some(&Rejection::Draining), "from the call on");
    client.ack(acked.lease.token, None).await.unwrap();
    client.extend(held.lease.token, HOUR).await.unwrap();
    assert_eq!(state(&client, &name("acked")).await, JobState::Succeeded);
    assert!(!draining.is_finished(), "a handler is under way");
    slow.may_end.add_permits(1);
    within(draining).await.unwrap();
    assert_eq!(state(&client, &name("slow")).await, JobState::Succeeded, "and is recorded");
    within(hence.drain()).await;
    within(hence.shutdown(DEADLINE)).await;
}

#[tokio::test]
async fn p9_what_does_not_finish_in_time_is_given_back_and_delivered_again() {
    for (engine, disk) in Disk::of_each_engine() {
        give_back(&disk, engine).await;
    }
}

async fn give_back(disk: &Disk, engine: &str) {
    let (slow, mut begins) = Slow::new();
    let builder = Builder::new(disk.open()).handler("slow", slow.handler()).unwrap();
    let hence = TestHence::start(builder).await.unwrap();
    let clock = hence.clock().clone();
    hence.client().add(slow_job()).await.unwrap();
    assert_eq!(within(begins.recv()).await, Some(1));
    within(hence.shutdown(Duration::from_millis(10))).await;
    assert!(!slow.ended.load(Ordering::SeqCst), "it was stopped");

    slow.may_end.add_permits(1);
    let builder = Builder::new(disk.open()).handler("slow", slow.handler()).unwrap();
    let hence = TestHence::start_at(builder, clock).await.unwrap();
    within(hence.settle()).await.unwrap();
    assert_eq!(begins.recv().await, Some(1), "{engine}: the same attempt");
    let attempts = hence.client().attempts(name("slow")).await.unwrap();
    assert!(attempts[0].token < attempts[1].token, "{engine}: a higher token");
    let expected = [(1, AttemptEnd::Released), (1, AttemptEnd::Succeeded)];
    assert_eq!(ends(&hence.client(), &name("slow")).await, expected, "{engine}");
}

#[tokio::test]
async fn a_waiting_worker_is_sent_home() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    let waiting = tokio::spawn(async move { client.lease(patient_call(&["default"], 1)).await });
    tokio::task::yield_now().await;
    hence.shutdown(DEADLINE).await;
    let answer = within(waiting).await.unwrap();
    // Its call may also have come too late to be heard.
    assert!(matches!(answer.as_deref(), Ok([]) | Err(Error::Stopped)), "{answer:?}");
}

#[tokio::test]
async fn p9_a_pulled_job_stays_with_its_worker_over_a_restart() {
    for (engine, disk) in Disk::of_each_engine() {
        let hence = start_on(Builder::new(disk.open()), &Seen::default()).await;
        let clock = hence.clock().clone();
        hence.client().add(NewJob::worker().id("job").unwrap()).await.unwrap();
        let leased = lease_one(&hence.client(), "default").await;
        hence.shutdown(DEADLINE).await;
        let hence = TestHence::start_at(Builder::new(disk.open()), clock).await.unwrap();
        let client = hence.client();
        assert!(client.lease(call(&["default"], 1)).await.unwrap().is_empty(), "{engine}: taken");
        client.ack(leased.lease.token, None).await.unwrap();
        let expected = [(1, AttemptEnd::Succeeded)];
        assert_eq!(ends(&client, &name("job")).await, expected, "{engine}");
    }
}

#[tokio::test]
async fn a_delivery_still_being_committed_when_the_grace_ends_is_not_started() {
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new(1));
    let store = Scripted::passing(Arc::clone(&memory));
    let seen = Seen::default();
    let hence = start_on(Builder::new(store.clone()), &seen).await;
    hence.client().add(note("job").id("job").unwrap().after(HOUR)).await.unwrap();
    let gate = store.hold();
    hence.clock().advance(HOUR);
    gate.arrival().await;
    let mut stopping = Box::pin(hence.shutdown(Duration::ZERO));
    let soon = Duration::from_millis(20);
    let early = tokio::time::timeout(soon, &mut stopping).await;
    assert!(early.is_err(), "the grace is over, but the last commit still waits");
    gate.open();
    within(stopping).await;
    assert!(seen.calls().is_empty(), "its lease was durable too late");

    let hence = start_on(Builder::new(memory), &seen).await;
    hence.advance(HOUR).await.unwrap();
    assert_eq!(seen.calls().len(), 1);
    assert_eq!(seen.calls()[0].attempt, 1);
}

#[tokio::test]
async fn p1_a_store_that_cannot_be_written_does_not_keep_it_from_stopping() {
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new(1));
    let store = Scripted::passing(Arc::clone(&memory));
    let seen = Seen::default();
    let hence = start_on(Builder::new(store.clone()), &seen).await;
    let client = hence.client();
    client.add(note("before").after(HOUR)).await.unwrap();
    store.plan(|_| Step::Fail(ErrorKind::Unavailable));
    let meanwhile = tokio::spawn(async move { client.add(note("meanwhile")).await });
    tokio::task::yield_now().await;
    within(hence.shutdown(Duration::ZERO)).await;
    let unknown = within(meanwhile).await.unwrap();
    assert!(matches!(unknown, Err(Error::Stopped)), "not acknowledged: {unknown:?}");

    let hence = start_on(Builder::new(memory), &seen).await;
    hence.advance(HOUR).await.unwrap();
    assert_eq!(seen.texts(), ["before"], "what was acknowledged is there");
}
