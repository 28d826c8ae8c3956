//! Waiting for the end of a job, and its result.

use std::time::Duration;

use hence::core::error::Rejection;
use hence::core::input::Nack;
use hence::core::job::{JobState, Payload};
use hence::{Error, NewJob};

use crate::support::{DEADLINE, HOUR, Seen, lease_one, name, start, within};

fn json(text: &'static str) -> Payload {
    Payload { bytes: text.into(), content_type: Some("application/json".into()) }
}

#[tokio::test]
async fn whoever_waits_is_told_the_end_and_the_result() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    for (id, ends_as) in [
        ("succeeds", JobState::Succeeded),
        ("dies", JobState::Dead),
        ("is-cancelled", JobState::Cancelled),
    ] {
        let job = NewJob::worker().queue(id).unwrap().id(id).unwrap().keep_result();
        let name = client.add(job).await.unwrap().view.job.name.clone();
        let waiting = client.wait(name.clone(), DEADLINE);
        let act = async {
            let token = lease_one(&client, id).await.lease.token;
            match ends_as {
                JobState::Succeeded => client.ack(token, Some(json("[1]"))).await.unwrap(),
                JobState::Dead => client.nack(token, Nack::Dead, None).await.unwrap(),
                _ => drop(client.cancel(name.clone()).await.unwrap()),
            }
        };
        let (waited, ()) = within(async { tokio::join!(waiting, act) }).await;
        let view = waited.unwrap().expect("it ended");
        assert_eq!(view.state, ends_as);
        let result = view.finish.as_ref().and_then(|finish| finish.result.clone());
        assert_eq!(result, (ends_as == JobState::Succeeded).then(|| json("[1]")));

        let later = client.wait(name, DEADLINE).await.unwrap();
        assert_eq!(later.map(|view| view.state), Some(ends_as), "also when it has ended already");
    }
}

#[tokio::test]
async fn nobody_waits_longer_than_asked_or_for_nothing() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    client.add(NewJob::worker().id("job").unwrap().after(HOUR)).await.unwrap();
    let waited = client.wait(name("job"), Duration::from_millis(1)).await.unwrap();
    assert!(waited.is_none());
    let unknown = client.wait(name("nobody"), DEADLINE).await.unwrap_err();
    assert_eq!(unknown.rejection(), Some(&Rejection::NoSuchJob));
}

#[tokio::test]
async fn whoever_waits_is_told_when_hence_stops() {
    for gracefully in [true, false] {
        let hence = start(&Seen::default()).await;
        let client = hence.client();
        client.add(NewJob::worker().id("job").unwrap().after(HOUR)).await.unwrap();
        let other = client.clone();
        let waiting = tokio::spawn(async move { other.wait(name("job"), DEADLINE * 9).await });
        // The waiter is known to wait when its look at the job has been answered.
        client.show(name("job")).await.unwrap();
        tokio::task::yield_now().await;
        if gracefully {
            hence.shutdown(DEADLINE).await;
        } else {
            drop(hence);
        }
        let waited = within(waiting).await.unwrap();
        assert!(matches!(waited, Err(Error::Stopped)), "{waited:?}");
        assert!(matches!(client.wait(name("job"), DEADLINE).await, Err(Error::Stopped)));
    }
}
