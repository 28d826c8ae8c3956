//! Workers that pull.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::poll;
use hence::client::LeaseRequest;
use hence::core::effect::Delivery;
use hence::core::error::Rejection;
use hence::core::input::Nack;
use hence::core::job::{AttemptEnd, JobState};
use hence::core::time::Millis;
use hence::store::MemoryStore;
use hence::testing::TEST_EPOCH;
use hence::{Builder, Error, NewJob};

use crate::support::scripted::Scripted;
use crate::support::{
    HOUR, MINUTE, SECOND, Seen, call, ends, every, lease_one, name, patient_call, queue, start,
    start_on, state, text_of, within,
};

fn stale(answer: Result<(), Error>) -> bool {
    matches!(answer, Err(Error::Rejected(Rejection::StaleToken)))
}

fn work(text: &str) -> NewJob {
    NewJob::worker().id(text).unwrap().payload(text.to_owned())
}

#[tokio::test]
async fn a_waiting_worker_is_woken_by_what_it_waits_for() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    let mut waiting = Box::pin(client.lease(patient_call(&["default"], 10)));
    assert!(poll!(&mut waiting).is_pending());
    client.add(work("other").queue("other").unwrap()).await.unwrap();
    client.add(work("later").after(HOUR)).await.unwrap();
    hence.settle().await.unwrap();
    assert!(poll!(&mut waiting).is_pending(), "another queue, and not due");
    hence.advance(HOUR).await.unwrap();
    let leased = within(waiting).await.unwrap();
    assert_eq!(leased.iter().map(text_of).collect::<Vec<_>>(), ["later"]);
    assert_eq!(leased[0].due_at, TEST_EPOCH.plus(HOUR));
}

#[tokio::test]
async fn many_waiting_workers_share_what_comes() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    let mut workers = Vec::new();
    for _ in 0..10 {
        let client = client.clone();
        workers.push(tokio::spawn(async move {
            client.lease(patient_call(&["a", "b"], 1)).await.unwrap()
        }));
    }
    let jobs = (0..10).map(|n| NewJob::worker().queue(["a", "b"][n % 2]).unwrap());
    client.add_many(jobs.collect()).await.unwrap();
    let mut tokens = HashSet::new();
    for worker in workers {
        let leased = within(worker).await.unwrap();
        tokens.extend(leased.into_iter().map(|delivery| delivery.lease.token));
    }
    assert_eq!(tokens.len(), 10, "each got one, each another one");
}

#[tokio::test]
async fn queues_are_served_from_left_to_right_and_in_batches() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    for (id, due, of) in [("a", 1, "low"), ("b", 2, "high"), ("c", 3, "high"), ("d", 4, "low")] {
        let job = work(id).queue(of).unwrap().after(Millis::from_secs(due));
        client.add(job).await.unwrap();
    }
    hence.advance(MINUTE).await.unwrap();
    for (max, expected) in [(1, vec!["b"]), (2, vec!["c", "a"]), (9, vec!["d"]), (9, vec![])] {
        let leased = client.lease(call(&["high", "low", "none"], max)).await.unwrap();
        assert_eq!(leased.iter().map(text_of).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn p3_no_job_is_with_two_workers() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    client.add_many(vec![NewJob::worker(); 500]).await.unwrap();
    let mut workers = Vec::new();
    for _ in 0..5 {
        let client = client.clone();
        workers.push(tokio::spawn(async move {
            let mut mine = Vec::new();
            loop {
                let leased = client.lease(call(&["default"], 7)).await.unwrap();
                if leased.is_empty() {
                    return mine;
                }
                mine.extend(leased.into_iter().map(|delivery| delivery.job.number));
            }
        }));
    }
    let mut all = Vec::new();
    for worker in workers {
        all.extend(within(worker).await.unwrap());
    }
    let different: HashSet<_> = all.iter().collect();
    assert_eq!((all.len(), different.len()), (500, 500));
}

#[tokio::test]
async fn p3_a_worker_that_goes_away_while_waiting_loses_nothing() {
    let store = Scripted::passing(Arc::new(MemoryStore::new(1)));
    let hence = start_on(Builder::new(store.clone()), &Seen::default()).await;
    let client = hence.client();
    // Gone before the job comes.
    let mut gone = Box::pin(client.lease(patient_call(&["default"], 1)));
    assert!(poll!(&mut gone).is_pending());
    drop(gone);
    client.add(work("one")).await.unwrap();
    hence.settle().await.unwrap();
    let leased = lease_one(&client, "default").await;
    assert_eq!(text_of(&leased), "one");
    client.ack(leased.lease.token, None).await.unwrap();

    // Gone after the job was sent and before it looked.
    let mut gone = Box::pin(client.lease(patient_call(&["default"], 1)));
    assert!(poll!(&mut gone).is_pending());
    client.add(work("two")).await.unwrap();
    hence.settle().await.unwrap();
    assert_eq!(client.leases(10).await.unwrap().len(), 1, "it is leased to whom is going");
    drop(gone);
    let leased = lease_one(&client, "default").await;
    assert_eq!((text_of(&leased).as_str(), leased.lease.attempt), ("two", 1));
    client.ack(leased.lease.token, None).await.unwrap();
    let expected = [(1, AttemptEnd::Released), (1, AttemptEnd::Succeeded)];
    assert_eq!(ends(&client, &name("two")).await, expected, "the lost one does not count");

    // Gone after it said what is done and before it looked at what is next.
    client.add_many(vec![work("three"), work("four")]).await.unwrap();
    let done = lease_one(&client, "default").await.lease.token;
    let gate = store.hold();
    let mut gone = Box::pin(client.ack_and_lease(vec![(done, None)], call(&["default"], 1)));
    assert!(poll!(&mut gone).is_pending());
    gate.open();
    hence.settle().await.unwrap();
    assert_eq!(client.leases(10).await.unwrap().len(), 1, "it is leased to whom is going");
    drop(gone);
    let leased = lease_one(&client, "default").await;
    assert_eq!((text_of(&leased).as_str(), leased.lease.attempt), ("four", 1));
    assert_eq!(state(&client, &name("three")).await, JobState::Succeeded);
}

#[tokio::test]
async fn a_wait_that_ends_first_is_answered_with_nothing() {
    let hence = start(&Seen::default()).await;
    let wait = Duration::from_millis(1);
    let request = LeaseRequest { wait, ..call(&["default"], 1) };
    assert!(hence.client().lease(request).await.unwrap().is_empty());
}

#[tokio::test]
async fn p12_a_call_that_makes_no_sense_is_refused() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    let many = vec!["q"; 101];
    let short = LeaseRequest { lease: Some(Millis::new(1)), ..call(&["q"], 1) };
    let rows = [
        ("queues", call(&[], 1)),
        ("queues", call(&many, 1)),
        ("max", call(&["q"], 0)),
        ("max", call(&["q"], 1_001)),
        ("lease", short),
    ];
    for (field, request) in rows {
        let error = client.lease(request).await.unwrap_err();
        assert!(error.to_string().starts_with(field), "{field}: {error}");
    }
}

#[tokio::test]
async fn p4_a_lease_that_ran_out_cannot_finish_the_job() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    client.add(work("job").timeout(MINUTE).retry(every(SECOND, 2))).await.unwrap();
    let late = lease_one(&client, "default").await.lease;
    assert_eq!(late.until, TEST_EPOCH.plus(MINUTE), "the job's own time");
    hence.advance(MINUTE).await.unwrap();
    assert!(stale(client.ack(late.token, None).await));
    assert!(stale(client.nack(late.token, Nack::Dead, None).await));
    assert!(client.extend(late.token, MINUTE).await.is_err());

    hence.advance(SECOND).await.unwrap();
    let second = lease_one(&client, "default").await.lease;
    assert_eq!(second.attempt, 2);
    assert!(second.token > late.token);
    assert!(stale(client.ack(late.token, None).await), "also while another one has it");
    client.ack(second.token, None).await.unwrap();
    client.ack(second.token, None).await.expect("the same answer to the same question");
    assert!(stale(client.nack(second.token, Nack::Dead, None).await));
    let expected = [(1, AttemptEnd::TimedOut), (2, AttemptEnd::Succeeded)];
    assert_eq!(ends(&client, &name("job")).await, expected);
}

#[tokio::test]
async fn an_extended_lease_holds_until_its_new_end() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    client.add(work("job")).await.unwrap();
    let request = LeaseRequest { lease: Some(MINUTE), ..call(&["default"], 1) };
    let token = client.lease(request).await.unwrap()[0].lease.token;
    hence.advance(Millis::from_secs(59)).await.unwrap();
    let until = client.extend(token, HOUR).await.unwrap();
    assert_eq!(until, hence.client().now().plus(HOUR));
    hence.advance(Millis::new(HOUR.get() - 1)).await.unwrap();
    assert_eq!(state(&client, &name("job")).await, JobState::Running);
    client.ack(token, None).await.unwrap();
    for bad in [Millis::new(1), Millis::from_secs(13 * 3600)] {
        assert!(client.extend(token, bad).await.is_err(), "{bad}");
    }
}

#[tokio::test]
async fn p5_a_worker_says_how_it_goes_on() {
    let release = |delay| Nack::Release { delay };
    let again = |delay| Nack::Retry { delay };
    // What it says; when the job is due again and as which attempt; or dead.
    let rows = [
        (again(None), Some((SECOND, 2))),
        (again(Some(MINUTE)), Some((MINUTE, 2))),
        (again(Some(Millis::new(1))), Some((SECOND, 2))),
        (release(Millis::ZERO), Some((Millis::ZERO, 1))),
        (release(MINUTE), Some((MINUTE, 1))),
        (Nack::Dead, None),
    ];
    for (how, expected) in rows {
        let hence = start(&Seen::default()).await;
        let client = hence.client();
        client.add(work("job").retry(every(SECOND, 2))).await.unwrap();
        let token = lease_one(&client, "default").await.lease.token;
        client.nack(token, how, Some("so")).await.unwrap();
        let Some((delay, attempt)) = expected else {
            assert_eq!(state(&client, &name("job")).await, JobState::Dead);
            continue;
        };
        let view = client.show(name("job")).await.unwrap();
        assert_eq!(view.progress.due_at, TEST_EPOCH.plus(delay), "{how:?}");
        hence.advance(delay).await.unwrap();
        let second = lease_one(&client, "default").await.lease;
        assert_eq!(second.attempt, attempt, "{how:?}");
        assert!(second.token > token, "{how:?}");
    }
}

#[tokio::test]
async fn acknowledgements_in_bulk_are_answered_one_by_one() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    client.add_many(vec![NewJob::worker(); 3]).await.unwrap();
    let leased = client.lease(call(&["default"], 3)).await.unwrap();
    let tokens: Vec<_> = leased.iter().map(|delivery| delivery.lease.token).collect();
    client.nack(tokens[1], Nack::Dead, None).await.unwrap();
    let acks = tokens.iter().map(|token| (*token, None)).collect();
    let answers = client.ack_many(acks).await.unwrap();
    let fine: Vec<_> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(fine, [true, false, true]);
    let counts = client.queue(queue("default")).await.unwrap().counts;
    assert_eq!((counts.succeeded, counts.died, counts.running), (2, 1, 0));
}

#[tokio::test]
async fn done_jobs_are_exchanged_for_the_next_ones() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    for text in ["a", "b", "c"] {
        client.add(work(text).key("same").unwrap()).await.unwrap();
    }
    let past = lease_one(&client, "default").await.lease.token;
    client.nack(past, Nack::Release { delay: Millis::ZERO }, None).await.unwrap();
    let held = lease_one(&client, "default").await.lease.token;

    // Whatever is wrong with the call, nothing happens to the acks.
    let wrong = [
        call(&[], 1),
        call(&["default"], 0),
        LeaseRequest { lease: Some(Millis::new(1)), ..call(&["default"], 1) },
    ];
    for request in wrong {
        let refused = client.ack_and_lease(vec![(held, None)], request.clone()).await;
        assert!(refused.is_err_and(|error| error.rejection().is_some()), "{request:?}");
        assert_eq!(client.leases(10).await.unwrap().len(), 1, "{request:?}");
    }

    // Only one of a key runs at a time: the next is free because the ack goes first.
    let acks = vec![(past, None), (held, None)];
    let next = client.ack_and_lease(acks, call(&["default"], 10)).await.unwrap();
    let answers: Vec<_> = next.acks.into_iter().map(stale).collect();
    assert_eq!(answers, [true, false], "each ack is answered for itself");
    assert_eq!(next.jobs.iter().map(text_of).collect::<Vec<_>>(), ["b"]);
    let jobs = client.ack_and_lease(Vec::new(), call(&["default"], 10)).await.unwrap().jobs;
    assert!(jobs.is_empty(), "without acks it is a lease like others");

    let token = |jobs: &[Delivery]| vec![(jobs[0].lease.token, None)];
    let last = client.ack_and_lease(token(&next.jobs), call(&["default"], 1)).await.unwrap();
    let patient = LeaseRequest { wait: Duration::from_hours(1), ..call(&["default"], 1) };
    let none = within(client.ack_and_lease(token(&last.jobs), patient)).await.unwrap();
    assert!(none.jobs.is_empty() && none.acks[0].is_ok(), "nothing is waited for");
}
