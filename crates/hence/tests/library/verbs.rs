//! Every verb of the client, in every state a job can be in.

use hence::client::BulkAction;
use hence::core::effect::Submitted;
use hence::core::error::Rejection;
use hence::core::id::{JobName, WorkerName};
use hence::core::input::{Edit, Nack};
use hence::core::job::{AttemptEnd, HttpTarget, JobState, OnConflict, Payload, Target};
use hence::core::retry::RetryPolicy;
use hence::core::time::Millis;
use hence::handler::Failure;
use hence::new_job::Idempotency;
use hence::store::{Filter, Pressure, Tier};
use hence::testing::{ManualClock, TEST_EPOCH, TestHence, in_memory};
use hence::{Client, Error, NewId, NewJob};

use crate::support::{
    HOUR, MINUTE, SECOND, Seen, call, ends, every, lease_one, name, names, note, queue, start,
    state, text_of, within,
};

#[tokio::test]
async fn p2_a_job_runs_at_its_time_and_not_before() {
    let seen = Seen::default();
    let hence = start(&seen).await;
    let client = hence.client();
    let added = client.add(note("now").after(HOUR).id("job").unwrap()).await.unwrap();
    assert_eq!(added.how, Submitted::Created);
    assert_eq!(added.view.state, JobState::Scheduled);
    assert_eq!(added.view.progress.due_at, TEST_EPOCH.plus(HOUR));

    hence.advance(Millis::new(HOUR.get() - 1)).await.unwrap();
    assert!(seen.calls().is_empty(), "a millisecond early");
    hence.advance(Millis::new(1)).await.unwrap();
    assert_eq!(seen.texts(), ["now"]);
    assert_eq!(ends(&client, &name("job")).await, [(1, AttemptEnd::Succeeded)]);
    let view = client.show(name("job")).await.unwrap();
    assert_eq!(view.finish.unwrap().at, TEST_EPOCH.plus(HOUR));
}

/// A job for a worker, brought into a state.
async fn bring(hence: &TestHence, id: &str, to: Option<JobState>) {
    let client = hence.client();
    let Some(to) = to else { return };
    let due = if to == JobState::Scheduled { HOUR } else { Millis::ZERO };
    let job = NewJob::worker().queue(id).unwrap().id(id).unwrap().after(due);
    let job = if to == JobState::Expired { job.expires_after(SECOND) } else { job };
    client.add(job).await.unwrap();
    match to {
        JobState::Scheduled => {}
        JobState::Ready => {
            hence.settle().await.unwrap();
        }
        JobState::Running => drop(lease_one(&client, id).await),
        JobState::Succeeded => {
            client.ack(lease_one(&client, id).await.lease.token, None).await.unwrap();
        }
        JobState::Dead => {
            let token = lease_one(&client, id).await.lease.token;
            client.nack(token, Nack::Dead, Some("no")).await.unwrap();
        }
        JobState::Cancelled => drop(client.cancel(in_queue(id)).await.unwrap()),
        JobState::Expired => hence.advance(SECOND).await.unwrap(),
    }
}

fn in_queue(id: &str) -> JobName {
    JobName { queue: queue(id), ..name(id) }
}

/// What a verb is answered with, in a word.
async fn try_verb(client: &Client, verb: &str, name: JobName) -> &'static str {
    let answer = match verb {
        "show" => client.show(name).await,
        "edit" => {
            let payload = Some(Payload { bytes: "new".into(), content_type: None });
            client.edit(name, Edit { payload, ..Edit::default() }).await
        }
        "cancel" => client.cancel(name).await,
        "run_now" => client.run_now(name).await,
        "replay" => client.replay(name).await,
        "forget" => match client.forget(name).await {
            Ok(()) => return "done",
            Err(error) => Err(error),
        },
        other => panic!("{other} is not a verb"),
    };
    match answer {
        Ok(view) => view.state.as_str(),
        Err(Error::Rejected(Rejection::WrongState { .. })) => "-",
        Err(Error::Rejected(Rejection::NoSuchJob)) => "none",
        Err(other) => panic!("{verb}: {other}"),
    }
}

#[tokio::test]
async fn p12_every_verb_in_every_state() {
    use JobState::{Cancelled, Dead, Expired, Ready, Running, Scheduled, Succeeded};
    let states = [Scheduled, Ready, Running, Succeeded, Dead, Cancelled, Expired];
    let states: Vec<_> = states.into_iter().map(Some).chain([None]).collect();
    // By the states above and then for a job that does not exist; `-` is a refusal.
    let table = [
        ("show", "scheduled ready running succeeded dead cancelled expired none"),
        ("edit", "scheduled ready - - - - - none"),
        ("cancel", "cancelled cancelled cancelled - - cancelled - none"),
        ("run_now", "ready ready - - - - - none"),
        ("replay", "- - - - ready - - none"),
        ("forget", "- - - done done done done none"),
    ];
    for (verb, answers) in table {
        let hence = start(&Seen::default()).await;
        let client = hence.client();
        let answers: Vec<_> = answers.split(' ').collect();
        assert_eq!(answers.len(), states.len(), "{verb}");
        for (nth, (to, expected)) in states.iter().zip(answers).enumerate() {
            let id = format!("{verb}-{nth}");
            bring(&hence, &id, *to).await;
            let before = client.show(in_queue(&id)).await.ok();
            let answer = try_verb(&client, verb, in_queue(&id)).await;
            assert_eq!(answer, expected, "{verb} when {to:?}");
            if answer == "-" {
                let after = client.show(in_queue(&id)).await.ok();
                assert_eq!(before, after, "a refused {verb} changes nothing when {to:?}");
            }
        }
    }
}

#[tokio::test]
async fn an_edit_changes_what_it_names_and_nothing_else() {
    let seen = Seen::default();
    let hence = start(&seen).await;
    let client = hence.client();
    client.add(note("old").id("job").unwrap().after(HOUR)).await.unwrap();
    let payload = Some(Payload { bytes: "\"new\"".into(), content_type: None });
    let due_at = Some(TEST_EPOCH.plus(MINUTE));
    let (retry, timeout) = (Some(RetryPolicy::never()), Some(SECOND));
    let edit = Edit { due_at, payload, retry, timeout, target: None };
    let view = client.edit(name("job"), edit).await.unwrap();
    assert_eq!((view.job.timeout, view.job.retry.max_attempts), (SECOND, 1));
    hence.advance(MINUTE).await.unwrap();
    assert_eq!(seen.texts(), ["new"]);
    hence.advance(HOUR).await.unwrap();
    assert_eq!(seen.texts(), ["new"], "and not at the old time again");
}

#[tokio::test]
async fn p4_a_name_is_replaced_kept_or_refused() {
    use OnConflict::{Keep, Reject, Replace};
    let finished = |how| matches!(how, Submitted::Created);
    for (on_conflict, expected) in [
        (None, Ok(Submitted::Replaced)),
        (Some(Replace), Ok(Submitted::Replaced)),
        (Some(Keep), Ok(Submitted::Kept)),
        (Some(Reject), Err(Rejection::JobExists)),
    ] {
        let seen = Seen::default();
        let hence = start(&seen).await;
        let client = hence.client();
        let job = |text| {
            let mut job = note(text).id("job").unwrap().after(HOUR);
            job.on_conflict = on_conflict;
            job
        };
        client.add(job("old")).await.unwrap();
        let how = client.add(job("new")).await.map(|added| added.how);
        let how = how.map_err(|error| error.rejection().unwrap().clone());
        assert_eq!(how, expected, "{on_conflict:?}");
        hence.advance(HOUR).await.unwrap();
        let runs = if how == Ok(Submitted::Replaced) { "new" } else { "old" };
        assert_eq!(seen.texts(), [runs], "{on_conflict:?}: the other one never runs");

        // One that has ended gives its name up to a replacement.
        let again = client.add(job("again")).await.map(|added| added.how);
        let replaces = on_conflict.is_none_or(|choice| choice == Replace);
        assert_eq!(again.is_ok_and(finished), replaces, "{on_conflict:?} after the end");
    }
}

#[tokio::test]
async fn identical_jobs_collapse_by_their_content() {
    let seen = Seen::default();
    let hence = start(&seen).await;
    let client = hence.client();
    let job = |text| NewJob { id: NewId::ContentHash, ..note(text).after(HOUR) };
    let rows = [("a", Submitted::Created), ("a", Submitted::Kept), ("b", Submitted::Created)];
    for (text, expected) in rows {
        let added = client.add(job(text)).await.unwrap();
        assert_eq!(added.how, expected, "{text}");
        assert!(added.view.job.name.id.as_str().starts_with("sha1-"));
    }
    hence.advance(HOUR).await.unwrap();
    assert_eq!(seen.texts(), ["a", "b"]);
}

/// Two requests that differed in their headers only were one job.
#[tokio::test]
async fn jobs_with_other_headers_do_not_collapse() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    let job = |method: &str, headers: &[(&str, &str)]| {
        let (method, url) = (method.to_owned(), "http://localhost/".to_owned());
        let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let target = HttpTarget { method, url, headers: headers.collect() };
        NewJob { id: NewId::ContentHash, ..NewJob::new(Target::Http(target.into())) }.after(HOUR)
    };
    let rows = [
        (job("POST", &[]), Submitted::Created),
        (job("PUT", &[]), Submitted::Created),
        (job("POST", &[("a", "1")]), Submitted::Created),
        (job("POST", &[("a", "2")]), Submitted::Created),
        (job("POST", &[("a", "1"), ("b", "1")]), Submitted::Created),
        (job("POST", &[("A", "1")]), Submitted::Kept),
        (job("POST", &[]), Submitted::Kept),
    ];
    let mut ids = Vec::new();
    for (nth, (job, expected)) in rows.into_iter().enumerate() {
        let added = client.add(job).await.unwrap();
        assert_eq!(added.how, expected, "row {nth}");
        ids.push(added.view.job.name.id.to_string());
    }
    // Without headers it is what it was before they counted.
    assert_eq!(ids[0], "sha1-1d917d1f33872c04b6ed961ba1b93eb01d00e653");
}

#[tokio::test]
async fn p4_an_idempotency_key_makes_one_job_of_many_requests() {
    let seen = Seen::default();
    let hence = start(&seen).await;
    let client = hence.client();
    let job = |key: &str, fingerprint| {
        let key = key.to_owned();
        NewJob { idempotency: Some(Idempotency { key, fingerprint }), ..note("once") }
    };
    let first = client.add(job("k", 1)).await.unwrap();
    hence.settle().await.unwrap();
    let second = client.add(job("k", 1)).await.unwrap();
    assert_eq!(second.how, Submitted::Kept, "also after it has run");
    assert_eq!(first.view.job.number, second.view.job.number);
    let other = client.add(job("k", 2)).await.unwrap_err();
    assert_eq!(other.rejection(), Some(&Rejection::IdempotencyMismatch));
    assert_eq!(client.add(job("other", 1)).await.unwrap().how, Submitted::Created);
    hence.settle().await.unwrap();
    assert_eq!(seen.texts(), ["once", "once"], "one for each key");
}

#[tokio::test]
async fn p12_bad_input_names_its_field_and_changes_nothing() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    let rows: [(&str, NewJob); 6] = [
        ("payload", note("").payload(vec![0; 1024 * 1024 + 1])),
        ("target.url", NewJob::http("ftp://example.com/")),
        ("timeout", note("").timeout(Millis::new(1))),
        ("retry.max_attempts", note("").retry(every(SECOND, 0))),
        ("expires_in", note("").expires_after(Millis::ZERO)),
        ("retention", note("").retention(Millis::new(u64::MAX))),
    ];
    for (field, job) in rows {
        let error = client.add(job.clone()).await.unwrap_err();
        assert!(error.to_string().starts_with(field), "{field}: {error}");
        assert!(!error.is_retryable(), "{field}");
        let many = client.add_many(vec![note("good").after(HOUR), job]).await.unwrap();
        assert!(many[0].is_ok() && many[1].is_err(), "{field}: each for itself");
    }
    let counts = client.queue(queue("default")).await.unwrap().counts;
    assert_eq!((counts.submitted, counts.pending), (6, 6), "the good ones");

    let names = ["", "a b", "ä", &"x".repeat(65)];
    for bad in names {
        assert!(NewJob::worker().queue(bad).is_err(), "queue {bad:?}");
        assert!(NewJob::handler(bad).is_err() || bad.len() == 65, "handler {bad:?}");
    }
    let batch = client.ack_many(vec![(lease_token(&client).await, None); 65_536]).await;
    let error = batch.unwrap_err().to_string();
    assert!(error.starts_with("batch has 65536 entries"), "{error}");
}

async fn lease_token(client: &Client) -> hence::core::id::Token {
    client.add(NewJob::worker().queue("token").unwrap()).await.unwrap();
    lease_one(client, "token").await.lease.token
}

#[tokio::test]
async fn lists_are_pages_of_what_matches() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    let jobs = (0..25).map(|n| {
        let queue = if n % 5 == 0 { "fifth" } else { "rest" };
        NewJob::worker().queue(queue).unwrap().after(Millis::from_secs(n + 1))
    });
    let all = names(client.add_many(jobs.collect()).await.unwrap());

    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = client.list(Filter::default(), after, 10).await.unwrap();
        assert!(page.jobs.len() <= 10);
        seen.extend(page.jobs.into_iter().map(|view| view.job.name.clone()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, all, "by due time, each once");

    let filter = Filter { queue: Some(queue("fifth")), ..Filter::default() };
    assert_eq!(client.list(filter, None, 100).await.unwrap().jobs.len(), 5);
    let until = Some(TEST_EPOCH.plus(Millis::from_secs(4)));
    let filter = Filter { until, ..Filter::default() };
    assert_eq!(client.list(filter, None, 100).await.unwrap().jobs.len(), 3);
}

#[tokio::test]
async fn bulk_does_it_to_every_job_that_matches() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    let count = 2_345;
    let of = |states: &[JobState]| Filter { states: states.to_vec(), ..Filter::default() };
    let pending = [JobState::Scheduled, JobState::Ready];
    let job = || NewJob::worker().after(HOUR).retry(RetryPolicy::never());
    client.add_many((0..count).map(|_| job()).collect()).await.unwrap();

    let rows = [
        (BulkAction::RunNow, of(&pending), JobState::Ready),
        (BulkAction::Cancel, of(&pending), JobState::Cancelled),
    ];
    for (action, filter, after) in rows {
        let report = client.bulk(filter, action).await.unwrap();
        assert_eq!((report.matched, report.done, report.refused), (count, count, 0), "{action:?}");
        let page = client.list(of(&[after]), None, 1_000).await.unwrap();
        assert!(page.next.is_some(), "{action:?}: more than a page is {after:?}");
    }
    let report = client.bulk(of(&[JobState::Cancelled]), BulkAction::Replay).await.unwrap();
    assert_eq!((report.matched, report.refused), (count, count), "none of them is dead");
    let report = client.bulk(of(&[JobState::Cancelled]), BulkAction::Forget).await.unwrap();
    assert_eq!(report.done, count);
    let every_state = of(&JobState::ALL);
    assert!(client.list(every_state, None, 10).await.unwrap().jobs.is_empty());
}

#[tokio::test]
async fn p5_the_dead_are_kept_and_can_be_replayed_in_bulk() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    let names = names(client.add_many(vec![NewJob::worker(); 10]).await.unwrap());
    for delivery in client.lease(call(&["default"], 10)).await.unwrap() {
        client.nack(delivery.lease.token, Nack::Dead, Some("broken")).await.unwrap();
    }
    let dead = client.show(names[0].clone()).await.unwrap();
    assert_eq!(dead.finish.unwrap().reason.as_deref(), Some("broken"));
    assert_eq!(client.queue(queue("default")).await.unwrap().counts.dead, 10);

    let filter = Filter { states: vec![JobState::Dead], ..Filter::default() };
    assert_eq!(client.bulk(filter, BulkAction::Replay).await.unwrap().done, 10);
    let again = client.lease(call(&["default"], 100)).await.unwrap();
    assert_eq!(again.len(), 10);
    assert!(again.iter().all(|delivery| delivery.lease.attempt == 1), "all attempts anew");
    let counts = client.queue(queue("default")).await.unwrap().counts;
    assert_eq!((counts.dead, counts.died, counts.running), (0, 10, 10));
}

/// What died again while others were replayed was replayed again, and so on without end.
#[tokio::test]
async fn a_bulk_replay_ends_although_they_die_again() {
    let clock = ManualClock::new(TEST_EPOCH);
    let time = clock.clone();
    let builder = in_memory().handler("die", move |(): (), _| {
        time.advance(Millis::new(1));
        std::future::ready(Err::<(), _>(Failure::permanent("no")))
    });
    let hence = TestHence::start_at(builder.unwrap(), clock).await.unwrap();
    let client = hence.client();
    let count = 2_500;
    let job = NewJob::handler("die").unwrap().json(&()).unwrap();
    client.add_many(vec![job; count]).await.unwrap();
    hence.settle().await.unwrap();
    let filter = Filter { states: vec![JobState::Dead], ..Filter::default() };
    let report = within(client.bulk(filter, BulkAction::Replay)).await.unwrap();
    assert_eq!((report.matched, report.done), (count as u64, count as u64));
}

#[tokio::test]
async fn leases_and_queues_can_be_looked_at() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    client.add(NewJob::worker().queue("b").unwrap().payload("x")).await.unwrap();
    client.add(NewJob::worker().queue("a").unwrap()).await.unwrap();
    let leased = lease_one(&client, "b").await;
    assert_eq!(text_of(&leased), "x");
    let leases = client.leases(10).await.unwrap();
    assert_eq!(leases, [leased]);
    assert_eq!(leases[0].lease.holder, WorkerName::new("tester").unwrap());
    let queues = client.queues().await.unwrap();
    let shown: Vec<_> = queues.iter().map(|view| (view.name.as_str(), view.counts)).collect();
    assert_eq!((shown[0].0, shown[1].0), ("a", "b"));
    assert_eq!((shown[0].1.pending, shown[1].1.running), (1, 1));
    let nobody = client.queue(queue("never-heard-of")).await.unwrap();
    assert_eq!(nobody.counts.submitted, 0);
    assert_eq!(client.now(), TEST_EPOCH);
    assert_eq!(client.capabilities().tier, Tier::BestEffort);
    assert_eq!(client.pressure(), Pressure::Normal);
}

#[tokio::test]
async fn a_finished_job_can_be_looked_at_for_its_retention() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    for (id, retention) in [("none", Millis::ZERO), ("minute", MINUTE), ("hour", HOUR)] {
        client.add(note("x").id(id).unwrap().retention(retention)).await.unwrap();
    }
    for (passed, kept) in [(Millis::ZERO, 2), (MINUTE, 1), (HOUR, 0)] {
        hence.advance(passed).await.unwrap();
        let ids = ["none", "minute", "hour"];
        let mut found = 0;
        for id in ids {
            found += u32::from(client.show(name(id)).await.is_ok());
        }
        assert_eq!(found, kept, "{passed} later");
    }
}

#[tokio::test]
async fn a_job_that_could_not_start_in_time_expires() {
    let seen = Seen::default();
    let hence = start(&seen).await;
    let client = hence.client();
    let job = NewJob::worker().id("late").unwrap().expires_after(MINUTE);
    client.add(job).await.unwrap();
    hence.advance(Millis::new(MINUTE.get() - 1)).await.unwrap();
    assert_eq!(state(&client, &name("late")).await, JobState::Ready);
    hence.advance(Millis::new(1)).await.unwrap();
    assert_eq!(state(&client, &name("late")).await, JobState::Expired);
    assert!(client.lease(call(&["default"], 1)).await.unwrap().is_empty());
}
