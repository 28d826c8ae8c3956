//! Keys: one at a time, in order. And order by due time without them.

use std::sync::{Arc, Mutex};

use hence::NewJob;
use hence::core::effect::Delivery;
use hence::core::job::KeyOnFailure;
use hence::core::queue::QueueSettings;
use hence::core::time::Millis;
use hence::handler::Failure;
use hence::testing::{TestHence, in_memory};

use crate::support::{HOUR, SECOND, Seen, call, every, note, queue, start, text_of};

#[tokio::test]
async fn p7_jobs_without_a_key_start_in_order_of_due_time() {
    let seen = Seen::default();
    let hence = start(&seen).await;
    let client = hence.client();
    let closed = QueueSettings { paused_out: true, ..QueueSettings::default() };
    client.put_queue(queue("default"), closed).await.unwrap();
    for due in [30, 10, 20, 10] {
        client.add(note(&due.to_string()).after(Millis::from_secs(due))).await.unwrap();
    }
    hence.advance(HOUR).await.unwrap();
    assert!(seen.calls().is_empty(), "the queue is closed");
    let one_by_one = QueueSettings { concurrency: Some(1), ..QueueSettings::default() };
    client.put_queue(queue("default"), one_by_one).await.unwrap();
    hence.settle().await.unwrap();
    assert_eq!(seen.texts(), ["10", "10", "20", "30"]);
}

#[tokio::test]
async fn p6_jobs_of_a_key_run_one_at_a_time_in_order_of_due_time() {
    let under_way: Arc<Mutex<Vec<String>>> = Arc::default();
    let order: Arc<Mutex<Vec<String>>> = Arc::default();
    let written = Arc::clone(&order);
    let work = move |text: String, delivery: Delivery| {
        let (under_way, order) = (Arc::clone(&under_way), Arc::clone(&order));
        async move {
            let key = delivery.job.name.key.clone().unwrap().to_string();
            {
                let mut running = under_way.lock().unwrap();
                assert!(!running.contains(&key), "another one of {key} is under way");
                running.push(key.clone());
            }
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
            order.lock().unwrap().push(format!("{key}{text}"));
            under_way.lock().unwrap().retain(|other| *other != key);
            Ok(())
        }
    };
    let builder = in_memory().handler("work", work).unwrap();
    let hence = TestHence::start(builder).await.unwrap();
    let client = hence.client();
    let keys = ["a", "b", "c"];
    for due in [5_u64, 3, 1, 4, 2] {
        for key in keys {
            let job = NewJob::handler("work").unwrap().json(&due.to_string()).unwrap();
            client.add(job.key(key).unwrap().after(Millis::from_secs(due))).await.unwrap();
        }
    }
    hence.jump(HOUR).await.unwrap();
    let order = written.lock().unwrap().clone();
    assert_eq!(order.len(), 15);
    for key in keys {
        let of_key: Vec<_> = order.iter().filter(|text| text.starts_with(key)).collect();
        let expected: Vec<_> = (1..=5).map(|due| format!("{key}{due}")).collect();
        assert_eq!(of_key, expected.iter().collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn p6_a_failing_job_blocks_its_key_or_steps_aside() {
    let rows = [
        (KeyOnFailure::Block, ["bad", "bad", "good"]),
        (KeyOnFailure::StepAside, ["bad", "good", "bad"]),
    ];
    for (choice, expected) in rows {
        let seen = Seen::default();
        let tried = seen.clone();
        let work = move |text: String, delivery: Delivery| {
            let fails = text == "bad";
            tried.push(text, &delivery);
            async move { if fails { Err(Failure::retry("bad")) } else { Ok(()) } }
        };
        let builder = in_memory().handler("work", work).unwrap();
        let hence = TestHence::start(builder).await.unwrap();
        for (text, due) in [("bad", 1), ("good", 2)] {
            let job = NewJob::handler("work").unwrap().json(&text).unwrap().key("k").unwrap();
            let job = job.after(Millis::from_secs(due)).key_on_failure(choice);
            hence.client().add(job.retry(every(Millis::from_secs(10), 2))).await.unwrap();
        }
        hence.advance(HOUR).await.unwrap();
        assert_eq!(seen.texts(), expected, "{choice:?}");
    }
}

#[tokio::test]
async fn p3_of_a_key_only_one_job_is_with_a_worker() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    for text in ["first", "second"] {
        client.add(NewJob::worker().key("k").unwrap().payload(text)).await.unwrap();
    }
    for text in ["first", "second"] {
        let leased = client.lease(call(&["default"], 10)).await.unwrap();
        assert_eq!(leased.iter().map(text_of).collect::<Vec<_>>(), [text]);
        hence.advance(SECOND).await.unwrap();
        client.ack(leased[0].lease.token, None).await.unwrap();
    }
}
