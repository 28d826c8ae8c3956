//! S4: batches take effect in their order, and once however often they are sent.

use futures::future::join_all;
use hence_core::job::{Job, Progress};
use hence_core::queue::Counts;

use super::build::{
    at, job, later, leased, main_queue, moved, put, recorded, retried, schedule, succeeded,
};
use super::fixture::{Fixture, OTHER, SHARD};
use super::table;
use crate::{Change, ErrorKind, ShardBatch};

table! { "order":
    S4 nothing a_batch_sent_twice_applies_once;
    S4 nothing an_attempt_is_not_recorded_twice;
    S4 nothing an_old_batch_sent_again_changes_nothing;
    S4 nothing counts_of_an_old_batch_do_not_come_back;
    S4 nothing a_gap_is_refused;
    S4 nothing two_hundred_batches_take_effect_in_order;
    S4 nothing batches_sent_at_once_take_effect_in_order;
    S4 two_shards a_resend_may_travel_with_news_of_another_shard;
    S4 persistence a_resend_is_known_after_much_else;
}

async fn a_batch_sent_twice_applies_once(mut fixture: Fixture) {
    let job = job(1);
    let changes =
        vec![put(&job), leased([&job], 1), Change::SchedulePut { state: schedule("s").into() }];
    let batch = fixture.batch(SHARD, changes).await;
    fixture.send(vec![batch.clone()]).await.expect("committed");
    let before = fixture.snapshot(later()).await;
    for _ in 0..3 {
        fixture.send(vec![batch.clone()]).await.expect("acknowledged again");
        assert_eq!(fixture.snapshot(later()).await, before);
    }
}

async fn an_attempt_is_not_recorded_twice(mut fixture: Fixture) {
    let job = job(1);
    fixture.commit(vec![put(&job), leased([&job], 1)]).await;
    let changes = vec![retried(&job, at(1), at(900), 1), recorded("s", 1)];
    let batch = fixture.batch(SHARD, changes).await;
    for _ in 0..3 {
        fixture.send(vec![batch.clone()]).await.expect("acknowledged");
    }
    assert_eq!(fixture.attempts(&job).await.len(), 1, "one attempt");
    let id = super::build::schedule_id("s");
    assert_eq!(fixture.occurrences(&id, later(), 9).await.len(), 1, "one occurrence");
}

/// The first batch put a job that is done by now: sent again, it must not bring it back.
async fn an_old_batch_sent_again_changes_nothing(mut fixture: Fixture) {
    let job = job(1);
    let first = fixture.batch(SHARD, vec![put(&job)]).await;
    fixture.send(vec![first.clone()]).await.expect("committed");
    let second = fixture.batch(SHARD, vec![leased([&job], 1)]).await;
    fixture.send(vec![second.clone()]).await.expect("committed");
    fixture.commit(vec![succeeded(&job)]).await;
    let before = fixture.snapshot(later()).await;
    for old in [first, second] {
        fixture.send(vec![old]).await.expect("acknowledged again");
        assert_eq!(fixture.snapshot(later()).await, before);
    }
}

async fn counts_of_an_old_batch_do_not_come_back(mut fixture: Fixture) {
    let counts = |pending| vec![(main_queue(), Counts { pending, ..Counts::default() })];
    let first = ShardBatch { counts: counts(1), ..fixture.batch(SHARD, vec![put(&job(1))]).await };
    fixture.send(vec![first.clone()]).await.expect("committed");
    let second = ShardBatch { counts: counts(2), ..fixture.batch(SHARD, vec![put(&job(2))]).await };
    fixture.send(vec![second]).await.expect("committed");
    fixture.send(vec![first]).await.expect("acknowledged again");
    let recovered = fixture.recover().await;
    assert_eq!(recovered.counts, counts(2));
    assert_eq!(recovered.next_number, job(3).number);
}

async fn a_gap_is_refused(mut fixture: Fixture) {
    fixture.commit(vec![put(&job(1))]).await;
    let missing = fixture.batch(SHARD, vec![put(&job(2))]).await;
    let early = fixture.batch(SHARD, vec![put(&job(3))]).await;
    fixture.refused(vec![early.clone()], ErrorKind::Unsupported).await;
    assert!(!fixture.has(&job(3)).await);
    fixture.send(vec![missing]).await.expect("the missing one");
    fixture.send(vec![early]).await.expect("now it is its turn");
    assert_eq!(fixture.due(&main_queue()).await, [1, 2, 3]);
}

async fn two_hundred_batches_take_effect_in_order(mut fixture: Fixture) {
    let job = job(1);
    fixture.commit(vec![put(&job)]).await;
    let mut from = at(1);
    for step in 2..=200_i64 {
        // Back and forth, so that the last place is neither the first nor the last in order.
        let to = at(if step % 2 == 0 { step * 100 } else { -step * 100 });
        fixture.commit(vec![moved(&job, from, Progress::fresh(to))]).await;
        from = to;
    }
    let waiting = fixture.due_after(&main_queue(), crate::Place::FIRST, 10).await;
    assert_eq!(waiting.len(), 1, "one job stands in one place");
    assert_eq!(waiting[0].progress, Progress::fresh(at(20_000)));
}

/// Nobody waits for an answer before the next one is sent.
async fn batches_sent_at_once_take_effect_in_order(mut fixture: Fixture) {
    let job = job(1);
    let mut from = at(1);
    let mut batches = vec![fixture.batch(SHARD, vec![put(&job)]).await];
    for step in 2..=40_i64 {
        let to = at(if step % 2 == 0 { step * 100 } else { -step * 100 });
        batches.push(fixture.batch(SHARD, vec![moved(&job, from, Progress::fresh(to))]).await);
        from = to;
    }
    // One is left out, and all behind it are refused.
    let behind = batches.split_off(20);
    let answers = join_all(batches.into_iter().map(|it| fixture.send(vec![it]))).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let early = behind[1..].iter().map(|it| fixture.send(vec![it.clone()]));
    let early = join_all(early).await;
    assert!(early.iter().all(Result::is_err), "{early:?}");
    let answers = join_all(behind.into_iter().map(|it| fixture.send(vec![it]))).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let waiting = fixture.due_after(&main_queue(), crate::Place::FIRST, 10).await;
    assert_eq!(waiting.len(), 1, "one job stands in one place");
    assert_eq!(waiting[0].progress, Progress::fresh(at(4_000)));
}

async fn a_resend_may_travel_with_news_of_another_shard(mut fixture: Fixture) {
    let old = fixture.batch(SHARD, vec![put(&job(1))]).await;
    fixture.send(vec![old.clone()]).await.expect("committed");
    let before = fixture.snapshot(later()).await;
    let news = fixture.batch(OTHER, vec![put(&job(2))]).await;
    fixture.send(vec![old, news]).await.expect("committed");
    assert_eq!(fixture.snapshot(later()).await, before, "the old batch had an effect");
    let found = fixture.store().get(OTHER, vec![job(2).name], later()).await.expect("got");
    assert!(found[0].is_some(), "the news were lost");
}

/// An engine must not forget how far it is because it has written a lot since.
async fn a_resend_is_known_after_much_else(mut fixture: Fixture) {
    let first = fixture.batch(SHARD, vec![put(&job(1))]).await;
    fixture.send(vec![first.clone()]).await.expect("committed");
    for number in 2..=150 {
        let job = Job { payload: super::build::payload(&[7; 10_000]), ..job(number) };
        fixture.commit(vec![put(&job)]).await;
    }
    fixture.commit(vec![succeeded(&job(1))]).await;
    fixture.send(vec![first]).await.expect("acknowledged again");
    assert_eq!(fixture.due(&main_queue()).await.len(), 149);
}
