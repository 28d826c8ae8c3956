//! Dying at any moment, and what the next life makes of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hence::core::effect::Delivery;
use hence::core::job::{AttemptEnd, JobState, OnUnknown};
use hence::core::time::Millis;
use hence::handler::Failure;
use hence::store::{ErrorKind, Filter, MemoryStore, Store};
use hence::testing::{ManualClock, TEST_EPOCH, TestHence};
use hence::{Builder, Client, Error, NewJob};

use crate::support::disk::Disk;
use crate::support::scripted::{Scripted, Step};
use crate::support::{
    HOUR, MINUTE, SECOND, Seen, call, ends, every, lease_one, name, note, start_on, state,
};

/// Fails at the first attempt of every job that carries `bad`, and writes all down.
fn flaky(
    seen: &Seen,
) -> impl Fn(String, Delivery) -> std::future::Ready<Result<(), Failure>> + use<> {
    let seen = seen.clone();
    move |text, delivery| {
        let fails = text.starts_with("bad") && delivery.lease.attempt == 1;
        seen.push(text, &delivery);
        std::future::ready(if fails { Err(Failure::retry("bad")) } else { Ok(()) })
    }
}

/// A life: schedules a dozen jobs over a minute, runs them, and serves as a worker. Ends early
/// when Hence does. Says which jobs were acknowledged, and which acknowledgements of a worker were.
async fn live(hence: &TestHence) -> Result<(), (Error, Vec<String>)> {
    let client = hence.client();
    let mut acknowledged = Vec::new();
    for n in 0..12_u64 {
        let kind = ["good", "bad", "pull"][n as usize % 3];
        let id = format!("{kind}-{n}");
        let job = if kind == "pull" { NewJob::worker() } else { NewJob::handler("flaky").unwrap() };
        let job = job.id(&id).unwrap().json(&id).unwrap().after(Millis::from_secs(5 * n));
        let job = job.retry(every(SECOND, 3)).retention(Millis::from_secs(7 * 24 * 3600));
        let job = if n % 2 == 0 { job.key("shared").unwrap() } else { job };
        match client.add(job).await {
            Ok(_) => acknowledged.push(id),
            Err(error) => return Err((error, acknowledged)),
        }
    }
    for _ in 0..20 {
        if let Err(error) = step(hence, &client).await {
            return Err((error, acknowledged));
        }
    }
    Ok(())
}

async fn step(hence: &TestHence, client: &Client) -> Result<(), Error> {
    hence.advance(Millis::from_secs(10)).await?;
    for delivery in client.lease(call(&["default"], 9)).await? {
        client.ack(delivery.lease.token, None).await?;
    }
    Ok(())
}

/// Everything there is about every job: its state, its attempts, and how often it was called.
async fn check_books(client: &Client, seen: &Seen, acknowledged: &[String], row: &str) {
    let filter = Filter { states: JobState::ALL.to_vec(), ..Filter::default() };
    let jobs = client.list(filter, None, 1_000).await.unwrap().jobs;
    let mut calls: BTreeMap<String, usize> = BTreeMap::new();
    for call in seen.calls() {
        *calls.entry(call.text).or_default() += 1;
    }
    for id in acknowledged {
        assert!(jobs.iter().any(|view| view.job.name.id.as_str() == id), "{row}: {id} is lost");
    }
    for view in jobs {
        let (name, id) = (view.job.name.clone(), view.job.name.id.to_string());
        assert_eq!(view.state, JobState::Succeeded, "{row}: {id}");
        let ends = ends(client, &name).await;
        let won = ends.iter().filter(|(_, end)| *end == AttemptEnd::Succeeded).count();
        assert_eq!(won, 1, "{row}: one success of {id} is recorded: {ends:?}");
        let called = calls.get(&id).copied().unwrap_or_default();
        if !id.starts_with("pull") {
            // A lease can be durable without its delivery having begun, not the other way round.
            assert!(called <= ends.len(), "{row}: {id} ran {called} times: {ends:?}");
            assert!(called >= 1, "{row}: {id}");
        }
    }
}

/// Whether the commit is made at which a life ends.
type Dying = fn(ErrorKind) -> Step;

/// Lives until the given commit, and then once more. Says whether the first life came so far.
async fn die_at(disk: &Disk, commit: usize, dying: Dying, row: &str) -> bool {
    let store = Scripted::new(disk.open(), move |number| {
        if number < commit { Step::Make } else { dying(ErrorKind::Fatal) }
    });
    let (seen, clock) = (Seen::default(), ManualClock::new(TEST_EPOCH));
    let builder = Builder::new(store).handler("flaky", flaky(&seen)).unwrap();
    let hence = TestHence::start_at(builder.on_fatal(|_| ()), clock.clone()).await.unwrap();
    let lived = live(&hence).await;
    hence.shutdown(Duration::ZERO).await;
    let Err((error, acknowledged)) = lived else { return false };
    assert!(matches!(error, Error::Stopped), "{row}: {error}");

    let builder = Builder::new(disk.open()).handler("flaky", flaky(&seen)).unwrap();
    let hence = TestHence::start_at(builder, clock).await.unwrap();
    for _ in 0..20 {
        step(&hence, &hence.client()).await.unwrap();
    }
    check_books(&hence.client(), &seen, &acknowledged, row).await;
    true
}

/// Dies at every so many-th commit, made or not. Says how often that was.
async fn die_often(engine: usize, apart: usize) -> usize {
    let mut deaths = 0;
    let ways: [(&str, Dying); 2] = [("made", Step::MakeAndFail), ("not made", Step::Fail)];
    for commit in (1..).step_by(apart) {
        for (how, dying) in ways {
            let (name, disk) = &Disk::of_each_engine()[engine];
            if !die_at(disk, commit, dying, &format!("{name}, commit {commit}, {how}")).await {
                return deaths;
            }
            deaths += 1;
        }
    }
    deaths
}

#[tokio::test]
async fn p1_p4_death_at_any_commit_loses_nothing_acknowledged_and_doubles_no_success() {
    let deaths = die_often(0, 1).await;
    assert!(deaths > 50, "only {deaths} moments to die at");
}

#[tokio::test]
async fn p1_p4_death_at_many_commits_on_disk() {
    let deaths = die_often(1, 25).await;
    assert!(deaths > 3, "only {deaths} moments to die at");
}

#[tokio::test]
async fn p1_p4_dropped_without_a_shutdown_it_goes_on_in_the_next_life() {
    let store = Arc::new(MemoryStore::new(1));
    let (seen, clock) = (Seen::default(), ManualClock::new(TEST_EPOCH));
    let mut acknowledged = Vec::new();
    for life in 0..10 {
        let builder = Builder::new(store.clone()).handler("flaky", flaky(&seen)).unwrap();
        let hence = TestHence::start_at(builder, clock.clone()).await.unwrap();
        let client = hence.client();
        for n in 0..20_u64 {
            let id = format!("{}-{life}-{n}", if n % 4 == 0 { "bad" } else { "good" });
            let job = NewJob::handler("flaky").unwrap().id(&id).unwrap().json(&id).unwrap();
            let job = job.after(Millis::from_secs(n)).retry(every(SECOND, 3)).retention(HOUR);
            client.add(job).await.unwrap();
            acknowledged.push(id);
        }
        // It dies with some of it done, some under way, some to come.
        hence.clock().advance(Millis::from_secs(10));
        drop(hence);
    }
    let builder = Builder::new(store).handler("flaky", flaky(&seen)).unwrap();
    let hence = TestHence::start_at(builder, clock).await.unwrap();
    hence.advance(MINUTE).await.unwrap();
    check_books(&hence.client(), &seen, &acknowledged, "at the end").await;
    let counts = hence.client().queues().await.unwrap()[0].counts;
    assert_eq!((counts.succeeded, counts.pending, counts.running), (200, 0, 0));
}

/// Starts a job that never ends, and dies under it.
async fn die_under(store: &Arc<MemoryStore>, job: Option<NewJob>) {
    let (told, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let work = move |(): (), _| {
        let told = told.clone();
        async move {
            told.send(())?;
            std::future::pending::<Result<(), Failure>>().await
        }
    };
    let builder = Builder::new(store.clone()).handler("endless", work).unwrap();
    let hence = TestHence::start(builder).await.unwrap();
    if let Some(job) = job {
        hence.client().add(job).await.unwrap();
    }
    crate::support::within(begun.recv()).await;
}

fn endless() -> NewJob {
    NewJob::handler("endless").unwrap().id("job").unwrap()
}

#[tokio::test]
async fn p4_an_attempt_whose_end_nobody_saw_is_recorded_and_repeated_or_parked() {
    for (choice, expected) in
        [(OnUnknown::Retry, JobState::Succeeded), (OnUnknown::Park, JobState::Dead)]
    {
        let store = Arc::new(MemoryStore::new(1));
        die_under(&store, Some(endless().on_unknown(choice))).await;
        let work = |(): (), _| async { Ok(()) };
        let builder = Builder::new(store).handler("endless", work).unwrap();
        let hence = TestHence::start(builder).await.unwrap();
        hence.settle().await.unwrap();
        let client = hence.client();
        assert_eq!(state(&client, &name("job")).await, expected, "{choice:?}");
        assert_eq!(ends(&client, &name("job")).await[0], (1, AttemptEnd::Unknown));
        if choice == OnUnknown::Park {
            client.replay(name("job")).await.unwrap();
            hence.settle().await.unwrap();
            assert_eq!(state(&client, &name("job")).await, JobState::Succeeded, "by a human");
        }
    }
}

#[tokio::test]
async fn a_job_that_takes_its_process_down_three_times_is_set_aside() {
    let store = Arc::new(MemoryStore::new(1));
    die_under(&store, Some(endless())).await;
    die_under(&store, None).await;
    die_under(&store, None).await;
    let hence = TestHence::start(Builder::new(store)).await.unwrap();
    let view = hence.client().show(name("job")).await.unwrap();
    assert_eq!(view.state, JobState::Dead);
    let reason = view.finish.unwrap().reason.unwrap();
    assert!(reason.contains("three times"), "{reason}");
}

#[tokio::test]
async fn p9_an_earlier_life_that_still_writes_is_fenced() {
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new(1));
    let (told, mut tells) = tokio::sync::mpsc::unbounded_channel();
    let builder = Builder::new(Arc::clone(&memory));
    let builder = builder.on_fatal(move |error| told.send(error.kind()).unwrap());
    let seen = Seen::default();
    let old = start_on(builder, &seen).await;
    let new = start_on(Builder::new(memory), &seen).await;
    let refused = old.client().add(note("too late")).await.unwrap_err();
    assert!(matches!(refused, Error::Stopped), "{refused}");
    assert_eq!(tells.recv().await, Some(ErrorKind::Fenced));
    new.client().add(NewJob::worker()).await.unwrap();
    drop(lease_one(&new.client(), "default").await);
    new.settle().await.unwrap();
    assert!(seen.calls().is_empty());
}
