//! S1, S2: what was committed is there, whole.

use hence_core::id::JobNumber;
use hence_core::queue::Counts;

use super::build::{
    at, finish, finished, job, jobs, later, leased, main_queue, name, named, put, put_all,
};
use super::fixture::{Fixture, OTHER, SHARD, all_states, snapshot};
use super::table;
use crate::{ErrorKind, ShardBatch, StoredJob};
use hence_core::job::Outcome;

table! { "commit":
    S1 nothing an_empty_commit_is_fine;
    S1 nothing a_committed_job_is_visible_at_once;
    S1 nothing a_batch_without_changes_keeps_counts_and_numbers;
    S2 nothing changes_of_one_batch_apply_in_order;
    S2 nothing a_large_commit_is_there_whole;
    S2 two_shards a_commit_covers_several_shards;
    S2 two_shards a_refused_batch_takes_the_others_with_it;
    S2 two_shards shards_do_not_mix;
}

async fn an_empty_commit_is_fine(fixture: Fixture) {
    fixture.send(Vec::new()).await.expect("nothing to refuse");
}

async fn a_committed_job_is_visible_at_once(mut fixture: Fixture) {
    let job = job(1);
    fixture.commit(vec![put(&job)]).await;
    assert_eq!(*fixture.live(&job).await.job, job, "by name");
    assert_eq!(fixture.due(&main_queue()).await, [1], "by place");
    assert_eq!(fixture.listed(&all_states(), later()).await, [1], "in the list");
}

async fn a_batch_without_changes_keeps_counts_and_numbers(mut fixture: Fixture) {
    let counts = Counts { pending: 3, submitted: 7, ..Counts::default() };
    let batch = fixture.batch(SHARD, Vec::new()).await;
    let counts = vec![(main_queue(), counts)];
    let batch = ShardBatch { counts: counts.clone(), next_number: JobNumber(99), ..batch };
    fixture.send(vec![batch]).await.expect("committed");
    let recovered = fixture.recover().await;
    assert_eq!((recovered.counts, recovered.next_number), (counts, JobNumber(99)));
}

/// Put, handed out and done within one batch: the order of the facts is their order in it.
async fn changes_of_one_batch_apply_in_order(mut fixture: Fixture) {
    let (first, second) = (job(1), job(2));
    let changes = vec![
        put(&first),
        put(&second),
        leased([&first, &second], 1),
        finished(&first, finish(Outcome::Succeeded, at(10))),
    ];
    fixture.commit(changes).await;
    assert!(matches!(fixture.get(&first.name, later()).await, Some(StoredJob::Finished(_))));
    assert!(fixture.live(&second).await.lease.is_some(), "the second one runs");
    assert_eq!(fixture.due(&main_queue()).await, [0_u64; 0], "nothing waits");
}

async fn a_large_commit_is_there_whole(mut fixture: Fixture) {
    let jobs = jobs(1, 2_000);
    fixture.commit(put_all(&jobs)).await;
    let expected: Vec<u64> = (1..=2_000).collect();
    assert_eq!(fixture.due(&main_queue()).await, expected);
}

async fn a_commit_covers_several_shards(mut fixture: Fixture) {
    let (here, there) = (job(1), job(2));
    let batches = vec![
        fixture.batch(SHARD, vec![put(&here)]).await,
        fixture.batch(OTHER, vec![put(&there)]).await,
    ];
    fixture.send(batches).await.expect("committed");
    assert!(fixture.has(&here).await);
    let found = fixture.store().get(OTHER, vec![there.name], later()).await.expect("got");
    assert!(found[0].is_some(), "the other shard has its job");
}

async fn a_refused_batch_takes_the_others_with_it(mut fixture: Fixture) {
    fixture.commit(vec![put(&job(1))]).await;
    let good = fixture.batch(SHARD, vec![put(&job(2))]).await;
    let stale = fixture.batch(OTHER, vec![put(&job(3))]).await;
    fixture.acquire(OTHER).await;
    let before = fixture.snapshot(later()).await;
    for batches in [vec![good.clone(), stale.clone()], vec![stale, good]] {
        fixture.refused(batches, ErrorKind::Fenced).await;
        assert_eq!(fixture.snapshot(later()).await, before, "the good batch had an effect");
    }
}

async fn shards_do_not_mix(mut fixture: Fixture) {
    let here = named(1, name("main", None, "same"));
    let there = hence_core::job::Job { scheduled_for: at(77), ..here.clone() };
    fixture.commit_to(SHARD, vec![put(&here)]).await;
    fixture.commit_to(OTHER, vec![put(&there)]).await;
    let untouched = snapshot(&*fixture.store(), OTHER, later()).await;
    fixture.commit_to(SHARD, vec![finished(&here, finish(Outcome::Dead, at(5)))]).await;
    assert_eq!(snapshot(&*fixture.store(), OTHER, later()).await, untouched);
    assert_eq!(fixture.due(&main_queue()).await, [0_u64; 0]);
}
