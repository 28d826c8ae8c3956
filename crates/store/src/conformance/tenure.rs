//! S14: who keeps renewing keeps its shard, and who stops loses it, by the store's clock.

use hence_core::id::Epoch;
use hence_core::time::Millis;

use super::fixture::{Fixture, SHARD};
use super::table;
use crate::ErrorKind;

table! { "tenure":
    S14 sharing a_shard_that_is_kept_cannot_be_acquired;
    S14 sharing a_tenure_that_is_over_keeps_nobody_out;
    S14 sharing who_gives_up_keeps_nobody_out;
    S14 sharing who_lost_the_shard_cannot_renew;
    S14 sharing a_renewal_says_what_time_it_is;
}

const LONG: Millis = Millis::from_secs(3_600);
const SHORT: Millis = Millis::new(1);

/// Far more than fit into a short tenure.
const TRIES_MAX: usize = 100_000;

async fn renew(fixture: &Fixture, epoch: Epoch, tenure: Millis) -> i64 {
    let now = fixture.store().renew(SHARD, epoch, tenure).await.expect("renewed");
    now.expect("a shared store has a clock").as_millis()
}

async fn acquire(fixture: &Fixture) -> Result<Epoch, ErrorKind> {
    let acquired = fixture.store().acquire(SHARD, "node 2".to_owned()).await;
    acquired.map_err(|error| error.kind())
}

async fn a_shard_that_is_kept_cannot_be_acquired(mut fixture: Fixture) {
    let epoch = fixture.acquire(SHARD).await;
    renew(&fixture, epoch, LONG).await;
    assert_eq!(acquire(&fixture).await, Err(ErrorKind::Locked));
    fixture.commit(Vec::new()).await;
}

async fn a_tenure_that_is_over_keeps_nobody_out(mut fixture: Fixture) {
    let epoch = fixture.acquire(SHARD).await;
    renew(&fixture, epoch, SHORT).await;
    for _ in 0..TRIES_MAX {
        match acquire(&fixture).await {
            Err(ErrorKind::Locked) => {}
            answer => return assert!(answer.is_ok_and(|next| next > epoch), "{answer:?}"),
        }
    }
    panic!("a tenure of a millisecond does not end");
}

async fn who_gives_up_keeps_nobody_out(mut fixture: Fixture) {
    let epoch = fixture.acquire(SHARD).await;
    renew(&fixture, epoch, LONG).await;
    fixture.store().release(SHARD, epoch).await.expect("released");
    assert!(acquire(&fixture).await.is_ok_and(|next| next > epoch));
}

async fn who_lost_the_shard_cannot_renew(mut fixture: Fixture) {
    let old = fixture.acquire(SHARD).await;
    fixture.acquire(SHARD).await;
    let refused = fixture.store().renew(SHARD, old, LONG).await.map_err(|error| error.kind());
    assert_eq!(refused, Err(ErrorKind::Fenced));
}

async fn a_renewal_says_what_time_it_is(mut fixture: Fixture) {
    let epoch = fixture.acquire(SHARD).await;
    let (first, second) =
        (renew(&fixture, epoch, SHORT).await, renew(&fixture, epoch, SHORT).await);
    assert!(0 < first && first <= second, "{first}, then {second}");
}
