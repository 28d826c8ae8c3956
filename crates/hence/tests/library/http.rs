//! Jobs that go to a URL, against a receiver of our own.

use hence::NewJob;
use hence::core::job::{AttemptEnd, JobState};
use hence::core::time::Millis;
use hence::testing::{TEST_EPOCH, TestHence, in_memory};

use crate::support::receiver::Receiver;
use crate::support::{HOUR, MINUTE, SECOND, ends, every, name, within};

#[tokio::test]
async fn p2_a_request_carries_the_job_and_who_it_is() {
    let receiver = Receiver::start(vec![]).await;
    let hence = TestHence::start(in_memory()).await.unwrap();
    let client = hence.client();
    let job = NewJob::http(&receiver.url()).id("renew").unwrap().key("user:1").unwrap();
    client.add(job.json(&"hello").unwrap().after(HOUR)).await.unwrap();
    within(hence.advance(Millis::new(HOUR.get() - 1))).await.unwrap();
    assert!(receiver.received().is_empty());
    within(hence.advance(Millis::new(1))).await.unwrap();

    let requests = receiver.received();
    assert_eq!(requests.len(), 1);
    let request = &requests[0];
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/hook"));
    assert_eq!(request.body, "\"hello\"");
    let due = TEST_EPOCH.plus(HOUR).to_string();
    for (header, value) in [
        ("content-type", "application/json"),
        ("hence-job-id", "renew"),
        ("hence-queue", "default"),
        ("hence-key", "user:1"),
        ("hence-attempt", "1"),
        ("hence-due-at", &due),
    ] {
        assert_eq!(request.headers.get(header).map(String::as_str), Some(value), "{header}");
    }
    assert!(request.headers.contains_key("hence-token"));
}

#[tokio::test]
async fn p5_the_answer_decides() {
    let none = Vec::new;
    let rows = [
        ("accepted", vec![(200, none(), "done")], JobState::Succeeded, vec![0]),
        ("unwell once", vec![(503, none(), "")], JobState::Succeeded, vec![0, 1]),
        (
            "asks for a minute",
            vec![(429, vec![("retry-after", "60")], "")],
            JobState::Succeeded,
            vec![0, 60],
        ),
        ("gone for good", vec![(410, none(), "")], JobState::Dead, vec![0]),
        ("moves us on", vec![(302, vec![("location", "/")], ""); 3], JobState::Dead, vec![0, 1, 2]),
    ];
    for (row, answers, expected, at) in rows {
        let receiver = Receiver::start(answers).await;
        let hence = TestHence::start(in_memory()).await.unwrap();
        let client = hence.client();
        let job = NewJob::http(&receiver.url()).id("job").unwrap().keep_result();
        client.add(job.retry(every(SECOND, 3))).await.unwrap();
        within(hence.advance(Millis::from_secs(600))).await.unwrap();
        let attempts = client.attempts(name("job")).await.unwrap();
        let started: Vec<_> =
            attempts.iter().map(|one| one.started_at.since(TEST_EPOCH).get() / 1_000).collect();
        assert_eq!(started, at, "{row}");
        assert_eq!(receiver.received().len(), at.len(), "{row}");
        assert_eq!(client.show(name("job")).await.unwrap().state, expected, "{row}");
    }
}

#[tokio::test]
async fn the_answer_is_the_result() {
    let answer = (201, vec![("content-type", "text/plain")], "made it");
    let receiver = Receiver::start(vec![answer]).await;
    let hence = TestHence::start(in_memory()).await.unwrap();
    let client = hence.client();
    let job = NewJob::http(&receiver.url()).id("job").unwrap().keep_result();
    client.add(job).await.unwrap();
    within(hence.settle()).await.unwrap();
    let result = client.show(name("job")).await.unwrap().finish.unwrap().result.unwrap();
    assert_eq!(&result.bytes[..], b"made it");
    assert_eq!(result.content_type.as_deref(), Some("text/plain"));
}

#[tokio::test]
async fn p4_attempts_of_one_job_share_a_delivery_id_and_differ_in_token() {
    let receiver = Receiver::start(vec![(500, vec![], ""), (500, vec![], "")]).await;
    let hence = TestHence::start(in_memory()).await.unwrap();
    let client = hence.client();
    let job = NewJob::http(&receiver.url()).id("job").unwrap();
    client.add(job.retry(every(SECOND, 5))).await.unwrap();
    within(hence.advance(MINUTE)).await.unwrap();
    let requests = receiver.received();
    let of = |header: &str| -> Vec<_> {
        requests.iter().map(|request| request.headers[header].clone()).collect()
    };
    assert_eq!(of("hence-attempt"), ["1", "2", "3"]);
    let (ids, tokens) = (of("hence-delivery-id"), of("hence-token"));
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert!(tokens.is_sorted() && tokens[0] != tokens[1] && tokens[1] != tokens[2]);
}

#[tokio::test]
async fn a_receiver_that_is_not_there_is_tried_again() {
    // A port that was free a moment ago; whoever has taken it since does not speak HTTP to us.
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let hence = TestHence::start(in_memory()).await.unwrap();
    let client = hence.client();
    let job = NewJob::http(&url).id("job").unwrap().retry(every(SECOND, 2));
    client.add(job).await.unwrap();
    within(hence.advance(MINUTE)).await.unwrap();
    let expected = [(1, AttemptEnd::Failed), (2, AttemptEnd::Failed)];
    assert_eq!(ends(&client, &name("job")).await, expected);
    let reason = client.show(name("job")).await.unwrap().finish.unwrap().reason.unwrap();
    assert!(reason.starts_with("cannot connect"), "{reason}");
}
