//! S5: the jobs of a queue, in the order they are to be handed out.

use hence_core::id::JobNumber;
use hence_core::job::{Job, Progress};

use super::build::{
    at, job, jobs, leased, main_queue, moved, name, named, place, put, put_all, put_with, queue,
    replaced, succeeded,
};
use super::fixture::{Fixture, SHARD};
use super::table;
use crate::Place;

table! { "due":
    S5 nothing jobs_come_by_due_time;
    S5 nothing ties_come_by_number;
    S5 nothing after_a_place_means_after_it;
    S5 nothing a_limit_is_kept;
    S5 nothing an_unknown_queue_is_empty;
    S5 nothing other_queues_are_left_out;
    S5 nothing running_jobs_are_left_out;
    S5 nothing a_running_job_waits_again_after_it_moved;
    S5 nothing moved_jobs_stand_at_their_new_place_only;
    S5 nothing finished_jobs_are_left_out;
    S5 nothing replaced_jobs_are_left_out;
    S5 nothing progress_comes_with_the_job;
    S5 nothing ten_thousand_jobs_in_small_pages;
    S5 nothing pages_go_on_while_jobs_are_handed_out;
    S5 nothing the_ends_of_the_order_hold_every_job;
}

const NONE: [u64; 0] = [];

async fn jobs_come_by_due_time(mut fixture: Fixture) {
    let due = |number, millis| put_with(&job(number), Progress::fresh(at(millis)));
    fixture.commit(vec![due(1, 300), due(2, 100)]).await;
    fixture.commit(vec![due(3, 200), due(4, -5)]).await;
    assert_eq!(fixture.due(&main_queue()).await, [4, 2, 3, 1]);
}

async fn ties_come_by_number(mut fixture: Fixture) {
    let due = |number| put_with(&job(number), Progress::fresh(at(0)));
    // 256 and 255 part engines that compare numbers as text or as little-endian bytes.
    fixture.commit([256, 9, 255, 10, 1, 65_536].map(due).into()).await;
    assert_eq!(fixture.due(&main_queue()).await, [1, 9, 10, 255, 256, 65_536]);
}

async fn after_a_place_means_after_it(mut fixture: Fixture) {
    let due = |number| put_with(&job(number), Progress::fresh(at(0)));
    fixture.commit(vec![due(1), due(2), due(3), put(&job(4))]).await;
    let after = Place { due_at: at(0), number: JobNumber(2) };
    let found = fixture.due_after(&main_queue(), after, 10).await;
    assert_eq!(numbers(&found), [3, 4]);
    assert!(fixture.due_after(&main_queue(), place(&job(4)), 10).await.is_empty());
    assert!(fixture.due_after(&main_queue(), Place::LAST, 10).await.is_empty());
}

async fn a_limit_is_kept(mut fixture: Fixture) {
    fixture.commit(put_all(&jobs(1, 5))).await;
    for (limit, expected) in [(0, 0), (1, 1), (4, 4), (5, 5), (6, 5), (usize::MAX, 5)] {
        let found = fixture.due_after(&main_queue(), Place::FIRST, limit).await;
        assert_eq!(found.len(), expected, "limit {limit}");
    }
}

async fn an_unknown_queue_is_empty(mut fixture: Fixture) {
    fixture.commit(vec![put(&job(1))]).await;
    assert_eq!(fixture.due(&queue("nobody")).await, NONE);
}

async fn other_queues_are_left_out(mut fixture: Fixture) {
    let long = "x".repeat(64);
    let names = ["a", "a.b", "a/b", "ab", "A", "b", "a-", &long, &long[..63]];
    let job = |number: usize| named(number as u64, name(names[number], None, "same"));
    let all: Vec<Job> = (0..names.len()).map(job).collect();
    fixture.commit(put_all(&all)).await;
    for (number, queue_name) in names.iter().enumerate() {
        let found = fixture.due(&queue(queue_name)).await;
        assert_eq!(found, [number as u64], "queue {queue_name}");
    }
}

async fn running_jobs_are_left_out(mut fixture: Fixture) {
    let all = jobs(1, 5);
    fixture.commit(put_all(&all)).await;
    fixture.commit(vec![leased([&all[0], &all[2]], 1)]).await;
    assert_eq!(fixture.due(&main_queue()).await, [2, 4, 5]);
    let found = fixture.due_after(&main_queue(), Place::FIRST, 2).await;
    assert_eq!(numbers(&found), [2, 4], "running ones took room in the page");
}

async fn a_running_job_waits_again_after_it_moved(mut fixture: Fixture) {
    let all = jobs(1, 2);
    fixture.commit(put_all(&all)).await;
    fixture.commit(vec![leased(&all, 1)]).await;
    // Given back at the place it had, and retried later.
    fixture.commit(vec![moved(&all[0], at(1), Progress::fresh(at(1)))]).await;
    assert_eq!(fixture.due(&main_queue()).await, [1]);
    fixture.commit(vec![moved(&all[1], at(2), Progress::fresh(at(-2)))]).await;
    assert_eq!(fixture.due(&main_queue()).await, [2, 1]);
}

async fn moved_jobs_stand_at_their_new_place_only(mut fixture: Fixture) {
    let all = jobs(1, 3);
    fixture.commit(put_all(&all)).await;
    fixture.commit(vec![moved(&all[0], at(1), Progress::fresh(at(10)))]).await;
    assert_eq!(fixture.due(&main_queue()).await, [2, 3, 1]);
    fixture.commit(vec![moved(&all[0], at(10), Progress::fresh(at(1)))]).await;
    assert_eq!(fixture.due(&main_queue()).await, [1, 2, 3]);
}

async fn finished_jobs_are_left_out(mut fixture: Fixture) {
    let all = jobs(1, 3);
    fixture.commit(put_all(&all)).await;
    fixture.commit(vec![leased([&all[1]], 1), succeeded(&all[1])]).await;
    fixture.commit(vec![succeeded(&all[0])]).await;
    assert_eq!(fixture.due(&main_queue()).await, [3]);
}

async fn replaced_jobs_are_left_out(mut fixture: Fixture) {
    let old = job(1);
    let new = Job { number: JobNumber(2), scheduled_for: at(50), ..old.clone() };
    fixture.commit(vec![put(&old)]).await;
    fixture.commit(vec![replaced(&old, &new)]).await;
    assert_eq!(fixture.due(&main_queue()).await, [2]);
}

async fn progress_comes_with_the_job(mut fixture: Fixture) {
    let progress = Progress { due_at: at(9), attempts: 3, crashes: 2, holds_key: true };
    fixture.commit(vec![put_with(&job(1), progress)]).await;
    let found = fixture.due_after(&main_queue(), Place::FIRST, 1).await;
    assert_eq!((found[0].progress, &found[0].lease), (progress, &None));
    assert_eq!(*found[0].job, job(1));
}

async fn ten_thousand_jobs_in_small_pages(mut fixture: Fixture) {
    const JOBS: u64 = 10_000;
    // Every due time about ten times over, and numbers in no relation to it.
    let due_of = |number: u64| at((number.wrapping_mul(7_919) % 1_000) as i64);
    for chunk in (1..=JOBS).collect::<Vec<_>>().chunks(2_500) {
        let change = |number: &u64| put_with(&job(*number), Progress::fresh(due_of(*number)));
        fixture.commit(chunk.iter().map(change).collect()).await;
    }
    let mut expected: Vec<Place> = (1..=JOBS)
        .map(|number| Place { due_at: due_of(number), number: JobNumber(number) })
        .collect();
    expected.sort();
    let (mut found, mut after) = (Vec::new(), Place::FIRST);
    loop {
        let page = fixture.due_after(&main_queue(), after, 97).await;
        let Some(last) = page.last() else { break };
        after = place_of(last);
        found.extend(page.iter().map(place_of));
        assert!(found.len() <= expected.len(), "jobs come twice");
    }
    assert!(found == expected, "{} of {JOBS} jobs, or in another order", found.len());
}

async fn pages_go_on_while_jobs_are_handed_out(mut fixture: Fixture) {
    let all = jobs(1, 100);
    fixture.commit(put_all(&all)).await;
    let (mut found, mut after) = (Vec::new(), Place::FIRST);
    loop {
        let page = fixture.due_after(&main_queue(), after, 7).await;
        let Some(last) = page.last() else { break };
        after = place_of(last);
        let handed_out = page.iter().map(|live| &*live.job);
        fixture.commit_to(SHARD, vec![leased(handed_out, found.len() as u64)]).await;
        found.extend(numbers(&page));
        assert!(found.len() <= all.len(), "jobs come twice");
    }
    assert_eq!(found, (1..=100).collect::<Vec<_>>());
    assert_eq!(fixture.due(&main_queue()).await, NONE);
}

async fn the_ends_of_the_order_hold_every_job(mut fixture: Fixture) {
    let first = Job { number: JobNumber(0), ..job(0) };
    let last = Job { number: JobNumber(u64::MAX - 1), ..job(7) };
    let long_ago = Progress::fresh(hence_core::time::Timestamp::EPOCH);
    let far = Progress::fresh(at(200 * 366 * 24 * 3_600 * 1_000));
    fixture.commit(vec![put_with(&last, far), put_with(&first, long_ago)]).await;
    assert_eq!(fixture.due(&main_queue()).await, [0, u64::MAX - 1]);
}

fn numbers(found: &[crate::LiveJob]) -> Vec<u64> {
    found.iter().map(|live| live.job.number.0).collect()
}

pub(super) fn place_of(live: &crate::LiveJob) -> Place {
    Place { due_at: live.progress.due_at, number: live.job.number }
}
