//! Letters: requests that others wrote into the store, in transactions of their own.

use std::sync::Arc;

use hence::core::effect::Delivery;
use hence::core::error::Rejection;
use hence::core::id::JobNumber;
use hence::core::job::JobState;
use hence::core::queue::QueueSettings;
use hence::core::time::Timestamp;
use hence::postman::Asked;
use hence::store::{Letter, MemoryStore};
use hence::{Client, Hence, NewJob};

use crate::support::{DEADLINE, name, patient_call, queue, within};

/// Some time ago: what is asked for in a letter may be due by now.
const WRITTEN: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// `add ID`, or `done ID NUMBER`.
fn read(letter: &Letter) -> Result<Asked, Rejection> {
    let text = std::str::from_utf8(&letter.body).unwrap();
    match text.split(' ').collect::<Vec<_>>()[..] {
        ["add", id] => Ok(Asked::Add(Box::new(NewJob::worker().id(id)?))),
        ["done", id, number] => Ok(Asked::Complete {
            name: name(id),
            number: JobNumber(number.parse().unwrap()),
            result: None,
        }),
        _ => Err(Rejection::invalid("letter", "must say add or done")),
    }
}

async fn start(store: &MemoryStore) -> Hence {
    Hence::builder(Arc::new(store.clone())).letters(read).start().await.unwrap()
}

async fn taken(client: &Client) -> Delivery {
    within(client.lease(patient_call(&["default"], 1))).await.unwrap().remove(0)
}

#[tokio::test]
async fn a_letter_becomes_a_job_whenever_it_was_written() {
    let store = MemoryStore::new(1);
    store.write_letter(WRITTEN, "add before");
    let hence = start(&store).await;
    let client = hence.client();
    assert_eq!(taken(&client).await.job.name, name("before"));
    store.write_letter(WRITTEN, "add meanwhile");
    let job = taken(&client).await;
    assert_eq!(job.job.name, name("meanwhile"));
    assert_eq!(job.due_at, WRITTEN, "its time is counted from when it was written");
}

#[tokio::test]
async fn more_letters_than_a_page_holds_are_all_taken_once() {
    let store = MemoryStore::new(1);
    for n in 0..1_203 {
        store.write_letter(WRITTEN, format!("add job-{n}"));
    }
    let hence = start(&store).await;
    let client = hence.client();
    let mut jobs = Vec::new();
    while jobs.len() < 1_203 {
        let some = within(client.lease(patient_call(&["default"], 1_000))).await.unwrap();
        jobs.extend(some.into_iter().map(|delivery| delivery.job.name.id.to_string()));
    }
    jobs.sort_unstable();
    jobs.dedup();
    assert_eq!(jobs.len(), 1_203);
    let counts = client.queue(queue("default")).await.unwrap().counts;
    assert_eq!(counts.submitted, 1_203);
}

#[tokio::test]
async fn work_committed_elsewhere_is_recorded_as_done() {
    let store = MemoryStore::new(1);
    let hence = start(&store).await;
    let client = hence.client();
    client.add(NewJob::worker().id("a").unwrap()).await.unwrap();
    let job = taken(&client).await;
    store.write_letter(WRITTEN, format!("done a {}", job.job.number.0));
    let ended = client.wait(name("a"), DEADLINE).await.unwrap().expect("it ends");
    assert_eq!(ended.state, JobState::Succeeded);
}

#[tokio::test]
async fn a_letter_without_sense_is_kept_with_the_reason_and_holds_up_nobody() {
    let store = MemoryStore::new(1);
    store.write_letter(WRITTEN, "please");
    store.write_letter(WRITTEN, "add good");
    let hence = start(&store).await;
    assert_eq!(taken(&hence.client()).await.job.name, name("good"));
    let refused = store.refused_letters();
    assert_eq!(refused.len(), 1);
    assert_eq!(
        (&refused[0].0.body[..], &*refused[0].1),
        (&b"please"[..], "letter must say add or done")
    );
}

#[tokio::test]
async fn a_letter_for_a_paused_queue_waits_for_it() {
    let store = MemoryStore::new(1);
    let hence = start(&store).await;
    let client = hence.client();
    let paused = QueueSettings { paused_in: true, ..QueueSettings::default() };
    client.put_queue(queue("default"), paused).await.unwrap();
    store.write_letter(WRITTEN, "add later");
    client.put_queue(queue("default"), QueueSettings::default()).await.unwrap();
    assert_eq!(taken(&client).await.job.name, name("later"));
    assert!(store.refused_letters().is_empty());
}
