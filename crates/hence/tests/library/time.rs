//! Clocks that are wrong, and clocks that are put right.

use std::sync::Arc;

use hence::core::job::JobState;
use hence::core::queue::QueueSettings;
use hence::core::retry::RetryPolicy;
use hence::core::time::Millis;
use hence::observe::{Event, Observer};
use hence::store::MemoryStore;
use hence::testing::TEST_EPOCH;
use hence::{Builder, Client, NewJob};

use crate::support::scripted::{Scripted, Step};
use crate::support::{
    HOUR, MINUTE, SECOND, Seen, call, lease_one, name, note, queue, start, start_on, state, within,
};

async fn open(client: &Client, paused_out: bool) {
    let settings = QueueSettings { paused_out, ..QueueSettings::default() };
    client.put_queue(queue("default"), settings).await.unwrap();
}

#[tokio::test]
async fn p2_nothing_starts_early_when_the_clock_is_set_back() {
    let seen = Seen::default();
    let hence = start(&seen).await;
    let client = hence.client();
    client.add(note("soon").after(MINUTE)).await.unwrap();
    hence.clock().set(TEST_EPOCH.minus(HOUR));
    hence.advance(HOUR).await.unwrap();
    assert!(seen.calls().is_empty());
    hence.advance(MINUTE).await.unwrap();
    assert_eq!(seen.texts(), ["soon"]);
}

#[tokio::test]
async fn p2_a_job_that_was_ready_when_the_clock_was_set_back_waits_again() {
    let seen = Seen::default();
    let hence = start(&seen).await;
    let client = hence.client();
    open(&client, true).await;
    client.add(note("pushed").after(MINUTE)).await.unwrap();
    client.add(NewJob::worker().after(MINUTE)).await.unwrap();
    hence.advance(MINUTE).await.unwrap();
    hence.clock().set(TEST_EPOCH);
    open(&client, false).await;
    hence.settle().await.unwrap();
    assert!(seen.calls().is_empty());
    assert!(client.lease(call(&["default"], 1)).await.unwrap().is_empty());
    hence.advance(MINUTE).await.unwrap();
    assert_eq!(seen.texts(), ["pushed"]);
    drop(lease_one(&client, "default").await);
}

#[tokio::test]
async fn a_lease_granted_before_the_clock_was_set_back_can_be_acknowledged() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    client.add(NewJob::worker()).await.unwrap();
    let leased = lease_one(&client, "default").await;
    hence.clock().set(TEST_EPOCH.minus(HOUR));
    client.ack(leased.lease.token, None).await.unwrap();
    hence.settle().await.unwrap();
}

#[tokio::test]
async fn sweeping_goes_on_after_a_clock_that_ran_ahead_is_set_right() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    hence.jump(Millis::from_secs(366 * 24 * 3600)).await.unwrap();
    hence.clock().set(TEST_EPOCH);
    hence.settle().await.unwrap();
    client.add(note("x").id("job").unwrap().retention(SECOND)).await.unwrap();
    hence.advance(MINUTE).await.unwrap();
    let everything = hence::core::job::JobState::ALL.to_vec();
    let filter = hence::store::Filter { states: everything, ..hence::store::Filter::default() };
    assert!(client.list(filter, None, 10).await.unwrap().jobs.is_empty());
}

/// Says that the driver has taken notice of something.
#[derive(Default)]
struct Noticed(tokio::sync::Notify);

impl Observer for Noticed {
    fn observe(&self, event: Event<'_>) {
        if let Event::Noticed(_) = event {
            self.0.notify_one();
        }
    }
}

fn one_attempt() -> RetryPolicy {
    RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }
}

/// Each lease that ran out before it was durable counted: a store that was away killed jobs that
/// had never been sent.
#[tokio::test]
async fn p5_a_lease_that_was_over_before_it_was_durable_was_no_attempt() {
    let (seen, noticed) = (Seen::default(), Arc::new(Noticed::default()));
    let store = Scripted::passing(Arc::new(MemoryStore::new(1)));
    store.move_away();
    let builder = Builder::new(store.clone()).observer(noticed.clone());
    let hence = start_on(builder, &seen).await;
    let client = hence.client();
    let once = |job: NewJob| job.retry(one_attempt()).timeout(SECOND).after(MINUTE);
    client.add(once(note("pushed").id("pushed").unwrap())).await.unwrap();
    client.add(NewJob::handler("nobody").unwrap().after(HOUR)).await.unwrap();
    let gate = store.hold();
    hence.clock().advance(MINUTE);
    within(gate.arrival()).await;
    // Its alarms ring in their order: the lease is over before the handler is missed.
    hence.clock().advance(HOUR);
    within(noticed.0.notified()).await;
    store.plan(|_| Step::Make);
    gate.open();
    within(async {
        while seen.calls().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(seen.calls()[0].attempt, 1);
    hence.settle().await.unwrap();
    assert_eq!(state(&client, &name("pushed")).await, JobState::Succeeded);
}
