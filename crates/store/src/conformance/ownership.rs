//! S9: a shard has one owner at most, and each is told from all before it.

use std::collections::BTreeSet;

use hence_core::id::{Epoch, ShardId};

use super::build::{job, put};
use super::concurrency::in_threads;
use super::fixture::{Fixture, OTHER, SHARD};
use super::table;
use crate::ErrorKind;

table! { "ownership":
    S9 nothing every_epoch_is_higher;
    S9 nothing epochs_grow_after_a_release;
    S9 nothing the_same_node_gets_a_new_epoch_too;
    S9 nothing a_stale_release_changes_nothing;
    S9 nothing a_release_can_be_repeated;
    S9 nothing racing_owners_get_different_epochs;
    S9 nothing a_shard_that_does_not_exist_cannot_be_acquired;
    S9 two_shards shards_are_owned_one_by_one;
    S9 persistence epochs_grow_over_a_restart;
}

async fn every_epoch_is_higher(mut fixture: Fixture) {
    let mut last = Epoch(0);
    for _ in 0..20 {
        let epoch = fixture.acquire(SHARD).await;
        assert!(epoch > last, "{epoch:?} after {last:?}");
        last = epoch;
    }
}

async fn epochs_grow_after_a_release(mut fixture: Fixture) {
    let first = fixture.acquire(SHARD).await;
    fixture.store().release(SHARD, first).await.expect("released");
    assert!(fixture.acquire(SHARD).await > first);
}

/// A node that starts again is another owner: what it sent in its former life must be fenced.
async fn the_same_node_gets_a_new_epoch_too(fixture: Fixture) {
    let store = fixture.store();
    let first = store.acquire(SHARD, "a".to_string()).await.expect("acquired");
    let second = store.acquire(SHARD, "a".to_string()).await.expect("acquired");
    assert!(second > first);
}

async fn a_stale_release_changes_nothing(mut fixture: Fixture) {
    let first = fixture.acquire(SHARD).await;
    fixture.acquire(SHARD).await;
    fixture.store().release(SHARD, first).await.expect("nothing to give up");
    fixture.commit(vec![put(&job(1))]).await;
}

async fn a_release_can_be_repeated(mut fixture: Fixture) {
    let epoch = fixture.acquire(SHARD).await;
    for _ in 0..3 {
        fixture.store().release(SHARD, epoch).await.expect("released");
    }
    let late = fixture.batch(SHARD, vec![put(&job(1))]).await;
    fixture.refused(vec![late], ErrorKind::Fenced).await;
}

async fn racing_owners_get_different_epochs(fixture: Fixture) {
    let store = fixture.store();
    let epochs = in_threads(&fixture, 8, move |thread| {
        let store = std::sync::Arc::clone(&store);
        async move {
            let mut epochs = Vec::new();
            for _ in 0..20 {
                epochs
                    .push(store.acquire(SHARD, format!("node {thread}")).await.expect("acquired"));
            }
            epochs
        }
    });
    let all: BTreeSet<Epoch> = epochs.iter().flatten().copied().collect();
    assert_eq!(all.len(), 160, "an epoch was given twice");
    assert!(epochs.iter().all(|mine| mine.is_sorted()), "an epoch was lower than the one before");
}

async fn a_shard_that_does_not_exist_cannot_be_acquired(fixture: Fixture) {
    let beyond = ShardId(fixture.capabilities().shards);
    let answer = fixture.store().acquire(beyond, "node 1".to_string()).await;
    assert_eq!(answer.map_err(|error| error.kind()), Err(ErrorKind::Unsupported));
}

async fn shards_are_owned_one_by_one(mut fixture: Fixture) {
    fixture.acquire(SHARD).await;
    let other = fixture.acquire(OTHER).await;
    fixture.store().release(OTHER, other).await.expect("released");
    fixture.commit_to(SHARD, vec![put(&job(1))]).await;
}

async fn epochs_grow_over_a_restart(mut fixture: Fixture) {
    let mut last = Epoch(0);
    for round in 0..4 {
        let epoch = fixture.acquire(SHARD).await;
        assert!(epoch > last, "{epoch:?} after {last:?}");
        last = epoch;
        if round % 2 == 1 {
            fixture.store().release(SHARD, epoch).await.expect("released");
        }
        fixture.reopen().await;
    }
}
