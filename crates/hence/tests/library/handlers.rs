//! Handlers in this process: what they get, what becomes of what they say, and what happens while
//! there is none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use hence::builder::Config;
use hence::core::id::JobName;
use hence::core::input::Report;
use hence::core::job::{AttemptEnd, JobState};
use hence::core::retry::{Backoff, RetryPolicy};
use hence::core::time::Millis;
use hence::handler::Failure;
use hence::testing::{TEST_EPOCH, TestHence, in_memory};
use hence::{Client, NewJob};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::support::{
    MINUTE, SECOND, Seen, ends, every, name, note, retry, start, start_on, state, within,
};

#[derive(Serialize, Deserialize)]
struct Sum {
    left: i64,
    right: i64,
}

async fn add_one(client: &Client, handler: &str) -> JobName {
    let job = NewJob::handler(handler).unwrap().retry(every(SECOND, 3)).keep_result();
    client.add(job).await.unwrap().view.job.name.clone()
}

#[tokio::test]
async fn p5_what_a_handler_says_decides() {
    type Said = Result<&'static str, Failure>;
    type Row = (&'static str, fn() -> Said, JobState, usize, &'static str);
    let rows: [Row; 6] = [
        ("ok", || Ok("fine"), JobState::Succeeded, 1, ""),
        ("retry", || Err(Failure::retry("not yet")), JobState::Dead, 3, "not yet"),
        (
            "error",
            || Ok("x".parse::<u8>().map(|_| "")?),
            JobState::Dead,
            3,
            "invalid digit found in string",
        ),
        ("permanent", || Err(Failure::permanent("never")), JobState::Dead, 1, "never"),
        ("panic", || panic!("oh"), JobState::Dead, 3, "handler panicked: oh"),
        ("later", || Err(Failure::retry_after("busy", MINUTE)), JobState::Dead, 3, "busy"),
    ];
    let mut builder = in_memory();
    for (handler, say, ..) in &rows {
        let say = *say;
        builder = builder.handler(handler, move |(): (), _| async move { say() }).unwrap();
    }
    let hence = TestHence::start(builder).await.unwrap();
    let client = hence.client();
    for (handler, _, state, attempts, reason) in rows {
        let job = add_one(&client, handler).await;
        hence.advance(Millis::from_secs(300)).await.unwrap();
        let view = client.show(job.clone()).await.unwrap();
        assert_eq!(view.state, state, "{handler}");
        let finish = view.finish.unwrap();
        assert_eq!(finish.reason.as_deref().unwrap_or_default(), reason, "{handler}");
        assert_eq!(ends(&client, &job).await.len(), attempts, "{handler}");
        let result = finish.result.map(|result| result.bytes);
        assert_eq!(result.as_deref(), (handler == "ok").then_some(&b"\"fine\""[..]), "{handler}");
    }
}

#[tokio::test]
async fn what_a_handler_puts_off_comes_back_uncounted() {
    let builder = in_memory()
        .handler("shy", |(): (), delivery| async move {
            let early = delivery.due_at == delivery.job.scheduled_for;
            if early { Err(Failure::put_off("not now", MINUTE)) } else { Ok(()) }
        })
        .unwrap();
    let hence = TestHence::start(builder).await.unwrap();
    let client = hence.client();
    let job = add_one(&client, "shy").await;
    hence.advance(Millis::from_secs(59)).await.unwrap();
    assert_eq!(client.show(job.clone()).await.unwrap().state, JobState::Scheduled);
    hence.advance(Millis::from_secs(2)).await.unwrap();
    let view = client.show(job.clone()).await.unwrap();
    assert_eq!((view.state, view.progress.attempts), (JobState::Succeeded, 1));
    assert_eq!(ends(&client, &job).await.len(), 2, "both are told of");
}

#[tokio::test]
async fn values_go_in_and_out_as_json() {
    let builder = in_memory()
        .handler("sum", |sum: Sum, _| async move { Ok(sum.left + sum.right) })
        .unwrap()
        .handler("unit", |(): (), _| async { Ok(()) })
        .unwrap()
        .handler_fn(
            "raw",
            Arc::new(|delivery, _| {
                let result = Some(delivery.job.payload.clone());
                async move { Report::Succeeded { result } }.boxed()
            }),
        )
        .unwrap();
    let hence = TestHence::start(builder).await.unwrap();
    let client = hence.client();
    let job = |handler| NewJob::handler(handler).unwrap().keep_result();
    let good = Sum { left: 40, right: 2 };
    let misfit = "the payload is not what the handler expects";
    let rows = [
        ("sum", job("sum").json(&good).unwrap(), Ok(Some("42"))),
        ("missing field", job("sum").json(&"text").unwrap(), Err(misfit)),
        ("not json", job("sum").payload("{"), Err(misfit)),
        ("no payload", job("sum"), Err(misfit)),
        ("unit", job("unit"), Ok(None)),
        ("unit, null", job("unit").payload("null"), Ok(None)),
        ("unit, value", job("unit").payload("1"), Err(misfit)),
        ("bytes", job("raw").payload("\0\u{1f600}"), Ok(Some("\0\u{1f600}"))),
    ];
    for (row, job, expected) in rows {
        let added = client.add(job).await.unwrap();
        hence.settle().await.unwrap();
        let view = client.show(added.view.job.name.clone()).await.unwrap();
        let finish = view.finish.unwrap();
        let result = finish.result.map(|result| String::from_utf8(result.bytes.to_vec()).unwrap());
        match expected {
            Ok(expected) => assert_eq!(result.as_deref(), expected, "{row}"),
            Err(reason) => {
                assert_eq!(view.state, JobState::Dead, "{row}: it would be the same next time");
                assert!(finish.reason.unwrap().starts_with(reason), "{row}");
            }
        }
    }
}

#[tokio::test]
async fn a_result_is_kept_only_when_asked_for() {
    let builder = in_memory().handler("one", |(): (), _| async { Ok(1) }).unwrap();
    let hence = TestHence::start(builder).await.unwrap();
    let client = hence.client();
    client.add(NewJob::handler("one").unwrap().id("job").unwrap()).await.unwrap();
    hence.settle().await.unwrap();
    assert_eq!(client.show(name("job")).await.unwrap().finish.unwrap().result, None);
}

#[tokio::test]
async fn p5_attempts_come_at_the_instants_of_the_policy() {
    let seconds = |list: &[u64]| list.iter().copied().map(Millis::from_secs).collect::<Vec<_>>();
    let exponential = Backoff::Exponential { first: SECOND, factor_percent: 300 };
    let list = Backoff::List(seconds(&[1, 5]));
    let rows = [
        (every(MINUTE, 3), seconds(&[0, 60, 120])),
        (RetryPolicy { jitter_percent: 0, ..retry(exponential, 4) }, seconds(&[0, 1, 4, 13])),
        (retry(list.clone(), 4), seconds(&[0, 1, 6, 11])),
        (
            RetryPolicy { max_age: Some(Millis::from_secs(6)), ..retry(list, 9) },
            seconds(&[0, 1, 6]),
        ),
        (RetryPolicy::never(), seconds(&[0])),
    ];
    for (policy, expected) in rows {
        let builder = in_memory()
            .handler("fail", |(): (), _| async { Err::<(), _>(Failure::retry("no")) })
            .unwrap();
        let hence = TestHence::start(builder).await.unwrap();
        let client = hence.client();
        let job = NewJob::handler("fail").unwrap().id("job").unwrap().retry(policy.clone());
        client.add(job).await.unwrap();
        hence.advance(Millis::from_secs(600)).await.unwrap();
        let attempts = client.attempts(name("job")).await.unwrap();
        let at: Vec<_> = attempts.iter().map(|one| one.started_at.since(TEST_EPOCH)).collect();
        assert_eq!(at, expected, "{policy:?}");
        assert!(attempts.is_sorted_by_key(|one| one.token), "tokens grow");
        assert_eq!(state(&client, &name("job")).await, JobState::Dead);
    }
}

#[tokio::test]
async fn a_job_whose_handler_is_not_registered_waits_for_it() {
    let hence = TestHence::start(in_memory()).await.unwrap();
    let client = hence.client();
    client.add(note("patience").id("job").unwrap()).await.unwrap();
    hence.advance(MINUTE).await.unwrap();
    assert_eq!(state(&client, &name("job")).await, JobState::Ready);
    assert_eq!(ends(&client, &name("job")).await, [], "no attempt is used up");

    let seen = Seen::default();
    hence.handle("note", seen.note()).unwrap();
    hence.settle().await.unwrap();
    assert_eq!(seen.texts(), ["patience"], "at once, not at the next look");
    assert!(hence.handle("no spaces", seen.note()).is_err());
}

#[tokio::test]
async fn a_handler_can_be_replaced_while_running() {
    let (old, new) = (Seen::default(), Seen::default());
    let hence = start(&old).await;
    hence.client().add(note("first")).await.unwrap();
    hence.settle().await.unwrap();
    hence.handle("note", new.note()).unwrap();
    hence.client().add(note("second")).await.unwrap();
    hence.settle().await.unwrap();
    assert_eq!((old.texts(), new.texts()), (vec!["first".into()], vec!["second".into()]));
}

#[tokio::test]
async fn no_more_handlers_run_at_once_than_allowed() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let peak = Arc::clone(&most);
    let work = move |(): (), _| {
        let (running, most) = (Arc::clone(&running), Arc::clone(&most));
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }
    };
    let config = Config { handlers_max: Some(3), ..Config::default() };
    let builder = in_memory().config(config).handler("work", work).unwrap();
    let hence = TestHence::start(builder).await.unwrap();
    let jobs = vec![NewJob::handler("work").unwrap(); 50];
    hence.client().add_many(jobs).await.unwrap();
    hence.settle().await.unwrap();
    assert_eq!(peak.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_stopped_and_tried_again() {
    let work = |(): (), delivery: hence::core::effect::Delivery| async move {
        if delivery.lease.attempt == 1 {
            std::future::pending::<()>().await;
        }
        Ok(())
    };
    let builder = in_memory().handler("work", work).unwrap();
    let hence = TestHence::start(builder).await.unwrap();
    let client = hence.client();
    let job = NewJob::handler("work").unwrap().id("job").unwrap();
    client.add(job.timeout(Millis::new(10)).retry(every(SECOND, 2))).await.unwrap();
    within(hence.advance(MINUTE)).await.unwrap();
    let expected = [(1, AttemptEnd::TimedOut), (2, AttemptEnd::Succeeded)];
    assert_eq!(ends(&client, &name("job")).await, expected);
}

/// A handler that tells when it has begun and when it was dropped, and never ends.
fn endless(
    told: mpsc::UnboundedSender<&'static str>,
) -> impl Fn(
    (),
    hence::core::effect::Delivery,
) -> futures::future::BoxFuture<'static, Result<(), Failure>>
+ Send
+ Sync
+ 'static {
    struct Tell(mpsc::UnboundedSender<&'static str>);
    impl Drop for Tell {
        fn drop(&mut self) {
            let _ = self.0.send("dropped");
        }
    }
    move |(), _| {
        let told = told.clone();
        async move {
            let tell = Tell(told);
            let _ = tell.0.send("begun");
            std::future::pending().await
        }
        .boxed()
    }
}

#[tokio::test]
async fn p4_a_job_cancelled_or_replaced_while_it_runs_is_stopped_and_does_not_count() {
    for replace in [false, true] {
        let seen = Seen::default();
        let (told, mut tells) = mpsc::unbounded_channel();
        let builder = in_memory().handler("endless", endless(told)).unwrap();
        let hence = start_on(builder, &seen).await;
        let client = hence.client();
        client.add(NewJob::handler("endless").unwrap().id("job").unwrap()).await.unwrap();
        assert_eq!(within(tells.recv()).await, Some("begun"));
        if replace {
            client.add(note("instead").id("job").unwrap()).await.unwrap();
        } else {
            client.cancel(name("job")).await.unwrap();
        }
        assert_eq!(within(tells.recv()).await, Some("dropped"));
        hence.advance(MINUTE).await.unwrap();
        let expected = if replace { JobState::Succeeded } else { JobState::Cancelled };
        assert_eq!(state(&client, &name("job")).await, expected);
        assert_eq!(seen.calls().len(), usize::from(replace));
    }
}
