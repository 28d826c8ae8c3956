//! S10: instants come back to the millisecond, from long ago to far ahead.

use hence_core::job::{Finish, Job, Outcome, Progress};
use hence_core::time::{Millis, Timestamp};

use super::build::{at, finish, finished, job, later, main_queue, put, put_with};
use super::fixture::{Fixture, all_states};
use super::table;
use crate::{Place, StoredJob};

table! { "precision":
    S10 nothing milliseconds_are_kept;
    S10 nothing the_year_2200_is_kept;
    S10 nothing the_first_moment_of_1970_is_kept;
    S10 nothing neighbouring_milliseconds_stay_in_order;
    S5 nothing long_ago_and_far_ahead_stay_in_order;
    S11 nothing ends_are_kept_to_the_millisecond;
    S10 nothing the_longest_spans_are_kept;
}

/// 2200-01-01T00:00:00Z.
const YEAR_2200: i64 = 7_258_118_400_000;

async fn milliseconds_are_kept(mut fixture: Fixture) {
    check_instant(&mut fixture, at(1).as_millis()).await;
}

async fn the_year_2200_is_kept(mut fixture: Fixture) {
    check_instant(&mut fixture, YEAR_2200 + 123).await;
}

async fn the_first_moment_of_1970_is_kept(mut fixture: Fixture) {
    check_instant(&mut fixture, 0).await;
}

async fn check_instant(fixture: &mut Fixture, millis: i64) {
    let instant = Timestamp::from_millis(millis);
    let job = Job {
        scheduled_for: instant,
        submitted_at: instant,
        expires_at: Some(instant.plus(Millis::new(1))),
        ..job(1)
    };
    fixture.commit(vec![put(&job)]).await;
    let live = fixture.live(&job).await;
    assert_eq!(*live.job, job);
    assert_eq!(live.progress.due_at, instant);
    let before = Place { due_at: Timestamp::from_millis(millis - 1), number: job.number };
    assert_eq!(fixture.due_after(&main_queue(), before, 2).await, [live]);
}

async fn neighbouring_milliseconds_stay_in_order(mut fixture: Fixture) {
    let millis = [3, 1, 2, 0, -1, -2];
    let due = |(number, millis): (u64, i64)| put_with(&job(number), Progress::fresh(at(millis)));
    fixture.commit((1..).zip(millis).map(due).collect()).await;
    assert_eq!(fixture.due(&main_queue()).await, [6, 5, 4, 2, 3, 1]);
}

async fn long_ago_and_far_ahead_stay_in_order(mut fixture: Fixture) {
    let millis = [YEAR_2200, 0, 1, 1_000_000_000_000, 255, 256, i64::from(u32::MAX) + 1, 65_535];
    let due = |(number, millis): (u64, i64)| {
        put_with(&job(number), Progress::fresh(Timestamp::from_millis(millis)))
    };
    fixture.commit((1..).zip(millis).map(due).collect()).await;
    assert_eq!(fixture.due(&main_queue()).await, [2, 3, 5, 6, 8, 7, 4, 1]);
    assert_eq!(fixture.listed(&all_states(), later()).await, [2, 3, 5, 6, 8, 7, 4, 1]);
}

async fn ends_are_kept_to_the_millisecond(mut fixture: Fixture) {
    let end = Finish {
        keep_until: Timestamp::from_millis(YEAR_2200 + 1),
        ..finish(Outcome::Dead, Timestamp::from_millis(YEAR_2200 - 1))
    };
    let job = job(1);
    fixture.commit(vec![put(&job), finished(&job, end.clone())]).await;
    let found = |now: i64| fixture.get(&job.name, Timestamp::from_millis(now));
    let Some(StoredJob::Finished(done)) = found(YEAR_2200).await else {
        panic!("the finished job is not there");
    };
    assert_eq!(done.finish, end);
    assert!(found(YEAR_2200 + 1).await.is_none());
    assert!(fixture.sweep(Timestamp::from_millis(YEAR_2200), 10).await.is_empty());
    assert_eq!(fixture.sweep(Timestamp::from_millis(YEAR_2200 + 1), 10).await.len(), 1);
}

async fn the_longest_spans_are_kept(mut fixture: Fixture) {
    let job = Job {
        timeout: hence_core::limits::TIMEOUT_MAX,
        retention: hence_core::limits::RETENTION_MAX,
        ..job(1)
    };
    fixture.commit(vec![put(&job)]).await;
    assert_eq!(*fixture.live(&job).await.job, job);
}
