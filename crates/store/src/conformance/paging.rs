//! S8: pages of jobs, by every filter, while the world goes on.

use hence_core::id::JobNumber;
use hence_core::job::{Finish, Job, JobState, Occurrence, Outcome, Progress};

use super::build::{
    at, finish, finished, job, jobs, key, later, leased, main_queue, moved, name, named, put,
    put_all, put_with, queue, schedule_id, succeeded,
};
use super::fixture::{Fixture, ROWS_MAX, all_states, number_of};
use super::table;
use crate::Filter;

table! { "paging":
    S8 nothing live_ones_come_first_then_finished_ones;
    S8 nothing equal_times_come_by_number;
    S8 nothing small_pages_make_the_same_list;
    S8 nothing no_state_given_means_the_live_ones;
    S8 nothing every_state_can_be_asked_for;
    S8 nothing ready_is_judged_by_the_time_given;
    S8 nothing by_queue;
    S8 nothing by_key;
    S8 nothing by_schedule;
    S8 nothing by_time;
    S8 nothing by_everything_at_once;
    S8 nothing a_filter_that_fits_nothing_ends_at_once;
    S8 nothing new_jobs_do_not_shake_the_pages;
    S8 nothing ending_jobs_do_not_shake_the_pages;
    S8 nothing a_cursor_outlives_its_row;
    S8 nothing what_is_over_is_not_listed;
}

async fn live_ones_come_first_then_finished_ones(mut fixture: Fixture) {
    let all = jobs(1, 5);
    fixture.commit(put_all(&all)).await;
    fixture.commit(vec![finished(&all[0], finish(Outcome::Dead, at(90)))]).await;
    fixture.commit(vec![finished(&all[3], finish(Outcome::Succeeded, at(80)))]).await;
    fixture.commit(vec![leased([&all[2]], 1)]).await;
    assert_eq!(fixture.listed(&all_states(), later()).await, [2, 3, 5, 4, 1]);
}

async fn equal_times_come_by_number(mut fixture: Fixture) {
    let numbers = [256, 3, 255, 10];
    let due = |number| put_with(&job(number), Progress::fresh(at(0)));
    fixture.commit(numbers.map(due).into()).await;
    assert_eq!(fixture.listed(&all_states(), later()).await, [3, 10, 255, 256]);
    let end = |number| {
        let job = Job { scheduled_for: at(0), ..job(number) };
        finished(&job, finish(Outcome::Succeeded, at(9)))
    };
    fixture.commit(numbers.map(end).into()).await;
    assert_eq!(fixture.listed(&all_states(), later()).await, [3, 10, 255, 256]);
}

async fn small_pages_make_the_same_list(mut fixture: Fixture) {
    mixed(&mut fixture, 60).await;
    let whole = fixture.rows(&all_states(), 1_000, later()).await;
    assert_eq!(whole.len(), 60);
    for limit in [1, 2, 7, 59, 60, 61] {
        let rows = fixture.rows(&all_states(), limit, later()).await;
        assert!(rows == whole, "pages of {limit} make another list");
    }
}

async fn no_state_given_means_the_live_ones(mut fixture: Fixture) {
    mixed(&mut fixture, 12).await;
    let live = [JobState::Scheduled, JobState::Ready, JobState::Running];
    let live = Filter { states: live.to_vec(), ..Filter::default() };
    let expected = fixture.listed(&live, later()).await;
    assert_eq!(expected.len(), 8, "a third was finished");
    assert_eq!(fixture.listed(&Filter::default(), later()).await, expected);
}

async fn every_state_can_be_asked_for(mut fixture: Fixture) {
    let all = jobs(1, 7);
    fixture.commit(put_all(&all)).await;
    fixture.commit(vec![moved(&all[0], at(1), Progress::fresh(at(5_000)))]).await;
    fixture.commit(vec![leased([&all[2]], 1)]).await;
    for (job, outcome) in all[3..].iter().zip(Outcome::ALL) {
        fixture.commit(vec![finished(job, finish(outcome, at(20)))]).await;
    }
    for (state, number) in JobState::ALL.into_iter().zip(1..) {
        let filter = Filter { states: vec![state], ..Filter::default() };
        assert_eq!(fixture.listed(&filter, at(100)).await, [number], "{}", state.as_str());
    }
    let filter = Filter { states: vec![JobState::Dead, JobState::Running], ..Filter::default() };
    assert_eq!(fixture.listed(&filter, at(100)).await, [3, 5]);
}

async fn ready_is_judged_by_the_time_given(mut fixture: Fixture) {
    fixture.commit(put_all(&jobs(1, 3))).await;
    let only = |state| Filter { states: vec![state], ..Filter::default() };
    assert_eq!(fixture.listed(&only(JobState::Ready), at(2)).await, [1, 2]);
    assert_eq!(fixture.listed(&only(JobState::Scheduled), at(2)).await, [3]);
    assert_eq!(fixture.listed(&only(JobState::Ready), at(0)).await, [0_u64; 0]);
}

async fn by_queue(mut fixture: Fixture) {
    let all = [
        named(1, name("a", None, "x")),
        named(2, name("a.b", None, "x")),
        named(3, name("a", None, "y")),
        named(4, name("b", None, "x")),
    ];
    fixture.commit(put_all(&all)).await;
    fixture.commit(vec![succeeded(&all[2]), succeeded(&all[3])]).await;
    let filter = Filter { queue: Some(queue("a")), ..all_states() };
    assert_eq!(fixture.listed(&filter, later()).await, [1, 3]);
}

async fn by_key(mut fixture: Fixture) {
    let all = [
        named(1, name("a", Some("k"), "x")),
        named(2, name("a", Some("kk"), "x")),
        named(3, name("b", Some("k"), "x")),
        named(4, name("a", None, "k")),
        named(5, name("a", Some("k"), "y")),
    ];
    fixture.commit(put_all(&all)).await;
    fixture.commit(vec![succeeded(&all[4])]).await;
    let filter = Filter { key: Some(key("k")), ..all_states() };
    assert_eq!(fixture.listed(&filter, later()).await, [1, 3, 5], "in all queues");
    let filter = Filter { queue: Some(queue("a")), ..filter };
    assert_eq!(fixture.listed(&filter, later()).await, [1, 5], "in one");
}

async fn by_schedule(mut fixture: Fixture) {
    let made_by = |number, id: &str| {
        let occurrence = Occurrence { schedule: schedule_id(id), at: at(0) };
        Job { occurrence: Some(occurrence), ..job(number) }
    };
    let all = [made_by(1, "s"), made_by(2, "s/2"), job(3), made_by(4, "s")];
    fixture.commit(put_all(&all)).await;
    fixture.commit(vec![succeeded(&all[3])]).await;
    let filter = Filter { schedule: Some(schedule_id("s")), ..all_states() };
    assert_eq!(fixture.listed(&filter, later()).await, [1, 4]);
}

/// From is included, until is not; live ones are judged by due time, finished ones by their end.
async fn by_time(mut fixture: Fixture) {
    let all = jobs(1, 8);
    fixture.commit(put_all(&all)).await;
    fixture.commit(vec![moved(&all[0], at(1), Progress::fresh(at(60)))]).await;
    for (job, end) in [(&all[5], 49), (&all[6], 50), (&all[7], 60)] {
        fixture.commit(vec![finished(job, finish(Outcome::Dead, at(end)))]).await;
    }
    let rows: [(Option<i64>, Option<i64>, &[u64]); 5] = [
        (None, None, &[2, 3, 4, 5, 1, 6, 7, 8]),
        (Some(3), Some(5), &[3, 4]),
        (Some(50), None, &[1, 7, 8]),
        (Some(50), Some(60), &[7]),
        (None, Some(50), &[2, 3, 4, 5, 6]),
    ];
    for (from, until, expected) in rows {
        let filter = Filter { from: from.map(at), until: until.map(at), ..all_states() };
        assert_eq!(fixture.listed(&filter, later()).await, expected, "from {from:?} to {until:?}");
    }
}

async fn by_everything_at_once(mut fixture: Fixture) {
    let make = |number, queue_name: &str, key_name: &str, schedule: &str| Job {
        occurrence: Some(Occurrence { schedule: schedule_id(schedule), at: at(0) }),
        ..named(number, name(queue_name, Some(key_name), &format!("job-{number}")))
    };
    let mut all = vec![make(1, "q", "k", "s"), make(2, "q", "k", "s"), make(3, "q", "k", "s")];
    all.extend([make(4, "x", "k", "s"), make(5, "q", "x", "s"), make(6, "q", "k", "x")]);
    fixture.commit(put_all(&all)).await;
    let end = |job: &Job| finished(job, finish(Outcome::Dead, at(job.number.0 as i64 + 10)));
    fixture.commit(all.iter().skip(1).map(end).collect()).await;
    let filter = Filter {
        queue: Some(queue("q")),
        key: Some(key("k")),
        states: vec![JobState::Dead],
        schedule: Some(schedule_id("s")),
        from: Some(at(12)),
        until: Some(at(13)),
    };
    assert_eq!(fixture.listed(&filter, later()).await, [2]);
}

async fn a_filter_that_fits_nothing_ends_at_once(mut fixture: Fixture) {
    mixed(&mut fixture, 10).await;
    let filter = Filter { queue: Some(queue("nobody")), ..all_states() };
    let page = fixture.page(&filter, None, 5, later()).await;
    assert_eq!((page.jobs.len(), page.next), (0, None));
}

async fn new_jobs_do_not_shake_the_pages(mut fixture: Fixture) {
    let old: Vec<Job> = (1..=40).map(|n| job(n * 10)).collect();
    fixture.commit(put_all(&old)).await;
    fixture.commit(old[20..].iter().map(succeeded).collect()).await;
    let mut expected: Vec<u64> = old.iter().map(|job| job.number.0).collect();
    let (mut seen, mut after, mut number) = (Vec::new(), None, 1_000);
    loop {
        let page = fixture.page(&all_states(), after, 6, later()).await;
        seen.extend(page.jobs.iter().map(number_of));
        assert!(seen.len() <= ROWS_MAX, "pages without end");
        after = page.next;
        if after.is_none() {
            break;
        }
        // One before the cursor, one after it, one finished; not for ever, or there is no end.
        for due in [-5, 105, 110].into_iter().filter(|_| seen.len() < 100) {
            number += 1;
            let new = Job { scheduled_for: at(due), ..job(number) };
            fixture.commit(vec![put(&new)]).await;
            if due == 110 {
                fixture.commit(vec![succeeded(&new)]).await;
            }
        }
    }
    seen.retain(|number| *number <= 1_000);
    seen.sort_unstable();
    expected.sort_unstable();
    assert_eq!(seen, expected, "of those that were there all the time");
}

async fn ending_jobs_do_not_shake_the_pages(mut fixture: Fixture) {
    let all = jobs(1, 40);
    fixture.commit(put_all(&all)).await;
    let (mut seen, mut after, mut ended) = (Vec::new(), None, Vec::new());
    loop {
        let page = fixture.page(&all_states(), after, 6, later()).await;
        seen.extend(page.jobs.iter().map(number_of));
        assert!(seen.len() <= ROWS_MAX, "pages without end");
        after = page.next;
        if after.is_none() {
            break;
        }
        // One that was seen and one that is still to come, each page.
        let last = ended.len() as u64 / 2;
        for number in [last + 1, 40 - last] {
            let end = Finish { keep_until: at(600), ..finish(Outcome::Succeeded, at(600)) };
            if !ended.contains(&number) {
                fixture.commit(vec![finished(&job(number), end)]).await;
                ended.push(number);
            }
        }
    }
    seen.retain(|number| !ended.contains(number));
    let stayed: Vec<u64> = (1..=40).filter(|number| !ended.contains(number)).collect();
    assert_eq!(seen, stayed, "of those that were there all the time");
}

async fn a_cursor_outlives_its_row(mut fixture: Fixture) {
    let all = jobs(1, 6);
    fixture.commit(put_all(&all)).await;
    let first = fixture.page(&Filter::default(), None, 3, later()).await;
    assert_eq!(first.next.as_ref().map(|cursor| cursor.number), Some(JobNumber(3)));
    fixture.commit(vec![moved(&all[2], at(3), Progress::fresh(at(-7)))]).await;
    let second = fixture.page(&Filter::default(), first.next, 3, later()).await;
    assert_eq!(second.jobs.iter().map(number_of).collect::<Vec<_>>(), [4, 5, 6]);
}

async fn what_is_over_is_not_listed(mut fixture: Fixture) {
    let all = jobs(1, 2);
    fixture.commit(put_all(&all)).await;
    for (job, keep_until) in [(&all[0], at(100)), (&all[1], at(200))] {
        let end = Finish { keep_until, ..finish(Outcome::Dead, at(50)) };
        fixture.commit(vec![finished(job, end)]).await;
    }
    for (now, expected) in [(99, vec![1, 2]), (100, vec![2]), (199, vec![2]), (200, vec![])] {
        assert_eq!(fixture.listed(&all_states(), at(now)).await, expected, "at {now}");
    }
}

/// Jobs of which a third is finished, a third runs, and a third waits.
async fn mixed(fixture: &mut Fixture, count: u64) {
    let all = jobs(1, count);
    fixture.commit(put_all(&all)).await;
    let nth = |rest: u64| all.iter().filter(move |job| job.number.0 % 3 == rest);
    fixture.commit(vec![leased(nth(0), 1)]).await;
    fixture.commit(nth(1).map(succeeded).collect()).await;
    assert_eq!(fixture.due(&main_queue()).await.len() as u64, count / 3);
}
