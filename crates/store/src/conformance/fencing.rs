//! S3: who does not own a shard any more changes nothing in it.

use std::sync::Arc;

use hence_core::id::Epoch;

use super::build::{job, later, put, succeeded};
use super::fixture::{Fixture, OTHER, SHARD};
use super::table;
use crate::{ErrorKind, ShardBatch};

table! { "fencing":
    S3 nothing a_stale_epoch_is_refused;
    S3 nothing a_future_epoch_is_refused;
    S3 nothing a_shard_nobody_acquired_refuses_everything;
    S3 nothing a_released_epoch_is_refused;
    S3 nothing a_refused_commit_changes_nothing;
    S3 nothing an_applied_batch_of_a_stale_epoch_is_not_acknowledged;
    S3 nothing an_empty_batch_is_fenced_too;
    S3 nothing a_new_owner_counts_from_one;
    S3 two_shards fences_are_per_shard;
}

async fn a_stale_epoch_is_refused(mut fixture: Fixture) {
    let stale = fixture.batch(SHARD, vec![put(&job(1))]).await;
    fixture.acquire(SHARD).await;
    fixture.refused(vec![stale], ErrorKind::Fenced).await;
    assert!(!fixture.has(&job(1)).await);
}

async fn a_future_epoch_is_refused(mut fixture: Fixture) {
    let batch = fixture.batch(SHARD, vec![put(&job(1))]).await;
    let future = ShardBatch { epoch: Epoch(batch.epoch.0 + 1), ..batch };
    fixture.refused(vec![future], ErrorKind::Fenced).await;
    assert!(!fixture.has(&job(1)).await);
}

async fn a_shard_nobody_acquired_refuses_everything(fixture: Fixture) {
    for epoch in [Epoch(0), Epoch(1)] {
        let batch = ShardBatch {
            shard: SHARD,
            epoch,
            sequence: 1,
            changes: Arc::new(vec![put(&job(1))]),
            counts: Vec::new(),
            next_number: job(2).number,
        };
        fixture.refused(vec![batch], ErrorKind::Fenced).await;
    }
}

async fn a_released_epoch_is_refused(mut fixture: Fixture) {
    let epoch = fixture.acquire(SHARD).await;
    fixture.commit(vec![put(&job(1))]).await;
    fixture.store().release(SHARD, epoch).await.expect("released");
    let late = fixture.batch(SHARD, vec![put(&job(2))]).await;
    fixture.refused(vec![late], ErrorKind::Fenced).await;
    assert!(!fixture.has(&job(2)).await);
}

async fn a_refused_commit_changes_nothing(mut fixture: Fixture) {
    fixture.commit(vec![put(&job(1)), put(&job(2))]).await;
    let mut stale = fixture.batch(SHARD, vec![succeeded(&job(1)), put(&job(3))]).await;
    stale.counts = vec![(super::build::main_queue(), hence_core::queue::Counts::default())];
    fixture.acquire(SHARD).await;
    let before = fixture.snapshot(later()).await;
    fixture.refused(vec![stale], ErrorKind::Fenced).await;
    assert_eq!(fixture.snapshot(later()).await, before);
}

/// It was applied, but its sender must learn that it has lost the shard.
async fn an_applied_batch_of_a_stale_epoch_is_not_acknowledged(mut fixture: Fixture) {
    let batch = fixture.batch(SHARD, vec![put(&job(1))]).await;
    fixture.send(vec![batch.clone()]).await.expect("committed");
    fixture.acquire(SHARD).await;
    fixture.refused(vec![batch], ErrorKind::Fenced).await;
    assert!(fixture.has(&job(1)).await, "what was committed stays");
}

async fn an_empty_batch_is_fenced_too(mut fixture: Fixture) {
    let stale = fixture.batch(SHARD, Vec::new()).await;
    fixture.acquire(SHARD).await;
    fixture.refused(vec![stale], ErrorKind::Fenced).await;
}

async fn a_new_owner_counts_from_one(mut fixture: Fixture) {
    for number in 1..=3 {
        fixture.commit(vec![put(&job(number))]).await;
    }
    fixture.acquire(SHARD).await;
    fixture.commit(vec![put(&job(4))]).await;
    assert!(fixture.has(&job(4)).await, "the new owner's first batch was taken for an old one");
}

async fn fences_are_per_shard(mut fixture: Fixture) {
    fixture.commit_to(OTHER, vec![put(&job(1))]).await;
    for _ in 0..3 {
        fixture.acquire(SHARD).await;
    }
    fixture.commit_to(OTHER, vec![put(&job(2))]).await;
    fixture.commit_to(SHARD, vec![put(&job(3))]).await;
}
