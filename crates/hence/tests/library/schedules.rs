//! Schedules: every tick makes a job, and every tick is accounted for.

use hence::core::error::Rejection;
use hence::core::id::{HandlerName, ScheduleId};
use hence::core::job::{JobSpec, Payload, Target};
use hence::core::schedule::{Fate, Misfire, Schedule};
use hence::core::time::{Millis, Timestamp};
use hence::core::when::Plan;
use hence::store::{Filter, LedgerOrder, LedgerRequest};
use hence::testing::{TEST_EPOCH, TestHence};
use hence::{Builder, Client};

use crate::support::disk::Disk;
use crate::support::{DEADLINE, HOUR, MINUTE, Seen, start, start_on};

fn id() -> ScheduleId {
    ScheduleId::new("report").unwrap()
}

/// A note every ten minutes.
fn schedule() -> Schedule {
    let mut template = JobSpec::new(Target::Handler(HandlerName::new("note").unwrap()));
    template.payload = Payload { bytes: "\"tick\"".into(), content_type: None };
    template.retention = Millis::from_secs(24 * 3600);
    let plan = Plan::every(TEST_EPOCH.plus(MINUTE), Millis::from_secs(600));
    Schedule::new(id(), plan, template)
}

fn minutes(instant: Timestamp) -> u64 {
    instant.since(TEST_EPOCH).get() / MINUTE.get()
}

/// What became of each tick, oldest first: its minute, and what was decided.
async fn accounts(client: &Client) -> Vec<(u64, &'static str)> {
    let all = client.occurrences(LedgerRequest::newest(id(), 100)).await.unwrap();
    all.iter().rev().map(|one| (minutes(one.last), one.fate.as_str())).collect()
}

#[tokio::test]
async fn p8_every_tick_runs_at_its_instant() {
    let seen = Seen::default();
    let hence = start(&seen).await;
    let client = hence.client();
    let state = client.put_schedule(schedule()).await.unwrap();
    assert_eq!(state.progress.next_at, Some(TEST_EPOCH.plus(MINUTE)));
    hence.advance(HOUR).await.unwrap();
    assert_eq!(seen.calls().len(), 6);
    let expected: Vec<_> = [1, 11, 21, 31, 41, 51].map(|at| (at, "ran")).into();
    assert_eq!(accounts(&client).await, expected);

    let filter = Filter {
        schedule: Some(id()),
        states: hence::core::job::JobState::ALL.to_vec(),
        ..Filter::default()
    };
    let jobs = client.list(filter, None, 100).await.unwrap().jobs;
    assert_eq!(jobs.len(), 6);
    for view in jobs {
        let occurrence = view.job.occurrence.clone().unwrap();
        let started = client.attempts(view.job.name.clone()).await.unwrap()[0].started_at;
        assert_eq!(started, occurrence.at, "on time");
    }
    let state = client.schedule(id()).await.unwrap();
    assert_eq!((state.progress.fired, state.progress.next_at.map(minutes)), (6, Some(61)));
}

#[tokio::test]
async fn p8_ticks_missed_are_counted_and_stood_for_by_the_last() {
    let seen = Seen::default();
    let hence = start(&seen).await;
    let client = hence.client();
    client.put_schedule(schedule()).await.unwrap();
    hence.jump(HOUR).await.unwrap();
    assert_eq!(seen.calls().len(), 1, "asleep for an hour, one job");
    assert_eq!(accounts(&client).await, [(41, "coalesced"), (51, "late")]);
    let all = client.occurrences(LedgerRequest::newest(id(), 100)).await.unwrap();
    assert!(all.iter().any(|one| one.fate == Fate::Coalesced && one.count == 5), "{all:?}");
}

#[tokio::test]
async fn p8_a_restart_neither_repeats_nor_loses_a_tick() {
    for (engine, disk) in Disk::of_each_engine() {
        let seen = Seen::default();
        let hence = start_on(Builder::new(disk.open()), &seen).await;
        let clock = hence.clock().clone();
        hence.client().put_schedule(schedule()).await.unwrap();
        hence.advance(Millis::from_secs(11 * 60)).await.unwrap();
        hence.shutdown(DEADLINE).await;
        let builder = Builder::new(disk.open()).handler("note", seen.note()).unwrap();
        let hence = TestHence::start_at(builder, clock).await.unwrap();
        hence.advance(Millis::from_secs(20 * 60)).await.unwrap();
        let expected = [(1, "ran"), (11, "ran"), (21, "ran"), (31, "ran")];
        assert_eq!(accounts(&hence.client()).await, expected, "{engine}");
        assert_eq!(seen.calls().len(), 4, "{engine}");
    }
}

#[tokio::test]
async fn schedules_rest_resume_are_triggered_changed_and_removed() {
    let seen = Seen::default();
    let hence = start(&seen).await;
    let client = hence.client();
    client.put_schedule(schedule()).await.unwrap();
    hence.advance(MINUTE).await.unwrap();
    assert_eq!(seen.calls().len(), 1);

    let resting = client.pause_schedule(id(), "rest").await.unwrap();
    assert_eq!(resting.progress.next_at, None);
    assert_eq!(&*resting.schedule.paused.clone().unwrap().note, "rest");
    hence.advance(HOUR).await.unwrap();
    assert_eq!(seen.calls().len(), 1, "it rests");
    let made = client.trigger_schedule(id()).await.unwrap();
    assert_eq!(made.job.occurrence.as_ref().map(|one| minutes(one.at)), Some(61));
    hence.settle().await.unwrap();
    assert_eq!(seen.calls().len(), 2, "but it can be triggered");
    client.resume_schedule(id()).await.unwrap();
    let going = client.schedule(id()).await.unwrap();
    assert_eq!(going.progress.next_at.map(minutes), Some(71), "what it slept through is past");

    let plan = Plan::every(TEST_EPOCH, HOUR);
    client.put_schedule(Schedule { plan, ..schedule() }).await.unwrap();
    hence.advance(HOUR).await.unwrap();
    assert_eq!(seen.calls().len(), 3, "once an hour now");
    let expected = [(1, "ran"), (61, "skipped"), (61, "triggered"), (120, "ran")];
    assert_eq!(accounts(&client).await, expected);
    client.remove_schedule(id()).await.unwrap();
    hence.advance(HOUR).await.unwrap();
    assert_eq!(seen.calls().len(), 3);
    assert_eq!(accounts(&client).await, [], "the ledger goes with its schedule");
}

#[tokio::test]
async fn p12_a_schedule_that_does_not_exist_or_makes_no_sense_is_refused() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    let errors = [
        client.schedule(id()).await.err(),
        client.remove_schedule(id()).await.err(),
        client.pause_schedule(id(), "rest").await.err(),
        client.trigger_schedule(id()).await.err(),
    ];
    for error in errors {
        assert_eq!(error.unwrap().rejection(), Some(&Rejection::NoSuchSchedule));
    }
    for interval in [Millis::ZERO, Millis::new(99), Millis::new(u64::MAX)] {
        let plan = Plan::every(TEST_EPOCH, interval);
        let error = client.put_schedule(Schedule { plan, ..schedule() }).await.unwrap_err();
        assert!(error.to_string().starts_with("every"), "{interval}: {error}");
    }
    assert!(client.schedules(None, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn schedules_are_listed_in_order() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    for name in ["c", "a", "b"] {
        let id = ScheduleId::new(name).unwrap();
        client.put_schedule(Schedule { id, ..schedule() }).await.unwrap();
    }
    let ids = |states: Vec<hence::core::schedule::ScheduleState>| -> Vec<String> {
        states.iter().map(|state| state.schedule.id.to_string()).collect()
    };
    assert_eq!(ids(client.schedules(None, 2).await.unwrap()), ["a", "b"]);
    let after = Some(ScheduleId::new("b").unwrap());
    assert_eq!(ids(client.schedules(after, 2).await.unwrap()), ["c"]);
}

#[tokio::test]
async fn a_schedule_is_made_from_words() {
    let hence = start(&Seen::default()).await;
    let client = hence.client();
    let template = JobSpec::new(Target::Handler(HandlerName::new("note").unwrap()));
    let draft = Schedule::cron("0 9 * * MON-FRI").zone("Europe/Paris");
    let state = client.schedule_jobs(id(), draft, template.clone()).await.unwrap();
    assert_eq!(state.schedule.plan.zone.name(), "Europe/Paris");
    let first = state.progress.next_at.unwrap();
    let wall = state.schedule.plan.zone.wall(first).unwrap();
    assert_eq!((wall.hour(), wall.minute()), (9, 0));
    let draft = Schedule::every("blue moon");
    let refused = client.schedule_jobs(id(), draft, template).await.unwrap_err();
    assert!(refused.to_string().starts_with("when"), "{refused}");
    assert!(client.check_schedules(10).await.unwrap().unsound.is_empty());
}

#[tokio::test]
async fn a_backfill_gives_past_ticks_their_jobs_on_every_engine() {
    for (engine, disk) in Disk::of_each_engine() {
        let seen = Seen::default();
        let hence = start_on(Builder::new(disk.open()), &seen).await;
        let client = hence.client();
        let schedule = Schedule { misfire: Misfire::Skip, ..schedule() };
        client.put_schedule(schedule).await.unwrap();
        hence.jump(HOUR).await.unwrap();
        assert_eq!(accounts(&client).await, [(51, "skipped")], "{engine}");
        let until = client.now();
        let pace = Millis::from_secs(1);
        let state = client.backfill(id(), TEST_EPOCH, until, pace).await.unwrap();
        assert_eq!(state.progress.backfill.unwrap().ticks, 6, "{engine}");
        hence.advance(Millis::from_secs(20)).await.unwrap();
        assert_eq!(seen.calls().len(), 6, "{engine}");
        let done = client.schedule(id()).await.unwrap().progress.backfill.unwrap();
        assert_eq!((done.made, done.kept), (6, 0), "{engine}");
        assert!(done.ended_at.is_some(), "{engine}");
        client.backfill(id(), TEST_EPOCH, until, Millis::ZERO).await.unwrap();
        hence.advance(Millis::from_secs(20)).await.unwrap();
        assert_eq!(seen.calls().len(), 6, "{engine}: a second time makes nothing");
        let page = LedgerRequest { order: LedgerOrder::Oldest, ..LedgerRequest::newest(id(), 3) };
        let page = client.occurrences(page).await.unwrap();
        let page: Vec<u64> = page.iter().map(|one| minutes(one.last)).collect();
        assert_eq!(page, [1, 11, 21], "{engine}");
    }
}
