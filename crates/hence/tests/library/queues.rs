//! What an operator may set about a queue.

use hence::core::error::Rejection;
use hence::core::job::JobState;
use hence::core::queue::{QueueSettings, Rate};
use hence::core::time::Millis;
use hence::testing::{TEST_EPOCH, TestHence, in_memory};
use hence::{Client, Error, NewJob};

use crate::support::{
    HOUR, MINUTE, SECOND, Seen, call, lease_one, name, note, patient_call, queue, start, state,
    within,
};

async fn set(client: &Client, settings: QueueSettings) {
    client.put_queue(queue("default"), settings).await.unwrap();
}

#[tokio::test]
async fn p11_a_queue_paused_for_new_jobs_refuses_them_and_goes_on() {
    let seen = Seen::default();
    let hence = start(&seen).await;
    let client = hence.client();
    client.add(note("before").after(MINUTE)).await.unwrap();
    set(&client, QueueSettings { paused_in: true, ..QueueSettings::default() }).await;
    let error = client.add(note("meanwhile")).await.unwrap_err();
    assert!(error.is_retryable());
    assert!(matches!(error.rejection(), Some(Rejection::QueuePaused { .. })), "{error}");
    hence.advance(MINUTE).await.unwrap();
    set(&client, QueueSettings::default()).await;
    client.add(note("after")).await.unwrap();
    hence.settle().await.unwrap();
    assert_eq!(seen.texts(), ["before", "after"]);
}

#[tokio::test]
async fn a_queue_paused_for_handing_out_keeps_its_jobs() {
    let seen = Seen::default();
    let hence = start(&seen).await;
    let client = hence.client();
    set(&client, QueueSettings { paused_out: true, ..QueueSettings::default() }).await;
    client.add(note("pushed").id("pushed").unwrap()).await.unwrap();
    client.add(NewJob::worker()).await.unwrap();
    hence.advance(HOUR).await.unwrap();
    assert!(client.lease(call(&["default"], 9)).await.unwrap().is_empty());
    assert_eq!(state(&client, &name("pushed")).await, JobState::Ready);

    let other = client.clone();
    let worker = tokio::spawn(async move { other.lease(patient_call(&["default"], 9)).await });
    set(&client, QueueSettings::default()).await;
    assert_eq!(within(worker).await.unwrap().unwrap().len(), 1, "the waiting worker is woken");
    hence.settle().await.unwrap();
    assert_eq!(seen.texts(), ["pushed"]);
}

#[tokio::test]
async fn no_more_jobs_of_a_queue_run_at_once_than_its_concurrency() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    set(&client, QueueSettings { concurrency: Some(2), ..QueueSettings::default() }).await;
    client.add_many(vec![NewJob::worker(); 5]).await.unwrap();
    let mut leased = client.lease(call(&["default"], 9)).await.unwrap();
    assert_eq!(leased.len(), 2);
    for left in [2, 1, 0] {
        assert!(client.lease(call(&["default"], 9)).await.unwrap().is_empty(), "full");
        let done = leased.pop().unwrap();
        client.ack(done.lease.token, None).await.unwrap();
        leased.push(lease_one(&client, "default").await);
        let pending = client.queue(queue("default")).await.unwrap().counts.pending;
        assert_eq!(pending, left);
    }
}

#[tokio::test]
async fn jobs_of_a_queue_start_no_faster_than_its_rate() {
    let work = |(): (), _| async { Ok(()) };
    let hence = TestHence::start(in_memory().handler("work", work).unwrap()).await.unwrap();
    let client = hence.client();
    let rate = Some(Rate { count: 2, per: Millis::from_secs(10) });
    set(&client, QueueSettings { rate, ..QueueSettings::default() }).await;
    for n in 0..6 {
        let job = NewJob::handler("work").unwrap().id(&n.to_string()).unwrap();
        client.add(job).await.unwrap();
    }
    hence.advance(MINUTE).await.unwrap();
    let mut started = Vec::new();
    for n in 0..6 {
        let attempts = client.attempts(name(&n.to_string())).await.unwrap();
        started.push(attempts[0].started_at.since(TEST_EPOCH).get());
    }
    assert_eq!(started[..2], [0, 0], "a burst of two");
    for (nth, at) in started[2..].iter().enumerate() {
        let earliest = 5_000 * (nth as u64 + 1);
        assert!((earliest..earliest + 10).contains(at), "then one every five seconds: {started:?}");
    }
}

#[tokio::test]
async fn p11_a_full_queue_refuses_more() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    set(&client, QueueSettings { pending_max: Some(2), ..QueueSettings::default() }).await;
    let answers = client.add_many(vec![NewJob::worker(); 3]).await.unwrap();
    let full =
        |error: &Error| matches!(error.rejection(), Some(Rejection::QueueFull { max: 2, .. }));
    assert!(answers[0].is_ok() && answers[1].is_ok());
    assert!(answers[2].as_ref().is_err_and(full));
    drop(lease_one(&client, "default").await);
    client.add(NewJob::worker()).await.expect("one is running now, not pending");
}

#[tokio::test]
async fn p12_settings_that_make_no_sense_are_refused() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    let rate = |count, per| Some(Rate { count, per });
    let plain = QueueSettings::default;
    for (field, settings) in [
        ("concurrency", QueueSettings { concurrency: Some(0), ..plain() }),
        ("rate", QueueSettings { rate: rate(0, SECOND), ..plain() }),
        ("rate", QueueSettings { rate: rate(1, Millis::ZERO), ..plain() }),
        ("rate.per", QueueSettings { rate: rate(1, Millis::from_secs(90_000)), ..plain() }),
    ] {
        let error = client.put_queue(queue("default"), settings).await.unwrap_err();
        assert!(error.to_string().starts_with(field), "{field}: {error}");
        assert_eq!(client.queue(queue("default")).await.unwrap().settings, plain());
    }
}
